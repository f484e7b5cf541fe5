//! The barrier of a team: waiters spin briefly, then yield, then sleep, so that more threads than processors is fine.
//!
//! Unlike the standard one it cannot be waited at for ever: members that return are no longer expected, and a member
//! that panics breaks it for all.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Turns of spinning between two looks at the time.
const SPINS: u32 = 1_000;
/// How long is spun before yielding. To wake hundreds of sleepers takes milliseconds by estimate, not measured, in which those that woke first
/// would work alone.
const SPUN: Duration = Duration::from_millis(1);
/// Yields before sleeping.
const YIELDS: u32 = 50;

/// The answer at a barrier that a panic has broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

#[derive(Debug)]
pub(super) struct Barrier {
    state: Mutex<State>,
    wake: Condvar,
    /// Counts openings. Written under the lock, read also without it.
    generation: AtomicU32,
    broken: AtomicBool,
    /// Not where members share a processor: a spinner keeps away the one it waits for.
    spins: bool,
}

#[derive(Debug, Default)]
struct State {
    expected: usize,
    arrived: usize,
    sleeping: usize,
}

impl Barrier {
    pub(super) fn new(members_share_processors: bool) -> Self {
        Self {
            state: Mutex::new(State::default()),
            wake: Condvar::new(),
            generation: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            spins: !members_share_processors,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the barrier whole for `expected` members. Nobody may be waiting.
    pub(super) fn reset(&self, expected: usize) {
        *self.state() = State { expected, arrived: 0, sleeping: 0 };
        self.broken.store(false, Ordering::Release);
    }

    /// Waits for all expected members.
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

    /// The calling member will not come any more.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.expected = state.expected.saturating_sub(1);
        if state.arrived > 0 && state.arrived >= state.expected {
            self.open(state);
        }
    }

    /// Releases all who wait, and all who come later, with [`Broken`].
    pub(super) fn break_up(&self) {
        let state = self.state();
        self.broken.store(true, Ordering::Release);
        self.open(state);
    }

    fn open(&self, mut state: MutexGuard<'_, State>) {
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
