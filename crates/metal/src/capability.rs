//! What a core can start in a cycle, measured: the rate of a kernel's instructions beside the clock in the same power state.
//!
//! A neighbour on the core's sibling, a quota or throttling can only lower it, so a core can do at least as much.

use std::time::Instant;

use crate::clock::{CoreClock, ProbeWork};
use crate::kernel::{Kernel, LoadedKernel};

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
#[must_use]
pub fn per_cycle(mut kernel: LoadedKernel, clock: &CoreClock) -> Option<f64> {
    let counted = kernel.kernel().parts.iter().filter(|part| part.operations > 0);
    let each: u32 = counted.map(|part| part.count).sum();
    let trial = (0..3).map(|_| time(&mut kernel, TRIAL_TURNS)).fold(f64::INFINITY, f64::min);
    let turns = ((SLICE_SECONDS / trial * TRIAL_TURNS as f64) as u64).max(1);
    let mut rates = Vec::with_capacity(SLICES);
    // Beside a busy sibling the clock reads a little low, and the rate would look too high.
    let probe = || clock.look().filter(|probe| !probe.shared).map(|probe| probe.hz);
    let mut before = probe();
    for _ in 0..MOST_SLICES {
        let seconds = time(&mut kernel, turns);
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

fn time(kernel: &mut LoadedKernel, turns: u64) -> f64 {
    let start = Instant::now();
    kernel.run(turns);
    let seconds = start.elapsed().as_secs_f64();
    kernel.reset();
    seconds
}
