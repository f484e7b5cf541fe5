//! `plimsoll watch --status`.

use plimsoll_result::document::Run;
use plimsoll_units::text::{format_count, shown, shown_within};
use plimsoll_watch::{JournalContent, format_duration};

use super::style::{Style, TextRole};
use super::wrap::paragraph;

/// Formats the state of a watch with journal `kept` after `elapsed` seconds; `runs`: whether its
/// process runs now. The findings are those of `run`.
pub fn status(kept: &JournalContent, run: &Run, runs: bool, elapsed: f64, style: &Style) -> String {
    let begun = &kept.begun;
    let left = begun.seconds - elapsed;
    let state = match (runs, kept.sessions.last()) {
        (true, Some(session)) => format!("running, process {}", session.pid),
        _ if left <= 0.0 => "over; its result is made by plimsoll watch --stop".to_owned(),
        _ => "stopped; go on with plimsoll watch --resume, or end it with plimsoll watch --stop".to_owned(),
    };
    let mut text = format!(
        "watch {} on {}: {state}\nbegan {}, {} of {} are over, {}\n",
        shown_within(&run.id, 13),
        shown(run.nodes.first().map_or("this machine", |node| &node.name)),
        shown(&begun.run.started),
        format_duration(elapsed.min(begun.seconds)),
        format_duration(begun.seconds),
        format_count(kept.probes.len(), "probe"),
    );
    text.extend(run.findings.iter().map(|one| paragraph(style, TextRole::Plain, "- ", &shown(&one.text))));
    text
}
