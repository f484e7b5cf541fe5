//! Published tables as text: several lines per row, today's result first.

use plimsoll_model::limit::Input;
use plimsoll_published::PublishedReport;
use plimsoll_published::tables::{PublishedTable, TableKind};
use plimsoll_published::{LATENCY_METRIC, PublishedFigure};
use plimsoll_units::quantity::{percent, significant};

use super::cells::{ComparablePart, FilledCell, FilledTable};
use super::units::TableUnits;

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

impl SheetLine {
    const IN_ORDER: [SheetLine; 8] = [
        SheetLine::Today,
        SheetLine::Deviation,
        SheetLine::Reference,
        SheetLine::Limit,
        SheetLine::OwnShare,
        SheetLine::ReferenceShare,
        SheetLine::Published,
        SheetLine::Ratio,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Today => "today",
            Self::Deviation => "stdev",
            Self::Reference => "reference",
            Self::Limit => "limit",
            Self::OwnShare => "own eff.",
            Self::ReferenceShare => "ref. eff.",
            Self::Published => "published",
            Self::Ratio => "ratio",
        }
    }
}

pub(crate) struct TableSheet {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<SheetBlock>,
    pub(crate) formulas: Vec<String>,
    pub(crate) remarks: Vec<String>,
    pub(crate) notes: Vec<String>,
}

pub(crate) struct SheetBlock {
    pub(crate) label: String,
    pub(crate) lines: Vec<(SheetLine, Vec<String>)>,
}

