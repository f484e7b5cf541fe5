//! The figures of a published table, each with what was measured of it today.

use plimsoll_published::tables::{Kind, Table};
use plimsoll_published::{Baseline, Figure, LATENCY, Matched, THROUGHPUT};
use plimsoll_units::quantity::Unit;

use super::today::{Runs, Today};

/// A table with the figures of today.
pub(in crate::report) struct Filled<'a> {
    pub(in crate::report) table: &'a Table<'a>,
    /// For each row a cell for each column.
    pub(in crate::report) rows: Vec<Vec<Option<Cell<'a>>>>,
}

/// A published figure with what is known of it today.
#[derive(Clone)]
pub(in crate::report) struct Cell<'a> {
    pub(in crate::report) figure: &'a Figure,
    pub(in crate::report) part: Part,
    pub(in crate::report) today: Today<'a>,
    /// The report's unit of it.
    pub(in crate::report) unit: Shown,
    /// Whether only a reference program has its case in the report, as LINPACK.
    is_alone: bool,
}

/// What of today is comparable with a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Part {
    /// Our own mean.
    Own,
    /// Our own best sample.
    Peak,
    /// One of our own samples, from 0.
    Sample(usize),
    /// The least of our own samples.
    Least,
    /// The greatest of our own samples.
    Most,
    /// Their standard deviation.
    Deviation,
    /// The figure of a reference tool.
    Program,
    /// The limit.
    Limit,
    /// Our own share of the limit.
    OwnShare,
    /// The share that the reference tool reaches.
    ProgramShare,
    /// Our own figure as a share of the reference tool's: the report has no limit for it.
    OwnToProgram,
}

impl Part {
    fn of(figure: &Figure, kind: Kind) -> Self {
        let trial = figure.pattern.split(';').find_map(|part| part.strip_prefix("trial="));
        match (figure.source, figure.statistic) {
            ("theoretical", _) => Self::Limit,
            ("efficiency-own", _) => Self::OwnShare,
            ("efficiency-reference", _) => Self::ProgramShare,
            ("own", "stdev") => Self::Deviation,
            ("own", statistic) => {
                match statistic.strip_prefix("sample").and_then(|n| n.parse::<usize>().ok()) {
                    Some(number) => Self::Sample(number.saturating_sub(1)),
                    None => Self::Own,
                }
            }
            (_, "peak") if kind == Kind::Program => Self::Peak,
            _ if kind == Kind::Program => {
                match (figure.metric, trial.and_then(|n| n.parse::<usize>().ok())) {
                    ("time-min", _) => Self::Least,
                    ("time-max", _) => Self::Most,
                    (_, Some(number)) => Self::Sample(number.saturating_sub(1)),
                    (_, None) => interval(figure).map_or(Self::Own, Self::Sample),
                }
            }
            _ => Self::Program,
        }
    }

    /// Whether it is the figure of a point and not one of its samples.
    pub(in crate::report) fn is_of_all_samples(self) -> bool {
        matches!(self, Self::Own | Self::Peak | Self::Least | Self::Most)
    }

    /// Whether it is a share and no figure in a unit.
    pub(in crate::report) fn is_share(self) -> bool {
        matches!(self, Self::OwnShare | Self::ProgramShare | Self::OwnToProgram)
    }

    /// Whether today's figure is divided by the published one.
    pub(in crate::report) fn is_compared(self) -> bool {
        self.is_of_all_samples() || self == Self::Program
    }
}

/// A unit as a report counts in it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Shown {
    /// What one of it is in base units.
    pub(in crate::report) scale: f64,
    /// Its name in plain words; empty for a plain number.
    pub(in crate::report) name: String,
}

