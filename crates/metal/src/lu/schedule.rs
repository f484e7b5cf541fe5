//! Which part of a factorisation may be done next: pure bookkeeping, so that any order of threads can be tested.
//!
//! The matrix is cut into blocks of columns; each of the first `panels` blocks becomes a panel. A block takes part in
//! one task at a time. Panels are factored as early as they can be, while other threads still apply the one before
//! ("look-ahead"), so that multiplications hide them as long as there are enough blocks. Whoever finds no task
//! is sent to help with another one's.

/// Something that one thread does with one block of columns, with those who help it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Factors the panel.
    Factor {
        /// The panel, and its block.
        panel: usize,
    },
    /// Applies a panel's row exchanges and elimination to a block on its right.
    Apply {
        /// The panel.
        panel: usize,
        /// The block.
        block: usize,
    },
}

/// The answer to one who asks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Do this, then say [`Schedule::finish`].
    Run(Running),
    /// Help with this until it is finished.
    Help {
        /// What another one does.
        running: Running,
        /// How many helped before.
        before: usize,
    },
    /// Ask again when another task has finished.
    Wait,
    /// There will be no more.
    Over,
}

/// A task that was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Running {
    /// What is done.
    pub(super) task: Task,
    /// Who does it.
    pub(super) leader: usize,
    /// How many were handed out before.
    pub(super) number: u64,
}

/// With fewer blocks than this many for each member, the others run out of work before the next panel is there: it takes about
/// as long to apply the last panel to its block as to factor that. Then some help with it first.
const SCARCE: usize = 2;
/// One in so many members helps first with what the next panel waits for. On 16 CPUs a quarter was quicker than half (Emerald
/// Rapids, N = 8000: docs/performance.md); with two threads, both on a panel are slower than one on it
/// and one on other blocks.
const HELPS: usize = 4;

/// What is done and what is being done.
#[derive(Debug)]
pub(super) struct Schedule {
    panels: usize,
    factored: usize,
    factoring: bool,
    /// Panels applied to each block.
    applied: Vec<usize>,
    busy: Vec<bool>,
    stopped: bool,
    members: usize,
    /// How many may help with a task: each of its parts is one thread's, and the leader does some.
    most_helpers: usize,
    /// Tasks in hand, and how many help with each.
    running: Vec<(Running, usize)>,
    /// Tasks handed out.
    number: u64,
}

impl Schedule {
    /// A schedule of `blocks` ≥ `panels` blocks for so many members, whose tasks have so many parts that others may do.
    pub(super) fn new(panels: usize, blocks: usize, members: usize, parts: usize) -> Self {
        Self {
            panels,
            factored: 0,
            factoring: false,
            applied: vec![0; blocks],
            busy: vec![false; blocks],
            stopped: false,
            members,
            most_helpers: parts.saturating_sub(1),
            running: Vec::with_capacity(members),
            number: 0,
        }
    }

    /// Panels that a block needs: those on its left.
    fn needed(&self, block: usize) -> usize {
        block.min(self.panels)
    }

    /// Hands out the next task to this member, or a share of another one's.
    pub(super) fn next(&mut self, member: usize) -> Next {
        let finished = self.factored == self.panels
            && (0..self.applied.len()).all(|block| self.applied[block] == self.needed(block));
        if self.stopped || finished {
            return Next::Over;
        }
        let urgent = self.factor().or_else(|| self.urgent());
        let Some(task) = urgent.or_else(|| if self.wants_help() { None } else { self.behind() }) else {
            return self.help();
        };
        match task {
            Task::Factor { panel } => {
                self.factoring = true;
                self.busy[panel] = true;
            }
            Task::Apply { block, .. } => self.busy[block] = true,
        }
        let running = Running { task, leader: member, number: self.number };
        self.number += 1;
        self.running.push((running, 0));
        Next::Run(running)
    }

    /// The task that the next panel waits for, unless enough help with it.
    fn pressing(&self) -> Option<usize> {
        let is_next = |task| match task {
            Task::Factor { .. } => true,
            Task::Apply { block, .. } => block == self.factored,
        };
        let enough = (self.members / HELPS).min(self.most_helpers);
        self.running.iter().position(|(running, helpers)| is_next(running.task) && *helpers < enough)
    }

