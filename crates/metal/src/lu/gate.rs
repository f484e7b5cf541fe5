//! Where members of a team get their tasks: the schedule behind a lock, waiting, and the end of all waiting when one
//! fails.

use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::crew::Crew;
use super::schedule::{Next, Running, Schedule, Task};

/// Hands out tasks.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    /// Signalled when a task has finished.
    changed: Condvar,
    /// For each member, those who help with its tasks.
    crews: Vec<Crew>,
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
    running: Running,
}

/// What a member is to do.
#[derive(Debug)]
pub(super) enum Order<'run> {
    /// A task of its own.
    Task(Taken<'run>),
    /// A share of another one's.
    Help(Share<'run>),
}

/// A share of another one's task.
#[derive(Debug)]
pub(super) struct Share<'run> {
    gate: &'run Gate,
    crew: &'run Crew,
    number: u64,
    first: usize,
}

impl Share<'_> {
    /// Helps until the task is over.
    pub(super) fn help(&self) {
        self.crew.help(self.number, self.first);
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.gate.state().schedule.stop();
        }
    }
}

impl Gate {
    /// For a team of so many `members`, each of which has a CPU of its own or not.
    pub(super) fn new(panels: usize, blocks: usize, members: usize, alone: bool) -> Self {
        let crews: Vec<Crew> = (0..members).map(|_| Crew::new(members, alone)).collect();
        let parts = crews.first().map_or(1, Crew::parts);
        let schedule = Schedule::new(panels, blocks, members, parts);
        Self { state: Mutex::new(State { schedule, failure: None }), changed: Condvar::new(), crews }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this member is to do, when there is something; `None` when all is done or has failed.
    pub(super) fn take(&self, member: usize) -> Option<Order<'_>> {
        let mut state = self.state();
        loop {
            match state.schedule.next(member) {
                Next::Run(running) => {
                    // Before anybody else can be sent to help.
                    self.crews[member].open(running.number);
                    return Some(Order::Task(Taken { gate: self, running }));
                }
                Next::Help { running, before } => {
                    let crew = &self.crews[running.leader];
                    return Some(Order::Help(Share {
                        gate: self,
                        crew,
                        number: running.number,
                        first: crew.first_of(before),
                    }));
                }
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
        &self.running.task
    }
}

impl Taken<'_> {
    /// Those who help with it.
    pub(super) fn crew(&self) -> &Crew {
        &self.gate.crews[self.running.leader]
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        state.schedule.finish(self.running);
        // Not before: whoever helped would be sent here again.
        self.crew().close();
        if std::thread::panicking() {
            state.schedule.stop();
        }
        drop(state);
        self.gate.changed.notify_all();
    }
}
