//! Decides which slices are kept and sums them, in constant memory.
//!
//! Slices are sorted by cost (cycles per turn) into bins of 0.5 %. The undisturbed level is the
//! most common cost, not the lowest: preempted slices scatter, and if two threads share a core's
//! units, the few slices without the sibling are *cheaper*. Slices within the load's spread of the
//! level are kept. If the two probes around a slice differ, its cost lies between those at the two
//! clocks: it is kept if the level lies there too.
//!
//! Error bound: the mean of kept slices lies within the spread of the level, in practice within
//! 0.05 % for 2 %.

mod ranges;

use super::STEADY_SPREAD;
use ranges::{Ranges, total};

pub(super) use ranges::SliceSum;

const BIN: f64 = 0.005;
/// Lowest cost ÷ reference cost; slices outside 1/8 to 32 are never kept.
const LOWEST: f64 = 1.0 / 8.0;
/// ln(32 × 8) / BIN, rounded up.
const BINS: usize = 1110;
/// Bins of an undisturbed group: 2 %.
const GROUP_BINS: usize = 4;
/// Share of the work from which slices of one cost are a state of the core and not chance.
const MIN_SECOND_SHARE: f64 = 0.1;
/// Relative difference of the probes around a slice above which its clock is in doubt.
const CLOCK_TOLERANCE: f64 = 0.01;
/// Distance from the level, in spreads, within which a slice with a doubtful clock is kept.
const CONFIRMED: f64 = 0.5;
/// Relative difference of two clocks above which the lower probe was disturbed. Measured clock
/// steps: 3 to 4 % on Emerald Rapids, up to 10 % for different vector work.
const ONE_STEP: f64 = 0.125;

#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    pub(super) turns: u64,
    pub(super) seconds: f64,
    /// Clock just before and after the slice, in Hz, if probed.
    pub(super) before: Option<f64>,
    pub(super) after: Option<f64>,
    /// Whether the thread left its CPU during the slice.
    pub(super) switched: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ExcludedTime {
    pub(super) switched: f64,
    pub(super) clock: f64,
    /// Slices of a second common cost, or of any higher cost if memory is shared.
    pub(super) second: f64,
    /// Part of `second` beyond the uncontended time, if memory is shared: not stolen.
    pub(super) contended: f64,
    pub(super) other: f64,
    /// Part of `other` beyond the time of the work.
    pub(super) taken: f64,
    pub(super) second_cost: Option<f64>,
    pub(super) second_work: f64,
}

/// Slices of one thread, or of the threads that share one processor.
#[derive(Debug, Clone)]
pub(super) struct SliceLedger {
    reference: f64,
    spread: f64,
    shares_memory: bool,
    bins: Vec<SliceSum>,
    all: SliceSum,
    unprobed: SliceSum,
    /// Slices whose probes differ by a step of the clock.
    stepped: Ranges,
    /// Slices whose probes differ by more.
    differing: Ranges,
}

#[derive(Debug, Clone, Copy, Default)]
struct SecondCost {
    sum: SliceSum,
    beyond: f64,
}

impl SecondCost {
    fn add(&mut self, sum: SliceSum, kept: SliceSum) {
        self.sum.add(sum);
        self.beyond += excess_seconds(&sum, kept);
    }
}

