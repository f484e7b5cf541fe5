//! `cpu.peak`: the arithmetic rate of a loop that keeps every multiplier busy from registers alone.
//!
//! Work is cut into slices of a quarter of a millisecond, each between two probes of the core clock; rate and clock
//! come from the same undisturbed slices (`plimsoll_metal::sliced`), so the figure is comparable to its limit to the
//! per mille also on a busy machine. Every slice starts from the same numbers and must end in the same bits.

use std::time::Duration;

use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{Element, Kernel, Op};
use plimsoll_metal::sliced::{KernelLoad, Outcome, Proven, Sliced, Until};
use plimsoll_metal::team::Team;

use super::matrix::{Pair, one, pairs, row};
use crate::bench::{Benchmark, Better, Candidate, Context, Metric, Prepared, default_threads, place};
use crate::case::Case;
use crate::machine::{CpuSet, Machine};
use crate::plan::Group;
use crate::quantity::Unit;
use crate::sample::{Amount, CannotMeasure, Conditions, Facts, Sample, WrongAnswer};
use crate::warning::Warning;

/// More threads than any machine has CPUs; a number beyond it is a slip of the keyboard.
const MAX_THREADS: u64 = 1 << 16;

/// Longest sample that is asked of the slices; far longer than any plan.
const MAX_SECONDS: f64 = 1e6;

/// The benchmark itself.
pub struct Peak;

