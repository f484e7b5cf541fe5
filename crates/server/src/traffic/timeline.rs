//! Arrivals over time in equal stretches, merged in pairs when there are too many.

use crate::wire::{ArrivalTimeline, MAX_LOOKS};

const FIRST_STRETCH_NS: u64 = 1 << 20;
/// Longest delay that is reported, ns: a minute. Beyond it the two clocks drift.
const MAX_DELAY_NS: u64 = 60_000_000_000;

/// Recorder of the arrivals of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recorder {
    width: u64,
    bytes: Vec<u64>,
    transits: Vec<Option<i64>>,
    first: Option<u64>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { width: FIRST_STRETCH_NS, bytes: Vec::new(), transits: Vec::new(), first: None }
    }
}

impl Recorder {
    /// Records the arrival of `bytes` bytes at `at`, in ns after the start of the transfer.
    pub(super) fn arrive(&mut self, at: u64, bytes: u64) {
        let place = self.stretch_index(at);
        self.bytes.resize(self.bytes.len().max(place + 1), 0);
        self.bytes[place] = self.bytes[place].saturating_add(bytes);
    }

    /// Records, at `at` ns, a datagram's transit time in ns: by two clocks, with unknown offset.
    pub(super) fn transit(&mut self, at: u64, nanos: u64) {
        let place = self.stretch_index(at);
        let first = *self.first.get_or_insert(nanos);
        let relative = nanos.wrapping_sub(first).cast_signed();
        self.transits.resize(self.transits.len().max(place + 1), None);
        self.transits[place] = Some(self.transits[place].map_or(relative, |least| least.min(relative)));
    }

    fn stretch_index(&mut self, at: u64) -> usize {
        while at / self.width >= MAX_LOOKS as u64 {
            self.double();
        }
        (at / self.width) as usize
    }

    fn double(&mut self) {
        self.width = self.width.saturating_mul(2);
        let sum = |two: &[u64]| two.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        self.bytes = self.bytes.chunks(2).map(sum).collect();
        self.transits = self.transits.chunks(2).map(|two| two.iter().flatten().min().copied()).collect();
    }

    /// Sums the bytes of streams by time of arrival. A delay is the least of all streams, relative
    /// to each stream's shortest transit.
    pub(super) fn sum_streams(streams: impl IntoIterator<Item = Self>) -> ArrivalTimeline {
        let mut streams: Vec<Self> = streams.into_iter().collect();
        let width = streams.iter().map(|one| one.width).max().unwrap_or(FIRST_STRETCH_NS);
        let mut all = ArrivalTimeline { width, ..ArrivalTimeline::default() };
        for stream in &mut streams {
            while stream.width < width {
                stream.double();
            }
            let count = stream.bytes.len().max(all.bytes.len());
            all.bytes.resize(count, 0);
            for (slot, bytes) in all.bytes.iter_mut().zip(&stream.bytes) {
                *slot = slot.saturating_add(*bytes);
            }
            let Some(shortest) = stream.transits.iter().flatten().min().copied() else { continue };
            all.delays.resize(count, None);
            for (slot, transit) in all.delays.iter_mut().zip(&stream.transits) {
                let delay = transit.map(|t| t.wrapping_sub(shortest).cast_unsigned().min(MAX_DELAY_NS));
                *slot = [*slot, delay].into_iter().flatten().min();
            }
        }
        if !all.delays.is_empty() {
            all.delays.resize(all.bytes.len(), None);
        }
        if all.bytes.is_empty() { ArrivalTimeline::default() } else { all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_bytes_are_in_the_course(
            arrivals in prop::collection::vec((0u64..200_000_000_000, 0u64..1 << 40, any::<u64>(), 0..3usize), 0..300),
        ) {
            let mut streams = vec![Recorder::default(); 3];
            for (at, bytes, transit, stream) in &arrivals {
                streams[*stream].arrive(*at, *bytes);
                streams[*stream].transit(*at, *transit);
            }
            let timeline = Recorder::sum_streams(streams);
            prop_assert!(timeline.bytes.len() <= MAX_LOOKS);
            prop_assert_eq!(timeline.bytes.iter().sum::<u64>(), arrivals.iter().map(|a| a.1).sum::<u64>());
            prop_assert_eq!(timeline.delays.len(), timeline.bytes.len());
            for (at, bytes, ..) in &arrivals {
                prop_assert!(timeline.bytes[(at / timeline.width) as usize] >= *bytes);
            }
        }
    }

    #[test]
    fn delays_are_the_shortest_of_each_stretch_above_the_shortest_of_all() {
        let mut one = Recorder::default();
        // The sender's clock is ahead of the receiver's: the transit is a large number.
        for (at, transit) in
            [(0, u64::MAX - 5), (10, u64::MAX - 9), (3 * FIRST_STRETCH_NS, 90), (3 * FIRST_STRETCH_NS, 100)]
        {
            one.arrive(at, 1);
            one.transit(at, transit);
        }
        let timeline = Recorder::sum_streams([one]);
        assert_eq!(timeline.bytes, [2, 0, 0, 2]);
        assert_eq!(timeline.delays, [Some(0), None, None, Some(100)]);
        assert_eq!(Recorder::sum_streams([]), ArrivalTimeline::default());
    }
}
