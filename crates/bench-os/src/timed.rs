//! Repeats an operation on pinned threads, and records how long it takes.

use std::io;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::os::call;
use plimsoll_metal::team::Team;
use plimsoll_metal::ticks::TickClock;
use plimsoll_metal::usage::usage_of_thread;
use plimsoll_model::sample::Histogram;
use plimsoll_stats::Times;

use crate::LATENCY_METRIC;
use crate::fact::{NULL_CALL, THREAD_CPUS};

/// Calls in a batch that measures the null call, and number of batches.
const NULL_CALLS: u32 = 64;
const NULL_BATCHES: u32 = 32;

pub(crate) trait RepeatedOperation: Send {
    /// Carries out a few operations, all of them timed; returns their number.
    fn repeat(&mut self) -> Result<u32, CannotMeasure>;

    /// Prepares the next call of [`RepeatedOperation::repeat`]; not timed.
    fn reset(&mut self) -> Result<(), CannotMeasure> {
        Ok(())
    }

    /// Measures, at the end of a sample, what its limit needs; not timed.
    fn finish(&mut self) {}

    /// Returns whether a preemption cannot be part of the operation: then calls of
    /// [`RepeatedOperation::repeat`] in which the thread was preempted are excluded.
    fn excludes_preemption(&self) -> bool {
        false
    }

    /// Returns the ns to count for the last [`RepeatedOperation::repeat`], which took `passed` ns.
    fn counted_ns(&self, passed: u64) -> u64 {
        passed
    }

    /// Moves what `all` threads' operations measured in a sample to the sample's conditions.
    fn note_sample(_all: &mut [&mut Self], _conditions: &mut Conditions) {}

    /// Adds what `all` threads' operations measured so far to the facts of the case.
    fn note_facts(_all: &[&Self], _facts: &mut Facts) {}
}

/// Threads that repeat an operation, each pinned to a CPU.
pub(crate) struct TimedThreads<O> {
    team: Team,
    threads: Vec<TimedThread<O>>,
    clock: TickClock,
    /// Name of the metric of operations per second of all threads, if the benchmark has one.
    rate: Option<&'static str>,
    pub(crate) facts: Facts,
    pub(crate) offer: Offer,
}

/// An operation with what its thread measured in the current sample.
struct TimedThread<O> {
    operation: O,
    times: Times,
    all: TimedSum,
    /// Part of `all` during which the thread was preempted.
    preempted: TimedSum,
}

/// Number of operations and their time in ns.
#[derive(Clone, Copy, Default)]
struct TimedSum {
    ns: u64,
    count: u64,
}

impl TimedSum {
    fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.count += other.count;
    }

    fn mean_ns(self) -> f64 {
        self.ns as f64 / self.count.max(1) as f64
    }
}

impl<O: RepeatedOperation> TimedThread<O> {
    fn new(operation: O) -> Self {
        let (all, preempted) = (TimedSum::default(), TimedSum::default());
        Self { operation, times: Times::default(), all, preempted }
    }

    fn run(&mut self, clock: TickClock, amount: SampleAmount) -> Result<(), CannotMeasure> {
        self.times.clear();
        (self.all, self.preempted) = (TimedSum::default(), TimedSum::default());
        let excludes_preemption = self.operation.excludes_preemption();
        let mut preemptions = usage_of_thread().involuntary_switches;
        let start = clock.now_ns();
        loop {
            let begin = clock.now_ns();
            let count = self.operation.repeat()?.max(1);
            let end = clock.now_ns();
            let ns = self.operation.counted_ns(end.saturating_sub(begin));
            let timed = TimedSum { ns, count: u64::from(count) };
            self.all.add(timed);
            if excludes_preemption {
                let before = preemptions;
                preemptions = usage_of_thread().involuntary_switches;
                if preemptions != before {
                    self.preempted.add(timed);
                }
            }
            self.times.record((ns + u64::from(count) / 2) / u64::from(count), count);
            self.operation.reset()?;
            if is_done(amount, self.all.count, end.saturating_sub(start)) {
                self.operation.finish();
                return Ok(());
            }
        }
    }

