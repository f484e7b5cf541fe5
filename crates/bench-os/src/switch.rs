//! `os.switch`: two threads or processes wake each other in turn. The figure is the time of one
//! hand-over: a message, the wake-up of the other, the switch to it, and its receipt.

use std::thread::JoinHandle;

use plimsoll_bench_api::prelude::*;
use plimsoll_machine::Cpu;
use plimsoll_metal::affinity;
use plimsoll_metal::os::link::{LinkEnd, LinkKind, LinkMessage, link};
use plimsoll_metal::os::process::FollowerProcess;
use plimsoll_metal::usage::thread_switches;
use plimsoll_model::job::os::{CaseWord, FollowerKind, SharedPart};

use crate::fact::{BOTH_CPUS, SWITCH_SHARE};
use crate::timed::{RepeatedOperation, TimedThreads, failed};
use crate::{LATENCY_METRIC, kernel_state};

type SwitchJob = (LinkKind, FollowerKind, SharedPart);

/// The benchmark `os.switch`.
pub struct Switch;

impl Benchmark for Switch {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "os.switch",
            about: "time of a hand-over between two threads or processes: message, wake-up, context switch",
            synonyms: &["lat_ctx", "lat_pipe"],
            keys: &["op", "between", "distance"],
            help: &[("op", "pipe, eventfd, futex or all")],
            words: &[
                LabelPart::Value("op"),
                LabelPart::Word("switch,"),
                LabelPart::Value("between"),
                LabelPart::Instead(
                    "distance",
                    &[
                        ("same", "one CPU"),
                        ("smt", "one core"),
                        ("cache", "one cache"),
                        ("package", "one package"),
                        ("socket", "two sockets"),
                    ],
                ),
            ],
            limits,
            metrics: const {
                &[Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower)
                    .about("time of one hand-over: half a round trip")]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let here = |(_, shared): &(&str, SharedPart)| pair(machine, *shared).is_some();
        let parts = match group.asked("distance") {
            true => group.values("distance", SharedPart::CASE_WORDS)?,
            false => SharedPart::CASE_WORDS.iter().copied().filter(here).collect(),
        };
        let mut candidates = Vec::new();
        for (op, link) in group.values("op", LinkKind::CASE_WORDS)? {
            for (between, follower) in group.values("between", FollowerKind::CASE_WORDS)? {
                for (distance, shared) in &parts {
                    let case = Case::of(self.name()).with_word("op", op).with_word("between", between);
                    let case = case.with_word("distance", distance);
                    let feasible = cpus(machine, *shared).map(|_| ());
                    candidates.push(Candidate::new(case, feasible).parsed(&(link, follower, *shared)));
                }
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, _: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let job: SwitchJob = parsed.read()?;
        let [near, far] = cpus(cx.machine, job.2)?;
        let mut facts = kernel_state::facts(cx.machine);
        facts.achieved.set(&BOTH_CPUS, vec![near, far]);
        let turns = TurnLeader::new(job, far)?;
        let mut threads = TimedThreads::new(&[near], vec![turns], None, facts)?;
        threads.offer.cpus = vec![near, far];
        Ok(Box::new(threads))
    }
}

/// Returns as floor of a hand-over the time of two system calls that do nothing on one CPU, and of
/// one call on two CPUs, where half of each overlaps with the other.
fn limits(question: &Question<'_>) -> Vec<Limit> {
    vec![match SharedPart::of(question.case) {
        Some(SharedPart::Cpu) => crate::limit::null_calls(question, 2.0, "2 × null call"),
        _ => crate::limit::null_calls(question, 1.0, "null call"),
    }]
}

fn cpus(machine: &Machine, shared: SharedPart) -> Result<[usize; 2], CannotMeasure> {
    pair(machine, shared).ok_or_else(|| {
        let what = match shared {
            SharedPart::Cpu => "a CPU",
            SharedPart::Core => "two CPUs of one core",
            SharedPart::Cache => "two cores that share a cache",
            SharedPart::Package => "two cores of a package that share no cache",
            SharedPart::Nothing => "CPUs of two sockets",
        };
        let allowed = &machine.cpu.allowed;
        CannotMeasure::not_here(format!("requires {what}: this process may use CPUs {allowed}"))
    })
}

/// Most CPUs to look at on each side for a pair.
const MAX_TRIED_CPUS: usize = 256;

/// Returns the first pair of allowed CPUs that share exactly `shared` (CPU, core, cache …), if any.
fn pair(machine: &Machine, shared: SharedPart) -> Option<[usize; 2]> {
    let allowed = || machine.cpu.allowed.iter().take(MAX_TRIED_CPUS);
    let is_pair = |[near, far]: &[usize; 2]| shared_part(&machine.cpu, *near, *far) == shared;
    allowed().flat_map(|near| allowed().map(move |far| [near, far])).find(is_pair)
}

fn shared_part(cpu: &Cpu, near: usize, far: usize) -> SharedPart {
    if near == far {
        return SharedPart::Cpu;
    }
    let package = |id| cpu.logical(id).and_then(|logical| logical.package);
    let both = |set: &CpuSet| set.contains(near) && set.contains(far);
    let has_both = |level: &plimsoll_machine::cpu::CpuCache| level.instances.iter().any(both);
    if cpu.logical(near).is_some_and(|logical| logical.siblings.contains(far)) {
        SharedPart::Core
    } else if cpu.caches.iter().filter(|cache| cache.holds_data()).any(has_both) {
        SharedPart::Cache
    } else if package(near) == package(far) {
        SharedPart::Package
    } else {
        SharedPart::Nothing
    }
}

/// The thread or process that answers, which ends with this value.
enum Follower {
    Thread(Option<JoinHandle<()>>),
    Process(#[expect(dead_code, reason = "its end is that of the child")] FollowerProcess),
}

/// The leader's side: it sends a turn, and waits for the answer.
struct TurnLeader {
    near: LinkEnd,
    follower: Follower,
    is_on_one_cpu: bool,
    turns: u64,
    /// Turns and context switches of the thread at the last reading of both.
    counted: [u64; 2],
}

impl TurnLeader {
    fn new((kind, follower, shared): SwitchJob, cpu: usize) -> Result<Self, CannotMeasure> {
        let name = match kind {
            LinkKind::Pipe => "pipe(2)",
            LinkKind::EventFd => "eventfd(2)",
            LinkKind::Futex => "futex(2)",
        };
        let [near, far] = link(kind).map_err(failed(name))?;
        let follower = match follower {
            FollowerKind::Process => {
                Follower::Process(FollowerProcess::fork(far, cpu).map_err(failed("fork(2)"))?)
            }
            FollowerKind::Thread => {
                let answer = move || {
                    // On another CPU the figure would be that of another distance: no answer then.
                    if affinity::pin_to(&[cpu]).is_ok() {
                        far.answer_turns();
                    }
                };
                let thread = std::thread::Builder::new().name("follower".to_owned()).spawn(answer);
                Follower::Thread(Some(thread.map_err(failed("clone(2)"))?))
            }
        };
        let is_on_one_cpu = shared == SharedPart::Cpu;
        Ok(Self { near, follower, is_on_one_cpu, turns: 0, counted: [0; 2] })
    }
}

impl RepeatedOperation for TurnLeader {
    fn repeat(&mut self) -> Result<u32, CannotMeasure> {
        let answer = self.near.send(LinkMessage::Turn).and_then(|()| self.near.receive());
        if answer.map_err(failed("the hand-over"))? == LinkMessage::End {
            return Err(CannotMeasure::environment("the other end of the link has ended"));
        }
        self.turns += 1;
        Ok(2)
    }

