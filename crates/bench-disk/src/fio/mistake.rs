//! Errors and unsupported options of a job file, with their lines.

use std::fmt;
use std::rc::Rc;

use plimsoll_units::text::shown_within;

/// Longest message, in characters.
const LONGEST: usize = 400;

/// A line of a job file or of an included file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// File name, escaped.
    pub(super) file: Rc<str>,
    /// Line number, from 1.
    pub(super) number: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) line: Line,
    /// The error, and what would be right.
    pub(super) why: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Invalid in fio too, or ambiguous.
    Wrong,
    /// Not supported; the job can be measured without it.
    Refused,
    /// Not supported, and the job is meaningless without it.
    RefusedJob,
}

impl Mistake {
    pub(super) fn wrong(line: &Line, why: &str) -> Self {
        Self::of(line, why, Kind::Wrong)
    }

    pub(super) fn refused(line: &Line, why: &str) -> Self {
        Self::of(line, why, Kind::Refused)
    }

    pub(super) fn refused_job(line: &Line, why: &str) -> Self {
        Self::of(line, why, Kind::RefusedJob)
    }

    fn of(line: &Line, why: &str, kind: Kind) -> Self {
        Self { line: line.clone(), why: shown_within(why, LONGEST), kind }
    }

    /// Whether only plimsoll refuses it, so that it may be ignored on request.
    pub(super) fn is_of_plimsoll(&self) -> bool {
        self.kind != Kind::Wrong
    }

    pub(super) fn takes_the_job(&self) -> bool {
        self.kind == Kind::RefusedJob
    }

    /// Formats it as a remark, if it was ignored.
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
