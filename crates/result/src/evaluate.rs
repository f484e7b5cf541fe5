//! From samples to measurements: summaries, limits and validity. All functions are pure, so that a
//! newer version can summarize a stored run again.

mod curve;
mod rating;

use std::collections::BTreeMap;

use plimsoll_machine::Machine;
use plimsoll_machine::clocks::HIGHEST_CORE_HZ;
use plimsoll_model::limit::user::UserLimits;
use plimsoll_model::limit::{self, Limit, LimitEvidence, LimitKind, LimitSource, Question};
use plimsoll_model::measurement::{Matrix, Measurement, MetricResult, Note, SamplePoint, Status, ToolResult};
use plimsoll_model::metric::Metric;
use plimsoll_model::sample::{Conditions, Facts, FailureCause, Outcome, Sample};
use plimsoll_model::warning::{Warn, Warning};
use plimsoll_stats::{ExcludedShare, Samples, Seed, quantile_edge};
use plimsoll_units::quantity::{Quantity, Unit};

/// Share of its limit above which a result is invalid; clock and formula cannot explain more.
pub const LIMIT_TOLERANCE: f64 = 1.02;

/// Converts outcomes to measurements.
#[derive(Clone, Copy)]
pub struct Maker<'a> {
    /// Measured machine.
    pub machine: &'a Machine,
    /// Node name.
    pub node: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// Limits from the user.
    pub user_limits: &'a UserLimits,
    /// Relative difference below which two results count as equal.
    pub margin: f64,
}

impl Maker<'_> {
    /// Summarizes an outcome (samples or failure); limits may use finished cases in `evidence`.
    pub fn measurement(&self, outcome: &Outcome, evidence: LimitEvidence<'_>) -> Measurement {
        let mut made = self.without_verdict(outcome, evidence);
        match &outcome.ended {
            Some(cannot) => {
                made.status = match cannot.cause {
                    FailureCause::Environment | FailureCause::ServerFailed | FailureCause::WrongAnswer => {
                        Status::Failed
                    }
                    _ => Status::Skipped,
                };
                (made.cause, made.reason) = (Some(cannot.cause), Some(cannot.reason.clone()));
                made.wrong_answer = cannot.wrong.clone();
                made.metrics.clear();
            }
            None => {
                let wrong_time = wrong_time(&outcome.facts, &outcome.samples);
                if wrong_time.is_some() {
                    (made.conditions.excluded, made.conditions.delivered) = (None, None);
                }
                if let ExcludedShare::Mostly(share) = ExcludedShare::of(made.conditions.excluded) {
                    let crowded = made.warnings.iter().any(|note| note.code == Warning::CROWDED);
                    made.warnings.push(Warning::MostlyExcluded { share, crowded }.into());
                }
                // A host that moves CPUs does not make chip data wrong.
                let others = made.metrics.iter().flat_map(|metric| &metric.other_limits);
                let refuted: Vec<Note> = others
                    .filter(|limit| limit.fact.as_ref().is_none_or(|fact| fact.changes.is_none()))
                    .filter_map(|limit| limit.refuted.clone())
                    .map(|why| Doubt::Refuted { why }.into())
                    .collect();
                made.warnings.extend(refuted);
                made.warnings.extend(made.metrics.iter().filter_map(Doubt::of).map(Note::from));
                made.reason = wrong_time
                    .or_else(|| made.all_but_excluded())
                    .or_else(|| made.metrics.iter().find_map(past_limit))
                    .or_else(|| outcome.facts.invalid.clone());
                made.status = if made.reason.is_some() { Status::Invalid } else { Status::Ok };
            }
        }
        made
    }

    fn without_verdict(&self, outcome: &Outcome, evidence: LimitEvidence<'_>) -> Measurement {
        let benchmark = plimsoll_bench::find(outcome.case.benchmark());
        let named = benchmark.map(|b| b.metrics(&outcome.case)).unwrap_or_default();
        // One seed per case: metrics that are multiples of each other get intervals that are, too.
        let seed =
            Seed::new(self.seed, outcome.case.id().as_str(), named.first().map_or("elapsed", |m| m.name));
        let made = named.iter().filter_map(|metric| self.metric(*metric, outcome, seed, evidence));
        let mut metrics: Vec<MetricResult> = made.collect();
        if let Some(headline) = metrics.first_mut() {
            let with_value = outcome.samples.iter().filter(|s| s.values.contains_key(&headline.name));
            for (point, sample) in headline.series.iter_mut().zip(with_value) {
                point.delivered = sample.conditions.delivered;
            }
            headline.matrix = Matrix::of(&outcome.samples);
            headline.curve = curve::of(&outcome.samples);
        }
        Measurement {
            case: outcome.case.clone(),
            node: self.node.to_owned(),
            repeat: outcome.repeat,
            status: Status::Ok,
            reason: None,
            metrics,
            achieved: outcome.facts.achieved.clone(),
            conditions: over_all(&outcome.samples),
            warnings: outcome.facts.warnings.clone(),
            cause: None,
            wrong_answer: None,
        }
    }

    fn metric(
        &self,
        metric: Metric,
        outcome: &Outcome,
        seed: Seed,
        evidence: LimitEvidence<'_>,
    ) -> Option<MetricResult> {
        let samples: Vec<&Sample> =
            outcome.samples.iter().filter(|s| s.values.contains_key(metric.name)).collect();
        let values = outcome.values(metric.name);
        let proved = Samples::new(values.clone()).ok()?;
        let mut limits = plimsoll_bench::limits(&Question {
            machine: self.machine,
            case: &outcome.case,
            metric: metric.name,
            samples: &outcome.samples,
            evidence,
        });
        limits.extend(self.user_limits.of(&outcome.case, &metric));
        limit::tightest_first(&mut limits);
        if outcome.ended.is_none() {
            rating::refute(&mut limits, metric.name, &values, least_that_refutes(&outcome.samples));
        }
        let chosen = rating::chosen(&limits, &values);
        limits.retain(|limit| !chosen.as_ref().is_some_and(|chosen| chosen.is_equivalent(limit)));
        let (percentiles, histogram) = distribution(metric.name, &outcome.samples).unzip();
        let runs = outcome.tool_results.iter().filter(|run| run.metric == metric.name);
        let tool_results = runs.map(|run| ToolResult::of(run, self.margin).with_shares(chosen.as_ref()));
        Some(MetricResult {
            series: samples.iter().map(|s| point(s)).collect(),
            of_limit: chosen.as_ref().and_then(|l| share_of(l, &values)),
            percentiles,
            histogram,
            tool_results: tool_results.collect(),
            limit: chosen,
            other_limits: limits,
            ..MetricResult::of(metric.name, metric.unit, metric.better, &proved, seed)
        })
    }
}

