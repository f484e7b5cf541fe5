//! The product itself: slabs of A and B, packed and multiplied by a team.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::blocking::{Blocking, Caches};
use super::matrix::{Matrix, MatrixMut};
use super::pack::Part;
use super::share::{Block, Sharing};
use super::tile::{MAX_TILE, Operands, Tile, Update};
use super::{NoTile, Real, tile_for};
use crate::buffer::{Buffer, BufferError, Pages};
use crate::clock::ProbeWork;
use crate::isa::Isa;
use crate::team::{Member, Team, TeamError};
use crate::watch::{Clocks, Watch};

/// Depth of a slab in blocks: all of B's slab is packed before it is used, so this bounds the memory for it, and each
/// slab costs two barriers.
const SLAB_BLOCKS: usize = 16;

/// Portions of B that each thread packs: enough that none waits long for another.
const PACKS_PER_THREAD: usize = 8;

/// The sizes of a product: C is `rows` × `columns`, A `rows` × `depth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of B and C.
    pub columns: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
}

/// Why there is no product.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GemmError {
    /// No tile for this instruction set here.
    #[error(transparent)]
    NoTile(#[from] NoTile),
    /// No memory for the packed strips.
    #[error("not enough memory for the packed matrices: {0}")]
    Memory(#[from] BufferError),
    /// The team failed.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// Matrices that do not fit each other, or what was set up.
    #[error(
        "the matrices do not fit: A is {a}, B {b}, C {c}, set up for {set_up}; give A m × k, B k × n, C m × n"
    )]
    Mismatch {
        /// A's size.
        a: String,
        /// B's size.
        b: String,
        /// C's size.
        c: String,
        /// The sizes that buffers were made for.
        set_up: String,
    },
}

/// A multiplication that is set up for one shape: instruction set, blocks, buffers.
#[derive(Debug)]
pub struct Gemm<T: Real> {
    tile: &'static Tile<T>,
    blocking: Blocking,
    shape: Shape,
    /// One slab of B in strips.
    packed_b: Buffer,
    workers: Vec<Worker>,
}

/// What a member of the team has for itself.
#[derive(Debug)]
struct Worker {
    /// A block of A in strips.
    packed: Buffer,
    watch: Watch,
}

/// What a multiplication was like.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Multiplied {
    /// The core clock of each thread while it ran.
    pub clocks: Clocks,
}

impl<T: Real> Gemm<T> {
    /// Sets up for products of this shape on this team, and calibrates the core clock on each of its processors.
    ///
    /// # Errors
    /// No tile for `isa` on this processor, no memory for the packed strips, or a team that fails.
    pub fn new(isa: Isa, caches: Caches, shape: Shape, team: &mut Team) -> Result<Self, GemmError> {
        let tile = tile_for::<T>(isa)?;
        let blocking = Blocking::new(caches, tile);
        let mut packed_b = Buffer::new(slab_bytes(tile, blocking, shape), Pages::Thp)?;
        packed_b.touch()?;
        let block = blocking.rows * blocking.depth * size_of::<T>();
        let workers = team.run(|_| -> Result<Worker, BufferError> {
            let mut packed = Buffer::new(block, Pages::Thp)?;
            packed.touch()?;
            Ok(Worker { packed, watch: Watch::new(ProbeWork::floating_point(tile.isa)) })
        })?;
        let workers = workers.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { tile, blocking, shape, packed_b, workers })
    }

    /// Bytes that [`Gemm::new`] will take beside the matrices.
    ///
    /// # Errors
    /// [`NoTile`] where there is no tile for `isa`.
    pub fn buffer_bytes(isa: Isa, caches: Caches, shape: Shape, members: usize) -> Result<usize, NoTile> {
        let tile = tile_for::<T>(isa)?;
        let blocking = Blocking::new(caches, tile);
        let own = blocking.rows * blocking.depth * size_of::<T>();
        Ok(slab_bytes(tile, blocking, shape).saturating_add(own.saturating_mul(members)))
    }

    /// The name of the register tile in use.
    pub fn tile(&self) -> &'static str {
        self.tile.name
    }

    /// The block sizes in use.
    pub fn blocking(&self) -> Blocking {
        self.blocking
    }

    /// Updates `c` with `a` · `b`.
    ///
    /// # Errors
    /// [`GemmError::Mismatch`], or [`GemmError::Team`] if the team is not of the size that was set up or panics.
    pub fn multiply(
        &mut self,
        team: &mut Team,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        c: &mut MatrixMut<'_, T>,
        update: Update,
    ) -> Result<Multiplied, GemmError> {
        let shape = Shape { rows: c.rows, columns: c.columns, depth: a.columns };
        if shape != self.shape || a.rows != c.rows || b.rows != a.columns || b.columns != c.columns {
            return Err(self.mismatch(a, b, c));
        }
        let strips = shape.columns.div_ceil(self.tile.columns);
        let sharing = Sharing {
            rows: shape.rows,
            strips,
            height: self.blocking.rows,
            tile: self.tile.rows,
            threads: team.count(),
        };
        let blocks = sharing.blocks();
        let shared = Shared {
            tile: self.tile,
            depth: self.blocking.depth,
            a: Part { start: a.data.as_ptr(), rows: a.rows, columns: a.columns, stride: a.stride },
            b: Part { start: b.data.as_ptr(), rows: b.rows, columns: b.columns, stride: b.stride },
            c: c.data.as_mut_ptr(),
            c_stride: c.stride,
            columns: shape.columns,
            packed_b: T::of_mut(&mut self.packed_b).as_mut_ptr(),
            blocks: &blocks,
            next_block: AtomicUsize::new(0),
            next_strip: AtomicUsize::new(0),
        };
        if shape.depth == 0 && update == Update::Set {
            shared.clear(shape.rows);
            return Ok(Multiplied { clocks: Clocks::default() });
        }
        let slab = self.blocking.depth * SLAB_BLOCKS;
        team.run_each(&mut self.workers, |member, own| {
            own.watch.reset();
            for start in (0..shape.depth).step_by(slab) {
                let slab = start..(start + slab).min(shape.depth);
                let update = if start == 0 { update } else { after_first(update) };
                // SAFETY: every member walks the same slabs, so the barriers inside keep packing and use apart;
                // the shapes were compared above, and the buffers made for them.
                unsafe { shared.slab(member, slab, own, update) };
            }
        })?;
        Ok(Multiplied { clocks: Clocks::of(self.workers.iter().map(|worker| &worker.watch)) })
    }

    fn mismatch(&self, a: Matrix<'_, T>, b: Matrix<'_, T>, c: &MatrixMut<'_, T>) -> GemmError {
        let size = |rows: usize, columns: usize| format!("{rows} × {columns}");
        let Shape { rows, columns, depth } = self.shape;
        GemmError::Mismatch {
            a: size(a.rows, a.columns),
            b: size(b.rows, b.columns),
            c: size(c.rows, c.columns),
            set_up: format!("m = {rows}, n = {columns}, k = {depth}"),
        }
    }
}

