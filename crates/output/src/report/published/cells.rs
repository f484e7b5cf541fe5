//! Cells of a published table: each number with today's measurement.

use plimsoll_published::tables::{PublishedTable, TableKind};
use plimsoll_published::{LATENCY_METRIC, Matched, PublishedFigure, PublishedReport, THROUGHPUT_METRIC};
use plimsoll_units::quantity::Unit;

use super::today::{MeasuredPoint, ReplayRuns};

pub(crate) struct FilledTable<'a> {
    pub(crate) baseline: &'a PublishedReport,
    pub(crate) table: PublishedTable<'a>,
    pub(crate) rows: Vec<Vec<Option<FilledCell<'a>>>>,
}

#[derive(Clone)]
pub(crate) struct FilledCell<'a> {
    pub(crate) figure: &'a PublishedFigure,
    pub(crate) part: ComparablePart,
    pub(crate) today: MeasuredPoint<'a>,
    pub(crate) unit: ReportUnit,
    /// Whether the report has no own result for today's benchmark.
    is_alone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparablePart {
    Own,
    Peak,
    Sample(usize),
    Least,
    Most,
    Deviation,
    Program,
    Limit,
    OwnShare,
    ProgramShare,
    OwnToProgram,
}

impl ComparablePart {
    pub(super) fn of(figure: &PublishedFigure, kind: TableKind) -> Self {
        let sample = |number: &str| Some(Self::Sample(number.parse::<usize>().ok()?.saturating_sub(1)));
        match (figure.source, figure.statistic, figure.metric) {
            ("theoretical", ..) => Self::Limit,
            ("efficiency-own", ..) => Self::OwnShare,
            ("efficiency-reference", ..) => Self::ProgramShare,
            ("own", "stdev", _) => Self::Deviation,
            ("own", statistic, _) => statistic.strip_prefix("sample").and_then(sample).unwrap_or(Self::Own),
            _ if kind != TableKind::Program => Self::Program,
            (_, "peak", _) => Self::Peak,
            (.., "time-min") => Self::Least,
            (.., "time-max") => Self::Most,
            _ => {
                let trial = figure.pattern.split(';').find_map(|part| part.strip_prefix("trial="));
                let trial = trial.and_then(sample);
                trial.or_else(|| interval(figure).map(Self::Sample)).unwrap_or(Self::Own)
            }
        }
    }

    pub(crate) fn is_of_all_samples(self) -> bool {
        matches!(self, Self::Own | Self::Peak | Self::Least | Self::Most)
    }

    pub(crate) fn is_share(self) -> bool {
        matches!(self, Self::OwnShare | Self::ProgramShare | Self::OwnToProgram)
    }