/// Returns the median of `values` as shares of their limits (1 is at the limit); `None` if unknown.
fn share_of(limit: &Limit, values: &[f64]) -> Option<f64> {
    limit::median(shares_of(limit, values)?.collect())
}

/// Returns each value as a share of its sample's limit, if finite; `None` if the limit is unknown.
fn shares_of(limit: &Limit, values: &[f64]) -> Option<impl Iterator<Item = f64>> {
    let fixed = limit.value?;
    let each = move |(i, value): (usize, &f64)| {
        let own = if limit.per_sample.len() == values.len() { limit.per_sample[i] } else { fixed };
        limit.share(*value, own)
    };
    Some(values.iter().enumerate().map(each).filter(|share| share.is_finite()))
}

/// Share of clock probes that a busy sibling may disturb, which lowers their reading.
const MOST_SHARED: f64 = 0.05;

/// Share of a limit that no disturbed probe explains. A busy sibling was seen to lower the clock by
/// 3 %; a limit that counts one core for two is exceeded by more than this.
const PAST_ALL_PROBES: f64 = 1.5;

/// Share of time that clock changes may exclude; above it, the clock of the rest is in doubt, too.
const MOST_CHANGED: f64 = 0.05;

const FEWEST: usize = 5;

/// Returns the share of a limit that a result must exceed to refute the limit: 1.02, or 1.5 if the
/// core clock of the samples may have been measured too low.
fn least_that_refutes(samples: &[Sample]) -> f64 {
    let shared = over_time(samples, |conditions| conditions.vector_units_shared);
    let changed = over_time(samples, |conditions| conditions.excluded_by.clock);
    let clocked = samples.iter().any(|sample| sample.conditions.clock_hz.is_some());
    let in_doubt = shared.is_some_and(|share| share > MOST_SHARED)
        || changed.is_some_and(|share| share > MOST_CHANGED)
        || (clocked && samples.len() < FEWEST);
    if in_doubt { PAST_ALL_PROBES } else { LIMIT_TOLERANCE }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum Doubt {
    #[error("{why}")]
    Refuted { why: String },
    /// The limit is not refuted: the clock was imprecise, or a CPU quota had time left.
    #[error("{metric} is {:.1} % of its limit: {cause}", .share * 100.0)]
    Uncertain { metric: String, share: f64, cause: &'static str },
}

impl Warn for Doubt {
    fn code(&self) -> &'static str {
        match self {
            Self::Refuted { .. } => "limit-refuted",
            Self::Uncertain { .. } => "limit-uncertain",
        }
    }
}

impl Doubt {
    fn of(metric: &MetricResult) -> Option<Self> {
        let share = metric.of_limit.filter(|share| *share > LIMIT_TOLERANCE)?;
        let limit = metric.limit.as_ref().filter(|limit| limit.fact.is_some())?;
        let cause = match &limit.fact {
            _ if limit.burst.is_some() => {
                "a CPU quota limits the mean over its periods, and short samples can get more; use a longer --sample-time"
            }
            Some(fact) if fact.changes.is_some() => {
                "the host may have moved CPUs that shared a core before the run, or the core clock was measured too low; measure again, with more samples"
            }
            _ => {
                "the core clock may have been measured too low (another thread or guest on the same core, a changing clock, or fewer than 5 samples); measure on an idle core, with more samples"
            }
        };
        Some(Self::Uncertain { metric: metric.name.clone(), share, cause })
    }
}

/// Returns why the clock, and thus every measured time, is wrong; `None` if nothing shows this.
fn wrong_time(facts: &Facts, samples: &[Sample]) -> Option<String> {
    let clocks = samples.iter().filter_map(|sample| sample.conditions.clock_hz);
    let impossible = clocks.max_by(f64::total_cmp).filter(|hz| *hz > HIGHEST_CORE_HZ);
    let shown = |hz: f64| {
        format!(
            "no core runs at {}: the monotonic clock runs too slowly; check LD_PRELOAD and the clocksource",
            Quantity::new(hz, Unit::Hertz)
        )
    };
    facts.wrong_rate.clone().or_else(|| impossible.map(shown))
}

/// Returns why a result more than 2 % past its limit cannot be true; `None` if it can be.
fn past_limit(metric: &MetricResult) -> Option<String> {
    let (share, limit) = (metric.of_limit?, metric.limit.as_ref()?);
    // A documented or inferred limit is no physical bound.
    let is_physical = !matches!(limit.source, LimitSource::Documented | LimitSource::Inferred);
    if share <= LIMIT_TOLERANCE || !is_physical || limit.fact.is_some() {
        return None;
    }
    let cause = match limit.kind {
        _ if limit.source == LimitSource::User => {
            "the limit that --limits or the plan gives is not this machine's"
        }
        LimitKind::Floor => {
            limit.passed_by.unwrap_or("something nearer than the thing measured answered (a cache)")
        }
        LimitKind::Ceiling => limit.passed_by.unwrap_or("a cache answered instead of the device"),
    };
    Some(format!("{} is {:.1} % of its limit: {cause}", metric.name, share * 100.0))
}

fn point(sample: &Sample) -> SamplePoint {
    let conditions = &sample.conditions;
    SamplePoint {
        t: sample.at,
        clock_hz: conditions.clock_hz,
        steal: conditions.steal,
        excluded: conditions.excluded,
        throttled: conditions.throttled,
        waited: conditions.waited,
        delivered: None,
    }
}

/// Returns the time-weighted mean of each condition over the samples.
fn over_all(samples: &[Sample]) -> Conditions {
    Conditions::each(samples.iter().map(|sample| &sample.conditions), |read| over_time(samples, read))
}

/// Returns the time-weighted mean of what `read` returns for the samples; `None` without values.
pub fn over_time(samples: &[Sample], read: impl Fn(&Conditions) -> Option<f64>) -> Option<f64> {
    let (mut mean, mut weight) = (0.0, 0.0);
    for sample in samples.iter().filter(|sample| sample.elapsed > 0.0) {
        if let Some(value) = read(&sample.conditions) {
            weight += sample.elapsed;
            mean += (value - mean) * (sample.elapsed / weight);
        }
    }
    (weight > 0.0).then_some(mean)
}

/// Names of the percentiles, and the shares of the values up to them.
const PERCENTILES: [&str; 8] = ["p50", "p90", "p95", "p99", "p99.9", "p99.99", "p99.999", "max"];
const PERCENTILE_SHARES: [f64; 8] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 1.0];

