use chacha20::ChaCha8Rng;
use chacha20::rand_core::Rng;
use plimsoll_stats::Seed;

use crate::journal::WatchResources;

const DAY: f64 = 86_400.0;
/// Intervals between probes are between 0.5 and 1.5 times the mean.
const NEAREST: f64 = 0.5;
const WAIT_SPREAD: f64 = 1.0;

/// Schedule of the probes of a watch.
#[derive(Debug)]
pub struct ProbeSchedule {
    every: f64,
    shares: WatchResources,
    spent: WatchResources,
    last: WatchResources,
    random: ChaCha8Rng,
}

impl ProbeSchedule {
    /// Returns a schedule with one probe per `every` s on average, or fewer to stay within the
    /// budget `shares`. `spent` is what the watch has used so far, `last` what its last probe used.
    pub fn new(
        every: f64,
        shares: WatchResources,
        spent: WatchResources,
        last: WatchResources,
        seed: u64,
    ) -> Self {
        Self { every, shares, spent, last, random: Seed::new(seed, "watch", "times").generator() }
    }

    /// Adds the resources `spent` by a probe; those above 0 become the estimate for the next.
    pub fn record_use(&mut self, spent: WatchResources) {
        self.spent = self.spent + spent;
        let keep = |before: f64, now: f64| if now > 0.0 { now } else { before };
        self.last = WatchResources {
            cpu: keep(self.last.cpu, spent.cpu),
            disk: keep(self.last.disk, spent.disk),
            network: keep(self.last.network, spent.network),
        };
    }

    /// Returns the start of the next probe in s since the start of the watch, given that of the
    /// previous one, `last`. It is random, so that probes do not coincide with periodic events.
    pub fn next(&mut self, last: f64) -> f64 {
        let random = self.random.next_u32() as f64 / f64::from(u32::MAX);
        let at = last + self.every * (NEAREST + WAIT_SPREAD * random);
        at.max(earliest_probe_time(self.spent.cpu, self.last.cpu, self.shares.cpu))
    }

    /// Returns whether the disk budget allows a probe `at` seconds after the start of the watch.
    pub fn allows_disk(&self, at: f64) -> bool {
        earliest_probe_time(self.spent.disk, self.last.disk, self.shares.disk / DAY) <= at
    }

    /// Returns whether the network budget allows a probe `at` seconds after the start of the watch.
    pub fn allows_network(&self, at: f64) -> bool {
        earliest_probe_time(self.spent.network, self.last.network, self.shares.network / DAY) <= at
    }
}

/// Returns the time in s since the start of the watch from which a further probe keeps the average
/// use at or below `rate` per s. `spent` is the use so far, `last` the expected use of the probe,
/// both in CPU seconds or bytes. Returns 0 if nothing is spent.
fn earliest_probe_time(spent: f64, last: f64, rate: f64) -> f64 {
    if spent <= 0.0 { 0.0 } else { (spent + last) / rate }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHARES: WatchResources = WatchResources { cpu: 0.02, disk: 8e9, network: 8e9 };

    fn schedule(every: f64, seed: u64) -> ProbeSchedule {
        ProbeSchedule::new(every, SHARES, WatchResources::default(), WatchResources::default(), seed)
    }

    proptest! {
        #[test]
        fn whatever_a_probe_takes_the_shares_are_kept(costs in prop::collection::vec(0.01..0.2f64, 2..200), every in 0.5..30.0f64, seed: u64) {
            let mut schedule = schedule(every, seed);
            let (mut at, mut used, mut first) = (0.0, 0.0, true);
            for cost in costs {
                // A more expensive probe may exceed the share; the next one waits for it.
                prop_assert!(first || used <= 0.02 * at + 1e-9, "{used} at {at}");
                schedule.record_use(WatchResources { cpu: cost, ..WatchResources::default() });
                used += cost;
                let next = schedule.next(at);
                prop_assert!(next >= at + 0.5 * every && (next - at <= 1.5 * every || next <= (used + cost) / 0.02 + 1e-9));
                (at, first) = (next, false);
            }
        }
    }

    #[test]
    fn probes_are_at_random_times_with_the_mean_that_was_asked_for() {
        let mut schedule = schedule(300.0, 7);
        let times: Vec<f64> =
            std::iter::successors(Some(0.0), |last| Some(schedule.next(*last))).take(1001).collect();
        let mean = times[1000] / 1000.0;
        assert!((285.0..315.0).contains(&mean), "{mean}");
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().any(|gap| *gap < 180.0) && gaps.iter().any(|gap| *gap > 420.0));
    }

    #[test]
    fn the_disk_and_the_network_have_budgets_of_their_own() {
        let mut schedule = schedule(1.0, 1);
        assert!(schedule.allows_disk(0.0) && schedule.allows_network(0.0));
        schedule.record_use(WatchResources { cpu: 0.0, disk: 1e9, network: 0.0 });
        assert!(!schedule.allows_disk(DAY / 8.0) && schedule.allows_disk(DAY / 4.0));
        assert!(schedule.allows_network(0.0));
        // A probe without disk access does not make the next one cheaper.
        schedule.record_use(WatchResources { cpu: 1.0, disk: 0.0, network: 0.0 });
        assert!(!schedule.allows_disk(DAY / 8.0));
    }
}