impl Benchmark for Peak {
    fn name(&self) -> &'static str {
        "cpu.peak"
    }

    fn about(&self) -> &'static str {
        "arithmetic rate from registers, beside what the core's units can do at the clock it held"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["op", "type", "isa", "threads"]
    }

    fn metrics(&self, case: &Case) -> Vec<Metric> {
        let element = case.word("type").and_then(|word| word.parse::<Element>().ok());
        let integers = element.is_some_and(|element| !element.is_float());
        let unit = if integers { Unit::OpPerSecond } else { Unit::FlopPerSecond };
        vec![Metric { name: "rate", unit, better: Better::Higher }]
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let pairs = pairs(group)?;
        let isas = group.words("isa", &["best"]);
        let threads = group.numbers("threads", &default_threads(machine));
        if let Some(n) = threads.iter().find(|n| !(1..=MAX_THREADS).contains(*n)) {
            return Err(format!("threads: {n} is out of range; write a number from 1 to {MAX_THREADS}"));
        }
        let mut candidates = Vec::new();
        for pair in pairs {
            for isa in pair.isas(&isas)? {
                let feasible = row(pair, isa).map(|_| ());
                let words = |case: Case| {
                    case.with_word("op", pair.op.name())
                        .with_word("type", pair.element.name())
                        .with_word("isa", isa.name())
                };
                candidates.extend(threads.iter().map(|&n| Candidate {
                    case: words(Case::of(self.name())).with_count("threads", n),
                    feasible: feasible.clone(),
                }));
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, cx: &Context<'_>) -> Result<Box<dyn Prepared>, CannotMeasure> {
        let word = |key| case.word(key).unwrap_or_default();
        let bad = CannotMeasure::not_here;
        let pair = Pair {
            op: one::<Op>("op", word("op")).map_err(bad)?,
            element: one::<Element>("type", word("type")).map_err(bad)?,
        };
        let kernel = row(pair, one::<Isa>("isa", word("isa")).map_err(bad)?)?;
        let cpus = place(cx.machine, case.threads());
        let loaded = kernel.load().map_err(|absence| CannotMeasure::not_here(absence.to_string()))?;
        let team = Team::new(&cpus).map_err(|error| CannotMeasure::environment(error.to_string()))?;
        let sliced = Sliced::prepare(team, |_| KernelLoad::new(loaded.clone()))
            .map_err(|error| CannotMeasure::environment(error.to_string()))?;
        Ok(Box::new(Running {
            kernel,
            sliced,
            quota: cx.machine.cgroup.cpu_quota.as_ref().map(|q| q.cpus()),
        }))
    }
}

/// A kernel loaded on every thread of a pinned team.
struct Running {
    kernel: &'static Kernel,
    sliced: Sliced<KernelLoad>,
    quota: Option<f64>,
}

impl Running {
    /// Turns of the loop on each thread that make up at least `operations` over all threads.
    fn turns(&self, operations: u64) -> u64 {
        let per_turn = self.kernel.operations_per_turn().saturating_mul(self.sliced.cpus().len() as u64);
        operations.div_ceil(per_turn.max(1)).max(1)
    }

    fn sample_of(&self, outcome: &Outcome) -> Sample {
        let operations = self.kernel.operations_per_turn() as f64;
        let rate = outcome.turns_per_second() * operations;
        // What the program got, disturbed slices and all.
        let delivered = outcome.delivered_turns_per_second * operations;
        let conditions = Conditions {
            clock_hz: outcome.clock_hz(),
            set_aside: Some(outcome.set_aside()),
            more: [("delivered".to_owned(), delivered)].into(),
            ..Conditions::default()
        };
        Sample {
            elapsed: outcome.elapsed.as_secs_f64(),
            values: [("rate".to_owned(), rate)].into(),
            conditions,
            ..Sample::default()
        }
    }
}

impl Prepared for Running {
    /// Reports no work of its own: every slice does the same amount already, and a sample of fixed length keeps to the
    /// budget also where most of the time is stolen.
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure> {
        let until = match amount {
            Amount::Work(operations) => Until::Turns(self.turns(operations)),
            Amount::Seconds(seconds) => {
                Until::Elapsed(Duration::from_secs_f64(seconds.clamp(0.0, MAX_SECONDS)))
            }
        };
        let outcome =
            self.sliced.measure(until).map_err(|error| CannotMeasure::environment(error.to_string()))?;
        Ok(self.sample_of(&outcome))
    }

    fn verify(&mut self) -> Result<(), WrongAnswer> {
        let mut proven = Proven::default();
        let cpus = self.sliced.cpus().iter();
        cpus.zip(self.sliced.loads()).try_for_each(|(cpu, load)| {
            load.verify(&mut proven).map_err(|wrong| WrongAnswer(format!("CPU {cpu}: {wrong}")))
        })
    }

    fn facts(&self) -> Facts {
        let threads = self.sliced.cpus().len();
        let cpus: CpuSet = self.sliced.cpus().iter().copied().collect();
        let distinct = cpus.len();
        let mut facts = Facts::default();
        facts.achieved.insert("kernel".to_owned(), self.kernel.name.into());
        facts.achieved.insert("cpus".to_owned(), cpus.iter().collect::<Vec<_>>().into());
        if threads > distinct {
            facts.warnings.push(Warning::MoreThreadsThanCpus { threads, cpus: distinct });
        }
        if let Some(cpus) = self.quota.filter(|cpus| *cpus < distinct as f64) {
            facts.warnings.push(Warning::CpuQuota { cpus });
        }
        if let Some(why) = self.sliced.clock_unknown() {
            facts.warnings.push(Warning::Other { code: "clock-unknown".to_owned(), text: why.to_string() });
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Keep, Options};
    use crate::case::Value;
    use crate::machine::Root;
    use crate::sample::Cause;

    fn words(key: &str, words: &[&str]) -> Group {
        Group::default().with(key, words.iter().map(|w| Value::Word((*w).to_owned())).collect())
    }

    fn ids(group: &Group) -> Vec<String> {
        let machine = Machine::discover(&Root::live());
        Peak.cases(&machine, group).unwrap().iter().map(|c| c.case.id().to_string()).collect()
    }

    fn threads(counts: &[u64]) -> Vec<Value> {
        counts.iter().map(|n| Value::Count(*n)).collect()
    }

    #[test]
    fn cases_are_the_product_of_the_lists_and_name_the_instruction_set() {
        let group = words("type", &["f64"]).with("threads", threads(&[1, 3]));
        let best = Isa::best();
        let wanted = [1, 3].map(|n| format!("cpu.peak/op=fma/type=f64/isa={best}/threads={n}"));
        assert_eq!(ids(&group), wanted);
        let twice = words("isa", &["best", best.name()]).with("threads", threads(&[1]));
        assert_eq!(ids(&twice).len(), 2, "one for each type");
    }

    #[test]
    fn wrong_values_are_refused_in_one_line_with_the_choices() {
        let machine = Machine::discover(&Root::live());
        let error = |group: &Group| Peak.cases(&machine, group).unwrap_err();
        assert_eq!(
            error(&words("op", &["cbrt"])),
            "op: unknown operation \"cbrt\": choose fma, add, mul, mix, dot, div or sqrt"
        );
        assert!(error(&words("type", &["f8\n"])).starts_with("type: unknown type of number"));
        assert!(!error(&words("isa", &["a\u{1b}[31m\nb"])).contains(['\n', '\u{1b}']));
        for count in [0, 1 << 40] {
            let error = error(&Group::default().with("threads", threads(&[count])));
            assert!(error.starts_with("threads: "), "{error}");
        }
    }

    #[test]
    fn an_instruction_set_that_is_absent_is_listed_with_the_reason() {
        let machine = Machine::discover(&Root::live());
        let absent = Isa::ALL.into_iter().find(|isa| isa.available().is_err()).unwrap();
        let candidates = Peak.cases(&machine, &words("isa", &[absent.name()])).unwrap();
        let reason = candidates[0].feasible.clone().unwrap_err();
        assert_eq!(reason.cause, Cause::NotHere);
        assert!(reason.reason.contains(absent.name()), "{reason}");
    }

    #[test]
    fn integers_are_counted_in_operations_and_floating_point_in_flop() {
        let unit = |id: &str| Peak.metrics(&id.parse().unwrap())[0].unit;
        assert_eq!(unit("cpu.peak/op=add/type=i8/isa=sse2/threads=1"), Unit::OpPerSecond);
        assert_eq!(unit("cpu.peak/op=dot/type=bf16/isa=avx512/threads=1"), Unit::FlopPerSecond);
    }

    #[test]
    fn every_kernel_here_is_sampled_and_verified() {
        let machine = Machine::discover(&Root::live());
        let options = Options { dir: "/".into(), seed: 1, ..Options::default() };
        let keep = Keep::default();
        let cx = Context { machine: &machine, options: &options, keep: &keep };
        let more = machine.cpu.allowed.len() as u64 + 1;
        let all = || vec![Value::Word("all".to_owned())];
        let group = words("isa", &["all"]).with("op", all()).with("type", all());
        let mut candidates = Peak.cases(&machine, &group.with("threads", threads(&[1]))).unwrap();
        candidates
            .extend(Peak.cases(&machine, &words("isa", &["all"]).with("threads", threads(&[more]))).unwrap());
        let feasible: Vec<_> = candidates.iter().filter(|c| c.feasible.is_ok()).collect();
        assert!(feasible.len() >= 4);
        for candidate in feasible {
            let case = &candidate.case;
            let mut running = Peak.prepare(case, &cx).unwrap();
            for amount in [Amount::Seconds(0.005), Amount::Work(10_000_000)] {
                // On a busy machine it happens that no slice is undisturbed.
                let sample = (0..50).find_map(|_| running.sample(amount).ok()).unwrap();
                assert!(sample.values["rate"] > 1e6 && sample.elapsed > 0.0, "{case}: {sample:?}");
                assert!(sample.conditions.set_aside.is_some_and(|share| (0.0..=1.0).contains(&share)));
                assert!(sample.conditions.more["delivered"] > 0.0);
            }
            running.verify().unwrap();
            let facts = running.facts();
            let crowded = facts.warnings.iter().any(|w| w.code() == "more-threads-than-cpus");
            assert_eq!(crowded, case.threads() as u64 == more, "{case}");
        }
    }
}