/// Percentiles in s by name, and buckets: upper edge in s, number of values.
type Distribution = (BTreeMap<String, f64>, Vec<(f64, u64)>);

/// Merges the histograms of `metric`; `None` if there are none.
fn distribution(metric: &str, samples: &[Sample]) -> Option<Distribution> {
    let mut merged: BTreeMap<u64, u64> = BTreeMap::new();
    let histograms = samples.iter().flat_map(|s| &s.histograms).filter(|h| h.metric == metric);
    for (edge, count) in histograms.flat_map(|h| &h.buckets) {
        *merged.entry(*edge).or_default() += count;
    }
    let buckets: Vec<(u64, u64)> = merged.into_iter().filter(|(_, count)| *count > 0).collect();
    buckets.first()?;
    let at = |share: f64| quantile_edge(&buckets, share).map_or(f64::NAN, |edge| edge as f64 / 1e9);
    let percentiles = PERCENTILES.map(str::to_owned).into_iter().zip(PERCENTILE_SHARES.map(at)).collect();
    Some((percentiles, buckets.into_iter().map(|(edge, count)| (edge as f64 / 1e9, count)).collect()))
}

#[cfg(test)]
mod doubt_tests {
    use plimsoll_model::sample::{ExcludedBy, Histogram};

    use super::*;

