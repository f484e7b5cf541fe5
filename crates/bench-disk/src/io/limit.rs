//! Limits of disk figures: link of the device, ratings of maker or provider, promise of the
//! instance type to its volumes, rotation of a spinning disk. Unknown, with the reason, if the page
//! cache, a loop device, memory or a network is in between.

use crate::device::{DemandUnit, DeviceDemand, Shares, io_limit};
use crate::metrics::{LATENCY_METRIC, RATE_METRIC, THROUGHPUT_METRIC};
use plimsoll_machine::{DeviceLink, Disk, DiskKind, Machine, Medium};
use plimsoll_model::job::disk::{BlockOrder, CacheMode, DiskOperation, DiskTransfers};
use plimsoll_model::limit::device::{Burstable, Device, Promise};
use plimsoll_model::limit::user::OF_VIRTUAL_DEVICES;
use plimsoll_model::limit::{Input, Limit, LimitKind, LimitSource, Question, tightest_first};

const PASSED_BY: &str = "the page cache or the host's cache answered instead of the device";

/// Highest speed of a disk ever sold, per minute (Seagate Cheetah 15K, 2000, and similar).
const FASTEST_TURNS: f64 = 15_000.0;

/// Returns ceilings of a rate or floors of a latency; `is_lone`: whether one transfer is in flight.
pub(crate) fn limits(question: &Question<'_>, is_lone: fn(&DiskTransfers) -> bool) -> Vec<Limit> {
    let Ok(job) = DiskTransfers::of(question.case) else { return Vec::new() };
    match (question.metric, job.mean_block()) {
        (THROUGHPUT_METRIC, _) => ceilings(question, &job, DemandUnit::Bytes),
        (RATE_METRIC, Some(block)) => ceilings(question, &job, DemandUnit::Transfers { block }),
        (LATENCY_METRIC, _) => floors(question, &job, is_lone(&job)),
        _ => Vec::new(),
    }
}

/// Returns all known ceilings in `counted` units per second, tightest first, or why none is known.
fn ceilings(question: &Question<'_>, job: &DiskTransfers, counted: DemandUnit) -> Vec<Limit> {
    let of_groups = DeviceDemand::of(job).and_then(|of| io_limit::ceiling(question.machine, of, counted));
    with_that_of_groups(of_devices(question, job, counted), of_groups)
}

/// Returns all limits, tightest first; that of the control groups replaces unknown ones.
fn with_that_of_groups(mut all: Vec<Limit>, of_groups: Option<Limit>) -> Vec<Limit> {
    if let Some(limit) = of_groups {
        all.retain(|limit| limit.value.is_some());
        all.push(limit);
    }
    tightest_first(&mut all);
    all
}

fn of_devices(question: &Question<'_>, job: &DiskTransfers, counted: DemandUnit) -> Vec<Limit> {
    let known = Shares::of(job.operation).and_then(|shares| Ok((shares, disks(question, job)?)));
    let (shares, disks) = match known {
        Ok(known) => known,
        Err(reason) => return vec![Limit::unknown(LimitKind::Ceiling, reason)],
    };
    let machine = question.machine;
    let link = links(machine, &disks).map(|links| {
        let limit = crossing(&links, shares, counted);
        let reason = redundancy_remark(machine).filter(|_| shares.write > 0.0);
        let limit = Limit { reason: reason.or(limit.reason.clone()), ..limit };
        match machine.virtualisation.is_virtual {
            Some(true) => limit.resting_on_or("the link that the hypervisor shows", "its cache answered"),
            _ => limit,
        }
    });
    let rated = [rated_limit(&disks, shares, counted), instance_limit(question, &disks, shares, counted)];
    let rated = rated.into_iter().flatten().map(Limit::promised);
    let mut all: Vec<Limit> = rated.chain(link.clone().ok()).collect();
    if let (Err(reason), true) = (link, all.is_empty()) {
        let virtualised = disks.iter().any(|disk| matches!(disk.kind, DiskKind::Xen | DiskKind::Nvme));
        let stated = Burstable::unpublished_note(&question.machine.virtualisation).filter(|_| virtualised);
        all.push(Limit::unknown(LimitKind::Ceiling, reason + &stated.unwrap_or_default()));
    }
    all.into_iter().map(|limit| limit.passed_by(PASSED_BY)).collect()
}

fn crossing(links: &[(&Disk, &DeviceLink)], shares: Shares, counted: DemandUnit) -> Limit {
    let (mut inputs, mut all) = (Vec::new(), 0.0);
    for (disk, link) in links {
        all += shares.max_rate_on_link(link.coded_bit_per_s() / 8.0, link.is_duplex());
        inputs.extend(inputs_of(disk, link));
    }
    let sum = if links.len() > 1 { "Σ disks: " } else { "" };
    let formula =
        format!("({sum}line rate × lanes × line coding ÷ 8){}{}", counted.suffix(), shares.suffix());
    if let DemandUnit::Transfers { block } = counted {
        inputs.push(Input::new("block", block, "B", "the case"));
    }
    Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, all / counted.bytes(), &formula, inputs)
}

