//! Bandwidth of the memory channels of the sockets in use: those with modules, and all.

use std::collections::BTreeSet;

use plimsoll_machine::Machine;
use plimsoll_machine::smbios::Module;
use plimsoll_machine::virtualisation::{NITRO, Virtualisation};
use plimsoll_units::text::format_count;

use super::microarchitecture::SocketMemory;
use super::{Input, Limit, LimitKind, LimitScope, LimitSource};
use crate::case::Case;
use crate::place::cpus_of_case;

/// Name of the input that every limit of channels has, and no other.
pub const CHANNELS: &str = "channels";
/// Possible explanations of a figure past the limit of memory.
pub const PASSED_BY: &str =
    "a cache answered instead of memory, or this machine has more or faster memory than its limit counts";
const SMBIOS: &str = "SMBIOS, memory devices (type 17)";

/// Returns the limits of memory traffic in B/s of the sockets that the case's threads run on, or of
/// the socket of the case's node; the error is the reason why none is known.
pub fn channel_limits(machine: &Machine, case: &Case) -> Result<Vec<Limit>, String> {
    let populated = populated(machine, case);
    match (populated, full_channels_limit(machine, case)) {
        (Ok(populated), most) => {
            // If the populated channels carry more than the chip's row, the row belongs to another
            // chip, or the modules run faster than rated.
            let is_passed = |most: &Limit| populated.reason.is_none() && most.value < populated.value;
            let most = most.ok().filter(|most| !is_passed(most));
            Ok([populated].into_iter().chain(most).collect())
        }
        (Err(why), Ok(mut most)) => {
            let whole = most.reason.unwrap_or_default();
            let is_virtual = machine.virtualisation.is_virtual == Some(true);
            let less = if is_virtual { "a virtual machine may get less" } else { "it is unknown which are" };
            most.reason = Some(format!("{whole}{why}; {less}"));
            Ok(vec![most])
        }
        (Err(_), Err(why)) => Err(why),
    }
}

/// Multiplies the value by `factor`; appends `formula` (`× share`) and `inputs` that explain it.
pub fn multiply_limit(limit: Limit, factor: f64, inputs: &[Input], formula: &str) -> Limit {
    Limit {
        value: limit.value.map(|value| value * factor),
        formula: format!("{} {formula}", limit.formula),
        inputs: limit.inputs.iter().chain(inputs).cloned().collect(),
        ..limit
    }
}

/// Returns the limit in B/s of the case's sockets with the fastest modules in all channels.
fn full_channels_limit(machine: &Machine, case: &Case) -> Result<Limit, String> {
    let memory = SocketMemory::of(machine)?.ok_or_else(|| no_channels(machine))?;
    let (shown, _) = sockets(machine, case)?;
    let sockets = possible_sockets(machine, memory, shown);
    let from = format!("data/microarchitectures.toml, {}: {}", memory.name, memory.source);
    let whose = match case.node() {
        _ if sockets > shown => {
            "the most that a host of this chip has: a guest is not shown on which its memory is"
        }
        Some(_) => "the NUMA node with the memory",
        None => "the CPUs that the threads are pinned to",
    };
    let inputs = vec![
        Input::new("sockets", sockets, "1", whose),
        Input::new(CHANNELS, f64::from(memory.channels), "1", &from),
        Input::new("width", 8.0, "B", "a DDR channel is 64 bits wide"),
        Input::new("transfers", f64::from(memory.megatransfers) * 1e6, "1/s", &from),
    ];
    let value = sockets * memory.bytes_per_second();
    let formula = "sockets × channels × width × transfers";
    let limit = Limit::fixed(LimitKind::Ceiling, LimitSource::Rated, value, formula, inputs);
    let whose = if sockets > shown { "of all sockets that the host may have" } else { "of the whole socket" };
    let reason = Some(format!("{whose} with all channels filled"));
    let limit = Limit { reason, scope: Some(LimitScope::Socket), ..limit }.passed_by(PASSED_BY);
    Ok(match machine.virtualisation.is_virtual {
        Some(false) => limit,
        // Only the hypervisor knows the sockets of the guest's memory and the host's caches.
        Some(true) | None => limit.resting_on_or(
            format!("{} of {} memory channels ({})", format_count(sockets, "socket"), memory.channels, memory.name),
            "caches of the host answered; the hypervisor shows sockets of its own: give the limit of this guest by --limits",
        ),
    })
}

