//! `plimsoll history`: one line per stored run, the latest first.

use plimsoll_bench::label;
use plimsoll_history::{OpenRegression, Pruned, RunRemarks, RunSummary, past_dash, unique_length};
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_units::quantity::percent;
use plimsoll_units::text::format_count;
use unicode_width::UnicodeWidthStr;

use super::compare::signed;
use super::joined;
use super::progress::span;
use super::style::{Style, TextRole};
use super::terminal::when;
use super::wrap::{cut, paragraph, widths};

/// Least characters of an id shown; runs within one minute share these.
const LEAST_ID: usize = 8;

const WHEN: usize = 16;

/// Formats a heading and a line per run.
pub fn text(lines: &[RunSummary], style: &Style) -> String {
    if lines.is_empty() {
        return "no runs yet; 'plimsoll run' makes one\n".to_owned();
    }
    let length = short(lines);
    let mut rows = vec![["run", "began", "took", "plan", "cases", "host"].map(str::to_owned)];
    rows.extend(lines.iter().map(|line| cells(line, length, style)));
    let widths = widths(&rows);
    let mut text = row(&rows[0], &widths, style, |_| TextRole::Dim);
    for (cells, line) in rows[1..].iter().zip(lines) {
        text += &row(cells, &widths, style, |column| role(column, line));
        text += &remarks(&line.remarks, "  ", style);
    }
    text
}

/// Formats tags and note of a run as a paragraph that starts with `lead`; empty without any.
pub fn remarks(remarks: &RunRemarks, lead: &str, style: &Style) -> String {
    remarks.line().map(|text| paragraph(style, TextRole::Dim, lead, &text)).unwrap_or_default()
}

/// Formats the result of a deletion: `3 runs deleted, 1 kept for a tag` (because it has a tag).
pub fn pruned(of: Pruned) -> String {
    let kept = if of.kept > 0 { format!(", {} kept for a tag", of.kept) } else { String::new() };
    format!("{} deleted{kept}\n", format_count(of.deleted, "run"))
}

/// Formats the message that baselines (earlier runs that later ones are compared with) of the plan
/// of `first` now begin with this run, since the user accepted its results.
pub fn accepted(first: &Run, style: &Style) -> String {
    let (plan, began) = (plimsoll_units::text::shown(&first.plan.name), when(&first.started, style));
    let text = format!("baselines of plan {plan} begin with run {}, {began}", short_id(&first.id));
    paragraph(style, TextRole::Plain, "", &text)
}

/// Returns a message on the first of the regressions `open`, which lasted and were not accepted:
/// runs since then are in no baseline. Counts the rest. Returns `None` if `open` is empty.
pub fn open_losses(open: &[OpenRegression]) -> Option<String> {
    let first = open.first()?;
    let more = open.len() - 1;
    let more = if more > 0 { format!(" (and {} more)", format_count(more, "metric")) } else { String::new() };
    let (began, run) = (when(&first.started, &Style::plain(80)), short_id(&first.since));
    let (name, change) = (figure_name(first), signed(first.change));
    Some(format!(
        "runs since {began} (run {run}) are left out, because {name} has changed by {change} since then{more}; if that is wanted, accept it with plimsoll history accept last"
    ))
}

/// Formats a lasting regression for `--fail-on`: case, metric, loss in percent, first run with it.
pub fn still_lost(loss: &OpenRegression) -> String {
    let (name, change) = (figure_name(loss), percent(loss.change.abs(), 3));
    format!("{name}: regression of {change} since run {}, which was not accepted", short_id(&loss.since))
}

fn figure_name(loss: &OpenRegression) -> String {
    format!("{}, {}", label::full(&loss.case), loss.metric)
}

/// Returns the first 13 characters of a run id (UUIDv7): its start time to the millisecond.
pub(super) fn short_id(id: &str) -> String {
    id.chars().take(13).collect()
}

/// Returns how many leading characters, at least 8, distinguish the ids of all listed runs.
fn short(lines: &[RunSummary]) -> usize {
    let mut ids: Vec<&str> = lines.iter().map(|line| line.id.as_str()).collect();
    ids.sort_unstable();
    let longest = ids.windows(2).map(|pair| unique_length(pair[0], pair[1])).max().unwrap_or(0);
    past_dash(longest.max(LEAST_ID))
}

