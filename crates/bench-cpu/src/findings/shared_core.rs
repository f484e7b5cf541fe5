use std::collections::BTreeSet;

use plimsoll_bench_api::prelude::*;
use serde_json::json;

use crate::Peak;
use crate::fact::CPUS;
use plimsoll_model::measurement::NOTABLE;
use plimsoll_model::view::{Compared, compare_threads, lost};
use plimsoll_model::warning::Warning;

/// Largest speed-up of two threads that counts as none. Two cores give 2, siblings 1.
const NO_FASTER: f64 = 1.1;
const SURELY: f64 = 1.25;
const OTHERWISE: &[&str] = &[Warning::CROWDED, Warning::QUOTA];

/// Returns a finding per machine whose two undisturbed `cpu.peak` threads are no faster than one.
pub(super) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    let all = compare_threads(run);
    let pair = |c: &&Compared<'_>| {
        c.this.case.benchmark() == Peak.name() && (c.scaling.base_threads, c.scaling.threads) == (1, 2)
    };
    let pairs: Vec<&Compared<'_>> = all.iter().filter(pair).collect();
    let nodes: BTreeSet<&str> = pairs.iter().map(|c| c.this.node.as_str()).collect();
    let of = |node: &str| pairs.iter().copied().filter(|c| c.this.node == node).collect::<Vec<_>>();
    nodes.into_iter().filter_map(|node| describe_shared_core(&of(node))).collect()
}

fn describe_shared_core(pairs: &[&Compared<'_>]) -> Option<PlainFinding> {
    let fastest = pairs.iter().copied().max_by(|a, b| a.scaling.speed_up.total_cmp(&b.scaling.speed_up))?;
    if !pairs.iter().all(|pair| no_faster(pair)) {
        return None;
    }
    let speed_up = fastest.scaling.speed_up;
    let text =
        format!("{} share one core: two threads do {speed_up:.2} × the work of one", cpus(fastest.this));
    let cases = [fastest.base.case.id(), fastest.this.case.id()];
    let evidence = json!({ "cases": cases, "speed_up": speed_up, "between": fastest.between });
    Some(PlainFinding { topic: Topic::Cores, code: "shared-core", text, evidence })
}

fn no_faster(pair: &Compared<'_>) -> bool {
    let undisturbed =
        |m: &Measurement| lost(m).share < NOTABLE && !OTHERWISE.iter().any(|code| m.warns(code));
    let slow = pair.scaling.speed_up <= NO_FASTER && pair.between[1] <= SURELY;
    slow && undisturbed(pair.base) && undisturbed(pair.this)
}

fn cpus(measurement: &Measurement) -> String {
    match measurement.achieved.get(&CPUS).as_deref() {
        Some([a, b]) => format!("CPUs {a} and {b}"),
        _ => "these 2 CPUs".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::view::testing::{peak, warned};

    #[test]
    fn two_threads_no_faster_than_one_share_a_core() {
        let found = find(&[peak(1, 100.0), peak(2, 101.0)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "these 2 CPUs share one core: two threads do 1.01 × the work of one");
        let mut named = peak(2, 101.0);
        named.achieved.put("cpus", json!([0, 4]));
        assert!(find(&[peak(1, 100.0), named])[0].text.starts_with("CPUs 0 and 4 share one core"));
    }

    #[test]
    fn two_cores_are_not_one() {
        assert!(find(&[peak(1, 100.0), peak(2, 198.0)]).is_empty());
        assert!(find(&[peak(1, 100.0), peak(2, 120.0)]).is_empty());
        assert!(find(&[peak(1, 100.0), peak(4, 101.0)]).is_empty());
        assert!(find(&[peak(1, 100.0)]).is_empty());
    }

    #[test]
    fn one_kind_that_scales_is_proof_of_two_cores() {
        let single = |m: Measurement| {
            let case = m.case.to_string().replace("f64", "f32").parse().unwrap();
            Measurement { case, ..m }
        };
        let all = [peak(1, 100.0), peak(2, 101.0), single(peak(1, 200.0)), single(peak(2, 390.0))];
        assert!(find(&all).is_empty());
        assert_eq!(find(&all[..2]).len(), 1);
    }

    #[test]
    fn another_cause_silences_it() {
        for code in OTHERWISE {
            assert!(find(&[peak(1, 100.0), warned(peak(2, 101.0), code)]).is_empty(), "{code}");
        }
        let mut stolen = peak(2, 101.0);
        stolen.conditions.steal = Some(0.4);
        assert!(find(&[peak(1, 100.0), stolen]).is_empty());
    }
}
