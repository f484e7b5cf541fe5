//! Published tables as text: several lines per row, today's result first.

use plimsoll_bench::label::label;
use plimsoll_model::limit::Input;
use plimsoll_published::tables::TableKind;
use plimsoll_published::{LATENCY_METRIC, PublishedFigure};
use plimsoll_units::quantity::{percent, significant};
use plimsoll_units::text::shown_within;

use super::cells::{ComparablePart, FilledCell, FilledTable};
use super::units::TableUnits;
use crate::report::{distinct, joined, listed};

const OWN_FIGURE_DIGITS: usize = 4;
const SHARE_DIGITS: usize = 3;
pub(crate) const NOTHING: &str = "–";

const MAX_NOTE_CHARACTERS: usize = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SheetLine {
    Today,
    Deviation,
    Reference,
    Limit,
    OwnShare,
    ReferenceShare,
    Published,
    Ratio,
}

const LINES: [(SheetLine, &str); 8] = [
    (SheetLine::Today, "today"),
    (SheetLine::Deviation, "stdev"),
    (SheetLine::Reference, "reference"),
    (SheetLine::Limit, "limit"),
    (SheetLine::OwnShare, "own eff."),
    (SheetLine::ReferenceShare, "ref. eff."),
    (SheetLine::Published, "published"),
    (SheetLine::Ratio, "ratio"),
];

pub(crate) struct TableSheet {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<SheetBlock>,
    pub(crate) formulas: Vec<String>,
    pub(crate) remarks: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Lines of a row, each with a cell per column.
pub(crate) type SheetLines = Vec<(SheetLine, Vec<String>)>;

pub(crate) struct SheetBlock {
    pub(crate) label: String,
    pub(crate) lines: SheetLines,
}

impl TableSheet {
    pub(crate) fn new(filled: &FilledTable<'_>, of: usize) -> Self {
        let table = &filled.table;
        let units = TableUnits::of(filled);
        let in_units = match units.title.as_slice() {
            title if table.kind == TableKind::Text || title.is_empty() => String::new(),
            title => format!(", in {}", title.join(" and ")),
        };
        let mut sheet = Self {
            title: format!("Table {} of {of}: {}{in_units}", table.number, table.title),
            columns: units.columns.clone(),
            rows: Vec::new(),
            formulas: formulas(filled),
            remarks: remarks(filled),
            notes: Vec::new(),
        };
        for (at, row) in table.rows.iter().enumerate() {
            let label = joined(&[&row.label, units.of_row(at).unwrap_or_default()], ", ");
            let lines = sheet.lines(filled, at, &units);
            sheet.rows.push(SheetBlock { label, lines });
        }
        sheet
    }

    fn lines(&mut self, filled: &FilledTable<'_>, row: usize, units: &TableUnits) -> SheetLines {
        let is_measured = is_measured(filled);
        let cells = filled.rows.get(row).map_or(&[][..], Vec::as_slice);
        let mut lines = Vec::new();
        let all = LINES.into_iter().map(|(line, _)| line).filter(|line| line.is_in(filled));
        for line in all.filter(|line| is_measured || *line == SheetLine::Published) {
            let text = |(at, cell): (usize, &Option<FilledCell<'_>>)| {
                let cell = cell.as_ref()?;
                let unit = match line {
                    SheetLine::Today => units.today(row, at, cell),
                    SheetLine::Published => units.published(row, at, cell),
                    _ => "",
                };
                self.text(line, cell, filled.is_figure(cell), unit)
            };
            let texts: Vec<Option<String>> = cells.iter().enumerate().map(text).collect();
            if texts.iter().any(Option::is_some) {
                lines.push((line, texts.into_iter().map(Option::unwrap_or_default).collect()));
            }
        }
        lines
    }

