//! `os.noise`: time taken from a thread that only reads the clock, on each CPU at once. A gap
//! between two readings beyond the threshold is an interruption by an interrupt, another thread,
//! the hypervisor or the firmware.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::team::Team;
use plimsoll_metal::ticks::TickClock;
use plimsoll_model::sample::Histogram;
use plimsoll_stats::Times;

use crate::fact::{FIRMWARE_INTERRUPTS, THREAD_CPUS};
use crate::{kernel_state, times_in};

const DEFAULT_THRESHOLD: Duration = Duration::from_micros(5);
const THRESHOLD_RANGE: [Duration; 2] = [Duration::from_nanos(200), Duration::from_secs(1)];
/// Readings of the clock between two looks at the time that has passed.
const READINGS_PER_LOOK: u32 = 1024;
/// Register of Intel processors that counts interrupts to the firmware (MSR_SMI_COUNT).
const SMI_COUNT_REGISTER: u64 = 0x34;

const TAKEN_METRIC: &str = "taken";
const GAP_METRIC: &str = "gap";
const LONGEST_METRIC: &str = "longest";
const GAP_RATE_METRIC: &str = "gap_rate";

/// The benchmark `os.noise`.
pub struct Noise;

impl Benchmark for Noise {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "os.noise",
            about: "time that interruptions take from a spinning thread on each CPU: share, longest gap, histogram",
            keys: &["threshold"],
            help: &[(
                "threshold",
                "shortest gap between two readings of the clock that counts as an interruption [default: 5us]",
            )],
            words: &[
                LabelPart::Word("time taken, all CPUs"),
                LabelPart::Case("threshold", |case| {
                    let threshold =
                        case.get("threshold").filter(|v| **v != Value::Time(DEFAULT_THRESHOLD))?;
                    Some(format!("gaps from {threshold}"))
                }),
            ],
            curves: &[Curve { x: "cpu", x_unit: "", log: false, y: TAKEN_METRIC, y_unit: "1" }],
            limits,
            metrics: const {
                &[
                    Metric::new(TAKEN_METRIC, Unit::One, Better::Lower)
                        .about("share of the time in gaps, mean over the CPUs"),
                    Metric::new(LONGEST_METRIC, Unit::Second, Better::Lower)
                        .about("longest gap on any CPU")
                        .informative()
                        .shown_between("longest", ""),
                    Metric::new(GAP_RATE_METRIC, Unit::PerSecond, Better::Lower)
                        .about("gaps a second, mean over the CPUs")
                        .informative()
                        .shown_between("", "gaps"),
                    Metric::new(GAP_METRIC, Unit::Second, Better::Lower)
                        .about("duration of a gap: mean, and percentiles over all CPUs")
                        .informative(),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let thresholds = times_in(group, "threshold", DEFAULT_THRESHOLD, THRESHOLD_RANGE)?;
        let feasible = match machine.cpu.allowed.is_empty() {
            true => Err(CannotMeasure::not_here("the CPUs of this process are unknown")),
            false => Ok(()),
        };
        let candidate = |threshold: Duration| {
            let case = Case::of(self.name()).with("threshold", Value::Time(threshold));
            Candidate::new(case, feasible.clone()).parsed(&threshold)
        };
        Ok(thresholds.into_iter().map(candidate).collect())
    }

    fn prepare(&self, _: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let threshold: Duration = parsed.read()?;
        let team = Team::new(&cx.machine.cpu.allowed.iter().collect::<Vec<_>>())?;
        let mut facts = kernel_state::facts(cx.machine);
        facts.achieved.set(&THREAD_CPUS, team.cpus());
        let threshold_ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
        Ok(Box::new(Spinning { team, clock: TickClock::fastest(), threshold_ns, facts }))
    }
}

fn limits(question: &Question<'_>) -> Vec<Limit> {
    let why = "a CPU that only one thread uses may run without any interruption (nohz_full)";
    if question.metric == TAKEN_METRIC { vec![Limit::unknown(LimitKind::Floor, why)] } else { Vec::new() }
}

struct Spinning {
    team: Team,
    clock: TickClock,
    threshold_ns: u64,
    facts: Facts,
}

/// Gaps seen by the thread of one CPU.
#[derive(Default)]
struct Gaps {
    times: Times,
    longest_ns: u64,
    passed_ns: u64,
}

impl Gaps {
    /// Reads the clock for `wanted_ns`, and records gaps of at least `threshold_ns` in between.
    fn seen(clock: TickClock, wanted_ns: u64, threshold_ns: u64) -> Self {
        let mut gaps = Self::default();
        let start = clock.now_ns();
        let mut last = start;
        while last.saturating_sub(start) < wanted_ns {
            for _ in 0..READINGS_PER_LOOK {
                let now = clock.now_ns();
                let gap = now.saturating_sub(last);
                if gap >= threshold_ns {
                    gaps.times.record(gap, 1);
                    gaps.longest_ns = gaps.longest_ns.max(gap);
                }
                last = now;
            }
        }
        gaps.passed_ns = last.saturating_sub(start).max(1);
        gaps
    }

