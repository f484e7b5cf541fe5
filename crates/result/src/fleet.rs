//! Merges runs of several nodes into one document.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::Machine;
use plimsoll_machine::disk::Disk;
use plimsoll_units::quantity::{Quantity, Unit};
use plimsoll_units::text::shown_within;

use crate::document::{Finding, Node, Run, RunStatus};
use crate::finding::{self, NodeFacts};

const MAX_NAME_CHARS: usize = 64;

/// Relative memory difference that makes another kind of machine; firmware and kernel reserve less.
const OTHER_MEMORY: f64 = 0.1;

/// Merges `parts`, runs of different nodes, with the other fields of `header`. Findings are `lost`
/// (on missing nodes) and those from results. Complete if `whole` is true and `lost` is empty.
pub fn merged(header: Run, parts: impl IntoIterator<Item = Run>, lost: Vec<Finding>, whole: bool) -> Run {
    let (clock_steps, health) = (Vec::new(), Vec::new());
    let mut run = Run { nodes: Vec::new(), measurements: Vec::new(), clock_steps, health, ..header };
    for mut part in parts {
        run.nodes.extend(part.other_nodes(&run.machine));
        run.measurements.append(&mut part.measurements);
        run.clock_steps.append(&mut part.clock_steps);
        run.health.append(&mut part.health);
    }
    run.status = if lost.is_empty() && whole { RunStatus::Complete } else { RunStatus::Partial };
    run.findings = lost;
    run.findings.extend(of_machines(&run));
    run.findings.extend(finding::clock_steps(&run.clock_steps));
    run.findings.extend(finding::health(&run.health));
    run
}

/// Returns a partial run of what node `name` measured alone; `None` if the run lacks the node.
pub fn run_of_node(run: &Run, name: &str) -> Option<Run> {
    let node = run.nodes.iter().find(|node| node.name == name)?;
    let own = run.measurements.iter().filter(|m| m.node == name && !m.case.is_between_machines());
    let steps = run.clock_steps.iter().filter(|step| step.node == name);
    Some(Run {
        machine: run.machine_of(node).clone(),
        nodes: vec![Node { name: name.to_owned(), machine: None }],
        measurements: own.cloned().collect(),
        clock_steps: steps.cloned().collect(),
        health: run.health.iter().filter(|one| one.node == name).cloned().collect(),
        findings: Vec::new(),
        elapsed_s: 0.0,
        status: RunStatus::Partial,
        ..run.header()
    })
}

/// Codes of findings about missing nodes; they stay true when runs are merged.
const OF_MACHINES: [&str; 5] =
    ["machine-lost", "machine-missing", "machine-failed", "machine-left-out", "unreadable"];

/// Returns the findings about missing nodes that `parts` already had from an earlier merge.
pub fn missing_node_findings(parts: &[Run]) -> Vec<Finding> {
    let all = parts.iter().flat_map(|run| &run.findings);
    all.filter(|finding| reports_missing_part(finding)).cloned().collect()
}

/// Codes of findings that compare a node or pair with the other nodes.
const AMONG_OTHERS: [&str; 7] =
    ["outlier", "ahead", "not-confirmed", "machines-differ", "slow-node", "slow-pair", "few-of-a-kind"];

/// Returns whether the finding is about missing or differing nodes; in a fleet, these come first.
pub fn is_about_nodes(finding: &Finding) -> bool {
    reports_missing_part(finding) || AMONG_OTHERS.contains(&finding.code.as_str())
}

/// Returns whether the finding reports a missing node, or a missing part of a run or document.
pub fn reports_missing_part(finding: &Finding) -> bool {
    OF_MACHINES.contains(&finding.code.as_str())
}

