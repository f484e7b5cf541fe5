//! Tables of reference tools. Pure functions.

use std::path::PathBuf;

use plimsoll_bench::label::label;
use plimsoll_model::measurement::{Availability, Measurement, ToolResult};
use plimsoll_model::sample::Match;
use plimsoll_result::document::Run;
use plimsoll_stats::EquivalenceVerdict;
use plimsoll_units::quantity::{Quantity, percent, significant};
use unicode_width::UnicodeWidthStr;

use super::grouped;
use super::style::{Style, TextRole};
use super::tidy::{MetricItem, metric_items};
use super::wrap::{flowed, pad, paragraph, widths};

/// A reference tool in the list of `plimsoll references`.
#[derive(Debug)]
pub struct ListedTool {
    /// Name.
    pub name: &'static str,
    /// Benchmarks or properties that it verifies.
    pub checks: &'static str,
    /// Version, if it reports one.
    pub version: Option<String>,
    /// Path, or why it is not used.
    pub place: Result<PathBuf, String>,
    /// How to install it.
    pub get: String,
}

/// Formats the output of `plimsoll references`; `passed_over` has reasons for skipped programs.
pub fn listed(rows: &[ListedTool], passed_over: &[String], style: &Style) -> String {
    let head = ["tool", "version", "checks", "where, or how to get it"].map(str::to_owned).to_vec();
    let body = rows.iter().map(|row| {
        let place = match &row.place {
            Ok(path) => plimsoll_units::text::shown_path(path),
            Err(why) => format!("{why}: {}", row.get),
        };
        let version = match (&row.version, &row.place) {
            (Some(version), _) => version.clone(),
            (None, Ok(_)) => "unknown".to_owned(),
            (None, Err(_)) => "–".to_owned(),
        };
        vec![row.name.to_owned(), version, row.checks.to_owned(), place]
    });
    let rows: Vec<ToolRow> = std::iter::once(head).chain(body).map(|cells| (None, cells)).collect();
    let notes = passed_over.iter().map(|why| paragraph(style, TextRole::Warning, "passed over: ", why));
    columns(&rows, style) + &notes.collect::<String>()
}

/// A line above the cells in narrow terminals, and the cells.
type ToolRow = (Option<String>, Vec<String>);

pub(super) type ToolComparison<'a> = MetricItem<'a, &'a ToolResult>;

pub(super) fn compared(run: &Run) -> impl Iterator<Item = ToolComparison<'_>> {
    metric_items(run, |metric| &metric.tool_results)
}

/// All verdicts of a comparison with a reference tool, with their words.
pub(super) const VERDICTS: [(EquivalenceVerdict, &str); 4] = [
    (EquivalenceVerdict::Equivalent, "equivalent"),
    (EquivalenceVerdict::Higher, "higher"),
    (EquivalenceVerdict::Lower, "lower"),
    (EquivalenceVerdict::Inconclusive, "inconclusive"),
];

