//! Checks whether this machine is quiet enough to measure, and what it permits, from discovered
//! facts; [`proof`] checks the clocks.
#![forbid(unsafe_code)]

mod checks;
mod leftovers;
pub mod proof;
mod shapers;

pub use checks::checks;
pub use leftovers::{leftovers, skipped_programs};
pub use shapers::shapers;

use plimsoll_compare::{Floors, NoiseFloor};

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// No problem.
    Good,
    /// A problem; [`MachineCheck::cost`] describes its effect.
    Costs,
    /// Cannot be determined on this machine.
    Unknown,
}

/// One checked fact about the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineCheck {
    /// Name of the checked fact.
    pub name: &'static str,
    /// Outcome.
    pub state: CheckState,
    /// Value found, as text.
    pub found: String,
    /// Effect on results, and the remedy.
    pub cost: Option<String>,
}

// The caller adds the name.
fn good(found: impl Into<String>) -> MachineCheck {
    MachineCheck { name: "", state: CheckState::Good, found: found.into(), cost: None }
}

fn costs(found: impl Into<String>, cost: impl Into<String>) -> MachineCheck {
    MachineCheck { state: CheckState::Costs, cost: Some(cost.into()), ..good(found) }
}

fn costs_if(is_problem: bool, found: String, cost: &str) -> MachineCheck {
    if is_problem { costs(found, cost) } else { good(found) }
}

fn unknown(found: impl Into<String>, cost: impl Into<String>) -> MachineCheck {
    MachineCheck { state: CheckState::Unknown, cost: Some(cost.into()), ..good(found) }
}

/// Noise floors of one metric of a benchmark over its cases, as relative changes (0.01 = 1 %).
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseFloorRange {
    /// Benchmark name, or a subsystem from [`by_subsystem`].
    pub benchmark: String,
    /// Metric name.
    pub metric: String,
    /// Floor of the quietest case.
    pub least: f64,
    /// Floor of the noisiest case.
    pub most: f64,
    /// Id of the noisiest case, if cases differ.
    pub noisiest: Option<String>,
}

impl NoiseFloorRange {
    fn widen(&mut self, other: Self) {
        let least = self.least.min(other.least);
        if other.most > self.most {
            *self = other;
        }
        self.least = least;
    }
}

/// Returns noise floor ranges over cases: per benchmark its first metric and any marked `floor`.
pub fn noise_floor_ranges(floors: &Floors) -> Vec<NoiseFloorRange> {
    let shown = |f: &&NoiseFloor| {
        let all =
            plimsoll_bench::find(&f.benchmark).map(|benchmark| benchmark.all_metrics()).unwrap_or_default();
        let place = all.iter().position(|metric| metric.name == f.metric);
        place.is_some_and(|place| place == 0 || all[place].floor)
    };
    let mut found: Vec<NoiseFloorRange> = Vec::new();
    for floor in floors.floors.iter().filter(shown) {
        let share = floor.noise.smallest().exp_m1();
        let alone = NoiseFloorRange {
            benchmark: floor.benchmark.clone(),
            metric: floor.metric.clone(),
            least: share,
            most: share,
            noisiest: floor.case.clone(),
        };
        match found.iter_mut().find(|s| s.benchmark == alone.benchmark && s.metric == alone.metric) {
            None => found.push(alone),
            // The entry for all cases precedes the entries of single cases, which replace it.
            Some(known) if known.noisiest.is_none() => *known = alone,
            Some(known) => known.widen(alone),
        }
    }
    found
}

/// Merges the ranges of each subsystem's benchmarks to one, from the lowest to the highest floor.
pub fn by_subsystem(all: &[NoiseFloorRange]) -> Vec<NoiseFloorRange> {
    let mut found: Vec<NoiseFloorRange> = Vec::new();
    for one in all {
        let subsystem = one.benchmark.split('.').next().unwrap_or_default();
        let one = NoiseFloorRange { benchmark: subsystem.to_owned(), ..one.clone() };
        match found.iter_mut().find(|known| known.benchmark == one.benchmark) {
            None => found.push(one),
            Some(known) => known.widen(one),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use plimsoll_compare::RunNoise;

    use super::*;

    #[test]
    fn a_subsystem_is_as_noisy_as_its_noisiest_case() {
        let floor = |benchmark: &str, metric: &str, deviation| NoiseFloor {
            benchmark: benchmark.to_owned(),
            metric: metric.to_owned(),
            case: None,
            noise: RunNoise { deviation, freedom: 10.0, largest: 0.0 },
        };
        let floors = Floors {
            floors: vec![
                floor("cpu.peak", "rate", 0.0),
                floor("disk.io", "rate", 0.01),
                floor("disk.fsync", "latency", 0.02),
                floor("disk.io", "slat", 0.5),
                floor("memory.block", "throughput", 0.4),
                NoiseFloor { case: Some("quiet".to_owned()), ..floor("memory.block", "throughput", 0.0) },
                NoiseFloor { case: Some("noisy".to_owned()), ..floor("memory.block", "throughput", 0.6) },
            ],
            ..Floors::default()
        };
        let all = noise_floor_ranges(&floors);
        assert_eq!(all.len(), 4, "{all:?}");
        let worst = by_subsystem(&all);
        assert_eq!(worst.iter().map(|w| w.benchmark.as_str()).collect::<Vec<_>>(), ["cpu", "disk", "memory"]);
        assert_eq!(worst[1].metric, "latency");
        assert!((worst[0].most - 0.01).abs() < 1e-3 && worst[1].least < worst[1].most, "{worst:?}");
        let memory = &worst[2];
        assert_eq!(memory.noisiest.as_deref(), Some("noisy"));
        assert!((memory.least - 0.01).abs() < 1e-3 && memory.most > 1.0, "{memory:?}");
    }
}
