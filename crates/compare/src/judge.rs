//! Verdict from two results, their uncertainty and the noise between runs.

use plimsoll_bench::Better;
use plimsoll_model::limit::median;
use plimsoll_model::measurement::MetricResult;
use plimsoll_stats::holm;
use plimsoll_units::quantity::Unit;
use serde::Serialize;

use super::{ComparedMetric, DifferenceVerdict, KnownNoise};

/// Probability that a comparison of two identical sides finds any difference, over all its metrics.
pub const FAMILY: f64 = 0.01;

/// Difference (10 % of the smaller result) above which two results are never "no change", since
/// noise may hide what the user looks for.
const LARGEST_FOR_SAME: f64 = 0.1;

/// Largest undetectable difference (25 %) at which two results may be "no change".
const LARGEST_UNSEEN_FOR_SAME: f64 = 0.25;

/// Share of time taken by other work up to which a result loses only that share. Beyond it,
/// differences are not judged. Two threads on two CPUs of a quiet machine wait up to 6 %.
pub const MOST_TAKEN: f64 = 0.1;

/// Cause of an inconclusive difference, which determines the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Undecided {
    /// The noise between runs hides the difference.
    Noise,
    /// The noise between runs is unknown.
    Unknown,
    /// The confidence interval from the samples is too wide.
    Interval,
    /// With this number of metrics the difference could be chance.
    Many,
    /// Other work took the time: it was excluded, stolen, or waited for.
    Interrupted,
    /// The hypervisor ran the vCPUs on other cores.
    Migrated,
    /// One side is zero or has no ratio.
    Zero,
}

#[derive(Clone, Debug)]
pub(super) struct Why {
    pub(super) doubt: Undecided,
    pub(super) text: String,
}

impl Why {
    pub(super) fn new(doubt: Undecided, text: impl Into<String>) -> Self {
        Self { doubt, text: text.into() }
    }

    fn enter(self, into: &mut ComparedMetric) {
        into.verdict = DifferenceVerdict::Inconclusive;
        (into.doubt, into.why) = (Some(self.doubt), Some(self.text));
    }
}

/// Two-sided 95 % quantile of the normal distribution.
const NORMAL_95: f64 = 1.96;

/// A metric in one run: the median over its repetitions.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunMetric {
    pub(super) median: f64,
    /// Standard error of the logarithm, from the confidence interval of the samples.
    error: Option<f64>,
}

