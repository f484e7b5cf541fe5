//! Why time was lost in the samples of a case, or is excluded from them: each cause with its own evidence.
//!
//! | cause | evidence |
//! | --- | --- |
//! | throttled | the control group's counter of stopped time |
//! | stolen | `/proc/stat`'s steal; slices that took longer although no thread left its CPU |
//! | preempted | threads switched from their CPUs during slices; time in the run queue (`schedstat`) |
//! | clock changed | probes of the clock before and after a slice that differ |
//! | sibling busy, memory shared | a second common cost of the work |

use crate::limit::median;
use crate::measurement::over_time;
use crate::sample::{Sample, UNITS_SHARED, WAITED, excluded};
use crate::warning::{Loss, Warning};

/// Shares of the time from which on a cause is told.
const NOTABLE: f64 = 0.05;
/// The same of the work that had a second cost.
const SECOND: f64 = 0.1;

/// The causes that are worth telling, the nearest to the machine first. Threads that share a CPU (`crowded`) take it from
/// each other, so what is seen of that says nothing.
pub(super) fn of(samples: &[Sample], subsystem: &str, crowded: bool) -> Vec<Warning> {
    let usual = |read: &dyn Fn(&Sample) -> Option<f64>| {
        median(samples.iter().filter_map(read).collect()).unwrap_or(0.0)
    };
    let named =
        |name: &str| over_time(samples, |c| Some(c.more.get(name).copied().unwrap_or(0.0))).unwrap_or(0.0);
    // A short sample is stopped wholly or not at all, so that the middle of all says nothing.
    let throttled = over_time(samples, |c| c.throttled).unwrap_or(0.0);
    let steal = usual(&|s| s.conditions.steal);
    // What a quota stops waits for its CPU, too, and is switched from it.
    let waited_else =
        |s: &Sample| Some(s.conditions.more.get(WAITED)? - s.conditions.throttled.unwrap_or(0.0));
    let waited = usual(&waited_else);
    let switched = named(excluded::SWITCHED) - throttled;
    let shares = [
        (Loss::Throttled, throttled, NOTABLE),
        (Loss::Stolen, steal, NOTABLE),
        // The same time, seen from within. A tick of the kernel excludes a whole slice and takes little of it.
        (Loss::Gaps, if steal > NOTABLE { 0.0 } else { named(excluded::TAKEN) }, NOTABLE),
        (Loss::Preempted, switched.max(waited).max(off_cpu(samples, steal) - throttled), NOTABLE),
        (Loss::ClockChanged, named(excluded::CLOCK), NOTABLE),
        (second(subsystem), named(excluded::SECOND_WORK).max(named(UNITS_SHARED)), SECOND),
    ];
    let told = if crowded { &shares[..2] } else { &shares[..] };
    let notable = told.iter().filter(|(_, share, least)| share > least);
    notable.map(|(how, share, _)| Warning::Lost { share: *share, how: *how }).collect()
}

/// What is excluded without a cause of its own: there, a thread was off its CPU. What is stolen looks the same.
fn off_cpu(samples: &[Sample], steal: f64) -> f64 {
    let causes = [excluded::SWITCHED, excluded::CLOCK, excluded::SECOND, excluded::GAPS];
    let told = |sample: &Sample| causes.iter().any(|name| sample.conditions.more.contains_key(*name));
    match samples.iter().any(told) {
        true => 0.0,
        false => over_time(samples, |c| c.set_aside).unwrap_or(0.0) - steal,
    }
}

/// What a second cost means: what is computed depends on who uses the core, what comes from memory on who uses that.
fn second(subsystem: &str) -> Loss {
    if subsystem == "cpu" { Loss::SiblingBusy } else { Loss::MemoryShared }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Conditions;

    fn codes(conditions: Conditions, subsystem: &str, crowded: bool) -> Vec<String> {
        let sample = Sample { elapsed: 0.1, conditions, ..Sample::default() };
        let told = of(&vec![sample; 5], subsystem, crowded);
        told.iter().map(|warning| warning.code().to_owned()).collect()
    }

    fn more(named: &[(&str, f64)]) -> Conditions {
        let more = named.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
        Conditions { more, ..Conditions::default() }
    }

    #[test]
    fn each_cause_is_told_by_its_own_evidence() {
        for (evidence, code) in [
            (more(&[(excluded::SWITCHED, 0.2)]), "preempted"),
            (more(&[(WAITED, 0.2)]), "preempted"),
            (Conditions { set_aside: Some(0.2), ..Conditions::default() }, "preempted"),
            (more(&[(excluded::GAPS, 0.3), (excluded::TAKEN, 0.2)]), "stolen"),
            (Conditions { steal: Some(0.2), ..Conditions::default() }, "stolen"),
            (more(&[(excluded::CLOCK, 0.2)]), "clock-changed"),
            (more(&[(excluded::SECOND, 0.3), (excluded::SECOND_WORK, 0.2)]), "sibling-busy"),
            (
                Conditions { throttled: Some(0.5), ..more(&[(WAITED, 0.5), (excluded::SWITCHED, 0.5)]) },
                "throttled",
            ),
        ] {
            assert_eq!(codes(evidence.clone(), "cpu", false), [code], "{evidence:?}");
        }
        assert_eq!(codes(more(&[(excluded::SECOND_WORK, 0.2)]), "memory", false), ["memory-shared"]);
        assert!(
            codes(more(&[(excluded::SECOND_WORK, 0.05), (excluded::CLOCK, 0.04)]), "cpu", false).is_empty()
        );
    }

    #[test]
    fn a_quota_that_stops_some_of_the_samples_accuses_no_other_work() {
        let stopped =
            Conditions { throttled: Some(0.7), ..more(&[(WAITED, 0.72), (excluded::SWITCHED, 0.71)]) };
        let sample = |conditions| Sample { elapsed: 0.1, conditions, ..Sample::default() };
        let samples =
            [Conditions::default(), stopped.clone(), Conditions::default(), stopped, Conditions::default()];
        let told = of(&samples.map(sample), "memory", false);
        assert_eq!(told.iter().map(Warn::code).collect::<Vec<_>>(), ["throttled"]);
    }

    #[test]
    fn slices_that_lost_little_of_their_time_accuse_nobody() {
        let told = |taken| codes(more(&[(excluded::GAPS, 0.09), (excluded::TAKEN, taken)]), "cpu", false);
        assert_eq!((told(0.01).len(), told(0.06).len()), (0, 1));
    }

    #[test]
    fn threads_that_share_a_cpu_do_not_blame_others() {
        let own = Conditions { set_aside: Some(0.6), ..more(&[(WAITED, 0.5), (excluded::SWITCHED, 0.6)]) };
        assert!(codes(own.clone(), "cpu", true).is_empty());
        assert_eq!(codes(Conditions { steal: Some(0.1), ..own }, "cpu", true), ["stolen"]);
    }

    #[test]
    fn a_clock_that_changed_is_no_reason_to_stop_other_work() {
        let told = of(
            &[Sample { elapsed: 1.0, conditions: more(&[(excluded::CLOCK, 0.12)]), ..Sample::default() }],
            "cpu",
            false,
        );
        let text = told[0].to_string();
        assert!(text.starts_with("clock changed 12.0 %: ") && !text.contains("stop"), "{text}");
    }
}
