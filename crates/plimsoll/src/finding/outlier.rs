//! "n3: 31 % below the median of 4 machines: throttled by the CPU quota 44 %": a machine that stands out among others
//! that measured the same.
//!
//! A figure stands out when it is further from the median of all machines than 3.5 robust standard deviations
//! (1.4826 × the median absolute deviation, which is the standard deviation of a normal distribution: Leys et al.,
//! J. Exp. Soc. Psychol. 49, 2013), than 3 %, and than the machines' own intervals reach. Two machines have no
//! median to stand out from: then the difference is told, and which of them is further from its limit.

use std::collections::BTreeMap;

use serde_json::json;

use super::{NOTABLE, finding, headline, lost};
use crate::bench::Better;
use crate::document::Finding;
use crate::limit::median;
use crate::measurement::{Measurement, MetricResult};
use crate::quantity::{Quantity, percent};

/// Robust standard deviations from which on a figure stands out.
const DEVIATIONS: f64 = 3.5;
/// Standard deviations in one median absolute deviation of a normal distribution.
const NORMAL: f64 = 1.4826;
/// No difference below this share of the median stands out.
const FLOOR: f64 = 0.03;
/// A core clock this much below the others' explains a figure.
const SLOWER: f64 = 0.02;

/// One machine's figure.
struct Figure<'a> {
    measurement: &'a Measurement,
    metric: &'a MetricResult,
}

impl Figure<'_> {
    fn value(&self) -> f64 {
        self.metric.summary.median
    }

    fn shown(&self) -> Quantity {
        Quantity { value: self.value(), unit: self.metric.unit }
    }

    /// Half the width of the interval, as a share of the value.
    fn reach(&self) -> f64 {
        self.metric.summary.ci95.map_or(0.0, |[low, high]| (high - low) / 2.0 / self.value())
    }
}

/// Speaks for each machine whose headline stands out in a case, the furthest first.
pub(super) fn find(measurements: &[Measurement]) -> Vec<Finding> {
    let mut cases: BTreeMap<(String, u32), Vec<Figure<'_>>> = BTreeMap::new();
    for measurement in measurements {
        if let Some(metric) = headline(measurement).filter(|m| m.summary.median > 0.0) {
            let key = (measurement.case.id().to_string(), measurement.repeat);
            cases.entry(key).or_default().push(Figure { measurement, metric });
        }
    }
    let mut found: Vec<(f64, Finding)> = cases
        .values()
        .flat_map(|figures| match figures.as_slice() {
            [] | [_] => Vec::new(),
            [one, other] => two(one, other).into_iter().collect(),
            all => many(all),
        })
        .collect();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.into_iter().map(|(_, finding)| finding).collect()
}

