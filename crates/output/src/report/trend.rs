//! Results over time: a line with a sparkline per case and machine, and changes of level below it.

use plimsoll_bench::Better;
use plimsoll_history::{MetricTrend, RunStart};
use plimsoll_model::case::Case;
use plimsoll_stats::{MIN_SEGMENT, Seed, Segment, TimedPoint, segments};
use plimsoll_units::quantity::{Quantity, percent};
use plimsoll_units::text::format_count;
use unicode_width::UnicodeWidthStr;

use super::history::short_id;
use super::style::{Style, TextRole};
use super::terminal::when;
use super::wrap::{cut, paragraph};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const ASCII_BARS: [char; 8] = ['_', '.', ',', '-', '=', '+', '*', '#'];

const MOST_BARS: usize = 24;

const MIN_LEVEL_DIFFERENCE: f64 = 0.01;

/// Formats metrics over time by machine: latest value, range, sparkline, changes of level below.
pub fn text(trends: &[MetricTrend], style: &Style) -> String {
    if trends.is_empty() {
        return "no stored run has such a figure; 'plimsoll history' lists the runs\n".to_owned();
    }
    let mut text = String::new();
    for of_one in trends.chunk_by(|a, b| (&a.machine, &a.host) == (&b.machine, &b.host)) {
        let MetricTrend { machine, host, .. } = &of_one[0];
        let describe = format!("{} ({machine})", host.as_deref().unwrap_or("machine"));
        let describe = cut(&style.styled(&describe), style.width);
        text += &format!("{}\n", style.paint(TextRole::Strong, &describe));
        text.extend(of_one.iter().map(|trend| line(trend, style)));
    }
    text
}

fn line(trend: &MetricTrend, style: &Style) -> String {
    let Some(last) = trend.points.last() else { return String::new() };
    let values: Vec<f64> = trend.points.iter().map(|p| p.median).collect();
    let (low, high) = range(values.iter().copied());
    let human = |value: f64| Quantity::new(value, trend.unit).to_string();
    let range = format!(", {} … {}", human(low), human(high));
    let range = if values.len() > 1 { &range } else { "" };
    let share = last.of_limit.map(|s| format!(", {} of limit", percent(s, 3))).unwrap_or_default();
    let head = format!("  {} {}", trend.case, trend.metric);
    let figures = format!("{}{share} ({}{range})", human(last.median), format_count(values.len(), "run"));
    let spark = sparkline(&values, style);
    let mut text = format!("{}\n", cut(&style.styled(&head), style.width));
    let room = style.width.saturating_sub(4 + spark.width() + 2).max(1);
    let figures = cut(&style.styled(&figures), room);
    text += &format!("    {}  {figures}\n", style.paint(TextRole::Dim, &spark));
    for change in changes(trend) {
        let (run, when) = (short_id(&change.since.id), when(&change.since.started, style));
        let role = match change.is_good(trend) {
            None => TextRole::Plain,
            Some(true) => TextRole::Good,
            Some(false) => TextRole::Bad,
        };
        let says = format!("since {when} (run {run}): {}", change.figures(trend));
        text += &paragraph(style, role, "    ", &says);
    }
    text
}

/// Returns the lowest and the highest value; (`f64::MAX`, `f64::MIN`) without values.
pub(super) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
}

/// Draws values as bars, `▁▃█`, from minimum to maximum; more than 24 are averaged in groups.
pub(super) fn sparkline(values: &[f64], style: &Style) -> String {
    let bars = if style.unicode { BARS } else { ASCII_BARS };
    let most = MOST_BARS.min(style.width / 3).max(1);
    let group = values.len().div_ceil(most).max(1);
    let means: Vec<f64> = values.chunks(group).map(|c| c.iter().sum::<f64>() / c.len() as f64).collect();
    let (low, high) = range(means.iter().copied());
    let bar = |value: &f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.5 };
        bars[((share * 7.0).round() as usize).min(7)]
    };
    means.iter().map(bar).collect()
}

pub(super) struct LevelChange<'a> {
    pub(super) since: &'a RunStart,
    pub(super) at: usize,
    before: f64,
    after: f64,
}

