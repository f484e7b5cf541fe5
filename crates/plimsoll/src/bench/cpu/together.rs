//! `cpu.hpl`: HPL over all machines of a run, by the installed `xhpl` or `hpcc` under MPI.
//!
//! The machines of a cluster run solve it together when each has been measured; alone there is nothing that could
//! start it on others, and `cpu.linpack` measures the same.

use super::dense::{self, counts};
use crate::bench::{Benchmark, Candidate, Context, Metric, Prepared, Roofline, Say};
use crate::case::Case;
use crate::machine::Machine;
use crate::plan::Group;
use crate::sample::CannotMeasure;

/// Largest order that HPL takes.
const MOST_ROWS: u64 = i32::MAX as u64;
/// Columns of a block, unless asked: what `cpu.linpack` takes.
const BLOCK: u64 = 192;
/// Most columns of a block.
const MOST_BLOCK: u64 = 4096;

/// Most rows or columns of processes.
const MOST_GRID: u64 = 1 << 16;

/// The benchmark itself.
pub struct Hpl;

impl Benchmark for Hpl {
    fn name(&self) -> &'static str {
        "cpu.hpl"
    }

    fn about(&self) -> &'static str {
        "HPL over all machines of a run under mpirun, by the installed xhpl or hpcc"
    }

    fn words(&self) -> &'static [Say] {
        &[Say::Word("HPL"), Say::Named("n"), Say::Named("p"), Say::Named("q"), Say::Times]
    }

    fn keys(&self) -> &'static [&'static str] {
        &["n", "nb", "p", "q"]
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

    fn cases(&self, _: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        // What is not asked for the machines decide, when all are known.
        let mut made = vec![Case::of(self.name())];
        let lists: [(&str, &[u64], u64); 4] = [
            ("n", &[], MOST_ROWS),
            ("nb", &[BLOCK], MOST_BLOCK),
            ("p", &[], MOST_GRID),
            ("q", &[], MOST_GRID),
        ];
        for (key, usual, most) in lists {
            let values = counts(group, key, usual, most)?;
            if !values.is_empty() {
                let with = |case: &Case| -> Vec<Case> {
                    values.iter().map(|value| case.clone().with_count(key, *value)).collect()
                };
                made = made.iter().flat_map(with).collect();
            }
        }
        Ok(made.into_iter().map(|case| Candidate { case, feasible: Err(alone()) }).collect())
    }

    fn prepare(&self, _: &Case, _: &Context<'_>) -> Result<Box<dyn Prepared>, CannotMeasure> {
        Err(alone())
    }
}

fn alone() -> CannotMeasure {
    CannotMeasure::not_here(
        "all machines of a run solve it together: start the run with mpirun (a build by make cluster); alone, cpu.linpack measures the same",
    )
}
