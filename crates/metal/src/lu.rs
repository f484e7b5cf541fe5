//! Solves a dense system of linear equations in f64 by LU factorisation with partial pivoting. One
//! thread factors the next block of columns (a "panel") while the other threads apply the previous
//! one, so nearly all time goes into multiplication. The right-hand side is a last column.

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
use crate::gemm::{CoreCaches, NoTile, tile_for};
use crate::isa::Isa;
use crate::team::{Team, TeamError, has_duplicates};
use crate::watch::{TeamClocks, ThreadClock};
use apply::{Strips, columns_per_group};
use back::Back;
use crew::Crew;
use gate::{MemberOrder, TakenTask, TaskGate};
use grid::Grid;
use panel::{Factored, Kernels, NoPivot, PanelPlace, PanelWorkspace};
use schedule::BlockTask;

/// Largest width of a block, in columns.
pub const MOST_BLOCK: usize = 1024;

/// Reason why a system was not set up or solved.
#[derive(Debug, thiserror::Error)]
pub enum LuError {
    /// No kernel for this instruction set on this processor.
    #[error(transparent)]
    NoTile(#[from] NoTile),
    /// Not enough memory for the system or the factored panels.
    #[error("not enough memory for the system: {0}")]
    Memory(#[from] BufferError),
    /// A thread of the team failed.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// Number of equations or block width out of range.
    #[error(
        "a system of {rows} equations in blocks of {block} columns cannot be set up: give 1 to {} equations and \
         blocks of 1 to {MOST_BLOCK} columns",
        i32::MAX
    )]
    Size {
        /// Requested number of equations.
        rows: usize,
        /// Requested block width, in columns.
        block: usize,
    },
    /// The matrix is singular or contains a non-finite number; the first column without pivot.
    #[error("the matrix is singular: column {0} has no pivot (or holds numbers that are not finite)")]
    Singular(usize),
}

/// Size of a system and its division into blocks, for one instruction set.
#[derive(Debug, Clone, Copy)]
pub struct SystemSize {
    rows: usize,
    block: usize,
    kernels: Kernels,
    grid: Grid,
    together: usize,
}

impl SystemSize {
    /// Describes `rows` equations in blocks of `block` (≤ [`MOST_BLOCK`]) columns, padded to the
    /// kernel's tile, for a core's `caches`. Fails out of range or without a kernel for `isa`.
    pub fn new(isa: Isa, caches: CoreCaches, rows: usize, block: usize) -> Result<Self, LuError> {
        let kernels = kernels(isa)?;
        let (height, width) = (kernels.tile.rows, kernels.tile.columns);
        let size = LuError::Size { rows, block };
        if rows == 0 || i32::try_from(rows).is_err() || block == 0 || block > MOST_BLOCK {
            return Err(size);
        }
        let grid = Grid::new(rows, height, width).ok_or(size)?;
        let block = block.next_multiple_of(grid::common_multiple(height, width)).min(grid.order);
        let together = columns_per_group(kernels, block, caches.second);
        Ok(Self { rows, block, kernels, grid, together })
    }

    /// Returns the number of equations (and unknowns).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the block width in columns, rounded up to whole register tiles.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Returns the memory that [`Lu::new`] allocates for a team of `members` threads, in bytes.
    pub fn bytes(&self, members: usize) -> usize {
        let own = PanelWorkspace::bytes(self.grid.order, self.block)
            .saturating_add(Strips::bytes(self.block, self.together));
        let panels = Factored::bytes(self.block).saturating_mul(self.panels());
        let system = self.grid.elements().saturating_add(self.grid.order).saturating_mul(size_of::<f64>());
        system.saturating_add(panels).saturating_add(own.saturating_mul(members))
    }

    fn panels(&self) -> usize {
        self.grid.order.div_ceil(self.block)
    }
}

/// A system in memory, with the buffers needed to solve it.
#[derive(Debug)]
pub struct Lu {
    system: SystemSize,
    numbers: Buffer,
    solution: Vec<f64>,
    factored: Vec<RwLock<Factored>>,
    workers: Vec<LuWorker>,
    /// Whether idle threads may spin for work: each thread has its own CPU.
    alone: bool,
}

#[derive(Debug)]
struct LuWorker {
    bench: PanelWorkspace,
    strips: Strips,
    watch: ThreadClock,
}

fn kernels(isa: Isa) -> Result<Kernels, NoTile> {
    let tile = tile_for::<f64>(isa)?;
    let mut all = std::iter::once(&reference_lu::NARROW).chain(native::NARROW_KERNELS);
    let narrow = all.find(|narrow| narrow.isa == isa).ok_or(NoTile::Unwritten(isa))?;
    Ok(Kernels { tile, narrow })
}

impl Lu {
    /// Allocates the system (all zeros until [`Lu::fill`]) and calibrates the core clock on each
    /// CPU. Idle threads spin for work only if `unlimited`: there is no CPU quota.
    pub fn new(system: SystemSize, team: &mut Team, unlimited: bool) -> Result<Self, LuError> {
        let numbers = Buffer::new(system.grid.elements() * size_of::<f64>(), Pages::Thp)?;
        let factored = (0..system.panels()).map(|_| Factored::new(system.block).map(RwLock::new));
        let factored = factored.collect::<Result<_, _>>()?;
        let workers = team.run(|_| -> Result<LuWorker, BufferError> {
            Ok(LuWorker {
                bench: PanelWorkspace::new(system.grid.order, system.block)?,
                strips: Strips::new(system.block, system.together)?,
                watch: ThreadClock::new(ProbeWork::floating_point(system.kernels.tile.isa)),
            })
        })?;
        let workers = workers.into_iter().collect::<Result<_, _>>()?;
        let (solution, alone) = (vec![0.0; system.grid.order], unlimited && !has_duplicates(team.cpus()));
        Ok(Self { system, numbers, solution, factored, workers, alone })
    }

