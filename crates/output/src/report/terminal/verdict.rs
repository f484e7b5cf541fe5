//! Verdict of a run: what disturbed it and what it delivered, or how near its limits it came.

use plimsoll_model::measurement::{LossCause, Measurement, MetricResult, Status};
use plimsoll_model::metric::Better;
use plimsoll_result::document::Run;
use plimsoll_units::quantity::percent;
use plimsoll_units::text::format_count;

use crate::report::row::{GOOD, Grade, HeadlineFigures, MeasurementRow, remedy};
use crate::report::{listed, main_results, subsystems};

/// Share of the measured cases that must be mostly excluded for a run to be too disturbed to judge.
const TOO_BUSY: f64 = 0.5;

#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) grade: Grade,
    pub(crate) text: String,
}

/// Judges a run: if most cases were disturbed, results are missing or much less was delivered than
/// undisturbed, by that; else by the results' shares of their limits. `None` without results.
pub(crate) fn verdict(run: &Run) -> Option<Verdict> {
    let busy = too_busy(run);
    let lost = lost(run, busy.is_some());
    let lacking = busy.or_else(|| delivered(run)).into_iter().chain(lost);
    let poor = listed(lacking, " ").map(|text| Verdict { grade: Grade::Poor, text });
    poor.or_else(|| of_limits(run))
}

fn too_busy(run: &Run) -> Option<String> {
    let measured = run.measurements.iter().filter(|m| !m.metrics.is_empty());
    let disturbed: Vec<&Measurement> = measured.clone().filter(|m| m.is_mostly_excluded()).collect();
    if (disturbed.len() as f64) < TOO_BUSY * measured.count() as f64 {
        return None;
    }
    let causes: Vec<LossCause> = disturbed.iter().filter_map(|m| Some(m.delivered()?.cause)).collect();
    let count = |cause: LossCause| causes.iter().filter(|other| **other == cause).count();
    let most = causes.iter().copied().max_by_key(|cause| count(*cause))?;
    let (name, remedy) = (most.name(), remedy(most));
    let of_all = format_count(run.measurements.len(), "case");
    let others = disturbed.len() - count(most);
    let rest = if others > 0 { format!(", and other causes {others},") } else { String::new() };
    let invalid = disturbed.iter().filter(|m| m.status == Status::Invalid).count();
    let invalid = if invalid > 0 { format!(" ({invalid} of them invalid)") } else { String::new() };
    Some(format!(
        "Too busy to judge: {name} interrupted {} of {of_all}{rest} so often that more than half of the time is excluded{invalid}; {remedy}, and run again.",
        count(most)
    ))
}

