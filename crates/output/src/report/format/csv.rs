//! Comma-separated values (RFC 4180) with a header line.

use super::Format;
use crate::report::tidy::{self, Rows};
use crate::report::{compare, published};

pub(super) static FORMAT: Format = Format {
    name: "csv",
    about: "comma-separated rows: of a run one for each sample, of a comparison one for each side of a metric, of published tables one for each number",
    extension: "csv",
    run: Some(|of, out| tidy::csv(of.run, Rows::Samples, out)),
    leaves_out: |measurement| measurement.metrics.iter().all(|metric| metric.samples.is_empty()),
    tools: Some(|of, out| tidy::csv(of.run, Rows::Tools, out)),
    comparison: Some(|of, out| compare::csv::write(of.comparison, out)),
    tables: Some(|of, out| published::csv(of.reports, out)),
    ..Format::NONE
};
