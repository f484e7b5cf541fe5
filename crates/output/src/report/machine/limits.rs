//! Limits of the cases of `plimsoll run quick` with their derivation, before any measurement.

use plimsoll_bench::label::label;
use plimsoll_bench::{Candidate, Metric};
use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
use plimsoll_model::limit::{Input, Limit, LimitEvidence, LimitKind, Question};
use plimsoll_model::sample::{Conditions, Sample};
use plimsoll_units::quantity::format::significant;
use plimsoll_units::quantity::{Quantity, Unit};

use super::{FactSection, listed};

const EXAMPLE_HZ: f64 = 1e9;

/// Returns a section with the limits of the cases `candidates` at core clock `clock_hz` (`None`: at
/// 1 GHz, as an example), and one with the sources of the limits' inputs.
pub fn limits(machine: &Machine, candidates: &[Candidate], clock_hz: Option<f64>) -> Vec<FactSection> {
    let measured = clock_hz.is_some();
    let clock_hz = clock_hz.unwrap_or(EXAMPLE_HZ);
    let mut section = FactSection::new(match measured {
        true => "limits, as derived now",
        false => "limits; those that go with the clock are at 1 GHz",
    });
    let mut sources = FactSection::new("where the limits' inputs are from");
    for Candidate { case, .. } in candidates {
        let Some((metric, limit)) = headline(machine, case, Some(clock_hz)) else { continue };
        let text = derivation(&limit, metric) + &at_other_clocks(machine, case, &limit);
        let earlier = section.rows.iter().find(|(_, known)| *known == text);
        let earlier = earlier.map(|(label, _)| format!("as {label}"));
        section.row(label(case), earlier.unwrap_or(text));
        for input in &limit.inputs {
            let from = match input.unit.as_str() {
                "Hz" if !measured => "an example; a run measures it in every sample",
                "Hz" => "measured just now on one CPU; a run measures it in every sample, and takes no other",
                _ => input.from.as_str(),
            };
            if !sources.rows.iter().any(|(label, known)| *label == input.name && known == from) {
                sources.row(&input.name, from);
            }
        }
    }
    vec![section, sources]
}

/// Formats what `limit` would be at the CPU's nominal and highest clock: `; 64.0 GFLOP/s at the
/// nominal clock of 2.00 GHz`. Omits a clock that is unknown or does not change the value; empty if
/// both are omitted.
fn at_other_clocks(machine: &Machine, case: &Case, limit: &Limit) -> String {
    let clock = &machine.cpu.clock;
    let named = [("nominal", clock.base_hz), ("highest", clock.max_hz)];
    let at = named.into_iter().filter_map(|(name, hertz)| {
        let hertz = hertz? as f64;
        let (metric, other) = headline(machine, case, Some(hertz))?;
        let moves = other.inputs.iter().any(|input| input.unit == "Hz");
        let value = other.value.filter(|value| moves && Some(*value) != limit.value)?;
        let [value, hertz] = [Quantity::new(value, metric.unit), Quantity::new(hertz, Unit::Hertz)];
        Some(format!("{value} at the {name} clock of {hertz}"))
    });
    listed(at, ", ").map(|at| format!("; {at}")).unwrap_or_default()
}

/// Returns the first metric of a case with a known limit at `clock_hz`, else the first metric with
/// a limit of unknown value; `None` if no metric has a limit.
fn headline(machine: &Machine, case: &Case, clock_hz: Option<f64>) -> Option<(Metric, Limit)> {
    let conditions = Conditions { clock_hz, ..Conditions::default() };
    let samples = [Sample { conditions, ..Sample::default() }];
    let metrics = plimsoll_bench::find(case.benchmark())?.metrics(case);
    let limits = metrics.into_iter().flat_map(|metric| {
        let evidence = LimitEvidence::default();
        let question = Question { machine, case, metric: metric.name, samples: &samples, evidence };
        plimsoll_bench::limits(&question).into_iter().map(move |limit| (metric, limit))
    });
    let limits: Vec<_> = limits.collect();
    limits.iter().find(|(_, limit)| limit.value.is_some()).or(limits.first()).cloned()
}

/// Formats a limit: `≤ 118 GFLOP/s = FORMULA, with INPUTS`, or `unknown (REASON)`.
fn derivation(limit: &Limit, metric: Metric) -> String {
    let because = limit.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let Some(value) = limit.quantity(metric.unit) else {
        return format!("unknown{because}");
    };
    let bound = if limit.kind == LimitKind::Ceiling { "≤" } else { "≥" };
    let inputs = listed(limit.inputs.iter().map(input), ", ").unwrap_or_default();
    format!("{bound} {value} = {}, with {inputs}{because}", limit.formula)
}

fn input(input: &Input) -> String {
    let value = match Unit::from_name(&input.unit) {
        Some(Unit::One) | None if input.value.fract() == 0.0 => format!("{:.0}", input.value),
        Some(Unit::One) | None => significant(input.value, 3),
        Some(unit) => Quantity { value: input.value, unit }.human(3),
    };
    format!("{} {value}", input.name)
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::fixture::Fixture;
    use plimsoll_metal::isa::Isa;

    use super::*;

    fn rows(name: &str, clock_hz: Option<f64>) -> String {
        let machine = Fixture::open(name).unwrap().machine();
        let group = plimsoll_model::plan::Group::default();
        let cases = |name: &str| plimsoll_bench::find(name).unwrap().cases(&machine, &group).unwrap();
        let candidates = [cases("cpu.peak"), cases("memory.bandwidth"), cases("memory.latency")].concat();
        super::super::text(&limits(&machine, &candidates, clock_hz), 80)
    }

    #[test]
    fn each_limit_has_formula_inputs_and_source() {
        if Isa::best() != Isa::Avx512 {
            let text = rows("xeon-gold-6230-2s", Some(2.8e9));
            assert!(text.contains("channels × width × transfers"), "{text}");
            return;
        }
        insta::assert_snapshot!(rows("xeon-gold-6230-2s", Some(2.8e9)));
    }

    #[test]
    fn without_a_clock_limits_are_those_at_1_ghz() {
        let text = rows("firecracker-zen4", None);
        assert!(text.contains("those that go with the clock are at 1 GHz"), "{text}");
        assert!(text.contains("lanes 8, clock 1.00") && text.contains("an example"), "{text}");
    }
}
