//! Universal Scalability Law, C(N) = λN ÷ (1 + σ(N − 1) + κN(N − 1)): the rate of N threads with
//! contention σ and coherency κ (Gunther, "Guerrilla Capacity Planning", Springer 2007, ch. 4; with
//! fitted λ: Gunther, Puglia & Tomasette, "Hadoop Superlinear Scalability", ACM Queue 13(5), 2015).
//! N ÷ C(N) is linear in 1/λ, σ/λ and κ/λ; σ, κ ≥ 0 leaves four sets of coefficients to try.

use chacha20::rand_core::Rng;

use super::bootstrap::below;
use super::samples::median;
use super::{Samples, Seed};

/// Minimum number of thread counts: one more than coefficients.
const LEAST_POINTS: usize = 4;
const LEAST_SAMPLES: usize = 5;
const RESAMPLES: usize = 1000;
const INTERVAL_TAIL: f64 = 0.025;
/// Residual share below which a column depends linearly on the rest.
const DEPENDENT: f64 = 1e-9;

/// Samples of a rate with a number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPoint {
    /// Number of threads.
    pub threads: u32,
    /// Total amount per second, in any unit.
    pub rates: Samples,
}

/// A fitted coefficient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coefficient {
    /// Best estimate.
    pub value: f64,
    /// 95 % confidence interval (bootstrap) without [`Usl::misfit`], from 5 samples per point on.
    pub ci95: Option<[f64; 2]>,
}

/// The law fitted to rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Usl {
    /// Rate of one thread (λ), in the unit of the rates.
    pub lambda: Coefficient,
    /// Contention (σ): Amdahl's serial share of the work. At least 0.
    pub sigma: Coefficient,
    /// Coherency (κ): cost per pair of threads, as a share of the work. At least 0.
    pub kappa: Coefficient,
    /// Largest relative deviation of a median rate from the law.
    pub misfit: f64,
}

impl Usl {
    /// Fits the Universal Scalability Law to the median rates; `None` with fewer than four thread
    /// counts with a positive median. `seed` determines the bootstrap.
    pub fn fit(loads: &[LoadPoint], seed: Seed) -> Option<Self> {
        let mut loads: Vec<&LoadPoint> =
            loads.iter().filter(|l| l.threads > 0 && l.rates.median() > 0.0).collect();
        loads.sort_by_key(|l| l.threads);
        loads.dedup_by_key(|l| l.threads);
        if loads.len() < LEAST_POINTS {
            return None;
        }
        let medians: Vec<RatePoint> =
            loads.iter().map(|l| (f64::from(l.threads), l.rates.median())).collect();
        let law = LawCoefficients::fit(&medians)?;
        let resampled = resampled(&loads, seed);
        let coefficient = |read: fn(&LawCoefficients) -> f64| Coefficient {
            value: read(&law),
            ci95: interval(resampled.iter().map(read).collect()),
        };
        let misfit = medians.iter().map(|(n, rate)| (law.rate(*n) / rate - 1.0).abs()).fold(0.0, f64::max);
        let found = Self {
            lambda: coefficient(|l| l.lambda),
            sigma: coefficient(|l| l.sigma),
            kappa: coefficient(|l| l.kappa),
            misfit,
        };
        let all = [found.lambda.value, found.sigma.value, found.kappa.value, misfit];
        all.iter().all(|x| x.is_finite()).then_some(found)
    }

    /// Returns the thread count with the highest rate, √((1 − σ) ÷ κ); `None` if rates never fall.
    pub fn peak_threads(&self) -> Option<f64> {
        if self.sigma.value >= 1.0 {
            return Some(1.0);
        }
        let peak = ((1.0 - self.sigma.value) / self.kappa.value).sqrt();
        peak.is_finite().then(|| peak.max(1.0))
    }
}

/// Number of threads, and their rate.
type RatePoint = (f64, f64);

struct LawCoefficients {
    lambda: f64,
    sigma: f64,
    kappa: f64,
}

