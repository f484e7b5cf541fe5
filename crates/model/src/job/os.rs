//! Jobs of the benchmarks of the kernel.
#![expect(missing_docs, reason = "variants are named as the words of a case, and types documented")]

use std::time::Duration;

use plimsoll_metal::os::link::LinkKind;
use serde::{Deserialize, Serialize};

pub use super::word::CaseWord;
use crate::case::Case;

/// Call of `os.syscall`: getppid(2), a byte of /dev/zero or to /dev/null, or the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallKind {
    GetParent,
    ReadZero,
    WriteNull,
    ClockVdso,
    ClockCall,
}

impl CaseWord for CallKind {
    const CASE_WORDS: &'static [(&'static str, Self)] = &[
        ("getppid", Self::GetParent),
        ("read", Self::ReadZero),
        ("write", Self::WriteNull),
        ("clock-vdso", Self::ClockVdso),
        ("clock-syscall", Self::ClockCall),
    ];
}

impl CaseWord for LinkKind {
    const CASE_WORDS: &'static [(&'static str, Self)] =
        &[("pipe", Self::Pipe), ("eventfd", Self::EventFd), ("futex", Self::Futex)];
}

/// The one of the two in `os.switch` that answers: a thread of the process, or another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FollowerKind {
    Thread,
    Process,
}

impl CaseWord for FollowerKind {
    const KEY: &'static str = "between";
    const CASE_WORDS: &'static [(&'static str, Self)] =
        &[("threads", Self::Thread), ("processes", Self::Process)];
}

/// Smallest part of the machine that the two CPUs of `os.switch` share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SharedPart {
    Cpu,
    Core,
    Cache,
    Package,
    Nothing,
}

impl CaseWord for SharedPart {
    const KEY: &'static str = "distance";
    const CASE_WORDS: &'static [(&'static str, Self)] = &[
        ("same", Self::Cpu),
        ("smt", Self::Core),
        ("cache", Self::Cache),
        ("package", Self::Package),
        ("socket", Self::Nothing),
    ];
}

/// Sleep of `os.wake`: with the timer slack of the process or 1 ns, or with real-time priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sleep {
    UsualSlack,
    LeastSlack,
    Realtime,
}

impl CaseWord for Sleep {
    const CASE_WORDS: &'static [(&'static str, Self)] =
        &[("sleep", Self::UsualSlack), ("exact", Self::LeastSlack), ("fifo", Self::Realtime)];
}

/// Returns the time between wake-ups of an `os.wake` case; `None` if missing.
pub fn wake_interval(case: &Case) -> Option<Duration> {
    case.time("interval")
}

/// Way of `os.process` to create a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Creation {
    Fork,
    ForkExec,
    Spawn,
    Thread,
}

impl CaseWord for Creation {
    const CASE_WORDS: &'static [(&'static str, Self)] =
        &[("fork", Self::Fork), ("exec", Self::ForkExec), ("spawn", Self::Spawn), ("thread", Self::Thread)];
}

/// Memory of `os.fault` that is touched for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FirstTouch {
    Anonymous,
    Huge,
    CachedFile,
    Nothing,
}

impl CaseWord for FirstTouch {
    const CASE_WORDS: &'static [(&'static str, Self)] = &[
        ("anonymous", Self::Anonymous),
        ("thp", Self::Huge),
        ("file", Self::CachedFile),
        ("mmap", Self::Nothing),
    ];
}

/// Operation of `os.file` on the name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileOperation {
    Create,
    Open,
    Stat,
    Rename,
    Unlink,
}

impl CaseWord for FileOperation {
    const CASE_WORDS: &'static [(&'static str, Self)] = &[
        ("create", Self::Create),
        ("open", Self::Open),
        ("stat", Self::Stat),
        ("rename", Self::Rename),
        ("unlink", Self::Unlink),
    ];
}

/// Returns whether all threads of an `os.file` case use one directory.
pub fn shares_directory(case: &Case) -> bool {
    case.word("layout") == Some("shared")
}
