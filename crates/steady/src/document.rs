use crate::fingerprint::{FactDifference, Fingerprint};
use crate::judge::{SteadyAnswer, SteadyVerdict};
use crate::level::ProbeLevel;
use crate::results::MarkedFile;
use crate::watch::CommandInterval;
use serde::{Deserialize, Serialize};

/// Identifier of the document's form.
pub const STEADY_SCHEMA: &str = "plimsoll.steady/1";

/// Document of `plimsoll steady`, as `schema/steady.v1.json` defines it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyDocument {
    /// Identifier of its form.
    pub schema: String,
    /// Version of plimsoll.
    pub version: String,
    /// Start of the command, RFC 3339.
    pub started: String,
    /// Command with its arguments, or the name of an observation.
    pub command: Vec<String>,
    /// Answer.
    pub answer: SteadyAnswer,
    /// Answer with its reason.
    pub line: String,
    /// Share of the command's time that was disturbed, 0 to 1.
    pub share: f64,
    /// Key that is equal only on machines whose wall times can be compared.
    pub testbed: String,
    /// Facts of the machine behind the key.
    pub machine: Fingerprint,
    /// Name of the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Facts that differ from the baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<FactDifference>,
    /// Figures of the probe before and after the command.
    pub levels: Vec<ProbeLevel>,
    /// Evidence that this system does not show.
    pub missing: Vec<String>,
    /// CPU time of the observation as a share of one CPU; `None` if unknown.
    pub observer_share: Option<f64>,
    /// Runs of the command.
    pub runs: Vec<ObservedRun>,
    /// Result files of other tools, with the samples that were disturbed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<MarkedFile>,
}

/// File of an observation that a process of its own makes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Observation {
    /// ID of the observing process.
    pub observer: u32,
    /// Start of that process in ticks since boot.
    pub began: Option<u64>,
    /// Verdict so far; its only run is added when the observation ends.
    pub document: SteadyDocument,
}

/// One run of the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedRun {
    /// Start, RFC 3339.
    pub started: String,
    /// Wall time in s.
    pub elapsed_s: f64,
    /// End of the command; `None` for an observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ExitStatusShown>,
    /// Verdict on this run alone.
    #[serde(flatten)]
    pub verdict: SteadyVerdict,
    /// Observed intervals.
    pub intervals: Vec<CommandInterval>,
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitStatusShown {
    /// Exit code.
    Code(i32),
    /// Signal that killed it.
    Signal(i32),
}

impl ExitStatusShown {
    /// Returns the exit code as a shell shows it: 128 + the signal's number if killed.
    pub fn exit_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}
