//! Gauges: each headline as a line that is full at its limit, with marks for reference tools,
//! published results and the last run. Without a limit, our result is a mark, too.

use maud::{Markup, html};
use plimsoll_bench::Better;
use plimsoll_bench::label::label;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_result::document::Run;
use plimsoll_units::quantity::{Quantity, percent};

use super::alike::blocks;
use super::stated::StatedCases;
use super::{ReferenceFigure, parts};
use crate::report::context::{context, title};
use crate::report::row::{Grade, MeasurementRow, bound};
use crate::report::section::{IN_INTERVAL_COLUMN, STAR, doubt_mark, is_wide};
use crate::report::{card, grouped};

const GAUGE_END: f64 = 1.08;

/// Returns whether the gauge of a result without known limit compares it with marks.
pub(super) fn is_compared(measurement: &Measurement, references: &[ReferenceFigure]) -> bool {
    let unlimited = measurement.metrics.first().filter(|metric| own_limit(metric).is_none());
    unlimited.is_some_and(|metric| !GaugeLine::new(measurement, metric, references).marks.is_empty())
}

/// Returns the value of the limit, if it is known and the machine can have all of it.
pub(super) fn own_limit(metric: &MetricResult) -> Option<f64> {
    metric.limit.as_ref().filter(|limit| limit.scope.is_none())?.value
}

struct GaugeLine<'a> {
    measurement: &'a Measurement,
    metric: &'a MetricResult,
    marks: Vec<Mark>,
    full: f64,
}

struct Mark {
    kind: &'static str,
    name: String,
    value: f64,
}

