//! Packs blocks of A and B into strips, in the order in which the register tile reads them: a strip
//! of A column by column, one of B row by row; the last is padded with zeros.

use super::Real;
use crate::arch::native::prefetch;

#[derive(Debug, Clone, Copy)]
pub(crate) struct MatrixPart<T> {
    pub(crate) start: *const T,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) stride: usize,
}

/// Packs a part of A into strips of the given depth: (part, depth ≥ its columns, strips). Safety:
/// the instruction set is available, the part readable, and the strips exclusively have room for
/// the part's rows, rounded up to whole strips, times the depth.
pub(crate) type PackA<T> = unsafe fn(MatrixPart<T>, usize, *mut T);

/// Packs a part of B, with no more columns than a strip has, into one strip. Safety: the
/// instruction set is available, the part readable, and the strip exclusively fits its rows.
pub(crate) type PackB<T> = unsafe fn(MatrixPart<T>, *mut T);

const PREFETCH_COLUMNS: usize = 2;
const LINE_BYTES: usize = 64;

/// Copies `part` of A to `to` in strips of `HEIGHT` rows (the last padded with zeros), each column
/// by column, with room for `depth` columns. Safety: see [`PackA`].
#[inline(always)]
pub(crate) unsafe fn pack_a<T: Real, const HEIGHT: usize>(part: MatrixPart<T>, depth: usize, to: *mut T) {
    let full = part.rows / HEIGHT;
    let rest = part.rows % HEIGHT;
    for column in 0..part.columns {
        let from = part.start.wrapping_add(column * part.stride);
        let ahead = from.wrapping_add(PREFETCH_COLUMNS * part.stride);
        for byte in (0..part.rows * size_of::<T>()).step_by(LINE_BYTES) {
            prefetch(ahead.wrapping_byte_add(byte));
        }
        let place = to.wrapping_add(column * HEIGHT);
        for strip in 0..full {
            let (from, place) =
                (from.wrapping_add(strip * HEIGHT), place.wrapping_add(strip * HEIGHT * depth));
            // SAFETY: the rows of a whole strip are readable, and the strip has room for them.
            unsafe { place.cast::<[T; HEIGHT]>().copy_from_nonoverlapping(from.cast(), 1) };
        }
        if rest > 0 {
            let mut last = [T::default(); HEIGHT];
            for (row, number) in last.iter_mut().take(rest).enumerate() {
                // SAFETY: `rest` rows are readable after the whole strips.
                *number = unsafe { *from.wrapping_add(full * HEIGHT + row) };
            }
            // SAFETY: the last strip is a whole one.
            unsafe { place.wrapping_add(full * HEIGHT * depth).cast::<[T; HEIGHT]>().write(last) };
        }
    }
}

/// Rows that are transposed at once: whole cache lines of each column.
const ROWS_AT_ONCE: usize = 8;

/// Copies `part` of B to `to` as one strip of `WIDTH` columns, row by row. Safety: see [`PackB`].
#[inline(always)]
pub(crate) unsafe fn pack_b<T: Real, const WIDTH: usize>(part: MatrixPart<T>, to: *mut T) {
    let whole = if part.columns == WIDTH { part.rows / ROWS_AT_ONCE * ROWS_AT_ONCE } else { 0 };
    for row in (0..whole).step_by(ROWS_AT_ONCE) {
        let mut turned = [[T::default(); WIDTH]; ROWS_AT_ONCE];
        for column in 0..WIDTH {
            let from = part.start.wrapping_add(column * part.stride + row);
            // SAFETY: `ROWS_AT_ONCE` rows from here are in the part.
            let numbers = unsafe { from.cast::<[T; ROWS_AT_ONCE]>().read() };
            for (turned, number) in turned.iter_mut().zip(numbers) {
                turned[column] = number;
            }
        }
        // SAFETY: the strip has room for WIDTH numbers per row.
        unsafe { to.wrapping_add(row * WIDTH).cast::<[[T; WIDTH]; ROWS_AT_ONCE]>().write(turned) };
    }
    for row in whole..part.rows {
        for column in 0..WIDTH {
            let number = if column < part.columns {
                // SAFETY: the element is in the part.
                unsafe { *part.start.wrapping_add(column * part.stride + row) }
            } else {
                T::default()
            };
            // SAFETY: the strip has room for WIDTH numbers per row.
            unsafe { *to.wrapping_add(row * WIDTH + column) = number };
        }
    }
}
