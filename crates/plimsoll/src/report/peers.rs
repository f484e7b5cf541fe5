//! The table of reference tools, and the table that people want: ours, theirs, the limit, both shares, the ratio.
//! Pure: rows in, text out.

use std::path::PathBuf;

use unicode_width::UnicodeWidthStr;

use super::label::label;
use super::style::{Role, Style};
use super::wrap::flowed;
use crate::document::Run;
use crate::measurement::{Availability, Measurement, MetricResult, PeerResult};
use crate::quantity::{Quantity, percent, significant};
use crate::sample::Match;
use crate::stats::Verdict;

/// A tool, as `plimsoll peers` lists it.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// What it checks.
    pub checks: &'static str,
    /// Its version, if it says.
    pub version: Option<String>,
    /// Where it is, or why it is not used.
    pub place: Result<PathBuf, String>,
    /// How to get it.
    pub get: String,
}

/// The text of `plimsoll peers`.
pub fn listed(rows: &[Listed], style: &Style) -> String {
    let head = ["tool", "version", "checks", "where, or how to get it"].map(str::to_owned).to_vec();
    let body = rows.iter().map(|row| {
        let place = match &row.place {
            Ok(path) => crate::text::shown_bytes(path.as_os_str().as_encoded_bytes()),
            Err(why) => format!("{why}: {}", row.get),
        };
        let version = match (&row.version, &row.place) {
            (Some(version), _) => version.clone(),
            (None, Ok(_)) => "unknown".to_owned(),
            (None, Err(_)) => "–".to_owned(),
        };
        vec![row.name.to_owned(), version, row.checks.to_owned(), place]
    });
    columns(&std::iter::once(head).chain(body).collect::<Vec<_>>(), style)
}

/// One line of the table: a metric beside one tool.
struct Compared<'a> {
    measurement: &'a Measurement,
    metric: &'a MetricResult,
    peer: &'a PeerResult,
}

fn compared(run: &Run) -> impl Iterator<Item = Compared<'_>> {
    run.measurements.iter().flat_map(|measurement| {
        let metrics = measurement.metrics.iter();
        metrics.flat_map(move |metric| {
            metric.peers.iter().map(move |peer| Compared { measurement, metric, peer })
        })
    })
}

impl Compared<'_> {
    fn cells(&self) -> Vec<String> {
        let figure = |value: f64| Quantity::new(value, self.metric.unit).human(3);
        let limit = self.metric.limit.as_ref().and_then(|limit| limit.value);
        let own = crate::limit::median(self.peer.own.clone());
        let share = |share: Option<f64>| share.map_or("–".to_owned(), |share| percent(share, 3));
        let ratio = match self.peer.ratio {
            None => "–".to_owned(),
            Some(ratio) => match ratio.ci95 {
                Some([low, high]) => format!(
                    "{} [{}, {}]",
                    significant(ratio.median, 3),
                    significant(low, 3),
                    significant(high, 3)
                ),
                None => significant(ratio.median, 3),
            },
        };
        vec![
            label(&self.measurement.case),
            self.peer.peer.clone(),
            own.map_or("–".to_owned(), figure),
            self.peer.median.map_or("–".to_owned(), figure),
            limit.map_or("–".to_owned(), figure),
            share(self.peer.own_of_limit),
            share(self.peer.of_limit),
            ratio,
            self.said(),
        ]
    }

    /// The verdict in words, or why there is none.
    fn said(&self) -> String {
        let peer = self.peer;
        if peer.status == Availability::Unavailable {
            return format!("not available: {}", peer.reason.as_deref().unwrap_or("unknown"));
        }
        let word = match peer.verdict {
            Verdict::Equivalent => "equivalent",
            Verdict::Higher => "higher",
            Verdict::Lower => "lower",
            Verdict::Undecided => "undecided",
        };
        let definition = match peer.definition {
            Match::Exact => String::new(),
            Match::Scaled => format!(" (scaled: {})", peer.note),
            Match::Related => format!(" (related only: {})", peer.note),
        };
        let differs: Vec<&str> = peer.warnings.iter().map(|w| w.text.as_str()).collect();
        let differs = if differs.is_empty() { String::new() } else { format!("; {}", differs.join("; ")) };
        format!("{word}{definition}{differs}")
    }
}

/// The section of a run's report; empty where no tool was asked for.
pub(super) fn section(run: &Run, style: &Style) -> String {
    let lines: Vec<Compared<'_>> = compared(run).collect();
    let Some(first) = lines.first() else { return String::new() };
    let head = ["case", "tool", "own", "tool's", "limit", "own of it", "tool's", "own ÷ tool", "verdict"];
    let head = head.map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(lines.iter().map(Compared::cells)).collect();
    let title = style.paint(Role::Strong, "Reference tools");
    let margin = percent(first.peer.margin, 2);
    let about = format!("medians of pairs; 95 % interval of the ratio; equivalent: within {margin}");
    format!("\n{title}  {}\n{}", style.paint(Role::Dim, &style.say(&about)), columns(&rows, style))
}

/// Columns as wide as their longest cell; the last one takes the rest and goes on below itself. Where that leaves it
/// too little room, it stands on a line of its own.
fn columns(rows: &[Vec<String>], style: &Style) -> String {
    const GAP: usize = 2;
    const LEAST: usize = 24;
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| style.say(cell)).collect()).collect();
    let fixed = rows.iter().map(Vec::len).max().unwrap_or(1).saturating_sub(1);
    let width = |i: usize| rows.iter().filter_map(|row| row.get(i)).map(|c| c.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..fixed).map(width).collect();
    let before: usize = widths.iter().map(|w| w + GAP).sum();
    let room = style.width.saturating_sub(GAP + before);
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        let mut line = " ".repeat(GAP);
        for (cell, width) in row.iter().zip(&widths) {
            line += cell;
            line += &" ".repeat(width + GAP - cell.width().min(*width));
        }
        let last = row.get(fixed).map(String::as_str).unwrap_or_default();
        let (indent, pieces) = match room >= LEAST {
            true => (GAP + before, flowed(last, room)),
            false => (2 * GAP, flowed(last, style.width.saturating_sub(2 * GAP).max(1))),
        };
        let mut pieces = pieces.into_iter();
        if room >= LEAST {
            line += &pieces.next().unwrap_or_default();
        }
        let role = if index == 0 { Role::Dim } else { Role::Plain };
        out += &format!("{}\n", style.paint(role, line.trim_end()));
        for piece in pieces {
            out += &format!("{}{}\n", " ".repeat(indent), style.paint(role, &piece));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Listed> {
        vec![
            Listed {
                name: "fio",
                checks: "disk",
                version: Some("3.33".to_owned()),
                place: Ok("/usr/bin/fio".into()),
                get: "apt-get install fio".to_owned(),
            },
            Listed {
                name: "stream",
                checks: "memory copy, scale, add, triad",
                version: None,
                place: Err("not installed".to_owned()),
                get: "build it from its site and name it by --peer-path".to_owned(),
            },
        ]
    }

    #[test]
    fn tools_are_listed_with_what_they_check_and_how_to_get_them() {
        let text = listed(&rows(), &Style::plain(120));
        assert!(text.contains("  fio     3.33     disk"), "{text}");
        assert!(text.contains("not installed: build it"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_where_words_allow_it() {
        for width in [60, 80, 120] {
            let text = listed(&rows(), &Style::plain(width));
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
        }
    }
}
