//! The small programs of lmbench that time one request to the kernel each, in microseconds.

use crate::tools::memory::bw_mem::{DIRECTORIES, environment};

use crate::tools::prelude::*;
use plimsoll_metal::os::link::LinkKind;
use plimsoll_model::job::os::{CallKind, CaseWord, Creation, FirstTouch, FollowerKind, SharedPart};

/// Microseconds that it repeats a request at least, so that it needs no calibration.
const REPEATED_MICROS: u64 = 100_000;

struct Lmbench {
    program: &'static str,
    checks: &'static str,
    /// Returns its request for a case, if it has one.
    request: fn(&Case) -> Option<LmbenchRequest>,
}

/// Measurement of a program that corresponds to a case.
struct LmbenchRequest {
    /// Arguments after the common ones, except the name of a file.
    arguments: &'static str,
    /// Text before the figure in its output.
    label: &'static str,
    /// Figures of plimsoll in its figure.
    times: f64,
    definition: Match,
    note: &'static str,
    takes_file: bool,
}

const EXACT: LmbenchRequest = LmbenchRequest {
    arguments: "",
    label: "",
    times: 1.0,
    definition: Match::Exact,
    note: "the same request in a loop",
    takes_file: false,
};

const LMBENCH_PROGRAMS: [Lmbench; 5] = [
    Lmbench {
        program: "lat_syscall",
        checks: "getppid, read, write (lmbench)",
        request: |case| {
            let is_single = case.benchmark() == "os.syscall" && case.threads() == 1;
            let (arguments, label) = match CallKind::of(case).filter(|_| is_single)? {
                CallKind::GetParent => ("null", "Simple syscall:"),
                CallKind::ReadZero => ("read", "Simple read:"),
                CallKind::WriteNull => ("write", "Simple write:"),
                _ => return None,
            };
            let (definition, note) = match arguments {
                "null" => (EXACT.definition, EXACT.note),
                _ => (
                    Match::Related,
                    "its process has one thread; with several, as in ours, library and kernel do more for a call on a file",
                ),
            };
            Some(LmbenchRequest { arguments, label, definition, note, ..EXACT })
        },
    },
    Lmbench {
        program: "lat_pipe",
        checks: "hand-over by pipes (lmbench)",
        request: |case| {
            let (definition, note) = match pipe_distance(case)? {
                SharedPart::Cpu => (Match::Scaled, "÷ 2: it counts a round trip, which is two hand-overs"),
                _ => (Match::Related, "÷ 2: a round trip; the kernel chooses the CPU of each of the two"),
            };
            Some(LmbenchRequest { label: "Pipe latency:", times: 2.0, definition, note, ..EXACT })
        },
    },
    Lmbench {
        program: "lat_ctx",
        checks: "context switch (lmbench)",
        request: |case| {
            (pipe_distance(case)? == SharedPart::Cpu).then_some(LmbenchRequest {
                arguments: "-s 0 2",
                label: "\n2 ",
                definition: Match::Related,
                note: "it subtracts the time of the pipes",
                ..EXACT
            })
        },
    },
    Lmbench {
        program: "lat_proc",
        checks: "fork and exit (lmbench)",
        request: |case| {
            let is_fork = case.benchmark() == "os.process" && Creation::of(case) == Some(Creation::Fork);
            is_fork.then_some(LmbenchRequest {
                arguments: "fork",
                label: "Process fork+exit:",
                definition: Match::Related,
                note: "its process is small: a fork copies the page tables of its parent",
                ..EXACT
            })
        },
    },
    Lmbench {
        program: "lat_pagefault",
        checks: "page of a cached file (lmbench)",
        request: |case| {
            let is_single = case.benchmark() == "os.fault" && case.threads() == 1;
            let is_file = FirstTouch::of(case) == Some(FirstTouch::CachedFile);
            (is_single && is_file).then_some(LmbenchRequest {
                label: "microseconds",
                definition: Match::Related,
                note: "the same file, in random order; it maps the file again each time and subtracts that",
                takes_file: true,
                ..EXACT
            })
        },
    },
];

pub(crate) const LAT_SYSCALL: RefTool = tool::<0>();
pub(crate) const LAT_PIPE: RefTool = tool::<1>();
pub(crate) const LAT_CTX: RefTool = tool::<2>();
pub(crate) const LAT_PROC: RefTool = tool::<3>();
pub(crate) const LAT_PAGEFAULT: RefTool = tool::<4>();

/// Returns the reference tool for the program at `INDEX` of [`LMBENCH_PROGRAMS`].
const fn tool<const INDEX: usize>() -> RefTool {
    RefTool {
        name: LMBENCH_PROGRAMS[INDEX].program,
        checks: LMBENCH_PROGRAMS[INDEX].checks,
        directories: DIRECTORIES,
        package: Package::DebianNonFree("lmbench"),
        pairing: |case, _| LMBENCH_PROGRAMS[INDEX].pairing(case),
        invocation: |ask| LMBENCH_PROGRAMS[INDEX].invocation(ask),
        parse: |case, text| LMBENCH_PROGRAMS[INDEX].parse(case, text),
        ..RefTool::NONE
    }
}

fn pipe_distance(case: &Case) -> Option<SharedPart> {
    let is_pipe = case.benchmark() == "os.switch" && LinkKind::of(case) == Some(LinkKind::Pipe);
    SharedPart::of(case).filter(|_| is_pipe && FollowerKind::of(case) == Some(FollowerKind::Process))
}

impl Lmbench {
    fn pairing(&self, case: &Case) -> Option<Pairing> {
        let request = (self.request)(case)?;
        has_only_parameters(case, "op threads affinity between distance").then_some(())?;
        let LmbenchRequest { definition, note, .. } = request;
        Some(Pairing::new("latency", definition, note, 1.0))
    }

    fn invocation(&self, ask: &InvocationInput) -> Result<Invocation, String> {
        let request = (self.request)(&ask.case).ok_or("it has no such request")?;
        let mut arguments = words(&format!("-P 1 -W 0 -N 1 {}", request.arguments));
        if request.takes_file {
            arguments.push(ask.test_file()?.to_owned());
        }
        let invocation = ask.call(arguments);
        Ok(Invocation { environment: environment(REPEATED_MICROS), output: Output::Stderr, ..invocation })
    }

    fn parse(&self, case: &Case, text: &str) -> Result<ToolFigure, String> {
        let request = (self.request)(case).ok_or("it has no such request")?;
        let micros = match request.takes_file {
            true => text.strip_suffix(" microseconds\n").and_then(|before| before.rsplit(' ').next()),
            false => text
                .split_once(request.label)
                .and_then(|(_, after)| after.strip_suffix('\n')?.split_whitespace().next()),
        };
        let wrong = || format!("its output has no '{}' with a number", request.label.trim());
        let micros: f64 = micros.and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
        let seconds = micros * 1e-6;
        // It prints no time, but repeats the request that long.
        let count = REPEATED_MICROS as f64 * 1e-6 / seconds;
        ToolFigure::of(seconds / request.times, Account::of(count * request.times, Seconds::OF_ITS_LIFE))
    }
}
