//! Drawing of a trend: results in order of runs, levels, and a mark at each change of level.

use std::fmt::Write as _;

use maud::{Markup, html};
use plimsoll_history::TrendPoint;
use plimsoll_units::quantity::{Quantity, percent};

use super::{TrendSeries, class, names, when};
use crate::report::trend::{LevelChange, range};

const DRAWING_WIDTH: f64 = 560.0;
const HEIGHT: f64 = 120.0;
const FREE: f64 = 8.0;
const MOST_POINTS: usize = 120;
const GROUPS: usize = 200;
/// Least range of the y axis, relative to the values, so that small noise does not fill it.
const LEAST_SCALE: f64 = 0.02;

struct PlotScale {
    count: usize,
    low: f64,
    high: f64,
}

impl PlotScale {
    fn of(values: &[f64]) -> Self {
        let (low, high) = range(values.iter().copied());
        let middle = low / 2.0 + high / 2.0;
        let half = (high / 2.0 - low / 2.0).max(middle.abs() * LEAST_SCALE / 2.0);
        let half = if half > 0.0 { half } else { 1.0 };
        Self { count: values.len(), low: middle - half, high: middle + half }
    }

    fn x(&self, index: f64) -> f64 {
        let last = self.count.saturating_sub(1).max(1) as f64;
        FREE + index / last * (DRAWING_WIDTH - 2.0 * FREE)
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        HEIGHT - FREE - share * (HEIGHT - 2.0 * FREE)
    }
}

pub(super) fn plot(series: &TrendSeries, changes: &[LevelChange<'_>]) -> Markup {
    let points = &series.trend.points;
    let values: Vec<f64> = points.iter().map(|point| point.median).collect();
    let scale = PlotScale::of(&values);
    let is_marked = |at: usize| at + 1 == points.len() || changes.iter().any(|change| change.at == at);
    let is_shown = |(at, _): &(usize, &TrendPoint)| points.len() <= MOST_POINTS || is_marked(*at);
    let last = points.last().map(|point| describe(point, series)).unwrap_or_default();
    html! {
        svg.plot viewBox=(format!("0 0 {DRAWING_WIDTH} {HEIGHT}")) role="img"
            aria-label=(format!("{} runs, {} changes of level, last {last}", points.len(), changes.len())) {
            @for change in changes {
                @let x = format!("{:.1}", scale.x(change.at as f64 - 0.5));
                line.mark.(class(series, change)) x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
            }
            path.line d=(line(&values, &scale)) {}
            @if !changes.is_empty() {
                @for level in &series.levels {
                    @let ends = [level.points.start as f64, level.points.end.saturating_sub(1) as f64].map(|x| scale.x(x));
                    path.level d=(format!("M{:.1} {:.1}H{:.1}", ends[0], scale.y(level.median), ends[1])) {}
                }
            }
            @for (index, point) in points.iter().enumerate().filter(is_shown) {
                a href=(format!("../{}", names::run(&point.run.id))) {
                    circle.point cx=(format!("{:.1}", scale.x(index as f64))) cy=(format!("{:.1}", scale.y(point.median))) r="3" {
                        title { (when(&point.run.started)) ": " (describe(point, series)) }
                    }
                }
            }
        }
    }
}

fn describe(point: &TrendPoint, series: &TrendSeries) -> String {
    let share = point.of_limit.map(|share| format!(", {} of limit", percent(share, 3))).unwrap_or_default();
    format!("{}{share}", Quantity::new(point.median, series.trend.unit))
}

/// Builds an SVG path through the values; if over 400, through minimum and maximum per group.
fn line(values: &[f64], scale: &PlotScale) -> String {
    let mut path = String::new();
    let all: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    let size = if all.len() <= 2 * GROUPS { 1 } else { all.len().div_ceil(GROUPS) };
    for group in all.chunks(size) {
        let by_value = |a: &&(usize, f64), b: &&(usize, f64)| a.1.total_cmp(&b.1);
        let mut ends: Vec<&(usize, f64)> =
            [group.iter().min_by(by_value), group.iter().max_by(by_value)].into_iter().flatten().collect();
        ends.sort_unstable_by_key(|(index, _)| *index);
        ends.dedup_by_key(|(index, _)| *index);
        for (index, value) in ends {
            let lead = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{lead}{:.1} {:.1}", scale.x(*index as f64), scale.y(*value));
        }
    }
    path
}
