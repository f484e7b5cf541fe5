//! Limit of a rate by CPU credits, of which it assumes as many as the instance type can hold.

use plimsoll_units::quantity::{Quantity, Unit, percent};

use super::device::Burstable;
use super::{Input, Limit, LimitKind, LimitSource, Question, median};

/// Name of the input that limits by credits have, and no other: the time until they are used up.
pub(super) const LASTS: &str = "lasts";

/// Returns the limit on burstable EC2: `full` until credits are used up, then a share; else `None`.
pub fn credits(question: &Question<'_>, full: &Limit) -> Option<Limit> {
    let (row, source) = Burstable::of(&question.machine.virtualisation)?;
    let whole = full.value?;
    let lasts = row.full_speed_seconds(row.credits);
    let mut busy = 0.0;
    let bound = |(at, sample): (usize, &crate::sample::Sample)| {
        busy += sample.elapsed;
        let share = if busy <= lasts { 1.0 } else { row.baseline };
        share * full.per_sample.get(at).copied().unwrap_or(whole)
    };
    let per_sample: Vec<f64> = question.samples.iter().enumerate().map(bound).collect();
    let from = format!("data/instances.toml, {}: {source}", row.product);
    let inputs = vec![
        Input::new("full speed", whole, "OP/s", "the limit of the cores"),
        Input::new("credits", row.credits, "1", &from),
        Input::new("vCPUs", row.vcpus, "1", &from),
        Input::new("baseline", row.baseline, "1", &from),
        Input::new(LASTS, lasts, "s", "60 s × credits ÷ (vCPUs × (1 − baseline))"),
    ];
    let formula = "full speed for as long as credits last, then × baseline";
    let value = median(per_sample.clone()).unwrap_or(whole);
    let is_inferred = full.source == LimitSource::Inferred;
    let source = if is_inferred { LimitSource::Inferred } else { LimitSource::Rated };
    let limit = Limit::fixed(LimitKind::Ceiling, source, value, formula, inputs);
    Some(Limit { per_sample, reason: Some(describe(row, lasts)), fact: full.fact.clone(), ..limit })
}

fn describe(row: &Burstable, lasts: f64) -> String {
    let time = |seconds| Quantity::new(seconds, Unit::Second).to_string();
    format!(
        "{} runs at full speed for {} at most with the {} credits that it can hold ({} with the {} of a \
         launch), then at {} of each vCPU, unless its credits are unlimited; how many are left cannot be seen",
        row.product,
        time(lasts),
        row.credits,
        time(row.full_speed_seconds(row.launch_credits)),
        row.launch_credits,
        percent(row.baseline, 3)
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::fixture::Fixture;

    use super::*;
    use crate::case::Case;
    use crate::limit::LimitEvidence;
    use crate::sample::Sample;

    #[test]
    fn a_rate_is_bounded_by_the_baseline_when_the_credits_are_used_up() {
        let mut machine = Fixture::open("firecracker-zen4").unwrap().machine();
        let case: Case = "cpu.peak/op=fma/type=f64/isa=avx2/threads=1".parse().unwrap();
        let hour = |_| Sample { elapsed: 3600.0, ..Sample::default() };
        let samples: Vec<Sample> = (0..4).map(hour).collect();
        let full = Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, 48e9, "", Vec::new());
        let of = |machine: &plimsoll_machine::Machine| {
            let evidence = LimitEvidence::default();
            credits(&Question { machine, case: &case, metric: "rate", samples: &samples, evidence }, &full)
        };
        assert!(of(&machine).is_none());
        machine.virtualisation.instance = Some("t2.micro".to_owned());
        machine.virtualisation.system_vendor = Some("Xen".to_owned());
        let limit = of(&machine).unwrap();
        assert_eq!(limit.per_sample, [48e9, 48e9, 4.8e9, 4.8e9]);
        let describe = limit.reason.unwrap();
        assert!(describe.contains("144 credits") && describe.contains("10.0 %"), "{describe}");
    }
}
