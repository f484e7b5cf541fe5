//! Noise between runs: how much repeated runs differ, and the smallest difference that may be real.
//! As logarithms, so that twice and half as fast are equally far. Sources: `plimsoll doctor` (A/A),
//! the benchmark's declaration, or a side with many runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use plimsoll_bench::{CpuDistance, subsystem_of};
use plimsoll_model::case::Case;
use plimsoll_model::limit::median;
use plimsoll_model::measurement::{Measurement, Status};

use plimsoll_result::document::Run;
use plimsoll_stats::without_outliers;
use plimsoll_units::group::grouped;

/// Smallest difference (1 %) that may be real: memory placement alone changes results by as much.
const MIN_REAL_DIFFERENCE: f64 = 0.01;

/// Factor from the largest difference without a cause to the smallest real one: conditions change.
const NOISE_RESERVE_FACTOR: f64 = 1.5;

const TWO_RUN_TAIL: f64 = 0.001;

const LEAST_CASES: usize = 3;

/// Degrees of freedom of the typical noise when it is combined with a case's own runs.
const PRIOR_FREEDOM: f64 = 4.0;

/// Number of runs per outlier that may be left out.
const RUNS_FOR_AN_OUTLIER: usize = 10;

/// Share of time taken by other work from which a run is left out as not at rest.
const DISTURBED: f64 = 0.05;

const LEAST_ROUNDS: usize = 4;

/// Noise between runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunNoise {
    /// Standard deviation of one run's result, as a logarithm (0.01 is 1 %).
    pub deviation: f64,
    /// Degrees of freedom of that estimate.
    pub freedom: f64,
    /// Largest difference of two runs seen without a cause, as a logarithm.
    pub largest: f64,
}

impl RunNoise {
    /// Estimates the noise from each case's results; `None` if no case has two positive ones.
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

    /// Estimates the noise from one side's runs. Also returns the number of excluded outliers, at
    /// most one per ten runs or part of ten. `None` for under two positive results.
    pub fn of_runs(values: &[f64]) -> Option<(Self, usize)> {
        let logs: Vec<f64> = values.iter().filter(|x| **x > 0.0).map(|x| x.ln()).collect();
        let kept = without_outliers(&logs, logs.len().div_ceil(RUNS_FOR_AN_OUTLIER));
        let left_out = logs.len() - kept.len();
        let kept: Vec<f64> = kept.into_iter().map(f64::exp).collect();
        Some((Self::of([kept.as_slice()])?, left_out))
    }

    /// Combines the noise of two sides with `runs` runs each. Also returns the smallest difference
    /// of their medians that may be real, as a logarithm. Median: variance π ÷ 2 times that of the
    /// mean (Kendall & Stuart, vol. 1, §14.10); degrees of freedom: Welch and Satterthwaite.
    pub(super) fn of_sides(sides: [Self; 2], runs: [f64; 2]) -> (Self, f64) {
        let of = |side: usize| sides[side].deviation.powi(2) * std::f64::consts::FRAC_PI_2 / runs[side];
        let ([a, b], sum) = ([of(0), of(1)], of(0) + of(1));
        let [of_a, of_b] = sides.map(|side| side.freedom);
        let noise = Self {
            deviation: (sum / (1.0 / runs[0] + 1.0 / runs[1])).sqrt(),
            freedom: if sum > 0.0 {
                sum.powi(2) / (a.powi(2) / of_a + b.powi(2) / of_b)
            } else {
                of_a + of_b
            },
            largest: sides[0].largest.max(sides[1].largest),
        };
        (noise, noise.smallest_of(sum.sqrt()))
    }

    /// Returns the medians of the noise of several cases; `None` for fewer than [`LEAST_CASES`].
    fn typical(all: &[Self]) -> Option<Self> {
        let middle = |of: fn(&Self) -> f64| median(all.iter().map(of).collect());
        (all.len() >= LEAST_CASES).then_some(())?;
        Some(Self {
            deviation: middle(|n| n.deviation)?,
            freedom: PRIOR_FREEDOM,
            largest: middle(|n| n.largest)?,
        })
    }

