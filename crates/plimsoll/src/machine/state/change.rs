//! What happened between two snapshots.

use super::{CpuTime, Snapshot, share};
use crate::machine::CpuSet;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What happened between two snapshots. Shares run from 0 to 1; `None` is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Time between the snapshots, in seconds.
    pub elapsed_s: f64,
    /// Share of the CPUs' time that a hypervisor gave to others.
    pub steal_share: Option<f64>,
    /// Share of the CPUs' time in which they ran anything.
    pub busy_share: Option<f64>,
    /// Share of the time in which some thread of the machine waited for a CPU.
    pub cpu_pressure: Option<f64>,
    /// Share of the time in which some thread of the machine waited for memory.
    pub memory_pressure: Option<f64>,
    /// Share of the time in which some thread of the machine waited for I/O.
    pub io_pressure: Option<f64>,
    /// Time for which the CPU quota stopped this process's groups, summed over CPUs, in seconds.
    pub throttled_s: Option<f64>,
    /// Pages moved to or from swap, by the whole machine.
    pub pages_swapped: Option<u64>,
}

impl Snapshot {
    /// What happened from this snapshot to a later one, on `cpus`.
    pub fn until(&self, later: &Self, cpus: &CpuSet) -> Change {
        let elapsed = later.at.saturating_duration_since(self.at);
        let time = self.time_until(later, cpus);
        let stall = |n: usize| {
            let (before, after) = (self.stalls.get(n).copied()??, later.stalls.get(n).copied()??);
            stalled(after.total_us.saturating_sub(before.total_us), elapsed)
        };
        let throttled = self.throttling.zip(later.throttling);
        Change {
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

    /// The time that passed on `cpus`. Counters may step back a little (iowait does); that counts as nothing.
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

/// A stall of so many microseconds as a share of the time that passed.
fn stalled(stalled_us: u64, elapsed: Duration) -> Option<f64> {
    share(stalled_us, u64::try_from(elapsed.as_micros()).ok()?)
}
