//! Findings: conclusions from the results. A benchmark's own rules are in its descriptor.

mod changed;
mod clock_steps;
mod energy;
pub mod evidence;
mod health;
mod outlier;
mod pairs;
mod scales;
mod shortfall;
mod wrong;

pub use changed::{LevelStep, steps};
pub use clock_steps::clock_steps;
pub use health::health;
pub use outlier::{Machines, NodeFacts, OutlierRetest, SuspectFigure, apply_retests, next_retests};
pub use pairs::{PairPath, pairs};
pub use wrong::WRONG_ANSWER;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_bench::benchmarks;
use plimsoll_model::measurement::Measurement;

use crate::document::Finding;
use evidence::CasesOfFinding;

/// Most nodes whose single findings are listed; above, only differences between nodes are.
const MAX_LISTED_NODES: usize = 8;

/// Least nodes of a kind for a reliable outlier: with fewer, two slow ones move the median.
pub const MIN_OUTLIER_NODES: usize = 5;

/// Returns all findings: wrong answers, then differences between nodes, then findings per node.
pub fn findings(measurements: &[Measurement]) -> Vec<Finding> {
    by_kind(measurements, &[], &Machines::new())
}

/// Returns all findings from `measurements`. Nodes are compared within each set of names in `kinds`
/// (none: all nodes). `machines` has facts for causes and grouping, and may lack nodes.
pub fn by_kind(
    measurements: &[Measurement],
    kinds: &[BTreeSet<&str>],
    machines: &Machines<'_>,
) -> Vec<Finding> {
    let mut nodes: Vec<&str> = Vec::new();
    for measurement in measurements {
        // Measurements of one node are adjacent.
        if nodes.last() != Some(&measurement.node.as_str()) && !nodes.contains(&measurement.node.as_str()) {
            nodes.push(&measurement.node);
        }
    }
    if nodes.len() < 2 {
        let mut found = wrong::find(measurements, false);
        found.extend(of_machine(measurements));
        return found;
    }
    let of = |kind: &BTreeSet<&str>| {
        let own = measurements.iter().filter(|m| kind.contains(m.node.as_str()));
        outlier::find(&own.cloned().collect::<Vec<_>>(), machines)
    };
    let mut found = wrong::find(measurements, true);
    match kinds {
        [] | [_] => found.extend(outlier::find(measurements, machines)),
        kinds => found.extend(kinds.iter().flat_map(of)),
    }
    if nodes.len() <= MAX_LISTED_NODES {
        let of_each = nodes.iter().flat_map(|node| {
            let own: Vec<Measurement> = measurements.iter().filter(|m| m.node == *node).cloned().collect();
            of_machine(&own).into_iter().map(|finding| (*node, finding)).collect::<Vec<_>>()
        });
        found.extend(merged_findings(of_each.collect(), nodes.len()));
    }
    found
}

/// Prefixes findings with their node; merges those that more than half of `machines` nodes share.
fn merged_findings(of_each: Vec<(&str, Finding)>, machines: usize) -> Vec<Finding> {
    let subject = |finding: &Finding| {
        let CasesOfFinding { cases, case } = finding.evidence_as()?;
        Some((finding.code.clone(), cases.or(case)?.to_string()))
    };
    let mut showing: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for (node, finding) in &of_each {
        if let Some(key) = subject(finding) {
            showing.entry(key).or_default().insert(node);
        }
    }
    showing.retain(|_, nodes| 2 * nodes.len() > machines);
    let mut reported = BTreeSet::new();
    let once = |(node, finding): (&str, Finding)| {
        let who = match subject(&finding).and_then(|key| Some((showing.get(&key)?.len(), key))) {
            Some((_, key)) if reported.contains(&key) => return None,
            Some((count, key)) => {
                reported.insert(key);
                format!("{count} of {machines} machines, such as {node}")
            }
            None => node.to_owned(),
        };
        Some(Finding { text: format!("{who}: {}", finding.text), ..finding })
    };
    of_each.into_iter().filter_map(once).collect()
}

/// Returns the findings of one node by topic, the general rules first within a topic.
fn of_machine(measurements: &[Measurement]) -> Vec<Finding> {
    let general = [scales::find, changed::find, shortfall::find, energy::find];
    let mut found = general.map(|find| find(measurements)).concat();
    found.extend(benchmarks().flat_map(|benchmark| (benchmark.descriptor().findings)(measurements)));
    found.sort_by_key(|finding| finding.topic);
    found.into_iter().map(Finding::from).collect()
}

/// Returns the end of a finding's text: `. Likely cause: …`, or `. Cause unknown` for `None`.
fn because(cause: Option<&str>) -> String {
    cause.map_or_else(|| ". Cause unknown".to_owned(), |cause| format!(". Likely cause: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_machines_show_of_a_case_is_told_once_and_the_rest_of_each() {
        let finding = |code: &str, evidence: serde_json::Value| {
            Finding::new(code, format!("{code} {evidence}"), evidence)
        };
        let case = |name: &str| serde_json::json!({ "case": name });
        let of_each = vec![
            ("n1", finding("scales", case("a"))),
            ("n1", finding("changed", serde_json::json!({}))),
            ("n2", finding("scales", case("a"))),
            ("n2", finding("scales", case("b"))),
            ("n2", finding("changed", serde_json::json!({}))),
            ("n3", finding("changed", serde_json::json!({}))),
        ];
        let texts: Vec<String> = merged_findings(of_each, 3).into_iter().map(|found| found.text).collect();
        let told = [
            "2 of 3 machines, such as n1: scales {\"case\":\"a\"}",
            "n1: changed {}",
            "n2: scales {\"case\":\"b\"}",
            "n2: changed {}",
            "n3: changed {}",
        ];
        assert_eq!(texts, told);
    }
}
