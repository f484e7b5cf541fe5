//! Solves a dense system of linear equations in f64: LU factorisation with partial pivoting, on a team of threads.
//!
//! The matrix is cut into blocks of columns. A thread factors the next block (a "panel") while the others still apply
//! the one before to theirs, so nearly all time goes into multiplication. The right-hand side is a last column, so L
//! is used at once and its rows never need exchanging later; x follows from U at the end.

mod apply;
mod back;
mod crew;
mod gate;
mod grid;
pub(crate) mod narrow;
mod panel;
mod schedule;

use std::sync::{Mutex, PoisonError, RwLock};

use crate::arch::{native, reference_lu};
use crate::buffer::{Buffer, BufferError, Pages, Resident};
use crate::clock::ProbeWork;
use crate::gemm::{Caches, NoTile, tile_for};
use crate::isa::Isa;
use crate::team::{Team, TeamError};
use crate::watch::{Clocks, Watch};
use apply::{Strips, together};
use back::Back;
use crew::Crew;
use gate::{Gate, Order, Taken};
use grid::Grid;
use panel::{Bench, Factored, Kernels, NoPivot, Place};
use schedule::Task;

/// Widest block of columns.
pub const MOST_BLOCK: usize = 1024;

/// Why a system was not solved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LuError {
    /// No kernels for this instruction set here.
    #[error(transparent)]
    NoTile(#[from] NoTile),
    /// No memory for the system or the factored panels.
    #[error("not enough memory for the system: {0}")]
    Memory(#[from] BufferError),
    /// The team failed.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// Sizes that cannot be.
    #[error(
        "a system of {rows} equations in blocks of {block} columns cannot be set up: give 1 to {} equations and \
         blocks of 1 to {MOST_BLOCK} columns",
        i32::MAX
    )]
    Size {
        /// Equations asked for.
        rows: usize,
        /// Width of the blocks asked for.
        block: usize,
    },
    /// The matrix has no inverse, or a number in it is not finite.
    #[error("the matrix is singular: column {column} has no pivot (or holds numbers that are not finite)")]
    Singular {
        /// The first column without a pivot, from 0.
        column: usize,
    },
}

/// A system's size and how it is cut, for one instruction set.
#[derive(Debug, Clone, Copy)]
pub struct System {
    rows: usize,
    block: usize,
    kernels: Kernels,
    grid: Grid,
    /// Columns of a block that are done together.
    together: usize,
}

impl System {
    /// `rows` equations in blocks of `block` columns, which is rounded up to whole register tiles; `caches` are those of each core.
    ///
    /// # Errors
    /// No kernels for `isa` on this processor, or sizes beyond bounds.
    pub fn new(isa: Isa, caches: Caches, rows: usize, block: usize) -> Result<Self, LuError> {
        let kernels = kernels(isa)?;
        let (height, width) = (kernels.tile.rows, kernels.tile.columns);
        let size = LuError::Size { rows, block };
        if rows == 0 || i32::try_from(rows).is_err() || block == 0 || block > MOST_BLOCK {
            return Err(size);
        }
        let grid = Grid::new(rows, height, width).ok_or(size)?;
        let block = block.next_multiple_of(grid::unit(height, width)).min(grid.order);
        let together = together(kernels, block, caches.second);
        Ok(Self { rows, block, kernels, grid, together })
    }

    /// Equations and unknowns.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of a block, as rounded.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Bytes that [`Lu::new`] takes: the system, and what is needed beside it.
    pub fn bytes(&self, members: usize) -> usize {
        let own = Bench::bytes(self.grid.order, self.block)
            .saturating_add(Strips::bytes(self.block, self.together));
        let panels = Factored::bytes(self.block).saturating_mul(self.panels());
        let system = self.grid.elements().saturating_add(self.grid.order).saturating_mul(size_of::<f64>());
        system.saturating_add(panels).saturating_add(own.saturating_mul(members))
    }

    fn panels(&self) -> usize {
        self.grid.order.div_ceil(self.block)
    }
}

/// What a solution was like.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Solved {
    /// The core clock of each thread while it ran.
    pub clocks: Clocks,
}