impl SliceLedger {
    pub(super) fn new(reference: f64, spread: f64, shares_memory: bool) -> Self {
        Self {
            reference,
            spread,
            shares_memory,
            bins: vec![SliceSum::default(); BINS],
            all: SliceSum::default(),
            unprobed: SliceSum::default(),
            stepped: Ranges::new(),
            differing: Ranges::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.bins.fill(SliceSum::default());
        self.all = SliceSum::default();
        self.unprobed = SliceSum::default();
        self.stepped.clear();
        self.differing.clear();
    }

    pub(super) fn record(&mut self, slice: &Slice) {
        let clock = ProbedClock::between(slice.before, slice.after);
        let sum = SliceSum {
            slices: 1,
            turns: slice.turns as f64,
            seconds: slice.seconds,
            cycles: slice.seconds * clock.hz(),
            switched: if slice.switched { slice.seconds } else { 0.0 },
        };
        self.all.add(sum);
        let reference = self.reference;
        let bin = |cycles: f64| bin_of(reference, cycles / sum.turns);
        match clock {
            ProbedClock::Steady(_) => {
                let bin = bin(sum.cycles);
                if bin >= 0.0 && bin < BINS as f64 {
                    self.bins[bin as usize].add(sum);
                }
            }
            ProbedClock::Unknown => self.unprobed.add(sum),
            ProbedClock::Doubtful { higher, lower } => {
                let (cheap, dear) = (bin(sum.seconds * lower), bin(sum.cycles));
                if higher <= lower * (1.0 + ONE_STEP) {
                    let cycles = sum.seconds * f64::midpoint(higher, lower);
                    self.stepped.enter(cheap, dear, SliceSum { cycles, ..sum });
                } else {
                    self.differing.enter(cheap, dear, sum);
                }
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.all.add(other.all);
        self.unprobed.add(other.unprobed);
        self.bins.iter_mut().zip(&other.bins).for_each(|(bin, more)| bin.add(*more));
        self.stepped.merge(&other.stepped);
        self.differing.merge(&other.differing);
    }

    pub(super) fn all(&self) -> SliceSum {
        self.all
    }

    pub(super) fn kept(&self) -> SliceSum {
        let mut kept = SliceSum::default();
        let Some(level) = self.level() else { return kept };
        let near =
            |bin: &&SliceSum| bin.slices > 0 && (bin.cycles / bin.turns / level - 1.0).abs() <= self.spread;
        self.bins.iter().filter(near).for_each(|bin| kept.add(*bin));
        kept.add(self.confirmed());
        kept
    }

    /// Sums the slices whose two clock probes differ, but whose cost may be the most common cost at
    /// a clock between the probes. Corrects their cycles to the likely clock.
    fn confirmed(&self) -> SliceSum {
        let Some(level) = self.level() else { return SliceSum::default() };
        let (bin, margin) = (self.bin(level), self.margin());
        let mut confirmed = self.stepped.around(bin, margin);
        if self.spread <= STEADY_SPREAD {
            confirmed.cycles = level * confirmed.turns;
        }
        confirmed.add(self.differing.ending_at(bin, margin));
        confirmed
    }

    /// Returns sums of slices with different clock probes that exceed the common cost at both.
    fn above_level(&self) -> impl Iterator<Item = &SliceSum> {
        let from = self.level().map_or(BINS, |level| self.bin(level) + self.margin() + 1);
        self.stepped.beginning_in(from..BINS).iter().chain(self.differing.beginning_in(from..BINS))
    }

    fn margin(&self) -> usize {
        (CONFIRMED * self.spread / BIN) as usize
    }

    fn bin(&self, cost: f64) -> usize {
        bin_of(self.reference, cost) as usize
    }

    pub(super) fn excluded(&self) -> ExcludedTime {
        let kept = self.kept();
        let switched = self.all.switched - kept.switched;
        let doubtful = unswitched_seconds(&self.stepped.all()) + unswitched_seconds(&self.differing.all());
        let unexplained = doubtful
            - unswitched_seconds(&self.confirmed())
            - self.above_level().map(unswitched_seconds).sum::<f64>();
        let clock = unswitched_seconds(&self.unprobed) + unexplained.max(0.0);
        let second = self.second(kept);
        let differing = unswitched_seconds(&second.sum);
        let all = self.all.seconds - kept.seconds;
        let other = (all - switched - clock - differing).max(0.0);
        ExcludedTime {
            switched,
            clock,
            second: differing,
            contended: if self.shares_memory { second.beyond } else { 0.0 },
            other,
            taken: self.taken(kept, &second).min(other),
            second_cost: (second.sum.slices > 0)
                .then(|| second.sum.cycles / second.sum.turns / (kept.cycles / kept.turns)),
            second_work: if self.all.turns > 0.0 { second.sum.turns / self.all.turns } else { 0.0 },
        }
    }

    /// Returns the seconds that slices took beyond the same work at the mean cost of `kept`,
    /// without slices that had a thread switch or are in `second`.
    fn taken(&self, kept: SliceSum, second: &SecondCost) -> f64 {
        let Some(level) = self.level() else { return 0.0 };
        let beyond = |sum: &SliceSum| excess_seconds(sum, kept);
        let near = |bin: &SliceSum| (bin.cycles / bin.turns / level - 1.0).abs() <= self.spread;
        let bins = || self.bins.iter().filter(|bin| bin.slices > 0);
        let dearer = bins().filter(|bin| !near(bin)).chain(self.above_level()).map(beyond).sum::<f64>();
        let others = unswitched_seconds(&self.unprobed)
            + unswitched_seconds(&self.stepped.all())
            + unswitched_seconds(&self.differing.all());
        let outside = unswitched_seconds(&self.all) - others - bins().map(unswitched_seconds).sum::<f64>();
        (dearer + outside.max(0.0) - second.beyond).max(0.0)
    }

    /// Sums the slices at the second most common cost (another state of the core) or, with shared
    /// memory, all above the most common cost; zeros if they did less than 10 % of the work.
    fn second(&self, kept: SliceSum) -> SecondCost {
        let Some(level) = self.level() else { return SecondCost::default() };
        let near = |bin: &SliceSum| (bin.cycles / bin.turns / level - 1.0).abs() <= self.spread + BIN;
        let others = |bin: &&SliceSum| bin.slices > 0 && !near(bin);
        let mut second = SecondCost::default();
        if self.shares_memory {
            let dearer = |bin: &&SliceSum| others(bin) && bin.cycles / bin.turns > level;
            let from = self.bin(level) + self.margin() + 1;
            let doubtful = [&self.stepped, &self.differing].map(|ranges| ranges.beginning_in(from..BINS - 1));
            let all = self.bins.iter().filter(dearer).chain(doubtful.into_iter().flatten());
            all.for_each(|bin| second.add(*bin, kept));
        } else {
            for group in self.bins.windows(GROUP_BINS) {
                let mut found = SecondCost::default();
                group.iter().filter(others).for_each(|bin| found.add(*bin, kept));
                if found.sum.turns > second.sum.turns {
                    second = found;
                }
            }
        }
        if second.sum.turns < MIN_SECOND_SHARE * self.all.turns || second.sum.turns <= 0.0 {
            return SecondCost::default();
        }
        if !self.shares_memory {
            let cost = second.sum.cycles / second.sum.turns;
            let stepped = self.stepped_at(level, cost);
            second.beyond += excess_seconds(&stepped, kept);
            second.sum.add(SliceSum { cycles: cost * stepped.turns, ..stepped });
        }
        second
    }

    /// Sums the slices with a clock step that may cost `cost` cycles per turn; 0 if near `level`.
    fn stepped_at(&self, level: f64, cost: f64) -> SliceSum {
        let steps = ((1.0 + ONE_STEP).ln() / BIN) as usize + 2;
        let (bin, margin) = (self.bin(cost), self.margin());
        if bin > self.bin(level) + 2 * margin + steps {
            self.stepped.around(bin, margin)
        } else {
            SliceSum::default()
        }
    }

    /// Returns the most common cost in cycles per turn: the mean of the 2 % wide range with most
    /// work; `None` without any slice.
    fn level(&self) -> Option<f64> {
        let better = |best: SliceSum, sum: SliceSum| if sum.turns > best.turns { sum } else { best };
        let best = self.bins.windows(GROUP_BINS).map(total).fold(SliceSum::default(), better);
        (best.slices > 0).then(|| best.cycles / best.turns)
    }
}

/// Returns the seconds of the slices in `sum` during which the thread kept its CPU.
fn unswitched_seconds(sum: &SliceSum) -> f64 {
    sum.seconds - sum.switched
}

/// Returns the seconds of `sum` beyond the time of the same work at the mean cost of `kept`.
fn excess_seconds(sum: &SliceSum, kept: SliceSum) -> f64 {
    if sum.cycles <= 0.0 || kept.turns <= 0.0 {
        return 0.0;
    }
    unswitched_seconds(sum) * (1.0 - kept.cycles / kept.turns * sum.turns / sum.cycles).max(0.0)
}

/// Returns the bin (0.5 % each) of `cost`, in the unit of `reference`; may be out of range or NaN.
fn bin_of(reference: f64, cost: f64) -> f64 {
    ((cost / (reference * LOWEST)).ln() / BIN).floor()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ProbedClock {
    /// The probes agree: their mean.
    Steady(f64),
    Doubtful {
        higher: f64,
        lower: f64,
    },
    Unknown,
}

impl ProbedClock {
    fn between(before: Option<f64>, after: Option<f64>) -> Self {
        let (Some(before), Some(after)) = (before, after) else { return Self::Unknown };
        let mean = f64::midpoint(before, after);
        match (after - before).abs() <= CLOCK_TOLERANCE * mean {
            true => Self::Steady(mean),
            false => Self::Doubtful { higher: before.max(after), lower: before.min(after) },
        }
    }

    /// Returns the clock in Hz, the higher one if doubtful; 0 if unknown.
    fn hz(self) -> f64 {
        match self {
            Self::Steady(hz) | Self::Doubtful { higher: hz, .. } => hz,
            Self::Unknown => 0.0,
        }
    }
}

#[cfg(test)]
mod tests;
