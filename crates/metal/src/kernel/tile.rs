//! Where the numbers of a matrix kernel lie: an accumulator is a matrix, and so are the two constants.

use crate::isa::Isa;

/// Sizes of the matrices, in results of 32 bits and in words of as many bits of narrow numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile {
    /// Columns of the result.
    columns: usize,
    /// Words in a row of the first constant, and in a column of the second.
    pub(crate) depth: usize,
    /// Whether the second constant stands column after column; otherwise one word of each column, then the next.
    by_column: bool,
}

impl Tile {
    /// The matrices of an instruction set that has them.
    ///
    /// Intel 248966, chapter on AMX: 16 × 16 results, 16 words deep, the second matrix in groups of rows. Arm DDI 0487,
    /// SMMLA and BFMMLA: 2 × 2 results, 2 words deep, the second matrix transposed.
    pub(crate) fn of(isa: Isa) -> Option<Self> {
        match isa {
            Isa::Amx => Some(Self { columns: 16, depth: 16, by_column: false }),
            Isa::Mmla => Some(Self { columns: 2, depth: 2, by_column: true }),
            _ => None,
        }
    }

    /// The lanes of the constants whose products are summed in `lane` of a result.
    pub(crate) fn factors(self, lane: usize) -> impl Iterator<Item = [usize; 2]> {
        let (row, column) = (lane / self.columns, lane % self.columns);
        (0..self.depth).map(move |k| {
            let second = if self.by_column { column * self.depth + k } else { k * self.columns + column };
            [row * self.depth + k, second]
        })
    }

    /// How deep in the product a lane of each of the constants is.
    pub(crate) fn depth_of(self, lane: usize) -> [usize; 2] {
        [lane % self.depth, if self.by_column { lane % self.depth } else { lane / self.columns }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_constants_is_used_by_every_result_of_its_row_or_column() {
        for (isa, lanes) in [(Isa::Amx, 256), (Isa::Mmla, 4)] {
            let tile = Tile::of(isa).unwrap();
            let mut used = vec![[0; 2]; lanes];
            for lane in 0..lanes {
                for [a, b] in tile.factors(lane) {
                    used[a][0] += 1;
                    used[b][1] += 1;
                    assert_eq!(tile.depth_of(a)[0], tile.depth_of(b)[1], "{isa} {lane}");
                }
            }
            assert!(used.iter().all(|times| *times == [tile.columns; 2]), "{isa}: {used:?}");
        }
        assert!(Tile::of(Isa::Avx512).is_none());
    }
}
