//! `cpu.peak`: the arithmetic rate of a loop that keeps every multiplier busy from registers alone.
//!
//! Work is cut into slices of some 25 µs, and the core clock is probed each quarter of a millisecond; rate and clock
//! come from the same undisturbed slices (`plimsoll_metal::sliced`), so the figure is comparable to its limit to the
//! per mille also on a busy machine. Every slice starts from the same numbers and must end in the same bits.

use std::time::Duration;

use plimsoll_metal::capability::quickest;
use plimsoll_metal::clock::named_maximum_hz;
use plimsoll_metal::kernel::Kernel;
use plimsoll_metal::sliced::{KernelLoad, Outcome, Proven, Sliced, SlicedError, Until};
use plimsoll_metal::team::Team;

pub mod limit;

use super::chains::{Asked, runnable};
use super::fact::{CPUS, KERNEL, WORK};
use super::findings;
use super::how::{clocks_of, hows, kinds, siblings};
use super::matrix::pairs;
use super::warning::CpuWarning;
use super::{RATE, TIME};
use crate::bench::apart::Apart;
use crate::bench::fixed::{self, Pace, Scaling, scaling};
use crate::bench::{
    Benchmark, Better, Candidate, Context, Metric, Parsed, Prepared, Roofline, Say, counts, default_threads,
    placed,
};
use crate::case::Case;
use crate::limit::{Limit, Question};
use crate::machine::cgroup::CpuQuota;
use crate::machine::cpu::CoreKind;
use crate::machine::{CpuSet, Machine};
use crate::plan::Group;
use crate::quantity::Unit;
use crate::sample::{
    Amount, CannotMeasure, Condition, Conditions, ExcludedBy, Facts, Numbers, Sample, WrongAnswer,
};
use crate::view::{Finding, RunView};
use crate::warning::{Note, Warning};

/// More threads than any machine has CPUs; a number beyond it is a slip of the keyboard.
const MAX_THREADS: u64 = 1 << 16;

/// Longest sample that is asked of the slices; far longer than any plan.
const MAX_SECONDS: f64 = 1e6;

/// The benchmark itself.
pub struct Peak;

/// The headline; of whole numbers it counts operations.
const FLOPS: Metric = Metric::new(RATE, Unit::FlopPerSecond, Better::Higher)
    .about("operations per second: of whole numbers OP/s");

