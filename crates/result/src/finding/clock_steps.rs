use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_system::wall::ClockStep;
use plimsoll_units::quantity::format_duration;

use crate::document::Finding;

/// Returns one finding for each node whose wall clock was set during the run.
pub fn clock_steps(steps: &[ClockStep]) -> Vec<Finding> {
    let nodes: BTreeSet<&str> = steps.iter().map(|step| step.node.as_str()).collect();
    nodes.into_iter().filter_map(|node| of_node(node, steps)).collect()
}

fn of_node(node: &str, steps: &[ClockStep]) -> Option<Finding> {
    let own: Vec<&ClockStep> = steps.iter().filter(|step| step.node == node).collect();
    let largest = own.iter().copied().max_by(|a, b| a.by_s.abs().total_cmp(&b.by_s.abs()))?;
    let span = |s: f64| format_duration(Duration::try_from_secs_f64(s.abs()).unwrap_or(Duration::MAX));
    let direction = if largest.by_s < 0.0 { "backwards" } else { "forwards" };
    let often = match own.len() {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let text = format!(
        "the wall clock of {} was set {often} during the run, by up to {} {direction}. Times of day may be off by that much. Durations and rates are right: their clock cannot be set",
        plimsoll_units::text::shown(node),
        span(largest.by_s)
    );
    Some(Finding::new("clock-stepped", text, serde_json::json!({ "node": node, "steps": own })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_is_told_once_with_its_largest_step() {
        let step = |node: &str, by_s| ClockStep { node: node.to_owned(), at_s: 1.0, by_s };
        assert_eq!(clock_steps(&[]), []);
        let found = clock_steps(&[step("b", 2.0), step("a", -3596.0), step("b", 360_000.0)]);
        let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
        assert!(texts[0].contains("of a was set once during the run, by up to "), "{texts:?}");
        assert!(texts[1].contains("of b was set 2 times") && texts[1].contains(" forwards. "), "{texts:?}");
        assert_eq!(found[1].evidence["steps"].as_array().unwrap().len(), 2);
    }
}