impl TableSheet {
    /// Returns whether any row has a line besides the published numbers.
    pub(crate) fn is_measured(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.lines).any(|(line, _)| *line != SheetLine::Published)
    }

    pub(crate) fn new(baseline: &PublishedReport, filled: &FilledTable<'_>, of: usize) -> Self {
        let table = filled.table;
        let units = TableUnits::of(filled);
        let mut sheet = Self {
            title: title(table, &units.title, of),
            columns: units.columns.clone(),
            rows: Vec::new(),
            formulas: formulas(baseline, filled),
            remarks: remarks(baseline, filled),
            notes: Vec::new(),
        };
        for (at, row) in table.rows.iter().enumerate() {
            let label = match units.of_row(at) {
                Some(unit) => format!("{}, {unit}", row.label),
                None => row.label.clone(),
            };
            let block = sheet.block(label, filled, at, &units);
            sheet.rows.push(block);
        }
        sheet
    }

    fn block(
        &mut self,
        label: String,
        filled: &FilledTable<'_>,
        row: usize,
        units: &TableUnits,
    ) -> SheetBlock {
        let is_measured = is_measured(filled);
        let cells = filled.rows.get(row).map_or(&[][..], Vec::as_slice);
        let mut lines = Vec::new();
        for line in SheetLine::IN_ORDER
            .into_iter()
            .filter(|line| line.is_in(filled) && (is_measured || *line == SheetLine::Published))
        {
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
        SheetBlock { label, lines }
    }

    /// Formats a cell of a line, followed by `unit` (may be empty); `None` without a value. Most
    /// lines exist only for the result of a case (`is_figure`).
    fn text(
        &mut self,
        line: SheetLine,
        cell: &FilledCell<'_>,
        is_figure: bool,
        unit: &str,
    ) -> Option<String> {
        let in_unit = |value: f64| significant(value / cell.unit.scale, OWN_FIGURE_DIGITS);
        let share = |share: f64| percent(share, SHARE_DIGITS);
        let today = &cell.today;
        match line {
            SheetLine::Today => Some(self.today(cell, unit)),
            SheetLine::Published => Some(self.published(cell, unit)),
            SheetLine::Ratio => cell.ratio().map(|ratio| format!("{} ×", significant(ratio, SHARE_DIGITS))),
            _ if !is_figure => None,
            SheetLine::Deviation => {
                today.stdev().map(|stdev| significant(stdev / cell.unit.scale, SHARE_DIGITS))
            }
            SheetLine::Limit => match (today.limit(), today.limit_unknown()) {
                (Some(limit), _) => Some(in_unit(limit)),
                (None, why) => Some(format!("{NOTHING} {}", self.note(unknown(why?)))),
            },
            SheetLine::OwnShare => today.share(today.mean()).map(share),
            SheetLine::ReferenceShare => today.tool.as_ref()?.of_limit.map(share),
            SheetLine::Reference => match &today.tool {
                Some(tool) => {
                    let name = plimsoll_units::text::shown_within(tool.name, 30);
                    Some(format!("{} {name}{}", in_unit(tool.figure), self.differs(cell)))
                }
                None if today.declined.is_empty() => None,
                None => Some(format!("{NOTHING} {}", self.note(today.declined.join("; ")))),
            },
        }
    }

    /// Returns the mark of a note on how the reference tool differs from the case; empty if it does
    /// not differ.
    fn differs(&mut self, cell: &FilledCell<'_>) -> String {
        match cell.today.tool.as_ref().filter(|tool| !tool.differs.is_empty()) {
            Some(tool) => format!(" {}", self.note(format!("{}: {}", tool.name, tool.differs))),
            None => String::new(),
        }
    }

    fn today(&mut self, cell: &FilledCell<'_>, unit: &str) -> String {
        let Some(value) = cell.value() else { return self.nothing(cell) };
        if cell.part.is_share() {
            return percent(value, SHARE_DIGITS);
        }
        let mut text = significant(value / cell.unit.scale, OWN_FIGURE_DIGITS);
        if !unit.is_empty() {
            text += &format!(" {unit}");
        }
        if cell.part == ComparablePart::Program
            && let Some((_, name)) = cell.program()
            && !name.starts_with(cell.figure.source)
        {
            text += &format!(" {}", plimsoll_units::text::shown_within(name, 30));
        }
        if cell.part == ComparablePart::Program {
            text += &self.differs(cell);
        }
        let is_own = !matches!(cell.part, ComparablePart::Program | ComparablePart::Limit);
        match &cell.today.invalid {
            Some(why) if is_own => text += &format!(" {}", self.note(format!("today invalid: {why}"))),
            _ => {}
        }
        for note in about(cell) {
            text += &format!(" {}", self.note(note));
        }
        text
    }

    /// Formats an empty cell, `–`, with the mark of the reason unless it is a derived value.
    fn nothing(&mut self, cell: &FilledCell<'_>) -> String {
        let is_itself = cell.figure.matched.is_none()
            || matches!(
                cell.part,
                ComparablePart::Own
                    | ComparablePart::Peak
                    | ComparablePart::Least
                    | ComparablePart::Most
                    | ComparablePart::Program
                    | ComparablePart::Limit
                    | ComparablePart::Sample(0)
            );
        let why = match (&cell.today.instead, cell.part) {
            (Some(why), _) => why.clone(),
            (None, ComparablePart::Program) => cell.no_program(),
            (None, ComparablePart::Limit) => cell.today.limit_unknown().map(unknown).unwrap_or_default(),
            (None, _) => String::new(),
        };
        match is_itself && !why.is_empty() {
            true => format!("{NOTHING} {}", self.note(why)),
            false => NOTHING.to_owned(),
        }
    }

    /// Formats the published number as printed, followed by the unit `beyond`, and a mark if it is
    /// doubted.
    fn published(&mut self, cell: &FilledCell<'_>, beyond: &str) -> String {
        let PublishedFigure { value, unit, doubt, .. } = cell.figure;
        let mut text = match (*unit, beyond) {
            ("%", _) => format!("{value} %"),
            (_, "") => (*value).to_owned(),
            (_, unit) => format!("{value} {unit}"),
        };
        if cell.part == ComparablePart::Program && cell.figure.is_of_text() {
            text += &format!(" {}", cell.figure.source);
        }
        match doubt {
            None => text,
            Some(doubt) => format!("{text} {}", self.note(format!("published: {doubt}"))),
        }
    }

    /// Returns the mark of the note `text`, `[1]`; adds the note if it is new.
    fn note(&mut self, text: String) -> String {
        let text = plimsoll_units::text::shown_within(&text, MAX_NOTE_CHARACTERS);
        let index = self.notes.iter().position(|note| *note == text).unwrap_or_else(|| {
            self.notes.push(text);
            self.notes.len() - 1
        });
        format!("[{}]", index + 1)
    }
}

