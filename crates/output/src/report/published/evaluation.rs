//! Conclusions from the tables of a published report, as sentences with table numbers.

use std::fmt;

use plimsoll_published::tables::TableKind;
use plimsoll_published::{LATENCY_METRIC, PublishedFigure, TIME_METRIC};
use plimsoll_units::quantity::{Quantity, Unit, format_size, percent, significant};
use plimsoll_units::text::format_count;

use super::cells::{ComparablePart, FilledTable};
use super::today::MeasuredPoint;
use crate::report::{context, distinct, grouped, joined, listed};

pub(crate) const TITLE: &str = "Evaluation";

pub(crate) const OPEN_TITLE: &str = "What the report leaves open";

const RATIO_DIGITS: usize = 3;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) tables: Vec<usize>,
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.tables.iter().map(usize::to_string).collect();
        let word = if numbers.len() == 1 { "table" } else { "tables" };
        write!(f, "{} ({word} {})", self.text, numbers.join(", "))
    }
}

/// Names of the two sides: our figure, and the report's.
const SIDES: [&str; 2] = ["today", "published"];

struct MatrixPoint<'a> {
    figure: &'a PublishedFigure,
    today: &'a MeasuredPoint<'a>,
    table: usize,
    /// Value on each of the [`SIDES`].
    values: [Option<f64>; 2],
    /// Share of the limit on each of the [`SIDES`].
    shares: [Option<f64>; 2],
}

impl MatrixPoint<'_> {
    fn threads(&self) -> Option<u64> {
        self.figure.threads.parse().ok()
    }

    fn tool(&self) -> Option<f64> {
        self.today.tool.as_ref().map(|tool| tool.figure).filter(|figure| *figure > 0.0)
    }

    fn operation(&self) -> String {
        let PublishedFigure { pattern, operation, precision, .. } = self.figure;
        joined(&[pattern, operation, precision], " ")
    }

    fn in_words(&self) -> String {
        let block = self.figure.bytes.parse().map(|bytes| format!("blocks of {}", format_size(bytes)));
        joined(&[&self.operation(), &block.unwrap_or_default(), &threads(self.figure)], ", ")
    }
}

/// Formats the thread count of a number, `2 threads`; empty if it has none.
pub(crate) fn threads(figure: &PublishedFigure) -> String {
    figure.threads.parse().map_or(String::new(), |count: u64| format_count(count, "thread"))
}

struct PointGroup<'a> {
    subsystem: &'a str,
    metric: &'a str,
    points: Vec<MatrixPoint<'a>>,
}

