//! Checks of the clocks: monotonic across CPUs, rate, cost of a reading, stable core clock.

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_machine::clocks::{ClockWatch, HIGHEST_CORE_HZ, ReferenceClock, WrongRate};
use plimsoll_machine::{CpuSet, Root};
use plimsoll_metal::clock::{CoreClock, ProbeWork, timer_overhead};
use plimsoll_metal::ticks::TickClock;
use plimsoll_units::quantity::{Quantity, Unit, percent};
use plimsoll_units::text::format_count;

use super::{MachineCheck, costs, costs_if, good, unknown};

const READINGS_PER_CPU: u32 = 50_000;

/// Limit of racing CPUs; a disagreement between two CPUs also shows with fewer CPUs.
const MOST_CPUS: usize = 64;

const PROBES: usize = 200;

/// Result of [`race`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Race {
    /// CPUs that took part.
    pub cpus: usize,
    /// Clock readings on all CPUs.
    pub readings: u64,
    /// Readings earlier than a reading that another thread had already published.
    pub backwards: u64,
}

/// Reads a clock in one thread each on up to 64 of `cpus`, and counts readings earlier than what
/// another thread read before. `None` if no thread could be started.
pub fn race(clock: TickClock, cpus: &CpuSet) -> Option<Race> {
    let latest = AtomicU64::new(0);
    let one = |cpu: usize| {
        // On a CPU that went offline, the thread runs unpinned.
        let _ = plimsoll_metal::affinity::pin_to(&[cpu]);
        let mut backwards = 0u64;
        for _ in 0..READINGS_PER_CPU {
            let published = latest.load(Ordering::SeqCst);
            let now = clock.ordered_now_ns();
            backwards += u64::from(now < published);
            latest.fetch_max(now, Ordering::SeqCst);
        }
        backwards
    };
    std::thread::scope(|scope| {
        let spawn = |cpu: usize| std::thread::Builder::new().spawn_scoped(scope, move || one(cpu)).ok();
        let threads: Vec<_> = cpus.iter().take(MOST_CPUS).filter_map(spawn).collect();
        let counts: Vec<u64> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        let readings = u64::from(READINGS_PER_CPU) * counts.len() as u64;
        let backwards = counts.iter().sum();
        (!counts.is_empty()).then_some(Race { cpus: counts.len(), readings, backwards })
    })
}

/// Checks the clocks: rate, agreement between `cpus`, cost of a reading, steadiness of core clock.
pub fn clock(root: &Root, cpus: &CpuSet) -> Vec<MachineCheck> {
    let mut clocks = ClockWatch::new(root);
    let mut checks = vec![("system clock", raced(race(TickClock::system(), cpus)))];
    // Disk transfers are stamped with this clock.
    let counter = TickClock::fastest();
    clocks.take_reading();
    if counter.is_counter() {
        checks.push(("CPU counter", raced(race(counter, cpus))));
    }
    clocks.take_reading();
    checks.push(("cost of a clock reading", reading(timer_overhead())));
    checks.push(("core clock", core_clock(&probes())));
    checks.insert(0, ("clock rate", clock_rate(clocks.wrong_rate(), &clocks.confirmed_by())));
    checks.into_iter().map(|(name, check)| MachineCheck { name, ..check }).collect()
}

fn clock_rate(wrong: Option<WrongRate>, confirmed_by: &[ReferenceClock]) -> MachineCheck {
    let same: Vec<String> = confirmed_by.iter().map(ReferenceClock::to_string).collect();
    match wrong {
        Some(wrong) => costs(wrong.to_string(), "every row of a run is invalid"),
        None if same.is_empty() => unknown("no other clock to compare with", "a wrong rate is not noticed"),
        None => good(format!("the same as {}", same.join(" and "))),
    }
}

fn raced(race: Option<Race>) -> MachineCheck {
    match race {
        Some(Race { cpus, readings, backwards: 0 }) => {
            good(format!("{readings} readings on {}, none went backwards", format_count(cpus, "CPU")))
        }
        Some(Race { cpus, readings, backwards }) => costs(
            format!("{backwards} of {readings} readings on {} went backwards", format_count(cpus, "CPU")),
            "times between CPUs cannot be trusted: boot with another clocksource, and tell the host's owner",
        ),
        None => unknown("no thread could be started", "see ulimit -u"),
    }
}

fn reading(seconds: f64) -> MachineCheck {
    let found = Quantity::new(seconds, Unit::Second).to_string();
    let cost = "single operations of less than a microsecond have it in their figure";
    costs_if(seconds >= 200e-9, found, cost)
}

fn probes() -> Vec<f64> {
    let Ok(clock) = CoreClock::calibrate(ProbeWork::SCALAR) else { return Vec::new() };
    (0..PROBES).filter_map(|_| clock.probe()).collect()
}

fn core_clock(probes: &[f64]) -> MachineCheck {
    let mut sorted = probes.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted.get(((sorted.len() as f64 - 1.0) * share) as usize).copied();
    match (at(0.05), at(0.5), at(0.95)) {
        (_, Some(middle), _) if middle > HIGHEST_CORE_HZ => costs(
            format!("{}, which no core reaches", Quantity::new(middle, Unit::Hertz)),
            "the monotonic clock runs too slowly: no time or rate is right; check LD_PRELOAD and the clocksource",
        ),
        (Some(low), Some(middle), Some(high)) => {
            let spread = (high - low) / middle;
            let (clock, within) = (Quantity::new(middle, Unit::Hertz), percent(spread, 2));
            let found = format!("{clock}, 90 % of {} probes within {within}", sorted.len());
            let cost = "figures vary with it; their limits follow the clock that was held";
            costs_if(spread >= 0.02, found, cost)
        }
        _ => unknown("no chain of additions could be timed", "limits that need the clock are unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CheckState;

    #[test]
    fn the_race_reads_on_every_cpu() {
        let allowed = plimsoll_machine::Machine::discover(&Root::live()).cpu.allowed;
        for clock in [TickClock::system(), TickClock::fastest()] {
            let race = race(clock, &allowed).unwrap();
            assert_eq!(race.cpus, allowed.len().min(MOST_CPUS));
            assert_eq!(race.readings, u64::from(READINGS_PER_CPU) * race.cpus as u64);
            assert!(clock.is_counter() || race.backwards == 0, "the system's clock is monotonic");
            assert_eq!(super::race(clock, &CpuSet::default()), None);
        }
    }

    #[test]
    fn time_that_goes_backwards_is_told() {
        let check = raced(Some(Race { cpus: 64, readings: 100, backwards: 3 }));
        assert_eq!(check.state, CheckState::Costs);
        assert!(check.found.starts_with("3 of 100 readings on 64 CPUs"));
    }

    #[test]
    fn a_steady_clock_is_good_and_a_moving_one_costs() {
        use CheckState::{Costs, Good, Unknown};
        let moving: Vec<f64> = (0..20).map(|i| 3e9 + f64::from(i) * 1e7).collect();
        let clocks = [core_clock(&[3e9; 20]), core_clock(&moving), core_clock(&[]), core_clock(&[32e9; 20])];
        assert_eq!(clocks.map(|check| check.state), [Good, Costs, Unknown, Costs]);
        assert_eq!(reading(1e-6).state, Costs);
        let wrong = WrongRate { reference: ReferenceClock::Kernel, ratio: 0.1 };
        let kernel = [ReferenceClock::Kernel];
        let rates = [clock_rate(Some(wrong), &[]), clock_rate(None, &kernel), clock_rate(None, &[])];
        assert_eq!(rates.map(|check| check.state), [Costs, Good, Unknown]);
    }
}
