//! `cpu.core-to-core`: one-way latency between two CPUs, for every pair of allowed CPUs: half a
//! round trip of a cache line between two pinned threads (`plimsoll_metal::handover`).

use std::time::{Duration, Instant};

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::handover::{HandoverError, HandoverMethod, ThreadPair};

use super::fact::MEASURED_PAIRS;
use super::pairs::{choose_pairs, pairs_of, shared_resource};
use super::warning::CpuWarning;
use super::{CaseWord, LATENCY_METRIC, findings};
use plimsoll_model::sample::Cell;
use plimsoll_stats::median;

const LEAST_FOR_A_PAIR: Duration = Duration::from_millis(2);
const MAX_SECONDS: f64 = 1e6;

/// The benchmark `cpu.core-to-core`.
pub struct CoreToCore;

impl Benchmark for CoreToCore {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "cpu.core-to-core",
            about: "time until a CPU sees what another CPU wrote, for each pair of CPUs",
            words: &[LabelPart::Word("core to core"), LabelPart::Value("op")],
            keys: &["op"],
            help: &[("op", "cas, store or all (cas: compare-and-swap) [default: all]")],
            by_default: false,
            findings: findings::siblings::find,
            metrics: const {
                &[Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower)
                    .about("time until a CPU sees what another wrote: the median over the pairs")]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let candidate = |(name, exchange): (&str, HandoverMethod)| {
            let case = Case::of(self.name()).with_word("op", name);
            Candidate::new(case, enough(machine)).parsed(&exchange)
        };
        Ok(group.values("op", HandoverMethod::CASE_WORDS)?.into_iter().map(candidate).collect())
    }

    fn limits(&self, _: &Question<'_>) -> Vec<Limit> {
        let why = "no maker documents how long a cache line takes from core to core, and distance alone bounds nothing near \
                   it; give --limits FILE";
        vec![Limit::unknown(LimitKind::Floor, why)]
    }

    fn prepare(&self, _: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        enough(cx.machine)?;
        Ok(Box::new(Pairs::new(cx.machine, parsed.read()?, cx.options.seed, bounce)))
    }
}

fn enough(machine: &Machine) -> Result<(), CannotMeasure> {
    let allowed = &machine.cpu.allowed;
    if allowed.len() >= 2 {
        return Ok(());
    }
    Err(CannotMeasure::not_here(format!(
        "requires two CPUs, and this process may use only '{allowed}'; widen taskset or the cpuset"
    )))
}

type Bounce = fn([usize; 2], HandoverMethod, Duration) -> Result<Vec<f64>, HandoverError>;

/// Measures the latency between two CPUs for `time` on two new threads, which end afterwards.
fn bounce(cpus: [usize; 2], exchange: HandoverMethod, time: Duration) -> Result<Vec<f64>, HandoverError> {
    ThreadPair::new(cpus)?.bounce(exchange, time)
}

struct Pairs {
    exchange: HandoverMethod,
    bounce: Bounce,
    /// CPUs, and what they share.
    pairs: Vec<([usize; 2], Option<String>)>,
    of: usize,
    /// Last reason why a pair stalled, and how often that was.
    stalled: Option<(String, usize)>,
    wrong: Option<WrongAnswer>,
}

impl Pairs {
    fn new(machine: &Machine, exchange: HandoverMethod, seed: u64, bounce: Bounce) -> Self {
        let cpu = &machine.cpu;
        let pairs = choose_pairs(cpu, &cpu.allowed, seed).into_iter();
        let pairs = pairs.map(|cpus| (cpus, shared_resource(cpu, cpus))).collect();
        Self { exchange, bounce, pairs, of: pairs_of(cpu.allowed.len()), stalled: None, wrong: None }
    }

    /// Returns the median one-way latency between two CPUs in seconds, measured for `time`. `None`
    /// if the transfer stalled or was wrong, which is recorded; an error if it could not start.
    fn latency(&mut self, cpus: [usize; 2], time: Duration) -> Result<Option<f64>, CannotMeasure> {
        match (self.bounce)(cpus, self.exchange, time) {
            Ok(one_way) => Ok(median(one_way)),
            Err(stalled @ HandoverError::Stalled(_)) => {
                let times = self.stalled.as_ref().map_or(0, |(_, times)| *times) + 1;
                self.stalled = Some((stalled.to_string(), times));
                Ok(None)
            }
            Err(HandoverError::Miscounted { cpus, turns }) => {
                let got = format!("{} of {} turns", turns[1], turns[0]);
                let operation = "handing a cache line over";
                self.wrong = Some(WrongAnswer::new(WrongAnswerSource::Cpus(cpus.to_vec()), operation, got));
                Ok(None)
            }
            Err(other) => Err(CannotMeasure::environment(other)),
        }
    }
}

