use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::blocking::{Blocking, CoreCaches};
use super::matrix::{MatrixMut, MatrixView};
use super::pack::MatrixPart;
use super::share::{ProductBlock, Sharing};
use super::tile::{MAX_TILE, RegisterTile, TileOperands, Update};
use super::{NoTile, Real, tile_for};
use crate::buffer::{Buffer, BufferError, Pages};
use crate::clock::ProbeWork;
use crate::isa::Isa;
use crate::team::{Team, TeamError, TeamMember};
use crate::watch::{TeamClocks, ThreadClock};

/// Depth of a slab of B in blocks: limits its memory; each slab costs two barriers.
const SLAB_BLOCKS: usize = 16;

const PACKS_PER_THREAD: usize = 8;

/// Dimensions of a product: C is `rows` × `columns`, A is `rows` × `depth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductShape {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of B and C.
    pub columns: usize,
    /// Columns of A and rows of B.
    pub depth: usize,
}

/// Reason why a product cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum GemmError {
    /// The instruction set has no tile here.
    #[error(transparent)]
    NoTile(#[from] NoTile),
    /// The packed strips could not be allocated.
    #[error("not enough memory for the packed matrices: {0}")]
    Memory(#[from] BufferError),
    /// The team of threads failed.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// The matrices do not fit each other, or the shape of the setup.
    #[error(
        "the matrices do not fit: A is {a}, B {b}, C {c}, set up for {set_up}; give A m × k, B k × n, C m × n"
    )]
    Mismatch {
        /// Dimensions of A.
        a: String,
        /// Dimensions of B.
        b: String,
        /// Dimensions of C.
        c: String,
        /// Dimensions of the setup.
        set_up: String,
    },
}

/// A multiplication for one shape, with instruction set, block sizes and buffers.
#[derive(Debug)]
pub struct Gemm<T: Real> {
    tile: &'static RegisterTile<T>,
    blocking: Blocking,
    shape: ProductShape,
    packed_b: Buffer,
    workers: Vec<ProductWorker>,
}

#[derive(Debug)]
struct ProductWorker {
    packed: Buffer,
    watch: ThreadClock,
}

