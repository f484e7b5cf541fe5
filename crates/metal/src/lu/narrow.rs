//! Factorisation steps on a few columns, without multiplication: plain Rust over strips of HEIGHT
//! rows (see `grid`), compiled for every instruction set.

use std::ops::Range;

use crate::isa::Isa;

/// Largest number of columns that are factored without multiplication.
pub(crate) const WIDEST: usize = 8;

const TOGETHER: usize = 16;

#[derive(Debug, Clone, Copy)]
pub(crate) struct LowerColumns {
    /// First element of the first column in the strip of the first row.
    pub(crate) start: *mut f64,
    /// Rows of the first strip above the first row.
    pub(crate) skip: usize,
    pub(crate) strips: usize,
    pub(crate) stride: usize,
    pub(crate) columns: usize,
}

impl LowerColumns {
    /// Returns `column` in strip `strip` (HEIGHT rows). Safety: no thread writes it while borrowed.
    #[inline(always)]
    unsafe fn strip<'a, const HEIGHT: usize>(self, strip: usize, column: usize) -> &'a [f64; HEIGHT] {
        let start = self.start.wrapping_add(strip * self.stride + column * HEIGHT);
        // SAFETY: granted by the caller.
        unsafe { &*start.cast() }
    }

    /// Returns `column` in strip `strip` (HEIGHT rows). Safety: nothing else accesses it.
    #[inline(always)]
    unsafe fn strip_mut<'a, const HEIGHT: usize>(self, strip: usize, column: usize) -> &'a mut [f64; HEIGHT] {
        let start = self.start.wrapping_add(strip * self.stride + column * HEIGHT);
        // SAFETY: granted by the caller.
        unsafe { &mut *start.cast() }
    }

    #[inline(always)]
    fn at<const HEIGHT: usize>(self, row: usize, column: usize) -> *mut f64 {
        let row = self.skip + row;
        self.start.wrapping_add(row / HEIGHT * self.stride + column * HEIGHT + row % HEIGHT)
    }
}

// SAFETY: it is an address. Unsafe functions access it and state the exclusivity they need.
unsafe impl Sync for LowerColumns {}

#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownColumn {
    pub(crate) left: usize,
    /// Elements of this column above its diagonal.
    pub(crate) factors: [f64; WIDEST],
    pub(crate) pivot: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Largest {
    pub(crate) size: f64,
    /// Row, from the first of these columns.
    pub(crate) row: usize,
}

#[derive(Debug)]
pub(crate) struct Narrow {
    pub(crate) isa: Isa,
    pub(crate) above: unsafe fn(LowerColumns, usize) -> [f64; WIDEST],
    pub(crate) step: unsafe fn(LowerColumns, &KnownColumn, Range<usize>) -> Option<Largest>,
    pub(crate) substitute: unsafe fn(&[f64], &mut [f64], usize),
    pub(crate) subtract: unsafe fn(&[f64], &[f64], &mut [f64]),
}

#[inline(always)]
fn minus_product<const FUSED: bool>(x: f64, y: f64, z: f64) -> f64 {
    if FUSED { (-y).mul_add(z, x) } else { x - y * z }
}

/// Does an LU step on column number `column.left` in `strips`: divides the column before it by the
/// pivot, then subtracts all columns before it. Returns its largest element from the diagonal down;
/// `None` past the last column. Safety: the CPU has the set, the caller owns `strips`.
#[inline(always)]
pub(crate) unsafe fn step<const FUSED: bool, const HEIGHT: usize>(
    panel: LowerColumns,
    column: &KnownColumn,
    strips: Range<usize>,
) -> Option<Largest> {
    if let Some(left) = column.left.checked_sub(1) {
        // SAFETY: granted by the caller.
        unsafe { divide_below_diagonal::<HEIGHT>(panel, left, column.pivot, strips.clone()) };
    }
    if column.left >= panel.columns {
        return None;
    }
    // SAFETY: as above.
    unsafe { eliminate_from::<FUSED, HEIGHT>(panel, column, strips) }
}

/// Solves for U above the diagonal of `column`, stores the elements, and returns them followed by
/// zeros. Safety: the caller owns the columns down to that diagonal.
#[inline(always)]
pub(crate) unsafe fn solve_above_diagonal<const FUSED: bool, const HEIGHT: usize>(
    panel: LowerColumns,
    column: usize,
) -> [f64; WIDEST] {
    let mut factors = [0.0; WIDEST];
    for row in 0..column {
        // SAFETY: an element of the panel.
        let mut number = unsafe { *panel.at::<HEIGHT>(row, column) };
        for (left, factor) in factors.iter().enumerate().take(row) {
            // SAFETY: as above.
            number = minus_product::<FUSED>(number, unsafe { *panel.at::<HEIGHT>(row, left) }, *factor);
        }
        factors[row] = number;
        // SAFETY: as above.
        unsafe { *panel.at::<HEIGHT>(row, column) = number };
    }
    factors
}