/// Returns sentences that compare the run's and published results, in the order of the report.
pub(crate) fn statements(filled: &[FilledTable<'_>]) -> Vec<Statement> {
    let points = filled.iter().flat_map(points);
    let groups = grouped(points.map(|point| ((point.figure.subsystem, point.figure.metric), point)));
    let statements = |((subsystem, metric), points)| PointGroup { subsystem, metric, points }.statements();
    groups.into_iter().flat_map(statements).collect()
}

fn points<'a>(filled: &'a FilledTable<'_>) -> Vec<MatrixPoint<'a>> {
    let own = filled.cells().filter(|cell| {
        filled.table.kind == TableKind::Own && cell.part == ComparablePart::Own && cell.figure.is_own_point()
    });
    let point = |cell: &'a super::cells::FilledCell<'_>| {
        let (figure, today, published) = (cell.figure, &cell.today, cell.published());
        let limit =
            filled.baseline.theory(figure, |limit| limit.doubt.is_none()).and_then(|limit| limit.base);
        let share = |(value, (limit, _)): (f64, (f64, Unit))| {
            if is_time(figure.metric) { limit / value } else { value / limit }
        };
        let shares = [today.share(today.believed()), published.zip(limit).map(share)];
        let (table, values) = (filled.table.number, [today.believed(), published]);
        MatrixPoint { figure, today, table, values, shares }
    };
    own.map(point).collect()
}

fn is_time(metric: &str) -> bool {
    matches!(metric, LATENCY_METRIC | TIME_METRIC)
}

/// Returns the geometric mean; `None` for no ratios.
fn mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

fn times(ratio: f64) -> String {
    format!("{} ×", significant(ratio, RATIO_DIGITS))
}

impl PointGroup<'_> {
    /// Formats subsystem and metric at the start of a sentence: `Memory throughput`.
    fn name(&self) -> String {
        format!("{} {}", context::title(self.subsystem), self.metric())
    }

    /// Formats subsystem and metric within a sentence: `memory throughput`, `CPU throughput`.
    fn inner_name(&self) -> String {
        let title = context::title(self.subsystem);
        let is_short = title.chars().all(char::is_uppercase);
        let title = if is_short { title.to_owned() } else { title.to_lowercase() };
        format!("{title} {}", self.metric())
    }

    fn metric(&self) -> String {
        if self.metric == "iops" { self.metric.to_uppercase() } else { self.metric.replace('-', " ") }
    }

    fn statements(&self) -> Vec<Statement> {
        let both = [self.scaling(), self.best()].into_iter().flatten();
        if self.points.iter().all(|point| point.values[0].is_none()) {
            let reason = |p: &MatrixPoint<'_>| p.today.invalid.clone().or(p.today.instead.clone());
            let why = self.points.iter().find_map(reason).unwrap_or("no reason is recorded".to_owned());
            let text = format!("{}: no figure of today that is to be believed: {why}", self.name());
            return std::iter::once(self.state(text, &|_| true)).chain(both).collect();
        }
        let doubted = match self.points.iter().filter(|p| p.values[1].is_none()).count() {
            0 => String::new(),
            n => format!("; {} with no published figure to divide by", format_count(n, "point")),
        };
        let all = [
            self.blocks(),
            self.pairs("sequential", "random", |f| f.pattern),
            self.pairs("tcp", "udp", |f| f.operation),
            self.against("today ÷ published", |p| Some(p.values[0]? / p.values[1]?), &doubted),
            self.against("÷ the reference tool's, today,", |p| Some(p.values[0]? / p.tool()?), ""),
            self.against_limits(),
        ];
        both.chain(all.into_iter().flatten()).collect()
    }

    /// Builds a statement that cites the numbers of the tables with the results that `on` selects.
    fn state(&self, text: String, on: &dyn Fn(&MatrixPoint<'_>) -> bool) -> Statement {
        let mut tables: Vec<usize> = self.points.iter().filter(|p| on(p)).map(|p| p.table).collect();
        tables.sort_unstable();
        tables.dedup();
        Statement { text, tables }
    }

    /// Formats `today X, published Y`; `of` formats the value of side 0 (the run) or 1 (the
    /// report), or returns `None`. Returns `None` if neither side has a value.
    fn sides(&self, of: impl Fn(usize) -> Option<String>) -> Option<String> {
        let sides = SIDES.iter().enumerate();
        listed(sides.filter_map(|(side, name)| Some(format!("{name} {}", of(side)?))), ", ")
    }

    /// Returns ratios of results of `side` (0: the run, 1: the report): each with the first `key` ÷
    /// one with the second and for which `same` is true.
    fn ratios<K: PartialEq>(
        &self,
        side: usize,
        key: impl Fn(&MatrixPoint<'_>) -> K,
        [first, second]: [K; 2],
        same: impl Fn(&MatrixPoint<'_>, &MatrixPoint<'_>) -> bool,
    ) -> Vec<f64> {
        let all = self.points.iter().filter(|p| key(p) == first).filter_map(|a| {
            let b = self.points.iter().find(|b| key(b) == second && same(a, b))?;
            Some(a.values[side]? / b.values[side]?)
        });
        all.filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect()
    }

    /// States the factor from fewest to most threads, per operation; `None` for one thread count.
    fn scaling(&self) -> Option<Statement> {
        let known = |p: &&MatrixPoint<'_>| p.values.iter().any(Option::is_some);
        let threads = || self.points.iter().filter(known).filter_map(MatrixPoint::threads);
        let (least, most) = (threads().min()?, threads().max()?);
        let of = |operation: &str, side: usize| {
            let key = |p: &MatrixPoint<'_>| (p.threads(), p.operation());
            let ends = [most, least].map(|threads| (Some(threads), operation.to_owned()));
            mean(&self.ratios(side, key, ends, |a, b| a.figure.bytes == b.figure.bytes)).map(times)
        };
        let operation = |name: &String| Some(format!("{name} {}", self.sides(|side| of(name, side))?));
        let operations = distinct(self.points.iter().map(MatrixPoint::operation));
        let found = listed(operations.iter().filter_map(operation), "; ").filter(|_| least < most)?;
        let what = if is_time(self.metric) { "grows to" } else { "becomes" };
        let name = self.inner_name();
        let text = format!("Scaling: from {least} to {most} threads, {name} {what}: {found}");
        Some(self.state(text, &|p| matches!(p.threads(), Some(n) if n == least || n == most)))
    }

    /// States the best result of each side (the run and the report), and its lead over the best of
    /// another operation; `None` without results.
    fn best(&self) -> Option<Statement> {
        let lower = is_time(self.metric);
        let is_better = |a: f64, b: f64| if lower { a < b } else { a > b };
        let best = |side: usize, without: &str| -> Option<(&MatrixPoint<'_>, f64)> {
            let others = self.points.iter().filter(|p| without.is_empty() || p.operation() != without);
            let all = others.filter_map(|p| Some((p, p.values[side]?)));
            all.reduce(|a, b| if is_better(b.1, a.1) { b } else { a })
        };
        let of = |side: usize| {
            let (point, value) = best(side, "")?;
            let unit = point.figure.base.map(|(_, unit)| unit).or(point.today.metric.map(|of| of.unit))?;
            let shown = Quantity::new(value, unit).to_string();
            let next = best(side, &point.operation());
            let lead = next.map(|(of, other)| {
                let lead = if lower { other / value } else { value / other };
                format!(", {} the best of {}", times(lead), of.operation())
            });
            Some(format!("{shown} ({}){}", point.in_words(), lead.unwrap_or_default()))
        };
        let word = if lower { "Shortest" } else { "Highest" };
        let stated = self.sides(of)?;
        let on = |p: &MatrixPoint<'_>| {
            [0, 1].iter().any(|side| best(*side, "").is_some_and(|(b, _)| std::ptr::eq(b, p)))
        };
        Some(self.state(format!("{word} {}: {stated}", self.inner_name()), &on))
    }

    /// States by what factor the best block size beats the worst; `None` for a single size.
    fn blocks(&self) -> Option<Statement> {
        let mut sizes: Vec<&str> = self.points.iter().map(|p| p.figure.bytes).collect();
        sizes.sort_by_key(|size| size.parse::<u64>().unwrap_or(0));
        sizes.dedup();
        let same = |a: &MatrixPoint<'_>, b: &MatrixPoint<'_>| {
            a.operation() == b.operation() && a.figure.threads == b.figure.threads
        };
        let of = |side: usize| {
            let rated = |base: &str| -> Vec<(&str, f64)> {
                let rate = |size: &str| mean(&self.ratios(side, |p| p.figure.bytes, [size, base], same));
                sizes.iter().filter_map(|size| Some((*size, rate(size)?))).collect()
            };
            let mut rated = sizes.iter().map(|base| rated(base)).max_by_key(Vec::len)?;
            rated.sort_by(|a, b| b.1.total_cmp(&a.1));
            if is_time(self.metric) {
                rated.reverse();
            }
            let ((best, one), (worst, other)) = (*rated.first()?, *rated.last()?);
            let name = |size: &str| size.parse().map_or_else(|_| size.to_owned(), format_size);
            let ahead = if is_time(self.metric) { other / one } else { one / other };
            (best != worst).then(|| format!("{}, {} {}", name(best), times(ahead), name(worst)))
        };
        let (name, stated) = (self.inner_name(), self.sides(of)?);
        let text = format!("Best block of {name}: {stated} (same operations and threads)");
        Some(self.state(text, &|_| true))
    }

    /// States the mean ratio of results that differ only in `word`, with the value `one` (`tcp`) ÷
    /// with `other` (`udp`); `None` without such results.
    fn pairs(&self, one: &str, other: &str, word: fn(&PublishedFigure) -> &'static str) -> Option<Statement> {
        let is_other = |f: &PublishedFigure| [one, other].contains(&word(f));
        let same = |a: &MatrixPoint<'_>, b: &MatrixPoint<'_>| {
            let key = |f: &PublishedFigure| {
                let rest = [f.operation, f.pattern, f.precision].map(|w| if w == word(f) { "" } else { w });
                (rest, f.threads)
            };
            let [x, y] = [a.figure.bytes, b.figure.bytes].map(|size| size.parse::<f64>().unwrap_or(1.0));
            key(a.figure) == key(b.figure) && (x / y - 1.0).abs() < 0.01
        };
        let of = |side: usize| {
            let found = self.ratios(side, |p| word(p.figure), [one, other], same);
            let count = format_count(found.len(), "point");
            Some(format!("{} (mean of {count})", times(mean(&found)?)))
        };
        let stated = self.sides(of)?;
        let text = format!("{}: {one} ÷ {other} is {stated}", self.name());
        Some(self.state(text, &|p| is_other(p.figure)))
    }

    /// States the mean of ratio `of`, which `what` describes (`today ÷ published`), then `rest`;
    /// `None` if no point has the ratio.
    fn against(&self, what: &str, of: fn(&MatrixPoint<'_>) -> Option<f64>, rest: &str) -> Option<Statement> {
        let found: Vec<f64> = self.points.iter().filter_map(of).collect();
        let text = format!("{} {what} is {}{rest}", self.name(), spread(&found, times)?);
        Some(self.state(text, &|p| of(p).is_some()))
    }

    fn against_limits(&self) -> Option<Statement> {
        let of = |side: usize| {
            let found: Vec<f64> = self.points.iter().filter_map(|p| p.shares[side]).collect();
            spread(&found, |share| percent(share, RATIO_DIGITS))
        };
        let stated = self.sides(of)?;
        let text = format!("Share of theory that {} reaches: {stated}", self.inner_name());
        Some(self.state(text, &|p| p.shares.iter().any(Option::is_some)))
    }
}

fn spread(found: &[f64], shown: impl Fn(f64) -> String) -> Option<String> {
    let least = found.iter().copied().reduce(f64::min)?;
    let most = found.iter().copied().reduce(f64::max)?;
    let mean = mean(found)?;
    Some(match found.len() {
        1 => shown(mean),
        n => format!("{} (mean of {n}; {} to {})", shown(mean), shown(least), shown(most)),
    })
}