fn slab_bytes<T: Real>(tile: &Tile<T>, blocking: Blocking, shape: Shape) -> usize {
    let depth = shape.depth.min(blocking.depth * SLAB_BLOCKS).max(1);
    let columns = shape.columns.max(1).div_ceil(tile.columns).saturating_mul(tile.columns);
    depth.saturating_mul(columns).saturating_mul(size_of::<T>())
}

/// The first slab or block sets C where that was asked for; all later ones add to it.
fn after_first(update: Update) -> Update {
    if update == Update::Set { Update::Add } else { update }
}

/// What the members of a team see of one product.
struct Shared<'run, T: 'static> {
    tile: &'static Tile<T>,
    /// Depth of a block.
    depth: usize,
    a: Part<T>,
    b: Part<T>,
    c: *mut T,
    c_stride: usize,
    columns: usize,
    packed_b: *mut T,
    blocks: &'run [Block],
    next_block: AtomicUsize,
    next_strip: AtomicUsize,
}

// SAFETY: A and B are only read while `multiply` holds their borrows. Blocks of C and strips of `packed_b` are handed
// out by the counters, each to one member, and barriers stand between writing a strip and reading it.
unsafe impl<T: Real> Sync for Shared<'_, T> {}

impl<T: Real> Shared<'_, T> {
    /// Packs one slab of B together with the others, then multiplies blocks until there are none left.
    ///
    /// # Safety
    /// All members must call it with the same slabs in the same order.
    unsafe fn slab(&self, member: Member<'_>, slab: Range<usize>, own: &mut Worker, update: Update) {
        self.pack_strips(member, &slab);
        member.barrier();
        // Nobody can be packing now, and packing of the next slab begins after the other barrier.
        self.next_strip.store(0, Ordering::Relaxed);
        while let Some(block) = self.blocks.get(self.next_block.fetch_add(1, Ordering::Relaxed)) {
            own.watch.glance();
            let packed = T::of_mut(&mut own.packed).as_mut_ptr();
            let mut update = update;
            for start in slab.clone().step_by(self.depth) {
                let depth = start..(start + self.depth).min(slab.end);
                // SAFETY: the block is this member's alone, and the slab packed.
                unsafe { self.block(block, &slab, depth, packed, update) };
                update = after_first(update);
            }
        }
        member.barrier();
        self.next_block.store(0, Ordering::Relaxed);
    }

    /// Packs strips of the slab of B until there are none left. Several at a time: a processor fetches beyond the end
    /// of what it writes, and that should not be what another is writing.
    fn pack_strips(&self, member: Member<'_>, slab: &Range<usize>) {
        let strips = self.columns.div_ceil(self.tile.columns);
        let several = strips.div_ceil(member.count * PACKS_PER_THREAD).max(1);
        loop {
            let first = self.next_strip.fetch_add(several, Ordering::Relaxed);
            if first >= strips {
                return;
            }
            for start in slab.clone().step_by(self.depth) {
                for strip in first..(first + several).min(strips) {
                    self.pack_strip(slab, start, strip);
                }
            }
        }
    }

    fn pack_strip(&self, slab: &Range<usize>, start: usize, strip: usize) {
        let column = strip * self.tile.columns;
        let rows = self.depth.min(slab.end - start);
        let from = self.b.start.wrapping_add(column * self.b.stride + start);
        let columns = self.tile.columns.min(self.columns - column);
        let part = Part { start: from, rows, columns, stride: self.b.stride };
        // SAFETY: the strip was handed to this member alone, in a buffer made for whole strips.
        unsafe { (self.tile.pack_b)(part, self.strip(slab, start, rows, strip)) };
    }

    /// Where the strip of B lies that begins at row `start` of the slab and is `rows` deep.
    fn strip(&self, slab: &Range<usize>, start: usize, rows: usize, strip: usize) -> *mut T {
        let strips = self.columns.div_ceil(self.tile.columns);
        let before = (start - slab.start) * strips * self.tile.columns;
        self.packed_b.wrapping_add(before + strip * rows * self.tile.columns)
    }

    /// Multiplies one block of A with its strips of B.
    ///
    /// # Safety
    /// The block of C must be the caller's alone, its strips of B packed, and `own` have room for a block of A.
    unsafe fn block(
        &self,
        block: &Block,
        slab: &Range<usize>,
        depth: Range<usize>,
        own: *mut T,
        update: Update,
    ) {
        let (height, width) = (self.tile.rows, self.tile.columns);
        let from = self.a.start.wrapping_add(depth.start * self.a.stride + block.rows.start);
        let part = Part { start: from, rows: block.rows.len(), columns: depth.len(), stride: self.a.stride };
        // SAFETY: `own` has room for a block.
        unsafe { (self.tile.pack_a)(part, depth.len(), own) };
        for strip in block.strips.clone() {
            let b = self.strip(slab, depth.start, depth.len(), strip);
            let column = strip * width;
            let columns = width.min(self.columns - column);
            // All of the next strip of B, spread over the tiles of this one.
            let ahead = self.strip(slab, depth.start, depth.len(), strip + 1);
            let strip_bytes = depth.len() * width * size_of::<T>();
            let tiles = block.rows.len().div_ceil(height);
            let ahead_bytes = strip_bytes.div_ceil(tiles * depth.len());
            for (tile, row) in block.rows.clone().step_by(height).enumerate() {
                let rows = height.min(block.rows.end - row);
                let next = if row + height < block.rows.end {
                    column * self.c_stride + row + height
                } else {
                    (column + width) * self.c_stride + block.rows.start
                };
                let operands = Operands {
                    depth: depth.len(),
                    a: own.wrapping_add(tile * height * depth.len()),
                    b,
                    ahead: ahead.wrapping_byte_add(tile * depth.len() * ahead_bytes),
                    ahead_bytes,
                    ahead_c: self.c.wrapping_add(next),
                };
                let c = self.c.wrapping_add(column * self.c_stride + row);
                // SAFETY: the strips are packed to whole tiles, and the edge says how much of C there is.
                unsafe {
                    multiply_tile(self.tile, &operands, c, self.c_stride, Edge { rows, columns }, update)
                };
            }
        }
    }

    /// C ← 0.
    fn clear(&self, rows: usize) {
        for column in 0..self.columns {
            // SAFETY: the whole matrix is borrowed exclusively by `multiply`.
            let column =
                unsafe { std::slice::from_raw_parts_mut(self.c.wrapping_add(column * self.c_stride), rows) };
            column.fill(T::ZERO);
        }
    }
}

