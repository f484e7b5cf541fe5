//! Presentation of runs and other results; `format` lists the export formats.

pub mod check;
pub mod compare;
pub mod doctor;
mod escape;
pub mod format;
pub mod gate;
pub mod history;
pub mod html;
pub mod machine;
mod machines;
mod pairs;
mod progress;
pub mod published;
mod style;
pub mod target;
pub mod terminal;
#[cfg(test)]
mod tests;
mod tidy;
pub mod tool_results;
pub mod trend;
pub mod watch;

pub use terminal::{card, kernels};
pub(crate) use terminal::{conditions, context, row, section, table, verdict, wrap};

pub use format::json;
pub use style::{Style, StyleOptions};

use plimsoll_bench::Better;
use plimsoll_model::measurement::Measurement;
use plimsoll_result::document::Run;
use plimsoll_units::group::grouped;
use plimsoll_units::text::and_more;
use progress::span;

/// Returns the main result of each subsystem with results: the last throughput of its first
/// benchmark (all CPUs, largest size), otherwise its last result.
fn main_results(run: &Run) -> Vec<(&str, &Measurement)> {
    let of = |subsystem: &str| -> Option<&Measurement> {
        let own =
            || run.measurements.iter().filter(|m| m.case.subsystem() == subsystem && m.headline().is_some());
        let first = own().next()?.case.benchmark();
        let mut same = own().filter(|m| m.case.benchmark() == first);
        let is_rate = |m: &&Measurement| m.headline().is_some_and(|metric| metric.better == Better::Higher);
        same.clone().rfind(is_rate).or_else(|| same.next_back())
    };
    commands(run).filter_map(|name| Some((name, of(name)?))).collect()
}

/// Yields the subsystems of a run's cases that have a command, such as `plimsoll cpu`.
fn commands(run: &Run) -> impl Iterator<Item = &str> {
    subsystems(run).into_iter().filter(|name| plimsoll_bench::commands().any(|command| command == *name))
}

/// Returns the subsystems of a run's cases (`cpu`, `memory`, …), each once, in order.
fn subsystems(run: &Run) -> Vec<&str> {
    distinct(run.measurements.iter().map(|m| m.case.subsystem()))
}

/// Returns each value once, in the order of their first occurrences.
fn distinct<T: Clone + Eq + std::hash::Hash>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    grouped(all.into_iter().map(|one| (one, ()))).into_iter().map(|(one, _)| one).collect()
}

/// Joins texts with `between` as separator; `None` without any.
fn listed<T: ToString>(texts: impl IntoIterator<Item = T>, between: &str) -> Option<String> {
    let texts: Vec<String> = texts.into_iter().map(|text| text.to_string()).collect();
    (!texts.is_empty()).then(|| texts.join(between))
}

/// Joins the words that are not empty, with `between` as separator.
fn joined(words: &[&str], between: &str) -> String {
    words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(between)
}
