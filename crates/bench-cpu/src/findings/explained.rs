use plimsoll_bench_api::prelude::*;
use serde_json::json;

use crate::{CpuKernel, Peak};
use plimsoll_bench_api::distances::MovedCpus;
use plimsoll_model::warning::Warning;
use plimsoll_units::quantity::percent;

const EXPLAINED_LIMIT_SHARE: f64 = 0.97;

const LESS_OF_A_CORE: [&str; 3] = [Warning::QUOTA, "hidden-siblings", "sibling-busy"];

const HIGHER: f64 = 0.03;
const AS_MANY: f64 = 0.03;

/// Returns findings for `cpu.peak` cases below 97 % of their limit: the operation reaches its limit
/// with another instruction set, or another operation reaches its limit at a lower clock with as
/// many instructions per second.
pub(super) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    let low =
        |m: &&Measurement| of_limit(m).is_some_and(|share| share < EXPLAINED_LIMIT_SHARE) && has_its_cores(m);
    let lows = select(run, Peak.name()).filter(low);
    lows.filter_map(|low| explain_by_other_kernel(low, run).or_else(|| explain_by_lower_clock(low, run)))
        .collect()
}

/// Returns whether the threads of the case had whole cores (no CPU quota, busy SMT sibling or
/// change of CPU) and the case has no parameter `chains`.
fn has_its_cores(low: &Measurement) -> bool {
    let less = LESS_OF_A_CORE.iter().chain(&MovedCpus::WARNING_CODES).any(|code| low.warns(code));
    CpuKernel::of(&low.case).chains.is_none() && !less
}

/// Returns a finding if another operation of the run reaches its limit at a clock over 3 % lower,
/// with as many instructions per second (± 3 %) as `low`, which is below its limit. `None` without
/// such an operation, or if a clock is unknown.
fn explain_by_lower_clock(low: &Measurement, run: &[Measurement]) -> Option<PlainFinding> {
    let (share, clock) = (of_limit(low)?, low.conditions.clock_hz?);
    let trades = |other: &&Measurement| {
        let CpuKernel { isa, chains, .. } = CpuKernel::of(&other.case);
        let reached = of_limit(other).zip(other.conditions.clock_hz);
        let together =
            (&low.node, low.repeat, low.case.threads()) == (&other.node, other.repeat, other.case.threads());
        together
            && isa == CpuKernel::of(&low.case).isa
            && chains.is_none()
            && reached.is_some_and(|(reached, lower)| {
                reached >= EXPLAINED_LIMIT_SHARE
                    && clock > lower * (1.0 + HIGHER)
                    && (share * clock / (reached * lower) - 1.0).abs() < AS_MANY
            })
    };
    let high = select(run, Peak.name()).find(trades)?;
    let [own, lower] = [clock, high.conditions.clock_hz?].map(|hz| Quantity::new(hz, Unit::Hertz));
    let name =
        |m: &Measurement| format!("cpu {} ×{}", CpuKernel::of(&m.case).names().join(" "), m.case.threads());
    let text = format!(
        "{} reaches {} of its limit at a core clock of {own}, {} in the same run {} at {lower}. So the core executes as many instructions a second, at a higher clock and fewer in each cycle. Likely cause: its power or current limit",
        name(low),
        percent(share, 3),
        name(high),
        percent(of_limit(high)?, 3),
    );
    let evidence = json!({
        "cases": [low.case.id(), high.case.id()],
        "of_limit": [share, of_limit(high)],
        "clock_hz": [clock, high.conditions.clock_hz],
    });
    Some(PlainFinding { topic: Topic::Limit, code: "below-limit-explained", text, evidence })
}

fn explain_by_other_kernel(low: &Measurement, run: &[Measurement]) -> Option<PlainFinding> {
    let share = of_limit(low)?;
    let high = select(run, Peak.name()).find(|other| {
        alike(low, other) && of_limit(other).is_some_and(|reached| reached >= EXPLAINED_LIMIT_SHARE)
    })?;
    let [[op, element, isa], [.., other]] = [low, high].map(|m| CpuKernel::of(&m.case).names());
    let text = format!(
        "cpu {op} {element}: {isa} reaches {} of its limit, {other} in the same run {} of its own. So the execution unit can reach its limit: the {isa} kernel loses {} to its other instructions (moves, loop)",
        percent(share, 3),
        percent(of_limit(high)?, 3),
        percent(1.0 - share, 2),
    );
    let evidence = json!({
        "cases": [low.case.id(), high.case.id()],
        "of_limit": [share, of_limit(high)],
    });
    Some(PlainFinding { topic: Topic::Limit, code: "below-limit-explained", text, evidence })
}

fn of_limit(measurement: &Measurement) -> Option<f64> {
    measurement.headline()?.of_limit.filter(|share| share.is_finite())
}

fn alike(a: &Measurement, b: &Measurement) -> bool {
    let others = |m: &Measurement| m.case.clone().without(&["isa"]);
    let together = a.node == b.node && a.repeat == b.repeat;
    together && CpuKernel::of(&a.case).isa != CpuKernel::of(&b.case).isa && others(a) == others(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::{measured, warned};

    fn root(isa: &str, threads: u32, share: f64) -> Measurement {
        let id = format!("cpu.peak/op=sqrt/type=f64/isa={isa}/threads={threads}");
        let mut made = measured(&id, Unit::FlopPerSecond, Better::Higher, &[1e9]);
        made.metrics[0].of_limit = Some(share);
        made
    }

    #[test]
    fn a_core_that_trades_instructions_for_clock_is_named() {
        let at = |op: &str, share: f64, hz: f64| {
            let id = format!("cpu.peak/op={op}/type=f64/isa=avx512/threads=1");
            let mut made = measured(&id, Unit::FlopPerSecond, Better::Higher, &[1e9]);
            (made.metrics[0].of_limit, made.conditions.clock_hz) = (Some(share), Some(hz));
            made
        };
        let found = find(&[at("fma", 0.999, 2.79e9), at("mix", 0.939, 3.0e9)]);
        let wanted = "cpu mix f64 avx512 ×1 reaches 93.9 % of its limit at a core clock of 3.00 GHz, cpu fma \
                      f64 avx512 ×1 in the same run 99.9 % at 2.79 GHz. So the core executes as many \
                      instructions a second, at a higher clock and fewer in each cycle. Likely cause: its \
                      power or current limit";
        assert_eq!(found.iter().map(|one| &one.text).collect::<Vec<_>>(), [wanted]);
        assert!(find(&[at("fma", 0.999, 2.79e9), at("mix", 0.943, 2.8e9)]).is_empty());
        assert!(find(&[at("fma", 0.999, 2.79e9), at("mix", 0.80, 3.0e9)]).is_empty());
    }

    #[test]
    fn another_kernel_at_the_limit_explains_the_one_below() {
        let found = find(&[root("sse2", 1, 0.932), root("avx2", 1, 0.9971), root("avx512", 1, 0.999)]);
        assert_eq!(found.len(), 1);
        let start = "cpu sqrt f64: sse2 reaches 93.2 % of its limit, avx2 in the same run 99.7 % of its own.";
        assert!(found[0].text.starts_with(start), "{}", found[0].text);
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
