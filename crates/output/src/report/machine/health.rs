//! Section about the health of the hardware.

use plimsoll_machine::Health;
use plimsoll_machine::health::{Controller, Drive, PcieLink, Sensor, Throttled};
use plimsoll_units::quantity::significant;
use plimsoll_units::text::format_count;

use super::{FactSection, listed};

const MAX_DEVICES_SHOWN: usize = 8;

/// Returns a section on microcode, mitigations, temperature and errors; `None` if all are unknown.
pub fn health(health: &Health) -> Option<FactSection> {
    let mut section = FactSection::new("health");
    section.known("microcode", listed(&health.microcode, ", "));
    section.known("mitigations", (!health.mitigations.is_empty()).then(|| mitigations(health)));
    section.known("temperature", listed(hottest(&health.sensors).into_iter().map(sensor), "; "));
    section.known("throttled by heat", health.counters.throttled.as_ref().map(throttle_counts));
    let controllers = &health.counters.controllers;
    if !controllers.is_empty() {
        let sum = |each: fn(&Controller) -> u64| controllers.iter().map(each).fold(0, u64::saturating_add);
        let (corrected, uncorrected) = (sum(|one| one.corrected), sum(|one| one.uncorrected));
        section.row("memory errors", format!("{corrected} corrected, {uncorrected} uncorrected since boot"));
    }
    health.drives.iter().take(MAX_DEVICES_SHOWN).for_each(|one| section.row(&one.name, drive(one)));
    health.links.iter().take(MAX_DEVICES_SHOWN).for_each(|one| section.row("PCIe link", link(one)));
    for fault in health.faults() {
        section.row(format!("fault {}", fault.code()), fault.to_string());
    }
    section.known("only for root", listed(&health.missing, "; "));
    (!section.rows.is_empty()).then_some(section)
}

fn mitigations(health: &Health) -> String {
    let begin = |word: &str| -> Vec<&str> {
        let with = health.mitigations.iter().filter(|(_, text)| text.starts_with(word));
        with.map(|(name, _)| name.as_str()).collect()
    };
    let open = listed(begin("Vulnerable"), ", ").unwrap_or_else(|| "none".to_owned());
    let unknown = listed(begin("Unknown"), ", ").map(|names| format!("; unknown: {names}"));
    let unknown = unknown.unwrap_or_default();
    format!("{} on; vulnerable: {open}{unknown}", begin("Mitigation").len())
}

fn hottest(sensors: &[Sensor]) -> Vec<&Sensor> {
    let mut all: Vec<&Sensor> = sensors.iter().collect();
    all.sort_by(|a, b| b.celsius.total_cmp(&a.celsius));
    let mut chips = std::collections::HashSet::new();
    all.retain(|sensor| chips.insert(&sensor.chip));
    all.truncate(MAX_DEVICES_SHOWN);
    all
}

fn sensor(sensor: &Sensor) -> String {
    let critical = sensor.critical.map(|limit| format!(" (critical from {limit:.0} °C)")).unwrap_or_default();
    format!("{} {:.0} °C{critical}", sensor.name(), sensor.celsius)
}

fn throttle_counts(throttled: &Throttled) -> String {
    let (cores, packages) = (throttled.cores.len(), throttled.packages.len());
    if cores.max(packages) == 0 {
        return "never since boot".to_owned();
    }
    let most = throttled.cores.values().chain(throttled.packages.values()).max().copied().unwrap_or(0);
    let (cores, packages) = (format_count(cores, "core"), format_count(packages, "package"));
    format!("{cores} and {packages} since boot, at most {most} times each")
}

fn drive(drive: &Drive) -> String {
    let smart = &drive.smart;
    let celsius = smart.kelvin.map(|kelvin| format!(", {} °C", i32::from(kelvin) - 273)).unwrap_or_default();
    let written = significant(smart.written_bytes as f64 / 1e12, 3);
    format!(
        "{} % of its endurance used, {} % spare, media errors: {}, {written} TB written{celsius}",
        smart.used_percent, smart.spare_percent, smart.media_errors
    )
}

fn link(link: &PcieLink) -> String {
    let pace = |pace: plimsoll_machine::health::LinkPace| {
        format!("{} GT/s ×{}", pace.transfers_per_s as f64 / 1e9, pace.lanes)
    };
    let idle = if link.saves_power && !link.is_narrow() { "; it lowers its speed while idle" } else { "" };
    let (now, possible) = (pace(link.now), pace(link.possible));
    format!("{} {}: {now}; both ends can do {possible}{idle}", link.what, link.device)
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    #[test]
    fn what_is_shown_is_short_and_nothing_is_no_section() {
        assert_eq!(health(&Health::default()), None);
        let mut shown = fixture::node_health("n").shown;
        shown.mitigations.insert("tsa".to_owned(), "Vulnerable: No microcode".to_owned());
        let sensor = |chip: &str, celsius| {
            let (chip, label, critical) = (chip.to_owned(), Some("a".to_owned()), Some(100.0));
            Sensor { chip, label, celsius, critical }
        };
        shown.sensors = vec![sensor("coretemp", 50.0), sensor("coretemp", 64.0), sensor("nvme", 38.4)];
        shown.counters.throttled = Some(Throttled::default());
        shown.counters.controllers =
            vec![Controller { name: "mc0".to_owned(), corrected: 2, uncorrected: 0 }];
        let smart = &mut shown.drives[0].smart;
        (smart.critical_warning, smart.kelvin, smart.used_percent) = (0, Some(311), 7);
        (smart.media_errors, smart.written_bytes) = (0, 0);
        let link = &mut shown.links[0];
        (link.what, link.saves_power) = ("GPU".to_owned(), true);
        (link.now.transfers_per_s, link.now.lanes) = (2_500_000_000, 4);
        let section = health(&shown).unwrap();
        let rows: Vec<String> =
            section.rows.iter().map(|(label, value)| format!("{label}: {value}")).collect();
        let wanted = [
            "microcode: 0x1",
            "mitigations: 1 on; vulnerable: tsa",
            "temperature: coretemp a 64 °C (critical from 100 °C); nvme a 38 °C (critical from 100 °C)",
            "throttled by heat: never since boot",
            "memory errors: 2 corrected, 0 uncorrected since boot",
            "nvme0: 7 % of its endurance used, 100 % spare, media errors: 0, 0 TB written, 38 °C",
            "PCIe link: GPU 0000:41:00.0: 2.5 GT/s ×4; both ends can do 8 GT/s ×4; it lowers its speed while idle",
            "only for root: energy",
        ];
        assert_eq!(rows, wanted);
    }
}
