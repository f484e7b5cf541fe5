//! Published results of five benchmark reports: each printed number, as printed and in base units,
//! with the case that measures the same quantity or the reason why none does. An impossible or
//! incomparable number has a reason and is never divided by (docs/src/experiments.md).
#![forbid(unsafe_code)]

pub mod tables;

use std::fmt;

use plimsoll_model::case::{Case, Value};
use plimsoll_model::job::cpu::DenseProblem;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_model::plan::scale::scaled_order;
use plimsoll_model::sample::Conditions;
use plimsoll_result::document::Run;
use plimsoll_stats::{Samples, Seed};
use plimsoll_units::quantity::Unit;

/// One published report.
#[derive(Clone, Debug)]
pub struct PublishedReport {
    /// Name of the report and of its built-in plan.
    pub name: &'static str,
    /// Machine that the report measured.
    pub machine: &'static str,
    /// Year of the measurement, if known.
    pub year: &'static str,
    /// Numbers of the report, in its order.
    pub figures: Vec<PublishedFigure>,
}

/// One number of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedFigure {
    /// cpu, memory, disk or network.
    pub subsystem: &'static str,
    /// Operation, as named in the report.
    pub operation: &'static str,
    /// Access pattern, or a qualifier of a reference tool's row.
    pub pattern: &'static str,
    /// QP, HP, SP or DP; empty if not given.
    pub precision: &'static str,
    /// Block or packet size in bytes, as printed.
    pub bytes: &'static str,
    /// Thread count; empty if not stated.
    pub threads: &'static str,
    /// Metric, as named in the report.
    pub metric: &'static str,
    /// Unit, as printed; empty if none is printed.
    pub unit: &'static str,
    /// sample1 …, mean, stdev, single or peak.
    pub statistic: &'static str,
    /// The number, as printed.
    pub value: &'static str,
    /// own, theoretical, an efficiency, or the name of a reference tool.
    pub source: &'static str,
    /// Number in its base unit, as the report counts it; `None` if it has no known unit.
    pub base: Option<(f64, Unit)>,
    /// Case that measures the same quantity.
    pub matched: Option<Matched>,
    /// Reason against a comparison; `None` if the number may be right.
    pub doubt: Option<PublishedDoubt>,
    /// Why no case measures the same quantity, or why there is no ratio; empty if neither.
    pub unmatched: &'static str,
    /// Number of its table in the report.
    pub table: &'static str,
    /// Row label in that table.
    pub row: &'static str,
    /// Column label in that table.
    pub column: &'static str,
}

/// Reason to exclude a published number from comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedDoubt {
    /// `impossible`: the machine cannot reach it, or other numbers of the report contradict it;
    /// `not comparable`: possibly right, but a different quantity; `in no table`: only in the text.
    pub verdict: &'static str,
    /// Reason, as a phrase.
    pub why: &'static str,
}

impl fmt::Display for PublishedDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict, self.why)
    }
}

/// Metric name in the reports: amount per time, in any unit.
pub const THROUGHPUT_METRIC: &str = "throughput";
/// Metric name in the reports: time of one operation.
pub const LATENCY_METRIC: &str = "latency";
/// Metric name in the reports: total elapsed time.
pub const TIME_METRIC: &str = "time";

/// Link from a published number to a case of plimsoll.
#[derive(Clone, Debug, PartialEq)]
pub struct Matched {
    /// Benchmark and parameters that the case must have; it may have more.
    pub case: Case,
    /// Metric of the case.
    pub metric: &'static str,
    /// Conversion from our result to the report's number.
    pub counted: CountedAs,
}

/// A report's own result for a case, with the case.
pub type OwnPoint<'a> = (&'a PublishedFigure, &'a Matched);

/// Conversion from our result to a report's number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CountedAs {
    /// Result ÷ this. The report's time per operation over all threads is our time ÷ threads.
    Per(f64),
    /// This ÷ result: the time that this amount takes at our rate.
    TimeOf(f64),
    /// Result × this, in another unit: the amount moved in a time at our rate.
    Times(f64),
}

impl Matched {
    /// Converts `ours`, plimsoll's result in base units, to the quantity that the report counts.
    pub fn as_published(&self, ours: f64) -> f64 {
        match self.counted {
            CountedAs::Per(per) => ours / per,
            CountedAs::TimeOf(amount) => amount / ours,
            CountedAs::Times(times) => ours * times,
        }
    }

    /// Returns whether the number is another quantity than plimsoll's metric: a time, not a rate.
    pub fn is_derived(&self) -> bool {
        !matches!(self.counted, CountedAs::Per(_))
    }

    /// Returns (order to measure, published order) of the case's matrix, scaled by `scale`; `None`
    /// if they are equal or the case has no matrix order.
    pub fn smaller_order(&self, scale: f64) -> Option<(u64, u64)> {
        let n = DenseProblem::of(&self.case).n?;
        Some((scaled_order(n, scale), n)).filter(|(measured, published)| measured != published)
    }

