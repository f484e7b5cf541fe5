//! `cpu.peak`: arithmetic rate of a loop that keeps all multipliers busy from registers. Rate and
//! clock come from the same undisturbed slices.

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::capability::fastest_variant;
use plimsoll_metal::kernel::{ComputeKernel, Op, WrongResult, chained, kernels};
use plimsoll_metal::sliced::{KernelLoad, Proven};
use plimsoll_metal::team::{Team, TeamMember};
use serde::{Deserialize, Serialize};

pub mod limit;

use super::chains::{RequestedChains, runnable};
use super::fact::{KERNEL, WORK};
use super::how::thread_options;
use super::matrix::pairs;
use super::sliced::{Slices, Turns};
use super::{CpuKernel, RATE_METRIC, TIME_METRIC, findings};
use plimsoll_bench_api::fixed::{self, AveragePace, Scaling, scaling};

const MAX_THREADS: u64 = 1 << 16;

/// The benchmark `cpu.peak`.
pub struct Peak;

/// Share of the limit reached by working kernels (0.995 or more in docs/src/performance.md).
const WORKING_KERNEL_SHARE: f64 = 0.97;

/// Core clock in Hz that the expected duration of a fixed amount of work assumes; most are faster.
const ASSUMED_CLOCK: f64 = 2.2e9;

const FLOPS: Metric = Metric::new(RATE_METRIC, Unit::FlopPerSecond, Better::Higher)
    .about("operations per second: of whole numbers OP/s")
    .reaching(WORKING_KERNEL_SHARE);

