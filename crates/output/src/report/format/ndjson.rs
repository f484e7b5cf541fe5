//! The CSV rows as JSON objects, one per line.

use super::Format;
use crate::report::tidy::{objects, sample_columns, samples, tool_columns, tools};

pub(super) static FORMAT: Format = Format {
    name: "ndjson",
    about: "the rows of csv as JSON objects, one per line",
    extension: "ndjson",
    run: Some(|of| Ok(objects(&sample_columns(), samples(of.run)))),
    tools: Some(|of| Ok(objects(&tool_columns(), tools(of.run)))),
    comparison: None,
    tables: None,
    ..super::csv::FORMAT
};
