//! `plimsoll history`: actions on stored runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::duration;

/// `plimsoll history`.
#[derive(Args, Clone, Debug)]
pub struct HistoryCommand {
    /// The directory of the history [default: plimsoll in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "DIR", global = true)]
    pub store: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<HistoryRequest>,
}

impl HistoryCommand {
    /// Returns the action; [`HistoryRequest::List`] by default.
    pub fn asked(&self) -> HistoryRequest {
        self.what.clone().unwrap_or(HistoryRequest::List)
    }
}

/// `plimsoll import`: the same as `plimsoll history import`.
#[derive(Args, Clone, Debug)]
pub(super) struct Import {
    /// Run documents as --json or export wrote them, or pages that hold some
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The directory of the history
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
    /// Print a stored run, or figures over time: 'memory.*'
    Show {
        /// A run (its id, the beginning of it, last, last~1, a tag), a benchmark (memory,
        /// network.tcp) or a glob on case ids
        #[arg(value_name = "RUN|CASES")]
        what: String,
        /// Figures of runs that began so long ago at most
        #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
        since: Option<Duration>,
        /// Of this metric [default: the headline]
        #[arg(long, value_name = "NAME")]
        metric: Option<String>,
        /// Of this machine: its name or fingerprint
        #[arg(long, value_name = "MACHINE")]
        machine: Option<String>,
    },
    /// Give a run a tag, such as before-upgrade
    ///
    /// More than one run may bear it: compare and report then take them all.
    Tag {
        /// The run
        #[arg(value_name = "RUN")]
        run: String,
        /// Letters, digits, '.', '_' and '-', the first a letter
        #[arg(value_name = "TAG", value_parser = tag)]
        tag: String,
        /// Take it away instead
        #[arg(long)]
        remove: bool,
    },
    /// Write a note for a run
    Note {
        /// The run
        #[arg(value_name = "RUN")]
        run: String,
        /// At most 2000 characters; empty removes it
        #[arg(value_name = "TEXT", value_parser = note)]
        text: String,
    },
    /// Accept a lasting change: baselines begin with the first run at the level of this one
    ///
    /// Until then, runs since a lasting loss are in no baseline:lastN, and compare --fail-on fails.
    /// The first run of the level gets the tag 'accepted'; 'history tag RUN accepted --remove'
    /// takes it back.
    Accept {
        /// A run at the new level: its id, the beginning of it, last, last~1
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Delete runs, with their tags and notes
    Delete {
        /// A run (its id, the beginning of it, last, last~1) or a tag: all runs that bear it
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
    },
    /// Delete old runs, with their tags and notes
    Prune {
        /// Runs that began longer ago than this, such as 1y, 90d
        #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
        older: Duration,
        /// Keep runs that have a tag
        #[arg(long)]
        keep_tagged: bool,
    },
    /// Enter runs from run documents and pages; those that are here already stay as they are
    Import {
        /// As --json or export wrote them, or a page that holds some
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

/// Parses a tag such as `before-update`, which must not look like an id or a file name.
fn tag(text: &str) -> Result<String, String> {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let hex = text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    match first && plain && !hex && text.len() <= 64 && !text.ends_with(".json") && !text.starts_with("last")
    {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "must be a name of your own, of at most 64 letters, digits, '.', '_' and '-', that begins with a letter and is not an id, \
             a file name or 'last': '{}' is not",
            plimsoll_units::text::shown_within(text, 40)
        )),
    }
}

fn note(text: &str) -> Result<String, String> {
    match text.chars().count() <= 2000 {
        true => Ok(text.to_owned()),
        false => Err("must have at most 2000 characters".to_owned()),
    }
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
