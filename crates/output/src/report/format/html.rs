//! One self-contained HTML page.

use std::io::{self, Write};

use super::{Format, OneRun, Replayed, Sides};
use crate::report::html;

pub(super) static FORMAT: Format = Format {
    name: "html",
    about: "one page that needs no other file and no network",
    extension: "html",
    run: Some(run),
    comparison: Some(comparison),
    tables: Some(tables),
    ..Format::NONE
};

fn run(of: &OneRun<'_>, out: &mut dyn Write) -> io::Result<()> {
    let page = html::page(std::slice::from_ref(of.run), &html::PageExtras::default())?;
    out.write_all(page.as_bytes())
}

fn comparison(of: &Sides<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(html::comparison(of.comparison, of.sides, of.held, of.shown)?.as_bytes())
}

fn tables(of: &Replayed<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(html::replayed(of.reports)?.as_bytes())
}