    /// Returns whether `case` measures the same quantity, with the matrix order scaled by `scale`.
    pub fn measures_same(&self, case: &Case, scale: f64) -> bool {
        let same = |(name, value): &(&str, Value)| match (*name, value) {
            ("n", Value::Count(n)) => case.get(name) == Some(&Value::Count(scaled_order(*n, scale))),
            _ => case.get(name) == Some(value),
        };
        self.case.benchmark() == case.benchmark() && self.case.params().iter().all(same)
    }
}

impl PublishedFigure {
    /// Returns whether this is the report's own result for a case (mean or single), not a sample.
    pub fn is_own_point(&self) -> bool {
        self.source == "own" && matches!(self.statistic, "mean" | "single") && self.matched.is_some()
    }

    /// Returns whether a reference tool measured the number, not the report's own program.
    pub fn is_reference(&self) -> bool {
        !matches!(self.source, "own" | "theoretical" | "efficiency-own" | "efficiency-reference")
    }

    /// Parses the number as printed, in the printed unit; `None` if it is no number.
    pub fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }

    /// Returns whether both describe one measured point: same operation, sizes, threads and metric.
    pub fn is_of_point(&self, other: &PublishedFigure) -> bool {
        let key = |f: &PublishedFigure| {
            (f.subsystem, f.operation, f.pattern, f.precision, f.bytes, f.threads, f.metric)
        };
        key(self) == key(other)
    }

    /// Returns whether `text`, a number of the report's prose, can refer to this one: same
    /// subsystem and metric, and the same operation and size if the prose states them.
    pub fn matches_text(&self, text: &PublishedFigure) -> bool {
        let fits = |own: &str, of: &str| of.is_empty() || own == of;
        self.subsystem == text.subsystem
            && self.metric == text.metric
            && fits(self.operation, text.operation)
            && fits(self.bytes, text.bytes)
    }

    /// Returns whether the number comes from the report's prose, not from a table.
    pub fn is_of_text(&self) -> bool {
        self.pattern.split(';').any(|part| part == "headline")
    }

    fn is_about(&self, case: &Case, metric: &str) -> bool {
        self.matched.as_ref().is_some_and(|m| m.metric == metric && m.measures_same(case, 1.0))
    }

    /// Converts the number to plimsoll's metric, in base units; `None` without a unit or a case.
    pub fn as_ours(&self) -> Option<f64> {
        let (value, _) = self.base?;
        Some(match self.matched.as_ref()?.counted {
            CountedAs::Per(per) => value * per,
            CountedAs::TimeOf(amount) => amount / value,
            CountedAs::Times(times) => value / times,
        })
    }

    /// Returns the value in plimsoll's metric and base units; `None` if doubted, unmatched, or ≤ 0.
    pub fn believed(&self) -> Option<f64> {
        self.as_ours().filter(|value| self.doubt.is_none() && *value > 0.0)
    }
}

/// Name, machine, year, numbers of all reports (docs/src/published.md); two print a year.
const REPORTS: [[&str; 4]; 5] = [
    ["ec2-t2micro", "EC2 t2.micro", "2016", include_str!("data/ec2-t2micro.tsv")],
    [
        "chameleon-baremetal",
        "Chameleon bare metal",
        "year not stated",
        include_str!("data/chameleon-baremetal.tsv"),
    ],
    ["chameleon-kvm", "Chameleon instance", "2017", include_str!("data/chameleon-kvm.tsv")],
    [
        "hyperion-prometheus",
        "Hyperion, disk: Prometheus",
        "year not stated",
        include_str!("data/hyperion-prometheus.tsv"),
    ],
    ["ec2-t2micro-java", "EC2 t2.micro, Java", "year not stated", include_str!("data/ec2-t2micro-java.tsv")],
];

const THEORIES: &str = include_str!("data/theories.tsv");

/// Open points of the reports; report `*` stands for all of them.
const OPEN: &str = include_str!("data/open.tsv");

const DOUBTS: &str = include_str!("data/doubts.tsv");

/// Yields the rows of a tab-separated table that have `N` columns, without its first line.
fn rows<const N: usize>(table: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    table.lines().skip(1).filter_map(|line| line.split('\t').collect::<Vec<_>>().try_into().ok())
}

fn doubt(name: &str) -> Option<PublishedDoubt> {
    let [_, verdict, why] = rows::<3>(DOUBTS).find(|[known, ..]| *known == name)?;
    Some(PublishedDoubt { verdict, why })
}

/// A question that a report leaves open, and the command that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPoint {
    /// Open question, as a phrase.
    pub open: &'static str,
    /// Arguments of `plimsoll` that answer it; empty if no command does.
    pub command: &'static str,
    /// Output of the command, or the reason why there is none.
    pub gives: &'static str,
    /// File in docs/src/ that explains it.
    pub document: &'static str,
    /// Heading in that file.
    pub heading: &'static str,
}

impl fmt::Display for OpenPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { open, command, gives, document, heading } = self;
        write!(f, "{open}: {gives}")?;
        match *command {
            "" => Ok(()),
            _ => write!(f, " (plimsoll {command}; docs/src/{document}, {heading})"),
        }
    }
}

