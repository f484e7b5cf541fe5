//! Variance of the noise of a series, and its inflation in long means by autocorrelation.

use crate::samples::{ascending, median_of_sorted};
use crate::summary::mad;

/// Limit of deviations from the median in standard deviations: one wild point is no step.
const WINSOR: f64 = 3.0;
/// Standard deviation of normal noise ÷ MAD.
const SIGMA_OVER_MAD: f64 = 1.4826;
/// Maximum correlation of neighbours: beyond it, noise and steps are indistinguishable.
const MOST_CORRELATED: f64 = 0.95;

/// Returns the deviations of `values` from their median, at most [`WINSOR`] standard deviations.
pub(super) fn winsorised(values: &[f64]) -> Vec<f64> {
    let sorted = ascending(values.to_vec());
    let median = median_of_sorted(&sorted);
    let widest = match WINSOR * SIGMA_OVER_MAD * mad(&sorted, median) {
        widest if widest > 0.0 => widest,
        _ => f64::INFINITY,
    };
    values.iter().map(|x| (x - median).clamp(-widest, widest)).collect()
}

/// Returns by how much autocorrelation raises the variance of a mean of many values, for AR(1)
/// noise (1 + ρ) ÷ (1 − ρ) (Box, Jenkins & Reinsel, "Time Series Analysis", ch. 3). ρ is the lower
/// of two estimates that may be too high, from differences and residuals, plus a standard error.
pub(super) fn variance_inflation(values: &[f64], residuals: &[f64]) -> f64 {
    let n = values.len() as f64;
    // Correlation ρ of neighbours by differences at distances 2, 1: E d₂² ÷ E d₁² − 1.
    let ratio = trimmed_square(values, 2) / trimmed_square(values, 1);
    let of_differences = if ratio.is_finite() { ratio - 1.0 } else { -1.0 } + (2.0 / n).sqrt();
    // Fitted means lower the correlation of residuals by about 1 ÷ n each (Kendall 1954).
    let of_residuals = residual_correlation(residuals) + (1.0 / n).sqrt() + 2.0 / n;
    inflation(of_differences.min(of_residuals))
}

/// Returns n × a long mean's variance: Σ clipped residual² ÷ (n − 1) × autocorrelation `inflation`.
pub(super) fn variance_of_long_means(residuals: &[f64], inflation: f64) -> f64 {
    let held = winsorised(residuals);
    held.iter().map(|r| r * r).sum::<f64>() / (held.len() as f64 - 1.0).max(1.0) * inflation
}

/// Returns by which factor (≥ 1) autocorrelation of `residuals` raises the variance of a long mean.
pub(super) fn inflation_of(residuals: &[f64]) -> f64 {
    inflation(residual_correlation(&winsorised(residuals)) + (1.0 / residuals.len() as f64).sqrt())
}

fn inflation(correlation: f64) -> f64 {
    let correlation = correlation.clamp(0.0, MOST_CORRELATED);
    (1.0 + correlation) / (1.0 - correlation)
}

fn residual_correlation(residuals: &[f64]) -> f64 {
    let products: f64 = residuals.iter().zip(residuals.iter().skip(1)).map(|(a, b)| a * b).sum();
    let ratio = products / residuals.iter().map(|r| r * r).sum::<f64>();
    if ratio.is_finite() { ratio } else { -1.0 }
}

/// Returns each value less the mean of its side: of those before index `at`, or from `at` on.
pub(super) fn residuals(values: &[f64], at: usize) -> Vec<f64> {
    let (before, after) = values.split_at(at);
    let centred = |side: &[f64]| {
        let mean = side.iter().sum::<f64>() / side.len() as f64;
        side.iter().map(|x| x - mean).collect::<Vec<f64>>()
    };
    [centred(before), centred(after)].concat()
}

/// Returns the mean square of differences between values `lag` apart, without those above 3 σ.
fn trimmed_square(values: &[f64], lag: usize) -> f64 {
    let differences = values.iter().zip(values.iter().skip(lag)).map(|(a, b)| (b - a).abs());
    let sorted = ascending(differences.collect());
    let widest = WINSOR * SIGMA_OVER_MAD * median_of_sorted(&sorted);
    let kept = sorted.partition_point(|d| *d <= widest);
    sorted[..kept].iter().map(|d| d * d).sum::<f64>() / kept as f64
}
