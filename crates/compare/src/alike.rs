//! Differences between the compared sides besides their results: machine, program, parameters.

use std::collections::BTreeSet;

use plimsoll_model::case::Case;
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_units::text::and_more;
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

/// Returns what differs between sides (kernel, version …), not results, and their partial runs.
pub(super) fn differences(sides: &[ComparedSide]) -> Vec<ConditionDifference> {
    const MAX_VALUES_SHOWN: usize = 3;
    let listed = |all: &BTreeSet<String>| and_more(&all.iter().collect::<Vec<_>>(), MAX_VALUES_SHOWN);
    let one = |(code, what, read): ConditionFact| {
        let values = sides.iter().map(|side| side.runs.iter().map(read).collect());
        let values: Vec<BTreeSet<String>> = values.collect();
        let differ = values.windows(2).any(|pair| pair[0] != pair[1]);
        differ.then(|| ConditionDifference { code, what, values: values.iter().map(listed).collect() })
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
    FACTS.into_iter().filter_map(one).chain(partial).collect()
}

/// Code, description, and the value in a run.
type ConditionFact = (&'static str, &'static str, fn(&Run) -> String);

const FACTS: [ConditionFact; 8] = [
    ("machine", "different machines", machine),
    ("version", "different versions of plimsoll, whose kernels may measure otherwise", |run| {
        run.version.clone()
    }),
    ("kernel", "different operating system kernels", |run| or_unknown(run.machine.kernel.release.as_deref())),
    ("microcode", "different microcode", |run| or_unknown(run.machine.cpu.microcode.as_deref())),
    ("cpus", "different CPUs allowed", |run| run.machine.cpu.allowed.to_string()),
    ("quota", "different CPU quotas", quota),
    ("turbo", "turbo differs", |run| {
        or_unknown(run.machine.state.turbo.map(|on| if on { "on" } else { "off" }))
    }),
    ("sampling", "different lengths of a sample", |run| format!("{} s", run.plan.sample_time)),
];

fn or_unknown(text: Option<&str>) -> String {
    text.unwrap_or("unknown").to_owned()
}

fn machine(run: &Run) -> String {
    let model = run.machine.cpu.model_name.as_deref().unwrap_or("unknown processor");
    format!("{model} ({})", run.machine.id)
}

fn quota(run: &Run) -> String {
    let quota = &run.machine.cgroup.cpu_quota;
    quota.as_ref().map_or("none".to_owned(), |quota| format!("{:.2} CPUs", quota.cpus()))
}

pub(super) fn differing(a: &Case, b: &Case) -> BTreeSet<&'static str> {
    let names = a.params().iter().chain(b.params()).map(|(name, _)| *name);
    names.filter(|name| a.get(name) != b.get(name)).collect()
}

/// Returns the parameters that differ between two cases, from `a` to `b`: `threads 2 → 1`.
pub(super) fn difference(a: &Case, b: &Case) -> Vec<String> {
    let value = |case: &Case, name: &str| case.get(name).map_or("–".to_owned(), ToString::to_string);
    let one = |name: &str| format!("{name} {} → {}", value(a, name), value(b, name));
    differing(a, b).into_iter().map(one).collect()
}
