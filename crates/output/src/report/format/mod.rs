//! Export formats, listed in [`FORMATS`], which defines the values of `--format`, help, completions
//! and errors, and the table in docs/src/recipes.md.

mod bmf;
mod csv;
mod github;
mod html;
pub mod json;
mod junit;
mod markdown;
mod openmetrics;
pub(super) use openmetrics::{Families, since_1970};
mod otava;
pub mod steady;
mod text;

use std::fmt;
use std::io;

use plimsoll_compare::{ComparedSide, Comparison, Missing, RequirementResult};
use plimsoll_model::measurement::Measurement;
use plimsoll_result::document::Run;

use super::Style;
use super::compare::ShownMetrics;
use super::published::ReplayedReport;

/// All formats, in the order of the help text.
pub static FORMATS: &[&Format] = &[
    &text::FORMAT,
    &html::FORMAT,
    &json::FORMAT,
    &csv::FORMAT,
    &csv::NDJSON,
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

/// An export format. Unsupported contents are `None`.
pub struct Format {
    /// Value of `--format`.
    pub name: &'static str,
    /// Alternative value of `--format`.
    pub alias: Option<&'static str>,
    /// Short description for the help text.
    pub about: &'static str,
    /// File name extension.
    pub extension: &'static str,
    /// Writer of a run.
    pub run: Option<RunWriter>,
    /// Writer of several runs together.
    pub runs: Option<RunsWriter>,
    /// Whether a measurement is missing from a written run; the number of missing ones is reported.
    pub leaves_out: fn(&Measurement) -> bool,
    /// Name of the format that contains a measurement which this one leaves out.
    pub elsewhere: fn(&Measurement) -> Option<&'static str>,
    /// Message about contents left out because some of the runs lack them.
    pub not_in_all: fn(&[Run]) -> Option<String>,
    /// Writer of a run's reference tools, one row per tool.
    pub tools: Option<RunWriter>,
    /// Writer of a comparison.
    pub comparison: Option<ComparisonWriter>,
    /// Writer of tables of published reports.
    pub tables: Option<TablesWriter>,
}

impl Format {
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

/// Returns the text of a run. Fails if the format cannot represent it.
pub type RunWriter = fn(&OneRun<'_>) -> io::Result<String>;
/// Returns the text of several runs; fails like a [`RunWriter`].
pub type RunsWriter = fn(&[Run]) -> io::Result<String>;
/// Returns the text of a comparison; fails like a [`RunWriter`].
pub type ComparisonWriter = fn(&Sides<'_>) -> io::Result<String>;
/// Returns the text of tables of published reports; fails like a [`RunWriter`].
pub type TablesWriter = fn(&[ReplayedReport<'_>], &Style) -> io::Result<String>;

/// A stored run with its context.
pub struct OneRun<'a> {
    /// The run.
    pub run: &'a Run,
    /// Requirements evaluated against it.
    pub held: &'a [RequirementResult],
    /// Style of the terminal or file.
    pub style: &'a Style,
}

/// A comparison with its context.
pub struct Sides<'a> {
    /// Result.
    pub comparison: &'a Comparison,
    /// Compared sides.
    pub sides: &'a [ComparedSide],
    /// Requirements evaluated against each side except the first.
    pub held: &'a [RequirementResult],
    /// Metrics shown by formats for people.
    pub shown: ShownMetrics,
    /// Whether lost cases count as failures.
    pub missing: Missing,
    /// Style of the terminal or file.
    pub style: &'a Style,
}

/// Contents that a format may support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatSubject {
    /// A run.
    Run,
    /// Reference tools of a run.
    Tools,
    /// A comparison.
    Comparison,
    /// Tables of published reports.
    Tables,
}

impl FormatSubject {
    /// All contents.
    pub const ALL: [Self; 4] = [Self::Run, Self::Tools, Self::Comparison, Self::Tables];

    /// Returns the command that writes the subject, such as `export`.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Run => "export",
            Self::Tools => "export --table tools",
            Self::Comparison => "compare",
            Self::Tables => "report --tables",
        }
    }

    /// Returns whether `format` can write the subject.
    #[must_use]
    pub fn is_in(self, format: &Format) -> bool {
        match self {
            Self::Run => format.run.is_some(),
            Self::Tools => format.tools.is_some(),
            Self::Comparison => format.comparison.is_some(),
            Self::Tables => format.tables.is_some(),
        }
    }

    /// Yields the formats that can write the subject.
    pub fn formats(self) -> impl Iterator<Item = &'static Format> {
        FORMATS.iter().copied().filter(move |format| self.is_in(format))
    }
}

/// Error: the format is unknown or does not support the contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoFormat {
    name: String,
    subject: FormatSubject,
}

impl fmt::Display for NoFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices: Vec<&str> = self.subject.formats().map(|format| format.name).collect();
        let (command, choices) = (self.subject.command(), choices.join(", "));
        let Some(known) = find(&self.name) else {
            let name = plimsoll_units::text::shown_within(&self.name, 40);
            return write!(f, "--format must be one of {choices}: '{name}' is not");
        };
        let of = FormatSubject::ALL.into_iter().filter(|subject| subject.is_in(known));
        let (name, of) = (known.name, of.map(FormatSubject::command).collect::<Vec<_>>().join(", "));
        write!(f, "--format {name} is not supported on {command} (it is for {of}): use {choices}")
    }
}

/// Returns the format with this name or alias; `None` if unknown.
#[must_use]
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name || format.alias == Some(name))
}

/// Returns a message with the number of cases that `format` cannot write; `None` if it writes all.
#[must_use]
pub fn left_out(format: &Format, run: &Run) -> Option<String> {
    let all = run.measurements.len();
    let left: Vec<&Measurement> = run.measurements.iter().filter(|m| (format.leaves_out)(m)).collect();
    let without = left.iter().filter(|m| (format.elsewhere)(m).is_none()).count();
    let other = left.iter().find_map(|m| (format.elsewhere)(m)).filter(|_| left.len() == all);
    let name = format.name;
    if let Some(other) = other {
        let why = "has no figure of this run, whose figures have the other direction";
        return Some(format!("{name} {why}: use --format {other}"));
    }
    let what = format!("have no valid figure and are not in {name}; --format json has all cases");
    (without > 0).then(|| format!("{without} of {all} cases {what}"))
}

/// Returns the part of the format `name` that `writer` selects, such as its writer of runs. Fails
/// if the format is unknown or lacks that part; the error lists the formats that support `subject`.
pub fn writer<W>(
    name: &str,
    subject: FormatSubject,
    writer: impl FnOnce(&Format) -> Option<W>,
) -> Result<W, NoFormat> {
    find(name).and_then(writer).ok_or_else(|| NoFormat { name: name.to_owned(), subject })
}

#[cfg(test)]
mod tests;
