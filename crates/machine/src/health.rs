//! Health: what the system shows of hardware that is worn, too hot, slowed down or faulty.
//!
//! [`Health::read`] takes all of it, once a stored run. A [`Probe`] knows where the counters are, so that reading them around a case
//! is cheap. Everything is optional: what the system does not show is absent, and what only root may read is named in
//! [`Health::missing`].

mod counters;
mod energy;
mod fault;
mod link;
mod sensor;
mod smart;

pub use counters::{Controller, Counters, HealthChange, Interface, Probe, Throttled};
pub use energy::{Energy, Zone, used};
pub use fault::Fault;
pub use link::{Pace, PcieLink};
pub use sensor::Sensor;
pub(crate) use smart::pages as smart_pages;
pub use smart::{Drive, Smart};

use crate::root::{CPUINFO_CAP, ReadError, Root};
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The longest name or text that is kept, in characters.
const MAX_NAME_CHARACTERS: usize = 80;

/// All that the system shows of the hardware's health at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Revisions of the microcode that the CPUs run, each once (`cpuN/microcode/version`, else `/proc/cpuinfo`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub microcode: Vec<String>,
    /// Vulnerabilities of the processor and what the kernel does about each, without those that do not affect it
    /// (`/sys/devices/system/cpu/vulnerabilities`, Linux `Documentation/ABI/testing/sysfs-devices-system-cpu`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mitigations: BTreeMap<String, String>,
    /// PCI Express links that are slower or narrower than both of their ends can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PcieLink>,
    /// Temperatures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<Sensor>,
    /// What NVMe drives say of themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<Drive>,
    /// What is counted since boot.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub counters: Counters,
    /// What is there and may not be read by this user, each in a few words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// All temperatures that can be read now, in °C, without those that say nothing for sure.
pub fn temperatures(root: &Root) -> Vec<f64> {
    sensor::all(root).into_iter().filter(Sensor::is_sure).map(|sensor| sensor.celsius).collect()
}

impl Health {
    /// Reads all below `root`. Nothing is opened for writing; of the machine itself, NVMe controllers are asked for their
    /// SMART log page where this user may.
    pub fn read(root: &Root) -> Self {
        let probe = Probe::whole(root);
        let mut missing: Vec<String> = probe.missing().map(str::to_owned).into_iter().collect();
        let (drives, refused) = smart::drives(root);
        missing.extend(refused.map(str::to_owned));
        Self {
            microcode: microcode(root),
            mitigations: mitigations(root),
            links: link::slower(root),
            sensors: sensor::all(root),
            drives,
            counters: probe.counters(),
            missing,
        }
    }

    /// What happened since an earlier snapshot of the same machine.
    pub fn since(&self, before: &Self) -> HealthChange {
        self.counters.since(&before.counters)
    }

    /// What is wrong with the hardware, the gravest first.
    pub fn faults(&self) -> Vec<Fault> {
        fault::of(self)
    }

    /// Whether nothing is shown.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// As it is kept: without what means something only next to a second snapshot (counters of energy and of network interfaces),
    /// and of the sensors of each chip with the hottest alone, besides those at their limit.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        let mut hottest: BTreeMap<String, f64> = BTreeMap::new();
        for sensor in &self.sensors {
            let most = hottest.entry(sensor.chip.clone()).or_insert(sensor.celsius);
            *most = most.max(sensor.celsius);
        }
        self.sensors.retain(|sensor| {
            // Of several that are as hot, the first.
            let is_hottest = hottest.get(&sensor.chip) == Some(&sensor.celsius);
            (is_hottest && hottest.remove(&sensor.chip).is_some()) || sensor.is_critical()
        });
        self.counters.energy.clear();
        self.counters.interfaces.clear();
        self
    }
}

/// The revisions of the CPUs' microcode.
fn microcode(root: &Root) -> Vec<String> {
    const CPU_DIRECTORY: &str = "sys/devices/system/cpu";
    let cpus = root.names(CPU_DIRECTORY).unwrap_or_default();
    let cpus = cpus.iter().filter(|name| crate::disk::numbered(name, "cpu"));
    let of_cpu = |cpu: &String| root.line(Path::new(CPU_DIRECTORY).join(cpu).join("microcode/version")).ok();
    let mut found: BTreeSet<String> = cpus.filter_map(of_cpu).collect();
    if found.is_empty() {
        let text = root.bytes(Path::new("proc/cpuinfo"), CPUINFO_CAP).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let values = text.lines().filter_map(|line| line.strip_prefix("microcode")?.split_once(':'));
        found = values.map(|(_, value)| shown_within(value.trim(), MAX_NAME_CHARACTERS)).collect();
    }
    found.into_iter().take(MOST_REVISIONS).collect()
}

/// The most different revisions that are kept: more than two are garbage.
const MOST_REVISIONS: usize = 8;

/// What the kernel does about the processor's vulnerabilities.
fn mitigations(root: &Root) -> BTreeMap<String, String> {
    const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";
    let names = root.names(VULNERABILITIES).unwrap_or_default();
    let said = |name: &String| {
        let text = root.line(Path::new(VULNERABILITIES).join(name)).ok()?;
        (text != "Not affected")
            .then(|| (shown_within(name, MAX_NAME_CHARACTERS), shown_within(&text, MAX_NAME_CHARACTERS)))
    };
    names.iter().take(256).filter_map(said).collect()
}

/// Whether a file is there and this user may not read it.
fn is_denied<T>(read: &Result<T, ReadError>) -> bool {
    matches!(read, Err(ReadError::Denied(_)))
}

#[cfg(test)]
mod tests;
