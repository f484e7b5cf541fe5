//! `plimsoll machine`: facts as sections of labelled rows. All external text in a [`Machine`] is
//! already sanitized.

mod core;
mod cost;
mod cpu;
mod health;
mod layout;
mod limits;
mod storage;

pub use core::cores;
pub use health::health;
pub use layout::{FactSection, text};
pub use limits::limits;

use plimsoll_machine::smbios::Module;
use plimsoll_machine::{Cgroup, CpuSet, Machine, MachineState, Memory, UnknownFact, Virtualisation};
use plimsoll_units::quantity::{Quantity, Unit, format_cpus, percent};

use super::listed;

/// Text for unknown values; the section of unknown facts gives the reason.
const UNKNOWN_VALUE: &str = "unknown";

/// Returns the machine's facts in non-empty sections; a last one has unknown facts with reasons.
pub fn describe(machine: &Machine) -> Vec<FactSection> {
    let mut sections = vec![
        system(machine),
        cpu::processors(&machine.cpu),
        cpu::caches(&machine.cpu),
        memory(&machine.memory),
        cgroup(machine),
        storage::storage(machine),
        storage::network(&machine.network),
        state(&machine.state),
    ];
    let behind = machine.storage.iter().flat_map(|storage| &storage.unknown);
    sections.push(unknown(machine.unknown.iter().chain(behind)));
    sections.retain(|section| !section.rows.is_empty());
    sections
}

fn system(machine: &Machine) -> FactSection {
    let mut section = FactSection::new("system");
    let kernel = &machine.kernel;
    section.row("host", or_unknown(machine.host.as_deref()));
    section.row("id", format!("{} (of the hardware: machines of one kind share it)", machine.id));
    let words = [kernel.release.as_deref(), kernel.architecture.as_deref()];
    section.row("kernel", or_unknown(listed(words.into_iter().flatten(), " ")));
    let Virtualisation { system_vendor, product, .. } = &machine.virtualisation;
    section.known("product", listed([system_vendor, product].into_iter().flatten(), " "));
    section.row("virtual", virtualisation(&machine.virtualisation));
    section
}

fn virtualisation(found: &Virtualisation) -> String {
    let what = match (found.is_virtual, &found.hypervisor) {
        (_, Some(hypervisor)) => format!("yes, probably {hypervisor}"),
        (Some(true), None) => "yes".into(),
        (Some(false), None) => "no sign of it".into(),
        (None, None) => UNKNOWN_VALUE.into(),
    };
    let container = found.container.as_ref().map(|kind| format!("; container: {kind}")).unwrap_or_default();
    let evidence = listed(&found.evidence, "; ").map(|evidence| format!(" ({evidence})"));
    what + &container + &evidence.unwrap_or_default()
}

fn memory(memory: &Memory) -> FactSection {
    let mut section = FactSection::new("memory");
    section.row("total", size(memory.total_bytes));
    section.row("available", size(memory.available_bytes));
    let swap = match (memory.swap_total_bytes, memory.swap_free_bytes) {
        (Some(0), _) => "none".to_owned(),
        (None, _) => UNKNOWN_VALUE.to_owned(),
        (total, free) => format!("{}, {} free", size(total), size(free)),
    };
    section.row("swap", swap);
    let pools = memory.huge_pages.iter().map(|pool| {
        let count = |pages: Option<u64>| pages.map_or(UNKNOWN_VALUE.into(), |n| n.to_string());
        let page = size(Some(pool.size_bytes));
        if pool.total == Some(0) {
            return format!("{page}: none");
        }
        format!("{page}: {}, {} free", count(pool.total), count(pool.free))
    });
    section.row("huge pages", or_unknown(listed(pools, "; ")));
    section.known("modules", memory.modules.as_deref().map(modules_by_kind));
    let page = memory.transparent_huge_page_bytes.map(|bytes| format!(", {}", size(Some(bytes))));
    let setting = memory.transparent_huge_pages.as_ref();
    let setting = setting.map(|set| format!("{set}{}", page.unwrap_or_default()));
    section.row("transparent", or_unknown(setting));
    section.known("ordinary pages", memory.page_bytes.map(|bytes| size(Some(bytes))));
    for node in &memory.nodes {
        let cpus = if node.cpus.is_empty() { "no CPU".into() } else { format!("CPUs {}", node.cpus) };
        let distances = listed(node.distances.values(), " ").filter(|_| memory.nodes.len() > 1);
        let far = distances.map(|list| format!(", distances {list}")).unwrap_or_default();
        section.row(format!("NUMA node {}", node.id), format!("{}, {cpus}{far}", size(node.total_bytes)));
    }
    section
}

