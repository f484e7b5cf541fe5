//! Findings of a watch: steadiness, worst hour, level changes, steal, temperature and gaps.

use jiff::Timestamp;
use plimsoll_bench::{label::full, subsystem_of};
use plimsoll_model::limit::median;
use plimsoll_model::measurement::NOTABLE;
use plimsoll_model::measurement::{Measurement, MetricResult};
use plimsoll_model::sample::Outcome;
use plimsoll_result::document::Finding;
use plimsoll_result::finding::{LevelStep, steps};
use plimsoll_stats::TimedPoint;
use plimsoll_units::quantity::{Quantity, format_cpus, percent, significant};
use plimsoll_units::text::format_count;
use serde_json::json;

use crate::held::{self, SettingAtProbe};
use crate::hours::{self, after};
use crate::journal::{JournalContent, WatchProbe};

/// Chance that a watch of pure noise reports any step.
const FALSE_SHARE: f64 = 0.01;
const NEARLY_ALL: f64 = 0.95;
const MOST_STEPS: usize = 5;
/// Fewest days on which an hour of the day must be worse to be reported.
const DAYS: usize = 2;
const STOLEN: f64 = 0.01;
/// A drop below this share of the previous level may be a used-up burst credit.
const FALL: f64 = 0.9;
const WARMER: f64 = 5.0;
/// Shortest gap without a watch process that is reported, in s.
const UNWATCHED: f64 = 5.0;
const BYTES_PER_MIB: f64 = 1_048_576.0;
const MIN_FIGURES: usize = 20;

/// Returns findings on a watch, its cases and the machine; `measurements` join each case's probes.
pub fn findings(kept: &JournalContent, measurements: &[Measurement]) -> Vec<Finding> {
    let watch =
        FindingsContext { kept, begun: kept.begun.run.started.parse().unwrap_or(Timestamp::UNIX_EPOCH) };
    let quota_changes: Vec<f64> = watch.quota_changes().map(|(_, after)| after.at).collect();
    let changed = steps(measurements, FALSE_SHARE, &quota_changes);
    let mut found = vec![watch.watched()];
    found.extend(measurements.iter().filter_map(|measurement| watch.steadiness(measurement)));
    for (measurement, steps) in measurements.iter().zip(&changed) {
        let settings = held::settings(kept, measurement);
        found.extend(watch.changes(measurement, steps));
        found.extend(watch.limits(measurement, &settings));
        found.extend(watch.credit(measurement, steps, &settings));
        found.extend(watch.daily(measurement));
    }
    found.extend(watch.seldom(measurements));
    found.extend(watch.quota());
    found.extend(watch.failed());
    found.extend(watch.stolen());
    found.extend(watch.temperature());
    found.extend(watch.unwatched());
    found
}

struct FindingsContext<'a> {
    kept: &'a JournalContent,
    begun: Timestamp,
}

