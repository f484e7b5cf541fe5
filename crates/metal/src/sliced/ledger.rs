//! The books of sliced measurement, in constant memory: which slices count, and what they add up to.
//!
//! Summary: slices are sorted by their cost, cycles for each turn of work, into bins of 0.5 %. The undisturbed level is
//! the most common cost: the narrow group of bins in which most work was done. Slices within the load's spread of it
//! (2 %, or what the load says) are kept.
//!
//! Why the most common and not the lowest: a slice into which a preemption or steal falls is dearer by any amount, so
//! disturbed slices scatter while undisturbed ones agree to a per mille; and where two threads share a core's units,
//! the few slices during which the other one was away are *cheaper* than what both can have, and must not count.
//!
//! Where the two probes of a slice differ, the clock changed, or something disturbed the lower probe: that makes it lower, never
//! higher. The mean clock of the slice lies between the two, so its cost lies between what it is at the lower and at the higher
//! one. The level, which the other slices show, decides: a slice is kept if the level lies there. A slice that is dearer than the
//! level even at the lower clock was interrupted.
//!
//! Bound: the centre of gravity of kept slices lies within the spread of the level; for 2 % in practice within 0.05 %. A slice
//! with two clocks that was interrupted as well is kept if that made it longer by less than the clocks differ. Where costs are
//! steady that lowers rate and clock alike, and their quotient stays right.

mod ranges;

use super::STEADY_SPREAD;
use ranges::Ranges;

pub(super) use ranges::Sum;

/// Width of a bin, as a natural logarithm.
const BIN: f64 = 0.005;
/// Costs are told apart from 1/8 to 32 × the reference cost; those beyond are never kept.
const LOWEST: f64 = 1.0 / 8.0;
/// ln(32 × 8) / BIN, rounded up.
const BINS: usize = 1110;
/// Bins that an undisturbed group spans: 2 %.
const GROUP_BINS: usize = 4;
/// Slices of one cost that did at least this share of the work are a state of the core, and no chance.
const MIN_SECOND_SHARE: f64 = 0.1;
/// Probes before and after a slice that differ by more leave its clock in doubt.
const CLOCK_TOLERANCE: f64 = 0.01;
/// A slice whose clock is in doubt is kept if its cost comes so near to the level, as a part of the spread of other slices.
const CONFIRMED: f64 = 0.5;
/// Clocks that differ by more are no step of one clock: the lower probe was disturbed. Steps of 3 to 4 % were measured on
/// Emerald Rapids, and of up to 10 % between its clocks for different vector work.
const ONE_STEP: f64 = 0.125;

/// One timed slice of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    pub(super) turns: u64,
    pub(super) seconds: f64,
    /// The clock just before and just after, in Hz, where the probes could tell.
    pub(super) before: Option<f64>,
    pub(super) after: Option<f64>,
    /// Whether the thread left its CPU meanwhile.
    pub(super) switched: bool,
}

/// What became of the time of slices that are not kept, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Excluded {
    /// The thread left its CPU.
    pub(super) switched: f64,
    /// The clock is unknown: there is no probe, or two that differ, and the cost does not show which clock the slice had.
    pub(super) clock: f64,
    /// Slices of a second common cost, or of any higher cost where others may use the same memory.
    pub(super) second: f64,
    /// By how much the latter were longer than their work takes: no time that somebody took, since they may do so in all of the time.
    pub(super) contended: f64,
    /// What is dearer, or cheaper, and none of these.
    pub(super) other: f64,
    /// By how much the dearer of those were longer than their work takes: what something else took.
    pub(super) taken: f64,
    /// The second cost, or the mean of the higher ones, ÷ the most common one, where they have [`MIN_SECOND_SHARE`] of the work.
    pub(super) second_cost: Option<f64>,
    /// Its share of the work.
    pub(super) second_work: f64,
}

/// The slices of one thread, or of the threads that share one processor.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    /// Cycles for each turn, about.
    reference: f64,
    /// A slice whose cost is further from the level than this share of it is set aside.
    spread: f64,
    /// Whether others may make slices dearer by any amount, because they use the same caches or memory.
    shares_memory: bool,
    bins: Vec<Sum>,
    all: Sum,
    /// Slices without two probes.
    unprobed: Sum,
    /// Slices whose two probes differ by a step of the clock.
    stepped: Ranges,
    /// Slices whose two probes differ by more.
    apart: Ranges,
}

/// The slices of a second cost.
#[derive(Debug, Clone, Copy, Default)]
struct Second {
    sum: Sum,
    /// By how much they were longer than their work takes at the cost of the kept ones, in seconds.
    beyond: f64,
}

impl Second {
    /// Takes in slices of one cost.
    fn add(&mut self, sum: Sum, kept: Sum) {
        self.sum.add(sum);
        self.beyond += beyond(&sum, kept);
    }
}

