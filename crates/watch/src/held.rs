//! The settings that held a case to a rate at each probe: a shaper on the interface, a control group's limit on the device.

use plimsoll_bench::{Setting, subsystem_of};
use plimsoll_model::measurement::Measurement;

use crate::journal::{Kept, Probe};

/// What held a case at a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Held {
    /// Seconds from the begin of the watch to the sample.
    pub(crate) at: f64,
    /// `None` where nothing did.
    pub(crate) by: Option<Setting>,
}

/// What held the case of a measurement, at each probe that has it. Only rates of disks and networks can be set.
pub(crate) fn settings(kept: &Kept, measurement: &Measurement) -> Vec<Held> {
    let subsystem = subsystem_of(&measurement.case);
    if !subsystem.on_files && !subsystem.uses_interfaces {
        return Vec::new();
    }
    let mut machine = kept.begun.run.machine.clone();
    let mut then = measurement.clone();
    for metric in &mut then.metrics {
        (metric.samples, metric.series) = (Vec::new(), Vec::new());
    }
    let of = |probe: &Probe| {
        let probed = probe.cases.iter().find(|probed| probed.case == measurement.case)?;
        let sample = probed.samples.first()?;
        then.conditions.clone_from(&sample.conditions);
        machine.cgroup.io.clone_from(&probe.io_limits);
        Some(Held { at: sample.at, by: (subsystem.setting)(&then, &machine) })
    };
    kept.probes.iter().filter_map(of).collect()
}

impl Held {
    /// The rate; without end where nothing held it.
    pub(crate) fn rate(self) -> f64 {
        self.by.map_or(f64::INFINITY, |setting| setting.rate.value)
    }
}

/// The pairs of neighbours between which it changed.
pub(crate) fn changes(settings: &[Held]) -> impl Iterator<Item = (Held, Held)> {
    let pairs = settings.iter().copied().zip(settings.iter().skip(1).copied());
    pairs.filter(|(before, after)| before.by != after.by)
}
