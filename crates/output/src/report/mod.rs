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