    /// Returns the sum without operations that were preempted, unless that would leave none.
    fn kept(&self) -> TimedSum {
        let TimedSum { ns, count } = self.all;
        match count.saturating_sub(self.preempted.count) {
            0 => self.all,
            count => TimedSum { ns: ns.saturating_sub(self.preempted.ns), count },
        }
    }
}

fn is_done(amount: SampleAmount, done: u64, passed_ns: u64) -> bool {
    match amount {
        SampleAmount::Work(work) => done >= work,
        SampleAmount::Seconds(seconds) => passed_ns as f64 >= seconds * 1e9,
    }
}

/// Returns the shortest mean time in s of 64 getppid(2) calls in a row, made without the C library;
/// `None` if the call is refused.
pub(crate) fn measure_null_call(clock: TickClock) -> Option<f64> {
    call::get_parent().ok()?;
    let batch = |_| {
        let begin = clock.now_ns();
        call::enter_kernel(NULL_CALLS);
        clock.now_ns().saturating_sub(begin)
    };
    let ns = (0..NULL_BATCHES).map(batch).min()?;
    Some(ns as f64 * 1e-9 / f64::from(NULL_CALLS))
}

impl<O: RepeatedOperation> TimedThreads<O> {
    /// Starts a thread on each of `cpus` with one of `operations`; `rate`: name of a rate metric.
    pub(crate) fn new(
        cpus: &[usize],
        operations: Vec<O>,
        rate: Option<&'static str>,
        mut facts: Facts,
    ) -> Result<Self, CannotMeasure> {
        let team = Team::new(cpus)?;
        let threads = operations.into_iter().map(TimedThread::new).collect();
        let offer = Offer { cpus: cpus.to_vec(), ..Offer::default() };
        facts.achieved.set(&THREAD_CPUS, cpus);
        Ok(Self { team, threads, clock: TickClock::fastest(), rate, facts, offer })
    }
}

/// Returns a function that converts an error of the system call `name`, such as `fork(2)`.
pub(crate) fn failed<E: Into<io::Error>>(name: &str) -> impl Fn(E) -> CannotMeasure {
    use io::ErrorKind::{PermissionDenied, Unsupported};
    move |error| {
        let error = error.into();
        match error.kind() {
            PermissionDenied | Unsupported => CannotMeasure::not_here(format!(
                "{name} is refused ({error}): a seccomp filter or another policy forbids it; measure outside of that container, or \
                 allow the call"
            )),
            _ => CannotMeasure::environment(format!("{name} failed: {error}")),
        }
    }
}