impl LawCoefficients {
    /// Fits λ, σ and κ by least squares of the relative errors of N ÷ C; `None` if none are valid.
    fn fit(points: &[RatePoint]) -> Option<Self> {
        let per_thread: Vec<f64> = points.iter().map(|(threads, rate)| rate / threads).collect();
        let largest = per_thread.iter().copied().fold(0.0, f64::max);
        let column = |term: fn(f64) -> f64| {
            let pairs = points.iter().zip(&per_thread);
            pairs.map(|((threads, _), rate)| term(*threads) * (rate / largest)).collect::<Vec<f64>>()
        };
        let one = column(|_| 1.0);
        let contention = column(|n| n - 1.0);
        let coherency = column(|n| n * (n - 1.0));
        let sets: [&[&[f64]]; 4] =
            [&[&one], &[&one, &contention], &[&one, &coherency], &[&one, &contention, &coherency]];
        let mut best: Option<(f64, Self)> = None;
        for (index, columns) in sets.iter().enumerate() {
            let Some((coefficients, squared_error)) = solve(columns) else { continue };
            let at = |place: usize| coefficients.get(place).copied().unwrap_or(0.0);
            let (sigma, kappa) = if index == 2 { (0.0, at(1)) } else { (at(1), at(2)) };
            let feasible = at(0) > 0.0 && sigma >= 0.0 && kappa >= 0.0;
            if feasible && best.as_ref().is_none_or(|(error, _)| squared_error < *error) {
                let law = Self { lambda: largest / at(0), sigma: sigma / at(0), kappa: kappa / at(0) };
                best = Some((squared_error, law));
            }
        }
        best.map(|(_, law)| law)
    }

    fn rate(&self, threads: f64) -> f64 {
        let lost = self.sigma * (threads - 1.0) + self.kappa * threads * (threads - 1.0);
        self.lambda * threads / (1.0 + lost)
    }
}

