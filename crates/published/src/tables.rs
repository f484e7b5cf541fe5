//! Tables of the reports, numbered in order of appearance, with the row and column of each number;
//! titles describe the contents, because not all reports print captions.

#[cfg(test)]
mod tests;

use super::{PublishedFigure, PublishedReport, rows};

/// Tables of all reports; `|` separates column labels.
const TABLES: &str = include_str!("data/tables.tsv");

/// One table of a report.
#[derive(Clone, Debug)]
pub struct PublishedTable<'a> {
    /// Position in the report, from 1.
    pub number: usize,
    /// Description of its contents.
    pub title: String,
    /// Kind of contents.
    pub kind: TableKind,
    /// Column labels.
    pub columns: Vec<String>,
    /// Rows, in order.
    pub rows: Vec<PublishedRow<'a>>,
}

/// Kind of contents of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Results of the report's own measurement matrix.
    Own,
    /// Output of a reference tool only.
    Program,
    /// Numbers from the report's text that are in none of its tables.
    Text,
}

impl TableKind {
    /// Returns the kind as written in exports: `own`, `program` or `text`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Program => "program",
            Self::Text => "text",
        }
    }
}

/// One row of a table.
#[derive(Clone, Debug)]
pub struct PublishedRow<'a> {
    /// Row label.
    pub label: String,
    /// One number per column; `None` if the report has none.
    pub cells: Vec<Option<&'a PublishedFigure>>,
}

impl<'a> PublishedTable<'a> {
    /// Yields all numbers of the table, row by row.
    pub fn figures(&self) -> impl Iterator<Item = &'a PublishedFigure> + '_ {
        self.rows.iter().flat_map(|row| row.cells.iter().copied().flatten())
    }

    /// Puts a number into its row and column, or into an added row below if the cell is taken.
    fn insert_figure(&mut self, figure: &'a PublishedFigure) {
        let Some(at) = self.columns.iter().position(|column| column == figure.column) else { return };
        let is_own = |row: &PublishedRow<'_>| row.label == figure.row;
        let free = self.rows.iter().position(|row| is_own(row) && row.cells[at].is_none());
        let place = free.unwrap_or_else(|| {
            let place = self.rows.iter().rposition(is_own).map_or(self.rows.len(), |last| last + 1);
            let cells = vec![None; self.columns.len()];
            self.rows.insert(place, PublishedRow { label: figure.row.to_owned(), cells });
            place
        });
        self.rows[place].cells[at] = Some(figure);
    }
}

/// Returns the tables of a report, in order; each number is in exactly one table.
pub fn build_tables(baseline: &PublishedReport) -> Vec<PublishedTable<'_>> {
    let own = rows::<5>(TABLES).filter(|[report, ..]| *report == baseline.name);
    let table = |[_, number, kind, title, columns]: [&'static str; 5]| {
        let mut table = PublishedTable {
            number: number.parse().ok()?,
            title: title.to_owned(),
            kind: [TableKind::Own, TableKind::Program, TableKind::Text]
                .into_iter()
                .find(|one| one.word() == kind)?,
            columns: columns.split('|').map(str::to_owned).collect(),
            rows: Vec::new(),
        };
        let own = baseline.figures.iter().filter(|figure| figure.table == number);
        own.for_each(|figure| table.insert_figure(figure));
        Some(table)
    };
    own.filter_map(table).collect()
}