impl<O: RepeatedOperation> Prepared for TimedThreads<O> {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let clock = self.clock;
        let begin = clock.now_ns();
        let null_calls = self.team.run_each(&mut self.threads, |member, thread| {
            thread.run(clock, amount)?;
            Ok((member.index == 0).then(|| measure_null_call(clock)).flatten())
        })?;
        let null_calls = null_calls.into_iter().collect::<Result<Vec<Option<f64>>, CannotMeasure>>()?;
        let elapsed = clock.now_ns().saturating_sub(begin) as f64 * 1e-9;
        let (mut times, mut conditions) = (Times::default(), Conditions::default());
        self.threads.iter().for_each(|thread| times.add(&thread.times));
        if let Some(seconds) = null_calls.into_iter().flatten().next() {
            conditions.more.set(&NULL_CALL, seconds);
        }
        let [mut all, mut preempted, mut kept] = [TimedSum::default(); 3];
        for thread in &self.threads {
            all.add(thread.all);
            preempted.add(thread.preempted);
            kept.add(thread.kept());
        }
        if self.threads.iter().all(|thread| thread.operation.excludes_preemption()) {
            let share = Some(preempted.ns as f64 / all.ns.max(1) as f64);
            conditions.excluded = share;
            conditions.excluded_by.switched = share.filter(|share| *share > 0.0);
            conditions.delivered = Some(all.mean_ns() * 1e-9);
        }
        let mut values = vec![(LATENCY_METRIC.to_owned(), kept.mean_ns() * 1e-9)];
        let rate = self.threads.iter().map(|thread| 1e9 / thread.kept().mean_ns()).sum();
        values.extend(self.rate.map(|name| (name.to_owned(), rate)));
        let mut operations: Vec<&mut O> =
            self.threads.iter_mut().map(|thread| &mut thread.operation).collect();
        O::note_sample(&mut operations, &mut conditions);
        Ok(Sample {
            elapsed,
            values: values.into_iter().collect(),
            histograms: vec![Histogram { metric: LATENCY_METRIC.to_owned(), buckets: times.buckets() }],
            conditions,
            ..Sample::default()
        })
    }

    fn offer(&self) -> Offer {
        self.offer.clone()
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let mut facts = self.facts.clone();
        let all: Vec<&O> = self.threads.iter().map(|thread| &thread.operation).collect();
        O::note_facts(&all, &mut facts);
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::sample::FailureCause;

    struct Counting {
        calls: u32,
        resets: u32,
        fails_at: u32,
    }

    impl RepeatedOperation for Counting {
        fn repeat(&mut self) -> Result<u32, CannotMeasure> {
            self.calls += 1;
            let refused = io::Error::from(io::ErrorKind::PermissionDenied);
            if self.calls == self.fails_at { Err(failed("it")(refused)) } else { Ok(10) }
        }

        fn reset(&mut self) -> Result<(), CannotMeasure> {
            self.resets += 1;
            Ok(())
        }
    }

    fn threads(count: usize, fails_at: u32) -> TimedThreads<Counting> {
        let cpu = plimsoll_metal::affinity::allowed().unwrap()[0];
        let operations = (0..count).map(|_| Counting { calls: 0, resets: 0, fails_at }).collect();
        TimedThreads::new(&vec![cpu; count], operations, Some("rate"), Facts::default()).unwrap()
    }

    #[test]
    fn operations_are_counted_over_all_threads() {
        let mut threads = threads(2, 0);
        let sample = threads.sample(SampleAmount::Work(100)).unwrap();
        assert_eq!(sample.histograms[0].buckets.iter().map(|(_, count)| count).sum::<u64>(), 200);
        assert!(threads.threads.iter().all(|thread| thread.operation.resets == 10));
        assert!(sample.values["rate"] > 0.0 && sample.values[LATENCY_METRIC] >= 0.0);
        let sample = threads.sample(SampleAmount::Seconds(0.002)).unwrap();
        assert!(sample.elapsed >= 0.002, "{sample:?}");
        let null_call = sample.conditions.more.get(&NULL_CALL);
        assert!(null_call.is_none_or(|seconds| (1e-9..1e-3).contains(&seconds)), "{null_call:?}");
        assert_eq!(threads.verify().unwrap().achieved.get(&THREAD_CPUS).map(|cpus| cpus.len()), Some(2));
    }

    /// Computes for about 50 µs.
    struct Spinning;

    impl RepeatedOperation for Spinning {
        fn repeat(&mut self) -> Result<u32, CannotMeasure> {
            let begin = std::time::Instant::now();
            while begin.elapsed().as_micros() < 50 {}
            Ok(1)
        }

        fn excludes_preemption(&self) -> bool {
            true
        }
    }

    #[test]
    fn time_in_which_another_thread_had_the_cpu_is_excluded() {
        let cpu = plimsoll_metal::affinity::allowed().unwrap()[0];
        let both = vec![Spinning, Spinning];
        let mut threads = TimedThreads::new(&[cpu, cpu], both, None, Facts::default()).unwrap();
        let Sample { conditions, values, .. } = threads.sample(SampleAmount::Seconds(0.2)).unwrap();
        assert!(conditions.excluded.unwrap() > 0.2, "{conditions:?}");
        assert_eq!(conditions.excluded_by.switched, conditions.excluded);
        let (kept, delivered) = (values[LATENCY_METRIC], conditions.delivered.unwrap());
        assert!(kept >= 50e-6 && kept < 0.8 * delivered, "{kept} {delivered}");
    }

    #[test]
    fn a_refused_call_is_not_supported_and_not_a_crash() {
        let why = threads(2, 3).sample(SampleAmount::Work(100)).unwrap_err();
        assert_eq!(why.cause, FailureCause::NotHere);
        assert!(why.reason.contains("it is refused") && why.reason.contains("seccomp"));
        let other = failed("fork(2)")(io::Error::from(io::ErrorKind::OutOfMemory));
        assert_eq!(other.cause, FailureCause::Environment);
    }
}
