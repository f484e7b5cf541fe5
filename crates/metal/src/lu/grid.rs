//! Memory layout of the system: strips with as many rows as the register tile, column after column.
//! A tile of C is contiguous, L needs no packing, and few pages are touched, because page walks are
//! slow in virtual machines. The order is rounded up to whole tiles with the identity.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    /// Rows of a strip, and elements from one of its columns to the next.
    pub(super) height: usize,
    /// Number of equations, rounded up to whole tiles.
    pub(super) order: usize,
    /// Number of columns, including the tile of the right-hand side.
    pub(super) columns: usize,
    /// Elements from one strip to the next.
    pub(super) stride: usize,
}

const LINE_ELEMENTS: usize = 8;

impl Grid {
    /// Computes the layout of `rows` equations in tiles of `height` × `width`; `None` if too large.
    pub(super) fn new(rows: usize, height: usize, width: usize) -> Option<Self> {
        let order = rows.checked_next_multiple_of(common_multiple(height, width))?;
        let columns = order.checked_add(width)?;
        // Odd multiple of eight lines: distant strips do not compete for the same cache sets.
        let lines = columns.checked_mul(height)?.div_ceil(LINE_ELEMENTS);
        let stride = (lines.div_ceil(8) | 1).checked_mul(8 * LINE_ELEMENTS)?;
        stride.checked_mul(order / height)?.checked_mul(size_of::<f64>())?;
        Some(Self { height, order, columns, stride })
    }

    pub(super) fn elements(self) -> usize {
        self.stride * (self.order / self.height)
    }

    /// Returns the offset of the first element of row `row`, in elements.
    pub(super) fn row_offset(self, row: usize) -> usize {
        row / self.height * self.stride + row % self.height
    }
}

pub(super) fn common_multiple(height: usize, width: usize) -> usize {
    (1..=width).map(|times| times * height).find(|rows| rows.is_multiple_of(width)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_element_has_a_place_of_its_own(rows in 1_usize..80, height in 1_usize..9, width in 1_usize..9) {
            let grid = Grid::new(rows, height, width).unwrap();
            prop_assert!(grid.order >= rows && grid.order.is_multiple_of(common_multiple(height, width)));
            prop_assert!(grid.columns > grid.order && grid.columns.is_multiple_of(width));
            let mut seen = vec![false; grid.elements()];
            for row in 0..grid.order {
                for column in 0..grid.columns {
                    let place = grid.row_offset(row) + column * grid.height;
                    prop_assert!(!std::mem::replace(&mut seen[place], true));
                }
            }
        }

        #[test]
        fn strips_start_on_lines_and_never_a_power_of_two_apart(rows in 1_usize..200_000) {
            let grid = Grid::new(rows, 24, 8).unwrap();
            prop_assert_eq!(grid.stride % (8 * LINE_ELEMENTS), 0);
            prop_assert_eq!(grid.stride / (8 * LINE_ELEMENTS) % 2, 1);
        }
    }

    #[test]
    fn what_is_beyond_the_address_space_is_refused() {
        assert_eq!(Grid::new(usize::MAX - 5, 24, 8), None);
        assert_eq!(Grid::new(1 << 40, 24, 8), None);
    }

    #[test]
    fn units_are_whole_tiles_both_ways() {
        let units = [(24, 8), (12, 4), (8, 6), (4, 4)].map(|(a, b)| common_multiple(a, b));
        assert_eq!(units, [24, 12, 24, 4]);
    }
}
