//! What a core can start in a cycle, measured: the rate of a kernel's instructions beside the clock in the same power state.
//!
//! A neighbour on the core's sibling, a quota or throttling can only lower it, so a core can do at least as much.

use std::time::Instant;

use crate::arch::native;
use crate::clock::{CoreClock, ProbeWork};
use crate::isa::Isa;
use crate::kernel::{Kernel, LoadedKernel, variants};

/// Slices of work between two probes that are wanted, and the least that tell a rate.
const SLICES: usize = 12;
const FEWEST: usize = 4;
/// Slices after which it is given up: on a busy machine most have no clock that held.
const MOST_SLICES: usize = 60;
/// Seconds of a slice.
const SLICE_SECONDS: f64 = 100e-6;
/// Probes before and after a slice that differ by more leave its clock in doubt.
const CLOCK_TOLERANCE: f64 = 0.01;
/// Turns whose time tells how many a slice has.
const TRIAL_TURNS: u64 = 2_000;

/// A clock for the calling thread in the work of one kernel, to measure it and others of the same kind with.
///
/// # Errors
/// Why the clock is unknown.
pub fn clock_for(kernel: &Kernel) -> Result<CoreClock, crate::clock::ClockUnknown> {
    CoreClock::calibrate(ProbeWork::of(kernel))
}

/// Instructions that count which the calling thread's core starts in a cycle, in some 1.5 to 7 ms; pin the thread first. `None`
/// where too few slices had a clock that held.
pub fn per_cycle(mut kernel: LoadedKernel, clock: &CoreClock) -> Option<f64> {
    let counted = kernel.kernel().parts.iter().filter(|part| part.operations > 0);
    let each: u32 = counted.map(|part| part.count).sum();
    rate(each, clock, |turns| time(&mut kernel, turns))
}

/// As [`per_cycle`], of a loop of which a turn has `each` instructions and `time` tells the seconds of so many turns.
fn rate(each: u32, clock: &CoreClock, mut time: impl FnMut(u64) -> f64) -> Option<f64> {
    let trial = (0..3).map(|_| time(TRIAL_TURNS)).fold(f64::INFINITY, f64::min);
    let turns = ((SLICE_SECONDS / trial * TRIAL_TURNS as f64) as u64).max(1);
    let mut rates = Vec::with_capacity(SLICES);
    // Beside a busy sibling the clock reads a little low, and the rate would look too high.
    let probe = || clock.look().filter(|probe| !probe.shared).map(|probe| probe.hz);
    let mut before = probe();
    for _ in 0..MOST_SLICES {
        let seconds = time(turns);
        let after = probe();
        if let Some((from, to)) = before.zip(after)
            && (from / to - 1.0).abs() <= CLOCK_TOLERANCE
        {
            rates.push((turns * u64::from(each)) as f64 / (seconds * f64::midpoint(from, to)));
        }
        before = after;
        if rates.len() == SLICES {
            break;
        }
    }
    rates.sort_by(f64::total_cmp);
    // What was not interrupted is the upper half; its middle is not the one that a probe made look quick.
    (rates.len() >= FEWEST).then(|| rates.get(rates.len() * 3 / 4).copied()).flatten()
}

/// What a [`Loop`] shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probed {
    /// Loads of whole vectors from the level-1 cache in a cycle.
    Loads,
    /// Cycles from a fused multiply-add to the next that waits for its result.
    FmaLatency,
    /// Cycles from a floating-point addition to the next that waits for its result.
    AddLatency,
}

/// Instructions in a turn of every loop.
const PER_TURN: u32 = 16;

/// A vector of the widest set for each load of a turn: more than any loop reads.
#[derive(Debug)]
#[repr(C, align(64))]
struct Place([f64; 8 * PER_TURN as usize]);

/// A loop of one instruction.
#[derive(Debug)]
pub struct Loop {
    /// The instruction set it is written in.
    pub isa: Isa,
    /// What it shows.
    pub probed: Probed,
    /// Bits of a vector.
    pub bits: u32,
    /// Does so many turns of [`PER_TURN`] instructions. Needs `isa`, `turns` > 0 and a [`Place`].
    pub(crate) function: unsafe fn(turns: u64, place: *const u8),
}

/// The loops of an instruction set, if this processor has it.
pub fn loops(isa: Isa) -> impl Iterator<Item = &'static Loop> {
    native::LOOPS.iter().filter(move |one| one.isa == isa && isa.available().is_ok())
}

