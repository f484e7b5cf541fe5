//! Where members of a team get their tasks: the schedule behind a lock, waiting, and the end of all waiting when one
//! fails.

use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::schedule::{Next, Schedule, Task};

/// Hands out tasks.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    /// Signalled when a task has finished.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    schedule: Schedule,
    failure: Option<usize>,
}

/// A task in hand. It counts as finished when it is dropped; if that is a panic, nobody gets another.
#[derive(Debug)]
pub(super) struct Taken<'run> {
    gate: &'run Gate,
    task: Task,
}

impl Gate {
    pub(super) fn new(panels: usize, blocks: usize) -> Self {
        let schedule = Schedule::new(panels, blocks);
        Self { state: Mutex::new(State { schedule, failure: None }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task, when there is one; `None` when all is done or has failed.
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        let mut state = self.state();
        loop {
            match state.schedule.next() {
                Next::Run(task) => return Some(Taken { gate: self, task }),
                Next::Wait => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Next::Over => return None,
            }
        }
    }

    /// No more tasks: this column has no pivot.
    pub(super) fn fail(&self, column: usize) {
        let mut state = self.state();
        state.failure.get_or_insert(column);
        state.schedule.stop();
    }

    /// The column that had no pivot.
    pub(super) fn failure(&self) -> Option<usize> {
        self.state().failure
    }
}

impl Deref for Taken<'_> {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.task
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        state.schedule.finish(self.task);
        if std::thread::panicking() {
            state.schedule.stop();
        }
        drop(state);
        self.gate.changed.notify_all();
    }
}
