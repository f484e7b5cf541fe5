use std::collections::HashSet;
use std::hash::Hash;

use super::Run;

fn first_duplicate<T: Clone + Eq + Hash>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = HashSet::new();
    all.find(|one| !seen.insert(one.clone()))
}

impl Run {
    /// Describes the first node, case or metric that the run has twice; `None` if there is none.
    pub fn find_duplicate(&self) -> Option<String> {
        let shown = |text: &str| plimsoll_units::text::shown_within(text, 60);
        if let Some(name) = first_duplicate(self.nodes.iter().map(|node| node.name.as_str())) {
            return Some(format!("machine '{}'", shown(name)));
        }
        if let Some((id, node, repeat)) =
            first_duplicate(self.measurements.iter().map(|m| (m.case.id(), m.node.as_str(), m.repeat)))
        {
            return Some(format!("{id} of '{}', repetition {repeat}", shown(node)));
        }
        self.measurements.iter().find_map(|of| {
            let name = first_duplicate(of.metrics.iter().map(|metric| metric.name.as_str()))?;
            Some(format!("metric '{}' of {}", plimsoll_units::text::shown_within(name, 40), of.case.id()))
        })
    }
}