impl ToolComparison<'_> {
    /// Formats our result, the tool's, limit, both shares of it, ratio and verdict; `–` if unknown.
    fn figures(&self) -> [String; 7] {
        let tool_result = self.item;
        let known = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let figure =
            |value: Option<f64>| known(value.map(|value| Quantity::new(value, self.metric.unit).human(3)));
        let share = |share: Option<f64>| known(share.map(|share| percent(share, 3)));
        let ratio = tool_result.ratio.map(|ratio| {
            let interval = ratio.ci95.map(|ends| ends.map(|end| significant(end, 3)));
            let interval = interval.map(|[low, high]| format!(" [{low}, {high}]")).unwrap_or_default();
            significant(ratio.median, 3) + &interval
        });
        [
            figure(tool_result.own_median()),
            figure(tool_result.median),
            figure(self.metric.limit.as_ref().and_then(|limit| limit.value)),
            share(tool_result.own_of_limit),
            share(tool_result.of_limit),
            known(ratio),
            self.describe(),
        ]
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let names = [label(&self.measurement.case), self.item.tool.clone()];
        names.into_iter().chain(self.figures()).collect()
    }

    /// Returns the row for narrow terminals: case and tool on a line above, ratio with the verdict.
    fn narrow(&self) -> ToolRow {
        let above = format!("{} and {}", label(&self.measurement.case), self.item.tool);
        let [figures @ .., ratio, describe] = self.figures();
        (Some(above), [figures.as_slice(), &[format!("{ratio} {describe}")]].concat())
    }

    /// Formats the verdict, such as `equivalent (related only: NOTE)`, or `not available: REASON`.
    fn describe(&self) -> String {
        let tool_result = self.item;
        if let Some(reason) = &tool_result.reason {
            return format!("not available: {reason}");
        }
        let same = |(verdict, _): &&(EquivalenceVerdict, &str)| *verdict == tool_result.verdict;
        let word = VERDICTS.iter().find(same).map_or("", |(_, word)| word);
        let definition = match tool_result.definition {
            Match::Exact => String::new(),
            Match::Scaled => format!(" (scaled: {})", tool_result.note),
            Match::Related => format!(" (related only: {})", tool_result.note),
        };
        let differs = tool_result.warnings.iter().map(|warning| match warning.code.as_str() {
            FEW_PAIRS => format!("; {} pairs", tool_result.samples.len()),
            _ => format!("; {}", warning.text),
        });
        format!("{word}{definition}{}{}", self.other_ratio(), differs.collect::<String>())
    }

    /// Formats the ratio of both medians if it contradicts the shown median of ratios; else empty.
    fn other_ratio(&self) -> String {
        let medians = self.item.own_median().zip(self.item.median);
        match medians.zip(self.item.ratio) {
            Some(((own, tool), ratio)) if tool > 0.0 && !agree(own, tool, ratio.median) => {
                format!("; the two medians' ratio is {}", significant(own / tool, 3))
            }
            _ => String::new(),
        }
    }
}

/// Returns whether `ratio` is `own` ÷ `tool` within rounding to three digits, or one is not finite.
fn agree(own: f64, tool: f64, ratio: f64) -> bool {
    if ![own, tool, ratio].into_iter().all(f64::is_finite) {
        return true;
    }
    let written = |value: f64| {
        let half = 0.5 * 10f64.powf(value.abs().log10().floor() - 2.0);
        if !half.is_normal() {
            return [value, value];
        }
        let nearest = (value / (2.0 * half)).round() * 2.0 * half;
        [nearest - half, nearest + half]
    };
    let ([own_low, own_high], [tool_low, tool_high]) = (written(own), written(tool));
    let [low, high] = written(ratio);
    own_low / tool_high <= high && low <= own_high / tool_low
}

const FEW_PAIRS: &str = "few-pairs";

/// Formats the section "Reference tools" of a run's report; empty if no tool was requested.
pub(super) fn section(run: &Run, style: &Style) -> String {
    let lines: Vec<ToolComparison<'_>> = compared(run).collect();
    let Some(first) = lines.first() else { return String::new() };
    let title = style.paint(TextRole::Strong, "Reference tools");
    let margin = percent(first.item.margin, 2);
    let mut warnings = lines.iter().flat_map(|line| &line.item.warnings);
    let few = match warnings.any(|warning| warning.code == FEW_PAIRS) {
        true => "; fewer than 5 where the tools' time was used up: give --budget more room",
        false => "",
    };
    let about = format!("medians of pairs{few}; % is of the limit; {RATIO}; equivalent: within {margin}");
    let text = format!("\n{title}\n{}", paragraph(style, TextRole::Dim, "  ", &about));
    let (absent, there): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.item.status == Availability::Unavailable);
    text + &compared_rows(&there, style) + &unavailable(&absent, style)
}

pub(super) const RATIO: &str = "own ÷ tool is the median of the pairs' ratios [95 % CI]; the ratio of the two medians is shown where it differs";

pub(super) const COLUMN_TITLES: [&str; 9] =
    ["case", "tool", "own", "tool's", "limit", "own %", "tool's %", "own ÷ tool", "verdict"];