impl SheetLine {
    /// Returns whether the table needs this line; not if one of its columns shows the same.
    fn is_in(self, filled: &FilledTable<'_>) -> bool {
        match self {
            Self::Deviation => !filled.has(ComparablePart::Deviation),
            Self::Reference => {
                !filled.has(ComparablePart::Program) && figures(filled).any(|cell| cell.today.tool.is_some())
            }
            Self::Limit => {
                !filled.has(ComparablePart::Limit) && figures(filled).any(|cell| cell.today.limit().is_some())
            }
            Self::OwnShare => {
                !filled.has(ComparablePart::OwnShare) && !filled.has(ComparablePart::OwnToProgram)
            }
            Self::ReferenceShare => !filled.has(ComparablePart::ProgramShare),
            Self::Today | Self::Published | Self::Ratio => true,
        }
    }
}

/// Returns remarks on today's case: the best of several, or with scaled parameters.
fn about(cell: &FilledCell<'_>) -> Vec<String> {
    let Some(case) = cell.today.case else { return Vec::new() };
    let mut stated = Vec::new();
    if cell.today.best_of > 1 {
        stated.push(format!(
            "the best of {} cases: {}",
            cell.today.best_of,
            plimsoll_bench::label::label(case)
        ));
    }
    let scaled =
        cell.figure.matched.iter().flat_map(|matched| matched.case.params()).filter_map(|(name, value)| {
            let measured = case.get(name).filter(|measured| *measured != value)?;
            Some(format!("scaled: {name} {measured} of {value}"))
        });
    stated.extend(scaled);
    stated
}

fn figures<'a, 'b>(filled: &'b FilledTable<'a>) -> impl Iterator<Item = &'b FilledCell<'a>> {
    filled.cells().filter(move |cell| filled.is_figure(cell) && cell.today.has_figure())
}

fn unknown(why: &str) -> String {
    format!("limit unknown: {why}")
}

/// Returns whether any cell has a valid or invalid result of today.
fn is_measured(filled: &FilledTable<'_>) -> bool {
    filled.cells().any(|cell| cell.value().is_some() || cell.today.invalid.is_some())
}

/// Formats the derivations (formula and inputs) of the report's limits, then of today's.
fn formulas(baseline: &PublishedReport, filled: &FilledTable<'_>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let own = filled.cells().filter(|cell| filled.is_figure(cell) && filled.table.kind != TableKind::Text);
    for PublishedFigure { subsystem, metric, .. } in own.map(|cell| cell.figure) {
        let text = baseline.derivation(subsystem, metric);
        let text = text.map(|text| format!("theory of the report, {metric}: {text}"));
        found.extend(text.filter(|text| !found.contains(text)));
    }
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
        let case = cell.today.case.map(plimsoll_bench::label::label).unwrap_or_default();
        let text = format!("limit of today, {case}: {}; {}", limit.formula, inputs.join(", "));
        found.push(plimsoll_units::text::shown_within(text.trim_end_matches("; "), MAX_NOTE_CHARACTERS));
    }
    found
}

/// Formats the title of one of `of` tables: `Table 3 of 14: memory throughput, in GB/s`.
fn title(table: &PublishedTable<'_>, units: &[String], of: usize) -> String {
    let units = match (table.kind, units) {
        (TableKind::Text, _) | (_, []) => String::new(),
        (_, units) => format!(", in {}", units.join(" and ")),
    };
    format!("Table {} of {of}: {}{units}", table.number, table.title)
}

fn remarks(baseline: &PublishedReport, filled: &FilledTable<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if !is_measured(filled) {
        let mut reasons: Vec<&str> = Vec::new();
        for why in filled.cells().filter_map(|cell| cell.today.instead.as_deref()) {
            if !why.is_empty() && !reasons.contains(&why) {
                reasons.push(why);
            }
        }
        let reasons = plimsoll_units::text::shown_within(&reasons.join("; "), MAX_NOTE_CHARACTERS);
        remarks.push(format!("no figures of today: {reasons}"));
    }
    if filled.table.kind != TableKind::Text {
        remarks.extend(printed_units(filled));
        remarks.extend(of_text(baseline, filled));
        remarks.extend(not_divided(filled));
        remarks.extend(lacking(filled));
    }
    let is_latency =
        |cell: &FilledCell<'_>| cell.part == ComparablePart::OwnShare && cell.figure.metric == LATENCY_METRIC;
    if filled.cells().any(is_latency) {
        remarks.push(
            "efficiency of a latency: today limit ÷ measured, in the report measured ÷ limit".to_owned(),
        );
    }
    remarks
}

