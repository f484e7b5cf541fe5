//! What all probes measured of a case, as one outcome.

use plimsoll_model::case::Case;
use plimsoll_model::sample::{Cause, Outcome};
use plimsoll_run::together;

use crate::journal::{Kept, Probed};

/// An outcome a case, in the order of `cases`; one that no probe reached is left out. `cpus` is how many this process may use.
pub fn joined(kept: &Kept, cases: &[Case], cpus: usize) -> Vec<Outcome> {
    let of = |case: &Case| {
        let parts: Vec<Outcome> = kept
            .probes
            .iter()
            .flat_map(|probe| &probe.cases)
            .filter(|probed| probed.case == *case)
            .map(|probed| part(probed.clone()))
            .collect();
        together(parts, cpus)
    };
    cases.iter().filter_map(of).collect()
}

fn part(probed: Probed) -> Outcome {
    let Probed { case, samples, facts, ended } = probed;
    // A wrong answer voids what was measured until then, in this probe and in all.
    let samples =
        if ended.as_ref().is_some_and(|why| why.cause == Cause::WrongAnswer) { Vec::new() } else { samples };
    Outcome { case, repeat: 0, samples, facts, peers: Vec::new(), ended }
}