/// Returns the limit in B/s of the case's channels with modules; the error is why not, or empty.
fn populated(machine: &Machine, case: &Case) -> Result<Limit, String> {
    let modules = machine.memory.modules.as_deref().unwrap_or_default();
    if modules.is_empty() {
        return Err(String::new());
    }
    if machine.virtualisation.is_virtual != Some(false) {
        return Err(" (a hypervisor makes up what SMBIOS says)".to_owned());
    }
    let most = |number: fn(&Module) -> Option<u32>| {
        let numbers: Option<Vec<u32>> = modules.iter().map(number).collect();
        numbers?.into_iter().max().map(f64::from)
    };
    let (Some(bits), Some(speed)) = (most(|module| module.width_bits), most(|module| module.megatransfers))
    else {
        return Err(" (SMBIOS lacks the width or the speed of a module)".to_owned());
    };
    let named: Option<BTreeSet<&str>> = modules.iter().map(|module| module.channel.as_deref()).collect();
    let reason = "the firmware does not name channels: each module is taken to have one of its own";
    let reason = named.is_none().then(|| reason.to_owned());
    let channels = named.map_or(modules.len(), |named| named.len());
    let (used, all) = match sockets(machine, case) {
        Err(why) if case.node().is_some() => return Err(format!("; {why}")),
        found => found.unwrap_or((1.0, 1.0)),
    };
    // Sockets are assumed to have equally many channels with modules; otherwise all channels count.
    let channels = channels as f64;
    let mine = if (channels / all).fract() == 0.0 { channels * used / all } else { channels };
    let of_sockets = match case.node() {
        Some(_) => "of the node's socket",
        None => "of the sockets that the threads are on",
    };
    let inputs = vec![
        Input::new(CHANNELS, mine, "1", &format!("{SMBIOS}: with modules, {of_sockets}")),
        Input::new("width", bits / 8.0, "B", SMBIOS),
        Input::new("transfers", speed * 1e6, "1/s", &format!("{SMBIOS}: configured speed")),
    ];
    let value = mine * bits / 8.0 * speed * 1e6;
    let limit =
        Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, value, "channels × width × transfers", inputs);
    let limit =
        limit.passed_by(PASSED_BY).resting_on_or("what the firmware says of the memory", "a cache answered");
    Ok(Limit { reason, ..limit })
}

fn no_channels(machine: &Machine) -> String {
    let hidden = match (machine.virtualisation.is_virtual, &machine.virtualisation.hypervisor) {
        (Some(true), Some(name)) => format!("{name} hides the memory's channels"),
        (Some(true), None) => "the hypervisor hides the memory's channels".to_owned(),
        _ => "which channels hold memory is in SMBIOS, which only root may read".to_owned(),
    };
    format!("data/microarchitectures.toml has no memory of this chip, and {hidden}; give it by --limits")
}

/// Returns the number of hardware sockets among the `shown` ones. A hypervisor may show each CPU as
/// a socket (QEMU's `-smp 8`), but each hardware socket has NUMA nodes of its own.
fn of_hardware(machine: &Machine, shown: usize) -> usize {
    let nodes =
        machine.memory.nodes.iter().filter(|node| node.total_bytes.is_some_and(|bytes| bytes > 0)).count();
    if machine.virtualisation.is_virtual == Some(false) { shown } else { shown.min(nodes.max(1)) }
}

/// Returns how many sockets may have the traffic if `shown` are visible: guests may see fewer.
fn possible_sockets(machine: &Machine, memory: &SocketMemory, shown: f64) -> f64 {
    if machine.virtualisation.is_virtual == Some(false) {
        return shown;
    }
    let seen = of_hardware(machine, machine.cpu.sockets.unwrap_or(1)).max(1);
    let most_cores = seen * memory.cores_most.max(1) as usize;
    let proven = shown * machine.cpu.cores.unwrap_or(0).div_ceil(most_cores) as f64;
    let hidden = if shows_sockets(machine) { 1.0 } else { f64::from(memory.sockets_most) };
    shown.max(proven).max(hidden)
}

/// Returns whether a guest sees the real sockets of its CPUs: on some clouds
/// (github.com/SpareCores/sc-inspector-data), or if several sockets have memory.
fn shows_sockets(machine: &Machine) -> bool {
    let Virtualisation { hypervisor, system_vendor, .. } = &machine.virtualisation;
    let is_azure = system_vendor.as_deref() == Some("Microsoft Corporation");
    is_azure
        || hypervisor.as_deref().is_some_and(|name| [NITRO, "KVM (Google)"].contains(&name))
        || machine.cpu.sockets.is_some_and(|shown| shown > 1 && of_hardware(machine, shown) > 1)
}

