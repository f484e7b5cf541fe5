//! Whether a case had its disk for itself.

use super::metrics::AWAIT;
use crate::machine::Machine;
use crate::machine::disk::DiskKind;
use crate::measurement::Measurement;

/// Whether a disk of this machine alone moved just the bytes of the case, in all samples: only then each has the time of a request
/// ([`super::busy::Done::each`]).
pub(super) fn is_alone(measurement: &Measurement, machine: &Machine) -> bool {
    let is_own = |kind| matches!(kind, DiskKind::Nvme | DiskKind::Sata | DiskKind::Usb | DiskKind::Mmc);
    let disks = machine.storage.as_ref().map_or(&[][..], |storage| &storage.disks);
    let of = |name: &str| measurement.metrics.iter().find(|metric| metric.name == name);
    let told = of(AWAIT).map_or(0, |metric| metric.samples.len());
    let all = measurement.headline().map_or(0, |metric| metric.samples.len());
    told > 0 && told == all && !disks.is_empty() && disks.iter().all(|disk| is_own(disk.kind))
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
        assert!(holds(DiskKind::Nvme, samples));
        assert!(!holds(DiskKind::Nvme, samples - 1) && !holds(DiskKind::Nvme, 0));
        assert!(!holds(DiskKind::Network, samples) && !holds(DiskKind::Virtio, samples));
    }
}
