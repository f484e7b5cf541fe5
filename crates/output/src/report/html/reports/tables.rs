//! Charts of a published table, one per metric, with today's results beside the published ones.

use plimsoll_published::tables::TableKind;
use plimsoll_published::{LATENCY_METRIC, PublishedFigure, PublishedReport, THROUGHPUT_METRIC};
use plimsoll_units::quantity::Unit;

use super::lines::{AxisPlace, FigureAt, ReportLines};
use crate::report::html::data::{Chart, ChartAxis, SeriesRole};
use crate::report::published::cells::{ComparablePart, FilledCell, FilledTable};

pub(crate) enum DrawnChart {
    Chart(Box<Chart>),
    Missing { title: String, why: String },
}

#[cfg(test)]
impl DrawnChart {
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Chart(chart) => &chart.title,
            Self::Missing { title, .. } => title,
        }
    }
}

struct ChartPlace<'a, 'b> {
    column: AxisPlace,
    words: String,
    own: &'b FilledCell<'a>,
    others: Vec<&'b FilledCell<'a>>,
}

pub(crate) fn charts(baseline: &PublishedReport, filled: &FilledTable<'_>) -> Vec<DrawnChart> {
    let table = filled.table;
    if table.kind == TableKind::Text {
        let why = "the numbers of the text belong to several metrics; those of a table are in its chart";
        return vec![DrawnChart::Missing { title: table.title.clone(), why: why.to_owned() }];
    }
    let mut metrics: Vec<&str> = Vec::new();
    for cell in filled.cells().filter(|cell| is_point(filled, cell)) {
        if !metrics.contains(&cell.figure.metric) {
            metrics.push(cell.figure.metric);
        }
    }
    let several = metrics.len() > 1;
    let mut drawn = Vec::new();
    for metric in metrics {
        let title = if several { format!("{}: {metric}", table.title) } else { table.title.clone() };
        let places = places(filled, metric);
        let few = table.kind == TableKind::Program && metric != THROUGHPUT_METRIC && places.len() < 3;
        drawn.push(if places.len() < 2 || few {
            let count = plimsoll_units::text::format_count(places.len(), "number");
            DrawnChart::Missing { title: title.clone(), why: format!("{count} in all, which the table has") }
        } else {
            figure(baseline, &title, metric, &places)
        });
        if filled.has(ComparablePart::OwnShare) {
            drawn.push(shares(&format!("{title}, efficiency"), metric, &places));
        }
    }
    drawn
}

/// Returns whether a cell is drawn as a point of a chart; samples and spreads are not.
fn is_point(filled: &FilledTable<'_>, cell: &FilledCell<'_>) -> bool {
    match filled.table.kind {
        TableKind::Own => cell.part == ComparablePart::Own,
        _ => !matches!(cell.part, ComparablePart::Deviation | ComparablePart::Limit) && !cell.part.is_share(),
    }
}

fn places<'a, 'b>(filled: &'b FilledTable<'a>, metric: &str) -> Vec<ChartPlace<'a, 'b>> {
    let table = filled.table;
    let is_it = |cell: &&FilledCell<'_>| cell.figure.metric == metric && is_point(filled, cell);
    let most = filled.rows.iter().map(|row| row.iter().flatten().filter(is_it).count()).max();
    let ends = || table.rows.iter().map(|row| row.label.rfind(", ").map_or("", |at| &row.label[at..]));
    let common = ends().next().filter(|first| table.rows.len() > 1 && ends().all(|end| end == *first));
    let common = common.filter(|end| !end.is_empty());
    let mut places = Vec::new();
    for (row, cells) in table.rows.iter().zip(&filled.rows) {
        for (name, own) in table.columns.iter().zip(cells).filter_map(|(n, c)| Some((n, c.as_ref()?))) {
            if !is_it(&own) {
                continue;
            }
            let alone = most == Some(1);
            let label = common.map_or(&*row.label, |end| row.label.trim_end_matches(end));
            let (band, name) = match (alone, label.rsplit_once(", ")) {
                (true, Some((band, name))) => (band.to_owned(), name.to_owned()),
                (true, None) => (String::new(), label.to_owned()),
                (false, _) => (row.label.clone(), name.clone()),
            };
            let words = if alone { row.label.clone() } else { format!("{}, {name}", row.label) };
            let is_other =
                |cell: &&FilledCell<'_>| alone && cell.figure.metric == metric && !std::ptr::eq(*cell, own);
            let others = cells.iter().flatten().filter(is_other).collect();
            places.push(ChartPlace { column: AxisPlace { band, name: short(&name) }, words, own, others });
        }
    }
    places
}

/// Removes the word "threads", which the axis shows: `8 threads` becomes `8`.
fn short(name: &str) -> String {
    let number = name.strip_suffix(" threads").or_else(|| name.strip_suffix(" thread"));
    number.unwrap_or(name).to_owned()
}

