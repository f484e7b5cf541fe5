//! What a lost machine left, entered later into the run that it was lost from.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::Lost;
use crate::document::{Finding, Run, RunStatus};
use crate::fleet;

/// The code of the finding that names a lost machine.
const LOST: &str = "machine-lost";

/// Names a lost machine. `machines` is how many the run has, where their rows are all of it: with them it is whole.
pub(super) fn finding(lost: &Lost, machines: Option<usize>) -> Finding {
    Finding {
        code: LOST.to_owned(),
        text: format!("{} (rank {}) was lost: {}", lost.name, lost.rank, lost.why),
        evidence: serde_json::json!({
            "node": lost.name, "rank": lost.rank, "why": lost.why, "machines": machines
        }),
    }
}

/// A stored run with the rows of machines that were lost from it; `None` if it has them all. What such a machine left is
/// a document of the same run.
///
/// # Errors
/// The document was redacted, in one line: nothing tells which machine its rows are of.
pub(in crate::app) fn with_late(stored: Run, part: &Run) -> Result<Option<Run>, String> {
    let here: BTreeSet<&str> = stored.nodes.iter().map(|node| node.name.as_str()).collect();
    let late = |name: &str| !here.contains(name);
    let mut nodes = part.nodes_beside(&stored.machine);
    nodes.retain(|node| late(&node.name));
    let measurements: Vec<_> = part.measurements.iter().filter(|m| late(&m.node)).cloned().collect();
    if stored.status == RunStatus::Complete || nodes.is_empty() || measurements.is_empty() {
        return Ok(None);
    }
    if part.redacted().is_ok_and(|redacted| redacted == *part) {
        return Err(format!(
            "run {}: this is a redacted copy, whose machines have other names; import the file as the machine left it",
            stored.id
        ));
    }
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let is_late = |finding: &Finding| finding.evidence["node"].as_str().is_some_and(|n| names.contains(n));
    let mut run = stored;
    let of_lost = run.findings.iter().find(|finding| finding.code == LOST);
    let machines = of_lost.and_then(|finding| finding.evidence["machines"].as_u64());
    run.findings.retain(|finding| finding.code == LOST && !is_late(finding));
    run.nodes.extend(nodes);
    run.measurements.extend(measurements);
    if run.findings.is_empty() && machines == Some(run.nodes.len() as u64) && all_measured(&run) {
        run.status = RunStatus::Complete;
    }
    let found = fleet::of_machines(&run);
    run.findings.extend(found);
    Ok(Some(run))
}

/// Whether each machine has as many rows as the plan has cases.
fn all_measured(run: &Run) -> bool {
    let mut rows: BTreeMap<&str, usize> = run.nodes.iter().map(|node| (node.name.as_str(), 0)).collect();
    for measurement in &run.measurements {
        *rows.entry(&measurement.node).or_default() += 1;
    }
    rows.values().all(|count| *count >= run.plan.cases)
}
