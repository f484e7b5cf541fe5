//! Combines the curves of a search or sweep over samples.

use plimsoll_model::limit::median;
use plimsoll_model::sample::{CurvePoint, Sample};

/// Returns the median of each value at each measured point, over the samples whose curves have the
/// same points as the first curve; `None` if no sample has a curve.
pub(super) fn of(samples: &[Sample]) -> Option<Vec<CurvePoint>> {
    let mut curves = samples.iter().map(|sample| &sample.curve).filter(|curve| !curve.is_empty());
    let first = curves.next()?;
    let named = |curve: &[CurvePoint]| -> Vec<Vec<String>> {
        curve.iter().map(|point| point.keys().cloned().collect()).collect()
    };
    let names = named(first);
    let alike: Vec<&Vec<CurvePoint>> =
        std::iter::once(first).chain(curves.filter(|c| named(c) == names)).collect();
    let middle = |index: usize, name: &String| {
        let values = alike.iter().filter_map(|curve| curve.get(index)?.get(name).copied());
        Some((name.clone(), median(values.collect())?))
    };
    let points = names.iter().enumerate();
    Some(points.map(|(index, names)| names.iter().filter_map(|name| middle(index, name)).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(points: &[(f64, f64)]) -> Sample {
        let point = |&(delay, latency): &(f64, f64)| -> CurvePoint {
            [("delay".to_owned(), delay), ("latency".to_owned(), latency)].into()
        };
        Sample { curve: points.iter().map(point).collect(), ..Sample::default() }
    }

    fn latencies(samples: &[Sample]) -> Vec<f64> {
        of(samples).unwrap().iter().map(|point| point["latency"]).collect()
    }

    #[test]
    fn sweeps_of_all_samples_give_their_median_and_a_search_is_that_of_the_first() {
        let samples = [
            sample(&[(1.0, 5.0), (0.0, 9.0)]),
            Sample::default(),
            sample(&[(1.0, 7.0), (0.0, 8.0)]),
            sample(&[(1.0, 6.0), (0.0, 30.0)]),
        ];
        assert_eq!(latencies(&samples), [6.0, 9.0]);
        assert_eq!(of(&samples).unwrap()[0]["delay"], 1.0);
        assert_eq!(latencies(&[sample(&[(1.0, 5.0), (0.0, 9.0)]), sample(&[(3.0, 1.0)])]), [5.0, 9.0]);
        assert_eq!(of(&[Sample::default()]), None);
    }
}
