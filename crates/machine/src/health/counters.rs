use super::energy::{EnergyZones, Zone};
use crate::disk::numbered;
use crate::root::Root;
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const CPU_DIRECTORY: &str = "sys/devices/system/cpu";
const EDAC: &str = "sys/devices/system/edac/mc";
const NET: &str = "sys/class/net";
const NET_DEV: &str = "proc/net/dev";
const MAX_CONTROLLERS: usize = 256;
/// Most cores that are read individually for each case: a file takes some 10 µs.
const MANY_CORES: usize = 64;

/// Event counters since boot, or their rise between two readings; 0 or absent: none or unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCounters {
    /// Thermal throttling of the processor; `None` if not counted or, of a rise, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Throttled>,
    /// Errors per memory controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<Controller>,
    /// Energy of the processors, if readable by this user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub energy: Vec<Zone>,
    /// Errors of network interfaces with a device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Interface>,
}

/// Thermal throttling, Intel only (`admin-guide/thermal/intel_thermal_throttle.rst`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttled {
    /// Throttling events by package and core, `0:3` (`core_throttle_count`); zeros are absent.
    pub cores: BTreeMap<String, u64>,
    /// Throttling events by package (`package_throttle_count`); zeros are absent.
    pub packages: BTreeMap<String, u64>,
}

/// Errors of a memory controller since boot (Linux `Documentation/ABI/testing/sysfs-devices-edac`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// The kernel's name: `mc0`.
    pub name: String,
    /// Corrected errors (`ce_count`).
    pub corrected: u64,
    /// Uncorrected errors (`ue_count`).
    pub uncorrected: u64,
}

/// Errors of a network interface since it was created (`/proc/net/dev`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// The kernel's name.
    pub name: String,
    /// Damaged packets received.
    pub rx_errors: u64,
    /// Received packets dropped, including those without a buffer in the device.
    pub rx_dropped: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets dropped before sending.
    pub tx_dropped: u64,
}

impl HealthCounters {
    /// Returns whether this machine has none of the counters, or none rose.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number of throttling events: the larger of the sums over cores and packages.
    pub fn throttled(&self) -> u64 {
        let sum =
            |counts: &BTreeMap<String, u64>| counts.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
        self.throttled.as_ref().map_or(0, |all| sum(&all.cores).max(sum(&all.packages)))
    }

    /// Returns the memory errors, corrected and uncorrected, each summed over the controllers.
    pub fn memory_errors(&self) -> [u64; 2] {
        self.controllers.iter().fold([0, 0], |[corrected, uncorrected]: [u64; 2], one| {
            [corrected.saturating_add(one.corrected), uncorrected.saturating_add(one.uncorrected)]
        })
    }

    /// Returns the events since `before`; a counter that fell was reset and counts from 0.
    pub fn since(&self, before: &Self) -> Self {
        let throttled = self.throttled.as_ref().zip(before.throttled.as_ref()).map(|(now, then)| Throttled {
            cores: rises(&then.cores, &now.cores),
            packages: rises(&then.packages, &now.packages),
        });
        let controller =
            |now: &Controller| now.since(before.controllers.iter().find(|one| one.name == now.name)?);
        let interface =
            |now: &Interface| now.since(before.interfaces.iter().find(|one| one.name == now.name)?);
        Self {
            throttled: throttled.filter(|rise| *rise != Throttled::default()),
            controllers: self.controllers.iter().filter_map(controller).collect(),
            energy: Vec::new(),
            interfaces: self.interfaces.iter().filter_map(interface).collect(),
        }
    }
}

fn rise(then: u64, now: u64) -> u64 {
    now.checked_sub(then).unwrap_or(now)
}

/// Returns the rise of each counter that rose from `then` to `now`; absent counters were 0.
fn rises(then: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let each = now.iter().map(|(name, n)| (name.clone(), rise(then.get(name).copied().unwrap_or(0), *n)));
    each.filter(|(_, n)| *n > 0).collect()
}

impl Controller {
    fn since(&self, then: &Self) -> Option<Self> {
        let corrected = rise(then.corrected, self.corrected);
        let uncorrected = rise(then.uncorrected, self.uncorrected);
        (corrected > 0 || uncorrected > 0).then(|| Self { name: self.name.clone(), corrected, uncorrected })
    }
}

