//! Text for terminals, the default of all commands.

use super::Format;
use crate::report::{Style, compare, published, terminal};

pub(super) static FORMAT: Format = Format {
    name: "text",
    alias: Some("table"),
    about: "tables for a terminal",
    extension: "txt",
    run: Some(|of| Ok(terminal::text(of.run, &Style { explain: true, ..of.style.clone() }))),
    comparison: Some(|of| Ok(compare::table(of))),
    tables: Some(|reports, style| Ok(published::text(reports, style))),
    ..Format::NONE
};
