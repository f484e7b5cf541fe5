//! The probe before and after the command: the cases of the plan `steady`, by the run loop.

use std::time::Duration;

use plimsoll_bench::Better;
use plimsoll_bench::label::full;
use plimsoll_command::cli::{Common, Measurable, SteadyCommand};
use plimsoll_machine::Machine;
use plimsoll_model::measurement::Measurement;
use plimsoll_run::SingleNodePace;
use plimsoll_steady::ProbeLevel;
use plimsoll_system::wall;

use super::super::prepared::PreparedRun;
use super::super::{Failure, MachineRun, document};
use super::child::SignalRelay;

/// Longest time of one probe; cases that are not done by then are left out.
const MOST_TIME: Duration = Duration::from_millis(1900);
/// Smallest change between two probes that may be real, as a share.
const LEAST_CHANGE: f64 = 0.2;
/// Multiple of the confidence interval's half width that may be real.
const HALF_WIDTHS: f64 = 4.0;

pub(super) struct MachineProbe {
    prepared: PreparedRun,
}

impl MachineProbe {
    pub(super) fn new(typed: &SteadyCommand) -> Result<Self, Failure> {
        let common = Common { dir: typed.disk.clone(), quiet: true, ..Common::default() };
        let mut prepared = PreparedRun::where_named(&Measurable::Plan("steady".to_owned()), &common, None)?;
        prepared.planned.retain(|planned| {
            let case = &planned.candidate.case;
            planned.candidate.feasible.is_ok()
                && (typed.disk.is_some() || !plimsoll_bench::subsystem_of(case).on_files)
        });
        Ok(Self { prepared })
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.prepared.machine
    }

    /// Measures the cases for at most [`MOST_TIME`]. Returns those that have a figure.
    pub(super) fn measure(&self, relay: &SignalRelay) -> Vec<Measurement> {
        let ends = relay.probe_ends(MOST_TIME);
        let run = document(&self.prepared, &wall::run_id(), None);
        let Ok(mut machine_run) = MachineRun::new(&self.prepared, run, ends, None) else { return Vec::new() };
        machine_run.carry_out(&self.prepared, &mut SingleNodePace, &mut |_| {});
        machine_run.document.measurements
    }
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