    /// Whether help with what the next panel waits for is worth more than another block.
    fn wants_help(&self) -> bool {
        self.applied.len() - self.factored < SCARCE * self.members && self.pressing().is_some()
    }

    /// A share of what the next panel waits for; else of the task that has the fewest helpers.
    fn help(&mut self) -> Next {
        let helped = || {
            let open =
                self.running.iter().enumerate().filter(|(_, (_, helpers))| *helpers < self.most_helpers);
            open.min_by_key(|(_, (_, helpers))| *helpers).map(|(index, _)| index)
        };
        let Some(index) = self.pressing().or_else(helped) else { return Next::Wait };
        let (running, helpers) = &mut self.running[index];
        *helpers += 1;
        Next::Help { running: *running, before: *helpers - 1 }
    }

    fn factor(&self) -> Option<Task> {
        let panel = self.factored;
        let open = panel < self.panels && !self.factoring && !self.busy[panel];
        (open && self.applied[panel] == panel).then_some(Task::Factor { panel })
    }

    /// Whether a panel may be applied to a block.
    fn open(&self, block: usize) -> bool {
        !self.busy[block] && self.applied[block] < self.factored.min(self.needed(block))
    }

    fn apply(&self, block: usize) -> Task {
        Task::Apply { panel: self.applied[block], block }
    }

    /// The next panel's block.
    fn urgent(&self) -> Option<Task> {
        let block = self.factored;
        (block < self.panels && self.open(block)).then(|| self.apply(block))
    }

    /// The blocks that are furthest behind, from left to right.
    fn behind(&self) -> Option<Task> {
        let open = (0..self.applied.len()).filter(|block| self.open(*block));
        open.min_by_key(|block| self.applied[*block]).map(|block| self.apply(block))
    }

    /// A task that was handed out is done.
    pub(super) fn finish(&mut self, running: Running) {
        self.running.retain(|(other, _)| other.number != running.number);
        match running.task {
            Task::Factor { panel } => {
                self.factoring = false;
                self.busy[panel] = false;
                self.factored += 1;
            }
            Task::Apply { block, .. } => {
                self.busy[block] = false;
                self.applied[block] += 1;
            }
        }
    }

    /// No more tasks are handed out.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    /// What a run must not violate, seen from outside the schedule.
    #[derive(Default)]
    struct Witness {
        factored: Vec<usize>,
        applied: Vec<Vec<usize>>,
        running: Vec<Running>,
        /// Those who help, in all and by task.
        helping: usize,
        helpers: BTreeMap<u64, usize>,
    }

    impl Witness {
        fn start(&mut self, running: Running) {
            let block_of = |running: &Running| match running.task {
                Task::Factor { panel } => panel,
                Task::Apply { block, .. } => block,
            };
            assert!(
                self.running.iter().all(|other| block_of(other) != block_of(&running)),
                "two on one block"
            );
            match running.task {
                Task::Factor { panel } => {
                    assert_eq!(panel, self.factored.len());
                    assert_eq!(self.applied[panel].len(), panel, "factored before all panels were applied");
                }
                Task::Apply { panel, block } => {
                    assert!(self.factored.contains(&panel) && panel < block);
                    assert_eq!(self.applied[block].len(), panel, "panels applied out of order");
                }
            }
            self.running.push(running);
        }

        fn end(&mut self, which: usize) -> Running {
            let running = self.running.swap_remove(which);
            self.helping -= self.helpers.remove(&running.number).unwrap_or(0);
            match running.task {
                Task::Factor { panel } => self.factored.push(panel),
                Task::Apply { panel, block } => self.applied[block].push(panel),
            }
            running
        }

        fn help(&mut self, running: Running, before: usize) {
            assert!(self.running.contains(&running), "help with what is not being done");
            let helpers = self.helpers.entry(running.number).or_default();
            assert_eq!(*helpers, before);
            *helpers += 1;
            self.helping += 1;
        }
    }

