//! Utilization and request times of the device during a case, from the kernel's counters.

use std::time::Instant;

use plimsoll_machine::Machine;

/// Counters of all block devices (Documentation/admin-guide/iostats.rst).
const COUNTERS: &str = "/proc/diskstats";

/// Unit of the kernel's counters in bytes, whatever the device's own sector.
const COUNTER_UNIT_BYTES: u64 = 512;

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
    devices: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BusySnapshot {
    at: Instant,
    counted: Counters,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    requests: u64,
    sectors: u64,
    /// Sum of all request times, from the block layer to completion.
    taken_ms: u64,
    /// Time with at least one request in flight.
    busy_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeviceWork {
    passed_ms: f64,
    counted: Counters,
}

impl Busy {
    /// Selects the devices to watch: the disk of the test directory if it is directly on one disk,
    /// else the file system's devices: the md device of a RAID, not its members. None if unknown.
    pub(crate) fn behind(machine: &Machine) -> Self {
        let Some(storage) = &machine.storage else { return Busy { devices: Vec::new() } };
        let devices = match storage.disks.as_slice() {
            [only] if storage.layers.is_empty() => vec![only.name.clone()],
            _ => storage.top_names().into_iter().map(str::to_owned).collect(),
        };
        Busy { devices }
    }

    pub(crate) fn now(&self) -> Option<BusySnapshot> {
        let counters = std::fs::read_to_string(COUNTERS).ok()?;
        Some(BusySnapshot { at: Instant::now(), counted: Counters::of_all(&counters, &self.devices)? })
    }

    pub(crate) fn since(&self, begun: BusySnapshot) -> Option<DeviceWork> {
        let now = self.now()?;
        let passed_ms = now.at.duration_since(begun.at).as_secs_f64() * 1e3;
        Some(DeviceWork { passed_ms, counted: now.counted.since(begun.counted)? })
    }
}

impl Counters {
    /// Sums the counters of `devices` in `counters`, the text of /proc/diskstats; the busy time is
    /// the mean. `None` without devices, or if one is missing in the text.
    fn of_all(counters: &str, devices: &[String]) -> Option<Self> {
        let all: Vec<Self> =
            devices.iter().map(|device| Self::of(counters, device)).collect::<Option<_>>()?;
        let sum = |of: fn(&Self) -> u64| all.iter().map(of).fold(0, u64::saturating_add);
        let busy_ms = sum(|one| one.busy_ms).checked_div(all.len() as u64)?;
        let (requests, sectors) = (sum(|one| one.requests), sum(|one| one.sectors));
        Some(Self { requests, sectors, taken_ms: sum(|one| one.taken_ms), busy_ms })
    }

    /// Parses the line of `device` (`sda`) in the text of /proc/diskstats; `None` if it is missing.
    fn of(counters: &str, device: &str) -> Option<Self> {
        let lines = counters.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let fields = lines.into_iter().find(|fields| fields.get(2) == Some(&device))?;
        let field = |index: usize| fields.get(2 + index)?.parse::<u64>().ok();
        // Reads: completed, merged, sectors, milliseconds; the same for writes; in flight, busy.
        Some(Self {
            requests: field(1)?.saturating_add(field(5)?),
            sectors: field(3)?.saturating_add(field(7)?),
            taken_ms: field(4)?.saturating_add(field(8)?),
            busy_ms: field(10)?,
        })
    }

    /// Returns the increase since `before`; `None` if a counter decreased: the device was replaced.
    fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            requests: self.requests.checked_sub(before.requests)?,
            sectors: self.sectors.checked_sub(before.sectors)?,
            taken_ms: self.taken_ms.checked_sub(before.taken_ms)?,
            busy_ms: self.busy_ms.checked_sub(before.busy_ms)?,
        })
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
        let Counters { requests, sectors, taken_ms, .. } = self.counted;
        let moved = sectors.saturating_mul(COUNTER_UNIT_BYTES) as f64;
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

    const VDA: Counters =
        Counters { requests: 25 + 15, sectors: 90 + 13, taken_ms: 17 + 55, busy_ms: 1_011_140 };

    #[test]
    fn the_counters_of_the_device_are_found_and_garbage_is_none() {
        let counters = "   7       0 loop0 7 39 45 39 61642 809 622 2103 0 51116 606 0 0 0 0 5 7\n\
                        254       0 vda 25 98 90 17 15 28 13 55 0 1011140 23090771 0 0 0 0 0 0\n\
                        254 1 vda1 1\n garbage\n 1 2 vdb 1 2 3 4 5 6 7 8 9 x";
        assert_eq!(Counters::of(counters, "vda"), Some(VDA));
        assert_eq!(Counters::of(counters, "loop0").map(|counted| counted.busy_ms), Some(51_116));
        for missing in ["vda1", "vdb", "vdc", ""] {
            assert_eq!(Counters::of(counters, missing), None, "{missing}");
        }
        let both = Counters::of_all(counters, &["vda".to_owned(), "loop0".to_owned()]);
        let sum = |counted: Counters| (counted.requests, counted.busy_ms);
        assert_eq!(both.map(sum), Some((40 + 7 + 61_642, (1_011_140 + 51_116) / 2)));
        assert_eq!(Counters::of_all(counters, &["vda".to_owned(), "vdc".to_owned()]), None);
        assert_eq!(VDA.since(VDA), Some(Counters::default()));
        assert_eq!(Counters::default().since(VDA), None, "another device of that name");
    }

    #[test]
    fn the_time_of_a_request_is_told_where_the_device_moved_just_these_bytes() {
        let counted = Counters { requests: 1000, sectors: 8000, taken_ms: 250, busy_ms: 90 };
        let done = DeviceWork { passed_ms: 100.0, counted };
        assert_eq!((done.busy(), done.request_seconds(4_096_000)), (Some(0.9), Some(250e-6)));
        assert_eq!(done.request_seconds(4_096_000 * 100 / 99), Some(250e-6));
        for others in [0, 4_000_000, 3_000_000, 40_960_000] {
            assert_eq!(done.request_seconds(others), None, "{others}");
        }
        // A hundred large blocks, and small requests of another program: few bytes, many requests.
        let with = |foreign: u64| {
            let sectors = (100 * (1 << 20) + foreign * 4096) / COUNTER_UNIT_BYTES;
            DeviceWork { counted: Counters { requests: 100 + foreign, sectors, ..counted }, ..done }
                .request_seconds(100 << 20)
        };
        assert!(with(4).is_some());
        assert_eq!(with(40), None, "a third of the requests");
        let few = DeviceWork { counted: Counters { taken_ms: 9, ..counted }, ..done };
        assert_eq!(few.request_seconds(4_096_000), None, "too few milliseconds to tell");
        let idle = DeviceWork { passed_ms: 100.0, counted: Counters::default() };
        assert_eq!((idle.busy(), idle.request_seconds(0)), (Some(0.0), None));
    }

    #[test]
    fn without_a_device_nothing_is_known() {
        let busy = Busy { devices: Vec::new() };
        assert!(busy.now().is_none());
    }
}
