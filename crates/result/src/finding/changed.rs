//! "the rate fell by 38 % after 212 s. Likely cause: …": changes of level during a case. A cause is
//! named only if clock, quota or steal account for about the loss.

use serde_json::{Value, json};

use plimsoll_bench::label::full;
use plimsoll_model::measurement::{Measurement, MetricResult, NOTABLE, SamplePoint};
use plimsoll_model::metric::Better;
use plimsoll_model::view::{PlainFinding, Topic};
use plimsoll_model::warning::Warning;
use plimsoll_stats::{Seed, Segment, TimedPoint, segments, segments_of_many};
use plimsoll_units::quantity::format::significant;
use plimsoll_units::quantity::percent;

/// Least samples to separate a change from chance.
const LEAST_SAMPLES: usize = 30;
/// Relative clock difference below which the clock is unchanged.
const SAME_CLOCK: f64 = 0.01;
/// Least part of a drop that a loss must account for; other work fills the rest.
const EXPLAINS: f64 = 0.5;
/// Tolerance of a clock change that explains a drop, as a part of the drop.
const BY_THE_SAME_SHARE: f64 = 0.25;

/// Returns one finding per case of 30 or more samples, on its largest change of 5 % or more.
pub(super) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    run.iter().filter_map(changed).collect()
}

fn changed(measurement: &Measurement) -> Option<PlainFinding> {
    let metric = measurement.headline().filter(|metric| metric.series.len() >= LEAST_SAMPLES)?;
    let seed = Seed::new(0, measurement.case.id().as_str(), &metric.name);
    let found = |is_delivered| segments(&watched(metric, is_delivered), seed);
    let notable = notable_changes(metric, &found(false), &found(true)).into_iter();
    let largest = notable.max_by(|a, b| a.size().total_cmp(&b.size()))?;
    Some(largest.reported(measurement, metric))
}

/// Returns the changes by 5 % or more between the segments of a metric's `values`, or of its
/// `delivered` rates if their largest change is larger by at least 5 %.
fn notable_changes(metric: &MetricResult, values: &[Segment], delivered: &[Segment]) -> Vec<Change> {
    let (values, delivered) = (changes(metric, false, values), changes(metric, true, delivered));
    let size = |changes: &[Change]| changes.iter().map(Change::size).fold(0.0, f64::max);
    // The value takes precedence; the delivered rate is reported only for what the value excludes.
    let notable = if size(&delivered) > size(&values) + NOTABLE { delivered } else { values };
    notable.into_iter().filter(|change| change.size() >= NOTABLE).collect()
}

/// A change of a case's level between two samples.
#[derive(Clone, Debug)]
pub struct LevelStep {
    /// Time of the last sample before the change, in seconds.
    pub before: f64,
    /// Time of the first sample after the change, in seconds.
    pub after: f64,
    /// Level after ÷ level before.
    pub ratio: f64,
    /// Medians before and after, in the metric's unit.
    pub levels: [f64; 2],
    /// Whether the change is for the worse.
    pub is_worse: bool,
    /// Whether a cause was seen in this machine: its quota, clock or other programs.
    pub is_own: bool,
    /// "the rate fell by 50 %".
    pub what: String,
    /// Whether the hypervisor gave CPU time to other guests (steal).
    pub is_stolen: bool,
    /// ". Likely cause: the CPU quota (throttled 0 % of the time before and 50 % after)".
    pub because: String,
    /// Both levels with their conditions.
    pub evidence: Value,
}

/// Returns, per measurement, the changes of level by 5 % or more of its headline metric, in order
/// of time. `false_share`: probability that any change is reported if all series are noise.
/// `events`: times in s at which a change is expected, such as a new quota.
pub fn steps(measurements: &[Measurement], false_share: f64, events: &[f64]) -> Vec<Vec<LevelStep>> {
    let both = [false, true];
    let series: Vec<(usize, bool, Vec<TimedPoint>)> = measurements
        .iter()
        .enumerate()
        .filter_map(|(at, measurement)| Some((at, measurement.headline()?)))
        .flat_map(|(at, metric)| both.map(|is_delivered| (at, is_delivered, watched(metric, is_delivered))))
        .filter(|(_, _, series)| series.iter().any(|point| point.value.is_finite()))
        .collect();
    let seeded: Vec<(&[TimedPoint], Seed)> = series
        .iter()
        .map(|(at, is_delivered, series)| {
            let id = measurements.get(*at).map(|m| m.case.id());
            let name = if *is_delivered { "delivered" } else { "value" };
            (series.as_slice(), Seed::new(0, id.as_ref().map_or("", |id| id.as_str()), name))
        })
        .collect();
    let found = segments_of_many(&seeded, false_share, events);
    let of = |at: usize, is_delivered: bool| {
        let place = series.iter().position(|(of, which, _)| (*of, *which) == (at, is_delivered));
        place.and_then(|place| found.get(place)).map(Vec::as_slice).unwrap_or_default()
    };
    let reported = |(at, measurement): (usize, &Measurement)| {
        let Some(metric) = measurement.headline() else { return Vec::new() };
        let notable = notable_changes(metric, of(at, false), of(at, true));
        notable.iter().map(|change| change.step(measurement, metric)).collect()
    };
    measurements.iter().enumerate().map(reported).collect()
}