/// Returns the sum of the makers' ratings of `disks`, in units of `counted` per second, for loads
/// with these shares of reads and writes; `None` unless all disks have a rating.
fn rated_limit(disks: &[&Disk], shares: Shares, counted: DemandUnit) -> Option<Limit> {
    let mut sum = 0.0;
    let mut inputs = Vec::new();
    let mut any = None;
    for disk in disks {
        let row = Device::of(disk)?;
        let by_bytes = shares.max_rate_by_limits(row.read, row.write)? / counted.bytes();
        let by_transfers = shares.max_rate_by_limits(row.read_io, row.write_io);
        let by_transfers = by_transfers.filter(|_| counted != DemandUnit::Bytes).unwrap_or(f64::INFINITY);
        let own = by_transfers.min(by_bytes);
        sum += own;
        any = any.or_else(|| row.any.then_some(row));
        let checked = row.checked.as_ref().map_or("; not re-read for this file", |_| "");
        let from = format!("data/devices.toml, {}: {}{checked}", row.name, row.source);
        inputs.push(Input::new(&format!("rating of {}", disk.name), own, counted.unit(), &from));
    }
    let formula = if disks.len() > 1 { "Σ disks: rating" } else { "rating" };
    let formula = format!("{formula}{}", shares.suffix());
    let limit = Limit::fixed(LimitKind::Ceiling, LimitSource::Rated, sum, &formula, inputs);
    let reason = any.map(|row| {
        let name = &row.name;
        format!("the type of the volume cannot be seen: that of the fastest {name}; give yours with --limits")
    });
    Some(Limit { reason, ..limit })
}

/// Returns the rate that the cloud instance type promises to all its volumes together, in units of
/// `counted` per second; `None` if the type or a volume is unknown.
fn instance_limit(
    question: &Question<'_>,
    disks: &[&Disk],
    shares: Shares,
    counted: DemandUnit,
) -> Option<Limit> {
    let promise = Promise::of(&question.machine.virtualisation, disks)?;
    let by_bytes = shares.max_rate_on_link(promise.bytes, false) / counted.bytes();
    let value = match counted {
        DemandUnit::Bytes => by_bytes,
        DemandUnit::Transfers { .. } => shares.max_rate_on_link(promise.transfers, false).min(by_bytes),
    };
    let source = &promise.source;
    let from =
        format!("data/instances.toml by the firmware's product name; {source}; not re-read for this file");
    let input = Input::new(&format!("promise of {}", promise.product), value, counted.unit(), &from);
    let formula = format!("promise of the instance to all its volumes{}", shares.suffix());
    let mut limit = Limit::fixed(LimitKind::Ceiling, LimitSource::Rated, value, &formula, vec![input]);
    let small = "small sizes reach it for half an hour a day, and less for longer".to_owned();
    limit.reason = Some(std::iter::once(small).chain(promise.weighting).collect::<Vec<_>>().join("; "));
    Some(limit)
}

/// Returns lower bounds of the mean latency in s, from cgroup I/O limits and, if `is_lone` (one
/// transfer in flight), disk access times; an unknown limit if there is none.
fn floors(question: &Question<'_>, job: &DiskTransfers, is_lone: bool) -> Vec<Limit> {
    let of_groups = DeviceDemand::of(job).and_then(|demand| io_limit::floor(question, demand));
    with_that_of_groups(vec![access(question, job, is_lone)], of_groups)
}

/// Returns the lower bound of the mean latency, s, of random reads from spinning disks if `is_lone`
/// (one in flight): half a turn. For other jobs and disks, returns an unknown limit.
fn access(question: &Question<'_>, job: &DiskTransfers, is_lone: bool) -> Limit {
    let unknown = || Limit::unknown(LimitKind::Floor, "no vendor documents the access time");
    let is_lone = is_lone && job.operation == DiskOperation::Read && job.order == BlockOrder::Random;
    let Ok(disks) = disks(question, job) else { return unknown() };
    let turns =
        |disk: &&Disk| Device::of(disk).and_then(|row| Some((row.turns_per_minute?, row.source.as_str())));
    // Virtual disks, USB bridges, RAID controllers and a SAN may falsely report a rotating disk.
    let real = question.machine.virtualisation.is_virtual == Some(false);
    let is_stated = |disk: &Disk| {
        disk.kind == DiskKind::Sata
            || (disk.kind == DiskKind::Scsi && matches!(disk.link, Some(DeviceLink::Sas { .. })))
    };
    let spins =
        |disk: &&Disk| disk.rotational == Some(true) && (turns(disk).is_some() || (real && is_stated(disk)));
    if !is_lone || !disks.iter().all(spins) {
        return unknown();
    }
    let fastest = disks.iter().filter_map(turns).max_by(|a, b| a.0.total_cmp(&b.0));
    let all_known = disks.iter().all(|disk| turns(disk).is_some());
    let unknown = "no disk ever sold turned faster; this one does not tell how fast it does";
    let (turns, from) = fastest.filter(|_| all_known).unwrap_or((FASTEST_TURNS, unknown));
    let inputs = vec![Input::new("turns per minute", turns, "1/min", from)];
    let formula = "60 s ÷ turns per minute ÷ 2";
    Limit::fixed(LimitKind::Floor, LimitSource::Derived, 60.0 / turns / 2.0, formula, inputs)
}

