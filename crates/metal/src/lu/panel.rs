//! Factors a panel, halved recursively so nearly all work is multiplication (Toledo, "Locality of
//! reference in LU decomposition with partial pivoting", SIAM J. Matrix Anal. 18, 4, 1997).

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::crew::{Crew, MOST_PARTS, part_of};
use super::grid::Grid;
use super::narrow::{KnownColumn, Largest, LowerColumns, Narrow, WIDEST, larger};
use crate::buffer::{Buffer, BufferError, Pages};
use crate::gemm::pack::MatrixPart;
use crate::gemm::product::multiply_tile;
use crate::gemm::tile::{RegisterTile, TileOperands, Update};

#[derive(Debug, Clone, Copy)]
pub(super) struct Kernels {
    pub(super) tile: &'static RegisterTile<f64>,
    pub(super) narrow: &'static Narrow,
}

/// First row, first column and width of a panel, all multiples of the tile's sizes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PanelPlace {
    pub(super) grid: Grid,
    pub(super) first: usize,
    pub(super) width: usize,
}

/// A factored panel. L below the panel's own rows stays in the grid's strips.
#[derive(Debug)]
pub(super) struct Factored {
    pub(super) solver: Buffer,
    pub(super) exchanges: Vec<RowExchange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowExchange {
    pub(super) from: usize,
    /// The panel's own row that moves to `from`; equal to `from` if that is a row of the panel.
    pub(super) replacement: usize,
}

const STRIPS: usize = 4;
/// Multiplications below which one thread subtracts a product.
const OPERATIONS: usize = 1 << 18;
const EXCHANGED: usize = 512;

#[derive(Debug)]
pub(super) struct PanelWorkspace {
    /// A triangle within the panel, by columns.
    lower: Buffer,
    /// The rows beside the triangle, by columns.
    upper: Buffer,
    /// These rows, packed in strips as operand B.
    strips: Buffer,
    pivots: Vec<u32>,
    /// Content of each row of the system, as row numbers.
    content: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoPivot(pub(super) usize);

/// Allocates a buffer of `elements` f64 zeros, made resident by the calling thread.
pub(super) fn allocate_zeros(elements: usize) -> Result<Buffer, BufferError> {
    Buffer::touched(elements.max(1).saturating_mul(size_of::<f64>()), Pages::Thp)
}

impl Factored {
    pub(super) fn new(width: usize) -> Result<Self, BufferError> {
        Ok(Self {
            solver: allocate_zeros(width.saturating_mul(width))?,
            exchanges: Vec::with_capacity(width),
        })
    }

    pub(super) fn bytes(width: usize) -> usize {
        width.saturating_mul(width.saturating_mul(size_of::<f64>()).saturating_add(size_of::<RowExchange>()))
    }

    /// Turns the unit lower triangle L in `solver` into a solver of L·X = B by multiplication: for
    /// rows i of tiles, X_i = D⁻¹·(B_i − L_i·X), strip i becomes (−D⁻¹·L_i | D⁻¹). Only triangles D
    /// of tile size are inverted, which partial pivoting keeps harmless; the residual is checked.
    fn invert(&mut self, width: usize, height: usize) {
        let strips = self.solver.elements_mut::<f64>();
        for (index, strip) in strips.chunks_exact_mut(width * height).take(width / height).enumerate() {
            let diagonal = index * height;
            let (left, triangle) = strip.split_at_mut(diagonal * height);
            let mut lower = [0.0; MAX_TILE_SQUARE];
            let lower = &mut lower[..height * height];
            lower.copy_from_slice(&triangle[..height * height]);
            left.iter_mut().for_each(|number| *number = -*number);
            for (column, numbers) in triangle.chunks_exact_mut(height).take(height).enumerate() {
                numbers.fill(0.0);
                numbers[column] = 1.0;
            }
            for numbers in strip[..(diagonal + height) * height].chunks_exact_mut(height) {
                for (row, lower) in lower.chunks_exact(height).enumerate() {
                    let factor = numbers[row];
                    for (number, lower) in numbers.iter_mut().zip(lower).skip(row + 1) {
                        *number -= lower * factor;
                    }
                }
            }
        }
    }
}

const MAX_TILE_SQUARE: usize = 24 * 24;

impl PanelWorkspace {
    pub(super) fn new(rows: usize, width: usize) -> Result<Self, BufferError> {
        let square = width.saturating_mul(width);
        Ok(Self {
            lower: allocate_zeros(square)?,
            upper: allocate_zeros(square)?,
            strips: allocate_zeros(square)?,
            pivots: vec![0; width],
            content: (0..rows).map(number).collect(),
        })
    }

