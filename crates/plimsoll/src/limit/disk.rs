//! Limits of disk figures: the link that attaches the device. What the device itself can do, nobody states in a form
//! that a program could read.
//!
//! A link bounds only what crosses it: with the page cache in between, on a loop device (whose file is cached by the
//! file system below), in memory or over a network there is no device limit, and it is said why.

use super::{Input, Kind, Limit, Question, Source};
use crate::machine::disk::{Disk, DiskKind, Link};
use crate::machine::storage::{Medium, Storage};

/// Limits of `disk.io`.
pub fn io(question: &Question<'_>) -> Vec<Limit> {
    let block = question.case.number("block").filter(|bytes| *bytes > 0);
    match (question.metric, block) {
        ("throughput", _) => vec![crossing(question, 1.0, "")],
        ("rate", Some(block)) => vec![crossing(question, block as f64, " ÷ block")],
        ("latency", _) => vec![Limit::unknown(Kind::Floor, "no device states how long an access takes")],
        _ => Vec::new(),
    }
}

/// Limits of `disk.fsync`.
pub fn fsync(question: &Question<'_>) -> Vec<Limit> {
    let kind = match question.metric {
        "latency" => Kind::Floor,
        "rate" => Kind::Ceiling,
        _ => return Vec::new(),
    };
    vec![Limit::unknown(kind, "no device states how long it takes to empty its write cache")]
}

/// The ceiling by the links, in units of `per` bytes.
fn crossing(question: &Question<'_>, per: f64, suffix: &str) -> Limit {
    match links(question) {
        Err(reason) => Limit::unknown(Kind::Ceiling, reason),
        Ok(links) => {
            let (mut inputs, mut all) = (Vec::new(), 0.0);
            for (disk, link) in links {
                all += link.coded_bit_per_s() / 8.0;
                inputs.extend(inputs_of(disk, link));
            }
            let each = "line rate × lanes × line coding ÷ 8";
            let sum = if question.machine.storage.as_ref().is_some_and(|s| s.disks.len() > 1) {
                "Σ disks: "
            } else {
                ""
            };
            let formula = format!("({sum}{each}){suffix}");
            Limit::fixed(Kind::Ceiling, Source::Derived, all / per, &formula, inputs)
        }
    }
}

