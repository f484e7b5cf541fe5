//! Summary of a comparison in one sentence, and the blind spots of its gate.

use std::fmt;

use plimsoll_bench::Better;
use plimsoll_units::quantity::percent;
use plimsoll_units::text::format_count;
use serde::Serialize;

use super::{ComparedMetric, DifferenceVerdict, Uncompared, UncomparedKind, Undecided, regressions};

/// Number of judged metrics per verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decisions {
    /// Judged metrics.
    pub of: usize,
    /// Regressions.
    pub regressions: usize,
    /// Improvements.
    pub improvements: usize,
    /// Metrics within the noise.
    pub no_change: usize,
    /// Inconclusive due to noise between runs.
    pub noisy: usize,
    /// Inconclusive due to other work or the hypervisor.
    pub interrupted: usize,
    /// Inconclusive because one side is zero.
    pub zero: usize,
    /// Inconclusive because the noise floor is unknown.
    pub unknown: usize,
    /// Cases and metrics with a result on the first side that another side has lost.
    pub lost: usize,
}

impl Decisions {
    pub(super) fn of(compared: &[ComparedMetric], uncompared: &[Uncompared]) -> Self {
        let count = |verdict| compared.iter().filter(|c| c.verdict == verdict).count();
        let doubts = |doubts: &[Undecided]| {
            compared.iter().filter(|c| c.doubt.is_some_and(|doubt| doubts.contains(&doubt))).count()
        };
        let of_kind = |kind| uncompared.iter().filter(|one| one.kind == kind).count();
        let interrupted = of_kind(UncomparedKind::Interrupted);
        Self {
            of: compared.len() - count(DifferenceVerdict::Informative) + interrupted,
            regressions: count(DifferenceVerdict::Regression),
            improvements: count(DifferenceVerdict::Improvement),
            no_change: count(DifferenceVerdict::NoChange),
            noisy: doubts(&[Undecided::Noise, Undecided::Interval, Undecided::Many]),
            interrupted: doubts(&[Undecided::Interrupted, Undecided::Migrated]) + interrupted,
            zero: doubts(&[Undecided::Zero]),
            unknown: doubts(&[Undecided::Unknown]),
            lost: of_kind(UncomparedKind::Lost),
        }
    }

    fn inconclusive(&self) -> Option<String> {
        let kinds = [
            (self.noisy, "too noisy"),
            (self.interrupted, "interrupted"),
            (self.zero, "0 on one side"),
            (self.unknown, "noise floor unknown"),
        ];
        let kinds: Vec<(usize, &str)> = kinds.into_iter().filter(|(n, _)| *n > 0).collect();
        let why = match kinds.as_slice() {
            [] => return None,
            [(_, why)] => (*why).to_owned(),
            all => all.iter().map(|(n, why)| format!("{n} {why}")).collect::<Vec<_>>().join(", "),
        };
        Some(format!("{} inconclusive ({why})", kinds.iter().map(|(n, _)| n).sum::<usize>()))
    }
}

impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some = |n: usize, text: String| Some(text).filter(|_| n > 0);
        let verdicts = [
            some(self.regressions, format_count(self.regressions, "regression")),
            some(self.improvements, format_count(self.improvements, "improvement")),
            some(self.no_change, format!("{} no change", self.no_change)),
            self.inconclusive(),
        ];
        let decided = match self.of {
            0 => "nothing to compare".to_owned(),
            of if of == self.no_change => "no change".to_owned(),
            _ => verdicts.into_iter().flatten().collect::<Vec<_>>().join(", "),
        };
        let lost = (self.lost > 0).then(|| format!("; {} lost", self.lost));
        write!(f, "{decided}{}", lost.unwrap_or_default())
    }
}

/// Result of the gate `--fail-on`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailOnResult {
    /// Largest loss that passes, as a share.
    pub fail_on: f64,
    /// Metrics that fail.
    pub failed: usize,
    /// Judged metrics.
    pub of: usize,
    /// Inconclusive metrics, which could lose more without failing.
    pub blind: usize,
    /// Number of inconclusive metrics per cause.
    pub causes: Vec<UnjudgedMetrics>,
    /// Largest loss that could go undetected; null if there is none, or if any loss could.
    pub up_to: Option<f64>,
}

/// Metrics that a gate cannot judge for the same cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UnjudgedMetrics {
    /// Cause.
    pub doubt: Undecided,
    /// Number of metrics.
    pub count: usize,
}

impl FailOnResult {
    pub(super) fn of(fail_on: f64, compared: &[ComparedMetric], uncompared: &[Uncompared]) -> Self {
        let blind: Vec<&ComparedMetric> =
            compared.iter().filter(|c| c.verdict == DifferenceVerdict::Inconclusive).collect();
        let interrupted = uncompared.iter().filter(|one| one.kind == UncomparedKind::Interrupted).count();
        let mut doubts: Vec<Undecided> = blind.iter().filter_map(|c| c.doubt).collect();
        doubts.extend(std::iter::repeat_n(Undecided::Interrupted, interrupted));
        doubts.sort_unstable();
        let cause = |same: &[Undecided]| UnjudgedMetrics { doubt: same[0], count: same.len() };
        let without_figure = std::iter::repeat_n(None, interrupted);
        let unseen: Option<Vec<f64>> = blind.iter().map(|c| unseen(c)).chain(without_figure).collect();
        Self {
            fail_on,
            failed: regressions(compared, fail_on).count(),
            of: compared.iter().filter(|c| c.verdict != DifferenceVerdict::Informative).count() + interrupted,
            blind: blind.len() + interrupted,
            causes: doubts.chunk_by(|a, b| a == b).map(cause).collect(),
            up_to: unseen.and_then(|all| all.into_iter().reduce(f64::max)),
        }
    }

