//! How wide the noise of a series is, and how much longer its means stay off than those of independent points.

use crate::samples::median_of_sorted;
use crate::summary::mad;

/// Values further from the median than this many deviations count as if they were there: one wild point is no step.
const WINSOR: f64 = 3.0;
/// MAD × this is the standard deviation of normal noise.
const SIGMA_OVER_MAD: f64 = 1.4826;
/// Correlation of neighbours beyond which noise and steps cannot be told apart.
const MOST_CORRELATED: f64 = 0.95;

/// Deviations from the median, none larger than [`WINSOR`] standard deviations where the spread is known.
pub(super) fn winsorised(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = median_of_sorted(&sorted);
    // More than half are equal: nothing tells how far is too far.
    let widest = match WINSOR * SIGMA_OVER_MAD * mad(&sorted, median) {
        widest if widest > 0.0 => widest,
        _ => f64::INFINITY,
    };
    values.iter().map(|x| (x - median).clamp(-widest, widest)).collect()
}

/// How much larger the variance of a long mean is than that of independent points: (1 + ρ) ÷ (1 − ρ) for AR(1) noise
/// of correlation ρ (Box, Jenkins & Reinsel, "Time Series Analysis", ch. 3). 1 where neighbours do not correlate.
///
/// Two estimates of ρ, each too high in its own way: differences are few where the series is short; residuals of one
/// step correlate where there are more. The lower one counts, and to both a standard error is added: to take noise for
/// a step is worse than to miss a faint one.
pub(super) fn long_run_variance(values: &[f64], residuals: &[f64]) -> f64 {
    let n = values.len() as f64;
    let of_differences = difference_correlation(values) + (2.0 / n).sqrt();
    // The mean of each side was fitted, which lowers the correlation of what is left by about 1 ÷ n each (Kendall 1954).
    let of_residuals = residual_correlation(residuals) + (1.0 / n).sqrt() + 2.0 / n;
    inflation(of_differences.min(of_residuals))
}

/// Variance of the mean of many such residuals × their number: their own variance, wild points held, times the inflation that the
/// correlation of neighbours causes.
pub(super) fn variance_of_long_means(residuals: &[f64], inflation: f64) -> f64 {
    let held = winsorised(residuals);
    held.iter().map(|r| r * r).sum::<f64>() / (held.len() as f64 - 1.0).max(1.0) * inflation
}

/// How much larger the variance of a long mean of such residuals is than that of independent points, wild points held.
pub(super) fn inflation_of(residuals: &[f64]) -> f64 {
    inflation(residual_correlation(&winsorised(residuals)) + (1.0 / residuals.len() as f64).sqrt())
}

fn inflation(correlation: f64) -> f64 {
    let correlation = correlation.clamp(0.0, MOST_CORRELATED);
    (1.0 + correlation) / (1.0 - correlation)
}

/// The correlation of neighbours from differences d₁ of neighbours and d₂ of next neighbours: E d₂² ÷ E d₁² = 1 + ρ.
/// −1 where there is no spread among them.
fn difference_correlation(values: &[f64]) -> f64 {
    let ratio = trimmed_square(values, 2) / trimmed_square(values, 1);
    if ratio.is_finite() { ratio - 1.0 } else { -1.0 }
}

/// The correlation of neighbouring residuals; −1 where there is no residual.
fn residual_correlation(residuals: &[f64]) -> f64 {
    let products: f64 = residuals.iter().zip(residuals.iter().skip(1)).map(|(a, b)| a * b).sum();
    let ratio = products / residuals.iter().map(|r| r * r).sum::<f64>();
    if ratio.is_finite() { ratio } else { -1.0 }
}

/// What is left of the values when each side of the step is taken from its own mean.
pub(super) fn residuals(values: &[f64], at: usize) -> Vec<f64> {
    let (before, after) = values.split_at(at);
    let centred = |side: &[f64]| {
        let mean = side.iter().sum::<f64>() / side.len() as f64;
        side.iter().map(|x| x - mean).collect::<Vec<f64>>()
    };
    [centred(before), centred(after)].concat()
}

/// The mean square of differences `lag` apart, those beyond [`WINSOR`] deviations left out: steps and wild points.
fn trimmed_square(values: &[f64], lag: usize) -> f64 {
    let differences = values.iter().zip(values.iter().skip(lag)).map(|(a, b)| (b - a).abs());
    let mut sorted: Vec<f64> = differences.collect();
    sorted.sort_by(f64::total_cmp);
    let widest = WINSOR * SIGMA_OVER_MAD * median_of_sorted(&sorted);
    let kept = sorted.partition_point(|d| *d <= widest);
    sorted[..kept].iter().map(|d| d * d).sum::<f64>() / kept as f64
}
