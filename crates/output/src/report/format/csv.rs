//! Comma-separated values (RFC 4180) with a head line.

use super::{Format, RunWriter, TablesWriter};
use crate::measurement::Measurement;
use crate::report::published;
use crate::report::tidy::{self, Rows};

/// The format.
pub(super) struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "comma-separated rows: of a run one for each sample, of published tables one for each number"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn run(&self) -> Option<RunWriter> {
        Some(|of, out| tidy::csv(of.run, Rows::Samples, out))
    }

    fn leaves_out(&self, measurement: &Measurement) -> bool {
        measurement.metrics.iter().all(|metric| metric.samples.is_empty())
    }

    fn tools(&self) -> Option<RunWriter> {
        Some(|of, out| tidy::csv(of.run, Rows::Tools, out))
    }

    fn tables(&self) -> Option<TablesWriter> {
        Some(|of, out| published::csv(of.reports, out))
    }
}
