//! The run loop's real clock: monotonic time, and the steal and throttling seen while a sample ran.

use crate::Clock;
use crate::machine::{CpuSet, Root, Snapshot, Watch};
use crate::sample::Conditions;
use crate::wall;

/// Monotonic time since it was made; the machine's state from its own files.
pub struct SystemClock {
    begun: f64,
    wall: wall::Watch,
    watch: Watch,
    cpus: CpuSet,
    before: Option<Snapshot>,
}

impl SystemClock {
    /// Starts at zero; steal is that of `cpus`.
    pub fn new(root: &Root, cpus: &CpuSet) -> Self {
        Self {
            begun: wall::monotonic(),
            wall: wall::Watch::new(),
            watch: Watch::new(root),
            cpus: cpus.clone(),
            before: None,
        }
    }
}

impl SystemClock {
    /// How the wall clock was set in the course of the run on this machine.
    pub fn steps(&mut self, node: &str) -> Vec<wall::Step> {
        self.wall.look(self.now());
        self.wall.steps(node)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> f64 {
        wall::monotonic() - self.begun
    }

    fn watch(&mut self) {
        self.before = Some(self.watch.snapshot());
    }

    fn watched(&mut self) -> Conditions {
        self.wall.look(self.now());
        let Some(before) = self.before.take() else { return Conditions::default() };
        let change = before.until(&self.watch.snapshot(), &self.cpus);
        // The counter adds the CPUs up; the loop, which knows how many a case uses, makes a share of it.
        let throttled = change.throttled_s.filter(|_| change.elapsed_s > 0.0).map(|s| s / change.elapsed_s);
        let pages_swapped = change.pages_swapped.filter(|n| *n > 0).map(|n| n as f64);
        Conditions { steal: change.steal_share, throttled, pages_swapped, ..Conditions::default() }
    }
}
