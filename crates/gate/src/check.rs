use plimsoll_machine::Others;
use plimsoll_model::case::Case;
use plimsoll_model::limit::LimitSource;
use plimsoll_model::measurement::{Measurement, MetricResult, NOTABLE};
use plimsoll_stats::{Sequential, SequentialDecision};
use plimsoll_units::quantity::Unit;

use crate::cause::{LowCause, Quota, throttled};
use crate::threshold::{Threshold, ThresholdSource};
use crate::usual::UsualFigures;
use crate::{IN_VAIN, MISSED, Unjudged};

const NO_FIGURE: &str = "this machine does not report it";

/// Figure of a case that is compared with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckedQuantity {
    /// Headline metric, in its own unit.
    Figure,
    /// Share of the limit at the measured clock, 0 to 1.
    OfLimit,
    /// Share of the time in which the threads had their CPUs, 0 to 1.
    CpuTime,
}

/// One further measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Retest {
    /// Measured figure.
    pub value: f64,
    /// Whether the figure is low.
    pub is_low: bool,
    /// Cause found in the conditions of the measurement, if the figure is low.
    pub cause: Option<LowCause>,
    /// Whether no other user of the measured resource can have gone unseen.
    pub is_alone: bool,
}

impl Retest {
    /// Returns whether the figure is evidence about this machine. A low figure is no evidence if
    /// other work took the measured resource, or may have taken it unseen (disk, link).
    fn is_evidence(&self) -> bool {
        self.cause.as_ref().map_or(!self.is_low || self.is_alone, LowCause::is_own)
    }
}

/// Progress of a check.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckProgress {
    /// Not measured yet.
    Waiting,
    /// The figure is usual.
    Passed,
    /// Low, not decided yet.
    Suspect,
    /// The loss is real.
    Low,
    /// Given up: other work took the resource in each of the last measurements.
    GivenUp,
    /// This machine does not have the figure; the reason.
    NotReported(&'static str),
    /// Not measured; the reason.
    Failed(String),
}

/// One figure of a case under test.
#[derive(Clone, Debug)]
pub struct FigureCheck {
    /// The case.
    pub case: Case,
    /// Figure that is compared.
    pub quantity: CheckedQuantity,
    /// Threshold of the figure.
    pub threshold: Threshold,
    /// Progress.
    pub state: CheckProgress,
    /// Figure of the first measurement.
    pub first: Option<f64>,
    /// Further measurements.
    pub repetitions: Vec<Retest>,
    test: Sequential,
}

/// Returns the figures of `case` to check, with thresholds to detect the lost share `loss` (0.1 is
/// a tenth), from the first of `usual` that has the case. `Err`: why the case cannot be judged.
pub(super) fn thresholds(
    case: &Case,
    usual: &[UsualFigures],
    quota: Quota,
    loss: f64,
) -> Result<Vec<(CheckedQuantity, Threshold)>, String> {
    let headline = plimsoll_bench::headline(case).ok_or("its benchmark has no figure")?;
    let known = usual.iter().find_map(|usual| usual.threshold(case, headline.better, loss));
    let mut all = Vec::new();
    if let Some(share) = headline.reaches {
        all.push((CheckedQuantity::OfLimit, Threshold::reached(share, loss, ThresholdSource::Limit)));
        // Under the usual quota no thread has all of the time.
        if quota != Quota::Usual {
            all.push((CheckedQuantity::CpuTime, Threshold::reached(share, loss, ThresholdSource::Whole)));
        }
    }
    match known {
        Some(Ok(threshold)) => all.push((CheckedQuantity::Figure, threshold)),
        Some(Err(why)) if all.is_empty() => return Err(why),
        None if all.is_empty() => return Err("no earlier run and no fleet says what is usual".to_owned()),
        _ => {}
    }
    Ok(all)
}

impl FigureCheck {
    /// Creates the check of the figure `quantity`. `false_alarms` is the highest probability of a
    /// wrong "low". Fails if repeated measurements cannot distinguish a loss from chance.
    pub(super) fn new(
        case: Case,
        quantity: CheckedQuantity,
        threshold: Threshold,
        false_alarms: f64,
    ) -> Result<Self, Unjudged> {
        let Threshold { false_alarm_rate, detection_rate, .. } = threshold;
        let Some(test) = Sequential::new(false_alarms, MISSED, false_alarm_rate, detection_rate) else {
            let why = "measurements cannot tell a loss from chance".to_owned();
            return Err(Unjudged { case, why, is_measured: true, failed: false });
        };
        let (state, first, repetitions) = (CheckProgress::Waiting, None, Vec::new());
        Ok(Self { case, quantity, threshold, state, first, repetitions, test })
    }

    /// Returns the unit of the checked figure; `None` if it is a share from 0 to 1.
    pub fn unit(&self) -> Option<Unit> {
        let headline = plimsoll_bench::headline(&self.case)?;
        (self.quantity == CheckedQuantity::Figure).then_some(headline.unit)
    }

    /// Returns the checked figure; `Err` is the state of the check if the measurement has none.
    fn value(&self, measurement: &Measurement) -> Result<f64, CheckProgress> {
        let Some(headline) = measurement.headline() else {
            let reason = measurement.effective_status().1.unwrap_or_default();
            return Err(CheckProgress::Failed(format!("{}: {reason}", measurement.status.word())));
        };
        match self.quantity {
            CheckedQuantity::Figure => Ok(headline.summary.median),
            CheckedQuantity::OfLimit => of_limit(headline, measurement).map_err(CheckProgress::NotReported),
            CheckedQuantity::CpuTime => cpu_time(measurement).ok_or(CheckProgress::NotReported(NO_FIGURE)),
        }
    }