    /// Combines a case's own noise with the `typical` one of its benchmark, so that few runs do not
    /// make a case look quiet: variances weighted by degrees of freedom (G. K. Smyth, Statistical
    /// Applications in Genetics and Molecular Biology 3(1), 2004, article 3).
    fn moderated(self, typical: &Self) -> Self {
        let freedom = self.freedom + typical.freedom;
        let squares = self.deviation.powi(2) * self.freedom + typical.deviation.powi(2) * typical.freedom;
        Self { deviation: (squares / freedom).sqrt(), freedom, largest: self.largest.max(typical.largest) }
    }

    /// Returns the noise that a benchmark declares: differences of at least `share` are real.
    pub fn declared(share: f64) -> Self {
        let largest = share.ln_1p() / NOISE_RESERVE_FACTOR;
        Self { deviation: largest / 3.0, freedom: 30.0, largest }
    }

    /// Returns the smallest difference of two runs that may be real, as a logarithm (0.01 is 1 %).
    pub fn smallest(&self) -> f64 {
        self.smallest_of(self.deviation * std::f64::consts::SQRT_2)
    }

    /// Returns the smallest difference with standard error `error` that may be real (logarithms).
    fn smallest_of(&self, error: f64) -> f64 {
        (self.quantile(1.0 - TWO_RUN_TAIL / 2.0) * error)
            .max(self.largest * NOISE_RESERVE_FACTOR)
            .max(MIN_REAL_DIFFERENCE)
    }

    /// Returns the quantile of Student's t distribution at `probability` (0 to 1).
    pub(super) fn quantile(&self, probability: f64) -> f64 {
        let t = StudentsT::new(0.0, 1.0, self.freedom.max(1.0));
        t.map_or(f64::INFINITY, |t| t.inverse_cdf(probability))
    }

    /// Returns the two-sided probability that chance deviates by `t` standard errors or more.
    pub(super) fn probability(&self, t: f64) -> f64 {
        let student = StudentsT::new(0.0, 1.0, self.freedom.max(1.0));
        student.map_or(1.0, |student| (2.0 * student.cdf(-t.abs())).clamp(0.0, 1.0))
    }

    /// Returns the probability that chance puts a result `distance` (a logarithm) below the mean.
    pub fn probability_below(&self, distance: f64) -> f64 {
        if self.deviation == 0.0 { 0.0 } else { self.probability(distance / self.deviation) / 2.0 }
    }

    /// Returns the noise whose smallest real difference is larger.
    pub fn noisier_of(self, other: Self) -> Self {
        if self.smallest() >= other.smallest() { self } else { other }
    }
}

/// Noise of one metric of a benchmark: in one case, or over all repeated cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Name of the benchmark.
    pub benchmark: String,
    /// Name of the metric.
    pub metric: String,
    /// Case id; null for all cases together, used for cases that were not repeated.
    #[serde(default)]
    pub case: Option<String>,
    /// The noise.
    pub noise: RunNoise,
}

/// Noise floors of a machine, measured by `plimsoll doctor`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floors {
    /// Fingerprint of the machine.
    pub machine: String,
    /// Time of the measurement, RFC 3339.
    pub made: String,
    /// Runs that were compared.
    pub rounds: usize,
    /// Measurements left out due to other work or moved vCPUs.
    #[serde(default)]
    pub left_out: usize,
    /// Floors per metric: one per case, preceded by one for all cases if there are at least three.
    pub floors: Vec<NoiseFloor>,
}

impl Floors {
    /// Computes the noise from `runs` of one plan on one machine, without disturbed measurements.
    pub fn of(runs: &[Run]) -> Self {
        let is_quiet = quiet_measurements(runs);
        let quiet = measured(runs).filter(|m| is_quiet(m));
        let figures = quiet.flat_map(|m| m.metrics.iter().map(move |metric| (m, metric)));
        let figures = grouped(figures.map(|(m, metric)| {
            ([m.case.benchmark(), metric.name.as_str()], (m.case.id().to_string(), metric.summary.median))
        }));
        Self {
            machine: runs.first().map(|run| run.machine.id.clone()).unwrap_or_default(),
            made: runs.last().map(|run| run.started.clone()).unwrap_or_default(),
            rounds: runs.len(),
            left_out: measured(runs).filter(|m| !is_quiet(m)).count(),
            floors: figures.into_iter().flat_map(|(named, medians)| floors(named, medians)).collect(),
        }
    }

