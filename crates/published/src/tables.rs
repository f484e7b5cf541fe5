//! The tables of the reports: which there are, in which order, and which figure is in which row and column.
//!
//! Captions and numbers of tables are not printed in all reports: titles name what a table holds, and tables are numbered
//! in their order. Rows are in the order of their first figure.

#[cfg(test)]
mod tests;

use super::{Baseline, Figure, rows};

/// The tables of all reports; columns are separated by `|`.
const TABLES: &str = include_str!("data/tables.tsv");

/// A table of a report.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    /// Its number among the report's tables, from 1.
    pub number: usize,
    /// What it holds.
    pub title: String,
    /// What is in it.
    pub kind: Kind,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// Its rows, in their order.
    pub rows: Vec<Row<'a>>,
}

/// What is in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The points of the report's own matrix.
    Own,
    /// The output of a reference program alone.
    Program,
    /// Numbers of the report's text, which are in none of its tables.
    Text,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Own, Self::Program, Self::Text];

    /// As it is written in exports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Program => "program",
            Self::Text => "text",
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// What it is called.
    pub label: String,
    /// A figure for each column; `None` where the report has none.
    pub cells: Vec<Option<&'a Figure>>,
}

impl<'a> Table<'a> {
    /// All its figures, row by row.
    pub fn figures(&self) -> impl Iterator<Item = &'a Figure> + '_ {
        self.rows.iter().flat_map(|row| row.cells.iter().copied().flatten())
    }

    /// Puts a figure into its row; into another row below it where a text has two numbers for one place.
    fn put(&mut self, figure: &'a Figure) {
        let Some(at) = self.columns.iter().position(|column| column == figure.column) else { return };
        let is_own = |row: &Row<'_>| row.label == figure.row;
        let free = self.rows.iter().position(|row| is_own(row) && row.cells[at].is_none());
        let place = free.unwrap_or_else(|| {
            let place = self.rows.iter().rposition(is_own).map_or(self.rows.len(), |last| last + 1);
            let cells = vec![None; self.columns.len()];
            self.rows.insert(place, Row { label: figure.row.to_owned(), cells });
            place
        });
        self.rows[place].cells[at] = Some(figure);
    }
}

/// The tables of a report, in its order, each figure in exactly one.
pub fn of(baseline: &Baseline) -> Vec<Table<'_>> {
    let own = rows::<5>(TABLES).filter(|[report, ..]| *report == baseline.name);
    let table = |[_, number, kind, title, columns]: [&'static str; 5]| {
        let mut table = Table {
            number: number.parse().ok()?,
            title: title.to_owned(),
            kind: Kind::ALL.into_iter().find(|one| one.word() == kind)?,
            columns: columns.split('|').map(str::to_owned).collect(),
            rows: Vec::new(),
        };
        baseline.figures.iter().filter(|figure| figure.table == number).for_each(|figure| table.put(figure));
        Some(table)
    };
    own.filter_map(table).collect()
}
