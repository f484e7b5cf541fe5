//! Text parts of the page: header, findings, tables, machine.

use maud::{Markup, html};
use plimsoll_bench::label::label;
use plimsoll_history::CaseCounts;
use plimsoll_machine::Machine;
use plimsoll_model::measurement::{Measurement, MetricResult, Status, ToolResult};
use plimsoll_model::warning::CAUSES;
use plimsoll_result::document::{Finding, Run, RunStatus};
use plimsoll_result::fleet;
use plimsoll_stats::EquivalenceVerdict;
use plimsoll_units::quantity::{Quantity, Unit, format_size, percent, significant};
use plimsoll_units::text::format_count;

use crate::report::conditions;
use crate::report::context::title;
use crate::report::row::{GOOD, Grade, MeasurementRow};
use crate::report::section::{count_warnings, has_mark};
use crate::report::tool_results::{COLUMN_TITLES, RATIO, compared};
use crate::report::{and_more, grouped};

const OPEN: usize = 5;

const DISTURBED: f64 = 0.05;

#[derive(Debug)]
pub(super) struct VerdictText {
    pub(super) grade: Grade,
    pub(super) word: String,
    pub(super) why: String,
}

pub(super) fn verdict(name: &str, reported: &VerdictText) -> Markup {
    html! {
        div.verdict.(reported.grade.class()) {
            span.word { (name) ": " (reported.word) }
            @if !reported.why.is_empty() { span.why { (reported.why) } }
        }
    }
}

/// Builds the header: machine, run, distance from limits, quietness, agreement with tools.
pub(super) fn header(run: &Run) -> Markup {
    let host = match run.nodes.len() {
        0 | 1 => run.machine.host.clone().unwrap_or_else(|| "this machine".to_owned()),
        many => format_count(many, "machine"),
    };
    html! {
        header {
            div.name {
                h1 { (host) }
                p.machine { (machine_line(&run.machine)) }
            }
            @if let Some(verdict) = crate::report::verdict::verdict(run) { p.verdict.(verdict.grade.class()) { (verdict.text) } }
            div.verdicts {
                (verdict("Limits", &limits(run)))
                (verdict("Conditions", &quiet(run)))
                (agreement(run))
                (counts(run))
            }
            p.run {
                "plan " (run.plan.name) " · " (run.started.get(..16).unwrap_or(&run.started).replace('T', " ")) " UTC · plimsoll "
                (run.version)
                @if run.status == RunStatus::Partial { " · " strong { "partial" } }
                button.theme type="button" hidden { "dark / light" }
            }
        }
    }
}

pub(super) fn machine_line(machine: &Machine) -> String {
    let mut stated = vec![machine.cpu.model_name.clone().unwrap_or_else(|| "unknown processor".to_owned())];
    stated.push(format_count(machine.cpu.threads, "CPU"));
    stated.extend(machine.memory.total_bytes.map(|b| Quantity::new(b as f64, Unit::Byte).to_string()));
    stated.extend(machine.virtualisation.hypervisor.clone());
    stated.extend(machine.kernel.release.as_ref().map(|r| format!("Linux {r}")));
    stated.join(" · ")
}

/// Counts the results that reach 90 % of their limit, in total and per subsystem. Results that are
/// mostly excluded are counted separately.
pub(super) fn limits(run: &Run) -> VerdictText {
    let grades = |part: Option<&str>| -> Vec<Grade> {
        let of = |m: &&Measurement| {
            m.status == Status::Ok
                && !m.metrics.is_empty()
                && !m.is_mostly_excluded()
                && part.is_none_or(|part| m.case.subsystem() == part)
        };
        run.measurements.iter().filter(of).map(Grade::of).collect()
    };
    let known = |grades: &[Grade]| grades.iter().filter(|grade| **grade != Grade::Unknown).count();
    let good = |grades: &[Grade]| grades.iter().filter(|grade| **grade == Grade::Good).count();
    let all = grades(None);
    let (grade, word) = match known(&all) {
        0 => (Grade::Unknown, "none known".to_owned()),
        n => {
            let grade = if good(&all) == n { Grade::Good } else { Grade::Fair };
            (grade, format!("{} of {n} figures reach {}", good(&all), percent(GOOD, 2)))
        }
    };
    let parts = crate::report::subsystems(run).into_iter().map(|part| (part, grades(Some(part))));
    let parts = parts.filter(|(_, of)| known(of) > 0);
    let mut why: Vec<String> =
        parts.map(|(part, of)| format!("{} {} of {}", title(part), good(&of), known(&of))).collect();
    match all.len() - known(&all) {
        0 => {}
        n if n == all.len() => why.push("give them with --limits FILE".to_owned()),
        n => why.push(format!("{n} have no known limit")),
    }
    match run.measurements.iter().filter(|m| m.is_mostly_excluded()).count() {
        0 => {}
        n => why.push(format!("{n} not rated: more than half of their time is excluded")),
    }
    VerdictText { grade, word, why: why.join(" · ") }
}

