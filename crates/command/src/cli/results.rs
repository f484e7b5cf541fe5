//! Commands on results and on the machine: compare, doctor, report, check, gather, site, export.

use std::path::PathBuf;

use clap::Args;

use super::values::whole;

/// `plimsoll compare`.
#[derive(Args, Clone, Debug)]
pub struct Compare {
    /// The reference (before): run id, last~1, tag, file, baseline:lastN or published:NAME
    #[arg(value_name = "A")]
    pub a: String,
    /// The new run (after): likewise
    #[arg(value_name = "B")]
    pub b: String,
    /// More runs, up to 30 in all, each compared with the first and ranked by metric
    #[arg(value_name = "C")]
    pub others: Vec<String>,
    /// Also rank figures per money: the price of each run, or a file with NAME=PRICE on each line
    #[arg(long, value_name = "A=PRICE/h,B=…|FILE", value_delimiter = ',', help_heading = "Ranking")]
    pub price: Vec<String>,
    /// Also print one score: the weighted geometric mean of these benchmarks, each as a share of
    /// the best run
    #[arg(long, value_name = "NAME=WEIGHT,…", value_delimiter = ',', help_heading = "Ranking")]
    pub weights: Vec<String>,
    /// End with exit code 1 on a regression of more than this share, or on a lost figure (see
    /// --missing)
    #[arg(long, value_name = "SHARE", value_parser = loss, allow_hyphen_values = true)]
    pub fail_on: Option<f64>,
    /// Whether a figure that A has and another run lacks (or has invalid) fails --fail-on and
    /// --require
    #[arg(long, value_name = "WHAT", default_value = "fail", value_parser = ["fail", "ignore"])]
    pub missing: String,
    /// Exit code 1 also where noise hides a regression of the --fail-on size
    #[arg(long)]
    pub strict: bool,
    /// End with exit code 1 unless B, and any further run, meets this: 'memory.bandwidth/*
    /// bandwidth >= 80% of limit' (or of baseline, or a figure such as 10 GB/s)
    #[arg(long, value_name = "EXPR")]
    pub require: Vec<String>,
    /// Show every metric, not headlines and changes alone
    #[arg(long)]
    pub all: bool,
    /// How it is printed
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: String,
    /// Also write one HTML file that needs no other; it holds the run documents
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace host names, addresses, serial numbers, user names and directories, and names of
    /// files by numbers
    #[arg(long)]
    pub redact: bool,
    /// The history file
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// `plimsoll doctor`.
#[derive(Args, Clone, Debug)]
pub struct Doctor {
    /// Runs that are compared with each other; 0 measures nothing
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = whole::<0, 100>)]
    pub rounds: u32,
    /// Measure only these benchmarks (memory, network.tcp) or globs on case ids
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Directory for test files [default: .]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep the noise floors in this history file; none: keep them nowhere
    #[arg(long, value_name = "FILE|none")]
    pub store: Option<PathBuf>,
    /// No progress line
    #[arg(long, short)]
    pub quiet: bool,
}

/// `plimsoll report`.
#[derive(Args, Clone, Debug)]
pub struct ReportCommand {
    /// The runs: an id, the beginning of one, last, last~1, a tag, or a file
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// Write one HTML file that needs no other, instead of a table
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// published: the tables of the report that the run's plan replays, with today's figures;
    /// several runs of one plan fill them together, and what more than one has is taken from the
    /// later
    #[arg(long, value_name = "WHICH", value_parser = ["published"])]
    pub tables: Option<String>,
    /// At most 14 short lines for a forum or a pull request: machine, headlines, share of the
    /// limit, checksum of the document
    #[arg(long, conflicts_with_all = ["html", "tables"])]
    pub card: bool,
    /// How --tables are written to stdout
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: String,
    /// Replace host names, addresses, serial numbers, user names and directories
    #[arg(long)]
    pub redact: bool,
    /// The history file
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// `plimsoll check`.
#[derive(Args, Clone, Debug)]
pub struct CheckCommand {
    /// Files that other tools wrote; - is stdin
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The tool that wrote them [default: recognised by their content]
    #[arg(long, value_name = "TOOL")]
    pub format: Option<String>,
    /// The machine that they are of, as `plimsoll machine --save` saved it [default: this one]
    #[arg(long, value_name = "DIR|FILE.tar.gz")]
    pub machine: Option<PathBuf>,
    /// Limits of your own, such as the speed of the link or disk: see examples/limits.toml
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,
    /// Also write what was found as JSON; - is stdout, without the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `plimsoll gather`.
#[derive(Args, Clone, Debug)]
pub struct Gather {
    /// Run documents: files (one may hold many, as a log of several pods does), directories of
    /// .json files, or - for stdin
    #[arg(value_name = "FILE|DIR|-", required = true)]
    pub paths: Vec<PathBuf>,
    /// A file with the names of the machines, one a line: those that are missing are named
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Write the document of all machines; - is stdout
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one HTML file that needs no other
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace host names, addresses, serial numbers, user names and directories
    #[arg(long)]
    pub redact: bool,
}

/// `plimsoll site`.
#[derive(Args, Clone, Debug)]
pub struct SiteCommand {
    /// The directory: a new or empty one, or that of a site, in which only what has changed is
    /// written again
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Replace host names, addresses, serial numbers, user names and directories; leave out tags
    /// and notes
    #[arg(long)]
    pub redact: bool,
    /// The history file
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// `plimsoll export`.
#[derive(Args, Clone, Debug)]
pub struct Export {
    /// The run: an id, the beginning of one, last, last~1, a tag, or a file
    #[arg(value_name = "RUN")]
    pub run: String,
    /// What is written
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub format: String,
    /// Which rows formats of rows have: one for each sample, or one for each reference tool of a
    /// case
    #[arg(long, value_name = "ROWS", default_value = "samples", value_parser = ["samples", "tools"])]
    pub table: String,
    /// Requirements as after a run; a baseline is the last 10 runs before this one. JUnit's
    /// document has them as tests; exit code 1 unless all hold
    #[arg(long, value_name = "EXPR")]
    pub require: Vec<String>,
    /// To this file, replaced whole, instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace host names, addresses, serial numbers, user names and directories
    #[arg(long)]
    pub redact: bool,
    /// The history file
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// Parses a loss, such as `5%`, to a share; it must be above 0 as every measurement has noise.
fn loss(text: &str) -> Result<f64, String> {
    match share(text)? {
        0.0 => Err("must be above 0, such as 5%: every measurement has noise".to_owned()),
        loss => Ok(loss),
    }
}

fn share(text: &str) -> Result<f64, String> {
    plimsoll_units::quantity::parse_share(text).map_err(|e| e.to_string())
}
