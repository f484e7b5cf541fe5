use std::ops::Deref;

use super::Real;

/// The slice is too short for the matrix, or columns overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{elements} elements cannot be a matrix of {rows} rows and {columns} columns, with a stride of {stride} elements: \
     the stride must be at least the rows and the slice reach to the last element"
)]
pub struct ShapeError {
    /// Elements in the slice.
    pub elements: usize,
    /// Requested rows.
    pub rows: usize,
    /// Requested columns.
    pub columns: usize,
    /// Elements from one column to the next.
    pub stride: usize,
}

/// A column-major matrix in a slice.
#[derive(Debug, Clone, Copy)]
pub struct ColumnMatrix<D> {
    pub(super) data: D,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) stride: usize,
}

/// A read-only column-major matrix.
pub type MatrixView<'a, T> = ColumnMatrix<&'a [T]>;

/// A mutable column-major matrix.
pub type MatrixMut<'a, T> = ColumnMatrix<&'a mut [T]>;

impl<T: Real, D: Deref<Target = [T]>> ColumnMatrix<D> {
    /// Views column-major `data` as a matrix; columns start `stride` elements apart. Fails if
    /// `stride` is below `rows` or `data` is too short.
    pub fn new(data: D, rows: usize, columns: usize, stride: usize) -> Result<Self, ShapeError> {
        let elements = data.len();
        let last =
            columns.checked_sub(1).map_or(Some(0), |before| before.checked_mul(stride)?.checked_add(rows));
        match last {
            Some(last) if stride >= rows && last <= elements => Ok(Self { data, rows, columns, stride }),
            _ => Err(ShapeError { elements, rows, columns, stride }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_reaches_exactly_to_its_last_element() {
        let data = [0.0_f64; 11];
        let fits = |[m, n, stride]: [usize; 3]| MatrixView::new(&data, m, n, stride).is_ok();
        assert_eq!([[3, 3, 4], [4, 0, 4], [0, 3, 0]].map(fits), [true; 3]);
        assert_eq!([[3, 4, 4], [4, 3, 3]].map(fits), [false; 2]);
        let error = MatrixView::new(&data, 2, usize::MAX, 3).unwrap_err();
        assert!(error.to_string().contains("11 elements"), "{error}");
    }
}
