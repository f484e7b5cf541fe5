//! Runs all bursts on one CPU under changing conditions, and records the wrong answers.

use std::fmt;
use std::time::Duration;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::SeedableRng;
use plimsoll_metal::fault;
use rand::seq::SliceRandom;

use super::burst::{Burst, BurstMaker, WrongBurst};

/// Bursts of a kernel before the next kernel's turn.
pub(super) const BURSTS_PER_VISIT: u64 = 10;
/// One pass over the kernels among this number of passes follows a short pause.
const PASSES_PER_PULSE: u64 = 8;
/// One pass among this number has a pause before each kernel.
const PASSES_PER_IDLE: u64 = 70;
/// Longer than the kernel waits before it lowers a clock or chooses a deep C-state.
const PAUSE: Duration = Duration::from_millis(2);
const KERNEL_PAUSE: Duration = Duration::from_micros(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BurstCondition {
    /// No pause: the core is warm, and its clock is that of full load.
    Loaded,
    /// Milliseconds of work after a pause of milliseconds.
    Pulsed,
    /// The core was idle just before: low clock or voltage, caches and units may have been off.
    Idle,
}

impl fmt::Display for BurstCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loaded => "at full load",
            Self::Pulsed => "in milliseconds of work after a pause",
            Self::Idle => "just after idling",
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct WrongKernel {
    pub(super) index: usize,
    pub(super) kernel: String,
    pub(super) first: WrongBurst,
    /// Input of the first wrong answer.
    pub(super) input: u64,
    /// Condition of the first wrong answer.
    pub(super) condition: BurstCondition,
    pub(super) count: u64,
}

/// The bursts of one CPU, to be used on a thread that is pinned to it.
pub(super) struct CpuProof {
    cpu: usize,
    pub(super) bursts: Vec<Box<dyn Burst>>,
    order: Vec<usize>,
    random: ChaCha8Rng,
    passes: u64,
    pub(super) wrong: Vec<WrongKernel>,
}

impl CpuProof {
    /// Makes the bursts on the calling thread, which must be pinned to `cpu`; `seed` decides their
    /// order. Fails with a reason.
    pub(super) fn new(makers: &[BurstMaker], cpu: usize, seed: u64) -> Result<Self, String> {
        let bursts = makers.iter().map(|maker| maker(cpu)).collect::<Result<Vec<_>, _>>()?;
        let random = ChaCha8Rng::seed_from_u64(seed.wrapping_add(cpu as u64));
        let order = (0..bursts.len()).collect();
        Ok(Self { cpu, bursts, order, random, passes: 0, wrong: Vec::new() })
    }

    /// Runs `bursts` bursts of each kernel in random order, [`BURSTS_PER_VISIT`] at a time.
    pub(super) fn run(&mut self, bursts: u64) {
        for _ in 0..bursts.div_ceil(BURSTS_PER_VISIT) {
            let condition = match self.passes {
                pass if pass % PASSES_PER_IDLE == 1 => BurstCondition::Idle,
                pass if pass % PASSES_PER_PULSE == 2 => BurstCondition::Pulsed,
                _ => BurstCondition::Loaded,
            };
            if condition == BurstCondition::Pulsed {
                std::thread::sleep(PAUSE);
            }
            self.order.shuffle(&mut self.random);
            for place in 0..self.order.len() {
                if condition == BurstCondition::Idle {
                    std::thread::sleep(KERNEL_PAUSE);
                }
                self.visit(self.order[place], BURSTS_PER_VISIT, condition);
            }
            self.passes += 1;
        }
    }

    /// Runs `bursts` bursts of kernel number `index`; records wrong answers with `condition`.
    pub(super) fn visit(&mut self, index: usize, bursts: u64, condition: BurstCondition) {
        let burst = &mut self.bursts[index];
        for input in 0..bursts {
            burst.run(input);
            if let Some(random) = fault::flip(self.cpu, burst.name()) {
                burst.invert_bit(random);
            }
            let Err(first) = burst.compare(input) else { continue };
            match self.wrong.iter_mut().find(|wrong| wrong.index == index) {
                Some(wrong) => wrong.count += 1,
                None => {
                    let kernel = burst.name().to_owned();
                    self.wrong.push(WrongKernel { index, kernel, first, input, condition, count: 1 });
                }
            }
        }
    }
}
