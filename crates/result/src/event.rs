//! Events: the one way out of the run loop. Progress line, result table, store and tests consume them.

use serde::Serialize;

use plimsoll_model::case::CaseId;
use plimsoll_model::measurement::Measurement;

/// Something that happened in the run loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The run begins.
    Started {
        /// Id of the run.
        run: String,
        /// Number of cases.
        cases: usize,
        /// Seconds that the run is expected to take.
        expected_s: f64,
    },
    /// A case is being set up.
    Preparing {
        /// The case.
        case: CaseId,
        /// Its place in the run, from 0.
        index: usize,
        /// Number of cases.
        cases: usize,
        /// Seconds that are expected to be left.
        left_s: f64,
    },
    /// A sample is finished.
    Sampled {
        /// The case.
        case: CaseId,
        /// Samples so far.
        n: usize,
        /// Value of the headline metric.
        value: f64,
    },
    /// A case is finished.
    Measured {
        /// Its measurement, with the evidence there is by now.
        measurement: Box<Measurement>,
    },
    /// Ctrl-C or a signal: what is finished is kept.
    Interrupted,
}