/// Returns (sockets with the case's memory traffic, all sockets); fails if they are unknown.
fn sockets(machine: &Machine, case: &Case) -> Result<(f64, f64), String> {
    let node = case.node().and_then(|id| machine.memory.nodes.iter().find(|node| node.id as u64 == id));
    if let Some(node) = node.filter(|node| node.cpus.is_empty()) {
        return Err(format!(
            "NUMA node {} has no CPUs: its memory may be HBM, CXL or a device's, and no socket's channels bound it; give \
             it by --limits",
            node.id
        ));
    }
    let of = |cpu: usize| machine.cpu.logical(cpu).and_then(|cpu| cpu.package);
    let used: Option<BTreeSet<u32>> = cpus_of_case(machine, case).into_iter().map(of).collect();
    // The kernel hides the package of an offline CPU.
    let running = machine.cpu.logical.iter().filter(|cpu| cpu.online);
    let all: Option<BTreeSet<u32>> = running.map(|cpu| cpu.package).collect();
    match (used, all) {
        (Some(_), Some(all)) if case.node().is_some() => Ok((1.0, all.len() as f64)),
        (Some(used), Some(all)) if !used.is_empty() => {
            Ok((of_hardware(machine, used.len()) as f64, all.len() as f64))
        }
        _ => Err("the kernel does not tell which socket the CPUs are on".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::fixture::{Fixture, Slot, table};

    use super::*;

    const TABLE: &str = "sys/firmware/dmi/tables/DMI";
    const SPEED: u16 = 2666;

    fn xeon(filled: impl Fn(usize) -> bool) -> Machine {
        let bank = |slot: u8| format!("P{} CHANNEL {}", slot / 12, (b'A' + slot % 12 / 2) as char);
        let banks: Vec<String> = (0..24).map(bank).collect();
        let module = |slot: usize| filled(slot).then_some((32, SPEED));
        let slot = |n: usize| (["DIMM 0", "DIMM 1"][n % 2], banks[n].as_str(), module(n));
        let slots: Vec<Slot<'_>> = (0..24).map(slot).collect();
        let fixture = Fixture::open("xeon-gold-6230-2s").unwrap();
        fixture.write(TABLE, &table(&slots)).unwrap();
        let mut machine = fixture.machine();
        machine.virtualisation.is_virtual = Some(false);
        machine
    }

    fn on(threads: u64) -> Case {
        Case::of("memory.bandwidth").with_count("threads", threads)
    }

    fn values(machine: &Machine, threads: u64) -> Vec<(Option<f64>, LimitSource)> {
        let limits = channel_limits(machine, &on(threads)).unwrap().into_iter();
        limits.map(|limit| (limit.value, limit.source)).collect()
    }

    #[test]
    fn channels_are_counted_and_not_slots() {
        let channel = 8.0 * f64::from(SPEED) * 1e6;
        let maximum = (Some(6.0 * 8.0 * 2933e6), LimitSource::Rated);
        let full = xeon(|_| true);
        assert_eq!(full.memory.modules.as_ref().map(Vec::len), Some(24));
        assert_eq!(values(&full, 1), [(Some(6.0 * channel), LimitSource::Derived), maximum]);
        let one_each = xeon(|slot| slot % 2 == 0);
        assert_eq!(values(&one_each, 1), values(&full, 1), "a second module on a channel adds nothing");
        let half = xeon(|slot| slot % 4 == 0);
        assert_eq!(values(&half, 1)[0].0, Some(3.0 * channel));
        let mut both = half.clone();
        both.cpu.allowed = both.cpu.online.clone();
        assert_eq!(values(&both, 40)[0].0, Some(6.0 * channel), "threads on both sockets");
        let one_node = channel_limits(&both, &on(40).with_count("node", 1)).unwrap();
        assert_eq!(one_node[0].value, Some(3.0 * channel), "memory of one node is on one socket");
        let uneven = xeon(|slot| slot < 2 || slot == 12 || slot == 14);
        assert_eq!(values(&uneven, 1)[0].0, Some(3.0 * channel), "nothing tells which socket has two");
    }

    #[test]
    fn modules_that_are_faster_than_the_row_of_the_chip_count() {
        let mut fast = xeon(|_| true);
        fast.memory.modules.iter_mut().flatten().for_each(|module| module.megatransfers = Some(3600));
        assert_eq!(values(&fast, 1), [(Some(6.0 * 8.0 * 3600e6), LimitSource::Derived)]);
        fast.memory.modules.iter_mut().flatten().for_each(|module| module.channel = None);
        assert_eq!(values(&fast, 1).len(), 2);
    }

    #[test]
    fn a_guests_sockets_are_a_fact_that_a_figure_can_refute() {
        let mut machine = xeon(|_| true);
        let of_firmware = channel_limits(&machine, &on(1)).unwrap().remove(0).fact.map(|fact| fact.text);
        assert_eq!(of_firmware.as_deref(), Some("what the firmware says of the memory"));
        for is_virtual in [Some(true), None] {
            machine.virtualisation.is_virtual = is_virtual;
            let limit = channel_limits(&machine, &on(1)).unwrap().remove(0);
            let fact = limit.fact.clone().map(|fact| fact.text).unwrap_or_default();
            assert!(fact.starts_with("1 socket of 6 memory channels ("), "{fact}");
            let half = multiply_limit(limit, 0.5, &[], "× share");
            assert!(half.fact.is_some(), "what the program moves rests on it too");
        }
        for (number, cpu) in machine.cpu.logical.iter_mut().enumerate() {
            cpu.package = u32::try_from(number).ok();
        }
        machine.cpu.allowed = machine.cpu.online.clone();
        let limit = channel_limits(&machine, &on(40)).unwrap().remove(0);
        assert_eq!(limit.value, Some(2.0 * 6.0 * 8.0 * 2933e6));
    }

    #[test]
    fn cpus_that_are_off_are_no_sockets() {
        let machine = Fixture::open("smt-off-at-run-time").unwrap().machine();
        let socket = 8.0 * 8.0 * 4800e6;
        assert_eq!(values(&machine, 1), [(Some(socket), LimitSource::Rated)]);
        let threads = machine.cpu.allowed.len() as u64;
        assert_eq!(values(&machine, threads), [(Some(2.0 * socket), LimitSource::Rated)]);
    }

    #[test]
    fn a_guest_may_have_memory_of_sockets_that_it_is_not_shown() {
        for (name, least) in [
            ("two-sockets-shown-as-one-8163", 150.9),
            ("two-sockets-shown-as-one-8570", 386.0),
            ("two-sockets-shown-as-one-haswell", 92.1),
            ("two-sockets-shown-as-one-ivy-bridge", 90.0),
            ("wsl2-two-sockets-as-one", 153.6),
        ] {
            let machine = Fixture::open(name).unwrap().machine();
            let threads = machine.cpu.allowed.len() as u64;
            for (value, _) in values(&machine, threads) {
                assert!(value.is_some_and(|value| value >= least * 1e9), "{name}: {value:?}");
            }
        }
        let mut nitro = Fixture::open("two-sockets-shown-as-one-haswell").unwrap().machine();
        nitro.virtualisation.hypervisor = Some(NITRO.to_owned());
        assert_eq!(values(&nitro, 1)[0].0, Some(4.0 * 8.0 * 2133e6));
        nitro.cpu.cores = Some(40);
        assert_eq!(values(&nitro, 1)[0].0, Some(3.0 * 4.0 * 8.0 * 2133e6));
    }

    #[test]
    fn memory_without_cpus_is_on_no_sockets_channels() {
        let mut machine = xeon(|_| true);
        let node = machine.memory.nodes.last_mut().unwrap();
        node.cpus = plimsoll_machine::CpuSet::default();
        let id = node.id as u64;
        let why = channel_limits(&machine, &on(1).with_count("node", id)).unwrap_err();
        assert!(why.contains("has no CPUs"), "{why}");
    }

    #[test]
    fn without_names_of_channels_each_module_may_have_one() {
        let mut machine = xeon(|slot| slot < 4);
        machine.memory.modules.iter_mut().flatten().for_each(|module| module.channel = None);
        let limit = channel_limits(&machine, &on(1)).unwrap().remove(0);
        assert_eq!(limit.inputs[0].value, 2.0, "four modules, two sockets");
        assert!(limit.reason.is_some_and(|why| why.contains("does not name channels")));
    }

    #[test]
    fn what_a_hypervisor_makes_up_or_the_firmware_leaves_out_does_not_count() {
        let reason = |machine: &Machine| {
            let limits = channel_limits(machine, &on(1)).unwrap();
            assert_eq!((limits.len(), limits[0].source), (1, LimitSource::Rated));
            limits[0].reason.clone().unwrap_or_default()
        };
        let mut machine = xeon(|_| true);
        machine.virtualisation.is_virtual = Some(true);
        let made_up = "of the whole socket with all channels filled (a hypervisor makes up what SMBIOS says)";
        assert!(reason(&machine).starts_with(made_up), "{}", reason(&machine));
        machine.virtualisation.is_virtual = None;
        assert!(reason(&machine).starts_with(made_up));
        machine.virtualisation.is_virtual = Some(false);
        machine.memory.modules.iter_mut().flatten().for_each(|module| module.megatransfers = None);
        assert!(reason(&machine).contains("lacks the width or the speed"));
        machine.memory.modules = None;
        assert_eq!(reason(&machine), "of the whole socket with all channels filled; it is unknown which are");
    }
}
