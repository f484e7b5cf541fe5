//! The CSV rows as JSON objects, one per line.

use super::Format;
use crate::report::tidy::{self, Rows};

pub(super) static FORMAT: Format = Format {
    name: "ndjson",
    about: "the rows of csv as JSON objects, one per line",
    extension: "ndjson",
    run: Some(|of, out| tidy::ndjson(of.run, Rows::Samples, out)),
    tools: Some(|of, out| tidy::ndjson(of.run, Rows::Tools, out)),
    comparison: None,
    tables: None,
    ..super::csv::FORMAT
};
