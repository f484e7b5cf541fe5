//! The tables of the reports: which there are, in which order, and which figure is in which row and column.
//!
//! The data keep the order in which a report prints its numbers, left to right and top to bottom. What changes with
//! every number is therefore a column, what changes next a row, and what is outside both is a table of its own. The
//! lists in `specs` say that for each report, with the report's own words for operations and block sizes. Captions
//! and numbers of tables are not in the data: titles say what a table holds, and tables are numbered in their order.

mod specs;
#[cfg(test)]
mod tests;

use super::{Baseline, Figure};
use crate::quantity::format_size;

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
}

/// By what the figures of a table are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Subsystem,
    /// Operation, pattern and precision.
    Operation,
    Block,
    Threads,
    Metric,
    Statistic,
    /// own, the reference program by name, theory, the efficiencies.
    Source,
    /// The same, with one column for all reference programs.
    Role,
    /// A part of what qualifies a row of a reference program, from 0.
    Part(usize),
}

/// A family of tables of one report.
struct Spec {
    title: &'static str,
    kind: Kind,
    takes: fn(&Figure) -> bool,
    tables: &'static [Key],
    rows: &'static [Key],
    columns: &'static [Key],
    /// The report's words for operation and pattern (or precision).
    labels: &'static [(&'static str, &'static str, &'static str)],
    /// The report's words for sizes.
    blocks: &'static [(&'static str, &'static str)],
}

/// The tables of a report, in its order, each figure in exactly one.
pub fn of(baseline: &Baseline) -> Vec<Table<'_>> {
    let specs = specs::of(baseline.name);
    let mut all: Vec<Table<'_>> = Vec::new();
    for (at, spec) in specs.iter().enumerate() {
        let is_earlier = |figure: &Figure| specs.iter().take(at).any(|spec| (spec.takes)(figure));
        let mut found: Vec<(String, Vec<&Figure>)> = Vec::new();
        for figure in baseline.figures.iter().filter(|f| (spec.takes)(f) && !is_earlier(f)) {
            put(&mut found, spec.words(spec.tables, figure), figure);
        }
        for (of, figures) in found {
            let title = if of.is_empty() { spec.title.to_owned() } else { format!("{}: {of}", spec.title) };
            all.push(table(spec, all.len() + 1, title, &figures));
        }
    }
    all
}

/// Adds to the group of that name, in the order of first appearance.
fn put<'a>(groups: &mut Vec<(String, Vec<&'a Figure>)>, name: String, figure: &'a Figure) {
    match groups.iter_mut().find(|(known, _)| *known == name) {
        Some((_, figures)) => figures.push(figure),
        None => groups.push((name, vec![figure])),
    }
}

fn table<'a>(spec: &Spec, number: usize, title: String, figures: &[&'a Figure]) -> Table<'a> {
    let mut found: Vec<(String, Vec<&Figure>)> = Vec::new();
    figures.iter().for_each(|figure| put(&mut found, spec.words(spec.rows, figure), figure));
    // The fullest row has the order of the columns, where others lack some.
    let mut fullest: Vec<&Vec<&Figure>> = found.iter().map(|(_, figures)| figures).collect();
    fullest.sort_by_key(|figures| std::cmp::Reverse(figures.len()));
    let mut columns: Vec<(u8, String)> = Vec::new();
    for figure in fullest.into_iter().flatten() {
        let name = (rank(spec, figure), spec.words(spec.columns, figure));
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    columns.sort_by_key(|(rank, _)| *rank);
    let columns: Vec<String> = columns.into_iter().map(|(_, name)| name).collect();
    if spec.rows.contains(&Key::Threads) {
        // A mean over the numbers of threads follows them.
        found.sort_by_key(|(_, figures)| figures.iter().all(|figure| figure.threads.is_empty()));
    }
    let rows = found.into_iter().flat_map(|(label, figures)| rows(spec, &columns, &label, figures)).collect();
    Table { number, title, kind: spec.kind, columns, rows }
}

/// The row of these figures; another below it where a text has two numbers for one place.
fn rows<'a>(spec: &Spec, columns: &[String], label: &str, figures: Vec<&'a Figure>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for figure in figures {
        let name = spec.words(spec.columns, figure);
        let Some(at) = columns.iter().position(|column| *column == name) else { continue };
        let free = rows.iter_mut().find(|row| row.cells.get(at).is_some_and(Option::is_none));
        let row = match free {
            Some(row) => row,
            None => {
                rows.push(Row { label: label.to_owned(), cells: vec![None; columns.len()] });
                let Some(row) = rows.last_mut() else { continue };
                row
            }
        };
        if let Some(cell) = row.cells.get_mut(at) {
            *cell = Some(figure);
        }
    }
    rows
}

