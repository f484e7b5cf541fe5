//! Checks of what makes results noisy and of missing permissions, one function per check.

use std::path::Path;

use plimsoll_machine::root::ReadError;
use plimsoll_machine::{Machine, Root};
use plimsoll_units::quantity::{format_size, percent};
use plimsoll_units::text::{format_count, shown};

use super::{MachineCheck, costs, costs_if, good, unknown};

/// Checks settings that make results noisy, and permissions; `root` is the parent of /proc, /sys.
pub fn checks(root: &Root, machine: &Machine) -> Vec<MachineCheck> {
    type CheckFunction = fn(&Root, &Machine) -> MachineCheck;
    const CHECKS: &[(&str, CheckFunction)] = &[
        ("governor", governor),
        ("turbo", turbo),
        ("SMT", smt),
        ("hypervisor", virtual_machine),
        ("steal", steal),
        ("load", load),
        ("CPU quota", quota),
        ("I/O limit", io_limit),
        ("affinity", affinity),
        ("huge pages", huge_pages),
        ("swap", swap),
        ("time source", clock_source),
        ("hardware counters", counters),
        ("memory modules", firmware),
        ("io_uring", io_uring),
        ("locked memory", locked_memory),
        ("ICMP echo", echo),
    ];
    CHECKS.iter().map(|(name, check)| MachineCheck { name, ..check(root, machine) }).collect()
}

/// Share of stolen time above which results are noisy.
const STEAL: f64 = 0.005;

fn governor(_: &Root, machine: &Machine) -> MachineCheck {
    let clock = &machine.cpu.clock;
    let names: Vec<&str> = clock.governors.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => unknown(
            "the kernel shows no clock policy",
            "nothing where a hypervisor decides; the clock is measured during each case all the same",
        ),
        ["performance"] => good("performance"),
        _ => costs(
            names.join(", "),
            "the first samples may be slower until the clock rises; with the governor 'performance' they are not",
        ),
    }
}

fn turbo(_: &Root, machine: &Machine) -> MachineCheck {
    match machine.state.turbo {
        Some(false) => good("off: the clock does not depend on the neighbours' load"),
        Some(true) => costs(
            "on",
            "the clock depends on temperature and on how many cores work; limits follow the clock that was held, figures vary with it",
        ),
        None => unknown("not visible", "each figure says which clock was held"),
    }
}

fn smt(root: &Root, machine: &Machine) -> MachineCheck {
    let cpu = &machine.cpu;
    if cpu.logical.iter().any(|l| l.siblings.len() > 1) {
        let cores = cpu.cores.map_or("fewer cores".to_owned(), |n| format_count(n, "core"));
        return costs(
            format!("on: {} on {cores}", format_count(cpu.threads, "CPU")),
            "two threads on one core share its pipes: use --affinity spread with as many threads as cores to have a core each",
        );
    }
    if cpu.cores.is_none() {
        return unknown("the kernel does not show which CPUs share a core", "threads may share pipes unseen");
    }
    let control = root.line("sys/devices/system/cpu/smt/control").unwrap_or_default();
    let found = match control.as_str() {
        "" | "notsupported" | "notimplemented" => "none seen".to_owned(),
        _ => control,
    };
    match machine.virtualisation.is_virtual {
        Some(true) => unknown(
            found,
            "a guest may not see that its CPUs share cores: see the finding of a run on two threads",
        ),
        _ => good(found),
    }
}

fn virtual_machine(_: &Root, machine: &Machine) -> MachineCheck {
    let what = &machine.virtualisation;
    let container = what.container.as_deref().map(|c| format!(" in a container ({c})")).unwrap_or_default();
    match what.is_virtual {
        Some(true) => costs(
            format!("{}{container}", what.hypervisor.as_deref().unwrap_or("a virtual machine")),
            "neighbours share caches, memory and disk; counters, clock policy and memory modules are not shown",
        ),
        Some(false) => good(format!("none{container}")),
        None => unknown("not known", "neighbours may share this machine"),
    }
}