impl Loop {
    /// What it shows of the calling thread's core: see [`Probed`] for the unit, and [`per_cycle`] for the rest. `None` also
    /// where the instruction set is missing.
    pub fn measured(&self, clock: &CoreClock) -> Option<f64> {
        self.isa.available().ok()?;
        let place = Place([1.0; 8 * PER_TURN as usize]);
        let rate = rate(PER_TURN, clock, |turns| {
            let start = Instant::now();
            // SAFETY: the set was just found, `rate` asks for at least one turn, and the place has a vector for each load.
            unsafe { (self.function)(turns, std::ptr::from_ref(&place).cast()) };
            start.elapsed().as_secs_f64()
        })?;
        Some(if self.probed == Probed::Loads { rate } else { 1.0 / rate })
    }
}

/// Rounds in which variants are compared, each in slices of [`TRIAL_SECONDS`].
const TRIAL_ROUNDS: usize = 15;
const TRIAL_SECONDS: f64 = 60e-6;
/// What a variant must be quicker by than those listed after it: less is left to chance.
const WORTH: f64 = 1.01;

/// Of the kernels that do the same ([`variants`]), the one that is quickest on the calling thread's core, in some milliseconds;
/// at once where there is no other. Each is timed in every round from the same start, and the medians count.
pub fn quickest(kernel: &'static Kernel) -> &'static Kernel {
    if kernel.chains {
        return kernel;
    }
    let others = variants(kernel.op, kernel.element, kernel.isa);
    let mut loaded: Vec<LoadedKernel> = others.filter_map(|other| other.load().ok()).collect();
    if loaded.len() < 2 {
        return kernel;
    }
    // The last listed is the steadiest: one that is quick only in a lucky phase must not take its place by chance.
    loaded.reverse();
    let operations = |kernel: &LoadedKernel| kernel.kernel().operations_per_turn() as f64;
    let trials = loaded.iter_mut().map(|one| {
        let trial = (0..3).map(|_| time(one, TRIAL_TURNS)).fold(f64::INFINITY, f64::min);
        ((TRIAL_SECONDS / trial * TRIAL_TURNS as f64) as u64).max(1)
    });
    let turns: Vec<u64> = trials.collect();
    let mut rates = vec![Vec::with_capacity(TRIAL_ROUNDS); loaded.len()];
    for _ in 0..TRIAL_ROUNDS {
        for ((one, &turns), rates) in loaded.iter_mut().zip(&turns).zip(&mut rates) {
            rates.push(turns as f64 * operations(one) / time(one, turns));
        }
    }
    let medians = rates.iter_mut().map(|rates| {
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(0.0)
    });
    let mut each = loaded.iter().map(LoadedKernel::kernel).zip(medians);
    let first = each.next();
    let better = |best: (&'static Kernel, f64), other: (&'static Kernel, f64)| {
        if other.1 > best.1 * WORTH { other } else { best }
    };
    first.map_or(kernel, |first| each.fold(first, better).0)
}

/// Seconds that so many turns of a kernel take.
pub(crate) fn time(kernel: &mut LoadedKernel, turns: u64) -> f64 {
    let start = Instant::now();
    kernel.run(turns);
    let seconds = start.elapsed().as_secs_f64();
    kernel.reset();
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each number of chains is a measurement of its own, also if the instruction set has several kernels for the operation.
    #[test]
    fn a_kernel_with_a_number_of_chains_is_never_replaced() {
        for kernel in crate::kernel::chained() {
            assert_eq!(quickest(kernel).name, kernel.name);
        }
    }
    use crate::kernel::{find, kernels};

    #[test]
    fn the_quickest_is_one_of_those_that_do_the_same() {
        for kernel in kernels().filter(|kernel| kernel.available().is_ok() && !kernel.is_variant()) {
            let chosen = quickest(kernel);
            let same =
                find(chosen.op, chosen.element, chosen.isa).is_some_and(|first| first.name == kernel.name);
            assert!(same, "{} for {}", chosen.name, kernel.name);
        }
    }

    #[test]
    fn loads_and_latencies_are_plausible_where_the_clock_is_known() {
        for isa in Isa::ALL {
            for one in loops(isa) {
                let Ok(clock) = CoreClock::calibrate(ProbeWork::floating_point(isa)) else { continue };
                let plausible = match one.probed {
                    Probed::Loads => 0.1..5.0,
                    Probed::FmaLatency | Probed::AddLatency => 0.9..40.0,
                };
                let measured = one.measured(&clock);
                assert!(measured.is_none_or(|value| plausible.contains(&value)), "{one:?}: {measured:?}");
            }
        }
    }
}