fn cgroup(machine: &Machine) -> FactSection {
    let Cgroup { cpu_quota, memory, cpuset, throttling, group, io, .. } = &machine.cgroup;
    let mut section = FactSection::new("control groups");
    section.known("group", group.as_ref());
    let quota = cpu_quota.as_ref().map(|quota| {
        let is_bound = quota.cpus() < machine.cpu.allowed.len() as f64;
        let binds = if is_bound { "" } else { ", no fewer than are allowed" };
        format!("{}{binds}, set on {}", format_cpus(quota.cpus(), 3), quota.group)
    });
    section.row("CPU quota", quota.unwrap_or_else(|| none_or_unknown(machine, "cgroup.cpu")));
    let limit = memory.as_ref().map(|limit| {
        let [whole, left] = [limit.limit_bytes, limit.available_bytes()].map(|bytes| size(Some(bytes)));
        format!("{whole}, {left} left, set on {}", limit.group)
    });
    section.row("memory limit", limit.unwrap_or_else(|| none_or_unknown(machine, "cgroup.memory")));
    for limit in io {
        section.row("I/O limit", format!("{}: {limit}", machine.device_name(&limit.device)));
    }
    section.known("CPUs", cpuset.as_ref().map(ToString::to_string));
    let throttled = throttling.filter(|t| t.throttled_periods > 0).map(|t| {
        let time = Quantity::new(t.throttled_us as f64 / 1e6, Unit::Second);
        format!("in {} of {} periods, {time} in all", t.throttled_periods, t.periods)
    });
    section.known("throttled", throttled);
    section
}

/// Returns "unknown" if fact `what`, such as `cgroup.cpu`, or `what_…` was unreadable, else "none".
fn none_or_unknown(machine: &Machine, what: &str) -> String {
    let of_it = |unknown: &UnknownFact| unknown.what == what || unknown.what.starts_with(&format!("{what}_"));
    let unread = machine.unknown.iter().any(of_it);
    if unread { UNKNOWN_VALUE.into() } else { "none".into() }
}

fn state(state: &MachineState) -> FactSection {
    let mut section = FactSection::new("state at discovery");
    let load = state
        .load
        .map(|l| format!("{:.2} {:.2} {:.2} over 1, 5 and 15 min", l.minute_1, l.minutes_5, l.minutes_15));
    section.row("load", or_unknown(load));
    let share = |share: Option<f64>| share.map_or(UNKNOWN_VALUE.into(), |share| percent(share, 2));
    let steal = state.steal_since_boot.map(|s| format!("{} since boot, of the allowed CPUs", percent(s, 2)));
    section.row("steal", or_unknown(steal));
    let p = state.pressure;
    let waits = [("CPU", p.cpu), ("memory", p.memory), ("I/O", p.io)];
    let is_known = waits.iter().any(|(_, wait)| wait.is_some());
    let waits = waits.map(|(what, wait)| format!("{what} {}", share(wait)));
    let waits = is_known.then(|| format!("{} of the last 10 s", waits.join(", ")));
    section.row("pressure", or_unknown(waits));
    let turbo = state.turbo.map(|on| if on { "allowed" } else { "switched off" });
    section.row("turbo", or_unknown(turbo));
    section
}

fn unknown<'a>(all: impl Iterator<Item = &'a UnknownFact>) -> FactSection {
    let mut section = FactSection::new("not known");
    for UnknownFact { what, why } in all {
        let cost = cost::of(what).map(|cost| format!(" — so {cost}")).unwrap_or_default();
        section.row(what, format!("{why}{cost}"));
    }
    section
}

fn or_unknown(text: Option<impl Into<String>>) -> String {
    text.map_or_else(|| UNKNOWN_VALUE.into(), Into::into)
}

fn size(bytes: Option<u64>) -> String {
    or_unknown(bytes.map(|bytes| Quantity::new(bytes as f64, Unit::Byte).to_string()))
}

fn hertz(hz: Option<u64>) -> String {
    or_unknown(hz.map(|hz| Quantity::new(hz as f64, Unit::Hertz).to_string()))
}

fn bits(rate: f64) -> String {
    Quantity::new(rate, Unit::BitPerSecond).to_string()
}

/// Formats memory modules: `12 × 32 GiB at 2933 MT/s in 12 channels`, or `…, channels not named` if
/// the firmware does not name all.
fn modules_by_kind(modules: &[Module]) -> String {
    let mut kinds = std::collections::BTreeMap::new();
    for module in modules {
        *kinds.entry((module.size_bytes, module.megatransfers)).or_insert(0_usize) += 1;
    }
    let kinds = kinds.into_iter().rev().map(|((bytes, speed), count)| {
        let speed = speed.map_or("an unknown speed".to_owned(), |speed| format!("{speed} MT/s"));
        format!("{count} × {} at {speed}", size(Some(bytes)))
    });
    let channels: std::collections::BTreeSet<_> = modules.iter().map(|module| &module.channel).collect();
    let channels = match channels.first() {
        Some(Some(_)) => format!(" in {} channels", channels.len()),
        _ => ", channels not named".to_owned(),
    };
    kinds.collect::<Vec<_>>().join(", ") + &channels
}

/// Formats `cpus` as `0-3 (4 of 8)`, or `all (0-7)` if they are equal to `all`; "unknown" if empty.
fn cpus_of(cpus: &CpuSet, all: &CpuSet) -> String {
    match () {
        () if cpus.is_empty() => UNKNOWN_VALUE.into(),
        () if cpus == all => format!("all ({cpus})"),
        () => format!("{cpus} ({} of {})", cpus.len(), all.len()),
    }
}

#[cfg(test)]
mod tests;
