//! Which part of a factorisation may be done next: pure bookkeeping, so that any order of threads can be tested.
//!
//! The matrix is cut into blocks of columns; each of the first `panels` blocks becomes a panel. A block takes part in
//! one task at a time. Panels are factored as early as they can be, while other threads still apply the one before
//! ("look-ahead"), so that all but the first and last are hidden behind multiplications.

/// Something that one thread does alone, with one block of columns.
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
    Run(Task),
    /// Ask again when another task has finished.
    Wait,
    /// There will be no more.
    Over,
}

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
}

impl Schedule {
    /// A schedule of `blocks` ≥ `panels` blocks.
    pub(super) fn new(panels: usize, blocks: usize) -> Self {
        Self {
            panels,
            factored: 0,
            factoring: false,
            applied: vec![0; blocks],
            busy: vec![false; blocks],
            stopped: false,
        }
    }

    /// Panels that a block needs: those on its left.
    fn needed(&self, block: usize) -> usize {
        block.min(self.panels)
    }

    /// Hands out the next task.
    pub(super) fn next(&mut self) -> Next {
        let finished = self.factored == self.panels
            && (0..self.applied.len()).all(|block| self.applied[block] == self.needed(block));
        if self.stopped || finished {
            return Next::Over;
        }
        let Some(task) = self.factor().or_else(|| self.apply()) else { return Next::Wait };
        match task {
            Task::Factor { panel } => {
                self.factoring = true;
                self.busy[panel] = true;
            }
            Task::Apply { block, .. } => self.busy[block] = true,
        }
        Next::Run(task)
    }

    fn factor(&self) -> Option<Task> {
        let panel = self.factored;
        let open = panel < self.panels && !self.factoring && !self.busy[panel];
        (open && self.applied[panel] == panel).then_some(Task::Factor { panel })
    }

    /// The next panel's block first, then those that are furthest behind, from left to right.
    fn apply(&self) -> Option<Task> {
        let open =
            |block: usize| !self.busy[block] && self.applied[block] < self.factored.min(self.needed(block));
        let urgent = Some(self.factored).filter(|block| *block < self.panels && open(*block));
        let behind =
            || (0..self.applied.len()).filter(|block| open(*block)).min_by_key(|block| self.applied[*block]);
        let block = urgent.or_else(behind)?;
        Some(Task::Apply { panel: self.applied[block], block })
    }

    /// A task that was handed out is done.
    pub(super) fn finish(&mut self, task: Task) {
        match task {
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
    use super::*;
    use proptest::prelude::*;

    /// What a run must not violate, seen from outside the schedule.
    #[derive(Default)]
    struct Witness {
        factored: Vec<usize>,
        applied: Vec<Vec<usize>>,
        running: Vec<Task>,
    }

    impl Witness {
        fn start(&mut self, task: Task) {
            let block_of = |task: &Task| match *task {
                Task::Factor { panel } => panel,
                Task::Apply { block, .. } => block,
            };
            assert!(self.running.iter().all(|other| block_of(other) != block_of(&task)), "two on one block");
            match task {
                Task::Factor { panel } => {
                    assert_eq!(panel, self.factored.len());
                    assert_eq!(self.applied[panel].len(), panel, "factored before all panels were applied");
                }
                Task::Apply { panel, block } => {
                    assert!(self.factored.contains(&panel) && panel < block);
                    assert_eq!(self.applied[block].len(), panel, "panels applied out of order");
                }
            }
            self.running.push(task);
        }

        fn end(&mut self, which: usize) -> Task {
            let task = self.running.swap_remove(which);
            match task {
                Task::Factor { panel } => self.factored.push(panel),
                Task::Apply { panel, block } => self.applied[block].push(panel),
            }
            task
        }
    }

    proptest! {
        #[test]
        fn any_order_of_threads_does_every_task_once_and_in_order(
            panels in 0_usize..9, more in 0_usize..3, threads in 1_usize..6,
            order in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let blocks = panels + more;
            let mut schedule = Schedule::new(panels, blocks);
            let mut witness = Witness { applied: vec![Vec::new(); blocks], ..Witness::default() };
            let mut order = order.into_iter().cycle();
            loop {
                let next = if witness.running.len() < threads { schedule.next() } else { Next::Wait };
                match next {
                    Next::Run(task) => witness.start(task),
                    Next::Over => break,
                    Next::Wait => {
                        prop_assert!(!witness.running.is_empty(), "nothing runs and nothing may start");
                        let which = usize::from(order.next().unwrap_or(0)) % witness.running.len();
                        let task = witness.end(which);
                        schedule.finish(task);
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

    #[test]
    fn the_next_panel_is_factored_while_its_predecessor_is_still_applied() {
        let mut schedule = Schedule::new(4, 4);
        let first = Task::Factor { panel: 0 };
        assert_eq!(schedule.next(), Next::Run(first));
        assert_eq!(schedule.next(), Next::Wait);
        schedule.finish(first);
        let urgent = Task::Apply { panel: 0, block: 1 };
        assert_eq!(schedule.next(), Next::Run(urgent));
        assert_eq!(schedule.next(), Next::Run(Task::Apply { panel: 0, block: 2 }));
        schedule.finish(urgent);
        assert_eq!(schedule.next(), Next::Run(Task::Factor { panel: 1 }));
    }

    #[test]
    fn a_stopped_schedule_hands_out_nothing() {
        let mut schedule = Schedule::new(2, 2);
        schedule.stop();
        assert_eq!(schedule.next(), Next::Over);
    }
}
