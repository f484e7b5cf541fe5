//! Charts of a published table, one per metric, with today's results beside the published ones.

use plimsoll_published::tables::TableKind;
use plimsoll_published::{LATENCY_METRIC, THROUGHPUT_METRIC};
use plimsoll_units::quantity::Unit;
use plimsoll_units::text::shown_within;

use super::lines::{AxisPlace, ReportLines};
use crate::report::html::data::{Chart, ChartAxis, SeriesRole};
use crate::report::published::cells::{ComparablePart, FilledCell, FilledTable};
use crate::report::{distinct, joined};

/// A chart, or the title of one that cannot be drawn with the reason.
pub(crate) type DrawnChart = Result<Chart, MissingChart>;

pub(crate) struct MissingChart {
    pub(crate) title: String,
    pub(crate) why: String,
}

pub(super) struct ChartPlace<'a, 'b> {
    column: AxisPlace,
    words: String,
    pub(super) own: &'b FilledCell<'a>,
    others: Vec<&'b FilledCell<'a>>,
}

pub(crate) fn charts(filled: &FilledTable<'_>) -> Vec<DrawnChart> {
    let table = &filled.table;
    if table.kind == TableKind::Text {
        let why = "the numbers of the text belong to several metrics; those of a table are in its chart";
        return vec![Err(MissingChart { title: table.title.clone(), why: why.to_owned() })];
    }
    let points = filled.cells().filter(|cell| is_point(filled, cell));
    let metrics = distinct(points.map(|cell| cell.figure.metric));
    let several = metrics.len() > 1;
    let mut drawn = Vec::new();
    for metric in metrics {
        let title = if several { format!("{}: {metric}", table.title) } else { table.title.clone() };
        let places = places(filled, metric);
        let few = table.kind == TableKind::Program && metric != THROUGHPUT_METRIC && places.len() < 3;
        drawn.push(if places.len() < 2 || few {
            let count = plimsoll_units::text::format_count(places.len(), "number");
            Err(MissingChart { title: title.clone(), why: format!("{count} in all, which the table has") })
        } else {
            figure(filled.baseline.machine, &title, metric, &places)
        });
        if filled.has(ComparablePart::OwnShare) {
            drawn.push(shares(filled.baseline.machine, &format!("{title}, efficiency"), metric, &places));
        }
    }
    drawn
}

/// Returns whether a chart has a point for the cell: results, in tables of tools also samples.
fn is_point(filled: &FilledTable<'_>, cell: &FilledCell<'_>) -> bool {
    match filled.table.kind {
        TableKind::Own => cell.part == ComparablePart::Own,
        _ => !matches!(cell.part, ComparablePart::Deviation | ComparablePart::Limit) && !cell.part.is_share(),
    }
}

