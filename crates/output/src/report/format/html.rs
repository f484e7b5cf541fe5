//! One page that needs no other file and no network.

use std::io::{self, Write};

use super::{ComparisonWriter, Format, OneRun, Replayed, RunWriter, TablesWriter, TwoSides};
use crate::report::{html, published};

/// The format.
pub(super) struct Html;

impl Format for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn about(&self) -> &'static str {
        "one page that needs no other file and no network"
    }

    fn extension(&self) -> &'static str {
        "html"
    }

    fn run(&self) -> Option<RunWriter> {
        Some(run)
    }

    fn comparison(&self) -> Option<ComparisonWriter> {
        Some(comparison)
    }

    fn tables(&self) -> Option<TablesWriter> {
        Some(tables)
    }
}

fn run(of: &OneRun<'_>, out: &mut dyn Write) -> io::Result<()> {
    let page = html::page(std::slice::from_ref(of.run), &html::Beside::default())?;
    out.write_all(page.as_bytes())
}

fn comparison(of: &TwoSides<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(html::comparison(of.comparison, of.held, of.shown)?.as_bytes())
}

fn tables(of: &Replayed<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(published::page(of.reports).as_bytes())
}