/// Returns the largest share of time that any case lost (steal, quota, waiting, excluded), with the
/// cause and the case; `None` if not recorded.
fn worst(run: &Run) -> Option<(f64, &'static str, &Measurement)> {
    let losses = run.measurements.iter().flat_map(|m| {
        let c = &m.conditions;
        let shares = [
            (c.steal, "stolen by the host"),
            (c.throttled, "throttled by a quota"),
            (c.waited, "waiting for a CPU"),
            (c.excluded, "excluded"),
        ];
        shares.into_iter().filter_map(move |(share, what)| Some((share?, what, m)))
    });
    losses.filter(|(share, ..)| share.is_finite()).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Judges whether the machine was quiet, by the number of cases that lost time and the largest
/// loss.
pub(super) fn quiet(run: &Run) -> VerdictText {
    let lost = |m: &&Measurement| m.warnings.iter().any(|w| CAUSES.contains(&w.code.as_str()));
    let disturbed = run.measurements.iter().filter(lost).count();
    let worst = worst(run);
    let reported = worst.map(|(share, what, m)| {
        format!("most: {} of the time {what}, {}", percent(share, 2), label(&m.case))
    });
    let (grade, word) = match (worst, disturbed) {
        (None, _) => (Grade::Unknown, "not recorded".to_owned()),
        (Some((share, ..)), 0) if share < DISTURBED => (Grade::Good, "quiet".to_owned()),
        (Some(_), n) => (
            Grade::Poor,
            format!("{} of {} lost time", n.max(1), format_count(run.measurements.len(), "case")),
        ),
    };
    VerdictText { grade, word, why: reported.unwrap_or_default() }
}

fn results(run: &Run) -> Vec<&ToolResult> {
    run.measurements.iter().flat_map(|m| &m.metrics).flat_map(|m| &m.tool_results).collect()
}

pub(super) fn has_tools(run: &Run) -> bool {
    !results(run).is_empty()
}

fn agreement(run: &Run) -> Markup {
    let all = results(run);
    let given: Vec<(&ToolResult, f64)> = all.iter().filter_map(|p| Some((*p, p.ratio?.median))).collect();
    let equivalent = given.iter().filter(|(p, _)| p.verdict == EquivalenceVerdict::Equivalent).count();
    let within = |(p, ratio): &&(&ToolResult, f64)| (1.0 / (1.0 + p.margin)..=1.0 + p.margin).contains(ratio);
    let near = given.iter().filter(within).count();
    let (class, word, why) = match (all.len(), given.len()) {
        (0, _) => (
            "unknown",
            "not run".to_owned(),
            "plimsoll run PLAN --against installed measures them, too".to_owned(),
        ),
        (_, 0) => ("unknown", "none gave a figure".to_owned(), String::new()),
        (_, n) => {
            let class = match () {
                () if equivalent == n => "good",
                () if near * 2 >= n => "fair",
                () => "poor",
            };
            let why = format!("{equivalent} shown equivalent; {near} with a ratio within the margin");
            (class, format!("{near} of {n} figures agree"), why)
        }
    };
    html! { div.verdict.(class) { span.word { "Reference tools: " (word) } span.why { (why) } } }
}

fn counts(run: &Run) -> Markup {
    let counts = CaseCounts::of(&run.measurements);
    let warned = run.measurements.iter().filter(|m| has_mark(m)).count();
    let class = match counts.failed + counts.invalid {
        0 if warned == 0 => "good",
        0 => "fair",
        _ => "poor",
    };
    html! {
        div.verdict.(class) {
            span.word {
                (counts.total()) " cases: " (counts.lines().join(" · "))
                @if warned > 0 { ", " (warned) " with warnings" }
            }
            span.why { (count_warnings(run.measurements.iter().map(|m| m.warnings.as_slice()), &[])) }
        }
    }
}

struct FirstScreenLine {
    is_bad: bool,
    is_open: bool,
    text: String,
}

/// Lists what belongs on the first screen: partial run, conditions, failed cases, findings.
fn points(run: &Run) -> Vec<FirstScreenLine> {
    let bad = |text: String| FirstScreenLine { is_bad: true, is_open: false, text };
    let mut points: Vec<FirstScreenLine> = Vec::new();
    if run.status == RunStatus::Partial {
        let (cases, planned) = (run.measurements.len(), run.plan.cases);
        points.push(bad(match run.nodes.len() {
            0 | 1 => format!("partial: the run ended after {cases} of {}", format_count(planned, "case")),
            _ => "partial: the run ended before all machines had measured all cases".to_owned(),
        }));
    }
    points.extend(conditions::whole(&run.machine).into_iter().map(|note| bad(note.text)));
    let (of_machines, others): (Vec<&Finding>, Vec<&Finding>) =
        run.findings.iter().partition(|finding| fleet::is_about_nodes(finding));
    let point = |finding: &Finding| {
        let is_bad = fleet::reports_missing_part(finding) || finding.is_for_the_worse();
        FirstScreenLine { is_bad, is_open: is_an_outlier(finding), text: finding.text.clone() }
    };
    let (lacks, differ): (Vec<&Finding>, Vec<&Finding>) =
        of_machines.into_iter().partition(|finding| fleet::reports_missing_part(finding));
    points.extend(differ.into_iter().map(point));
    points.extend(lacks.into_iter().map(point));
    let lost = if run.nodes.len() > 1 { lost_on_machines(run) } else { lost(run) };
    points.extend(lost.into_iter().map(bad));
    points.extend(others.into_iter().map(point));
    points
}

/// Returns `failed` or `invalid`; `None` for valid and skipped measurements.
const fn failing(status: Status) -> Option<&'static str> {
    match status {
        Status::Failed => Some("failed"),
        Status::Invalid => Some("invalid"),
        Status::Ok | Status::Skipped => None,
    }
}