/// Builds the gauges (bars that are full at the limit) of a run's main results, in blocks of cases
/// with equal planned settings (`stated`), with marks for `references`.
pub(super) fn gauges(run: &Run, stated: &StatedCases, references: &[ReferenceFigure]) -> Markup {
    let parts = grouped(run.measurements.iter().map(|m| (m.case.subsystem(), m)));
    html! {
        div.gauges {
            @for (part, all) in &parts {
                section.part {
                    h3 { (title(part)) @if let Some(first) = all.first() { span.context { (context(&run.machine, first).join(" · ")) } } }
                    @for block in blocks(all, stated) {
                        div.rows {
                            @let warned = words(in_words(&block.warned));
                            @if !block.heading.is_empty() { p.common { (block.heading) @if !warned.is_empty() { span.warned { " ! " (warned) } } } }
                            @for (measurement, name) in &block.rows {
                                (row(measurement, name, &block.warned, references))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Builds gauges (bars that are full at the limit) of the most important results, by subsystem.
pub(super) fn headlines(run: &Run) -> Markup {
    html! {
        @for (subsystem, measurement) in card::telling(run) {
            (row(measurement, &format!("{}: {}", title(subsystem), label(&measurement.case)), &[], &[]))
        }
    }
}

/// Builds a gauge (bar that is full at the limit) with the label `short`. Warnings with the codes
/// `reported`, shown elsewhere, are left out; `references` are drawn as marks.
fn row(measurement: &Measurement, short: &str, reported: &[&str], references: &[ReferenceFigure]) -> Markup {
    let MeasurementRow { label: whole, figures, details, .. } = MeasurementRow::of(measurement);
    let repeat = whole.strip_prefix(&label(&measurement.case)).unwrap_or_default();
    let name = format!("{short}{repeat}");
    let (Some(metric), Some(figures)) = (measurement.metrics.first(), figures) else {
        let reason = measurement.reason.as_deref().unwrap_or("no reason given");
        let word = if measurement.status == Status::Failed { "failed" } else { "skipped" };
        return html! {
            div.gauge { span.what { (name) } span.none title=(reason) { (word) ": " (reason) } }
        };
    };
    let line = GaugeLine::new(measurement, metric, references);
    let figure = |value: f64| Quantity::new(value, metric.unit).to_string();
    let at = |side: &str, value: f64| format!("{side}:{:.2}%", line.at(value) * 100.0 / GAUGE_END);
    let own = metric.summary.median;
    let known = own_limit(metric).is_some();
    let limit = limit_text(metric);
    let bound = metric.limit.as_ref().and_then(|limit| bound(limit, metric.unit));
    let conditions = parts::ran_under(measurement);
    let codes = measurement.warning_codes();
    let rest = words(in_words(&codes).filter(|code| !reported.contains(code)));
    let star = if is_wide(&measurement.warnings) { STAR } else { "" };
    html! {
        div.gauge.invalid[measurement.status == Status::Invalid].open[!known] tabindex="0" aria-label=(line.spoken(&whole, &figures.interval)) {
            span.what title=(measurement.case.id()) { (name) }
            span.value title=(conditions) { (doubt_mark(&measurement.warnings)) (figures.value) }
            span.interval title="95 % interval of the median" { (figures.interval) (star) }
            span.track.empty[!known && line.marks.is_empty()] title=(limit) {
                @if known {
                    span.fill.(figures.grade.class()).hatched[figures.delivered.is_some()] style=(at("width", own)) {}
                    @if let Some(delivered) = measurement.delivered() { span.fill.(figures.grade.class()) style=(at("width", delivered.value)) {} }
                    span.load style=(format!("left:{:.2}%", 100.0 / GAUGE_END)) {}
                } @else if !line.marks.is_empty() {
                    span.mark.own style=(at("left", own)) title=(format!("this run: {}", figure(own))) {}
                }
                @for mark in &line.marks {
                    span.mark.(mark.kind) style=(at("left", mark.value)) title=(format!("{}: {}", mark.name, figure(mark.value))) {}
                }
            }
            span.share {
                @match (measurement.status, figures.of_limit, figures.scope) {
                    (Status::Invalid, ..) => { "invalid" }
                    (_, Some(_), _) => { @if figures.grade == Grade::Unknown { span.unrated { (figures.share()) } } @else { (figures.share()) } @if let Some(of) = &bound { span.of { " of " (of) } } }
                    (_, None, Some(scope)) => { span.unknown title=(limit) { (scope.name()) @if let Some(of) = &bound { span.of { ": " (of) } } } }
                    (_, None, None) => { span.unknown title=(limit) { "no limit known" } }
                }
            }
            @if let Some(delivered) = &figures.delivered { span.warned.delivered { (delivered.value) " delivered" } }
            @if !details.is_empty() { span.remark { (details) } }
            @if !rest.is_empty() {
                @let all: Vec<&str> = measurement.warnings.iter().map(|w| w.text.as_str()).collect();
                span.warned title=(all.join("\n")) { "! " (rest) }
            }
        }
    }
}

/// Yields the warning codes except those that the column of the confidence interval shows.
fn in_words<'a>(codes: &[&'a str]) -> impl Iterator<Item = &'a str> {
    codes.iter().copied().filter(|code| !IN_INTERVAL_COLUMN.contains(code))
}

fn words<'a>(codes: impl IntoIterator<Item = &'a str>) -> String {
    codes.into_iter().collect::<Vec<_>>().join(", ").replace('-', " ")
}

fn limit_text(metric: &MetricResult) -> String {
    let Some(limit) = &metric.limit else { return "no limit has a meaning here".to_owned() };
    match limit.quantity(metric.unit) {
        Some(value) => format!("limit {value} = {}", limit.formula),
        None => format!("limit unknown: {}", limit.reason.as_deref().unwrap_or("no reason given")),
    }
}

impl<'a> GaugeLine<'a> {
    fn new(measurement: &'a Measurement, metric: &'a MetricResult, references: &[ReferenceFigure]) -> Self {
        let tools = metric.tool_results.iter();
        let tools = tools.filter_map(|p| Some(Mark { kind: "tool", name: p.tool.clone(), value: p.median? }));
        let mut marks: Vec<Mark> = tools.collect();
        let same = references.iter().filter(|r| r.is_of(measurement, metric));
        marks.extend(same.map(|r| Mark { kind: r.class, name: r.name.clone(), value: r.value }));
        marks.retain(|m| m.value.is_finite() && m.value > 0.0);
        let own = metric.summary.median;
        let values = || marks.iter().map(|m| m.value);
        let full = own_limit(metric).filter(|limit| *limit > 0.0).unwrap_or_else(|| match metric.better {
            Better::Higher => values().fold(own, f64::max) / 0.9,
            Better::Lower => values().fold(own, f64::min) * 0.9,
        });
        Self { measurement, metric, marks, full }
    }

    /// Returns a value's position on the gauge: 0 is empty, 1 is full (the limit), 1.08 the end.
    fn at(&self, value: f64) -> f64 {
        let share = self.metric.better.ratio(value, self.full);
        if share.is_finite() { share.clamp(0.0, GAUGE_END) } else { 0.0 }
    }

    fn spoken(&self, name: &str, interval: &str) -> String {
        let figure = |value: f64| Quantity::new(value, self.metric.unit).to_string();
        let share = self.metric.rated_share().map(|s| format!(", {} of its limit", percent(s, 3)));
        let share = share.unwrap_or_default();
        let marks: String = self.marks.iter().map(|m| format!("; {} {}", m.name, figure(m.value))).collect();
        let reason = self.measurement.reason.as_deref().map_or(String::new(), |r| format!("; invalid: {r}"));
        let codes = self.measurement.warning_codes();
        let warned = if codes.is_empty() { String::new() } else { format!("; warnings: {}", words(codes)) };
        let delivered = self.measurement.delivered();
        let delivered = delivered.map(|of| format!(" undisturbed, {} delivered", figure(of.value)));
        let median = figure(self.metric.summary.median);
        let value = format!("{median} {interval}{}", delivered.unwrap_or_default());
        format!("{name}: {}{share}{marks}{reason}{warned}", value.trim_end())
    }
}