impl<T: Real> Gemm<T> {
    /// Allocates buffers for products of `shape` on `team`, in blocks that fit `caches`, and
    /// calibrates the core clock on each CPU. Fails without a kernel for `isa` or without memory.
    pub fn new(
        isa: Isa,
        caches: CoreCaches,
        shape: ProductShape,
        team: &mut Team,
    ) -> Result<Self, GemmError> {
        let tile = tile_for::<T>(isa)?;
        let blocking = Blocking::new(caches, tile);
        let packed_b = Buffer::touched(slab_bytes(tile, blocking, shape), Pages::Thp)?;
        let block = blocking.rows * blocking.depth * size_of::<T>();
        let workers = team.run(|_| -> Result<ProductWorker, BufferError> {
            let packed = Buffer::touched(block, Pages::Thp)?;
            Ok(ProductWorker { packed, watch: ThreadClock::new(ProbeWork::floating_point(tile.isa)) })
        })?;
        let workers = workers.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { tile, blocking, shape, packed_b, workers })
    }

    /// Returns the bytes that [`Gemm::new`] allocates for `members` threads, if `isa` has a kernel.
    pub fn buffer_bytes(
        isa: Isa,
        caches: CoreCaches,
        shape: ProductShape,
        members: usize,
    ) -> Result<usize, NoTile> {
        let tile = tile_for::<T>(isa)?;
        let blocking = Blocking::new(caches, tile);
        let own = blocking.rows * blocking.depth * size_of::<T>();
        Ok(slab_bytes(tile, blocking, shape).saturating_add(own.saturating_mul(members)))
    }

    /// Returns the name of the innermost kernel, such as `gemm_f64_avx2`.
    pub fn tile(&self) -> &'static str {
        self.tile.name
    }

    /// Returns the block sizes that were chosen for the caches.
    pub fn blocking(&self) -> Blocking {
        self.blocking
    }

    /// Sets `c` to `a`·`b`, or adds or subtracts the product, as `update` selects. Returns the
    /// threads' core clocks. Fails if the dimensions or the team's size differ from [`Gemm::new`].
    pub fn multiply(
        &mut self,
        team: &mut Team,
        a: MatrixView<'_, T>,
        b: MatrixView<'_, T>,
        c: &mut MatrixMut<'_, T>,
        update: Update,
    ) -> Result<TeamClocks, GemmError> {
        let shape = ProductShape { rows: c.rows, columns: c.columns, depth: a.columns };
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
        let shared = SharedProduct {
            tile: self.tile,
            depth: self.blocking.depth,
            a: MatrixPart { start: a.data.as_ptr(), rows: a.rows, columns: a.columns, stride: a.stride },
            b: MatrixPart { start: b.data.as_ptr(), rows: b.rows, columns: b.columns, stride: b.stride },
            c: c.data.as_mut_ptr(),
            c_stride: c.stride,
            columns: shape.columns,
            packed_b: self.packed_b.elements_mut::<T>().as_mut_ptr(),
            blocks: &blocks,
            next_block: AtomicUsize::new(0),
            next_strip: AtomicUsize::new(0),
        };
        if shape.depth == 0 && update == Update::Set {
            shared.clear(shape.rows);
            return Ok(TeamClocks::default());
        }
        let slab = self.blocking.depth * SLAB_BLOCKS;
        team.run_each(&mut self.workers, |member, own| {
            own.watch.reset();
            for start in (0..shape.depth).step_by(slab) {
                let slab = start..(start + slab).min(shape.depth);
                let update = if start == 0 { update } else { after_first(update) };
                // SAFETY: all members visit the same slabs: barriers separate uses; shapes match.
                unsafe { shared.multiply_slab(member, slab, own, update) };
            }
        })?;
        Ok(TeamClocks::of(self.workers.iter().map(|worker| &worker.watch)))
    }

    fn mismatch(&self, a: MatrixView<'_, T>, b: MatrixView<'_, T>, c: &MatrixMut<'_, T>) -> GemmError {
        let size = |rows: usize, columns: usize| format!("{rows} × {columns}");
        let ProductShape { rows, columns, depth } = self.shape;
        GemmError::Mismatch {
            a: size(a.rows, a.columns),
            b: size(b.rows, b.columns),
            c: size(c.rows, c.columns),
            set_up: format!("m = {rows}, n = {columns}, k = {depth}"),
        }
    }
}

fn slab_bytes<T: Real>(tile: &RegisterTile<T>, blocking: Blocking, shape: ProductShape) -> usize {
    let depth = shape.depth.min(blocking.depth * SLAB_BLOCKS).max(1);
    let columns = shape.columns.max(1).div_ceil(tile.columns).saturating_mul(tile.columns);
    depth.saturating_mul(columns).saturating_mul(size_of::<T>())
}

/// Returns the update by the second and further parts of a sum of products: `Add` instead of `Set`.
fn after_first(update: Update) -> Update {
    if update == Update::Set { Update::Add } else { update }
}

struct SharedProduct<'run, T: 'static> {
    tile: &'static RegisterTile<T>,
    depth: usize,
    a: MatrixPart<T>,
    b: MatrixPart<T>,
    c: *mut T,
    c_stride: usize,
    columns: usize,
    packed_b: *mut T,
    blocks: &'run [ProductBlock],
    next_block: AtomicUsize,
    next_strip: AtomicUsize,
}

// SAFETY: A and B are only read while `multiply` borrows them. The counters give each block of C
// and strip of `packed_b` to one thread; barriers separate writing and reading a strip.
unsafe impl<T: Real> Sync for SharedProduct<'_, T> {}

