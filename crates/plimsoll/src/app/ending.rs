//! Exit codes of runs.

use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_model::sample::FailureCause;
use plimsoll_result::document::Run;
use plimsoll_result::finding::WRONG_ANSWER;

use super::prepared::PreparedRun;
use super::{Failure, code, compare, named_runs};
use crate::output::{complain, nothing_measured};

/// Returns a node's exit code: 130 if `interrupted`, 1 for a wrong answer, 5 if the server failed,
/// 4 if a case failed or outputs were lost (not `kept`), 3 if all were refused, else 0.
pub(super) fn node_exit_code(run: &Run, interrupted: bool, kept: bool) -> u8 {
    let all_failed = run.measurements.iter().filter(|m| m.status == Status::Failed);
    let failed = |cause| all_failed.clone().any(|m| m.cause.unwrap_or(FailureCause::Environment) == cause);
    match () {
        () if interrupted => code::INTERRUPTED,
        () if has_wrong_answer(run) => code::VERDICT,
        () if failed(FailureCause::ServerFailed) => code::SERVER_FAILED,
        () if failed(FailureCause::Environment) || !kept => code::ENVIRONMENT,
        () if !run.measurements.is_empty() && run.measurements.iter().all(Measurement::is_refused) => {
            code::REFUSED
        }
        () => 0,
    }
}

pub(super) fn has_wrong_answer(run: &Run) -> bool {
    run.measurements.iter().any(|made| made.cause == Some(FailureCause::WrongAnswer))
        || run.findings.iter().any(|finding| finding.code == WRONG_ANSWER)
}

/// Prints the wrong answers in `runs` to stderr. Returns the exit code: 1 if there are any, else 0.
pub(super) fn report_wrong_answers<'a>(runs: impl IntoIterator<Item = &'a Run> + Clone) -> u8 {
    let all = runs.clone().into_iter().flat_map(|run| &run.measurements);
    let wrong = all.filter_map(|made| Some((&made.node, made.wrong_answer.as_deref()?)));
    wrong.for_each(|(node, wrong)| complain(&format!("{node}: {wrong}")));
    if runs.into_iter().any(has_wrong_answer) { code::VERDICT } else { 0 }
}

/// Returns the exit code of `run` from `own`, those of its nodes: 130 if one is 130; 1 for a wrong
/// answer; 3 (refused) if all are 3; else the highest other code, without any result at least 4.
pub(super) fn run_exit_code(run: &Run, own: &[u8]) -> u8 {
    let refused = !own.is_empty() && own.iter().all(|code| *code == code::REFUSED);
    let worst = own.iter().copied().filter(|code| *code != code::REFUSED).max().unwrap_or(0);
    match nothing_measured(run) {
        _ if has_wrong_answer(run) && worst != code::INTERRUPTED => code::VERDICT,
        None => worst,
        Some(_) if refused => code::REFUSED,
        Some(_) => worst.max(code::ENVIRONMENT),
    }
}

/// Returns `code`, that of `run`, or 1 if it is 0 and a requirement of `prepared` is not met.
/// Checks nothing after an interrupt or refusal. Fails if `code` is 0 and they cannot be checked.
pub(super) fn final_exit_code(code: u8, prepared: &PreparedRun, run: &Run) -> Result<u8, Failure> {
    if matches!(code, code::INTERRUPTED | code::REFUSED) {
        return Ok(code);
    }
    let mut history = named_runs::LazyHistory::new(prepared.store.as_deref());
    let held = compare::check_after_run(&prepared.requirements, run, &mut history);
    if code == 0 {
        return Ok(if held?.iter().all(|h| h.met) { 0 } else { code::VERDICT });
    }
    held.err().iter().for_each(|failure| complain(&failure.line));
    Ok(code)
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    fn stopped(id: &str, status: Status, cause: FailureCause, reason: &str) -> Measurement {
        let mut made = fixture::cpu("f64", 1, 1.0, 2.0);
        made.case = id.parse().unwrap();
        (made.status, made.cause, made.reason) = (status, Some(cause), Some(reason.to_owned()));
        made.metrics.clear();
        made
    }

    #[test]
    fn a_run_without_a_figure_says_why_and_is_no_success() {
        let skipped = |id| stopped(id, Status::Skipped, FailureCause::NotHere, "no such device");
        let refused = |id| stopped(id, Status::Skipped, FailureCause::Unsafe, "in use");
        let failed = |id| stopped(id, Status::Failed, FailureCause::ServerFailed, "gone");
        let ok = fixture::cpu("f64", 1, 1.0, 2.0);
        let mut invalid = ok.clone();
        invalid.status = Status::Invalid;
        let end = |all: Vec<Measurement>| {
            let run = fixture::run_of(all);
            (run_exit_code(&run, &[node_exit_code(&run, false, true)]), nothing_measured(&run))
        };
        let (code, why) = end(vec![skipped("null/threads=1"), skipped("null/threads=2")]);
        let said = "nothing was measured: 2 cases skipped: no such device";
        assert_eq!((code, why.as_deref()), (4, Some(said)));
        assert_eq!(end(vec![refused("null/threads=1"), refused("null/threads=2")]).0, 3);
        let (code, why) = end(vec![refused("null/threads=1"), skipped("null/threads=2")]);
        assert_eq!((code, why.unwrap().matches("1 case skipped").count()), (4, 2));
        assert_eq!(end(vec![failed("null"), skipped("null/threads=2")]).0, 5);
        let (code, why) = end(Vec::new());
        assert!(code == 4 && why.unwrap().contains("no case"));
        for figure in [ok, invalid] {
            assert_eq!(end(vec![skipped("null/threads=2"), figure]), (0, None));
        }
    }

    #[test]
    fn a_wrong_answer_is_a_verdict_also_if_nothing_was_measured() {
        let wrong = || stopped("null", Status::Failed, FailureCause::WrongAnswer, "9 instead of 8");
        let gone = stopped("null/threads=2", Status::Failed, FailureCause::ServerFailed, "gone");
        for all in [vec![wrong()], vec![wrong(), gone], vec![wrong(), fixture::cpu("f64", 1, 1.0, 2.0)]] {
            let run = fixture::run_of(all);
            assert_eq!(run_exit_code(&run, &[node_exit_code(&run, false, true)]), 1);
            assert_eq!(run_exit_code(&run, &[node_exit_code(&run, true, true)]), 130);
        }
    }

    #[test]
    fn what_one_machine_lacks_another_may_have_measured() {
        let some = fixture::run();
        assert_eq!(run_exit_code(&some, &[0, 3, 0]), 0, "one machine of three refused");
        assert_eq!(run_exit_code(&some, &[0, 5, 4]), 5);
        let none = fixture::run_of(vec![stopped("null", Status::Skipped, FailureCause::NotHere, "not here")]);
        assert_eq!(run_exit_code(&none, &[3, 3]), 3);
        assert_eq!(run_exit_code(&none, &[0, 3]), 4);
        assert_eq!(run_exit_code(&none, &[0, 130]), 130);
    }
}
