//! Text for terminals, the default of all commands.

use std::io::{self, Write};

use super::{Format, OneRun, Replayed, Sides};
use crate::report::{Style, compare, published, terminal};

pub(super) static FORMAT: Format = Format {
    name: "text",
    alias: Some("table"),
    about: "tables for a terminal",
    extension: "txt",
    run: Some(run),
    comparison: Some(comparison),
    tables: Some(tables),
    ..Format::NONE
};

fn run(of: &OneRun<'_>, out: &mut dyn Write) -> io::Result<()> {
    terminal::print(of.run, out, &Style { explain: true, ..of.style.clone() })
}

fn comparison(of: &Sides<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(compare::table(of.comparison, of.held, of.shown, of.style).as_bytes())
}

fn tables(of: &Replayed<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(published::text(of.reports, of.style).as_bytes())
}
