//! From two figures, their uncertainty and the noise between runs to a verdict.

use plimsoll_bench::Better;
use plimsoll_model::limit::median;
use plimsoll_model::measurement::MetricResult;
use plimsoll_stats::holm;
use plimsoll_units::quantity::Unit;
use serde::Serialize;

use super::{Compared, Known, Verdict};

/// The chance that a comparison of two alike runs calls anything real, over all its metrics.
pub const FAMILY: f64 = 0.01;

/// A difference (10 % of the smaller figure, so that it is the same from both sides) beyond which two figures are not called
/// unchanged, whatever the noise: what people look for may be lost in it.
const LARGEST_FOR_SAME: f64 = 0.1;

/// A difference (25 %) that must be seen where two figures are called the same: a noise that hides more decides nothing.
const LARGEST_UNSEEN_FOR_SAME: f64 = 0.25;

/// Share of the time that others took (10 %) up to which a figure loses just that share; beyond, what took the time is felt in
/// caches and queues as well, and a difference is not judged. Two threads on two CPUs of a quiet machine wait up to 6 %.
pub const MOST_TAKEN: f64 = 0.1;

/// What keeps a difference from being decided; the remedy follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Doubt {
    /// The noise between runs hides it.
    Noise,
    /// The noise between runs is not known.
    Unknown,
    /// The samples of a run leave too wide an interval.
    Interval,
    /// Among so many metrics it could be chance.
    Many,
    /// Others took the time: it was excluded, stolen, or waited for.
    Interrupted,
    /// The hypervisor ran the vCPUs on other cores.
    Migrated,
    /// One side is zero, or not a number that has a ratio.
    Zero,
}

/// Why a difference is not decided.
#[derive(Clone, Debug)]
pub(super) struct Why {
    pub(super) doubt: Doubt,
    pub(super) text: String,
}

impl Why {
    pub(super) fn new(doubt: Doubt, text: impl Into<String>) -> Self {
        Self { doubt, text: text.into() }
    }

    fn enter(self, into: &mut Compared) {
        (into.doubt, into.why) = (Some(self.doubt), Some(self.text));
    }
}

/// The two-sided 95 % point of the normal distribution.
const NORMAL_95: f64 = 1.96;

/// A metric's figure in one run: the median over what the run repeated. Repeats are minutes apart, so their spread is
/// not the noise between runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfRun {
    pub(super) median: f64,
    /// Standard error of its logarithm, from the interval of its samples.
    error: Option<f64>,
}

impl OfRun {
    /// `None` where the run does not have the metric.
    pub(super) fn of(repeats: &[&MetricResult]) -> Option<Self> {
        let error = |m: &&MetricResult| {
            let [low, high] = m.summary.ci95.filter(|[low, _]| *low > 0.0)?;
            Some((high / low).ln() / (2.0 * NORMAL_95))
        };
        Some(Self {
            median: median(repeats.iter().map(|m| m.summary.median).collect())?,
            error: median(repeats.iter().filter_map(error).collect()),
        })
    }
}

/// One side's figure as a logarithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Median over its runs; `None` where half of them or more are not above zero.
    centre: Option<f64>,
    /// Whether half of its runs or more are not above zero.
    at_zero: bool,
    /// Standard error within a run, from the interval of its samples.
    pub(super) error: f64,
    pub(super) runs: f64,
}

impl Evidence {
    pub(super) fn of(runs: &[OfRun]) -> Self {
        // What is not above zero lies below whatever is.
        let log = |run: &OfRun| match run.median {
            x if !x.is_finite() => None,
            x if x > 0.0 => Some(x.ln()),
            _ => Some(f64::NEG_INFINITY),
        };
        let logs: Option<Vec<f64>> = runs.iter().map(log).collect();
        let middle = logs.and_then(median);
        let errors: Vec<f64> = runs.iter().filter_map(|run| run.error).collect();
        Self {
            centre: middle.filter(|middle| middle.is_finite()),
            at_zero: middle == Some(f64::NEG_INFINITY),
            error: median(errors).unwrap_or(0.0),
            runs: runs.len().max(1) as f64,
        }
    }
}

/// All that a verdict rests on.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) a: Evidence,
    pub(super) b: Evidence,
    pub(super) known: Option<Known>,
    /// Share of the time that something else took on the worse side.
    pub(super) disturbed: f64,
    /// What else came between the two sides, where something did: a difference has a cause then, but none that is theirs.
    pub(super) foreign: Option<Why>,
    /// Why nothing is decided by these figures, however they lie.
    pub(super) excluded: Option<Why>,
    /// The loss from which on it is to be seen.
    pub(super) fail_on: Option<f64>,
}