    /// Returns the size and division into blocks for which this was allocated.
    pub fn system(&self) -> SystemSize {
        self.system
    }

    /// Sets every element, on the threads of the team. `element(row, column, numbers)` fills
    /// `numbers` with the elements of `column` from `row` down; the column after the last one is
    /// the right-hand side. Fails if `element` panics.
    pub fn fill<F>(&mut self, team: &mut Team, element: F) -> Result<(), TeamError>
    where
        F: Fn(usize, usize, &mut [f64]) + Sync,
    {
        let SystemSize { rows, grid, .. } = self.system;
        let strips = (grid.order / grid.height).div_ceil(team.count());
        let mut shares: Vec<&mut [f64]> =
            self.numbers.elements_mut::<f64>().chunks_mut(strips * grid.stride).collect();
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
                    for (row, number) in (first + real..).zip(beyond) {
                        *number = f64::from(u8::from(row == column));
                    }
                }
            }
        })?;
        Ok(())
    }

    /// Returns the resident bytes of the matrix by page size.
    pub fn resident(&self) -> Result<Resident, BufferError> {
        self.numbers.resident()
    }

    /// Solves the system, overwrites the matrix (see [`Lu::fill`]), and returns the core clocks
    /// of the factorisation. Fails if the matrix is singular or `team` has another size.
    pub fn solve(&mut self, team: &mut Team) -> Result<TeamClocks, LuError> {
        self.factor(team)?;
        let SystemSize { rows, block, kernels, grid, .. } = self.system;
        let numbers = self.numbers.elements::<f64>();
        for (row, y) in self.solution.iter_mut().enumerate() {
            *y = numbers[grid.row_offset(row) + grid.order * grid.height];
        }
        let parts = self.solution.chunks_mut(block).map(Mutex::new).collect();
        let back = Back { narrow: kernels.narrow, grid, numbers, block, parts };
        team.run(|member| back.run(member))?;
        debug_assert!(self.solution[rows..].iter().all(|x| *x == 0.0), "the identity's unknowns are zero");
        Ok(TeamClocks::of(self.workers.iter().map(|worker| &worker.watch)))
    }

    /// Returns the unknowns x; valid only after [`Lu::solve`].
    pub fn solution(&self) -> &[f64] {
        &self.solution[..self.system.rows]
    }

    fn factor(&mut self, team: &mut Team) -> Result<(), LuError> {
        let system = self.system;
        let gate = TaskGate::new(system.panels(), system.panels() + 1, team.count(), self.alone);
        let start = self.numbers.elements_mut::<f64>().as_mut_ptr();
        let run = Factorisation { system, start, factored: &self.factored, gate };
        team.run_each(&mut self.workers, |member, worker| run.work(member.index, worker))?;
        match run.gate.failure() {
            Some(column) => Err(LuError::Singular(column)),
            None => Ok(()),
        }
    }
}

struct Factorisation<'run> {
    system: SystemSize,
    start: *mut f64,
    factored: &'run [RwLock<Factored>],
    gate: TaskGate,
}

// SAFETY: only `start` is not `Sync`. `Lu::factor` borrows the grid exclusively. A task writes the
// columns of its block and reads those of a factored panel on its left; the schedule gives out no
// two tasks for one block and none that writes a factored panel. The gate's lock orders tasks.
// Helpers of a task work on disjoint parts, and the crew orders phases.
unsafe impl Sync for Factorisation<'_> {}

impl Factorisation<'_> {
    fn work(&self, member: usize, worker: &mut LuWorker) {
        worker.watch.reset();
        while let Some(order) = self.gate.take(member) {
            worker.watch.probe_if_due();
            match order {
                MemberOrder::Task(taken) => self.run(worker, &taken),
                MemberOrder::Help(share) => share.help(),
            }
        }
    }

    fn run(&self, worker: &mut LuWorker, taken: &TakenTask<'_>) {
        match taken.running.task {
            BlockTask::Factor { panel } => {
                if let Err(NoPivot(column)) = self.make(worker, panel, taken.crew()) {
                    self.gate.fail(column);
                }
            }
            BlockTask::Apply { panel, block } => self.apply(worker, panel, block, taken.crew()),
        }
    }

    fn place(&self, panel: usize) -> PanelPlace {
        let SystemSize { block, grid, .. } = self.system;
        let first = panel * block;
        PanelPlace { grid, first, width: block.min(grid.order - first) }
    }

    fn make(&self, worker: &mut LuWorker, panel: usize, crew: &Crew) -> Result<(), NoPivot> {
        let mut factored = self.factored[panel].write().unwrap_or_else(PoisonError::into_inner);
        let place = self.place(panel);
        // SAFETY: kernels and grid fit this processor; this thread owns the panel's columns.
        unsafe { worker.bench.factor(self.system.kernels, place, self.start, &mut factored, crew) }
    }

    fn apply(&self, worker: &mut LuWorker, panel: usize, block: usize, crew: &Crew) {
        let SystemSize { kernels, grid, block: width, .. } = self.system;
        let factored = self.factored[panel].read().unwrap_or_else(PoisonError::into_inner);
        // The block after the last panel is the right-hand side.
        let (first, end) = if block < self.system.panels() {
            (block * width, (block * width + width).min(grid.order))
        } else {
            (grid.order, grid.columns)
        };
        let place = self.place(panel);
        // SAFETY: as in `make`, for the block's columns; the panel is factored.
        unsafe { worker.strips.apply(kernels, place, &factored, self.start, first..end, crew) };
    }
}

#[cfg(test)]
mod tests;
