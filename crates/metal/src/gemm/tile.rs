//! Register tile: multiplies a strip of A (`rows` × depth, column by column) with a strip of B
//! (depth × `columns`, row by row) in registers, and updates its block of C once.

use super::pack::{PackA, PackB};
use crate::isa::Isa;

/// Update of C by a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// C ← A·B.
    Set,
    /// C ← C + A·B.
    Add,
    /// C ← C − A·B.
    Subtract,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TileOperands<T> {
    pub(crate) depth: usize,
    pub(crate) a: *const T,
    pub(crate) b: *const T,
    /// Prefetched into the level-2 cache; may be invalid.
    pub(crate) ahead: *const T,
    /// Bytes per step of depth; a tile may prefetch in fewer steps.
    pub(crate) ahead_bytes: usize,
    /// Next tile of C, to prefetch; may be invalid.
    pub(crate) ahead_c: *const T,
}

/// Computes one tile of C, given by its first element and the stride of its columns. Safety: the
/// tile's instruction set is available; the strips have `rows` × depth and depth × `columns`
/// elements, and C exclusively a whole `rows` × `columns` block.
pub(crate) type TileFunction<T> = unsafe fn(&TileOperands<T>, *mut T, usize, Update);

#[derive(Debug)]
pub(crate) struct RegisterTile<T: 'static> {
    pub(crate) name: &'static str,
    pub(crate) isa: Isa,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) pack_a: PackA<T>,
    pub(crate) pack_b: PackB<T>,
    pub(crate) function: TileFunction<T>,
}

/// Capacity of a copy of a tile on the stack, in elements.
pub(crate) const MAX_TILE: usize = 48 * 8;
