//! Charts of the published report that a run replays: this run's results beside published ones.

mod document;
mod lines;
mod plots;
mod tables;
mod together;

use maud::{Markup, html};
use plimsoll_published::PublishedReport;
use plimsoll_result::document::Run;

use super::data::{Chart, number};
use super::stated::StatedCases;
use super::{page, single};
use crate::report::published::today::ReplayRuns;
use crate::report::{context, grouped};
use plots::plots;

pub(super) use document::document;
#[cfg(test)]
pub(super) use document::series;
#[cfg(test)]
pub(super) use tables::{DrawnChart, charts};
pub(super) use together::together;

pub(super) struct ReplayFigures {
    baseline: PublishedReport,
    /// Charts by subsystem.
    pub(super) parts: Vec<(&'static str, Vec<Chart>)>,
    missing: Vec<String>,
}

pub(super) fn of(run: &Run) -> Option<ReplayFigures> {
    let baseline = plimsoll_published::find(&run.plan.name)?;
    let runs = ReplayRuns::new(&baseline, std::iter::once(run));
    let (mut missing, mut drawn) = (Vec::new(), Vec::new());
    for plot in plots(&baseline, run.plan.scale) {
        match plot.charts(&runs) {
            none if none.is_empty() => missing.push(plot.table.title),
            charts => drawn.extend(charts.into_iter().map(|chart| (plot.subsystem, chart))),
        }
    }
    let mut parts = grouped(drawn);
    number(parts.iter_mut().flat_map(|(_, charts)| charts), "report");
    Some(ReplayFigures { baseline, parts, missing })
}

impl ReplayFigures {
    pub(super) fn section(&self, run: &Run) -> Markup {
        html! {
            section {
                h2 { "Figures of the published report " (self.baseline.name) }
                p.note {
                    "One chart for each operation and metric of the report. Published: " (self.baseline.machine) ", " (self.baseline.year)
                    ". This run: the mean of its samples, bars from the least to the most."
                    @if run.plan.scale != 1.0 {
                        " Its volumes, work and file sizes are scaled to " (run.plan.scale) ", the published ones are not."
                    }
                }
                @for (subsystem, charts) in &self.parts {
                    h3 { (context::title(subsystem)) }
                    div.charts { @for chart in charts { (page::figure(chart)) } }
                }
                @if !self.missing.is_empty() {
                    p.note { "Not in this run: " (self.missing.join("; ")) "." }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
