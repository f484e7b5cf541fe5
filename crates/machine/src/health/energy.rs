//! RAPL energy: `/sys/class/powercap/intel-rapl:N`, also on AMD (ABI/testing/sysfs-class-powercap).

use crate::root::{ReadError, Root};
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const POWERCAP: &str = "sys/class/powercap";
const MAX_ZONES: usize = 256;
/// Upper limit of a zone's power in W, which bounds how often a counter wraps.
const MOST_WATTS: f64 = 1000.0;

/// Energy counter of one zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Directory name: `intel-rapl:0`, and `intel-rapl:0:1` for a part of it.
    pub id: String,
    /// Domain: `package-0`, `dram`, `core`, `psys` …
    pub name: String,
    /// Counter value in µJ (`energy_uj`).
    pub energy_uj: u64,
    /// Value at which the counter wraps in µJ (`max_energy_range_uj`).
    pub range_uj: u64,
}

/// Energy used in an interval, in J.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// All processor packages: cores, caches and other parts.
    pub packages_j: Option<f64>,
    /// Memory modules, if measured.
    pub memory_j: Option<f64>,
}

impl Zone {
    /// Returns the energy since the reading `before` in µJ; the counter may have wrapped once.
    fn since(&self, before: &Self) -> u64 {
        match self.energy_uj.checked_sub(before.energy_uj) {
            Some(used) => used,
            None => self.range_uj.saturating_sub(before.energy_uj).saturating_add(self.energy_uj),
        }
    }
}

/// Returns the energy used between two readings `seconds` apart; `None` for packages or memory if
/// there is no such zone, `before` lacks one, or one may have wrapped twice.
pub fn used(before: &[Zone], after: &[Zone], seconds: f64) -> Energy {
    let sum = |is_one: &dyn Fn(&Zone) -> bool| {
        let zones: Vec<&Zone> = after.iter().filter(|zone| is_one(zone)).collect();
        let of_zone = |zone: &&Zone| {
            let earlier = before.iter().find(|one| one.id == zone.id && one.range_uj == zone.range_uj)?;
            (zone.range_uj as f64 / 1e6 > seconds * MOST_WATTS).then(|| zone.since(earlier) as f64 / 1e6)
        };
        let joules = zones.iter().map(of_zone).collect::<Option<Vec<f64>>>()?;
        (!joules.is_empty()).then(|| joules.iter().sum())
    };
    Energy {
        packages_j: sum(&|zone| zone.name.starts_with("package")),
        memory_j: sum(&|zone| zone.name == "dram"),
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct EnergyZones {
    all: Vec<(Zone, PathBuf)>,
    pub(super) is_denied: bool,
}

impl EnergyZones {
    pub(super) fn find(root: &Root) -> Self {
        let mut zones = Self::default();
        let names = root.names(POWERCAP).unwrap_or_default();
        for id in names.into_iter().filter(|name| name.starts_with("intel-rapl:")).take(MAX_ZONES) {
            let dir = Path::new(POWERCAP).join(&id);
            let counter = dir.join("energy_uj");
            let read = root.number(&counter);
            zones.is_denied |= matches!(read, Err(ReadError::Denied(_)));
            let range = root.number(dir.join("max_energy_range_uj")).ok().filter(|range| *range > 0);
            if let (Ok(energy_uj), Some(range_uj), Ok(name)) = (read, range, root.line(dir.join("name"))) {
                let name = shown_within(&name, 32);
                let zone = Zone { id: shown_within(&id, 32), name, energy_uj, range_uj };
                zones.all.push((zone, counter));
            }
        }
        zones
    }

    pub(super) fn read(&self, root: &Root) -> Vec<Zone> {
        let now = |(zone, counter): &(Zone, PathBuf)| {
            Some(Zone { energy_uj: root.number(counter).ok()?, ..zone.clone() })
        };
        self.all.iter().filter_map(now).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zone(name: &str, energy_uj: u64, range_uj: u64) -> Zone {
        Zone { id: format!("intel-rapl:{name}"), name: name.to_owned(), energy_uj, range_uj }
    }

    const RANGE: u64 = 262_143_328_850;

    #[test]
    fn packages_are_added_and_their_parts_are_not() {
        let before = [zone("package-0", 0, RANGE), zone("package-1", 5, RANGE), zone("core", 0, RANGE)];
        let after =
            [zone("package-0", 3_000_000, RANGE), zone("package-1", 5, RANGE), zone("core", 9, RANGE)];
        assert_eq!(used(&before, &after, 1.0), Energy { packages_j: Some(3.0), memory_j: None });
        assert_eq!(used(&before[..1], &after, 1.0).packages_j, None);
        assert_eq!(used(&[], &[], 1.0), Energy::default());
    }

    #[test]
    fn a_time_in_which_the_counter_can_go_round_twice_tells_nothing() {
        let zones = [zone("package-0", 7, RANGE)];
        assert_eq!(used(&zones, &zones, 262.0).packages_j, Some(0.0));
        assert_eq!(used(&zones, &zones, 263.0).packages_j, None);
    }

    proptest! {
        #[test]
        fn a_counter_that_began_again_loses_nothing(
            range in 1_000_000_000_u64..1 << 48, start in any::<u64>(), spent in any::<u64>(),
        ) {
            let (start, spent) = (start % range, spent % range);
            let end = (start + spent) % range;
            let joules = used(&[zone("dram", start, range)], &[zone("dram", end, range)], 0.5).memory_j.unwrap();
            prop_assert_eq!(joules, spent as f64 / 1e6);
        }

        #[test]
        fn any_counters_give_a_number(a in any::<u64>(), b in any::<u64>(), range in any::<u64>(), s in any::<f64>()) {
            let energy = used(&[zone("package-0", a, range)], &[zone("package-0", b, range)], s);
            prop_assert!(energy.packages_j.is_none_or(|joules| joules.is_finite() && joules >= 0.0));
        }
    }
}