impl Judged {
    /// Enters difference, interval and the uncorrected probability.
    pub(super) fn enter(self, mut blank: Compared) -> Compared {
        let centres = self.a.centre.zip(self.b.centre);
        let Some(better) = blank.better else {
            blank.difference = centres.map(|(a, b)| (b - a).exp_m1());
            blank.verdict = Verdict::Informative;
            return blank;
        };
        let Some((a, b)) = centres else {
            return self.without_ratio(blank, better);
        };
        let difference = b - a;
        blank.difference = Some(difference.exp_m1());
        let Some(known) = self.known else {
            let unknown = "the noise floor is unknown: run plimsoll doctor on this machine";
            self.excluded.unwrap_or_else(|| Why::new(Doubt::Unknown, unknown)).enter(&mut blank);
            return blank;
        };
        let noise = known.noise;
        let within = (self.a.error.powi(2) / self.a.runs + self.b.error.powi(2) / self.b.runs).sqrt();
        let between = noise.deviation * (1.0 / self.a.runs + 1.0 / self.b.runs).sqrt();
        let error = within.hypot(between);
        let half = noise.quantile(0.975) * error;
        blank.interval = Some([(difference - half).exp_m1(), (difference + half).exp_m1()]);
        let smallest = known.smallest + self.disturbed.min(MOST_TAKEN);
        // As far as this in the direction that it went: a fall has another share than the rise of the same factor.
        blank.smallest = Some(smallest.copysign(difference).exp_m1().abs());
        blank.p = Some(match error > 0.0 {
            true => noise.probability(difference / error),
            false => f64::from(u8::from(difference == 0.0)),
        });
        let unseen = match better {
            Better::Higher => -(-smallest).exp_m1(),
            Better::Lower => smallest.exp_m1(),
        };
        blank.unseen = Some(unseen);
        let blind = self.fail_on.is_some_and(|share| unseen > share);
        let far = difference.abs() > LARGEST_FOR_SAME.ln_1p();
        blank.verdict = match () {
            () if self.excluded.is_some() => Verdict::Inconclusive,
            // To be confirmed when all are known.
            () if difference.abs() > smallest && self.foreign.is_none() => direction(better, difference),
            () if far || blind || smallest > LARGEST_UNSEEN_FOR_SAME.ln_1p() => Verdict::Inconclusive,
            () if difference.abs() + NORMAL_95 * within <= smallest => Verdict::NoChange,
            () => Verdict::Inconclusive,
        };
        if blank.verdict == Verdict::Inconclusive {
            let cause = self.excluded.or(self.foreign.filter(|_| difference.abs() > smallest || far));
            // With such a cause any loss would have been undecided.
            blank.unseen = blank.unseen.filter(|_| cause.is_none());
            let others = difference.abs() <= smallest && far;
            cause.unwrap_or_else(|| hidden(known.smallest, others, blind)).enter(&mut blank);
        }
        blank
    }

    /// Where one side has no logarithm. What works no more is a regression, whatever the noise; so is a share that had been zero and
    /// is now beyond the loss that is asked for. All else has no ratio.
    fn without_ratio(self, mut blank: Compared, better: Better) -> Compared {
        let (a, b) = (blank.a, blank.b);
        let share = self.fail_on.filter(|_| better == Better::Lower && blank.unit == Unit::One);
        let gone = better == Better::Higher && self.a.centre.is_some() && self.b.at_zero;
        let risen = a == 0.0 && share.is_some_and(|share| b > share);
        let fallen = b == 0.0 && share.is_some_and(|share| a > share);
        // No neighbour takes all of a figure.
        let cause = self.excluded.or(self.foreign.filter(|_| !gone));
        let (verdict, why) = match cause {
            _ if a == b => (Verdict::NoChange, None),
            Some(cause) => (Verdict::Inconclusive, Some(cause)),
            None if gone || risen => (Verdict::Regression, None),
            None if fallen => (Verdict::Improvement, None),
            None => {
                (Verdict::Inconclusive, Some(Why::new(Doubt::Zero, "one side is 0, so there is no ratio")))
            }
        };
        blank.verdict = verdict;
        if let Some(why) = why {
            why.enter(&mut blank);
        }
        blank.difference = (gone || fallen).then(|| (b / a - 1.0).max(-1.0));
        blank
    }
}

/// Why a noise (as a logarithm) hides what a difference is; `others` where they took as much of the time, `blind` where it hides
/// the loss that is asked for.
fn hidden(noise: f64, others: bool, blind: bool) -> Why {
    match () {
        () if noise > LARGEST_FOR_SAME.ln_1p() => {
            Why::new(Doubt::Noise, "the noise floor is above 10 %: run plimsoll doctor on an idle machine")
        }
        () if others => Why::new(
            Doubt::Interrupted,
            "other work took as much of the CPU time (steal, or waiting for a CPU): measure again on an idle machine",
        ),
        () if blind => Why::new(
            Doubt::Noise,
            "the noise floor is above --fail-on: run plimsoll doctor, or compare more runs",
        ),
        () => Why::new(Doubt::Interval, "the 95 % CI is wider than the noise floor: take more samples"),
    }
}

fn direction(better: Better, difference: f64) -> Verdict {
    match (better, difference > 0.0) {
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Improvement,
        _ => Verdict::Regression,
    }
}

/// Corrects the probabilities for their number; what is no longer unlikely is inconclusive.
pub(super) fn correct(compared: Vec<&mut Compared>) {
    let known: Vec<f64> = compared.iter().filter_map(|c| c.p).collect();
    let mut corrected = holm(&known).into_iter();
    for one in compared.into_iter().filter(|c| c.p.is_some()) {
        one.p = corrected.next();
        let real = matches!(one.verdict, Verdict::Improvement | Verdict::Regression);
        if real && one.p.is_none_or(|p| p >= FAMILY) {
            one.verdict = Verdict::Inconclusive;
            Why::new(
                Doubt::Many,
                "not significant among so many metrics (Holm's correction): compare more runs",
            )
            .enter(one);
        }
    }
}
