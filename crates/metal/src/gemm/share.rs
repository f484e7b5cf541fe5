//! Distribution of a product: threads take blocks of C one by one, large ones first, low ones at
//! the end. Blocks span all columns, so that A is packed once; low or scarce blocks are split.

use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProductBlock {
    pub(super) rows: Range<usize>,
    pub(super) strips: Range<usize>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Sharing {
    pub(super) rows: usize,
    pub(super) strips: usize,
    pub(super) height: usize,
    pub(super) tile: usize,
    pub(super) threads: usize,
}

/// A block takes 1 / `SHARES` of each thread's rest, so that the last ones are small.
const SHARES: usize = 2;
/// Minimum height of a block in tiles: below, strips of B pass too fast.
const FEWEST_TILES: usize = 2;
const MIN_BLOCKS_PER_THREAD: usize = 6;
/// Parts of each of the lowest blocks: at order 4000 a whole one takes 2 % of two threads' time.
const PARTS: usize = 4;
/// Minimum strips per block: below, packing A costs more than balancing saves.
const FEWEST_STRIPS: usize = 8;

impl Sharing {
    pub(super) fn blocks(self) -> Vec<ProductBlock> {
        let lowest = FEWEST_TILES * self.tile;
        let wanted = self.threads * MIN_BLOCKS_PER_THREAD * 2 * lowest;
        let cuts = wanted.div_ceil(self.rows.max(1)).clamp(1, (self.strips / FEWEST_STRIPS).max(1));
        let width = self.strips.div_ceil(cuts).max(1);
        let mut blocks = Vec::new();
        for strip in (0..self.strips).step_by(width) {
            let strips = strip..(strip + width).min(self.strips);
            let mut start = 0;
            while start < self.rows {
                let left = self.rows - start;
                let share = left * cuts / (SHARES * self.threads.max(1));
                let height = share.next_multiple_of(self.tile).clamp(lowest, self.height.max(lowest));
                let end = (start + height).min(self.rows);
                let parts = if height > lowest { 1 } else { PARTS };
                let part = strips.len().div_ceil(parts).max(FEWEST_STRIPS);
                blocks.extend(strips.clone().step_by(part).map(|first| ProductBlock {
                    rows: start..end,
                    strips: first..(first + part).min(strips.end),
                }));
                start = end;
            }
        }
        blocks.sort_by_key(|block| std::cmp::Reverse(block.rows.len()));
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_tile_of_c_is_in_exactly_one_block(
            rows in 0_usize..300, strips in 0_usize..80, tiles in 2_usize..6, tile in 1_usize..9,
            threads in 1_usize..9,
        ) {
            let height = tiles * tile;
            let blocks = Sharing { rows, strips, height, tile, threads }.blocks();
            let mut covered = vec![0_u8; rows * strips];
            for block in &blocks {
                prop_assert!(block.rows.len() <= height);
                prop_assert_eq!(block.rows.start % tile, 0);
                for row in block.rows.clone() {
                    for strip in block.strips.clone() {
                        covered[row * strips + strip] += 1;
                    }
                }
            }
            prop_assert!(covered.iter().all(|times| *times == 1));
            prop_assert!(blocks.is_sorted_by_key(|block| std::cmp::Reverse(block.rows.len())));
        }
    }

    #[test]
    fn few_threads_share_rows_and_many_columns_too() {
        let sharing = Sharing { rows: 4000, strips: 500, height: 336, tile: 24, threads: 2 };
        let blocks = sharing.blocks();
        let (low, high): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| block.rows.len() <= 48);
        assert!(high.iter().all(|block| block.strips == (0..500)));
        assert!(low.iter().all(|block| block.strips.len() == 125) && low.len() >= 8, "{low:?}");
        assert_eq!((blocks[0].rows.len(), blocks.last().unwrap().rows.len() <= 48), (336, true));
        let many = Sharing { threads: 64, ..sharing }.blocks();
        assert!(many.len() >= 4 * 64, "{}", many.len());
    }
}
