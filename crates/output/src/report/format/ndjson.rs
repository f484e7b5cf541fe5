//! The rows of CSV as JSON objects, one a line.

use super::{Format, RunWriter};
use crate::measurement::Measurement;
use crate::report::tidy::{self, Rows};

/// The format.
pub(super) struct Ndjson;

impl Format for Ndjson {
    fn name(&self) -> &'static str {
        "ndjson"
    }

    fn about(&self) -> &'static str {
        "the rows of csv as JSON objects, one a line"
    }

    fn extension(&self) -> &'static str {
        "ndjson"
    }

    fn run(&self) -> Option<RunWriter> {
        Some(|of, out| tidy::ndjson(of.run, Rows::Samples, out))
    }

    fn leaves_out(&self, measurement: &Measurement) -> bool {
        measurement.metrics.iter().all(|metric| metric.samples.is_empty())
    }

    fn tools(&self) -> Option<RunWriter> {
        Some(|of, out| tidy::ndjson(of.run, Rows::Tools, out))
    }
}
