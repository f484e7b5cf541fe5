//! Verdicts on published figures: one list of rules for all figures of all reports, so that equal figures are marked
//! equally. What a device can do at most is in `machines`; docs/experiments.md has the rules in words.

mod stated;

use super::Verdict::{Impossible, InNoTable, NotComparable};
use super::machines::{Bound, Machine};
use super::{Doubt, Figure, LATENCY, THROUGHPUT, Verdict};
use stated::STATED;

/// A message by the kernel's sockets takes longer than this there and back between two machines: four ways through the
/// stack and two interrupts.
const ROUND_TRIP: f64 = 10e-6;
/// What iperf 2 sends by UDP where no rate is given: 1 Mibit/s.
const IPERF_DEFAULT: f64 = 1_048_576.0;

/// All figures of a report, and its machine.
struct Report<'a> {
    machine: Machine,
    figures: &'a [Figure],
}

/// A rule: its name, the verdict on a figure that breaks it, and why a figure breaks it.
type Rule = (&'static str, Verdict, fn(&Report<'_>, &Figure) -> Option<&'static str>);

/// Rules for points and for the figures of reference programs and theory; samples and deviations follow their point.
/// The first rule that a figure breaks counts: what is impossible is not merely of something else.
const POINTS: &[Rule] = &[
    ("cpu-bound", Impossible, cpu_bound),
    ("disk-threads", Impossible, disk_threads),
    ("disk-bound", Impossible, disk_bound),
    ("disk-rate", Impossible, disk_rate),
    ("network-bound", Impossible, network_bound),
    ("latency-rate", Impossible, latency_rate),
    ("latency-throughput", Impossible, latency_throughput),
    ("whole-transfer", NotComparable, whole_transfer),
    ("from-throughput", NotComparable, from_throughput),
    ("no-unit", NotComparable, no_unit),
    ("memory-unit", NotComparable, memory_unit),
    ("speed-up", NotComparable, speed_up),
    ("memory-threads", NotComparable, memory_threads),
    ("multiples", NotComparable, multiples),
    ("not-between-machines", NotComparable, not_between_machines),
];

/// Gives each figure of a report the verdict of the first rule that it breaks.
pub(super) fn mark(report: &str, figures: &mut [Figure]) {
    let machine = Machine::of(report);
    let mut apply = |doubt: &dyn Fn(&Report<'_>, &Figure) -> Option<Doubt>| {
        let report = Report { machine, figures: &*figures };
        let found: Vec<_> = report.figures.iter().map(|f| f.doubt.or_else(|| doubt(&report, f))).collect();
        for (figure, doubt) in figures.iter_mut().zip(found) {
            figure.doubt = doubt;
        }
    };
    apply(&|report, f| broken(POINTS, report, f).filter(|_| !f.is_part_of_a_point() && !f.is_share()));
    apply(&|report, f| of_its_point(report, f).filter(|_| f.is_part_of_a_point()));
    apply(&|report, f| broken(STATED, report, f));
    apply(&|report, f| of_its_figure(report, f).filter(|_| f.is_share()));
}

/// The first of the rules that a figure breaks.
fn broken(rules: &[Rule], report: &Report<'_>, figure: &Figure) -> Option<Doubt> {
    rules
        .iter()
        .find_map(|(rule, verdict, test)| Some(Doubt { verdict: *verdict, rule, why: test(report, figure)? }))
}

impl Figure {
    /// Whether it is a sample of a point, or their deviation.
    fn is_part_of_a_point(&self) -> bool {
        self.statistic.starts_with("sample") || self.statistic == "stdev"
    }

    /// Whether it is a share of another figure.
    fn is_share(&self) -> bool {
        self.source.starts_with("efficiency")
    }

    fn is_theory(&self) -> bool {
        self.source == "theoretical"
    }

    fn is_of(&self, subsystem: &str, metric: &str) -> bool {
        self.subsystem == subsystem && self.metric == metric
    }

    fn is_point(&self) -> bool {
        matches!(self.statistic, "mean" | "single")
    }

    fn base_value(&self) -> Option<f64> {
        self.base.map(|(value, _)| value)
    }

    fn printed(&self) -> Option<f64> {
        self.value.parse().ok()
    }

    fn number_of_threads(&self) -> Option<f64> {
        self.threads.parse().ok()
    }

