//! Floors of the kernel's services, from calls measured with each sample.

use plimsoll_bench_api::prelude::*;
use plimsoll_model::limit::{LimitScope, median};

use crate::LATENCY_METRIC;
use crate::fact::NULL_CALL;

pub(crate) const ENTRY_UNKNOWN: &str = "no maker documents how long a core takes to enter and leave the kernel, and a measured null call \
                                        bounds only calls that do more";

/// Returns as floor the time of `calls` system calls that do nothing (null calls), measured with
/// each sample. `formula` describes it: `2 × null call`.
pub(crate) fn null_calls(question: &Question<'_>, calls: f64, formula: &str) -> Limit {
    let reason = "the null call (getppid) could not be measured with the samples";
    let about = "shortest mean time of 64 calls of getppid(2) without the C library, with the sample";
    per_sample(question, (&NULL_CALL, about), |seconds| calls * seconds, formula, reason)
}

/// Returns as floor `of`(seconds in the condition `row`, described by `about`) of each sample;
/// unknown, with `reason`, if a sample lacks the condition.
pub(crate) fn per_sample(
    question: &Question<'_>,
    (row, about): (&OwnCondition, &str),
    of: impl Fn(f64) -> f64,
    formula: &str,
    reason: &str,
) -> Limit {
    let read = |sample: &Sample| sample.conditions.more.get(row);
    let values: Option<Vec<f64>> = question.samples.iter().map(read).collect();
    let Some((values, typical)) = values.and_then(|values| Some((values.clone(), median(values)?))) else {
        return Limit::unknown(LimitKind::Floor, reason);
    };
    let from = format!("measured with each sample: {about}");
    let inputs = vec![Input::new(row.name, typical, "s", &from)];
    let limit = Limit::fixed(LimitKind::Floor, LimitSource::Derived, of(typical), formula, inputs);
    let scope = Some(LimitScope::Part);
    let passed_by = Some("the machine was slower while the limit was measured");
    Limit { per_sample: values.into_iter().map(of).collect(), scope, passed_by, ..limit }
}

/// Returns ceilings of the operations per second of all threads: threads ÷ each floor of the time
/// of an operation that `limits` returns.
pub(crate) fn rate_ceilings(question: &Question<'_>, limits: fn(&Question<'_>) -> Vec<Limit>) -> Vec<Limit> {
    let threads = question.case.threads() as f64;
    let ceiling = |floor: Limit| Limit {
        kind: LimitKind::Ceiling,
        value: floor.value.map(|seconds| threads / seconds),
        per_sample: floor.per_sample.iter().map(|seconds| threads / seconds).collect(),
        formula: format!("threads ÷ ({})", floor.formula),
        ..floor
    };
    let floors = limits(&Question { metric: LATENCY_METRIC, ..*question });
    floors.into_iter().map(ceiling).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::{Machine, Root};
    use plimsoll_model::case::Case;
    use plimsoll_model::limit::LimitEvidence;

    fn limit_by(samples: &[Sample], limits: impl Fn(&Question<'_>) -> Limit) -> Limit {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        let case = Case::of("os.file").with_count("threads", 2);
        let evidence = LimitEvidence::default();
        limits(&Question { machine: &machine, case: &case, metric: "latency", samples, evidence })
    }

    fn limit_of(samples: &[Sample]) -> Limit {
        limit_by(samples, |question| null_calls(question, 2.0, "2 × null call"))
    }

    fn sample(null_call: Option<f64>) -> Sample {
        let mut sample = Sample::default();
        null_call.into_iter().for_each(|seconds| sample.conditions.more.set(&NULL_CALL, seconds));
        sample
    }

    #[test]
    fn each_sample_has_the_floor_of_its_own_null_call() {
        let limit = limit_of(&[sample(Some(1e-7)), sample(Some(3e-7)), sample(Some(2e-7))]);
        assert_eq!((limit.value, limit.per_sample.len()), (Some(4e-7), 3));
        assert_eq!((limit.kind, limit.scope), (LimitKind::Floor, Some(LimitScope::Part)));
        let unknown = limit_of(&[sample(Some(1e-7)), sample(None)]);
        assert!(unknown.value.is_none() && unknown.reason.unwrap().contains("getppid"));
        assert!(limit_of(&[]).value.is_none());
        let floors = |question: &Question<'_>| vec![null_calls(question, 2.0, "2 × null call")];
        let rate = limit_by(&[sample(Some(1e-7))], |question| rate_ceilings(question, floors).remove(0));
        assert_eq!((rate.value, rate.per_sample[0], rate.kind), (Some(1e7), 1e7, LimitKind::Ceiling));
    }
}
