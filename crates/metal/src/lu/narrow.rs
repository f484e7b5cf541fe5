//! What a factorisation does beside multiplication, a few columns at a time: bodies for every instruction set.
//!
//! The bodies are plain Rust over strips of HEIGHT rows (see the grid); each architecture inlines them into functions of
//! its instruction sets, where the compiler makes wide vectors of them.

use std::ops::Range;

use crate::isa::Isa;

/// Most columns that are factored without multiplication.
pub(crate) const WIDEST: usize = 8;

/// Strips whose largest element is found together: few enough to be searched again, many enough to be rare.
const TOGETHER: usize = 16;

/// Columns of a grid, from one row down to the last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Below {
    /// First element of the first column in the strip of the first row.
    pub(crate) start: *mut f64,
    /// Rows of the first strip that are above the first row.
    pub(crate) skip: usize,
    /// Strips, the first included.
    pub(crate) strips: usize,
    /// Elements from one strip to the next.
    pub(crate) stride: usize,
    pub(crate) columns: usize,
}

impl Below {
    /// One strip of one column.
    ///
    /// # Safety
    /// The strips must be readable, and nobody write this one for as long as the result is used.
    #[inline(always)]
    unsafe fn strip<'a, const HEIGHT: usize>(self, strip: usize, column: usize) -> &'a [f64; HEIGHT] {
        let start = self.start.wrapping_add(strip * self.stride + column * HEIGHT);
        // SAFETY: granted by the caller.
        unsafe { &*start.cast() }
    }

    /// One strip of one column, to write.
    ///
    /// # Safety
    /// The strips must be writable and this one not be used otherwise for as long as the result is.
    #[inline(always)]
    unsafe fn strip_mut<'a, const HEIGHT: usize>(self, strip: usize, column: usize) -> &'a mut [f64; HEIGHT] {
        let start = self.start.wrapping_add(strip * self.stride + column * HEIGHT);
        // SAFETY: granted by the caller.
        unsafe { &mut *start.cast() }
    }

    /// One element; rows are counted from the first.
    #[inline(always)]
    fn at<const HEIGHT: usize>(self, row: usize, column: usize) -> *mut f64 {
        let row = self.skip + row;
        self.start.wrapping_add(row / HEIGHT * self.stride + column * HEIGHT + row % HEIGHT)
    }
}

// SAFETY: it is a place. What is there is touched by unsafe functions only, which say whose it must be.
unsafe impl Sync for Below {}

/// What is known of a column when those on its left are done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// How many are on its left.
    pub(crate) left: usize,
    /// Their factors: what is above its diagonal.
    pub(crate) factors: [f64; WIDEST],
    /// The pivot of the one on its left.
    pub(crate) pivot: f64,
}

/// The largest number of a part of a column, without its sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Largest {
    pub(crate) size: f64,
    /// Its row, from the first of these columns.
    pub(crate) row: usize,
}

/// The functions of one instruction set, for strips as high as its tile.
#[derive(Debug)]
pub(crate) struct Narrow {
    /// The instruction set.
    pub(crate) isa: Isa,
    /// As [`above`].
    pub(crate) above: unsafe fn(Below, usize) -> [f64; WIDEST],
    /// As [`step`].
    pub(crate) step: unsafe fn(Below, &Column, Range<usize>) -> Option<Largest>,
    /// As [`substitute`].
    pub(crate) substitute: unsafe fn(&[f64], &mut [f64], usize),
    /// As [`subtract`].
    pub(crate) subtract: unsafe fn(&[f64], &[f64], &mut [f64]),
}

/// x − y·z.
#[inline(always)]
fn less<const FUSED: bool>(x: f64, y: f64, z: f64) -> f64 {
    if FUSED { (-y).mul_add(z, x) } else { x - y * z }
}

