//! Whether a machine held still while a command ran: `plimsoll steady`. Judges a series of observed
//! intervals by the time that the command lost, and compares the machine with that of a baseline.
#![forbid(unsafe_code)]

mod document;
mod fingerprint;
mod judge;
mod level;
mod results;
mod span;
mod watch;

pub use document::{ExitStatusShown, Observation, ObservedRun, STEADY_SCHEMA, SteadyDocument};
pub use fingerprint::{FactDifference, Fingerprint};
pub use judge::{SteadyAnswer, SteadyVerdict, judge, summary};
pub use level::{LevelLoss, ProbeLevel};
pub use results::{MarkedFile, MarkedResult, ResultMarker};
pub use span::{Disturbance, DisturbedSpan};
pub use watch::{CommandInterval, CommandWatch, OtherProcess};

#[cfg(test)]
mod tests;
