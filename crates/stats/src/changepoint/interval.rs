//! Seeded intervals, and the largest step within them.

use super::MIN_SEGMENT;

/// The largest step among the seeded intervals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Place of the first point of the new level.
    pub(super) at: usize,
    /// Square of the standardised difference of the means before and after.
    pub(super) squared: f64,
}

/// The seeded intervals: layers of equal intervals that overlap by half, each layer half as long as the one before.
pub(super) struct Layers {
    count: usize,
    layers: Vec<Layer>,
}

struct Layer {
    length: usize,
    /// For each split of an interval, length ÷ (before × after): squared sums times this are squared differences of
    /// means over their variance.
    weights: Vec<f64>,
}

impl Layers {
    pub(super) fn new(count: usize) -> Self {
        let mut layers = Vec::new();
        let mut length = count;
        while length >= 2 * MIN_SEGMENT {
            let splits = MIN_SEGMENT..=length - MIN_SEGMENT;
            let weight = |before| length as f64 / (before as f64 * (length - before) as f64);
            layers.push(Layer { length, weights: splits.map(weight).collect() });
            length = length.div_ceil(2);
        }
        Self { count, layers }
    }

    /// A bound on the probability that `values` in random order show a step whose square is `squared` or larger. Each split
    /// parts a sample of k values, drawn without replacement, from m − k others of its interval; that its mean is so far off
    /// has a probability of 2 exp(−2 squared ÷ range² × (m − k) ÷ (m − k + 1)) at most (Serfling, "Probability inequalities
    /// for the sum in sampling without replacement", Annals of Statistics 2, 1974, corollary 1.1). For the smaller part
    /// m − k is at least [`MIN_SEGMENT`]. The bounds of all splits add up.
    pub(super) fn chance(&self, values: &[f64], squared: f64) -> f64 {
        let [low, high] = [f64::min, f64::max].map(|f| values.iter().copied().reduce(f).unwrap_or(0.0));
        let range = high - low;
        let splits: usize = self.layers.iter().map(|l| l.weights.len() * self.starts(l).count()).sum();
        let others = MIN_SEGMENT as f64;
        let exponent = 2.0 * squared / (range * range) * others / (others + 1.0);
        2.0 * splits as f64 * (-exponent).exp()
    }

    /// Where the intervals of a layer begin.
    fn starts(&self, layer: &Layer) -> impl Iterator<Item = usize> {
        let last = self.count - layer.length;
        (0..last).step_by(layer.length.div_ceil(2)).chain([last])
    }

    /// The largest step of `values`, of which there are as many as the layers were made for; none where nothing steps.
    pub(super) fn largest(&self, values: &[f64]) -> Option<Step> {
        let mut sums = Vec::with_capacity(values.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        sums.extend(values.iter().map(|value| {
            sum += value;
            sum
        }));
        let mut largest = Step { at: 0, squared: 0.0 };
        for layer in &self.layers {
            for start in self.starts(layer) {
                layer.search(&sums[start..=start + layer.length], start, &mut largest);
            }
        }
        (largest.squared > 0.0).then_some(largest)
    }
}

impl Layer {
    /// Replaces `largest` by a larger step within the interval from `start`, whose running sums are given.
    fn search(&self, sums: &[f64], start: usize, largest: &mut Step) {
        let (first, last) = (sums[0], sums[self.length]);
        let slope = (last - first) / self.length as f64;
        for (index, (weight, sum)) in self.weights.iter().zip(&sums[MIN_SEGMENT..]).enumerate() {
            let before = MIN_SEGMENT + index;
            let above = sum - first - slope * before as f64;
            let squared = above * above * weight;
            if squared > largest.squared {
                *largest = Step { at: start + before, squared };
            }
        }
    }
}

/// Sum of the squared deviations from the mean.
#[derive(Clone, Copy)]
pub(super) struct Spread(f64);

impl Spread {
    pub(super) fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Self(values.iter().map(|x| (x - mean) * (x - mean)).sum())
    }

    /// What a step explains ÷ what it leaves: the F statistic but for a factor. Unlike the square alone it has no upper
    /// bound, so a clear step among few points stays clear when it is divided.
    pub(super) fn explained(self, step: Step) -> f64 {
        step.squared / (self.0 - step.squared).max(0.0)
    }

    /// The square of a step that explains so much; all there is where that is infinite.
    pub(super) fn of_explained(self, explained: f64) -> f64 {
        if explained.is_finite() { self.0 * explained / (1.0 + explained) } else { self.0 }
    }
}
