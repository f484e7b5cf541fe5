//! Runs on several machines as one document, however they were made: under MPI, by ssh, by a scheduler, by hand.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Finding, Node, Run, RunStatus};
use crate::finding;
use crate::machine::Machine;

/// Memory that differs by more than this share is of another kind of machine: firmware and kernel take a little of it.
const OTHER_MEMORY: f64 = 0.1;

/// The rows of `parts` in one document, whose other parts are those of `header`; what the figures say of the machines
/// comes after `lost`. It is whole where `whole` is and nobody is lost.
pub fn merged(header: Run, parts: impl IntoIterator<Item = Run>, lost: Vec<Finding>, whole: bool) -> Run {
    let mut run = Run { nodes: Vec::new(), measurements: Vec::new(), clock_steps: Vec::new(), ..header };
    for mut part in parts {
        run.nodes.extend(part.nodes_beside(&run.machine));
        run.measurements.append(&mut part.measurements);
        run.clock_steps.append(&mut part.clock_steps);
    }
    run.status = if lost.is_empty() && whole { RunStatus::Complete } else { RunStatus::Partial };
    run.findings = lost;
    run.findings.extend(of_machines(&run));
    run.findings.extend(finding::clock_steps(&run.clock_steps));
    run
}

/// What the figures of a run's machines say; machines of several kinds are compared with their own kind only.
pub fn of_machines(run: &Run) -> Vec<Finding> {
    let kinds = kinds(run);
    let names: Vec<BTreeSet<&str>> = kinds.values().cloned().collect();
    let mut found = finding::by_kind(&run.measurements, &names);
    if kinds.len() > 1 {
        let small = kinds.iter().filter(|(_, nodes)| nodes.len() < finding::ENOUGH);
        found.extend(small.map(|(kind, nodes)| few(kind, nodes)));
    }
    found
}

/// That there are too few machines of a kind to say which of them is slow.
fn few(kind: &str, nodes: &BTreeSet<&str>) -> Finding {
    const NAMED: usize = 5;
    let names: Vec<&str> = nodes.iter().copied().take(NAMED).collect();
    let text = match nodes.len() {
        1 => format!("{}: the only machine of its kind ({kind}), so it is compared with no other", names[0]),
        count => format!(
            "{}: {count} machines of their kind ({kind}): too few to name a slow one with certainty, which takes {}",
            names.join(", "),
            finding::ENOUGH
        ),
    };
    let evidence = serde_json::json!({ "kind": kind, "nodes": nodes });
    Finding { code: "few-of-a-kind".to_owned(), text, evidence }
}

/// The machines by kind: processor, number of CPUs, memory.
fn kinds(run: &Run) -> BTreeMap<String, BTreeSet<&str>> {
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
                let memory = crate::quantity::Quantity::new(bytes as f64, crate::quantity::Unit::Byte);
                named = format!("{processor} · {memory}");
            }
            before = Some(bytes);
            kinds.entry(named.clone()).or_default().insert(&node.name);
        }
    }
    kinds
}

fn processor(machine: &Machine) -> String {
    let cpu = &machine.cpu;
    let name = cpu.model_name.as_deref().or(machine.kernel.architecture.as_deref()).unwrap_or("unknown CPU");
    // A hypervisor may give one name to several chips.
    let number = match (cpu.family, cpu.model) {
        (Some(family), Some(model)) => format!(" (family {family:#x}, model {model:#x})"),
        _ => String::new(),
    };
    format!("{}{number} · {} CPUs", crate::text::shown_within(name, 60), cpu.threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::measurement::Measurement;

    const GIB: u64 = 1 << 30;

    /// Machines with this much memory, each with one figure: 100 times `rate`.
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

    fn codes(run: &Run) -> Vec<(String, String)> {
        of_machines(run).into_iter().map(|f| (f.code, f.text)).collect()
    }

    #[test]
    fn machines_are_compared_with_their_own_kind() {
        let names: Vec<String> = (0..20).map(|i| format!("n{i:02}")).collect();
        let kind = |i: usize| if i < 10 { (16 * GIB + i as u64 * (GIB / 100), 1.0) } else { (64 * GIB, 2.0) };
        let machines: Vec<_> =
            names.iter().enumerate().map(|(i, name)| (name.as_str(), kind(i).0, kind(i).1)).collect();
        assert_eq!(codes(&fleet(&machines)), [], "each is as fast as its kind");
        let mut slow = machines.clone();
        // Slow for its kind, and faster than the other kind.
        slow[15].2 = 1.5;
        let found = codes(&fleet(&slow));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].1.starts_with("n15: ") && found[0].1.contains("below the median of 10 machines"),
            "{found:?}"
        );
    }

    #[test]
    fn few_of_a_kind_are_told() {
        let names: Vec<String> = (0..8).map(|i| format!("n{i}")).collect();
        let memory = |i: usize| {
            if i < 5 {
                16 * GIB
            } else if i < 7 {
                32 * GIB
            } else {
                128 * GIB
            }
        };
        let machines: Vec<_> =
            names.iter().enumerate().map(|(i, name)| (name.as_str(), memory(i), 1.0)).collect();
        let found = of_machines(&fleet(&machines));
        let few: Vec<&Finding> = found.iter().filter(|f| f.code == "few-of-a-kind").collect();
        assert_eq!(few.len(), 2, "{found:?}");
        assert!(few.iter().any(|f| f.text.starts_with("n5, n6: 2 machines of their kind (")), "{few:?}");
        assert!(few.iter().any(|f| f.text.starts_with("n7: the only machine of its kind (")), "{few:?}");
    }

    #[test]
    fn a_run_of_all_is_whole_where_none_is_lost() {
        let one = fleet(&[("a", GIB, 1.0)]);
        let other = fleet(&[("b", GIB, 1.0)]);
        let lost =
            Finding { code: "x".to_owned(), text: "c is lost".to_owned(), evidence: serde_json::Value::Null };
        let all = |lost: Vec<Finding>| merged(one.header(), [one.clone(), other.clone()], lost, true);
        let whole = all(Vec::new());
        assert_eq!((whole.status, whole.nodes.len(), whole.measurements.len()), (RunStatus::Complete, 2, 2));
        let partial = all(vec![lost]);
        assert_eq!((partial.status, partial.findings[0].code.as_str()), (RunStatus::Partial, "x"));
    }
}