impl<'a> Filled<'a> {
    pub(in crate::report) fn new(baseline: &'a Baseline, table: &'a Table<'a>, runs: &Runs<'a>) -> Self {
        let cell = |figure: &'a Figure, row: &[Option<&'a Figure>]| {
            let part = Part::of(figure, table.kind);
            let (part, today) = match (&figure.matched, table.kind) {
                (_, Kind::Text) => of_text(baseline, figure, row, part, runs),
                (Some(matched), _) => {
                    (part, runs.of(matched, &format!("{} {}", figure.source, figure.operation)))
                }
                (None, _) => {
                    let mean = mean_over_threads(baseline, figure, runs);
                    (part, mean.unwrap_or_else(|| Today::absent(figure.unmatched)))
                }
            };
            let today = with_report_tool(baseline, figure, today, runs);
            Cell { figure, part, unit: shown(baseline, figure), is_alone: is_alone(baseline, &today), today }
        };
        let row = |figures: &[Option<&'a Figure>]| -> Vec<Option<Cell<'a>>> {
            figures.iter().map(|figure| Some(cell((*figure)?, figures))).collect()
        };
        let rows = table.rows.iter().map(|found| row(&found.cells)).collect();
        Self { table, rows }
    }

    /// All its cells, row by row.
    pub(in crate::report) fn cells(&self) -> impl Iterator<Item = &Cell<'a>> {
        self.rows.iter().flatten().flatten()
    }

    /// Whether it is the figure of a case, and not one of its samples, their spread, or its best beside their mean.
    pub(in crate::report) fn is_figure(&self, cell: &Cell<'_>) -> bool {
        let is_mean = |cell: &Cell<'_>| cell.part == Part::Own && cell.figure.matched.is_some();
        match cell.part {
            Part::Own => true,
            Part::Peak => self.table.kind != Kind::Program || !self.cells().any(is_mean),
            _ => false,
        }
    }

    /// Whether a column has what is of this source.
    pub(in crate::report) fn has(&self, part: Part) -> bool {
        self.cells().any(|cell| cell.part == part)
    }
}

/// Which second of a transfer a line of iperf is about, from 0: `3-4s`. What is no rate or amount is the mean of all.
fn interval(figure: &Figure) -> Option<usize> {
    let is_of_seconds = matches!(figure.metric, THROUGHPUT | "transfer");
    let part = figure.pattern.split(';').find_map(|part| part.strip_suffix('s')?.split_once('-'));
    let (from, to) = part.filter(|_| is_of_seconds)?;
    let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
    (to == from + 1).then_some(from)
}

/// The mean of today over the numbers of threads, if that is what the report prints.
fn mean_over_threads<'a>(baseline: &Baseline, figure: &Figure, runs: &Runs<'a>) -> Option<Today<'a>> {
    let is_mean = figure.source == "own" && figure.statistic == "mean" && figure.threads.is_empty();
    let row = |f: &&Figure| {
        f.is_own_point() && Figure { threads: figure.threads, ..(*f).clone() }.is_of_point(figure)
    };
    let points = baseline.figures.iter().filter(row).filter_map(|f| f.matched.as_ref());
    Today::mean_of(points.filter(|_| is_mean).map(|matched| runs.of(matched, "")).collect())
}

/// Whether the report's own program measured nothing of the kind.
fn is_alone(baseline: &Baseline, today: &Today<'_>) -> bool {
    let Some(case) = today.case else { return false };
    let same = |f: &Figure| f.matched.as_ref().is_some_and(|m| m.case.benchmark() == case.benchmark());
    !baseline.figures.iter().any(|f| f.is_own_point() && same(f))
}

/// With the reference tool of the report, where it was compared with another case: HPL with a system of equations.
fn with_report_tool<'a>(
    baseline: &Baseline,
    figure: &Figure,
    today: Today<'a>,
    runs: &Runs<'a>,
) -> Today<'a> {
    if today.tool.is_some() || figure.source != "own" || figure.is_of_text() {
        return today;
    }
    let program = baseline.figures.iter().find(|f| f.is_reference() && f.is_of_point(figure));
    let other = program.and_then(|f| Some((f.matched.as_ref()?, f.source)));
    let Some((matched, source)) =
        other.filter(|(m, _)| Some(&m.case) != figure.matched.as_ref().map(|m| &m.case))
    else {
        return today;
    };
    Today { tool: runs.of(matched, source).tool, ..today }
}

