//! `cpu.linpack`: solves a dense system of linear equations, as HPL does, on all threads.
//!
//! HPL's matrix, HPL's count of operations (2/3 N³ + 3/2 N²) and HPL's judgement of the answer, on the matrix made
//! again; the solver is plimsoll's own (`plimsoll_metal::lu`). One sample is one factorisation and solution.

use std::time::Instant;

use plimsoll_metal::lu::{Lu, LuError, MOST_BLOCK, System};
use plimsoll_metal::team::Team;

use super::dense::matrix::{Sequence, THRESHOLD, greater, residual};
use super::dense::{self, BLOCK, Held, MOST_ROWS, Wanted, fits, human, isa, isas, number};
use super::fact::{BYTES, NB};
use super::warning::CpuWarning;
use crate::bench::memory::note_pages;
use crate::bench::{Benchmark, Candidate, Context, Metric, Parsed, Prepared, Roofline, Say, counts};
use crate::case::Case;
use crate::limit::{Limit, Question};
use crate::machine::Machine;
use crate::machine::cpu::CoreKind;
use crate::plan::Group;
use crate::sample::{Amount, CannotMeasure, Facts, Sample, WrongAnswer};

/// How a default order is chosen: some seconds a sample, and the matrix with a tenth for what stands beside it.
const WANTED: Wanted = Wanted { work: 2.0 / 3.0, seconds: 2.5, cases: 1, bytes_per_element: 8.8 };

/// The benchmark itself.
pub struct Linpack;

impl Benchmark for Linpack {
    fn name(&self) -> &'static str {
        "cpu.linpack"
    }

    fn about(&self) -> &'static str {
        "rate of solving a dense system of equations: HPL's matrix, count and check, plimsoll's own solver"
    }

    fn sample_seconds(&self, case: &Case) -> Option<f64> {
        // 50 GFLOP/s of each core, as with 256-bit vectors.
        let n = case.number("n")? as f64;
        Some(2.0 / 3.0 * n.powi(3) / (5e10 * case.threads() as f64))
    }

    fn words(&self) -> &'static [Say] {
        &[Say::Word("linpack"), Say::Named("n"), Say::Value("isa"), Say::Times]
    }

    fn keys(&self) -> &'static [&'static str] {
        &["n", "nb", "isa", "place", "threads"]
    }

    fn by_default(&self) -> bool {
        false
    }

    fn roofline(&self, case: &Case) -> Roofline {
        Roofline::Computes(dense::of_a_system(case))
    }

    fn all_metrics(&self) -> &'static [Metric] {
        dense::METRICS
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let isas = isas(group)?;
        let blocks = counts(group, "nb", &[BLOCK], MOST_BLOCK as u64)?;
        let seats = dense::seats(machine, group, &[machine.cpu.allowed.len().max(1) as u64])?;
        let wanted = Wanted { cases: isas.len() * blocks.len() * seats.len(), ..WANTED };
        let mut candidates = Vec::new();
        for isa in isas {
            let order = dense::default_order(machine, group, isa, wanted);
            for n in counts(group, "n", &[order], MOST_ROWS)? {
                for nb in &blocks {
                    candidates.extend(seats.iter().map(|seat| {
                        let case = Case::of(self.name())
                            .with_count("n", n)
                            .with_count("nb", *nb)
                            .with_word("isa", isa.name());
                        let case = seat.taken(case);
                        let feasible = system(machine, &case).map(|_| ());
                        Candidate::new(case, feasible)
                    }));
                }
            }
        }
        Ok(candidates)
    }

    fn look(&self, machine: &mut Machine) {
        super::look(machine);
    }

    fn limits(&self, question: &Question<'_>) -> Vec<Limit> {
        dense::limit::limits(question)
    }

    fn prepare(&self, case: &Case, _: &Parsed, cx: &Context<'_>) -> Result<Box<dyn Prepared>, CannotMeasure> {
        let system = system(cx.machine, case)?;
        let mut team = dense::team(cx.machine, case)?;
        let lu = Lu::new(system, &mut team).map_err(broken)?;
        let mut facts = Facts::default();
        dense::note_threads(&mut facts, cx.machine, &team);
        facts.achieved.set(&NB, system.block());
        facts.achieved.set(&BYTES, system.bytes(team.count()));
        note_size(&mut facts, cx.machine, case, system);
        let kinds = dense::kinds_of(cx.machine, &team);
        Ok(Box::new(Running { team, lu, sequence: Sequence::new(), worst: 0.0, kinds, facts }))
    }
}

