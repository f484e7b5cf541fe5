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

use std::ops::Range;

use super::STEADY_SPREAD;

/// Width of a bin, as a natural logarithm.
const BIN: f64 = 0.005;
/// Costs are told apart from 1/8 to 32 × the reference cost; those beyond are never kept.
const LOWEST: f64 = 1.0 / 8.0;
/// ln(32 × 8) / BIN, rounded up.
const BINS: usize = 1110;
/// Bins that an undisturbed group spans: 2 %.
const GROUP: usize = 4;
/// Slices of one cost that did at least this share of the work are a state of the core, and no chance.
const SECOND: f64 = 0.1;
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

/// A sum of slices.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sum {
    pub(super) slices: u64,
    pub(super) turns: f64,
    pub(super) seconds: f64,
    pub(super) cycles: f64,
    /// Seconds of the slices during which the thread left its CPU.
    pub(super) switched: f64,
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
    /// The second cost, or the mean of the higher ones, ÷ the most common one, where they have [`SECOND`] of the work.
    pub(super) second_cost: Option<f64>,
    /// Its share of the work.
    pub(super) second_work: f64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.slices += other.slices;
        self.turns += other.turns;
        self.seconds += other.seconds;
        self.cycles += other.cycles;
        self.switched += other.switched;
    }

    fn subtract(&mut self, other: Self) {
        self.slices -= other.slices;
        self.turns -= other.turns;
        self.seconds -= other.seconds;
        self.cycles -= other.cycles;
        self.switched -= other.switched;
    }
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

/// Sums of slices whose cost is known to lie in a range of bins.
#[derive(Debug, Clone)]
struct Ranges {
    /// By the first bin of the range.
    from: Vec<Sum>,
    /// By the last one.
    to: Vec<Sum>,
}

impl Ranges {
    fn new() -> Self {
        Self { from: vec![Sum::default(); BINS], to: vec![Sum::default(); BINS] }
    }

    fn clear(&mut self) {
        self.from.fill(Sum::default());
        self.to.fill(Sum::default());
    }

    /// Enters a slice whose bins are these; what is out of bounds counts in the nearest one.
    fn enter(&mut self, first: f64, last: f64, sum: Sum) {
        let index = |bin: f64| (bin.max(0.0) as usize).min(BINS - 1);
        self.from[index(first)].add(sum);
        self.to[index(last)].add(sum);
    }

    fn merge(&mut self, other: &Self) {
        let ours = self.from.iter_mut().chain(&mut self.to);
        ours.zip(other.from.iter().chain(&other.to)).for_each(|(bin, more)| bin.add(*more));
    }

    fn all(&self) -> Sum {
        total(&self.from)
    }

    /// The slices whose range begins in these bins, bin by bin.
    fn beginning_in(&self, bins: Range<usize>) -> &[Sum] {
        let end = bins.end.min(BINS);
        self.from.get(bins.start.min(end)..end).unwrap_or_default()
    }

    /// The slices whose range ends within `margin` bins of this one.
    fn ending_at(&self, bin: usize, margin: usize) -> Sum {
        total(&self.to[bin.saturating_sub(margin)..(bin + margin + 1).min(BINS)])
    }

    /// The slices whose range comes within `margin` bins of this one: those that begin before its end, less those that end before
    /// its beginning.
    fn around(&self, bin: usize, margin: usize) -> Sum {
        let mut found = total(self.beginning_in(0..bin + margin + 1));
        found.subtract(total(&self.to[..bin.saturating_sub(margin)]));
        // What rounding leaves of nothing is nothing.
        if found.slices > 0 { found } else { Sum::default() }
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
            for group in self.bins.windows(GROUP) {
                let mut found = Second::default();
                group.iter().filter(others).for_each(|bin| found.add(*bin, kept));
                if found.sum.turns > second.sum.turns {
                    second = found;
                }
            }
        }
        if second.sum.turns < SECOND * self.all.turns || second.sum.turns <= 0.0 {
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
        for group in self.bins.windows(GROUP) {
            let mut sum = Sum::default();
            group.iter().for_each(|bin| sum.add(*bin));
            if sum.turns > best.turns {
                best = sum;
            }
        }
        (best.slices > 0).then(|| best.cycles / best.turns)
    }
}

