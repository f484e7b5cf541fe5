//! `plimsoll history`: actions on stored runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use plimsoll_units::text::shown_within;

use super::values::{duration, within};

/// `plimsoll history`.
#[derive(Args, Clone, Debug)]
pub struct HistoryCommand {
    /// Directory of the history [default: $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR", global = true)]
    pub store: Option<PathBuf>,
    /// Requested action; [`HistoryRequest::List`] by default.
    #[command(subcommand)]
    pub what: Option<HistoryRequest>,
}

/// `plimsoll import`: the same as `plimsoll history import`.
#[derive(Args, Clone, Debug)]
pub(super) struct Import {
    /// Run documents, as --json or plimsoll export writes them, or HTML pages of plimsoll
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Directory of the history [default: $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

impl From<Import> for HistoryCommand {
    fn from(import: Import) -> Self {
        Self { store: import.store, what: Some(HistoryRequest::Import { files: import.files }) }
    }
}

/// Action on the history.
#[derive(Clone, Debug, Subcommand)]
pub enum HistoryRequest {
    /// List the runs (the default)
    List,
    /// Print a stored run, or the results of a benchmark over time
    Show {
        /// Run to print (id or its first characters, last, last~1 for the one before, or tag), or
        /// benchmark to show over time (memory, network.tcp, or a glob on case ids such as
        /// 'memory.*')
        #[arg(value_name = "RUN|CASES")]
        what: String,
        /// With a run: also print the code variants chosen (such as avx512), percentiles, and the
        /// meaning of limits and warnings
        #[arg(long, conflicts_with_all = ["since", "metric", "machine"])]
        explain: bool,
        /// With a benchmark: use only runs that began at most this long ago, such as 30d
        #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
        since: Option<Duration>,
        /// With a benchmark: show this metric, such as latency [default: the main one]
        #[arg(long, value_name = "NAME")]
        metric: Option<String>,
        /// With a benchmark: use only runs of the machine with this name or id [default: all
        /// machines]
        #[arg(long, value_name = "MACHINE")]
        machine: Option<String>,
    },
    /// Give a run a tag, such as before-upgrade
    ///
    /// Several runs may have the same tag: compare and report then use all of them.
    Tag {
        /// Run to tag: its id or the first characters of it, last, or last~1 (the one before)
        #[arg(value_name = "RUN")]
        run: String,
        /// Tag: at most 64 letters, digits, '.', '_' and '-', beginning with a letter
        #[arg(value_name = "TAG", value_parser = tag)]
        tag: String,
        /// Remove the tag from the run, instead of adding it
        #[arg(long)]
        remove: bool,
    },
    /// Write a note on a run
    Note {
        /// Run to annotate: its id or the first characters of it, last, or last~1 (the one before)
        #[arg(value_name = "RUN")]
        run: String,
        /// Text of the note, at most 2000 characters; '' removes the note
        #[arg(value_name = "TEXT", value_parser = note)]
        text: String,
    },
    /// Accept a lasting change of the results as the new normal level
    ///
    /// Baselines (baseline:lastN) then begin with the first run at the new level, which gets the
    /// tag 'accepted'. Without it, they leave out all runs after a lasting loss, and compare
    /// --fail-on keeps failing. To undo, type 'plimsoll history tag RUN accepted --remove'.
    Accept {
        /// Any run made after the change: its id or the start of it, last, or last~1 (the one
        /// before)
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Delete runs, with their tags and notes
    Delete {
        /// Runs to delete: an id or its first characters, last, last~1 (the one before), or a tag
        /// (all runs that have it)
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
    },
    /// Delete old runs, with their tags and notes
    Prune {
        /// Delete runs that began longer ago than this, such as 90d or 1y
        #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
        older: Duration,
        /// Keep old runs that have a tag [default: delete them too]
        #[arg(long)]
        keep_tagged: bool,
    },
    /// Copy runs from run documents and HTML pages into the history; it keeps runs that it has
    Import {
        /// Run documents, as --json or plimsoll export writes them, or HTML pages of plimsoll
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

/// Parses a tag such as `before-update`, which must not look like an id, a file name or `last`.
fn tag(text: &str) -> Result<String, String> {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let hex = text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    match first && plain && !hex && text.len() <= 64 && !text.ends_with(".json") && !text.starts_with("last")
    {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "must follow the run and be a name of your own, of at most 64 letters, digits, '.', '_' and '-', that begins with a letter and is not an id, \
             a file name or 'last': '{}' is not",
            shown_within(text, 40)
        )),
    }
}

fn note(text: &str) -> Result<String, String> {
    within(text.chars().count(), 0..=2000, "must have at most 2000 characters").map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_not_taken_for_anything_else() {
        assert!(tag("before-upgrade").is_ok() && tag("v1.2_x").is_ok());
        for wrong in ["", "cafe", "last", "last~1", "1st", "a b", "../x", "x.json", "é", "019aa5c3"] {
            assert!(tag(wrong).is_err(), "{wrong}");
        }
    }
}