    pub(super) fn bytes(rows: usize, width: usize) -> usize {
        let square = width.saturating_mul(width).saturating_mul(3 * size_of::<f64>());
        square.saturating_add(rows.saturating_add(width).saturating_mul(size_of::<u32>()))
    }

    /// Factors the panel at `place` of the matrix at `start` with partial pivoting; stores solver
    /// and row exchanges in `factored`. Threads of `crew` may help. Safety: kernels fit CPU and
    /// grid; the caller owns the panel's columns from its first row down.
    pub(super) unsafe fn factor(
        &mut self,
        kernels: Kernels,
        place: PanelPlace,
        start: *mut f64,
        factored: &mut Factored,
        crew: &Crew,
    ) -> Result<(), NoPivot> {
        let mut panel = Panel { kernels, view: View { place, start }, bench: self, crew };
        panel.factor(0..place.width)?;
        panel.prepare(factored);
        self.resolve_exchanges(place, factored);
        Ok(())
    }

    /// Stores in `factored` from where each row of the panel comes, as the pivots determine.
    fn resolve_exchanges(&mut self, place: PanelPlace, factored: &mut Factored) {
        let Self { pivots, content, .. } = self;
        let pivots = &pivots[..place.width];
        for (row, pivot) in (place.first..).zip(pivots) {
            content.swap(row, *pivot as usize);
        }
        let own = place.first..place.first + place.width;
        let exchange = |row: usize| {
            let from = content[row] as usize;
            // Rows that leave the panel go below it, whatever the order of the exchanges.
            let replacement = if own.contains(&from) { from } else { content[from] as usize };
            RowExchange { from: place.grid.row_offset(from), replacement: place.grid.row_offset(replacement) }
        };
        factored.exchanges.clear();
        factored.exchanges.extend(own.clone().map(exchange));
        let touched = own.chain(pivots.iter().map(|pivot| *pivot as usize));
        touched.for_each(|row| content[row] = number(row));
    }
}

fn number(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}

#[derive(Debug, Clone, Copy)]
struct View {
    place: PanelPlace,
    start: *mut f64,
}

// SAFETY: it is an address. Unsafe functions access it and state the exclusivity they need.
unsafe impl Sync for View {}

impl View {
    fn at(self, row: usize, column: usize) -> *mut f64 {
        let PanelPlace { grid, first, .. } = self.place;
        self.start.wrapping_add(grid.row_offset(first + row) + (first + column) * grid.height)
    }

    /// Exchanges two rows in `columns`. Safety: the caller owns these from the upper row down.
    unsafe fn swap(self, one: usize, other: usize, columns: Range<usize>) {
        let (mut upper, mut lower) = (self.at(one, columns.start), self.at(other, columns.start));
        for _ in columns {
            // SAFETY: two elements of a column, or the same one.
            unsafe { std::ptr::swap(upper, lower) };
            let step = self.place.grid.height;
            (upper, lower) = (upper.wrapping_add(step), lower.wrapping_add(step));
        }
    }

    /// Exchanges rows `pivots` with matrix rows `rows[pivot]` in `columns`. Safety: see `swap`.
    unsafe fn exchange(self, rows: &[u32], pivots: Range<usize>, columns: Range<usize>) {
        for row in pivots {
            // SAFETY: granted by the caller.
            unsafe { self.swap(row, rows[row] as usize - self.place.first, columns.clone()) };
        }
    }

    /// Copies `rows` of `columns` to `to`, column after column. Safety: no thread writes them.
    unsafe fn copy_out(self, rows: Range<usize>, columns: Range<usize>, to: &mut [f64]) {
        for (column, numbers) in columns.zip(to.chunks_exact_mut(rows.len())) {
            for (row, number) in rows.clone().zip(numbers) {
                // SAFETY: granted by the caller.
                *number = unsafe { *self.at(row, column) };
            }
        }
    }

    /// Copies `from`, column after column, to `rows` of `columns`. Safety: the caller owns these.
    unsafe fn copy_in(self, rows: Range<usize>, columns: Range<usize>, from: &[f64]) {
        for (column, numbers) in columns.zip(from.chunks_exact(rows.len())) {
            for (row, number) in rows.clone().zip(numbers) {
                // SAFETY: granted by the caller.
                unsafe { *self.at(row, column) = *number };
            }
        }
    }
}

struct Panel<'run> {
    kernels: Kernels,
    view: View,
    bench: &'run mut PanelWorkspace,
    crew: &'run Crew,
}

impl Panel<'_> {
    fn factor(&mut self, range: Range<usize>) -> Result<(), NoPivot> {
        if range.len() <= WIDEST {
            return self.narrow(range);
        }
        let middle = range.start + (range.len() / 2).next_multiple_of(WIDEST);
        let (left, right) = (range.start..middle, middle..range.end);
        self.factor(left.clone())?;
        self.substitute(left.clone(), right.clone());
        self.eliminate(left.clone(), right.clone());
        self.factor(right.clone())?;
        self.exchange(right, left);
        Ok(())
    }