/// The links of all disks behind the test directory, or why there is no device limit.
fn links<'a>(question: &Question<'a>) -> Result<Vec<(&'a Disk, &'a Link)>, String> {
    if question.case.word("cache") == Some("buffered") {
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
    if let Some(layer) = looped(storage) {
        return Err(format!("loop device {layer}: the file behind it is cached by the file system below"));
    }
    if storage.disks.is_empty() {
        let why = storage.unknown.first().map_or(String::new(), |unknown| format!(": {}", unknown.why));
        return Err(format!("no disk was found behind the test directory{why}"));
    }
    storage
        .disks
        .iter()
        .map(|disk| disk.link.as_ref().map(|link| (disk, link)).ok_or_else(|| linkless(disk)))
        .collect()
}

/// The first loop device among the layers.
fn looped(storage: &Storage) -> Option<&str> {
    storage.layers.iter().find(|layer| layer.kind == DiskKind::Loop).map(|layer| layer.name.as_str())
}

/// Why a disk without a known link has no limit.
fn linkless(disk: &Disk) -> String {
    let name = &disk.name;
    match disk.kind {
        DiskKind::Virtio | DiskKind::Xen => format!("virtual device {name}: the host states no rate"),
        DiskKind::Network => format!("{name} is on another machine"),
        DiskKind::Zram | DiskKind::Ram => format!("{name} is in memory: there is no device"),
        DiskKind::Loop => {
            format!("loop device {name}: the file behind it is cached by the file system below")
        }
        DiskKind::Nvme
        | DiskKind::Sata
        | DiskKind::Usb
        | DiskKind::Scsi
        | DiskKind::Mmc
        | DiskKind::DeviceMapper
        | DiskKind::Md
        | DiskKind::Other => format!("{name}: the system states no speed of its link"),
    }
}

/// What the ceiling of one link is computed from.
fn inputs_of(disk: &Disk, link: &Link) -> Vec<Input> {
    let input = |what: &str, value: f64, unit: &str, from: &str| Input {
        name: format!("{what} of {}", disk.name),
        value,
        unit: unit.to_owned(),
        from: from.to_owned(),
    };
    let (line, lanes, from) = match *link {
        Link::Pcie { transfers_per_s, lanes, .. } => (
            transfers_per_s as f64,
            f64::from(lanes),
            "sysfs current_link_speed, current_link_width: the slowest on the way",
        ),
        Link::Sata { line_bit_per_s } => (line_bit_per_s as f64, 1.0, "sysfs sata_spd"),
        Link::Usb { line_bit_per_s } => (line_bit_per_s as f64, 1.0, "sysfs speed"),
    };
    let coding = link.coded_bit_per_s() / (line * lanes);
    vec![
        input("line rate", line, "bit/s", from),
        input("lanes", lanes, "1", from),
        input(
            "line coding",
            coding,
            "1",
            "PCI Express 6.0 §4.2, Serial ATA 3.5 §7, USB 3.2 §6: payload bits of those sent",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::limit::Evidence;
    use crate::machine::storage::{FileSystem, Layer};
    use crate::machine::{Machine, Root};

    fn disk(name: &str, kind: DiskKind, link: Option<Link>) -> Disk {
        Disk {
            name: name.to_owned(),
            number: None,
            kind,
            size_bytes: None,
            rotational: None,
            logical_sector_bytes: None,
            physical_sector_bytes: None,
            model: None,
            scheduler: None,
            write_cache: None,
            queue_requests: None,
            max_request_bytes: None,
            read_only: None,
            numa_node: None,
            link,
        }
    }

    fn pcie(transfers_per_s: u64, lanes: u32) -> Option<Link> {
        Some(Link::Pcie { transfers_per_s, lanes, max_transfers_per_s: None, max_lanes: None })
    }

    fn machine(medium: Medium, layers: &[(&str, DiskKind)], disks: Vec<Disk>) -> Machine {
        let mut machine = Machine::discover(&Root::live());
        let file_system = FileSystem {
            fs_type: "somefs".to_owned(),
            mount_point: "/".to_owned(),
            source: "/dev/x".to_owned(),
            options: Vec::new(),
            medium,
        };
        machine.storage = Some(Storage {
            file_system: Some(file_system),
            layers: layers
                .iter()
                .map(|(name, kind)| Layer { name: (*name).to_owned(), kind: *kind, detail: None })
                .collect(),
            disks,
            ..Storage::default()
        });
        machine
    }

    fn case(block: u64, cache: &str) -> Case {
        Case::of("disk.io").with_size("block", block).with_word("cache", cache)
    }

    fn of(machine: &Machine, case: &Case, metric: &str) -> Limit {
        let question = Question { machine, case, metric, samples: &[], evidence: Evidence::default() };
        let limits = crate::limit::limits(&question);
        assert_eq!(limits.len(), 1, "{metric}");
        limits.into_iter().next().expect("a limit")
    }

    #[test]
    fn an_nvme_disk_is_bound_by_its_pcie_link() {
        let machine =
            machine(Medium::Device, &[], vec![disk("nvme0n1", DiskKind::Nvme, pcie(16_000_000_000, 4))]);
        let limit = of(&machine, &case(4096, "direct"), "throughput");
        // 16 GT/s × 4 × 128/130 ÷ 8: 7.877 GB/s, the published figure of PCIe 4.0 x4.
        assert!((limit.value.expect("known") / 1e9 - 7.877).abs() < 0.001);
        assert_eq!((limit.kind, limit.source), (Kind::Ceiling, Source::Derived));
        let product = limit.inputs.iter().map(|input| input.value).product::<f64>() / 8.0;
        assert!((product / limit.value.expect("known") - 1.0).abs() < 1e-12, "the inputs give the value");
        let rate = of(&machine, &case(4096, "direct"), "rate");
        assert!((rate.value.expect("known") * 4096.0 / limit.value.expect("known") - 1.0).abs() < 1e-12);
        assert!(rate.formula.ends_with("÷ block"), "{}", rate.formula);
    }

    #[test]
    fn a_sata_disk_by_its_line_and_striped_disks_by_the_sum() {
        let sata = || Some(Link::Sata { line_bit_per_s: 6_000_000_000 });
        let one = machine(Medium::Device, &[], vec![disk("sda", DiskKind::Sata, sata())]);
        assert_eq!(of(&one, &case(1 << 20, "direct"), "throughput").value, Some(6e8));
        let disks = vec![disk("sda", DiskKind::Sata, sata()), disk("sdb", DiskKind::Sata, sata())];
        let two = machine(Medium::Device, &[("md0", DiskKind::Md)], disks);
        let limit = of(&two, &case(1 << 20, "direct"), "throughput");
        assert_eq!((limit.value, limit.inputs.len()), (Some(1.2e9), 6));
        assert!(limit.formula.contains("Σ disks"));
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
            assert_eq!((limit.value, limit.source), (None, Source::Unknown));
            assert!(
                limit.reason.as_deref().is_some_and(|r| r.contains(reason)),
                "{:?} {reason}",
                limit.reason
            );
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
        let machine =
            machine(Medium::Device, &[], vec![disk("nvme0n1", DiskKind::Nvme, pcie(8_000_000_000, 4))]);
        let latency = of(&machine, &case(4096, "direct"), "latency");
        assert_eq!((latency.value, latency.kind), (None, Kind::Floor));
        let commit = Case::of("disk.fsync").with_size("block", 4096);
        assert_eq!(of(&machine, &commit, "latency").kind, Kind::Floor);
        assert_eq!(of(&machine, &commit, "rate").kind, Kind::Ceiling);
        for metric in ["submit", "cpu", "depth"] {
            let case = case(4096, "direct");
            let question = Question {
                machine: &machine,
                case: &case,
                metric,
                samples: &[],
                evidence: Evidence::default(),
            };
            assert!(crate::limit::limits(&question).is_empty());
        }
    }
}