impl Ledger {
    /// Empty books around a cost of about `reference` cycles for each turn.
    pub(super) fn new(reference: f64, spread: f64, shares_memory: bool) -> Self {
        Self {
            reference,
            spread,
            shares_memory,
            bins: vec![Sum::default(); BINS],
            all: Sum::default(),
            unprobed: Sum::default(),
            stepped: Ranges::new(),
            apart: Ranges::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.bins.fill(Sum::default());
        self.all = Sum::default();
        self.unprobed = Sum::default();
        self.stepped.clear();
        self.apart.clear();
    }

    pub(super) fn record(&mut self, slice: &Slice) {
        let clock = Clock::between(slice.before, slice.after);
        let sum = Sum {
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
            Clock::Steady(_) => {
                let bin = bin(sum.cycles);
                if bin >= 0.0 && bin < BINS as f64 {
                    self.bins[bin as usize].add(sum);
                }
            }
            Clock::Unknown => self.unprobed.add(sum),
            Clock::Doubtful { higher, lower } => {
                let (cheap, dear) = (bin(sum.seconds * lower), bin(sum.cycles));
                if higher <= lower * (1.0 + ONE_STEP) {
                    let cycles = sum.seconds * f64::midpoint(higher, lower);
                    self.stepped.enter(cheap, dear, Sum { cycles, ..sum });
                } else {
                    self.apart.enter(cheap, dear, sum);
                }
            }
        }
    }

    /// Takes in the slices of another thread on the same processor.
    pub(super) fn merge(&mut self, other: &Self) {
        self.all.add(other.all);
        self.unprobed.add(other.unprobed);
        self.bins.iter_mut().zip(&other.bins).for_each(|(bin, more)| bin.add(*more));
        self.stepped.merge(&other.stepped);
        self.apart.merge(&other.apart);
    }

    /// All slices, kept or not.
    pub(super) fn all(&self) -> Sum {
        self.all
    }

    /// The slices near the undisturbed level; none if no slice had a usable cost.
    pub(super) fn kept(&self) -> Sum {
        let mut kept = Sum::default();
        let Some(level) = self.level() else { return kept };
        let near = |bin: &&Sum| bin.slices > 0 && (bin.cycles / bin.turns / level - 1.0).abs() <= self.spread;
        self.bins.iter().filter(near).for_each(|bin| kept.add(*bin));
        kept.add(self.confirmed());
        kept
    }

    /// Slices whose clock is in doubt, and whose cost may be the level. It counts as that, or, where costs vary too much to tell a
    /// clock, at the mean of the two clocks. Of clocks that are no step of one the higher counts.
    fn confirmed(&self) -> Sum {
        let Some(level) = self.level() else { return Sum::default() };
        let (bin, margin) = (self.bin(level), self.margin());
        let mut confirmed = self.stepped.around(bin, margin);
        if self.spread <= STEADY_SPREAD {
            confirmed.cycles = level * confirmed.turns;
        }
        confirmed.add(self.apart.ending_at(bin, margin));
        confirmed
    }

    /// Slices whose clock is in doubt, and which are dearer than the level even at the lower one, bin by bin.
    fn dear(&self) -> impl Iterator<Item = &Sum> {
        let from = self.level().map_or(BINS, |level| self.bin(level) + self.margin() + 1);
        self.stepped.beginning_in(from..BINS).iter().chain(self.apart.beginning_in(from..BINS))
    }

    /// How near to the level the cost of a slice must come whose clock is in doubt, in bins.
    fn margin(&self) -> usize {
        (CONFIRMED * self.spread / BIN) as usize
    }

    fn bin(&self, cost: f64) -> usize {
        bin_of(self.reference, cost) as usize
    }

    /// Why the others are not kept.
    pub(super) fn excluded(&self) -> Excluded {
        let kept = self.kept();
        let switched = self.all.switched - kept.switched;
        let doubtful = staying(&self.stepped.all()) + staying(&self.apart.all());
        let unexplained = doubtful - staying(&self.confirmed()) - self.dear().map(staying).sum::<f64>();
        let clock = staying(&self.unprobed) + unexplained.max(0.0);
        let second = self.second(kept);
        let apart = staying(&second.sum);
        let all = self.all.seconds - kept.seconds;
        let other = (all - switched - clock - apart).max(0.0);
        Excluded {
            switched,
            clock,
            second: apart,
            contended: if self.shares_memory { second.beyond } else { 0.0 },
            other,
            taken: self.taken(kept, &second).min(other),
            second_cost: (second.sum.slices > 0)
                .then(|| second.sum.cycles / second.sum.turns / (kept.cycles / kept.turns)),
            second_work: if self.all.turns > 0.0 { second.sum.turns / self.all.turns } else { 0.0 },
        }
    }

    /// Seconds by which slices were longer than at the level, where no thread left its CPU and no second cost explains it. A
    /// slice with a short interrupt is excluded whole, and hardly any of it was taken.
    fn taken(&self, kept: Sum, second: &Second) -> f64 {
        let Some(level) = self.level() else { return 0.0 };
        let beyond = |sum: &Sum| beyond(sum, kept);
        let near = |bin: &Sum| (bin.cycles / bin.turns / level - 1.0).abs() <= self.spread;
        let bins = || self.bins.iter().filter(|bin| bin.slices > 0);
        let dearer = bins().filter(|bin| !near(bin)).chain(self.dear()).map(beyond).sum::<f64>();
        // Those that are too dear for any bin.
        let others = staying(&self.unprobed) + staying(&self.stepped.all()) + staying(&self.apart.all());
        let outside = staying(&self.all) - others - bins().map(staying).sum::<f64>();
        (dearer + outside.max(0.0) - second.beyond).max(0.0)
    }

    /// The slices of the second most common cost, beside the kept ones; none if they did too little of the work. What
    /// interrupts slices makes them dearer by any amount, so that many which agree are another state of the core. Where others may use the same
    /// memory, all that are dearer: an interruption comes a few times in a millisecond at most, and is in few slices.
    fn second(&self, kept: Sum) -> Second {
        let Some(level) = self.level() else { return Second::default() };
        let near = |bin: &Sum| (bin.cycles / bin.turns / level - 1.0).abs() <= self.spread + BIN;
        let others = |bin: &&Sum| bin.slices > 0 && !near(bin);
        let mut second = Second::default();
        if self.shares_memory {
            let dearer = |bin: &&Sum| others(bin) && bin.cycles / bin.turns > level;
            // What is too dear for any bin was stolen.
            let from = self.bin(level) + self.margin() + 1;
            let doubtful = [&self.stepped, &self.apart].map(|ranges| ranges.beginning_in(from..BINS - 1));
            let all = self.bins.iter().filter(dearer).chain(doubtful.into_iter().flatten());
            all.for_each(|bin| second.add(*bin, kept));
        } else {
            for group in self.bins.windows(GROUP_BINS) {
                let mut found = Second::default();
                group.iter().filter(others).for_each(|bin| found.add(*bin, kept));
                if found.sum.turns > second.sum.turns {
                    second = found;
                }
            }
        }
        if second.sum.turns < MIN_SECOND_SHARE * self.all.turns || second.sum.turns <= 0.0 {
            return Second::default();
        }
        if !self.shares_memory {
            let cost = second.sum.cycles / second.sum.turns;
            let stepped = self.stepped_at(level, cost);
            second.beyond += beyond(&stepped, kept);
            second.sum.add(Sum { cycles: cost * stepped.turns, ..stepped });
        }
        second
    }

    /// The slices with a step of the clock whose cost may be this one, where it is so far beyond the level that no slice can have both.
    /// Where probes are further apart the lower one was disturbed, and what is dear at the higher one counts as interrupted.
    fn stepped_at(&self, level: f64, cost: f64) -> Sum {
        let steps = ((1.0 + ONE_STEP).ln() / BIN) as usize + 2;
        let (bin, margin) = (self.bin(cost), self.margin());
        if bin > self.bin(level) + 2 * margin + steps {
            self.stepped.around(bin, margin)
        } else {
            Sum::default()
        }
    }

    /// The most common cost: the mean of the group of bins that holds most work.
    fn level(&self) -> Option<f64> {
        let mut best = Sum::default();
        for group in self.bins.windows(GROUP_BINS) {
            let mut sum = Sum::default();
            group.iter().for_each(|bin| sum.add(*bin));
            if sum.turns > best.turns {
                best = sum;
            }
        }
        (best.slices > 0).then(|| best.cycles / best.turns)
    }
}

/// Seconds of slices during which no thread left its CPU.
fn staying(sum: &Sum) -> f64 {
    sum.seconds - sum.switched
}

/// By how much slices of one cost were longer than their work takes at the cost of the kept ones, in seconds.
fn beyond(sum: &Sum, kept: Sum) -> f64 {
    if sum.cycles <= 0.0 || kept.turns <= 0.0 {
        return 0.0;
    }
    staying(sum) * (1.0 - kept.cycles / kept.turns * sum.turns / sum.cycles).max(0.0)
}

/// The bin of a cost, which may be out of bounds, or no number.
fn bin_of(reference: f64, cost: f64) -> f64 {
    ((cost / (reference * LOWEST)).ln() / BIN).floor()
}

/// What two probes tell of the clock between them, in Hz.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Clock {
    /// They agree: their mean.
    Steady(f64),
    /// They do not.
    Doubtful { higher: f64, lower: f64 },
    /// One is missing.
    Unknown,
}

impl Clock {
    fn between(before: Option<f64>, after: Option<f64>) -> Self {
        let (Some(before), Some(after)) = (before, after) else { return Self::Unknown };
        let mean = f64::midpoint(before, after);
        match (after - before).abs() <= CLOCK_TOLERANCE * mean {
            true => Self::Steady(mean),
            false => Self::Doubtful { higher: before.max(after), lower: before.min(after) },
        }
    }

    /// The higher one of two. Zero where it is unknown.
    fn hz(self) -> f64 {
        match self {
            Self::Steady(hz) | Self::Doubtful { higher: hz, .. } => hz,
            Self::Unknown => 0.0,
        }
    }
}

#[cfg(test)]
mod tests;