/// Yields the cases without a valid result, each with what became of it and the reason.
fn failures(run: &Run) -> impl Iterator<Item = (&Measurement, &'static str, &str)> {
    run.measurements
        .iter()
        .filter_map(|m| Some((m, failing(m.status)?, m.reason.as_deref().unwrap_or("no reason given"))))
}

/// Lists cases without a valid result on some nodes: one line per case, with the first reason.
fn lost_on_machines(run: &Run) -> Vec<String> {
    let by_case = grouped(failures(run).map(|one| ((one.1, one.0.case.id()), one)));
    let lines = by_case.into_iter().filter_map(|((word, _), all)| {
        let (first, _, reason) = all.first()?;
        let of = plimsoll_units::text::shown_within(&first.node, 64);
        let machines = format_count(all.len(), "machine");
        Some(format!("{}: {word} on {machines}, such as {of}: {reason}", label(&first.case)))
    });
    lines.collect()
}

fn lost(run: &Run) -> Vec<String> {
    const MAX_NAMED: usize = 4;
    let by_reason = grouped(failures(run).map(|(m, word, reason)| ((word, reason), label(&m.case))));
    let line = |((word, reason), names): ((&str, &str), Vec<String>)| {
        format!("{}: {word}: {reason}", and_more(&names, MAX_NAMED))
    };
    by_reason.into_iter().map(line).collect()
}

fn is_an_outlier(finding: &Finding) -> bool {
    fleet::is_about_nodes(finding) && finding.is_for_the_worse()
}

/// Builds the list of findings; the first ones and all outliers are unfolded.
pub(super) fn findings(run: &Run) -> Markup {
    let points = points(run);
    let last = points.iter().rposition(|point| point.is_open).map_or(0, |last| last + 1);
    let (open, more) = points.split_at(points.len().min(last.max(OPEN)));
    let list = |points: &[FirstScreenLine]| html! { ul { @for point in points { li.bad[point.is_bad] { (point.text) } } } };
    html! {
        section.findings aria-label="Findings" {
            h3 { "Findings" }
            @if open.is_empty() { p.note { "none, and no case failed" } } @else { (list(open)) }
            @if !more.is_empty() { details { summary { (more.len()) " more" } (list(more)) } }
        }
    }
}

/// Builds the folded table of a subsystem's metrics, with limits, conditions and warnings.
pub(super) fn figures(run: &Run, part: &str) -> Markup {
    let all = run.measurements.iter().filter(|m| m.case.subsystem() == part);
    html! {
        details.figures {
            summary { "All figures, limits, conditions and warnings" }
            div.wide { table {
                thead { tr { th { "case" } th { "metric" } th.n { "median" } th.n { "95 % interval" } th.n { "n" } th.n { "limit" } th.n { "of limit" } th { "conditions" } } }
                tbody { @for measurement in all { (rows(measurement)) } }
            } }
        }
    }
}

