//! Causes of lost or excluded time in the samples of a case, each with its own evidence.
//!
//! | cause | evidence |
//! | --- | --- |
//! | throttled | the control group's counter of throttled time |
//! | stolen | steal of `/proc/stat`; slices that took longer although no thread left its CPU |
//! | preempted | threads off their CPUs: switches, gaps of memory laps, run queue (`schedstat`) |
//! | clock changes | probes around a slice differ, its cost fits no clock between; failed probes |
//! | SMT sibling busy | a second common cost of the work; probes without the full vector units |
//! | two rates | a second common cost of the work, although such probes had them |
//! | memory contended | a second common cost of work on caches or memory |

use plimsoll_model::limit::median;
use plimsoll_model::sample::{Conditions, Sample};
use plimsoll_model::warning::{Loss, Warning};
use plimsoll_result::evaluate::over_time;

/// Share of the time above which a cause is reported.
const MIN_CAUSE_SHARE: f64 = 0.05;
/// Share of the work with a second cost above which that cost is reported.
const MIN_SECOND_COST_SHARE: f64 = 0.1;
/// Fewest probes with shared vector units of an SMT sibling, relative to second-cost work.
const SHARED: f64 = 0.25;

/// Returns a warning for each cause that took over 5 % of the time, and one with cause `second`,
/// such as a busy SMT sibling, if over 10 % of the work cost more than usual, at a second common
/// cost. If `crowded` (more threads than CPUs), only throttled and stolen time are reported.
pub(super) fn loss_warnings(samples: &[Sample], second: Loss, crowded: bool) -> Vec<Warning> {
    let usual = |read: &dyn Fn(&Sample) -> Option<f64>| {
        median(samples.iter().filter_map(read).collect()).unwrap_or(0.0)
    };
    let mean = |read: fn(&Conditions) -> Option<f64>| {
        over_time(samples, |c| Some(read(c).unwrap_or(0.0))).unwrap_or(0.0)
    };
    // A short sample is throttled wholly or not at all, so a median shows nothing.
    let throttled = over_time(samples, |c| c.throttled).unwrap_or(0.0);
    let steal = usual(&|s| s.conditions.steal);
    // A thread that a quota stops also waits for its CPU and is switched off it.
    let waited_else = |s: &Sample| Some(s.conditions.waited? - s.conditions.throttled.unwrap_or(0.0));
    let waited = usual(&waited_else);
    let switched = mean(|c| c.excluded_by.switched) - throttled;
    let second_work = mean(|c| c.excluded_by.second_work);
    let shared = over_time(samples, |c| c.vector_units_shared);
    // A busy sibling takes vector units from the probe, too.
    let second = match (second, shared) {
        (Loss::SiblingBusy, Some(shared)) if shared < SHARED * second_work => Loss::TwoRates,
        _ => second,
    };
    let second_work = second_work.max(shared.unwrap_or(0.0));
    // The stolen time seen from within. A tick excludes a slice but takes little of it.
    let gaps = if steal > MIN_CAUSE_SHARE { 0.0 } else { mean(|c| c.excluded_by.taken) };
    let shares = [
        (Loss::Throttled, throttled, MIN_CAUSE_SHARE),
        (Loss::Stolen, steal, MIN_CAUSE_SHARE),
        (Loss::Gaps, gaps, MIN_CAUSE_SHARE),
        (Loss::Preempted, switched.max(waited).max(off_cpu(samples, steal) - throttled), MIN_CAUSE_SHARE),
        (Loss::ClockChanged, mean(|c| c.excluded_by.clock), MIN_CAUSE_SHARE),
        (second, second_work, MIN_SECOND_COST_SHARE),
    ];
    let reported = if crowded { &shares[..2] } else { &shares[..] };
    let notable = reported.iter().filter(|(_, share, least)| share > least);
    notable.map(|(how, share, _)| Warning::Lost { share: *share, how: *how }).collect()
}

/// Returns the share (0 to 1) of the time that threads were off their CPUs, less `steal`. If no
/// cause of excluded time is known, all excluded time counts.
fn off_cpu(samples: &[Sample], steal: f64) -> f64 {
    let reported = over_time(samples, |c| c.excluded_by.off_cpu);
    let excluded = || match samples.iter().any(|sample| sample.conditions.excluded_by.is_known()) {
        true => 0.0,
        false => over_time(samples, |c| c.excluded).unwrap_or(0.0),
    };
    reported.unwrap_or_else(excluded) - steal
}

#[cfg(test)]
mod tests {
    use plimsoll_model::warning::Warn;

    use super::*;

    const SWITCHED: &str = "excluded_switched";
    const CLOCK: &str = "excluded_clock";
    const GAPS: &str = "excluded_gaps";
    const TAKEN: &str = "excluded_gaps_taken";
    const SECOND_WORK: &str = "second_cost_work";
    const WAITED: &str = "waited";
    const SHARED: &str = "vector_units_shared";

