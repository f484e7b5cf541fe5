//! What a comparison decided, in one sentence for every format; and what its gate cannot see.

use std::fmt;

use serde::Serialize;

use super::{Compared, Doubt, Kind, Uncompared, Verdict};
use crate::bench::Better;
use crate::quantity::percent;

/// What was decided of the metrics that are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// Metrics that are judged.
    pub of: usize,
    /// Really worse.
    pub worse: usize,
    /// Really better.
    pub better: usize,
    /// Within the noise.
    pub same: usize,
    /// Undecided because of the noise of the runs, which is known.
    pub noisy: usize,
    /// Undecided because other work, or the hypervisor, came between the runs.
    pub disturbed: usize,
    /// Undecided because one side is zero.
    pub zero: usize,
    /// Undecided, because no noise is known.
    pub unknown: usize,
    /// Cases and metrics that the first side has figures of and the second has lost.
    pub lost: usize,
}

/// How good the news are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing is worse and all is decided.
    Good,
    /// Something is better, or something could not be decided.
    Fair,
    /// Something is worse or lost.
    Poor,
}

impl Decided {
    pub(super) fn of(compared: &[Compared], uncompared: &[Uncompared]) -> Self {
        let count = |verdict| compared.iter().filter(|c| c.verdict == verdict).count();
        let doubts = |doubts: &[Doubt]| {
            compared.iter().filter(|c| c.doubt.is_some_and(|doubt| doubts.contains(&doubt))).count()
        };
        Self {
            of: compared.len() - count(Verdict::Told),
            worse: count(Verdict::Worse),
            better: count(Verdict::Better),
            same: count(Verdict::Same),
            noisy: doubts(&[Doubt::Noise, Doubt::Interval, Doubt::Many]),
            disturbed: doubts(&[Doubt::Disturbed, Doubt::Moved]),
            zero: doubts(&[Doubt::Zero]),
            unknown: doubts(&[Doubt::Unknown]),
            lost: uncompared.iter().filter(|one| one.kind == Kind::Lost).count(),
        }
    }

    /// How good the news are.
    pub fn tone(&self) -> Tone {
        match () {
            () if self.worse + self.lost > 0 => Tone::Poor,
            () if self.same == self.of && self.of > 0 => Tone::Good,
            () => Tone::Fair,
        }
    }

    fn differences(&self) -> Option<String> {
        let text = match (self.worse, self.better) {
            (0, 0) => return None,
            (1, 0) => "1 difference: worse".to_owned(),
            (0, 1) => "1 difference: better".to_owned(),
            (n, 0) => format!("{n} differences: all worse"),
            (0, n) => format!("{n} differences: all better"),
            (n, m) => format!("{} differences: {n} worse, {m} better", n + m),
        };
        Some(text)
    }

    fn doubt(&self) -> Option<String> {
        let of = self.of;
        let kinds = [
            (self.noisy, "too noisy"),
            (self.disturbed, "disturbed"),
            (self.zero, "with a zero on one side"),
            (self.unknown, "without a known noise between runs"),
        ];
        let mut said = kinds.iter().filter(|(n, _)| *n > 0);
        let (n, first) = said.next()?;
        let rest: String = said.map(|(n, what)| format!(", {n} {what}")).collect();
        Some(format!("cannot tell: {n} of {of} {first}{rest}"))
    }
}

/// `2 differences: 1 worse, 1 better; cannot tell: 4 of 9 too noisy; 1 lost`
impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (differences, doubt) = (self.differences(), self.doubt());
        let none = (differences.is_none() && doubt.is_none()).then(|| match self.of {
            0 => "nothing to compare".to_owned(),
            _ => "no real difference".to_owned(),
        });
        let rest = (differences.is_none() && doubt.is_some() && self.same > 0)
            .then(|| format!("no real difference in {}", self.same));
        let lost = (self.lost > 0).then(|| format!("{} lost", self.lost));
        let all: Vec<String> = [differences, doubt, none, rest, lost].into_iter().flatten().collect();
        f.write_str(&all.join("; "))
    }
}

/// What `--fail-on` looks at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// The loss above which a metric fails, as a share.
    pub fail_on: f64,
    /// Metrics that fail.
    pub failed: usize,
    /// Cases and metrics that were lost.
    pub lost: usize,
    /// Metrics that are judged.
    pub of: usize,
    /// Those of them that could lose more than that without failing, because they are undecided.
    pub blind: usize,
    /// How many of them have which cause.
    pub causes: Vec<Blind>,
    /// The most that one of them could lose; null where none of them could, or one could lose any share.
    pub up_to: Option<f64>,
}

/// Metrics that a gate cannot judge for the same cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Blind {
    /// The cause.
    pub doubt: Doubt,
    /// Metrics.
    pub count: usize,
}

impl Gate {
    pub(super) fn of(fail_on: f64, compared: &[Compared], uncompared: &[Uncompared]) -> Self {
        let blind: Vec<&Compared> = compared.iter().filter(|c| c.verdict == Verdict::Undecided).collect();
        let mut causes: Vec<Blind> = Vec::new();
        for doubt in blind.iter().filter_map(|c| c.doubt) {
            match causes.iter_mut().find(|known| known.doubt == doubt) {
                Some(known) => known.count += 1,
                None => causes.push(Blind { doubt, count: 1 }),
            }
        }
        causes.sort_by_key(|cause| cause.doubt);
        let unseen: Option<Vec<f64>> = blind.iter().map(|c| unseen(c)).collect();
        Self {
            fail_on,
            failed: compared.iter().filter(|c| c.verdict == Verdict::Worse && c.loss() > fail_on).count(),
            lost: uncompared.iter().filter(|one| one.kind == Kind::Lost).count(),
            of: compared.iter().filter(|c| c.verdict != Verdict::Told).count(),
            blind: blind.len(),
            causes,
            up_to: unseen.and_then(|all| all.into_iter().reduce(f64::max)),
        }
    }