/// Returns the runs with each node once, in its latest complete run, else in its latest run, and a
/// line of text for each dropped node. A node is identified by name and hardware.
pub fn latest_run_per_node(mut runs: Vec<Run>) -> (Vec<Run>, Vec<String>) {
    let began = |run: &Run| run.started.parse::<jiff::Timestamp>().unwrap_or_default();
    runs.sort_by_key(|run| {
        std::cmp::Reverse((run.status == RunStatus::Complete, began(run), run.id.clone()))
    });
    runs.dedup_by(|a, b| a.id == b.id && a.nodes == b.nodes);
    let mut taken: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut stated = Vec::new();
    for run in &mut runs {
        let key = |node: &Node| (node.name.clone(), run.machine_of(node).id.clone());
        let again = run.nodes.iter().filter(|node| taken.contains_key(&key(node)));
        let again: BTreeSet<String> = again.map(|node| node.name.clone()).collect();
        let earlier = run.nodes.iter().filter_map(|node| Some((&node.name, taken.get(&key(node))?)));
        stated.extend(earlier.filter(|(_, other)| **other != run.id).map(|(name, _)| {
            let (name, started) = (shown_within(name, MAX_NAME_CHARS), shown_within(&run.started, 40));
            format!("{name} came twice: its run of {started} is left out")
        }));
        let new: Vec<_> = run.nodes.iter().map(key).filter(|key| !taken.contains_key(key)).collect();
        taken.extend(new.into_iter().map(|key| (key, run.id.clone())));
        run.nodes.retain(|node| !again.contains(&node.name));
        run.measurements.retain(|m| !again.contains(&m.node));
        run.clock_steps.retain(|step| !again.contains(&step.node));
        run.health.retain(|one| !again.contains(&one.node));
    }
    runs.retain(|run| !run.nodes.is_empty());
    runs.reverse();
    (runs, stated)
}

/// Renames nodes whose name is taken, such as to `db-2`. Returns a line of text per new name.
pub fn make_names_unique(runs: &mut [Run]) -> Vec<String> {
    let mut used: BTreeSet<String> =
        runs.iter().flat_map(|run| &run.nodes).map(|node| node.name.clone()).collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut stated = Vec::new();
    for run in runs {
        let mut new: BTreeMap<String, String> = BTreeMap::new();
        for node in &mut run.nodes {
            if seen.insert(node.name.clone()) {
                continue;
            }
            let mut names = (2..).map(|n| format!("{}-{n}", node.name));
            let name = names.find(|name| !used.contains(name)).unwrap_or_default();
            let [old, new_name] = [&node.name, &name].map(|name| shown_within(name, MAX_NAME_CHARS));
            stated.push(format!("several machines have the name {old}: one is {new_name} here"));
            used.insert(name.clone());
            new.insert(std::mem::replace(&mut node.name, name.clone()), name);
        }
        let rename = |name: &mut String| {
            if let Some(new) = new.get(name) {
                name.clone_from(new);
            }
        };
        run.measurements.iter_mut().for_each(|m| rename(&mut m.node));
        run.clock_steps.iter_mut().for_each(|step| rename(&mut step.node));
        run.health.iter_mut().for_each(|one| rename(&mut one.node));
    }
    stated
}

/// Returns the findings from all measurements of `run`; compares only nodes of the same kind.
pub fn of_machines(run: &Run) -> Vec<Finding> {
    let kinds = kinds(run);
    let names: Vec<BTreeSet<&str>> = kinds.values().cloned().collect();
    let machines = run.nodes.iter().map(|node| {
        let machine = run.machine_of(node);
        (node.name.as_str(), NodeFacts { machine, device: device(machine) })
    });
    let mut found = finding::by_kind(&run.measurements, &names, &machines.collect());
    if kinds.len() > 1 {
        let small = kinds.iter().filter(|(_, nodes)| nodes.len() < finding::MIN_OUTLIER_NODES);
        found.extend(small.map(|(kind, nodes)| few(kind, nodes)));
    }
    found
}

/// Returns the finding that the kind of machine `kind` has too few `nodes` to judge any of them.
fn few(kind: &str, nodes: &BTreeSet<&str>) -> Finding {
    const MAX_NAMED_NODES: usize = 5;
    let names: Vec<&str> = nodes.iter().copied().take(MAX_NAMED_NODES).collect();
    let text = match nodes.len() {
        1 => format!(
            "{} is the only machine of its kind ({kind}), so plimsoll compares it with no other",
            names[0]
        ),
        count => format!(
            "{} are the only {count} machines of their kind ({kind}): with fewer than {}, calling one slow is only a guess",
            names.join(", "),
            finding::MIN_OUTLIER_NODES
        ),
    };
    let evidence = serde_json::json!({ "kind": kind, "nodes": nodes });
    Finding::new("few-of-a-kind", text, evidence)
}

