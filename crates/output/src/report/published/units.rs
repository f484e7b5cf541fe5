//! Where a published table prints its units: in the title, columns, rows or cells, each once.

use plimsoll_published::tables::TableKind;

use super::cells::{FilledCell, FilledTable};

pub(super) struct TableUnits {
    pub(super) title: Vec<String>,
    pub(super) columns: Vec<String>,
    main: Vec<Option<String>>,
    rows: Vec<Option<String>>,
}

impl TableUnits {
    pub(super) fn of(filled: &FilledTable<'_>) -> Self {
        let names = filled.table.columns.clone();
        let column = |at: usize| distinct(filled.rows.iter().filter_map(|row| row.get(at)?.as_ref()));
        let by_column: Vec<Vec<String>> = (0..names.len()).map(column).collect();
        let all = distinct(filled.cells());
        let none = || vec![None; names.len()];
        let plain = |title: Vec<String>, columns: Vec<String>, main: Vec<Option<String>>| Self {
            title,
            columns,
            main,
            rows: vec![None; filled.rows.len()],
        };
        if filled.table.kind == TableKind::Text {
            let rows = filled.rows.iter().map(|row| printed(row)).collect();
            return Self { rows, ..plain(all, names.clone(), none()) };
        }
        let is_by_row = filled.rows.iter().all(|row| distinct(row.iter().flatten()).len() < 2);
        let is_by_column = by_column.iter().all(|units| units.len() < 2);
        if all.len() < 2 || is_by_row && !is_by_column {
            return plain(all, names.clone(), none());
        }
        let named = names.iter().zip(&by_column).map(|(name, units)| match units.first() {
            Some(unit) => format!("{name}, {unit}"),
            None => name.clone(),
        });
        let main = by_column.iter().map(|units| units.first().cloned().filter(|_| !is_by_column)).collect();
        plain(Vec::new(), named.collect(), main)
    }

    pub(super) fn of_row(&self, row: usize) -> Option<&str> {
        self.rows.get(row)?.as_deref()
    }

    /// Returns the unit to print after today's value in this cell; empty if the table names it.
    pub(super) fn today<'a>(&self, row: usize, column: usize, cell: &'a FilledCell<'_>) -> &'a str {
        let named = match self.of_row(row) {
            Some(_) => cell.figure.base.is_some() || cell.figure.unit == cell.unit.name,
            None => !self.is_other(column, cell),
        };
        if named || cell.part.is_share() { "" } else { &cell.unit.name }
    }

    /// Returns the unit to print after the published number; empty if the table names it.
    pub(super) fn published(&self, row: usize, column: usize, cell: &FilledCell<'_>) -> &'static str {
        let named = match self.of_row(row) {
            Some(unit) => is_alike(unit, cell.figure.unit),
            None => !self.is_other(column, cell),
        };
        if named || cell.part.is_share() { "" } else { cell.figure.unit }
    }

    fn is_other(&self, column: usize, cell: &FilledCell<'_>) -> bool {
        let main = self.main.get(column).and_then(Option::as_ref);
        main.is_some_and(|main| *main != cell.unit.name)
    }
}

fn distinct<'a, 'b: 'a>(cells: impl Iterator<Item = &'a FilledCell<'b>>) -> Vec<String> {
    let mut units: Vec<(String, usize)> = Vec::new();
    for cell in cells.filter(|cell| !cell.part.is_share() && !cell.unit.name.is_empty()) {
        match units.iter_mut().find(|(known, _)| *known == cell.unit.name) {
            Some((_, count)) => *count += 1,
            None => units.push((cell.unit.name.clone(), 1)),
        }
    }
    units.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    units.into_iter().map(|(unit, _)| unit).collect()
}

/// Returns the unit that the first number of a row prints; `None` if it prints none.
fn printed(row: &[Option<FilledCell<'_>>]) -> Option<String> {
    let figure = row.iter().flatten().find(|cell| !cell.part.is_share()).map(|cell| cell.figure.unit);
    figure.filter(|unit| !unit.is_empty()).map(str::to_owned)
}

fn is_alike(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}