pub(super) fn places<'a, 'b>(filled: &'b FilledTable<'a>, metric: &str) -> Vec<ChartPlace<'a, 'b>> {
    let table = &filled.table;
    let is_it = |cell: &&FilledCell<'_>| cell.figure.metric == metric && is_point(filled, cell);
    let most = filled.rows.iter().map(|row| row.iter().flatten().filter(is_it).count()).max();
    let ends = || table.rows.iter().map(|row| row.label.rfind(", ").map_or("", |at| &row.label[at..]));
    let common = ends().next().filter(|first| table.rows.len() > 1 && ends().all(|end| end == *first));
    let common = common.filter(|end| !end.is_empty());
    let mut places = Vec::new();
    for (row, cells) in table.rows.iter().zip(&filled.rows) {
        for (name, cell) in table.columns.iter().zip(cells) {
            let Some(own) = cell.as_ref().filter(is_it) else { continue };
            let alone = most == Some(1);
            let label = common.map_or(&*row.label, |end| row.label.trim_end_matches(end));
            let (band, name) = match (alone, label.rsplit_once(", ")) {
                (true, Some((band, name))) => (band.to_owned(), name.to_owned()),
                (true, None) => (String::new(), label.to_owned()),
                (false, _) => (row.label.clone(), name.clone()),
            };
            let words = if alone { row.label.clone() } else { format!("{}, {name}", row.label) };
            let is_other =
                |of: &&FilledCell<'_>| alone && of.figure.metric == metric && !std::ptr::eq(*of, own);
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

pub(super) fn figure(machine: &str, title: &str, metric: &str, places: &[ChartPlace<'_, '_>]) -> DrawnChart {
    let unit = unit(places);
    let mut lines = ReportLines::new(places.iter().map(|place| place.column.clone()).collect());
    let (mut note, mut why) = (Vec::new(), Vec::new());
    for (column, place) in places.iter().enumerate() {
        why.extend(of_today(&mut lines, column, place).filter(|reason| !reason.is_empty()));
        for cell in std::iter::once(place.own).chain(place.others.iter().copied()) {
            note.extend(published(&mut lines, column, place, cell, unit).map(str::to_owned));
        }
    }
    let (mut note, why) = (distinct(note), distinct(why).join("; "));
    if lines.series.is_empty() {
        let why = if why.is_empty() { "no number has a unit that is known" } else { &why };
        return Err(MissingChart { title: title.to_owned(), why: shown_within(why, 400) });
    }
    if !why.is_empty() {
        note.push(format!("not all is drawn of today: {}", shown_within(&why, 300)));
    }
    let y = ChartAxis::linear(&metric.replace('-', " "), unit.map_or("", Unit::name));
    let note: String = note.iter().map(|text| format!("; {text}")).collect();
    let note = format!("published: {}{note}", machine);
    Ok(lines.chart(title.to_owned(), note, y))
}

/// Adds the run's result, the tool's and the limit at `column`; returns why the result is invalid.
fn of_today(lines: &mut ReportLines, column: usize, place: &ChartPlace<'_, '_>) -> Option<String> {
    let (today, words) = (&place.own.today, &place.words);
    let value = place.own.value();
    let why = match (&today.invalid, value.filter(|_| place.own.part != ComparablePart::Program)) {
        (None, Some(value)) => {
            let least = today.samples.iter().copied().reduce(f64::min);
            let most = today.samples.iter().copied().reduce(f64::max);
            let values: Vec<f64> = [Some(value), least, most].into_iter().flatten().collect();
            lines.add("today", SeriesRole::Own, column, &values, words.clone());
            None
        }
        (Some(reason), value) => {
            if let Some(value) = value {
                let label = format!("{words}, invalid: {reason}");
                lines.add("today, invalid", SeriesRole::Doubted, column, &[value], label);
            }
            Some(format!("invalid today: {reason}"))
        }
        (None, None) => Some(today.instead.clone().unwrap_or_else(|| "no figure of today".to_owned())),
    };
    if let Some(tool) = &today.tool {
        let label = joined(&[words, tool.name, &tool.differs], ", ");
        lines.add("reference tool, today", SeriesRole::Tool, column, &[tool.figure], label);
    }
    if let Some(limit) = today.limit() {
        lines.add("limit, today", SeriesRole::Limit, column, &[limit], words.clone());
    }
    why
}

/// Returns the unit of the report's numbers, or of the run's results if the report prints none.
fn unit(places: &[ChartPlace<'_, '_>]) -> Option<Unit> {
    let printed = places.iter().find_map(|place| Some(place.own.figure.base?.1));
    printed.or_else(|| places.iter().find_map(|place| Some(place.own.today.metric?.unit)))
}

/// Returns whether units are equal, or both operations or floating-point operations per second.
fn is_alike(one: Unit, other: Unit) -> bool {
    let counts = |unit: Unit| matches!(unit, Unit::OpPerSecond | Unit::FlopPerSecond);
    one == other || counts(one) && counts(other)
}

/// Adds the published number in `cell` at `column` to the line of its source or of doubted numbers.
/// If its unit does not fit `unit`, returns a note about that instead; else `None`.
fn published(
    lines: &mut ReportLines,
    column: usize,
    place: &ChartPlace<'_, '_>,
    cell: &FilledCell<'_>,
    unit: Option<Unit>,
) -> Option<&'static str> {
    let figure = cell.figure;
    let (source, role) = match cell.part {
        ComparablePart::Limit => ("theory", SeriesRole::Theory),
        _ if figure.is_reference() => ("reference", SeriesRole::Program),
        part if part.is_of_all_samples() => ("published", SeriesRole::Published),
        _ => return None,
    };
    let value = match (figure.base, unit) {
        (Some((value, of)), Some(unit)) if is_alike(of, unit) => Some(value),
        (None, None) => figure.number(),
        _ => None,
    };
    let Some(value) = value else {
        return Some(match figure.unit {
            "" => "not drawn: published numbers with no unit",
            _ => "not drawn: published numbers with a unit of another kind",
        });
    };
    let printed = format!("{}, printed {} {}", place.words, figure.value, figure.unit);
    let printed = printed.trim_end();
    let mut values = vec![value];
    if matches!(cell.part, ComparablePart::Own | ComparablePart::Peak) {
        values.extend(range(place).into_iter().flatten());
    }
    let (name, role, label) = match figure.doubt {
        None if source == "published" => (source.to_owned(), role, printed.to_owned()),
        None => (format!("{source}, published"), role, printed.to_owned()),
        Some(doubt) => {
            ("published, in doubt".to_owned(), SeriesRole::Doubted, format!("{source}: {printed}, {doubt}"))
        }
    };
    lines.add(&name, role, column, &values, label);
    None
}

/// Returns minimum and maximum of a point's published samples in base units; `None` without any.
fn range(place: &ChartPlace<'_, '_>) -> Option<[f64; 2]> {
    let is_sample = |cell: &&&FilledCell<'_>| matches!(cell.part, ComparablePart::Sample(_));
    let samples = || place.others.iter().filter(is_sample).filter_map(|cell| Some(cell.figure.base?.0));
    samples().reduce(f64::min).zip(samples().reduce(f64::max)).map(|(least, most)| [least, most])
}

/// Builds the chart of the shares of the limit in percent that the run's result, the tool's and the
/// published one reach at `places`; for latencies limit ÷ measured. Fails without any share.
pub(super) fn shares(machine: &str, title: &str, metric: &str, places: &[ChartPlace<'_, '_>]) -> DrawnChart {
    let mut lines = ReportLines::new(places.iter().map(|place| place.column.clone()).collect());
    for (column, place) in places.iter().enumerate() {
        let today = &place.own.today;
        if let Some(share) = today.share(today.believed()) {
            lines.add("today", SeriesRole::Own, column, &[share * 100.0], place.words.clone());
        }
        if let Some((share, tool)) = today.tool.as_ref().and_then(|tool| Some((tool.of_limit?, tool.name))) {
            let label = format!("{}, {tool}", place.words);
            lines.add("reference tool, today", SeriesRole::Tool, column, &[share * 100.0], label);
        }
        let program = place.others.iter().find(|cell| cell.part == ComparablePart::Program);
        let program = program.map(|cell| cell.figure);
        for cell in &place.others {
            let (name, role, of) = match cell.part {
                ComparablePart::OwnShare => ("published", SeriesRole::Published, Some(place.own.figure)),
                ComparablePart::ProgramShare => ("reference, published", SeriesRole::Program, program),
                _ => continue,
            };
            let Some(printed) = cell.figure.number().filter(|number| *number > 0.0) else { continue };
            let share = if metric == LATENCY_METRIC { 100.0 / printed } else { printed / 100.0 };
            let doubt = [Some(cell.figure), of].into_iter().flatten().find_map(|f| f.doubt);
            let label = format!("{}, printed {} %", place.words, cell.figure.value);
            let (name, role, label) = match doubt {
                None => (name.to_owned(), role, label),
                Some(doubt) => {
                    (format!("{name}, in doubt"), SeriesRole::Doubted, format!("{label}, {doubt}"))
                }
            };
            lines.add(&name, role, column, &[share * 100.0], label);
        }
    }
    if lines.series.is_empty() {
        let why = "neither the report nor this run has a limit that these figures can be divided by";
        return Err(MissingChart { title: title.to_owned(), why: why.to_owned() });
    }
    let note = match metric {
        LATENCY_METRIC => "limit ÷ measured; the report prints measured ÷ limit, which is turned round here",
        _ => "measured ÷ limit",
    };
    let y = ChartAxis::linear("share of the limit", "%");
    Ok(lines.chart(title.to_owned(), format!("published: {machine}; {note}"), y))
}