    fn taken(&self) -> f64 {
        self.times.sum_ns() as f64 / self.passed_ns as f64
    }

    fn per_second(&self) -> f64 {
        self.times.count() as f64 * 1e9 / self.passed_ns as f64
    }
}

/// Returns the firmware interrupts (SMIs) of a CPU since its start; `None` if it does not count
/// them, or its registers are not readable.
fn firmware_interrupts(cpu: usize) -> Option<u64> {
    let mut count = [0_u8; 8];
    let registers = File::open(format!("/dev/cpu/{cpu}/msr")).ok()?;
    registers.read_exact_at(&mut count, SMI_COUNT_REGISTER).ok()?;
    Some(u64::from_ne_bytes(count))
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

impl Prepared for Spinning {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let seconds = amount.seconds()?;
        let (clock, threshold) = (self.clock, self.threshold_ns);
        let wanted = (seconds.clamp(0.0, 1e6) * 1e9) as u64;
        let firmware = |cpus: &[usize]| cpus.iter().map(|cpu| firmware_interrupts(*cpu)).sum::<Option<u64>>();
        let before = firmware(self.team.cpus());
        let all = self.team.run(|_| Gaps::seen(clock, wanted, threshold))?;
        let mut conditions = Conditions::default();
        let smi = firmware(self.team.cpus()).and_then(|after| Some(after.saturating_sub(before?) as f64));
        smi.into_iter().for_each(|count| conditions.more.set(&FIRMWARE_INTERRUPTS, count));
        // The time that the kernel kept the threads waiting is the measured figure.
        conditions.waited = Some(0.0);
        let mut times = Times::default();
        all.iter().for_each(|gaps| times.add(&gaps.times));
        let longest = all.iter().map(|gaps| gaps.longest_ns).max().unwrap_or_default() as f64 * 1e-9;
        let curve = self.team.cpus().iter().zip(&all).map(|(cpu, gaps)| {
            let longest = gaps.longest_ns as f64 * 1e-9;
            let point = [("cpu", *cpu as f64), (TAKEN_METRIC, gaps.taken()), (LONGEST_METRIC, longest)];
            CurvePoint::from(point.map(|(name, value)| (name.to_owned(), value)))
        });
        let values = [
            (TAKEN_METRIC, mean(all.iter().map(Gaps::taken))),
            (LONGEST_METRIC, longest),
            (GAP_RATE_METRIC, mean(all.iter().map(Gaps::per_second))),
        ];
        let gap = times.mean().map(|mean| (GAP_METRIC, mean));
        Ok(Sample {
            elapsed: all.iter().map(|gaps| gaps.passed_ns).max().unwrap_or(1) as f64 * 1e-9,
            values: values.into_iter().chain(gap).map(|(name, value)| (name.to_owned(), value)).collect(),
            histograms: vec![Histogram { metric: GAP_METRIC.to_owned(), buckets: times.buckets() }],
            curve: curve.collect(),
            conditions,
            ..Sample::default()
        })
    }

    fn offer(&self) -> Offer {
        Offer { cpus: self.team.cpus().to_vec(), ..Offer::default() }
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        Ok(self.facts.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_bench_api::{Options, WorkerCache};
    use plimsoll_machine::Root;

    #[test]
    fn the_time_in_gaps_is_part_of_the_time_on_each_cpu() {
        let (machine, options) = (Machine::discover(&Root::live()), Options::default());
        let cx = Context { machine: &machine, options: &options, keep: &WorkerCache::default() };
        let candidate = Noise.cases(&machine, &Group::default()).unwrap().remove(0);
        let mut spinning = Noise.prepare(&candidate.case, &candidate.parsed, &cx).unwrap();
        let sample = spinning.sample(SampleAmount::Seconds(0.05)).unwrap();
        assert!(sample.elapsed >= 0.05 && sample.curve.len() == machine.cpu.allowed.len());
        assert!((0.0..1.0).contains(&sample.values[TAKEN_METRIC]), "{sample:?}");
        assert!(sample.values[LONGEST_METRIC] <= sample.elapsed);
        assert!(spinning.sample(SampleAmount::Work(5)).is_err());
    }

    /// A thread that is stopped for a known time has a gap at least as long.
    #[test]
    fn a_shorter_threshold_sees_at_least_as_many_gaps() {
        let clock = TickClock::fastest();
        let seen = Gaps::seen(clock, 20_000_000, 1);
        assert!(seen.taken() > 0.9, "each reading is a gap then: {}", seen.taken());
        let none = Gaps::seen(clock, 1_000_000, u64::MAX);
        assert_eq!((none.times.count(), none.longest_ns), (0, 0));
    }

    #[test]
    fn thresholds_out_of_range_are_refused() {
        let machine = Machine::discover(&Root::live());
        let cases = |lists| Noise.cases(&machine, &plimsoll_model::fixture::parse_group(lists));
        assert!(cases("threshold=1ns").is_err() && cases("threshold=2s").is_err());
    }
}
