//! Change points of a series of (t, value), and the segments between them: binary segmentation over
//! seeded intervals (Kovács, Bühlmann, Li & Munk, "Seeded binary segmentation", Biometrika 110,
//! 2023) in O(n log n). A step is accepted if at most one of 199 permutations shows a larger one:
//! at most 1 % of independent noise. For correlated noise it is first divided by the long-run
//! deviation (Chakar, Lebarbier, Lévy-Leduc & Robin, "A robust approach for estimating
//! change-points in the mean of an AR(1) process", Bernoulli 23, 2017).

mod interval;
mod noise;
mod settle;

use std::collections::VecDeque;
use std::ops::Range;

use chacha20::rand_core::Rng;

use super::Seed;
use super::bootstrap::below;
use super::samples::{ascending, median, median_of_sorted};
use super::summary::mad;
use interval::{Layers, Spread};
use noise::{residuals, variance_inflation, winsorised};
use settle::settle;

/// Minimum number of points per segment: fewer are outliers.
pub const MIN_SEGMENT: usize = 5;
/// Maximum number of change points; the largest are found first.
pub const MAX_CHANGES: usize = 100;
/// Maximum number of points; longer series are reduced to medians of neighbours.
const MAX_POINTS: usize = 10_000;
/// Probability of a change point in noise alone.
const LEVEL: f64 = 0.01;
/// Maximum number of permutations per step.
const MOST_PERMUTATIONS: usize = 100_000;
/// A step less probable than this in a permutation is accepted without permutations.
const IMPOSSIBLE: f64 = 1e-6;

/// A point of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedPoint {
    /// Time in seconds.
    pub t: f64,
    /// Value in any unit.
    pub value: f64,
}

/// Consecutive points of a series at one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Indices of the points in the series.
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

/// Splits a chronological series into segments, each at one level: one if nothing changes, none
/// without finite values. `seed` determines the permutations.
pub fn segments(series: &[TimedPoint], seed: Seed) -> Vec<Segment> {
    segments_at(series, seed, StepLevel::of(LEVEL), &[])
}

/// Splits each of the chronological series in `all`; at most a share `false_share` of the series
/// with a change is expected to be noise (Benjamini & Hochberg, J. R. Stat. Soc. B 57, 1995). A
/// step at one of `events`, times in seconds, needs only to exceed the noise around it.
pub fn segments_of_many(
    all: &[(&[TimedPoint], Seed)],
    false_share: f64,
    events: &[f64],
) -> Vec<Vec<Segment>> {
    let tested = all.iter().filter(|(series, _)| series.len() >= 2 * MIN_SEGMENT).count();
    let each = false_share / tested.max(1) as f64;
    let finest = each.min(LEVEL);
    let chance = |(series, seed): &(&[TimedPoint], Seed)| {
        let values = scaled(&condensed(series).0);
        let mut level = StepLevel::of(finest);
        // Equal permutations, but steps with p-values up to LEVEL are accepted.
        let allowed = (LEVEL * (level.permutations + 1) as f64).floor() as usize;
        level.allowed = allowed.saturating_sub(1).max(1);
        significant_step(&values, &mut seed.generator(), level).map_or(1.0, |(_, chance)| chance)
    };
    let chances: Vec<f64> = all.iter().map(chance).collect();
    let level = fdr_level(&chances, each).min(LEVEL);
    let judged = |((series, seed), chance): (&(&[TimedPoint], Seed), &f64)| {
        let level = if *chance <= level { StepLevel::of(level) } else { StepLevel::NO_STEP };
        segments_at(series, *seed, level, events)
    };
    all.iter().zip(&chances).map(judged).collect()
}

/// Returns the highest k × `each` not below the k-th smallest p-value in `chances`; 0 if none.
fn fdr_level(chances: &[f64], each: f64) -> f64 {
    let sorted = ascending(chances.to_vec());
    let levels = (1..).map(|rank: u32| each * f64::from(rank));
    sorted.into_iter().zip(levels).filter(|(chance, level)| chance <= level).last().map_or(0.0, |last| last.1)
}

/// Returns medians of equally many finite values each, and the first place of each in `series`.
fn condensed(series: &[TimedPoint]) -> (Vec<f64>, Vec<usize>) {
    let finite: Vec<usize> = (0..series.len()).filter(|&i| series[i].value.is_finite()).collect();
    let each = finite.len().div_ceil(MAX_POINTS).max(1);
    let level = |chunk: &[usize]| median(chunk.iter().map(|&i| series[i].value).collect()).unwrap_or(0.0);
    (finite.chunks(each).map(level).collect(), finite.iter().step_by(each).copied().collect())
}

