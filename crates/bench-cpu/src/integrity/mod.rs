//! `cpu.integrity`: proves CPUs. Each runs every kernel in bursts of microseconds, and each answer
//! is compared with the right one. A wrong answer is repeated there and on another core.

mod burst;
mod proof;

use std::sync::Arc;
use std::time::Instant;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::team::Team;
use serde::{Deserialize, Serialize};

pub(crate) use burst::{Burst, BurstMaker, WrongBurst};
use proof::{BURSTS_PER_VISIT, BurstCondition, CpuProof, WrongKernel};

use super::crypto;
use super::dense::{self, MAX_THREADS, seats};
use super::fact::CPUS;
use plimsoll_machine::Cpu;
use plimsoll_model::sample::{Elsewhere, Repeated, Trials};
use plimsoll_units::text::format_count;

/// Default bursts of each kernel on each CPU in a sample. Six samples find an answer that is wrong
/// once in 1000 bursts in 99.97 % of the cases.
const DEFAULT_BURSTS: u64 = 1400;
const MAX_BURSTS: u64 = 1 << 32;
const INPUTS_PER_KERNEL: u64 = 4;
/// Bursts with which a wrong answer is repeated on a CPU.
const REPEATED_BURSTS: u64 = 8000;

const ANSWERS_METRIC: &str = "answers";
const PROVEN_CPUS: CaseFact<Vec<usize>> = CaseFact::new("proven");
const COMPARED_KERNELS: CaseFact<usize> = CaseFact::new("kernels");

/// The benchmark `cpu.integrity`.
pub struct Integrity;

impl Benchmark for Integrity {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "cpu.integrity",
            about: "whether CPUs compute correctly: every kernel in short bursts on every CPU, each result checked",
            words: &[LabelPart::Word("right answers"), LabelPart::Times],
            keys: &["count", "affinity", "threads"],
            help: &[(
                "count",
                "how many times each CPU runs each test computation in a sample, checking each result [default: 1400]",
            )],
            by_default: false,
            proves_cpus: true,
            details,
            metrics: const {
                &[Metric::new(ANSWERS_METRIC, Unit::One, Better::Higher)
                    .about("answers that were compared with the right one, over all CPUs")
                    .informative()]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let all = machine.cpu.allowed.len().max(1) as u64;
        let seats = seats(machine, group, &[all.min(MAX_THREADS)])?;
        let counts = counts_in_range(group, "count", &[DEFAULT_BURSTS], MAX_BURSTS)?;
        let mut candidates = Vec::new();
        for bursts in counts {
            candidates.extend(seats.iter().map(|cpus| {
                let case = Case::of(self.name()).with_count("count", bursts).with_params_of(cpus);
                let job = IntegrityJob { bursts, threads: Threads::of(&case) };
                Candidate::new(case, Ok(())).parsed(&job)
            }));
        }
        Ok(candidates)
    }

    fn sample_seconds(&self, _: &Machine, case: &Case) -> Option<f64> {
        // For a burst of each kernel, on Emerald Rapids.
        Some(500e-6 * case.number("count")? as f64)
    }

    fn prepare(&self, _: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let IntegrityJob { bursts, threads } = parsed.read()?;
        let cpus: CpuSet = threads.cpus(cx.machine).into_iter().collect();
        let cpus: Vec<usize> = cpus.iter().collect();
        let mut team = Team::new(&cpus)?;
        let caches = dense::caches(cx.machine, &threads);
        let made = team.run(|member| match member.index {
            0 => makers(member.cpu, caches).map(Some),
            _ => Ok(None),
        })?;
        let made = made.into_iter().next().transpose()?.flatten();
        let makers: Arc<[BurstMaker]> = made.unwrap_or_default().into();
        let seed = cx.options.seed;
        let proofs = team.run(|member| CpuProof::new(&makers, member.cpu, seed))?.into_iter();
        let proofs = proofs.collect::<Result<_, _>>().map_err(CannotMeasure::environment)?;
        let batches = batches(&cx.machine.cpu, &cpus);
        let cpu = cx.machine.cpu.clone();
        Ok(Box::new(ProofTeam { cpu, team, makers, proofs, batches, bursts, done: 0, seed }))
    }
}

