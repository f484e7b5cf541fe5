//! Benchmarks of the kernel: what its services cost a program.
#![forbid(unsafe_code)]

mod fact;
mod fault;
mod file;
mod findings;
#[cfg(test)]
mod fixture;
mod kernel_state;
mod limit;
mod noise;
mod part;
mod process;
mod switch;
mod syscall;
mod timed;
mod wake;

use std::time::Duration;

use plimsoll_bench_api::prelude::*;

pub use fault::PageFault;
pub use file::FileNames;
pub use noise::Noise;
pub use part::SUBSYSTEM;
pub use process::Process;
pub use switch::Switch;
pub use syscall::Syscall;
pub use wake::Wake;

/// Name of the metric of the time of one operation.
pub const LATENCY_METRIC: &str = "latency";

/// Name of the metric of operations per second.
pub const RATE_METRIC: &str = "rate";

const MAX_THREADS: u64 = 1024;

/// Returns parameter `key`'s times in `group`, else `usual`; fails if not within `least` to `most`.
fn times_in(
    group: &Group,
    key: &str,
    usual: Duration,
    [least, most]: [Duration; 2],
) -> Result<Vec<Duration>, String> {
    let Some(values) = group.lists.get(key).filter(|_| group.asked(key)) else { return Ok(vec![usual]) };
    let time = |value: &Value| match value {
        Value::Time(time) if (least..=most).contains(time) => Ok(*time),
        other => {
            let [least, most] = [least, most].map(Value::Time);
            Err(format!("{key} must be between {least} and {most}: {other} is not"))
        }
    };
    values.iter().map(time).collect()
}

/// Returns `case` with each requested number of threads (1 to 1024), by default each of `usual`,
/// and each affinity; fails out of range or if this machine does not have an affinity.
fn with_threads(machine: &Machine, group: &Group, case: Case, usual: &[u64]) -> Result<Vec<Case>, String> {
    check_affinities(machine, group)?;
    let threads = counts_in_range(group, "threads", usual, MAX_THREADS)?;
    let cases = Case::with_each(vec![case], "threads", threads.into_iter().map(Value::Count));
    Ok(group.each_of(cases, "affinity"))
}
