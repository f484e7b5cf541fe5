//! Text for terminals, the default of all commands.

use super::Format;
use crate::report::{Style, compare, published, terminal};

pub(super) static FORMAT: Format = Format {
    name: "text",
    alias: Some("table"),
    about: "tables for a terminal",
    extension: "txt",
    run: Some(|of, out| terminal::print(of.run, out, &Style { explain: true, ..of.style.clone() })),
    comparison: Some(|of, out| out.write_all(compare::table(of).as_bytes())),
    tables: Some(|of, out| out.write_all(published::text(of.reports, of.style).as_bytes())),
    ..Format::NONE
};
