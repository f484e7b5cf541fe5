//! Results between nodes: a grid per case, each pair as a share of the median.

use plimsoll_bench::Better;
use plimsoll_bench::label::label;
use plimsoll_model::case::ALL_PAIRS;
use plimsoll_model::limit::median;
use plimsoll_model::measurement::{Flow, Matrix, MetricResult};
use plimsoll_model::sample::Cell;
use plimsoll_result::document::{Node, Run};
use plimsoll_units::quantity::{Quantity, percent};
use plimsoll_units::text::shown_within;
use unicode_width::UnicodeWidthStr;

use super::style::{Style, TextRole};
use super::wrap::{cut, left, right};

const MAX_MACHINE_COLUMNS: usize = 12;
const FIGURE: usize = 6;
const LISTED: usize = 8;

/// Formats a grid of clients × servers per case measured between all nodes; empty if there is none.
pub(super) fn section(run: &Run, style: &Style) -> String {
    let name = |node: &Node| cut(&style.styled(&shown_within(&node.name, 64)), MAX_MACHINE_COLUMNS);
    let names: Vec<String> = run.nodes.iter().map(name).collect();
    let meant = run.measurements.iter().filter(|m| m.case.server() == Some(ALL_PAIRS));
    let mut text = String::new();
    for (case, metric) in meant.filter_map(|m| Some((&m.case, m.metrics.first()?))) {
        let Some(matrix) = &metric.matrix else { continue };
        let values: Vec<f64> = matrix.measured().map(|pair| pair.value).collect();
        let Some(middle) = median(values.clone()).filter(|middle| *middle > 0.0) else { continue };
        let shown = Quantity { value: middle, unit: metric.unit };
        let title = format!("{}, {}", label(case), metric.name);
        text += &format!("\n{}\n", style.paint(TextRole::Strong, &cut(&style.styled(&title), style.width)));
        let direction = Flow::of(case, metric.better == Better::Higher).orientation();
        let count = format!(" {}; {direction}", counted(matrix));
        for note in [count, format!(" each as a share of their median, {shown}")] {
            text += &format!("{}\n", style.paint(TextRole::Dim, &cut(&style.styled(&note), style.width)));
        }
        let pairs = PairTable { names: &names, metric, matrix, middle };
        text += &pairs.grid(style).unwrap_or_else(|| pairs.list(style));
    }
    text
}

/// Formats the number of node pairs: `6 pairs in both directions`, or `… in one direction`.
fn counted(matrix: &Matrix) -> String {
    let (places, count) = matrix.counted();
    let pairs = plimsoll_units::text::format_count(count, "pair");
    match places {
        _ if places == 2 * count => format!("{pairs} in both directions"),
        _ if places == count => format!("{pairs} in one direction"),
        _ => format!("{pairs}, {places} directions of them"),
    }
}

struct PairTable<'a> {
    names: &'a [String],
    metric: &'a MetricResult,
    matrix: &'a Matrix,
    middle: f64,
}

impl PairTable<'_> {
    fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("?", String::as_str)
    }

    /// Formats a grid of clients (rows) × servers (columns) with each result as a share of the
    /// median; `None` if it is wider than the terminal.
    fn grid(&self, style: &Style) -> Option<String> {
        let named = |numbers: &[u32]| numbers.iter().map(|n| self.name(*n).width()).max().unwrap_or(0);
        let (first, column) = (named(&self.matrix.rows), named(&self.matrix.columns).max(FIGURE) + 1);
        if 2 + first + column * self.matrix.columns.len() > style.width {
            return None;
        }
        let head: String = self.matrix.columns.iter().map(|n| right(self.name(*n), column)).collect();
        let head = format!("  {}{head}", " ".repeat(first));
        let mut text = format!("{}\n", style.paint(TextRole::Dim, &head));
        for (row, values) in self.matrix.rows.iter().zip(&self.matrix.values) {
            let cell = |value: &Option<f64>| {
                let shown = value.map(|value| percent(value / self.middle, 2)).unwrap_or_default();
                right(&style.styled(&shown), column)
            };
            let line =
                format!("  {}{}", left(self.name(*row), first), values.iter().map(cell).collect::<String>());
            text += &format!("{}\n", line.trim_end());
        }
        Some(text)
    }

    fn list(&self, style: &Style) -> String {
        let mut all: Vec<_> = self.matrix.measured().collect();
        let away = |value: f64| (value / self.middle).ln().abs();
        all.sort_by(|a, b| away(b.value).total_cmp(&away(a.value)));
        let line = |pair: &Cell| {
            let figure = Quantity { value: pair.value, unit: self.metric.unit };
            let share = percent(pair.value / self.middle, 2);
            let line = format!("  {} to {}: {share}, {figure}", self.name(pair.row), self.name(pair.column));
            format!("{}\n", cut(&style.styled(&line), style.width))
        };
        all.iter().take(LISTED).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::sample::Sample;
    use plimsoll_result::fixture;

    use super::*;

    fn run(machines: u32, both: bool) -> Run {
        let mut run = fixture::run();
        let node = run.nodes[0].clone();
        let named = |n| Node { name: format!("n{}", n + 1), machine: node.machine.clone() };
        run.nodes = (0..machines).map(named).collect();
        let first = |row: u32| if both { 0 } else { row + 1 };
        let pairs = (0..machines).flat_map(|row| (first(row)..machines).map(move |column| (row, column)));
        let pairs = pairs.filter(|(row, column)| row != column);
        let value = |row, column| if (row, column) == (1, 2) { 5.0 } else { 100.0 };
        let cell = |(row, column)| Cell { row, column, value: value(row, column), mark: None };
        let sample = Sample { matrix: pairs.map(cell).collect(), ..Sample::default() };
        run.measurements.truncate(1);
        let only = &mut run.measurements[0];
        only.case = "network.tcp/message=128K/streams=1/direction=up/server=nodes".parse().unwrap();
        only.metrics[0].matrix = Matrix::of(&[sample]);
        run
    }

    #[test]
    fn a_few_machines_are_a_grid_of_one_direction_or_both() {
        let grid = |both| section(&run(4, both), &Style::plain(80));
        insta::assert_snapshot!("a_few_machines_are_a_grid_in_which_the_slow_pair_stands_out", grid(false));
        insta::assert_snapshot!("both_directions_stand_in_the_grid", grid(true));
    }

    #[test]
    fn of_many_the_furthest_pairs_are_listed() {
        let text = section(&run(16, false), &Style::plain(80));
        assert!(text.contains("\n  n2 to n3: 5.0 %, ") && text.lines().count() == 4 + LISTED, "{text}");
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        assert_eq!(section(&fixture::run(), &Style::plain(80)), "");
    }
}