/// A system in memory, and all that is needed to solve it.
#[derive(Debug)]
pub struct Lu {
    system: System,
    /// The matrix and the right-hand side, in strips.
    numbers: Buffer,
    solution: Vec<f64>,
    factored: Vec<RwLock<Factored>>,
    workers: Vec<Worker>,
    /// Whether threads without work may wait for a share of another's: each has a CPU of its own.
    alone: bool,
}

/// What a member of the team has for itself.
#[derive(Debug)]
struct Worker {
    bench: Bench,
    strips: Strips,
    watch: Watch,
}

fn kernels(isa: Isa) -> Result<Kernels, NoTile> {
    let tile = tile_for::<f64>(isa)?;
    let mut all = std::iter::once(&reference_lu::NARROW).chain(native::NARROWS);
    let narrow = all.find(|narrow| narrow.isa == isa).ok_or(NoTile::Unwritten { isa })?;
    Ok(Kernels { tile, narrow })
}

impl Lu {
    /// Takes the memory for a system, and calibrates the core clock on each of the team's processors. The matrix is
    /// zero until it is filled. `unlimited` says that the threads may use all the time of their processors: without it, as under
    /// a quota, none waits for a share of another's task, because waiting uses time as well.
    ///
    /// # Errors
    /// No memory, or a team that fails.
    pub fn new(system: System, team: &mut Team, unlimited: bool) -> Result<Self, LuError> {
        let numbers = Buffer::new(system.grid.elements() * size_of::<f64>(), Pages::Thp)?;
        let factored = (0..system.panels()).map(|_| Factored::new(system.block).map(RwLock::new));
        let factored = factored.collect::<Result<_, _>>()?;
        let workers = team.run(|_| -> Result<Worker, BufferError> {
            Ok(Worker {
                bench: Bench::new(system.grid.order, system.block)?,
                strips: Strips::new(system.block, system.together)?,
                watch: Watch::new(ProbeWork::floating_point(system.kernels.tile.isa)),
            })
        })?;
        let workers = workers.into_iter().collect::<Result<_, _>>()?;
        let (solution, alone) = (vec![0.0; system.grid.order], unlimited && !team.shares_cpus());
        Ok(Self { system, numbers, solution, factored, workers, alone })
    }

    /// What this was set up for.
    pub fn system(&self) -> System {
        self.system
    }

    /// Sets every element, on the threads of the team. `element` fills what it is given with the numbers of one column
    /// from one row down: (row, column, numbers). The column after the last of the matrix is the right-hand side.
    ///
    /// # Errors
    /// [`TeamError`] where `element` panics.
    pub fn fill<F>(&mut self, team: &mut Team, element: F) -> Result<(), TeamError>
    where
        F: Fn(usize, usize, &mut [f64]) + Sync,
    {
        let System { rows, grid, .. } = self.system;
        let strips = (grid.order / grid.height).div_ceil(team.count());
        let mut shares: Vec<&mut [f64]> =
            self.numbers.floats_mut().chunks_mut(strips * grid.stride).collect();
        shares.resize_with(team.count(), Default::default);
        team.run_each(&mut shares, |member, share| {
            for (strip, numbers) in share.chunks_mut(grid.stride).enumerate() {
                let first = (member.index * strips + strip) * grid.height;
                let real = rows.saturating_sub(first).min(grid.height);
                for (column, numbers) in numbers.chunks_mut(grid.height).take(grid.columns).enumerate() {
                    let (numbers, beyond) = numbers.split_at_mut(real);
                    match column {
                        _ if column < rows => element(first, column, numbers),
                        _ if column == grid.order => element(first, rows, numbers),
                        _ => numbers.fill(0.0),
                    }
                    // The identity, where the order is rounded up.
                    for (row, number) in (first + real..).zip(beyond) {
                        *number = f64::from(u8::from(row == column));
                    }
                }
            }
        })?;
        Ok(())
    }

    /// What of the matrix is resident, and in which pages.
    ///
    /// # Errors
    /// [`BufferError`] where the kernel does not tell.
    pub fn resident(&self) -> Result<Resident, BufferError> {
        self.numbers.resident()
    }