/// States delivered and undisturbed value of the first main result with more than 10 % of its time
/// excluded, else of the most disturbed case; `None` if no result lacks that much.
fn delivered(run: &Run) -> Option<String> {
    let share = |measurement: &Measurement| {
        let delivered = measurement.delivered()?;
        let share = delivered.value / delivered.undisturbed;
        Some(if share > 1.0 { 1.0 / share } else { share })
    };
    let lowest = |subsystem: &str| {
        let own = run.measurements.iter().filter(|m| m.case.subsystem() == subsystem);
        let known = own.filter_map(|m| Some((m, share(m)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(measurement, _)| measurement)
    };
    let mut main = main_results(run).into_iter().map(|(_, measurement)| measurement);
    let main = main.find(|measurement| share(measurement).is_some());
    let measurement = main.or_else(|| subsystems(run).into_iter().find_map(lowest))?;
    let MeasurementRow { label, figures, .. } = MeasurementRow::of(measurement);
    let HeadlineFigures { value, delivered, .. } = figures?;
    let delivered = delivered?;
    let got = &delivered.value;
    let head = match measurement.headline()?.better {
        Better::Higher => {
            let share = percent(share(measurement)?, 2);
            format!("This machine delivers {got} ({share}) of the {value} that {label} reaches undisturbed")
        }
        Better::Lower => format!("On this machine, {label} takes {got}, and {value} undisturbed"),
    };
    Some(format!("{head}: {} interrupted it.", measurement.delivered()?.cause.name()))
}

/// Counts the cases without a valid result, if `busy` only those of which little is excluded.
fn lost(run: &Run, busy: bool) -> Option<String> {
    let counted = || run.measurements.iter().filter(|m| !(busy && m.is_mostly_excluded()));
    let of = |status| counted().filter(|m| m.status == status).count();
    let counts = [Status::Invalid, Status::Failed].map(|status| (of(status), status.word()));
    let words = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let words: Vec<String> = words.collect();
    let count: usize = counts.iter().map(|(count, _)| count).sum();
    let all = format_count(run.measurements.len(), "case");
    let is_lost = |m: &&Measurement| matches!(m.status, Status::Invalid | Status::Failed);
    let first = MeasurementRow::of(counted().find(is_lost)?).label;
    let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
    Some(format!("Without a valid result: {count} of {all} ({}): {first}{more}.", words.join(", ")))
}

fn of_limits(run: &Run) -> Option<Verdict> {
    let results = run.measurements.iter().filter(|m| m.headline().is_some());
    let (proofs, judged): (Vec<_>, Vec<_>) = results.partition(|m| plimsoll_bench::proves_cpus(&m.case));
    let all = judged.len();
    if all == 0 && !proofs.is_empty() {
        let text = "Healthy: every answer of every CPU in the run was right.".to_owned();
        return Some(Verdict { grade: Grade::Good, text });
    }
    let share = |m: &Measurement| m.headline().and_then(MetricResult::rated_share);
    let rated: Vec<(&Measurement, f64)> = judged.iter().filter_map(|m| Some((*m, share(m)?))).collect();
    let Some((lowest, least)) = rated.iter().min_by(|a, b| a.1.total_cmp(&b.1)).copied() else {
        let text = "None of the results has a known limit to judge it by.".to_owned();
        return (all > 0).then_some(Verdict { grade: Grade::Unknown, text });
    };
    let good = rated.iter().filter(|(_, share)| *share >= GOOD).count();
    let goal = percent(GOOD, 2);
    let unknown = match all - rated.len() {
        0 => String::new(),
        count => format!("; {count} of {} have no known limit", format_count(all, "result")),
    };
    let worse = run.findings.iter().filter(|finding| finding.is_for_the_worse()).count();
    if good < rated.len() {
        let (label, least) = (MeasurementRow::of(lowest).label, percent(least, 3));
        let results = format_count(rated.len(), "result");
        let reached = format!("{good} of {results} with a known limit reach {goal} of it");
        let text = format!("{reached}; the lowest, {label}, {least}{unknown}.");
        return Some(Verdict { grade: Grade::Fair, text });
    }
    let reached = format!("reached to {goal} or more{unknown}.");
    let text = match worse {
        0 if unknown.is_empty() => format!("Healthy: every result reaches {goal} of its limit or more."),
        0 => format!("Healthy as far as limits are known: all {good} are {reached}"),
        n => {
            let findings = format_count(n, "finding");
            format!("{findings} for the worse; limits that are known are {reached}")
        }
    };
    Some(Verdict { grade: if worse > 0 { Grade::Fair } else { Grade::Good }, text })
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;
    use plimsoll_units::quantity::Unit;

    use super::*;

    fn judged(run: &Run) -> (Grade, String) {
        let Verdict { grade, text } = verdict(run).unwrap();
        (grade, text)
    }

    #[test]
    fn only_results_near_known_limits_are_healthy() {
        let near = fixture::cpu("f64", 2, 117.4e9, 118e9);
        let far = fixture::cpu("f32", 2, 100e9, 236e9);
        let unknown = fixture::measured("memory.latency/size=1G", "latency", Unit::Second, 1e-7);
        assert_eq!(judged(&fixture::run_of(vec![near.clone()])).0, Grade::Good);
        let proof = fixture::measured("cpu.integrity/count=100/threads=1", "answers", Unit::One, 1e6);
        assert_eq!(judged(&fixture::run_of(vec![proof.clone()])).0, Grade::Good);
        let both = judged(&fixture::run_of(vec![proof, near.clone()]));
        assert_eq!(both, judged(&fixture::run_of(vec![near.clone()])), "a proof has no limit to reach");
        let (grade, text) = judged(&fixture::run_of(vec![near.clone(), far]));
        assert!(grade == Grade::Fair && text.contains("1 of 2 results") && text.contains("42.4 %"), "{text}");
        let (grade, text) = judged(&fixture::run_of(vec![near, unknown.clone()]));
        assert!(grade == Grade::Good && text.contains("1 of 2 results have no known limit"), "{text}");
        assert_eq!(judged(&fixture::run_of(vec![unknown])).0, Grade::Unknown);
        assert!(verdict(&fixture::run_of(Vec::new())).is_none());
    }

    #[test]
    fn a_run_of_which_most_was_excluded_is_not_judged() {
        let mut busy = fixture::cpu("f64", 2, 117.4e9, 118e9);
        (busy.conditions.excluded, busy.conditions.waited) = (Some(0.7), Some(0.7));
        let quiet = fixture::cpu("f32", 2, 235e9, 236e9);
        let (grade, text) = judged(&fixture::run_of(vec![busy.clone(), quiet.clone()]));
        assert!(grade == Grade::Poor && text.starts_with("Too busy to judge: other processes"), "{text}");
        let invalid = Measurement { status: Status::Invalid, ..busy.clone() };
        let (_, text) = judged(&fixture::run_of(vec![busy.clone(), invalid, quiet.clone()]));
        assert!(text.contains("2 of 3 cases so often") && text.contains("(1 of them invalid)"), "{text}");
        assert!(!text.contains("Without a valid result"), "{text}");
        let (_, text) = judged(&fixture::run_of(vec![busy, quiet.clone(), quiet]));
        assert!(text.starts_with("This machine delivers 35.2 GFLOP/s (30 %) of the 117 GFLOP/s"), "{text}");
    }

    #[test]
    fn the_most_frequent_cause_is_named_and_the_others_are_counted() {
        let disturbed = |stolen: f64, waited: f64| {
            let mut one = fixture::cpu("f64", 2, 117.4e9, 118e9);
            one.conditions.excluded = Some(stolen + waited);
            (one.conditions.steal, one.conditions.waited) = (Some(stolen), Some(waited));
            one
        };
        let run = fixture::run_of(vec![disturbed(0.9, 0.0), disturbed(0.0, 0.7), disturbed(0.0, 0.6)]);
        let (_, text) = judged(&run);
        let wanted = ["other processes interrupted 2 of 3 cases", "other causes 1"];
        assert!(wanted.iter().all(|wanted| text.contains(wanted)), "{text}");
    }

    #[test]
    fn failed_and_invalid_cases_are_counted() {
        let (grade, text) = judged(&fixture::run());
        assert!(grade == Grade::Poor && text.contains("2 of 13 cases (1 invalid, 1 failed): "), "{text}");
        assert!(text.ends_with(" and 1 more."), "{text}");
    }
}
