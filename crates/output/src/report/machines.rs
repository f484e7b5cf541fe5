//! Comparison of the nodes of a run: median, lowest and highest result per case.

use plimsoll_bench::label::label;
use plimsoll_model::limit::median;
use plimsoll_model::measurement::{Measurement, MetricResult};
use plimsoll_result::document::Run;
use plimsoll_units::quantity::Quantity;

use super::compare::signed;
use super::grouped;
use super::style::{Style, TextRole};
use super::wrap::{aligned, cut, widths};

const MAX_CASE_COLUMNS: usize = 28;
const MACHINE: usize = 24;

/// Formats per case the median of the nodes' results, lowest and highest node; empty for one node.
pub(super) fn section(run: &Run, style: &Style) -> String {
    if run.nodes.len() < 2 {
        return String::new();
    }
    let mut rows: Vec<[String; 4]> = vec![["", "median", "lowest", "highest"].map(str::to_owned)];
    let by_case = grouped(run.measurements.iter().map(|m| (m.case.id(), m)));
    rows.extend(by_case.iter().filter_map(|(_, all)| row(all)));
    if rows.len() < 2 {
        return String::new();
    }
    let mut widths = widths(&rows);
    let over = (1 + widths.iter().sum::<usize>() + 2 * 3).saturating_sub(style.width);
    widths[2] = widths[2].saturating_sub(over.div_ceil(2));
    let title = format!("Machines  {} measured the same", run.nodes.len());
    let mut text = format!("\n{}\n", style.paint(TextRole::Strong, &style.styled(&title)));
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| cut(cell, *width)).collect();
        let line = format!(" {}", aligned(&cells, &widths, |at| at == 1));
        let role = if index == 0 { TextRole::Dim } else { TextRole::Plain };
        text += &format!("{}\n", style.paint(role, &cut(style.styled(&line).trim_end(), style.width)));
    }
    text
}

fn row(all: &[&Measurement]) -> Option<[String; 4]> {
    let like = all.first()?;
    let alike = all.iter().filter(|m| m.repeat == like.repeat);
    let figure = |metric: &MetricResult| Quantity::new(metric.summary.median, metric.unit);
    let figures = alike.filter_map(|m| Some((m.node.as_str(), figure(m.headline()?))));
    let mut figures: Vec<(&str, Quantity)> = figures.collect();
    figures.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let [lowest, .., highest] = figures.as_slice() else { return None };
    let centre = median(figures.iter().map(|(_, figure)| figure.value).collect())?;
    let shown = Quantity { value: centre, ..lowest.1 }.to_string();
    let of = |(node, figure): &(&str, Quantity)| {
        let away = if centre > 0.0 { signed(figure.value / centre - 1.0) } else { String::new() };
        format!("{away:>7} {}", cut(&plimsoll_units::text::shown_within(node, 64), MACHINE))
    };
    Some([cut(&label(&like.case), MAX_CASE_COLUMNS), shown, of(lowest), of(highest)])
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn names_of_machines_give_way_where_there_is_no_room() {
        let one = fixture::run_of(vec![fixture::cpu("f64", 1, 117.4e9, 117.9e9)]);
        let names = ["node-0001.rack-12.example", "node-0002.rack-12.example", "node-0003.rack-12.example"];
        let mut run = fixture::on_nodes(&one, &names);
        for (own, median) in run.measurements.iter_mut().zip([100.0, 64.9, 259.0]) {
            own.metrics[0].summary.median = median;
        }
        let wide = section(&run, &Style::plain(120));
        assert!(wide.contains("  −35.1 % node-0002.rack-12.exampl"), "{wide}");
        let narrow = section(&run, &Style::plain(80));
        assert!(narrow.lines().all(|line| line.width() <= 80), "{narrow}");
        assert!(narrow.contains("  −35.1 % node-0002") && narrow.contains("   +159 % node-0003"), "{narrow}");
    }
}
