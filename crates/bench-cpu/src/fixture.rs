//! Set-up that the tests of several modules share.

use plimsoll_bench_api::prelude::*;
use plimsoll_bench_api::{Options, WorkerCache};
use plimsoll_machine::Root;
use plimsoll_machine::fixture::two_cores;

pub(crate) use plimsoll_model::fixture::{group, limits_of, parse_group};

pub(crate) fn here() -> Machine {
    Machine::discover(&Root::live())
}

/// Returns a machine with this chip and the CPUs 0 to 3, two threads on each of two cores.
pub(crate) fn chip(vendor: &str, family: u32, model: u32) -> Machine {
    let mut machine = Machine::discover(&Root::at("/nonexistent"));
    machine.cpu.vendor = Some(vendor.to_owned());
    (machine.cpu.family, machine.cpu.model) = (Some(family), Some(model));
    machine.cpu.allowed = "0-3".parse().unwrap();
    machine.cpu.logical = two_cores();
    machine
}

pub(crate) fn prepared(benchmark: &dyn Benchmark, case: &Candidate, machine: &Machine) -> Box<dyn Prepared> {
    let options = Options { dir: "/".into(), seed: 1, ..Options::default() };
    let cx = Context { machine, options: &options, keep: &WorkerCache::default() };
    benchmark.prepare(&case.case, &case.parsed, &cx).unwrap()
}

/// Returns one sample for each core clock in Hz.
pub(crate) fn samples(clocks: &[Option<f64>]) -> Vec<Sample> {
    let sample = |clock: &Option<f64>| {
        let conditions = Conditions { clock_hz: *clock, ..Conditions::default() };
        Sample { conditions, ..Sample::default() }
    };
    clocks.iter().map(sample).collect()
}