impl Interface {
    fn since(&self, then: &Self) -> Option<Self> {
        let change = Self {
            name: self.name.clone(),
            rx_errors: rise(then.rx_errors, self.rx_errors),
            rx_dropped: rise(then.rx_dropped, self.rx_dropped),
            tx_errors: rise(then.tx_errors, self.tx_errors),
            tx_dropped: rise(then.tx_dropped, self.tx_dropped),
        };
        let any = [change.rx_errors, change.rx_dropped, change.tx_errors, change.tx_dropped];
        any.iter().any(|n| *n > 0).then_some(change)
    }

    /// Parses a line of `/proc/net/dev`: `eth0: 1296 10 …`, 8 received values, then 8 sent ones.
    fn of_line(line: &str) -> Option<Self> {
        let (name, counts) = line.rsplit_once(':')?;
        let counts: Vec<u64> = counts.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
        let count = |n: usize| counts.get(n).copied();
        Some(Self {
            name: name.trim().to_owned(),
            rx_errors: count(2)?,
            rx_dropped: count(3)?,
            tx_errors: count(10)?,
            tx_dropped: count(11)?,
        })
    }
}

/// Located counters: one file per core and package, two per memory controller, one for interfaces.
#[derive(Debug, Clone)]
pub struct CounterFiles {
    root: Root,
    zones: EnergyZones,
    cores: Vec<(String, PathBuf)>,
    packages: Vec<(String, PathBuf)>,
    controllers: Vec<(String, PathBuf)>,
    interfaces: BTreeSet<String>,
}

impl CounterFiles {
    /// Finds the counters. Above 64 cores, throttling is counted only per package, to read all
    /// within a millisecond: a hot core makes its package hot.
    pub fn new(root: &Root) -> Self {
        let mut probe = Self::find_all(root);
        if probe.cores.len() > MANY_CORES && !probe.packages.is_empty() {
            probe.cores.clear();
        }
        probe
    }

    pub(super) fn find_all(root: &Root) -> Self {
        let [cores, packages] = throttle_counts(root);
        let controllers = root.names(EDAC).unwrap_or_default();
        let controllers = controllers.into_iter().filter(|name| numbered(name, "mc")).take(MAX_CONTROLLERS);
        let interfaces = root.names(NET).unwrap_or_default();
        let has_device = |name: &String| root.exists(Path::new(NET).join(name).join("device"));
        Self {
            root: root.clone(),
            zones: EnergyZones::find(root),
            cores,
            packages,
            controllers: controllers.map(|name| (name.clone(), Path::new(EDAC).join(name))).collect(),
            interfaces: interfaces.into_iter().filter(has_device).take(MAX_CONTROLLERS).collect(),
        }
    }

    /// Reads all counters; unreadable counters are absent.
    pub fn counters(&self) -> HealthCounters {
        let controller = |(name, dir): &(String, PathBuf)| {
            let count = |file: &str| self.root.number(dir.join(file)).ok();
            let (corrected, uncorrected) = (count("ce_count")?, count("ue_count")?);
            Some(Controller { name: shown_within(name, 16), corrected, uncorrected })
        };
        HealthCounters {
            throttled: self.throttled(),
            controllers: self.controllers.iter().filter_map(controller).collect(),
            energy: self.energy(),
            interfaces: self.interfaces(),
        }
    }

    /// Reads only the energy counters (RAPL); empty if there are none or access is denied.
    pub fn energy(&self) -> Vec<Zone> {
        self.zones.read(&self.root)
    }

