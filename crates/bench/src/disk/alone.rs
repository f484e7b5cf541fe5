//! Whether a case had its disk for itself.

use super::metrics::AWAIT;
use crate::machine::Disk;
use crate::machine::Machine;
use crate::machine::disk::{DiskKind, Link};
use crate::measurement::Measurement;

/// Whether a single disk of this machine moved just the bytes of the case, in all samples: only then each has the time of a request
/// ([`super::busy::Done::each`]).
pub(super) fn is_alone(measurement: &Measurement, machine: &Machine) -> bool {
    let Some(storage) = &machine.storage else { return false };
    let is_single = storage.layers.is_empty() && storage.disks.len() == 1;
    let of = |name: &str| measurement.metrics.iter().find(|metric| metric.name == name);
    let told = of(AWAIT).map_or(0, |metric| metric.samples.len());
    let all = measurement.headline().map_or(0, |metric| metric.samples.len());
    told > 0 && told == all && is_single && storage.disks.iter().all(is_own)
}

/// Whether a disk is in this machine, and not behind a network that others use.
fn is_own(disk: &Disk) -> bool {
    let is_network = disk.model.as_deref().is_some_and(|model| model.contains("Elastic Block Store"));
    match disk.kind {
        // NVMe over Fabrics has no link of PCI Express.
        DiskKind::Nvme => matches!(disk.link, Some(Link::Pcie { .. })) && !is_network,
        DiskKind::Sata | DiskKind::Usb | DiskKind::Mmc => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::measurement::MetricResult;

    #[test]
    fn a_disk_is_its_own_where_it_moved_just_these_bytes_in_all_samples() {
        let mut machine = crate::fixture::machine();
        let mut measurement = crate::view::testing::peak(1, 1.0);
        let samples = measurement.metrics[0].samples.len();
        let mut holds = |kind, told: usize| {
            machine.storage.as_mut().unwrap().disks[0].kind = kind;
            measurement.metrics.truncate(1);
            let first = measurement.metrics[0].clone();
            measurement.metrics.push(MetricResult {
                name: AWAIT.to_owned(),
                samples: vec![1e-4; told],
                ..first
            });
            is_alone(&measurement, &machine)
        };
        assert!(holds(DiskKind::Sata, samples));
        assert!(!holds(DiskKind::Sata, samples - 1) && !holds(DiskKind::Sata, 0));
        assert!(
            !holds(DiskKind::Network, samples)
                && !holds(DiskKind::Virtio, samples)
                && !holds(DiskKind::Nvme, samples)
        );
    }
}