/// Returns a metric's values over time; if `is_delivered`, its delivered rates (NaN if unknown).
fn watched(metric: &MetricResult, is_delivered: bool) -> Vec<TimedPoint> {
    let delivered = |p: &SamplePoint| TimedPoint { t: p.t, value: p.delivered.unwrap_or(f64::NAN) };
    if is_delivered { metric.series.iter().map(delivered).collect() } else { metric.timed() }
}

/// Two adjacent segments; `changes` is the number of changes in the series.
struct Change {
    is_delivered: bool,
    before: SegmentLevel,
    after: SegmentLevel,
    /// after ÷ before.
    ratio: f64,
    changes: usize,
}

struct SegmentLevel {
    segment: Segment,
    /// Mean conditions.
    means: SamplePoint,
}

fn changes(metric: &MetricResult, is_delivered: bool, found: &[Segment]) -> Vec<Change> {
    let changes = found.len().saturating_sub(1);
    let pairs = found.iter().zip(found.iter().skip(1)).filter_map(|(before, after)| {
        let ratio = after.median / before.median;
        // A level that is zero or negative has no ratio.
        let usable = before.median > 0.0 && ratio.is_finite() && ratio > 0.0;
        let level = |segment: &Segment| SegmentLevel::new(segment.clone(), &metric.series);
        usable.then(|| Change { is_delivered, before: level(before), after: level(after), ratio, changes })
    });
    pairs.collect()
}

impl SegmentLevel {
    fn new(segment: Segment, series: &[SamplePoint]) -> Self {
        let points = series.get(segment.points.clone()).unwrap_or_default();
        let mean = |read: fn(&SamplePoint) -> Option<f64>| {
            let known: Vec<f64> = points.iter().filter_map(read).filter(|x| x.is_finite()).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        // Means, not medians: a quota period may be as long as a sample.
        let means = SamplePoint {
            clock_hz: mean(|p| p.clock_hz).filter(|hz| *hz > 0.0),
            steal: mean(|p| p.steal),
            excluded: mean(|p| p.excluded),
            throttled: mean(|p| p.throttled),
            waited: mean(|p| p.waited),
            ..SamplePoint::default()
        };
        Self { segment, means }
    }

    fn json(&self) -> Value {
        let Self { segment: Segment { points, from, to, median, mad }, means } = self;
        json!({
            "samples": [points.start, points.end], "from": from, "to": to, "median": median, "mad": mad,
            "clock_hz": means.clock_hz, "steal": means.steal, "excluded": means.excluded,
            "throttled": means.throttled, "waited": means.waited,
        })
    }
}

impl Change {
    /// Returns the relative size of the change (0 to 1), equal for a fall and the reverse rise.
    fn size(&self) -> f64 {
        1.0 - self.ratio.min(1.0 / self.ratio)
    }

    fn reported(&self, measurement: &Measurement, metric: &MetricResult) -> PlainFinding {
        let begun = metric.series.first().map_or(0.0, |point| point.t);
        let after = significant(self.after.segment.from - begun, 3);
        let LevelStep { what, because, evidence, .. } = self.step(measurement, metric);
        let text = format!("{}: {what} after {after} s{because}", full(&measurement.case));
        PlainFinding { topic: Topic::Change, code: "changed", text, evidence }
    }