    /// Formats the cell of line `of`, followed by `unit` (may be empty). `None` without a value, or
    /// if the cell is no result (`is_figure`) for lines except today, published, ratio.
    fn text(&mut self, of: SheetLine, cell: &FilledCell<'_>, is_figure: bool, unit: &str) -> Option<String> {
        let in_unit = |value: f64| significant(value / cell.unit.scale, OWN_FIGURE_DIGITS);
        let share = |share: f64| percent(share, SHARE_DIGITS);
        let today = &cell.today;
        match of {
            SheetLine::Today => Some(self.today(cell, unit)),
            SheetLine::Published => Some(self.published(cell, unit)),
            SheetLine::Ratio => cell.ratio().map(|ratio| format!("{} ×", significant(ratio, SHARE_DIGITS))),
            _ if !is_figure => None,
            SheetLine::Deviation => Some(significant(today.stdev()? / cell.unit.scale, SHARE_DIGITS)),
            SheetLine::Limit => Some(match today.limit() {
                Some(limit) => in_unit(limit),
                None => self.nothing_but(unknown(today.limit_unknown()?)),
            }),
            SheetLine::OwnShare => today.share(today.mean()).map(share),
            SheetLine::ReferenceShare => today.tool.as_ref()?.of_limit.map(share),
            SheetLine::Reference => match &today.tool {
                Some(tool) => {
                    let name = shown_within(tool.name, 30);
                    Some(format!("{} {name}{}", in_unit(tool.figure), self.differs(cell)))
                }
                None => (!today.declined.is_empty()).then(|| self.nothing_but(today.declined.join("; "))),
            },
        }
    }

    /// Returns the mark of a new note on how the reference tool differs from the case, if it does.
    fn differs(&mut self, cell: &FilledCell<'_>) -> String {
        let tool = cell.today.tool.as_ref().filter(|tool| !tool.differs.is_empty());
        let note = tool.map(|tool| self.note(format!("{}: {}", tool.name, tool.differs)));
        note.map(|note| format!(" {note}")).unwrap_or_default()
    }

    fn today(&mut self, cell: &FilledCell<'_>, unit: &str) -> String {
        let Some(value) = cell.value() else { return self.nothing(cell) };
        if cell.part.is_share() {
            return percent(value, SHARE_DIGITS);
        }
        let mut text = joined(&[&significant(value / cell.unit.scale, OWN_FIGURE_DIGITS), unit], " ");
        if cell.part == ComparablePart::Program {
            let name = cell.program().map(|(_, name)| name);
            if let Some(name) = name.filter(|name| !name.starts_with(cell.figure.source)) {
                text += &format!(" {}", shown_within(name, 30));
            }
            text += &self.differs(cell);
        }
        let is_own = !matches!(cell.part, ComparablePart::Program | ComparablePart::Limit);
        let invalid = cell.today.invalid.as_ref().filter(|_| is_own);
        let invalid = invalid.map(|why| format!("today invalid: {why}"));
        for note in invalid.into_iter().chain(about(cell)) {
            text += &format!(" {}", self.note(note));
        }
        text
    }

    /// Formats an empty cell, `–`; unless derived, with the mark of a note on the reason.
    fn nothing(&mut self, cell: &FilledCell<'_>) -> String {
        use ComparablePart::{Least, Limit, Most, Own, Peak, Program, Sample};
        let is_itself = cell.figure.matched.is_none()
            || matches!(cell.part, Own | Peak | Least | Most | Program | Limit | Sample(0));
        let why = match (&cell.today.instead, cell.part) {
            (Some(why), _) => why.clone(),
            (None, Program) => cell.no_program(),
            (None, Limit) => cell.today.limit_unknown().map(unknown).unwrap_or_default(),
            (None, _) => String::new(),
        };
        if is_itself && !why.is_empty() { self.nothing_but(why) } else { NOTHING.to_owned() }
    }

    fn nothing_but(&mut self, why: String) -> String {
        format!("{NOTHING} {}", self.note(why))
    }

    /// Formats a published number as printed and the unit `beyond`; if doubted, with a note's mark.
    fn published(&mut self, cell: &FilledCell<'_>, beyond: &str) -> String {
        let PublishedFigure { value, unit, doubt, .. } = cell.figure;
        let mut text = joined(&[value, if *unit == "%" { "%" } else { beyond }], " ");
        if cell.part == ComparablePart::Program && cell.figure.is_of_text() {
            text += &format!(" {}", cell.figure.source);
        }
        let note = doubt.map(|doubt| self.note(format!("published: {doubt}"))).unwrap_or_default();
        joined(&[&text, &note], " ")
    }

    /// Returns the mark of the note `text`, such as `[1]`; adds the note to the list if it is new.
    fn note(&mut self, text: String) -> String {
        let text = shown_within(&text, MAX_NOTE_CHARACTERS);
        let index = self.notes.iter().position(|note| *note == text).unwrap_or_else(|| {
            self.notes.push(text);
            self.notes.len() - 1
        });
        format!("[{}]", index + 1)
    }
}

impl SheetLine {
    pub(crate) fn name(self) -> &'static str {
        LINES[self as usize].1
    }

