//! Charts of efficiency: shares of the limit; limit ÷ measured for latencies.

use plimsoll_published::{LATENCY_METRIC, PublishedFigure, PublishedReport};
use plimsoll_result::document::Run;

use super::lines::ReportLines;
use super::plot::{Plot, covers};
use super::today::PointToday;
use crate::report::html::data::{Chart, ChartAxis, SeriesRole};
use crate::report::joined;

/// Builds the chart of shares of the limit in percent, `today` (by point of `plot`) beside the
/// published ones; `None` if the report prints no efficiencies.
pub(super) fn chart(
    plot: &Plot<'_>,
    baseline: &PublishedReport,
    run: &Run,
    today: &[PointToday<'_>],
) -> Option<Chart> {
    let mut lines = ReportLines::new(plot.columns());
    let title = baseline.title();
    for (column, (point, today)) in plot.points.iter().zip(today).enumerate() {
        let share = |value: f64| Some([today.share(value)? * 100.0]);
        if let Some(share) = today.figure().and_then(|[mean, ..]| share(mean)) {
            lines.add("this run", SeriesRole::Own, column, &share, point.words());
        }
        for tool in today.tools() {
            if let Some(share) = share(tool.figure) {
                lines.add(
                    &format!("{}, this run", tool.name),
                    SeriesRole::Tool,
                    column,
                    &share,
                    point.words(),
                );
            }
        }
        for figure in plot.published_numbers(baseline, *point).filter(|f| is_of(baseline, f, point.figure)) {
            let (of, role) = match figure.source {
                "efficiency-own" => {
                    (Some(point.figure).filter(|own| own.threads == figure.threads), SeriesRole::Published)
                }
                "efficiency-reference" => (program(baseline, figure), SeriesRole::Program),
                _ => continue,
            };
            let source =
                if role == SeriesRole::Published { "" } else { of.map_or("reference", |of| of.source) };
            let doubt = [Some(figure), of].into_iter().flatten().find_map(|f| f.doubt);
            let (what, role) = doubt.map_or(("", role), |doubt| (doubt.verdict, SeriesRole::Doubted));
            let why = doubt.map(|doubt| format!(", {doubt}")).unwrap_or_default();
            let label = format!("{}, printed {} %{why}", point.words(), figure.value);
            if let Ok(value) = figure.value.parse::<f64>() {
                let share = if figure.metric == LATENCY_METRIC { 10_000.0 / value } else { value };
                lines.add(&joined(&[source, what, &title], ", "), role, column, &[share], label);
            }
        }
    }
    let of_report = [SeriesRole::Published, SeriesRole::Program, SeriesRole::Doubted];
    let printed = of_report.into_iter().any(|role| lines.has(role));
    let of = division(plot.points[0].figure.metric);
    let scaled = if run.plan.scale == 1.0 { "" } else { "; small work of a scaled run counts against it" };
    let note = format!("{of}{scaled}");
    let own = if lines.has(SeriesRole::Own) { "" } else { "; none of this run, whose limit is unknown" };
    let title = format!("{}, efficiency", plot.title());
    let axis = ChartAxis::linear("share of theory or limit", "%");
    printed.then(|| lines.chart(title, format!("{note}{own}"), plot.axis(), axis))
}

/// Describes how the shares of a metric are computed.
pub(super) fn division(metric: &str) -> &'static str {
    match metric {
        LATENCY_METRIC => "limit ÷ measured; the report prints measured ÷ limit, which is turned round here",
        _ => "measured ÷ limit",
    }
}

/// Returns whether the efficiency belongs to `point`. An efficiency in the text belongs to the
/// points with the result that the text states, or to all points if none has it.
fn is_of(baseline: &PublishedReport, efficiency: &PublishedFigure, point: &PublishedFigure) -> bool {
    if efficiency.source != "efficiency-own" || !efficiency.is_of_text() {
        return true;
    }
    let stated = |own: &&PublishedFigure| own.source == "own" && own.is_of_text() && point.matches_text(own);
    let numbers: Vec<f64> =
        baseline.figures.iter().filter(stated).filter_map(PublishedFigure::number).collect();
    let has_it = |f: &PublishedFigure| f.number().is_some_and(|number| numbers.contains(&number));
    let mut points =
        baseline.figures.iter().filter(|f| f.is_own_point() && !f.is_of_text() && f.matches_text(efficiency));
    has_it(point) || !points.any(has_it)
}

fn program<'a>(baseline: &'a PublishedReport, efficiency: &PublishedFigure) -> Option<&'a PublishedFigure> {
    let same =
        |f: &&PublishedFigure| f.is_reference() && f.metric == efficiency.metric && covers(f, efficiency);
    baseline.figures.iter().find(same)
}
