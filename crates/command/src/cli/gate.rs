//! `plimsoll gate`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::disk_and_network::DiskAndNetwork;
use super::values::{precision, whole, within};

/// `plimsoll gate`.
#[derive(Args, Clone, Debug)]
pub struct GateCommand {
    /// How much to measure: 1 (plan gate, up to 15 seconds), 2 (plan quick, up to 2 minutes) or 3
    /// (plan standard, up to 15 minutes)
    #[arg(long, value_name = "1|2|3", default_value_t = 1, value_parser = whole::<u32, 1, 3>)]
    pub level: u32,
    /// Format of the answer on stdout
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: AnswerForm,
    /// Also write the answer to FILE, in the format of --format (JSON if --format is text)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Measure nothing: print what would be measured, and for each threshold its source and the
    /// smallest loss that it detects
    #[arg(long, conflicts_with_all = ["format", "output"])]
    pub explain: bool,
    /// Also measure with all cores loaded at once; only for a machine without other work [default:
    /// one core at a time]
    #[arg(long)]
    pub exclusive: bool,
    /// Compare with the other machines of this kind in FILE, written by plimsoll gather --json;
    /// cases that it lacks, or all if it has fewer than 5 such machines, are compared with the runs
    /// in --store [default: all are]
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
    /// Directory of the history: the gate compares with the earlier runs of this machine in it;
    /// none: compare only with --fleet and limits [default: $XDG_DATA_HOME/plimsoll or
    /// ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR|none")]
    pub store: Option<PathBuf>,
    /// What it also measures.
    #[command(flatten)]
    pub disk_and_network: DiskAndNetwork,
    /// Smallest loss of performance to detect, from 3% to 50% of the usual figure (the median of
    /// --fleet or of earlier runs, else derived from a limit)
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = loss, allow_hyphen_values = true)]
    pub loss: f64,
    /// Highest accepted probability that a gate calls a healthy machine sick, from 1e-9 to 0.1
    #[arg(long, value_name = "SHARE", default_value = "0.0001", value_parser = rate, allow_hyphen_values = true)]
    pub false_alarms: f64,
    /// Exit code if the answer is unknown or the gate could not run, such as 0 in a Slurm prolog
    /// [default: 6 if unknown, 2 to 5 or 130 if it could not run; with --format nagios always 3,
    /// with npd always 2]
    #[arg(long, value_name = "CODE", value_parser = code)]
    pub exit_unknown: Option<u8>,
    /// Print no progress line
    #[arg(long, short)]
    pub quiet: bool,
}

/// Output format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnswerForm {
    /// One line with the answer, and a table of the checks.
    Text,
    /// A JSON document, as schema/gate.v1.json defines it.
    Json,
    /// One line with performance data; exit codes 0, 2 and 3, as Nagios and Icinga expect.
    Nagios,
    /// One line; exit codes 0, 1 and 2, as Node Problem Detector expects.
    Npd,
    /// Gauges for the textfile collector of node_exporter.
    Openmetrics,
}

impl AnswerForm {
    /// Returns this format's exit code for the answer "unknown"; `None` if the format defines none.
    pub fn unknown(self) -> Option<u8> {
        match self {
            Self::Nagios => Some(3),
            Self::Npd => Some(2),
            Self::Text | Self::Json | Self::Openmetrics => None,
        }
    }
}

impl GateCommand {
    /// Returns the longest time that the gate may take at its level: 15 s, 2 min or 15 min.
    pub fn most(&self) -> Duration {
        Duration::from_secs(match self.level {
            1 => 15,
            2 => 120,
            _ => 900,
        })
    }
}

/// Parses `--exit-unknown`, 0 to 255; fails for 1, the code of a sick machine.
fn code(text: &str) -> Result<u8, String> {
    let code = whole::<u8, 0, 255>(text)?;
    (code != 1).then_some(code).ok_or_else(|| "must not be 1, which says sick".to_owned())
}

fn loss(text: &str) -> Result<f64, String> {
    let must = "must be a share from 3% to 50%, such as 10%";
    within(precision(text).map_err(|_| must)?, 0.03..=0.5, must)
}

fn rate(text: &str) -> Result<f64, String> {
    let must = "must be a probability from 1e-9 to 0.1, such as 1e-4";
    within(precision(text).map_err(|_| must)?, 1e-9..=0.1, must)
}

/// Returns the exit code for a command line that cannot be run: `code`, or for `plimsoll gate` its
/// code of "unknown", if it has one, so that a mistyped option does not mean a sick machine.
pub fn exit_code(words: &[OsString], code: u8) -> u8 {
    if words.get(1).is_none_or(|command| command != OsStr::new("gate")) {
        return code;
    }
    let value = |name: &str| {
        let mut values = words.iter().enumerate().filter_map(|(at, word)| {
            let word = word.to_str()?;
            match word.strip_prefix(name)? {
                "" => words.get(at + 1)?.to_str().map(str::to_owned),
                rest => rest.strip_prefix('=').map(str::to_owned),
            }
        });
        values.next_back()
    };
    let unknown = value("--exit-unknown").and_then(|code| code.parse().ok());
    let form = value("--format").and_then(|name| AnswerForm::from_str(&name, false).ok());
    unknown.or(form.and_then(AnswerForm::unknown)).unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> u8 {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        exit_code(&words, 2)
    }

    #[test]
    fn what_cannot_be_gated_is_unknown_in_the_codes_of_who_asks() {
        assert_eq!(code("plimsoll gate --no-such"), 2);
        assert_eq!(code("plimsoll gate --format nagios --no-such"), 3);
        assert_eq!(code("plimsoll gate --format=npd --no-such"), 2);
        assert_eq!(code("plimsoll gate --exit-unknown 0 --no-such --format nagios"), 0);
        assert_eq!(code("plimsoll gate --exit-unknown=7"), 7);
        assert_eq!(code("plimsoll gate --exit-unknown"), 2);
        assert_eq!(code("plimsoll run --exit-unknown 0"), 2);
    }
}