/// The place of a source among columns of sources; 0 where columns are something else.
fn rank(spec: &Spec, figure: &Figure) -> u8 {
    if !spec.columns.contains(&Key::Source) && !spec.columns.contains(&Key::Role) {
        return 0;
    }
    match figure.source {
        "own" => 0,
        "theoretical" => 2,
        "efficiency-own" => 3,
        "efficiency-reference" => 4,
        _ => 1,
    }
}

impl Spec {
    /// The words of these keys for a figure.
    fn words(&self, keys: &[Key], figure: &Figure) -> String {
        let words = keys.iter().map(|key| self.word(*key, figure)).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(", ")
    }

    fn word(&self, key: Key, figure: &Figure) -> String {
        match key {
            Key::Subsystem => figure.subsystem.to_owned(),
            Key::Operation => self.operation(figure),
            Key::Block => self.block(figure),
            Key::Threads => match (figure.threads, figure.statistic) {
                ("", "mean") => "mean of all threads".to_owned(),
                ("", _) => String::new(),
                ("1", _) => "1 thread".to_owned(),
                (threads, _) => format!("{threads} threads"),
            },
            Key::Metric => figure.metric.replace('-', " "),
            Key::Statistic => match figure.statistic.strip_prefix("sample") {
                Some(number) => format!("sample {number}"),
                None => figure.statistic.to_owned(),
            },
            Key::Source => source(figure, figure.source),
            Key::Role => source(figure, "reference"),
            Key::Part(at) => figure.qualifiers().nth(at).unwrap_or_default().to_owned(),
        }
    }

    fn operation(&self, figure: &Figure) -> String {
        let access = [figure.precision, figure.access()].into_iter().find(|word| !word.is_empty());
        let access = access.unwrap_or_default();
        let known = self.labels.iter().find(|(op, of, _)| *op == figure.operation && *of == access);
        match known {
            Some((_, _, label)) => (*label).to_owned(),
            None => [figure.operation, access].join(" ").trim().to_owned(),
        }
    }

    fn block(&self, figure: &Figure) -> String {
        if let Some((_, label)) = self.blocks.iter().find(|(bytes, _)| *bytes == figure.bytes) {
            return (*label).to_owned();
        }
        figure.bytes.parse().map_or_else(|_| figure.bytes.to_owned(), size)
    }
}

/// A size in words: `8 KiB`.
fn size(bytes: u64) -> String {
    let text = format_size(bytes);
    match text.strip_suffix(|c: char| !c.is_ascii_digit()) {
        Some(number) => format!("{number} {}iB", &text[number.len()..]),
        None => format!("{text} B"),
    }
}

fn source(figure: &Figure, program: &str) -> String {
    match figure.source {
        "own" => "own".to_owned(),
        "theoretical" => "theory".to_owned(),
        "efficiency-own" => "own eff.".to_owned(),
        "efficiency-reference" => "ref. eff.".to_owned(),
        _ => program.to_owned(),
    }
}

impl Figure {
    /// sequential, random, stride or backward, where the report says so.
    fn access(&self) -> &'static str {
        self.pattern.split(';').find(|part| ACCESS.contains(part)).unwrap_or_default()
    }

    /// What else its pattern says: trial, row, run, interval.
    fn qualifiers(&self) -> impl Iterator<Item = &'static str> {
        self.pattern.split(';').filter(|part| !ACCESS.contains(part) && !WORDS.contains(part))
    }

    /// The number as printed.
    pub fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }

    /// Whether both are printed for the same point.
    pub fn is_of_point(&self, other: &Figure) -> bool {
        let key =
            |f: &Figure| (f.subsystem, f.operation, f.pattern, f.precision, f.bytes, f.threads, f.metric);
        key(self) == key(other)
    }

    /// Whether a number of the text can be about this one.
    pub fn is_what(&self, text: &Figure) -> bool {
        let fits = |own: &str, of: &str| of.is_empty() || own == of;
        self.subsystem == text.subsystem
            && self.metric == text.metric
            && fits(self.operation, text.operation)
            && fits(self.bytes, text.bytes)
    }

    /// Whether it is a number of the report's text.
    pub fn is_of_text(&self) -> bool {
        self.pattern.split(';').any(|part| part == "headline")
    }
}

/// Orders of access.
const ACCESS: &[&str] = &["sequential", "random", "stride", "backward"];
/// Where a number was read, which is said by its table.
const WORDS: &[&str] = &["headline", "screen", ""];
