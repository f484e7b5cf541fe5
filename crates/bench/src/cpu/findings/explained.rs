//! "sqrt of f64 by sse2 is at 93 % of its limit, by avx2 at 100 %: …": what stands between a kernel and the limit of the
//! units it uses, shown by another kernel that reaches it.

use serde_json::json;

use crate::Benchmark;
use crate::apart::Elsewhere;
use crate::cpu::Peak;
use crate::measurement::Measurement;
use crate::quantity::percent;
use crate::view::{Finding, RunView, Topic};
use crate::warning::Warning;

/// Shares of the limit from here on need no explanation.
const REACHED: f64 = 0.97;

/// Warnings of cases that did not have their cores wholly.
const LESS_OF_A_CORE: [&str; 3] = [Warning::QUOTA, "hidden-siblings", "sibling-busy"];

/// Speaks for each `cpu.peak` case below 97 % of its limit, where the same operation of the same type by another
/// instruction set reached its limit in this run, on as many threads: so it is neither the unit nor the clock, but what
/// the kernel must do beside.
pub(super) fn find(run: &RunView<'_>) -> Vec<Finding> {
    run.of(Peak.name()).filter_map(|low| explained(low, run)).collect()
}

fn explained(low: &Measurement, run: &RunView<'_>) -> Option<Finding> {
    // With few chains it is the latency.
    if low.case.number("chains").is_some() {
        return None;
    }
    let share = of_limit(low)?;
    let high = run
        .of(Peak.name())
        .find(|other| alike(low, other) && of_limit(other).is_some_and(|reached| reached >= REACHED))?;
    // The figure is without interruptions, save under a quota, and that is told elsewhere.
    if share >= REACHED || LESS_OF_A_CORE.iter().chain(&Elsewhere::CODES).any(|code| low.warns(code)) {
        return None;
    }
    let word = |m: &Measurement, key: &str| m.case.word(key).unwrap_or_default().to_owned();
    let text = format!(
        "cpu {0} {1}: {2} reaches {3} of its limit, {4} in the same run {5} of its own. So the execution unit can reach its limit: the {2} kernel loses {6} to its other instructions (moves, loop)",
        word(low, "op"),
        word(low, "type"),
        word(low, "isa"),
        percent(share, 3),
        word(high, "isa"),
        percent(of_limit(high)?, 3),
        percent(1.0 - share, 2),
    );
    let evidence = json!({
        "cases": [low.case.id(), high.case.id()],
        "of_limit": [share, of_limit(high)],
    });
    Some(Finding { topic: Topic::Limit, code: "below-limit-explained", text, evidence })
}

fn of_limit(measurement: &Measurement) -> Option<f64> {
    measurement.headline()?.of_limit.filter(|share| share.is_finite())
}

/// Whether they differ in nothing but the instruction set.
fn alike(a: &Measurement, b: &Measurement) -> bool {
    let others = |m: &Measurement| -> Vec<String> {
        let params = m.case.params().iter().filter(|(name, _)| *name != "isa");
        params.map(|(name, value)| format!("{name}={value}")).collect()
    };
    let together = a.node == b.node && a.repeat == b.repeat;
    together && a.case.word("isa") != b.case.word("isa") && others(a) == others(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Better;
    use crate::quantity::Unit;
    use crate::view::testing::{measured, warned};

    fn find(measurements: &[Measurement]) -> Vec<Finding> {
        super::find(&RunView::new(measurements))
    }

    fn root(isa: &str, threads: u32, share: f64) -> Measurement {
        let id = format!("cpu.peak/op=sqrt/type=f64/isa={isa}/threads={threads}");
        let mut made = measured(&id, Unit::FlopPerSecond, Better::Higher, &[1e9]);
        made.metrics[0].of_limit = Some(share);
        made
    }

    #[test]
    fn another_kernel_at_the_limit_explains_the_one_below() {
        let found = find(&[root("sse2", 1, 0.932), root("avx2", 1, 0.9971), root("avx512", 1, 0.999)]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].text.starts_with(
                "cpu sqrt f64: sse2 reaches 93.2 % of its limit, avx2 in the same run 99.7 % of its own. "
            ),
            "{}",
            found[0].text
        );
        assert_eq!(found[0].evidence["cases"][1], "cpu.peak/op=sqrt/type=f64/isa=avx2/threads=1");
    }

    #[test]
    fn it_is_silent_without_the_other_kernel_or_under_a_quota() {
        assert!(find(&[root("sse2", 1, 0.932), root("avx2", 2, 0.997)]).is_empty());
        assert!(find(&[root("sse2", 1, 0.932), root("avx2", 1, 0.96)]).is_empty());
        assert!(find(&[root("sse2", 1, 0.98), root("avx2", 1, 0.997)]).is_empty());
        for code in ["cpu-quota", "sibling-busy", "cpus-on-one-core", "cpus-moved", "hidden-siblings"] {
            let less = warned(root("sse2", 1, 0.5), code);
            assert!(find(&[less, root("avx2", 1, 0.997)]).is_empty(), "{code}");
        }
    }
}