    /// Returns the noise of a metric in this case, else over all cases of the benchmark, if known.
    pub fn find(&self, case: &Case, metric: &str) -> Option<RunNoise> {
        let of = |id: Option<&str>| {
            let same = |f: &&NoiseFloor| {
                f.benchmark == case.benchmark() && f.metric == metric && f.case.as_deref() == id
            };
            self.floors.iter().find(same).map(|floor| floor.noise)
        };
        of(Some(case.id().as_str())).or_else(|| of(None))
    }
}

fn measured(runs: &[Run]) -> impl Iterator<Item = &Measurement> {
    runs.iter().flat_map(|run| &run.measurements).filter(|m| m.status == Status::Ok)
}

/// Returns a function that decides whether a measurement counts: of a case with at least
/// [`LEAST_ROUNDS`] undisturbed measurements only these, of another case all.
fn quiet_measurements(runs: &[Run]) -> impl Fn(&Measurement) -> bool {
    let cpus = runs.first().map_or(0, |run| run.machine.cpu.allowed.len());
    let is_quiet = move |measurement: &Measurement, usual: Option<CpuDistance>| {
        let Measurement { case, conditions, .. } = measurement;
        let distances = CpuDistance::of(conditions).zip(usual);
        let topology = &subsystem_of(case).topology;
        let moved = distances.is_some_and(|(here, usual)| topology.has_moved(here, usual));
        conditions.disturbed(case, cpus) <= DISTURBED && !moved
    };
    let cases = grouped(measured(runs).map(|m| (m.case.id().to_string(), m)));
    let with_usual = |(id, all): (String, Vec<&Measurement>)| {
        let usual = CpuDistance::median(all.iter().map(|m| &m.conditions));
        (all.iter().filter(|m| is_quiet(m, usual)).count() >= LEAST_ROUNDS).then_some((id, usual))
    };
    let cases: BTreeMap<String, Option<CpuDistance>> = cases.into_iter().filter_map(with_usual).collect();
    move |m| cases.get(m.case.id().as_str()).is_none_or(|usual| is_quiet(m, *usual))
}

