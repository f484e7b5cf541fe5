//! Published figures of five benchmark reports, as data of the program: every number that they print, as printed and in
//! base units, with the case that measures the same, or the reason why there is none.
//!
//! A figure that is impossible (past its limit, a page cache taken for a disk, a sent byte taken for a round trip), not
//! comparable, or in none of the report's tables is kept, marked with the reason (docs/experiments.md has the rules), and
//! never divided by. How the reports count is in the notes of the built-in plans.
#![forbid(unsafe_code)]

pub mod tables;

use std::fmt;

use plimsoll_model::case::{Case, Value};
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_model::plan::scale::scaled_order;
use plimsoll_model::sample::Conditions;
use plimsoll_result::document::Run;
use plimsoll_stats::{Samples, Seed};
use plimsoll_units::quantity::Unit;

/// A report.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// Its name, which is that of the built-in plan too.
    pub name: &'static str,
    /// The machine that it is about.
    pub machine: &'static str,
    /// When it was measured, as far as that is known.
    pub year: &'static str,
    /// Its figures, in the order of the report.
    pub figures: Vec<Figure>,
}

/// A number of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// cpu, memory, disk or network.
    pub subsystem: &'static str,
    /// The report's operation.
    pub operation: &'static str,
    /// Its pattern, or what qualifies a row of a reference program.
    pub pattern: &'static str,
    /// QP, HP, SP, DP, where given.
    pub precision: &'static str,
    /// Bytes of a block or packet, as printed.
    pub bytes: &'static str,
    /// Threads, where stated.
    pub threads: &'static str,
    /// Its metric.
    pub metric: &'static str,
    /// Its unit, as printed; empty where none is.
    pub unit: &'static str,
    /// sample1 … mean, stdev, single, peak.
    pub statistic: &'static str,
    /// The number, as printed.
    pub value: &'static str,
    /// own, theoretical, an efficiency, or a reference program.
    pub source: &'static str,
    /// The number in its base unit, as the report counts it; none for a percentage, or where its unit is not known.
    pub base: Option<(f64, Unit)>,
    /// The case that measures the same, if there is one.
    pub matched: Option<Matched>,
    /// Why nothing is compared with it; none if it may be right.
    pub doubt: Option<Doubt>,
    /// Why no case measures the same, or why the one that measures the same operation is not divided by it; empty where
    /// one does.
    pub unmatched: &'static str,
    /// The number of its table in the report.
    pub table: &'static str,
    /// What its row is called there.
    pub row: &'static str,
    /// What its column is called there.
    pub column: &'static str,
}

/// What is wrong with a published number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Its kind.
    pub verdict: Verdict,
    /// The reason, as a phrase.
    pub why: &'static str,
}

/// Why nothing is compared with a published number, the strongest reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The machine cannot have done it, or other numbers of the report contradict it.
    Impossible,
    /// It may be right, and is a number of something else: another unit, another test, computed and not measured.
    NotComparable,
    /// The text of the report states it, and none of its tables has it.
    InNoTable,
}

impl Verdict {
    const ALL: [Self; 3] = [Self::Impossible, Self::NotComparable, Self::InNoTable];

    /// As it is written beside a number and in exports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Impossible => "impossible",
            Self::NotComparable => "not comparable",
            Self::InNoTable => "in no table",
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict.word(), self.why)
    }
}

/// The reports' word for how much is done in a time, whatever it is counted in.
pub const THROUGHPUT: &str = "throughput";
/// Their word for how long one operation takes.
pub const LATENCY: &str = "latency";
/// Their word for how long all of it took.
pub const TIME: &str = "time";

/// What a figure says about a case of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Matched {
    /// Benchmark and parameters that the case must have; others it may have.
    pub case: Case,
    /// Our metric.
    pub metric: &'static str,
    /// The figure in its base unit, as the report counts it; none for a percentage, or where no unit is printed.
    pub value: Option<(f64, Unit)>,
    /// How the report's number follows from ours.
    pub counted: Counted,
}

/// How a number of a report follows from a figure of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Counted {
    /// It is ours ÷ this: a time for each operation of all threads is ours ÷ their number.
    Per(f64),
    /// It is this ÷ ours: the time that this amount takes at our rate.
    TimeOf(f64),
    /// It is ours × this, in another unit: what is moved in a time at our rate.
    Times(f64),
}

impl Matched {
    /// A figure of ours as the report counts it.
    pub fn as_published(&self, ours: f64) -> f64 {
        match self.counted {
            Counted::Per(per) => ours / per,
            Counted::TimeOf(amount) => amount / ours,
            Counted::Times(times) => ours * times,
        }
    }

    /// The report's figure as we count it.
    pub fn as_ours(&self) -> Option<f64> {
        let (value, _) = self.value?;
        Some(match self.counted {
            Counted::Per(per) => value * per,
            Counted::TimeOf(amount) => amount / value,
            Counted::Times(times) => value / times,
        })
    }