fn total(sums: &[Sum]) -> Sum {
    let mut total = Sum::default();
    sums.iter().for_each(|sum| total.add(*sum));
    total
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sliced::{SLICE_SECONDS, STRETCH_SECONDS};

    const HZ: f64 = 3.0e9;
    const TURNS: u64 = 50_000;
    const SPREAD: f64 = 0.02;
    /// Cycles for each turn, undisturbed.
    const COST: f64 = 16.0;

    fn slice(times: f64) -> Slice {
        let seconds = TURNS as f64 * COST / HZ * times;
        Slice { turns: TURNS, seconds, before: Some(HZ), after: Some(HZ), switched: false }
    }

    fn ledger(slices: &[Slice]) -> Ledger {
        let mut ledger = Ledger::new(15.0, SPREAD, false);
        slices.iter().for_each(|slice| ledger.record(slice));
        ledger
    }

    fn cost(sum: Sum) -> f64 {
        sum.cycles / sum.turns
    }

    #[test]
    fn disturbed_slices_are_set_aside_even_when_they_are_most() {
        let mut slices: Vec<Slice> = (0..30).map(|i| slice(1.0 + f64::from(i % 5) * 1e-4)).collect();
        slices.extend((0..70).map(|i| slice(1.2 + f64::from(i) * 0.11)));
        let kept = ledger(&slices).kept();
        assert_eq!(kept.slices, 30);
        assert!((cost(kept) / COST - 1.0).abs() < 1e-3, "{}", cost(kept));
        assert!((kept.cycles / kept.seconds / HZ - 1.0).abs() < 1e-12);
    }

    #[test]
    fn moments_without_the_sharer_of_the_core_do_not_count() {
        let mut slices = vec![slice(2.0); 80];
        slices.extend([slice(1.0); 30]);
        assert!((cost(ledger(&slices).kept()) / COST - 2.0).abs() < 1e-9);
    }

    #[test]
    fn slices_with_an_unsure_clock_that_fit_no_cost_have_a_cause() {
        let sure = slice(1.0);
        let two = |lower: f64, times: f64| Slice { after: Some(HZ * lower), ..slice(times) };
        let one = TURNS as f64 * COST / HZ;
        let of = |slices: &[Slice]| {
            let books = ledger(&[&[sure; 3], slices].concat());
            assert_eq!((books.all().slices, books.kept().slices), (3 + slices.len() as u64, 3));
            let Excluded { clock, other, taken, .. } = books.excluded();
            [clock / one, other / one, taken / one]
        };
        let is = |found: [f64; 3], wanted: [f64; 3]| {
            assert!(
                found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-6),
                "{found:?}"
            );
        };
        // Dearer than at either clock: 1 / 0.96 = 1.042 and a margin of one per cent.
        is(of(&[two(0.96, 1.07)]), [0.0, 1.07, 1.07 - 1.0 / 0.98]);
        // Cheaper than at either, or without a clock.
        is(of(&[two(0.96, 0.97)]), [0.97, 0.0, 0.0]);
        is(of(&[Slice { before: None, ..sure }]), [1.0, 0.0, 0.0]);
        // Clocks that are no step of one: the higher one counts, or the clock is unknown, or the slice is dear at both.
        is(of(&[two(0.85, 1.05)]), [1.05, 0.0, 0.0]);
        is(of(&[two(0.5, 2.0)]), [2.0, 0.0, 0.0]);
        is(of(&[two(0.5, 2.5)]), [0.0, 2.5, 1.5]);
        // A preemption between two clocks takes no time of the slices beside it.
        let switched = Slice { switched: true, ..two(0.96, 160.0) };
        let [clock, other, taken] = of(&[vec![switched; 2], vec![two(0.96, 1.07); 40]].concat());
        assert!(
            clock.abs() < 1e-6 && (other - 42.8).abs() < 1e-6 && (taken - 40.0 * 0.0496).abs() < 0.01,
            "{taken}"
        );
        // Too dear for any bin.
        is(of(&[two(0.96, 1000.0)]), [0.0, 1000.0, 1000.0 - 1.0 / 0.98]);
        is(of(&[Slice { seconds: 0.0, ..two(0.96, 1.0) }]), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn dear_slices_of_two_clocks_belong_to_the_second_cost() {
        let one = TURNS as f64 * COST / HZ;
        let two = |times: f64| Slice { after: Some(HZ * 0.96), ..slice(times) };
        let steady = [vec![slice(1.0); 60], vec![slice(1.4); 20]].concat();
        // As dear as the second cost, half as dear, and dearer.
        let slices = [steady.clone(), vec![two(1.42), two(1.2), two(1.9)]].concat();
        let excluded = ledger(&slices).excluded();
        assert!((excluded.second / one - (20.0 * 1.4 + 1.42)).abs() < 1e-6, "{excluded:?}");
        assert!((excluded.other / one - 3.1).abs() < 1e-6 && excluded.clock.abs() < 1e-12, "{excluded:?}");
        let longer = 3.1 - 2.0 / 0.98;
        assert!((excluded.taken / one - longer).abs() < 1e-6, "{excluded:?} {longer}");
        assert!((excluded.second_cost.unwrap() - 1.4).abs() < 1e-9, "{excluded:?}");
        assert!((excluded.second_work - 21.0 / 83.0).abs() < 1e-9, "{excluded:?}");
        // Without a second cost they are interruptions; they make none.
        let few =
            ledger(&[vec![slice(1.0); 60], vec![slice(1.4); 3], vec![two(1.2); 10]].concat()).excluded();
        assert!(few.second_cost.is_none() && (few.other / one - (3.0 * 1.4 + 12.0)).abs() < 1e-6, "{few:?}");
    }

    #[test]
    fn where_costs_vary_two_clocks_count_at_their_mean_and_a_disturbed_probe_not_at_all() {
        let of = |lower: f64| {
            let mut books = Ledger::new(15.0, 0.25, true);
            (0..90).for_each(|_| books.record(&slice(1.0)));
            (0..10).for_each(|_| books.record(&Slice { after: Some(HZ * lower), ..slice(1.0) }));
            let kept = books.kept();
            assert_eq!(kept.slices, 100);
            kept.cycles / kept.seconds / HZ
        };
        assert!((of(0.96) - 0.998).abs() < 1e-9, "{}", of(0.96));
        assert!((of(0.8) - 1.0).abs() < 1e-9 && (of(0.5) - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn ranges_are_found_as_one_by_one(
            ranges in prop::collection::vec((-50.0_f64..1200.0, 0.0_f64..60.0), 0..60), bin in 0_usize..BINS, margin in 0_usize..30,
        ) {
            let mut sums = Ranges::new();
            let mut wanted = 0;
            for (first, width) in ranges {
                let (first, last) = (first.floor(), (first + width).floor());
                sums.enter(first, last, Sum { slices: 1, seconds: 1e-5, ..Sum::default() });
                let clamped = |bin: f64| bin.clamp(0.0, (BINS - 1) as f64) as usize;
                wanted += u64::from(clamped(first) <= bin + margin && clamped(last) + margin >= bin);
            }
            let found = sums.around(bin, margin);
            prop_assert_eq!(found.slices, wanted);
            prop_assert!((found.seconds - wanted as f64 * 1e-5).abs() < 1e-12);
        }
    }

    #[test]
    fn a_slice_with_two_clocks_is_kept_if_the_level_lies_between_its_costs() {
        let sure = slice(1.0);
        // Read low before or after, while the load went on at its clock.
        let low = Slice { after: Some(HZ * 0.96), ..sure };
        let lower = Slice { before: Some(HZ * 0.8), ..sure };
        // The clock really fell to 0.96 in the middle, and at once.
        let half = Slice { after: Some(HZ * 0.96), ..slice(1.0 / 0.98) };
        let whole = Slice { after: Some(HZ * 0.96), ..slice(1.0 / 0.96) };
        let books = ledger(&[sure, sure, sure, low, lower, half, whole]);
        assert_eq!((books.all().slices, books.kept().slices), (7, 7));
        let kept = books.kept();
        assert!((cost(kept) / COST - 1.0).abs() < 1e-9);
        // Five at one clock, one at both, and one at the lower one, each for as much longer.
        assert!((kept.cycles / kept.seconds / HZ - 7.0 / (5.0 + 1.0 / 0.98 + 1.0 / 0.96)).abs() < 1e-9);
        let excluded = books.excluded();
        assert!(excluded.clock.abs() < 1e-12 && excluded.other.abs() < 1e-12, "{excluded:?}");
        assert!(excluded.taken.abs() < 1e-12, "{excluded:?}");
        // Alone they confirm nothing, not even one another.
        assert_eq!(ledger(&[low; 9]).kept(), Sum::default());
        // Also of threads that share a CPU.
        let mut both = ledger(&[sure, low]);
        both.merge(&ledger(&[half, Slice { after: Some(HZ * 0.96), ..slice(1.2) }]));
        assert_eq!((both.all().slices, both.kept().slices), (4, 3));
        both.clear();
        assert_eq!((both.all(), both.kept()), (Sum::default(), Sum::default()));
    }

    /// Slices of steady work on a core whose clock changes to and fro between `clocks`, each held for so many seconds in turn,
    /// with probes between stretches, as long as those of `sliced`. The clock that it had on average comes with them.
    fn restless(clocks: [f64; 2], held: &[f64], stretches: usize) -> (Vec<Slice>, f64) {
        let mut changes = held.iter().copied().cycle();
        let (mut now, mut until, mut which) = (0.0, changes.next().unwrap(), 0);
        // Advances until so many cycles are done.
        let mut run = |cycles: f64| {
            let (start, mut left) = (now, cycles);
            while left > (until - now) * clocks[which] {
                left -= (until - now) * clocks[which];
                now = until;
                until += changes.next().unwrap();
                which = 1 - which;
            }
            now += left / clocks[which];
            now - start
        };
        let (mut slices, mut seconds, mut cycles) = (Vec::new(), 0.0, 0.0);
        let turns = (SLICE_SECONDS * HZ / COST) as u64;
        let (probe, work) = (45_000.0, turns as f64 * COST);
        let slices_of_a_stretch = (STRETCH_SECONDS / SLICE_SECONDS) as usize;
        let mut before = probe / run(probe);
        for _ in 0..stretches {
            let times: Vec<f64> = (0..slices_of_a_stretch).map(|_| run(work)).collect();
            let after = probe / run(probe);
            for time in times {
                let (before, after) = (Some(before), Some(after));
                slices.push(Slice { turns, seconds: time, before, after, switched: false });
                seconds += time;
                cycles += work;
            }
            before = after;
        }
        (slices, cycles / seconds)
    }

    /// Random times between 1400 changes a second on average.
    fn random_times() -> Vec<f64> {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..20_000).map(|_| -(1.0 - random()).ln() / 1400.0).collect()
    }

    #[test]
    fn a_clock_that_changes_1400_times_a_second_excludes_less_than_a_hundredth() {
        let (slices, _) = restless([HZ, HZ * 0.964], &random_times(), 60_000);
        let books = ledger(&slices);
        let excluded = 1.0 - books.kept().seconds / books.all().seconds;
        assert!(excluded < 0.009, "{excluded}");
    }

    proptest! {
        #[test]
        fn a_restless_clock_excludes_little_and_biases_nothing(
            held in prop::collection::vec(200e-6_f64..2e-3, 40..80), step in 0.015_f64..0.1,
        ) {
            let (slices, clock) = restless([HZ, HZ * (1.0 - step)], &held, 2000);
            let books = ledger(&slices);
            let kept = books.kept();
            let excluded = 1.0 - kept.seconds / books.all().seconds;
            prop_assert!(excluded < 0.01, "{excluded}");
            prop_assert!((cost(kept) / COST - 1.0).abs() < 1e-4, "{}", cost(kept));
            prop_assert!((kept.cycles / kept.seconds / clock - 1.0).abs() < 5e-4, "{}", kept.cycles / kept.seconds / clock);
        }
    }

    #[test]
    fn what_is_excluded_has_its_causes() {
        let mut slices = vec![slice(1.0); 50];
        slices.extend((0..6).map(|i| Slice { switched: true, ..slice(4.0 + f64::from(i)) }));
        slices.extend([Slice { after: Some(HZ * 0.96), ..slice(0.9) }; 5]);
        slices.extend([slice(1.4); 20]);
        slices.extend((0..7).map(|i| slice(2.0 + f64::from(i) * 0.3)));
        let books = ledger(&slices);
        let excluded = books.excluded();
        let one = TURNS as f64 * COST / HZ;
        let is = |seconds: f64, slices: f64| (seconds / one - slices).abs() < 1e-6;
        assert!(is(excluded.switched, 39.0) && is(excluded.clock, 4.5), "{excluded:?}");
        assert!(is(excluded.second, 28.0) && is(excluded.other, 20.3), "{excluded:?}");
        // Seven slices that took 20.3 for the work of seven.
        assert!(is(excluded.taken, 13.3), "{excluded:?}");
        assert!((excluded.second_cost.unwrap() - 1.4).abs() < 1e-9, "{excluded:?}");
        assert!((excluded.second_work - 20.0 / 88.0).abs() < 1e-9, "{excluded:?}");
        // Slices that only chance made alike are no second state.
        let few = ledger(&[vec![slice(1.0); 95], vec![slice(1.4); 5]].concat()).excluded();
        assert!(few.second_cost.is_none() && is(few.other, 7.0), "{few:?}");
    }

    #[test]
    fn others_who_use_the_same_memory_make_slices_dearer_by_any_amount() {
        let one = TURNS as f64 * COST / HZ;
        let is = |seconds: f64, slices: f64| (seconds / one - slices).abs() < 1e-6;
        let scattered: Vec<Slice> = (0..40).map(|i| slice(1.5 + f64::from(i) * 0.25)).collect();
        let time = (0..40).map(|i| 1.5 + f64::from(i) * 0.25).sum::<f64>();
        let of = |more: &[Slice], shares| {
            let mut books = Ledger::new(15.0, SPREAD, shares);
            [vec![slice(1.0); 60], more.to_vec()].concat().iter().for_each(|slice| books.record(slice));
            books.excluded()
        };
        let shared = of(&scattered, true);
        assert!(is(shared.second, time) && is(shared.contended, time - 40.0), "{shared:?}");
        assert!((shared.second_work - 0.4).abs() < 1e-9 && shared.other.abs() < 1e-12, "{shared:?}");
        assert!((shared.second_cost.unwrap() - time / 40.0).abs() < 1e-9 && shared.taken.abs() < 1e-12);
        // What was stolen for longer than any bin is no contention, whatever the probes say.
        let stolen = |after: f64| vec![Slice { after: Some(HZ * after), ..slice(400.0) }; 5];
        for after in [1.0, 0.96, 0.5] {
            let both = of(&[scattered.clone(), stolen(after)].concat(), true);
            assert!(is(both.second, time) && is(both.contended, time - 40.0), "{after}: {both:?}");
            assert!(both.taken / one > 1950.0 && both.taken / one < 2001.0, "{after}: {both:?}");
        }
        // A core of its own has no second cost there, and a few dear slices are interruptions in both.
        let alone = of(&scattered, false);
        assert!(alone.second_cost.is_none() && is(alone.taken, time - 40.0), "{alone:?}");
        let few = of(&scattered[..4], true);
        assert!(few.second_cost.is_none() && few.contended == 0.0 && is(few.taken, 3.5), "{few:?}");
    }

    #[test]
    fn a_short_interrupt_excludes_a_slice_and_takes_little_of_it() {
        let excluded =
            ledger(&[vec![slice(1.0); 90], vec![slice(1.07); 9], vec![slice(100.0)]].concat()).excluded();
        let one = TURNS as f64 * COST / HZ;
        // What is too dear for any bin was taken whole.
        assert!((excluded.taken / one - (9.0 * 0.07 + 100.0)).abs() < 0.01, "{excluded:?}");
        assert!((excluded.other / one - (9.0 * 1.07 + 100.0)).abs() < 0.01, "{excluded:?}");
    }

    #[test]
    fn nothing_kept_is_nothing_and_not_a_division_by_zero() {
        assert_eq!(Ledger::new(15.0, SPREAD, false).kept(), Sum::default());
        assert_eq!(ledger(&[slice(1e6), slice(1e-6)]).kept(), Sum::default());
    }

    proptest! {
        #[test]
        fn causes_add_up_to_what_is_excluded(
            steady in prop::collection::vec((0.6_f64..3.0, 1_usize..60), 1..8),
            unsure in prop::collection::vec((0.5_f64..60.0, 0.4_f64..1.0, any::<bool>()), 0..60),
            spread in prop_oneof![Just(0.02), Just(0.05), Just(0.25)], shares: bool,
        ) {
            let mut books = Ledger::new(15.0, spread, shares);
            for (times, count) in &steady {
                (0..*count).for_each(|_| books.record(&slice(*times)));
            }
            for (times, lower, switched) in unsure {
                books.record(&Slice { after: Some(HZ * lower), switched, ..slice(times) });
            }
            let (all, kept, excluded) = (books.all(), books.kept(), books.excluded());
            let Excluded { switched, clock, second, contended, other, taken, .. } = excluded;
            let sum = switched + clock + second + other;
            prop_assert!((sum - (all.seconds - kept.seconds)).abs() < 1e-9, "{excluded:?}");
            prop_assert!([switched, clock, second, contended, other, taken].iter().all(|part| *part > -1e-12), "{excluded:?}");
            prop_assert!(taken <= other + 1e-9 && contended <= second + 1e-9, "{excluded:?}");
        }

        #[test]
        fn rate_and_clock_come_from_the_same_slices(
            clocks in prop::collection::vec(1.0e9_f64..5.0e9, 1..60),
            late in prop::collection::vec(prop_oneof![3 => Just(1.0), 1 => 1.06_f64..20.0], 60),
        ) {
            let mut books = Ledger::new(20.0, SPREAD, false);
            for (hz, late) in clocks.iter().zip(&late) {
                let seconds = TURNS as f64 * COST / hz * late;
                books.record(&Slice { turns: TURNS, seconds, before: Some(*hz), after: Some(*hz), switched: false });
            }
            let kept = books.kept();
            // A rate without steal is clock ÷ cost, whatever the clock did.
            if late.iter().take(clocks.len()).filter(|late| **late == 1.0).count() * 2 > clocks.len() {
                let (rate, clock) = (kept.turns / kept.seconds, kept.cycles / kept.seconds);
                prop_assert!((rate * COST / clock - 1.0).abs() < 1e-9, "{rate} {clock}");
            }
            prop_assert!(kept.seconds <= books.all().seconds * (1.0 + 1e-12));
            prop_assert!(kept.slices >= 1);
        }

        #[test]
        fn merged_books_are_those_of_all_slices(times in prop::collection::vec(0.5_f64..4.0, 2..80), cut in 0_usize..80) {
            let slices: Vec<Slice> = times.iter().map(|times| slice(*times)).collect();
            let (left, right) = slices.split_at(cut.min(slices.len()));
            let mut merged = ledger(left);
            merged.merge(&ledger(right));
            let whole = ledger(&slices);
            prop_assert_eq!(merged.kept().slices, whole.kept().slices);
            prop_assert!((merged.all().seconds - whole.all().seconds).abs() < 1e-12);
        }
    }
}