    /// Sets the state from the first measurement: passed, or suspect if low. A low figure is
    /// evidence if a quota of known size explains it; any other is only to be repeated, because the
    /// lowest of many is low by chance. `is_alone`: no unseen user of the measured resource.
    pub(super) fn record_first(&mut self, measurement: &Measurement, quota: Quota, is_alone: bool) {
        let round = match self.retest(measurement, &Others::default(), quota, is_alone) {
            Ok(round) => round,
            Err(state) => return self.state = state,
        };
        self.first = Some(round.value);
        self.state = if round.is_low { CheckProgress::Suspect } else { CheckProgress::Passed };
        // Other CPU use is not known yet; it may use up a quota of unknown size.
        if matches!(round.cause, Some(LowCause::Quota { cpus: Some(_), .. })) {
            self.repetitions.push(round);
        }
    }

    fn retest(
        &self,
        measurement: &Measurement,
        others: &Others,
        quota: Quota,
        is_alone: bool,
    ) -> Result<Retest, CheckProgress> {
        let value = self.value(measurement)?;
        let is_low = self.threshold.is_low(value);
        let cause = is_low.then(|| LowCause::of(measurement, others, quota)).flatten();
        Ok(Retest { value, is_low, cause, is_alone })
    }

    pub(super) fn add(&mut self, measurement: &Measurement, others: &Others, quota: Quota, is_alone: bool) {
        match self.retest(measurement, others, quota, is_alone) {
            Ok(round) => self.repetitions.push(round),
            Err(state) => return self.state = state,
        }
        let counted = self.repetitions.iter().filter(|round| round.is_evidence());
        let stated = counted.clone().filter(|round| round.cause.is_some()).count();
        let in_vain = self.repetitions.iter().rev().take_while(|round| !round.is_evidence()).count();
        self.state = match self.test.decide(self.low_count(), stated, counted.count()) {
            SequentialDecision::Usual => CheckProgress::Passed,
            SequentialDecision::Low => CheckProgress::Low,
            SequentialDecision::Open if in_vain >= IN_VAIN => CheckProgress::GivenUp,
            SequentialDecision::Open => CheckProgress::Suspect,
        };
    }

    /// Returns the number of low measurements that are evidence.
    fn low_count(&self) -> usize {
        self.repetitions.iter().filter(|round| round.is_evidence() && round.is_low).count()
    }

    /// Returns how many further low measurements would decide the check, at least 1.
    pub(super) fn needed_repetitions(&self) -> usize {
        self.min_low_count().saturating_sub(self.low_count()).max(1)
    }

    /// Returns whether the last repetition was low because of this machine's own CPU quota.
    pub(super) fn is_low_by_own_quota(&self) -> bool {
        self.repetitions.last().and_then(|round| round.cause.as_ref()).is_some_and(LowCause::is_own)
    }

    /// Returns whether the check is undecided although repeated, and no repetition is evidence.
    pub(super) fn is_without_evidence(&self) -> bool {
        let is_open = matches!(self.state, CheckProgress::GivenUp | CheckProgress::Suspect);
        is_open && !self.repetitions.is_empty() && !self.repetitions.iter().any(Retest::is_evidence)
    }

    /// Returns the least number of low measurements that prove a loss.
    pub fn min_low_count(&self) -> usize {
        self.test.fewest()
    }

    /// Returns the most frequent cause among the low measurements; `None` if it is unknown.
    pub fn cause(&self) -> Option<&LowCause> {
        let low = || self.repetitions.iter().filter(|round| round.is_low).map(|round| &round.cause);
        let code = |cause: &Option<LowCause>| cause.as_ref().map(LowCause::code);
        low().max_by_key(|cause| low().filter(|other| code(other) == code(cause)).count())?.as_ref()
    }

    /// Returns whether the check shows that this machine is sick. If guests may share its hardware
    /// (`shares`), only a cause of this machine itself counts.
    pub(super) fn shows_sick_machine(&self, shares: bool) -> bool {
        self.state == CheckProgress::Low && self.cause().map_or(!shares, LowCause::is_own)
    }

    /// Returns the median of the low repetitions; if none was low, the first measured figure.
    pub fn value_shown(&self) -> Option<f64> {
        let low = self.repetitions.iter().filter(|round| round.is_low).map(|round| round.value).collect();
        plimsoll_stats::median(low).or(self.first)
    }
}

/// Returns the figure as a share of its limit, 0 to 1; `Err` is why it is not judged: the limit is
/// unknown, or a quota stopped the threads, whose CPU time is then judged instead.
fn of_limit(metric: &MetricResult, measurement: &Measurement) -> Result<f64, &'static str> {
    const UNKNOWN_LIMIT: &str = "the limit of this chip is not known";
    let limit = metric.limit.as_ref().filter(|limit| limit.refuted.is_none()).ok_or(UNKNOWN_LIMIT)?;
    if throttled(measurement).is_some_and(|share| share >= NOTABLE) {
        return Err("a CPU quota stopped its threads: their CPU time is judged instead");
    }
    if !matches!(limit.source, LimitSource::Derived | LimitSource::Documented) {
        return Err(UNKNOWN_LIMIT);
    }
    metric.rated_share().ok_or(UNKNOWN_LIMIT)
}

/// Returns the share of the time in which the threads had their CPUs, 0 to 1; `None` if unknown.
fn cpu_time(measurement: &Measurement) -> Option<f64> {
    let conditions = &measurement.conditions;
    let lost = [throttled(measurement), conditions.steal, conditions.waited];
    let most = lost.into_iter().flatten().reduce(f64::max)?;
    Some((1.0 - most).clamp(0.0, 1.0))
}