fn axis(places: &[ChartPlace<'_, '_>]) -> &'static str {
    let counts = |place: &ChartPlace<'_, '_>| place.column.name.parse::<u64>().is_ok();
    if places.iter().all(counts) { "threads" } else { "" }
}

fn lines(places: &[ChartPlace<'_, '_>]) -> ReportLines {
    let columns = places
        .iter()
        .map(|place| AxisPlace { band: place.column.band.clone(), name: place.column.name.clone() });
    ReportLines::new(columns.collect())
}

fn figure(
    baseline: &PublishedReport,
    title: &str,
    metric: &str,
    places: &[ChartPlace<'_, '_>],
) -> DrawnChart {
    let unit = unit(places);
    let mut lines = lines(places);
    let mut note: Vec<String> = Vec::new();
    let mut why: Vec<String> = Vec::new();
    for (column, place) in places.iter().enumerate() {
        of_today(&mut lines, &mut why, column, place);
        for cell in std::iter::once(place.own).chain(place.others.iter().copied()) {
            published(&mut lines, &mut note, column, place, cell, unit);
        }
    }
    why.retain(|reason| !reason.is_empty());
    if !lines.has_any() {
        let why =
            if why.is_empty() { "no number has a unit that is known".to_owned() } else { why.join("; ") };
        return DrawnChart::Missing {
            title: title.to_owned(),
            why: plimsoll_units::text::shown_within(&why, 400),
        };
    }
    if !why.is_empty() {
        note.push(format!(
            "not all is drawn of today: {}",
            plimsoll_units::text::shown_within(&why.join("; "), 300)
        ));
    }
    let name = metric.replace('-', " ");
    let y = ChartAxis::linear(&name, unit.map_or("", Unit::name));
    let note = format!("published: {}{}", baseline.machine, joined(&note));
    DrawnChart::Chart(Box::new(lines.chart(title.to_owned(), note, axis(places), y)))
}

/// Adds today's result at `column` to `lines`; without a result, adds the reason to `why`.
fn of_today(lines: &mut ReportLines, why: &mut Vec<String>, column: usize, place: &ChartPlace<'_, '_>) {
    let at = |value: f64, range: Option<[f64; 2]>, label: String| FigureAt { column, value, range, label };
    let today = &place.own.today;
    let words = &place.words;
    match (&today.invalid, place.own.value().filter(|_| place.own.part != ComparablePart::Program)) {
        (None, Some(value)) => {
            let least = today.samples.iter().copied().reduce(f64::min);
            let most = today.samples.iter().copied().reduce(f64::max);
            let range = least.zip(most).map(|(least, most)| [least, most]);
            lines.add("today", SeriesRole::Own, at(value, range, words.clone()));
        }
        (Some(reason), value) => {
            if let Some(value) = value {
                let label = format!("{words}, invalid: {reason}");
                lines.add("today, invalid", SeriesRole::Doubted, at(value, None, label));
            }
            add(why, format!("invalid today: {reason}"));
        }
        (None, None) => {
            add(why, today.instead.clone().unwrap_or_else(|| "no figure of today".to_owned()));
        }
    }
    if let Some(tool) = &today.tool {
        let label = format!("{words}, {}", tool.name);
        lines.add("reference tool, today", SeriesRole::Tool, at(tool.figure, None, label));
    }
    if let Some(limit) = today.limit() {
        lines.add("limit, today", SeriesRole::Limit, at(limit, None, words.clone()));
    }
}

fn joined(note: &[String]) -> String {
    note.iter().map(|text| format!("; {text}")).collect()
}

fn add(all: &mut Vec<String>, text: String) {
    if !all.contains(&text) {
        all.push(text);
    }
}

/// Returns the unit of the values: the report's, or today's if the report prints none.
fn unit(places: &[ChartPlace<'_, '_>]) -> Option<Unit> {
    let printed = places.iter().find_map(|place| Some(place.own.figure.base?.1));
    printed.or_else(|| places.iter().find_map(|place| Some(place.own.today.metric?.unit)))
}

/// Returns whether the units are equal, or operations and floating-point operations per second.
fn is_alike(one: Unit, other: Unit) -> bool {
    let counts = |unit: Unit| matches!(unit, Unit::OpPerSecond | Unit::FlopPerSecond);
    one == other || counts(one) && counts(other)
}

