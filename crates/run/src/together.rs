//! One outcome of many short runs of a case.

use plimsoll_bench as bench;

use super::Taken;
use crate::sample::{End, Outcome, Sample};
use crate::stats::Outcome as Ending;
use crate::warning::{Note, Warning};

/// The precision that nobody asked for: the spread over time is the result.
const ANY: f64 = 1.0;

/// Joins what short runs made of one case, in the order of time: all samples, what the last of them achieved, every warning once, and
/// those that follow from the samples anew. A run that failed leaves the others as they are, unless all did or an answer was wrong.
/// `cpus` is how many this process may use. `None` of no runs.
pub fn together(parts: Vec<Outcome>, cpus: usize) -> Option<Outcome> {
    let last = parts.last()?;
    let wrong = parts.iter().find(|part| matches!(part.ended, Some(End::Wrong(_))));
    let is_whole = |part: &&Outcome| part.ended.is_none() && part.facts.invalid.is_none();
    let usable: Vec<&Outcome> = parts.iter().filter(is_whole).collect();
    let source = wrong.or(usable.last().copied()).unwrap_or(last);
    let samples: Vec<Sample> = usable.iter().flat_map(|part| part.samples.clone()).collect();
    let mut taken = Taken { samples, facts: source.facts.clone(), ..Taken::default() };
    taken.facts.warnings = warnings(&usable);
    let case = last.case.clone();
    let headline = bench::find(case.benchmark()).and_then(|b| b.metrics(&case).first().copied());
    taken.note_energy(headline);
    let second = bench::subsystem_of(&case).second_cost;
    taken.remark(Ending::Fixed, ANY, second, cpus > 0 && case.crowding(cpus) > 0.0);
    let ended = if usable.is_empty() || wrong.is_some() { source.ended.clone() } else { None };
    let Taken { samples, facts, .. } = taken;
    Some(Outcome { case, repeat: 0, samples, facts, peers: Vec::new(), ended })
}

/// The warnings of all, each code once and as the last one said it, without those that follow from the samples.
fn warnings(parts: &[&Outcome]) -> Vec<Note> {
    let mut told: Vec<Note> = Vec::new();
    for note in parts.iter().flat_map(|part| &part.facts.warnings) {
        if Warning::is_of_samples(note.code()) {
            continue;
        }
        match told.iter_mut().find(|known| known.code() == note.code()) {
            Some(known) => known.clone_from(note),
            None => told.push(note.clone()),
        }
    }
    told
}
