//! Errors and unsupported options of a job file, with their lines.

use std::fmt;
use std::rc::Rc;

use plimsoll_units::text::shown_within;

const MAX_MESSAGE_CHARS: usize = 400;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileLine {
    pub(super) file: Rc<str>,
    /// Line number, from 1.
    pub(super) number: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) line: FileLine,
    pub(super) why: String,
    kind: MistakeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MistakeKind {
    /// Invalid in fio too, or ambiguous.
    Wrong,
    /// Not supported; the job can be measured without it.
    Refused,
    /// Not supported, and the job is meaningless without it.
    RefusedJob,
}

impl Mistake {
    pub(super) fn wrong(line: &FileLine, why: &str) -> Self {
        Self::of(line, why, MistakeKind::Wrong)
    }

    pub(super) fn refused(line: &FileLine, why: &str) -> Self {
        Self::of(line, why, MistakeKind::Refused)
    }

    pub(super) fn refused_job(line: &FileLine, why: &str) -> Self {
        Self::of(line, why, MistakeKind::RefusedJob)
    }

    fn of(line: &FileLine, why: &str, kind: MistakeKind) -> Self {
        Self { line: line.clone(), why: shown_within(why, MAX_MESSAGE_CHARS), kind }
    }

    /// Whether fio accepts the option and only plimsoll refuses it, so that it can be ignored.
    pub(super) fn is_of_plimsoll(&self) -> bool {
        self.kind != MistakeKind::Wrong
    }

    pub(super) fn takes_the_job(&self) -> bool {
        self.kind == MistakeKind::RefusedJob
    }

    /// Formats a remark that an option is ignored, `FILE:LINE: ignored: WHY`, or its job left out.
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
