//! Reference tools beside a metric, as stored: their figures, the ratio of ours to theirs, and the verdict.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Note;
use crate::limit::Limit;
use crate::sample::{Achieved, Beside, Match};
use crate::stats::{Ratio, Verdict};

/// Whether a tool gave figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Availability {
    /// It did.
    Ok,
    /// It did not, or stopped to; `reason` says why.
    Unavailable,
}

/// Ours ÷ theirs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parity {
    /// Median of the pairs' own ratios.
    pub median: f64,
    /// 95 % interval; null below 3 pairs.
    pub ci95: Option<[f64; 2]>,
}

/// One tool beside one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerResult {
    /// Its name.
    #[serde(rename = "name")]
    pub peer: String,
    /// Its version, if it says.
    pub version: Option<String>,
    /// Whether it gave figures.
    pub status: Availability,
    /// Why not.
    pub reason: Option<String>,
    /// The command, as it could be typed.
    pub command: Vec<String>,
    /// What it reads: a file of that name in its working directory, or `stdin`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input: BTreeMap<String, String>,
    /// Parameters that it says it used, and the library that decides its figure.
    #[serde(default, skip_serializing_if = "Achieved::is_empty")]
    pub achieved: Achieved,
    /// How far the definitions agree.
    #[serde(rename = "match")]
    pub definition: Match,
    /// Where they differ, or how they were brought together.
    pub note: String,
    /// Our figures of the pairs, as a tool would print them: with all interruptions in them.
    pub own: Vec<f64>,
    /// Its figures, in our metric's unit, in the order of the pairs.
    pub samples: Vec<f64>,
    /// Their median.
    pub median: Option<f64>,
    /// What our median of the pairs is of the metric's limit.
    pub own_of_limit: Option<f64>,
    /// What theirs is.
    pub of_limit: Option<f64>,
    /// Ours ÷ theirs, pair by pair.
    pub ratio: Option<Parity>,
    /// The margin within which two figures are the same for the reader, stated before the run.
    pub margin: f64,
    /// What the pairs say. Definitions that do not agree exactly are never called equivalent.
    pub verdict: Verdict,
    /// What it did otherwise than asked.
    pub warnings: Vec<Note>,
}

impl PeerResult {
    /// What became of one tool.
    pub fn of(heard: &Beside, margin: f64) -> Self {
        let pairs: Vec<(f64, f64)> = heard.pairs.iter().map(|p| (p.own, p.peer)).collect();
        let ratio = Ratio::of(&pairs);
        let verdict = match (ratio, heard.definition) {
            (None, _) => Verdict::Inconclusive,
            // A margin of nothing is never met: what is not the same thing may only be higher or lower.
            (Some(ratio), Match::Exact) => ratio.verdict(margin),
            (Some(ratio), Match::Scaled | Match::Related) => ratio.verdict(0.0),
        };
        let samples: Vec<f64> = heard.pairs.iter().map(|p| p.peer).collect();
        let status = match &heard.unavailable {
            None => Availability::Ok,
            Some(_) => Availability::Unavailable,
        };
        Self {
            peer: heard.name.clone(),
            version: heard.version.clone(),
            status,
            reason: heard.unavailable.clone(),
            command: heard.command.clone(),
            input: heard.input.clone(),
            achieved: heard.achieved.clone(),
            definition: heard.definition,
            note: heard.note.clone(),
            median: crate::limit::median(samples.clone()),
            own: heard.pairs.iter().map(|p| p.own).collect(),
            samples,
            own_of_limit: None,
            of_limit: None,
            ratio: ratio.map(|ratio| Parity { median: ratio.median, ci95: ratio.ci95 }),
            margin,
            verdict,
            warnings: heard.warnings.clone(),
        }
    }

    /// Our median of the pairs.
    pub fn own_median(&self) -> Option<f64> {
        crate::limit::median(self.own.clone())
    }

    /// The same with both figures as shares of this limit.
    #[must_use]
    pub fn with_shares(mut self, limit: Option<&Limit>) -> Self {
        let bound = limit.and_then(|limit| Some((limit, limit.value?)));
        let share = |value: Option<f64>| {
            let (limit, bound) = bound?;
            Some(limit.share(value?, bound)).filter(|share| share.is_finite())
        };
        (self.own_of_limit, self.of_limit) =
            (share(crate::limit::median(self.own.clone())), share(self.median));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn heard(definition: Match, peer: &[f64]) -> Beside {
        let pairs: Vec<(f64, f64)> = peer.iter().map(|peer| (100.0, *peer)).collect();
        Beside { definition, ..fixture::heard("fio", &pairs) }
    }

    #[test]
    fn only_exact_definitions_can_be_equivalent() {
        let close = [100.1, 99.9, 100.0, 100.2, 99.8];
        assert_eq!(PeerResult::of(&heard(Match::Exact, &close), 0.03).verdict, Verdict::Equivalent);
        for definition in [Match::Scaled, Match::Related] {
            assert_eq!(PeerResult::of(&heard(definition, &close), 0.03).verdict, Verdict::Inconclusive);
        }
        let slower = [50.0, 51.0, 49.0];
        assert_eq!(PeerResult::of(&heard(Match::Related, &slower), 0.03).verdict, Verdict::Higher);
    }

    #[test]
    fn a_tool_without_figures_has_no_ratio_and_says_why() {
        let gone = Beside { unavailable: Some("not installed".to_owned()), ..heard(Match::Exact, &[]) };
        let result = PeerResult::of(&gone, 0.03);
        assert_eq!((result.status, result.ratio, result.median), (Availability::Unavailable, None, None));
        assert_eq!(result.reason.as_deref(), Some("not installed"));
    }
}