impl<T: Real> SharedProduct<'_, T> {
    /// Packs the rows `slab` of B together with the other threads, then multiplies blocks of A by
    /// them and updates C until no block is left. `own` is this thread's buffer. Safety: all
    /// members of the team must call it with the same slabs in the same order.
    unsafe fn multiply_slab(
        &self,
        member: TeamMember<'_>,
        slab: Range<usize>,
        own: &mut ProductWorker,
        update: Update,
    ) {
        self.pack_strips(member, &slab);
        member.barrier();
        // No thread is packing now; the next slab is packed after the other barrier.
        self.next_strip.store(0, Ordering::Relaxed);
        while let Some(block) = self.blocks.get(self.next_block.fetch_add(1, Ordering::Relaxed)) {
            own.watch.probe_if_due();
            let packed = own.packed.elements_mut::<T>().as_mut_ptr();
            let mut update = update;
            for start in slab.clone().step_by(self.depth) {
                let depth = start..(start + self.depth).min(slab.end);
                // SAFETY: the block is this thread's alone, and the slab is packed.
                unsafe { self.block(block, &slab, depth, packed, update) };
                update = after_first(update);
            }
        }
        member.barrier();
        self.next_block.store(0, Ordering::Relaxed);
    }

    /// Packs the rows `slab` of B into strips together with the other threads, several at a time: a
    /// CPU fetches beyond the end of what it writes, which no other thread should be writing.
    fn pack_strips(&self, member: TeamMember<'_>, slab: &Range<usize>) {
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
        let part = MatrixPart { start: from, rows, columns, stride: self.b.stride };
        // SAFETY: the strip is this thread's alone, in a buffer for whole strips.
        unsafe { (self.tile.pack_b)(part, self.strip(slab, start, rows, strip)) };
    }

    /// Returns the address of strip `strip` of B, packed for `rows` rows from `start` in `slab`.
    fn strip(&self, slab: &Range<usize>, start: usize, rows: usize, strip: usize) -> *mut T {
        let strips = self.columns.div_ceil(self.tile.columns);
        let before = (start - slab.start) * strips * self.tile.columns;
        self.packed_b.wrapping_add(before + strip * rows * self.tile.columns)
    }

    /// Packs a block of A to `own` and updates C by its product with the block's strips of B, over
    /// rows `depth` of `slab`. Safety: the caller owns this part of C, `own` fits, B is packed.
    unsafe fn block(
        &self,
        block: &ProductBlock,
        slab: &Range<usize>,
        depth: Range<usize>,
        own: *mut T,
        update: Update,
    ) {
        let (height, width) = (self.tile.rows, self.tile.columns);
        let from = self.a.start.wrapping_add(depth.start * self.a.stride + block.rows.start);
        let part =
            MatrixPart { start: from, rows: block.rows.len(), columns: depth.len(), stride: self.a.stride };
        // SAFETY: `own` has room for a block.
        unsafe { (self.tile.pack_a)(part, depth.len(), own) };
        for strip in block.strips.clone() {
            let b = self.strip(slab, depth.start, depth.len(), strip);
            let column = strip * width;
            let columns = width.min(self.columns - column);
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
                let operands = TileOperands {
                    depth: depth.len(),
                    a: own.wrapping_add(tile * height * depth.len()),
                    b,
                    ahead: ahead.wrapping_byte_add(tile * depth.len() * ahead_bytes),
                    ahead_bytes,
                    ahead_c: self.c.wrapping_add(next),
                };
                let c = self.c.wrapping_add(column * self.c_stride + row);
                // SAFETY: the strips are packed to whole tiles, and the edge limits the part of C.
                unsafe { multiply_tile(self.tile, &operands, c, self.c_stride, 0..rows, columns, update) };
            }
        }
    }

    fn clear(&self, rows: usize) {
        for column in 0..self.columns {
            // SAFETY: `multiply` borrows the whole matrix exclusively.
            let column =
                unsafe { std::slice::from_raw_parts_mut(self.c.wrapping_add(column * self.c_stride), rows) };
            column.fill(T::default());
        }
    }
}

/// Updates `rows` and the first `columns` columns of a tile of C by the product in `operands`,
/// through a copy on the stack unless that is the whole tile. Safety: see
/// [`super::tile::TileFunction`], for the part updated.
pub(crate) unsafe fn multiply_tile<T: Real>(
    tile: &RegisterTile<T>,
    operands: &TileOperands<T>,
    c: *mut T,
    c_stride: usize,
    rows: Range<usize>,
    columns: usize,
    update: Update,
) {
    if rows == (0..tile.rows) && columns == tile.columns {
        // SAFETY: granted by the caller.
        unsafe { (tile.function)(operands, c, c_stride, update) };
        return;
    }
    let mut whole = [T::default(); MAX_TILE];
    // SAFETY: no tile is larger than `whole`.
    unsafe { (tile.function)(operands, whole.as_mut_ptr(), tile.rows, Update::Set) };
    for column in 0..columns {
        for row in rows.clone() {
            // SAFETY: in the part granted by the caller.
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
