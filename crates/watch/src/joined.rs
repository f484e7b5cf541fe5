use plimsoll_model::case::Case;
use plimsoll_model::sample::{FailureCause, Outcome};
use plimsoll_run::together;

use crate::journal::{JournalContent, ProbedCase};

/// Returns one outcome for each of `cases` that any probe measured; `cpus` counts usable CPUs.
pub fn join_probes(kept: &JournalContent, cases: &[Case], cpus: usize) -> Vec<Outcome> {
    let of = |case: &Case| {
        let probed = kept.probes.iter().flat_map(|probe| &probe.cases).filter(|probed| probed.case == *case);
        together(probed.cloned().map(part).collect(), cpus)
    };
    cases.iter().filter_map(of).collect()
}

fn part(probed: ProbedCase) -> Outcome {
    let ProbedCase { case, mut samples, facts, ended } = probed;
    // A wrong answer voids the earlier samples of all probes.
    if ended.as_ref().is_some_and(|why| why.cause == FailureCause::WrongAnswer) {
        samples.clear();
    }
    Outcome { case, repeat: 0, samples, facts, tool_results: Vec::new(), ended }
}
