//! The formats that results leave plimsoll in: one file each, and their list, [`FORMATS`].
//!
//! A format says what it can write: a run, the reference tools of a run as rows, a comparison, the tables of a published
//! report. The values of `--format`, its help, completions and errors and the table in docs/recipes.md follow from the list.

mod bmf;
mod csv;
mod github;
mod html;
pub mod json;
mod junit;
mod markdown;
mod ndjson;
mod openmetrics;
pub(super) use openmetrics::{Families, since_1970};
mod otava;
mod text;

use std::fmt;
use std::io::{self, Write};

use plimsoll_compare::{Comparison, Holds, Missing, Side};
use plimsoll_model::measurement::Measurement;
use plimsoll_result::document::Run;

use super::Style;
use super::compare::Shown;
use super::published::Report;

/// Every format, in the order of help.
pub static FORMATS: &[&Format] = &[
    &text::FORMAT,
    &html::FORMAT,
    &json::FORMAT,
    &csv::FORMAT,
    &ndjson::FORMAT,
    &markdown::FORMAT,
    &openmetrics::SCRAPED,
    &openmetrics::TIMED,
    &junit::FORMAT,
    &bmf::FORMAT,
    &github::BIGGER,
    &github::SMALLER,
    &otava::SERIES,
    &otava::CONFIG,
];

/// A format of results. What it cannot write is `None`, and no command offers it for that.
pub struct Format {
    /// The value of `--format`.
    pub name: &'static str,
    /// Another name that `--format` takes.
    pub alias: Option<&'static str>,
    /// What it is and for whom, in a few words.
    pub about: &'static str,
    /// What the name of such a file usually ends with.
    pub extension: &'static str,
    /// How it writes a run.
    pub run: Option<RunWriter>,
    /// How it writes several runs together, if it can.
    pub runs: Option<RunsWriter>,
    /// Whether what it writes of a run has nothing of this measurement; how many those are is said beside it.
    pub leaves_out: fn(&Measurement) -> bool,
    /// The format that has this measurement, where this one leaves it out and another does not.
    pub elsewhere: fn(&Measurement) -> Option<&'static str>,
    /// What is to be said beside several runs of what it leaves out because not all of them have it.
    pub not_in_all: fn(&[Run]) -> Option<String>,
    /// How it writes the reference tools of a run, a row each.
    pub tools: Option<RunWriter>,
    /// How it writes a comparison.
    pub comparison: Option<ComparisonWriter>,
    /// How it writes the tables of published reports.
    pub tables: Option<TablesWriter>,
}

impl Format {
    /// One that writes nothing.
    const NONE: Self = Self {
        name: "",
        alias: None,
        about: "",
        extension: "",
        run: None,
        runs: None,
        leaves_out: |_| false,
        elsewhere: |_| None,
        not_in_all: |_| None,
        tools: None,
        comparison: None,
        tables: None,
    };
}

/// Writes a run; the error is the writer's, or says what the format cannot hold.
pub type RunWriter = fn(&OneRun<'_>, &mut dyn Write) -> io::Result<()>;
/// Writes several runs; the error as of a [`RunWriter`].
pub type RunsWriter = fn(&[Run], &mut dyn Write) -> io::Result<()>;
/// Writes a comparison; the error as of a [`RunWriter`].
pub type ComparisonWriter = fn(&Sides<'_>, &mut dyn Write) -> io::Result<()>;
/// Writes tables of published reports; the error as of a [`RunWriter`].
pub type TablesWriter = fn(&Replayed<'_>, &mut dyn Write) -> io::Result<()>;

/// A stored run, and what is said with it.
pub struct OneRun<'a> {
    /// The run.
    pub run: &'a Run,
    /// Requirements that were held against it.
    pub held: &'a [Holds],
    /// Of the terminal, or of a file.
    pub style: &'a Style,
}

/// A comparison, and what is said with it.
pub struct Sides<'a> {
    /// What was found.
    pub comparison: &'a Comparison,
    /// What was compared.
    pub sides: &'a [Side],
    /// Requirements that were held against each side but the first.
    pub held: &'a [Holds],
    /// Which metrics are shown, where a format is for people.
    pub shown: Shown,
    /// Whether what was lost counts as a failure.
    pub missing: Missing,
    /// Of the terminal, or of a file.
    pub style: &'a Style,
}

/// Published reports with the runs that fill their tables.
pub struct Replayed<'a> {
    /// The reports.
    pub reports: &'a [Report<'a>],
    /// Of the terminal, or of a file.
    pub style: &'a Style,
}

