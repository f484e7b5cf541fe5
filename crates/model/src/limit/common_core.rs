//! Limits of a guest's CPUs that shared a core before the run: the host may have moved them since.

use plimsoll_machine::CpuSet;

use super::{Limit, LimitSource, Question};
use crate::place::cpus_of_case;

/// Returns what `derived` returns. If CPUs of the case were measured before the run to share a core
/// that is hidden, returns two limits: for the shared core and for separate cores.
pub fn limits_by_core_sharing<E>(
    question: &Question<'_>,
    derived: impl Fn(&Question<'_>) -> Result<Limit, E>,
) -> Result<Vec<Limit>, E> {
    let together = derived(question)?;
    let cpus: CpuSet = cpus_of_case(question.machine, question.case).into_iter().collect();
    let shared = question.machine.cpu.hidden_among(&cpus);
    if shared.is_empty() {
        return Ok(vec![together]);
    }
    let mut machine = question.machine.clone();
    machine.cpu.hidden_siblings.clear();
    let separate_cores = derived(&Question { machine: &machine, ..*question }).ok();
    if separate_cores.as_ref().is_some_and(|separate_cores| separate_cores.value == together.value) {
        return Ok(separate_cores.into_iter().collect());
    }
    let named: Vec<String> = shared.iter().map(ToString::to_string).collect();
    let named = named.join("; ");
    let [each, group] = if shared.len() == 1 { ["", ""] } else { [" for each group", "each group of "] };
    let why = format!(
        "CPUs {named} count as one core{each}: they shared it before the run, and the hypervisor hides that"
    );
    let times = separate_cores.as_ref().and_then(|separate| Some(separate.value? / together.value?));
    let core = format!("one core for {group}CPUs {named}");
    let together = Limit { source: LimitSource::Inferred, ..together }.because(why);
    let together = together.resting_on_placement(core, times.unwrap_or(f64::INFINITY));
    Ok([together].into_iter().chain(separate_cores).collect())
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::{Machine, Root};

    use super::*;
    use crate::case::Case;
    use crate::limit::{LimitEvidence, LimitKind};

    fn of(hidden: &[&str]) -> Vec<Limit> {
        let mut machine = Machine::discover(&Root::at("/nonexistent"));
        machine.cpu.allowed = "0-3".parse().expect("CPUs");
        machine.cpu.hidden_siblings = hidden.iter().map(|cpus| cpus.parse().expect("CPUs")).collect();
        let case = Case::of("cpu.peak").with_count("threads", 4);
        let (machine, case, evidence) = (&machine, &case, LimitEvidence::default());
        let question = Question { machine, case, metric: "rate", samples: &[], evidence };
        let derived = |question: &Question<'_>| -> Result<Limit, ()> {
            let pairs = question.machine.cpu.hidden_siblings.len() as f64;
            Ok(Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, 4.0 - pairs, "cores", Vec::new()))
        };
        limits_by_core_sharing(&question, derived).expect("limits")
    }

    #[test]
    fn groups_that_shared_a_core_are_named_with_what_there_is_once_they_have_moved() {
        assert_eq!(of(&[]).len(), 1);
        for (hidden, words, times) in [
            (vec!["0-1"], "CPUs 0-1 count as one core: they", 4.0 / 3.0),
            (vec!["0-1", "2-3"], "CPUs 0-1; 2-3 count as one core for each group: they", 2.0),
        ] {
            let [together, separate_cores]: [Limit; 2] = of(&hidden).try_into().expect("two limits");
            assert!(together.reason.as_ref().is_some_and(|why| why.starts_with(words)), "{together:?}");
            assert_eq!(together.fact.and_then(|fact| fact.changes), Some(times));
            assert_eq!((separate_cores.value, separate_cores.fact), (Some(4.0), None));
        }
    }
}
