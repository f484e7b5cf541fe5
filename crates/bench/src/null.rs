//! The `null` benchmark measures the harness: an operation is one call by dynamic dispatch.

use std::hint::black_box;
use std::time::Instant;

use plimsoll_bench_api::{
    Benchmark, Better, Candidate, Context, Descriptor, Metric, Parsed, Prepared, PreparedCase,
};
use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
use plimsoll_model::plan::Group;
use plimsoll_model::sample::{CannotMeasure, Facts, Sample, SampleAmount};
use plimsoll_units::quantity::Unit;

const NULL_LATENCY: &str = "latency";

/// The benchmark `null`.
pub struct Null;

impl Benchmark for Null {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "null",
            about: "nothing at all: the floor of the harness",
            by_default: false,
            metrics: const {
                &[Metric::new(NULL_LATENCY, Unit::Second, Better::Lower)
                    .about("time of a call that does nothing: the harness's own floor")]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, _: &Machine, _: &Group) -> Result<Vec<Candidate>, String> {
        Ok(vec![Candidate::new(Case::of(self.name()), Ok(()))])
    }

    fn prepare(&self, _: &Case, _: &Parsed, _: &Context<'_>) -> PreparedCase {
        Ok(Box::new(Idle { done: 0 }))
    }
}

struct Idle {
    done: u64,
}

impl Idle {
    #[inline(never)]
    fn nothing(&mut self) {
        self.done = black_box(self.done + 1);
    }
}

impl Prepared for Idle {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        const BATCH: u64 = 1024;
        let begun = Instant::now();
        let before = self.done;
        loop {
            for _ in 0..BATCH {
                self.nothing();
            }
            let enough = match amount {
                SampleAmount::Work(n) => self.done - before >= n,
                SampleAmount::Seconds(s) => begun.elapsed().as_secs_f64() >= s,
            };
            if enough {
                break;
            }
        }
        let (elapsed, work) = (begun.elapsed().as_secs_f64(), self.done - before);
        let values = [(NULL_LATENCY.to_owned(), elapsed / work as f64)].into();
        Ok(Sample { elapsed, work: Some(work), values, ..Sample::default() })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let nothing = || CannotMeasure::environment("no operation was done");
        (self.done > 0).then(Facts::default).ok_or_else(nothing)
    }
}