fn details(made: &Measurement) -> Vec<String> {
    let facts = &made.achieved;
    let (Some(cpus), Some(kernels), Some(answers)) =
        (facts.get(&PROVEN_CPUS), facts.get(&COMPARED_KERNELS), made.headline())
    else {
        return Vec::new();
    };
    let bursts = answers.samples.iter().sum::<f64>() / (kernels * cpus.len()).max(1) as f64;
    let cpus: CpuSet = cpus.into_iter().collect();
    vec![format!("all right: {} × {kernels} kernels on CPUs {cpus}", format_count(bursts as u64, "burst"))]
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct IntegrityJob {
    bursts: u64,
    threads: Threads,
}

/// Returns the makers of all bursts, with their right answers, which are computed here on CPU
/// `cpu`; the calling thread must be pinned to it.
fn makers(cpu: usize, caches: plimsoll_metal::gemm::CoreCaches) -> Result<Vec<BurstMaker>, CannotMeasure> {
    let mut all = burst::kernels(INPUTS_PER_KERNEL);
    all.extend(crypto::ciphers(INPUTS_PER_KERNEL)?);
    all.extend(dense::products(INPUTS_PER_KERNEL));
    all.extend(dense::systems(cpu).map_err(CannotMeasure::environment)?);
    all.extend(burst::memory(caches));
    Ok(all)
}

/// CPUs that work at the same time, for a share (0 to 1) of the bursts.
#[derive(Debug, PartialEq)]
struct ProofBatch {
    cpus: CpuSet,
    share: f64,
}

/// Returns sets of `cpus` to test together: all and, if cores are shared, one CPU of each core.
fn batches(cpu: &Cpu, cpus: &[usize]) -> Vec<ProofBatch> {
    let all: CpuSet = cpus.iter().copied().collect();
    let rank = |number: &usize| cpu.siblings_of(*number).common(&all).iter().position(|one| one == *number);
    let most = cpus.iter().filter_map(rank).max().unwrap_or(0);
    if most == 0 {
        return vec![ProofBatch { cpus: all, share: 1.0 }];
    }
    let of_rank =
        |wanted: usize| cpus.iter().copied().filter(|number| rank(number) == Some(wanted)).collect();
    let alone = (0..=most).map(|wanted| ProofBatch { cpus: of_rank(wanted), share: 0.5 });
    alone.chain([ProofBatch { cpus: all.clone(), share: 0.5 }]).collect()
}

struct ProofTeam {
    cpu: Cpu,
    team: Team,
    makers: Arc<[BurstMaker]>,
    proofs: Vec<CpuProof>,
    batches: Vec<ProofBatch>,
    bursts: u64,
    done: u64,
    seed: u64,
}

impl ProofTeam {
    /// Returns the wrong answer of the kernel with most wrong answers; `None` if all are right.
    fn wrong(&self) -> Result<Option<WrongAnswer>, CannotMeasure> {
        let all = self.team.cpus().iter().zip(&self.proofs);
        let all = all.flat_map(|(cpu, proof)| proof.wrong.iter().map(move |wrong| (*cpu, wrong)));
        let Some((cpu, wrong)) = all.max_by_key(|(_, wrong)| wrong.count) else { return Ok(None) };
        self.blame(cpu, wrong).map(Some)
    }

    /// Repeats the kernel and the right answer on `cpu` and another core; describes what was wrong.
    fn blame(&self, cpu: usize, wrong: &WrongKernel) -> Result<WrongAnswer, CannotMeasure> {
        let (wrong_there, mut is_confirmed) = self.trial(cpu, wrong)?;
        let other = self.cpu.on_another_core(cpu).or_else(|| self.cpu.allowed.iter().find(|it| *it != cpu));
        let elsewhere = other.map(|other| self.trial(other, wrong)).transpose()?;
        is_confirmed &= elsewhere.is_none_or(|(_, is_confirmed)| is_confirmed);
        let WrongBurst { got, expected, at } = wrong.first.clone();
        if !is_confirmed && elsewhere.is_none_or(|(wrong, _)| wrong > 0) {
            return Ok(self.wrong_reference(wrong, other));
        }
        let (core, socket) = self.cpu.logical(cpu).map_or((None, None), |it| (it.core, it.package));
        let core = core.map(|core| format!("core {core}"));
        let socket = socket.map(|socket| format!("socket {socket}"));
        let before = format!("{} of {} bursts before the repetition", wrong.count, self.done);
        let detail = [core, socket, Some(at), Some(wrong.condition.to_string()), Some(before)];
        let detail: Vec<String> = detail.into_iter().flatten().collect();
        let trials = |wrong: u64, of: u64| Trials {
            wrong: u32::try_from(wrong).unwrap_or(u32::MAX),
            of: u32::try_from(REPEATED_BURSTS + of).unwrap_or(u32::MAX),
        };
        let repeated = Repeated {
            there: trials(wrong.count + wrong_there, self.done),
            elsewhere: other
                .zip(elsewhere)
                .map(|(cpu, (wrong, _))| Elsewhere { cpu, trials: trials(wrong, 0) }),
        };
        let made = WrongAnswer::new(WrongAnswerSource::Cpu(cpu), &wrong.kernel, got)
            .expected(expected)
            .detail(detail.join(", "));
        Ok(WrongAnswer { count: wrong.count + wrong_there, repeated: Some(repeated), ..made })
    }

    /// Describes a right answer that was itself computed wrongly, as a repetition on `other` shows.
    fn wrong_reference(&self, wrong: &WrongKernel, other: Option<usize>) -> WrongAnswer {
        let known = self.team.cpus().first().copied().unwrap_or_default();
        let operation = format!("the portable reference of {}", wrong.kernel);
        let origin = WrongAnswerSource::Cpu(known);
        let made = WrongAnswer::new(origin, operation, &wrong.first.expected).expected(&wrong.first.got);
        let right = Trials { wrong: 0, of: 1 };
        let repeated = Repeated {
            there: Trials { wrong: 1, of: 2 },
            elsewhere: other.map(|cpu| Elsewhere { cpu, trials: right }),
        };
        WrongAnswer {
            repeated: Some(repeated),
            ..made.detail("computed again, it differs from the first result")
        }
    }

    /// Runs the kernel of a wrong answer on one CPU. Returns the number of wrong answers, and
    /// whether the right answer, computed again there, equals the known right answer.
    fn trial(&self, cpu: usize, wrong: &WrongKernel) -> Result<(u64, bool), CannotMeasure> {
        let mut team = Team::new(&[cpu])?;
        let (seed, maker) = (self.seed, &self.makers[wrong.index..=wrong.index]);
        let tried = team.run(|member| -> Result<_, String> {
            let mut proof = CpuProof::new(maker, member.cpu, seed)?;
            proof.visit(0, REPEATED_BURSTS, BurstCondition::Loaded);
            let is_confirmed = proof.bursts[0].confirm(wrong.input);
            Ok((proof.wrong.first().map_or(0, |wrong| wrong.count), is_confirmed))
        })?;
        let tried = tried.into_iter().next().unwrap_or_else(|| Err("no trial was made".to_owned()));
        tried.map_err(CannotMeasure::environment)
    }
}

impl Prepared for ProofTeam {
    fn sample(&mut self, _: SampleAmount) -> Result<Sample, CannotMeasure> {
        // The first call is the warm-up.
        let bursts = if self.done == 0 { BURSTS_PER_VISIT } else { self.bursts };
        let begun = Instant::now();
        let batches = &self.batches;
        self.team.run_each(&mut self.proofs, |member, proof| {
            for ProofBatch { cpus, share } in batches {
                member.barrier();
                if cpus.contains(member.cpu) {
                    proof.run((bursts as f64 * share).ceil() as u64);
                }
            }
        })?;
        self.done += bursts;
        if let Some(wrong) = self.wrong()? {
            return Err(wrong.into());
        }
        let elapsed = begun.elapsed().as_secs_f64();
        let answers = bursts as f64 * (self.makers.len() * self.proofs.len()) as f64;
        Ok(Sample { elapsed, values: [(ANSWERS_METRIC.to_owned(), answers)].into(), ..Sample::default() })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        self.wrong()?.map_or(Ok(()), Err)?;
        let mut facts = Facts::default();
        facts.achieved.set(&CPUS, self.team.cpus());
        facts.achieved.set(&PROVEN_CPUS, self.team.cpus());
        facts.achieved.set(&COMPARED_KERNELS, self.makers.len());
        Ok(facts)
    }
}

#[cfg(test)]
mod tests;