fn cells(line: &RunSummary, length: usize, style: &Style) -> [String; 6] {
    let began = cut(&when(&line.started, style), WHEN);
    let id: String = line.id.chars().take(length).collect();
    let host = line.host.as_deref().unwrap_or("-");
    let took = if line.elapsed_s > 0.0 { span(line.elapsed_s) } else { "-".to_owned() };
    let partial = if line.status == RunStatus::Partial { "partial" } else { "" };
    let cases = joined(&[partial, &line.counts.lines().join(" · ")], ": ");
    [id, began, took, line.plan.clone(), cases, host.to_owned()].map(|cell| style.styled(&cell))
}

fn role(column: usize, line: &RunSummary) -> TextRole {
    match column {
        0 => TextRole::Strong,
        1 | 2 => TextRole::Dim,
        4 if line.counts.failed + line.counts.invalid > 0 => TextRole::Bad,
        4 if line.status == RunStatus::Partial => TextRole::Warning,
        _ => TextRole::Plain,
    }
}

fn row(cells: &[String; 6], widths: &[usize], style: &Style, role: impl Fn(usize) -> TextRole) -> String {
    let mut line = String::new();
    let mut room = style.width;
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let gap = if column == 0 { 0 } else { 2 };
        if room <= gap {
            break;
        }
        room -= gap;
        let shown = cut(cell, room);
        let pad = width.saturating_sub(shown.width()).min(room - shown.width());
        room -= shown.width() + pad;
        line += &format!("{:gap$}{}{:pad$}", "", style.paint(role(column), &shown), "");
    }
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use plimsoll_history::CaseCounts;
    use proptest::prelude::*;

    use super::*;
    use crate::report::html::site::tests::entry;

    fn line(id: &str, plan: &str, host: Option<&str>) -> RunSummary {
        let (id, plan, host) = (id.to_owned(), plan.to_owned(), host.map(str::to_owned));
        let (started, elapsed_s) = ("2026-11-21T08:19:04.123Z".to_owned(), 47.3);
        let counts = CaseCounts { ok: 13, skipped: 1, ..CaseCounts::default() };
        RunSummary { id, started, elapsed_s, plan, host, counts, remarks: RunRemarks::default(), ..entry(0) }
    }

    fn lines() -> Vec<RunSummary> {
        let mut lines = vec![
            line("019aa5c3-2f1b-7c40-9d21-5b0c3f6a7e88", "quick", Some("bench-1")),
            line("019aa5c3-2e00-7c40-9d21-5b0c3f6a7e88", "my nightly plan", Some("bench-1")),
            line("019aa400-0000-7c40-9d21-5b0c3f6a7e88", "disk", None),
        ];
        lines[1].counts = CaseCounts { ok: 3, invalid: 1, failed: 1, skipped: 0 };
        lines[2].status = RunStatus::Partial;
        lines[2].elapsed_s = 0.0;
        lines[2].counts = CaseCounts { ok: 2, ..CaseCounts::default() };
        lines
    }

    #[test]
    fn the_list_at_80_columns() {
        insta::assert_snapshot!(text(&lines(), &Style::plain(80)));
        assert_eq!(text(&[], &Style::plain(80)), "no runs yet; 'plimsoll run' makes one\n");
    }

    #[test]
    fn shown_ids_tell_the_runs_apart() {
        let of = |ids: &[&str]| short(&ids.iter().map(|id| line(id, "quick", None)).collect::<Vec<_>>());
        assert_eq!(of(&["019aa5c3-2f1b"]), 8);
        assert_eq!(of(&["019aa5c3-2f1b", "019aa5c3-3f1b"]), 10);
        assert_eq!(of(&["019aa5c3-2f1b", "019aa5c3-2f1c"]), 13);
        assert_eq!(of(&["019aa5c3-2f1b-7c40", "019aa5c3-2f1b-7d40"]), 16);
    }

    proptest! {
        #[test]
        fn any_names_at_any_width_stay_in_their_line(
            plan in "\\p{Any}{0,80}", host in "\\p{Any}{0,80}", started in "\\p{Any}{0,40}", width in 1usize..200,
        ) {
            let mut lines = lines();
            (lines[0].plan, lines[0].host, lines[1].started) = (plan, Some(host), started);
            for unicode in [true, false] {
                let style = Style { unicode, ..Style::plain(width) };
                let text = text(&lines, &style);
                prop_assert_eq!(text.lines().count(), 4);
                prop_assert!(text.lines().all(|l| l.width() <= width && !l.chars().any(char::is_control)));
            }
        }
    }
}
