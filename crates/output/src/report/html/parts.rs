//! Text parts of the page: header, findings, tables, machine.

use maud::{Markup, html};
use plimsoll_bench::label::label;
use plimsoll_history::CaseCounts;
use plimsoll_machine::Machine;
use plimsoll_machine::cpu::CacheKind;
use plimsoll_model::measurement::{Measurement, MetricResult, Status, ToolResult};
use plimsoll_model::warning::CAUSES;
use plimsoll_result::document::{Finding, Run, RunStatus};
use plimsoll_result::fleet;
use plimsoll_stats::EquivalenceVerdict;
use plimsoll_units::quantity::{Quantity, Unit, format_size, percent, significant};
use plimsoll_units::text::format_count;

use crate::report::context::{host_or_count, title};
use crate::report::row::{GOOD, Grade, MeasurementRow};
use crate::report::section::{count_warnings, has_mark};
use crate::report::tool_results::{COLUMN_TITLES, RATIO, compared};
use crate::report::{and_more, conditions, grouped, subsystems};

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

/// Builds the page's header: machine, run, shares of limits, disturbances, agreement with tools.
pub(super) fn header(run: &Run) -> Markup {
    let (cases, counts) = counts(run);
    html! {
        header {
            div.name {
                h1 { (host_or_count(run).unwrap_or_else(|| "this machine".to_owned())) }
                p.machine { (machine_line(&run.machine)) }
            }
            @if let Some(verdict) = crate::report::verdict::verdict(run) { p.verdict.(verdict.grade.class()) { (verdict.text) } }
            div.verdicts {
                (verdict("Limits", &limits(run)))
                (verdict("Conditions", &quiet(run)))
                (verdict("Reference tools", &agreement(run)))
                (verdict(&cases, &counts))
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

/// Counts the results that deliver 90 % of their limit, in total and per subsystem, and those that
/// reach it undisturbed; separately those with more than half of their time excluded.
pub(super) fn limits(run: &Run) -> VerdictText {
    let judged = run.measurements.iter().filter(|m| m.headline().is_some() && !m.is_mostly_excluded());
    let judged: Vec<(&Measurement, Grade)> = judged.map(|m| (m, Grade::of(m))).collect();
    // Numbers of good results, and of results with a limit, of these subsystems.
    let count = |parts: &[&str]| {
        let known = judged.iter().filter(|(_, grade)| *grade != Grade::Unknown);
        let known = known.filter(|(m, _)| parts.contains(&m.case.subsystem()));
        [known.clone().filter(|(_, grade)| *grade == Grade::Good).count(), known.count()]
    };
    let parts = subsystems(run);
    let [good, known] = count(&parts);
    let (grade, word) = match known {
        0 => (Grade::Unknown, "none known".to_owned()),
        n => {
            let grade = if good == n { Grade::Good } else { Grade::Fair };
            (grade, format!("{good} of {n} rated deliver {}", percent(GOOD, 2)))
        }
    };
    let parts = parts.into_iter().map(|part| (part, count(&[part]))).filter(|(_, [_, known])| *known > 0);
    let parts = parts.map(|(part, [good, known])| format!("{} {good} of {known}", title(part)));
    let mut why: Vec<String> = parts.collect();
    let shares = judged.iter().filter_map(|(m, _)| m.headline()?.rated_share());
    let undisturbed = shares.filter(|share| *share >= GOOD).count();
    why.extend((undisturbed != good).then(|| format!("undisturbed {undisturbed} of {known}")));
    match judged.len() - known {
        0 => {}
        _ if known == 0 => why.push("give them with --limits FILE".to_owned()),
        n => why.push(format!("{n} without a limit of their own")),
    }
    let n = run.measurements.iter().filter(|m| m.is_mostly_excluded()).count();
    why.extend((n > 0).then(|| format!("{n} not rated: more than half of their time is excluded")));
    VerdictText { grade, word, why: why.join(" · ") }
}

/// Judges whether the machine was quiet, by the number of cases that lost time (stolen, throttled,
/// waiting for a CPU, excluded as interrupted) and the largest loss.
pub(super) fn quiet(run: &Run) -> VerdictText {
    let lost = |m: &&Measurement| m.warnings.iter().any(|w| CAUSES.contains(&w.code.as_str()));
    let disturbed = run.measurements.iter().filter(lost).count();
    let losses = run.measurements.iter().flat_map(|m| {
        let c = &m.conditions;
        let shares = [
            (c.steal, "stolen by the host"),
            (c.throttled, "throttled by a quota"),
            (c.waited, "waiting for a CPU"),
            (c.excluded, "left out of the median"),
        ];
        shares.into_iter().filter_map(move |(share, what)| Some((share?, what, m)))
    });
    let worst = losses.filter(|(share, ..)| share.is_finite()).max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((share, what, m)) = worst else {
        return VerdictText { grade: Grade::Unknown, word: "not recorded".to_owned(), why: String::new() };
    };
    let why = format!("most: {} of the time {what}, {}", percent(share, 2), label(&m.case));
    let (grade, word) = match disturbed {
        0 if share < DISTURBED => (Grade::Good, "quiet".to_owned()),
        n => {
            let cases = format_count(run.measurements.len(), "case");
            (Grade::Poor, format!("{} of {cases} interrupted", n.max(1)))
        }
    };
    VerdictText { grade, word, why }
}

pub(super) fn has_tools(run: &Run) -> bool {
    compared(run).next().is_some()
}

fn agreement(run: &Run) -> VerdictText {
    let given = compared(run).filter_map(|one| Some((one.item, one.item.ratio?.median)));
    let given: Vec<(&ToolResult, f64)> = given.collect();
    let equivalent = given.iter().filter(|(p, _)| p.verdict == EquivalenceVerdict::Equivalent).count();
    let within = |(p, ratio): &&(&ToolResult, f64)| (1.0 / (1.0 + p.margin)..=1.0 + p.margin).contains(ratio);
    let near = given.iter().filter(within).count();
    let (grade, word, why) = match given.len() {
        0 if !has_tools(run) => {
            let how = "plimsoll run PLAN --against installed measures them, too";
            (Grade::Unknown, "not run".to_owned(), how.to_owned())
        }
        0 => (Grade::Unknown, "none gave a figure".to_owned(), String::new()),
        n => {
            let grade = match () {
                () if equivalent == n => Grade::Good,
                () if near * 2 >= n => Grade::Fair,
                () => Grade::Poor,
            };
            let why = format!("{equivalent} shown equivalent; {near} with a ratio within the margin");
            (grade, format!("{near} of {n} figures agree"), why)
        }
    };
    VerdictText { grade, word, why }
}

/// Returns `12 cases`, and the numbers of cases by outcome and warning with a grade.
fn counts(run: &Run) -> (String, VerdictText) {
    let counts = CaseCounts::of(&run.measurements);
    let warned = run.measurements.iter().filter(|m| has_mark(m)).count();
    let grade = match counts.failed + counts.invalid {
        0 if warned == 0 => Grade::Good,
        0 => Grade::Fair,
        _ => Grade::Poor,
    };
    let warnings = if warned > 0 { format!(", {warned} with warnings") } else { String::new() };
    let word = counts.lines().join(" · ") + &warnings;
    let why = count_warnings(run.measurements.iter().map(|m| m.warnings.as_slice()), &[]);
    (format!("{} cases", counts.total()), VerdictText { grade, word, why })
}

struct FirstScreenLine {
    is_bad: bool,
    is_open: bool,
    text: String,
}

/// Returns the first lines of the page: partial run, conditions, failed cases, findings.
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
    let point = |finding: &Finding| FirstScreenLine {
        is_bad: fleet::reports_missing_part(finding) || finding.is_for_the_worse(),
        is_open: fleet::is_about_nodes(finding) && finding.is_for_the_worse(),
        text: finding.text.clone(),
    };
    let found = |is: fn(&Finding) -> bool| run.findings.iter().filter(move |one| is(one)).map(point);
    points.extend(found(|one| fleet::is_about_nodes(one) && !fleet::reports_missing_part(one)));
    points.extend(found(fleet::reports_missing_part));
    points.extend(lost(run).into_iter().map(bad));
    points.extend(found(|one| !fleet::is_about_nodes(one)));
    points
}

/// Formats the cases without a valid result: a line per reason, or for several nodes a line per
/// case with the reason of the first.
fn lost(run: &Run) -> Vec<String> {
    const MAX_NAMED: usize = 4;
    let lost = run.measurements.iter().filter(|m| matches!(m.status, Status::Failed | Status::Invalid));
    let lost = lost.map(|m| (m, m.status.word(), m.reason.as_deref().unwrap_or("no reason given")));
    if run.nodes.len() < 2 {
        let by_reason = grouped(lost.map(|(m, word, reason)| ((word, reason), label(&m.case))));
        let line = |((word, reason), names): ((&str, &str), Vec<String>)| {
            format!("{}: {word}: {reason}", and_more(&names, MAX_NAMED))
        };
        return by_reason.into_iter().map(line).collect();
    }
    let by_case = grouped(lost.map(|one| ((one.1, one.0.case.id()), one)));
    let lines = by_case.into_iter().filter_map(|((word, _), all)| {
        let (first, _, reason) = all.first()?;
        let of = plimsoll_units::text::shown_within(&first.node, 64);
        let machines = format_count(all.len(), "machine");
        Some(format!("{}: {word} on {machines}, such as {of}: {reason}", label(&first.case)))
    });
    lines.collect()
}

/// Builds the list of findings, folded after the fifth and after the last outlier among nodes.
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

/// Builds the folded table of the metrics of subsystem `part`: limits, conditions and warnings.
pub(super) fn figures(run: &Run, part: &str) -> Markup {
    let all = run.measurements.iter().filter(|m| m.case.subsystem() == part);
    html! {
        details.figures {
            summary { "All figures, limits, conditions and warnings" }
            div.wide { table.cases {
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
            tr.case { td { (row.label) } td colspan="7" { (measurement.reason.as_deref().unwrap_or("not measured")) } }
        }
        @for (index, metric) in measurement.metrics.iter().enumerate() {
            tr.case[index == 0] {
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
    let none = || "–".to_owned();
    let interval = metric.summary.ci95.map(|[low, high]| format!("{} … {}", figure(low), figure(high)));
    html! {
        td.n { (figure(metric.summary.median)) }
        td.n { (interval.unwrap_or_else(none)) }
        td.n { (metric.summary.n) }
        td.n {
            @if let Some(limit) = &metric.limit {
                details.limit {
                    summary { (limit.quantity(metric.unit).map_or("unknown".to_owned(), |q| q.to_string())) }
                    @if !limit.formula.is_empty() { p { code { (limit.formula) } } }
                    @for input in &limit.inputs { p { (input.name) " = " (significant(input.value, 5)) " " (input.unit) ": " (input.from) } }
                    @if let Some(reason) = &limit.reason { p { (reason) } }
                }
            } @else { (none()) }
        }
        td.n { (metric.rated_share().map_or_else(none, |s| percent(s, 3))) }
    }
}

pub(super) fn ran_under(measurement: &Measurement) -> String {
    let c = &measurement.conditions;
    let clock = c.clock_hz.map(|hz| Quantity::new(hz, Unit::Hertz).to_string());
    let shares =
        [("steal", c.steal), ("excluded", c.excluded), ("throttled", c.throttled), ("waited", c.waited)];
    let known = shares.into_iter().filter_map(|(name, share)| Some((name, share.filter(|s| *s >= 0.001)?)));
    let known = known.map(|(name, share)| format!("{name} {}", percent(share, 2)));
    clock.into_iter().chain(known).collect::<Vec<_>>().join(" · ")
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
                        span.note { (line.item.version.as_deref().unwrap_or_default()) }
                        details.limit { summary { "command" } code { (line.item.command.join(" ")) } }
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
    let kind = |kind| match kind {
        CacheKind::Data => " data",
        CacheKind::Instruction => " instruction",
        CacheKind::Unified | CacheKind::Unknown => "",
    };
    let caches =
        caches.filter_map(|c| Some(format!("L{}{} {}", c.level, kind(c.kind), format_size(c.size_bytes?))));
    html! {
        section {
            h2 { "Machine" }
            p { (machine_line(&run.machine)) " · " (caches.collect::<Vec<_>>().join(", ")) }
            details { summary { "All that was discovered" } pre { (text) } }
            p.note { "run " (run.id) " · seed " (run.seed) " · " (crate::report::span(run.elapsed_s)) }
        }
    }
}
