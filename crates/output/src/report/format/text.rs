//! Text for a terminal: what the commands print where nothing else is asked for.

use std::io::{self, Write};

use super::{ComparisonWriter, Format, OneRun, Replayed, RunWriter, TablesWriter, TwoSides};
use crate::report::{compare, published, terminal};

/// The format.
pub(super) struct Text;

impl Format for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn alias(&self) -> Option<&'static str> {
        Some("table")
    }

    fn about(&self) -> &'static str {
        "tables for a terminal"
    }

    fn extension(&self) -> &'static str {
        "txt"
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
    terminal::print(of.run, out, of.style)
}

fn comparison(of: &TwoSides<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(compare::table(of.comparison, of.held, of.shown, of.style).as_bytes())
}

fn tables(of: &Replayed<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(published::text(of.reports, of.style).as_bytes())
}
