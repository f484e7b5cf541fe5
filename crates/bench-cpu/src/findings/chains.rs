use plimsoll_bench_api::prelude::*;
use serde_json::{Value, json};

use crate::{CpuKernel, Peak, STEPS_PER_CYCLE};
use plimsoll_units::quantity::format::significant;

const FLAT: f64 = 0.97;
const LEAST_POINTS: usize = 3;
/// Most initial chains from which a latency follows; more may already saturate.
const MAX_LATENCY_CHAINS: u64 = 2;

pub(super) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    let mut found = Vec::new();
    let is_of_chains = |m: &&Measurement| CpuKernel::of(&m.case).chains.is_some() && m.headline().is_some();
    let of_chains: Vec<&Measurement> = select(run, Peak.name()).filter(is_of_chains).collect();
    for (index, first) in of_chains.iter().enumerate() {
        let alike = |m: &&&Measurement| kind(m) == kind(first);
        if !of_chains[..index].iter().any(|earlier| alike(&earlier)) {
            found.extend(describe(of_chains.iter().copied().filter(|m| alike(&m)).collect()));
        }
    }
    found
}

fn kind(measurement: &Measurement) -> (Case, &str, u32) {
    (measurement.case.clone().without(&["chains"]), &measurement.node, measurement.repeat)
}

struct ChainsPoint<'a> {
    chains: u64,
    rate: f64,
    steps: Option<f64>,
    measurement: &'a Measurement,
}

impl<'a> ChainsPoint<'a> {
    fn of(measurement: &'a Measurement) -> Option<Self> {
        let rate = measurement.headline()?.summary.median;
        let steps = measurement.conditions.more.get(&STEPS_PER_CYCLE);
        let steps = steps.filter(|steps| steps.is_finite() && *steps > 0.0);
        Some(Self { chains: CpuKernel::of(&measurement.case).chains?, rate, steps, measurement })
    }
}

fn describe(alike: Vec<&Measurement>) -> Option<PlainFinding> {
    let mut curve: Vec<ChainsPoint<'_>> = alike.into_iter().filter_map(ChainsPoint::of).collect();
    curve.sort_by_key(|at| at.chains);
    let (first, last) = (curve.first()?, curve.last()?);
    let most = curve.iter().max_by(|a, b| a.rate.total_cmp(&b.rate))?;
    if curve.len() < LEAST_POINTS || most.rate.is_nan() || most.rate <= 0.0 {
        return None;
    }
    let flat = curve.iter().rev().take_while(|at| at.rate >= FLAT * most.rate).last();
    let saturated = flat.filter(|at| at.chains < last.chains);
    let unit = first.measurement.headline()?.unit;
    let rate = Quantity::new(most.rate, unit);
    let name = name(first.measurement);
    let little = little(first, curve.iter().filter_map(|at| at.steps).reduce(f64::max));
    let by_law = |end: &str| {
        let [latency, throughput, in_flight] = little?.map(|number| significant(number, 3));
        Some(format!(
            ". A latency of {latency} cycles × {throughput} instructions per cycle = {in_flight} in flight{end}"
        ))
    };
    let by_law = |end: &str| by_law(end).unwrap_or_default();
    let text = match saturated {
        Some(at) => format!(
            "{name}: saturation point at {} independent chains of instructions: with more, the rate stays within 3 % of {rate}{}",
            at.chains,
            by_law(" (Little's law)")
        ),
        None => format!(
            "{name}: no saturation point up to {} independent chains of instructions; the highest rate is {rate}{}",
            last.chains,
            by_law("")
        ),
    };
    let point =
        |at: &ChainsPoint<'_>| json!({ "chains": at.chains, "rate": at.rate, "steps_per_cycle": at.steps });
    let evidence = json!({
        "case": first.measurement.case.id(),
        "saturation_point": saturated.map(|at| at.chains),
        "most": most.rate,
        "latency_cycles": little.map(|[latency, ..]| latency),
        "steps_per_cycle": little.map(|[_, throughput, _]| throughput),
        "in_flight": little.map(|[.., in_flight]| in_flight),
        "curve": curve.iter().map(point).collect::<Vec<Value>>(),
    });
    Some(PlainFinding { topic: Topic::Saturation, code: "chains-saturation", text, evidence })
}

