//! Temperatures: `/sys/class/hwmon` (hwmon/sysfs-interface.rst) and `/sys/class/thermal`.

use crate::disk::numbered;
use crate::root::Root;
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};
use std::path::Path;

const HWMON: &str = "sys/class/hwmon";
const THERMAL: &str = "sys/class/thermal";
const MAX_SENSORS: usize = 1024;
const MAX_SENSOR_NAME_CHARACTERS: usize = 20;
const BELIEVED: std::ops::RangeInclusive<f64> = -60.0..=200.0;
const CRITICAL: std::ops::RangeInclusive<f64> = 50.0..=150.0;
/// Drivers to skip: they query a disk, which would reset its spin-down timer.
const NOT_READ: [&str; 1] = ["drivetemp"];
/// Board chips that may have unconnected inputs: their temperatures are shown but not judged.
const UNSURE: [&str; 6] = ["nct", "it8", "w83", "f71", "asus", "acpitz"];

/// A temperature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensor {
    /// Driver or zone: `coretemp`, `nvme`, `x86_pkg_temp`.
    pub chip: String,
    /// Measured part, if named: `Package id 0`, `Composite`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Temperature in °C.
    pub celsius: f64,
    /// Critical limit of the hardware in °C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<f64>,
}

impl Sensor {
    /// Returns whether the sensor is certainly connected; inputs of board chips may not be.
    pub fn is_sure(&self) -> bool {
        !UNSURE.iter().any(|chip| self.chip.starts_with(chip))
    }

    /// Returns whether the critical limit is reached; false for unreliable sensors or if unknown.
    pub fn is_critical(&self) -> bool {
        self.is_sure() && self.critical.is_some_and(|critical| self.celsius >= critical)
    }

    /// Returns chip and, if any, label: `coretemp Package id 0`.
    pub fn name(&self) -> String {
        let label = self.label.as_ref().map(|label| format!(" {label}")).unwrap_or_default();
        format!("{}{label}", self.chip)
    }
}

/// Reads all temperature sensors (hwmon and thermal zones), at most 1024. A sensor that both list
/// is read from hwmon only.
pub(super) fn read_sensors(root: &Root) -> Vec<Sensor> {
    let mut found = Vec::new();
    for chip in root.names(HWMON).unwrap_or_default().iter().filter(|name| numbered(name, "hwmon")) {
        of_chip(root, &Path::new(HWMON).join(chip), &mut found);
    }
    for zone in root.names(THERMAL).unwrap_or_default().iter().filter(|name| numbered(name, "thermal_zone")) {
        let zone = of_zone(root, &Path::new(THERMAL).join(zone));
        // The kernel's driver has the zone's name with other dashes; coretemp has the same sensor.
        let alike = |one: &Sensor, name: &str| {
            one.chip.replace('-', "_") == name.replace('-', "_")
                || (one.chip == "coretemp" && name == "x86_pkg_temp")
        };
        found.extend(zone.filter(|zone| !found.iter().any(|one| alike(one, &zone.chip))));
    }
    found.truncate(MAX_SENSORS);
    found
}

fn of_chip(root: &Root, dir: &Path, found: &mut Vec<Sensor>) {
    let Ok(chip) = root.line(dir.join("name")) else { return };
    if NOT_READ.contains(&chip.as_str()) {
        return;
    }
    let files = root.names(dir).unwrap_or_default();
    let numbers = files.iter().filter_map(|name| {
        let number = name.strip_prefix("temp")?.strip_suffix("_input")?;
        number.parse::<u16>().ok()
    });
    for number in numbers.take(MAX_SENSORS) {
        let file = |what: &str| dir.join(format!("temp{number}_{what}"));
        let Some(celsius) = celsius(root, &file("input"), &BELIEVED) else { continue };
        let short = |text: &str| shown_within(text, MAX_SENSOR_NAME_CHARACTERS);
        let label = root.line(file("label")).ok().map(|label| short(&label));
        let critical = self::celsius(root, &file("crit"), &CRITICAL);
        found.push(Sensor { chip: short(&chip), label, celsius, critical });
    }
}

fn of_zone(root: &Root, dir: &Path) -> Option<Sensor> {
    let files = root.names(dir).unwrap_or_default();
    let trips = files.iter().filter_map(|name| name.strip_prefix("trip_point_")?.strip_suffix("_type"));
    let file = |trip: &str, what: &str| dir.join(format!("trip_point_{trip}_{what}"));
    let critical = trips.filter(|trip| root.line(file(trip, "type")).as_deref() == Ok("critical"));
    let critical = critical.filter_map(|trip| celsius(root, &file(trip, "temp"), &CRITICAL));
    Some(Sensor {
        chip: shown_within(&root.line(dir.join("type")).ok()?, MAX_SENSOR_NAME_CHARACTERS),
        label: None,
        celsius: celsius(root, &dir.join("temp"), &BELIEVED)?,
        critical: critical.reduce(f64::min),
    })
}

/// Reads a temperature in °C (the kernel writes m°C); `None` if unreadable or not in `believed`.
fn celsius(root: &Root, file: &Path, believed: &std::ops::RangeInclusive<f64>) -> Option<f64> {
    let millidegrees: i64 = root.parse(file, "a temperature in m°C").ok()?;
    Some(millidegrees as f64 / 1000.0).filter(|celsius| believed.contains(celsius))
}
