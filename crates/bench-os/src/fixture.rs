//! Test support: measures the cases of a benchmark on this machine.

use plimsoll_bench_api::prelude::*;
use plimsoll_bench_api::{Options, WorkerCache};
use plimsoll_machine::Root;
use plimsoll_model::sample::FailureCause;

pub(crate) use plimsoll_model::fixture::parse_group;

/// Calls `check` with each case of `lists` that this machine supports, prepared in the directory of
/// `options`; returns the number of these cases.
pub(crate) fn with_each_case(
    benchmark: &dyn Benchmark,
    lists: &str,
    options: &Options,
    mut check: impl FnMut(&Case, Box<dyn Prepared>),
) -> usize {
    let machine = Machine::discover(&Root::live());
    let cx = Context { machine: &machine, options, keep: &WorkerCache::default() };
    let mut checked = 0;
    for candidate in benchmark.cases(&machine, &parse_group(lists)).unwrap() {
        match benchmark.prepare(&candidate.case, &candidate.parsed, &cx) {
            Err(why) if why.cause == FailureCause::NotHere => {}
            prepared => {
                check(&candidate.case, prepared.unwrap());
                checked += 1;
            }
        }
    }
    checked
}