/// Formats the table of comparisons with reference tools, on narrow terminals two lines per row.
fn compared_rows(lines: &[&ToolComparison<'_>], style: &Style) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let head = |names: &[&str]| (None, names.iter().map(|name| (*name).to_owned()).collect());
    let mut rows = vec![head(&COLUMN_TITLES)];
    rows.extend(lines.iter().map(|line| (None, line.cells())));
    if COLUMN_GAP + laid_out(&rows, style).1.iter().map(|w| w + COLUMN_GAP).sum::<usize>() > style.width {
        rows = vec![head(&["own", "tool's", "limit", "own %", "tool's %", "own ÷ tool, verdict"])];
        rows.extend(lines.iter().map(|line| line.narrow()));
    }
    columns(&rows, style)
}

/// Formats a line per tool and reason, with the case or number of cases that have no tool result.
fn unavailable(lines: &[&ToolComparison<'_>], style: &Style) -> String {
    let one = |((tool, why), cases): ((&str, &str), Vec<&Measurement>)| {
        let what = match cases.as_slice() {
            [one] => label(&one.case),
            more => format!("{} cases", more.len()),
        };
        paragraph(style, TextRole::Plain, "  ", &format!("{tool} for {what} not available: {why}"))
    };
    let reasons = lines.iter().map(|ToolComparison { item, measurement, .. }| {
        ((item.tool.as_str(), item.reason.as_deref().unwrap_or("unknown")), *measurement)
    });
    grouped(reasons).into_iter().map(one).collect()
}

const COLUMN_GAP: usize = 2;

/// Returns the printable cells, and the width of each column except the last in terminal columns.
fn laid_out(rows: &[ToolRow], style: &Style) -> (Vec<Vec<String>>, Vec<usize>) {
    let printable = rows.iter().map(|(_, cells)| cells.iter().map(|cell| style.styled(cell)).collect());
    let printable: Vec<Vec<String>> = printable.collect();
    let mut widths = widths(&printable);
    widths.pop();
    (printable, widths)
}

/// Formats rows in columns. The last cell wraps in the remaining space, or gets its own line if
/// that is too narrow. Cells are indented if rows have a line above them.
fn columns(rows: &[ToolRow], style: &Style) -> String {
    const MIN_COLUMNS: usize = 24;
    let (describe, widths) = laid_out(rows, style);
    let indent = if rows.iter().any(|(above, _)| above.is_some()) { 2 * COLUMN_GAP } else { COLUMN_GAP };
    let before: usize = widths.iter().map(|w| w + COLUMN_GAP).sum();
    let room = style.width.saturating_sub(indent + before);
    let margin = indent + before - widths.last().map_or(0, |width| width + COLUMN_GAP);
    let narrow = style.width.saturating_sub(margin);
    let is_cut = indent + before > style.width + COLUMN_GAP && narrow >= MIN_COLUMNS;
    let mut out = String::new();
    for (index, ((above, _), cells)) in rows.iter().zip(&describe).enumerate() {
        let role = if index == 0 { TextRole::Dim } else { TextRole::Plain };
        if let Some(above) = above {
            out += &paragraph(style, role, "  ", above);
        }
        let mut line = " ".repeat(indent);
        for (cell, width) in cells.iter().zip(&widths) {
            let is_last = is_cut && line.width() >= margin;
            let mut lines = if is_last { flowed(cell, narrow) } else { vec![cell.clone()] }.into_iter();
            let first = lines.next().unwrap_or_default();
            line += &format!("{first}{}", pad(&first, if is_last { 0 } else { width + COLUMN_GAP }));
            lines.for_each(|more| line += &format!("\n{}{more}", " ".repeat(margin)));
        }
        let last = cells.get(widths.len()).map(String::as_str).unwrap_or_default();
        let below = indent + if room >= MIN_COLUMNS { before } else { COLUMN_GAP };
        let mut pieces = flowed(last, style.width.saturating_sub(below).max(1)).into_iter();
        if room >= MIN_COLUMNS {
            line += &pieces.next().unwrap_or_default();
        }
        out += &format!("{}\n", style.paint(role, line.trim_end()));
        out.extend(pieces.map(|piece| format!("{}{}\n", " ".repeat(below), style.paint(role, &piece))));
    }
    out
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    fn rows() -> Vec<ListedTool> {
        let tool = |name, checks, version: Option<&str>, place, get: &str| {
            let (version, get) = (version.map(str::to_owned), get.to_owned());
            ListedTool { name, checks, version, place, get }
        };
        let get = "build it from its site and name it by --reference-path";
        vec![
            tool("fio", "disk", Some("3.33"), Ok("/usr/bin/fio".into()), "apt-get install fio"),
            tool("stream", "memory copy, scale, add, triad", None, Err("not installed".to_owned()), get),
        ]
    }

    #[test]
    fn tools_are_listed_with_what_they_check_and_how_to_get_them() {
        let text =
            listed(&rows(), &["/opt/fio is not run: others may write /opt".to_owned()], &Style::plain(120));
        assert!(text.contains("  fio     3.33     disk"), "{text}");
        assert!(text.contains("not installed: build it"), "{text}");
        let mut wide = rows();
        wide[0].checks =
            "disk reads of the same file, writes to one like it, commits and whatever else there may be";
        for (rows, width) in [(wide, 80), (rows(), 60), (rows(), 80), (rows(), 120)] {
            let text = listed(&rows, &[], &Style::plain(width));
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
        }
    }

    #[test]
    fn the_table_is_whole_in_every_width_and_says_each_reason_once() {
        for width in [60, 80, 100, 160] {
            let text = section(&fixture::with_tools(), &Style::plain(width));
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
            for part in ["1.00 GB/s", "980 MB/s", "1.02 [", "equivalent\n"] {
                assert_eq!(text.matches(part).count(), 1, "{part} at {width}:\n{text}");
            }
            let absent = "iozone for 2 cases not available: not installed";
            assert_eq!(text.replace("\n  ", " ").matches(absent).count(), 1, "{text}");
        }
    }

    /// A run with one row, of these (our, its) values.
    fn paired(pairs: &[(f64, f64)]) -> Run {
        let mut run = fixture::with_tools();
        run.measurements.truncate(1);
        let tool_run = fixture::tool_run("fio", pairs);
        run.measurements[0].metrics[0].tool_results = vec![ToolResult::of(&tool_run, 0.03)];
        run
    }

    proptest::proptest! {
        #[test]
        fn no_row_contradicts_itself_without_a_word(
            pairs in proptest::collection::vec((1e-6f64..1e12, 0.3f64..3.0), 1..12),
        ) {
            let pairs: Vec<(f64, f64)> = pairs.into_iter().map(|(own, ratio)| (own, own / ratio)).collect();
            let run = paired(&pairs);
            let row = compared(&run).next().unwrap();
            let read = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
            let [_, _, _, _, _, ratio, describe] = row.figures();
            let (own, tool) = (row.item.own_median().unwrap(), row.item.median.unwrap());
            let contradicts = (own / tool / read(&ratio) - 1.0).abs() > 0.016;
            proptest::prop_assert!(!contradicts || describe.contains("the two medians' ratio is"), "{own} {tool} {ratio} {describe}");
            if let Some(named) = describe.split("ratio is ").nth(1) {
                let named = read(named.split(';').next().unwrap());
                proptest::prop_assert!((named / (own / tool) - 1.0).abs() < 0.006);
            }
        }
    }

    #[test]
    fn a_row_whose_pairs_differ_says_so() {
        let describe = |pairs: &[(f64, f64)]| compared(&paired(pairs)).next().unwrap().describe();
        let text = describe(&[(71.4, 66.1), (90.0, 83.3), (60.0, 70.5), (76.1, 70.5), (50.0, 78.0)]);
        assert!(text.contains("; the two medians' ratio is 1.01"), "{text}");
        assert!(!describe(&[(10.0, 9.8), (10.1, 9.9), (10.0, 9.8)]).contains("medians"));
    }

    #[test]
    fn no_figure_of_a_document_stops_the_table() {
        const POSITIVE: [f64; 7] = [0.0, 1.0, f64::INFINITY, 5e-324, 1e-308, f64::MIN_POSITIVE, f64::MAX];
        let odd = || POSITIVE.into_iter().flat_map(|value| [value, -value]).chain([f64::NAN]);
        let mut run = paired(&[(1.0, 1.0); 5]);
        for own in odd() {
            for tool in odd() {
                for ratio in odd() {
                    let _ = agree(own, tool, ratio);
                    let tool_result = &mut run.measurements[0].metrics[0].tool_results[0];
                    (tool_result.own, tool_result.median) = (vec![own], Some(tool));
                    tool_result.ratio = Some(plimsoll_stats::Ratio { median: ratio, ci95: Some([ratio; 2]) });
                    assert!(!section(&run, &Style::plain(100)).is_empty());
                }
            }
        }
        assert!(agree(0.0, 1e9, 0.0) && !agree(0.0, 1e9, 1.0));
        assert!(!agree(1e9, 1e9, 0.0) && agree(1e9, 1e9, 1.0));
    }
}