/// Adds the published number in `cell` at `column` to the line of its source or of doubted numbers.
/// If its unit does not fit `unit`, adds that to `note` instead.
fn published(
    lines: &mut ReportLines,
    note: &mut Vec<String>,
    column: usize,
    place: &ChartPlace<'_, '_>,
    cell: &FilledCell<'_>,
    unit: Option<Unit>,
) {
    let figure = cell.figure;
    let is_mean = |cell: &FilledCell<'_>| matches!(cell.part, ComparablePart::Own | ComparablePart::Peak);
    let (name, role) = match cell.part {
        ComparablePart::Sample(_) if figure.is_reference() => ("reference", SeriesRole::Program),
        part if part.is_of_all_samples() && figure.is_reference() => ("reference", SeriesRole::Program),
        part if part.is_of_all_samples() => ("published", SeriesRole::Published),
        ComparablePart::Program => ("reference", SeriesRole::Program),
        ComparablePart::Limit => ("theory", SeriesRole::Theory),
        _ => return,
    };
    let value = match (figure.base, unit) {
        (Some((value, of)), Some(unit)) if is_alike(of, unit) => Some(value),
        (None, None) => figure.number(),
        _ => None,
    };
    let Some(value) = value else {
        let text = if figure.unit.is_empty() { "no unit" } else { "a unit of another kind" };
        return add(note, format!("not drawn: published numbers with {text}"));
    };
    let name = if name == "published" { name.to_owned() } else { format!("{name}, published") };
    let printed = format!("{}, printed {} {}", place.words, figure.value, figure.unit);
    let printed = printed.trim_end().to_owned();
    let range = is_mean(cell).then(|| range(place)).flatten();
    let (name, role, label) = match figure.doubt {
        None => (name, role, printed),
        Some(doubt) => {
            let source = name.split(',').next().unwrap_or_default();
            ("published, in doubt".to_owned(), SeriesRole::Doubted, format!("{source}: {printed}, {doubt}"))
        }
    };
    lines.add(&name, role, FigureAt { column, value, range, label });
}

/// Returns minimum and maximum of the published samples of a point, in base units; `None` without
/// samples.
fn range(place: &ChartPlace<'_, '_>) -> Option<[f64; 2]> {
    let is_sample = |cell: &&&FilledCell<'_>| matches!(cell.part, ComparablePart::Sample(_));
    let samples = || place.others.iter().filter(is_sample).filter_map(|cell| Some(cell.figure.base?.0));
    samples().reduce(f64::min).zip(samples().reduce(f64::max)).map(|(least, most)| [least, most])
}

/// Builds the chart of shares of the limit in percent; for latencies limit ÷ measured.
fn shares(title: &str, metric: &str, places: &[ChartPlace<'_, '_>]) -> DrawnChart {
    let mut lines = lines(places);
    for (column, place) in places.iter().enumerate() {
        let at = |value: f64, label: String| FigureAt { column, value: value * 100.0, range: None, label };
        let today = &place.own.today;
        if let Some(share) = today.share(today.believed()) {
            lines.add("today", SeriesRole::Own, at(share, place.words.clone()));
        }
        if let Some((share, tool)) = today.tool.as_ref().and_then(|tool| Some((tool.of_limit?, tool.name))) {
            lines.add(
                "reference tool, today",
                SeriesRole::Tool,
                at(share, format!("{}, {tool}", place.words)),
            );
        }
        for cell in &place.others {
            let (name, role, of) = match cell.part {
                ComparablePart::OwnShare => ("published", SeriesRole::Published, Some(place.own.figure)),
                ComparablePart::ProgramShare => ("reference, published", SeriesRole::Program, program(place)),
                _ => continue,
            };
            let Some(printed) = cell.figure.number().filter(|number| *number > 0.0) else { continue };
            let share = if metric == LATENCY_METRIC { 100.0 / printed } else { printed / 100.0 };
            let doubt = [Some(cell.figure), of].into_iter().flatten().find_map(|f| f.doubt);
            let label = format!("{}, printed {} %", place.words, cell.figure.value);
            match doubt {
                None => lines.add(name, role, at(share, label)),
                Some(doubt) => {
                    let name = format!("{name}, in doubt");
                    lines.add(&name, SeriesRole::Doubted, at(share, format!("{label}, {doubt}")));
                }
            }
        }
    }
    if !lines.has_any() {
        let why = "neither the report nor this run has a limit that these figures can be divided by";
        return DrawnChart::Missing { title: title.to_owned(), why: why.to_owned() };
    }
    let note = match metric {
        LATENCY_METRIC => "limit ÷ measured; the report prints measured ÷ limit, which is turned round here",
        _ => "measured ÷ limit",
    };
    let axis_of_shares = ChartAxis::linear("share of the limit", "%");
    DrawnChart::Chart(Box::new(lines.chart(title.to_owned(), note.to_owned(), axis(places), axis_of_shares)))
}

fn program<'a>(place: &ChartPlace<'a, '_>) -> Option<&'a PublishedFigure> {
    place.others.iter().find(|cell| cell.part == ComparablePart::Program).map(|cell| cell.figure)
}
