//! `os.wake`: how late a thread runs that sleeps until a given time.

use std::num::NonZeroU64;
use std::time::Duration;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::os::schedule::{set_realtime, set_timer_slack};
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use rustix::time::clock_gettime;
use serde::{Deserialize, Serialize};

use crate::fact::TIMER_SLACK_NS;
use crate::kernel_state::KernelState;
use crate::timed::{RepeatedOperation, TimedThreads, failed};
use crate::{LATENCY_METRIC, times_in, with_threads};

const DEFAULT_INTERVAL: Duration = Duration::from_millis(1);
const INTERVAL_RANGE: [Duration; 2] = [Duration::from_micros(10), Duration::from_secs(10)];
const NS_PER_SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Sleep {
    UsualSlack,
    LeastSlack,
    Realtime,
}

const SLEEPS: &[(&str, Sleep)] =
    &[("sleep", Sleep::UsualSlack), ("exact", Sleep::LeastSlack), ("fifo", Sleep::Realtime)];

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct WakeJob {
    sleep: Sleep,
    interval_ns: u64,
}

/// The benchmark `os.wake`.
pub struct Wake;

impl Benchmark for Wake {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "os.wake",
            about: "how late a thread wakes up from a sleep until a given time, as cyclictest",
            keys: &["op", "interval", "threads", "affinity"],
            synonyms: &["cyclictest"],
            help: &[
                ("op", "sleep, exact (timer slack of 1 ns), fifo (real-time priority)"),
                ("interval", "time between wake-ups, such as 10ms [default: 1ms]"),
            ],
            words: &[
                LabelPart::Word("wake-up"),
                LabelPart::Instead(
                    "op",
                    &[("sleep", "from sleep"), ("exact", "without slack"), ("fifo", "in real time")],
                ),
                LabelPart::Case("interval", |case| {
                    let is_usual = case.get("interval") == Some(&Value::Time(DEFAULT_INTERVAL));
                    let interval = case.get("interval").filter(|_| !is_usual)?;
                    Some(format!("interval {interval}"))
                }),
                LabelPart::Times,
            ],
            limits,
            metrics: const {
                &[Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower)
                    .about("time from the end of the sleep until the thread reads the clock")]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let intervals = times_in(group, "interval", DEFAULT_INTERVAL, INTERVAL_RANGE)?;
        let mut candidates = Vec::new();
        for (op, sleep) in group.values("op", SLEEPS)? {
            for interval in &intervals {
                let case = Case::of(self.name()).with_word("op", op).with("interval", Value::Time(*interval));
                let interval_ns = u64::try_from(interval.as_nanos()).map_err(|e| e.to_string())?;
                let job = WakeJob { sleep, interval_ns };
                let cases = with_threads(machine, group, case, &[1])?;
                candidates.extend(cases.into_iter().map(|case| Candidate::new(case, Ok(())).parsed(&job)));
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let job: WakeJob = parsed.read()?;
        if job.sleep == Sleep::Realtime {
            set_realtime(true).and_then(|()| set_realtime(false)).map_err(|error| {
                CannotMeasure::not_here(format!(
                    "requires the right to run in real time (root, CAP_SYS_NICE or ulimit -r 1): {error}"
                ))
            })?;
        }
        let cpus = cpus_of_case(cx.machine, case);
        let mut facts = KernelState::facts(cx.machine);
        let slack = rustix::thread::current_timer_slack().ok();
        facts.achieved.set_some(&TIMER_SLACK_NS, slack.filter(|_| job.sleep == Sleep::UsualSlack));
        let sleepers = cpus.iter().map(|_| Sleeper::new(job)).collect();
        Ok(Box::new(TimedThreads::new(&cpus, sleepers, None, facts)?))
    }
}

fn limits(_: &Question<'_>) -> Vec<Limit> {
    let why = "no maker documents how exact timers are and how long an idle CPU takes to wake";
    vec![Limit::unknown(LimitKind::Floor, why)]
}

/// Sleeps until one time after the other.
struct Sleeper {
    job: WakeJob,
    is_ready: bool,
    next_ns: u64,
    late_ns: u64,
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * NS_PER_SECOND + now.tv_nsec.cast_unsigned()
}

impl Sleeper {
    fn new(job: WakeJob) -> Self {
        Self { job, is_ready: false, next_ns: 0, late_ns: 0 }
    }

    /// Sets up the calling thread, once.
    fn set_up(&mut self) -> Result<(), CannotMeasure> {
        let done = match self.job.sleep {
            Sleep::UsualSlack => Ok(()),
            Sleep::LeastSlack => set_timer_slack(NonZeroU64::new(1)),
            Sleep::Realtime => set_realtime(true),
        };
        self.is_ready = true;
        done.map_err(failed("prctl(2) or sched_setscheduler(2)"))
    }
}

impl RepeatedOperation for Sleeper {
    fn repeat(&mut self) -> Result<u32, CannotMeasure> {
        if !self.is_ready {
            self.set_up()?;
        }
        let now = now_ns();
        self.next_ns += self.job.interval_ns;
        if self.next_ns <= now {
            // The first time, and after a pause or a wake-up later than the interval.
            self.next_ns = now + self.job.interval_ns;
        }
        let until = Timespec {
            tv_sec: (self.next_ns / NS_PER_SECOND).cast_signed(),
            tv_nsec: (self.next_ns % NS_PER_SECOND).cast_signed(),
        };
        loop {
            match clock_nanosleep_absolute(ClockId::Monotonic, &until) {
                Ok(()) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed("clock_nanosleep(2)")(error)),
            }
        }
        self.late_ns = now_ns().saturating_sub(self.next_ns);
        Ok(1)
    }

    fn counted_ns(&self, _: u64) -> u64 {
        self.late_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_bench_api::{Options, WorkerCache};
    use plimsoll_machine::Root;
    use plimsoll_model::sample::{FailureCause, SampleAmount};

    #[test]
    fn a_sleeper_is_late_by_less_than_it_sleeps() {
        let (machine, options) = (Machine::discover(&Root::live()), Options::default());
        let cx = Context { machine: &machine, options: &options, keep: &WorkerCache::default() };
        for candidate in Wake.cases(&machine, &Group::default()).unwrap() {
            let mut sleeping = match Wake.prepare(&candidate.case, &candidate.parsed, &cx) {
                Err(why) if why.cause == FailureCause::NotHere => continue,
                other => other.unwrap(),
            };
            let sample = sleeping.sample(SampleAmount::Work(20)).unwrap();
            assert!(sample.elapsed > 0.015, "it slept: {sample:?}");
            assert!((1e-8..0.5).contains(&sample.values[LATENCY_METRIC]), "{sample:?}");
        }
    }

    #[test]
    fn intervals_out_of_range_are_refused() {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        let group = |us| Group::default().with("interval", vec![Value::Time(Duration::from_micros(us))]);
        assert!(Wake.cases(&machine, &group(1)).is_err());
        assert!(Wake.cases(&machine, &group(11_000_000)).is_err());
        let case = Wake.cases(&machine, &group(10_000)).unwrap().remove(0).case;
        assert!(crate::SUBSYSTEM.label(&case).contains("interval"), "{}", crate::SUBSYSTEM.label(&case));
    }
}