impl Benchmark for Peak {
    fn name(&self) -> &'static str {
        "cpu.peak"
    }

    fn about(&self) -> &'static str {
        "arithmetic rate from registers, beside what the core's units can do at the clock it held"
    }

    fn sample_seconds(&self, case: &Case) -> Option<f64> {
        // Vector operations of a few cores.
        fixed::seconds(case, Pace { bytes: f64::INFINITY, operations: 1e11 })
    }

    fn words(&self) -> &'static [Say] {
        const WIDTH: Say = Say::Case("width", width_in_words);
        &[Say::Value("op"), Say::Value("type"), Say::Value("isa"), WIDTH, Say::Named("chains"), Say::Times]
    }

    fn keys(&self) -> &'static [&'static str] {
        &["op", "type", "isa", "width", "chains", "place", "threads", "work", "scaling"]
    }

    fn roofline(&self, _: &Case) -> Roofline {
        Roofline::Computes(None)
    }

    fn all_metrics(&self) -> &'static [Metric] {
        const {
            &[
                FLOPS,
                Metric::new(TIME, Unit::Second, Better::Lower)
                    .about("time of a sample, where its amount is given (--work)"),
            ]
        }
    }

    fn metrics(&self, case: &Case) -> Vec<Metric> {
        let op = case.word("op").and_then(|word| word.parse().ok());
        let element = case.word("type").and_then(|word| word.parse().ok());
        let rate = Metric { unit: super::counted_in(op, element), ..FLOPS };
        let further = self.all_metrics()[1..].iter().filter(|_| case.number("work").is_some());
        [rate].into_iter().chain(further.copied()).collect()
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let pairs = pairs(group)?;
        let asked = Asked::of(group)?;
        // How chains overlap is a matter of one core.
        let usual = if asked.chains() { vec![1] } else { default_threads(machine) };
        let threads = counts(group, "threads", &usual, MAX_THREADS)?;
        let hows = hows(machine, group)?;
        let mut candidates = Vec::new();
        for pair in pairs {
            for case in asked.cases(pair)? {
                let feasible = runnable(&case).map(|_| ());
                for how in &hows {
                    let named = |&n: &u64| Candidate::new(how.named(case.clone(), n), feasible.clone());
                    candidates.extend(threads.iter().map(named));
                }
            }
        }
        match candidates.is_empty() {
            true => Err(asked.nothing()),
            false => Ok(candidates),
        }
    }

    /// What was interrupted is not in the figure, and the clock hardly moves: runs differ by less than 2 % even beside
    /// other work.
    fn noise(&self, _: &str) -> Option<f64> {
        Some(0.05)
    }

    fn look(&self, machine: &mut Machine) {
        super::look(machine);
    }

    fn findings(&self, run: &RunView<'_>) -> Vec<Finding> {
        findings::peak(run)
    }

    fn limits(&self, question: &Question<'_>) -> Vec<Limit> {
        limit::limits(question)
    }

    fn prepare(&self, case: &Case, _: &Parsed, cx: &Context<'_>) -> Result<Box<dyn Prepared>, CannotMeasure> {
        let kernel = runnable(case)?;
        let cpus = placed(cx.machine, case);
        let kernel = quickest_on(kernel, &cpus);
        let loaded = kernel.load().map_err(|absence| CannotMeasure::not_here(absence.to_string()))?;
        let team = Team::new(&cpus).map_err(|error| CannotMeasure::environment(error.to_string()))?;
        let sliced = Sliced::prepare(team, |_| KernelLoad::new(loaded.clone()))
            .map_err(|error| CannotMeasure::environment(error.to_string()))?;
        let set: CpuSet = cpus.iter().copied().collect();
        let quota = cx.machine.cgroup.cpu_quota.clone().filter(|quota| quota.cpus() < set.len() as f64);
        let work = case.number("work").map(|work| match scaling(case) {
            Ok(Scaling::Strong) => work.div_ceil(cpus.len().max(1) as u64),
            _ => work,
        });
        Ok(Box::new(Running {
            kernel,
            sliced,
            // A look would be taken from the quota.
            apart: quota.is_none().then(|| Apart::of(cx.machine, case, &cpus)),
            quota,
            turns: work.map(|each| each.div_ceil(kernel.operations_per_turn().max(1)).max(1)),
            warm: false,
            cores: cx.machine.cpu.cores_of(&set).unwrap_or(set.len()),
            siblings: siblings(cx.machine, &set),
            hidden: cx.machine.cpu.hidden_among(&set),
            kinds: kinds(cx.machine, &set),
            fastest: None,
        }))
    }
}

