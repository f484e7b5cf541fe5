//! Multiple tests by Holm's step-down correction ("A simple sequentially rejective multiple test
//! procedure", Scandinavian Journal of Statistics 6, 1979), which allows for dependent tests.

/// Returns the p-values, in their order, corrected for their number by Holm; NaN counts as 1.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let plain = |p: f64| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) };
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| plain(p_values[a]).total_cmp(&plain(p_values[b])));
    let mut corrected = vec![1.0; p_values.len()];
    let mut highest: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        let factor = (p_values.len() - rank) as f64;
        highest = highest.max((plain(p_values[index]) * factor).min(1.0));
        corrected[index] = highest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_known_set_has_the_known_corrections() {
        // Sorted: 0.01 × 4, 0.02 × 3 = 0.06, 0.03 × 2 = 0.06, 0.5 × 1.
        assert_eq!(holm(&[0.5, 0.01, 0.03, 0.02]), [0.5, 0.04, 0.06, 0.06]);
        assert_eq!(holm(&[f64::NAN, 0.01]), [1.0, 0.02]);
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn corrected_is_never_less_keeps_the_order_and_stays_a_probability(
            p in prop::collection::vec(0.0f64..=1.0, 1..40)
        ) {
            let corrected = holm(&p);
            for (a, b) in p.iter().zip(&corrected) {
                prop_assert!(b >= a && *b <= 1.0);
                prop_assert!(*b <= (a * p.len() as f64).min(1.0) + 1e-15);
            }
            for i in 0..p.len() {
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || corrected[i] <= corrected[j]);
                }
            }
        }
    }
}
