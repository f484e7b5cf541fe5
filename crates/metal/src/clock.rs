//! Time, and the clock of a core, measured with a chain of dependent one-cycle integer additions,
//! also without hardware counters. The chain is interleaved with vector work like that of the load
//! (`arch::chain`), so that the core is probed in the power state in which it works.

mod calibration;
mod each;
mod links;
mod step;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::arch::chain::{VECTORS_PER_TURN, Weight, Woven};
use crate::arch::native;
use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Op, Vectors};

pub use each::WorkClocks;
use links::ChainLink;
pub use step::timer_step;

/// Links per probe: enough that some escape interrupts, in about 15 µs.
const LINKS_PER_PROBE: usize = 5;
/// Maximum excess over the shortest link of an undisturbed one: interrupts cost far more.
const LINK_TOLERANCE: f64 = 0.005;

/// Reason why the core clock cannot be measured.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ClockUnknown {
    /// There is no chain for this architecture.
    #[error("core clock unknown: no chain of one-cycle additions is written for this processor architecture")]
    NoChain,
    /// Time did not advance while the chain ran.
    #[error("core clock unknown: the monotonic clock did not advance during a chain of additions")]
    TimerStuck,
    /// Time advances in steps too long for a chain; the step in seconds.
    #[error("core clock unknown: the monotonic clock advances in steps of {:.0} ns, too long to time a chain of additions", .0 * 1e9)]
    TimerCoarse(f64),
    /// A multiplication did not take a whole number of additions; their ratio.
    #[error(
        "core clock unknown: a dependent multiplication takes {0:.3} times as long as a dependent addition, not a whole \
         number of times, so an addition is not one cycle here, or the CPU was too busy to tell"
    )]
    NotWhole(f64),
    /// The processor's counter drifted from the monotonic clock; by this share.
    #[error(
        "core clock unknown: the processor's time counter changed its rate by {:.2} % against the monotonic clock", .0 * 100.0
    )]
    TimeDrifts(f64),
}

/// Kind of instructions around a clock probe: those of the load, so that the core keeps its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeWork {
    /// `None` for scalar work.
    vectors: Option<(Isa, Weight)>,
}

impl ProbeWork {
    /// Scalar instructions only.
    pub const SCALAR: Self = Self { vectors: None };

    /// Returns the kind of work that floating-point instructions of `isa` are.
    #[must_use]
    pub fn floating_point(isa: Isa) -> Self {
        Self { vectors: Some((isa, Weight::Heavy)) }
    }

    /// Returns the kind of work that loads, stores and integer instructions of `isa` are.
    #[must_use]
    pub fn integers(isa: Isa) -> Self {
        Self { vectors: Some((isa, Weight::Light)) }
    }

    /// Returns the kind of instructions that `kernel` runs.
    #[must_use]
    pub fn of(kernel: &ComputeKernel) -> Self {
        if kernel.is_general() {
            return Self::SCALAR;
        }
        let light = kernel.op == Op::ADD && !kernel.element.is_float();
        // Scalars and 128 bits need no more power than those of the baseline.
        let isa = match kernel.isa {
            Isa::Avx2 if kernel.vector_bits() <= 128 => Isa::Sse2,
            isa => isa,
        };
        Self { vectors: Some((isa, if light { Weight::Light } else { Weight::Heavy })) }
    }

    /// Returns loops timed to get the core clock amid such vector work (for matrix and portable
    /// work, of the nearest set). `None` for scalar work, or if this CPU can run none.
    fn woven(self) -> Option<&'static Woven> {
        let (isa, weight) = self.vectors?;
        let sets: &[Isa] = match isa {
            Isa::Amx => &[Isa::Avx512, Isa::Avx2],
            Isa::Mmla => &[Isa::Neon],
            Isa::Portable => &[Isa::Sse2, Isa::Neon],
            _ => &[isa],
        };
        let rows =
            || native::WOVEN_KERNELS.iter().filter(|row| row.weight == weight && row.isa.available().is_ok());
        sets.iter().find_map(|isa| rows().find(|row| row.isa == *isa))
    }
}

/// Declared contents of a chain's loop, which a test compares with the machine code.
#[derive(Debug, Clone, Copy)]
pub struct ChainRow {
    /// Symbol of the function.
    pub name: &'static str,
    /// Instruction set of the vector work; `None` without.
    pub isa: Option<Isa>,
    /// Whether the links are multiplications instead of additions.
    pub multiplies: bool,
    /// Links per iteration.
    pub links: u64,
    /// Vector instructions per iteration.
    pub vectors: u64,
}