    /// Returns whether the table needs this line: it has values, and no column shows the same.
    fn is_in(self, filled: &FilledTable<'_>) -> bool {
        use ComparablePart::{Deviation, Limit, OwnShare, OwnToProgram, Program, ProgramShare};
        match self {
            Self::Deviation => !filled.has(Deviation),
            Self::Reference => !filled.has(Program) && figures(filled).any(|cell| cell.today.tool.is_some()),
            Self::Limit => !filled.has(Limit) && figures(filled).any(|cell| cell.today.limit().is_some()),
            Self::OwnShare => !filled.has(OwnShare) && !filled.has(OwnToProgram),
            Self::ReferenceShare => !filled.has(ProgramShare),
            Self::Today | Self::Published | Self::Ratio => true,
        }
    }
}

/// Returns remarks on the run's case: that it is the best of several, and its scaled parameters.
fn about(cell: &FilledCell<'_>) -> Vec<String> {
    let Some(case) = cell.today.case else { return Vec::new() };
    let count = cell.today.best_of;
    let best = (count > 1).then(|| format!("the best of {count} cases: {}", label(case)));
    let published = cell.figure.matched.iter().flat_map(|matched| matched.case.params());
    let scaled = published.filter_map(|(name, value)| {
        let measured = case.get(name).filter(|measured| *measured != value)?;
        Some(format!("scaled: {name} {measured} of {value}"))
    });
    best.into_iter().chain(scaled).collect()
}

fn figures<'a, 'b>(filled: &'b FilledTable<'a>) -> impl Iterator<Item = &'b FilledCell<'a>> {
    filled.cells().filter(move |cell| filled.is_figure(cell) && cell.today.has_figure())
}

fn unknown(why: &str) -> String {
    format!("limit unknown: {why}")
}

/// Returns whether the run has a valid or invalid result for any cell.
pub(crate) fn is_measured(filled: &FilledTable<'_>) -> bool {
    filled.cells().any(|cell| cell.value().is_some() || cell.today.invalid.is_some())
}

/// Formats the derivations (formula and inputs) of the report's limits, then of the run's.
fn formulas(filled: &FilledTable<'_>) -> Vec<String> {
    let own = filled.cells().filter(|cell| filled.is_figure(cell) && filled.table.kind != TableKind::Text);
    let mut found = distinct(own.filter_map(|cell| {
        let PublishedFigure { subsystem, metric, .. } = cell.figure;
        Some(format!("theory of the report, {metric}: {}", filled.baseline.derivation(subsystem, metric)?))
    }));
    if found.is_empty() && filled.table.kind != TableKind::Text {
        found.push("theory of the report: none is printed".to_owned());
    }
    let mut known: Vec<&str> = Vec::new();
    for cell in figures(filled) {
        let Some(limit) = cell.today.metric.and_then(|metric| metric.limit.as_ref()) else { continue };
        if limit.value.is_none() || limit.formula.is_empty() || known.contains(&limit.formula.as_str()) {
            continue;
        }
        known.push(&limit.formula);
        let input = |input: &Input| {
            let text = format!("{} = {} {}", input.name, significant(input.value, 4), input.unit);
            text.trim_end().trim_end_matches(" 1").to_owned()
        };
        let inputs: Vec<String> = limit.inputs.iter().map(input).collect();
        let case = cell.today.case.map(label).unwrap_or_default();
        let text = format!("limit of today, {case}: {}; {}", limit.formula, inputs.join(", "));
        found.push(shown_within(text.trim_end_matches("; "), MAX_NOTE_CHARACTERS));
    }
    found
}

fn remarks(filled: &FilledTable<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if !is_measured(filled) {
        let reasons = filled.cells().filter_map(|cell| cell.today.instead.clone());
        remarks.push(format!("no figures of today: {}", once(reasons.filter(|why| !why.is_empty()))));
    }
    if filled.table.kind != TableKind::Text {
        remarks.extend(printed_units(filled));
        remarks.extend(of_text(filled));
        let matched = filled.cells().filter(|cell| cell.figure.matched.is_some());
        let reasons = matched.map(|cell| cell.figure.unmatched).filter(|why| !why.is_empty());
        remarks.extend(distinct(reasons).into_iter().map(|why| format!("no ratio: {why}")));
        remarks.extend(lacking(filled));
    }
    let is_latency =
        |cell: &FilledCell<'_>| cell.part == ComparablePart::OwnShare && cell.figure.metric == LATENCY_METRIC;
    if filled.cells().any(is_latency) {
        let how = "efficiency of a latency: today limit ÷ measured, in the report measured ÷ limit";
        remarks.push(how.to_owned());
    }
    remarks
}