fn name(measurement: &Measurement) -> String {
    let chains = CpuKernel::of(&measurement.case).chains.unwrap_or_default();
    crate::SUBSYSTEM.label(&measurement.case).replacen(&format!(" chains {chains}"), "", 1)
}

/// Returns latency (cycles), throughput (steps per cycle) and their product, the steps in flight
/// (Little's law); `most` is the highest throughput. `None` if latency does not limit `first`.
fn little(first: &ChainsPoint<'_>, most: Option<f64>) -> Option<[f64; 3]> {
    let (few, throughput) = (first.steps?, most?);
    let latency = first.chains as f64 / few;
    let threads = first.measurement.case.threads();
    let waits = first.chains <= MAX_LATENCY_CHAINS && threads == 1 && few < FLAT * throughput;
    waits.then_some([latency, throughput, latency * throughput])
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::measured;
    use plimsoll_units::quantity::Unit;

    fn curve(chains: &[u64], latency: f64, units: f64) -> Vec<Measurement> {
        let point = |&n: &u64| {
            let steps = (n as f64 / latency).min(units);
            let id = format!("cpu.peak/op=fma/type=f64/isa=avx512/width=512/chains={n}/threads=1");
            let mut made = measured(&id, Unit::FlopPerSecond, Better::Higher, &[steps * 16e9]);
            made.conditions.more.set(&STEPS_PER_CYCLE, steps);
            made
        };
        chains.iter().map(point).collect()
    }

    #[test]
    fn the_curve_is_flat_where_latency_times_throughput_chains_are_in_flight() {
        let found = find(&curve(&[1, 2, 4, 6, 8, 12, 16], 4.0, 2.0));
        assert_eq!(found.len(), 1);
        let wanted = "cpu fma f64 avx512: saturation point at 8 independent chains of instructions: with \
                      more, the rate stays within 3 % of 32.0 GFLOP/s. A latency of 4.00 cycles × 2.00 \
                      instructions per cycle = 8.00 in flight (Little's law)";
        assert_eq!(found[0].text, wanted);
        assert_eq!(found[0].evidence["saturation_point"], 8);
        assert_eq!(found[0].evidence["in_flight"], 8.0);
        assert_eq!(found[0].evidence["curve"].as_array().unwrap().len(), 7);
    }

    #[test]
    fn a_curve_that_still_rises_or_has_no_beginning_says_so() {
        let rising = find(&curve(&[1, 2, 4, 8], 5.0, 2.0));
        let wanted = "no saturation point up to 8 independent chains of instructions; the highest rate is \
                      25.6 GFLOP/s. A latency of 5.00";
        assert!(rising[0].text.contains(wanted), "{rising:?}");
        assert!(rising[0].evidence["saturation_point"].is_null());
        let late = find(&curve(&[4, 8, 12], 4.0, 2.0));
        assert!(late[0].text.ends_with("within 3 % of 32.0 GFLOP/s"), "{}", late[0].text);
    }

    #[test]
    fn one_dip_after_the_rise_moves_the_point_behind_it() {
        let mut dip = curve(&[1, 4, 8, 10, 12, 14], 4.0, 2.0);
        dip[3].metrics[0].summary.median *= 0.9;
        assert_eq!(find(&dip)[0].evidence["saturation_point"], 12);
    }

    #[test]
    fn curves_of_other_widths_machines_and_threads_are_others_and_few_points_are_none() {
        assert!(find(&curve(&[1, 8], 4.0, 2.0)).is_empty());
        let mut two = curve(&[1, 4, 8, 12], 4.0, 2.0);
        two.extend(curve(&[1, 4, 8, 12], 4.0, 1.0).into_iter().map(|mut made| {
            made.case = made.case.with_word("width", "256");
            made
        }));
        let points: Vec<_> = find(&two).iter().map(|f| f.evidence["saturation_point"].clone()).collect();
        assert_eq!(points, [8, 4]);
        let mut without = curve(&[1, 4, 8, 12], 4.0, 2.0);
        without.iter_mut().for_each(|m| m.conditions.more = Default::default());
        assert!(find(&without)[0].text.ends_with("within 3 % of 32.0 GFLOP/s"));
    }
}