fn steal(_: &Root, machine: &Machine) -> MachineCheck {
    let Some(share) = machine.state.steal_since_boot else {
        return unknown("/proc/stat does not tell", "time that the host takes goes unseen");
    };
    let found = format!("{} of the CPU time since boot", percent(share, 2));
    costs_if(share > STEAL, found, "other guests of this host take CPU time; each row says how much")
}

fn load(_: &Root, machine: &Machine) -> MachineCheck {
    let Some(load) = machine.state.load else {
        return unknown("/proc/loadavg does not tell", "other work goes unseen");
    };
    let found = format!("{:.2} runnable in the last minute", load.minute_1);
    costs_if(
        load.minute_1 > 0.3,
        found,
        "something else runs: interrupted slices are excluded where that is possible, and figures vary; see top",
    )
}

fn quota(_: &Root, machine: &Machine) -> MachineCheck {
    match &machine.cgroup.cpu_quota {
        Some(quota) => costs(
            format!("{:.2} CPUs ({})", quota.cpus(), shown(&quota.group)),
            "threads are stopped in each period: figures of all CPUs are those of the quota; outside of the group the machine has more",
        ),
        None => good("none"),
    }
}

fn io_limit(_: &Root, machine: &Machine) -> MachineCheck {
    let name = |device: &str| shown(machine.device_name(device));
    let limits = machine.cgroup.io.iter().map(|limit| format!("{}: {limit}", name(&limit.device)));
    match limits.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => good("none"),
        found => costs(
            found,
            "figures of these devices are those of the control group's limit; raise it (io.max, or blkio.throttle in version 1) to measure the device",
        ),
    }
}

fn affinity(_: &Root, machine: &Machine) -> MachineCheck {
    let allowed = machine.cpu.allowed.len();
    let online = format_count(machine.cpu.online.len(), "CPU");
    match allowed < machine.cpu.online.len() {
        true => costs(
            format!("{allowed} of {online} allowed"),
            "figures of all CPUs are those of the allowed ones",
        ),
        false => good(format!("{online} allowed, none left out")),
    }
}

fn huge_pages(_: &Root, machine: &Machine) -> MachineCheck {
    let memory = &machine.memory;
    let reserved = memory.huge_pages.iter().filter(|p| p.free.unwrap_or(0) > 0);
    let sizes: Vec<String> =
        reserved.map(|p| format!("{} of {}", p.free.unwrap_or(0), format_size(p.size_bytes))).collect();
    let kept =
        if sizes.is_empty() { "none reserved".to_owned() } else { format!("reserved: {}", sizes.join(", ")) };
    match memory.transparent_huge_pages.as_deref() {
        Some(kind @ ("always" | "madvise")) => good(format!("THP {kind}; {kept}")),
        Some(other) => costs(
            format!("THP {}; {kept}", shown(other)),
            "memory.latency has the cost of the TLB in it, unless transparent huge pages are madvise or always",
        ),
        None => unknown(
            format!("THP not shown; {kept}"),
            "pages are those that the kernel gives; each figure names them",
        ),
    }
}

fn swap(_: &Root, machine: &Machine) -> MachineCheck {
    let memory = &machine.memory;
    let used =
        memory.swap_total_bytes.zip(memory.swap_free_bytes).map(|(total, free)| total.saturating_sub(free));
    match used {
        Some(0) => good("nothing swapped out"),
        Some(bytes) => costs(
            format!("{} swapped out", format_size(bytes)),
            "pages may come back during a case; measure when more memory is free",
        ),
        None => unknown("not shown", "pages may move unseen"),
    }
}

