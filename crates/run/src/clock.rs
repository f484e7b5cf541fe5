//! The run loop's real clock with steal, throttling, power and hardware events around samples.

use plimsoll_machine::clocks::{ClockWatch, WrongRate};
use plimsoll_machine::health::{self, CounterFiles, Energy, HealthCounters, Zone};
use plimsoll_machine::{CpuSet, Root, StateSnapshot, StateWatch};
use plimsoll_model::sample::Conditions;
use plimsoll_system::wall;

use crate::Clock;

/// Monotonic clock and readings of the machine's counters.
pub struct SystemClock {
    begun: f64,
    wall: wall::WallClockWatch,
    clocks: ClockWatch,
    watch: StateWatch,
    cpus: CpuSet,
    before: Option<StateSnapshot>,
    probe: CounterFiles,
    energy: Option<(f64, Vec<Zone>)>,
    counters: Option<HealthCounters>,
}

/// Shortest time in s for which power is computed: energy counters are updated once a millisecond.
const LEAST_FOR_POWER: f64 = 0.02;

impl SystemClock {
    /// Returns a clock that starts at zero now. Steal is that of `cpus`, from files below `root`.
    pub fn new(root: &Root, cpus: &CpuSet) -> Self {
        Self {
            begun: wall::monotonic(),
            wall: wall::WallClockWatch::default(),
            clocks: ClockWatch::new(root),
            watch: StateWatch::new(root),
            cpus: cpus.clone(),
            before: None,
            probe: CounterFiles::new(root),
            energy: None,
            counters: None,
        }
    }

    /// Returns the steps of the wall clock during the run, each with the node name `node`.
    pub fn steps(&mut self, node: &str) -> Vec<wall::ClockStep> {
        self.wall.record_step(self.now());
        self.wall.steps(node)
    }

    /// Returns the mean power since the sample began: the `_j` fields contain W. Empty if unknown.
    fn power(&mut self) -> Energy {
        let known = self.energy.take().filter(|(_, zones)| !zones.is_empty());
        let known = known.map(|(began, zones)| (self.now() - began, zones));
        let Some((seconds, before)) = known.filter(|(seconds, _)| *seconds >= LEAST_FOR_POWER) else {
            return Energy::default();
        };
        let Energy { packages_j, memory_j } = health::used(&before, &self.probe.energy(), seconds);
        let power = |joules: f64| joules / seconds;
        Energy { packages_j: packages_j.map(power), memory_j: memory_j.map(power) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> f64 {
        wall::monotonic() - self.begun
    }

    fn watch(&mut self) {
        self.clocks.take_reading();
        self.before = Some(self.watch.snapshot());
        self.energy = Some((self.now(), self.probe.energy()));
    }

    fn watched(&mut self) -> Conditions {
        let power = self.power();
        self.wall.record_step(self.now());
        let Some(before) = self.before.take() else { return Conditions::default() };
        let change = before.until(&self.watch.snapshot(), &self.cpus);
        // The counter is the sum over CPUs; the run loop divides it by the CPUs that a case uses.
        let throttled = change.throttled_s.filter(|_| change.elapsed_s > 0.0).map(|s| s / change.elapsed_s);
        let pages_swapped = change.pages_swapped.filter(|n| *n > 0).map(|n| n as f64);
        Conditions {
            steal: change.steal_share,
            throttled,
            pages_swapped,
            package_power: power.packages_j,
            memory_power: power.memory_j,
            ..Conditions::default()
        }
    }

    fn wrong_rate(&mut self) -> Option<WrongRate> {
        self.clocks.wrong_rate()
    }

    fn begin_case(&mut self) {
        self.counters = Some(self.probe.counters());
    }

    fn end_case(&mut self) -> HealthCounters {
        self.counters.take().map(|before| self.probe.counters().since(&before)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::fixture::{Fault, Fixture};

    use super::*;

    #[test]
    fn power_and_what_happened_are_seen_between_two_readings() -> Result<(), Fault> {
        let zone = "sys/class/powercap/intel-rapl:0";
        let fixture = Fixture::unpack(&format!(
            "{zone}/name = package-0\n{zone}/max_energy_range_uj = 262143328850\n{zone}/energy_uj = 0\n\
             sys/devices/system/edac/mc/mc0/ce_count = 1\nsys/devices/system/edac/mc/mc0/ue_count = 0\n"
        ))?;
        let mut clock = SystemClock::new(&fixture.root, &CpuSet::single(0));
        clock.begin_case();
        clock.watch();
        let began = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(30));
        fixture.write(&format!("{zone}/energy_uj"), b"6000000\n")?;
        fixture.write("sys/devices/system/edac/mc/mc0/ce_count", b"3\n")?;
        let most = 6.0 / (clock.now() - began);
        let power = clock.watched().package_power.ok_or("no power")?;
        // 6 J between the readings, which themselves take a little time.
        assert!(power > 0.0 && power <= most, "{power} W, at most {most} W");
        assert_eq!(clock.end_case().memory_errors(), [2, 0]);
        assert!(clock.end_case().is_empty() && clock.watched().package_power.is_none());
        Ok(())
    }

    #[test]
    fn a_system_without_counters_tells_nothing() -> Result<(), Fault> {
        let fixture = Fixture::unpack("proc/\n")?;
        let mut clock = SystemClock::new(&fixture.root, &CpuSet::single(0));
        clock.begin_case();
        clock.watch();
        std::thread::sleep(std::time::Duration::from_millis(21));
        assert_eq!(clock.watched().package_power, None);
        assert!(clock.end_case().is_empty());
        Ok(())
    }
}
