//! `plimsoll watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, FromArgMatches};
use plimsoll_units::quantity;

use super::disk_and_network::DiskAndNetwork;
use super::mistakes;
use super::values::{duration, precision, within};

/// `plimsoll watch`.
#[derive(Args, Clone, Debug)]
pub struct WatchCommand {
    /// Plan that each probe measures, with one sample per case: a built-in plan or a plan file
    #[arg(value_name = "PLAN", default_value = "watch", value_parser = plan)]
    pub plan: String,
    /// Total time, including stops and reboots, from 10s to 744h
    #[arg(long = "for", value_name = "TIME", default_value = "24h", value_parser = lasting)]
    pub lasts: Duration,
    /// Mean time between probes; each interval is random, from 0.5 to 1.5 times TIME
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = spacing)]
    pub every: Duration,
    /// Measure only cases of the plan whose id begins with NAME as whole words, such as memory
    /// or cpu.peak/op=fma (not cpu.pe), or matches NAME as a glob, such as '*f64*'; NAME,NAME for
    /// several
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// What it also measures.
    #[command(flatten)]
    pub disk_and_network: DiskAndNetwork,
    /// Skip a probe if in the second before it other programs use 0.25 CPUs or more, or wait for
    /// I/O 10 % of the time or more
    #[arg(long)]
    pub idle_only: bool,
    /// Highest share of one CPU that the watch uses, from 0.1%; probes are delayed to stay below it
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share, allow_hyphen_values = true)]
    pub cpu_share: f64,
    /// Most bytes to read and write per day; disk cases that would exceed this are skipped
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = budget)]
    pub disk_a_day: u64,
    /// Most bytes to send and receive per day; network cases that would exceed this are skipped
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = budget)]
    pub network_a_day: u64,
    /// Continue a stopped watch with its plan and options; give --store, --key, --json, --html and
    /// --quiet again
    #[arg(long, conflicts_with_all = ["status", "stop", "plan", "lasts", "every", "only", "dir", "server", "idle_only", "cpu_share", "disk_a_day", "network_a_day"])]
    pub resume: bool,
    /// Print the results so far; the watch goes on
    #[arg(long, conflicts_with_all = ["stop", "plan", "lasts", "every", "only", "dir", "server", "key", "idle_only", "cpu_share", "disk_a_day", "network_a_day", "json", "html"])]
    pub status: bool,
    /// End the watch for good: print its result and store it in the history
    #[arg(long, conflicts_with_all = ["plan", "lasts", "every", "only", "dir", "server", "key", "idle_only", "cpu_share", "disk_a_day", "network_a_day"])]
    pub stop: bool,
    /// Directory of the history to store the result in; the journal of the watch is there, too
    /// [default: $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Write the result as JSON to FILE; - writes it to stdout instead of the table
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write the result with charts to FILE, as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print no progress line
    #[arg(long, short)]
    pub quiet: bool,
}

pub(super) fn parse(matches: &ArgMatches) -> Result<WatchCommand, clap::Error> {
    let typed = WatchCommand::from_arg_matches(matches)?;
    if mistakes::typed(matches, "every") && typed.every > typed.lasts {
        let [every, lasts] = [typed.every, typed.lasts].map(quantity::format_duration);
        let line = format!(
            "--every {every} is longer than --for {lasts}: there would be one probe; shorten --every"
        );
        return Err(clap::Error::raw(ErrorKind::ValueValidation, line));
    }
    Ok(typed)
}

/// Returns the name of a plan. Fails for a time such as `24h`, which belongs to `--for`.
fn plan(text: &str) -> Result<String, String> {
    match duration(text) {
        Ok(_) => Err(format!("must be a plan: '{text}' is a time, which is written as --for {text}")),
        Err(_) => Ok(text.to_owned()),
    }
}

/// Parses a watch's duration such as `24h`: from 10 s, a few probes, to 31 days.
fn lasting(text: &str) -> Result<Duration, String> {
    let sensible = Duration::from_secs(10)..=Duration::from_secs(31 * 24 * 3600);
    within(duration(text)?, sensible, "must be between 10s and 744h (31 days)")
}

fn spacing(text: &str) -> Result<Duration, String> {
    let sensible = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
    within(duration(text)?, sensible, "must be between 1s and 24h")
}

/// Parses a daily budget such as `1G` to bytes, at least 1 MiB: a probe of a disk moves some MiB.
fn budget(text: &str) -> Result<u64, String> {
    let bytes = quantity::parse_size(text).map_err(|e| e.to_string())?;
    within(bytes, 1 << 20..=u64::MAX, "must be at least 1M; leave out --dir or --server to measure none")
}

fn share(text: &str) -> Result<f64, String> {
    within(precision(text)?, 0.001..=1.0, "must be between 0.1% and 100%")
}