fn clock_source(root: &Root, _: &Machine) -> MachineCheck {
    const CLOCK_SOURCE_FILE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    const FAST_SOURCES: [&str; 4] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
    match root.line(CLOCK_SOURCE_FILE) {
        Ok(name) if FAST_SOURCES.contains(&name.as_str()) => good(name),
        Ok(name) => costs(
            name,
            "each reading of the time is a system call or a slow register: figures of single operations have it in them",
        ),
        Err(_) => unknown("not shown", "what a reading costs is measured below"),
    }
}

fn counters(root: &Root, _: &Machine) -> MachineCheck {
    let hardware = root.exists("sys/bus/event_source/devices/cpu")
        || root.exists("sys/bus/event_source/devices/armv8_pmuv3_0");
    let paranoid = root.line("proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    // plimsoll measures the clock with a chain of additions, so missing counters add no noise.
    match (hardware, paranoid.as_str()) {
        (true, "-1" | "0" | "1" | "2") => good("allowed"),
        (true, _) => good(format!(
            "not allowed (perf_event_paranoid = {paranoid}); plimsoll needs none, likwid-perfctr and perf do"
        )),
        (false, _) => good("none shown; plimsoll needs none, likwid-perfctr and perf do"),
    }
}

fn firmware(root: &Root, machine: &Machine) -> MachineCheck {
    let table = root.head(Path::new("sys/firmware/dmi/tables/DMI"), 1);
    modules(machine, table.map(drop))
}

/// Checks if firmware names the memory modules; `table` is the outcome of reading its DMI table.
fn modules(machine: &Machine, table: Result<(), ReadError>) -> MachineCheck {
    const INSTEAD: &str = "the limit of memory bandwidth is that of sockets with every channel filled, or unknown; give --limits FILE";
    let described = machine.memory.modules.as_ref().is_some_and(|modules| !modules.is_empty());
    match (described, machine.virtualisation.is_virtual, table) {
        (true, Some(false), _) => good("described by the firmware"),
        (true, _, _) => unknown("described by a hypervisor, which makes them up", INSTEAD),
        (false, _, Err(ReadError::Denied(_))) => costs(
            "/sys/firmware/dmi/tables is readable by root alone",
            format!("{INSTEAD}, or measure as root"),
        ),
        (false, _, Ok(())) => unknown("the firmware's table names none", INSTEAD),
        (false, _, Err(_)) => unknown("no firmware table here", INSTEAD),
    }
}

fn io_uring(root: &Root, _: &Machine) -> MachineCheck {
    match root.line("proc/sys/kernel/io_uring_disabled").as_deref() {
        Ok("1" | "2") => costs(
            "switched off by kernel.io_uring_disabled",
            "disk.io falls back to psync, one transfer a thread: deep queues cannot be reached without io_uring",
        ),
        Ok(_) | Err(_) => good("not switched off"),
    }
}

fn locked_memory(root: &Root, _: &Machine) -> MachineCheck {
    let limits = root.text("proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|l| l.strip_prefix("Max locked memory"));
    let limit = line.and_then(|l| l.split_whitespace().next()).unwrap_or_default();
    match limit.parse::<u64>() {
        _ if limit == "unlimited" => good("no limit"),
        Ok(bytes) if bytes < 64 << 20 => costs(
            format!("limit {}", format_size(bytes)),
            "deep queues with large blocks may not register their buffers; raise ulimit -l",
        ),
        Ok(bytes) => good(format!("limit {}", format_size(bytes))),
        Err(_) => unknown("not shown", "registering buffers may fail"),
    }
}

fn echo(root: &Root, _: &Machine) -> MachineCheck {
    let root_user = rustix::process::geteuid().is_root();
    let range = root.line("proc/sys/net/ipv4/ping_group_range").unwrap_or_default();
    let bounds: Vec<u32> = range.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let group = rustix::process::getegid().as_raw();
    let allowed = matches!(bounds.as_slice(), [low, high] if (*low..=*high).contains(&group));
    match root_user || allowed {
        true => good("allowed"),
        false => costs(
            "this group is not in net.ipv4.ping_group_range",
            "network.latency --protocol icmp is skipped; --protocol tcp and udp need no right",
        ),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::cgroup::IoLimit;
    use plimsoll_machine::fixture::{Fixture, table};
    use plimsoll_result::fixture;

    use super::*;
    use crate::CheckState;

    fn of<'a>(all: &'a [MachineCheck], name: &str) -> &'a MachineCheck {
        all.iter().find(|c| c.name == name).unwrap()
    }

    #[test]
    fn nothing_known_is_said_and_never_called_good() {
        let all = checks(&Root::at("/nonexistent"), &Machine::discover(&Root::at("/nonexistent")));
        for name in ["governor", "turbo", "steal", "load", "huge pages", "memory modules", "locked memory"] {
            assert_eq!(of(&all, name).state, CheckState::Unknown, "{name}");
        }
    }

    #[test]
    fn what_costs_something_says_what_and_what_to_do() {
        let tree = Fixture::unpack(
            "proc/sys/kernel/io_uring_disabled = 2\n\
             proc/self/limits = Max locked memory         65536                65536                bytes\n\
             sys/devices/system/clocksource/clocksource0/current_clocksource = acpi_pm\n",
        )
        .unwrap();
        let mut machine = fixture::machine();
        machine.cpu.clock.governors = ["powersave".to_owned()].into();
        machine.state.turbo = Some(true);
        machine.state.steal_since_boot = Some(0.2);
        machine.memory.transparent_huge_pages = Some("never".to_owned());
        machine.cpu.online = "0-3".parse().unwrap();
        let limit = IoLimit { device: "8:0".to_owned(), reads: Some(200), ..IoLimit::default() };
        machine.cgroup.io = vec![limit];
        let all = checks(&tree.root, &machine);
        let names = "governor,turbo,steal,affinity,I/O limit,huge pages,time source,io_uring,locked memory";
        for name in names.split(',') {
            let check = of(&all, name);
            assert_eq!(check.state, CheckState::Costs, "{check:?}");
            assert!(check.cost.as_ref().is_some_and(|c| c.len() > 20), "{check:?}");
        }
        assert!(of(&all, "steal").found.contains("20 %"));
        assert_eq!(of(&all, "I/O limit").found, "8:0: reads 200 IOPS");
    }

    #[test]
    fn modules_are_described_by_a_table_of_any_length_and_hidden_from_users() {
        let slots = [("DIMM 0", "P0 CHANNEL A", Some((32, 2666))); 8];
        let root = Fixture::open("xeon-gold-6230-2s").unwrap();
        root.write("sys/firmware/dmi/tables/DMI", &table(&slots)).unwrap();
        let mut machine = root.machine();
        machine.virtualisation.is_virtual = Some(false);
        assert_eq!(firmware(&root.root, &machine).state, CheckState::Good);
        machine.virtualisation.is_virtual = Some(true);
        assert!(firmware(&root.root, &machine).found.contains("hypervisor"));
        machine.memory.modules = None;
        assert_eq!(firmware(&root.root, &machine).state, CheckState::Unknown);
        let denied = modules(&machine, Err(ReadError::Denied("/x".to_owned())));
        assert_eq!(denied.state, CheckState::Costs);
        assert!(denied.cost.is_some_and(|cost| cost.ends_with("measure as root")));
    }

    #[test]
    fn a_quiet_machine_is_called_so() {
        let mut machine = fixture::machine();
        machine.cpu.clock.governors = ["performance".to_owned()].into();
        machine.state.turbo = Some(false);
        machine.state.steal_since_boot = Some(0.0);
        machine.memory.transparent_huge_pages = Some("madvise".to_owned());
        let all = checks(&Root::at("/nonexistent"), &machine);
        let names = "governor,turbo,steal,CPU quota,I/O limit,affinity,huge pages,hardware counters";
        for name in names.split(',') {
            assert_eq!(of(&all, name).state, CheckState::Good, "{name}");
        }
    }
}