/// A step of the factorisation of up to [`WIDEST`] columns with partial pivoting, in some of their strips: divides the column on
/// the left by its pivot, subtracts all on the left from this one, and finds its largest number, the first of several. Beyond the
/// last column it only divides. Without a number from the diagonal down there is no largest.
///
/// Column by column, each from those on its left: they are read once for each column and only one is written.
///
/// # Safety
/// The instruction set must be there, and these strips of the columns exclusively the caller's.
#[inline(always)]
pub(crate) unsafe fn step<const FUSED: bool, const HEIGHT: usize>(
    panel: Below,
    column: &Column,
    strips: Range<usize>,
) -> Option<Largest> {
    if let Some(left) = column.left.checked_sub(1) {
        // SAFETY: granted by the caller.
        unsafe { divide::<HEIGHT>(panel, left, column.pivot, strips.clone()) };
    }
    if column.left >= panel.columns {
        return None;
    }
    // SAFETY: as above.
    unsafe { eliminate_from::<FUSED, HEIGHT>(panel, column, strips) }
}

/// Computes what is above the diagonal of a column, in place, and returns it: the factors of the columns on its left.
///
/// # Safety
/// The columns must be exclusively the caller's, down to this one's diagonal.
#[inline(always)]
pub(crate) unsafe fn above<const FUSED: bool, const HEIGHT: usize>(
    panel: Below,
    column: usize,
) -> [f64; WIDEST] {
    let mut factors = [0.0; WIDEST];
    for row in 0..column {
        // SAFETY: an element of the panel.
        let mut number = unsafe { *panel.at::<HEIGHT>(row, column) };
        for (left, factor) in factors.iter().enumerate().take(row) {
            // SAFETY: as above.
            number = less::<FUSED>(number, unsafe { *panel.at::<HEIGHT>(row, left) }, *factor);
        }
        factors[row] = number;
        // SAFETY: as above.
        unsafe { *panel.at::<HEIGHT>(row, column) = number };
    }
    factors
}

/// [`eliminate`] for the columns on the left of this one. Calls and not one function pointer: only calls are inlined,
/// and with it compiled for the instruction set.
///
/// # Safety
/// As [`step`].
#[inline(always)]
unsafe fn eliminate_from<const FUSED: bool, const HEIGHT: usize>(
    panel: Below,
    column: &Column,
    strips: Range<usize>,
) -> Option<Largest> {
    macro_rules! with {
        ($left:literal) => {
            // SAFETY: granted by the caller; there are as many columns on the left.
            unsafe { eliminate::<FUSED, HEIGHT, $left>(panel, &column.factors, strips) }
        };
    }
    match column.left {
        0 => with!(0),
        1 => with!(1),
        2 => with!(2),
        3 => with!(3),
        4 => with!(4),
        5 => with!(5),
        6 => with!(6),
        _ => with!(7),
    }
}

/// Divides what is below the diagonal of a column by its pivot, in these strips.
///
/// # Safety
/// As [`step`].
#[inline(always)]
unsafe fn divide<const HEIGHT: usize>(panel: Below, column: usize, pivot: f64, strips: Range<usize>) {
    // The reciprocal of a subnormal overflows.
    let reciprocal = if pivot.abs() >= f64::MIN_POSITIVE { Some(1.0 / pivot) } else { None };
    let by = |number: &mut f64| match reciprocal {
        Some(reciprocal) => *number *= reciprocal,
        None => *number /= pivot,
    };
    let first = panel.skip + column + 1;
    for strip in strips.start.max(first / HEIGHT)..strips.end {
        // SAFETY: one strip at a time.
        let numbers = unsafe { panel.strip_mut::<HEIGHT>(strip, column) };
        if strip * HEIGHT >= first {
            numbers.iter_mut().for_each(by);
        } else {
            numbers.iter_mut().skip(first - strip * HEIGHT).for_each(by);
        }
    }
}