    /// Returns whether cells of this kind get a ratio, measured ÷ published: results, no samples.
    pub(crate) fn is_compared(self) -> bool {
        self.is_of_all_samples() || self == Self::Program
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReportUnit {
    pub(crate) scale: f64,
    pub(crate) name: String,
}

impl<'a> FilledTable<'a> {
    pub(crate) fn new(table: PublishedTable<'a>, runs: &ReplayRuns<'a>) -> Self {
        let cell = |figure: &'a PublishedFigure, row: &[Option<&'a PublishedFigure>]| {
            let part = ComparablePart::of(figure, table.kind);
            let (part, today) = match (&figure.matched, table.kind) {
                (_, TableKind::Text) => runs.of_text(figure, row, part),
                (Some(matched), _) => {
                    (part, runs.of(matched, &format!("{} {}", figure.source, figure.operation)))
                }
                (None, _) => (part, runs.mean_over_threads(figure)),
            };
            let today = runs.with_report_tool(figure, today);
            let is_alone = today.case.is_some_and(|case| {
                runs.baseline.own_points().all(|(_, m)| m.case.benchmark() != case.benchmark())
            });
            FilledCell { figure, part, unit: shown(runs.baseline, figure), is_alone, today }
        };
        let row = |figures: &[Option<&'a PublishedFigure>]| -> Vec<Option<FilledCell<'a>>> {
            figures.iter().map(|figure| Some(cell((*figure)?, figures))).collect()
        };
        let rows = table.rows.iter().map(|found| row(&found.cells)).collect();
        Self { baseline: runs.baseline, table, rows }
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = &FilledCell<'a>> {
        self.rows.iter().flatten().flatten()
    }

    /// Returns whether the cell is a case's result: a mean, or a peak if the table has no means.
    pub(crate) fn is_figure(&self, cell: &FilledCell<'_>) -> bool {
        let is_mean =
            |cell: &FilledCell<'_>| cell.part == ComparablePart::Own && cell.figure.matched.is_some();
        match cell.part {
            ComparablePart::Own => true,
            ComparablePart::Peak => self.table.kind != TableKind::Program || !self.cells().any(is_mean),
            _ => false,
        }
    }

    pub(crate) fn has(&self, part: ComparablePart) -> bool {
        self.cells().any(|cell| cell.part == part)
    }
}

/// Returns the second (from 0) of an iperf run that a rate or amount is for: 3 for the pattern
/// `3-4s`; `None` for other numbers.
fn interval(figure: &PublishedFigure) -> Option<usize> {
    let is_of_seconds = matches!(figure.metric, THROUGHPUT_METRIC | "transfer");
    let part = figure.pattern.split(';').find_map(|part| part.strip_suffix('s')?.split_once('-'));
    let (from, to) = part.filter(|_| is_of_seconds)?;
    let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
    (to == from + 1).then_some(from)
}

impl<'a> ReplayRuns<'a> {
    /// Returns the run's mean over all thread counts, or why `figure` is not that of the report.
    fn mean_over_threads(&self, figure: &PublishedFigure) -> MeasuredPoint<'a> {
        let is_mean = figure.source == "own" && figure.statistic == "mean" && figure.threads.is_empty();
        let is_alike = |f: &PublishedFigure| {
            PublishedFigure { threads: figure.threads, ..f.clone() }.is_of_point(figure)
        };
        let points = self.baseline.own_points().filter(|(f, _)| is_mean && is_alike(f));
        let mean = MeasuredPoint::mean_of(points.map(|(_, matched)| self.of(matched, "")).collect());
        mean.unwrap_or_else(|| MeasuredPoint::absent(figure.unmatched))
    }

    /// Adds the result of the report's reference tool to `today`, the run's result, if the tool's
    /// number belongs to another case than `figure` (HPL solves an equation system).
    fn with_report_tool(&self, figure: &PublishedFigure, today: MeasuredPoint<'a>) -> MeasuredPoint<'a> {
        if today.tool.is_some() || figure.source != "own" || figure.is_of_text() {
            return today;
        }
        let program = self.baseline.figures.iter().find(|f| f.is_reference() && f.is_of_point(figure));
        let other = program.and_then(|f| Some((f.matched.as_ref()?, f.source)));
        let own = figure.matched.as_ref().map(|m| &m.case);
        let other = other.filter(|(matched, _)| Some(&matched.case) != own);
        MeasuredPoint { tool: other.and_then(|(matched, source)| self.of(matched, source).tool), ..today }
    }

    /// Returns the run's result to compare with `figure`, a number of the report's prose: of the
    /// case whose own published number is that in `row`, else of the best case with this metric.
    /// Beside it is `part`, or, of an own share in a report without limits, the ratio to the tool.
    fn of_text(
        &self,
        figure: &PublishedFigure,
        row: &[Option<&PublishedFigure>],
        part: ComparablePart,
    ) -> (ComparablePart, MeasuredPoint<'a>) {
        if matches!(part, ComparablePart::Program | ComparablePart::ProgramShare) {
            let program = row.iter().flatten().find(|f| f.is_reference());
            let matched = figure.matched.as_ref().or_else(|| program?.matched.as_ref());
            let source = program.map_or("", |f| f.source);
            let best = matched.map(|matched| self.best(&[matched], source));
            return (part, best.unwrap_or_else(|| self.of_program(figure, source)));
        }
        let own = row.iter().flatten().find(|f| f.source == "own");
        let is_exact = |f: &PublishedFigure| own.is_some_and(|own| f.number() == own.number());
        let points = self.baseline.own_points().filter(|(f, _)| f.matches_text(figure));
        let (exact, others): (Vec<_>, Vec<_>) = points.partition(|(f, _)| is_exact(f));
        let points = if exact.is_empty() { others } else { exact };
        if points.is_empty() {
            return (part, MeasuredPoint::absent(figure.unmatched));
        }
        let of_part = || self.baseline.figures.iter().filter(|f| f.subsystem == figure.subsystem);
        let tool = of_part().find(|f| f.is_reference());
        let points: Vec<&Matched> = points.into_iter().map(|(_, matched)| matched).collect();
        let today = self.best(&points, tool.map_or("", |f| f.source));
        let has_theory = of_part().any(|f| f.source == "theoretical");
        let is_to_program = part == ComparablePart::OwnShare && !has_theory;
        (if is_to_program { ComparablePart::OwnToProgram } else { part }, today)
    }

    /// Returns the run's result of the reference tool `program` for `figure`, a number of the
    /// prose: from cases that the report measured with the tool, else from any case that fits.
    fn of_program(&self, figure: &PublishedFigure, program: &str) -> MeasuredPoint<'a> {
        let by_name = program.is_empty();
        let known = |f: &&PublishedFigure| {
            let is_named = if by_name { f.operation == figure.operation } else { f.source == program };
            let is_alike = f.subsystem == figure.subsystem && f.metric == figure.metric;
            is_named && is_alike && f.is_reference() && !f.is_of_text()
        };
        let cases = self.baseline.figures.iter().filter(known).filter_map(|f| f.matched.as_ref());
        let cases: Vec<&Matched> = cases.collect();
        if !cases.is_empty() {
            return self.best(&cases, program);
        }
        let points = self.baseline.own_points().filter(|(f, _)| f.matches_text(figure));
        let points: Vec<&Matched> = points.map(|(_, matched)| matched).collect();
        let Some(metric) = points.first().map(|m| m.metric) else {
            return MeasuredPoint::absent(figure.unmatched);
        };
        let own = format!("{}.{}", figure.subsystem, figure.operation);
        let fits = |name: &str| name == own || points.iter().any(|m| m.case.benchmark() == name);
        self.of_tool(if by_name { figure.source } else { program }, metric, |case| {
            case.subsystem() == figure.subsystem && (figure.operation.is_empty() || fits(case.benchmark()))
        })
    }
}

/// Returns the unit to show for a published number: the printed one; if its factor is unknown, that
/// of a number with the same subsystem, metric and unit, else a default (memory latency: ns).
fn shown(baseline: &PublishedReport, figure: &PublishedFigure) -> ReportUnit {
    if figure.unit == "%" {
        return ReportUnit { scale: 0.01, name: "%".to_owned() };
    }
    let same = |f: &&PublishedFigure| {
        f.unit == figure.unit && f.metric == figure.metric && f.subsystem == figure.subsystem
    };
    let found = scale(figure).or_else(|| baseline.figures.iter().filter(same).find_map(scale));
    let (scale, usual) = match (found, figure.subsystem, figure.metric) {
        (Some((scale, unit)), ..) => return ReportUnit { scale, name: name(scale, unit, figure.unit) },
        (None, "memory", LATENCY_METRIC) => (1e-9, "ns"),
        (None, _, LATENCY_METRIC) => (1e-3, "ms"),
        (None, "disk", THROUGHPUT_METRIC) => (1024.0, "KiB/s"),
        (None, "memory", THROUGHPUT_METRIC) => (1e9, "GB/s"),
        _ => (1.0, figure.unit),
    };
    ReportUnit { scale, name: usual.to_owned() }
}

/// Returns the factor from the printed unit to the base unit (1e9 for GB/s), and the base unit;
/// `None` if unknown.
fn scale(figure: &PublishedFigure) -> Option<(f64, Unit)> {
    let (value, unit) = figure.base?;
    let printed = figure.number().filter(|printed| *printed != 0.0)?;
    Some((value / printed, unit))
}

const UNIT_PREFIXES: &[(f64, &str)] = &[
    (1e9, "G"),
    (1_048_576.0, "Mi"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
];

fn name(scale: f64, unit: Unit, printed: &str) -> String {
    let known = UNIT_PREFIXES.iter().find(|(factor, _)| (scale / factor - 1.0).abs() < 1e-6);
    match (known, unit) {
        (_, Unit::One) => String::new(),
        (Some((_, prefix)), _) => format!("{prefix}{}", unit.name()),
        (None, _) => printed.to_owned(),
    }
}

impl FilledCell<'_> {
    /// Returns the run's value for the cell, in base units or as a share; `None` without one.
    pub(crate) fn value(&self) -> Option<f64> {
        let today = &self.today;
        match self.part {
            ComparablePart::Own => today.mean(),
            ComparablePart::Peak => today.peak(),
            ComparablePart::Sample(at) => today.samples.get(at).copied(),
            ComparablePart::Least => today.samples.iter().copied().reduce(f64::min),
            ComparablePart::Most => today.samples.iter().copied().reduce(f64::max),
            ComparablePart::Deviation => today.stdev(),
            ComparablePart::Program => self.program().map(|(figure, _)| figure),
            ComparablePart::Limit => today.limit(),
            ComparablePart::OwnShare => today.share(today.mean()),
            ComparablePart::ProgramShare => match &today.tool {
                Some(tool) => tool.of_limit,
                None => today.share(self.program().map(|(figure, _)| figure)),
            },
            ComparablePart::OwnToProgram => Some(today.mean()? / today.tool.as_ref()?.figure),
        }
    }

    /// Returns result (base unit) and name of the run's reference tool. Without a tool: plimsoll's,
    /// if the report has no own result of the benchmark or the number is from prose, else `None`.
    pub(crate) fn program(&self) -> Option<(f64, &str)> {
        match &self.today.tool {
            Some(tool) => Some((tool.figure, tool.name)),
            None if self.is_alone || self.figure.is_of_text() && self.figure.matched.is_some() => {
                Some((self.today.mean()?, OWN_PROGRAM))
            }
            None => None,
        }
    }

    /// Explains why the run has no result of the report's reference tool.
    pub(crate) fn no_program(&self) -> String {
        let source = self.figure.source;
        let why = self.today.declined.iter().find(|why| why.starts_with(source));
        match (why, self.today.case) {
            (Some(why), _) => why.clone(),
            (None, Some(_)) => format!("{source} is not run with this case"),
            (None, None) => format!("no {source} in this run"),
        }
    }

    /// Returns the run's value ÷ the published one; `None` if either is missing, invalid, in doubt.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let published = self.published()?;
        let is_of_tool = self.today.tool.is_some() && self.part == ComparablePart::Program;
        let is_sound = self.today.invalid.is_none() || is_of_tool;
        (self.part.is_compared() && is_sound).then_some(self.value()? / published)
    }

    /// Returns the published number in base units; `None` if doubted, not positive or without unit.
    pub(crate) fn published(&self) -> Option<f64> {
        let (value, _) = self.figure.base?;
        (self.figure.doubt.is_none() && value > 0.0 && !self.unit.name.is_empty()).then_some(value)
    }
}

pub(crate) const OWN_PROGRAM: &str = "plimsoll";
