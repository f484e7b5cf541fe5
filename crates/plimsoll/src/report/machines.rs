//! How the machines of a run compare: for each case the median over all, and which is lowest and which highest.

use unicode_width::UnicodeWidthStr;

use super::label::label;
use super::style::{Role, Style};
use super::wrap::cut;
use crate::document::Run;
use crate::limit::median;
use crate::measurement::{Measurement, MetricResult, Status};
use crate::quantity::{Quantity, percent};

/// Columns for a case's name.
const NAME: usize = 28;

/// The section; empty for a run on one machine.
pub(super) fn section(run: &Run, style: &Style) -> String {
    if run.nodes.len() < 2 {
        return String::new();
    }
    let mut rows: Vec<[String; 5]> = vec![["", "median", "spread", "lowest", "highest"].map(str::to_owned)];
    let mut told: Vec<String> = Vec::new();
    for measurement in &run.measurements {
        let id = measurement.case.id().to_string();
        if !told.contains(&id) {
            rows.extend(row(run, measurement));
            told.push(id);
        }
    }
    let widest = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(widest);
    let title = format!("Machines  {} measured the same", run.nodes.len());
    let mut text = format!("\n{}\n", style.paint(Role::Strong, &style.say(&title)));
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let gap = " ".repeat(widths[column] - cell.width());
            line +=
                &if matches!(column, 1 | 2) { format!("  {gap}{cell}") } else { format!(" {cell}{gap} ") };
        }
        let role = if index == 0 { Role::Dim } else { Role::Plain };
        text += &format!("{}\n", style.paint(role, &cut(&style.say(line.trim_end()), style.width)));
    }
    text
}

fn headline(measurement: &Measurement) -> Option<&MetricResult> {
    (measurement.status == Status::Ok).then(|| measurement.metrics.first()).flatten()
}

/// A case over all machines that have a figure.
fn row(run: &Run, like: &Measurement) -> Option<[String; 5]> {
    let alike = run.measurements.iter().filter(|m| m.case == like.case && m.repeat == like.repeat);
    let figures: Vec<(&str, &MetricResult)> =
        alike.filter_map(|m| Some((m.node.as_str(), headline(m)?))).collect();
    // What was measured between machines is not of one of them.
    if figures.len() < 2 {
        return None;
    }
    let value = |metric: &MetricResult| metric.summary.median;
    let (lowest, highest) = (
        figures.iter().min_by(|a, b| value(a.1).total_cmp(&value(b.1)))?,
        figures.iter().max_by(|a, b| value(a.1).total_cmp(&value(b.1)))?,
    );
    let centre = median(figures.iter().map(|(_, metric)| value(metric)).collect())?;
    let unit = lowest.1.unit;
    let shown = |value: f64| Quantity { value, unit }.to_string();
    let of = |(node, metric): &(&str, &MetricResult)| {
        format!("{} {}", shown(value(metric)), cut(&crate::text::shown_within(node, 64), 20))
    };
    let spread =
        if centre > 0.0 { percent((value(highest.1) - value(lowest.1)) / centre, 2) } else { String::new() };
    Some([cut(&label(&like.case), NAME), shown(centre), spread, of(lowest), of(highest)])
}
