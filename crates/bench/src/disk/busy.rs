//! For how much of the time the device had something to do, as the kernel counts it.

use std::time::Instant;

use crate::machine::Machine;

/// The kernel's counters of all block devices (Documentation/admin-guide/iostats.rst).
const COUNTERS: &str = "/proc/diskstats";

/// Index of "milliseconds spent doing I/Os" among the fields of a line: after major, minor and name the tenth.
const BUSY_MS: usize = 12;

/// The device behind the test directory, if it is known.
#[derive(Debug, Clone)]
pub(super) struct Busy {
    device: Option<String>,
}

/// The counter at some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    at: Instant,
    busy_ms: u64,
}

impl Busy {
    /// Of the device that holds the file system, or of the one disk below it.
    pub(super) fn behind(machine: &Machine) -> Self {
        let storage = machine.storage.as_ref();
        let device = storage.and_then(|storage| match (&storage.device, storage.disks.as_slice()) {
            (Some(device), _) => Some(device.clone()),
            (None, [only]) => Some(only.name.clone()),
            _ => None,
        });
        Busy { device }
    }

    /// The counter now; `None` where it is not known.
    pub(super) fn now(&self) -> Option<Moment> {
        let counters = std::fs::read_to_string(COUNTERS).ok()?;
        Some(Moment { at: Instant::now(), busy_ms: busy_ms(&counters, self.device.as_deref()?)? })
    }

    /// The share of the time since then, from 0 to 1.
    pub(super) fn share_since(&self, begun: Moment) -> Option<f64> {
        let now = self.now()?;
        let passed_ms = now.at.duration_since(begun.at).as_secs_f64() * 1e3;
        let busy_ms = now.busy_ms.checked_sub(begun.busy_ms)?;
        (passed_ms > 0.0).then(|| (busy_ms as f64 / passed_ms).min(1.0))
    }
}

fn busy_ms(counters: &str, device: &str) -> Option<u64> {
    counters
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|fields| fields.get(2) == Some(&device))
        .and_then(|fields| fields.get(BUSY_MS)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_the_device_is_found_and_garbage_is_none() {
        let counters = "   7       0 loop0 7 39 45 39 61642 809 622 2103 0 51116 606 0 0 0 0 5 7\n\
                        254       0 vda 25 98 90 17 15 28 13 55 0 1011140 23090771 0 0 0 0 0 0\n\
                        254 1 vda1 1\n garbage\n 1 2 vdb 1 2 3 4 5 6 7 8 9 x";
        assert_eq!(busy_ms(counters, "vda"), Some(1_011_140));
        assert_eq!(busy_ms(counters, "loop0"), Some(51_116));
        for missing in ["vda1", "vdb", "vdc", ""] {
            assert_eq!(busy_ms(counters, missing), None, "{missing}");
        }
    }

    #[test]
    fn without_a_device_nothing_is_known() {
        let busy = Busy { device: None };
        assert!(busy.now().is_none());
    }
}
