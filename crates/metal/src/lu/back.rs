//! Solves U·x = y when the factorisation is done: blocks of x from the last to the first.
//!
//! It reads U once and does little with it, so memory sets its pace; the team shares the rows above each block.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::grid::Grid;
use super::narrow::Narrow;
use crate::team::Member;

/// U and the right-hand side, cut into blocks of as many rows.
pub(super) struct Back<'run> {
    pub(super) narrow: &'static Narrow,
    pub(super) grid: Grid,
    pub(super) numbers: &'run [f64],
    /// Rows of a block: whole strips.
    pub(super) block: usize,
    /// y, and x where it is known.
    pub(super) parts: Vec<Mutex<&'run mut [f64]>>,
}

impl<'run> Back<'run> {
    fn part(&self, index: usize) -> MutexGuard<'_, &'run mut [f64]> {
        self.parts[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One member's share.
    pub(super) fn run(&self, member: Member<'_>) {
        for index in (0..self.parts.len()).rev() {
            // Everybody solves the small triangle: that is sooner done than told.
            let mut x = self.part(index).to_vec();
            self.triangle(index, &mut x);
            // All have read before any writes.
            member.barrier();
            if member.index == 0 {
                self.part(index).copy_from_slice(&x);
            }
            let share = |number: usize| number * index / member.count;
            self.above(share(member.index)..share(member.index + 1), index, &x);
            member.barrier();
        }
    }

    /// The columns of a block in the strip that begins at `row`.
    fn strip(&self, row: usize, index: usize, columns: usize) -> &'run [f64] {
        let start = self.grid.row(row) + index * self.block * self.grid.step();
        self.numbers.get(start..start + columns * self.grid.height).unwrap_or_default()
    }

    /// Solves one block of x in place: strip by strip from below.
    fn triangle(&self, index: usize, x: &mut [f64]) {
        let height = self.grid.height;
        let mut known = x.len();
        while known > 0 {
            let top = known - height;
            let strip = self.strip(index * self.block + top, index, x.len());
            let (above, solved) = x.split_at_mut(known);
            let rows = &mut above[top..];
            // SAFETY: the functions were chosen for this processor and the grid's height.
            unsafe { (self.narrow.subtract)(&strip[known * height..], solved, rows) };
            for column in (0..height).rev() {
                let numbers = &strip[(top + column) * height..][..=column];
                let Some((diagonal, above)) = numbers.split_last() else { return };
                let number = rows[column] / diagonal;
                rows[column] = number;
                for (row, factor) in rows.iter_mut().zip(above) {
                    *row -= number * factor;
                }
            }
            known = top;
        }
    }

    /// Subtracts what block `index` of x contributes to the rows of the blocks `above`.
    fn above(&self, above: Range<usize>, index: usize, x: &[f64]) {
        let height = self.grid.height;
        for above in above {
            let mut part = self.part(above);
            for (strip, rows) in part.chunks_exact_mut(height).enumerate() {
                let strip = self.strip(above * self.block + strip * height, index, x.len());
                // SAFETY: the functions were chosen for this processor and the grid's height.
                unsafe { (self.narrow.subtract)(strip, x, rows) };
            }
        }
    }
}