/// Returns the factors with which the columns add up to 1 in each row, and the squared error, by
/// modified Gram–Schmidt, done twice (Björck, "Numerical Methods for Least Squares Problems", 1996,
/// ch. 2.4). `None` if the columns depend on each other linearly.
fn solve(columns: &[&[f64]]) -> Option<(Vec<f64>, f64)> {
    let mut orthogonal: Vec<Vec<f64>> = Vec::new();
    // factors[j][i]: component of column j along orthogonal column i.
    let mut factors: Vec<Vec<f64>> = Vec::new();
    for column in columns {
        let (mut rest, mut parts) = (column.to_vec(), vec![0.0; orthogonal.len()]);
        for _ in 0..2 {
            for (part, direction) in parts.iter_mut().zip(&orthogonal) {
                let along = dot(&rest, direction);
                *part += along;
                rest.iter_mut().zip(direction).for_each(|(x, d)| *x -= along * d);
            }
        }
        let length = dot(&rest, &rest).sqrt();
        if length.is_nan() || length <= DEPENDENT * dot(column, column).sqrt() {
            return None;
        }
        orthogonal.push(rest.iter().map(|x| x / length).collect());
        parts.push(length);
        factors.push(parts);
    }
    let mut rest = vec![1.0; columns.first()?.len()];
    let mut along = Vec::new();
    for direction in &orthogonal {
        let part = dot(&rest, direction);
        along.push(part);
        rest.iter_mut().zip(direction).for_each(|(x, d)| *x -= part * d);
    }
    let mut coefficients = vec![0.0; columns.len()];
    for i in (0..columns.len()).rev() {
        let later: f64 = (i + 1..columns.len()).map(|j| factors[j][i] * coefficients[j]).sum();
        coefficients[i] = (along[i] - later) / factors[i][i];
    }
    Some((coefficients, dot(&rest, &rest)))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Fits the law to medians of 1000 resamples; empty if a point has fewer than 5 samples.
fn resampled(loads: &[&LoadPoint], seed: Seed) -> Vec<LawCoefficients> {
    if loads.iter().any(|l| l.rates.count() < LEAST_SAMPLES) {
        return Vec::new();
    }
    let mut generator = seed.generator();
    let mut drawn = || {
        let resampled_median = |load: &&LoadPoint| {
            let points = load.rates.points();
            let draw = |_| points[below(generator.next_u32(), points.len()) as usize];
            let resample = (0..points.len()).map(draw).collect();
            (f64::from(load.threads), median(resample).unwrap_or_default())
        };
        LawCoefficients::fit(&loads.iter().map(resampled_median).collect::<Vec<RatePoint>>())
    };
    (0..RESAMPLES).filter_map(|_| drawn()).collect()
}

fn interval(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let at = |share: f64| values[(share * last as f64).round() as usize];
    let ends = [at(INTERVAL_TAIL), at(1.0 - INTERVAL_TAIL)];
    ends.iter().all(|x| x.is_finite()).then_some(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples;
    use proptest::prelude::*;

    fn seed() -> Seed {
        Seed::new(1, "cpu.peak", "usl")
    }

    fn load((threads, rates): (u32, Vec<f64>)) -> LoadPoint {
        LoadPoint { threads, rates: samples(&rates) }
    }

    fn loads(n: u64, threads: &[u32], law: &LawCoefficients, noise: f64) -> Vec<LoadPoint> {
        let mut generator = Seed::new(n, "noise", "value").generator();
        let mut off = || 1.0 + noise * (f64::from(generator.next_u32()) / 2_147_483_648.0 - 1.0);
        let mut rates = |n| (0..15).map(|_| law.rate(f64::from(n)) * off()).collect::<Vec<f64>>();
        threads.iter().map(|&n| load((n, rates(n)))).collect()
    }

    fn near(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance
    }

    #[test]
    fn the_law_is_found_again_where_it_holds() {
        let law = LawCoefficients { lambda: 58e9, sigma: 0.03, kappa: 0.0007 };
        let found = Usl::fit(&loads(9, &[1, 2, 4, 8, 16, 32], &law, 0.0), seed()).unwrap();
        assert!(near(found.lambda.value / law.lambda, 1.0, 1e-9), "{found:?}");
        assert!(near(found.sigma.value, law.sigma, 1e-9) && near(found.kappa.value, law.kappa, 1e-9));
        assert!(found.misfit < 1e-9);
        assert!(near(found.peak_threads().unwrap(), (0.97f64 / 0.0007).sqrt(), 1e-3));
        assert!(found.sigma.ci95.is_some_and(|[low, high]| near(low, high, 1e-9)));
    }

    #[test]
    fn a_published_example_is_fitted_nearer_than_it_was_published() {
        // SPEC SDM91 on a SPARCcenter 2000: scripts per hour by load. Published fits (Gunther's; R
        // package usl, versions 1 and 3) deviate at small loads, unlike relative errors.
        let measured =
            [(1, 64.9), (18, 995.9), (36, 1652.4), (72, 1853.2), (108, 1828.9), (144, 1775.0), (216, 1702.2)];
        let quadratic = LawCoefficients { lambda: 64.9, sigma: 0.01705, kappa: 7.892e-5 };
        let absolute = LawCoefficients { lambda: 89.995, sigma: 0.02773, kappa: 1.044e-4 };
        let found = Usl::fit(&measured.map(|(threads, rate)| load((threads, vec![rate]))), seed()).unwrap();
        for published in [quadratic, absolute] {
            let misses = measured.iter().map(|(n, rate)| (published.rate(f64::from(*n)) / rate - 1.0).abs());
            assert!(found.misfit < 0.6 * misses.fold(0.0, f64::max), "{found:?}");
            assert!((0.45..2.0).contains(&(found.sigma.value / published.sigma)), "{found:?}");
            assert!((0.5..2.0).contains(&(found.kappa.value / published.kappa)), "{found:?}");
        }
        assert_eq!(found.sigma.ci95, None, "one sample has no interval");
        assert!(near(found.peak_threads().unwrap(), 96.5, 10.0), "{found:?}");
    }

    #[test]
    fn intervals_hold_the_truth_about_95_times_in_100_and_narrow_with_the_noise() {
        let law = LawCoefficients { lambda: 10.0, sigma: 0.1, kappa: 0.002 };
        let fitted = |n: u64, noise: f64| {
            let sigma = Usl::fit(&loads(n, &[1, 2, 4, 8, 16], &law, noise), seed()).unwrap().sigma;
            let [low, high] = sigma.ci95.unwrap();
            assert!((low..=high).contains(&sigma.value), "{sigma:?}");
            low..=high
        };
        let held = (0..40).filter(|n| fitted(*n, 0.01).contains(&law.sigma));
        assert!((35..=40).contains(&held.count()));
        let [narrow, wide] = [0.002, 0.02].map(|noise| fitted(0, noise));
        assert!(narrow.end() - narrow.start() < wide.end() - wide.start());
    }

    #[test]
    fn perfect_and_superlinear_scaling_cost_nothing() {
        let rows = |power: f64| [1, 2, 4, 8].map(|n| load((n, vec![f64::from(n).powf(power); 6])));
        for power in [1.0, 1.1] {
            let found = Usl::fit(&rows(power), seed()).unwrap();
            assert!(found.sigma.value < 1e-12 && found.kappa.value < 1e-12, "{found:?}");
            assert!(found.peak_threads().is_none_or(|n| n > 1e5));
        }
        assert!(near(Usl::fit(&rows(-1.0), seed()).unwrap().peak_threads().unwrap(), 1.0, 0.5));
    }

    #[test]
    fn three_thread_counts_are_too_few() {
        let law = LawCoefficients { lambda: 1.0, sigma: 0.0, kappa: 0.0 };
        assert_eq!(Usl::fit(&loads(9, &[1, 2, 4], &law, 0.0), seed()), None);
        assert_eq!(Usl::fit(&loads(9, &[1, 2, 4, 4, 0], &law, 0.0), seed()), None);
        assert!(Usl::fit(&loads(9, &[3, 2, 4, 9], &law, 0.0), seed()).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn whatever_the_rates_the_coefficients_are_sane(
            rows in prop::collection::vec((any::<u32>(), prop::collection::vec(1e-300f64..1e300, 1..7)), 0..7),
        ) {
            let loads: Vec<LoadPoint> = rows.into_iter().map(load).collect();
            if let Some(found) = Usl::fit(&loads, seed()) {
                prop_assert!(found.lambda.value > 0.0 && found.sigma.value >= 0.0 && found.kappa.value >= 0.0);
                prop_assert!(found.misfit.is_finite());
                for ci95 in [found.lambda.ci95, found.sigma.ci95, found.kappa.ci95].into_iter().flatten() {
                    prop_assert!(ci95[0] <= ci95[1]);
                }
                prop_assert!(found.peak_threads().is_none_or(|n| n >= 1.0));
                prop_assert_eq!(Usl::fit(&loads, seed()), Some(found));
            }
        }

        #[test]
        fn no_other_law_is_nearer(sigma in 0.0f64..0.5, kappa in 0.0f64..0.05, step in -0.1f64..0.1) {
            let law = LawCoefficients { lambda: 5.0, sigma, kappa };
            let rate = |n: f64| law.rate(n) * (1.0 + 0.05 * (n % 3.0));
            let points: [RatePoint; 5] = [1.0, 2.0, 3.0, 5.0, 8.0].map(|n| (n, rate(n)));
            let error = |law: &LawCoefficients| -> f64 {
                points.iter().map(|(threads, rate)| (rate / law.rate(*threads) - 1.0).powi(2)).sum()
            };
            let best = LawCoefficients::fit(&points).unwrap();
            let least = error(&best);
            for other in [
                LawCoefficients { lambda: best.lambda * (1.0 + step), ..best },
                LawCoefficients { sigma: (best.sigma + step).max(0.0), ..best },
                LawCoefficients { kappa: (best.kappa + step / 10.0).max(0.0), ..best },
            ] {
                prop_assert!(error(&other) >= least - 1e-12);
            }
        }
    }
}
