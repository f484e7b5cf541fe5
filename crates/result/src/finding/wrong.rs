//! Wrong answers, with the CPU, file or path that gave them; they precede all other findings.

use plimsoll_model::measurement::Measurement;
use plimsoll_model::sample::WrongAnswer;
use serde_json::json;

use crate::document::Finding;

/// Code of the finding.
pub const WRONG_ANSWER: &str = "wrong-answer";

/// Returns a finding per wrong answer; if `of_several`, its text has the node name.
pub(super) fn find(measurements: &[Measurement], of_several: bool) -> Vec<Finding> {
    let wrong = measurements.iter().filter_map(|made| Some((made, made.wrong_answer.as_deref()?)));
    let finding = |(made, wrong): (&Measurement, &WrongAnswer)| {
        let node = if of_several { format!("{}: ", made.node) } else { String::new() };
        let evidence = json!({ "case": made.case.id().as_str(), "node": made.node, "wrong_answer": wrong });
        Finding::new(WRONG_ANSWER, format!("{node}{wrong}"), evidence)
    };
    wrong.map(finding).collect()
}
