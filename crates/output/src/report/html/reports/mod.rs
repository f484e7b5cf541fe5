//! Charts of the published report that a run replays: this run's results beside published ones.

mod document;
mod lines;
mod plot;
mod programs;
mod shares;
mod tables;
mod today;
mod together;

use maud::{Markup, html};
use plimsoll_published::PublishedReport;
use plimsoll_result::document::Run;

use super::data::Chart;
use super::stated::StatedCases;
use super::{page, single};
use crate::report::context;
use plot::plots;

pub(super) use document::document;
#[cfg(test)]
pub(super) use document::series;
#[cfg(test)]
pub(super) use tables::charts;
pub(super) use together::together;

pub(super) struct SubsystemCharts {
    subsystem: &'static str,
    pub(super) charts: Vec<Chart>,
}

pub(super) struct ReplayFigures {
    baseline: PublishedReport,
    pub(super) parts: Vec<SubsystemCharts>,
    missing: Vec<String>,
}

pub(super) fn of(run: &Run) -> Option<ReplayFigures> {
    let baseline = plimsoll_published::find(&run.plan.name)?;
    let mut found = ReplayFigures { parts: Vec::new(), missing: Vec::new(), baseline: baseline.clone() };
    for plot in plots(&baseline) {
        match plot.charts(&baseline, run) {
            none if none.is_empty() => found.missing.push(plot.title()),
            charts => found.add(plot.subsystem(), charts),
        }
    }
    for (subsystem, chart) in programs::of(&baseline, run) {
        found.add(subsystem, vec![chart]);
    }
    let charts = found.parts.iter_mut().flat_map(|part| &mut part.charts);
    charts.enumerate().for_each(|(index, chart)| chart.id = format!("report-{index}"));
    Some(found)
}

impl ReplayFigures {
    fn add(&mut self, subsystem: &'static str, charts: Vec<Chart>) {
        match self.parts.iter_mut().find(|part| part.subsystem == subsystem) {
            Some(part) => part.charts.extend(charts),
            None => self.parts.push(SubsystemCharts { subsystem, charts }),
        }
    }

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
                @for part in &self.parts {
                    h3 { (context::title(part.subsystem)) }
                    div.charts { @for chart in &part.charts { (page::figure(chart)) } }
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
