use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::limit::median;
use crate::sample::{Cell, Sample};

/// One value per row and column, in the metric's unit; null if not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Numbers of the rows (such as kernel CPU numbers), ascending.
    pub rows: Vec<u32>,
    /// Numbers of the columns, ascending.
    pub columns: Vec<u32>,
    /// Medians over the samples.
    pub values: Vec<Vec<Option<f64>>>,
    /// Median absolute deviations over the samples, unscaled; null below two samples.
    pub spread: Vec<Vec<Option<f64>>>,
    /// Label of each pair, such as `smt`.
    pub marks: Vec<Vec<Option<String>>>,
}

impl Matrix {
    /// Builds the matrix of medians over `samples`; `None` if no sample has cells.
    pub fn of(samples: &[Sample]) -> Option<Self> {
        let mut places: BTreeMap<[u32; 2], (Vec<f64>, Option<&str>)> = BTreeMap::new();
        for cell in samples.iter().flat_map(|s| &s.matrix).filter(|cell| cell.value.is_finite()) {
            let (values, mark) = places.entry([cell.row, cell.column]).or_default();
            values.push(cell.value);
            *mark = mark.or(cell.mark.as_deref());
        }
        let axis = |end: usize| -> Vec<u32> {
            places.keys().map(|place| place[end]).collect::<BTreeSet<u32>>().into_iter().collect()
        };
        let (rows, columns) = (axis(0), axis(1));
        (!rows.is_empty()).then(|| Self {
            values: filled(&rows, &columns, |at| median(places.get(&at)?.0.clone())),
            spread: filled(&rows, &columns, |at| spread(&places.get(&at)?.0)),
            marks: filled(&rows, &columns, |at| places.get(&at)?.1.map(str::to_owned)),
            rows,
            columns,
        })
    }
    /// Returns the measured cells, row by row.
    pub fn measured(&self) -> impl Iterator<Item = Cell> {
        let of_row = |(index, row): (usize, &u32)| {
            let row = *row;
            let values = self.values.get(index).into_iter().flatten();
            let marks = self.marks.get(index).into_iter().flatten();
            self.columns.iter().zip(values).zip(marks).filter_map(move |((column, value), mark)| {
                Some(Cell { row, column: *column, value: (*value)?, mark: mark.clone() })
            })
        };
        self.rows.iter().enumerate().flat_map(of_row)
    }

    /// Returns (measured cells, pairs); both directions of a pair count as one pair.
    pub fn counted(&self) -> (usize, usize) {
        (self.measured().count(), count_pairs(self.measured()))
    }

    /// Returns pairs and median of each label (`smt`), the lowest median first.
    pub fn medians_by_label(&self) -> Vec<LabelMedian> {
        let mut kinds: BTreeMap<Option<String>, Vec<Cell>> = BTreeMap::new();
        self.measured().for_each(|place| kinds.entry(place.mark.clone()).or_default().push(place));
        let reported = |(mark, places): (_, Vec<Cell>)| {
            let median = median(places.iter().map(|p| p.value).collect())?;
            Some(LabelMedian { mark, pairs: count_pairs(places.into_iter()), median })
        };
        let mut found: Vec<LabelMedian> = kinds.into_iter().filter_map(reported).collect();
        found.sort_by(|a, b| a.median.total_cmp(&b.median));
        found
    }
}

/// Pairs with the same label.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelMedian {
    /// Label.
    pub mark: Option<String>,
    /// Number of pairs; both directions of a pair count as one.
    pub pairs: usize,
    /// Median of their values.
    pub median: f64,
}

fn count_pairs(cells: impl Iterator<Item = Cell>) -> usize {
    cells.map(|p| [p.row.min(p.column), p.row.max(p.column)]).collect::<BTreeSet<[u32; 2]>>().len()
}

fn filled<T>(rows: &[u32], columns: &[u32], read: impl Fn([u32; 2]) -> Option<T>) -> Vec<Vec<Option<T>>> {
    rows.iter().map(|row| columns.iter().map(|column| read([*row, *column])).collect()).collect()
}

fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values.to_vec()).filter(|_| values.len() > 1)?;
    median(values.iter().map(|value| (value - middle).abs()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cells: &[(u32, u32, f64)]) -> Sample {
        let mark = |row: u32, column: u32| (row + column == 1).then(|| "smt".to_owned());
        let cell = |&(row, column, value)| Cell { row, column, value, mark: mark(row, column) };
        Sample { matrix: cells.iter().map(cell).collect(), ..Sample::default() }
    }

    #[test]
    fn cells_of_all_samples_come_together() {
        let samples = [
            sample(&[(0, 1, 5.0), (1, 0, 5.0), (0, 4, 20.0)]),
            sample(&[(0, 1, 6.0), (1, 0, 6.0), (0, 4, f64::NAN)]),
            sample(&[(0, 1, 9.0), (1, 0, 9.0)]),
        ];
        let matrix = Matrix::of(&samples).unwrap();
        assert_eq!((matrix.rows, matrix.columns), (vec![0, 1], vec![0, 1, 4]));
        assert_eq!(matrix.values, [[None, Some(6.0), Some(20.0)], [Some(6.0), None, None]]);
        assert_eq!(matrix.spread, [[None, Some(1.0), None], [Some(1.0), None, None]]);
        let smt = || Some("smt".to_owned());
        assert_eq!(matrix.marks, [[None, smt(), None], [smt(), None, None]]);
    }

    #[test]
    fn pairs_are_told_by_their_marks_the_nearest_first() {
        let all = [sample(&[(0, 1, 5.0), (1, 0, 7.0), (0, 4, 20.0), (4, 1, 21.0), (1, 5, 30.0)])];
        let matrix = Matrix::of(&all).unwrap();
        let smt = LabelMedian { mark: Some("smt".to_owned()), pairs: 1, median: 6.0 };
        assert_eq!(matrix.medians_by_label(), [smt, LabelMedian { mark: None, pairs: 3, median: 21.0 }]);
        assert_eq!(matrix.measured().count(), 5);
        let last = matrix.measured().last().unwrap();
        assert_eq!(last, Cell { row: 4, column: 1, value: 21.0, mark: None });
    }

    #[test]
    fn without_cells_there_is_no_matrix() {
        assert_eq!(Matrix::of(&[]), None);
        assert_eq!(Matrix::of(&[Sample::default(), sample(&[(0, 1, f64::INFINITY)])]), None);
    }
}
