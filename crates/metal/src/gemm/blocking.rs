//! How large the blocks are: from the sizes of the caches and of the register tile.

use super::Real;
use super::tile::Tile;

/// The caches of one core, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// First-level data cache.
    pub first: usize,
    /// Second-level cache, the share of one core.
    pub second: usize,
}

impl Default for Caches {
    /// What every processor of the last decade has at least.
    fn default() -> Self {
        Self { first: 32 << 10, second: 256 << 10 }
    }
}

/// Block sizes of a multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocking {
    /// Depth of the strips: columns of a block of A, rows of a strip of B.
    pub depth: usize,
    /// Rows of a block of A: a multiple of the tile's.
    pub rows: usize,
}

/// Depths are multiples of this, so that strips keep their alignment.
const DEPTH_STEP: usize = 16;
/// Bounds against caches that are misreported.
const SHALLOWEST: usize = 64;
const DEEPEST_BYTES: usize = 4 << 10;
/// Tiles that a block of A is high, where the second level allows it.
const FEWEST_TILES: usize = 6;
const MOST_ROWS: usize = 4096;
/// Most bytes of a block of A. Of 2 MiB of a second level two thirds are too much: on Emerald Rapids as a guest, blocks of 1344
/// KiB reach 88 % of the peak and of 768 KiB 93 % (docs/performance.md).
const MOST_BLOCK: usize = 768 << 10;

impl Blocking {
    /// A strip of B takes no more than the first level, and the block of A at most two thirds of the second: the rest is for
    /// what streams by. Deep strips update C less often; the block of A must still be some tiles high.
    pub(crate) fn new<T: Real>(caches: Caches, tile: &Tile<T>) -> Self {
        let bytes = size_of::<T>();
        let block = (caches.second / 3 * 2).min(MOST_BLOCK);
        let depth = (caches.first / (tile.columns * bytes)).min(block / (FEWEST_TILES * tile.rows * bytes));
        let deepest = DEEPEST_BYTES / bytes;
        let depth = (depth / DEPTH_STEP * DEPTH_STEP).clamp(SHALLOWEST, deepest);
        let rows = block / (depth * bytes);
        let rows = rows.min(MOST_ROWS) / tile.rows * tile.rows;
        // Blocks at the end of a product are two tiles high.
        Self { depth, rows: rows.max(2 * tile.rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::reference_gemm;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_are_usable_for_any_caches(first: usize, second: usize) {
            let tile = &reference_gemm::F64;
            let blocking = Blocking::new(Caches { first, second }, tile);
            prop_assert!((SHALLOWEST..=DEEPEST_BYTES / 8).contains(&blocking.depth));
            prop_assert!(blocking.rows >= tile.rows && blocking.rows <= MOST_ROWS);
            prop_assert_eq!(blocking.rows % tile.rows, 0);
        }

        #[test]
        fn the_block_of_a_fits_the_second_level(kib in 256_usize..4096) {
            let caches = Caches { first: 32 << 10, second: kib << 10 };
            let blocking = Blocking::new(caches, &reference_gemm::F64);
            prop_assert!(blocking.rows * blocking.depth * 8 <= caches.second);
            prop_assert!(blocking.depth * reference_gemm::F64.columns * 8 <= caches.first);
        }
    }
}
