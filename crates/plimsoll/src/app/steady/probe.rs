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

/// Measures the cases for at most [`MOST_TIME`]. Returns the results in the field `before`.
pub(super) fn measure(prepared: &PreparedRun, relay: &SignalRelay) -> Vec<ProbeLevel> {
    let ends = relay.signal_or_timeout(MOST_TIME);
    let ran = carry_out(prepared, document(prepared), ends, None, &mut drop);
    levels(&ran.map(|(run, _)| run.measurements).unwrap_or_default())
}

fn levels(measurements: &[Measurement]) -> Vec<ProbeLevel> {
    let level = |measurement: &Measurement| {
        let metric = measurement.headline()?;
        let width = |[low, high]: [f64; 2]| HALF_WIDTHS * (high - low) / 2.0 / metric.summary.median;
        Some(ProbeLevel {
            name: format!("{} {}", full(&measurement.case), metric.name),
            unit: metric.unit.to_string(),
            higher_is_better: metric.better == Better::Higher,
            noise: metric.summary.ci95.map_or(LEAST_CHANGE, |interval| width(interval).max(LEAST_CHANGE)),
            before: Some(metric.summary.median),
            after: None,
        })
    };
    measurements.iter().filter_map(level).collect()
}

/// Sets `after` in each of `levels` to the result of the same name in `after`.
pub(super) fn join(levels: &mut [ProbeLevel], after: &[ProbeLevel]) {
    for level in levels {
        if let Some(after) = after.iter().find(|after| after.name == level.name) {
            (level.noise, level.after) = (level.noise.max(after.noise), after.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_after_is_that_of_the_same_name_and_the_larger_noise_counts() {
        let level = |name: &str, noise: f64, before: f64| ProbeLevel {
            name: name.to_owned(),
            unit: "s".to_owned(),
            higher_is_better: false,
            noise,
            before: Some(before),
            after: None,
        };
        let mut levels = [level("a", 0.2, 1.0), level("b", 0.5, 2.0), level("c", 0.2, 3.0)];
        join(&mut levels, &[level("c", 0.3, 30.0), level("b", 0.2, 20.0), level("d", 0.9, 40.0)]);
        assert_eq!(levels.each_ref().map(|one| one.after), [None, Some(20.0), Some(30.0)]);
        assert_eq!(
            levels.map(|one| (one.before, one.noise)),
            [(Some(1.0), 0.2), (Some(2.0), 0.5), (Some(3.0), 0.3),]
        );
    }
}