    /// Solves the system. The matrix is overwritten: fill it again before the next time.
    ///
    /// # Errors
    /// [`LuError::Singular`], or [`LuError::Team`] if this is not the team that was set up.
    pub fn solve(&mut self, team: &mut Team) -> Result<Solved, LuError> {
        self.factor(team)?;
        let System { rows, block, kernels, grid, .. } = self.system;
        let numbers = self.numbers.floats();
        for (row, y) in self.solution.iter_mut().enumerate() {
            *y = numbers[grid.row(row) + grid.order * grid.step()];
        }
        let parts = self.solution.chunks_mut(block).map(Mutex::new).collect();
        let back = Back { narrow: kernels.narrow, grid, numbers, block, parts };
        team.run(|member| back.run(member))?;
        debug_assert!(self.solution[rows..].iter().all(|x| *x == 0.0), "the identity's unknowns are zero");
        Ok(Solved { clocks: Clocks::of(self.workers.iter().map(|worker| &worker.watch)) })
    }

    /// x, when the system is solved.
    pub fn solution(&self) -> &[f64] {
        &self.solution[..self.system.rows]
    }

    /// Factors the matrix, and makes of the right-hand side what is left to solve with U.
    fn factor(&mut self, team: &mut Team) -> Result<(), LuError> {
        let system = self.system;
        let gate = Gate::new(system.panels(), system.panels() + 1, team.count(), self.alone);
        let start = self.numbers.floats_mut().as_mut_ptr();
        let run = Run { system, start, factored: &self.factored, gate };
        team.run_each(&mut self.workers, |member, worker| run.work(member.index, worker))?;
        match run.gate.failure() {
            Some(column) => Err(LuError::Singular { column }),
            None => Ok(()),
        }
    }
}

/// One factorisation, as all members see it.
struct Run<'run> {
    system: System,
    /// The beginning of the grid.
    start: *mut f64,
    factored: &'run [RwLock<Factored>],
    gate: Gate,
}

// SAFETY: `start` is what needs care. `Lu::factor` borrows the grid exclusively for the run. A task writes the columns of its
// block, of which the schedule gives out no two tasks at a time, and reads those of a panel on its left, which the schedule
// gives out nothing of any more once it is factored. The gate's lock orders what one task wrote before what a later one reads.
// The schedule's tests prove this for any order of threads. Who helps with a task does parts that have no element in
// common, and the crew orders one phase before the next.
unsafe impl Sync for Run<'_> {}

impl Run<'_> {
    fn work(&self, member: usize, worker: &mut Worker) {
        worker.watch.reset();
        while let Some(order) = self.gate.take(member) {
            worker.watch.glance();
            match order {
                Order::Task(taken) => self.run(worker, &taken),
                Order::Help(share) => share.help(),
            }
        }
    }

    fn run(&self, worker: &mut Worker, taken: &Taken<'_>) {
        match **taken {
            Task::Factor { panel } => {
                if let Err(NoPivot(column)) = self.make(worker, panel, taken.crew()) {
                    self.gate.fail(column);
                }
            }
            Task::Apply { panel, block } => self.apply(worker, panel, block, taken.crew()),
        }
    }

    fn place(&self, panel: usize) -> Place {
        let System { block, grid, .. } = self.system;
        let first = panel * block;
        Place { grid, first, width: block.min(grid.order - first) }
    }

    fn make(&self, worker: &mut Worker, panel: usize, crew: &Crew) -> Result<(), NoPivot> {
        let mut factored = self.factored[panel].write().unwrap_or_else(PoisonError::into_inner);
        let place = self.place(panel);
        // SAFETY: the kernels were chosen for this processor, the grid made for them; the schedule gave the panel's
        // columns to this member.
        unsafe { worker.bench.factor(self.system.kernels, place, self.start, &mut factored, crew) }
    }

    fn apply(&self, worker: &mut Worker, panel: usize, block: usize, crew: &Crew) {
        let System { kernels, grid, block: width, .. } = self.system;
        let factored = self.factored[panel].read().unwrap_or_else(PoisonError::into_inner);
        // The block after the last panel is the right-hand side.
        let (first, end) = if block < self.system.panels() {
            (block * width, (block * width + width).min(grid.order))
        } else {
            (grid.order, grid.columns)
        };
        let place = self.place(panel);
        // SAFETY: as in `make`, of the block's columns; the panel is factored.
        unsafe { worker.strips.apply(kernels, place, &factored, self.start, first..end, crew) };
    }
}

#[cfg(test)]
mod tests;