    fn reset(&mut self) -> Result<(), CannotMeasure> {
        // Once in a while: the call takes as long as a part of a hand-over.
        if self.turns.is_multiple_of(256) {
            self.counted = [self.turns, thread_switches()];
        }
        Ok(())
    }

    fn note_sample(all: &mut [&mut Self], conditions: &mut Conditions) {
        // On one CPU each of the two waits while the other runs, which is the measured work.
        conditions.waited = all.iter().any(|one| one.is_on_one_cpu).then_some(0.0);
    }

    fn note_facts(all: &[&Self], facts: &mut Facts) {
        let [turns, switches] = [0, 1].map(|at| all.iter().map(|one| one.counted[at]).sum::<u64>());
        if turns > 0 {
            facts.achieved.set(&SWITCH_SHARE, switches as f64 / turns as f64);
        }
    }
}

impl Drop for TurnLeader {
    fn drop(&mut self) {
        if let Follower::Thread(thread) = &mut self.follower {
            let _ = self.near.send(LinkMessage::End);
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{parse_group, with_each_case};
    use plimsoll_machine::Root;
    use plimsoll_machine::fixture::two_cores;

    #[test]
    fn the_pairs_are_those_that_share_exactly_the_part() {
        let mut machine = Machine::discover(&Root::at("/nonexistent"));
        machine.cpu.allowed = "0-3".parse().unwrap();
        machine.cpu.logical = two_cores();
        assert_eq!(pair(&machine, SharedPart::Cpu), Some([0, 0]));
        assert_eq!(pair(&machine, SharedPart::Core), Some([0, 2]));
        assert_eq!(pair(&machine, SharedPart::Package), Some([0, 1]));
        assert_eq!(pair(&machine, SharedPart::Nothing), None);
        machine.cpu.allowed = "3".parse().unwrap();
        assert_eq!(Switch.cases(&machine, &Group::default()).unwrap().len(), 6, "only on one CPU");
        let all = Switch.cases(&machine, &parse_group("distance=socket")).unwrap();
        assert!(all.iter().all(|one| one.feasible.as_ref().unwrap_err().reason.contains("two sockets")));
    }

    #[test]
    fn each_way_hands_over_and_leaves_nobody_behind() {
        let measured = with_each_case(&Switch, "", &Default::default(), |case, mut pair| {
            let latency = pair.sample(SampleAmount::Work(2000)).unwrap().values[LATENCY_METRIC];
            assert!((1e-7..1e-2).contains(&latency), "{case}: {latency}");
            let switches: f64 = pair.verify().unwrap().achieved.get(&SWITCH_SHARE).unwrap();
            assert!(switches > 0.9 || case.word("distance") != Some("same"), "{case}: {switches}");
        });
        assert!(measured >= 6, "{measured}");
    }
}
