//! Seeded intervals, and the largest step in them.

use super::MIN_SEGMENT;

#[derive(Debug, Clone, Copy)]
pub(super) struct LargestStep {
    pub(super) at: usize,
    /// Squared standardised difference of the means before and after.
    pub(super) squared: f64,
}

/// Layers of equal half-overlapping intervals, each half as long as the layer before.
pub(super) struct Layers {
    count: usize,
    layers: Vec<IntervalLayer>,
}

struct IntervalLayer {
    length: usize,
    /// Per split of an interval, length ÷ (before × after), which standardises squared sums.
    weights: Vec<f64>,
}

impl Layers {
    pub(super) fn new(count: usize) -> Self {
        let mut layers = Vec::new();
        let mut length = count;
        while length >= 2 * MIN_SEGMENT {
            let splits = MIN_SEGMENT..=length - MIN_SEGMENT;
            let weight = |before| length as f64 / (before as f64 * (length - before) as f64);
            layers.push(IntervalLayer { length, weights: splits.map(weight).collect() });
            length = length.div_ceil(2);
        }
        Self { count, layers }
    }

    /// Returns an upper bound of the probability that `values` in random order have a step whose
    /// square is at least `squared`, added over all splits: the mean of k of m values deviates so
    /// far with a probability of at most 2 exp(−2 squared ÷ range² × (m − k) ÷ (m − k + 1))
    /// (Serfling, Annals of Statistics 2, 1974, corollary 1.1), and m − k ≥ [`MIN_SEGMENT`].
    pub(super) fn chance(&self, values: &[f64], squared: f64) -> f64 {
        let [low, high] = [f64::min, f64::max].map(|f| values.iter().copied().reduce(f).unwrap_or(0.0));
        let range = high - low;
        let splits: usize = self.layers.iter().map(|l| l.weights.len() * self.starts(l).count()).sum();
        let others = MIN_SEGMENT as f64;
        let exponent = 2.0 * squared / (range * range) * others / (others + 1.0);
        2.0 * splits as f64 * (-exponent).exp()
    }

    fn starts(&self, layer: &IntervalLayer) -> impl Iterator<Item = usize> {
        let last = self.count - layer.length;
        (0..last).step_by(layer.length.div_ceil(2)).chain([last])
    }

    /// Returns the largest step in `values`, as many as in [`Layers::new`]; `None` if constant.
    pub(super) fn largest(&self, values: &[f64]) -> Option<LargestStep> {
        let mut sums = Vec::with_capacity(values.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        sums.extend(values.iter().map(|value| {
            sum += value;
            sum
        }));
        let mut largest = LargestStep { at: 0, squared: 0.0 };
        for layer in &self.layers {
            for start in self.starts(layer) {
                layer.search(&sums[start..=start + layer.length], start, &mut largest);
            }
        }
        (largest.squared > 0.0).then_some(largest)
    }
}

impl IntervalLayer {
    fn search(&self, sums: &[f64], start: usize, largest: &mut LargestStep) {
        let (first, last) = (sums[0], sums[self.length]);
        let slope = (last - first) / self.length as f64;
        for (index, (weight, sum)) in self.weights.iter().zip(&sums[MIN_SEGMENT..]).enumerate() {
            let before = MIN_SEGMENT + index;
            let above = sum - first - slope * before as f64;
            let squared = above * above * weight;
            if squared > largest.squared {
                *largest = LargestStep { at: start + before, squared };
            }
        }
    }
}

/// Sum of squared deviations from the mean.
#[derive(Clone, Copy)]
pub(super) struct Spread(f64);

impl Spread {
    pub(super) fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Self(values.iter().map(|x| (x - mean) * (x - mean)).sum())
    }

    /// Returns the variation that `step` explains ÷ the remaining variation: F up to a factor.
    pub(super) fn explained(self, step: LargestStep) -> f64 {
        step.squared / (self.0 - step.squared).max(0.0)
    }

    /// Returns the squared size of a step with ratio `explained`: inverse of [`Self::explained`].
    pub(super) fn of_explained(self, explained: f64) -> f64 {
        if explained.is_finite() { self.0 * explained / (1.0 + explained) } else { self.0 }
    }
}
