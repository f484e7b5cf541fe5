//! Which units the title, the columns and the cells of a published table name: each once, where all of it is in that unit.

use plimsoll_published::tables::Kind;

use super::cells::{Cell, Filled};

/// The units of a table.
pub(super) struct Units {
    /// Those that the title names.
    pub(super) title: Vec<String>,
    /// Names of the columns, with their units where these differ by column.
    pub(super) columns: Vec<String>,
    /// The unit of most cells of each column, where columns and rows are mixed: other cells name theirs.
    main: Vec<Option<String>>,
    /// The printed unit that each row names, where each row has its own.
    rows: Vec<Option<String>>,
}

impl Units {
    pub(super) fn of(filled: &Filled<'_>) -> Self {
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
        if filled.table.kind == Kind::Text {
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

    /// The printed unit that a row names.
    pub(super) fn of_row(&self, row: usize) -> Option<&str> {
        self.rows.get(row)?.as_deref()
    }

    /// The unit that today's figure in this cell names itself; empty where the table does.
    pub(super) fn today<'a>(&self, row: usize, column: usize, cell: &'a Cell<'_>) -> &'a str {
        let named = match self.of_row(row) {
            // The unit that is printed does not fit: today's figure is in another.
            Some(_) => cell.figure.base.is_some() || cell.figure.unit == cell.unit.name,
            None => !self.is_other(column, cell),
        };
        if named || cell.part.is_share() { "" } else { &cell.unit.name }
    }

    /// The unit that the published number in this cell names itself, as printed; empty where the table does.
    pub(super) fn published(&self, row: usize, column: usize, cell: &Cell<'_>) -> &'static str {
        let named = match self.of_row(row) {
            Some(unit) => is_alike(unit, cell.figure.unit),
            None => !self.is_other(column, cell),
        };
        if named || cell.part.is_share() { "" } else { cell.figure.unit }
    }

    fn is_other(&self, column: usize, cell: &Cell<'_>) -> bool {
        let main = self.main.get(column).and_then(Option::as_ref);
        main.is_some_and(|main| *main != cell.unit.name)
    }
}

/// The units of these cells, the most frequent first.
fn distinct<'a, 'b: 'a>(cells: impl Iterator<Item = &'a Cell<'b>>) -> Vec<String> {
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

/// The unit that a row of the text prints first.
fn printed(row: &[Option<Cell<'_>>]) -> Option<String> {
    let figure = row.iter().flatten().find(|cell| !cell.part.is_share()).map(|cell| cell.figure.unit);
    figure.filter(|unit| !unit.is_empty()).map(str::to_owned)
}

/// Whether two printed units differ in capitals alone.
fn is_alike(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}
