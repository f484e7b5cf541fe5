//! Change points of a series: where the level of (t, value) steps, and the segments between the steps.
//!
//! Binary segmentation over seeded intervals (Kovács, Bühlmann, Li & Munk, "Seeded binary segmentation", Biometrika
//! 110, 2023) finds long shifts and short dips alike in O(n log n). A step is believed only if among 199 permutations
//! of the same points at most one shows a larger one: at most 1 % of noise does, whatever its distribution, as long as
//! it is independent. (A step so large that a bound excludes it in permutations needs none.) For noise that is not, the
//! step is first divided by the long-run deviation of autoregressive noise; its correlation is told by differences, which
//! a few steps hardly touch (Chakar, Lebarbier, Lévy-Leduc & Robin, "A robust approach for estimating change-points in
//! the mean of an AR(1) process", Bernoulli 23, 2017).

mod interval;
mod noise;
mod settle;

use std::collections::VecDeque;
use std::ops::Range;

use rand_chacha::rand_core::Rng;

use super::Seed;
use super::bootstrap::below;
use super::samples::{median, median_of_sorted};
use super::summary::mad;
use interval::{Layers, Spread};
use noise::{long_run_variance, residuals, winsorised};
use settle::settle;

/// Points that a segment has at least: fewer are outliers, not a level.
pub const MIN_SEGMENT: usize = 5;
/// Change points that are sought at most. The largest shifts are found first.
pub const MAX_CHANGES: usize = 100;
/// Points that are looked at one by one; longer series are condensed to medians of neighbours.
const MAX_POINTS: usize = 10_000;
/// The chance with which a series of noise alone is said to change.
const LEVEL: f64 = 0.01;
/// Most permutations that a step is compared with.
const MOST_PERMUTATIONS: usize = 100_000;
/// A step that a permutation shows with less than this probability needs none to be made.
const IMPOSSIBLE: f64 = 1e-6;

/// One point of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// When, in seconds.
    pub t: f64,
    /// What was measured then, in any one unit.
    pub value: f64,
}

/// A stretch of a series at one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Its points, by their places in the series.
    pub points: Range<usize>,
    /// Time of the first point, in seconds.
    pub from: f64,
    /// Time of the last point, in seconds.
    pub to: f64,
    /// Median of the values.
    pub median: f64,
    /// Median absolute deviation from it, unscaled.
    pub mad: f64,
}

/// The segments of a series in the order of its points, which is taken to be that of time: one where nothing changes,
/// none where there is no point. Points that are not finite belong to the segment that they fall into, and count for
/// nothing there. O(n log n) for each change; `seed` fixes the permutations.
pub fn segments(series: &[Timed], seed: Seed) -> Vec<Segment> {
    segments_at(series, seed, Level::of(LEVEL), &[])
}

/// The segments of many series that are looked at together: of all series that are said to change, a share of `false_share`
/// is expected to be noise at most, and where all are noise the chance that any is said to change is that (Benjamini &
/// Hochberg, "Controlling the false discovery rate", J. R. Stat. Soc. B 57, 1995; series of the same runs depend on each other as
/// Benjamini & Yekutieli, Annals of Statistics 29, 2001, allow). A step that many series share is found in fewer points
/// than one that is alone. No series is judged less strictly than by [`segments`]. At the times of `events` something outside of the
/// series is known to have changed: there a step needs no permutations to be believed, but is still beyond the noise around it.
pub fn segments_of_many(all: &[(&[Timed], Seed)], false_share: f64, events: &[f64]) -> Vec<Vec<Segment>> {
    let tested = all.iter().filter(|(series, _)| series.len() >= 2 * MIN_SEGMENT).count();
    let each = false_share / tested.max(1) as f64;
    let finest = each.min(LEVEL);
    let chance = |(series, seed): &(&[Timed], Seed)| {
        let values = scaled(&Condensed::of(series).values);
        observed(&values, &mut seed.generator(), Level::of(finest).telling()).map_or(1.0, |step| step.chance)
    };
    let chances: Vec<f64> = all.iter().map(chance).collect();
    let level = discovered(&chances, each).min(LEVEL);
    let judged = |((series, seed), chance): (&(&[Timed], Seed), &f64)| match *chance <= level {
        true => segments_at(series, *seed, Level::of(level), events),
        // Nothing is found by searching alone.
        false => segments_at(series, *seed, Level::NONE, events),
    };
    all.iter().zip(&chances).map(judged).collect()
}

/// The level at which no more than the share of noise is expected: the k-th smallest chance is at most k times what one of
/// them alone would have to be. 0 where none is.
fn discovered(chances: &[f64], each: f64) -> f64 {
    let mut sorted = chances.to_vec();
    sorted.sort_by(f64::total_cmp);
    let levels = (1..).map(|rank: u32| each * f64::from(rank));
    sorted
        .into_iter()
        .zip(levels)
        .filter(|(chance, level)| chance <= level)
        .last()
        .map_or(0.0, |(_, level)| level)
}

/// The finite values of a series, neighbours together where they are very many.
struct Condensed {
    values: Vec<f64>,
    /// The place of each in the series.
    places: Vec<usize>,
}

impl Condensed {
    fn of(series: &[Timed]) -> Self {
        let finite: Vec<usize> = (0..series.len()).filter(|&i| series[i].value.is_finite()).collect();
        let each = finite.len().div_ceil(MAX_POINTS).max(1);
        let level = |chunk: &[usize]| median(chunk.iter().map(|&i| series[i].value).collect()).unwrap_or(0.0);
        Self {
            values: finite.chunks(each).map(level).collect(),
            places: finite.iter().step_by(each).copied().collect(),
        }
    }
}