impl FindingsContext<'_> {
    fn time(&self, at: f64) -> Timestamp {
        after(self.begun, at)
    }

    fn shown(&self, at: f64) -> String {
        self.time(at).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
    }

    fn between(&self, from: f64, to: f64) -> String {
        format!("between {} and {}", self.shown(from), self.shown(to))
    }

    fn watched(&self) -> Finding {
        let JournalContent { begun, probes, passed, spent, reached, .. } = self.kept;
        let (reached, share) = (*reached, spent.cpu / reached.max(1.0));
        let left_out = match passed.len() {
            0 => String::new(),
            n => format!(", {n} skipped because others used the machine"),
        };
        let bytes = |what: &str, value: f64| match value {
            0.0 => String::new(),
            value => format!(", {} MiB of {what}", significant(value / BYTES_PER_MIB, 3)),
        };
        let (made, took) = (format_count(probes.len(), "probe"), format_duration(reached));
        let (cpu, disk) = (percent(share, 2), bytes("disk traffic", spent.disk));
        let network = bytes("network traffic", spent.network);
        let text = format!("{made} in {took}{left_out}; the watch took {cpu} of one CPU{disk}{network}");
        let times: Vec<f64> = probes.iter().map(|probe| probe.at).collect();
        Finding::new(
            "watched",
            text,
            json!({
                "probes": probes.len(), "passed_over": passed.len(), "seconds": reached, "of_seconds": begun.seconds,
                "cpu_share": share, "disk_bytes": spent.disk, "network_bytes": spent.network, "at_s": times,
            }),
        )
    }

    /// Returns the finding on a case's spread and worst hour; `None` for under two samples.
    fn steadiness(&self, measurement: &Measurement) -> Option<Finding> {
        let metric = measurement.headline().filter(|metric| metric.samples.len() > 1)?;
        if plimsoll_bench::is_informative(&measurement.case, &metric.name) {
            return None;
        }
        let own = spread_around_median(&metric.samples)?;
        let by_wall =
            spread_around_median(&delivered(metric).iter().map(|point| point.value).collect::<Vec<_>>());
        let series = by_wall_clock(metric);
        let median = median(series.iter().map(|point| point.value).collect())?;
        let hours = hours::hours(&series, self.begun);
        let worst = hours::worst(&hours, metric.better);
        let worse = |hour: &hours::Hour| hours::worse(hour.median, median, metric.better);
        let hour = worst.map_or_else(String::new, |hour| {
            let (by, direction) = (worse(hour), if worse(hour) < 0.0 { "better" } else { "worse" });
            format!("; worst hour {}: {} {direction}", hour.name(), percent(by.abs(), 2))
        });
        let wall = by_wall.map_or_else(String::new, |share| {
            format!("; with the time that others took, within {}", percent(share, 2))
        });
        let figures = format_count(metric.samples.len(), "figure");
        let which = match metric.samples.len() {
            ..MIN_FIGURES => format!("all {figures} are"),
            _ => format!("{} % of {figures} are", significant(NEARLY_ALL * 100.0, 2)),
        };
        let (case, share) = (full(&measurement.case), percent(own, 2));
        let text = format!("{case}: {which} within {share} of the median{wall}{hour}");
        let listed = |hour: &hours::Hour| json!({ "from": hour.from.to_string(), "median": hour.median, "probes": hour.probes, "worse": worse(hour) });
        Some(Finding::new(
            "steadiness",
            text,
            json!({
                "case": measurement.case.id(), "metric": metric.name, "share": NEARLY_ALL, "within": own,
                "within_by_wall_clock": by_wall, "worst_hour": worst.map(listed),
                "hours": hours.iter().map(listed).collect::<Vec<_>>(),
            }),
        ))
    }

    fn changes(&self, measurement: &Measurement, steps: &[LevelStep]) -> Vec<Finding> {
        let size = |step: &LevelStep| step.ratio.max(1.0 / step.ratio);
        let mut largest: Vec<&LevelStep> = steps.iter().collect();
        largest.sort_by(|a, b| size(b).total_cmp(&size(a)));
        largest.truncate(MOST_STEPS);
        largest.sort_by(|a, b| a.after.total_cmp(&b.after));
        let mut found: Vec<Finding> = largest.iter().map(|step| self.step(measurement, step)).collect();
        let more = steps.len() - found.len();
        if more > 0 {
            let (case, more) = (full(&measurement.case), format_count(more, "further change"));
            let text = format!("{case}: {more}, smaller than these");
            let times: Vec<[f64; 2]> = steps.iter().map(|step| [step.before, step.after]).collect();
            let evidence = json!({ "case": measurement.case.id(), "between_s": times });
            found.push(Finding::new("levels-changed", text, evidence));
        }
        found
    }

    fn step(&self, measurement: &Measurement, step: &LevelStep) -> Finding {
        let between = self.between(step.before, step.after);
        let text = format!("{}: {} {between}{}", full(&measurement.case), step.what, step.because);
        let mut evidence = step.evidence.clone();
        evidence["between"] = json!([self.time(step.before).to_string(), self.time(step.after).to_string()]);
        evidence["between_s"] = json!([step.before, step.after]);
        Finding::new("level-changed", text, evidence)
    }

    fn limits(&self, measurement: &Measurement, settings: &[SettingAtProbe]) -> Vec<Finding> {
        let rate = |held: SettingAtProbe| {
            held.by.map_or_else(|| "none".to_owned(), |setting| setting.rate.to_string())
        };
        let value = |held: SettingAtProbe| held.by.map(|setting| setting.rate.value);
        let finding = |(before, after): (SettingAtProbe, SettingAtProbe)| {
            let kind = after.by.or(before.by)?.kind;
            let (case, limit) = (full(&measurement.case), kind.word());
            let between = self.between(before.at, after.at);
            let [was, is] = [before, after].map(rate);
            let text = format!("{case}: the {limit} changed {between}: {was} before, {is} after");
            let evidence = json!({
                "case": measurement.case.id(), "kind": kind.code(), "before": value(before), "after": value(after),
                "between_s": [before.at, after.at],
            });
            Some(Finding::new("limit-changed", text, evidence))
        };
        held::changes(settings).filter_map(finding).collect()
    }

    /// Returns the finding on a drop that no local change explains, as of a used-up burst credit,
    /// if any. `steps` are the case's changes of level, `settings` its rate limits over time.
    fn credit(
        &self,
        measurement: &Measurement,
        steps: &[LevelStep],
        settings: &[SettingAtProbe],
    ) -> Option<Finding> {
        let metric = measurement.headline()?;
        let fall = |step: &LevelStep| step.ratio.min(1.0 / step.ratio);
        let step = steps.first().filter(|step| step.is_worse && !step.is_own && fall(step) < FALL)?;
        let later = |level: f64| hours::worse(level, step.levels[0], metric.better) >= 1.0 - FALL;
        let subsystem = subsystem_of(&measurement.case);
        let can_have = subsystem.on_files || subsystem.uses_interfaces || step.is_stolen;
        let is_within =
            |from: SettingAtProbe, to: SettingAtProbe| from.at < step.after && to.at > step.before;
        let is_set = held::changes(settings).any(|(from, to)| is_within(from, to) && to.rate() < from.rate());
        if !can_have || is_set || !steps.iter().all(|step| later(step.levels[1])) {
            return None;
        }
        let [burst, base] = step.levels.map(|value| Quantity { value, unit: metric.unit });
        let (case, first, after) =
            (full(&measurement.case), format_duration(step.before), self.shown(step.after));
        let text = format!(
            "{case}: {burst} for the first {first}, {base} after {after}: as where a burst credit is used up"
        );
        let evidence = json!({
            "case": measurement.case.id(), "burst": step.levels[0], "base": step.levels[1],
            "between_s": [step.before, step.after],
        });
        Some(Finding::new("burst-credit", text, evidence))
    }

    /// Returns the finding on hours of the day in which a case is worse on every day, if any.
    fn daily(&self, measurement: &Measurement) -> Option<Finding> {
        let metric = measurement.headline()?;
        let series = by_wall_clock(metric);
        let usual = median(series.iter().map(|point| point.value).collect())?;
        let hours = hours::hours(&series, self.begun);
        let found = hours::daily(&hours, usual, metric.better, NOTABLE, DAYS);
        if found.is_empty() {
            return None;
        }
        let named = |one: &hours::Daily| {
            format!("{:02}:00 ({} or more on {} days)", one.hour, percent(one.least, 2), one.days)
        };
        let named = found.iter().map(named).collect::<Vec<_>>().join(", ");
        let text = format!("{}: worse in the same hour of each day: {named} UTC", full(&measurement.case));
        let listed = |one: &hours::Daily| json!({ "hour": one.hour, "days": one.days, "least": one.least });
        let hours: Vec<_> = found.iter().map(listed).collect();
        Some(Finding::new("time-of-day", text, json!({ "case": measurement.case.id(), "hours": hours })))
    }

    fn seldom(&self, measurements: &[Measurement]) -> Vec<Finding> {
        let probes = self.kept.probes.len();
        let finding = |measurement: &Measurement| {
            let subsystem = subsystem_of(&measurement.case);
            let option = match (subsystem.on_files, subsystem.uses_interfaces) {
                (true, _) => "--disk-a-day",
                (_, true) => "--network-a-day",
                _ => return None,
            };
            let left_out = self.kept.probes.iter().filter(|probe| probe.left_out.contains(&measurement.case));
            let left_out = left_out.count();
            let (case, all) = (full(&measurement.case), format_count(probes, "probe"));
            let text = format!("{case}: left out of {left_out} of {all}, because {option} allows no more");
            let evidence = json!({ "case": measurement.case.id(), "left_out": left_out, "probes": probes });
            (left_out > 0).then(|| Finding::new("budget-used", text, evidence))
        };
        measurements.iter().filter_map(finding).collect()
    }

    fn quota(&self) -> Vec<Finding> {
        let named = |quota: Option<f64>| match quota {
            Some(cpus) => format_cpus(cpus, 3),
            None => "none".to_owned(),
        };
        let finding = |(before, after): (&WatchProbe, &WatchProbe)| {
            let between = self.between(before.at, after.at);
            let [was, is] = [before, after].map(|probe| named(probe.quota));
            let text = format!("the CPU quota changed {between}: {was} before, {is} after");
            let times = [before.at, after.at];
            let evidence = json!({ "before": before.quota, "after": after.quota, "between_s": times });
            Finding::new("quota-changed", text, evidence)
        };
        self.quota_changes().map(finding).collect()
    }

    fn quota_changes(&self) -> impl Iterator<Item = (&WatchProbe, &WatchProbe)> {
        let pairs = self.kept.probes.iter().zip(self.kept.probes.iter().skip(1));
        pairs.filter(|(before, after)| before.quota != after.quota)
    }

    fn failed(&self) -> Option<Finding> {
        let ended = |probe: &WatchProbe| {
            let ended = |case: &Outcome| Some(format!("{}: {}", full(&case.case), case.ended.as_ref()?));
            Some((probe.at, probe.cases.iter().find_map(ended)?))
        };
        let failed: Vec<(f64, String)> = self.kept.probes.iter().filter_map(ended).collect();
        let (at, why) = failed.last()?;
        let (all, last) = (format_count(self.kept.probes.len(), "probe"), self.shown(*at));
        let (count, shown) = (failed.len(), plimsoll_units::text::shown(why));
        let text = format!("{count} of {all} had a case that failed; the last one at {last}: {shown}");
        let times: Vec<f64> = failed.iter().map(|(at, _)| *at).collect();
        Some(Finding::new("no-figure", text, json!({ "at_s": times, "reason": why })))
    }

    fn stolen(&self) -> Option<Finding> {
        let known = |probe: &WatchProbe| Some((probe.at, probe.before.elapsed_s, probe.before.steal_share?));
        let known: Vec<(f64, f64, f64)> = self.kept.probes.iter().filter_map(known).collect();
        let all: f64 = known.iter().map(|(_, seconds, _)| seconds).sum();
        let share = known.iter().map(|(_, seconds, share)| seconds * share).sum::<f64>() / all;
        let (at, _, worst) = *known.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
        let text = format!(
            "the hypervisor gave {} of the CPU time to others (steal), {} at most, before the probe of {}",
            percent(share, 2),
            percent(worst, 2),
            self.shown(at)
        );
        (share >= STOLEN).then(|| {
            Finding::new("stolen-over-time", text, json!({ "share": share, "most": worst, "most_at_s": at }))
        })
    }

    fn temperature(&self) -> Option<Finding> {
        let known: Vec<(f64, f64)> =
            self.kept.probes.iter().filter_map(|probe| Some((probe.at, probe.celsius?))).collect();
        let low = known.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let high = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let [least, most] = [low, high].map(|known| significant(known.1, 3));
        let at = self.shown(high.0);
        let text = format!("the hottest sensor was between {least} and {most} °C, highest at {at}");
        (high.1 - low.1 >= WARMER).then(|| {
            Finding::new("temperature", text, json!({ "low": low.1, "high": high.1, "high_at_s": high.0 }))
        })
    }

    fn unwatched(&self) -> Option<Finding> {
        let JournalContent { sessions, probes, stopped, .. } = self.kept;
        let last = |before: f64| {
            let ended =
                probes.iter().map(|probe| probe.at + probe.took).chain(stopped.iter().map(|stop| stop.at));
            ended.filter(|end| *end <= before).fold(0.0, f64::max)
        };
        let gaps = sessions.iter().skip(1).map(|session| [last(session.at), session.at]);
        let gaps = gaps.chain([[self.kept.reached, self.kept.until]]);
        let gaps: Vec<[f64; 2]> = gaps.filter(|[from, to]| to - from >= UNWATCHED).collect();
        let boots = sessions.iter().zip(sessions.iter().skip(1)).filter(|(a, b)| a.boot != b.boot).count();
        let slept: f64 = probes.iter().map(|probe| probe.slept).sum();
        let mut stated = Vec::new();
        if let Some([from, to]) = gaps.iter().max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0]))) {
            let times = format_count(gaps.len(), "time");
            let [from, to] = [*from, *to].map(|at| self.shown(at));
            stated.push(format!("the watch was stopped {times}, longest from {from} to {to}"));
        }
        if boots > 0 {
            stated.push(format!("the machine was booted {}", format_count(boots, "time")));
        }
        if slept >= UNWATCHED {
            stated.push(format!("the machine slept for {}", format_duration(slept)));
        }
        let evidence = json!({ "gaps_s": gaps, "boots": boots, "slept_s": slept });
        (!stated.is_empty()).then(|| Finding::new("unwatched", stated.join("; "), evidence))
    }
}

