//! Samples of one metric of one case, in order.

/// At least one finite number, in the order of measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Creates samples from numbers; fails with a reason without any, or if one is not finite.
    pub fn new(points: Vec<f64>) -> Result<Self, String> {
        let none = "no sample was taken: give the case more time or a smaller size";
        match (points.iter().zip(1..).find(|(point, _)| !point.is_finite()), points.is_empty()) {
            (Some((value, at)), _) => {
                Err(format!("sample {at} is {value}: a figure must be finite, so the measurement is void"))
            }
            (None, true) => Err(none.to_owned()),
            (None, false) => Ok(Samples(points)),
        }
    }

    /// Returns the samples in the order of measurement.
    pub fn points(&self) -> &[f64] {
        &self.0
    }

    /// Returns the number of samples; at least 1.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the samples as a list in ascending order.
    pub fn sorted(&self) -> Vec<f64> {
        ascending(self.0.clone())
    }

    /// Returns the median: the middle sample, or the midpoint of the two in the middle.
    pub fn median(&self) -> f64 {
        median_of_sorted(&self.sorted())
    }
}

/// Returns the median: the middle value, or the midpoint of both; `None` without values.
pub fn median(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| median_of_sorted(&ascending(values)))
}

pub(super) fn ascending(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

pub(super) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let upper = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[upper],
        _ => sorted[upper - 1].midpoint(sorted[upper]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_points_are_samples() {
        assert!(Samples::new(vec![]).unwrap_err().starts_with("no sample was taken"));
        assert!(Samples::new(vec![f64::INFINITY]).is_err());
        assert_eq!(Samples::new(vec![3.0, 1.0]).unwrap().points(), [3.0, 1.0]);
        let message = Samples::new(vec![1.0, f64::NAN]).unwrap_err();
        assert!(message.starts_with("sample 2 is NaN"), "{message}");
    }

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(Samples::new(vec![3.0, 1.0, 2.0]).unwrap().median(), 2.0);
        assert_eq!(Samples::new(vec![4.0, 1.0, 2.0, 3.0]).unwrap().median(), 2.5);
        assert_eq!(Samples::new(vec![f64::MAX, f64::MAX]).unwrap().median(), f64::MAX);
        let least = f64::from_bits(1);
        assert_eq!(Samples::new(vec![least, least]).unwrap().median(), least);
    }
}
