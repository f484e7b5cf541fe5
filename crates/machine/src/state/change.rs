use super::{CpuTime, StateSnapshot, share};
use crate::CpuSet;
use serde::{Deserialize, Serialize};

/// Activity between two snapshots. Shares are from 0 to 1; `None` is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// Time between the snapshots in s.
    pub elapsed_s: f64,
    /// Steal: share of the CPUs' time that the hypervisor gave to other guests.
    pub steal_share: Option<f64>,
    /// Share of the CPUs' time that was busy.
    pub busy_share: Option<f64>,
    /// Share of the time in which some thread of the machine waited for a CPU.
    pub cpu_pressure: Option<f64>,
    /// Share of the time in which some thread of the machine waited for memory.
    pub memory_pressure: Option<f64>,
    /// Share of the time in which some thread of the machine waited for I/O.
    pub io_pressure: Option<f64>,
    /// Time in s, summed over CPUs, in which the CPU quota throttled this process's groups.
    pub throttled_s: Option<f64>,
    /// Pages moved to or from swap by the whole machine.
    pub pages_swapped: Option<u64>,
}

impl StateSnapshot {
    /// Returns the activity from this snapshot to `later`; CPU shares are those of `cpus`.
    pub fn until(&self, later: &Self, cpus: &CpuSet) -> StateChange {
        let elapsed = later.at.saturating_duration_since(self.at);
        let time = self.time_until(later, cpus);
        let elapsed_us = u64::try_from(elapsed.as_micros()).unwrap_or(0);
        let stall = |n: usize| {
            let (before, after) = (self.stalls.get(n).copied()??, later.stalls.get(n).copied()??);
            share(after.total_us.saturating_sub(before.total_us), elapsed_us)
        };
        let throttled = self.throttling.zip(later.throttling);
        StateChange {
            elapsed_s: elapsed.as_secs_f64(),
            steal_share: share(time.steal, time.total),
            busy_share: share(time.total.saturating_sub(time.idle).saturating_sub(time.steal), time.total),
            cpu_pressure: stall(0),
            memory_pressure: stall(1),
            io_pressure: stall(2),
            throttled_s: throttled
                .map(|(before, after)| after.throttled_us.saturating_sub(before.throttled_us) as f64 / 1e6),
            pages_swapped: self.pages_swapped.zip(later.pages_swapped).map(|(b, a)| a.saturating_sub(b)),
        }
    }

    fn time_until(&self, later: &Self, cpus: &CpuSet) -> CpuTime {
        let mut sum = CpuTime::default();
        for cpu in cpus.iter() {
            let (Some(before), Some(after)) = (self.times.get(&cpu), later.times.get(&cpu)) else { continue };
            sum.total = sum.total.saturating_add(after.total.saturating_sub(before.total));
            sum.idle = sum.idle.saturating_add(after.idle.saturating_sub(before.idle));
            sum.steal = sum.steal.saturating_add(after.steal.saturating_sub(before.steal));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::Fixture;
    use crate::{CpuSet, StateWatch};

    #[test]
    fn shares_are_of_the_time_that_passed_on_these_cpus() {
        let fixture = Fixture::open("graviton2-container").unwrap();
        let watch = StateWatch::new(&fixture.root);
        let before = watch.snapshot();
        let ticks = b"cpu  0 0 0 0 0 0 0 0 0 0\n\
            cpu0 22109 0 6933 157263 1119 0 66 30 0 0\n\
            cpu1 22059 0 6933 157343 1109 0 66 10 0 0\n\
            cpu2 22059 0 6933 157243 1000 0 66 10 0 0\n";
        fixture.write("proc/stat", ticks).unwrap();
        let throttling = b"nr_periods 20\nnr_throttled 5\nthrottled_usec 400000\n";
        fixture.write("sys/fs/cgroup/cpu.stat", throttling).unwrap();
        fixture.write("proc/vmstat", b"pswpin 3\npswpout 4\n").unwrap();
        let after = watch.snapshot();
        let on = |cpus: &str| before.until(&after, &cpus.parse().unwrap());
        let first = on("0");
        assert_eq!((first.steal_share, first.busy_share), (Some(0.2), Some(0.5)));
        assert_eq!(on("0-1").steal_share, Some(0.1));
        assert_eq!(on("2").steal_share, None);
        assert_eq!(on("7").steal_share, None);
        assert_eq!(first.throttled_s, Some(0.25));
        assert_eq!(first.pages_swapped, Some(7));
        assert!(first.elapsed_s >= 0.0);
        assert_eq!(first.cpu_pressure, Some(0.0));
    }

    #[test]
    fn what_cannot_be_read_is_not_known() {
        let fixture = Fixture::unpack("").unwrap();
        let watch = StateWatch::new(&fixture.root);
        let change = watch.snapshot().until(&watch.snapshot(), &CpuSet::single(0));
        assert_eq!((change.steal_share, change.io_pressure), (None, None));
        assert_eq!((change.throttled_s, change.pages_swapped), (None, None));
    }
}
