//! `plimsoll report RUN --tables published`: the tables of a published report with the figures of a run of today.
//!
//! Rows and columns are those of the report; units are corrected, and said once for a table. What cannot be true stands
//! with a mark and its reason below, and nothing is divided by it.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::out::Out;
use super::style::{Role, Style};
use super::wrap::{flowed, paragraph};
use crate::document::Run;
use crate::measurement::{Measurement, MetricResult, Status, converted};
use crate::published::{Baseline, Figure, Layout, Matched};
use crate::quantity::{format_size, percent, significant};

/// Significant digits of a figure.
const DIGITS: usize = 4;
/// What stands where there is nothing.
const NOTHING: &str = "–";

/// Prints the tables.
///
/// # Errors
/// What `out` said, a reader that has gone excepted.
pub fn print(baseline: &Baseline, run: &Run, out: impl Write, style: &Style) -> io::Result<()> {
    let mut out = Out::new(out);
    out.write(&text(baseline, run, style));
    out.end()
}

fn text(baseline: &Baseline, run: &Run, style: &Style) -> String {
    let head = format!("{} in the tables of its report, beside what is {}", baseline.name, baseline.title());
    let mut text = format!("{}\n", style.paint(Role::Strong, &style.say(&head)));
    if run.plan.scale != 1.0 {
        let scaled = format!(
            "volumes, work and file sizes of today are scaled to {}: most figures of so little say nothing of the machine",
            run.plan.scale
        );
        text += &paragraph(style, Role::Dim, "  ", &scaled);
    }
    for points in tables(baseline).iter().chain(&references(baseline)) {
        text += &Sheet::of(baseline, run, points).text(style);
    }
    text
}

/// Figures of reference programs that stand beside no point of the report's own, one a case: a table a subsystem.
fn references(baseline: &Baseline) -> Vec<Vec<Point<'_>>> {
    let own: Vec<&Matched> =
        baseline.figures.iter().filter(|f| f.is_own_point()).filter_map(|f| f.matched.as_ref()).collect();
    let mut all: Vec<Vec<Point<'_>>> = Vec::new();
    for statistic in ["mean", "single", "peak"] {
        for figure in baseline.figures.iter().filter(|f| f.is_reference() && f.statistic == statistic) {
            let Some(matched) = figure.matched.as_ref().filter(|m| m.value.is_some()) else { continue };
            let known = all.iter().flatten().map(|point| point.matched).chain(own.iter().copied());
            if figure.metric != "throughput" || known.clone().any(|known| known.case == matched.case) {
                continue;
            }
            let point = Point { figure, matched };
            match all.iter_mut().find(|points| points[0].figure.subsystem == figure.subsystem) {
                Some(points) => points.push(point),
                None => all.push(vec![point]),
            }
        }
    }
    all
}

/// The points of each table, in the order of the report: one table for each subsystem and metric.
fn tables(baseline: &Baseline) -> Vec<Vec<Point<'_>>> {
    let mut all: Vec<Vec<Point<'_>>> = Vec::new();
    for figure in baseline.figures.iter().filter(|f| f.is_own_point()) {
        let Some(matched) = &figure.matched else { continue };
        let point = Point { figure, matched };
        let same =
            |points: &&mut Vec<Point<'_>>| points.first().is_some_and(|first| first.table() == point.table());
        match all.iter_mut().find(same) {
            Some(points) => points.push(point),
            None => all.push(vec![point]),
        }
    }
    all
}

/// A point of a table.
#[derive(Clone, Copy)]
struct Point<'a> {
    figure: &'a Figure,
    matched: &'a Matched,
}

impl<'a> Point<'a> {
    fn table(&self) -> (&'a str, &'a str) {
        (self.figure.subsystem, self.figure.metric)
    }

    /// Operation, pattern and precision, and the block: what names a row beside the threads.
    fn words(&self) -> [String; 2] {
        let Figure { operation, pattern, precision, bytes, .. } = self.figure;
        let words = [*operation, *pattern, *precision].into_iter().filter(|word| !word.is_empty());
        let block = bytes.parse().map_or(String::new(), |bytes: u64| match format_size(bytes) {
            size if size.ends_with(|c: char| c.is_ascii_digit()) => format!("{size} B"),
            size => format!("{} {}iB", &size[..size.len() - 1], &size[size.len() - 1..]),
        });
        [words.collect::<Vec<_>>().join(" "), block]
    }
}

