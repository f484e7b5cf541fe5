//! Conclusions from the tables of a published report, as sentences with table numbers.

use std::fmt;

use plimsoll_published::tables::TableKind;
use plimsoll_published::{LATENCY_METRIC, PublishedFigure, PublishedReport, TIME_METRIC};
use plimsoll_units::quantity::{Quantity, Unit, format_size, percent, significant};

use super::cells::{ComparablePart, FilledTable};
use crate::report::context;

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

#[derive(Clone, Copy, PartialEq, Eq)]
enum FigureSide {
    Today,
    Published,
}

impl FigureSide {
    const BOTH_SIDES: [Self; 2] = [Self::Today, Self::Published];

    fn name(self) -> &'static str {
        match self {
            Self::Today => "today",
            Self::Published => "published",
        }
    }
}

struct MatrixPoint<'a> {
    figure: &'a PublishedFigure,
    table: usize,
    today: Option<f64>,
    published: Option<f64>,
    tool: Option<f64>,
    share: Option<f64>,
    published_share: Option<f64>,
    unit: Option<Unit>,
    why: Option<&'a str>,
}

impl MatrixPoint<'_> {
    fn value(&self, side: FigureSide) -> Option<f64> {
        match side {
            FigureSide::Today => self.today,
            FigureSide::Published => self.published,
        }
    }

    fn share(&self, side: FigureSide) -> Option<f64> {
        match side {
            FigureSide::Today => self.share,
            FigureSide::Published => self.published_share,
        }
    }

    fn threads(&self) -> Option<u64> {
        self.figure.threads.parse().ok()
    }

    fn operation(&self) -> String {
        let PublishedFigure { pattern, operation, precision, .. } = self.figure;
        words(&[pattern, operation, precision])
    }

    fn in_words(&self) -> String {
        let block = self.figure.bytes.parse().map_or(String::new(), block);
        let threads = match self.figure.threads {
            "" => String::new(),
            "1" => "1 thread".to_owned(),
            n => format!("{n} threads"),
        };
        let parts = [self.operation(), block, threads];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

fn words(all: &[&str]) -> String {
    all.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

fn block(bytes: u64) -> String {
    format!("blocks of {}", format_size(bytes))
}

struct PointGroup<'a> {
    subsystem: &'a str,
    metric: &'a str,
    points: Vec<MatrixPoint<'a>>,
}

/// Returns the sentences that compare today's and published results, in the order of the report.
pub(crate) fn statements(baseline: &PublishedReport, filled: &[FilledTable<'_>]) -> Vec<Statement> {
    let mut groups: Vec<PointGroup<'_>> = Vec::new();
    for point in filled.iter().flat_map(|table| points(baseline, table)) {
        let is_same = |g: &&mut PointGroup<'_>| {
            g.subsystem == point.figure.subsystem && g.metric == point.figure.metric
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.points.push(point),
            None => groups.push(PointGroup {
                subsystem: point.figure.subsystem,
                metric: point.figure.metric,
                points: vec![point],
            }),
        }
    }
    groups.iter().flat_map(PointGroup::statements).collect()
}

fn points<'a>(baseline: &PublishedReport, filled: &'a FilledTable<'_>) -> Vec<MatrixPoint<'a>> {
    let own = filled.cells().filter(|cell| {
        filled.table.kind == TableKind::Own && cell.part == ComparablePart::Own && cell.figure.is_own_point()
    });
    let point = |cell: &'a super::cells::FilledCell<'_>| {
        let published = cell.published();
        MatrixPoint {
            figure: cell.figure,
            table: filled.table.number,
            today: cell.today.believed(),
            published,
            tool: cell.today.tool.as_ref().map(|tool| tool.figure).filter(|figure| *figure > 0.0),
            share: cell.today.share(cell.today.believed()),
            published_share: published.and_then(|value| share(baseline, cell.figure, value)),
            unit: cell.figure.base.map(|(_, unit)| unit).or(cell.today.metric.map(|metric| metric.unit)),
            why: cell.today.invalid.as_deref().or(cell.today.instead.as_deref()),
        }
    };
    own.map(point).collect()
}

/// Returns which share of the published limit `value` reaches (1 is the limit); `None` if the
/// report has no limit for `figure`.
fn share(baseline: &PublishedReport, figure: &PublishedFigure, value: f64) -> Option<f64> {
    let (limit, _) = baseline.theory(figure, |limit| limit.doubt.is_none())?.base?;
    Some(if is_time(figure.metric) { limit / value } else { value / limit })
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
        if self.points.iter().all(|point| point.today.is_none()) {
            let why = self.points.iter().find_map(|point| point.why).unwrap_or("no reason is recorded");
            let text = format!("{}: no figure of today that is to be believed: {why}", self.name());
            let mut all = vec![self.state(text, &|_| true)];
            all.extend([self.scaling(), self.best()].into_iter().flatten());
            return all;
        }
        let all = [
            self.scaling(),
            self.best(),
            self.blocks(),
            self.pairs("sequential", "random", |f| f.pattern),
            self.pairs("tcp", "udp", |f| f.operation),
            self.against_published(),
            self.against_tools(),
            self.against_limits(),
        ];
        all.into_iter().flatten().collect()
    }

    /// Builds a statement that cites the tables with the results for which `on` is true.
    fn state(&self, text: String, on: &dyn Fn(&MatrixPoint<'_>) -> bool) -> Statement {
        let mut tables: Vec<usize> = self.points.iter().filter(|p| on(p)).map(|p| p.table).collect();
        tables.sort_unstable();
        tables.dedup();
        Statement { text, tables }
    }

    /// Formats the values of both sides, `today X, published Y`; `of` formats the value of one
    /// side. Returns `None` if neither side has a value.
    fn sides(&self, of: impl Fn(FigureSide) -> Option<String>) -> Option<String> {
        let stated = FigureSide::BOTH_SIDES
            .into_iter()
            .filter_map(|side| Some(format!("{} {}", side.name(), of(side)?)));
        let stated: Vec<String> = stated.collect();
        (!stated.is_empty()).then(|| stated.join(", "))
    }

    /// Returns ratios of a side's values, `first` ÷ `second`, for the pairs of results that `same`
    /// matches.
    fn ratios(
        &self,
        side: FigureSide,
        first: impl Fn(&MatrixPoint<'_>) -> bool,
        second: impl Fn(&MatrixPoint<'_>) -> bool,
        same: impl Fn(&MatrixPoint<'_>, &MatrixPoint<'_>) -> bool,
    ) -> Vec<f64> {
        let all = self.points.iter().filter(|p| first(p)).filter_map(|a| {
            let b = self.points.iter().find(|b| second(b) && same(a, b))?;
            Some(a.value(side)? / b.value(side)?)
        });
        all.filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect()
    }

    /// States the factor from fewest to most threads, per operation; `None` for one thread count.
    fn scaling(&self) -> Option<Statement> {
        let known =
            |p: &&MatrixPoint<'_>| FigureSide::BOTH_SIDES.into_iter().any(|side| p.value(side).is_some());
        let threads = || self.points.iter().filter(known).filter_map(MatrixPoint::threads);
        let (least, most) = (threads().min()?, threads().max()?);
        let of = |operation: &str, side: FigureSide| {
            let at = |n: u64| move |p: &MatrixPoint<'_>| p.threads() == Some(n) && p.operation() == operation;
            let found = self.ratios(side, at(most), at(least), |a, b| a.figure.bytes == b.figure.bytes);
            mean(&found).map(times)
        };
        let operation = |name: &String| Some(format!("{name} {}", self.sides(|side| of(name, side))?));
        let found: Vec<String> = self.operations().iter().filter_map(operation).collect();
        let what = if is_time(self.metric) { "grows to" } else { "becomes" };
        (least < most && !found.is_empty()).then(|| {
            let text = format!(
                "Scaling: from {least} to {most} threads, {} {what}: {}",
                self.inner_name(),
                found.join("; ")
            );
            self.state(text, &|p| matches!(p.threads(), Some(n) if n == least || n == most))
        })
    }

    fn operations(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.points.iter().map(MatrixPoint::operation) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// States the best result of each side, and its lead over the best of another operation; `None`
    /// without results.
    fn best(&self) -> Option<Statement> {
        let lower = is_time(self.metric);
        let is_better = |a: f64, b: f64| if lower { a < b } else { a > b };
        let best =
            |side: FigureSide, among: &dyn Fn(&MatrixPoint<'_>) -> bool| -> Option<(&MatrixPoint<'_>, f64)> {
                let all = self.points.iter().filter(|p| among(p)).filter_map(|p| Some((p, p.value(side)?)));
                all.reduce(|a, b| if is_better(b.1, a.1) { b } else { a })
            };
        let of = |side: FigureSide| {
            let (point, value) = best(side, &|_| true)?;
            let shown = Quantity::new(value, point.unit?).to_string();
            let operation = point.operation();
            let next = best(side, &|p| p.operation() != operation);
            let lead = next.map(|(_, other)| if lower { other / value } else { value / other });
            let lead = lead
                .zip(next)
                .map(|(lead, (other, _))| format!(", {} the best of {}", times(lead), other.operation()));
            Some(format!("{shown} ({}){}", point.in_words(), lead.unwrap_or_default()))
        };
        let word = if lower { "Shortest" } else { "Highest" };
        let stated = self.sides(of)?;
        let on = |p: &MatrixPoint<'_>| {
            FigureSide::BOTH_SIDES
                .into_iter()
                .any(|side| best(side, &|_| true).is_some_and(|(b, _)| std::ptr::eq(b, p)))
        };
        Some(self.state(format!("{word} {}: {stated}", self.inner_name()), &on))
    }

    /// States the lead of the best block size over the worst; `None` for a single size.
    fn blocks(&self) -> Option<Statement> {
        let mut sizes: Vec<&str> = self.points.iter().map(|p| p.figure.bytes).collect();
        sizes.sort_by_key(|size| size.parse::<u64>().unwrap_or(0));
        sizes.dedup();
        let at = |size: &str| {
            let size = size.to_owned();
            move |p: &MatrixPoint<'_>| p.figure.bytes == size
        };
        let same = |a: &MatrixPoint<'_>, b: &MatrixPoint<'_>| {
            a.operation() == b.operation() && a.figure.threads == b.figure.threads
        };
        let of = |side: FigureSide| {
            let rated = |base: &str| -> Vec<(&str, f64)> {
                let rate = |size: &str| mean(&self.ratios(side, at(size), at(base), same));
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
        let stated = self.sides(of)?;
        Some(self.state(
            format!("Best block of {}: {stated} (same operations and threads)", self.inner_name()),
            &|_| true,
        ))
    }

    /// States the mean ratio of results that differ only in `word`: `one` (`TCP`) ÷ `other`
    /// (`UDP`); `None` without such results.
    fn pairs(&self, one: &str, other: &str, word: fn(&PublishedFigure) -> &'static str) -> Option<Statement> {
        let has = |wanted: &str| {
            let wanted = wanted.to_owned();
            move |p: &MatrixPoint<'_>| word(p.figure) == wanted
        };
        let is_other = |f: &PublishedFigure| [one, other].contains(&word(f));
        let same = |a: &MatrixPoint<'_>, b: &MatrixPoint<'_>| {
            let key = |f: &PublishedFigure| {
                let rest = [f.operation, f.pattern, f.precision].map(|w| if w == word(f) { "" } else { w });
                (rest, f.threads)
            };
            let [x, y] = [a.figure.bytes, b.figure.bytes].map(|size| size.parse::<f64>().unwrap_or(1.0));
            key(a.figure) == key(b.figure) && (x / y - 1.0).abs() < 0.01
        };
        let of = |side: FigureSide| {
            let found = self.ratios(side, has(one), has(other), same);
            let count = plimsoll_units::text::format_count(found.len(), "point");
            Some(format!("{} (mean of {count})", times(mean(&found)?)))
        };
        let stated = self.sides(of)?;
        let text = format!("{}: {one} ÷ {other} is {stated}", self.name());
        Some(self.state(text, &|p| is_other(p.figure)))
    }

    fn against_published(&self) -> Option<Statement> {
        let on = |p: &MatrixPoint<'_>| p.today.is_some() && p.published.is_some();
        let ratio = |p: &MatrixPoint<'_>| Some(p.today? / p.published?);
        let found: Vec<f64> = self.points.iter().filter_map(ratio).collect();
        let stated = spread(&found, times)?;
        let doubted = self.points.iter().filter(|p| p.published.is_none()).count();
        let doubted = if doubted > 0 {
            format!(
                "; {} with no published figure to divide by",
                plimsoll_units::text::format_count(doubted, "point")
            )
        } else {
            String::new()
        };
        Some(self.state(format!("{} today ÷ published is {stated}{doubted}", self.name()), &on))
    }

    fn against_tools(&self) -> Option<Statement> {
        let ratio = |p: &MatrixPoint<'_>| Some(p.today? / p.tool?);
        let found: Vec<f64> = self.points.iter().filter_map(ratio).collect();
        let stated = spread(&found, times)?;
        let text = format!("{} ÷ the reference tool's, today, is {stated}", self.name());
        Some(self.state(text, &|p| p.today.is_some() && p.tool.is_some()))
    }

    fn against_limits(&self) -> Option<Statement> {
        let of = |side: FigureSide| {
            let found: Vec<f64> = self.points.iter().filter_map(|p| p.share(side)).collect();
            spread(&found, |share| percent(share, RATIO_DIGITS))
        };
        let stated = self.sides(of)?;
        let text = format!("Share of theory that {} reaches: {stated}", self.inner_name());
        Some(self.state(text, &|p| FigureSide::BOTH_SIDES.into_iter().any(|side| p.share(side).is_some())))
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