    fn number_of_bytes(&self) -> Option<f64> {
        self.bytes.parse().ok()
    }

    /// What tells a row apart but for its threads.
    fn row(&self) -> [&'static str; 5] {
        [self.subsystem, self.operation, self.pattern, self.precision, self.bytes]
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.row() == other.row() && self.threads == other.threads
    }

    /// Half of a unit of its last digit.
    fn rounding(&self) -> f64 {
        let (digits, exponent) = self.value.split_once(['e', 'E']).unwrap_or((self.value, "0"));
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let exponent: i32 = exponent.parse().unwrap_or(0);
        0.5 * 10_f64.powi(exponent - i32::try_from(decimals).unwrap_or(0))
    }
}

impl Report<'_> {
    /// The point of the same row, threads and source with another metric.
    fn beside(&self, figure: &Figure, metric: &str) -> Option<&Figure> {
        let is = |f: &&Figure| f.metric == metric && f.source == figure.source && f.is_point();
        self.figures.iter().filter(is).find(|f| f.is_beside(figure))
    }

    /// The point of the same row and source at another number of threads.
    fn at(&self, figure: &Figure, threads: f64) -> Option<&Figure> {
        let is = |f: &&Figure| f.metric == figure.metric && f.source == figure.source && f.is_point();
        let row = |f: &&Figure| f.row() == figure.row() && f.number_of_threads() == Some(threads);
        self.figures.iter().filter(is).find(row)
    }

    /// Own points of this table: the same subsystem and metric.
    fn table<'b>(&'b self, figure: &'b Figure) -> impl Iterator<Item = &'b Figure> {
        let same =
            |f: &&Figure| f.is_of(figure.subsystem, figure.metric) && f.source == "own" && f.is_point();
        self.figures.iter().filter(same)
    }

    /// The samples that a mean, peak or deviation is of: its own, the trials of a program, or the points of all threads.
    fn samples(&self, figure: &Figure) -> Vec<&Figure> {
        let same = |f: &&Figure| {
            f.metric == figure.metric && f.source == figure.source && f.subsystem == figure.subsystem
        };
        let like: Vec<&Figure> =
            self.figures.iter().filter(same).filter(|f| f.operation == figure.operation).collect();
        let of = |wanted: &dyn Fn(&Figure) -> bool| -> Vec<&Figure> {
            like.iter().copied().filter(|f| wanted(f)).collect()
        };
        let own = of(&|f| f.statistic.starts_with("sample") && f.is_beside(figure));
        if !own.is_empty() || figure.statistic == "stdev" {
            return own;
        }
        if !figure.pattern.is_empty() && figure.is_reference() {
            let lead = format!("{};trial=", figure.pattern);
            return of(&|f| f.pattern.starts_with(&lead) && f.statistic == "single");
        }
        let over_threads = figure.threads.is_empty() && figure.pattern != "headline";
        of(&|f| over_threads && f.statistic == "single" && f.row() == figure.row() && !f.threads.is_empty())
    }
}

/// Whether a figure is past the most that a device can do.
fn past(value: f64, bound: Option<Bound>) -> Option<&'static str> {
    bound.filter(|bound| value > bound.value).map(|bound| bound.why)
}

/// Whether a time is below the least that a device needs.
fn below(value: f64, bound: Option<Bound>) -> Option<&'static str> {
    bound.filter(|bound| value < bound.value).map(|bound| bound.why)
}

/// Latency × throughput is the same in all rows of the table: it is the time of the whole transfer.
fn whole_transfer(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_of("network", LATENCY) || figure.source != "own" {
        return None;
    }
    let product =
        |f: &Figure| Some(f.printed()? * report.beside(f, THROUGHPUT)?.printed()?).filter(|p| *p > 0.0);
    let products: Vec<f64> = report.table(figure).filter_map(product).collect();
    let (least, most) = products.iter().fold((f64::MAX, 0.0_f64), |(a, b), p| (a.min(*p), b.max(*p)));
    (products.len() >= 4 && most < 1.02 * least)
        .then_some("latency × throughput is the same in all rows: the time of the whole transfer")
}

