//! `os.syscall`: the time of a system call that does little, and of reading the clock without one.

use std::fs::{File, OpenOptions};
use std::io;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::os::call;
use plimsoll_model::job::os::{CallKind, CaseWord};
use rustix::time::{ClockId, clock_gettime};

use crate::timed::{RepeatedOperation, TimedThreads, failed};
use crate::{LATENCY_METRIC, findings, kernel_state, with_threads};

/// Calls between two readings of the clock: its 10 to 30 ns are below 1 % of their time.
const CALLS_PER_READING: u32 = 128;

/// The benchmark `os.syscall`.
pub struct Syscall;

impl Benchmark for Syscall {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "os.syscall",
            about: "time of a system call: getppid, 1 byte of /dev/zero or /dev/null, the clock by vDSO and by call",
            keys: &["op", "threads", "affinity"],
            help: &[("op", "getppid, read, write, clock-vdso, clock-syscall or all")],
            words: &[
                LabelPart::Instead(
                    "op",
                    &[
                        ("read", "read 1 B of /dev/zero"),
                        ("write", "write 1 B to /dev/null"),
                        ("clock-vdso", "clock by vDSO"),
                        ("clock-syscall", "clock by system call"),
                    ],
                ),
                LabelPart::Times,
            ],
            limits,
            findings: findings::kernel_costs,
            metrics: const {
                &[Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower).about(
                    "time of one call, mean of a thread; percentiles are those of batches of 128 calls",
                )]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut candidates = Vec::new();
        for (word, kind) in group.values("op", CallKind::CASE_WORDS)? {
            let case = Case::of(self.name()).with_word("op", word);
            let cases = with_threads(machine, group, case, &[1])?;
            candidates.extend(cases.into_iter().map(|case| Candidate::new(case, Ok(())).parsed(&kind)));
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let kind: CallKind = parsed.read()?;
        let cpus = cpus_of_case(cx.machine, case);
        let calls = cpus.iter().map(|_| Caller::new(kind)).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(TimedThreads::new(&cpus, calls, None, kernel_state::facts(cx.machine))?))
    }
}

/// Returns as floor the time of a system call that does nothing; unknown for calls that do no more.
fn limits(question: &Question<'_>) -> Vec<Limit> {
    vec![match CallKind::of(question.case) {
        Some(CallKind::ReadZero | CallKind::WriteNull | CallKind::ClockCall) => {
            crate::limit::null_calls(question, 1.0, "null call")
        }
        Some(CallKind::ClockVdso) => {
            let why = "no maker documents how long reading the processor's counter takes";
            Limit::unknown(LimitKind::Floor, why)
        }
        _ => Limit::unknown(LimitKind::Floor, crate::limit::ENTRY_UNKNOWN),
    }]
}

/// Carries out one kind of call, on a file of its own.
struct Caller {
    kind: CallKind,
    file: Option<File>,
}

impl Caller {
    fn new(kind: CallKind) -> Result<Self, CannotMeasure> {
        let (path, writes) = match kind {
            CallKind::ReadZero => ("/dev/zero", false),
            CallKind::WriteNull => ("/dev/null", true),
            _ => return Ok(Self { kind, file: None }),
        };
        let file = OpenOptions::new().read(!writes).write(writes).open(path);
        let missing = |error: io::Error| CannotMeasure::not_here(format!("requires {path}: {error}"));
        Ok(Self { kind, file: Some(file.map_err(missing)?) })
    }

    fn name(&self) -> &'static str {
        match self.kind {
            CallKind::GetParent => "getppid(2)",
            CallKind::ReadZero => "read(2)",
            CallKind::WriteNull => "write(2)",
            CallKind::ClockVdso | CallKind::ClockCall => "clock_gettime(2)",
        }
    }

    fn calls(&self) -> io::Result<()> {
        let mut byte = [0_u8];
        let mut times = 0..CALLS_PER_READING;
        match (self.kind, &self.file) {
            (CallKind::ReadZero, Some(zero)) => times.try_for_each(|_| whole(call::read(zero, &mut byte)?)),
            (CallKind::WriteNull, Some(null)) => times.try_for_each(|_| whole(call::write(null, &byte)?)),
            (CallKind::ClockVdso, _) => {
                times.for_each(|_| {
                    std::hint::black_box(clock_gettime(ClockId::Monotonic));
                });
                Ok(())
            }
            (CallKind::ClockCall, _) => times.try_for_each(|_| call::read_clock()),
            _ => times.try_for_each(|_| call::get_parent()),
        }
    }
}

fn whole(bytes: usize) -> io::Result<()> {
    if bytes == 1 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl RepeatedOperation for Caller {
    fn repeat(&mut self) -> Result<u32, CannotMeasure> {
        self.calls().map_err(failed(self.name()))?;
        Ok(CALLS_PER_READING)
    }

    fn excludes_preemption(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{parse_group, with_each_case};
    use plimsoll_machine::Root;

    #[test]
    fn each_call_is_measured() {
        let measured = with_each_case(&Syscall, "", &Default::default(), |case, mut calls| {
            let latency = calls.sample(SampleAmount::Work(1000)).unwrap().values[LATENCY_METRIC];
            assert!((1e-9..1e-4).contains(&latency), "{case}: {latency}");
            assert!(calls.verify().unwrap().achieved.names().contains(&"cpus"));
        });
        assert_eq!(measured, CallKind::CASE_WORDS.len());
    }

    #[test]
    fn operations_that_do_not_exist_are_refused_by_name() {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        let cases = |lists| Syscall.cases(&machine, &parse_group(lists));
        let why = cases("op=getpid").unwrap_err();
        assert!(why.contains("'getpid' is not") && why.contains("getppid"), "{why}");
        assert_eq!(cases("op=all").unwrap().len(), 5);
        assert!(cases("threads=0").is_err());
    }
}
