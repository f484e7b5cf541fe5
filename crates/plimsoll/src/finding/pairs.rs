//! "n2 to n3: 48 Mbit/s, 95 % below the median of 6 pairs of machines": a pair that is worse than the others, by the
//! rule for machines that stand out; in the place of an interval's half width stands 3.5 robust standard deviations of
//! the pair's own samples.

use serde_json::json;

use super::outlier::{DEVIATIONS, FLOOR, NORMAL, from_median};
use super::{finding, headline};
use crate::bench::Better;
use crate::document::Finding;
use crate::label::full;
use crate::limit::median;
use crate::measurement::Measurement;
use crate::quantity::Quantity;

/// The most that are told of a case: where more pairs are slow than this, a machine or a switch is.
const TOLD: usize = 8;

/// Speaks for each pair of a measurement between machines that is worse than the others, the furthest first. `names` are
/// those of the machines, by their numbers in the matrix.
pub fn pairs(measurement: &Measurement, names: &[&str]) -> Vec<Finding> {
    let Some((metric, matrix)) = headline(measurement).and_then(|m| Some((m, m.matrix.as_ref()?))) else {
        return Vec::new();
    };
    let values: Vec<f64> = matrix.measured().map(|pair| pair.value).collect();
    let Some(centre) = median(values.clone()).filter(|centre| *centre > 0.0) else { return Vec::new() };
    let mad = median(values.iter().map(|value| (value - centre).abs()).collect()).unwrap_or(0.0);
    let name = |number: u32| names.get(number as usize).copied().unwrap_or("?");
    let mut found: Vec<(f64, Finding)> = Vec::new();
    for (pair, spread) in matrix.measured().zip(matrix.spread.iter().flatten().flatten()) {
        let away = pair.value / centre - 1.0;
        let worse = if metric.better == Better::Higher { -away } else { away };
        let own = DEVIATIONS * NORMAL * spread / centre;
        let threshold = (DEVIATIONS * NORMAL * mad / centre).max(FLOOR).max(own);
        if worse <= threshold {
            continue;
        }
        let (from, to) = (name(pair.row), name(pair.column));
        let text = format!(
            "{from} to {to}: {}: {}, {} of {} pairs of machines",
            full(&measurement.case),
            Quantity { value: pair.value, unit: metric.unit },
            from_median(away),
            values.len(),
        );
        let evidence = json!({
            "from": from, "to": to, "case": measurement.case.id(), "metric": metric.name,
            "value": pair.value, "median": centre, "mad": mad, "threshold": threshold, "away": away,
        });
        found.push((worse, finding("slow-pair", text, evidence)));
    }
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.into_iter().take(TOLD).map(|(_, finding)| finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::peak;
    use super::*;
    use crate::measurement::Matrix;
    use crate::sample::{Cell, Sample};
    use proptest::prelude::*;

    /// All pairs of four machines with these figures, in three samples that differ by this share.
    fn measured(values: [f64; 6], noise: f64) -> Measurement {
        let places = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
        let sample = |share: f64| {
            let cells = places.iter().zip(values).map(|((row, column), value)| Cell {
                row: *row,
                column: *column,
                value: value * share,
                mark: None,
            });
            Sample { matrix: cells.collect(), ..Sample::default() }
        };
        let mut made = peak(1, 100.0);
        made.metrics[0].matrix = Matrix::of(&[sample(1.0), sample(1.0 - noise), sample(1.0 + noise)]);
        made
    }

    #[test]
    fn the_slow_pair_is_named_and_no_other_is() {
        let found = pairs(&measured([100.0, 101.0, 99.0, 100.0, 40.0, 160.0], 0.01), &["a", "b", "c", "d"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].text.starts_with("b to d: cpu "), "{}", found[0].text);
        assert!(found[0].text.ends_with("40.0 FLOP/s, 60 % below the median of 6 pairs of machines"));
        assert_eq!((&found[0].evidence["from"], &found[0].evidence["to"]), (&"b".into(), &"d".into()));
    }

    #[test]
    fn a_time_is_worse_when_it_is_longer() {
        let mut made = measured([1.0, 1.0, 1.0, 1.0, 0.5, 3.0], 0.01);
        made.metrics[0].better = Better::Lower;
        let told = |made: &Measurement| -> Vec<String> {
            pairs(made, &["a", "b", "c", "d"]).into_iter().map(|found| found.text).collect()
        };
        let found = told(&made);
        assert!(found.len() == 1 && found[0].starts_with("c to d"), "{found:?}");
        assert!(found[0].ends_with("200 % above the median of 6 pairs of machines"), "{found:?}");
        // Where a percentage would say little.
        made.metrics[0].matrix = measured([1.0, 1.0, 1.0, 1.0, 0.5, 222.9], 0.01).metrics.remove(0).matrix;
        assert!(
            told(&made)[0].ends_with(", 223 times the median of 6 pairs of machines"),
            "{:?}",
            told(&made)
        );
    }

    #[test]
    fn pairs_that_vary_more_than_they_differ_are_not_named() {
        let values = [100.0, 101.0, 99.0, 100.0, 70.0, 100.0];
        assert_eq!(pairs(&measured(values, 0.2), &[]), []);
        assert_eq!(pairs(&measured(values, 0.01), &[]).len(), 1);
        assert_eq!(pairs(&peak(1, 100.0), &[]), []);
    }

    proptest! {
        #[test]
        fn pairs_within_the_floor_are_never_named(values: [u16; 6]) {
            let near = values.map(|value| 99.0 + 2.0 * f64::from(value) / f64::from(u16::MAX));
            prop_assert_eq!(pairs(&measured(near, 0.0), &[]), []);
        }
    }
}