/// Most rows of the table are threads ÷ throughput, whatever their message.
fn from_throughput(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_of("network", LATENCY) || figure.source != "own" {
        return None;
    }
    let is_ratio = |f: &Figure| {
        let is = |other: &&Figure| {
            other.is_of("network", THROUGHPUT) && other.source == "own" && other.operation == f.operation
        };
        let mut of_table = report.figures.iter().filter(is).filter(|other| other.threads == f.threads);
        let throughput = of_table.next()?.printed()?;
        let ratio = f.printed()? * throughput / f.number_of_threads()?;
        Some((ratio - 1.0).abs() < 0.01)
    };
    let rows: Vec<bool> = report.table(figure).filter_map(is_ratio).collect();
    let fit = rows.iter().filter(|is| **is).count();
    (rows.len() >= 4 && 4 * fit >= 3 * rows.len())
        .then_some("threads ÷ throughput in at least three of four rows: not measured")
}

/// A time without a unit that could be told from its size.
fn no_unit(_: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if figure.base.is_some() || !figure.unit.is_empty() || figure.metric != LATENCY {
        return None;
    }
    match figure.printed() {
        Some(0.0) => Some("0, below the resolution of its clock; no unit is printed"),
        _ => Some("no unit is printed"),
    }
}

/// More floating-point operations than the CPUs do, in a figure or in what is called the limit.
fn cpu_bound(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    let is_float = figure.operation != "integer-ops" && figure.is_of("cpu", THROUGHPUT);
    past(figure.base_value().filter(|_| is_float)?, report.machine.flops)
}

/// A rate of the memory in a unit of another size.
fn memory_unit(_: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    (figure.is_of("memory", THROUGHPUT) && figure.unit == "Mbps")
        .then_some("in Mbps, which is no unit of this size: GB/s fits")
}

/// A rate of the memory that grows with the threads although each CPU has one already.
fn memory_threads(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_of("memory", THROUGHPUT) || figure.source != "own" {
        return None;
    }
    let cpus = report.machine.cpus.filter(|cpus| figure.number_of_threads() > Some(*cpus))?;
    (figure.base_value()? > 1.5 * report.at(figure, cpus)?.base_value()?)
        .then_some("grows with threads although each CPU has one: work counted for each thread")
}

/// A limit of a disk that grows with the number of threads.
fn disk_threads(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_theory() || !figure.is_of("disk", THROUGHPUT) {
        return None;
    }
    let one = report.at(figure, 1.0)?.base_value()?;
    (figure.base_value()? > one).then_some("a device gains no bandwidth from threads")
}

/// More than the disk transfers, more random operations than it makes, or a time that it cannot answer in.
fn disk_bound(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    let (value, machine) = (figure.base_value()?, &report.machine);
    let most = if figure.operation == "write" { machine.write } else { machine.read };
    let random =
        |operations: f64| past(operations, machine.operations.filter(|_| figure.pattern == "random"));
    match (figure.subsystem, figure.metric) {
        ("disk", THROUGHPUT) if figure.is_theory() => most
            .filter(|most| value > most.value)
            .map(|_| "past what such a disk transfers: at most its link's rate"),
        ("disk", THROUGHPUT) => {
            past(value, most).or_else(|| random(value / figure.number_of_bytes().filter(|n| *n > 0.0)?))
        }
        ("disk", "iops") => random(value).or_else(|| past(value * figure.number_of_bytes()?, most)),
        ("disk", LATENCY) if !figure.is_theory() => {
            let slow = below(value, machine.disk_latency);
            slow.or_else(|| past(figure.number_of_bytes()? / value, most))
        }
        _ => None,
    }
}

/// Operations that follow one another faster than the disk answers one: random ones, and those of less than a sector.
fn disk_rate(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    const SECTOR: f64 = 512.0;
    if figure.subsystem != "disk" || figure.is_theory() {
        return None;
    }
    let bytes = figure.number_of_bytes()?;
    let rate = match figure.metric {
        THROUGHPUT if figure.pattern == "random" || bytes < SECTOR => figure.base_value()? / bytes,
        "iops" => figure.base_value()?,
        _ => return None,
    };
    below(figure.number_of_threads()? / rate, report.machine.disk_latency)
}

/// More than the link carries, or a round trip that no socket makes.
fn network_bound(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if figure.subsystem != "network" || report.machine.same_host && figure.is_reference() {
        return None;
    }
    let value = figure.base_value()?;
    let link = if figure.operation == "udp" { report.machine.udp } else { report.machine.tcp };
    match figure.metric {
        THROUGHPUT => past(value, link),
        LATENCY if figure.is_theory() => None,
        LATENCY if value < 1.0 / report.machine.clock => Some("less than a clock cycle"),
        LATENCY if value < ROUND_TRIP => {
            Some("under 10 µs, which no round trip by sockets between machines takes: a buffered send")
        }
        _ => None,
    }
}

