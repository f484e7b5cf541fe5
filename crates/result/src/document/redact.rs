//! Redaction of run documents: replaces names of machines, users and directories in all texts,
//! because commands and warnings may repeat names from other fields.

mod names;
mod path;
mod words;

use plimsoll_model::case::Case;
use serde_json::Value as Json;

use self::names::Names;
use super::Run;

impl Run {
    /// Returns the run with host names, addresses, serial numbers, user names and directories
    /// replaced, each by the same text everywhere. Fails if conversion to or from JSON fails.
    pub fn redacted(&self) -> Result<Self, serde_json::Error> {
        let names = Names::of(self);
        let cases: Vec<Case> = self.measurements.iter().map(|m| names.case(&m.case)).collect();
        let mut document: Json = serde_json::from_str(&self.to_json()?)?;
        without_reasons(&mut document);
        names.walk(&mut document, "", false);
        if let Some(measurements) = document.get_mut("measurements").and_then(Json::as_array_mut) {
            for (measurement, case) in measurements.iter_mut().zip(&cases) {
                measurement["case"] = serde_json::to_value(case)?;
            }
        }
        serde_json::from_str(&document.to_string())
    }

    /// Replaces names in `texts` as [`Run::redacted`] replaces them in this run.
    pub fn redact<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) {
        let names = Names::of(self);
        texts.into_iter().for_each(|text| *text = names.string(text));
    }
}

const REASON: &str = "reason redacted";

/// Replaces the reasons for missing nodes in findings: these texts may contain any name.
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
