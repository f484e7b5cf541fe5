//! Applies a factored panel to a block on its right: exchanges rows, solves, multiplies, for a few
//! columns (a "group") at a time: their rows of U stay in the L2 cache while L is streamed once.

use std::ops::Range;

use super::crew::{Crew, part_of};
use super::panel::{Factored, Kernels, PanelPlace, allocate_zeros};
use crate::arch::native::prefetch;
use crate::buffer::{Buffer, BufferError};
use crate::gemm::pack::MatrixPart;
use crate::gemm::tile::{TileOperands, Update};

const PART: usize = 6;
const PREFETCH_ROWS: usize = 2;

#[derive(Debug)]
pub(super) struct Strips {
    strips: Buffer,
    together: usize,
}

/// Returns how many columns to update at once with a panel of `width` columns: as many as a sixth
/// of the L2 cache of `second_level` bytes holds, in whole tiles and equal groups.
pub(super) fn columns_per_group(kernels: Kernels, width: usize, second_level: usize) -> usize {
    let fit = second_level / PART / (width.max(1) * size_of::<f64>());
    let groups = width.div_ceil(fit.max(kernels.tile.columns));
    width.div_ceil(groups.max(1)).next_multiple_of(kernels.tile.columns)
}

impl Strips {
    pub(super) fn new(width: usize, together: usize) -> Result<Self, BufferError> {
        allocate_zeros(width.saturating_mul(together)).map(|strips| Self { strips, together })
    }

    pub(super) fn bytes(width: usize, together: usize) -> usize {
        width.saturating_mul(together).saturating_mul(size_of::<f64>())
    }

    /// Updates `columns` (whole tiles) of the matrix at `start` with the factored panel on their
    /// left: exchanges rows, solves, multiplies; `crew` may help. Safety: kernels fit CPU and grid,
    /// the caller owns the columns from the panel's first row down, and no thread writes the panel.
    pub(super) unsafe fn apply(
        &mut self,
        kernels: Kernels,
        place: PanelPlace,
        factored: &Factored,
        start: *mut f64,
        columns: Range<usize>,
        crew: &Crew,
    ) {
        let strips = self.strips.elements_mut::<f64>().as_mut_ptr();
        for first in columns.clone().step_by(self.together) {
            let count = self.together.min(columns.end - first) / kernels.tile.columns;
            let group = ColumnGroup { kernels, place, factored, start, first, count, strips };
            let parts = crew.parts();
            crew.share(crew.is_helped() && count > 1, &|these| {
                let strips = part_of(0..count, these, parts, 0);
                group.gather_pivot_rows(strips.clone());
                strips.for_each(|strip| group.solve(strip));
            });
            let all = place.first / place.grid.height..place.grid.order / place.grid.height;
            let below = (place.first + place.width) / place.grid.height;
            crew.share(true, &|these| group.multiply(part_of(all.clone(), these, parts, below)));
        }
    }
}

struct ColumnGroup<'run> {
    kernels: Kernels,
    place: PanelPlace,
    factored: &'run Factored,
    start: *mut f64,
    first: usize,
    count: usize,
    strips: *mut f64,
}

// SAFETY: the work is shared by strips of U and then by strips of rows; parts are disjoint.
unsafe impl Sync for ColumnGroup<'_> {}

