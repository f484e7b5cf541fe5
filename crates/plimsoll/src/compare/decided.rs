//! What a comparison decided, in one sentence for every format; and what its gate cannot see.

use std::fmt;

use serde::Serialize;

use super::{Compared, Kind, Uncompared, Verdict};
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
    /// Undecided, though a noise is known: too noisy.
    pub noisy: usize,
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
        let undecided = count(Verdict::Undecided);
        let unknown = |c: &&Compared| c.verdict == Verdict::Undecided && c.noise.is_none();
        let unknown = compared.iter().filter(unknown).count();
        Self {
            of: compared.len() - count(Verdict::Told),
            worse: count(Verdict::Worse),
            better: count(Verdict::Better),
            same: count(Verdict::Same),
            noisy: undecided - unknown,
            unknown,
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
        match (self.noisy, self.unknown) {
            (0, 0) => None,
            (n, 0) => Some(format!("cannot tell: {n} of {of} too noisy")),
            (0, n) => Some(format!("cannot tell: the noise between runs of {n} of {of} is unknown")),
            (n, m) => Some(format!("cannot tell: {n} of {of} too noisy, the noise of {m} unknown")),
        }
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
    /// The most that one of them could lose; null where none of them could, or one could lose any share.
    pub up_to: Option<f64>,
}

impl Gate {
    pub(super) fn of(fail_on: f64, compared: &[Compared], uncompared: &[Uncompared]) -> Self {
        let blind: Vec<&Compared> = compared.iter().filter(|c| c.verdict == Verdict::Undecided).collect();
        let unseen: Option<Vec<f64>> = blind.iter().map(|c| unseen(c)).collect();
        Self {
            fail_on,
            failed: compared.iter().filter(|c| c.verdict == Verdict::Worse && c.loss() > fail_on).count(),
            lost: uncompared.iter().filter(|one| one.kind == Kind::Lost).count(),
            of: compared.iter().filter(|c| c.verdict != Verdict::Told).count(),
            blind: blind.len(),
            up_to: unseen.and_then(|all| all.into_iter().reduce(f64::max)),
        }
    }

    /// That the gate is blind, and how much it does not see; `None` where it sees all.
    pub fn blindness(&self) -> Option<String> {
        let (blind, of, share) = (self.blind, self.of, percent(self.fail_on, 2));
        let share = share.replace(' ', "");
        let by =
            self.up_to.map_or("by any amount".to_owned(), |up_to| format!("by up to {}", percent(up_to, 2)));
        (blind > 0).then(|| {
            format!(
                "gate blind: noise hides changes {by} in {blind} of {of} figures from --fail-on {share}; run plimsoll doctor, or compare more runs"
            )
        })
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