/// Returns the noise floor of a metric over all cases, if there are at least [`LEAST_CASES`], then
/// one per case. `medians` has the results, each with the id of its case.
fn floors([benchmark, metric]: [&str; 2], medians: Vec<(String, f64)>) -> Vec<NoiseFloor> {
    let cases: BTreeMap<String, Vec<f64>> = grouped(medians).into_iter().collect();
    let floor = |case: Option<&String>, noise| NoiseFloor {
        benchmark: benchmark.to_owned(),
        metric: metric.to_owned(),
        case: case.cloned(),
        noise,
    };
    let own = |values: &Vec<f64>| RunNoise::of([values.as_slice()]);
    let typical = RunNoise::typical(&cases.values().filter_map(own).collect::<Vec<_>>());
    let of_all = typical.and_then(|_| RunNoise::of(cases.values().map(Vec::as_slice)));
    let of_case = |(case, values): (&String, &Vec<f64>)| {
        let noise = own(values)?;
        Some(floor(Some(case), typical.map_or(noise, |typical| noise.moderated(&typical))))
    };
    of_all.map(|noise| floor(None, noise)).into_iter().chain(cases.iter().filter_map(of_case)).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;
    use plimsoll_units::quantity::Unit;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn groups_are_pooled_about_their_own_means() {
        let (slow, fast) = ([1.0, 1.0f64.exp()], [5.0, 5.0, 5.0]);
        let noise = RunNoise::of([slow.as_slice(), &fast, &[7.0]]).unwrap();
        assert!((noise.deviation - (0.5f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!((noise.freedom, noise.largest), (3.0, 1.0));
        assert_eq!(RunNoise::of([[1.0].as_slice(), &[0.0, -3.0], &[]]), None);
    }

    #[test]
    fn the_smallest_real_difference_is_beyond_all_that_was_seen() {
        let quiet = RunNoise { deviation: 0.0, freedom: 10.0, largest: 0.0 };
        assert_eq!(quiet.smallest(), MIN_REAL_DIFFERENCE);
        let seen = RunNoise { largest: 0.04, ..quiet };
        assert!((seen.smallest() - 0.06).abs() < 1e-12);
        // t(0.9995, 10) = 4.587 (any table).
        let noisy = RunNoise { deviation: 0.02, ..quiet };
        assert!((noisy.smallest() - 4.587 * 0.02 * 2f64.sqrt()).abs() < 1e-4);
        assert_eq!(noisy.noisier_of(seen), noisy);
    }

    #[test]
    fn of_two_sides_the_noisier_one_counts_more() {
        let of = |deviation, freedom| RunNoise { deviation, freedom, largest: deviation };
        let (alike, smallest) = RunNoise::of_sides([of(0.02, 5.0); 2], [6.0; 2]);
        assert!((alike.freedom - 10.0).abs() < 1e-9 && alike.deviation > 0.02 && alike.largest == 0.02);
        assert!(smallest < alike.smallest(), "medians of six differ less than single runs: {smallest}");
        let (unlike, _) = RunNoise::of_sides([of(0.02, 5.0), of(0.0, 3.0)], [6.0; 2]);
        assert_eq!(unlike.freedom, 5.0, "of what is not there nothing is known");
        assert_eq!(RunNoise::of_sides([of(0.0, 5.0); 2], [6.0; 2]).1, MIN_REAL_DIFFERENCE);
    }

    #[test]
    fn one_disturbed_run_of_ten_is_no_noise_and_two_are() {
        let quiet = [100.0, 101.0, 99.0, 100.5, 99.6, 100.2, 99.1, 100.9];
        let noise = |more: &[f64]| RunNoise::of_runs(&[quiet.as_slice(), more].concat()).unwrap();
        let (all, none) = noise(&[100.1, 99.8]);
        assert_eq!(none, 0);
        for far in [5.0, 60.0, 140.0, 1600.0] {
            let (noise, left_out) = noise(&[100.1, far]);
            assert_eq!(left_out, 1, "{far}");
            assert!(noise.smallest() < 1.5 * all.smallest() && noise.smallest() < 0.08, "{far}: {noise:?}");
            let RunNoise { deviation, freedom, largest } = noise;
            assert!(deviation < 0.01 && freedom == 8.0 && largest < 0.025);
        }
        let (two, left_out) = noise(&[60.0, 61.0]);
        assert!(left_out == 0 && two.smallest() > 0.5, "{two:?}");
    }

    #[test]
    fn a_declared_share_is_the_smallest_real_difference() {
        assert!((RunNoise::declared(0.05).smallest() - 1.05f64.ln()).abs() < 0.01);
    }

    #[test]
    fn floors_are_by_benchmark_and_metric_over_all_rounds() {
        let id = "disk.io/op=read/block=4K/depth=1/threads=1";
        let round = |rate: f64, loss: f64| {
            let mut made = fixture::measured(id, "rate", Unit::IoPerSecond, rate);
            made.metrics.push(fixture::metric("latency", Unit::Second, loss, 0.0));
            fixture::run_of(vec![made])
        };
        let floors = Floors::of(&[round(100.0, 1.0), round(110.0, 1.0), round(105.0, 1.0)]);
        assert_eq!((floors.rounds, floors.machine.as_str()), (3, "m-1"));
        let case: Case = id.parse().unwrap();
        assert!(floors.find(&case, "rate").unwrap().deviation > 0.01);
        assert!(floors.find(&case, "latency").unwrap().deviation < 1e-12);
        assert_eq!(floors.find(&case, "slat"), None);
        let other = case.clone().with_count("depth", 32);
        assert_eq!(floors.find(&other, "rate"), None, "one case tells nothing of another");
        assert!(Floors::of(&[round(1.0, 1.0)]).floors.is_empty(), "one round shows no noise");
        let text = serde_json::to_string(&floors).unwrap();
        assert_eq!(serde_json::from_str::<Floors>(&text).unwrap(), floors);
    }

    #[test]
    fn a_disturbed_case_widens_its_own_floor_alone() {
        let id = |depth: u32| format!("disk.io/op=read/block=4K/depth={depth}/threads=1");
        let case = |depth| fixture::measured(&id(depth), "rate", Unit::IoPerSecond, 1.0).case;
        let round = |n: u32| {
            let value = |depth: u32| {
                let quiet = 1000.0 * (1.0 + 0.002 * f64::from((n + depth) % 3) - 0.002);
                if depth == 4 && n == 2 { quiet / 2.0 } else { quiet }
            };
            let made = |depth| fixture::measured(&id(depth), "rate", Unit::IoPerSecond, value(depth));
            fixture::run_of([1, 2, 3, 4].map(made).to_vec())
        };
        let floors = Floors::of(&(0..6).map(round).collect::<Vec<_>>());
        let smallest = |depth| floors.find(&case(depth), "rate").unwrap().smallest();
        assert!(smallest(1) < 0.02, "{}", smallest(1));
        assert!(smallest(4) > 1.0, "{}", smallest(4));
        assert!(smallest(64) > 0.5, "a case that was not repeated has the noise of all: {}", smallest(64));
    }

    #[test]
    fn disturbed_rounds_and_other_places_are_left_out_while_enough_are_left() {
        let round = |value: f64, waited: f64, distances: f64| {
            let id = "memory.bandwidth/op=read/threads=2";
            let mut made = fixture::measured(id, "bandwidth", Unit::BytePerSecond, value);
            (made.conditions.waited, made.conditions.core_to_core) = (Some(waited), Some(distances));
            fixture::run_of(vec![made])
        };
        let quiet = || [40.0, 40.1, 39.9, 40.0].map(|value| round(value, 0.0, 45e-9)).to_vec();
        let with = |others: &[Run]| Floors::of(&[quiet(), others.to_vec()].concat());
        let largest = |floors: &Floors| floors.floors[0].noise.largest;
        let all = with(&[round(20.0, 0.3, 45e-9), round(78.0, 0.0, 150e-9)]);
        assert_eq!((all.rounds, all.left_out), (6, 2));
        assert!(largest(&all) < 0.006, "{all:?}");
        assert!(largest(&with(&[round(20.0, 0.0, 45e-9)])) > 0.6);
        let few = Floors::of(&[quiet()[..3].to_vec(), vec![round(20.0, 0.3, 45e-9)]].concat());
        assert_eq!((few.left_out, largest(&few) > 0.6), (0, true));
    }

    #[test]
    fn a_lucky_case_is_not_held_to_be_quieter_than_its_like() {
        let of = |deviation| RunNoise { deviation, freedom: 5.0, largest: 2.0 * deviation };
        let typical = RunNoise::typical(&[of(0.0), of(0.02), of(0.3)]).unwrap();
        assert_eq!((typical.deviation, typical.largest), (0.02, 0.04));
        let lucky = of(0.0).moderated(&typical);
        assert!((lucky.deviation - (4.0 * 0.0004f64 / 9.0).sqrt()).abs() < 1e-12);
        assert_eq!((lucky.freedom, lucky.largest), (9.0, 0.04));
        assert_eq!(of(0.3).moderated(&typical).largest, 0.6);
        assert_eq!(RunNoise::typical(&[of(0.1), of(0.2)]), None);
    }

    proptest! {
        #[test]
        fn noise_does_not_depend_on_the_unit(values in prop::collection::vec(0.5f64..2.0, 2..12), unit in 1e-9f64..1e9) {
            let scaled: Vec<f64> = values.iter().map(|v| v * unit).collect();
            let (a, b) = (RunNoise::of([values.as_slice()]).unwrap(), RunNoise::of([scaled.as_slice()]).unwrap());
            prop_assert!((a.deviation - b.deviation).abs() < 1e-9 && (a.largest - b.largest).abs() < 1e-9);
            prop_assert!(a.smallest() >= a.largest);
        }
    }
}
