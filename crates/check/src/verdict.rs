//! Verdicts on figures.

use serde::Serialize;

use plimsoll_machine::Machine;
use plimsoll_model::limit::{Limit, LimitKind};
use plimsoll_reference::stated::StatedFigure;
use plimsoll_units::quantity::Unit;

const CHECK_SCHEMA: &str = "plimsoll.check/1";

/// Whether a figure can be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plausibility {
    /// Possible on this machine.
    Fine,
    /// Impossible.
    Impossible,
    /// Cannot be judged.
    Unjudged,
}

/// Why a figure is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImpossibleCause {
    /// The page cache answered instead of the disk.
    PageCache,
    /// The target is in memory, not on a disk.
    Memory,
    /// Unwritten space was read without access to a disk.
    Unwritten,
    /// Nothing was transferred.
    NoDevice,
    /// The data was zero or compressed, so less was moved.
    Compressed,
    /// Both directions were added up.
    BothDirections,
    /// Bits were taken for bytes, or bytes for bits.
    BitsForBytes,
    /// Both ends are one machine, so no link was crossed.
    Loopback,
    /// The arrays fit in a cache.
    CacheAnswered,
    /// More threads worked than the file states.
    ManyThreads,
    /// The counted work was not done.
    NotDone,
    /// A computation, memory, a disk or a link returned a wrong result.
    WrongAnswer,
    /// No machine has such a value, or the file's own numbers cannot all be true.
    Absurd,
    /// The figure is past the limit, and the file does not show why.
    Unexplained,
}

impl ImpossibleCause {
    /// Returns the cause in a few words, such as `page cache`.
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

/// A figure with its verdict. All texts are safe to print.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedFigure {
    /// Name of the figure.
    pub name: String,
    /// Value in the base unit; null in JSON if not finite.
    pub value: f64,
    /// Unit.
    pub unit: Unit,
    /// Limit; null if unknown.
    pub limit: Option<LimitShown>,
    /// Ratio of the figure to the limit, 1 at the limit.
    pub of_limit: Option<f64>,
    /// Verdict.
    pub verdict: Plausibility,
    /// Cause, if impossible.
    pub cause: Option<ImpossibleCause>,
    /// Whether the file itself shows the cause; null without a cause.
    pub certain: Option<bool>,
    /// Reason in a sentence; may be empty.
    pub reason: String,
    /// Whether the figure's own file contradicts it.
    #[serde(skip)]
    pub contradicts_itself: bool,
}

/// Limit of a figure, as shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitShown {
    /// Value in the unit of the figure.
    pub value: f64,
    /// Ceiling or floor.
    pub kind: LimitKind,
    /// Formula of the value.
    pub formula: String,
    /// Inputs of the formula, in words.
    pub inputs: Vec<String>,
}

impl LimitShown {
    /// Returns the limit as shown, with its inputs in words; `None` if its value is unknown.
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

/// A result of a tool with its judged figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// File name as given by the user.
    pub file: String,
    /// Number of the result in the file, from 1; `None` if the file has only one.
    pub document: Option<usize>,
    /// Tool that wrote it.
    pub tool: &'static str,
    /// Version of the tool, if the file has it.
    pub version: Option<String>,
    /// Error that the tool reported.
    pub trouble: Option<String>,
    /// Judged figures.
    #[serde(rename = "figures")]
    pub rows: Vec<CheckedFigure>,
}

/// A file, or a result in it, that cannot be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnreadResult {
    /// File name as given by the user.
    pub file: String,
    /// Number of the result in the file, from 1; `None` if the file has only one.
    pub document: Option<usize>,
    /// Reason.
    pub why: String,
}

/// Document with all results; its form is described in docs/src/check.md.
#[derive(Debug, Serialize)]
pub struct CheckDocument<'a> {
    schema: &'static str,
    machine: &'a str,
    impossible: usize,
    fine: usize,
    unjudged: usize,
    files: &'a [Checked],
    unread: &'a [UnreadResult],
}

impl<'a> CheckDocument<'a> {
    /// Creates the document from judged `files` and `unread` files, for the checked `machine`.
    pub fn new(machine: &'a Machine, files: &'a [Checked], unread: &'a [UnreadResult]) -> Self {
        let count = |verdict| files.iter().map(|file| file.count(verdict)).sum();
        Self {
            schema: CHECK_SCHEMA,
            machine: &machine.id,
            impossible: count(Plausibility::Impossible),
            fine: count(Plausibility::Fine),
            unjudged: count(Plausibility::Unjudged),
            files,
            unread,
        }
    }
}

impl Checked {
    /// Returns the number of figures with `verdict`.
    pub fn count(&self, verdict: Plausibility) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// Returns whether a figure is fine and none is impossible or contradicted by its own file.
    pub fn passes(&self) -> bool {
        let contradicted = self.rows.iter().any(|row| row.contradicts_itself);
        !contradicted && self.count(Plausibility::Impossible) == 0 && self.count(Plausibility::Fine) > 0
    }
}

impl CheckedFigure {
    fn of(figure: &StatedFigure, limit: Option<&Limit>, verdict: Plausibility, reason: String) -> Self {
        let bound = limit.and_then(LimitShown::of);
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

    pub(crate) fn unjudged(figure: &StatedFigure, limit: Option<&Limit>, why: String) -> Self {
        Self::of(figure, limit, Plausibility::Unjudged, why)
    }

    pub(crate) fn fine(figure: &StatedFigure, limit: &Limit, note: Option<String>) -> Self {
        Self::of(figure, Some(limit), Plausibility::Fine, note.unwrap_or_default())
    }

    pub(crate) fn impossible(
        figure: &StatedFigure,
        limit: Option<&Limit>,
        cause: ImpossibleCause,
        certain: bool,
        why: String,
    ) -> Self {
        let row = Self::of(figure, limit, Plausibility::Impossible, why);
        Self { cause: Some(cause), certain: Some(certain), ..row }
    }
}
