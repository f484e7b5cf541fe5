//! Rate limits in force at each probe, by a shaper of the interface or a control group.

use plimsoll_bench::{Setting, subsystem_of};
use plimsoll_model::measurement::Measurement;

use crate::journal::{JournalContent, WatchProbe};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SettingAtProbe {
    /// Time of the sample in s from the start of the watch.
    pub(crate) at: f64,
    pub(crate) by: Option<Setting>,
}

/// Returns the rate limit at each probe of a case, by time; empty unless it uses disk or network.
pub(crate) fn settings(kept: &JournalContent, measurement: &Measurement) -> Vec<SettingAtProbe> {
    let subsystem = subsystem_of(&measurement.case);
    if !subsystem.on_files && !subsystem.uses_interfaces {
        return Vec::new();
    }
    let mut machine = kept.begun.run.machine.clone();
    let mut then = measurement.clone();
    for metric in &mut then.metrics {
        (metric.samples, metric.series) = (Vec::new(), Vec::new());
    }
    let of = |probe: &WatchProbe| {
        let probed = probe.cases.iter().find(|probed| probed.case == measurement.case)?;
        let sample = probed.samples.first()?;
        then.conditions.clone_from(&sample.conditions);
        machine.cgroup.io.clone_from(&probe.io_limits);
        Some(SettingAtProbe { at: sample.at, by: (subsystem.setting)(&then, &machine) })
    };
    kept.probes.iter().filter_map(of).collect()
}

impl SettingAtProbe {
    /// Returns the rate limit in its base unit, such as bytes/s; infinite if there is no limit.
    pub(crate) fn rate(self) -> f64 {
        self.by.map_or(f64::INFINITY, |setting| setting.rate.value)
    }
}

/// Yields each change of the rate limit between successive probes as (before, after).
pub(crate) fn changes(settings: &[SettingAtProbe]) -> impl Iterator<Item = (SettingAtProbe, SettingAtProbe)> {
    let pairs = settings.iter().copied().zip(settings.iter().skip(1).copied());
    pairs.filter(|(before, after)| before.by != after.by)
}
