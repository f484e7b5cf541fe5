//! Counts of block devices' transfers since they appeared.

use plimsoll_machine::{DeviceNumber, Root};

/// Unit of the kernel's counters in bytes, whatever the device's own sector.
const COUNTER_UNIT_BYTES: u64 = 512;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DirectionBytes {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BlockCounters {
    pub(super) bytes: DirectionBytes,
    pub(super) requests: u64,
    /// Sum of all request times, from the block layer to completion.
    pub(super) taken_ms: u64,
    /// Time with at least one request in flight; of several devices the mean.
    pub(super) busy_ms: u64,
}

impl DirectionBytes {
    /// Returns the increase since `before`; `None` if a counter decreased: the device was replaced.
    pub(super) fn since(self, before: Self) -> Option<Self> {
        let (read, written) =
            (self.read.checked_sub(before.read)?, self.written.checked_sub(before.written)?);
        Some(Self { read, written })
    }
}

impl BlockCounters {
    /// Sums the counters of `devices`; `None` if there are none, or one has no counters.
    pub(super) fn of_all(root: &Root, devices: &[DeviceNumber]) -> Option<Self> {
        let all: Vec<Self> = devices.iter().map(|device| Self::of(root, *device)).collect::<Option<_>>()?;
        let sum = |of: fn(&Self) -> u64| all.iter().map(of).fold(0, u64::saturating_add);
        let busy_ms = sum(|one| one.busy_ms).checked_div(all.len() as u64)?;
        let bytes = DirectionBytes { read: sum(|one| one.bytes.read), written: sum(|one| one.bytes.written) };
        Some(Self { bytes, requests: sum(|one| one.requests), taken_ms: sum(|one| one.taken_ms), busy_ms })
    }

    /// Reads the counters of a device (Linux `Documentation/block/stat.rst`); `None` if the kernel
    /// does not count.
    fn of(root: &Root, device: DeviceNumber) -> Option<Self> {
        let place = format!("sys/dev/block/{device}");
        if root.number(format!("{place}/queue/iostats")) == Ok(0) {
            return None;
        }
        let text = root.text(format!("{place}/stat")).ok()?;
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // Reads: completed, merged, sectors, milliseconds; the same for writes; in flight, busy.
        let [reads, _, read, read_ms, writes, _, written, write_ms, _, busy_ms, ..] = fields[..] else {
            return None;
        };
        let [read, written] = [read, written].map(|sectors| sectors.saturating_mul(COUNTER_UNIT_BYTES));
        let (requests, taken_ms) = (reads.saturating_add(writes), read_ms.saturating_add(write_ms));
        Some(Self { bytes: DirectionBytes { read, written }, requests, taken_ms, busy_ms })
    }

    /// Returns the increase since `before`; `None` if a counter decreased: the device was replaced,
    /// or a time in milliseconds passed 2³².
    pub(super) fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            bytes: self.bytes.since(before.bytes)?,
            requests: self.requests.checked_sub(before.requests)?,
            taken_ms: self.taken_ms.checked_sub(before.taken_ms)?,
            busy_ms: self.busy_ms.checked_sub(before.busy_ms)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::fixture::Fixture;

    const VDA: BlockCounters = BlockCounters {
        bytes: DirectionBytes { read: 90 * COUNTER_UNIT_BYTES, written: 13 * COUNTER_UNIT_BYTES },
        requests: 25 + 15,
        taken_ms: 17 + 55,
        busy_ms: 1_011_140,
    };

    #[test]
    fn the_counters_of_the_device_are_found_and_garbage_is_none() {
        let tree = "sys/dev/block/254:0/stat = 25 98 90 17 15 28 13 55 0 1011140 23090771 0 0 0 0 0 0\n\
                    sys/dev/block/7:0/stat = 7 39 45 39 61642 809 622 2103 0 51116 606 0 0 0 0 5 7\n\
                    sys/dev/block/254:1/stat = 1\n\
                    sys/dev/block/1:2/stat = 1 2 3 4 5 6 7 8 9 x\n";
        let fixture = Fixture::unpack(tree).expect("a tree");
        let of_all = |devices: &[(u32, u32)]| {
            let number = |(major, minor): &(u32, u32)| DeviceNumber { major: *major, minor: *minor };
            BlockCounters::of_all(&fixture.root, &devices.iter().map(number).collect::<Vec<_>>())
        };
        assert_eq!(of_all(&[(254, 0)]), Some(VDA));
        for missing in [&[(254, 1)][..], &[(1, 2)], &[(254, 2)], &[], &[(254, 0), (254, 2)]] {
            assert_eq!(of_all(missing), None, "{missing:?}");
        }
        let sum = |counted: BlockCounters| (counted.requests, counted.busy_ms);
        let both = of_all(&[(254, 0), (7, 0)]).map(sum);
        assert_eq!(both, Some((40 + 7 + 61_642, (1_011_140 + 51_116) / 2)));
        assert_eq!(VDA.since(VDA), Some(BlockCounters::default()));
        assert_eq!(BlockCounters::default().since(VDA), None, "another device of that number");
    }
}
