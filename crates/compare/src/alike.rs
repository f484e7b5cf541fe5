//! Differences between the compared sides besides their results: machine, program, parameters.

use std::collections::BTreeSet;

use plimsoll_model::case::Case;
use plimsoll_result::document::{Run, RunStatus};
use serde::Serialize;

use super::ComparedSide;

/// A fact that differs between the sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConditionDifference {
    /// Stable code for programs.
    pub code: &'static str,
    /// Description.
    pub what: &'static str,
    /// Value of each side, in order.
    pub values: Vec<String>,
}

/// Returns the facts that differ between the sides, with partial runs per side if there are any.
pub(super) fn differences(sides: &[ComparedSide]) -> Vec<ConditionDifference> {
    let one = |fact: &ConditionFact| {
        let values: Vec<BTreeSet<String>> = sides.iter().map(|side| values(side, fact.read)).collect();
        let differ = values.windows(2).any(|pair| pair[0] != pair[1]);
        differ.then(|| ConditionDifference {
            code: fact.code,
            what: fact.what,
            values: values.iter().map(listed).collect(),
        })
    };
    let is_partial = |run: &&Run| run.status == RunStatus::Partial;
    let partial = |side: &ComparedSide| {
        format!("{} of {}", side.runs.iter().filter(is_partial).count(), side.runs.len())
    };
    let has_partial = sides.iter().flat_map(|side| &side.runs).any(|run| is_partial(&run));
    let partial = has_partial.then(|| ConditionDifference {
        code: "partial",
        what: "partial runs",
        values: sides.iter().map(partial).collect(),
    });
    FACTS.iter().filter_map(one).chain(partial).collect()
}

struct ConditionFact {
    code: &'static str,
    what: &'static str,
    read: fn(&Run) -> String,
}

const FACTS: &[ConditionFact] = &[
    ConditionFact { code: "machine", what: "different machines", read: machine },
    ConditionFact {
        code: "version",
        what: "different versions of plimsoll, whose kernels may measure otherwise",
        read: |run| run.version.clone(),
    },
    ConditionFact {
        code: "kernel",
        what: "different operating system kernels",
        read: |run| run.machine.kernel.release.clone().unwrap_or_else(|| "unknown".to_owned()),
    },
    ConditionFact {
        code: "microcode",
        what: "different microcode",
        read: |run| run.machine.cpu.microcode.clone().unwrap_or_else(|| "unknown".to_owned()),
    },
    ConditionFact {
        code: "cpus",
        what: "different CPUs allowed",
        read: |run| run.machine.cpu.allowed.to_string(),
    },
    ConditionFact { code: "quota", what: "different CPU quotas", read: quota },
    ConditionFact { code: "turbo", what: "turbo differs", read: |run| switch(run.machine.state.turbo) },
    ConditionFact {
        code: "sampling",
        what: "different lengths of a sample",
        read: |run| format!("{} s", run.plan.sample_time),
    },
];

fn machine(run: &Run) -> String {
    let model = run.machine.cpu.model_name.as_deref().unwrap_or("unknown processor");
    format!("{model} ({})", run.machine.id)
}

fn quota(run: &Run) -> String {
    match &run.machine.cgroup.cpu_quota {
        None => "none".to_owned(),
        Some(quota) => format!("{:.2} CPUs", quota.cpus()),
    }
}

fn switch(on: Option<bool>) -> String {
    match on {
        None => "unknown",
        Some(true) => "on",
        Some(false) => "off",
    }
    .to_owned()
}

fn values(side: &ComparedSide, read: fn(&Run) -> String) -> BTreeSet<String> {
    side.runs.iter().map(read).collect()
}

fn listed(values: &BTreeSet<String>) -> String {
    const MAX_VALUES_SHOWN: usize = 3;
    let shown: Vec<&str> = values.iter().take(MAX_VALUES_SHOWN).map(String::as_str).collect();
    let more = values.len().saturating_sub(MAX_VALUES_SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

pub(super) fn differing(a: &Case, b: &Case) -> BTreeSet<&'static str> {
    let names = a.params().iter().chain(b.params()).map(|(name, _)| *name);
    names.filter(|name| a.get(name) != b.get(name)).collect()
}

/// Returns the parameters that differ between two cases, as `threads 2 → 1`.
pub(super) fn difference(a: &Case, b: &Case) -> Vec<String> {
    let value = |case: &Case, name: &str| case.get(name).map_or("–".to_owned(), ToString::to_string);
    let one = |name: &str| format!("{name} {} → {}", value(a, name), value(b, name));
    differing(a, b).into_iter().map(one).collect()
}