    fn step(&self, measurement: &Measurement, metric: &MetricResult) -> LevelStep {
        let prefix = if self.is_delivered { "delivered " } else { "" };
        let direction = if self.ratio < 1.0 { "fell" } else { "rose" };
        let share = percent((self.ratio - 1.0).abs(), 2);
        let cause = match self.cause(metric.better) {
            ChangeCause::NotSeen if measurement.warns(Warning::CPUS_MOVED) => ChangeCause::Moved,
            cause => cause,
        };
        let is_hot = cause == ChangeCause::Clock && measurement.warns(Warning::TOO_HOT);
        let hot = "; the processor slowed itself down during the case because it was too hot";
        let heat = if is_hot { hot } else { "" };
        let begun = metric.series.first().map_or(0.0, |point| point.t);
        LevelStep {
            before: self.before.segment.to,
            after: self.after.segment.from,
            ratio: self.ratio,
            levels: [self.before.segment.median, self.after.segment.median],
            is_worse: self.slows(metric.better),
            is_own: matches!(cause, ChangeCause::Quota | ChangeCause::Clock | ChangeCause::Others),
            is_stolen: cause == ChangeCause::Steal,
            what: format!("the {prefix}{} {direction} by {share}", metric.name),
            because: format!("{}{heat}", self.because(cause, metric.better)),
            evidence: json!({
                "case": measurement.case.id(), "metric": metric.name, "delivered": self.is_delivered,
                "after_s": self.after.segment.from - begun, "ratio": self.ratio, "changes": self.changes,
                "before": self.before.json(), "after": self.after.json(), "cause": cause.words()[0],
            }),
        }
    }

    fn cause(&self, better: Better) -> ChangeCause {
        let (before, after) = (&self.before.means, &self.after.means);
        let [quick, slow] = if self.slows(better) { [before, after] } else { [after, before] };
        let missing = self.size();
        if let (Some(quick), Some(slow)) = (quick.clock_hz, slow.clock_hz) {
            let slower = 1.0 - slow / quick;
            if slower > SAME_CLOCK && (slower - missing).abs() <= BY_THE_SAME_SHARE * missing {
                return ChangeCause::Clock;
            }
        }
        // Loss relative to what was left before: 20 % more of the remaining 40 % is one half.
        let explains = |read: fn(&SamplePoint) -> Option<f64>| {
            let (more, less) = (read(slow)?, read(quick).unwrap_or(0.0));
            let taken = 1.0 - (1.0 - more.min(1.0)) / (1.0 - less).max(f64::MIN_POSITIVE);
            (more - less >= NOTABLE && taken >= EXPLAINS * missing).then_some(taken)
        };
        let rise =
            |read: fn(&SamplePoint) -> Option<f64>| read(slow).unwrap_or(0.0) - read(quick).unwrap_or(0.0);
        let (quota, steal) = (explains(|l| l.throttled), explains(|l| l.steal));
        match (quota, steal) {
            (Some(quota), steal) if quota >= steal.unwrap_or(0.0) => ChangeCause::Quota,
            (_, Some(_)) => ChangeCause::Steal,
            // Throttled threads also await a CPU: half the added wait suffices to blame the quota.
            _ if explains(|l| l.waited).is_some() => {
                let is_quota = rise(|l| l.throttled) >= 0.5 * rise(|l| l.waited);
                if is_quota { ChangeCause::Quota } else { ChangeCause::Others }
            }
            _ if !self.is_delivered || explains(|l| l.excluded).is_none() => ChangeCause::NotSeen,
            _ if slow.waited.is_some() => ChangeCause::Host,
            _ => ChangeCause::Interrupted,
        }
    }

    /// Returns the end of the finding's text: `cause`, with what else changed.
    fn because(&self, cause: ChangeCause, better: Better) -> String {
        let (clock, losses) = (self.clock(cause, better), self.losses(cause, better));
        let facts: Vec<String> = clock.into_iter().chain(losses).collect();
        let (facts, text) = (facts.join(", "), cause.words()[1]);
        match (cause, facts.as_str()) {
            (ChangeCause::NotSeen, "") => format!(". {text}: measure again"),
            (ChangeCause::NotSeen, _) => format!(". {text}: measure again. Also seen: {facts}"),
            (_, "") => format!(". Likely cause: {text}"),
            _ => format!(". Likely cause: {text} ({facts})"),
        }
    }