    /// That the gate is blind, how much it does not see, why, and what helps; `None` where it sees all.
    pub fn blindness(&self) -> Option<String> {
        let (blind, of, share) = (self.blind, self.of, percent(self.fail_on, 2));
        let share = share.replace(' ', "");
        let by =
            self.up_to.map_or("by any amount".to_owned(), |up_to| format!("by up to {}", percent(up_to, 2)));
        let causes: Vec<String> = self.causes.iter().map(Blind::said).collect();
        (blind > 0).then(|| {
            format!(
                "gate blind: {blind} of {of} figures can be worse {by} and pass --fail-on {share}: {}",
                causes.join("; ")
            )
        })
    }
}

impl Blind {
    /// The cause, and what helps.
    fn said(&self) -> String {
        let n = self.count;
        match self.doubt {
            Doubt::Noise => format!("{n} too noisy (run plimsoll doctor, or compare more runs)"),
            Doubt::Unknown => format!("{n} without a known noise between runs (run plimsoll doctor)"),
            Doubt::Interval => format!("{n} with too wide an interval (take more samples)"),
            Doubt::Many => format!("{n} not certain among so many metrics (compare more runs)"),
            Doubt::Disturbed => format!("{n} disturbed by other work (measure again on an idle machine)"),
            Doubt::Moved => format!("{n} on CPUs that the hypervisor moved (measure again)"),
            Doubt::Zero => {
                format!("{n} with a zero on one side, so without a ratio (give a bound with --require)")
            }
        }
    }
}

/// The most that a metric could lose without being called worse; `None` where it could be anything.
fn unseen(one: &Compared) -> Option<f64> {
    let [low, high] = one.interval?;
    let worst = match one.better? {
        Better::Higher => -low,
        Better::Lower => high,
    };
    one.unseen.map(|unseen| unseen.max(worst))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::quantity::Unit;

    fn undecided(doubt: Doubt, unseen: Option<f64>) -> Compared {
        Compared {
            case: Case::of("null"),
            node: None,
            metric: "latency".to_owned(),
            headline: true,
            unit: Unit::Second,
            better: Some(Better::Lower),
            a: 1.0,
            b: 1.0,
            difference: Some(0.0),
            interval: Some([-0.02, 0.02]),
            smallest: unseen,
            unseen,
            noise: None,
            outliers: 0,
            p: None,
            verdict: Verdict::Undecided,
            why: None,
            doubt: Some(doubt),
            differs: Vec::new(),
        }
    }

    /// Each cause has its number and what helps against it, and the line says how much could be lost.
    #[test]
    fn a_blind_gate_names_each_cause_with_its_remedy() {
        let causes = [
            (Doubt::Noise, "too noisy", "doctor"),
            (Doubt::Unknown, "without a known noise between runs", "doctor"),
            (Doubt::Interval, "with too wide an interval", "take more samples"),
            (Doubt::Many, "not certain among so many metrics", "compare more runs"),
            (Doubt::Disturbed, "disturbed by other work", "idle machine"),
            (Doubt::Moved, "on CPUs that the hypervisor moved", "measure again"),
            (Doubt::Zero, "with a zero on one side", "--require"),
        ];
        let line = |all: &[Compared]| Gate::of(0.05, all, &[]).blindness().unwrap();
        for (doubt, why, helps) in causes {
            let one = line(&[undecided(doubt, Some(0.08))]);
            let begins = "gate blind: 1 of 1 figures can be worse by up to 8.0 % and pass --fail-on 5.0%: 1 ";
            let rest = one.strip_prefix(begins).unwrap_or_else(|| panic!("{one}"));
            assert!(rest.starts_with(why) && rest.contains(helps) && !one.contains('\n'), "{one}");
        }
        // All of them, the same in any order; what could lose any share makes the whole line so.
        let mut all: Vec<Compared> = causes.iter().map(|(doubt, ..)| undecided(*doubt, Some(0.08))).collect();
        all.push(undecided(Doubt::Zero, None));
        let forwards = line(&all);
        all.reverse();
        assert_eq!(forwards, line(&all));
        assert!(
            forwards.starts_with("gate blind: 8 of 8 figures can be worse by any amount and"),
            "{forwards}"
        );
        assert!(causes.iter().all(|(_, why, _)| forwards.contains(why)), "{forwards}");
        assert!(forwards.contains("2 with a zero on one side"), "{forwards}");
        // The interval may reach further than what would have been seen.
        let wide = [Compared { interval: Some([-0.3, 0.4]), ..undecided(Doubt::Interval, Some(0.08)) }];
        assert!(line(&wide).contains("by up to 40 % and"), "{}", line(&wide));
        let higher = wide.map(|wide| Compared { better: Some(Better::Higher), ..wide });
        assert!(line(&higher).contains("by up to 30 % and"), "{}", line(&higher));
    }

    #[test]
    fn a_gate_that_sees_everything_says_nothing() {
        let seen = Compared { verdict: Verdict::Same, doubt: None, ..undecided(Doubt::Noise, Some(0.01)) };
        assert_eq!(Gate::of(0.05, &[seen], &[]).blindness(), None);
        assert_eq!(Gate::of(0.05, &[], &[]).blindness(), None);
    }
}