/// The system of a case, cut into blocks, if there are kernels and memory for it.
fn system(machine: &Machine, case: &Case) -> Result<System, CannotMeasure> {
    let isa = isa(case.word("isa").unwrap_or_default()).map_err(CannotMeasure::not_here)?;
    let n = number(case, "n");
    let matrix = n.saturating_mul(n).saturating_mul(size_of::<f64>());
    let sum = format!("8 B × {n}² = {} for the matrix", human(matrix as u64));
    fits(machine, matrix, &sum)?;
    let system = System::new(isa, n, number(case, "nb"))
        .map_err(|error| CannotMeasure::not_here(error.to_string()))?;
    let bytes = system.bytes(case.threads());
    fits(machine, bytes, &format!("{sum}, and {} more", human(bytes.saturating_sub(matrix) as u64)))?;
    Ok(system)
}

/// Says how the order was chosen where it is the default one.
fn note_size(facts: &mut Facts, machine: &Machine, case: &Case, system: System) {
    let Ok(isa) = isa(case.word("isa").unwrap_or_default()) else { return };
    let endless = Wanted { seconds: f64::INFINITY, ..WANTED };
    let order = |wanted| dense::default_order(machine, &Group::default(), isa, wanted);
    let (chosen, most) = (order(WANTED), order(endless));
    if case.number("n") == Some(chosen) && chosen < most {
        let bytes = system.bytes(case.threads()) as u64;
        facts.warnings.push(CpuWarning::DefaultSize { n: chosen, bytes, most }.into());
    }
}

fn broken(error: LuError) -> CannotMeasure {
    CannotMeasure::environment(error.to_string())
}

/// HPL's count of operations for a system of so many equations.
pub fn operations(n: f64) -> f64 {
    2.0 / 3.0 * n.powi(3) + 1.5 * n.powi(2)
}

/// A system in memory and the threads that solve it.
struct Running {
    team: Team,
    lu: Lu,
    sequence: Sequence,
    /// The largest residual so far.
    worst: f64,
    /// The kinds of core that it runs on, where there are several.
    kinds: Vec<CoreKind>,
    facts: Facts,
}

impl Prepared for Running {
    /// Always one factorisation and solution, however long it takes.
    fn sample(&mut self, _: Amount) -> Result<Sample, CannotMeasure> {
        let Self { team, lu, sequence, .. } = self;
        let rows = lu.system().rows();
        let filled = lu.fill(team, |row, column, numbers| sequence.column(rows, row, column, numbers));
        filled.map_err(|error| CannotMeasure::environment(error.to_string()))?;
        let begun = Instant::now();
        let solved = lu.solve(team).map_err(broken)?;
        let elapsed = begun.elapsed().as_secs_f64();
        let residual = residual(team, sequence, lu.solution())
            .map_err(|error| CannotMeasure::environment(error.to_string()))?;
        self.worst = greater(residual, self.worst);
        let held = Held { cpus: team.cpus(), clocks: &solved.clocks, kinds: &self.kinds };
        Ok(dense::sample(operations(rows as f64), elapsed, residual, held))
    }

    fn verify(&mut self) -> Result<(), WrongAnswer> {
        judged(self.worst)
    }

    fn facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        if let Ok(resident) = self.lu.resident() {
            note_pages(&mut facts, plimsoll_metal::buffer::Pages::Thp, &[resident]);
        }
        facts
    }
}

/// HPL's judgement. What is not a number is no answer.
fn judged(residual: f64) -> Result<(), WrongAnswer> {
    if residual < THRESHOLD {
        return Ok(());
    }
    Err(WrongAnswer(format!(
        "the solution is wrong: its scaled residual is {residual:.3e} (must be below {THRESHOLD}); plimsoll has a defect, or this processor or its memory computes wrongly"
    )))
}

#[cfg(test)]
mod tests;