/// What a run measured of a point.
struct Today<'a> {
    /// Samples of all repeats.
    samples: Vec<f64>,
    /// The metric of the first repeat that has one.
    metric: Option<&'a MetricResult>,
    /// The first reference tool that gave a figure of it.
    tool: Option<Tool<'a>>,
    /// What became of it, where that is not a figure.
    instead: Option<String>,
    /// Why it is not to be believed.
    invalid: Option<String>,
    /// What the samples are divided by, and the limit and the tool's figure too, to count as the report does.
    per: f64,
}

/// The figure of a reference tool.
struct Tool<'a> {
    name: &'a str,
    figure: f64,
    of_limit: Option<f64>,
}

impl<'a> Tool<'a> {
    /// The figure of this metric that a tool gave, or that follows from another metric of the same transfers.
    fn of(measurement: &'a Measurement, name: &str) -> Option<Self> {
        let own = measurement.metrics.iter().filter(|metric| metric.name == name);
        let others = measurement.metrics.iter().filter(|metric| metric.name != name);
        let limit = own.clone().find_map(|metric| metric.limit.as_ref());
        let told = |metric: &'a MetricResult| {
            let peer = metric.peers.iter().find(|peer| peer.median.is_some())?;
            let figure = converted(&measurement.case, peer.median?, &metric.name, name)?;
            let of_limit = match metric.name == name {
                true => peer.of_limit,
                false => limit.and_then(|limit| Some(limit.share(figure, limit.value?))),
            };
            Some(Self { name: &peer.peer, figure, of_limit: of_limit.filter(|share| share.is_finite()) })
        };
        own.clone().chain(others).find_map(told)
    }
}

impl<'a> Today<'a> {
    fn of(run: &'a Run, matched: &Matched) -> Self {
        let is = |m: &&Measurement| matched.is(&m.case, run.plan.scale);
        let here: Vec<&Measurement> = run.measurements.iter().filter(is).collect();
        let metrics =
            || here.iter().filter_map(|m| m.metrics.iter().find(|metric| metric.name == matched.metric));
        let reason = |status| {
            let found = here.iter().find(|m| m.status == status)?;
            Some(found.reason.clone().unwrap_or_default())
        };
        let instead = match (here.first(), metrics().next()) {
            (None, _) => Some("not in this run".to_owned()),
            (Some(_), Some(_)) => None,
            (Some(_), None) => [(Status::Skipped, "skipped"), (Status::Failed, "failed")]
                .into_iter()
                .find_map(|(status, word)| Some(format!("{word}: {}", reason(status)?)))
                .or_else(|| Some("no such metric".to_owned())),
        };
        Self {
            samples: metrics()
                .flat_map(|metric| metric.samples.iter().map(|sample| matched.as_published(*sample)))
                .collect(),
            metric: metrics().next(),
            tool: here.iter().find_map(|m| Tool::of(m, matched.metric)),
            instead,
            invalid: reason(Status::Invalid),
            per: matched.per,
        }
    }

    fn mean(&self) -> Option<f64> {
        (!self.samples.is_empty()).then(|| self.samples.iter().sum::<f64>() / self.samples.len() as f64)
    }

    fn stdev(&self) -> Option<f64> {
        let (mean, n) = (self.mean()?, self.samples.len());
        let squares: f64 = self.samples.iter().map(|x| (x - mean).powi(2)).sum();
        (n > 1).then(|| (squares / (n - 1) as f64).sqrt())
    }
}

/// The unit of a table: its name and what it is in base units. The unit of the report's own table, put right.
fn unit(point: &Point<'_>) -> (&'static str, f64) {
    match (point.figure.subsystem, point.matched.metric) {
        ("cpu", _) => ("G(FL)OP/s", 1e9),
        ("memory", "latency") => ("ns", 1e-9),
        ("memory", _) => ("GB/s", 1e9),
        ("disk", "throughput") => ("MB/s", 1e6),
        ("disk", "rate") => ("IO/s", 1.0),
        ("network", "goodput") => ("Mbit/s", 1e6),
        _ => ("ms", 1e-3),
    }
}

