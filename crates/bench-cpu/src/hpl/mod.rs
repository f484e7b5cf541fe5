//! `cpu.hpl`: HPL on all machines of a run with `--hosts`, by the installed `xhpl` or `hpcc`.

mod limit;

use super::dense::{self, DEFAULT_BLOCK_COLUMNS, MOST_ROWS};
use plimsoll_bench_api::prelude::*;

const MOST_BLOCK: u64 = 4096;

const MOST_GRID: u64 = 1 << 16;

/// Number of machines that solved a system together.
pub const MACHINES: OwnCondition = OwnCondition::new("machines");
/// Sum of the FMA limits of the machines.
pub const MACHINES_PEAK: OwnCondition = OwnCondition::new("machines_peak");

/// The benchmark `cpu.hpl`.
pub struct Hpl;

impl Benchmark for Hpl {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "cpu.hpl",
            about: "HPL over all machines of plimsoll run PLAN --hosts (on one: cpu.linpack), with the installed xhpl or hpcc",
            words: &[
                LabelPart::Word("HPL"),
                LabelPart::Named("n"),
                LabelPart::Named("p"),
                LabelPart::Named("q"),
                LabelPart::Times,
            ],
            keys: &["n", "nb", "p", "q"],
            by_default: false,
            of_all_machines: true,
            limits: limit::limits,
            metrics: &dense::METRICS,
            ..Descriptor::USUAL
        }
    }

    fn roofline(&self, case: &Case) -> Roofline {
        Roofline::Computes(dense::of_a_system(case))
    }

    fn cases(&self, _: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut made = vec![Case::of(self.name())];
        let lists: [(&str, &[u64], u64); 4] = [
            ("n", &[], MOST_ROWS),
            ("nb", &[DEFAULT_BLOCK_COLUMNS], MOST_BLOCK),
            ("p", &[], MOST_GRID),
            ("q", &[], MOST_GRID),
        ];
        for (key, usual, most) in lists {
            let values = counts_in_range(group, key, usual, most)?;
            if !values.is_empty() {
                made = Case::with_each(made, key, values.into_iter().map(Value::Count));
            }
        }
        Ok(made.into_iter().map(|case| Candidate::new(case, Err(alone()))).collect())
    }

    fn prepare(&self, _: &Case, _: &Parsed, _: &Context<'_>) -> PreparedCase {
        Err(alone())
    }
}

fn alone() -> CannotMeasure {
    CannotMeasure::not_here(
        "cpu.hpl requires a run over machines: name them with --hosts; on one machine use cpu.linpack",
    )
}
