//! Comma-separated values (RFC 4180) with a header line; their rows as JSON objects, one per line.

use super::Format;
use crate::report::tidy::{objects, sample_columns, samples, table, tool_columns};
use crate::report::tool_results::compared;
use crate::report::{compare, published};

pub(super) static FORMAT: Format = Format {
    name: "csv",
    about: "comma-separated rows: one for each sample (of a run), for each pair of metric and run (of a comparison) or for each number (of published tables)",
    extension: "csv",
    run: Some(|of| Ok(table(&sample_columns(), samples(of.run)))),
    leaves_out: |measurement| measurement.metrics.iter().all(|metric| metric.samples.is_empty()),
    tools: Some(|of| Ok(table(&tool_columns(), compared(of.run)))),
    comparison: Some(|of| Ok(compare::csv::text(of.comparison))),
    tables: Some(|reports, _| Ok(published::csv(reports))),
    ..Format::NONE
};

pub(super) static NDJSON: Format = Format {
    name: "ndjson",
    about: "the rows of csv as JSON objects, one per line",
    extension: "ndjson",
    run: Some(|of| Ok(objects(&sample_columns(), samples(of.run)))),
    tools: Some(|of| Ok(objects(&tool_columns(), compared(of.run)))),
    comparison: None,
    tables: None,
    ..FORMAT
};