fn changes(trend: &MetricTrend) -> Vec<LevelChange<'_>> {
    if trend.points.len() < 2 * MIN_SEGMENT {
        return Vec::new();
    }
    between(trend, &segments(&timed(trend), Seed::new(1, &trend.case, &trend.metric)))
}

/// Returns the trend's values with the index of the run as time, because clocks can be set back.
pub(super) fn timed(trend: &MetricTrend) -> Vec<TimedPoint> {
    let points = trend.points.iter().enumerate();
    points.map(|(n, point)| TimedPoint { t: n as f64, value: point.median }).collect()
}

/// Returns the changes of at least 1 % between the `levels` (successive parts of `trend.points`).
pub(super) fn between<'a>(trend: &'a MetricTrend, levels: &[Segment]) -> Vec<LevelChange<'a>> {
    let change = |pair: &[Segment]| {
        let at = pair[1].points.start;
        let since = &trend.points.get(at)?.run;
        Some(LevelChange { since, at, before: pair[0].median, after: pair[1].median })
    };
    let found = levels.windows(2).filter_map(change);
    found.filter(|c| (c.after / c.before - 1.0).abs() >= MIN_LEVEL_DIFFERENCE).collect()
}

impl LevelChange<'_> {
    /// Formats the values before and after the change, and the change: `20 GB/s → 18 GB/s, −10 %`.
    /// `of` is the trend with the change.
    pub(super) fn figures(&self, of: &MetricTrend) -> String {
        let ratio = self.after / self.before - 1.0;
        let sign = if ratio > 0.0 { "+" } else { "−" };
        let human = |value: f64| Quantity::new(value, of.unit).to_string();
        format!("{} → {}, {sign}{}", human(self.before), human(self.after), percent(ratio.abs(), 2))
    }

    /// Returns whether the change is an improvement of the metric of the trend `of`; `None` for
    /// metrics that are never judged.
    pub(super) fn is_good(&self, of: &MetricTrend) -> Option<bool> {
        let reported =
            of.case.parse().is_ok_and(|case: Case| plimsoll_bench::is_informative(&case, &of.metric));
        (!reported).then_some((self.after > self.before) == (of.better == Better::Higher))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::html::site;
    use crate::report::html::site::tests::stepped;

    fn trend(values: &[f64]) -> MetricTrend {
        let host = Some("bench-1".to_owned());
        MetricTrend { host, ..site::tests::trend("bandwidth", values) }
    }

    #[test]
    fn a_step_is_told_with_its_run() {
        insta::assert_snapshot!(text(&[trend(&stepped())], &Style::plain(80)));
        let ascii = text(&[trend(&stepped())], &Style { unicode: false, ..Style::plain(80) });
        assert!(ascii.is_ascii(), "{ascii}");
    }

    #[test]
    fn few_runs_show_no_change() {
        let few = text(&[trend(&stepped()[10..17])], &Style::plain(80));
        assert!(!few.contains("since"), "{few}");
        assert!(text(&[], &Style::plain(80)).contains("no stored run"));
        assert!(text(&[trend(&stepped()[..1])], &Style::plain(80)).contains("(1 run)"));
    }

    #[test]
    fn the_line_rises_with_the_values() {
        let style = Style::plain(80);
        assert_eq!(sparkline(&[1.0, 2.0, 3.0], &style), "▁▅█");
        assert_eq!(sparkline(&[2.0, 2.0], &style).chars().count(), 2);
        assert_eq!(sparkline(&vec![1.0; 1000], &style).chars().count(), 24);
        assert_eq!(sparkline(&[], &style), "");
        assert_eq!(sparkline(&[1.0; 15], &Style::plain(20)).chars().count(), 5);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_figures_stay_in_their_lines(
            values in prop::collection::vec(1e-9f64..1e12, 1..20), host in "\\p{Any}{0,60}", width in 20usize..140,
        ) {
            let trend = MetricTrend { host: Some(host), ..trend(&values) };
            let text = text(&[trend], &Style::plain(width));
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
            prop_assert!(text.lines().all(|l| l.width() <= width), "{}", text);
        }
    }
}