/// Formats which units the report prints, if they differ from the cells'; `None` if none differs.
fn printed_units(filled: &FilledTable<'_>) -> Option<String> {
    let mut printed: Vec<String> = Vec::new();
    let (mut is_implied, mut is_unknown) = (false, false);
    for cell in filled.cells().filter(|cell| !cell.part.is_share() && !cell.unit.name.is_empty()) {
        let stated = match cell.figure.unit {
            "" => {
                is_implied = true;
                is_unknown |= cell.figure.base.is_none();
                continue;
            }
            unit if unit == cell.unit.name => continue,
            unit => unit.to_owned(),
        };
        if !printed.contains(&stated) {
            printed.push(stated);
        }
    }
    let printed = (!printed.is_empty()).then(|| format!("the report prints {}", printed.join(" and ")));
    let implied = is_implied.then(|| match is_unknown {
        true => "the report prints no unit, and none is known to fit: the unit is that of today's figures"
            .to_owned(),
        false => "the report prints no unit; this one fits its figures".to_owned(),
    });
    match (printed, implied) {
        (Some(printed), Some(_)) => Some(format!("{printed}, and no unit for the rest")),
        (printed, implied) => printed.or(implied),
    }
}

/// Formats each reason why results are not divided by published ones: `no ratio: REASON`.
fn not_divided(filled: &FilledTable<'_>) -> Vec<String> {
    let mut reasons: Vec<&str> = Vec::new();
    for cell in filled.cells().filter(|cell| cell.figure.matched.is_some()) {
        if !cell.figure.unmatched.is_empty() && !reasons.contains(&cell.figure.unmatched) {
            reasons.push(cell.figure.unmatched);
        }
    }
    reasons.into_iter().map(|why| format!("no ratio: {why}")).collect()
}

/// Formats why today's limits and reference tools are missing, if the table has none.
fn lacking(filled: &FilledTable<'_>) -> Vec<String> {
    let mut stated = Vec::new();
    let all = |of: &dyn Fn(&FilledCell<'_>) -> Vec<String>| once(figures(filled).flat_map(of));
    let is_there = |of: &dyn Fn(&FilledCell<'_>) -> bool| figures(filled).any(of);
    if !filled.has(ComparablePart::Limit) && !is_there(&|cell| cell.today.limit().is_some()) {
        let why = all(&|cell| cell.today.limit_unknown().map(str::to_owned).into_iter().collect());
        stated.extend((!why.is_empty()).then(|| format!("today's limit is unknown: {why}")));
    }
    if !filled.has(ComparablePart::Program) && !is_there(&|cell| cell.today.tool.is_some()) {
        let why = all(&|cell| cell.today.declined.clone());
        let none = figures(filled).next().map(|_| "no reference tool of today: none is run with these cases");
        stated.extend(match why.is_empty() {
            true => none.map(str::to_owned),
            false => Some(format!("no reference tool of today: {why}")),
        });
    }
    let with_tool = filled.cells().filter(|cell| cell.today.tool.is_some());
    let further = once(with_tool.flat_map(|cell| cell.today.declined.clone()));
    stated.extend((!further.is_empty()).then(|| format!("no figure of a further reference tool: {further}")));
    stated
}

fn once(reasons: impl Iterator<Item = String>) -> String {
    let mut found: Vec<String> = Vec::new();
    for why in reasons {
        if !found.contains(&why) {
            found.push(why);
        }
    }
    plimsoll_units::text::shown_within(&found.join("; "), MAX_NOTE_CHARACTERS)
}

/// Formats limits, efficiencies and tools' results that the report's text states about this table.
fn of_text(baseline: &PublishedReport, filled: &FilledTable<'_>) -> Option<String> {
    let is_own = |cell: &&FilledCell<'_>| matches!(cell.part, ComparablePart::Own | ComparablePart::Peak);
    let is_free = |text: &&PublishedFigure| match text.source {
        "own" => false,
        "theoretical" => !filled.has(ComparablePart::Limit),
        "efficiency-own" => !filled.has(ComparablePart::OwnShare),
        "efficiency-reference" => !filled.has(ComparablePart::ProgramShare),
        _ => !filled.has(ComparablePart::Program) && filled.table.kind == TableKind::Own,
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
    let all = baseline.figures.iter().filter(|f| f.is_of_text()).filter(is_free).filter(about);
    let all: Vec<String> = all.map(stated).collect();
    (!all.is_empty()).then(|| format!("published, from the text: {}", all.join(", ")))
}