    /// Describes losses that `--fail-on` cannot detect, and the remedy; `None` if it detects all.
    pub fn blindness(&self) -> Option<String> {
        let Self { blind, of, up_to, causes, .. } = self;
        let share = percent(self.fail_on, 2).replace(' ', "");
        let size = up_to.map_or("of any size".to_owned(), |up_to| format!("of up to {}", percent(up_to, 2)));
        let causes = causes.iter().map(UnjudgedMetrics::describe).collect::<Vec<_>>().join("; ");
        let text = format!("undetectable: regressions {size} in {blind} of {of} metrics");
        (*blind > 0).then(|| format!("{text} pass --fail-on {share}: {causes}"))
    }
}

impl UnjudgedMetrics {
    fn describe(&self) -> String {
        let cause = match self.doubt {
            Undecided::Noise => "too noisy (run plimsoll doctor, or compare more runs)",
            Undecided::Unknown => "without a known noise floor (run plimsoll doctor)",
            Undecided::Interval => "with too wide a CI (take more samples)",
            Undecided::Many => "not significant among so many metrics (compare more runs)",
            Undecided::Interrupted => "interrupted by other work (measure again on an idle machine)",
            Undecided::Migrated => "with vCPUs that the hypervisor migrated (measure again)",
            Undecided::Zero => "with 0 on one side, so no ratio (give a bound with --require)",
        };
        format!("{} {cause}", self.count)
    }
}

/// Returns the largest loss (0.1 is a tenth) that would not be a regression; `None`: unlimited.
fn unseen(one: &ComparedMetric) -> Option<f64> {
    let [low, high] = one.interval?;
    let worst = if one.better? == Better::Higher { -low } else { high };
    one.unseen.map(|unseen| unseen.max(worst))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::only;

    fn inconclusive(doubt: Undecided, unseen: Option<f64>) -> ComparedMetric {
        ComparedMetric {
            better: Some(Better::Lower),
            interval: Some([-0.02, 0.02]),
            unseen,
            verdict: DifferenceVerdict::Inconclusive,
            doubt: Some(doubt),
            ..only(1.0, 1.0, 0.004)
        }
    }

    #[test]
    fn a_blind_gate_names_each_cause_with_its_remedy() {
        let causes = [
            (Undecided::Noise, "too noisy", "doctor"),
            (Undecided::Unknown, "without a known noise floor", "doctor"),
            (Undecided::Interval, "with too wide a CI", "take more samples"),
            (Undecided::Many, "not significant among so many metrics", "compare more runs"),
            (Undecided::Interrupted, "interrupted by other work", "idle machine"),
            (Undecided::Migrated, "with vCPUs that the hypervisor migrated", "measure again"),
            (Undecided::Zero, "with 0 on one side", "--require"),
        ];
        let line = |all: &[ComparedMetric]| FailOnResult::of(0.05, all, &[]).blindness().unwrap();
        for (doubt, why, helps) in causes {
            let one = line(&[inconclusive(doubt, Some(0.08))]);
            let begins = "undetectable: regressions of up to 8.0 % in 1 of 1 metrics pass --fail-on 5.0%: 1 ";
            let rest = one.strip_prefix(begins).unwrap_or_else(|| panic!("{one}"));
            assert!(rest.starts_with(why) && rest.contains(helps) && !one.contains('\n'), "{one}");
        }
        let mut all = Vec::from(causes.map(|(doubt, ..)| inconclusive(doubt, Some(0.08))));
        all.push(inconclusive(Undecided::Zero, None));
        let forwards = line(&all);
        all.reverse();
        assert_eq!(forwards, line(&all));
        let start = "undetectable: regressions of any size in 8 of 8 metrics pass";
        assert!(forwards.starts_with(start), "{forwards}");
        assert!(causes.iter().all(|(_, why, _)| forwards.contains(why)), "{forwards}");
        assert!(forwards.contains("2 with 0 on one side"), "{forwards}");
        let wide =
            [ComparedMetric { interval: Some([-0.3, 0.4]), ..inconclusive(Undecided::Interval, Some(0.08)) }];
        assert!(line(&wide).contains("of up to 40 % in"), "{}", line(&wide));
        let higher = wide.map(|wide| ComparedMetric { better: Some(Better::Higher), ..wide });
        assert!(line(&higher).contains("of up to 30 % in"), "{}", line(&higher));
    }

    #[test]
    fn a_gate_that_sees_everything_says_nothing() {
        let seen = ComparedMetric {
            verdict: DifferenceVerdict::NoChange,
            doubt: None,
            ..inconclusive(Undecided::Noise, Some(0.01))
        };
        assert_eq!(FailOnResult::of(0.05, &[seen], &[]).blindness(), None);
        assert_eq!(FailOnResult::of(0.05, &[], &[]).blindness(), None);
    }
}
