//! `os.wake`: how late a thread runs that sleeps until a given time.

use std::num::NonZeroU64;
use std::time::Duration;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::os::schedule::{set_realtime, set_timer_slack};
use plimsoll_model::job::os::{CaseWord, Sleep, wake_interval};
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use rustix::time::clock_gettime;

use crate::fact::TIMER_SLACK_NS;
use crate::timed::{RepeatedOperation, TimedThreads, failed};
use crate::{LATENCY_METRIC, kernel_state, times_in, with_threads};

const DEFAULT_INTERVAL: Duration = Duration::from_millis(1);
const INTERVAL_RANGE: [Duration; 2] = [Duration::from_micros(10), Duration::from_secs(10)];
const NS_PER_SECOND: u64 = 1_000_000_000;

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
                ("op", "sleep, exact (timer slack of 1 ns), fifo (real-time priority) or all"),
                ("interval", "time between wake-ups, such as 10ms [default: 1ms]"),
            ],
            words: &[
                LabelPart::Word("wake-up"),
                LabelPart::Instead(
                    "op",
                    &[("sleep", "from sleep"), ("exact", "without slack"), ("fifo", "in real time")],
                ),
                LabelPart::Case("interval", |case| {
                    let interval = wake_interval(case).filter(|interval| *interval != DEFAULT_INTERVAL)?;
                    Some(format!("interval {}", Value::Time(interval)))
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
        for (op, sleep) in group.values("op", Sleep::CASE_WORDS)? {
            for interval in &intervals {
                let case = Case::of(self.name()).with_word("op", op).with("interval", Value::Time(*interval));
                let cases = with_threads(machine, group, case, &[1])?.into_iter();
                candidates.extend(cases.map(|case| Candidate::new(case, Ok(())).parsed(&(sleep, *interval))));
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let (sleep, interval): (Sleep, Duration) = parsed.read()?;
        if sleep == Sleep::Realtime {
            set_realtime(true).and_then(|()| set_realtime(false)).map_err(|error| {
                CannotMeasure::not_here(format!(
                    "requires the right to run in real time (root, CAP_SYS_NICE or ulimit -r 1): {error}"
                ))
            })?;
        }
        let cpus = cpus_of_case(cx.machine, case);
        let mut facts = kernel_state::facts(cx.machine);
        let slack = rustix::thread::current_timer_slack().ok();
        facts.achieved.set_some(&TIMER_SLACK_NS, slack.filter(|_| sleep == Sleep::UsualSlack));
        // At most 10 s.
        let interval_ns = interval.as_nanos() as u64;
        let sleeper = |_: &usize| Sleeper { sleep, interval_ns, is_ready: false, next_ns: 0, late_ns: 0 };
        let sleepers = cpus.iter().map(sleeper).collect();
        Ok(Box::new(TimedThreads::new(&cpus, sleepers, None, facts)?))
    }
}

fn limits(_: &Question<'_>) -> Vec<Limit> {
    let why = "no maker documents how exact timers are and how long an idle CPU takes to wake";
    vec![Limit::unknown(LimitKind::Floor, why)]
}

/// Sleeps until one time after the other.
struct Sleeper {
    sleep: Sleep,
    interval_ns: u64,
    /// Whether the calling thread is set up.
    is_ready: bool,
    next_ns: u64,
    late_ns: u64,
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * NS_PER_SECOND + now.tv_nsec.cast_unsigned()
}

impl RepeatedOperation for Sleeper {
    fn repeat(&mut self) -> Result<u32, CannotMeasure> {
        let set_up = match self.sleep {
            _ if self.is_ready => Ok(()),
            Sleep::UsualSlack => Ok(()),
            Sleep::LeastSlack => set_timer_slack(NonZeroU64::new(1)),
            Sleep::Realtime => set_realtime(true),
        };
        set_up.map_err(failed("prctl(2) or sched_setscheduler(2)"))?;
        self.is_ready = true;
        let now = now_ns();
        self.next_ns += self.interval_ns;
        if self.next_ns <= now {
            // The first time, and after a pause or a wake-up later than the interval.
            self.next_ns = now + self.interval_ns;
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
    use crate::fixture::{parse_group, with_each_case};
    use plimsoll_machine::Root;

    #[test]
    fn a_sleeper_is_late_by_less_than_it_sleeps() {
        let measured = with_each_case(&Wake, "", &Default::default(), |_, mut sleeping| {
            let sample = sleeping.sample(SampleAmount::Work(20)).unwrap();
            assert!(sample.elapsed > 0.015, "it slept: {sample:?}");
            assert!((1e-8..0.5).contains(&sample.values[LATENCY_METRIC]), "{sample:?}");
        });
        assert!(measured >= 2, "{measured}");
    }

    #[test]
    fn intervals_out_of_range_are_refused() {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        let cases = |lists| Wake.cases(&machine, &parse_group(lists));
        assert!(cases("interval=1us").is_err() && cases("interval=11s").is_err());
        let case = cases("interval=10ms").unwrap().remove(0).case;
        assert!(crate::SUBSYSTEM.label(&case).contains("interval"), "{}", crate::SUBSYSTEM.label(&case));
    }
}
