//! Refusals of parameters that benchmarks do not take, with those that do.

use super::{UsageError, other, subsystem_of};
use crate::bench::{self, BENCHMARKS};
use crate::plan::Group;

/// Refuses what the one benchmark that `--only` names in full does not take.
pub(super) fn refused_by_the_only_one(only: &[String], typed: &Group) -> Result<(), UsageError> {
    let [name] = only else { return Ok(()) };
    let Some(benchmark) = bench::find(name) else { return Ok(()) };
    let Some(key) = typed.lists.keys().find(|key| !benchmark.keys().contains(*key)) else { return Ok(()) };
    let keys: Vec<String> = benchmark.keys().iter().map(|key| format!("--{key}")).collect();
    Err(other(format!("{name} does not take --{key}: it takes {}", keys.join(", "))))
}

/// Says that no default benchmark takes what was typed, and which others do.
pub(super) fn nobody_takes(groups: &[Group], typed: &Group) -> UsageError {
    let keys: Vec<String> = typed.lists.keys().map(|k| format!("--{k}")).collect();
    let together = if keys.len() > 1 { " together" } else { "" };
    let keys = keys.join(" and ");
    let mut here: Vec<&str> =
        groups.iter().flat_map(|g| &g.benchmarks).map(|name| subsystem_of(name)).collect();
    here.dedup();
    let able = |b: &&&dyn bench::Benchmark| {
        here.contains(&subsystem_of(b.name())) && typed.lists.keys().all(|key| b.keys().contains(key))
    };
    let names: Vec<&str> = BENCHMARKS.iter().filter(able).map(|b| b.name()).collect();
    other(match names.as_slice() {
        [] => format!(
            "no benchmark takes {keys}{together}; `plimsoll {} --help` has what each takes",
            here.join(" ")
        ),
        names => format!(
            "no default benchmark takes {keys}{together}; name one that does: --only {}",
            names.join(",")
        ),
    })
}
