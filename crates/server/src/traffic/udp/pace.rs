//! Schedule of an open loop: due times are fixed, so a delayed sender still offers the same load.

use std::time::Duration;

/// Interval within which due datagrams leave together: a shorter sleep is not possible.
const GRAIN: Duration = Duration::from_micros(50);

/// A fixed rate of datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DatagramPace {
    per_second: f64,
}

impl DatagramPace {
    /// Returns the pace of each of `streams` streams that together carry `bits_per_second` in
    /// datagrams of `size` bytes; `None` if the rate is not positive and finite.
    pub fn new(bits_per_second: f64, size: usize, streams: usize) -> Option<Self> {
        let per_second = bits_per_second / (8.0 * size.max(1) as f64 * streams.max(1) as f64);
        (per_second.is_finite() && per_second > 0.0).then_some(DatagramPace { per_second })
    }

    /// Returns how many datagrams to send now (at least 1), `elapsed` after the start and after
    /// `sent` datagrams; `Err` is the time to wait for the next one.
    pub fn due(self, elapsed: Duration, sent: u64) -> Result<u64, Duration> {
        // A float holds every count of a transfer: 2⁵³ datagrams take centuries.
        let due = (elapsed.as_secs_f64() * self.per_second) as u64 + 1;
        if due > sent {
            return Ok(due - sent);
        }
        let next = Duration::try_from_secs_f64(sent as f64 / self.per_second).unwrap_or(Duration::MAX);
        Err(next.saturating_sub(elapsed).max(GRAIN))
    }

    /// Returns whether more than two datagrams are due per 50 µs, so that they are sent in bursts.
    pub fn is_bursty(self) -> bool {
        self.per_second * GRAIN.as_secs_f64() > 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn after_any_hold_ups_the_offered_load_is_that_asked_for(
            rate in 1e3f64..1e10, size in 1usize..65_508, streams in 1usize..9,
            hold_ups in prop::collection::vec(0u64..50_000_000, 1..100),
        ) {
            let pace = DatagramPace::new(rate, size, streams).unwrap();
            let (mut elapsed, mut sent) = (Duration::ZERO, 0);
            for nanos in hold_ups {
                elapsed += Duration::from_nanos(nanos);
                match pace.due(elapsed, sent) {
                    Ok(count) => sent += count,
                    Err(time) => {
                        // Never longer than to the next datagram, or the shortest sleep.
                        let interval = 8.0 * (size * streams) as f64 / rate;
                        prop_assert!(time.as_secs_f64() <= interval.max(GRAIN.as_secs_f64()) * 1.001);
                    }
                }
                let offered = (sent * size as u64 * 8 * streams as u64) as f64;
                let asked = rate * elapsed.as_secs_f64();
                let one = (size * 8 * streams) as f64;
                prop_assert!(offered <= asked * (1.0 + 1e-9) + one + 1e-3, "{} of {}", offered, asked);
                prop_assert!(offered >= asked * (1.0 - 1e-9) - one - 1e-3, "{} of {}", offered, asked);
            }
        }
    }

    #[test]
    fn no_rate_is_no_pace() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(DatagramPace::new(rate, 1000, 1), None);
        }
        assert!(!DatagramPace::new(1e6, 1000, 1).unwrap().is_bursty());
        assert!(DatagramPace::new(1e9, 1000, 1).unwrap().is_bursty());
    }
}