/// Returns the disks below the test directory, or why they set no limit (such as a page cache).
fn disks<'a>(question: &Question<'a>, job: &DiskTransfers) -> Result<Vec<&'a Disk>, String> {
    if job.cache == CacheMode::Buffered {
        return Err("the page cache is between the program and the device".to_owned());
    }
    let storage =
        question.machine.storage.as_ref().ok_or("it is not known what is behind the test directory")?;
    let file_system = storage.file_system.as_ref();
    let kind = file_system.map_or("the file system", |fs| fs.fs_type.as_str());
    match file_system.map(|fs| fs.medium) {
        Some(Medium::Memory) => return Err(format!("{kind} is in memory: there is no device")),
        Some(Medium::Network) => return Err(format!("{kind} is on another machine")),
        Some(Medium::Stacked) => {
            return Err(format!("{kind} is on another file system, and its device is not known"));
        }
        Some(Medium::Device) | None => {}
    }
    if let Some(layer) = storage.layers.iter().find(|layer| layer.kind == DiskKind::Loop) {
        let layer = &layer.name;
        return Err(format!("loop device {layer}: the file behind it is cached by the file system below"));
    }
    if storage.disks.is_empty() {
        let why = storage.unknown.first().map_or(String::new(), |unknown| format!(": {}", unknown.why));
        return Err(format!("no disk was found behind the test directory{why}"));
    }
    Ok(storage.disks.iter().collect())
}

/// Returns a remark if a RAID layer also writes copies or parity; `None` without such a layer.
fn redundancy_remark(machine: &Machine) -> Option<String> {
    let is_redundant = |level: &str| ["raid1", "raid4", "raid5", "raid6", "raid10"].contains(&level);
    let mut layers = machine.storage.iter().flat_map(|storage| &storage.layers);
    let layer = layers.find(|layer| layer.detail.as_deref().is_some_and(is_redundant))?;
    Some(format!("of all disks together; {} also writes copies or parity to them", layer.name))
}

/// Returns each disk with its link (PCI Express 4.0 ×4). Fails with the reason if one is unknown.
fn links<'a>(machine: &Machine, disks: &[&'a Disk]) -> Result<Vec<(&'a Disk, &'a DeviceLink)>, String> {
    let is_guest = machine.virtualisation.is_virtual == Some(true);
    let link = |disk: &&'a Disk| {
        // Emulated controllers show the link of their original; only PCIe may be real.
        if is_guest && matches!(disk.kind, DiskKind::Sata | DiskKind::Scsi | DiskKind::Usb) {
            let name = &disk.name;
            return Err(format!(
                "{name}: the hypervisor makes up the speed of its link; {OF_VIRTUAL_DEVICES}"
            ));
        }
        // A network volume that poses as a local disk shows a link that does not exist.
        let link = disk.link.as_ref().filter(|_| !Device::of(disk).is_some_and(|row| row.any));
        link.map(|link| (*disk, link)).ok_or_else(|| no_link_reason(disk))
    };
    disks.iter().map(link).collect()
}

fn no_link_reason(disk: &Disk) -> String {
    let name = &disk.name;
    match disk.kind {
        DiskKind::Virtio | DiskKind::Xen => {
            format!(
                "virtual device {name}: the hypervisor states no speed, and its page cache may answer; {OF_VIRTUAL_DEVICES}"
            )
        }
        DiskKind::Network => format!("{name} is on another machine"),
        DiskKind::Zram | DiskKind::Ram => format!("{name} is in memory: there is no device"),
        _ => format!("{name}: the system states no speed of its link"),
    }
}

fn inputs_of(disk: &Disk, link: &DeviceLink) -> Vec<Input> {
    let input = |what: &str, value: f64, unit: &str, from: &str| {
        Input::new(&format!("{what} of {}", disk.name), value, unit, from)
    };
    let (line, lanes, from) = match *link {
        DeviceLink::Pcie { transfers_per_s, lanes, .. } => (
            transfers_per_s as f64,
            f64::from(lanes),
            "sysfs current_link_speed, current_link_width: the slowest on the way",
        ),
        DeviceLink::Sata { line_bit_per_s } => (line_bit_per_s as f64, 1.0, "sysfs sata_spd"),
        DeviceLink::Sas { line_bit_per_s, lanes } => {
            (line_bit_per_s as f64, f64::from(lanes), "sysfs negotiated_linkrate of the port's phys")
        }
        DeviceLink::Usb { line_bit_per_s } => (line_bit_per_s as f64, 1.0, "sysfs speed"),
    };
    let coding = link.coded_bit_per_s() / (line * lanes);
    let standards =
        "PCI Express 6.0 §4.2, Serial ATA 3.5 §7, SPL-5 §5, USB 3.2 §6: payload bits of those sent";
    vec![
        input("line rate", line, "bit/s", from),
        input("lanes", lanes, "1", from),
        input("line coding", coding, "1", standards),
    ]
}

#[cfg(test)]
mod tests;