/// Of the kernels that do the same, the one that is quickest on the first of these CPUs. On a team of its own: the calling
/// thread stays where it is.
fn quickest_on(kernel: &'static Kernel, cpus: &[usize]) -> &'static Kernel {
    let first = cpus.get(..1).unwrap_or_default();
    let chosen = Team::new(first).ok().and_then(|mut team| team.run(|_| quickest(kernel)).ok());
    chosen.and_then(|each| each.into_iter().next()).unwrap_or(kernel)
}

/// A kernel loaded on every thread of a pinned team.
struct Running {
    kernel: &'static Kernel,
    sliced: Sliced<KernelLoad>,
    /// A quota that gives less time than the CPUs have.
    quota: Option<CpuQuota>,
    apart: Option<Apart>,
    /// Turns of each thread in each sample, where the amount is fixed.
    turns: Option<u64>,
    /// Whether the warm-up is over.
    warm: bool,
    cores: usize,
    siblings: Vec<CpuSet>,
    /// Those that the kernel does not show.
    hidden: Vec<CpuSet>,
    /// The kinds of core that the threads are on, where there are several on this machine.
    kinds: Vec<CoreKind>,
    /// The highest clock of a sample, in Hz.
    fastest: Option<f64>,
}

/// Instruction sets with the bits of their longest vectors.
const FULL: &[(&str, &str)] =
    &[("sse2", "128"), ("avx2", "256"), ("avx512", "512"), ("amx", "8192"), ("neon", "128"), ("mmla", "128")];

/// The bits of a vector, or that there is none; not where the name of the instruction set says them.
fn width_in_words(case: &Case) -> Option<String> {
    let (isa, width) = (case.word("isa").unwrap_or_default(), case.word("width")?);
    match width.starts_with(|c: char| c.is_ascii_digit()) {
        true => (!FULL.contains(&(isa, width))).then(|| format!("{width} bits")),
        false => Some(width.to_owned()),
    }
}

/// Share by which a core may run faster than the maximum that it names, by the uncertainty of both.
const ABOVE_MAXIMUM: f64 = 1.02;

/// A warning where a core seems to run faster than the maximum that it names.
fn above_maximum(clock_hz: f64) -> Option<CpuWarning> {
    let maximum_hz = named_maximum_hz().filter(|maximum| clock_hz > maximum * ABOVE_MAXIMUM)?;
    Some(CpuWarning::AboveMaximum { clock_hz, maximum_hz })
}

impl Running {
    /// Turns of the loop on each thread that make up at least `operations` over all threads.
    fn turns(&self, operations: u64) -> u64 {
        let per_turn = self.kernel.operations_per_turn().saturating_mul(self.sliced.cpus().len() as u64);
        operations.div_ceil(per_turn.max(1)).max(1)
    }

    fn sample_of(&self, outcome: &Outcome) -> Sample {
        let operations = self.kernel.operations_per_turn() as f64;
        let undisturbed = outcome.turns_per_second() * operations;
        // What the program got, disturbed slices and all.
        let delivered = outcome.delivered_turns_per_second * operations;
        let mut more = Numbers::default();
        if let Some(clock) = outcome.clock_hz() {
            let per_cycle = undisturbed / clock / self.cores.max(1) as f64;
            more.set(&PER_CYCLE, per_cycle);
            if self.kernel.chains {
                more.set(&STEPS_PER_CYCLE, per_cycle / self.kernel.operations_per_step());
            }
        }
        let clocks: Vec<_> = outcome.cpus.iter().map(|cpu| (cpu.cpu, cpu.clock_hz)).collect();
        more.add(clocks_of(&self.kinds, &clocks));
        let conditions = Conditions {
            clock_hz: outcome.clock_hz(),
            set_aside: Some(outcome.set_aside()),
            delivered: Some(delivered),
            excluded: ExcludedBy::of(&outcome.causes()),
            vector_units_shared: outcome.units_shared(),
            more,
            ..Conditions::default()
        };
        let elapsed = outcome.elapsed.as_secs_f64();
        // Where a quota gives less than the CPUs, what it gives is the figure.
        let rate = if self.quota.is_some() { delivered } else { undisturbed };
        let values = [(RATE.to_owned(), rate), (TIME.to_owned(), elapsed)].into();
        Sample { elapsed, values, conditions, ..Sample::default() }
    }

    /// A time of at least `seconds` that has whole periods of the quota, so that each sample has its share of it.
    fn whole_periods(&self, seconds: f64) -> Duration {
        let period = self.quota.as_ref().map_or(0.0, |quota| quota.period_us as f64 * 1e-6);
        let seconds = seconds.clamp(0.0, MAX_SECONDS);
        Duration::from_secs_f64(if period > 0.0 { (seconds / period).ceil() * period } else { seconds })
    }

    fn until(&mut self, amount: Amount) -> Until {
        let first = !std::mem::replace(&mut self.warm, true);
        match (amount, self.turns) {
            (_, Some(turns)) if !first => Until::Turns(turns),
            (Amount::Work(operations), _) => Until::Turns(self.turns(operations)),
            (Amount::Seconds(seconds), _) => Until::Elapsed(self.whole_periods(seconds)),
        }
    }

    fn why(&self, error: &SlicedError) -> String {
        match (&self.quota, error) {
            (Some(quota), SlicedError::AllDisturbed { cpu, slices }) => format!(
                "CPU {cpu}: no slice of {slices} could be used, as a cgroup quota allows {:.2} CPUs' worth of time: \
                 raise it, or give a longer --sample-time",
                quota.cpus()
            ),
            _ => error.to_string(),
        }
    }
}

/// How often a sample without one undisturbed slice is taken again before the case is given up: short samples on a busy
/// machine often have none.
const AGAIN: usize = 20;

/// Operations in a cycle of one core.
pub const PER_CYCLE: Condition =
    Condition::new("operations_per_cycle", "1", "operations in a cycle of one core");

/// Steps of all chains in a cycle of one core. A step is one instruction, or a multiplication and an addition where the
/// instruction set fuses none.
pub const STEPS_PER_CYCLE: Condition =
    Condition::new("chain_steps_per_cycle", "1", "steps of all chains in a cycle of one core");

impl Prepared for Running {
    /// Reports no work of its own: every slice does the same amount already, and a sample of fixed length keeps to the
    /// budget also where most of the time is stolen.
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure> {
        let until = self.until(amount);
        let mut outcome = self.sliced.measure(until);
        for _ in 0..AGAIN {
            if !matches!(outcome, Err(SlicedError::AllDisturbed { .. })) {
                break;
            }
            outcome = self.sliced.measure(until);
        }
        match outcome {
            Ok(outcome) => {
                let mut sample = self.sample_of(&outcome);
                self.fastest = self.fastest.into_iter().chain(outcome.clock_hz()).reduce(f64::max);
                sample.conditions.core_to_core = self.apart.as_mut().and_then(Apart::look);
                Ok(sample)
            }
            Err(error) => Err(CannotMeasure::environment(self.why(&error))),
        }
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
        facts.warnings.extend(self.apart.as_ref().and_then(Apart::warning).map(Note::from));
        facts.achieved.set(&KERNEL, self.kernel.name);
        facts.achieved.set(&CPUS, cpus.iter().collect::<Vec<_>>());
        if threads > distinct {
            facts.warnings.push(Warning::MoreThreadsThanCpus { threads, cpus: distinct }.into());
        }
        if let Some(quota) = &self.quota {
            facts.warnings.push(Warning::CpuQuota { cpus: quota.cpus() }.into());
        }
        if let Some(turns) = self.turns {
            let operations = turns.saturating_mul(self.kernel.operations_per_turn());
            facts.achieved.set(&WORK, operations.saturating_mul(threads as u64));
        }
        if !self.siblings.is_empty() {
            facts.warnings.push(CpuWarning::SmtSiblings(self.siblings.clone()).into());
        }
        if !self.hidden.is_empty() {
            facts.warnings.push(CpuWarning::HiddenSiblings(self.hidden.clone()).into());
        }
        facts.warnings.extend(self.fastest.and_then(above_maximum).map(Note::from));
        let clock_unknown = self.sliced.clock_unknown().map(CpuWarning::ClockUnknown);
        facts.warnings.extend(clock_unknown.map(Note::from));
        facts
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_metal::isa::Isa;

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
    fn a_fixed_amount_is_divided_or_not_and_stands_in_the_id() {
        let machine = Machine::discover(&Root::live());
        let first = machine.cpu.allowed.first().unwrap();
        let fixed = |scaling: &str| {
            words("type", &["f64"])
                .with("threads", threads(&[2]))
                .with("work", vec![Value::Count(1_000_000_007)])
                .with("scaling", vec![Value::Word(scaling.to_owned())])
                .with("place", vec![Value::Word(first.to_string())])
        };
        let options = Options { dir: "/".into(), seed: 1, ..Options::default() };
        let keep = Keep::default();
        let cx = Context { machine: &machine, options: &options, keep: &keep };
        for (scaling, each) in [("weak", 1_000_000_007_u64), ("strong", 500_000_004)] {
            let case = Peak.cases(&machine, &fixed(scaling)).unwrap().remove(0).case;
            let end = format!("place={first}/threads=2/work=1000000007/scaling={scaling}");
            assert!(case.id().as_str().ends_with(&end), "{case}");
            assert_eq!(Peak.metrics(&case)[1].name, "time");
            let mut running = Peak.prepare(&case, &Parsed::default(), &cx).unwrap();
            // The first is the warm-up, as long as it is told.
            let taken: Vec<Sample> =
                (0..40).filter_map(|_| running.sample(Amount::Seconds(0.01)).ok()).take(2).collect();
            assert_eq!(taken.len(), 2);
            assert!(taken.iter().all(|sample| sample.values["time"] > 0.0), "{taken:?}");
            running.verify().unwrap();
            let achieved = running.facts().achieved.get(&WORK).unwrap();
            assert!((2 * each..2 * each + 4000).contains(&achieved), "{scaling}: {achieved}");
            assert_eq!(running.facts().achieved.get(&CPUS), Some(vec![first]));
        }
        let strong = words("scaling", &["strong"]);
        assert!(Peak.cases(&machine, &strong).unwrap_err().contains("give it by --work"));
        assert!(Peak.cases(&machine, &words("scaling", &["amdahl"])).unwrap_err().starts_with("scaling: "));
        assert!(Peak.cases(&machine, &words("place", &["8191"])).unwrap_err().starts_with("place: CPU 8191"));
    }

    #[test]
    fn each_number_of_chains_is_a_case_on_one_thread_and_is_measured_and_verified() {
        if Isa::best() == Isa::Portable {
            return;
        }
        let machine = Machine::discover(&Root::live());
        let options = Options { dir: "/".into(), seed: 1, ..Options::default() };
        let keep = Keep::default();
        let cx = Context { machine: &machine, options: &options, keep: &keep };
        let group = words("type", &["f64"]).with("chains", threads(&[1, 3]));
        let group = group.with("width", vec![Value::Word("128".to_owned())]);
        let candidates = Peak.cases(&machine, &group).unwrap();
        let ids: Vec<String> = candidates.iter().map(|c| c.case.id().to_string()).collect();
        assert!(ids[0].ends_with("/width=128/chains=1/threads=1"), "{ids:?}");
        assert!(ids[1].ends_with("/width=128/chains=3/threads=1"), "{ids:?}");
        for candidate in candidates.iter().filter(|c| c.feasible.is_ok()) {
            let mut running = Peak.prepare(&candidate.case, &candidate.parsed, &cx).unwrap();
            let sample = (0..200).find_map(|_| running.sample(Amount::Seconds(0.005)).ok()).unwrap();
            let more = &sample.conditions.more;
            let known = |row| more.get(row).is_some();
            assert_eq!(known(&STEPS_PER_CYCLE), known(&PER_CYCLE), "{more:?}");
            running.verify().unwrap();
        }
    }

    #[test]
    fn wrong_values_are_refused_in_one_line_with_the_choices() {
        let machine = Machine::discover(&Root::live());
        let error = |group: &Group| Peak.cases(&machine, group).unwrap_err();
        assert_eq!(
            error(&words("op", &["cbrt"])),
            "op: unknown operation \"cbrt\": choose fma, add, mul, mix, dot, div, sqrt or crc32c"
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
        assert_eq!(unit("cpu.peak/op=crc32c/type=i64/isa=sse2/threads=1"), Unit::BytePerSecond);
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
            let mut running = Peak.prepare(case, &Parsed::default(), &cx).unwrap();
            for amount in [Amount::Seconds(0.005), Amount::Work(10_000_000)] {
                // On a busy machine it happens that no slice is undisturbed.
                let mut sample = running.sample(amount);
                for _ in 0..200 {
                    sample = sample.or_else(|_| running.sample(amount));
                }
                let sample = sample.unwrap();
                assert!(sample.values["rate"] > 1e6 && sample.elapsed > 0.0, "{case}: {sample:?}");
                assert!(sample.conditions.set_aside.is_some_and(|share| (0.0..=1.0).contains(&share)));
                assert!(sample.conditions.delivered.unwrap() > 0.0);
            }
            running.verify().unwrap();
            let facts = running.facts();
            let crowded = facts.warnings.iter().any(|w| w.code() == "more-threads-than-cpus");
            assert_eq!(crowded, case.threads() as u64 == more, "{case}");
        }
    }
}