    fn strips(&self) -> Range<usize> {
        let PanelPlace { grid, first, .. } = self.view.place;
        first / grid.height..grid.order / grid.height
    }

    fn narrow(&mut self, range: Range<usize>) -> Result<(), NoPivot> {
        let PanelPlace { grid, first, .. } = self.view.place;
        let row = first + range.start;
        let skip = row % grid.height;
        let below = LowerColumns {
            start: self.view.at(range.start - skip, range.start),
            skip,
            strips: (grid.order - (row - skip)) / grid.height,
            stride: grid.stride,
            columns: range.len(),
        };
        let mut column = KnownColumn { left: 0, factors: [0.0; WIDEST], pivot: 1.0 };
        for diagonal in range.clone() {
            column.left = diagonal - range.start;
            // SAFETY: kernels, processor and grid's height fit; the panel owns the columns.
            column.factors = unsafe { (self.kernels.narrow.above)(below, column.left) };
            let largest = self.step(below, &column, row / grid.height);
            let largest = largest.map_or(diagonal, |largest| range.start + largest.row);
            // SAFETY: an element of the panel.
            column.pivot = unsafe { *self.view.at(largest, diagonal) };
            if column.pivot == 0.0 || !column.pivot.is_finite() {
                return Err(NoPivot(first + diagonal));
            }
            self.bench.pivots[diagonal] = number(first + largest);
            // SAFETY: columns of the panel.
            unsafe { self.view.swap(diagonal, largest, range.clone()) };
        }
        column.left = range.len();
        self.step(below, &column, row / grid.height);
        Ok(())
    }

    fn step(&self, below: LowerColumns, column: &KnownColumn, from: usize) -> Option<Largest> {
        let (all, parts, step) = (self.strips(), self.crew.parts(), self.kernels.narrow.step);
        // One slot per part, so that threads do not wait for each other.
        let found: [Mutex<Option<Largest>>; MOST_PARTS] = Default::default();
        self.crew.share(self.crew.is_helped() && below.strips >= STRIPS * parts, &|these| {
            let strips = part_of(all.clone(), these.clone(), parts, from);
            // SAFETY: as in `narrow`; the parts have disjoint strips.
            let largest = unsafe { step(below, column, strips.start - from..strips.end - from) };
            if let Some(found) = found.get(these.start) {
                *found.lock().unwrap_or_else(PoisonError::into_inner) = largest;
            }
        });
        let each =
            found.into_iter().filter_map(|found| found.into_inner().unwrap_or_else(PoisonError::into_inner));
        each.fold(None, larger)
    }

    fn exchange(&mut self, pivots: Range<usize>, columns: Range<usize>) {
        let (view, parts, rows) = (self.view, self.crew.parts(), &self.bench.pivots);
        self.crew.share(self.crew.is_helped() && pivots.len() * columns.len() >= EXCHANGED, &|these| {
            let columns = part_of(columns.clone(), these, parts, 0);
            // SAFETY: columns of the panel; the parts have disjoint columns.
            unsafe { view.exchange(rows, pivots.clone(), columns) };
        });
    }