impl ColumnGroup<'_> {
    fn tile(&self, row: usize, strip: usize) -> *mut f64 {
        let grid = self.place.grid;
        let column = self.first + strip * self.kernels.tile.columns;
        self.start.wrapping_add(grid.row_offset(row) + column * grid.height)
    }

    fn strip(&self, strip: usize) -> *mut f64 {
        self.strips.wrapping_add(strip * self.place.width * self.kernels.tile.columns)
    }

    /// Copies the pivot rows that the panel chose, in the columns of the strips with the numbers
    /// `strips`, to the packed strips. Moves the panel's own rows that these displace to the former
    /// positions of the pivot rows in the grid.
    fn gather_pivot_rows(&self, strips: Range<usize>) {
        match self.kernels.tile.columns {
            4 => self.gather_by::<4>(strips),
            6 => self.gather_by::<6>(strips),
            8 => self.gather_by::<8>(strips),
            width => debug_assert!(false, "no tile is {width} columns wide"),
        }
    }

    /// Does [`Self::gather_pivot_rows`] for tiles of `WIDTH` columns, row by row for locality.
    fn gather_by<const WIDTH: usize>(&self, strips: Range<usize>) {
        let step = self.place.grid.height;
        let first = self.start.wrapping_add(self.first * step);
        let exchanges = &self.factored.exchanges;
        for (row, exchange) in exchanges.iter().enumerate() {
            let soon = exchanges.get(row + PREFETCH_ROWS).map(|soon| first.wrapping_add(soon.from));
            for strip in strips.clone() {
                let offset = strip * WIDTH * step;
                if let Some(soon) = soon {
                    (0..WIDTH)
                        .for_each(|column| prefetch(soon.wrapping_add(offset + column * step).cast_const()));
                }
                let from = first.wrapping_add(exchange.from + offset);
                // SAFETY: a row of the group's columns.
                let numbers: [f64; WIDTH] =
                    std::array::from_fn(|column| unsafe { *from.wrapping_add(column * step) });
                // SAFETY: the strip has room for all rows of the panel.
                unsafe { self.strip(strip).wrapping_add(row * WIDTH).cast::<[f64; WIDTH]>().write(numbers) };
                if exchange.replacement != exchange.from {
                    let replacement = first.wrapping_add(exchange.replacement + offset);
                    for column in 0..WIDTH {
                        // SAFETY: as above.
                        let number = unsafe { *replacement.wrapping_add(column * step) };
                        // SAFETY: as above.
                        unsafe { *from.wrapping_add(column * step) = number };
                    }
                }
            }
        }
    }

    /// Computes the panel's rows of U in the columns of strip number `strip`, from the top. Writes
    /// them to the packed strip and to the grid.
    fn solve(&self, strip: usize) {
        let (tile, PanelPlace { first, width, .. }) = (self.kernels.tile, self.place);
        let b = self.strip(strip);
        let solver = self.factored.solver.elements::<f64>().as_ptr();
        for row in (0..width).step_by(tile.rows) {
            let c = self.tile(first + row, strip);
            let operands = TileOperands {
                depth: row + tile.rows,
                a: solver.wrapping_add(row * width),
                b: b.cast_const(),
                ahead: solver.wrapping_add((row + tile.rows) * width),
                ahead_bytes: tile.rows * size_of::<f64>(),
                ahead_c: self.tile(first + row + tile.rows, strip).cast_const(),
            };
            // SAFETY: the solver and the strip have this depth; C is a whole tile of the group.
            unsafe { (tile.function)(&operands, c, tile.rows, Update::Set) };
            let part = MatrixPart {
                start: c.cast_const(),
                rows: tile.rows,
                columns: tile.columns,
                stride: tile.rows,
            };
            // SAFETY: `part` is the tile of C; the strip has room for all rows of the panel.
            unsafe { (tile.pack_b)(part, b.wrapping_add(row * tile.columns)) };
        }
    }

    /// Subtracts L·U from the group's columns below the panel, in the strips of rows with the
    /// numbers `rows`.
    fn multiply(&self, rows: Range<usize>) {
        let (tile, PanelPlace { grid, first, width }) = (self.kernels.tile, self.place);
        let ahead_bytes = (tile.rows * size_of::<f64>()).div_ceil(self.count.max(1));
        for row in rows.map(|strip| strip * tile.rows) {
            let a = self.start.wrapping_add(grid.row_offset(row) + first * grid.height).cast_const();
            let next = a.wrapping_add(grid.stride);
            for strip in 0..self.count {
                let c = self.tile(row, strip);
                let right = c.wrapping_add(tile.columns * tile.rows);
                let below = self.tile(row, 0).wrapping_add(grid.stride);
                let operands = TileOperands {
                    depth: width,
                    a,
                    b: self.strip(strip).cast_const(),
                    ahead: next.wrapping_byte_add(strip * width * ahead_bytes),
                    ahead_bytes,
                    ahead_c: if strip + 1 < self.count { right } else { below }.cast_const(),
                };
                // SAFETY: A is L of the panel, `solve` packed B, C is a whole tile of the group.
                unsafe { (tile.function)(&operands, c, tile.rows, Update::Subtract) };
            }
        }
    }
}