/// Returns the names of all reports, which are also the names of plans that replay them.
pub fn names() -> Vec<&'static str> {
    REPORTS.iter().map(|[name, ..]| *name).collect()
}

/// Returns the published report with this name; `None` if there is none.
pub fn find(name: &str) -> Option<PublishedReport> {
    let [name, machine, year, numbers] = REPORTS.into_iter().find(|[known, ..]| *known == name)?;
    Some(PublishedReport { name, machine, year, figures: rows(numbers).map(figure).collect() })
}

/// Converts a row of data to a number: first the report's twelve columns, then the added ones.
fn figure(columns: [&'static str; 21]) -> PublishedFigure {
    let [subsystem, operation, pattern, precision, block, packet, threads, rest @ ..] = columns;
    let [metric, unit, statistic, value, source, case, ours, rest @ ..] = rest;
    let [si, si_unit, unmatched, table, row, column, doubted] = rest;
    // Memory latency in reports is elapsed time ÷ operations of all threads, so it falls with the
    // thread count. Both reports that print a unit count this way.
    let counts_all = subsystem == "memory" && metric == LATENCY_METRIC && source != "theoretical";
    let per = threads.parse().ok().filter(|_| counts_all).unwrap_or(1.0);
    let (ours, counted) = counted(ours, per);
    PublishedFigure {
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
        base: si.parse().ok().zip(Unit::from_name(si_unit)),
        matched: case.parse().ok().map(|case| Matched { case, metric: ours, counted }),
        doubt: doubt(doubted),
        unmatched,
        table,
        row,
        column,
    }
}

/// Splits `ours` into metric and conversion: `bandwidth for 160000000` is the time of 160000000
/// bytes, `goodput × 1.25` is 1.25 × our result; otherwise it is our result ÷ `per`.
fn counted(ours: &'static str, per: f64) -> (&'static str, CountedAs) {
    let parsed = |at: &str, counted: fn(f64) -> CountedAs| {
        let (metric, text) = ours.split_once(at)?;
        Some((metric, counted(text.trim().parse().ok()?)))
    };
    parsed(" for ", CountedAs::TimeOf)
        .or_else(|| parsed(" × ", CountedAs::Times))
        .unwrap_or((ours, CountedAs::Per(per)))
}

impl PublishedReport {
    /// Returns the heading of the report's column: `published (MACHINE, YEAR)`.
    pub fn title(&self) -> String {
        format!("published ({}, {})", self.machine, self.year)
    }

    /// Returns how the report derives its limit of a metric (formula and inputs), or that it prints
    /// none; `None` if it has no such metric.
    pub fn derivation(&self, subsystem: &str, metric: &str) -> Option<&'static str> {
        rows(THEORIES).find(|row: &[_; 4]| row[..3] == [self.name, subsystem, metric]).map(|[.., text]| text)
    }

    /// Returns the limit of point `figure` that `is_wanted` selects, else one in the prose, if any.
    pub fn theory(
        &self,
        figure: &PublishedFigure,
        is_wanted: fn(&PublishedFigure) -> bool,
    ) -> Option<&PublishedFigure> {
        let all = || self.figures.iter().filter(|f| f.source == "theoretical" && is_wanted(f));
        let of_text = || all().find(|f| f.is_of_text() && figure.matches_text(f));
        all().find(|f| f.is_of_point(figure)).or_else(of_text)
    }

    /// Returns the questions that this report, or every report, leaves open.
    pub fn open_points(&self) -> Vec<OpenPoint> {
        let own = rows::<6>(OPEN).filter(|[report, ..]| [self.name, "*"].contains(report));
        own.map(|row| {
            let [_, open, command, gives, document, heading] = row;
            OpenPoint { open, command, gives, document, heading }
        })
        .collect()
    }

    /// Yields the report's own result for each case, with the case.
    pub fn own_points(&self) -> impl Iterator<Item = OwnPoint<'_>> {
        let own = self.figures.iter().filter(|figure| figure.is_own_point());
        own.filter_map(|figure| Some((figure, figure.matched.as_ref()?)))
    }

    /// Returns the report's own number for this case and metric; `None` if there is none.
    pub fn own_figure(&self, case: &Case, metric: &str) -> Option<&PublishedFigure> {
        self.figures.iter().find(|figure| figure.is_own_point() && figure.is_about(case, metric))
    }

    /// Returns the report's undoubted samples of a metric in base units; without any, the mean.
    pub fn samples(&self, case: &Case, metric: &str) -> Vec<f64> {
        let of = |wanted: fn(&str) -> bool| -> Vec<f64> {
            let own = self.figures.iter().filter(|f| f.source == "own" && wanted(f.statistic));
            own.filter(|f| f.is_about(case, metric)).filter_map(PublishedFigure::believed).collect()
        };
        let samples = of(|statistic| statistic.starts_with("sample"));
        if samples.is_empty() { of(|statistic| matches!(statistic, "mean" | "single")) } else { samples }
    }

    /// Returns the report's numbers, without doubted ones, as a run with the cases and metrics of
    /// `like`; cases without such a number are missing.
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
