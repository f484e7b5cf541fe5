//! Utilization and request times of the device during a case, from the kernel's counters.

use std::time::Instant;

use super::counters::BlockCounters;
use plimsoll_machine::{DeviceNumber, Machine, Root};

/// Largest relative deviation of the device's bytes from the case's for the same requests.
const ALIKE: f64 = 0.02;

/// Largest share of requests that may belong to another program. Each [`MIN_TRANSFER_BYTES`] bytes
/// (a typical small request) beyond the case's own count as one.
const FOREIGN: f64 = 0.05;
const MIN_TRANSFER_BYTES: f64 = 4096.0;

/// Least milliseconds for a mean: less is off by more than a tenth, as whole ones are counted.
const LEAST_MS: u64 = 10;

#[derive(Debug, Clone)]
pub(crate) struct Busy {
    devices: Vec<DeviceNumber>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BusySnapshot {
    at: Instant,
    counted: BlockCounters,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeviceWork {
    passed_ms: f64,
    counted: BlockCounters,
}

impl Busy {
    /// Selects the devices to watch: the disk of the test directory if it is directly on one disk,
    /// else the file system's devices: the md device of a RAID, not its members. None if unknown.
    pub(crate) fn behind(machine: &Machine) -> Self {
        let Some(storage) = &machine.storage else { return Busy { devices: Vec::new() } };
        let devices = match storage.disks.as_slice() {
            [only] if storage.layers.is_empty() => vec![only.number],
            _ => storage.top(),
        };
        Busy { devices: devices.into_iter().collect::<Option<_>>().unwrap_or_default() }
    }

    pub(crate) fn now(&self) -> Option<BusySnapshot> {
        let counted = BlockCounters::of_all(&Root::live(), &self.devices)?;
        Some(BusySnapshot { at: Instant::now(), counted })
    }

    pub(crate) fn since(&self, begun: BusySnapshot) -> Option<DeviceWork> {
        let now = self.now()?;
        let passed_ms = now.at.duration_since(begun.at).as_secs_f64() * 1e3;
        Some(DeviceWork { passed_ms, counted: now.counted.since(begun.counted)? })
    }
}

impl DeviceWork {
    /// Returns the share of the time with a request in flight, 0 to 1; `None` if no time passed.
    pub(crate) fn busy(&self) -> Option<f64> {
        (self.passed_ms > 0.0).then(|| (self.counted.busy_ms as f64 / self.passed_ms).min(1.0))
    }

    /// Returns the mean seconds per request. `None` unless the device moved about as many bytes as
    /// the case did, `bytes` (± 2 %), in at least 10 ms of request time.
    pub(crate) fn request_seconds(&self, bytes: u64) -> Option<f64> {
        let BlockCounters { requests, taken_ms, bytes: moved, .. } = self.counted;
        let moved = moved.read.saturating_add(moved.written) as f64;
        let alike = bytes > 0 && (moved / bytes as f64 - 1.0).abs() <= ALIKE;
        let foreign = (moved - bytes as f64).max(0.0) / MIN_TRANSFER_BYTES;
        let own = foreign <= FOREIGN * requests as f64;
        (alike && own && requests > 0 && taken_ms >= LEAST_MS)
            .then(|| taken_ms as f64 * 1e-3 / requests as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DirectionBytes;

    #[test]
    fn the_time_of_a_request_is_told_where_the_device_moved_just_these_bytes() {
        let bytes = DirectionBytes { read: 4_000_000, written: 96_000 };
        let counted = BlockCounters { requests: 1000, bytes, taken_ms: 250, busy_ms: 90 };
        let done = DeviceWork { passed_ms: 100.0, counted };
        assert_eq!((done.busy(), done.request_seconds(4_096_000)), (Some(0.9), Some(250e-6)));
        assert_eq!(done.request_seconds(4_096_000 * 100 / 99), Some(250e-6));
        for others in [0, 4_000_000, 3_000_000, 40_960_000] {
            assert_eq!(done.request_seconds(others), None, "{others}");
        }
        // A hundred large blocks, and small requests of another program: few bytes, many requests.
        let with = |foreign: u64| {
            let bytes = DirectionBytes { read: 100 * (1 << 20) + foreign * 4096, written: 0 };
            DeviceWork { counted: BlockCounters { requests: 100 + foreign, bytes, ..counted }, ..done }
                .request_seconds(100 << 20)
        };
        assert!(with(4).is_some());
        assert_eq!(with(40), None, "a third of the requests");
        let few = DeviceWork { counted: BlockCounters { taken_ms: 9, ..counted }, ..done };
        assert_eq!(few.request_seconds(4_096_000), None, "too few milliseconds to tell");
        let idle = DeviceWork { passed_ms: 100.0, counted: BlockCounters::default() };
        assert_eq!((idle.busy(), idle.request_seconds(0)), (Some(0.0), None));
    }

    #[test]
    fn without_a_device_nothing_is_known() {
        let busy = Busy { devices: Vec::new() };
        assert!(busy.now().is_none());
    }
}