    /// Whether the report prints it in another unit than that of our metric.
    pub fn is_derived(&self) -> bool {
        !matches!(self.counted, Counted::Per(_))
    }

    /// The order of the system of equations that a run at that scale solves, and that of the report, where they differ.
    pub fn smaller_order(&self, scale: f64) -> Option<(u64, u64)> {
        let Some(Value::Count(n)) = self.case.get("n") else { return None };
        Some((scaled_order(*n, scale), *n)).filter(|(measured, published)| measured != published)
    }

    /// Whether this case measures the same, or what is left of it at that scale.
    pub fn is(&self, case: &Case, scale: f64) -> bool {
        let same = |name: &str, value: &Value| match (name, value) {
            ("n", Value::Count(n)) => case.get(name) == Some(&Value::Count(scaled_order(*n, scale))),
            _ => case.get(name) == Some(value),
        };
        self.case.benchmark() == case.benchmark()
            && self.case.params().iter().all(|(name, value)| same(name, value))
    }
}

impl Figure {
    /// Whether it is the point's own figure and not one of its samples or their spread.
    pub fn is_own_point(&self) -> bool {
        self.source == "own" && matches!(self.statistic, "mean" | "single") && self.matched.is_some()
    }

    /// Whether a reference program gave it.
    pub fn is_reference(&self) -> bool {
        !matches!(self.source, "own" | "theoretical" | "efficiency-own" | "efficiency-reference")
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

    /// Its value as we count it, if there is no doubt about it.
    pub fn believed(&self) -> Option<f64> {
        let value = self.matched.as_ref()?.as_ours()?;
        (self.doubt.is_none() && value > 0.0).then_some(value)
    }
}

struct Report {
    name: &'static str,
    machine: &'static str,
    year: &'static str,
    text: &'static str,
}

/// The reports; two of them print a year. Where the data come from: docs/plans.md.
const REPORTS: &[Report] = &[
    Report {
        name: "ec2-t2micro",
        machine: "EC2 t2.micro",
        year: "2016",
        text: include_str!("data/ec2-t2micro.tsv"),
    },
    Report {
        name: "chameleon-baremetal",
        machine: "Chameleon bare metal",
        year: "year not stated",
        text: include_str!("data/chameleon-baremetal.tsv"),
    },
    Report {
        name: "chameleon-kvm",
        machine: "Chameleon instance",
        year: "2017",
        text: include_str!("data/chameleon-kvm.tsv"),
    },
    Report {
        name: "hyperion-prometheus",
        machine: "Hyperion, disk: Prometheus",
        year: "year not stated",
        text: include_str!("data/hyperion-prometheus.tsv"),
    },
    Report {
        name: "ec2-t2micro-java",
        machine: "EC2 t2.micro, Java",
        year: "year not stated",
        text: include_str!("data/ec2-t2micro-java.tsv"),
    },
];

/// How the reports derive their limits.
const THEORIES: &str = include_str!("data/theories.tsv");

/// What the reports leave open; a report of `*` is all of them.
const OPEN: &str = include_str!("data/open.tsv");

/// Why numbers are doubted: name, verdict and reason.
const DOUBTS: &str = include_str!("data/doubts.tsv");

/// The rows of a table below its head, each of so many values between tabs.
fn rows<const N: usize>(table: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    table.lines().skip(1).filter_map(|line| line.split('\t').collect::<Vec<_>>().try_into().ok())
}

/// The doubt of that name.
fn doubt(name: &str) -> Option<Doubt> {
    let [_, verdict, why] = rows::<3>(DOUBTS).find(|[known, ..]| *known == name)?;
    let verdict = Verdict::ALL.into_iter().find(|one| one.word() == verdict)?;
    Some(Doubt { verdict, why })
}

/// Something that a report does not answer or leaves to later work, and the command that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPoint {
    /// What is open, as a phrase.
    pub open: &'static str,
    /// The arguments of plimsoll that answer it; empty if nothing does.
    pub command: &'static str,
    /// What the command gives, or why there is none.
    pub gives: &'static str,
    /// The file of docs/ that explains it.
    pub document: &'static str,
    /// The heading there.
    pub heading: &'static str,
}

impl fmt::Display for OpenPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { open, command, gives, document, heading } = self;
        write!(f, "{open}: {gives}")?;
        match *command {
            "" => Ok(()),
            _ => write!(f, " (plimsoll {command}; docs/{document}, {heading})"),
        }
    }
}

/// The names of the reports.
pub fn names() -> Vec<&'static str> {
    REPORTS.iter().map(|report| report.name).collect()
}

/// The report of that name.
pub fn find(name: &str) -> Option<Baseline> {
    let report = REPORTS.iter().find(|report| report.name == name)?;
    let figures = rows(report.text).map(figure).collect();
    Some(Baseline { name: report.name, machine: report.machine, year: report.year, figures })
}

