use crate::isa::Isa;

#[derive(Debug, Clone, Copy)]
pub(crate) struct TileSize {
    columns: usize,
    /// Words per row of the first constant, and per column of the second.
    pub(crate) depth: usize,
    /// Whether the second constant is stored column by column, instead of word by word.
    by_column: bool,
}

impl TileSize {
    /// Returns the matrix sizes of AMX (16 × 16 results, 16 words deep: Intel 248966) or SMMLA and
    /// BFMMLA (2 × 2 results, 2 words deep, the second transposed: Arm DDI 0487); otherwise `None`.
    pub(crate) fn of(isa: Isa) -> Option<Self> {
        match isa {
            Isa::Amx => Some(Self { columns: 16, depth: 16, by_column: false }),
            Isa::Mmla => Some(Self { columns: 2, depth: 2, by_column: true }),
            _ => None,
        }
    }

    /// Returns the lanes (in constant a, in constant b) whose products are summed in lane `lane`.
    pub(crate) fn factors(self, lane: usize) -> impl Iterator<Item = [usize; 2]> {
        let (row, column) = (lane / self.columns, lane % self.columns);
        (0..self.depth).map(move |k| {
            let second = if self.by_column { column * self.depth + k } else { k * self.columns + column };
            [row * self.depth + k, second]
        })
    }

    /// Returns the summed dimension's index of `lane` in constant a, and in constant b.
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
            let tile = TileSize::of(isa).unwrap();
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
        assert!(TileSize::of(Isa::Avx512).is_none());
    }
}