/// Returns the matrix entries of a pair of CPUs in both directions, each with the latency `value`
/// in seconds and `mark`; `None` for CPU numbers beyond 32 bits.
fn cells(cpus: [usize; 2], mark: Option<&String>, value: f64) -> Option<[Cell; 2]> {
    let [a, b] = cpus.map(u32::try_from);
    let (a, b) = (a.ok()?, b.ok()?);
    let cell = |row, column| Cell { row, column, value, mark: mark.cloned() };
    Some([cell(a, b), cell(b, a)])
}

impl Prepared for Pairs {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let seconds = amount.seconds()?;
        let share = seconds.clamp(0.0, MAX_SECONDS) / self.pairs.len().max(1) as f64;
        let each = Duration::from_secs_f64(share).max(LEAST_FOR_A_PAIR);
        let begun = Instant::now();
        let (mut matrix, mut latencies) = (Vec::new(), Vec::new());
        for index in 0..self.pairs.len() {
            let cpus = self.pairs[index].0;
            if let Some(latency) = self.latency(cpus, each)? {
                latencies.push(latency);
                matrix.extend(cells(cpus, self.pairs[index].1.as_ref(), latency).into_iter().flatten());
            }
        }
        let why = || match (&self.wrong, &self.stalled) {
            (Some(wrong), _) => wrong.clone().into(),
            (None, stalled) => {
                CannotMeasure::environment(stalled.as_ref().map_or("", |(why, _)| why.as_str()))
            }
        };
        let latency = median(latencies).ok_or_else(why)?;
        Ok(Sample {
            elapsed: begun.elapsed().as_secs_f64(),
            values: [(LATENCY_METRIC.to_owned(), latency)].into(),
            matrix,
            ..Sample::default()
        })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        self.wrong.take().map_or(Ok(()), Err)?;
        let mut facts = Facts::default();
        facts.achieved.set(&MEASURED_PAIRS, self.pairs.len());
        if self.pairs.len() < self.of {
            facts.warnings.push(CpuWarning::PairsChosen { measured: self.pairs.len(), of: self.of }.into());
        }
        if let Some((why, times)) = &self.stalled {
            facts.warnings.push(CpuWarning::PairsStalled { times: *times, why: why.clone() }.into());
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::fixture::{here, parse_group, prepared};
    use plimsoll_machine::Root;
    use plimsoll_model::sample::FailureCause;

    fn machine(allowed: &str) -> Machine {
        let mut machine = Machine::discover(&Root::at("/nonexistent"));
        machine.cpu.allowed = allowed.parse().unwrap();
        machine
    }

    const BY_DISTANCE: Bounce = |cpus, exchange, _| {
        let near = if exchange == HandoverMethod::Store { 20e-9 } else { 10e-9 };
        let one_way = near * (cpus[1] - cpus[0]) as f64;
        Ok(vec![one_way, 1e-3, one_way])
    };
    const WITHOUT_2: Bounce = |cpus, exchange, time| match cpus.contains(&2) {
        true => Err(HandoverError::Stalled(cpus)),
        false => BY_DISTANCE(cpus, exchange, time),
    };
    const MISCOUNTED: Bounce = |cpus, _, _| Err(HandoverError::Miscounted { cpus, turns: [7, 6] });

    fn pairs(allowed: &str, bounce: Bounce) -> Pairs {
        Pairs::new(&machine(allowed), HandoverMethod::CompareAndSwap, 1, bounce)
    }

    #[test]
    fn both_hand_overs_are_cases_and_others_are_refused() {
        let ids = |lists| -> Result<Vec<String>, String> {
            let candidates = CoreToCore.cases(&machine("0-3"), &parse_group(lists))?;
            Ok(candidates.iter().map(|c| c.case.to_string()).collect())
        };
        assert_eq!(ids("").unwrap(), ["cpu.core-to-core/op=cas", "cpu.core-to-core/op=store"]);
        assert_eq!(ids("op=store").unwrap(), ["cpu.core-to-core/op=store"]);
        let error = ids("op=fma").unwrap_err();
        assert!(error.starts_with("op must be one of cas, store: 'fma"), "{error}");
        assert!(!CoreToCore.descriptor().by_default);
    }

    #[test]
    fn one_cpu_has_no_pair() {
        let candidates = CoreToCore.cases(&machine("5"), &Group::default()).unwrap();
        let refusal = candidates[0].feasible.clone().unwrap_err();
        assert_eq!(refusal.cause, FailureCause::NotHere);
        assert!(refusal.reason.contains("may use only '5'"), "{refusal}");
    }

    #[test]
    fn each_pair_has_the_median_of_its_bursts_in_both_directions() {
        let mut pairs = pairs("0-2", BY_DISTANCE);
        let sample = pairs.sample(SampleAmount::Seconds(0.0)).unwrap();
        assert_eq!(sample.values["latency"], 10e-9);
        let ns = |value: f64| (value * 1e9).round() as u32;
        let found: Vec<_> = sample.matrix.iter().map(|at| [at.row, at.column, ns(at.value)]).collect();
        let expected = [[0, 1, 10], [1, 0, 10], [0, 2, 20], [2, 0, 20]];
        assert_eq!(found[..4], expected);
        assert_eq!((found.len(), sample.work), (6, None));
        let facts = pairs.verify().unwrap();
        assert_eq!((facts.achieved.get(&MEASURED_PAIRS), facts.warnings.len()), (Some(3), 0));
    }

    #[test]
    fn a_cpu_that_does_not_answer_costs_its_own_pairs() {
        let mut some = pairs("0-3", WITHOUT_2);
        let sample = some.sample(SampleAmount::Seconds(0.1)).unwrap();
        assert!(sample.matrix.len() == 6 && sample.matrix.iter().all(|c| c.row != 2 && c.column != 2));
        let warnings = some.verify().unwrap().warnings;
        assert_eq!(warnings[0].code(), "pairs-stalled");
        assert!(warnings[0].to_string().contains("left out of a sample 3 times"), "{}", warnings[0]);
        let none = pairs("1-2", WITHOUT_2).sample(SampleAmount::Seconds(0.1)).unwrap_err();
        assert!(none.cause == FailureCause::Environment, "{none}");
        assert!(none.reason.contains("CPUs 1 and 2: no hand-over"), "{none}");
    }

    #[test]
    fn turns_that_do_not_add_up_void_the_measurement() {
        let mut broken = pairs("0-1", MISCOUNTED);
        let cannot = broken.sample(SampleAmount::Seconds(0.1)).unwrap_err();
        assert_eq!(cannot.wrong.unwrap().got, "6 of 7 turns");
        assert_eq!(broken.verify().unwrap_err().cause, FailureCause::WrongAnswer);
    }

    #[test]
    fn of_many_cpus_only_some_pairs_are_measured_and_that_is_said() {
        let mut many = pairs("0-127", BY_DISTANCE);
        let sample = many.sample(SampleAmount::Seconds(0.1)).unwrap();
        assert_eq!(sample.matrix.len(), 2 * pairs_of(64));
        let warnings = many.verify().unwrap().warnings;
        assert_eq!(warnings[0].code(), "pairs-chosen");
        assert!(warnings[0].to_string().starts_with("2016 of 8128 pairs"), "{}", warnings[0]);
    }

    #[test]
    fn an_amount_of_work_is_refused() {
        let refused = pairs("0-1", BY_DISTANCE).sample(SampleAmount::Work(5)).unwrap_err();
        assert!(refused.reason.contains("--sample-time"), "{refused}");
    }

    #[test]
    fn the_pairs_of_this_machine_are_measured() {
        let machine = here();
        if enough(&machine).is_err() {
            writeln!(std::io::stderr(), "SKIPPED the pairs of this machine: needs two CPUs").unwrap();
            return;
        }
        for candidate in CoreToCore.cases(&machine, &Group::default()).unwrap() {
            let mut prepared = prepared(&CoreToCore, &candidate, &machine);
            let sample = prepared.sample(SampleAmount::Seconds(0.01)).unwrap();
            assert!(sample.values["latency"] > 1e-10, "{sample:?}");
            assert_eq!(sample.matrix.len() % 2, 0);
            assert!(sample.matrix.iter().all(|cell| cell.value > 1e-10 && cell.row != cell.column));
            prepared.verify().unwrap();
        }
    }
}