/// A row of the data: the report's own twelve columns, then ours.
fn figure(columns: [&'static str; 21]) -> Figure {
    let [
        subsystem,
        operation,
        pattern,
        precision,
        block,
        packet,
        threads,
        metric,
        unit,
        statistic,
        value,
        rest @ ..,
    ] = columns;
    let [source, case, ours, si, si_unit, unmatched, table, row, column, doubted] = rest;
    let base = si.parse().ok().zip(Unit::ALL.iter().copied().find(|unit| unit.name() == si_unit));
    // Operations of all threads ÷ the time: falls with their number. So in both reports that print a unit.
    let counts_all = subsystem == "memory" && metric == LATENCY && source != "theoretical";
    let per = threads.parse().ok().filter(|_| counts_all).unwrap_or(1.0);
    let (ours, counted) = counted(ours, per);
    Figure {
        subsystem,
        operation,
        pattern,
        precision,
        bytes: if block.is_empty() { packet } else { block },
        threads,
        metric,
        unit,
        statistic,
        value,
        source,
        base,
        matched: case.parse().ok().map(|case| Matched { case, metric: ours, value: base, counted }),
        doubt: doubt(doubted),
        unmatched,
        table,
        row,
        column,
    }
}

/// Our metric, and how the report's number follows from it: `bandwidth for 160000000` is the time of so many bytes, and
/// `goodput × 1.25` a number that many times ours.
fn counted(ours: &'static str, per: f64) -> (&'static str, Counted) {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let parsed = |at: &str, counted: fn(f64) -> Counted| {
        let (metric, text) = ours.split_once(at)?;
        Some((metric, counted(number(text)?)))
    };
    parsed(" for ", Counted::TimeOf)
        .or_else(|| parsed(" × ", Counted::Times))
        .unwrap_or((ours, Counted::Per(per)))
}

impl Baseline {
    /// What its column is called.
    pub fn title(&self) -> String {
        format!("published ({}, {})", self.machine, self.year)
    }

    /// How the report derives the limit of a metric of a part of the machine: formula and inputs, or that it prints none.
    pub fn derivation(&self, subsystem: &str, metric: &str) -> Option<&'static str> {
        let mut all = rows::<4>(THEORIES);
        let [.., text] =
            all.find(|[report, part, of, _]| [*report, *part, *of] == [self.name, subsystem, metric])?;
        Some(text)
    }

    /// What the report leaves open.
    pub fn open_points(&self) -> Vec<OpenPoint> {
        let own = rows::<6>(OPEN).filter(|[report, ..]| [self.name, "*"].contains(report));
        let point = |[_, open, command, gives, document, heading]: [&'static str; 6]| OpenPoint {
            open,
            command,
            gives,
            document,
            heading,
        };
        own.map(point).collect()
    }

    /// The published figure of a case's metric.
    pub fn of(&self, case: &Case, metric: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| {
            figure.is_own_point()
                && figure.matched.as_ref().is_some_and(|m| m.metric == metric && m.is(case, 1.0))
        })
    }

    /// The published samples of a case's metric that are to be believed: as they are printed, or the one number.
    pub fn samples(&self, case: &Case, metric: &str) -> Vec<f64> {
        let of = |wanted: fn(&str) -> bool| -> Vec<f64> {
            let same = |f: &&Figure| {
                f.source == "own"
                    && wanted(f.statistic)
                    && f.matched.as_ref().is_some_and(|m| m.metric == metric && m.is(case, 1.0))
            };
            self.figures.iter().filter(same).filter_map(Figure::believed).collect()
        };
        let samples = of(|statistic| statistic.starts_with("sample"));
        if samples.is_empty() { of(|statistic| matches!(statistic, "mean" | "single")) } else { samples }
    }

    /// The report as a run of the cases of `like`, for a comparison with it: what has a doubt, and what the report
    /// does not print, is left out.
    pub fn as_run(&self, like: &Run) -> Run {
        let one = |measurement: &Measurement| {
            let metric = |metric: &MetricResult| {
                let proved = Samples::new(self.samples(&measurement.case, &metric.name)).ok()?;
                let seed = Seed::new(like.seed, self.name, &metric.name);
                Some(MetricResult::of(&metric.name, metric.unit, metric.better, &proved, seed))
            };
            let metrics: Vec<MetricResult> = measurement.metrics.iter().filter_map(metric).collect();
            (!metrics.is_empty()).then(|| Measurement {
                metrics,
                node: self.machine.to_owned(),
                status: Status::Ok,
                reason: None,
                achieved: Default::default(),
                conditions: Conditions::default(),
                warnings: Vec::new(),
                cause: None,
                wrong_answer: None,
                ..measurement.clone()
            })
        };
        let mut machine = like.machine.clone();
        (machine.id, machine.host) = (self.name.to_owned(), Some(self.machine.to_owned()));
        machine.cpu.model_name = Some(self.title());
        Run {
            id: format!("published:{}", self.name),
            measurements: like.measurements.iter().filter_map(one).collect(),
            findings: Vec::new(),
            machine,
            ..like.clone()
        }
    }
}

#[cfg(test)]
mod tests;
