//! How much two runs of the same thing differ on their own: the noise between runs, and the smallest difference that
//! may be called real.
//!
//! All in logarithms of figures, so that twice as fast and half as fast are equally far. `plimsoll doctor` measures
//! it by repeating cases in an unchanged machine (A/A); a benchmark may declare it; a side of many runs shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::document::Run;
use crate::measurement::Status;

/// No difference below this share is called real, however quiet the machine seemed: placement in memory alone does as
/// much from run to run.
const LEAST: f64 = 0.01;

/// How many times the largest difference that was seen without a cause a real one must be: the next hour is not as the
/// minutes of the measurement.
const RESERVE: f64 = 1.5;

/// Two-sided tail of the smallest real difference of two runs.
const TAIL: f64 = 0.001;

/// The noise between runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Standard deviation of one run's figure, as a logarithm (0.01 is 1 %).
    pub deviation: f64,
    /// Degrees of freedom of that estimate.
    pub freedom: f64,
    /// The largest difference of two runs that was seen without a cause, as a logarithm.
    pub largest: f64,
}

impl Noise {
    /// The noise in groups of figures of the same case each; `None` where no group has two positive figures.
    pub fn of<'a>(groups: impl IntoIterator<Item = &'a [f64]>) -> Option<Self> {
        let (mut squares, mut freedom, mut largest) = (0.0, 0.0, 0.0f64);
        for group in groups {
            let logs: Vec<f64> = group.iter().filter(|x| **x > 0.0).map(|x| x.ln()).collect();
            if logs.len() < 2 {
                continue;
            }
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            freedom += (logs.len() - 1) as f64;
            let (low, high) = logs.iter().fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(*x), h.max(*x)));
            largest = largest.max(high - low);
        }
        (freedom > 0.0 && squares.is_finite()).then(|| Self {
            deviation: (squares / freedom).sqrt(),
            freedom,
            largest,
        })
    }

    /// A noise for which differences from `share` on are real, by a benchmark's own word.
    pub fn declared(share: f64) -> Self {
        let largest = share.ln_1p() / RESERVE;
        Self { deviation: largest / 3.0, freedom: 30.0, largest }
    }

    /// The smallest difference of two runs that may be called real, as a logarithm: what the deviation makes unlikely,
    /// and well above everything that was seen without a cause.
    pub fn smallest(&self) -> f64 {
        let by_deviation = self.quantile(1.0 - TAIL / 2.0) * self.deviation * std::f64::consts::SQRT_2;
        by_deviation.max(self.largest * RESERVE).max(LEAST)
    }

    /// Student's t at this probability.
    pub(super) fn quantile(&self, probability: f64) -> f64 {
        let t = StudentsT::new(0.0, 1.0, self.freedom.max(1.0));
        t.map_or(f64::INFINITY, |t| t.inverse_cdf(probability))
    }

    /// The probability of a deviation as far as `t` to either side, if nothing changed.
    pub(super) fn probability(&self, t: f64) -> f64 {
        let student = StudentsT::new(0.0, 1.0, self.freedom.max(1.0));
        student.map_or(1.0, |student| (2.0 * student.cdf(-t.abs())).clamp(0.0, 1.0))
    }

    /// The worse of both.
    pub fn worse(self, other: Self) -> Self {
        if self.smallest() >= other.smallest() { self } else { other }
    }
}

/// The noise of one metric of one benchmark, over all cases that were repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The benchmark.
    pub benchmark: String,
    /// The metric.
    pub metric: String,
    /// How it differs from run to run.
    pub noise: Noise,
}

/// What `plimsoll doctor` measured on a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floors {
    /// Fingerprint of the machine.
    pub machine: String,
    /// When, RFC 3339.
    pub made: String,
    /// Runs that were compared.
    pub rounds: usize,
    /// One a metric.
    pub floors: Vec<Floor>,
}

