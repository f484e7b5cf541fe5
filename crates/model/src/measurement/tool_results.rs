use std::collections::BTreeMap;

use plimsoll_stats::{EquivalenceVerdict, Ratio};
use serde::{Deserialize, Serialize};

use super::Note;
use crate::limit::Limit;
use crate::sample::{Achieved, Match, ToolRun};

/// Whether a tool gave figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Availability {
    /// It did.
    Ok,
    /// It did not, or stopped; `reason` explains why.
    Unavailable,
}

/// Result of one tool for one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Name of the tool.
    #[serde(rename = "name")]
    pub tool: String,
    /// Version, if known.
    pub version: Option<String>,
    /// Whether it gave figures.
    pub status: Availability,
    /// Reason if it did not.
    pub reason: Option<String>,
    /// Command with its arguments.
    pub command: Vec<String>,
    /// Input by name: a file in its working directory, or `stdin`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input: BTreeMap<String, String>,
    /// Parameters that it reported, and the library that determines its figure.
    #[serde(default, skip_serializing_if = "Achieved::is_empty")]
    pub achieved: Achieved,
    /// Agreement of the definitions.
    #[serde(rename = "match")]
    pub definition: Match,
    /// Difference of the definitions, or how they were aligned.
    pub note: String,
    /// Our figures of the pairs, interruptions included, as a tool would print them.
    pub own: Vec<f64>,
    /// The tool's figures in our unit, in the order of the pairs.
    pub samples: Vec<f64>,
    /// Median of the tool's figures.
    pub median: Option<f64>,
    /// Our median's share of the metric's limit.
    pub own_of_limit: Option<f64>,
    /// The tool's median's share of the metric's limit.
    pub of_limit: Option<f64>,
    /// Ratio of ours to the tool's, pair by pair.
    pub ratio: Option<Ratio>,
    /// Margin within which figures count as equivalent, fixed before the run.
    pub margin: f64,
    /// Verdict on the pairs; never equivalent unless the definitions match exactly.
    pub verdict: EquivalenceVerdict,
    /// Deviations from the request.
    pub warnings: Vec<Note>,
}

impl ToolResult {
    /// Compares a reference tool's figures with ours; a difference up to `margin` (0.05) is none.
    pub fn of(tool_run: &ToolRun, margin: f64) -> Self {
        let pairs: Vec<(f64, f64)> = tool_run.pairs.iter().map(|p| (p.own, p.tool)).collect();
        // A zero margin is never met: other definitions only give higher or lower.
        let judged_margin = if tool_run.definition == Match::Exact { margin } else { 0.0 };
        let samples: Vec<f64> = tool_run.pairs.iter().map(|p| p.tool).collect();
        let is_ok = tool_run.unavailable.is_none();
        Self {
            tool: tool_run.name.clone(),
            version: tool_run.version.clone(),
            status: if is_ok { Availability::Ok } else { Availability::Unavailable },
            reason: tool_run.unavailable.clone(),
            command: tool_run.command.clone(),
            input: tool_run.input.clone(),
            achieved: tool_run.achieved.clone(),
            definition: tool_run.definition,
            note: tool_run.note.clone(),
            median: crate::limit::median(samples.clone()),
            own: tool_run.pairs.iter().map(|p| p.own).collect(),
            samples,
            own_of_limit: None,
            of_limit: None,
            ratio: Ratio::of(&pairs),
            margin,
            verdict: EquivalenceVerdict::of(&pairs, judged_margin),
            warnings: tool_run.warnings.clone(),
        }
    }

    /// Returns the median of plimsoll's figures in the pairs; `None` without pairs.
    pub fn own_median(&self) -> Option<f64> {
        crate::limit::median(self.own.clone())
    }

    /// Sets the shares of `limit` that our median and the tool's reach; `None` if it is unknown.
    #[must_use]
    pub fn with_shares(mut self, limit: Option<&Limit>) -> Self {
        let bound = limit.and_then(|limit| Some((limit, limit.value?)));
        let share = |value: Option<f64>| {
            let (limit, bound) = bound?;
            Some(limit.share(value?, bound)).filter(|share| share.is_finite())
        };
        (self.own_of_limit, self.of_limit) = (share(self.own_median()), share(self.median));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn tool_run(definition: Match, tool: &[f64]) -> ToolRun {
        let pairs: Vec<(f64, f64)> = tool.iter().map(|tool| (100.0, *tool)).collect();
        ToolRun { definition, ..fixture::tool_run("fio", &pairs) }
    }

    #[test]
    fn only_exact_definitions_can_be_equivalent() {
        let close = [100.1, 99.9, 100.0, 100.2, 99.8];
        let verdict = |definition, tool: &[f64]| ToolResult::of(&tool_run(definition, tool), 0.03).verdict;
        assert_eq!(verdict(Match::Exact, &close), EquivalenceVerdict::Equivalent);
        for definition in [Match::Scaled, Match::Related] {
            assert_eq!(verdict(definition, &close), EquivalenceVerdict::Inconclusive);
        }
        assert_eq!(verdict(Match::Related, &[50.0, 51.0, 49.0]), EquivalenceVerdict::Higher);
    }

    #[test]
    fn a_tool_without_figures_has_no_ratio_and_says_why() {
        let gone = ToolRun { unavailable: Some("not installed".to_owned()), ..tool_run(Match::Exact, &[]) };
        let result = ToolResult::of(&gone, 0.03);
        assert_eq!((result.status, result.ratio, result.median), (Availability::Unavailable, None, None));
        assert_eq!(result.reason.as_deref(), Some("not installed"));
    }
}