/// A table, its cells as text.
struct Sheet {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Sheet {
    fn of(baseline: &Baseline, run: &Run, points: &[Point<'_>]) -> Self {
        let Some(first) = points.first() else {
            return Self { title: String::new(), head: Vec::new(), rows: Vec::new(), notes: Vec::new() };
        };
        let (unit, scale) = unit(first);
        let printed = match first.figure.unit {
            "" => "the report prints no unit".to_owned(),
            printed => format!("the report prints {printed}"),
        };
        let what = if first.figure.is_reference() { "reference programs" } else { first.figure.metric };
        let title = format!("{} {what}, {unit} ({printed})", first.figure.subsystem);
        let mut sheet = Self { title, head: Vec::new(), rows: Vec::new(), notes: Vec::new() };
        match baseline.layout {
            _ if first.figure.is_reference() => sheet.programs(run, points, scale),
            Layout::Samples => sheet.samples(baseline, run, points, scale),
            Layout::Threads => sheet.threads(run, points, scale),
            Layout::Efficiencies => sheet.efficiencies(baseline, run, points, scale),
        }
        sheet
    }

    fn head(&mut self, names: &[&str]) {
        self.head.extend(names.iter().map(|name| (*name).to_owned()));
    }

    /// A row a point: samples, mean, standard deviation; then the report's mean and deviation.
    fn samples(&mut self, baseline: &Baseline, run: &Run, points: &[Point<'_>], scale: f64) {
        let all: Vec<Today<'_>> = points.iter().map(|point| Today::of(run, point.matched)).collect();
        let most = all.iter().map(|today| today.samples.len()).max().unwrap_or(0).min(5);
        self.head(&["operation", "block", "threads"]);
        self.head.extend((1..=most).map(|n| format!("sample {n}")));
        let beside: Vec<Beside> = all.iter().map(|today| Beside::of(today, scale)).collect();
        let kept: Vec<usize> =
            (0..Beside::HEAD.len()).filter(|at| beside.iter().any(|cells| cells.0[*at] != NOTHING)).collect();
        self.head(&["mean", "stdev"]);
        self.head.extend(kept.iter().map(|at| Beside::HEAD[*at].to_owned()));
        self.head(&["published mean", "stdev", "ratio"]);
        for ((point, today), beside) in points.iter().zip(&all).zip(&beside) {
            let mut row = self.keys(point);
            let shown =
                |value: Option<f64>| value.map_or(NOTHING.to_owned(), |v| significant(v / scale, DIGITS));
            row.extend((0..most).map(|n| shown(today.samples.get(n).copied())));
            row.push(self.own(today, scale));
            row.push(shown(today.stdev()));
            row.extend(kept.iter().map(|at| beside.0[*at].clone()));
            row.push(self.published(point.figure, scale));
            let deviation = baseline.figures.iter().find(|f| {
                f.statistic == "stdev"
                    && f.source == "own"
                    && f.matched
                        .as_ref()
                        .is_some_and(|m| m.case == point.matched.case && m.metric == point.matched.metric)
            });
            row.push(shown(deviation.and_then(|f| Some(f.matched.as_ref()?.value?.0))));
            row.push(ratio(today, point.figure));
            self.rows.push(row);
        }
    }

    /// A row for each operation and block with a column for each number of threads; below it, that of the report.
    fn threads(&mut self, run: &Run, points: &[Point<'_>], scale: f64) {
        let mut threads: Vec<&str> = Vec::new();
        let mut rows: Vec<[String; 2]> = Vec::new();
        for point in points {
            if !threads.contains(&point.figure.threads) {
                threads.push(point.figure.threads);
            }
            if !rows.contains(&point.words()) {
                rows.push(point.words());
            }
        }
        self.head(&["operation", "block", ""]);
        self.head.extend(threads.iter().map(|n| match *n {
            "1" => "1 thread".to_owned(),
            n => format!("{n} threads"),
        }));
        for words in rows {
            let at = |n: &str| points.iter().find(|p| p.words() == words && p.figure.threads == n);
            let [operation, block] = words.clone();
            let mut today = vec![operation, block, "today".to_owned()];
            let below = |name: &str| vec![String::new(), String::new(), name.to_owned()];
            let mut then = below("published");
            let mut ratios = below("ratio");
            let mut beside = Beside::HEAD.map(below);
            for point in threads.iter().map(|n| at(n)) {
                let Some(point) = point else {
                    let rows = [&mut today, &mut then, &mut ratios].into_iter().chain(&mut beside);
                    rows.for_each(|row| row.push(NOTHING.to_owned()));
                    continue;
                };
                let measured = Today::of(run, point.matched);
                let cells = Beside::of(&measured, scale).0;
                beside.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
                today.push(self.own(&measured, scale));
                then.push(self.published(point.figure, scale));
                ratios.push(ratio(&measured, point.figure));
            }
            self.rows.push(today);
            self.rows.extend(beside.into_iter().filter(|row| row[3..].iter().any(|cell| cell != NOTHING)));
            self.rows.extend([then, ratios]);
        }
    }

    /// A row a point: own figure, reference program, theory, both efficiencies; then the report's own and reference.
    fn efficiencies(&mut self, baseline: &Baseline, run: &Run, points: &[Point<'_>], scale: f64) {
        let reference = |point: &Point<'_>| {
            baseline
                .figures
                .iter()
                .find(|f| f.is_reference() && f.metric == point.figure.metric && key(f) == key(point.figure))
        };
        self.head(&["operation", "block", "threads", "own"]);
        self.head(&Beside::HEAD);
        self.head(&["published own", "published ref.", "ratio"]);
        for point in points {
            let today = Today::of(run, point.matched);
            let mut beside = Beside::of(&today, scale);
            // The reference program may have another case beside it: HPL stands beside a system of equations.
            if let Some(other) = reference(point).and_then(|figure| figure.matched.as_ref())
                && beside.0[0] == NOTHING
                && other.metric == point.matched.metric
            {
                beside = beside.with_tool_of(&Today::of(run, other), scale);
            }
            let mut row = self.keys(point);
            row.push(self.own(&today, scale));
            row.extend(beside.0);
            row.push(self.published(point.figure, scale));
            row.push(match reference(point) {
                Some(figure) => format!("{} {}", self.published(figure, scale), figure.source),
                None => NOTHING.to_owned(),
            });
            row.push(ratio(&today, point.figure));
            self.rows.push(row);
        }
        if points.first().is_some_and(|p| matches!(p.matched.metric, "latency" | "rtt")) {
            self.title += "; efficiencies are limit ÷ measured, the report's measured ÷ limit";
        }
    }

    /// A row a reference program of the report: the case that it stands beside, ours, the tool of today, theory.
    fn programs(&mut self, run: &Run, points: &[Point<'_>], scale: f64) {
        self.head(&["program", "case", "own"]);
        self.head(&Beside::HEAD);
        self.head(&["published", "ratio"]);
        for point in points {
            let today = Today::of(run, point.matched);
            let mut row = vec![point.figure.source.to_owned(), point.matched.label(run.plan.scale)];
            row.push(self.own(&today, scale));
            row.extend(Beside::of(&today, scale).0);
            row.push(self.published(point.figure, scale));
            row.push(ratio(&today, point.figure));
            self.rows.push(row);
        }
    }

    fn keys(&self, point: &Point<'_>) -> Vec<String> {
        let [operation, block] = point.words();
        vec![operation, block, point.figure.threads.to_owned()]
    }

    /// The figure of today, with a mark where it is not to be believed.
    fn own(&mut self, today: &Today<'_>, scale: f64) -> String {
        if let Some(why) = &today.instead {
            let mark = self.note(why.clone());
            return format!("{NOTHING} {mark}");
        }
        let value = today.mean().map_or(NOTHING.to_owned(), |mean| significant(mean / scale, DIGITS));
        match &today.invalid {
            Some(why) => format!("{value} {}", self.note(format!("invalid: {why}"))),
            None => value,
        }
    }

    /// The figure of the report, with a mark where it cannot be true.
    fn published(&mut self, figure: &Figure, scale: f64) -> String {
        let value = figure.matched.as_ref().and_then(|matched| matched.value);
        let value = value.map_or_else(|| figure.value.to_owned(), |(v, _)| significant(v / scale, DIGITS));
        match figure.impossible {
            "" => value,
            why => format!("{value} {}", self.note(format!("published: {why}"))),
        }
    }

    /// The mark of a note, made when it is new.
    fn note(&mut self, text: String) -> String {
        let index = self.notes.iter().position(|note| *note == text).unwrap_or_else(|| {
            self.notes.push(text);
            self.notes.len() - 1
        });
        format!("[{}]", index + 1)
    }

    fn text(&self, style: &Style) -> String {
        let columns = self.head.len();
        let cell = |row: &Vec<String>, at: usize| row.get(at).map_or(0, |cell| cell.width());
        let widths: Vec<usize> = (0..columns)
            .map(|at| self.rows.iter().chain([&self.head]).map(|row| cell(row, at)).max().unwrap_or(0))
            .collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
                let room = " ".repeat(width - cell.width().min(*width));
                if at < 2 { format!("{cell}{room}") } else { format!("{room}{cell}") }
            });
            style.say(&format!("  {}", cells.collect::<Vec<_>>().join("  "))).trim_end().to_owned()
        };
        let mut text = format!("\n{}\n", style.paint(Role::Strong, &style.say(&self.title)));
        text += &format!("{}\n", style.paint(Role::Dim, &line(&self.head)));
        for row in &self.rows {
            text += &format!("{}\n", line(row));
        }
        for (index, note) in self.notes.iter().enumerate() {
            let lead = format!("    [{}] ", index + 1);
            let room = style.width.saturating_sub(lead.len()).max(20);
            for (at, part) in flowed(&style.say(note), room).into_iter().enumerate() {
                let lead = if at == 0 { lead.clone() } else { " ".repeat(lead.len()) };
                text += &format!("{lead}{}\n", style.paint(Role::Dim, &part));
            }
        }
        text
    }
}

/// What stands beside a figure of today: the reference tool's, the limit, and both shares of it.
struct Beside([String; 4]);

impl Beside {
    const HEAD: [&str; 4] = ["reference", "theory", "own eff.", "ref. eff."];

