//! Whether a case had exclusive use of its disk.

use crate::metrics::AWAIT;
use plimsoll_machine::{DeviceLink, Disk, DiskKind, Machine};
use plimsoll_model::measurement::Measurement;

/// Whether one local disk worked for the case and nothing else: all samples have metric [`AWAIT`].
pub(crate) fn is_alone(measurement: &Measurement, machine: &Machine) -> bool {
    let Some(storage) = &machine.storage else { return false };
    let is_single = storage.layers.is_empty() && storage.disks.len() == 1;
    let of = |name: &str| measurement.metrics.iter().find(|metric| metric.name == name);
    let reported = of(AWAIT).map_or(0, |metric| metric.samples.len());
    let all = measurement.headline().map_or(0, |metric| metric.samples.len());
    reported > 0
        && reported == all
        && is_single
        && storage.disks.iter().all(|disk| is_unshared_local(disk, &machine.disks))
}

/// Words in the models of network volumes that look like NVMe drives: Amazon EBS, Alibaba, Google,
/// network cards with a remote volume (NVIDIA BlueField SNAP), and similar.
const VOLUMES: [&str; 8] =
    ["elastic block", "cloud", "nvme_card", "persistent", "volume", "snap", "bluefield", "virtual"];

/// Whether `disk` is local and shares no controller or bus with the other disks of `all`.
fn is_unshared_local(disk: &Disk, all: &[Disk]) -> bool {
    let model = disk.model.as_deref().unwrap_or_default().to_ascii_lowercase();
    let is_volume = VOLUMES.iter().any(|volume| model.contains(volume));
    // Namespaces of one controller: nvme0n1, nvme0n2.
    let controller = |name: &str| name.rsplit_once('n').map(|(controller, _)| controller.to_owned());
    let shares =
        || all.iter().any(|one| one.name != disk.name && controller(&one.name) == controller(&disk.name));
    match disk.kind {
        // NVMe over Fabrics has no PCI Express link.
        DiskKind::Nvme => matches!(disk.link, Some(DeviceLink::Pcie { .. })) && !is_volume && !shares(),
        DiskKind::Sata | DiskKind::Mmc => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use plimsoll_model::measurement::MetricResult;

    #[test]
    fn a_disk_is_its_own_where_it_moved_just_these_bytes_in_all_samples() {
        let mut machine = plimsoll_model::fixture::machine();
        let mut measurement = plimsoll_model::view::testing::peak(1, 1.0);
        let samples = measurement.metrics[0].samples.len();
        let mut holds = |kind, reported: usize| {
            machine.storage.as_mut().unwrap().disks[0].kind = kind;
            measurement.metrics.truncate(1);
            let first = measurement.metrics[0].clone();
            let (name, samples) = (AWAIT.to_owned(), vec![1e-4; reported]);
            measurement.metrics.push(MetricResult { name, samples, ..first });
            is_alone(&measurement, &machine)
        };
        assert!(holds(DiskKind::Sata, samples) && !holds(DiskKind::Usb, samples));
        assert!(!holds(DiskKind::Sata, samples - 1) && !holds(DiskKind::Sata, 0));
        let shared = [DiskKind::Network, DiskKind::Virtio, DiskKind::Nvme];
        assert!(!shared.into_iter().any(|kind| holds(kind, samples)));
    }

    #[test]
    fn an_nvme_drive_is_its_own_in_a_slot_with_all_its_blocks_in_one_namespace() {
        let disk = |name: &str, model: &str| {
            let mut disk = plimsoll_model::fixture::machine().storage.unwrap().disks.remove(0);
            (disk.name, disk.model, disk.kind) = (name.to_owned(), Some(model.to_owned()), DiskKind::Nvme);
            let (transfers_per_s, lanes, max_lanes) = (8_000_000_000, 4, None);
            let link = DeviceLink::Pcie { transfers_per_s, lanes, max_transfers_per_s: None, max_lanes };
            Disk { link: Some(link), ..disk }
        };
        let own = disk("nvme0n1", "SAMSUNG MZQL21T9HCJR");
        assert!(is_unshared_local(&own, &[own.clone(), disk("nvme1n1", "the same")]));
        assert!(!is_unshared_local(&own, &[own.clone(), disk("nvme0n2", "the same")]));
        assert!(!is_unshared_local(&Disk { link: None, ..own }, &[]));
        for volume in
            ["Amazon Elastic Block Store", "Alibaba Cloud Elastic Block Storage", "nvme_card-pd", "NVMe SNAP"]
        {
            assert!(!is_unshared_local(&disk("nvme0n1", volume), &[]));
        }
    }
}
