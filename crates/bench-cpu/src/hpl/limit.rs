//! Limit of `cpu.hpl`: the sum of the FMA limits of the machines.

use super::{MACHINES, MACHINES_PEAK};
use crate::RATE_METRIC;
use plimsoll_bench_api::prelude::*;

pub(super) fn limits(question: &Question<'_>) -> Vec<Limit> {
    if question.metric != RATE_METRIC {
        return Vec::new();
    }
    let condition = |row: &OwnCondition| question.samples.first()?.conditions.more.get(row);
    let (Some(machines), Some(peak)) = (condition(&MACHINES), condition(&MACHINES_PEAK)) else {
        let why = "not every machine has a derived limit of its own: also run cpu.peak with op=fma, type=f64 and all CPUs";
        return vec![Limit::unknown(LimitKind::Ceiling, why)];
    };
    let from = "cpu.peak/op=fma/type=f64 with all CPUs, on each machine";
    let inputs = vec![
        Input::new("machines", machines, "1", "those of the run"),
        Input::new("mean limit", peak / machines, "FLOP/s", from),
    ];
    let limit = Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, peak, "machines × mean limit", inputs);
    vec![limit.passed_by("a machine did more than its own limit, see its cpu.peak")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::limits_of;
    use plimsoll_machine::{Machine, Root};
    use plimsoll_model::sample::{Conditions, Sample};

    #[test]
    fn machines_together_have_the_sum_of_their_limits() {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        let id = "cpu.hpl/n=2000/nb=192/p=1/q=2/threads=2".parse().unwrap();
        let more = [(MACHINES, 2.0), (MACHINES_PEAK, 4e11)].into_iter().collect();
        let known = Sample { conditions: Conditions { more, ..Conditions::default() }, ..Sample::default() };
        let of = |one: &Sample, metric| limits_of(limits, (&machine, &id, metric), std::slice::from_ref(one));
        let limit = &of(&known, "rate")[0];
        let got = (limit.value, limit.source, limit.inputs[1].value);
        assert_eq!(got, (Some(4e11), LimitSource::Derived, 2e11));
        assert_eq!(of(&Sample::default(), "rate")[0].source, LimitSource::Unknown);
        assert!(of(&known, "residual").is_empty());
    }
}
