//! Barrier of a team. Waiting threads spin, then yield, then sleep. A returned thread is no longer
//! expected, and a panic breaks the barrier for all threads.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SPINS: u32 = 1_000;
/// Time to spin before yielding: waking hundreds of threads takes milliseconds (estimated).
const SPUN: Duration = Duration::from_millis(1);
const YIELDS: u32 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

#[derive(Debug, Default)]
pub(super) struct Barrier {
    state: Mutex<BarrierState>,
    wake: Condvar,
    generation: AtomicU32,
    broken: AtomicBool,
    spins: bool,
}

#[derive(Debug, Default)]
struct BarrierState {
    expected: usize,
    arrived: usize,
    sleeping: usize,
}

impl Barrier {
    pub(super) fn new(members_share_processors: bool) -> Self {
        Self { spins: !members_share_processors, ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, BarrierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reset(&self, expected: usize) {
        *self.state() = BarrierState { expected, arrived: 0, sleeping: 0 };
        self.broken.store(false, Ordering::Release);
    }

    pub(super) fn wait(&self) -> Result<(), Broken> {
        let mut state = self.state();
        let generation = self.generation.load(Ordering::Relaxed);
        let closed = || self.generation.load(Ordering::Acquire) == generation && !self.is_broken();
        state.arrived += 1;
        if state.arrived >= state.expected {
            self.open(state);
            return self.verdict();
        }
        drop(state);
        let begun = Instant::now();
        while self.spins && closed() && begun.elapsed() < SPUN {
            (0..SPINS).take_while(|_| closed()).for_each(|_| std::hint::spin_loop());
        }
        (0..YIELDS).take_while(|_| closed()).for_each(|_| std::thread::yield_now());
        if closed() {
            let mut state = self.state();
            state.sleeping += 1;
            while closed() {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.sleeping -= 1;
        }
        self.verdict()
    }

    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.expected = state.expected.saturating_sub(1);
        if state.arrived > 0 && state.arrived >= state.expected {
            self.open(state);
        }
    }

    pub(super) fn break_up(&self) {
        let state = self.state();
        self.broken.store(true, Ordering::Release);
        self.open(state);
    }

    fn open(&self, mut state: MutexGuard<'_, BarrierState>) {
        state.arrived = 0;
        self.generation.fetch_add(1, Ordering::Release);
        let sleepers = state.sleeping > 0;
        drop(state);
        if sleepers {
            self.wake.notify_all();
        }
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    fn verdict(&self) -> Result<(), Broken> {
        if self.is_broken() { Err(Broken) } else { Ok(()) }
    }
}