/// What of today is comparable with a number of the text: the point with that number in a table, else the best of all
/// points that it can be about.
fn of_text<'a>(
    baseline: &'a Baseline,
    figure: &Figure,
    row: &[Option<&Figure>],
    part: Part,
    runs: &Runs<'a>,
) -> (Part, Today<'a>) {
    let absent = || Today::absent(figure.unmatched);
    let beside = |wanted: fn(&Figure) -> bool| row.iter().copied().flatten().find(|f| wanted(f));
    let own = beside(|f| f.source == "own");
    let points: Vec<(&Figure, &Matched)> = baseline
        .figures
        .iter()
        .filter(|f| f.is_own_point() && !f.is_of_text() && f.is_what(figure))
        .filter_map(|f| Some((f, f.matched.as_ref()?)))
        .collect();
    match part {
        Part::Program | Part::ProgramShare => {
            let program = beside(Figure::is_reference);
            let matched = figure.matched.as_ref().or_else(|| program?.matched.as_ref());
            let source = program.map_or("", |f| f.source);
            let today = match matched {
                Some(matched) => runs.best(&[matched], source),
                None => of_program(baseline, figure, source, runs),
            };
            (part, today)
        }
        _ if points.is_empty() => (part, absent()),
        _ => {
            let same = |f: &Figure| own.is_some_and(|own| f.number() == own.number());
            let exact: Vec<&Matched> = points.iter().filter(|(f, _)| same(f)).map(|(_, m)| *m).collect();
            let all: Vec<&Matched> = points.iter().map(|(_, m)| *m).collect();
            let tool = baseline.figures.iter().find(|f| f.is_reference() && f.subsystem == figure.subsystem);
            let today =
                runs.best(if exact.is_empty() { &all } else { &exact }, tool.map_or("", |f| f.source));
            let has_theory =
                baseline.figures.iter().any(|f| f.source == "theoretical" && f.subsystem == figure.subsystem);
            let part = if part == Part::OwnShare && !has_theory { Part::OwnToProgram } else { part };
            (part, today)
        }
    }
}

/// What a reference program of the text has today: by its cases, else wherever a tool of its name gave a figure.
fn of_program<'a>(baseline: &'a Baseline, figure: &Figure, program: &str, runs: &Runs<'a>) -> Today<'a> {
    let known = |f: &&Figure| {
        f.is_reference() && !f.is_of_text() && f.subsystem == figure.subsystem && f.metric == figure.metric
    };
    let by_name =
        |f: &&Figure| if program.is_empty() { f.operation == figure.operation } else { f.source == program };
    let cases: Vec<&Matched> =
        baseline.figures.iter().filter(known).filter(by_name).filter_map(|f| f.matched.as_ref()).collect();
    if !cases.is_empty() {
        return runs.best(&cases, program);
    }
    let points = baseline.figures.iter().filter(|f| f.is_own_point() && f.is_what(figure));
    let points: Vec<&Matched> = points.filter_map(|f| f.matched.as_ref()).collect();
    let Some(metric) = points.first().map(|m| m.metric) else {
        return Today::absent(figure.unmatched);
    };
    let program = if program.is_empty() { figure.source } else { program };
    // A tool may be compared with another benchmark of the same part, as STREAM is with `memory.bandwidth`; one of an
    // operation with the points of the operation, or the benchmark of its name.
    let of: Vec<String> = match figure.operation {
        "" => Vec::new(),
        operation => {
            let named = format!("{}.{operation}", figure.subsystem);
            points.iter().map(|m| m.case.benchmark().to_owned()).chain([named]).collect()
        }
    };
    runs.with_tool(figure.subsystem, program, metric, &of)
}