/// How much of a tile there is in C.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// Computes one tile; one that reaches over the edge of C by way of a block on the stack.
///
/// # Safety
/// As [`super::tile::TileFunction`], with `edge` instead of a whole tile of C.
pub(crate) unsafe fn multiply_tile<T: Real>(
    tile: &Tile<T>,
    operands: &Operands<T>,
    c: *mut T,
    c_stride: usize,
    edge: Edge,
    update: Update,
) {
    if edge.rows == tile.rows && edge.columns == tile.columns {
        // SAFETY: granted by the caller.
        unsafe { (tile.function)(operands, c, c_stride, update) };
        return;
    }
    let mut whole = [T::ZERO; MAX_TILE];
    // SAFETY: no tile is larger than `whole`.
    unsafe { (tile.function)(operands, whole.as_mut_ptr(), tile.rows, Update::Set) };
    for column in 0..edge.columns {
        for row in 0..edge.rows {
            // SAFETY: within the edge.
            let place = unsafe { &mut *c.wrapping_add(column * c_stride + row) };
            let (old, new) = (place.to_f64(), whole[column * tile.rows + row].to_f64());
            *place = T::from_f64(match update {
                Update::Set => new,
                Update::Add => old + new,
                Update::Subtract => old - new,
            });
        }
    }
}