fn segments_at(series: &[Timed], seed: Seed, level: Level, events: &[f64]) -> Vec<Segment> {
    let condensed = Condensed::of(series);
    let known = events.iter().map(|event| {
        condensed.places.partition_point(|place| series.get(*place).is_some_and(|point| point.t < *event))
    });
    let found = change_points(&condensed.values, seed, level, known);
    let starts = found.into_iter().filter_map(|at| condensed.places.get(at).copied());
    let mut bounds = vec![0];
    bounds.extend(starts);
    bounds.push(series.len());
    bounds.windows(2).filter_map(|pair| segment(series, pair[0]..pair[1])).collect()
}

fn segment(series: &[Timed], points: Range<usize>) -> Option<Segment> {
    let within = series.get(points.clone())?;
    let mut sorted: Vec<f64> = within.iter().map(|p| p.value).filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (within.first()?, within.last()?);
    let median = (!sorted.is_empty()).then(|| median_of_sorted(&sorted))?;
    Some(Segment { points, from: first.t, to: last.t, median, mad: mad(&sorted, median) })
}

/// Places at which a new level begins, ascending; `known` are places where one may begin. `values` are finite.
fn change_points(values: &[f64], seed: Seed, level: Level, known: impl Iterator<Item = usize>) -> Vec<usize> {
    let scaled = scaled(values);
    let mut generator = seed.generator();
    let mut found: Vec<usize> = Vec::new();
    // Widest first, so that a bound on their number drops the least of them.
    let mut open: VecDeque<Range<usize>> =
        (level.permutations > 0).then_some(0..scaled.len()).into_iter().collect();
    while let Some(range) = open.pop_front() {
        let Some(split) = step(&scaled[range.clone()], &mut generator, level) else { continue };
        let at = range.start + split;
        found.push(at);
        if found.len() == MAX_CHANGES {
            break;
        }
        open.extend([range.start..at, at..range.end]);
    }
    for place in known {
        let is_apart = |other: usize| other.abs_diff(place) >= MIN_SEGMENT;
        if is_apart(0) && is_apart(values.len()) && found.iter().all(|other| is_apart(*other)) {
            found.push(place);
        }
    }
    found.sort_unstable();
    settle(&scaled, &mut found);
    found
}

/// The values brought to −1 … 1, so that nothing overflows.
fn scaled(values: &[f64]) -> Vec<f64> {
    let largest = values.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    values.iter().map(|x| if largest > 0.0 { x / largest } else { 0.0 }).collect()
}

/// How often a permutation of noise may show as large a step as is believed.
#[derive(Clone, Copy)]
struct Level {
    /// Permutations that a step is compared with.
    permutations: usize,
    /// How many of them may show as large a one.
    allowed: usize,
}

impl Level {
    /// No step is believed.
    const NONE: Self = Self { permutations: 0, allowed: 0 };

    /// With n permutations and one of them allowed, (1 + 1) ÷ (n + 1) of noise passes.
    fn of(share: f64) -> Self {
        let permutations = (2.0 / share).ceil().min(MOST_PERMUTATIONS as f64) as usize - 1;
        Self { permutations, allowed: 1 }
    }

    /// With the same permutations, but all chances up to [`LEVEL`] told.
    fn telling(self) -> Self {
        let allowed = (LEVEL * (self.permutations + 1) as f64).floor() as usize;
        Self { allowed: allowed.saturating_sub(1).max(1), ..self }
    }
}

/// The largest step of some values.
struct Observed {
    /// The place of the first point of the new level.
    at: usize,
    /// With which chance noise alone shows as large a one.
    chance: f64,
}

/// Where the values step, if they surely do: the place of the first point of the new level.
fn step(values: &[f64], generator: &mut impl Rng, level: Level) -> Option<usize> {
    observed(values, generator, level).map(|step| step.at)
}

/// The largest step, if no more permutations than are allowed show as large a one.
fn observed(values: &[f64], generator: &mut impl Rng, level: Level) -> Option<Observed> {
    if values.len() < 2 * MIN_SEGMENT {
        return None;
    }
    let layers = Layers::new(values.len());
    let mut held = winsorised(values);
    let largest = layers.largest(&held)?;
    let spread = Spread::of(&held);
    let observed = spread.explained(largest) / long_run_variance(values, &residuals(&held, largest.at));
    if layers.chance(&held, spread.of_explained(observed)) < IMPOSSIBLE {
        return Some(Observed { at: largest.at, chance: IMPOSSIBLE });
    }
    let mut larger = 0;
    for _ in 0..level.permutations {
        shuffle(&mut held, generator);
        // Ties count against the step.
        larger += usize::from(layers.largest(&held).is_some_and(|step| spread.explained(step) >= observed));
        if larger > level.allowed {
            return None;
        }
    }
    let chance = (larger + 1) as f64 / (level.permutations + 1) as f64;
    Some(Observed { at: largest.at, chance })
}

/// Fisher and Yates' shuffle.
fn shuffle(values: &mut [f64], generator: &mut impl Rng) {
    for last in (1..values.len()).rev() {
        values.swap(last, below(generator.next_u32(), last + 1) as usize);
    }
}

#[cfg(test)]
mod tests;
