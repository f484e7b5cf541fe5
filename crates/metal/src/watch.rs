//! Core clock of a thread during long work, sampled by short probes.

use std::time::{Duration, Instant};

use crate::clock::{CoreClock, ProbeWork};

/// Time between two probes, which take about 15 µs each.
const GLANCES: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct ThreadClock {
    clock: Option<CoreClock>,
    last: Option<Instant>,
    sum: f64,
    count: u32,
}

impl ThreadClock {
    pub(crate) fn new(work: ProbeWork) -> Self {
        Self { clock: CoreClock::calibrate(work).ok(), last: None, sum: 0.0, count: 0 }
    }

    pub(crate) fn reset(&mut self) {
        (self.last, self.sum, self.count) = (None, 0.0, 0);
    }

    pub(crate) fn probe_if_due(&mut self) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < GLANCES) {
            return;
        }
        self.last = Some(now);
        if let Some(hz) = self.clock.as_ref().and_then(CoreClock::probe) {
            self.sum += hz;
            self.count += 1;
        }
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// Core clock of each thread of a team during its work.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TeamClocks {
    /// Mean core clock per thread in Hz, in the order of the team; `None` if it cannot be measured.
    pub each_hz: Vec<Option<f64>>,
}

impl TeamClocks {
    pub(crate) fn of<'a>(watches: impl Iterator<Item = &'a ThreadClock>) -> Self {
        Self { each_hz: watches.map(ThreadClock::mean).collect() }
    }

    /// Returns the mean core clock in Hz of the threads whose clock is known; `None` without any.
    pub fn mean_hz(&self) -> Option<f64> {
        let seen: Vec<f64> = self.each_hz.iter().copied().flatten().collect();
        (!seen.is_empty()).then(|| seen.iter().sum::<f64>() / seen.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_sees_plausible_clocks_and_forgets_them() {
        let mut watch = ThreadClock::new(ProbeWork::SCALAR);
        watch.probe_if_due();
        let seen = watch.mean();
        assert_eq!(seen.is_some(), watch.clock.is_some());
        assert!(seen.is_none_or(|hz| (1e8..1e10).contains(&hz)), "{seen:?}");
        let count = watch.count;
        watch.probe_if_due();
        assert_eq!(watch.count, count);
        watch.reset();
        let clocks = TeamClocks::of([&watch].into_iter());
        assert_eq!((watch.mean(), clocks.mean_hz(), clocks.each_hz), (None, None, vec![None]));
        let some = TeamClocks { each_hz: vec![Some(1.0), None, Some(3.0)] };
        assert_eq!((some.mean_hz(), TeamClocks::default().mean_hz()), (Some(2.0), None));
    }
}
