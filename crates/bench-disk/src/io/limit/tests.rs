use super::*;
use plimsoll_machine::fixture::{disk, layer, mounted};
use plimsoll_machine::{Machine, MountedFileSystem, Root, Storage};
use plimsoll_model::case::Case;
use plimsoll_model::fixture::limits_of;

fn pcie(transfers_per_s: u64, lanes: u32) -> Option<DeviceLink> {
    Some(DeviceLink::Pcie { transfers_per_s, lanes, max_transfers_per_s: None, max_lanes: None })
}

fn machine(medium: Medium, layers: &[(&str, DiskKind)], disks: Vec<Disk>) -> Machine {
    let mut machine = Machine::discover(&Root::live());
    machine.virtualisation.is_virtual = Some(false);
    let file_system = MountedFileSystem { medium, ..mounted("somefs") };
    machine.storage = Some(Storage {
        file_system: Some(file_system),
        layers: layers.iter().map(|(name, kind)| layer(name, *kind)).collect(),
        disks,
        ..Storage::default()
    });
    machine
}

fn case(block: u64, cache: &str) -> Case {
    Case::of("disk.io").with_size("block", block).with_word("cache", cache)
}

fn of(machine: &Machine, case: &Case, metric: &str) -> Limit {
    let limits = all(machine, case, metric);
    assert_eq!(limits.len(), 1, "{metric}");
    limits.into_iter().next().expect("a limit")
}

#[test]
fn an_nvme_disk_is_bound_by_its_pcie_link() {
    let here = machine(Medium::Device, &[], vec![disk("nvme0n1", DiskKind::Nvme, pcie(16_000_000_000, 4))]);
    let limit = of(&here, &case(4096, "direct"), "throughput");
    // 16 GT/s × 4 × 128/130 ÷ 8: 7.877 GB/s, the published figure of PCIe 4.0 x4.
    assert!((limit.value.expect("known") / 1e9 - 7.877).abs() < 0.001);
    assert_eq!((limit.kind, limit.source), (LimitKind::Ceiling, LimitSource::Derived));
    let product = limit.inputs.iter().map(|input| input.value).product::<f64>() / 8.0;
    assert!((product / limit.value.expect("known") - 1.0).abs() < 1e-12, "the inputs give the value");
    let rate = of(&here, &case(4096, "direct"), "rate");
    assert!((rate.value.expect("known") * 4096.0 / limit.value.expect("known") - 1.0).abs() < 1e-12);
    assert!(rate.formula.ends_with("÷ block"), "{}", rate.formula);
}

#[test]
fn a_sata_disk_by_its_line_and_striped_disks_by_the_sum() {
    let sata = || Some(DeviceLink::Sata { line_bit_per_s: 6_000_000_000 });
    let one = machine(Medium::Device, &[], vec![disk("sda", DiskKind::Sata, sata())]);
    assert_eq!(of(&one, &case(1 << 20, "direct"), "throughput").value, Some(6e8));
    let disks = vec![disk("sda", DiskKind::Sata, sata()), disk("sdb", DiskKind::Sata, sata())];
    let two = machine(Medium::Device, &[("md0", DiskKind::Md)], disks);
    let limit = of(&two, &case(1 << 20, "direct"), "throughput");
    assert_eq!((limit.value, limit.inputs.len()), (Some(1.2e9), 6));
    assert!(limit.formula.contains("Σ disks"));
}

#[test]
fn what_a_hypervisor_says_of_a_link_bounds_nothing() {
    let sata = disk("sda", DiskKind::Sata, Some(DeviceLink::Sata { line_bit_per_s: 1_500_000_000 }));
    let mut guest = machine(Medium::Device, &[], vec![sata]);
    guest.virtualisation.is_virtual = Some(true);
    let limit = of(&guest, &case(1 << 20, "direct"), "throughput");
    assert!(limit.value.is_none() && limit.reason.is_some_and(|why| why.contains("hypervisor makes up")));
    // A drive may be passed through: a figure above its link refutes it.
    let mut guest = machine(Medium::Device, &[], vec![disk("nvme0", DiskKind::Nvme, pcie(2_500_000_000, 1))]);
    assert!(of(&guest, &case(4096, "direct"), "throughput").fact.is_none());
    guest.virtualisation.is_virtual = Some(true);
    assert!(of(&guest, &case(4096, "direct"), "throughput").fact.is_some());
}

