//! `os.process`: the time to create a process or thread and wait for its end.

use std::io;
use std::process::Command;

use plimsoll_bench_api::prelude::*;
use plimsoll_machine::Root;
use plimsoll_metal::os::process::fork_and_wait;
use plimsoll_model::job::os::{CaseWord, Creation};

use crate::fact::RESIDENT_KIB;
use crate::timed::{RepeatedOperation, TimedThreads, failed};
use crate::{LATENCY_METRIC, kernel_state};

/// Program that the child becomes: it does nothing and succeeds.
const EMPTY_PROGRAM: &str = "/bin/true";

/// The benchmark `os.process`.
pub struct Process;

impl Benchmark for Process {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "os.process",
            about: "time to create a process or thread and wait for its end",
            keys: &["op"],
            help: &[("op", "fork, exec (/bin/true), spawn (posix_spawn), thread or all")],
            words: &[LabelPart::Instead(
                "op",
                &[
                    ("fork", "fork, exit, wait"),
                    ("exec", "fork, exec, exit, wait"),
                    ("spawn", "posix_spawn, exit, wait"),
                    ("thread", "thread, join"),
                ],
            )],
            limits,
            metrics: const {
                &[Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower)
                    .about("time from the call that creates it until its end is known")]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, _: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let candidate = |(op, creation): (&str, Creation)| {
            Candidate::new(Case::of(self.name()).with_word("op", op), Ok(())).parsed(&creation)
        };
        Ok(group.values("op", Creation::CASE_WORDS)?.into_iter().map(candidate).collect())
    }

    fn prepare(&self, _: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let creation: Creation = parsed.read()?;
        let mut creator = Creator(creation);
        // A call that is refused, or a program that is not there, is known before the timing.
        creator.repeat()?;
        let mut facts = kernel_state::facts(cx.machine);
        facts.achieved.set_some(&RESIDENT_KIB, resident_kib(&Root::live()));
        Ok(Box::new(TimedThreads::new(&spread_cpus(cx.machine, 1), vec![creator], None, facts)?))
    }
}

/// Returns as floor the time of 3 empty system calls: creation, end, wait; 4 for exec and spawn.
fn limits(question: &Question<'_>) -> Vec<Limit> {
    let starts = matches!(Creation::of(question.case), Some(Creation::ForkExec | Creation::Spawn));
    let calls = if starts { 4.0 } else { 3.0 };
    vec![crate::limit::null_calls(question, calls, &format!("{calls} × null call"))]
}

/// Returns the resident memory of this process in KiB; `None` if `root` has no /proc for it.
fn resident_kib(root: &Root) -> Option<u64> {
    let status = root.text("proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

struct Creator(Creation);

impl RepeatedOperation for Creator {
    fn repeat(&mut self) -> Result<u32, CannotMeasure> {
        let missing = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => CannotMeasure::not_here(format!("requires {EMPTY_PROGRAM}")),
            _ => failed(&format!("the start of {EMPTY_PROGRAM}"))(error),
        };
        let created = match self.0 {
            Creation::Fork => fork_and_wait(None).map_err(failed("fork(2)")),
            Creation::ForkExec => match fork_and_wait(Some(c"/bin/true")) {
                Err(_) if !std::path::Path::new(EMPTY_PROGRAM).exists() => {
                    Err(missing(io::ErrorKind::NotFound.into()))
                }
                done => done.map_err(missing),
            },
            Creation::Spawn => {
                let status = Command::new(EMPTY_PROGRAM).status().map_err(missing)?;
                let wrong = || CannotMeasure::environment(format!("{EMPTY_PROGRAM} ended with {status}"));
                status.success().then_some(()).ok_or_else(wrong)
            }
            Creation::Thread => {
                let thread = std::thread::Builder::new().spawn(|| ()).map_err(failed("clone(2)"))?;
                thread.join().map_err(|_| CannotMeasure::environment("a thread panicked"))
            }
        };
        created.map(|()| 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::with_each_case;

    #[test]
    fn each_creation_is_measured_and_leaves_no_child() {
        let measured = with_each_case(&Process, "", &Default::default(), |case, mut prepared| {
            let latency = prepared.sample(SampleAmount::Work(20)).unwrap().values[LATENCY_METRIC];
            assert!((1e-6..1.0).contains(&latency), "{case}: {latency}");
        });
        assert_eq!(measured, Creation::CASE_WORDS.len());
    }
}
