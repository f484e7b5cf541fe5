//! Set-up that the tests of several modules share.

use plimsoll_bench_api::prelude::*;
use plimsoll_bench_api::{Options, WorkerCache};
use plimsoll_machine::Root;
use plimsoll_machine::fixture::Fixture;

pub(crate) use plimsoll_model::fixture::{group, limits_of, parse_group};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// Returns the machine of the recorded files `name`.
pub(crate) fn machine(name: &str) -> Machine {
    Fixture::open(name).unwrap().machine()
}

/// Returns a machine with four NUMA nodes, of which `node` has no memory.
pub(crate) fn without_memory_on(node: usize) -> Machine {
    let fixture = Fixture::open("epyc-7543-nps4").unwrap();
    let text = format!("Node {node} MemTotal: 0 kB\nNode {node} MemFree: 0 kB\n");
    fixture.write(&format!("sys/devices/system/node/node{node}/meminfo"), text.as_bytes()).unwrap();
    fixture.machine()
}

pub(crate) fn this_machine() -> Machine {
    Machine::discover(&Root::live())
}

/// Returns what `make` makes in the context of a run on `machine`.
pub(crate) fn in_context<T>(machine: &Machine, make: impl FnOnce(&Context<'_>) -> T) -> T {
    let options = Options { dir: ".".into(), seed: 7, ..Options::default() };
    make(&Context { machine, options: &options, keep: &WorkerCache::default() })
}

/// Returns a sample with this core clock.
pub(crate) fn clocked(clock_hz: Option<f64>) -> Sample {
    Sample { conditions: Conditions { clock_hz, ..Conditions::default() }, ..Sample::default() }
}

/// Returns the reason why a limit is unknown.
pub(crate) fn reason(limit: Limit) -> String {
    assert_eq!((limit.value, limit.source), (None, LimitSource::Unknown), "{limit:?}");
    limit.reason.unwrap_or_default()
}