/// A reference program's figure that is a whole multiple, to the last digit, of one with fewer threads.
fn multiples(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_reference() || figure.metric != THROUGHPUT {
        return None;
    }
    let (value, threads) = (figure.printed()?, figure.number_of_threads()?);
    let is_multiple = |fewer: f64| {
        let of = report.at(figure, fewer).and_then(Figure::printed);
        of.is_some_and(|of| (value / of - threads / fewer).abs() < 1e-9)
    };
    let fewer = [1.0, 2.0, 4.0, 8.0];
    fewer
        .into_iter()
        .any(|fewer| fewer < threads && is_multiple(fewer))
        .then_some("the figure of fewer threads times the number of threads, to the last digit: computed")
}

/// A rate that grows more than by the number of CPUs and threads: computing has no caches to gain.
fn speed_up(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_of("cpu", THROUGHPUT) || figure.source != "own" {
        return None;
    }
    let threads = figure.number_of_threads()?;
    let most = report.machine.cpus.map_or(threads, |cpus| cpus.min(threads));
    let one = report.at(figure, 1.0)?.base_value()?;
    (figure.base_value()? > 1.1 * most * one)
        .then_some("past the rate of one thread times the number of CPUs: work counted for each thread")
}

/// Latency × rate is the number of operations under way, which is that of the threads.
fn latency_rate(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_of("disk", LATENCY) || figure.is_theory() {
        return None;
    }
    let rate = report.beside(figure, "iops")?.base_value()?;
    let under_way = figure.base_value()? * rate / figure.number_of_threads()?;
    (!(0.5..=2.0).contains(&under_way))
        .then_some("more than twofold off the rate of the same row: one of the two is wrong")
}

/// A message cannot come sooner than its table says that it is sent.
fn latency_throughput(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    if !figure.is_of("network", LATENCY) || figure.source != "own" {
        return None;
    }
    let throughput = report.beside(figure, THROUGHPUT)?.base_value().filter(|rate| *rate > 0.0)?;
    let sending = 8.0 * figure.number_of_bytes()? / throughput;
    (1.25 * figure.base_value()? < sending).then_some(
        "shorter than the message takes at the throughput of the same row: one of the two is wrong",
    )
}

/// A reference program between two ends on one host, or at a rate that it was not asked for.
fn not_between_machines(report: &Report<'_>, figure: &Figure) -> Option<&'static str> {
    let is_of_a_line = matches!(figure.metric, THROUGHPUT | "transfer") && figure.subsystem == "network";
    if !report.machine.same_host || !figure.is_reference() || !is_of_a_line {
        return None;
    }
    let value = report.beside(figure, THROUGHPUT)?.base_value()?;
    let default = figure.operation == "udp" && (value / IPERF_DEFAULT - 1.0).abs() < 0.1;
    Some(if default {
        "1 Mbit/s, the rate that iperf sends by UDP where none is given"
    } else {
        "both ends on one host: no link was crossed"
    })
}

/// The verdict on the point that a sample or deviation belongs to.
fn of_its_point(report: &Report<'_>, figure: &Figure) -> Option<Doubt> {
    Some(Doubt { rule: "point", ..report.beside(figure, figure.metric)?.doubt? })
}

/// The verdict on a share, from those on the figure and the limit that it is made of.
fn of_its_figure(report: &Report<'_>, figure: &Figure) -> Option<Doubt> {
    let own = figure.source == "efficiency-own";
    let is = |f: &&Figure| match own {
        true => matches!(f.source, "own" | "theoretical"),
        false => f.is_reference() || f.is_theory(),
    };
    let row = report.figures.iter().filter(is).filter(|f| f.metric == figure.metric);
    let row = row.filter(|f| f.is_beside(figure) && !f.is_part_of_a_point());
    let verdict = row.filter_map(|f| Some(f.doubt?.verdict)).min()?;
    let why = match verdict {
        Impossible => "a share of a figure or limit that is impossible",
        NotComparable => "a share of a figure or limit that is not comparable",
        // It is the share of the number that the report states.
        InNoTable => return None,
    };
    Some(Doubt { verdict, rule: "share", why })
}
