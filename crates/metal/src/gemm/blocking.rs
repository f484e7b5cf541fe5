use super::Real;
use super::tile::RegisterTile;

/// Cache sizes of one core in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreCaches {
    /// Level-1 data cache.
    pub first: usize,
    /// Level-2 cache, the share of one core.
    pub second: usize,
}

impl Default for CoreCaches {
    /// Returns the smallest sizes of the last decade's processors: 32 KiB and 256 KiB.
    fn default() -> Self {
        Self { first: 32 << 10, second: 256 << 10 }
    }
}

/// Block sizes of a matrix product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocking {
    /// Columns of a block of A and rows of a strip of B.
    pub depth: usize,
    /// Rows of a block of A: a multiple of the tile's rows.
    pub rows: usize,
}

/// Granularity of the depth, which keeps strips aligned.
const DEPTH_STEP: usize = 16;
/// Bounds in case the cache sizes are misreported.
const SHALLOWEST: usize = 64;
const DEEPEST_BYTES: usize = 4 << 10;
/// Minimum height of a block of A in tiles, if the level-2 cache allows it.
const FEWEST_TILES: usize = 6;
const MOST_ROWS: usize = 4096;
/// Maximum bytes of a block of A: with 2 MiB of level 2 on Emerald Rapids as a guest, 1344 KiB (two
/// thirds) reach 88 % of the peak, 768 KiB 93 % (docs/src/performance.md).
const MOST_BLOCK: usize = 768 << 10;

impl Blocking {
    /// Chooses the block sizes of products A·B: a strip of B fits in level 1, a block of A in two
    /// thirds of level 2. Deep strips update C less often; A's block must still be some tiles high.
    pub(crate) fn new<T: Real>(caches: CoreCaches, tile: &RegisterTile<T>) -> Self {
        let bytes = size_of::<T>();
        let block = (caches.second / 3 * 2).min(MOST_BLOCK);
        let depth = (caches.first / (tile.columns * bytes)).min(block / (FEWEST_TILES * tile.rows * bytes));
        let deepest = DEEPEST_BYTES / bytes;
        let depth = (depth / DEPTH_STEP * DEPTH_STEP).clamp(SHALLOWEST, deepest);
        let rows = block / (depth * bytes);
        let rows = rows.min(MOST_ROWS) / tile.rows * tile.rows;
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
            let blocking = Blocking::new(CoreCaches { first, second }, tile);
            prop_assert!((SHALLOWEST..=DEEPEST_BYTES / 8).contains(&blocking.depth));
            prop_assert!(blocking.rows >= tile.rows && blocking.rows <= MOST_ROWS);
            prop_assert_eq!(blocking.rows % tile.rows, 0);
        }

        #[test]
        fn the_block_of_a_fits_the_second_level(kib in 256_usize..4096) {
            let caches = CoreCaches { first: 32 << 10, second: kib << 10 };
            let blocking = Blocking::new(caches, &reference_gemm::F64);
            prop_assert!(blocking.rows * blocking.depth * 8 <= caches.second);
            prop_assert!(blocking.depth * reference_gemm::F64.columns * 8 <= caches.first);
        }
    }
}
