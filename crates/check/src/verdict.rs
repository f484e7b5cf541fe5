//! What is said of a figure.

use serde::Serialize;

use plimsoll_machine::Machine;
use plimsoll_model::limit::{Kind, Limit};
use plimsoll_reference::stated::Figure;
use plimsoll_units::quantity::Unit;

/// Name of the document's form.
const CHECK_SCHEMA: &str = "plimsoll.check/1";

/// Whether a figure can be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is possible here.
    Fine,
    /// It is not.
    Impossible,
    /// It cannot be judged.
    Unjudged,
}

/// Why a figure is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The page cache answered in place of the disk.
    PageCache,
    /// What was measured is in memory, and no disk.
    Memory,
    /// What was read was never written, and no disk was asked.
    Unwritten,
    /// Nothing was transferred.
    NoDevice,
    /// The data was zero or compressed, and less was moved.
    Compressed,
    /// Both directions were added up for one.
    BothDirections,
    /// Bits were taken for bytes or the reverse.
    BitsForBytes,
    /// Both ends are one machine: no link was crossed.
    Loopback,
    /// The arrays fit in a cache.
    CacheAnswered,
    /// Many threads did what one is said to have done.
    ManyThreads,
    /// The work that is counted was not done.
    NotDone,
    /// A computation, memory, a disk or a link returned a wrong result.
    WrongAnswer,
    /// No machine has such a value, or the file's own numbers cannot all be true.
    Absurd,
    /// It is past the limit, and the file does not show why.
    Unexplained,
}

impl Cause {
    /// In words.
    pub const fn word(self) -> &'static str {
        match self {
            Self::PageCache => "page cache",
            Self::Memory => "memory, not a disk",
            Self::Unwritten => "holes or unwritten space",
            Self::NoDevice => "no I/O (null device)",
            Self::Compressed => "compressed data",
            Self::BothDirections => "sum of both directions",
            Self::BitsForBytes => "bits and bytes confused",
            Self::Loopback => "loopback",
            Self::CacheAnswered => "fits in a cache",
            Self::ManyThreads => "more threads than stated",
            Self::NotDone => "work not done",
            Self::WrongAnswer => "wrong answer",
            Self::Absurd => "no possible value",
            Self::Unexplained => "above the limit",
        }
    }
}

/// A figure and what is said of it. All texts are safe to print.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The figure's name.
    pub name: String,
    /// The value in the base unit; null in JSON if it is not a finite number.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
    /// What it is held to; null where that is not known.
    pub limit: Option<Bound>,
    /// How near it is to the limit, 1 at the limit.
    pub of_limit: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is impossible.
    pub cause: Option<Cause>,
    /// Whether the file itself shows the cause; null where there is none.
    pub certain: Option<bool>,
    /// The verdict's reason in a sentence; empty where there is nothing to say.
    pub reason: String,
    /// Whether its own file contradicts it.
    #[serde(skip)]
    pub contradicts_itself: bool,
}

/// A limit, as a row tells it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// In the unit of the figure.
    pub value: f64,
    /// Ceiling or floor.
    pub kind: Kind,
    /// How it is derived.
    pub formula: String,
    /// What is put in, in words.
    pub inputs: Vec<String>,
}

impl Bound {
    /// What a row has of a limit; `None` if its value is not known.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let input = |input: &plimsoll_model::limit::Input| {
            let unit = if input.unit == "1" { String::new() } else { format!(" {}", input.unit) };
            format!("{} {}{unit}: {}", input.name, input.value, input.from)
        };
        Some(Self {
            value: limit.value?,
            kind: limit.kind,
            formula: limit.formula.clone(),
            inputs: limit.inputs.iter().map(input).collect(),
        })
    }
}

/// A result and its rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The file, as named.
    pub file: String,
    /// The result's number in the file, from 1; `None` if the file has only one.
    pub document: Option<usize>,
    /// The tool that wrote it.
    pub tool: &'static str,
    /// Its version, where the file has it.
    pub version: Option<String>,
    /// What the tool says went wrong.
    pub trouble: Option<String>,
    /// Its figures.
    #[serde(rename = "figures")]
    pub rows: Vec<Row>,
}

/// A file, or a result in it, that cannot be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unread {
    /// The file, as named.
    pub file: String,
    /// The result's number in the file, from 1; `None` if the file has only one.
    pub document: Option<usize>,
    /// Why it cannot be read.
    pub why: String,
}

/// All results, as a document. Its form is described in docs/check.md.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    /// Identifies the hardware of the machine.
    machine: &'a str,
    impossible: usize,
    fine: usize,
    unjudged: usize,
    files: &'a [Checked],
    unread: &'a [Unread],
}

impl<'a> Document<'a> {
    /// What was found on a machine.
    pub fn new(machine: &'a Machine, files: &'a [Checked], unread: &'a [Unread]) -> Self {
        let count = |verdict| files.iter().map(|file| file.count(verdict)).sum();
        Self {
            schema: CHECK_SCHEMA,
            machine: &machine.id,
            impossible: count(Verdict::Impossible),
            fine: count(Verdict::Fine),
            unjudged: count(Verdict::Unjudged),
            files,
            unread,
        }
    }
}

impl Checked {
    /// How many figures have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// Whether it passes: no figure is impossible or contradicted by its own file, and one at least can be judged.
    pub fn passes(&self) -> bool {
        let contradicted = self.rows.iter().any(|row| row.contradicts_itself);
        !contradicted && self.count(Verdict::Impossible) == 0 && self.count(Verdict::Fine) > 0
    }
}

impl Row {
    fn of(figure: &Figure, limit: Option<&Limit>, verdict: Verdict, reason: String) -> Self {
        let bound = limit.and_then(Bound::of);
        let share = limit.and_then(|limit| Some(limit.share(figure.value, limit.value?)));
        Self {
            name: figure.name.clone(),
            value: figure.value,
            unit: figure.unit,
            of_limit: share.filter(|share| share.is_finite()),
            limit: bound.filter(|bound| bound.value.is_finite()),
            verdict,
            cause: None,
            certain: None,
            reason,
            contradicts_itself: false,
        }
    }

    pub(crate) fn unjudged(figure: &Figure, limit: Option<&Limit>, why: String) -> Self {
        Self::of(figure, limit, Verdict::Unjudged, why)
    }

    pub(crate) fn fine(figure: &Figure, limit: &Limit, note: Option<String>) -> Self {
        Self::of(figure, Some(limit), Verdict::Fine, note.unwrap_or_default())
    }

    pub(crate) fn impossible(
        figure: &Figure,
        limit: Option<&Limit>,
        cause: Cause,
        certain: bool,
        why: String,
    ) -> Self {
        let row = Self::of(figure, limit, Verdict::Impossible, why);
        Self { cause: Some(cause), certain: Some(certain), ..row }
    }
}