    proptest! {
        #[test]
        fn any_order_of_threads_does_every_task_once_and_in_order(
            panels in 0_usize..9, more in 0_usize..3, threads in 1_usize..6, parts in 1_usize..5,
            order in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let blocks = panels + more;
            let mut schedule = Schedule::new(panels, blocks, threads, parts);
            let mut witness = Witness { applied: vec![Vec::new(); blocks], ..Witness::default() };
            let mut order = order.into_iter().cycle();
            loop {
                let busy = witness.running.len() + witness.helping;
                let next = if busy < threads { schedule.next(busy) } else { Next::Wait };
                match next {
                    Next::Run(running) => witness.start(running),
                    Next::Help { running, before } => witness.help(running, before),
                    Next::Over => break,
                    Next::Wait => {
                        prop_assert!(!witness.running.is_empty(), "nothing runs and nothing may start");
                        let which = usize::from(order.next().unwrap_or(0)) % witness.running.len();
                        let running = witness.end(which);
                        schedule.finish(running);
                    }
                }
            }
            prop_assert!(witness.running.is_empty());
            prop_assert_eq!(witness.factored.len(), panels);
            for (block, applied) in witness.applied.iter().enumerate() {
                prop_assert_eq!(applied.len(), block.min(panels));
            }
        }
    }

    fn run(schedule: &mut Schedule, member: usize, task: Task) -> Running {
        match schedule.next(member) {
            Next::Run(running) if running.task == task && running.leader == member => running,
            other => panic!("{other:?} and not {task:?}"),
        }
    }

    #[test]
    fn the_next_panel_is_factored_while_its_predecessor_is_still_applied() {
        let mut schedule = Schedule::new(4, 4, 2, 1);
        let first = run(&mut schedule, 0, Task::Factor { panel: 0 });
        assert_eq!(schedule.next(1), Next::Wait);
        schedule.finish(first);
        let urgent = run(&mut schedule, 0, Task::Apply { panel: 0, block: 1 });
        run(&mut schedule, 1, Task::Apply { panel: 0, block: 2 });
        schedule.finish(urgent);
        run(&mut schedule, 0, Task::Factor { panel: 1 });
    }

    #[test]
    fn where_few_blocks_are_left_for_each_the_next_panel_has_helpers_before_other_blocks_are_done() {
        let members = 2 * HELPS;
        let mut schedule = Schedule::new(4, 5, members, members);
        let first = run(&mut schedule, 0, Task::Factor { panel: 0 });
        // Nothing else is there to do.
        for member in 1..members {
            assert_eq!(schedule.next(member), Next::Help { running: first, before: member - 1 });
        }
        schedule.finish(first);
        let urgent = run(&mut schedule, 3, Task::Apply { panel: 0, block: 1 });
        assert_eq!(schedule.next(1), Next::Help { running: urgent, before: 0 });
        assert_eq!(schedule.next(2), Next::Help { running: urgent, before: 1 });
        // They are enough.
        run(&mut schedule, 0, Task::Apply { panel: 0, block: 2 });

        // More than there are parts have nothing to do.
        let mut schedule = Schedule::new(4, 5, members, 2);
        let first = run(&mut schedule, 0, Task::Factor { panel: 0 });
        assert_eq!(schedule.next(1), Next::Help { running: first, before: 0 });
        assert_eq!(schedule.next(2), Next::Wait);

        let many = SCARCE * members + 1;
        let mut schedule = Schedule::new(many, many, members, members);
        let first = run(&mut schedule, 0, Task::Factor { panel: 0 });
        schedule.finish(first);
        run(&mut schedule, 0, Task::Apply { panel: 0, block: 1 });
        run(&mut schedule, 1, Task::Apply { panel: 0, block: 2 });
    }

    #[test]
    fn a_stopped_schedule_hands_out_nothing() {
        let mut schedule = Schedule::new(2, 2, 2, 2);
        schedule.stop();
        assert_eq!(schedule.next(0), Next::Over);
    }
}