fn rows(measurement: &Measurement) -> Markup {
    let row = MeasurementRow::of(measurement);
    html! {
        @if measurement.metrics.is_empty() {
            tr { td { (row.label) } td colspan="7" { (measurement.reason.as_deref().unwrap_or("not measured")) } }
        }
        @for (index, metric) in measurement.metrics.iter().enumerate() {
            tr {
                @if index == 0 { td title=(measurement.case.id()) { (row.label) " " span.note { (row.level.iter().chain(&row.explained).map(String::as_str).collect::<Vec<_>>().join(" · ")) } } } @else { td {} }
                td { (metric.name) }
                (numbers(metric))
                td { @if index == 0 { (ran_under(measurement)) } }
            }
        }
        @if measurement.status == Status::Invalid {
            tr.warn { td {} td colspan="7" { "invalid: " (measurement.reason.as_deref().unwrap_or_default()) } }
        }
        @for warning in &measurement.warnings { tr.warn { td {} td colspan="7" { "! " (warning.text) } } }
    }
}

fn numbers(metric: &MetricResult) -> Markup {
    let figure = |value: f64| Quantity::new(value, metric.unit).to_string();
    let interval = metric.summary.ci95.map(|[low, high]| format!("{} … {}", figure(low), figure(high)));
    html! {
        td.n { (figure(metric.summary.median)) }
        td.n { (interval.unwrap_or_else(|| "–".to_owned())) }
        td.n { (metric.summary.n) }
        td.n {
            @match &metric.limit {
                None => { "–" }
                Some(limit) => {
                    details.limit {
                        summary { (limit.quantity(metric.unit).map_or("unknown".to_owned(), |q| q.to_string())) }
                        @if !limit.formula.is_empty() { p { code { (limit.formula) } } }
                        @for input in &limit.inputs { p { (input.name) " = " (significant(input.value, 5)) " " (input.unit) ": " (input.from) } }
                        @if let Some(reason) = &limit.reason { p { (reason) } }
                    }
                }
            }
        }
        td.n { (metric.rated_share().map_or("–".to_owned(), |s| percent(s, 3))) }
    }
}

pub(super) fn ran_under(measurement: &Measurement) -> String {
    let c = &measurement.conditions;
    let mut stated: Vec<String> = Vec::new();
    stated.extend(c.clock_hz.map(|hz| Quantity::new(hz, Unit::Hertz).to_string()));
    let shares =
        [("steal", c.steal), ("excluded", c.excluded), ("throttled", c.throttled), ("waited", c.waited)];
    let known = shares.into_iter().filter_map(|(name, share)| Some((name, share.filter(|s| *s >= 0.001)?)));
    stated.extend(known.map(|(name, share)| format!("{name} {}", percent(share, 2))));
    stated.join(" · ")
}

/// Builds the folded table of all comparisons with reference tools, with their commands.
pub(super) fn tool_results(run: &Run) -> Markup {
    const FIGURES: std::ops::Range<usize> = 2..8;
    html! {
        details.figures {
            summary { "All comparisons with reference tools" }
            div.wide { table {
                thead { tr {
                    @for (column, name) in COLUMN_TITLES.iter().enumerate() { th.n[FIGURES.contains(&column)] { (name) } }
                    th { "how" }
                } }
                tbody { @for line in compared(run) { tr {
                    @for (column, cell) in line.cells().iter().enumerate() {
                        td.n[FIGURES.contains(&column)] { (cell) }
                    }
                    td {
                        span.note { (line.tool_result.version.as_deref().unwrap_or_default()) }
                        details.limit { summary { "command" } code { (line.tool_result.command.join(" ")) } }
                    }
                } } }
            } }
            p.note { (RATIO) }
        }
    }
}

pub(super) fn machine(run: &Run) -> Markup {
    let mut sections = crate::report::machine::describe(&run.machine);
    let own = run.nodes.first().and_then(|node| run.health.iter().find(|one| one.node == node.name));
    sections.extend(own.and_then(|one| crate::report::machine::health(&one.shown)));
    let text = crate::report::machine::text(&sections, 110);
    let caches = run.machine.cpu.caches.iter();
    let caches = caches.filter_map(|c| Some(format!("L{} {}", c.level, format_size(c.size_bytes?))));
    html! {
        section {
            h2 { "Machine" }
            p { (machine_line(&run.machine)) " · " (caches.collect::<Vec<_>>().join(", ")) }
            details { summary { "All that was discovered" } pre { (text) } }
            p.note { "run " (run.id) " · seed " (run.seed) " · " (crate::report::span(run.elapsed_s)) }
        }
    }
}