    /// Returns a name of the counters that this user may not read; `None` if all are readable.
    pub fn missing(&self) -> Option<&'static str> {
        self.zones.is_denied.then_some("energy of the processors (RAPL, energy_uj)")
    }

    fn throttled(&self) -> Option<Throttled> {
        let read = |files: &[(String, PathBuf)]| -> BTreeMap<String, u64> {
            let count = |(name, path): &(String, PathBuf)| Some((name.clone(), self.root.number(path).ok()?));
            files.iter().filter_map(count).filter(|(_, n)| *n > 0).collect()
        };
        let is_counted = !self.cores.is_empty() || !self.packages.is_empty();
        is_counted.then(|| Throttled { cores: read(&self.cores), packages: read(&self.packages) })
    }

    fn interfaces(&self) -> Vec<Interface> {
        if self.interfaces.is_empty() {
            return Vec::new();
        }
        let text = self.root.text(NET_DEV).unwrap_or_default();
        let all = text.lines().skip(2).filter_map(Interface::of_line);
        let own = all.filter(|one| self.interfaces.contains(&one.name));
        own.map(|one| Interface { name: shown_within(&one.name, 32), ..one }).collect()
    }
}

/// Returns (name, file) of the throttling counters: of each core (`0:3`) and of each package (`0`).
fn throttle_counts(root: &Root) -> [Vec<(String, PathBuf)>; 2] {
    let (mut cores, mut packages) = (BTreeMap::new(), BTreeMap::new());
    for id in root.names(CPU_DIRECTORY).unwrap_or_default() {
        let dir = Path::new(CPU_DIRECTORY).join(&id);
        let counts = dir.join("thermal_throttle");
        if !numbered(&id, "cpu") || !root.exists(&counts) {
            continue;
        }
        let part = |name: &str| root.number(dir.join("topology").join(name)).ok();
        let Some((package, core)) = part("physical_package_id").zip(part("core_id")) else { continue };
        for (files, name, file) in [
            (&mut cores, format!("{package}:{core}"), "core_throttle_count"),
            (&mut packages, package.to_string(), "package_throttle_count"),
        ] {
            let path = counts.join(file);
            if !files.contains_key(&name) && root.exists(&path) {
                files.insert(name, path);
            }
        }
    }
    [cores, packages].map(|files| files.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_of_an_interface_is_read() {
        let line = "  eth0: 62937641   51344    1    2    0     0          0         0 1256   9    3    4    0     0       0          0";
        let read = Interface::of_line(line).unwrap();
        assert_eq!((read.rx_errors, read.rx_dropped, read.tx_errors, read.tx_dropped), (1, 2, 3, 4));
        assert_eq!(Interface::of_line("eth0: 1 2 3"), None);
    }

    fn counted(core: u64, corrected: u64, rx_dropped: u64) -> HealthCounters {
        let cores = [("0:1".to_owned(), core)].into_iter().filter(|(_, n)| *n > 0).collect();
        let interface = Interface { name: "eth0".to_owned(), rx_dropped, ..Interface::default() };
        let throttled = Some(Throttled { cores, packages: BTreeMap::new() });
        let controllers = vec![Controller { name: "mc0".to_owned(), corrected, uncorrected: 0 }];
        HealthCounters { throttled, controllers, energy: Vec::new(), interfaces: vec![interface] }
    }

    proptest! {
        #[test]
        fn what_rose_is_told_and_nothing_else(a in 0_u64..1 << 40, b in 0_u64..1 << 40, c in 0_u64..3, rise in 0_u64..3) {
            let change = counted(a + rise, b + c, c).since(&counted(a, b, 0));
            prop_assert_eq!(change.throttled(), rise);
            prop_assert_eq!(change.memory_errors(), [c, 0]);
            prop_assert_eq!(change.interfaces.len(), usize::from(c > 0));
            prop_assert_eq!(change.is_empty(), rise == 0 && c == 0);
            prop_assert!(counted(a, b, c).since(&counted(a, b, c)).is_empty());
        }

        #[test]
        fn no_counters_are_too_large(a in any::<[u64; 3]>(), b in any::<[u64; 3]>()) {
            let change = counted(a[0], a[1], a[2]).since(&counted(b[0], b[1], b[2]));
            let _ = (change.throttled(), change.memory_errors());
        }

        #[test]
        fn no_line_is_too_strange(line in ".{0,80}") {
            let _ = Interface::of_line(&line);
        }
    }

    #[test]
    fn what_is_not_in_both_readings_is_not_known() {
        assert!(counted(5, 5, 5).since(&HealthCounters::default()).is_empty());
        assert!(HealthCounters::default().since(&counted(5, 5, 5)).is_empty());
    }
}
