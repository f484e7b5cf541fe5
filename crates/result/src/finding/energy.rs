//! Highest power: "processor packages: up to 182 W, in cpu gemm f64 ×64, 25.3 pJ/FLOP there; …".

use serde_json::json;

use plimsoll_bench::label::full;
use plimsoll_model::measurement::Measurement;
use plimsoll_model::sample::energy::{ENERGY, ENERGY_PER_UNIT};
use plimsoll_model::view::{PlainFinding, Topic};
use plimsoll_units::quantity::significant;

/// Returns one finding, on the case with the highest power; empty if no power is known.
pub(super) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    let known = run.iter().filter(|made| made.headline().is_some());
    let power = |made: &Measurement| made.conditions.package_power.filter(|watts| watts.is_finite());
    let with_power = known.filter_map(|made| Some((made, power(made)?)));
    let most = with_power.max_by(|a, b| a.1.total_cmp(&b.1));
    most.and_then(|(made, watts)| describe(made, watts)).into_iter().collect()
}

fn describe(made: &Measurement, watts: f64) -> Option<PlainFinding> {
    let each: Option<f64> = made.achieved.get(&ENERGY_PER_UNIT);
    let work = made.headline()?.unit.work();
    let each_text = each.zip(work).map(|(joules, work)| format!(", {}/{work} there", small_joules(joules)));
    let text = format!(
        "processor packages: up to {} W, in {}{}; idle power included",
        significant(watts, 3),
        full(&made.case),
        each_text.unwrap_or_default()
    );
    let energy: Option<f64> = made.achieved.get(&ENERGY);
    let evidence =
        json!({ "case": made.case.id(), "watts": watts, "energy_j": energy, "energy_per_unit_j": each });
    Some(PlainFinding { topic: Topic::Energy, code: "energy", text, evidence })
}

/// Formats an energy in J with three digits: `25.3 pJ`.
fn small_joules(joules: f64) -> String {
    let scales = [(1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ")];
    let (scale, unit) = scales.into_iter().find(|(scale, _)| joules >= *scale).unwrap_or((1e-12, "pJ"));
    format!("{} {unit}", significant(joules / scale, 3))
}

#[cfg(test)]
mod tests {
    use plimsoll_model::view::testing::peak;

    use super::*;

    #[test]
    fn the_case_of_the_most_power_is_told_once() {
        let with = |threads, watts: Option<f64>| {
            let mut made = peak(threads, 1e11);
            made.conditions.package_power = watts;
            made.achieved.set(&ENERGY_PER_UNIT, 2.53e-11);
            made
        };
        let found = find(&[with(1, Some(80.0)), with(2, Some(181.7)), with(4, None)]);
        assert_eq!(found.len(), 1);
        let text = &found[0].text;
        assert!(text.starts_with("processor packages: up to 182 W, in "), "{text}");
        assert!(text.contains("25.3 pJ/FLOP there"), "{text}");
        assert_eq!(found[0].evidence["watts"], 181.7);
        assert!(find(&[with(1, None)]).is_empty());
    }

    #[test]
    fn small_energies_have_a_prefix() {
        let stated = [2.0, 2.5e-3, 1e-6, 3.3e-9, 4.56e-13].map(small_joules);
        assert_eq!(stated, ["2.00 J", "2.50 mJ", "1.00 µJ", "3.30 nJ", "0.456 pJ"]);
    }
}
