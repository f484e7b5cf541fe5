//! Instructions that a core starts per cycle: the rate of a kernel divided by the clock. This is a
//! lower bound: a busy sibling thread, a quota or throttling only lowers it.

use std::time::Instant;

use crate::arch::native;
use crate::clock::{CoreClock, ProbeWork};
use crate::isa::Isa;
use crate::kernel::{ComputeKernel, LoadedKernel, variants};

const SLICES: usize = 12;
const FEWEST: usize = 4;
/// Maximum number of slices: on a busy machine most have no steady clock.
const MOST_SLICES: usize = 60;
const SLICE_SECONDS: f64 = 100e-6;
const CLOCK_TOLERANCE: f64 = 0.01;
const TRIAL_TURNS: u64 = 2_000;

/// Calibrates a core clock probe on the calling thread for the kind of instructions in `kernel`.
pub fn clock_for(kernel: &ComputeKernel) -> Result<CoreClock, crate::clock::ClockUnknown> {
    CoreClock::calibrate(ProbeWork::of(kernel))
}

/// Measures how many arithmetic instructions of `kernel` the calling thread's core starts per
/// cycle, in some ms; pin the thread first. `None` if the core clock was too unsteady.
pub fn per_cycle(mut kernel: LoadedKernel, clock: &CoreClock) -> Option<f64> {
    let counted = kernel.kernel().parts.iter().filter(|part| part.operations > 0);
    let each: u32 = counted.map(|part| part.count).sum();
    measure_per_cycle(each, clock, |turns| time(&mut kernel, turns))
}

/// Measures the instructions per cycle of a loop with `each` instructions per iteration; `time`
/// runs the given iterations and returns seconds. `None` if the core clock was too unsteady.
fn measure_per_cycle(each: u32, clock: &CoreClock, mut time: impl FnMut(u64) -> f64) -> Option<f64> {
    let trial = (0..3).map(|_| time(TRIAL_TURNS)).fold(f64::INFINITY, f64::min);
    let turns = ((SLICE_SECONDS / trial * TRIAL_TURNS as f64) as u64).max(1);
    let mut rates = Vec::with_capacity(SLICES);
    // With a busy sibling the clock reads slightly low, and the rate would look too high.
    let probe = || clock.probe_sharing().filter(|probe| !probe.shared).map(|probe| probe.hz);
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
    // The upper half was not interrupted; its middle is no slice that a wrong probe made look fast.
    (rates.len() >= FEWEST).then(|| rates.get(rates.len() * 3 / 4).copied()).flatten()
}

/// Quantity that a [`InstructionLoop`] measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probed {
    /// Loads of whole vectors from the level-1 cache per cycle.
    Loads,
    /// Latency of a dependent fused multiply-add, in cycles.
    FmaLatency,
    /// Latency of a dependent floating-point addition, in cycles.
    AddLatency,
}

const PER_TURN: u32 = 16;

#[derive(Debug)]
#[repr(C, align(64))]
struct LoadVector([f64; 8 * PER_TURN as usize]);

/// A loop of one repeated instruction.
#[derive(Debug)]
pub struct InstructionLoop {
    /// Instruction set of the loop.
    pub isa: Isa,
    /// Quantity that it measures.
    pub probed: Probed,
    /// Vector width in bits.
    pub bits: u32,
    /// Runs `turns` > 0 iterations of [`PER_TURN`] instructions. Needs `isa` and a [`LoadVector`].
    pub(crate) function: unsafe fn(turns: u64, place: *const u8),
}

/// Returns the loops of one instruction that measure a core, for `isa`; none if this CPU lacks it.
pub fn loops(isa: Isa) -> impl Iterator<Item = &'static InstructionLoop> {
    native::PROBE_LOOPS.iter().filter(move |one| one.isa == isa && isa.available().is_ok())
}

impl InstructionLoop {
    /// Measures loads per cycle or a latency in cycles ([`InstructionLoop::probed`]) on the calling
    /// thread's core; `None` without the instruction set, or if the clock was too unsteady.
    pub fn measure(&self, clock: &CoreClock) -> Option<f64> {
        self.isa.available().ok()?;
        let place = LoadVector([1.0; 8 * PER_TURN as usize]);
        let rate = measure_per_cycle(PER_TURN, clock, |turns| {
            let start = Instant::now();
            // SAFETY: the set is available, `turns` is positive, and the place fits every load.
            unsafe { (self.function)(turns, std::ptr::from_ref(&place).cast()) };
            start.elapsed().as_secs_f64()
        })?;
        Some(if self.probed == Probed::Loads { rate } else { 1.0 / rate })
    }
}

const TRIAL_ROUNDS: usize = 15;
const TRIAL_SECONDS: f64 = 60e-6;
/// Minimum speedup over the preferred variant: less may be chance.
const WORTH: f64 = 1.01;

/// Times the [`variants`] of `kernel` on the calling thread's core in some ms; returns the fastest.
pub fn fastest_variant(kernel: &'static ComputeKernel) -> &'static ComputeKernel {
    if kernel.chains {
        return kernel;
    }
    let others = variants(kernel.op, kernel.element, kernel.isa);
    let mut loaded: Vec<LoadedKernel> = others.filter_map(|other| other.load().ok()).collect();
    if loaded.len() < 2 {
        return kernel;
    }
    // The last is the steadiest: one that is fast only in a lucky phase must not win by chance.
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
    let better = |best: (&'static ComputeKernel, f64), other: (&'static ComputeKernel, f64)| {
        if other.1 > best.1 * WORTH { other } else { best }
    };
    first.map_or(kernel, |first| each.fold(first, better).0)
}

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
    use crate::kernel::{chained, find, kernels};

    #[test]
    fn the_quickest_is_one_of_those_that_do_the_same_and_of_a_number_of_chains_the_kernel_itself() {
        for kernel in chained() {
            assert_eq!(fastest_variant(kernel).name, kernel.name);
        }
        for kernel in kernels().filter(|kernel| kernel.available().is_ok() && !kernel.is_variant()) {
            let chosen = fastest_variant(kernel);
            let first = find(chosen.op, chosen.element, chosen.isa).unwrap();
            assert_eq!(first.name, kernel.name, "{}", chosen.name);
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
                let measured = one.measure(&clock);
                assert!(measured.is_none_or(|value| plausible.contains(&value)), "{one:?}: {measured:?}");
            }
        }
    }
}