fn delivered(metric: &MetricResult) -> Vec<TimedPoint> {
    let known =
        metric.series.iter().filter_map(|point| Some(TimedPoint { t: point.t, value: point.delivered? }));
    known.filter(|point| point.value.is_finite()).collect()
}

/// Returns the values of a metric over time with interruptions included, or as measured if unknown.
fn by_wall_clock(metric: &MetricResult) -> Vec<TimedPoint> {
    let delivered = delivered(metric);
    if delivered.is_empty() { metric.timed() } else { delivered }
}

/// Returns the largest distance from the median, as a share of it, of the nearest 95 % of `values`
/// (of all, if fewer than 20); `None` without values.
fn spread_around_median(values: &[f64]) -> Option<f64> {
    let median = median(values.to_vec())?;
    let mut off: Vec<f64> = values.iter().map(|value| (value / median - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    let share = if off.len() < MIN_FIGURES { 1.0 } else { NEARLY_ALL };
    let place = (off.len() as f64 * share).ceil() as usize;
    off.get(place.saturating_sub(1)).copied().filter(|share| share.is_finite())
}

/// Formats a duration: `10 s`, `4 min 10 s`, `23 h 59 min`, from 48 hours on `2 d 1 h`.
pub fn format_duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, _) => format!("{minutes} min {rest} s"),
        (1..48, _) => format!("{hours} h {minutes} min"),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use plimsoll_machine::StateChange;
    use plimsoll_machine::cgroup::IoLimit;
    use plimsoll_model::measurement::SamplePoint;
    use plimsoll_model::sample::{CannotMeasure, Sample};
    use plimsoll_result::document::Run;
    use plimsoll_result::fixture::{self, run_of};
    use plimsoll_units::quantity::Unit;

    use super::*;
    use crate::journal::tests::begun;
    use crate::journal::{JournalEntry, WatchOrder, WatchResources, WatchSession};

    const EVERY: f64 = 300.0;

    /// A watch with a probe every 5 min and its measurement; `value` maps hours to the metric.
    fn watched(hours: f64, id: &str, value: impl Fn(f64) -> f64) -> (JournalContent, Measurement) {
        let count = (hours * 3600.0 / EVERY) as usize;
        let times: Vec<f64> = (0..count).map(|i| i as f64 * EVERY).collect();
        let noise = |i: usize| 1.0 + 0.002 * ((i * 7919 % 101) as f64 / 50.0 - 1.0);
        let mut measurement = fixture::cpu("f64", 1, 1.0, 2.0);
        measurement.case = id.parse().unwrap();
        let metric = &mut measurement.metrics[0];
        metric.samples = times.iter().enumerate().map(|(i, t)| value(t / 3600.0) * noise(i)).collect();
        metric.series = times.iter().map(|t| SamplePoint { t: *t, ..SamplePoint::default() }).collect();
        metric.summary.median = median(metric.samples.clone()).unwrap();
        let run = Run { started: "2026-11-26T09:00:00Z".to_owned(), ..run_of(Vec::new()) };
        let sample = |at: f64| Sample { at, elapsed: 0.1, ..Sample::default() };
        let empty = Outcome { samples: Vec::new(), ..measurement.evidence() };
        let probe = |t: &f64| WatchProbe {
            at: *t,
            took: 1.0,
            spent: WatchResources { cpu: 0.5, disk: 1e6, network: 0.0 },
            before: StateChange { elapsed_s: EVERY - 1.0, steal_share: Some(0.0), ..StateChange::default() },
            celsius: Some(50.0),
            cases: vec![Outcome { samples: vec![sample(*t)], ..empty.clone() }],
            ..WatchProbe::default()
        };
        let begun = WatchOrder { seconds: hours * 3600.0, every: EVERY, run, ..begun() };
        let session = WatchSession { boot: "a".to_owned(), since_boot: 100.0, ..WatchSession::default() };
        let mut kept = JournalContent::of(begun);
        kept.take(JournalEntry::Session(session)).unwrap();
        times.iter().map(probe).for_each(|it| kept.take(JournalEntry::Probe(Box::new(it))).unwrap());
        (kept, measurement)
    }

    const CPU: &str = "cpu.peak/op=fma/type=f64/threads=1";
    const DISK: &str = "disk.io/op=read/pattern=random/block=4K/depth=1/size=16M";

    /// Returns the texts of the findings with this code.
    fn texts(kept: &JournalContent, measurement: &Measurement, code: &str) -> Vec<String> {
        let found = findings(kept, std::slice::from_ref(measurement)).into_iter();
        found.filter(|finding| finding.code == code).map(|finding| finding.text).collect()
    }

    /// Checks that the only finding with this code contains all of `parts`.
    fn assert_told(kept: &JournalContent, measurement: &Measurement, code: &str, parts: &[&str]) {
        let texts = texts(kept, measurement, code);
        assert!(texts.len() == 1 && parts.iter().all(|part| texts[0].contains(part)), "{code}: {texts:?}");
    }

    #[test]
    fn a_steady_machine_has_nothing_but_its_steadiness() {
        let (kept, measurement) = watched(24.0, CPU, |_| 100.0);
        let found = findings(&kept, std::slice::from_ref(&measurement));
        let codes: Vec<&str> = found.iter().map(|finding| finding.code.as_str()).collect();
        assert_eq!(codes, ["watched", "steadiness"]);
        let watched = "288 probes in 23 h 55 min; the watch took 0.17 % of one CPU";
        assert_told(&kept, &measurement, "watched", &[watched]);
        let steady = ["95 % of 288 figures are within 0.1", "worst hour"];
        assert_told(&kept, &measurement, "steadiness", &steady);
    }

    #[test]
    fn the_worst_hour_and_the_hour_of_each_day_are_named() {
        let is_slow = |hour: f64| (5.0..6.0).contains(&(hour % 24.0));
        let (kept, measurement) = watched(50.0, CPU, |hour| if is_slow(hour) { 80.0 } else { 100.0 });
        assert_told(&kept, &measurement, "steadiness", &["14:00 to 15:00 UTC: 20 % worse"]);
        assert_told(&kept, &measurement, "time-of-day", &["14:00 (20 % or more on 2 days) UTC"]);
        let changes = texts(&kept, &measurement, "level-changed");
        let first = "fell by 20 % between 2026-11-26 13:55:00 UTC and 2026-11-26 14:00:00 UTC";
        assert!(changes.len() == 4 && changes[0].contains(first), "{changes:?}");
        // The time that other guests take each day counts as well.
        let (kept, mut measurement) = watched(50.0, CPU, |_| 100.0);
        let metric = &mut measurement.metrics[0];
        for (point, value) in metric.series.iter_mut().zip(&metric.samples) {
            point.delivered = Some(if is_slow(point.t / 3600.0) { 0.8 * value } else { *value });
        }
        assert_told(&kept, &measurement, "time-of-day", &["14:00 (20 %"]);
    }

    #[test]
    fn a_burst_that_is_used_up_is_told_and_a_recovery_or_a_limit_that_somebody_sets_is_none() {
        let (mut kept, mut measurement) = watched(24.0, DISK, |hour| if hour < 9.0 { 3000.0 } else { 300.0 });
        let parts = ["for the first 8 h 55 min", "after 2026-11-26 18:00:00 UTC"];
        assert_told(&kept, &measurement, "burst-credit", &parts);
        let recovered = |hour: f64| if (9.0..11.0).contains(&hour) { 300.0 } else { 3000.0 };
        let of_cpu = |hour: f64| if hour < 9.0 { 100.0 } else { 30.0 };
        for (kept, measurement) in [watched(24.0, DISK, recovered), watched(24.0, CPU, of_cpu)] {
            assert!(texts(&kept, &measurement, "burst-credit").is_empty());
        }
        measurement.metrics[0].unit = Unit::IoPerSecond;
        kept.begun.run.machine.storage.as_mut().unwrap().number = "254:0".parse().ok();
        assert_told(&kept, &measurement, "burst-credit", &[]);
        let limit = IoLimit { device: "254:0".to_owned(), reads: Some(300), ..IoLimit::default() };
        kept.probes[108..].iter_mut().for_each(|probe| probe.io_limits = vec![limit.clone()]);
        let text = "the I/O limit of the control group changed between 2026-11-26 17:55:00 UTC and \
                    2026-11-26 18:00:00 UTC: none before, 300 IOPS after";
        assert_told(&kept, &measurement, "limit-changed", &[text]);
        assert!(texts(&kept, &measurement, "burst-credit").is_empty());
    }

    #[test]
    fn what_happened_around_the_probes_is_told() {
        let (mut kept, measurement) = watched(24.0, CPU, |_| 100.0);
        kept.probes[100..].iter_mut().for_each(|probe| probe.quota = Some(0.5));
        for probe in &mut kept.probes[50..100] {
            (probe.before.steal_share, probe.celsius) = (Some(0.3), Some(80.0));
        }
        kept.probes[60].slept = 7200.0;
        kept.probes[70].cases[0].ended = Some(CannotMeasure::server_failed("no answer"));
        let at = kept.probes[200].at - 10.0;
        kept.sessions.push(WatchSession { boot: "b".to_owned(), at, ..kept.sessions[0].clone() });
        let quota = "17:15:00 UTC and 2026-11-26 17:20:00 UTC: none before, 0.500 CPUs after";
        for (code, parts) in [
            ("quota-changed", &[quota][..]),
            ("stolen-over-time", &["gave 5.2 % of the CPU time to others (steal), 30 % at most"]),
            ("temperature", &["between 50.0 and 80.0 °C"]),
            ("no-figure", &["1 of 288 probes had a case that failed", "no answer"]),
            ("unwatched", &["stopped 1 time", "booted 1 time", "slept for 2 h 0 min"]),
        ] {
            assert_told(&kept, &measurement, code, parts);
        }
    }

    #[test]
    fn what_a_budget_left_out_is_counted_and_what_a_signal_cut_off_is_not() {
        let (mut kept, measurement) = watched(24.0, DISK, |_| 3000.0);
        kept.probes[5].cases.clear();
        assert!(texts(&kept, &measurement, "budget-used").is_empty());
        for probe in &mut kept.probes[100..200] {
            probe.cases.clear();
            probe.left_out = vec![measurement.case.clone()];
        }
        let text = "left out of 100 of 288 probes, because --disk-a-day";
        assert_told(&kept, &measurement, "budget-used", &[text]);
    }

    #[test]
    fn many_changes_are_counted() {
        let (kept, measurement) =
            watched(96.0, CPU, |hour| if ((hour / 6.0) as usize).is_multiple_of(2) { 100.0 } else { 80.0 });
        assert_eq!(texts(&kept, &measurement, "level-changed").len(), MOST_STEPS);
        assert_told(&kept, &measurement, "levels-changed", &["10 further changes"]);
    }
}
