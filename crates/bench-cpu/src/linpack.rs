//! `cpu.linpack`: solves a dense system of linear equations. Matrix, operation count (2/3 N³ + 3/2
//! N²) and check of the solution are HPL's. A sample is one factorisation and solution.

use std::time::Instant;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::isa::Isa;
use plimsoll_metal::lu::{Lu, MOST_BLOCK, SystemSize};
use plimsoll_metal::team::Team;
use serde::{Deserialize, Serialize};

use super::dense::matrix::{Sequence, greater, residual};
use super::dense::{self, DEFAULT_BLOCK_COLUMNS, MOST_ROWS, OrderTarget, fits, isas};
use super::fact::{BYTES, NB};
use super::how::{kinds, note_threads};
use super::warning::CpuWarning;
use super::{DenseProblem, RESIDUAL_UNSCALED};
use plimsoll_bench_api::buffer::{human, record_pages};
use plimsoll_machine::cpu::CoreKind;

const WANTED: OrderTarget = OrderTarget { work: 2.0 / 3.0, seconds: 2.5, cases: 1, bytes_per_element: 8.8 };

/// The benchmark `cpu.linpack`.
pub struct Linpack;

impl Benchmark for Linpack {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "cpu.linpack",
            about: "rate of solving a dense system of linear equations: HPL's matrix, operation count and check, with plimsoll's own solver",
            words: &[
                LabelPart::Word("linpack"),
                LabelPart::Named("n"),
                LabelPart::Value("isa"),
                LabelPart::Times,
            ],
            keys: &["n", "nb", "isa", "affinity", "threads"],
            by_default: false,
            look: super::look,
            limits: dense::limit::limits,
            metrics: const {
                let [rate, time, scaled] = dense::METRICS;
                &[
                    rate,
                    time,
                    scaled,
                    Metric::new(RESIDUAL_UNSCALED, Unit::One, Better::Lower)
                        .about("largest |Ax − b| of the answer, as LINPACK prints it before it is scaled")
                        .informative(),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn sample_seconds(&self, machine: &Machine, case: &Case) -> Option<f64> {
        // 40 GFLOP/s per core, as with 256-bit vectors.
        let n = DenseProblem::of(case).n? as f64;
        let cpus = machine.cpu.allowed.len().clamp(1, case.threads()) as f64;
        Some(2.0 / 3.0 * n.powi(3) / (4e10 * cpus))
    }

    fn roofline(&self, case: &Case) -> Roofline {
        Roofline::Computes(dense::of_a_system(case))
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let isas = isas(group)?;
        let blocks = counts_in_range(group, "nb", &[DEFAULT_BLOCK_COLUMNS], MOST_BLOCK as u64)?;
        let seats = dense::seats(machine, group, &[machine.most_threads() as u64])?;
        let wanted = OrderTarget { cases: isas.len() * blocks.len() * seats.len(), ..WANTED };
        let mut candidates = Vec::new();
        for isa in isas {
            let order = dense::default_order(machine, group, isa, wanted);
            for n in counts_in_range(group, "n", &[order], MOST_ROWS)? {
                for nb in &blocks {
                    candidates.extend(seats.iter().map(|cpus| {
                        let case = Case::of(self.name())
                            .with_count("n", n)
                            .with_count("nb", *nb)
                            .with_word("isa", isa.name());
                        let case = case.with_params_of(cpus);
                        let threads = Threads::of(&case);
                        let job = LinpackJob { isa, n: n as usize, nb: *nb as usize, threads };
                        let feasible = job.system(machine).map(|_| ());
                        Candidate::new(case, feasible).parsed(&job)
                    }));
                }
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, _: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let job: LinpackJob = parsed.read()?;
        let system = job.system(cx.machine)?;
        let mut team = Team::new(&job.threads.cpus(cx.machine))?;
        let unlimited = cx.machine.cpu_capacity() >= team.count() as f64;
        let lu = Lu::new(system, &mut team, unlimited).map_err(CannotMeasure::environment)?;
        let mut facts = Facts::default();
        note_threads(&mut facts, cx.machine, team.cpus());
        facts.achieved.set(&NB, system.block());
        facts.achieved.set(&BYTES, system.bytes(team.count()));
        job.note_size(&mut facts, cx.machine, system);
        let kinds = kinds(cx.machine, &team.cpus().iter().copied().collect());
        Ok(Box::new(LinpackTeam { team, lu, sequence: Sequence::new(), worst: 0.0, kinds, facts }))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LinpackJob {
    isa: Isa,
    n: usize,
    nb: usize,
    threads: Threads,
}

impl LinpackJob {
    fn system(&self, machine: &Machine) -> Result<SystemSize, CannotMeasure> {
        let n = self.n;
        let matrix = n.saturating_mul(n).saturating_mul(size_of::<f64>());
        let sum = format!("8 B × {n}² = {} for the matrix", human(matrix as u64));
        fits(machine, matrix, &sum, "a smaller --n")?;
        let caches = dense::caches(machine, &self.threads);
        let system = SystemSize::new(self.isa, caches, n, self.nb).map_err(CannotMeasure::not_here)?;
        let bytes = system.bytes(self.threads.count);
        let sum = format!("{sum}, and {} more", human(bytes.saturating_sub(matrix) as u64));
        fits(machine, bytes, &sum, "a smaller --n")?;
        Ok(system)
    }

    fn note_size(&self, facts: &mut Facts, machine: &Machine, system: SystemSize) {
        let endless = OrderTarget { seconds: f64::INFINITY, ..WANTED };
        let order = |wanted| dense::default_order(machine, &Group::default(), self.isa, wanted);
        let (chosen, most) = (order(WANTED), order(endless));
        if self.n as u64 == chosen && chosen < most {
            let bytes = system.bytes(self.threads.count) as u64;
            facts.warnings.push(CpuWarning::DefaultSize { n: chosen, bytes, most }.into());
        }
    }
}

/// Returns the number of floating-point operations that HPL counts for `n` equations.
pub fn operations(n: f64) -> f64 {
    2.0 / 3.0 * n.powi(3) + 1.5 * n.powi(2)
}

struct LinpackTeam {
    team: Team,
    lu: Lu,
    sequence: Sequence,
    worst: f64,
    kinds: Vec<CoreKind>,
    facts: Facts,
}

impl Prepared for LinpackTeam {
    fn sample(&mut self, _: SampleAmount) -> Result<Sample, CannotMeasure> {
        let Self { team, lu, sequence, .. } = self;
        let rows = lu.system().rows();
        lu.fill(team, |row, column, numbers| sequence.column(rows, row, column, numbers))?;
        let begun = Instant::now();
        let clocks = lu.solve(team).map_err(CannotMeasure::environment)?;
        let elapsed = begun.elapsed().as_secs_f64();
        let residual = residual(team, sequence, lu.solution())?;
        self.worst = greater(residual.scaled, self.worst);
        let figures = [operations(rows as f64), elapsed, residual.scaled];
        let mut sample = dense::sample(figures, team, &clocks, &self.kinds);
        sample.values.insert(RESIDUAL_UNSCALED.to_owned(), residual.unscaled);
        Ok(sample)
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let what = "the scaled residual of the solution";
        dense::check_residual(self.team.cpus(), "LU", self.worst, what)?;
        let mut facts = self.facts.clone();
        if let Ok(resident) = self.lu.resident() {
            record_pages(&mut facts, plimsoll_metal::buffer::Pages::Thp, &[resident]);
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests;
