//! Is this machine quiet enough, and what may be measured here? Facts with their cost: pure, from what was discovered.
//!
//! The noise between runs is measured by repeating runs ([`crate::compare::Floors`]); the clock is proved in [`proof`].

mod checks;
pub mod proof;

pub use checks::checks;

use crate::bench;
use crate::compare::Floors;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Good,
    /// It costs something: [`Check::cost`].
    Costs,
    /// It cannot be known here.
    Unknown,
}

/// One fact about the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What that costs, and what to do about it.
    pub cost: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Good, found: found.into(), cost: None }
    }

    fn costs(name: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Self {
        Self { name, state: State::Costs, found: found.into(), cost: Some(cost.into()) }
    }

    fn unknown(name: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Self {
        Self { name, state: State::Unknown, found: found.into(), cost: Some(cost.into()) }
    }
}

/// The smallest real difference of one benchmark's headline, as a share.
#[derive(Clone, Debug, PartialEq)]
pub struct Smallest {
    /// The benchmark.
    pub benchmark: String,
    /// Its headline.
    pub metric: String,
    /// The share.
    pub share: f64,
}

/// The floors of the headlines, and of each subsystem the largest of them.
pub fn smallest(floors: &Floors) -> Vec<Smallest> {
    let headline = |benchmark: &str, metric: &str| {
        // disk.io has a headline by block size; all of them count.
        bench::find(benchmark).is_some_and(|_| HEADLINES.contains(&metric))
    };
    let found = floors.floors.iter().filter(|f| headline(&f.benchmark, &f.metric));
    found
        .map(|f| Smallest {
            benchmark: f.benchmark.clone(),
            metric: f.metric.clone(),
            share: f.noise.smallest().exp_m1(),
        })
        .collect()
}

/// Metrics that are some case's headline.
const HEADLINES: &[&str] = &["rate", "program", "latency", "throughput", "goodput", "rtt"];

/// The subsystems with the largest smallest difference of their headlines.
pub fn by_subsystem(all: &[Smallest]) -> Vec<Smallest> {
    let mut worst: Vec<Smallest> = Vec::new();
    for one in all {
        let subsystem = one.benchmark.split('.').next().unwrap_or_default();
        match worst.iter_mut().find(|w| w.benchmark == subsystem) {
            Some(known) if known.share >= one.share => {}
            Some(known) => (known.share, known.metric) = (one.share, one.metric.clone()),
            None => worst.push(Smallest { benchmark: subsystem.to_owned(), ..one.clone() }),
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Floor, Noise};

    #[test]
    fn a_subsystem_is_as_noisy_as_its_worst_headline() {
        let floor = |benchmark: &str, metric: &str, deviation| Floor {
            benchmark: benchmark.to_owned(),
            metric: metric.to_owned(),
            noise: Noise { deviation, freedom: 10.0, largest: 0.0 },
        };
        let floors = Floors {
            floors: vec![
                floor("cpu.peak", "rate", 0.0),
                floor("disk.io", "rate", 0.01),
                floor("disk.fsync", "latency", 0.02),
                floor("disk.io", "submit", 0.5),
            ],
            ..Floors::default()
        };
        let all = smallest(&floors);
        assert_eq!(all.len(), 3, "{all:?}");
        let worst = by_subsystem(&all);
        assert_eq!(worst.iter().map(|w| w.benchmark.as_str()).collect::<Vec<_>>(), ["cpu", "disk"]);
        assert_eq!(worst[1].metric, "latency");
        assert!((worst[0].share - 0.01).abs() < 1e-3, "{worst:?}");
    }
}