/// Returns the names of the nodes by kind of machine: processor, number of CPUs and memory.
pub fn kinds(run: &Run) -> BTreeMap<String, BTreeSet<&str>> {
    let mut by_processor: BTreeMap<String, Vec<(u64, &Node)>> = BTreeMap::new();
    for node in &run.nodes {
        let machine = run.machine_of(node);
        let bytes = machine.memory.total_bytes.unwrap_or(0);
        by_processor.entry(processor(machine)).or_default().push((bytes, node));
    }
    let mut kinds: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (processor, mut nodes) in by_processor {
        nodes.sort_by_key(|(bytes, _)| *bytes);
        let (mut before, mut named) = (None, String::new());
        for (bytes, node) in nodes {
            let same = |least: &u64| bytes as f64 <= *least as f64 * (1.0 + OTHER_MEMORY);
            if !before.as_ref().is_some_and(same) {
                named = format!("{processor} · {}", Quantity::new(bytes as f64, Unit::Byte));
            }
            before = Some(bytes);
            kinds.entry(named.clone()).or_default().insert(&node.name);
        }
    }
    kinds
}

fn device(machine: &Machine) -> Option<String> {
    let storage = machine.storage.as_ref()?;
    let disk = |disk: &Disk| {
        let model = disk.model.as_deref().map(|model| shown_within(model.trim(), 40));
        let name = model.unwrap_or_else(|| disk.kind.word().to_owned());
        let size = disk.size_bytes.map(|bytes| format!(" of {}", Quantity::new(bytes as f64, Unit::Byte)));
        name + &size.unwrap_or_default()
    };
    let disks: Vec<String> = storage.disks.iter().map(disk).collect();
    let file_system = storage.file_system.as_ref().map(|fs| shown_within(&fs.fs_type, 20));
    let words: Vec<String> = file_system.into_iter().chain(disks).collect();
    (!words.is_empty()).then(|| words.join(" on "))
}

fn processor(machine: &Machine) -> String {
    let cpu = &machine.cpu;
    let name = cpu.model_name.as_deref().or(machine.kernel.architecture.as_deref()).unwrap_or("unknown CPU");
    // A hypervisor may give one name to several chips.
    let number = match (cpu.family, cpu.model) {
        (Some(family), Some(model)) => format!(" (family {family:#x}, model {model:#x})"),
        _ => String::new(),
    };
    format!("{}{number} · {} CPUs", shown_within(name, 60), cpu.threads)
}

#[cfg(test)]
mod tests {
    use plimsoll_model::measurement::Measurement;

    use super::*;
    use crate::fixture;

    const GIB: u64 = 1 << 30;

    /// Returns a run of nodes by name, bytes of memory and rate, with one result each: 100 × rate.
    fn fleet(machines: &[(&str, u64, f64)]) -> Run {
        let run = fixture::run();
        let mut all = Run { nodes: Vec::new(), measurements: Vec::new(), ..run.clone() };
        for (name, memory, rate) in machines {
            let mut machine = run.machine.clone();
            machine.memory.total_bytes = Some(*memory);
            let mut own = Measurement { node: (*name).to_owned(), ..run.measurements[0].clone() };
            own.metrics[0].summary.ci95 = None;
            own.metrics[0].summary.median = 100.0 * rate;
            all.nodes.push(Node { name: (*name).to_owned(), machine: Some(machine) });
            all.measurements.push(own);
        }
        all
    }

    #[test]
    fn machines_are_compared_with_their_own_kind() {
        let names: Vec<String> = (0..20).map(|i| format!("n{i:02}")).collect();
        let kind = |i: usize| if i < 10 { (16 * GIB + i as u64 * (GIB / 100), 1.0) } else { (64 * GIB, 2.0) };
        let machines: Vec<_> =
            names.iter().enumerate().map(|(i, name)| (name.as_str(), kind(i).0, kind(i).1)).collect();
        assert_eq!(of_machines(&fleet(&machines)), [], "each is as fast as its kind");
        let mut slow = machines.clone();
        // Slow for its kind, but faster than the other kind.
        slow[15].2 = 1.5;
        let found = of_machines(&fleet(&slow));
        assert_eq!(found.len(), 1, "{found:?}");
        let text = &found[0].text;
        assert!(text.starts_with("n15: ") && text.contains("below the median of 10 machines"), "{text}");
    }

