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
mod out;
mod pairs;
mod progress;
pub mod published;
mod style;
pub mod target;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod tidy;
pub mod tool_results;
pub mod trend;
pub mod watch;

pub use terminal::{card, kernels};
pub(crate) use terminal::{conditions, context, row, section, table, verdict, wrap};

pub use format::json;
pub use style::{Style, StyleOptions};

use progress::span;

/// Returns the main result of each subsystem with results: the last throughput of its first
/// benchmark (all CPUs, largest size), otherwise its last result.
fn main_results(
    run: &plimsoll_result::document::Run,
) -> Vec<(&str, &plimsoll_model::measurement::Measurement)> {
    let of = |subsystem: &str| -> Option<&plimsoll_model::measurement::Measurement> {
        let own =
            run.measurements.iter().filter(|m| m.case.subsystem() == subsystem && m.headline().is_some());
        let own: Vec<_> = own.collect();
        let first = own.first()?.case.benchmark();
        let mut same = own.iter().copied().filter(|m| m.case.benchmark() == first);
        let is_rate = |m: &&plimsoll_model::measurement::Measurement| {
            m.headline().is_some_and(|metric| metric.better == plimsoll_bench::Better::Higher)
        };
        same.clone().rfind(is_rate).or_else(|| same.next_back())
    };
    let known =
        subsystems(run).into_iter().filter(|name| plimsoll_bench::commands().any(|command| command == *name));
    known.filter_map(|name| Some((name, of(name)?))).collect()
}

/// Returns the subsystems of a run's cases (`cpu`, `memory`, …), each once, in order.
fn subsystems(run: &plimsoll_result::document::Run) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for measurement in &run.measurements {
        if !found.contains(&measurement.case.subsystem()) {
            found.push(measurement.case.subsystem());
        }
    }
    found
}
