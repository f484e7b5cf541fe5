//! A run document without what names its machine: host names, addresses, serial numbers, users, directories. What was measured
//! stays.
//!
//! Every text of the document is walked, not only the fields that are known to hold such things: a tool's command or a
//! warning may repeat them. Fields that are known tell which names to look for.

mod names;
mod path;
mod words;

use plimsoll_model::case::Case;
use serde_json::Value as Json;

use self::names::Names;
use super::Run;

impl Run {
    /// The same run, with host names, addresses, serial numbers, user names and directories replaced. One name has one
    /// replacement throughout, so that the machines of a cluster and the servers of its cases stay apart.
    ///
    /// # Errors
    /// The document cannot be written as JSON, or a name is one of its own words.
    pub fn redacted(&self) -> Result<Self, serde_json::Error> {
        let names = Names::of(self);
        let cases: Vec<Case> = self.measurements.iter().map(|m| names.case(&m.case)).collect();
        let mut document = serde_json::to_value(self)?;
        without_reasons(&mut document);
        names.walk(&mut document, "");
        if let Some(measurements) = document.get_mut("measurements").and_then(Json::as_array_mut) {
            for (measurement, case) in measurements.iter_mut().zip(&cases) {
                measurement["case"] = serde_json::to_value(case)?;
            }
        }
        serde_json::from_value(document)
    }

    /// Replaces in these texts what [`Run::redacted`] replaces in the run.
    pub fn redact<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) {
        let names = Names::of(self);
        texts.into_iter().for_each(|text| *text = names.string(text));
    }
}

/// What stands for a reason; of a redacted document as well.
const REASON: &str = "reason redacted";

/// Leaves out why a machine is missing: other programs said that, and their words may name anything.
fn without_reasons(document: &mut Json) {
    let findings = document.get_mut("findings").and_then(Json::as_array_mut);
    for finding in findings.into_iter().flatten() {
        if let (Some(text), Some(why)) = (finding["text"].as_str(), finding["evidence"]["why"].as_str()) {
            let text = text.replace(why, REASON);
            finding["text"] = text.into();
            finding["evidence"]["why"] = REASON.into();
        }
    }
}

#[cfg(test)]
mod tests;
