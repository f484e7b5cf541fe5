//! Events of the run loop, consumed by the progress line, the result table, the store and tests.

use serde::Serialize;

use plimsoll_model::case::CaseId;
use plimsoll_model::measurement::Measurement;

/// An event of the run loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum RunEvent {
    /// The run starts.
    Started {
        /// Run id.
        run: String,
        /// Number of cases.
        cases: usize,
        /// Expected duration, in seconds.
        expected_s: f64,
    },
    /// A case is being set up.
    Preparing {
        /// Case id.
        case: CaseId,
        /// Position in the run, from 0.
        index: usize,
        /// Number of cases.
        cases: usize,
        /// Expected remaining time, in seconds.
        left_s: f64,
    },
    /// A sample is complete.
    Sampled {
        /// Case id.
        case: CaseId,
        /// Samples so far.
        n: usize,
        /// Value of the headline metric.
        value: f64,
    },
    /// A case is complete.
    Measured {
        /// The measurement, with the evidence available so far.
        measurement: Box<Measurement>,
    },
    /// A signal stopped the run; completed cases are kept.
    Interrupted,
}
