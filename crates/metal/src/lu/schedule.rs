//! Decides which task of a factorisation may run next, without running it, so that tests can try
//! any order of threads. Panels are factored as early as possible while other threads still apply
//! the previous one ("look-ahead"). A thread without a task helps another one.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockTask {
    Factor { panel: usize },
    Apply { panel: usize, block: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextWork {
    /// Run this task, then call [`TaskSchedule::finish`].
    Run(RunningTask),
    Help {
        running: RunningTask,
        before: usize,
    },
    Wait,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunningTask {
    pub(super) task: BlockTask,
    pub(super) leader: usize,
    pub(super) number: u64,
}

/// Blocks left per thread below which helping with the next panel comes before other blocks, so
/// that no thread is idle before that panel is factored.
const SCARCE: usize = 2;
/// At most one in this many threads helps first with the next panel. On 16 CPUs a quarter was
/// faster than half (Emerald Rapids, N = 8000, docs/src/performance.md); of two none should.
const HELPS: usize = 4;

#[derive(Debug, Default)]
pub(super) struct TaskSchedule {
    panels: usize,
    factored: usize,
    factoring: bool,
    /// Number of panels applied to each block.
    applied: Vec<usize>,
    busy: Vec<bool>,
    /// Whether no further task is handed out.
    pub(super) stopped: bool,
    /// A column without a pivot.
    pub(super) failure: Option<usize>,
    members: usize,
    /// Largest number of helpers per task: one thread per part.
    most_helpers: usize,
    /// Tasks in progress, with their numbers of helpers.
    running: Vec<(RunningTask, usize)>,
    number: u64,
}

impl TaskSchedule {
    pub(super) fn new(panels: usize, blocks: usize, members: usize, parts: usize) -> Self {
        Self {
            panels,
            applied: vec![0; blocks],
            busy: vec![false; blocks],
            members,
            most_helpers: parts.saturating_sub(1),
            running: Vec::with_capacity(members),
            ..Self::default()
        }
    }

    /// Returns how many panels have to be applied to `block` in the whole factorisation.
    fn needed(&self, block: usize) -> usize {
        block.min(self.panels)
    }

    pub(super) fn next(&mut self, member: usize) -> NextWork {
        let finished = self.factored == self.panels
            && (0..self.applied.len()).all(|block| self.applied[block] == self.needed(block));
        if self.stopped || finished {
            return NextWork::Over;
        }
        // A panel is applied to the next panel's block first, then to the leftmost open block with
        // the fewest panels applied, unless the next panel needs help.
        let next = self.factored;
        let urgent =
            self.factor().or_else(|| (next < self.panels && self.open(next)).then(|| self.apply(next)));
        let scarce = self.applied.len() - self.factored < SCARCE * self.members;
        let wants_help = || scarce && self.find_pressing_task().is_some();
        let open = || (0..self.applied.len()).filter(|block| self.open(*block));
        let least_applied = || open().min_by_key(|block| self.applied[*block]).map(|block| self.apply(block));
        let Some(task) = urgent.or_else(|| if wants_help() { None } else { least_applied() }) else {
            return self.help();
        };
        match task {
            BlockTask::Factor { panel } => {
                self.factoring = true;
                self.busy[panel] = true;
            }
            BlockTask::Apply { block, .. } => self.busy[block] = true,
        }
        let running = RunningTask { task, leader: member, number: self.number };
        self.number += 1;
        self.running.push((running, 0));
        NextWork::Run(running)
    }

    /// Returns the index in `running` of a task that the next panel waits for, if it lacks helpers.
    fn find_pressing_task(&self) -> Option<usize> {
        let is_next = |task| match task {
            BlockTask::Factor { .. } => true,
            BlockTask::Apply { block, .. } => block == self.factored,
        };
        let enough = (self.members / HELPS).min(self.most_helpers);
        self.running.iter().position(|(running, helpers)| is_next(running.task) && *helpers < enough)
    }

    /// Assigns a helper to the task the next panel waits for, else to that with fewest; or waits.
    fn help(&mut self) -> NextWork {
        let helped = || {
            let open =
                self.running.iter().enumerate().filter(|(_, (_, helpers))| *helpers < self.most_helpers);
            open.min_by_key(|(_, (_, helpers))| *helpers).map(|(index, _)| index)
        };
        let Some(index) = self.find_pressing_task().or_else(helped) else { return NextWork::Wait };
        let (running, helpers) = &mut self.running[index];
        *helpers += 1;
        NextWork::Help { running: *running, before: *helpers - 1 }
    }

    fn factor(&self) -> Option<BlockTask> {
        let panel = self.factored;
        let open = panel < self.panels && !self.factoring && !self.busy[panel];
        (open && self.applied[panel] == panel).then_some(BlockTask::Factor { panel })
    }

    fn open(&self, block: usize) -> bool {
        !self.busy[block] && self.applied[block] < self.factored.min(self.needed(block))
    }

    fn apply(&self, block: usize) -> BlockTask {
        BlockTask::Apply { panel: self.applied[block], block }
    }

    pub(super) fn finish(&mut self, running: RunningTask) {
        self.running.retain(|(other, _)| other.number != running.number);
        match running.task {
            BlockTask::Factor { panel } => {
                self.factoring = false;
                self.busy[panel] = false;
                self.factored += 1;
            }
            BlockTask::Apply { block, .. } => {
                self.busy[block] = false;
                self.applied[block] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Witness {
        factored: Vec<usize>,
        applied: Vec<Vec<usize>>,
        running: Vec<RunningTask>,
        helpers: BTreeMap<u64, usize>,
    }

    impl Witness {
        fn start(&mut self, running: RunningTask) {
            let block_of = |running: &RunningTask| match running.task {
                BlockTask::Factor { panel } => panel,
                BlockTask::Apply { block, .. } => block,
            };
            let blocks: Vec<usize> = self.running.iter().map(block_of).collect();
            assert!(!blocks.contains(&block_of(&running)), "two on one block");
            match running.task {
                BlockTask::Factor { panel } => {
                    assert_eq!(panel, self.factored.len());
                    assert_eq!(self.applied[panel].len(), panel, "factored before all panels were applied");
                }
                BlockTask::Apply { panel, block } => {
                    assert!(self.factored.contains(&panel) && panel < block);
                    assert_eq!(self.applied[block].len(), panel, "panels applied out of order");
                }
            }
            self.running.push(running);
        }

        fn end(&mut self, which: usize) -> RunningTask {
            let running = self.running.swap_remove(which);
            self.helpers.remove(&running.number);
            match running.task {
                BlockTask::Factor { panel } => self.factored.push(panel),
                BlockTask::Apply { panel, block } => self.applied[block].push(panel),
            }
            running
        }

        fn help(&mut self, running: RunningTask, before: usize) {
            assert!(self.running.contains(&running), "help with what is not being done");
            let helpers = self.helpers.entry(running.number).or_default();
            assert_eq!(*helpers, before);
            *helpers += 1;
        }
    }

    proptest! {
        #[test]
        fn any_order_of_threads_does_every_task_once_and_in_order(
            panels in 0_usize..9, more in 0_usize..3, threads in 1_usize..6, parts in 1_usize..5,
            order in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let blocks = panels + more;
            let mut schedule = TaskSchedule::new(panels, blocks, threads, parts);
            let mut witness = Witness { applied: vec![Vec::new(); blocks], ..Witness::default() };
            let mut order = order.into_iter().cycle();
            loop {
                let busy = witness.running.len() + witness.helpers.values().sum::<usize>();
                let next = if busy < threads { schedule.next(busy) } else { NextWork::Wait };
                match next {
                    NextWork::Run(running) => witness.start(running),
                    NextWork::Help { running, before } => witness.help(running, before),
                    NextWork::Over => break,
                    NextWork::Wait => {
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

    fn run(schedule: &mut TaskSchedule, member: usize, task: BlockTask) -> RunningTask {
        match schedule.next(member) {
            NextWork::Run(running) if running.task == task && running.leader == member => running,
            other => panic!("{other:?} and not {task:?}"),
        }
    }

    #[test]
    fn the_next_panel_is_factored_while_its_predecessor_is_still_applied() {
        let mut schedule = TaskSchedule::new(4, 4, 2, 1);
        let first = run(&mut schedule, 0, BlockTask::Factor { panel: 0 });
        assert_eq!(schedule.next(1), NextWork::Wait);
        schedule.finish(first);
        let urgent = run(&mut schedule, 0, BlockTask::Apply { panel: 0, block: 1 });
        run(&mut schedule, 1, BlockTask::Apply { panel: 0, block: 2 });
        schedule.finish(urgent);
        run(&mut schedule, 0, BlockTask::Factor { panel: 1 });
    }

    #[test]
    fn where_few_blocks_are_left_for_each_the_next_panel_has_helpers_before_other_blocks_are_done() {
        let members = 2 * HELPS;
        let mut schedule = TaskSchedule::new(4, 5, members, members);
        let first = run(&mut schedule, 0, BlockTask::Factor { panel: 0 });
        for member in 1..members {
            assert_eq!(schedule.next(member), NextWork::Help { running: first, before: member - 1 });
        }
        schedule.finish(first);
        let urgent = run(&mut schedule, 3, BlockTask::Apply { panel: 0, block: 1 });
        assert_eq!(schedule.next(1), NextWork::Help { running: urgent, before: 0 });
        assert_eq!(schedule.next(2), NextWork::Help { running: urgent, before: 1 });
        // Enough helpers: the next thread gets a block.
        run(&mut schedule, 0, BlockTask::Apply { panel: 0, block: 2 });

        let mut schedule = TaskSchedule::new(4, 5, members, 2);
        let first = run(&mut schedule, 0, BlockTask::Factor { panel: 0 });
        assert_eq!(schedule.next(1), NextWork::Help { running: first, before: 0 });
        assert_eq!(schedule.next(2), NextWork::Wait);

        let many = SCARCE * members + 1;
        let mut schedule = TaskSchedule::new(many, many, members, members);
        let first = run(&mut schedule, 0, BlockTask::Factor { panel: 0 });
        schedule.finish(first);
        run(&mut schedule, 0, BlockTask::Apply { panel: 0, block: 1 });
        run(&mut schedule, 1, BlockTask::Apply { panel: 0, block: 2 });
    }

    #[test]
    fn a_stopped_schedule_hands_out_nothing() {
        let mut schedule = TaskSchedule::new(2, 2, 2, 2);
        schedule.stopped = true;
        assert_eq!(schedule.next(0), NextWork::Over);
    }
}