/// Formats which units the report prints, if they differ from those shown; `None` if none differs.
fn printed_units(filled: &FilledTable<'_>) -> Option<String> {
    let cells = || filled.cells().filter(|cell| !cell.part.is_share() && !cell.unit.name.is_empty());
    let is_implied = cells().any(|cell| cell.figure.unit.is_empty());
    let is_unknown = cells().any(|cell| cell.figure.unit.is_empty() && cell.figure.base.is_none());
    let other = cells().filter(|cell| !["", &cell.unit.name].contains(&cell.figure.unit));
    let printed = distinct(other.map(|cell| cell.figure.unit));
    let printed = (!printed.is_empty()).then(|| format!("the report prints {}", printed.join(" and ")));
    let implied = is_implied.then(|| match is_unknown {
        true => "the report prints no unit, and none is known to fit: the unit is that of today's figures"
            .to_owned(),
        false => "the report prints no unit; this one fits its figures".to_owned(),
    });
    let rest = if implied.is_some() { ", and no unit for the rest" } else { "" };
    printed.map(|printed| printed + rest).or(implied)
}

/// Formats why limits and reference tools' results of the run are missing, if the table has none.
fn lacking(filled: &FilledTable<'_>) -> Vec<String> {
    let mut stated = Vec::new();
    if !filled.has(ComparablePart::Limit) && figures(filled).all(|cell| cell.today.limit().is_none()) {
        let why = once(figures(filled).filter_map(|cell| cell.today.limit_unknown().map(str::to_owned)));
        stated.extend((!why.is_empty()).then(|| format!("today's limit is unknown: {why}")));
    }
    if !filled.has(ComparablePart::Program) && figures(filled).all(|cell| cell.today.tool.is_none()) {
        let why = once(figures(filled).flat_map(|cell| cell.today.declined.clone()));
        let why = if why.is_empty() { "none is run with these cases" } else { &why };
        stated.extend(figures(filled).next().map(|_| format!("no reference tool of today: {why}")));
    }
    let with_tool = filled.cells().filter(|cell| cell.today.tool.is_some());
    let further = once(with_tool.flat_map(|cell| cell.today.declined.clone()));
    stated.extend((!further.is_empty()).then(|| format!("no figure of a further reference tool: {further}")));
    stated
}

fn once(reasons: impl Iterator<Item = String>) -> String {
    shown_within(&distinct(reasons).join("; "), MAX_NOTE_CHARACTERS)
}

/// Formats limits, efficiencies and tools' results that the report's prose, but no column, has.
fn of_text(filled: &FilledTable<'_>) -> Option<String> {
    let is_own = |cell: &&FilledCell<'_>| matches!(cell.part, ComparablePart::Own | ComparablePart::Peak);
    let is_free = |text: &&PublishedFigure| {
        // A table of own figures classifies all figures of other tools as `Program`; so does this.
        let part = ComparablePart::of(text, TableKind::Own);
        let may_be_here = part != ComparablePart::Program || filled.table.kind == TableKind::Own;
        text.source != "own" && may_be_here && !filled.has(part)
    };
    let about =
        |text: &&PublishedFigure| filled.cells().filter(is_own).any(|cell| cell.figure.matches_text(text));
    let stated = |text: &PublishedFigure| {
        let what = match text.source {
            "theoretical" => "limit",
            "efficiency-own" => "own eff.",
            "efficiency-reference" => "ref. eff.",
            program => program,
        };
        let whose = if text.operation.is_empty() { String::new() } else { format!(" of {}", text.operation) };
        let doubt = text.doubt.map(|doubt| format!(" ({doubt})")).unwrap_or_default();
        format!("{what}{whose} {} {}{doubt}", text.value, text.unit)
    };
    let all = filled.baseline.figures.iter().filter(|f| f.is_of_text()).filter(is_free).filter(about);
    Some(format!("published, from the text: {}", listed(all.map(stated), ", ")?))
}