impl RunMetric {
    /// Returns the medians of a metric's repetitions in a run and of their errors; `None` for none.
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

#[derive(Clone, Copy, Debug)]
pub(super) struct SideLogarithm {
    /// Median over the runs; `None` if at least half of them are not positive.
    centre: Option<f64>,
    at_zero: bool,
    pub(super) error: f64,
    pub(super) runs: f64,
}

impl SideLogarithm {
    pub(super) fn of(runs: &[RunMetric]) -> Self {
        let log = |run: &RunMetric| match run.median {
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

#[derive(Clone, Debug)]
pub(super) struct JudgedDifference {
    pub(super) a: SideLogarithm,
    pub(super) b: SideLogarithm,
    pub(super) known: Option<KnownNoise>,
    /// Share of time taken by other work, on the worse side.
    pub(super) disturbed: f64,
    pub(super) foreign: Option<Why>,
    pub(super) excluded: Option<Why>,
    pub(super) fail_on: Option<f64>,
}

impl JudgedDifference {
    /// Returns `blank` with difference, interval, uncorrected probability and verdict filled in.
    pub(super) fn enter(self, mut blank: ComparedMetric) -> ComparedMetric {
        let centres = self.a.centre.zip(self.b.centre);
        let Some(better) = blank.better else {
            blank.difference = centres.map(|(a, b)| (b - a).exp_m1());
            blank.verdict = DifferenceVerdict::Informative;
            return blank;
        };
        let Some((a, b)) = centres else { return self.without_ratio(blank, better) };
        let difference = b - a;
        blank.difference = Some(difference.exp_m1());
        let Some(known) = self.known else {
            let unknown = "the noise floor is unknown: run plimsoll doctor on this machine";
            self.excluded.unwrap_or_else(|| Why::new(Undecided::Unknown, unknown)).enter(&mut blank);
            return blank;
        };
        let noise = known.noise;
        let within = (self.a.error.powi(2) / self.a.runs + self.b.error.powi(2) / self.b.runs).sqrt();
        let between = noise.deviation * (1.0 / self.a.runs + 1.0 / self.b.runs).sqrt();
        let error = within.hypot(between);
        let half = noise.quantile(0.975) * error;
        blank.interval = Some([(difference - half).exp_m1(), (difference + half).exp_m1()]);
        let smallest = known.smallest + self.disturbed.min(MOST_TAKEN);
        // A decrease has another share than an increase by the same factor.
        blank.smallest = Some(smallest.copysign(difference).exp_m1().abs());
        blank.p = Some(match error > 0.0 {
            true => noise.probability(difference / error),
            false => f64::from(u8::from(difference == 0.0)),
        });
        let unseen = better.gain(-smallest).exp_m1().abs();
        blank.unseen = Some(unseen);
        let blind = self.fail_on.is_some_and(|share| unseen > share);
        let far = difference.abs() > LARGEST_FOR_SAME.ln_1p();
        blank.verdict = match () {
            () if self.excluded.is_some() => DifferenceVerdict::Inconclusive,
            () if difference.abs() > smallest && self.foreign.is_none() => direction(better, difference),
            () if far || blind || smallest > LARGEST_UNSEEN_FOR_SAME.ln_1p() => {
                DifferenceVerdict::Inconclusive
            }
            () if difference.abs() + NORMAL_95 * within <= smallest => DifferenceVerdict::NoChange,
            () => DifferenceVerdict::Inconclusive,
        };
        if blank.verdict == DifferenceVerdict::Inconclusive {
            let cause = self.excluded.or(self.foreign.filter(|_| difference.abs() > smallest || far));
            blank.unseen = blank.unseen.filter(|_| cause.is_none());
            let others = difference.abs() <= smallest && far;
            cause.unwrap_or_else(|| hidden(known.smallest, others, blind)).enter(&mut blank);
        }
        blank
    }

    /// Returns `blank` with the verdict for sides without ratio, such as 0. Equal sides: no change.
    /// A rate that fell to 0, or a share that rose from 0 to more than `--fail-on`: regression; a
    /// share that fell to 0 from more than that: improvement; else inconclusive.
    fn without_ratio(self, mut blank: ComparedMetric, better: Better) -> ComparedMetric {
        let (a, b) = (blank.a, blank.b);
        let share = self.fail_on.filter(|_| better == Better::Lower && blank.unit == Unit::One);
        let gone = better == Better::Higher && self.a.centre.is_some() && self.b.at_zero;
        let risen = a == 0.0 && share.is_some_and(|share| b > share);
        let fallen = b == 0.0 && share.is_some_and(|share| a > share);
        let cause = self.excluded.or(self.foreign.filter(|_| !gone));
        let zero = || Why::new(Undecided::Zero, "one side is 0, so there is no ratio");
        match cause {
            _ if a == b => blank.verdict = DifferenceVerdict::NoChange,
            None if gone || risen => blank.verdict = DifferenceVerdict::Regression,
            None if fallen => blank.verdict = DifferenceVerdict::Improvement,
            cause => cause.unwrap_or_else(zero).enter(&mut blank),
        }
        blank.difference = (gone || fallen).then(|| (b / a - 1.0).max(-1.0));
        blank
    }
}

/// Returns why noise (smallest real difference `noise`, a logarithm) hides a difference. `others`:
/// other work took as much time; `blind`: the noise is above `--fail-on`.
fn hidden(noise: f64, others: bool, blind: bool) -> Why {
    let (doubt, text) = match () {
        () if noise > LARGEST_FOR_SAME.ln_1p() => {
            (Undecided::Noise, "the noise floor is above 10 %: run plimsoll doctor on an idle machine")
        }
        () if others => (
            Undecided::Interrupted,
            "other work took as much of the CPU time (steal, or waiting for a CPU): measure again on an idle machine",
        ),
        () if blind => (
            Undecided::Noise,
            "the noise floor is above --fail-on: run plimsoll doctor, or compare more runs",
        ),
        () => (Undecided::Interval, "the 95 % CI is wider than the noise floor: take more samples"),
    };
    Why::new(doubt, text)
}

fn direction(better: Better, difference: f64) -> DifferenceVerdict {
    if better.gain(difference) > 0.0 { DifferenceVerdict::Improvement } else { DifferenceVerdict::Regression }
}

/// Applies Holm's correction; verdicts that are then not significant become inconclusive.
pub(super) fn correct(compared: Vec<&mut ComparedMetric>) {
    let known: Vec<f64> = compared.iter().filter_map(|c| c.p).collect();
    let mut corrected = holm(&known).into_iter();
    for one in compared.into_iter().filter(|c| c.p.is_some()) {
        one.p = corrected.next();
        let real = matches!(one.verdict, DifferenceVerdict::Improvement | DifferenceVerdict::Regression);
        if real && one.p.is_none_or(|p| p >= FAMILY) {
            let text = "not significant among so many metrics (Holm's correction): compare more runs";
            Why::new(Undecided::Many, text).enter(one);
        }
    }
}