/// Subtracts LEFT columns times their factors from column LEFT, from its diagonal down, in these strips, and finds the largest
/// result.
///
/// # Safety
/// As [`step`], with more than LEFT columns.
#[inline(always)]
unsafe fn eliminate<const FUSED: bool, const HEIGHT: usize, const LEFT: usize>(
    panel: Below,
    factors: &[f64; WIDEST],
    strips: Range<usize>,
) -> Option<Largest> {
    let first = panel.skip + LEFT;
    let whole = first.div_ceil(HEIGHT);
    let mut best: Option<Largest> = None;
    if whole > 0 && strips.contains(&(whole - 1)) {
        // Rows of the strip that the diagonal cuts.
        for row in LEFT..whole * HEIGHT - panel.skip {
            // SAFETY: an element of the strips.
            let mut number = unsafe { *panel.at::<HEIGHT>(row, LEFT) };
            for (left, factor) in factors.iter().enumerate().take(LEFT) {
                // SAFETY: as above.
                number = less::<FUSED>(number, unsafe { *panel.at::<HEIGHT>(row, left) }, *factor);
            }
            // SAFETY: as above.
            unsafe { *panel.at::<HEIGHT>(row, LEFT) = number };
            // What is no number is no larger than anything.
            if !number.is_nan() {
                best = larger(best, Largest { size: number.abs(), row });
            }
        }
    }
    let mut from = strips.start.max(whole);
    let mut most = (f64::NEG_INFINITY, from..from);
    while from < strips.end {
        let together = from..(from + TOGETHER).min(strips.end);
        let mut largest = [0.0_f64; HEIGHT];
        for strip in together.clone() {
            // SAFETY: columns on the left are read, this one is written.
            let own = unsafe { panel.strip_mut::<HEIGHT>(strip, LEFT) };
            for (left, factor) in factors.iter().enumerate().take(LEFT) {
                // SAFETY: as above.
                let column = unsafe { panel.strip::<HEIGHT>(strip, left) };
                for (number, other) in own.iter_mut().zip(column) {
                    *number = less::<FUSED>(*number, *other, *factor);
                }
            }
            // A number that is not a number is not the largest.
            for (largest, number) in largest.iter_mut().zip(own) {
                let size = number.abs();
                *largest = if size > *largest { size } else { *largest };
            }
        }
        let largest = largest.into_iter().fold(0.0, f64::max);
        from = together.end;
        if largest > most.0 {
            most = (largest, together);
        }
    }
    for strip in most.1 {
        // SAFETY: only read.
        let numbers = unsafe { panel.strip::<HEIGHT>(strip, LEFT) };
        if let Some(row) = numbers.iter().position(|number| number.abs() == most.0) {
            return larger(best, Largest { size: most.0, row: strip * HEIGHT + row - panel.skip });
        }
    }
    best
}

/// The larger one, and of equals the first.
pub(crate) fn larger(best: Option<Largest>, other: Largest) -> Option<Largest> {
    match best {
        Some(best) if best.size > other.size || (best.size == other.size && best.row < other.row) => {
            Some(best)
        }
        _ => Some(other),
    }
}

/// Solves L·X = B in place of B, where L is the unit lower triangle of a square matrix of `order` rows: both lie column
/// after column.
///
/// # Safety
/// The instruction set must be there.
#[inline(always)]
pub(crate) unsafe fn substitute<const FUSED: bool>(lower: &[f64], right: &mut [f64], order: usize) {
    for numbers in right.chunks_exact_mut(order.max(1)) {
        for (row, lower) in lower.chunks_exact(order.max(1)).enumerate() {
            let (solved, rest) = numbers.split_at_mut(row + 1);
            let factor = solved[row];
            for (number, lower) in rest.iter_mut().zip(&lower[row + 1..]) {
                *number = less::<FUSED>(*number, *lower, factor);
            }
        }
    }
}

/// Subtracts the columns of one strip, times their factors, from its rows of a vector.
///
/// # Safety
/// The instruction set must be there.
#[inline(always)]
pub(crate) unsafe fn subtract<const FUSED: bool, const HEIGHT: usize>(
    strip: &[f64],
    factors: &[f64],
    result: &mut [f64],
) {
    let Some(result) = result.first_chunk_mut::<HEIGHT>() else { return };
    // Two sums: the latency of one addition after the other would be longer than reading from memory.
    let (mut even, mut odd) = (*result, [0.0; HEIGHT]);
    let (columns, _) = strip.as_chunks::<HEIGHT>();
    let (pairs, last) = columns.as_chunks::<2>();
    let (factor_pairs, last_factor) = factors.as_chunks::<2>();
    for ([first, second], [by_first, by_second]) in pairs.iter().zip(factor_pairs) {
        for row in 0..HEIGHT {
            even[row] = less::<FUSED>(even[row], first[row], *by_first);
            odd[row] = less::<FUSED>(odd[row], second[row], *by_second);
        }
    }
    for (column, by) in last.iter().zip(last_factor) {
        for row in 0..HEIGHT {
            even[row] = less::<FUSED>(even[row], column[row], *by);
        }
    }
    for row in 0..HEIGHT {
        result[row] = even[row] + odd[row];
    }
}
