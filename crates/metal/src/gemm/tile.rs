//! The register tile: the innermost product of a matrix multiplication, one row of data a kernel.
//!
//! A tile multiplies a strip of A (`rows` × depth, one column after the other) with a strip of B (depth × `columns`,
//! one row after the other) and holds all sums in registers until it updates its block of C once.

use super::pack::{PackA, PackB};
use crate::isa::Isa;

/// What happens to C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// C ← A·B.
    Set,
    /// C ← C + A·B.
    Add,
    /// C ← C − A·B.
    Subtract,
}

/// What a tile multiplies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands<T> {
    /// Columns of A's strip and rows of B's.
    pub(crate) depth: usize,
    /// A's strip: the `rows` numbers of each column, column after column.
    pub(crate) a: *const T,
    /// B's strip.
    pub(crate) b: *const T,
    /// What will be needed next: fetched into the second-level cache on the way. Any address will do.
    pub(crate) ahead: *const T,
    /// Bytes that `ahead` moves on with each step of depth. A tile may fetch a line at every second step only, and none in the
    /// steps after the last whole eight.
    pub(crate) ahead_bytes: usize,
    /// The tile of C that will be updated next: fetched on the way. Any address will do.
    pub(crate) ahead_c: *const T,
}

/// Computes one tile of C, given by its first element and the elements from one column to the next.
///
/// # Safety
/// The tile's instruction set must be there; the strips must hold `rows` × depth and depth × `columns` elements,
/// and C a whole `rows` × `columns` block that nobody else touches.
pub(crate) type TileFunction<T> = unsafe fn(&Operands<T>, *mut T, usize, Update);

/// A register tile and the function that computes it.
#[derive(Debug)]
pub(crate) struct Tile<T: 'static> {
    /// Unique name, also of the function's symbol.
    pub(crate) name: &'static str,
    /// The instruction set it is written in.
    pub(crate) isa: Isa,
    /// Rows of the tile.
    pub(crate) rows: usize,
    /// Columns of the tile.
    pub(crate) columns: usize,
    pub(crate) pack_a: PackA<T>,
    pub(crate) pack_b: PackB<T>,
    /// Computes one tile.
    pub(crate) function: TileFunction<T>,
}

/// Most elements that a tile may have: what a block on the stack for the edges of C holds.
pub(crate) const MAX_TILE: usize = 48 * 8;