/// Calls [`eliminate`] with `column.left` as the constant LEFT. Safety: see [`step`].
#[inline(always)]
unsafe fn eliminate_from<const FUSED: bool, const HEIGHT: usize>(
    panel: LowerColumns,
    column: &KnownColumn,
    strips: Range<usize>,
) -> Option<Largest> {
    macro_rules! with {
        ($left:literal) => {
            // SAFETY: granted by the caller; `$left` columns are on the left.
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

/// Divides by `pivot` the elements of `column` below its diagonal in the strips (HEIGHT rows each)
/// with the numbers `strips`. Safety: see [`step`].
#[inline(always)]
unsafe fn divide_below_diagonal<const HEIGHT: usize>(
    panel: LowerColumns,
    column: usize,
    pivot: f64,
    strips: Range<usize>,
) {
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

/// Subtracts the first LEFT columns × `factors` from column number LEFT, in `strips`. Returns that
/// column's largest element from the diagonal down, `None` if all are NaN. Safety: see [`step`].
#[inline(always)]
unsafe fn eliminate<const FUSED: bool, const HEIGHT: usize, const LEFT: usize>(
    panel: LowerColumns,
    factors: &[f64; WIDEST],
    strips: Range<usize>,
) -> Option<Largest> {
    let first = panel.skip + LEFT;
    let whole = first.div_ceil(HEIGHT);
    let mut best: Option<Largest> = None;
    if whole > 0 && strips.contains(&(whole - 1)) {
        for row in LEFT..whole * HEIGHT - panel.skip {
            // SAFETY: an element of the strips.
            let mut number = unsafe { *panel.at::<HEIGHT>(row, LEFT) };
            for (left, factor) in factors.iter().enumerate().take(LEFT) {
                // SAFETY: as above.
                number = minus_product::<FUSED>(number, unsafe { *panel.at::<HEIGHT>(row, left) }, *factor);
            }
            // SAFETY: as above.
            unsafe { *panel.at::<HEIGHT>(row, LEFT) = number };
            // NaN is not a candidate.
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
                    *number = minus_product::<FUSED>(*number, *other, *factor);
                }
            }
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

/// Returns the larger of `best` and `other` by absolute value; if equal, that in the upper row.
pub(crate) fn larger(best: Option<Largest>, other: Largest) -> Option<Largest> {
    match best {
        Some(best) if best.size > other.size || (best.size == other.size && best.row < other.row) => {
            Some(best)
        }
        _ => Some(other),
    }
}

/// Solves L·X = B and overwrites B; L is the unit lower triangle of an `order` × `order` matrix.
/// Both are stored by columns. Safety: the processor has the instruction set.
#[inline(always)]
pub(crate) unsafe fn substitute<const FUSED: bool>(lower: &[f64], right: &mut [f64], order: usize) {
    for numbers in right.chunks_exact_mut(order.max(1)) {
        for (row, lower) in lower.chunks_exact(order.max(1)).enumerate() {
            let (solved, rest) = numbers.split_at_mut(row + 1);
            let factor = solved[row];
            for (number, lower) in rest.iter_mut().zip(&lower[row + 1..]) {
                *number = minus_product::<FUSED>(*number, *lower, factor);
            }
        }
    }
}

/// Subtracts the columns in `strip` (HEIGHT elements each) × `factors`, one per column, from the
/// first HEIGHT elements of `result`; FUSED: by fused multiply-add. Safety: the processor has the
/// instruction set.
#[inline(always)]
pub(crate) unsafe fn subtract<const FUSED: bool, const HEIGHT: usize>(
    strip: &[f64],
    factors: &[f64],
    result: &mut [f64],
) {
    let Some(result) = result.first_chunk_mut::<HEIGHT>() else { return };
    // Two sums: one would be limited by the latency of the additions.
    let (mut even, mut odd) = (*result, [0.0; HEIGHT]);
    let (columns, _) = strip.as_chunks::<HEIGHT>();
    let (pairs, last) = columns.as_chunks::<2>();
    let (factor_pairs, last_factor) = factors.as_chunks::<2>();
    for ([first, second], [by_first, by_second]) in pairs.iter().zip(factor_pairs) {
        for row in 0..HEIGHT {
            even[row] = minus_product::<FUSED>(even[row], first[row], *by_first);
            odd[row] = minus_product::<FUSED>(odd[row], second[row], *by_second);
        }
    }
    for (column, by) in last.iter().zip(last_factor) {
        for row in 0..HEIGHT {
            even[row] = minus_product::<FUSED>(even[row], column[row], *by);
        }
    }
    for row in 0..HEIGHT {
        result[row] = even[row] + odd[row];
    }
}