#[test]
fn a_mirror_or_parity_is_named() {
    let sata = || Some(DeviceLink::Sata { line_bit_per_s: 6_000_000_000 });
    let disks = vec![disk("sda", DiskKind::Sata, sata()), disk("sdb", DiskKind::Sata, sata())];
    let mut machine = machine(Medium::Device, &[("md0", DiskKind::Md)], disks);
    let mut named = |level: &str, op: &str| {
        machine.storage.as_mut().unwrap().layers[0].detail = Some(level.to_owned());
        let limit = of(&machine, &case(1 << 20, "direct").with_word("op", op), "throughput");
        limit.reason.is_some_and(|why| why.contains("md0 also writes copies or parity"))
    };
    assert!(named("raid1", "write") && !named("raid1", "read") && !named("raid0", "write"));
}

#[test]
fn what_has_no_device_limit_says_why() {
    let nvme = || vec![disk("nvme0n1", DiskKind::Nvme, pcie(8_000_000_000, 4))];
    let cases = [
        (machine(Medium::Device, &[], vec![disk("vda", DiskKind::Virtio, None)]), "virtual device vda"),
        (machine(Medium::Device, &[("loop3", DiskKind::Loop)], nvme()), "loop device loop3"),
        (machine(Medium::Device, &[], vec![disk("zram0", DiskKind::Zram, None)]), "in memory"),
        (machine(Medium::Device, &[], vec![disk("sda", DiskKind::Scsi, None)]), "no speed of its link"),
        (machine(Medium::Device, &[], Vec::new()), "no disk was found"),
        (machine(Medium::Memory, &[], nvme()), "there is no device"),
        (machine(Medium::Network, &[], nvme()), "another machine"),
        (machine(Medium::Stacked, &[], nvme()), "another file system"),
    ];
    for (machine, reason) in cases {
        let limit = of(&machine, &case(4096, "direct"), "rate");
        assert_eq!((limit.value, limit.source), (None, LimitSource::Unknown));
        assert!(limit.reason.as_deref().is_some_and(|r| r.contains(reason)), "{:?} {reason}", limit.reason);
    }
    // One unknown link among several makes the sum unknown, not smaller.
    let mut disks = nvme();
    disks.push(disk("vdb", DiskKind::Virtio, None));
    assert_eq!(of(&machine(Medium::Device, &[], disks), &case(4096, "direct"), "rate").value, None);
    let buffered = of(&machine(Medium::Device, &[], nvme()), &case(4096, "buffered"), "rate");
    assert!(buffered.reason.is_some_and(|reason| reason.contains("page cache")));
}

#[test]
fn latencies_and_commits_have_unknown_limits_and_costs_none() {
    let machine = machine(Medium::Device, &[], vec![disk("nvme0n1", DiskKind::Nvme, pcie(8_000_000_000, 4))]);
    let latency = of(&machine, &case(4096, "direct"), "latency");
    assert_eq!((latency.value, latency.kind), (None, LimitKind::Floor));
    let commit = Case::of("disk.fsync").with_size("block", 4096);
    assert_eq!(of(&machine, &commit, "latency").kind, LimitKind::Floor);
    assert_eq!(of(&machine, &commit, "rate").kind, LimitKind::Ceiling);
    for metric in ["slat", "cpu", "depth"] {
        assert!(all(&machine, &case(4096, "direct"), metric).is_empty());
    }
}

fn all(machine: &Machine, case: &Case, metric: &str) -> Vec<Limit> {
    limits_of(|question| crate::SUBSYSTEM.limits(question), (machine, case, metric), &[])
}

#[test]
fn what_a_drive_is_rated_at_stands_beside_its_link() {
    let mut drive = disk("nvme0n1", DiskKind::Nvme, pcie(16_000_000_000, 4));
    drive.model = Some("Samsung SSD 990 PRO 2TB".to_owned());
    let machine = machine(Medium::Device, &[], vec![drive]);
    let read = |block: u64| case(block, "direct").with_word("op", "read");
    let limits = all(&machine, &read(1 << 20), "throughput");
    let said = limits.iter().map(|l| l.source).collect::<Vec<_>>();
    assert_eq!(said, [LimitSource::Rated, LimitSource::Derived]);
    assert_eq!(limits[0].value, Some(7.45e9));
    assert!(limits[0].inputs[0].from.contains("990 PRO"), "{:?}", limits[0].inputs);
    assert_eq!(all(&machine, &read(4096), "rate")[0].value, Some(1.6e6));
    assert_eq!(all(&machine, &read(1 << 20), "rate")[0].value, Some(7.45e9 / f64::from(1 << 20)));
    assert_eq!(all(&machine, &read(4096).with_word("op", "write"), "rate")[0].value, Some(1.55e6));
    // In a mix each direction has its own bound, and the link serves both at once.
    let mixed = read(4096).with_word("op", "mixed");
    let rate = all(&machine, &mixed, "rate")[0].value;
    assert!(rate.is_some_and(|value| (value - 1.6e6 / 0.7).abs() < 1.0), "{rate:?}");
    let link = 16e9 * 4.0 / 8.0 * 128.0 / 130.0;
    let by_link = |case: &Case| all(&machine, case, "throughput").last().and_then(|l| l.value);
    assert!(by_link(&mixed).is_some_and(|value| (value - link / 0.7).abs() < 1.0));
    assert!(by_link(&mixed.with_word("op", "copy")).is_some_and(|value| (value - link).abs() < 1.0));
    let trim = &all(&machine, &read(4096).with_word("op", "trim"), "rate")[0];
    assert!(trim.reason.as_ref().is_some_and(|why| why.contains("no data")), "{trim:?}");
}