/// Returns every loop that clock probes may time on this architecture; some may not run here.
pub fn chains() -> impl Iterator<Item = ChainRow> {
    let woven = native::WOVEN_KERNELS
        .iter()
        .flat_map(|row| row.densities.iter().map(|density| (Some(row.isa), density)));
    let all = native::SCALAR_CHAINS.map(|density| (None, density)).into_iter().chain(woven);
    all.flat_map(|(isa, density)| {
        let [add, multiply] = density.names;
        let vectors = if isa.is_some() { VECTORS_PER_TURN } else { 0 };
        let row = |name, multiplies, links| ChainRow { name, isa, multiplies, links, vectors };
        [row(add, false, density.adds), row(multiply, true, density.multiplications)]
    })
}

/// Returns the highest core clock that the processor reports, in Hz; `None` if it reports none.
pub fn named_maximum_hz() -> Option<f64> {
    native::named_maximum_hz()
}

/// Returns the cost of reading the time once, in seconds: the lowest mean over several batches.
pub fn timer_overhead() -> f64 {
    const READING_BATCHES: u32 = 16;
    const READINGS_PER_BATCH: u32 = 256;
    let batch = || {
        let start = Instant::now();
        let mut last = start;
        for _ in 0..READINGS_PER_BATCH {
            last = std::hint::black_box(Instant::now());
        }
        last.saturating_duration_since(start).as_secs_f64() / f64::from(READINGS_PER_BATCH)
    };
    (0..READING_BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// Returns the CPU time of the calling thread. Some kernels include stolen time: not for rates.
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0).min(999_999_999))
}

/// Returns whether [`thread_cpu_time`] is precise to a millisecond: gVisor counts ticks of 10 ms,
/// whatever clock_getres(2) reports. Measured once; false if no attempt was undisturbed.
pub fn is_thread_time_precise() -> bool {
    static FINE: LazyLock<bool> = LazyLock::new(|| {
        let watch = |_| {
            let (begun, before) = (Instant::now(), thread_cpu_time());
            while begun.elapsed() < WATCHED {}
            is_precise(thread_cpu_time().saturating_sub(before), begun.elapsed())
        };
        (0..WATCHES).find_map(watch).unwrap_or(false)
    });
    *FINE
}

const WATCHED: Duration = Duration::from_micros(200);
const WATCHES: usize = 20;

/// Returns whether the CPU time `used` by a busy loop of `elapsed` is above 0 and at most
/// `elapsed`; coarse clocks give 0 or more. `None` if interrupted (`elapsed` ≥ 0.4 ms).
fn is_precise(used: Duration, elapsed: Duration) -> Option<bool> {
    (elapsed < 2 * WATCHED).then_some(!used.is_zero() && used <= elapsed)
}

/// Measures the clock of the calling thread's core. A probe averages the shortest of a few links of
/// the chain, because interrupts and steal make the clock look lower. So does a sibling thread:
/// links of additions alternate with links of multiplications, which rarely need its issue slot.
#[derive(Debug, Clone)]
pub struct CoreClock {
    /// Used in turn: additions in dense and sparser vector work, with multiplications after each.
    links: Vec<ChainLink>,
    /// Operands of the vector work, if any.
    operands: Option<Vectors>,
    /// Step of the timer in seconds.
    step: f64,
    time: step::TimeKept,
}

/// Result of a clock probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockProbe {
    /// Core clock in Hz.
    pub hz: f64,
    /// Whether a sibling thread of the core used the vector units during the probe.
    pub shared: bool,
}

impl CoreClock {
    /// Measures the current core clock in Hz; `None` if the timer did not advance.
    pub fn probe(&self) -> Option<f64> {
        self.probe_sharing().map(|probe| probe.hz)
    }

