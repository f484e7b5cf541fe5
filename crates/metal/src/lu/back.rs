//! Solves U·x = y after the factorisation, block by block from the last to the first. Memory
//! bandwidth limits it; the team shares the rows above each block.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::grid::Grid;
use super::narrow::Narrow;
use crate::team::TeamMember;

pub(super) struct Back<'run> {
    pub(super) narrow: &'static Narrow,
    pub(super) grid: Grid,
    pub(super) numbers: &'run [f64],
    pub(super) block: usize,
    /// Blocks of y, overwritten by x.
    pub(super) parts: Vec<Mutex<&'run mut [f64]>>,
}

impl<'run> Back<'run> {
    fn part(&self, index: usize) -> MutexGuard<'_, &'run mut [f64]> {
        self.parts[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn run(&self, member: TeamMember<'_>) {
        for index in (0..self.parts.len()).rev() {
            // Every thread solves the small triangle: this is faster than distributing the result.
            let mut x = self.part(index).to_vec();
            self.triangle(index, &mut x);
            member.barrier();
            if member.index == 0 {
                self.part(index).copy_from_slice(&x);
            }
            let share = |number: usize| number * index / member.count;
            self.above(share(member.index)..share(member.index + 1), index, &x);
            member.barrier();
        }
    }

    fn strip(&self, row: usize, index: usize, columns: usize) -> &'run [f64] {
        let start = self.grid.row_offset(row) + index * self.block * self.grid.height;
        self.numbers.get(start..start + columns * self.grid.height).unwrap_or_default()
    }

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

    /// Subtracts U × `x` (unknowns of block `index`) from the right-hand side in blocks `above`.
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
