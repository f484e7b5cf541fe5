//! Sums of slices by a range of costs.

use std::ops::Range;

use super::BINS;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::sliced) struct SliceSum {
    pub(in crate::sliced) slices: u64,
    pub(in crate::sliced) turns: f64,
    pub(in crate::sliced) seconds: f64,
    pub(in crate::sliced) cycles: f64,
    /// Seconds of slices during which the thread left its CPU.
    pub(in crate::sliced) switched: f64,
}

impl SliceSum {
    pub(super) fn add(&mut self, other: Self) {
        self.slices += other.slices;
        self.turns += other.turns;
        self.seconds += other.seconds;
        self.cycles += other.cycles;
        self.switched += other.switched;
    }

    pub(super) fn subtract(&mut self, other: Self) {
        self.slices -= other.slices;
        self.turns -= other.turns;
        self.seconds -= other.seconds;
        self.cycles -= other.cycles;
        self.switched -= other.switched;
    }
}

#[derive(Debug, Clone)]
pub(super) struct Ranges {
    /// By the first bin of the range.
    from: Vec<SliceSum>,
    to: Vec<SliceSum>,
}

impl Ranges {
    pub(super) fn new() -> Self {
        Self { from: vec![SliceSum::default(); BINS], to: vec![SliceSum::default(); BINS] }
    }

    pub(super) fn clear(&mut self) {
        self.from.fill(SliceSum::default());
        self.to.fill(SliceSum::default());
    }

    /// Adds slices whose cost is between bins `first` and `last`; clamps both to existing bins.
    pub(super) fn enter(&mut self, first: f64, last: f64, sum: SliceSum) {
        let index = |bin: f64| (bin.max(0.0) as usize).min(BINS - 1);
        self.from[index(first)].add(sum);
        self.to[index(last)].add(sum);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let ours = self.from.iter_mut().chain(&mut self.to);
        ours.zip(other.from.iter().chain(&other.to)).for_each(|(bin, more)| bin.add(*more));
    }

    pub(super) fn all(&self) -> SliceSum {
        total(&self.from)
    }

    pub(super) fn beginning_in(&self, bins: Range<usize>) -> &[SliceSum] {
        let end = bins.end.min(BINS);
        self.from.get(bins.start.min(end)..end).unwrap_or_default()
    }

    /// Sums the slices whose range of cost ends within `margin` bins of `bin`.
    pub(super) fn ending_at(&self, bin: usize, margin: usize) -> SliceSum {
        total(&self.to[bin.saturating_sub(margin)..(bin + margin + 1).min(BINS)])
    }

    /// Sums the slices whose range of cost overlaps the bins within `margin` of `bin`.
    pub(super) fn around(&self, bin: usize, margin: usize) -> SliceSum {
        let mut found = total(self.beginning_in(0..bin + margin + 1));
        found.subtract(total(&self.to[..bin.saturating_sub(margin)]));
        if found.slices > 0 { found } else { SliceSum::default() }
    }
}

pub(super) fn total(sums: &[SliceSum]) -> SliceSum {
    let mut total = SliceSum::default();
    sums.iter().for_each(|sum| total.add(*sum));
    total
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_found_as_one_by_one(
            ranges in prop::collection::vec((-50.0_f64..1200.0, 0.0_f64..60.0), 0..60), bin in 0_usize..BINS, margin in 0_usize..30,
        ) {
            let mut sums = Ranges::new();
            let mut wanted = 0;
            for (first, width) in ranges {
                let (first, last) = (first.floor(), (first + width).floor());
                sums.enter(first, last, SliceSum { slices: 1, seconds: 1e-5, ..SliceSum::default() });
                let clamped = |bin: f64| bin.clamp(0.0, (BINS - 1) as f64) as usize;
                wanted += u64::from(clamped(first) <= bin + margin && clamped(last) + margin >= bin);
            }
            let found = sums.around(bin, margin);
            prop_assert_eq!(found.slices, wanted);
            prop_assert!((found.seconds - wanted as f64 * 1e-5).abs() < 1e-12);
        }
    }
}