    /// Measures core clock and a sibling's use of vector units; `None` if the timer stood still.
    pub fn probe_sharing(&self) -> Option<ClockProbe> {
        let mut stamps = [Instant::now(); LINKS_PER_PROBE + 1];
        for (stamp, link) in stamps.iter_mut().skip(1).zip(self.links.iter().cycle()) {
            link.run(self.operands.as_ref());
            *stamp = Instant::now();
        }
        let mut additions = [f64::NAN; LINKS_PER_PROBE];
        for ((addition, pair), link) in
            additions.iter_mut().zip(stamps.windows(2)).zip(self.links.iter().cycle())
        {
            if let [start, end] = pair {
                *addition = link.addition_seconds(seconds(*start, *end))?;
            }
        }
        let step = self.links.iter().map(|link| self.step / link.instructions).fold(0.0, f64::max);
        let (mean, near) = undisturbed(&additions, step)?;
        // The first and last link are additions in dense work: chance must disturb both.
        let dense = near.iter().step_by(self.links.len()).any(|near| *near);
        Some(ClockProbe { hz: 1.0 / mean, shared: self.links.len() > 1 && !dense })
    }

    /// Returns whether probes run vector work like the load's; not if that would slow them.
    pub fn is_woven(&self) -> bool {
        self.links.iter().any(|link| link.woven)
    }

    /// Checks that the CPU's time counter kept its rate against the monotonic clock since
    /// calibration, to 0.2 %; succeeds without a counter of constant rate.
    pub fn check_time(&self) -> Result<(), ClockUnknown> {
        self.time.check()
    }
}

fn seconds(start: Instant, end: Instant) -> f64 {
    end.saturating_duration_since(start).as_secs_f64()
}

/// Returns the mean of the `durations` (s) within 0.5 % + `step` of the shortest, and for each
/// whether it is among them; `None` if one is not positive. `step` is the timer's resolution (s).
fn undisturbed<const N: usize>(durations: &[f64; N], step: f64) -> Option<(f64, [bool; N])> {
    let longest = longest_undisturbed(durations, step)?;
    Some((mean_up_to(durations, longest), durations.map(|duration| duration <= longest)))
}

fn longest_undisturbed(durations: &[f64], step: f64) -> Option<f64> {
    let best = durations.iter().copied().fold(f64::INFINITY, f64::min);
    (best.is_finite() && best > 0.0).then_some(best * (1.0 + LINK_TOLERANCE) + step)
}

fn mean_up_to(durations: &[f64], longest: f64) -> f64 {
    let near = durations.iter().filter(|duration| **duration <= longest);
    let (sum, count) = near.fold((0.0, 0_u32), |(sum, count), duration| (sum + duration, count + 1));
    sum / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_link_does_not_lower_the_mean_clock_and_a_timer_that_stands_still_gives_none() {
        let (mean, near) = undisturbed(&[3.0e-6, 3.01e-6, 9.0e-6, 2.99e-6], 25e-9).unwrap();
        assert!((mean - 3.0e-6).abs() < 1e-12, "{mean}");
        assert_eq!(near, [true, true, false, true]);
        assert_eq!(undisturbed(&[0.0, 3.0e-6], 0.0), None);
        assert_eq!(undisturbed(&[], 0.0), None);
    }

    #[test]
    fn probes_are_plausible_clocks_where_a_chain_exists() {
        let found = CoreClock::calibrate(ProbeWork::SCALAR).map(|clock| clock.probe().unwrap());
        let is_expected = match found {
            Ok(hz) => (1e8..1e10).contains(&hz),
            Err(reason) => matches!(reason, ClockUnknown::NoChain | ClockUnknown::NotWhole(_)),
        };
        assert!(is_expected, "{found:?}");
    }

    #[test]
    fn reading_the_time_costs_something_and_less_than_a_link() {
        let overhead = timer_overhead();
        assert!(overhead > 0.0 && overhead < 1e-4, "{overhead} s");
    }

    #[test]
    fn time_in_ticks_is_not_fine() {
        let us = Duration::from_micros;
        let precise = |times: [(u64, u64); 2]| times.map(|(thread, wall)| is_precise(us(thread), us(wall)));
        assert_eq!(precise([(199, 200), (3, 399)]), [Some(true); 2], "alone, and preempted");
        assert_eq!(precise([(0, 200), (10_000, 200)]), [Some(false); 2], "between ticks, one");
        assert_eq!(precise([(10_000, 12_000), (0, 400)]), [None; 2], "held up");
    }

    #[test]
    fn thread_time_advances_with_work_and_never_goes_back() {
        let start = thread_cpu_time();
        let changed = (0..10_000_000).map(|_| thread_cpu_time()).find(|now| *now != start);
        assert!(changed.is_some_and(|now| now > start), "{start:?} {changed:?}");
    }
}
