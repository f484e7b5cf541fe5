//! Intended start times of an open loop.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use plimsoll_model::job::disk::ArrivalProcess;

#[derive(Debug, Clone)]
pub(crate) struct StartSchedule {
    arrivals: ArrivalProcess,
    gap_ns: f64,
    /// Time of the next start since `from_ns`, with fractions of a ns.
    next: f64,
    from_ns: u64,
    rng: SmallRng,
}

impl StartSchedule {
    /// Creates a schedule of `per_second` (above 0) starts a second, evenly spaced or Poisson.
    pub(crate) fn new(arrivals: ArrivalProcess, per_second: f64, seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        StartSchedule { arrivals, gap_ns: 1e9 / per_second, next: 0.0, from_ns: 0, rng }
    }

    /// Starts the schedule at `now_ns` of the engine's clock; the first start is an interval later.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        (self.from_ns, self.next) = (now_ns, 0.0);
        self.next = self.gap();
    }

    /// Returns the next intended start, in ns of the engine's clock, without advancing.
    pub(crate) fn next_ns(&self) -> u64 {
        self.from_ns.saturating_add(self.next as u64)
    }

    /// Returns the next intended start, in ns of the engine's clock, and advances to the one after.
    pub(crate) fn take(&mut self) -> u64 {
        let taken = self.next_ns();
        self.next += self.gap();
        taken
    }

    fn gap(&mut self) -> f64 {
        match self.arrivals {
            ArrivalProcess::Even => self.gap_ns,
            // Inverse of the exponential distribution; 1 - u is never zero.
            ArrivalProcess::Poisson => {
                let u: f64 = self.rng.random();
                -self.gap_ns * (1.0 - u).ln()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrivals: ArrivalProcess, n: usize) -> Vec<f64> {
        let mut schedule = StartSchedule::new(arrivals, 5000.0, 7);
        schedule.begin(1_000);
        let starts: Vec<u64> = (0..n).map(|_| schedule.take()).collect();
        starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
    }

    #[test]
    fn even_starts_are_the_gap_apart() {
        assert!(gaps(ArrivalProcess::Even, 1000).iter().all(|gap| (gap - 200_000.0).abs() <= 1.0));
    }

    /// Mean and standard deviation of exponential gaps are equal; both within four standard errors.
    #[test]
    fn poisson_starts_have_exponential_gaps() {
        let gaps = gaps(ArrivalProcess::Poisson, 100_001);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 200_000.0 - 1.0).abs() < 4.0 / 316.0, "{mean}");
        assert!((variance.sqrt() / 200_000.0 - 1.0).abs() < 8.0 / 316.0, "{variance}");
        let beyond = gaps.iter().filter(|gap| **gap > 3.0 * 200_000.0).count() as f64 / gaps.len() as f64;
        assert!((beyond / (-3.0_f64).exp() - 1.0).abs() < 0.06, "{beyond}");
    }

    #[test]
    fn beginning_again_forgets_the_past() {
        let mut schedule = StartSchedule::new(ArrivalProcess::Even, 1.0, 1);
        schedule.begin(5);
        assert_eq!(schedule.take(), 1_000_000_005);
        schedule.begin(100);
        assert_eq!(schedule.next_ns(), 1_000_000_100);
    }
}
