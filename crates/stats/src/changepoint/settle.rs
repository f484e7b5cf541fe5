//! Moves each change point to the best fit between its neighbours, and drops those that are faint
//! relative to the noise on both sides (Welch, "The generalization of Student's problem when
//! several different population variances are involved", Biometrika 34, 1947).

use super::MIN_SEGMENT;
use super::noise::{inflation_of, variance_of_long_means};
use crate::samples::median;

/// Points on each side that give its noise, from the next segments if the own one has fewer.
const SURROUNDINGS: usize = 50;
/// Minimum size of a step above the largest expected deviation of normal points, in deviations.
const MIN_EXCESS_DEVIATION: f64 = 1.0;

pub(super) fn settle(values: &[f64], changes: &mut Vec<usize>) {
    relocate(values, changes);
    while let Some(index) = insignificant_change(values, changes) {
        changes.remove(index);
        relocate(values, changes);
    }
}

/// Moves each change (an index in `values`) between its neighbours to the split with the smallest
/// sum of distances to the medians of both sides.
fn relocate(values: &[f64], changes: &mut [usize]) {
    for index in 0..changes.len() {
        let from = index.checked_sub(1).map_or(0, |before| changes[before]);
        let to = changes.get(index + 1).copied().unwrap_or(values.len());
        let (before, after) = values[from..to].split_at(changes[index] - from);
        let medians = [median_of(before), median_of(after)];
        if let Some(at) = boundary(&values[from..to], medians) {
            changes[index] = from + at;
        }
    }
}

/// Returns the index that splits `values` with the smallest sum of distances to the medians
/// `before` and `after`; `None` if there are too few values for two segments.
fn boundary(values: &[f64], [before, after]: [f64; 2]) -> Option<usize> {
    let mut sum = 0.0;
    let sums = values.iter().map(|x| {
        sum += (x - before).abs() - (x - after).abs();
        sum
    });
    let splits = sums.enumerate().map(|(index, sum)| (index + 1, sum));
    let allowed =
        splits.filter(|(at, _)| (MIN_SEGMENT..=values.len().saturating_sub(MIN_SEGMENT)).contains(at));
    allowed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

/// Returns the index in `changes` of the smallest change if it is not significant: below √(2 ln n)
/// + 1 standard deviations of the noise, for n `values`. `None` if all are, or if there are none.
fn insignificant_change(values: &[f64], changes: &[usize]) -> Option<usize> {
    let least = (2.0 * (values.len() as f64).ln()).sqrt() + MIN_EXCESS_DEVIATION;
    let levels = Levels::new(values, changes);
    let sizes = changes.iter().enumerate().map(|(index, _)| (index, levels.deviations(index)));
    let (index, size) = sizes.min_by(|a, b| a.1.total_cmp(&b.1))?;
    (size < least).then_some(index)
}

struct Levels {
    bounds: Vec<usize>,
    medians: Vec<f64>,
    residuals: Vec<f64>,
    inflation: f64,
}

impl Levels {
    fn new(values: &[f64], changes: &[usize]) -> Self {
        let bounds = [&[0], changes, &[values.len()]].concat();
        let segments = || bounds.windows(2).map(|pair| &values[pair[0]..pair[1]]);
        let medians: Vec<f64> = segments().map(median_of).collect();
        let off =
            segments().zip(&medians).flat_map(|(segment, median)| segment.iter().map(move |x| x - median));
        let residuals: Vec<f64> = off.collect();
        Self { inflation: inflation_of(&residuals), residuals, medians, bounds }
    }

    /// Returns the size of change number `change` in standard deviations of the noise around it.
    fn deviations(&self, change: usize) -> f64 {
        let (from, at, to) = (self.bounds[change], self.bounds[change + 1], self.bounds[change + 2]);
        let before = &self.residuals[from.min(at.saturating_sub(SURROUNDINGS))..at];
        let after = &self.residuals[at..to.max((at + SURROUNDINGS).min(self.residuals.len()))];
        // Too few points for their own correlation have that of all.
        let noise = |points: &[f64]| match points.len() < SURROUNDINGS {
            true => variance_of_long_means(points, self.inflation),
            false => variance_of_long_means(points, inflation_of(points)),
        };
        let (mut noise_before, mut noise_after) = (noise(before), noise(after));
        // A few points at an end of the series have at least the noise of the other side.
        if before.len() < SURROUNDINGS {
            noise_before = noise_before.max(noise_after);
        }
        if after.len() < SURROUNDINGS {
            noise_after = noise_after.max(noise_before);
        }
        let variance = noise_before / (at - from) as f64 + noise_after / (to - at) as f64;
        let size = (self.medians[change + 1] - self.medians[change]).abs();
        if size > 0.0 { size / variance.sqrt() } else { 0.0 }
    }
}

fn median_of(values: &[f64]) -> f64 {
    median(values.to_vec()).unwrap_or(0.0)
}
