//! What is wrong with a job file, or has no counterpart here, with its line.

use std::fmt;
use std::rc::Rc;

use plimsoll_units::text::shown_within;

/// Longest sentence.
const LONGEST: usize = 400;

/// A line of a job file or of a file that it includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The file, made harmless.
    pub(super) file: Rc<str>,
    /// From 1.
    pub(super) number: usize,
}

/// What a line cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Where.
    pub(super) line: Line,
    /// What, and what would be right.
    pub(super) why: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// fio refuses it too, or nobody could know what is meant.
    Wrong,
    /// It has no counterpart: the rest can be measured without it.
    Refused,
    /// It has no counterpart, and nothing is left of the job without it.
    RefusedJob,
}

impl Mistake {
    /// Something that is no job file.
    pub(super) fn wrong(line: &Line, why: &str) -> Self {
        Self::of(line, why, Kind::Wrong)
    }

    /// An option without a counterpart.
    pub(super) fn refused(line: &Line, why: &str) -> Self {
        Self::of(line, why, Kind::Refused)
    }

    /// An option without which there is no job.
    pub(super) fn refused_job(line: &Line, why: &str) -> Self {
        Self::of(line, why, Kind::RefusedJob)
    }

    fn of(line: &Line, why: &str, kind: Kind) -> Self {
        Self { line: line.clone(), why: shown_within(why, LONGEST), kind }
    }

    /// Whether it may be left out when that was asked for.
    pub(super) fn is_of_plimsoll(&self) -> bool {
        self.kind != Kind::Wrong
    }

    /// Whether the whole job is left out with it.
    pub(super) fn takes_the_job(&self) -> bool {
        self.kind == Kind::RefusedJob
    }

    /// The same where it was left out.
    pub(super) fn ignored(&self) -> String {
        let what = if self.takes_the_job() { "job left out" } else { "ignored" };
        format!("{}:{}: {what}: {}", self.line.file, self.line.number, self.why)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = if self.is_of_plimsoll() { "refused: " } else { "" };
        write!(f, "{}:{}: {refused}{}", self.line.file, self.line.number, self.why)
    }
}
