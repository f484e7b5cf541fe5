//! Health of the hardware: wear, temperature, throttling and faults.

mod counters;
mod energy;
mod fault;
mod link;
mod sensor;
mod smart;

pub use counters::{Controller, CounterFiles, HealthCounters, Interface, Throttled};
pub use energy::{Energy, Zone, used};
pub use fault::HardwareFault;
pub use link::{LinkPace, PcieLink};
pub use sensor::Sensor;
pub(crate) use smart::pages as smart_pages;
pub use smart::{Drive, Smart};

use crate::root::{CPUINFO_CAP, Root};
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const MAX_NAME_CHARACTERS: usize = 80;

/// Health of the hardware at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Distinct microcode revisions of the CPUs (`cpuN/microcode/version`, else `/proc/cpuinfo`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub microcode: Vec<String>,
    /// Vulnerabilities that affect the processor, with mitigation (`cpu/vulnerabilities`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mitigations: BTreeMap<String, String>,
    /// PCI Express links slower or narrower than both ends support.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PcieLink>,
    /// Temperatures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<Sensor>,
    /// Health of NVMe drives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<Drive>,
    /// Event counters since boot.
    #[serde(default, skip_serializing_if = "HealthCounters::is_empty")]
    pub counters: HealthCounters,
    /// Descriptions of existing values that this user may not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Returns the current temperatures of all reliable sensors in °C.
pub fn temperatures(root: &Root) -> Vec<f64> {
    sensor::read_sensors(root).into_iter().filter(Sensor::is_sure).map(|sensor| sensor.celsius).collect()
}

impl Health {
    /// Reads all health values below `root`; queries live NVMe drives for their SMART log page.
    pub fn read(root: &Root) -> Self {
        let probe = CounterFiles::find_all(root);
        let (drives, refused) = smart::drives(root);
        Self {
            microcode: microcode(root),
            mitigations: mitigations(root),
            links: link::slower(root),
            sensors: sensor::read_sensors(root),
            drives,
            counters: probe.counters(),
            missing: probe.missing().into_iter().chain(refused).map(str::to_owned).collect(),
        }
    }

    /// Returns the hardware faults: of memory, drives, temperatures, links, then microcode.
    pub fn faults(&self) -> Vec<HardwareFault> {
        fault::of(self)
    }

    /// Returns whether nothing is known: no value could be read.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the values to store: without counters that need a second snapshot, and with only the
    /// hottest and the critical sensors of each chip.
    #[must_use]
    pub fn into_stored(mut self) -> Self {
        let mut hottest: BTreeMap<String, f64> = BTreeMap::new();
        for sensor in &self.sensors {
            let most = hottest.entry(sensor.chip.clone()).or_insert(sensor.celsius);
            *most = most.max(sensor.celsius);
        }
        self.sensors.retain(|sensor| {
            let is_hottest = hottest.get(&sensor.chip) == Some(&sensor.celsius);
            (is_hottest && hottest.remove(&sensor.chip).is_some()) || sensor.is_critical()
        });
        self.counters.energy.clear();
        self.counters.interfaces.clear();
        self
    }
}

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

const MOST_REVISIONS: usize = 8;

fn mitigations(root: &Root) -> BTreeMap<String, String> {
    const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";
    let names = root.names(VULNERABILITIES).unwrap_or_default();
    let stated = |name: &String| {
        let text = root.line(Path::new(VULNERABILITIES).join(name)).ok()?;
        (text != "Not affected")
            .then(|| (shown_within(name, MAX_NAME_CHARACTERS), shown_within(&text, MAX_NAME_CHARACTERS)))
    };
    names.iter().take(256).filter_map(stated).collect()
}

#[cfg(test)]
mod tests;
