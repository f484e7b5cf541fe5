use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::crew::Crew;
use super::schedule::{NextWork, RunningTask, TaskSchedule};

#[derive(Debug)]
pub(super) struct TaskGate {
    schedule: Mutex<TaskSchedule>,
    changed: Condvar,
    crews: Vec<Crew>,
}

/// A task in progress, finished on drop. After a panic no further task is handed out.
#[derive(Debug)]
pub(super) struct TakenTask<'run> {
    gate: &'run TaskGate,
    pub(super) running: RunningTask,
}

#[derive(Debug)]
pub(super) enum MemberOrder<'run> {
    Task(TakenTask<'run>),
    Help(TaskShare<'run>),
}

#[derive(Debug)]
pub(super) struct TaskShare<'run> {
    gate: &'run TaskGate,
    running: RunningTask,
    before: usize,
}

impl TaskShare<'_> {
    pub(super) fn help(&self) {
        let crew = &self.gate.crews[self.running.leader];
        crew.help(self.running.number, crew.first_of(self.before));
    }
}

impl Drop for TaskShare<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.gate.schedule().stopped = true;
        }
    }
}

impl TaskGate {
    pub(super) fn new(panels: usize, blocks: usize, members: usize, alone: bool) -> Self {
        let crews: Vec<Crew> = (0..members).map(|_| Crew::new(members, alone)).collect();
        let parts = crews.first().map_or(1, Crew::parts);
        let schedule = TaskSchedule::new(panels, blocks, members, parts);
        Self { schedule: Mutex::new(schedule), changed: Condvar::new(), crews }
    }

    fn schedule(&self) -> MutexGuard<'_, TaskSchedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a task that thread `member` can run or help with; `None` at the end or on failure.
    pub(super) fn take(&self, member: usize) -> Option<MemberOrder<'_>> {
        let mut schedule = self.schedule();
        loop {
            match schedule.next(member) {
                NextWork::Run(running) => {
                    // Before another thread can be sent to help.
                    self.crews[member].open(running.number);
                    return Some(MemberOrder::Task(TakenTask { gate: self, running }));
                }
                NextWork::Help { running, before } => {
                    return Some(MemberOrder::Help(TaskShare { gate: self, running, before }));
                }
                NextWork::Wait => {
                    schedule = self.changed.wait(schedule).unwrap_or_else(PoisonError::into_inner);
                }
                NextWork::Over => return None,
            }
        }
    }

    /// Starts no further tasks, because the matrix has no pivot in `column`.
    pub(super) fn fail(&self, column: usize) {
        let mut schedule = self.schedule();
        schedule.failure.get_or_insert(column);
        schedule.stopped = true;
    }

    pub(super) fn failure(&self) -> Option<usize> {
        self.schedule().failure
    }
}

impl TakenTask<'_> {
    pub(super) fn crew(&self) -> &Crew {
        &self.gate.crews[self.running.leader]
    }
}

impl Drop for TakenTask<'_> {
    fn drop(&mut self) {
        let mut schedule = self.gate.schedule();
        schedule.finish(self.running);
        // Not earlier: helpers would be sent to this task again.
        self.crew().close();
        if std::thread::panicking() {
            schedule.stopped = true;
        }
        drop(schedule);
        self.gate.changed.notify_all();
    }
}
