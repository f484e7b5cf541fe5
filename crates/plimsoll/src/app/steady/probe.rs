//! The probe before and after the command: the cases of the plan `steady`, by the run loop.

use std::time::Duration;

use plimsoll_bench::Better;
use plimsoll_bench::label::full;
use plimsoll_command::cli::{Common, Measurable, SteadyCommand};
use plimsoll_model::measurement::Measurement;
use plimsoll_steady::ProbeLevel;
use plimsoll_units::text::shown_path;

use super::super::prepared::{PreparedRun, is_on_files};
use super::super::{Failure, carry_out, document};
use super::child::SignalRelay;

/// Longest time of one probe; cases that are not done by then are left out.
const MOST_TIME: Duration = Duration::from_millis(1900);
/// Smallest change between two probes that may be real, as a share.
const LEAST_CHANGE: f64 = 0.2;
/// Multiple of the confidence interval's half width that may be real.
const HALF_WIDTHS: f64 = 4.0;

pub(super) fn prepare(typed: &SteadyCommand) -> Result<PreparedRun, Failure> {
    if let Some(dir) = typed.disk.as_ref().filter(|dir| !dir.is_dir()) {
        return Err(Failure::usage(format!("--disk must be a directory: {} is not", shown_path(dir))));
    }
    let common = Common { dir: typed.disk.clone(), quiet: true, ..Common::default() };
    let plan = Measurable::Plan("steady".to_owned());
    let mut prepared = PreparedRun::new(&plan, &common, None, common.dir.is_some())?;
    prepared.planned.retain(|planned| {
        planned.candidate.feasible.is_ok() && (typed.disk.is_some() || !is_on_files(planned))
    });
    Ok(prepared)
}

/// Measures the cases for at most [`MOST_TIME`]. Returns those that have a figure.
pub(super) fn measure(prepared: &PreparedRun, relay: &SignalRelay) -> Vec<Measurement> {
    let ends = relay.probe_ends(MOST_TIME);
    let ran = carry_out(prepared, document(prepared), ends, None, &mut drop);
    ran.map(|(run, _)| run.measurements).unwrap_or_default()
}

/// Joins the figures of the probe before and after the command.
pub(super) fn levels(before: &[Measurement], after: &[Measurement]) -> Vec<ProbeLevel> {
    let level = |measurement: &Measurement| {
        let metric = measurement.headline()?;
        let after =
            after.iter().filter(|after| after.case == measurement.case).find_map(Measurement::headline);
        let widths = [Some(metric), after].into_iter().flatten().filter_map(|metric| {
            let [low, high] = metric.summary.ci95?;
            Some(HALF_WIDTHS * (high - low) / 2.0 / metric.summary.median)
        });
        Some(ProbeLevel {
            name: format!("{} {}", full(&measurement.case), metric.name),
            unit: metric.unit.to_string(),
            higher_is_better: metric.better == Better::Higher,
            noise: widths.fold(LEAST_CHANGE, f64::max),
            before: Some(metric.summary.median),
            after: after.map(|metric| metric.summary.median),
        })
    };
    before.iter().filter_map(level).collect()
}