/// What a format can be asked to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A run.
    Run,
    /// The reference tools of a run, a row each.
    Tools,
    /// A comparison.
    Comparison,
    /// The tables of published reports.
    Tables,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Run, Self::Tools, Self::Comparison, Self::Tables];

    /// The command that writes it.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Run => "export",
            Self::Tools => "export --table tools",
            Self::Comparison => "compare",
            Self::Tables => "report --tables",
        }
    }

    /// Whether this format can write it.
    #[must_use]
    pub fn is_in(self, format: &Format) -> bool {
        match self {
            Self::Run => format.run.is_some(),
            Self::Tools => format.tools.is_some(),
            Self::Comparison => format.comparison.is_some(),
            Self::Tables => format.tables.is_some(),
        }
    }

    /// The formats that can write it.
    pub fn formats(self) -> impl Iterator<Item = &'static Format> {
        FORMATS.iter().copied().filter(move |format| self.is_in(format))
    }
}

/// No format of that name can write what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoFormat {
    name: String,
    subject: Subject,
}

impl NoFormat {
    /// That a format of that name cannot write this.
    #[must_use]
    pub fn new(name: &str, subject: Subject) -> Self {
        Self { name: name.to_owned(), subject }
    }
}

impl fmt::Display for NoFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices: Vec<&str> = self.subject.formats().map(|format| format.name).collect();
        let (command, choices) = (self.subject.command(), choices.join(", "));
        match find(&self.name) {
            Some(known) => {
                let of = Subject::ALL.into_iter().filter(|subject| subject.is_in(known));
                let of: Vec<&str> = of.map(Subject::command).collect();
                let (name, of) = (known.name, of.join(", "));
                write!(f, "--format {name} is not supported on {command} (it is for {of}): use {choices}")
            }
            None => {
                let name = plimsoll_units::text::shown_within(&self.name, 40);
                write!(f, "--format must be one of {choices}: '{name}' is not")
            }
        }
    }
}

/// The format of that name, whatever it can write.
#[must_use]
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name || format.alias == Some(name))
}

/// What is to be said beside a run in a format that leaves some of it out.
#[must_use]
pub fn left_out(format: &Format, run: &Run) -> Option<String> {
    let all = run.measurements.len();
    let left: Vec<&Measurement> = run.measurements.iter().filter(|m| (format.leaves_out)(m)).collect();
    let without = left.iter().filter(|m| (format.elsewhere)(m).is_none()).count();
    let other = left.iter().find_map(|m| (format.elsewhere)(m)).filter(|_| left.len() == all);
    let name = format.name;
    let nothing = other.map(|other| {
        format!(
            "{name} has no figure of this run, whose figures have the other direction: use --format {other}"
        )
    });
    let invalid = || {
        format!(
            "{without} of {all} cases have no valid figure and are not in {name}; --format json has all cases"
        )
    };
    nothing.or_else(|| (without > 0).then(invalid))
}

/// How the format of that name writes a subject, which `writer` asks it for.
///
/// # Errors
/// There is no such format, or it cannot write that; which can.
pub fn writer<W>(
    name: &str,
    subject: Subject,
    writer: impl FnOnce(&Format) -> Option<W>,
) -> Result<W, NoFormat> {
    find(name).and_then(writer).ok_or_else(|| NoFormat::new(name, subject))
}

#[cfg(test)]
mod tests;