    /// Conditions with the given fields (names as in the document).
    fn more(named: &[(&str, f64)]) -> Conditions {
        serde_json::from_value(named.iter().copied().collect()).unwrap()
    }

    fn codes(conditions: Conditions, second: Loss, crowded: bool) -> Vec<String> {
        let sample = Sample { elapsed: 0.1, conditions, ..Sample::default() };
        let reported = loss_warnings(&vec![sample; 5], second, crowded);
        reported.iter().map(|warning| warning.code().to_owned()).collect()
    }

    #[test]
    fn each_cause_is_told_by_its_own_evidence() {
        for (evidence, code) in [
            (more(&[(SWITCHED, 0.2)]), "preempted"),
            (more(&[(WAITED, 0.2)]), "preempted"),
            (Conditions { excluded: Some(0.2), ..Conditions::default() }, "preempted"),
            (more(&[(GAPS, 0.3), (TAKEN, 0.2)]), "stolen"),
            (Conditions { steal: Some(0.2), ..Conditions::default() }, "stolen"),
            (more(&[(CLOCK, 0.2)]), "clock-changed"),
            (more(&[("excluded_second_cost", 0.3), (SECOND_WORK, 0.2)]), "sibling-busy"),
            (Conditions { throttled: Some(0.5), ..more(&[(WAITED, 0.5), (SWITCHED, 0.5)]) }, "throttled"),
        ] {
            assert_eq!(codes(evidence.clone(), Loss::SiblingBusy, false), [code], "{evidence:?}");
        }
        assert_eq!(codes(more(&[(SECOND_WORK, 0.2)]), Loss::MemoryContended, false), ["memory-contended"]);
        let second = |shared| more(&[(SECOND_WORK, 0.2), (SHARED, shared)]);
        assert_eq!(codes(second(0.002), Loss::SiblingBusy, false), ["two-rates"]);
        assert_eq!(codes(second(0.1), Loss::SiblingBusy, false), ["sibling-busy"]);
        assert_eq!(codes(more(&[(SHARED, 0.2)]), Loss::SiblingBusy, false), ["sibling-busy"]);
        assert!(codes(more(&[(SECOND_WORK, 0.05), (CLOCK, 0.04)]), Loss::SiblingBusy, false).is_empty());
    }

    #[test]
    fn a_quota_that_stops_some_of_the_samples_accuses_no_other_work() {
        let stopped = Conditions { throttled: Some(0.7), ..more(&[(WAITED, 0.72), (SWITCHED, 0.71)]) };
        let sample = |conditions| Sample { elapsed: 0.1, conditions, ..Sample::default() };
        let samples =
            [Conditions::default(), stopped.clone(), Conditions::default(), stopped, Conditions::default()];
        let reported = loss_warnings(&samples.map(sample), Loss::MemoryContended, false);
        assert_eq!(reported.iter().map(Warn::code).collect::<Vec<_>>(), ["throttled"]);
    }

    #[test]
    fn laps_are_excluded_whole_and_others_took_only_what_a_thread_was_off_its_cpu() {
        let reported = |off| {
            let conditions = Conditions { excluded: Some(0.2), ..more(&[("excluded_off_cpu", off)]) };
            codes(conditions, Loss::MemoryContended, false)
        };
        assert_eq!((reported(0.01).len(), reported(0.06)), (0, vec!["preempted".to_owned()]));
    }

    #[test]
    fn slices_that_lost_little_of_their_time_accuse_nobody() {
        let reported = |taken| codes(more(&[(GAPS, 0.09), (TAKEN, taken)]), Loss::SiblingBusy, false);
        assert_eq!((reported(0.01).len(), reported(0.06).len()), (0, 1));
    }

    #[test]
    fn threads_that_share_a_cpu_do_not_blame_others() {
        let own = Conditions { excluded: Some(0.6), ..more(&[(WAITED, 0.5), (SWITCHED, 0.6)]) };
        assert!(codes(own.clone(), Loss::SiblingBusy, true).is_empty());
        assert_eq!(codes(Conditions { steal: Some(0.1), ..own }, Loss::SiblingBusy, true), ["stolen"]);
    }

    #[test]
    fn a_clock_that_changed_is_no_reason_to_stop_other_work() {
        let sample = Sample { elapsed: 1.0, conditions: more(&[(CLOCK, 0.12)]), ..Sample::default() };
        let reported = loss_warnings(&[sample], Loss::SiblingBusy, false);
        let text = reported[0].to_string();
        assert!(text.starts_with("clock changes 12.0 %: ") && !text.contains("stop"), "{text}");
    }
}