impl Benchmark for Peak {
    fn descriptor(&self) -> &Descriptor {
        const WIDTH: LabelPart = LabelPart::Case("width", width_in_words);
        &Descriptor {
            name: "cpu.peak",
            about: "arithmetic rate with operands in registers, compared with the core's maximum at its clock",
            words: &[
                LabelPart::Value("op"),
                LabelPart::Value("type"),
                LabelPart::Value("isa"),
                WIDTH,
                LabelPart::Named("chains"),
                LabelPart::Times,
            ],
            keys: &["op", "type", "isa", "width", "chains", "affinity", "threads", "work", "scaling"],
            help: &[(
                "op",
                "fma, add, mul, mix, dot, div, sqrt, crc32c or all (mix: add and mul, dot: dot products) [default: fma]",
            )],
            look: super::look,
            limits: limit::limits,
            findings: findings::peak,
            // Runs differ by less than 2 % even next to other load.
            noise: Some(0.05),
            metrics: const {
                &[
                    FLOPS,
                    Metric::new(TIME_METRIC, Unit::Second, Better::Lower)
                        .about("time of a sample, where its amount is given (--work)"),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn sample_seconds(&self, machine: &Machine, case: &Case) -> Option<f64> {
        let kernel = crate::kernel_of(case).ok()?;
        // Two instructions per cycle; a fused multiply-add is two operations.
        let each = if kernel.op == Op::FMA { 2.0 } else { 1.0 };
        let of_one = 2.0 * each * f64::from(kernel.lanes);
        let cpus = machine.cpu.allowed.len().clamp(1, case.threads()) as f64;
        let operations = of_one * ASSUMED_CLOCK * cpus;
        fixed::estimate_seconds(case, AveragePace { bytes: f64::INFINITY, operations })
    }

    fn roofline(&self, _: &Case) -> Roofline {
        Roofline::Computes(None)
    }

    fn metric_of(&self, case: &Case, row: Metric) -> Option<Metric> {
        let CpuKernel { op, element, work, .. } = CpuKernel::of(case);
        if row.name == TIME_METRIC {
            return work.map(|_| row);
        }
        Some(Metric { unit: super::counted_in(op, element), ..row })
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let pairs = pairs(group)?;
        let asked = RequestedChains::of(group)?;
        let usual = if asked.chains.is_some() { vec![1] } else { default_threads(machine) };
        let threads = counts_in_range(group, "threads", &usual, MAX_THREADS)?;
        let hows = thread_options(machine, group, &threads)?;
        let mut candidates = Vec::new();
        for pair in pairs {
            for case in asked.cases(pair)? {
                let kernel = runnable(&case);
                candidates.extend(hows.iter().map(|how| {
                    let case = case.clone().with_params_of(how);
                    match &kernel {
                        Ok(kernel) => {
                            let job = PeakJob::of(&case, kernel);
                            Candidate::new(case, Ok(())).parsed(&job)
                        }
                        Err(why) => Candidate::new(case, Err(why.clone())),
                    }
                }));
            }
        }
        if candidates.is_empty() { Err(asked.no_case_error()) } else { Ok(candidates) }
    }

    fn prepare(&self, _: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let job: PeakJob = parsed.read()?;
        let cpus = job.threads.cpus(cx.machine);
        let kernel = quickest_on(job.kernel()?, &cpus);
        let loaded = kernel.load().map_err(CannotMeasure::not_here)?;
        let counted = kernel.operations_per_turn();
        let fixed = job.work.map(|each| each.div_ceil(counted.max(1)).max(1));
        let make = |_: TeamMember<'_>| KernelLoad::new(loaded.clone());
        let slices = Slices::prepare(cx.machine, &cpus, Turns { counted, fixed }, make)?;
        Ok(Box::new(PeakTeam { kernel, fixed, slices }))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PeakJob {
    kernel: String,
    threads: Threads,
    work: Option<u64>,
}

impl PeakJob {
    fn of(case: &Case, kernel: &ComputeKernel) -> Self {
        let threads = Threads::of(case);
        let work = CpuKernel::of(case).work.map(|work| match scaling(case) {
            Ok(Scaling::Strong) => work.div_ceil(threads.count.max(1) as u64),
            _ => work,
        });
        Self { kernel: kernel.name.to_owned(), threads, work }
    }

    fn kernel(&self) -> Result<&'static ComputeKernel, CannotMeasure> {
        let found = kernels().chain(chained()).find(|kernel| kernel.name == self.kernel);
        found.ok_or_else(|| CannotMeasure::environment(format!("this version has no kernel {}", self.kernel)))
    }
}

/// Times variants of `kernel` on the first of `cpus` in ms; returns the fastest, else `kernel`.
fn quickest_on(kernel: &'static ComputeKernel, cpus: &[usize]) -> &'static ComputeKernel {
    let first = cpus.get(..1).unwrap_or_default();
    let chosen = Team::new(first).ok().and_then(|mut team| team.run(|_| fastest_variant(kernel)).ok());
    chosen.and_then(|each| each.into_iter().next()).unwrap_or(kernel)
}

struct PeakTeam {
    kernel: &'static ComputeKernel,
    fixed: Option<u64>,
    slices: Slices<KernelLoad>,
}

fn wrong_answer(cpu: usize, load: &KernelLoad, wrong: &WrongResult) -> WrongAnswer {
    let WrongResult { kernel, accumulator, lane, turns, got, wanted } = wrong;
    let made =
        WrongAnswer::new(WrongAnswerSource::Cpu(cpu), *kernel, got.to_string()).expected(wanted.to_string());
    let made = made.detail(format!("accumulator {accumulator}, lane {lane}, after {turns} iterations"));
    WrongAnswer { count: load.deviations().max(1), ..made }
}

const FULL: &[(&str, &str)] =
    &[("sse2", "128"), ("avx2", "256"), ("avx512", "512"), ("amx", "8192"), ("neon", "128"), ("mmla", "128")];

/// Returns the vector width, such as `256 bits`; `None` if absent or implied by the case.
fn width_in_words(case: &Case) -> Option<String> {
    let job = CpuKernel::of(case);
    let ([.., isa], width) = (job.names(), job.width?);
    match width.starts_with(|c: char| c.is_ascii_digit()) {
        true => (!FULL.contains(&(isa, width))).then(|| format!("{width} bits")),
        false => Some(width.to_owned()),
    }
}

/// Operations per cycle of one core.
pub const PER_CYCLE: OwnCondition = OwnCondition::new("operations_per_cycle");

/// Steps of all chains per cycle of one core. Without FMA a step is two instructions.
pub const STEPS_PER_CYCLE: OwnCondition = OwnCondition::new("chain_steps_per_cycle");

impl Prepared for PeakTeam {
    /// Takes a sample without a count of work, so that all have a fixed time, even under steal.
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let outcome = self.slices.measure(amount)?;
        let mut conditions = self.slices.conditions(&outcome);
        if let Some((clock, cores)) = outcome.clock_hz().zip(self.slices.cores) {
            let per_cycle = self.slices.undisturbed(&outcome) / clock / cores as f64;
            conditions.more.set(&PER_CYCLE, per_cycle);
            if self.kernel.chains {
                conditions.more.set(&STEPS_PER_CYCLE, per_cycle / self.kernel.operations_per_step());
            }
        }
        let elapsed = outcome.elapsed.as_secs_f64();
        let values =
            [(RATE_METRIC.to_owned(), self.slices.rate(&outcome)), (TIME_METRIC.to_owned(), elapsed)].into();
        Ok(Sample { elapsed, values, conditions, ..Sample::default() })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let mut proven = Proven::default();
        for (cpu, load) in self.slices.loads() {
            load.verify(&mut proven).map_err(|wrong| wrong_answer(cpu, load, &wrong))?;
        }
        let mut facts = self.slices.facts();
        facts.achieved.set(&KERNEL, self.kernel.name);
        if let Some(turns) = self.fixed {
            let operations = turns.saturating_mul(self.kernel.operations_per_turn());
            let threads = self.slices.loads().count() as u64;
            facts.achieved.set(&WORK, operations.saturating_mul(threads));
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_metal::isa::Isa;

    use super::super::fact::CPUS;
    use super::*;
    use crate::fixture::{group, here, parse_group, prepared};
    use plimsoll_model::sample::FailureCause;

    fn ids(lists: &str) -> Vec<String> {
        Peak.cases(&here(), &parse_group(lists)).unwrap().iter().map(|c| c.case.id().to_string()).collect()
    }

    #[test]
    fn cases_are_the_product_of_the_lists_and_name_the_instruction_set() {
        let best = Isa::best();
        let wanted = [1, 3].map(|n| format!("cpu.peak/op=fma/type=f64/isa={best}/threads={n}"));
        assert_eq!(ids("type=f64/threads=1,3"), wanted);
        assert_eq!(ids(&format!("isa=best,{best}/threads=1")).len(), 2, "one for each type");
    }

    #[test]
    fn a_fixed_amount_is_divided_or_not_and_stands_in_the_id() {
        let machine = here();
        let first = machine.cpu.allowed.first().unwrap();
        for (scaling, each) in [("weak", 1_000_000_007_u64), ("strong", 500_000_004)] {
            let end = format!("affinity={first}/threads=2/work=1000000007/scaling={scaling}");
            let fixed = parse_group(&format!("type=f64/{end}"));
            let candidate = Peak.cases(&machine, &fixed).unwrap().remove(0);
            let case = &candidate.case;
            assert!(case.id().as_str().ends_with(&end), "{case}");
            assert_eq!(Peak.metrics(case)[1].name, "time");
            let mut running = prepared(&Peak, &candidate, &machine);
            let taken: Vec<Sample> =
                (0..40).filter_map(|_| running.sample(SampleAmount::Seconds(0.01)).ok()).take(2).collect();
            assert_eq!(taken.len(), 2);
            assert!(taken.iter().all(|sample| sample.values["time"] > 0.0), "{taken:?}");
            let facts = running.verify().unwrap().achieved;
            let achieved = facts.get(&WORK).unwrap();
            assert!((2 * each..2 * each + 4000).contains(&achieved), "{scaling}: {achieved}");
            assert_eq!(facts.get(&CPUS), Some(vec![first]));
        }
        let error = |key, word| Peak.cases(&machine, &group(&[(key, &[word])])).unwrap_err();
        assert!(error("scaling", "strong").contains("requires --work"));
        assert!(error("scaling", "amdahl").starts_with("scaling must be"));
        assert!(error("affinity", "8191").starts_with("affinity: CPU 8191"));
    }

    #[test]
    fn each_number_of_chains_is_a_case_on_one_thread_and_is_measured_and_verified() {
        if Isa::best() == Isa::Portable {
            return;
        }
        let machine = here();
        let candidates = Peak.cases(&machine, &parse_group("type=f64/chains=1,3/width=128")).unwrap();
        let ids: Vec<String> = candidates.iter().map(|c| c.case.id().to_string()).collect();
        assert!(ids[0].ends_with("/width=128/chains=1/threads=1"), "{ids:?}");
        assert!(ids[1].ends_with("/width=128/chains=3/threads=1"), "{ids:?}");
        for candidate in candidates.iter().filter(|c| c.feasible.is_ok()) {
            let mut running = prepared(&Peak, candidate, &machine);
            let sample = (0..200).find_map(|_| running.sample(SampleAmount::Seconds(0.005)).ok()).unwrap();
            let more = &sample.conditions.more;
            let known = |row| more.get(row).is_some();
            assert_eq!(known(&STEPS_PER_CYCLE), known(&PER_CYCLE), "{more:?}");
            running.verify().unwrap();
        }
    }

    #[test]
    fn wrong_values_are_refused_in_one_line_with_the_choices() {
        let error = |key, text| Peak.cases(&here(), &group(&[(key, &[text])])).unwrap_err();
        let wanted = "op must be one of fma, add, mul, mix, dot, div, sqrt, crc32c: 'cbrt' is not";
        assert_eq!(error("op", "cbrt"), wanted);
        assert!(error("type", "f8\n").starts_with("type must be one of"));
        assert!(!error("isa", "a\u{1b}[31m\nb").contains(['\n', '\u{1b}']));
        for count in ["0", "1099511627776"] {
            let error = error("threads", count);
            assert!(error.starts_with("threads must be"), "{error}");
        }
    }

    #[test]
    fn an_instruction_set_that_is_absent_is_listed_with_the_reason() {
        let machine = here();
        let absent = Isa::ALL.into_iter().find(|isa| isa.available().is_err()).unwrap();
        let candidates = Peak.cases(&machine, &group(&[("isa", &[absent.name()])])).unwrap();
        let reason = candidates[0].feasible.clone().unwrap_err();
        assert_eq!(reason.cause, FailureCause::NotHere);
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
        let machine = here();
        let more = machine.cpu.allowed.len() as u64 + 1;
        let of = |lists: &str| Peak.cases(&machine, &parse_group(lists)).unwrap();
        let mut candidates = of("isa=all/op=all/type=all/threads=1");
        candidates.extend(of(&format!("isa=all/threads={more}")));
        let feasible: Vec<_> = candidates.iter().filter(|c| c.feasible.is_ok()).collect();
        assert!(feasible.len() >= 4);
        for candidate in feasible {
            let case = &candidate.case;
            let mut running = prepared(&Peak, candidate, &machine);
            for amount in [SampleAmount::Seconds(0.005), SampleAmount::Work(10_000_000)] {
                let mut sample = running.sample(amount);
                for _ in 0..200 {
                    sample = sample.or_else(|_| running.sample(amount));
                }
                let sample = sample.unwrap();
                assert!(sample.values["rate"] > 1e6 && sample.elapsed > 0.0, "{case}: {sample:?}");
                assert!(sample.conditions.excluded.is_none_or(|share| (0.0..=1.0).contains(&share)));
                assert!(sample.conditions.delivered.unwrap() > 0.0);
            }
            let facts = running.verify().unwrap();
            let crowded = facts.warnings.iter().any(|w| w.code() == "more-threads-than-cpus");
            assert_eq!(crowded, case.threads() as u64 == more, "{case}");
        }
    }
}
