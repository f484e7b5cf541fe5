//! Hours of a watch: the worst one, and hours that are worse on every day.

use jiff::Timestamp;

use plimsoll_model::metric::Better;
use plimsoll_stats::TimedPoint;

const HOUR: f64 = 3600.0;
const MIN_PROBES_PER_HOUR: usize = 3;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hour {
    pub(crate) from: Timestamp,
    pub(crate) median: f64,
    pub(crate) probes: usize,
}

impl Hour {
    /// Formats the hour as `2026-11-26 14:00 to 15:00 UTC`.
    pub(crate) fn name(&self) -> String {
        let (from, to) = (self.from, after(self.from, HOUR));
        format!("{} to {}", from.strftime("%Y-%m-%d %H:%M"), to.strftime("%H:%M UTC"))
    }
}

pub(crate) fn after(from: Timestamp, seconds: f64) -> Timestamp {
    let nanos = (seconds * 1e9).clamp(-9e18, 9e18) as i64;
    from.checked_add(jiff::SignedDuration::from_nanos(nanos)).unwrap_or(Timestamp::MAX)
}

fn number_of_hour(time: Timestamp) -> i64 {
    time.as_second().div_euclid(3600)
}

/// Returns clock hours (UTC) with 3 or more probes, in order; `series` is in seconds since `begun`.
pub(crate) fn hours(series: &[TimedPoint], begun: Timestamp) -> Vec<Hour> {
    let number = |point: &TimedPoint| number_of_hour(after(begun, point.t));
    let hour = |points: &[TimedPoint]| {
        let from = Timestamp::from_second(number(points.first()?) * 3600).ok()?;
        let values = points.iter().map(|point| point.value).collect();
        let median = plimsoll_model::limit::median(values).filter(|_| points.len() >= MIN_PROBES_PER_HOUR)?;
        Some(Hour { from, median, probes: points.len() })
    };
    series.chunk_by(|a, b| number(a) == number(b)).filter_map(hour).collect()
}

/// Returns by which share of `than` `value` is worse than it; negative if it is better.
pub(crate) fn worse(value: f64, than: f64, better: Better) -> f64 {
    match better {
        Better::Higher => 1.0 - value / than,
        Better::Lower => value / than - 1.0,
    }
}

/// Returns the hour with the worst median; `None` if there are fewer than two hours.
pub(crate) fn worst(hours: &[Hour], better: Better) -> Option<&Hour> {
    let by = |hour: &&Hour| worse(hour.median, 1.0, better);
    hours.iter().max_by(|a, b| by(a).total_cmp(&by(b))).filter(|_| hours.len() > 1)
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Daily {
    pub(crate) hour: i64,
    /// Number of days on which it was measured, and was worse.
    pub(crate) days: usize,
    /// Smallest loss among the days, as a share.
    pub(crate) least: f64,
}

/// Returns the hours of the day (UTC) that were worse than `usual` by at least the share `notable`
/// on every day on which they have probes, if these are at least `days` days.
pub(crate) fn daily(hours: &[Hour], usual: f64, better: Better, notable: f64, days: usize) -> Vec<Daily> {
    let of = |hour: i64| {
        let of_day = hours.iter().filter(|one| number_of_hour(one.from).rem_euclid(24) == hour);
        let losses: Vec<f64> = of_day.map(|one| worse(one.median, usual, better)).collect();
        let least = losses.iter().copied().reduce(f64::min)?;
        (losses.len() >= days && least >= notable).then_some(Daily { hour, days: losses.len(), least })
    };
    (0..24).filter_map(of).collect()
}