    /// Computes the rows of U right of the factored columns `left`, in the columns `right`:
    /// exchanges rows there, solves with the triangle in `left`, and packs the result in strips.
    fn substitute(&mut self, left: Range<usize>, right: Range<usize>) {
        let (tile, narrow, order, view) = (self.kernels.tile, self.kernels.narrow, left.len(), self.view);
        let PanelWorkspace { lower, upper, strips, pivots, .. } = &mut *self.bench;
        let lower = &mut lower.elements_mut::<f64>()[..order * order];
        // SAFETY: a part of the panel.
        unsafe { view.copy_out(left.clone(), left.clone(), lower) };
        let (tile_columns, tiles) = (tile.columns, right.len().div_ceil(tile.columns));
        let width = order * tile.columns;
        let upper = upper.elements_mut::<f64>()[..order * right.len()].chunks_mut(width);
        let strips = strips.elements_mut::<f64>().chunks_exact_mut(width);
        let each: Vec<_> = upper.zip(strips).map(Mutex::new).collect();
        let (lower, pivots, parts) = (&*lower, &*pivots, self.crew.parts());
        self.crew.share(self.crew.is_helped() && order * right.len() >= EXCHANGED, &|these| {
            let these = part_of(0..tiles, these, parts, 0);
            let column = |tile: usize| (right.start + tile * tile_columns).min(right.end);
            // Columns at once: neighbours in a row are close in memory, rows are not.
            // SAFETY: columns of the panel that only this part has.
            unsafe { view.exchange(pivots, left.clone(), column(these.start)..column(these.end)) };
            for index in these {
                let Some(Ok(mut both)) = each.get(index).map(Mutex::lock) else { continue };
                let (upper, strip) = &mut *both;
                let columns = column(index)..column(index + 1);
                // SAFETY: as above.
                unsafe { view.copy_out(left.clone(), columns.clone(), upper) };
                // SAFETY: the kernels suit this processor.
                unsafe { (narrow.substitute)(lower, upper, order) };
                // SAFETY: as above.
                unsafe { view.copy_in(left.clone(), columns.clone(), upper) };
                let part =
                    MatrixPart { start: upper.as_ptr(), rows: order, columns: columns.len(), stride: order };
                // SAFETY: the part is `upper`, and the strip has the same depth.
                unsafe { (tile.pack_b)(part, strip.as_mut_ptr()) };
            }
        });
    }

    /// Subtracts L (columns `left`) × U (rows `left`) from the columns `right`, below those rows.
    fn eliminate(&mut self, left: Range<usize>, right: Range<usize>) {
        let PanelPlace { grid, first, .. } = self.view.place;
        let (all, parts, from) = (self.strips(), self.crew.parts(), (first + left.end) / grid.height);
        let elimination = Elimination {
            tile: self.kernels.tile,
            view: self.view,
            strips: self.bench.strips.elements::<f64>(),
            left: left.clone(),
            right: right.clone(),
        };
        let operations = left.len() * right.len() * (grid.order - first);
        self.crew.share(operations >= OPERATIONS, &|these| {
            for strip in part_of(all.clone(), these, parts, from) {
                // SAFETY: the kernels suit this processor; the parts have disjoint strips.
                unsafe { elimination.strip(strip * grid.height - first) };
            }
        });
    }

    fn prepare(&self, factored: &mut Factored) {
        let (height, width) = (self.kernels.tile.rows, self.view.place.width);
        for (index, strip) in
            factored.solver.elements_mut::<f64>().chunks_exact_mut(height * width).enumerate()
        {
            if index * height < width {
                let from = self.view.at(index * height, 0);
                // SAFETY: one strip of the panel's own rows, whose columns are contiguous.
                unsafe { strip.as_mut_ptr().copy_from_nonoverlapping(from, height * width) };
            }
        }
        factored.invert(width, height);
    }
}

struct Elimination<'run> {
    tile: &'static RegisterTile<f64>,
    view: View,
    strips: &'run [f64],
    left: Range<usize>,
    right: Range<usize>,
}

impl Elimination<'_> {
    /// Subtracts L·U in the strip of rows that starts at `row` of the panel, below `left`. Safety:
    /// the tile fits this CPU; the caller owns the strip's columns `right` below `left`.
    unsafe fn strip(&self, row: usize) {
        let Self { tile, view, left, right, .. } = self;
        let (depth, top, stride) = (left.len(), left.end, view.place.grid.stride);
        let tiles = right.len().div_ceil(tile.columns);
        let a = view.at(row, left.start).cast_const();
        for (index, column) in right.clone().step_by(tile.columns).enumerate() {
            let c = view.at(row, column);
            let next = c.wrapping_add(tile.columns * tile.rows);
            let beyond = view.at(row, right.start).wrapping_add(stride);
            let operands = TileOperands {
                depth,
                a,
                b: self.strips.as_ptr().wrapping_add(index * depth * tile.columns),
                ahead: a.wrapping_add(stride + index * depth * tile.rows / tiles),
                ahead_bytes: (tile.rows * size_of::<f64>()).div_ceil(tiles),
                ahead_c: if index + 1 < tiles { next } else { beyond }.cast_const(),
            };
            let columns = tile.columns.min(right.end - column);
            let rows = top.saturating_sub(row)..tile.rows;
            // SAFETY: A is in `left`, `substitute` packed B, C is in `right` of this panel.
            unsafe { multiply_tile(tile, &operands, c, tile.rows, rows, columns, Update::Subtract) };
        }
    }
}