fn many(figures: &[Figure<'_>]) -> Vec<(f64, Finding)> {
    let middle = |values: Vec<f64>| median(values).unwrap_or(f64::NAN);
    let centre = middle(figures.iter().map(Figure::value).collect());
    let mad = middle(figures.iter().map(|f| (f.value() - centre).abs()).collect());
    let noise = middle(figures.iter().map(Figure::reach).collect());
    let clock = median(figures.iter().filter_map(|f| f.measurement.conditions.clock_hz).collect());
    let mut found = Vec::new();
    for figure in figures {
        let away = figure.value() / centre - 1.0;
        let threshold = (DEVIATIONS * NORMAL * mad / centre).max(FLOOR).max(noise + figure.reach());
        if away.abs() <= threshold {
            continue;
        }
        let cause = cause(figure, away, clock);
        let text = format!(
            "{}: {}: {}, {} {} the median of {} machines{}",
            figure.measurement.node,
            figure.measurement.case.id(),
            figure.shown(),
            percent(away.abs(), 2),
            if away < 0.0 { "below" } else { "above" },
            figures.len(),
            cause.as_ref().map(|c| format!(": {c}")).unwrap_or_default(),
        );
        let evidence = json!({
            "node": figure.measurement.node, "case": figure.measurement.case.id(), "metric": figure.metric.name,
            "value": figure.value(), "median": centre, "mad": mad, "threshold": threshold, "away": away,
            "cause": cause, "worse": is_worse(figure, away),
        });
        found.push((away.abs(), finding("outlier", text, evidence)));
    }
    found
}

fn is_worse(figure: &Figure<'_>, away: f64) -> bool {
    match figure.metric.better {
        Better::Higher => away < 0.0,
        Better::Lower => away > 0.0,
    }
}

/// What the conditions of a machine that is worse than the others say.
fn cause(figure: &Figure<'_>, away: f64, clock: Option<f64>) -> Option<String> {
    if !is_worse(figure, away) {
        return None;
    }
    let lost = lost(figure.measurement);
    let slower = figure.measurement.conditions.clock_hz.zip(clock).map(|(own, all)| 1.0 - own / all);
    match slower {
        _ if lost.share >= NOTABLE => Some(format!("{} {}", lost.what, percent(lost.share, 2))),
        Some(share) if share > SLOWER => Some(format!("its core clock is {} lower", percent(share, 2))),
        _ => None,
    }
}

fn two(one: &Figure<'_>, other: &Figure<'_>) -> Option<(f64, Finding)> {
    let away = other.value() / one.value() - 1.0;
    if away.abs() <= FLOOR.max(one.reach() + other.reach()) {
        return None;
    }
    let share = |f: &Figure<'_>| f.metric.of_limit.filter(|s| s.is_finite());
    let further = match (share(one), share(other)) {
        (Some(a), Some(b)) if a != b => {
            let (figure, share) = if a < b { (one, a) } else { (other, b) };
            format!("; {} is further from its limit ({})", figure.measurement.node, percent(share, 2))
        }
        _ => String::new(),
    };
    let slower = if is_worse(other, away) { other } else { one };
    let away_of_slower = if is_worse(other, away) { away } else { one.value() / other.value() - 1.0 };
    let cause = cause(slower, away_of_slower, None);
    let text = format!(
        "{}: {} on {}, {} on {}, a difference of {}{further}{}",
        one.measurement.case.id(),
        one.shown(),
        one.measurement.node,
        other.shown(),
        other.measurement.node,
        percent(away.abs(), 2),
        cause.as_ref().map(|c| format!("; {}: {c}", slower.measurement.node)).unwrap_or_default(),
    );
    let evidence = json!({
        "nodes": [one.measurement.node, other.measurement.node], "case": one.measurement.case.id(),
        "values": [one.value(), other.value()], "away": away, "cause": cause,
    });
    Some((away.abs(), finding("machines-differ", text, evidence)))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::testing::peak;
    use super::*;
    use proptest::prelude::*;

    /// Summarised once: it takes far longer than the rule.
    static PEAK: LazyLock<Measurement> = LazyLock::new(|| peak(1, 100.0));

    fn on(node: &str, rate: f64) -> Measurement {
        let mut measurement = Measurement { node: node.to_owned(), ..PEAK.clone() };
        let summary = &mut measurement.metrics[0].summary;
        summary.median *= rate / 100.0;
        summary.ci95 = summary.ci95.map(|ends| ends.map(|end| end * rate / 100.0));
        measurement
    }

    #[test]
    fn the_slow_machine_is_named_with_its_cause_and_no_other_is() {
        let mut all: Vec<_> = (0..4).map(|i| on(&format!("n{i}"), 100.0 + f64::from(i) * 0.2)).collect();
        all[2] = on("n2", 55.0);
        all[2].conditions.throttled = Some(0.44);
        let found = find(&all);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].text,
            "n2: cpu.peak/op=fma/type=f64/isa=avx2/threads=1: 55.0 FLOP/s, 45 % below the median of 4 machines: throttled by the CPU quota 44 %"
        );
        assert_eq!(found[0].evidence["worse"], true);
    }

    #[test]
    fn a_slower_clock_is_a_cause() {
        let mut all: Vec<_> = (0..5).map(|i| on(&format!("n{i}"), 100.0)).collect();
        all.iter_mut().for_each(|m| m.conditions.clock_hz = Some(3e9));
        all[4] = on("n4", 80.0);
        all[4].conditions.clock_hz = Some(2.4e9);
        assert!(find(&all)[0].text.ends_with("its core clock is 20 % lower"), "{:?}", find(&all));
    }

    #[test]
    fn of_two_machines_the_difference_is_told() {
        let (mut one, other) = (on("a", 90.0), on("b", 60.0));
        assert_eq!(find(&[one.clone(), on("b", 91.0)]), []);
        one.metrics[0].of_limit = Some(0.9);
        let mut other = other;
        other.metrics[0].of_limit = Some(0.6);
        let text = &find(&[one, other])[0].text;
        assert!(text.ends_with("a difference of 33 %; b is further from its limit (60 %)"), "{text}");
    }

    #[test]
    fn one_machine_has_no_outliers() {
        assert_eq!(find(&[on("a", 1.0), peak(2, 100.0)]), []);
    }

    proptest! {
        /// Machines that differ by less than the floor never stand out, however many there are.
        #[test]
        fn small_differences_are_no_outliers(rates in prop::collection::vec(99.0..101.0_f64, 2..50)) {
            let all: Vec<_> = rates.iter().enumerate().map(|(i, r)| on(&format!("n{i}"), *r)).collect();
            prop_assert_eq!(find(&all), []);
        }

        /// One that is far away among many that agree is named, and alone.
        #[test]
        fn one_far_machine_is_found(n in 3..40_usize, share in 0.3..0.9_f64, place: prop::sample::Index) {
            let mut all: Vec<_> = (0..n).map(|i| on(&format!("n{i}"), 100.0)).collect();
            let slow = place.index(n);
            all[slow] = on("slow", 100.0 * share);
            let found = find(&all);
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(&found[0].evidence["node"], "slow");
        }
    }
}