    fn samples(number: usize, clock: Option<f64>, shared: Option<f64>) -> Vec<Sample> {
        let conditions = Conditions {
            clock_hz: Some(3e9),
            excluded_by: ExcludedBy { clock, ..ExcludedBy::default() },
            vector_units_shared: shared,
            ..Conditions::default()
        };
        vec![Sample { elapsed: 0.1, conditions, ..Sample::default() }; number]
    }

    #[test]
    fn histograms_of_samples_are_merged_and_their_edges_are_the_nearest_numbers_in_seconds() {
        let sample = |buckets: &[(u64, u64)]| {
            let histograms = vec![Histogram { metric: "wait".to_owned(), buckets: buckets.to_vec() }];
            Sample { histograms, ..Sample::default() }
        };
        let samples = [sample(&[(238, 9), (751, 0)]), sample(&[(238, 1), (1027, 90)])];
        let (percentiles, buckets) = distribution("wait", &samples).unwrap();
        assert_eq!(buckets, [(238e-9, 10), (1027e-9, 90)]);
        assert_eq!((percentiles["p50"], percentiles["max"]), (1027e-9, 1027e-9));
        assert_eq!(distribution("other", &samples), None);
    }

    #[test]
    fn a_condition_is_weighted_by_time_and_exact_where_it_is_the_same() {
        let sample = |elapsed: f64, waited: f64| {
            let conditions = Conditions { waited: Some(waited), ..Conditions::default() };
            Sample { elapsed, conditions, ..Sample::default() }
        };
        let mean = |samples: &[Sample]| over_time(samples, |conditions| conditions.waited);
        let same: Vec<Sample> = [0.041, 0.0403, 0.7, 0.0409].map(|elapsed| sample(elapsed, 20e6)).into();
        assert_eq!(mean(&same), Some(20e6));
        assert_eq!(mean(&[sample(3.0, 1.0), sample(1.0, 5.0), sample(0.0, 9.0)]), Some(2.0));
        assert_eq!((mean(&[]), mean(&[sample(0.0, 1.0)])), (None, None));
    }

    #[test]
    fn a_clock_at_a_wrong_rate_and_an_impossible_core_are_named() {
        let outcome = |hz: f64, wrong: Option<&str>| {
            let mut samples = samples(5, None, None);
            samples[3].conditions.clock_hz = Some(hz);
            wrong_time(&Facts { wrong_rate: wrong.map(str::to_owned), ..Facts::default() }, &samples)
        };
        assert_eq!(outcome(3e9, None), None);
        assert!(outcome(32e9, None).is_some_and(|why| why.contains("no core runs at 32")));
        assert_eq!(outcome(3e9, Some("a tenth")).as_deref(), Some("a tenth"));
    }

    #[test]
    fn a_limit_is_refuted_by_enough_samples_with_a_steady_clock_alone() {
        let least = |number, clock, shared| least_that_refutes(&samples(number, clock, shared));
        assert_eq!(least(FEWEST, Some(0.01), Some(0.01)), LIMIT_TOLERANCE);
        assert_eq!(least(FEWEST, None, None), LIMIT_TOLERANCE);
        assert_eq!(least(FEWEST - 1, Some(0.01), Some(0.01)), PAST_ALL_PROBES);
        assert_eq!(least(FEWEST, Some(0.118), Some(0.01)), PAST_ALL_PROBES);
        assert_eq!(least(FEWEST, Some(0.01), Some(0.1)), PAST_ALL_PROBES);
        // Without a clock there is no probe to doubt.
        let mut still = samples(1, None, None);
        still[0].conditions.clock_hz = None;
        assert_eq!(least_that_refutes(&still), LIMIT_TOLERANCE);
    }
}
