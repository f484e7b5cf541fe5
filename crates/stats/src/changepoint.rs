//! Change points of a series: where the level of (t, value) steps, and the segments between the steps.
//!
//! Binary segmentation over seeded intervals (Kovács, Bühlmann, Li & Munk, "Seeded binary segmentation", Biometrika
//! 110, 2023) finds long shifts and short dips alike in O(n log n). A step is believed only if among 199 permutations
//! of the same points at most one shows a larger one: at most 1 % of noise does, whatever its distribution, as long as
//! it is independent. (A step so large that a bound excludes it in permutations needs none.) For noise that is not, the step is first divided by the long-run deviation of autoregressive
//! noise; its correlation is told by differences, which a few steps hardly touch (Chakar, Lebarbier, Lévy-Leduc &
//! Robin, "A robust approach for estimating change-points in the mean of an AR(1) process", Bernoulli 23, 2017).

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
const LONGEST: usize = 10_000;
/// Permutations that a step is compared with, and how many of them may show as large a one: (1 + 1) ÷ (199 + 1) = 1 %.
const PERMUTATIONS: usize = 199;
const ALLOWED: usize = 1;
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
    let finite: Vec<usize> = (0..series.len()).filter(|&i| series[i].value.is_finite()).collect();
    let values: Vec<f64> = finite.iter().map(|&i| series[i].value).collect();
    let each = values.len().div_ceil(LONGEST).max(1);
    let condensed: Vec<f64> =
        values.chunks(each).map(|chunk| median(chunk.to_vec()).unwrap_or(0.0)).collect();
    let starts = change_points(&condensed, seed).into_iter().filter_map(|at| finite.get(at * each).copied());
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

/// Places at which a new level begins, ascending. `values` are finite.
fn change_points(values: &[f64], seed: Seed) -> Vec<usize> {
    let scaled = scaled(values);
    let mut generator = seed.generator();
    let mut found: Vec<usize> = Vec::new();
    // Widest first, so that a bound on their number drops the least of them.
    let mut open: VecDeque<Range<usize>> = std::iter::once(0..scaled.len()).collect();
    while let Some(range) = open.pop_front() {
        let Some(split) = step(&scaled[range.clone()], &mut generator) else { continue };
        let at = range.start + split;
        found.push(at);
        if found.len() == MAX_CHANGES {
            break;
        }
        open.extend([range.start..at, at..range.end]);
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

/// Where the values step, if they surely do: the place of the first point of the new level.
fn step(values: &[f64], generator: &mut impl Rng) -> Option<usize> {
    if values.len() < 2 * MIN_SEGMENT {
        return None;
    }
    let layers = Layers::new(values.len());
    let mut held = winsorised(values);
    let largest = layers.largest(&held)?;
    let spread = Spread::of(&held);
    let observed = spread.explained(largest) / long_run_variance(values, &residuals(&held, largest.at));
    if layers.chance(&held, spread.of_explained(observed)) < IMPOSSIBLE {
        return Some(largest.at);
    }
    let mut larger = 0;
    for _ in 0..PERMUTATIONS {
        shuffle(&mut held, generator);
        // Ties count against the step.
        larger += usize::from(layers.largest(&held).is_some_and(|step| spread.explained(step) >= observed));
        if larger > ALLOWED {
            return None;
        }
    }
    Some(largest.at)
}

/// Fisher and Yates' shuffle.
fn shuffle(values: &mut [f64], generator: &mut impl Rng) {
    for last in (1..values.len()).rev() {
        values.swap(last, below(generator.next_u32(), last + 1) as usize);
    }
}

#[cfg(test)]
mod tests;
