//! Outlier bound: the distance from the median that noise in all values of a run does not explain.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::samples::{ascending, median_of_sorted};

/// Expected share of runs with noise alone that have a value beyond the bound.
pub const FALSE_ALARMS: f64 = 0.01;

/// Maximum number of values for Qₙ, which compares all pairs; larger sets use the MAD.
const PAIRWISE: usize = 500;
/// Qₙ of normal values is their standard deviation ÷ this (Rousseeuw & Croux, "Alternatives to the
/// Median Absolute Deviation", J. Am. Stat. Assoc. 88, 1993, §3).
const QN: f64 = 2.2219;
/// Corrections of Qₙ for 2 to 9 values (Croux & Rousseeuw, "Time-efficient algorithms for two
/// highly robust estimators of scale", COMPSTAT 1992).
const SMALL_SAMPLE_FACTORS: [f64; 8] = [0.399, 0.994, 0.512, 0.844, 0.611, 0.857, 0.669, 0.872];
const MAD: f64 = 1.4826;
const TAILS: usize = 20;

/// Returns the distance from the median beyond which one of `values` is an outlier: if `looked_at`
/// values are tested in a run, noise alone has one in 1 % of runs ([`FALSE_ALARMS`]). 0 if more
/// than half of the values are equal; infinite below three values.
pub fn outlier_distance(values: &[f64], looked_at: usize) -> f64 {
    let n = values.len();
    if n < 3 {
        return f64::INFINITY;
    }
    let sorted = ascending(values.to_vec());
    let centre = median_of_sorted(&sorted);
    let away = ascending(values.iter().map(|value| (value - centre).abs()).collect());
    let (scale, freedom) = match n {
        ..=PAIRWISE => (qn(&sorted), if n < 8 { 0.6 } else { 0.75 } * (n - 1) as f64),
        _ => (MAD * median_of_sorted(&away), 0.37 * n as f64),
    };
    let looked_at = looked_at.max(n) as f64;
    let share = 1.0 - FALSE_ALARMS / (2.0 * looked_at);
    let far = StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(share));
    let normal = if scale > 0.0 { scale * far } else { 0.0 };
    if n < TAILS { normal } else { normal.max(tail_bound(&away, looked_at)) }
}

/// Returns the outlier distance for an exponential tail of the ascending distances `away`.
fn tail_bound(away: &[f64], looked_at: f64) -> f64 {
    let at = |share: f64| away[((away.len() - 1) as f64 * share).round() as usize];
    let (half, quartile) = (at(0.5), at(0.75));
    let slope = (quartile - half) / (0.5_f64 / 0.25).ln();
    quartile + slope * (0.25 * looked_at / FALSE_ALARMS).ln()
}

/// Returns Qₙ: the quartile of the distances of all pairs, scaled to a standard deviation.
fn qn(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    let mut pairs: Vec<f64> = Vec::with_capacity(n * (n - 1) / 2);
    for (index, high) in sorted.iter().enumerate() {
        pairs.extend(sorted[..index].iter().map(|low| high - low));
    }
    let half = n / 2 + 1;
    let (_, found, _) = pairs.select_nth_unstable_by(half * (half - 1) / 2 - 1, f64::total_cmp);
    let many = n as f64;
    let correction = SMALL_SAMPLE_FACTORS
        .get(n - 2)
        .copied()
        .unwrap_or(many / (many + if n % 2 == 1 { 1.4 } else { 3.8 }));
    QN * correction * *found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use proptest::prelude::*;
    use rand::RngExt;

    const CASES: usize = 23;

    fn alarmed(machines: usize, runs: usize, draw: impl Fn(&mut dyn FnMut() -> f64) -> f64) -> usize {
        let mut generator = Seed::new(7, "apart", "rate").generator();
        let mut uniform = move || generator.random_range(f64::EPSILON..1.0);
        let mut any_far = || {
            (0..CASES).any(|_| {
                let mut values: Vec<f64> = (0..machines).map(|_| draw(&mut uniform)).collect();
                let reach = outlier_distance(&values, machines * CASES);
                values.sort_by(f64::total_cmp);
                let centre = median_of_sorted(&values);
                values.iter().any(|value| (value - centre).abs() > reach)
            })
        };
        (0..runs).filter(|_| any_far()).count()
    }

    fn normal(uniform: &mut dyn FnMut() -> f64) -> f64 {
        (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
    }

    fn logistic(uniform: &mut dyn FnMut() -> f64) -> f64 {
        (1.0 / uniform() - 1.0).ln()
    }

    /// More than 12 and 5 have a probability of 0.1 %, and the seed is fixed.
    #[test]
    fn noise_alone_is_called_far_in_one_run_of_a_hundred() {
        for machines in [3, 4, 5, 6, 7, 8, 12, 16] {
            let alarms = alarmed(machines, 400, normal);
            assert!(alarms <= 12, "{machines} machines: {alarms} of 400");
        }
        assert!(alarmed(200, 100, normal) <= 1);
        assert!(alarmed(200, 100, logistic) <= 5);
    }

    #[test]
    fn what_is_far_stands_apart_also_where_few_are_known() {
        for machines in [4, 5, 8, 40, 600] {
            let values: Vec<f64> = (0..machines).map(|n| f64::from(n % 4) * 0.001).collect();
            let reach = outlier_distance(&values, machines as usize * CASES);
            assert!(reach < 0.25, "{machines}: {reach}");
        }
        let (near, far) = ((0..32).map(|n| f64::from(n % 5) * 0.001), (0..8).map(|_| 0.5));
        assert!(outlier_distance(&near.chain(far).collect::<Vec<_>>(), 40 * CASES) < 0.2);
        assert_eq!(outlier_distance(&[1.0, 1.0, 1.0, 5.0], 4), 0.0);
        assert_eq!(outlier_distance(&[1.0, 2.0], 2), f64::INFINITY);
    }

    proptest! {
        #[test]
        fn the_unit_and_the_zero_of_the_values_do_not_matter(
            values in prop::collection::vec(-9.0..9.0_f64, 3..60), unit in 0.1..9.0_f64, zero in -9.0..9.0_f64
        ) {
            let other: Vec<f64> = values.iter().map(|value| value * unit + zero).collect();
            let (one, other) = (outlier_distance(&values, 100) * unit, outlier_distance(&other, 100));
            prop_assert!((one - other).abs() <= 1e-6 * one.abs().max(1.0), "{} {}", one, other);
        }

        #[test]
        fn more_that_is_looked_at_asks_for_more(values in prop::collection::vec(-9.0..9.0_f64, 3..60), more in 1..99_usize) {
            prop_assert!(outlier_distance(&values, 100 + more) >= outlier_distance(&values, 100));
        }
    }
}
