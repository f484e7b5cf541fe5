//! What is not alike about two sides: machine, program, limits of the surroundings, parameters.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Side;
use super::rank::Differs;
use crate::case::Case;
use crate::document::{Run, RunStatus};

/// Something that differs and is not a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flag {
    /// Stable code.
    pub code: &'static str,
    /// A sentence.
    pub text: String,
}

/// What a reader must know before reading the figures.
pub fn flags(a: &Side, b: &Side) -> Vec<Flag> {
    let mut found = Vec::new();
    for fact in FACTS {
        let [first, second] = [a, b].map(|side| values(side, fact.read));
        if first != second {
            let text = format!("{}: {} and {}", fact.what, said(&first), said(&second));
            found.push(Flag { code: fact.code, text });
        }
    }
    for side in [a, b] {
        let partial = side.runs.iter().filter(|run| run.status == RunStatus::Partial).count();
        if partial > 0 {
            let text = format!("{}: {partial} of {} runs partial", side.name, side.runs.len());
            found.push(Flag { code: "partial", text });
        }
    }
    found
}

/// The facts that are not the same on all of these sides.
pub(super) fn among(sides: &[Side]) -> Vec<Differs> {
    let one = |fact: &Fact| {
        let values: Vec<BTreeSet<String>> = sides.iter().map(|side| values(side, fact.read)).collect();
        let differ = values.windows(2).any(|pair| pair[0] != pair[1]);
        differ.then(|| Differs {
            code: fact.code,
            what: fact.what,
            values: values.iter().map(said).collect(),
        })
    };
    FACTS.iter().filter_map(one).collect()
}

struct Fact {
    code: &'static str,
    what: &'static str,
    read: fn(&Run) -> String,
}

const FACTS: &[Fact] = &[
    Fact { code: "machine", what: "different machines", read: machine },
    Fact {
        code: "version",
        what: "different versions of plimsoll, whose kernels may measure otherwise",
        read: |run| run.version.clone(),
    },
    Fact {
        code: "kernel",
        what: "different operating system kernels",
        read: |run| run.machine.kernel.release.clone().unwrap_or_else(|| "unknown".to_owned()),
    },
    Fact {
        code: "microcode",
        what: "different microcode",
        read: |run| run.machine.cpu.microcode.clone().unwrap_or_else(|| "unknown".to_owned()),
    },
    Fact { code: "cpus", what: "different CPUs allowed", read: |run| run.machine.cpu.allowed.to_string() },
    Fact { code: "quota", what: "different CPU quotas", read: quota },
    Fact { code: "turbo", what: "turbo differs", read: |run| switch(run.machine.state.turbo) },
    Fact {
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

fn values(side: &Side, read: fn(&Run) -> String) -> BTreeSet<String> {
    side.runs.iter().map(read).collect()
}

/// A few of them, in words.
fn said(values: &BTreeSet<String>) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = values.iter().take(SHOWN).map(String::as_str).collect();
    let more = values.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

/// Parameters in which two cases of one benchmark differ, as `threads 2 → 1`. Two benchmarks differ in more than can be
/// told.
pub(super) fn difference(a: &Case, b: &Case) -> Vec<String> {
    if a.benchmark() != b.benchmark() {
        return vec![a.benchmark().to_owned(), b.benchmark().to_owned()];
    }
    let names: BTreeSet<&str> = a.params().iter().chain(b.params()).map(|(name, _)| *name).collect();
    let said = |case: &Case, name: &str| case.get(name).map_or("–".to_owned(), ToString::to_string);
    names
        .into_iter()
        .filter(|name| a.get(name) != b.get(name))
        .map(|name| format!("{name} {} → {}", said(a, name), said(b, name)))
        .collect()
}