#[test]
fn a_cloud_volume_is_held_to_the_fastest_type_and_to_what_the_instance_promises() {
    let mut volume = disk("nvme1n1", DiskKind::Nvme, pcie(8_000_000_000, 4));
    volume.model = Some("Amazon Elastic Block Store".to_owned());
    let mut machine = machine(Medium::Device, &[], vec![volume]);
    let read = case(4096, "direct").with_word("op", "read");
    let limits = all(&machine, &read, "rate");
    assert_eq!(limits.len(), 1, "a link that is not there bounds nothing");
    assert_eq!((limits[0].value, limits[0].source), (Some(256_000.0), LimitSource::Rated));
    assert!(limits[0].reason.as_ref().is_some_and(|why| why.contains("cannot be seen")), "{limits:?}");
    machine.virtualisation.system_vendor = Some("Amazon EC2".to_owned());
    machine.virtualisation.product = Some("m5.xlarge".to_owned());
    let limits = all(&machine, &read, "rate");
    assert_eq!(limits[0].value, Some(18_750.0));
    assert!(limits[0].inputs[0].name.contains("m5.xlarge"));
    let large = case(1 << 20, "direct").with_word("op", "read");
    assert_eq!(all(&machine, &large, "throughput")[0].value, Some(593.75e6));
}

#[test]
fn a_spinning_disk_answers_after_half_a_turn_in_the_mean() {
    let spinning = |model: Option<&str>| Disk {
        rotational: Some(true),
        model: model.map(str::to_owned),
        ..disk("sda", DiskKind::Sata, Some(DeviceLink::Sata { line_bit_per_s: 6_000_000_000 }))
    };
    let lone = case(4096, "direct").with_word("op", "read").with_word("pattern", "random");
    let lone = lone.with_count("depth", 1).with_count("threads", 1);
    let floor = |disk: Disk, virtual_: bool, case: &Case| {
        let mut machine = machine(Medium::Device, &[], vec![disk]);
        machine.virtualisation.is_virtual = Some(virtual_);
        all(&machine, case, "latency").remove(0)
    };
    let known = floor(spinning(Some("ST18000NM000J-2TV103")), false, &lone);
    assert_eq!((known.value, known.kind), (Some(60.0 / 7200.0 / 2.0), LimitKind::Floor));
    let other = floor(spinning(Some("WDC WD10EZEX")), false, &lone);
    assert_eq!(other.value, Some(0.002));
    assert!(other.inputs[0].from.contains("no disk ever sold turned faster"));
    // A virtual disk is not trusted; a queue can be sorted; a write can wait in a cache.
    let queued = lone.clone().with_count("depth", 32);
    let write = lone.clone().with_word("op", "write");
    for (disk, virtual_, case) in
        [(spinning(None), true, &lone), (spinning(None), false, &queued), (spinning(None), false, &write)]
    {
        assert_eq!(floor(disk, virtual_, case).value, None);
    }
    assert_eq!(floor(disk("sda", DiskKind::Sata, None), false, &lone).value, None);
    // A USB stick, and volumes of a SAN or RAID controller, may report rotation too.
    for (kind, link) in
        [(DiskKind::Usb, Some(DeviceLink::Usb { line_bit_per_s: 5_000_000_000 })), (DiskKind::Scsi, None)]
    {
        assert_eq!(floor(Disk { kind, link, ..spinning(None) }, false, &lone).value, None);
    }
    let sas = Some(DeviceLink::Sas { line_bit_per_s: 12_000_000_000, lanes: 1 });
    let of_sas = Disk { kind: DiskKind::Scsi, link: sas, ..spinning(None) };
    assert_eq!(floor(of_sas, false, &lone).value, Some(0.002));
}
