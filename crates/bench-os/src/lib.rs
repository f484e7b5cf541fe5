//! Benchmarks of the kernel: what its services cost a program.
#![forbid(unsafe_code)]

mod fact;
mod fault;
mod file;
mod findings;
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

use plimsoll_model::case::{Case, Value};
use plimsoll_model::plan::Group;

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

/// Most threads of a case.
const MAX_THREADS: u64 = 1024;

/// Returns name and meaning of each value of the parameter `key` that `group` requests, or of all
/// in `known`; fails for a name that is not among them.
fn words_in<T: Copy>(
    group: &Group,
    key: &str,
    known: &[(&'static str, T)],
) -> Result<Vec<(&'static str, T)>, String> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let find = |word: &String| {
        known.iter().find(|(name, _)| name == word).copied().ok_or_else(|| {
            let (word, names) = (plimsoll_units::text::shown(word), names.join(", "));
            format!("{key} must be one of {names}: '{word}' is not")
        })
    };
    group.words_of(key, &names, &names).iter().map(find).collect()
}

/// Returns the times given for the parameter `key` in `group`, else `usual`; fails if one is not
/// between `least` and `most`.
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

/// Returns `case` with each number of threads and each affinity.
fn with_threads(case: &Case, threads: &[u64], affinities: &[Option<String>]) -> Vec<Case> {
    let mut cases = Vec::new();
    for count in threads {
        for affinity in affinities {
            let case = case.clone().with_count("threads", *count);
            cases.push(match affinity {
                Some(affinity) => case.with_word("affinity", affinity),
                None => case,
            });
        }
    }
    cases
}
