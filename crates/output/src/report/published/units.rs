//! Place at which a published table prints its units: in title, columns, rows or cells, each once.

use plimsoll_published::tables::TableKind;

use super::cells::{FilledCell, FilledTable};
use crate::report::grouped;

pub(super) struct TableUnits {
    pub(super) title: Vec<String>,
    pub(super) columns: Vec<String>,
    main: Vec<Option<String>>,
    rows: Vec<Option<String>>,
}

impl TableUnits {
    pub(super) fn of(filled: &FilledTable<'_>) -> Self {
        let names = &filled.table.columns;
        let mut units = Self {
            title: distinct(filled.cells()),
            columns: names.clone(),
            main: vec![None; names.len()],
            rows: vec![None; filled.rows.len()],
        };
        if filled.table.kind == TableKind::Text {
            units.rows = filled.rows.iter().map(|row| printed(row)).collect();
            return units;
        }
        let column = |at: usize| distinct(filled.rows.iter().filter_map(|row| row.get(at)?.as_ref()));
        let by_column: Vec<Vec<String>> = (0..names.len()).map(column).collect();
        let is_by_row = filled.rows.iter().all(|row| distinct(row.iter().flatten()).len() < 2);
        let is_by_column = by_column.iter().all(|units| units.len() < 2);
        if units.title.len() < 2 || is_by_row && !is_by_column {
            return units;
        }
        units.title.clear();
        for (name, of_column) in units.columns.iter_mut().zip(&by_column) {
            of_column.first().into_iter().for_each(|unit| *name += &format!(", {unit}"));
        }
        let main = by_column.into_iter().map(|units| units.into_iter().next().filter(|_| !is_by_column));
        units.main = main.collect();
        units
    }

    pub(super) fn of_row(&self, row: usize) -> Option<&str> {
        self.rows.get(row)?.as_deref()
    }

    /// Returns the unit to print after the run's value; empty if the title, column or row has it.
    pub(super) fn today<'a>(&self, row: usize, column: usize, cell: &'a FilledCell<'_>) -> &'a str {
        let fits = |_: &str| cell.figure.base.is_some() || cell.figure.unit == cell.unit.name;
        if self.states(row, column, cell, fits) { "" } else { &cell.unit.name }
    }

    /// Returns the unit to print after the published number; empty if title, column or row has it.
    pub(super) fn published(&self, row: usize, column: usize, cell: &FilledCell<'_>) -> &'static str {
        let fits = |unit: &str| unit.eq_ignore_ascii_case(cell.figure.unit);
        if self.states(row, column, cell, fits) { "" } else { cell.figure.unit }
    }

    /// Returns whether title, column or row (if that `fits`) states the unit.
    fn states(&self, row: usize, column: usize, cell: &FilledCell<'_>, fits: impl Fn(&str) -> bool) -> bool {
        let main = self.main.get(column).and_then(Option::as_ref);
        let is_main = main.is_none_or(|main| *main == cell.unit.name);
        cell.part.is_share() || self.of_row(row).map_or(is_main, fits)
    }
}

fn distinct<'a, 'b: 'a>(cells: impl Iterator<Item = &'a FilledCell<'b>>) -> Vec<String> {
    let named = cells.filter(|cell| !cell.part.is_share() && !cell.unit.name.is_empty());
    let mut units = grouped(named.map(|cell| (&cell.unit.name, ())));
    units.sort_by_key(|(_, all)| std::cmp::Reverse(all.len()));
    units.into_iter().map(|(unit, _)| unit.clone()).collect()
}

/// Returns the printed unit of the first number of a row that is no share; `None` if it has none.
fn printed(row: &[Option<FilledCell<'_>>]) -> Option<String> {
    let figure = row.iter().flatten().find(|cell| !cell.part.is_share()).map(|cell| cell.figure.unit);
    figure.filter(|unit| !unit.is_empty()).map(str::to_owned)
}