    fn of(today: &Today<'_>, scale: f64) -> Self {
        let shown = |value: Option<f64>| value.map(|value| significant(value / scale, DIGITS));
        let share = |share: Option<f64>| share.map(|share| percent(share, 3));
        let limit = today.metric.and_then(|m| m.limit.as_ref());
        let value = limit.and_then(|limit| Some(limit.value? / today.per));
        // Of the mean, which is what the table shows.
        let own = limit.zip(value).zip(today.mean()).map(|((limit, value), mean)| limit.share(mean, value));
        let tool = today.tool.as_ref();
        let cells = [
            tool.and_then(|tool| Some(format!("{} {}", shown(Some(tool.figure / today.per))?, tool.name))),
            shown(value),
            share(own),
            share(tool.and_then(|tool| tool.of_limit)),
        ];
        Self(cells.map(|cell| cell.unwrap_or_else(|| NOTHING.to_owned())))
    }

    /// With the tool that stands beside another case, whose limit is its own.
    fn with_tool_of(self, other: &Today<'_>, scale: f64) -> Self {
        let [_, theory, own, _] = self.0;
        let [tool, _, _, share] = Self::of(other, scale).0;
        Self([tool, theory, own, share])
    }
}

/// What tells the points of one table apart.
fn key(figure: &Figure) -> [&'static str; 6] {
    let Figure { subsystem, operation, pattern, precision, bytes, threads, .. } = figure;
    [*subsystem, *operation, *pattern, *precision, *bytes, *threads]
}

/// Today's mean ÷ the published figure; nothing where either is not to be believed.
fn ratio(today: &Today<'_>, figure: &Figure) -> String {
    let then = figure.matched.as_ref().and_then(|matched| Some(matched.as_published(figure.believed()?)));
    let believed = today.mean().filter(|_| today.invalid.is_none()).zip(then);
    believed.map_or(NOTHING.to_owned(), |(mean, then)| format!("{} ×", significant(mean / then, 3)))
}

/// What the published report says of a measurement, for its row: one phrase for each metric that it prints.
pub(super) fn beside(baseline: &Baseline, measurement: &Measurement) -> Vec<String> {
    let one = |metric: &MetricResult| {
        let figure = baseline.of(&measurement.case, &metric.name)?;
        let value = figure.matched.as_ref()?.value;
        let value = value.map_or_else(
            || figure.value.to_owned(),
            |(value, unit)| crate::quantity::Quantity::new(value, unit).to_string(),
        );
        let told = match (figure.impossible, figure.believed()) {
            ("", Some(then)) if measurement.status == Status::Ok => {
                format!("{value}, here {} ×", significant(metric.summary.median / then, 3))
            }
            ("", _) => value,
            (why, _) => format!("{value}, not to be believed: {why}"),
        };
        Some(format!("{} {} {told}", baseline.title(), metric.name))
    };
    measurement.metrics.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests;