    fn clock(&self, cause: ChangeCause, better: Better) -> Option<String> {
        let (before, after) = self.before.means.clock_hz.zip(self.after.means.clock_hz)?;
        let [before_ghz, after_ghz] = [before, after].map(|hz| significant(hz / 1e9, 3));
        let change = after / before - 1.0;
        match change {
            _ if change.abs() <= SAME_CLOCK => Some("clock unchanged".to_owned()),
            _ if cause == ChangeCause::Clock => Some(format!("from {before_ghz} to {after_ghz} GHz")),
            _ if !cause.is_seen() && (change < 0.0) != self.slows(better) => None,
            _ => Some(format!("clock from {before_ghz} to {after_ghz} GHz")),
        }
    }

    /// Returns whether the change is for the worse.
    fn slows(&self, better: Better) -> bool {
        (self.ratio < 1.0) == (better == Better::Higher)
    }

    fn losses(&self, cause: ChangeCause, better: Better) -> Vec<String> {
        let of = |what, read: fn(&SamplePoint) -> Option<f64>| {
            (what, [&self.before, &self.after].map(|level| read(&level.means).unwrap_or(0.0)))
        };
        let all = [
            of("steal", |l| l.steal),
            of("throttled", |l| l.throttled),
            of("waiting for a CPU", |l| l.waited),
            of("threads interrupted", |l| l.excluded),
        ];
        // Each kind includes the following ones, so only the kinds up to the cause are listed.
        let known = match cause {
            ChangeCause::Clock => 0,
            ChangeCause::Quota | ChangeCause::Steal => 2,
            ChangeCause::Others => 3,
            ChangeCause::Host | ChangeCause::Interrupted | ChangeCause::NotSeen | ChangeCause::Moved => 4,
        };
        let reported = |(what, [before, after]): &(&str, [f64; 2])| {
            // Without a cause, facts with the opposite effect only confuse.
            let fits = cause.is_seen() || (after > before) == self.slows(better);
            let [was, is] = [before, after].map(|share| percent(*share, 2));
            (fits && (after - before).abs() >= NOTABLE)
                .then(|| format!("{what} {was} of the time before and {is} after"))
        };
        all.iter().take(known).filter_map(reported).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ChangeCause {
    Clock,
    Quota,
    Steal,
    /// Threads were ready to run but had no CPU.
    Others,
    /// Interrupted although the threads had their CPUs as far as this kernel knows.
    Host,
    /// Interrupted; whether the threads had their CPUs is unknown.
    Interrupted,
    NotSeen,
    /// No other cause, and the case has the warning that its CPUs were moved.
    Moved,
}

impl ChangeCause {
    fn is_seen(self) -> bool {
        !matches!(self, ChangeCause::NotSeen | ChangeCause::Moved)
    }

    /// Returns the stable code, then the words for the text of a finding.
    fn words(self) -> [&'static str; 2] {
        match self {
            ChangeCause::Clock => ["clock", "the CPU clock"],
            ChangeCause::Quota => ["quota", "the CPU quota"],
            ChangeCause::Steal => ["steal", "CPU credits, or other guests of the host"],
            ChangeCause::Others => ["others", "other programs on this machine"],
            ChangeCause::Host => ["host", "a hypervisor that takes CPU time and does not report it as steal"],
            ChangeCause::Interrupted => {
                ["interrupted", "other programs on this machine, or a hypervisor that does not report steal"]
            }
            ChangeCause::NotSeen => ["not-seen", "Cause unknown"],
            ChangeCause::Moved => ["moved", "the hypervisor moved the vCPUs"],
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::measurement::Status;
    use plimsoll_model::view::testing::{measured, warned};
    use plimsoll_units::quantity::Unit;

    use super::*;

    /// 600 samples, one per second from second 40. Of those after the first 212, values, clocks and
    /// delivered rates are multiplied by `factors`, and `slow` changes the rest.
    fn run(better: Better, factors: [f64; 3], slow: impl Fn(&mut SamplePoint)) -> Measurement {
        let place = |i: usize| 1.0 + 0.001 * ((i * 7919 % 101) as f64 / 50.0 - 1.0);
        let points = (0..600).map(|i| {
            let [value, clock, delivered] = if i < 212 { [1.0; 3] } else { factors };
            let mut point = SamplePoint {
                t: 40.0 + i as f64,
                clock_hz: Some(clock * (3.7e9 * place(i + 31))),
                steal: Some(0.01 * place(i)),
                excluded: Some(0.02),
                throttled: Some(0.0),
                waited: None,
                delivered: Some(delivered * (98.0 * place(i + 7))),
            };
            if i >= 212 {
                slow(&mut point);
            }
            (value * (100.0 * place(i)), point)
        });
        let (unit, id) = (Unit::FlopPerSecond, "cpu.peak/op=fma/threads=2");
        let mut made = measured(id, unit, better, &[1.0]);
        (made.metrics[0].samples, made.metrics[0].series) = points.unzip();
        made.metrics[0].name = "rate".to_owned();
        made
    }

    /// Text of the only finding, without the case, and its evidence.
    fn reported(measurement: &Measurement) -> (String, Value) {
        let mut found = find(std::slice::from_ref(measurement));
        assert_eq!(found.len(), 1, "{found:?}");
        let found = found.remove(0);
        assert_eq!(found.code, "changed");
        let text = found.text.strip_prefix("cpu fma ×2: ").unwrap().to_owned();
        (text, found.evidence)
    }

    /// Factors and another change of the samples, the text, and the code of the cause.
    type ChangeRow = ([f64; 3], fn(&mut SamplePoint), &'static str, &'static str);

    #[test]
    fn each_change_is_told_with_the_cause_that_the_samples_show() {
        let rows: [ChangeRow; 7] = [
            (
                [0.62, 1.0, 1.0],
                |p| p.steal = Some(0.61),
                "the rate fell by 38 % after 212 s. Likely cause: CPU credits, or other guests of the host (clock unchanged, steal 1.0 % of the time before and 61 % after)",
                "steal",
            ),
            (
                [0.784, 0.784, 1.0],
                |p| p.steal = Some(0.3),
                "the rate fell by 22 % after 212 s. Likely cause: the CPU clock (from 3.70 to 2.90 GHz)",
                "clock",
            ),
            (
                [1.0, 1.0, 0.5],
                |p| (p.throttled, p.excluded) = (Some(0.51), Some(0.5)),
                "the delivered rate fell by 50 % after 212 s. Likely cause: the CPU quota (clock unchanged, throttled 0 % of the time before and 51 % after)",
                "quota",
            ),
            // A change of both is a finding about the value.
            (
                [0.5, 1.0, 0.49],
                |_| (),
                "the rate fell by 50 % after 212 s. Cause unknown: measure again. Also seen: clock unchanged",
                "not-seen",
            ),
            // Interruptions without steal or quota.
            (
                [1.0, 1.0, 0.5],
                |p| p.excluded = Some(0.5),
                "the delivered rate fell by 50 % after 212 s. Likely cause: other programs on this machine, or a hypervisor that does not report steal (clock unchanged, threads interrupted 2.0 % of the time before and 50 % after)",
                "interrupted",
            ),
            // A small loss of time is reported, but not as the cause.
            (
                [0.5, 0.95, 1.0],
                |p| p.steal = Some(0.1),
                "the rate fell by 50 % after 212 s. Cause unknown: measure again. Also seen: clock from 3.70 to 3.51 GHz, steal 1.0 % of the time before and 10 % after",
                "not-seen",
            ),
            (
                [2.0, 1.0, 1.0],
                |p| p.steal = Some(0.0),
                "the rate rose by 100 % after 212 s. Cause unknown: measure again. Also seen: clock unchanged",
                "not-seen",
            ),
        ];
        for (factors, change, text, cause) in rows {
            let (stated, evidence) = reported(&run(Better::Higher, factors, change));
            assert_eq!((stated.as_str(), &evidence["cause"]), (text, &json!(cause)));
            assert_eq!((&evidence["after_s"], &evidence["changes"]), (&json!(212.0), &json!(1)));
            assert_eq!(evidence["before"]["samples"], json!([0, 212]));
            assert_eq!(evidence["delivered"], text.contains("delivered"));
        }
    }

    #[test]
    fn heat_and_cpus_that_were_moved_are_causes() {
        let hot = warned(run(Better::Higher, [0.784, 0.784, 1.0], |_| ()), Warning::TOO_HOT);
        let (text, evidence) = reported(&hot);
        let end = "GHz); the processor slowed itself down during the case because it was too hot";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(evidence["cause"], json!("clock"));
        let moved = warned(run(Better::Higher, [0.5, 1.0, 1.0], |_| ()), Warning::CPUS_MOVED);
        let (text, evidence) = reported(&moved);
        let told = "the rate fell by 50 % after 212 s. Likely cause: the hypervisor moved the vCPUs (clock unchanged)";
        assert_eq!(text, told);
        assert_eq!(evidence["cause"], "moved");
    }

    #[test]
    fn threads_without_a_cpu_are_other_programs_and_with_one_the_host() {
        let waiting = |share: f64| {
            let change = |p: &mut SamplePoint| (p.excluded, p.waited) = (Some(0.5), Some(share));
            let mut made = run(Better::Higher, [1.0, 1.0, 0.5], change);
            made.metrics[0].series[..212].iter_mut().for_each(|p| p.waited = Some(0.0));
            reported(&made).0
        };
        let others = waiting(0.49);
        assert!(others.contains("Likely cause: other programs on this machine (clock unchanged, waiting for a CPU 0 % of the time before and 49 %"), "{others}");
        let host = waiting(0.01);
        let cause = "Likely cause: a hypervisor that takes CPU time and does not report it as steal (";
        assert!(host.contains(cause), "{host}");
        let (value, _) = reported(&run(Better::Higher, [0.5, 1.0, 1.0], |p| p.excluded = Some(0.5)));
        assert!(value.ends_with("Cause unknown: measure again. Also seen: clock unchanged, threads interrupted 2.0 % of the time before and 50 % after"), "{value}");
    }

    #[test]
    fn a_quota_beside_other_programs_is_the_cause_of_what_it_added() {
        // A quota of 0.3 CPUs was set while other programs took 45 % of the CPU (from a watch).
        let mut made = run(Better::Higher, [1.0, 1.0, 0.287], |p| {
            (p.excluded, p.throttled, p.waited) = (Some(0.852), Some(0.312), Some(0.831));
        });
        let before = made.metrics[0].series[..212].iter_mut();
        before.for_each(|p| (p.excluded, p.waited) = (Some(0.474), Some(0.45)));
        assert_eq!(reported(&made).1["cause"], "quota");
        // Without the quota, other programs cause the same loss.
        made.metrics[0].series[212..].iter_mut().for_each(|p| p.throttled = Some(0.0));
        assert_eq!(reported(&made).1["cause"], "others");
    }

    #[test]
    fn a_loss_counts_by_what_it_takes_of_the_rest() {
        let mut busy = run(Better::Higher, [1.0, 1.0, 0.7], |p| p.excluded = Some(0.52));
        busy.metrics[0].series[..212].iter_mut().for_each(|p| p.excluded = Some(0.38));
        let (text, _) = reported(&busy);
        let facts = "(clock unchanged, threads interrupted 38 % of the time before and 52 % after)";
        assert!(text.contains(facts), "{text}");
    }

    #[test]
    fn a_rise_has_its_cause_before_it() {
        let mut freed = run(Better::Higher, [2.0, 1.0, 1.0], |p| p.steal = Some(0.01));
        freed.metrics[0].series[..212].iter_mut().for_each(|p| p.steal = Some(0.52));
        let (text, _) = reported(&freed);
        assert!(text.ends_with("steal 52 % of the time before and 1.0 % after)"), "{text}");
    }

    #[test]
    fn a_latency_that_rises_is_a_loss_of_speed() {
        let (text, _) = reported(&run(Better::Lower, [1.25, 0.8, 1.0], |_| ()));
        let told = "the rate rose by 25 % after 212 s. Likely cause: the CPU clock (from 3.70 to 2.96 GHz)";
        assert_eq!(text, told);
    }

    #[test]
    fn it_is_silent_where_nothing_changed_or_little_or_too_few_know() {
        let steady = run(Better::Higher, [1.0; 3], |_| ());
        let faint = run(Better::Higher, [0.96, 1.0, 1.0], |_| ());
        let drop = || run(Better::Higher, [0.5, 1.0, 1.0], |_| ());
        let mut short = drop();
        short.metrics[0].series = short.metrics[0].series[200..229].to_vec();
        let invalid = Measurement { status: Status::Invalid, ..drop() };
        let mut zero = drop();
        zero.metrics[0].samples.fill(0.0);
        zero.metrics[0].series.iter_mut().for_each(|p| p.delivered = None);
        assert!(find(&[steady, faint, short, invalid, zero]).is_empty());
        assert_eq!(find(&[drop()]).len(), 1);
    }

    #[test]
    fn nothing_known_beside_the_value_is_no_obstacle() {
        let mut bare = run(Better::Higher, [0.5, 1.0, 1.0], |_| ());
        for point in &mut bare.metrics[0].series {
            *point = SamplePoint { t: point.t, ..SamplePoint::default() };
        }
        assert_eq!(reported(&bare).0, "the rate fell by 50 % after 212 s. Cause unknown: measure again");
    }
}