    #[test]
    fn few_of_a_kind_are_told() {
        let names: Vec<String> = (0..8).map(|i| format!("n{i}")).collect();
        let gib = [16, 16, 16, 16, 16, 32, 32, 128];
        let machines: Vec<_> = names.iter().zip(gib).map(|(n, gib)| (n.as_str(), gib * GIB, 1.0)).collect();
        let found = of_machines(&fleet(&machines));
        let few: Vec<&Finding> = found.iter().filter(|f| f.code == "few-of-a-kind").collect();
        assert_eq!(few.len(), 2, "{found:?}");
        let is_told = |start: &str| few.iter().any(|f| f.text.starts_with(start));
        assert!(is_told("n5, n6 are the only 2 machines of their kind ("), "{few:?}");
        assert!(is_told("n7 is the only machine of its kind ("), "{few:?}");
    }

    /// Returns a run of a node with this machine id that started in this minute.
    fn run_at(name: &str, hardware: &str, minute: u32) -> Run {
        let mut run = fleet(&[(name, GIB, 1.0)]);
        run.id = plimsoll_system::wall::run_id();
        run.started = format!("2026-01-01T00:{minute:02}:00Z");
        run.status = RunStatus::Complete;
        run.nodes[0].machine.iter_mut().for_each(|machine| machine.id = hardware.to_owned());
        run
    }

    #[test]
    fn of_a_machine_that_came_twice_the_latest_whole_run_is_taken() {
        let (early, late) = (run_at("a", "x", 1), run_at("a", "x", 2));
        let cut = Run { status: RunStatus::Partial, ..run_at("a", "x", 3) };
        let (kept, stated) = latest_run_per_node(vec![late.clone(), early.clone(), cut, early, late.clone()]);
        assert_eq!(kept.iter().map(|run| &run.id).collect::<Vec<_>>(), [&late.id]);
        assert_eq!(stated.len(), 2, "{stated:?}");
        assert_eq!(stated[0], "a came twice: its run of 2026-01-01T00:01:00Z is left out");
        // Only the repeated node of a merged run is dropped.
        let old = merged(run_at("a", "x", 1), [run_at("a", "x", 1), run_at("b", "x", 1)], Vec::new(), true);
        let (kept, stated) = latest_run_per_node(vec![old, run_at("b", "x", 5)]);
        let names: Vec<&str> = kept.iter().flat_map(|run| &run.nodes).map(|one| one.name.as_str()).collect();
        assert_eq!((names, stated.len()), (vec!["a", "b"], 1));
        assert!(kept.iter().all(|run| run.measurements.len() == 1));
    }

    #[test]
    fn machines_of_one_name_get_numbers_that_are_free() {
        let mut step = run_at("n", "z", 3);
        let node = "n".to_owned();
        step.clock_steps.push(plimsoll_system::wall::ClockStep { node, at_s: 1.0, by_s: 5.0 });
        step.health.push(fixture::node_health("n"));
        let mut runs = vec![run_at("n", "x", 1), run_at("n-2", "y", 2), step];
        assert_eq!(make_names_unique(&mut runs), ["several machines have the name n: one is n-3 here"]);
        assert_eq!([&runs[2].measurements[0].node, &runs[2].clock_steps[0].node], ["n-3"; 2]);
        assert_eq!(runs[1].nodes[0].name, "n-2");
        let alone = run_of_node(&runs[2], "n-3").unwrap();
        assert_eq!((runs[2].health[0].node.as_str(), alone.health.len()), ("n-3", 1));
        let joined = merged(run_at("a", "x", 1), runs, Vec::new(), true);
        assert_eq!(joined.health.len(), 1);
        assert!(joined.findings.iter().any(|finding| finding.code == "pcie-link"));
    }

    #[test]
    fn a_run_of_all_is_whole_where_none_is_lost() {
        let one = fleet(&[("a", GIB, 1.0)]);
        let other = fleet(&[("b", GIB, 1.0)]);
        let lost = Finding::new("x", "c is lost".to_owned(), serde_json::Value::Null);
        let all = |lost: Vec<Finding>| merged(one.header(), [one.clone(), other.clone()], lost, true);
        let whole = all(Vec::new());
        assert_eq!((whole.status, whole.nodes.len(), whole.measurements.len()), (RunStatus::Complete, 2, 2));
        let partial = all(vec![lost]);
        assert_eq!((partial.status, partial.findings[0].code.as_str()), (RunStatus::Partial, "x"));
    }
}