impl Floors {
    /// The noise between these runs of one plan, all on one machine in one state.
    pub fn of(runs: &[Run]) -> Self {
        let mut figures: BTreeMap<Named, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
        let mut order: Vec<Named> = Vec::new();
        for measurement in runs.iter().flat_map(|run| &run.measurements) {
            if measurement.status != Status::Ok {
                continue;
            }
            for metric in &measurement.metrics {
                let named =
                    Named { benchmark: measurement.case.benchmark().to_owned(), metric: metric.name.clone() };
                if !figures.contains_key(&named) {
                    order.push(named.clone());
                }
                let cases = figures.entry(named).or_default();
                let case = measurement.case.id().as_str().to_owned();
                cases.entry(case).or_default().push(metric.summary.median);
            }
        }
        let floor = |named: Named| {
            let noise = Noise::of(figures.get(&named)?.values().map(Vec::as_slice))?;
            Some(Floor { benchmark: named.benchmark, metric: named.metric, noise })
        };
        Self {
            machine: runs.first().map(|run| run.machine.id.clone()).unwrap_or_default(),
            made: runs.last().map(|run| run.started.clone()).unwrap_or_default(),
            rounds: runs.len(),
            floors: order.into_iter().filter_map(floor).collect(),
        }
    }

    /// The noise of a metric.
    pub fn find(&self, benchmark: &str, metric: &str) -> Option<Noise> {
        let found = self.floors.iter().find(|f| f.benchmark == benchmark && f.metric == metric);
        found.map(|floor| floor.noise)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    benchmark: String,
    metric: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture;
    use crate::quantity::Unit;

    #[test]
    fn groups_are_pooled_about_their_own_means() {
        let (slow, fast) = ([1.0, 1.0f64.exp()], [5.0, 5.0, 5.0]);
        let noise = Noise::of([slow.as_slice(), &fast, &[7.0]]).unwrap();
        // Squares 0.25 + 0.25 over 1 + 2 degrees of freedom.
        assert!((noise.deviation - (0.5f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!((noise.freedom, noise.largest), (3.0, 1.0));
        assert_eq!(Noise::of([[1.0].as_slice(), &[0.0, -3.0], &[]]), None);
    }

    #[test]
    fn the_smallest_real_difference_is_beyond_all_that_was_seen() {
        let quiet = Noise { deviation: 0.0, freedom: 10.0, largest: 0.0 };
        assert_eq!(quiet.smallest(), LEAST);
        let seen = Noise { largest: 0.04, ..quiet };
        assert!((seen.smallest() - 0.06).abs() < 1e-12);
        // t(0.9995, 10) = 4.587 (any table).
        let noisy = Noise { deviation: 0.02, ..quiet };
        assert!((noisy.smallest() - 4.587 * 0.02 * 2f64.sqrt()).abs() < 1e-4);
        assert_eq!(noisy.worse(seen), noisy);
    }

    #[test]
    fn a_declared_share_is_the_smallest_real_difference() {
        assert!((Noise::declared(0.05).smallest() - 1.05f64.ln()).abs() < 0.01);
    }

    #[test]
    fn floors_are_by_benchmark_and_metric_over_all_rounds() {
        let round = |rate: f64, loss: f64| {
            let case = "disk.io/op=read/block=4K/depth=1/threads=1";
            let mut made = fixture::measured(case, "rate", Unit::IoPerSecond, rate);
            made.metrics.push(fixture::metric("latency", Unit::Second, loss, 0.0));
            fixture::run_of(vec![made])
        };
        let floors = Floors::of(&[round(100.0, 1.0), round(110.0, 1.0), round(105.0, 1.0)]);
        assert_eq!((floors.rounds, floors.machine.as_str()), (3, "m-1"));
        assert!(floors.find("disk.io", "rate").unwrap().deviation > 0.01);
        assert!(floors.find("disk.io", "latency").unwrap().deviation < 1e-12);
        assert_eq!(floors.find("disk.io", "submit"), None);
        assert!(Floors::of(&[round(1.0, 1.0)]).floors.is_empty(), "one round shows no noise");
        let text = serde_json::to_string(&floors).unwrap();
        assert_eq!(serde_json::from_str::<Floors>(&text).unwrap(), floors);
    }

    proptest! {
        #[test]
        fn noise_does_not_depend_on_the_unit(values in prop::collection::vec(0.5f64..2.0, 2..12), unit in 1e-9f64..1e9) {
            let scaled: Vec<f64> = values.iter().map(|v| v * unit).collect();
            let (a, b) = (Noise::of([values.as_slice()]).unwrap(), Noise::of([scaled.as_slice()]).unwrap());
            prop_assert!((a.deviation - b.deviation).abs() < 1e-9 && (a.largest - b.largest).abs() < 1e-9);
            prop_assert!(a.smallest() >= a.largest);
        }
    }
}
