use plimsoll_model::sample::{FailureCause, Outcome, Sample};
use plimsoll_model::warning::{Note, Warning};
use plimsoll_stats::SamplingOutcome as Ending;

use super::CaseSamples;

const ANY: f64 = 1.0;

/// Joins the outcomes of short runs of one case in order of time; `None` if there are none. Failed
/// runs are skipped unless all failed or an answer was wrong. `cpus` counts usable CPUs.
pub fn together(parts: Vec<Outcome>, cpus: usize) -> Option<Outcome> {
    let last = parts.last()?;
    let is_wrong =
        |part: &&Outcome| part.ended.as_ref().is_some_and(|why| why.cause == FailureCause::WrongAnswer);
    let wrong = parts.iter().find(is_wrong);
    let is_whole = |part: &&Outcome| part.ended.is_none() && part.facts.invalid.is_none();
    let usable: Vec<&Outcome> = parts.iter().filter(is_whole).collect();
    let source = wrong.or(usable.last().copied()).unwrap_or(last);
    let samples: Vec<Sample> = usable.iter().flat_map(|part| part.samples.clone()).collect();
    let mut taken = CaseSamples { samples, facts: source.facts.clone(), ..CaseSamples::default() };
    taken.facts.warnings = warnings(&usable);
    let case = last.case.clone();
    taken.note_energy(plimsoll_bench::headline(&case));
    let second = plimsoll_bench::subsystem_of(&case).second_cost;
    taken.remark(Ending::Fixed, ANY, second, cpus > 0 && case.cpu_wait_share(cpus) > 0.0);
    // A run over time has no option that gives it more samples.
    taken.facts.warnings.retain(|note| note.code() != Warning::FEW_SAMPLES);
    let ended = if usable.is_empty() || wrong.is_some() { source.ended.clone() } else { None };
    let CaseSamples { samples, facts, .. } = taken;
    Some(Outcome { case, repeat: 0, samples, facts, tool_results: Vec::new(), ended })
}

/// Returns the warnings of all outcomes, the last of each code, without those about samples.
fn warnings(parts: &[&Outcome]) -> Vec<Note> {
    let mut reported: Vec<Note> = Vec::new();
    for note in parts.iter().flat_map(|part| &part.facts.warnings) {
        if Warning::is_of_samples(note.code()) {
            continue;
        }
        match reported.iter_mut().find(|known| known.code() == note.code()) {
            Some(known) => known.clone_from(note),
            None => reported.push(note.clone()),
        }
    }
    reported
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use plimsoll_model::sample::{CannotMeasure, Conditions, Facts, WrongAnswer, WrongAnswerSource};

    use super::*;

    fn part(at: f64, steal: f64) -> Outcome {
        let conditions = Conditions { steal: Some(steal), ..Conditions::default() };
        let note = Note { code: "few-samples".to_owned(), text: "no CI".to_owned() };
        let lasting = Note { code: "cpus-moved".to_owned(), text: format!("at {at}") };
        let case = "null/threads=1".parse().unwrap();
        let samples = vec![Sample { at, elapsed: 0.1, conditions, ..Sample::default() }];
        let facts = Facts { warnings: vec![note, lasting], ..Facts::default() };
        Outcome { case, repeat: 0, samples, facts, tool_results: Vec::new(), ended: None }
    }

    fn codes(outcome: &Outcome) -> Vec<String> {
        outcome.facts.warnings.iter().map(|note| note.code().to_owned()).collect()
    }

    #[test]
    fn the_samples_are_joined_and_what_they_show_is_told_of_all() {
        let parts: Vec<Outcome> = (0..6).map(|i| part(f64::from(i), 0.2)).collect();
        let joined = together(parts, 2).unwrap();
        let times: Vec<f64> = joined.samples.iter().map(|sample| sample.at).collect();
        assert_eq!(times, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(codes(&joined), ["cpus-moved", "stolen"]);
        assert_eq!(joined.facts.warnings[0].text, "at 5");
        assert_eq!(codes(&together(vec![part(0.0, 0.0)], 2).unwrap()), ["cpus-moved"]);
        assert_eq!(together(Vec::new(), 2), None);
    }

    #[test]
    fn a_run_that_failed_takes_nothing_from_the_others_and_a_wrong_answer_voids_all() {
        let failed = |ended| Outcome { samples: Vec::new(), ended: Some(ended), ..part(9.0, 0.0) };
        let gone = CannotMeasure::server_failed("gone");
        let joined = together(vec![part(0.0, 0.0), failed(gone.clone()), part(2.0, 0.0)], 2).unwrap();
        assert_eq!((joined.samples.len(), joined.ended), (2, None));
        assert_eq!(together(vec![failed(gone.clone())], 2).unwrap().ended, Some(gone));
        let wrong = CannotMeasure::from(WrongAnswer::new(WrongAnswerSource::Cpu(0), "2 + 2", "5"));
        let joined = together(vec![part(0.0, 0.0), failed(wrong.clone()), part(2.0, 0.0)], 2).unwrap();
        assert_eq!(joined.ended, Some(wrong));
    }
}