fn segments_at(series: &[TimedPoint], seed: Seed, level: StepLevel, events: &[f64]) -> Vec<Segment> {
    let (values, places) = condensed(series);
    let known = events.iter().map(|event| {
        places.partition_point(|place| series.get(*place).is_some_and(|point| point.t < *event))
    });
    let found = change_points(&values, seed, level, known);
    let starts = found.into_iter().filter_map(|at| places.get(at).copied());
    let bounds: Vec<usize> = [0].into_iter().chain(starts).chain([series.len()]).collect();
    bounds.windows(2).filter_map(|pair| segment(series, pair[0]..pair[1])).collect()
}

fn segment(series: &[TimedPoint], points: Range<usize>) -> Option<Segment> {
    let within = series.get(points.clone())?;
    let sorted = ascending(within.iter().map(|p| p.value).filter(|v| v.is_finite()).collect());
    let (first, last) = (within.first()?, within.last()?);
    let median = (!sorted.is_empty()).then(|| median_of_sorted(&sorted))?;
    Some(Segment { points, from: first.t, to: last.t, median, mad: mad(&sorted, median) })
}

/// Returns the ascending indices in `values` at which the mean changes. Candidates are steps that
/// are significant at `level` in permutations by `seed`, and the indices `known`, which need no
/// test. Those that exceed the noise around them remain, moved to the best fit.
fn change_points(
    values: &[f64],
    seed: Seed,
    level: StepLevel,
    known: impl Iterator<Item = usize>,
) -> Vec<usize> {
    let scaled = scaled(values);
    let mut generator = seed.generator();
    let mut found: Vec<usize> = Vec::new();
    // Widest first, so that a limit on their number drops the smallest.
    let mut open: VecDeque<Range<usize>> =
        (level.permutations > 0).then_some(0..scaled.len()).into_iter().collect();
    while let Some(range) = open.pop_front() {
        let found_step = significant_step(&scaled[range.clone()], &mut generator, level);
        let Some((split, _)) = found_step else { continue };
        let at = range.start + split;
        found.push(at);
        if found.len() == MAX_CHANGES {
            break;
        }
        open.extend([range.start..at, at..range.end]);
    }
    for place in known {
        let is_separate = |other: usize| other.abs_diff(place) >= MIN_SEGMENT;
        if is_separate(0) && is_separate(values.len()) && found.iter().all(|other| is_separate(*other)) {
            found.push(place);
        }
    }
    found.sort_unstable();
    settle(&scaled, &mut found);
    found
}

fn scaled(values: &[f64]) -> Vec<f64> {
    let largest = values.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    values.iter().map(|x| if largest > 0.0 { x / largest } else { 0.0 }).collect()
}

#[derive(Clone, Copy)]
struct StepLevel {
    permutations: usize,
    allowed: usize,
}

impl StepLevel {
    const NO_STEP: Self = Self { permutations: 0, allowed: 0 };

    /// Creates the test in which noise alone shows a step with probability `share`, by n
    /// permutations: `share` = 2 ÷ (n + 1), with n below [`MOST_PERMUTATIONS`].
    fn of(share: f64) -> Self {
        let permutations = (2.0 / share).ceil().min(MOST_PERMUTATIONS as f64) as usize - 1;
        Self { permutations, allowed: 1 }
    }
}

/// Returns the index of the largest step in `values`, and its p-value: the probability that noise
/// alone shows a step as large. `None` if that is not significant at `level`, or for fewer than 2 ×
/// [`MIN_SEGMENT`] values.
fn significant_step(values: &[f64], generator: &mut impl Rng, level: StepLevel) -> Option<(usize, f64)> {
    if values.len() < 2 * MIN_SEGMENT {
        return None;
    }
    let layers = Layers::new(values.len());
    let mut held = winsorised(values);
    let largest = layers.largest(&held)?;
    let spread = Spread::of(&held);
    let observed = spread.explained(largest) / variance_inflation(values, &residuals(&held, largest.at));
    if layers.chance(&held, spread.of_explained(observed)) < IMPOSSIBLE {
        return Some((largest.at, IMPOSSIBLE));
    }
    let mut larger = 0;
    for _ in 0..level.permutations {
        shuffle(&mut held, generator);
        larger += usize::from(layers.largest(&held).is_some_and(|step| spread.explained(step) >= observed));
        if larger > level.allowed {
            return None;
        }
    }
    Some((largest.at, (larger + 1) as f64 / (level.permutations + 1) as f64))
}

fn shuffle(values: &mut [f64], generator: &mut impl Rng) {
    for last in (1..values.len()).rev() {
        values.swap(last, below(generator.next_u32(), last + 1) as usize);
    }
}

#[cfg(test)]
mod tests;
