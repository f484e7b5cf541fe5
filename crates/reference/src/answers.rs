//! Shares output between cases with the same command. Each case takes each output once, so that
//! samples and repeats of a case are separate readings.

use std::cell::RefCell;
use std::collections::BTreeMap;

use plimsoll_model::case::Case;

#[derive(Default)]
pub(super) struct CachedAnswers<A>(RefCell<BTreeMap<Vec<String>, Shared<A>>>);

/// Answers of one command, each with the cases that took it.
type Shared<A> = Vec<(A, Vec<Case>)>;

impl<A: Clone> CachedAnswers<A> {
    /// Returns an earlier output of `command` that `case` has not taken yet, and the case for which
    /// the command ran; `case` has then taken it. `None` if the command must be run.
    pub(super) fn take(&self, command: &[String], case: &Case) -> Option<(A, Option<Case>)> {
        let mut all = self.0.borrow_mut();
        let (answer, cases) = all.get_mut(command)?.iter_mut().find(|(_, cases)| !cases.contains(case))?;
        cases.push(case.clone());
        Some((answer.clone(), cases.first().cloned()))
    }

    /// Stores `answer`, the output of `command` run for `case`, for other cases with this command.
    pub(super) fn keep(&self, command: Vec<String>, case: Case, answer: A) {
        self.0.borrow_mut().entry(command).or_default().push((answer, vec![case]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_takes_each_answer_once_and_its_own_never() {
        let case = |op: &str| Case::of("disk.io").with_word("op", op);
        let (answers, command) = (CachedAnswers::default(), vec!["iozone".to_owned()]);
        assert_eq!(answers.take(&command, &case("read")), None);
        answers.keep(command.clone(), case("read"), 1);
        assert_eq!(answers.take(&command, &case("read")), None, "a repeat is a reading of its own");
        answers.keep(command.clone(), case("read"), 2);
        let taken = || answers.take(&command, &case("write"));
        assert_eq!([taken(), taken()], [Some((1, Some(case("read")))), Some((2, Some(case("read"))))]);
        assert_eq!(taken(), None);
        assert_eq!(answers.take(&["other".to_owned()], &case("write")), None);
    }
}
