//! `plimsoll steady`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use plimsoll_units::text::shown;

use super::values::whole;

/// `plimsoll steady`.
#[derive(Args, Clone, Debug)]
pub struct SteadyCommand {
    /// Also measure an fsync in DIR, on the disk that the command uses, before and after it
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
    /// Compare this machine with the one of an earlier verdict: last, a NAME of --save, or a FILE
    /// of --output in format json
    #[arg(long, value_name = "NAME|last|FILE")]
    pub baseline: Option<String>,
    /// Store the verdict in the history as NAME, for a later --baseline NAME
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub save: Option<String>,
    /// Instead of running a command, observe in the background the process that called plimsoll (or
    /// that of --below) and all that it starts, until --stop NAME; NAME is any name
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with_all = ["stop", "command", "baseline", "save", "repeat", "fail_unless_steady", "output", "results"])]
    pub start: Option<String>,
    /// End the observation that --start NAME began, and print the verdict on it
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with_all = ["command", "repeat"])]
    pub stop: Option<String>,
    /// With --start: observe the process PID and all that it starts [default: the process that
    /// called plimsoll]
    #[arg(long, value_name = "PID", value_parser = process)]
    pub below: Option<u32>,
    /// Result file that the command wrote, of criterion (also its directory), hyperfine,
    /// pytest-benchmark, google-benchmark, fio or iperf3: report how many of its samples were
    /// disturbed; --output as JSON lists them; may be repeated
    #[arg(long, value_name = "FILE|DIR")]
    pub results: Vec<PathBuf>,
    /// Run the command N times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32, 1, 10_000>)]
    pub repeat: u32,
    /// Exit with code 6 unless the verdict is that the machine held still
    #[arg(long)]
    pub fail_unless_steady: bool,
    /// Format of --output: json, text, bmf (for Bencher) or github (for github-action-benchmark)
    #[arg(long, value_name = "FORMAT", default_value = "json", hide_possible_values = true, requires = "output", value_parser = ["text", "json", "bmf", "github"])]
    pub format: String,
    /// Also write the verdict to FILE, not only to stderr
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Directory of the history that keeps the last verdict and those of --save; none: store no
    /// verdict [default: $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR|none")]
    pub store: Option<PathBuf>,
    /// Print no progress line
    #[arg(long, short)]
    pub quiet: bool,
    /// Command with its arguments; it keeps its own stdin, stdout, stderr, signals and exit code
    #[arg(value_name = "COMMAND", last = true, required_unless_present_any = ["start", "stop"])]
    pub command: Vec<OsString>,
}

/// Parses the number of a process.
fn process(text: &str) -> Result<u32, String> {
    let wrong =
        |_| format!("must be the number of a process, such as $(pgrep -o make): '{}' is not", shown(text));
    whole::<u32, 1, 4_194_304>(text).map_err(wrong)
}

/// Parses the name under which a verdict is stored: letters, digits, `-`, `_` and `.`, not `last`.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = text.chars().all(is_plain) && !text.starts_with('.') && text.len() <= 64;
    match is_name && !text.is_empty() && text != "last" {
        true => Ok(text.to_owned()),
        false => Err("must be at most 64 letters, digits, -, _ or ., and not last".to_owned()),
    }
}