/// The unit that a report counts this figure in: as it follows from its value in base units, or from that of another figure
/// with the same printed unit.
fn shown(baseline: &Baseline, figure: &Figure) -> Shown {
    if figure.unit == "%" {
        return Shown { scale: 0.01, name: "%".to_owned() };
    }
    let same =
        |f: &&Figure| f.unit == figure.unit && f.metric == figure.metric && f.subsystem == figure.subsystem;
    let found = scale(figure).or_else(|| baseline.figures.iter().filter(same).find_map(scale));
    match (found, figure.subsystem, figure.metric) {
        (Some((scale, unit)), ..) => Shown { scale, name: name(scale, unit, figure.unit) },
        // No unit is printed, and none fits: what is usual for it.
        (None, "memory", LATENCY) => Shown { scale: 1e-9, name: "ns".to_owned() },
        (None, _, LATENCY) => Shown { scale: 1e-3, name: "ms".to_owned() },
        // As IOzone counts, which is the only one of a disk.
        (None, part @ ("memory" | "disk"), THROUGHPUT) => match part {
            "disk" => Shown { scale: 1024.0, name: "KiB/s".to_owned() },
            _ => Shown { scale: 1e9, name: "GB/s".to_owned() },
        },
        _ => Shown { scale: 1.0, name: figure.unit.to_owned() },
    }
}

/// What one printed unit is in base units.
fn scale(figure: &Figure) -> Option<(f64, Unit)> {
    let (value, unit) = figure.base?;
    let printed = figure.number().filter(|printed| *printed != 0.0)?;
    Some((value / printed, unit))
}

/// Prefixes of units with their factors.
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

impl Cell<'_> {
    /// What of today is comparable with it: in base units, or a share.
    pub(in crate::report) fn value(&self) -> Option<f64> {
        let today = &self.today;
        match self.part {
            Part::Own => today.mean(),
            Part::Peak => today.peak(),
            Part::Sample(at) => today.samples.get(at).copied(),
            Part::Least => today.samples.iter().copied().reduce(f64::min),
            Part::Most => today.samples.iter().copied().reduce(f64::max),
            Part::Deviation => today.stdev(),
            Part::Program => self.program().map(|(figure, _)| figure),
            Part::Limit => today.limit(),
            Part::OwnShare => today.share(today.mean()),
            Part::ProgramShare => match &today.tool {
                Some(tool) => tool.of_limit,
                None => today.share(self.program().map(|(figure, _)| figure)),
            },
            Part::OwnToProgram => Some(today.mean()? / today.tool.as_ref()?.figure),
        }
    }

    /// The figure of the reference program of today with its name; where none ran, our own of a case that only a reference
    /// program has in the report, such as LINPACK.
    pub(in crate::report) fn program(&self) -> Option<(f64, &str)> {
        match &self.today.tool {
            Some(tool) => Some((tool.figure, tool.name)),
            None if self.is_alone || self.figure.is_of_text() && self.figure.matched.is_some() => {
                Some((self.today.mean()?, OWN_PROGRAM))
            }
            None => None,
        }
    }

    /// Why the report's reference program has no figure of today.
    pub(in crate::report) fn no_program(&self) -> String {
        let source = self.figure.source;
        let why = self.today.declined.iter().find(|why| why.starts_with(source));
        match (why, self.today.case) {
            (Some(why), _) => why.clone(),
            (None, Some(_)) => format!("{source} is not run with this case"),
            (None, None) => format!("no {source} in this run"),
        }
    }

    /// Today's figure divided by the published one; nothing if today's is invalid or there is a doubt about the published one.
    pub(in crate::report) fn ratio(&self) -> Option<f64> {
        let published = self.published()?;
        let is_sound =
            self.today.invalid.is_none() || self.today.tool.is_some() && self.part == Part::Program;
        (self.part.is_compared() && is_sound).then_some(self.value()? / published)
    }

    /// The published figure in base units, if there is no doubt about it.
    pub(in crate::report) fn published(&self) -> Option<f64> {
        let (value, _) = self.figure.base?;
        (self.figure.doubt.is_none() && value > 0.0 && !self.unit.name.is_empty()).then_some(value)
    }
}

/// The name of this program where a reference program is expected.
pub(in crate::report) const OWN_PROGRAM: &str = "plimsoll";
