use plimsoll_bench_api::prelude::*;
use serde_json::json;

use crate::{CaseWord, CoreToCore};
use plimsoll_metal::handover::HandoverMethod;
use plimsoll_model::sample::Cell;

/// Largest one-way latency within a core by compare-and-swap, in seconds. Published: siblings 4.3
/// to 10 ns (Alder Lake to Zen 3), two cores 16 ns and more (Zen 3):
/// `nviennot/core-to-core-latency`, 2023.
const WITHIN_A_CORE: f64 = 12.5e-9;
const MAX_NAMED_SIBLINGS: usize = 4;

/// Returns a finding per case with pairs of CPUs as near as SMT siblings but not shown as such.
pub(crate) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    select(run, CoreToCore.name()).filter_map(hidden).collect()
}

fn hidden(measurement: &Measurement) -> Option<PlainFinding> {
    let case = &measurement.case;
    if HandoverMethod::of(case) != Some(HandoverMethod::CompareAndSwap) {
        return None;
    }
    let matrix = measurement.headline()?.matrix.as_ref()?;
    let near = |place: &Cell| place.value < WITHIN_A_CORE && place.mark.as_deref() != Some("smt");
    let pairs: Vec<Cell> = matrix.measured().filter(|p| p.row < p.column).filter(near).collect();
    let slowest = pairs.iter().map(|p| p.value).reduce(f64::max)?;
    let name = |p: &Cell| format!("{} and {}", p.row, p.column);
    let named: Vec<String> = pairs.iter().take(MAX_NAMED_SIBLINGS).map(name).collect();
    let more = match pairs.len() - named.len() {
        0 => String::new(),
        more => format!(", and {more} more pairs"),
    };
    let (named, within) = (named.join(", "), Quantity::new(slowest, Unit::Second));
    let text = match pairs.len() {
        1 => format!("CPUs {named} share one core: a cache line goes between them in {within} or less"),
        _ => format!(
            "pairs of CPUs that share one core: {named}{more}. A cache line goes between the two of a pair in {within} or less"
        ),
    };
    let listed: Vec<_> =
        pairs.iter().map(|p| json!({ "cpus": [p.row, p.column], "latency": p.value })).collect();
    let evidence = json!({ "case": case.id(), "pairs": listed });
    Some(PlainFinding { topic: Topic::Cores, code: "shared-core", text, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::measurement::Matrix;
    use plimsoll_model::metric::Better;
    use plimsoll_model::sample::Sample;
    use plimsoll_model::view::testing::measured;

    fn bounced(op: &str, cells: &[(u32, u32, f64)], mark: Option<&str>) -> Measurement {
        let id = format!("cpu.core-to-core/op={op}");
        let mut made = measured(&id, Unit::Second, Better::Lower, &[1e-7]);
        let both = |&(a, b, ns): &(u32, u32, f64)| {
            let cell = |row, column| Cell { row, column, value: ns * 1e-9, mark: mark.map(str::to_owned) };
            [cell(a, b), cell(b, a)]
        };
        let sample = Sample { matrix: cells.iter().flat_map(both).collect(), ..Sample::default() };
        made.metrics[0].matrix = Matrix::of(&[sample]);
        made
    }

    #[test]
    fn pairs_as_near_as_siblings_are_named_once() {
        let near = [bounced("cas", &[(0, 1, 6.2), (0, 2, 104.0), (1, 2, 105.0)], Some("package"))];
        let found = find(&near);
        assert_eq!(found.len(), 1);
        let wanted = "CPUs 0 and 1 share one core: a cache line goes between them in 6.20 ns or less";
        assert_eq!(found[0].text, wanted);
        let pairs = found[0].evidence["pairs"].as_array().unwrap();
        assert_eq!((pairs.len(), &pairs[0]["cpus"]), (1, &json!([0, 1])));
        assert!((pairs[0]["latency"].as_f64().unwrap() - 6.2e-9).abs() < 1e-15);
        let many: Vec<(u32, u32, f64)> = (0..6).map(|i| (i, i + 6, 5.0 + f64::from(i))).collect();
        let found = find(&[bounced("cas", &many, None)]);
        let list = "pairs of CPUs that share one core: 0 and 6, 1 and 7, 2 and 8, 3 and 9, and 2 more pairs.";
        let text = &found[0].text;
        assert!(text.starts_with(list) && text.ends_with("10.0 ns or less"), "{text}");
    }

    #[test]
    fn known_siblings_far_cores_and_stores_say_nothing() {
        let silent = [
            bounced("cas", &[(0, 1, 6.2)], Some("smt")),
            bounced("cas", &[(0, 1, 16.0)], None),
            bounced("store", &[(0, 1, 6.2)], None),
        ];
        assert!(find(&silent).is_empty());
    }
}
