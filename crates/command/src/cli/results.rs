//! Commands on results and on the machine: compare, doctor, report, check, gather, site, export.

use std::path::PathBuf;

use clap::Args;
use plimsoll_units::quantity::parse_share;

use super::values::whole;

/// `plimsoll compare`.
#[derive(Args, Clone, Debug)]
pub struct Compare {
    /// First run, the reference: an id or its first characters, last, last~1 (the one before), a
    /// tag, a file, baseline:last10 (the last 10 runs of B's plan) or published:NAME (a published
    /// plan of plimsoll plan list)
    #[arg(value_name = "A")]
    pub a: String,
    /// Second run, compared with the first; named as A is
    #[arg(value_name = "B")]
    pub b: String,
    /// More runs, up to 30 in all: each is compared with A, and all are ranked
    #[arg(value_name = "C")]
    pub others: Vec<String>,
    /// Also rank the runs by performance per price. Every run needs a price, such as
    /// last=0.0416/h,base=0.08/h, or a FILE with RUN=PRICE/h on each line
    #[arg(long, value_name = "RUN=PRICE/h,…|FILE", value_delimiter = ',', help_heading = "Ranking")]
    pub price: Vec<String>,
    /// Also print one score per run: the weighted geometric mean of these benchmarks, such as
    /// cpu.linpack=2,disk.io=1, each relative to the best run
    #[arg(long, value_name = "NAME=WEIGHT,…", value_delimiter = ',', help_heading = "Ranking")]
    pub weights: Vec<String>,
    /// Exit with code 1 if a figure is worse than in A by more than this share, such as 5%, and by
    /// more than the noise, or is missing (see --missing)
    #[arg(long, value_name = "SHARE", value_parser = loss, allow_hyphen_values = true)]
    pub fail_on: Option<f64>,
    /// What to do if a figure of A is missing or invalid in another run: fail (--fail-on and
    /// --require exit with code 1) or ignore
    #[arg(long, value_name = "WHAT", default_value = "fail", value_parser = ["fail", "ignore"])]
    pub missing: String,
    /// With --fail-on: also exit with code 1 if the noise is so large that it could hide such a
    /// loss
    #[arg(long)]
    pub strict: bool,
    /// Exit with code 1 unless CASES METRIC >= VALUE (or <=) holds in B and each further run; VALUE
    /// is such as 10GB/s, 80% of limit or 95% of baseline (the figure of A)
    #[arg(long, value_name = "EXPR")]
    pub require: Vec<String>,
    /// Show all metrics [default: main metrics and changes]
    #[arg(long)]
    pub all: bool,
    /// Format of the comparison on stdout
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: String,
    /// Also write the comparison to FILE as one HTML page, which includes the run documents
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace host names, addresses, serial numbers, user names and directories; runs given as
    /// files are shown as side 1, side 2 …
    #[arg(long)]
    pub redact: bool,
    /// Directory of the history [default: $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
}

/// `plimsoll doctor`.
#[derive(Args, Clone, Debug)]
pub struct Doctor {
    /// Number of times to measure plan quick, to find the noise between runs; 0 measures nothing
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = whole::<u32, 0, 100>)]
    pub rounds: u32,
    /// Measure only cases whose id begins with NAME as whole words, such as memory or
    /// cpu.peak/op=fma (not cpu.pe), or matches NAME as a glob, such as '*f64*'; NAME,NAME for
    /// several
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Directory for test files, on the disk to measure [default: .]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Directory of the history to store the measured noise in, for compare; none: do not store it
    /// [default: $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR|none")]
    pub store: Option<PathBuf>,
    /// Print no progress line
    #[arg(long, short)]
    pub quiet: bool,
}

/// `plimsoll report`.
#[derive(Args, Clone, Debug)]
pub struct ReportCommand {
    /// Runs to print: an id or its first characters, last, last~1 (the one before), a tag, or a
    /// file
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// Write one HTML page to FILE instead of a table to stdout
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// published: print the tables of the published report that the plan of RUN repeats (see
    /// plimsoll plan list), with the figures of RUN; with several runs, the latest figure of each
    /// case
    #[arg(long, value_name = "WHICH", value_parser = ["published"])]
    pub tables: Option<String>,
    /// Print at most 14 short lines for a forum or a pull request: machine, main results with their
    /// share of the limit, checksum of the document
    #[arg(long, conflicts_with_all = ["html", "tables"])]
    pub card: bool,
    /// Also print, below each part of the table, the code variants chosen (such as avx512),
    /// percentiles, and the meaning of limits and warnings
    #[arg(long, conflicts_with_all = ["html", "tables", "card"])]
    pub explain: bool,
    /// With --tables: format of the tables on stdout; plimsoll export writes other ones of a run
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: String,
    /// Replace host names, addresses, serial numbers, user names and directories
    #[arg(long)]
    pub redact: bool,
    /// Directory of the history [default: $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
}

/// `plimsoll check`.
#[derive(Args, Clone, Debug)]
pub struct CheckCommand {
    /// Result files of other tools; - reads stdin
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Tool that wrote the files [default: recognised by their content]
    #[arg(long, value_name = "TOOL")]
    pub format: Option<String>,
    /// Machine that the results come from: a path that plimsoll machine --save wrote on it
    /// [default: this one]
    #[arg(long, value_name = "DIR|FILE.tar.gz")]
    pub machine: Option<PathBuf>,
    /// TOML file with your own limits, such as the speed of the link or disk (see
    /// examples/limits.toml)
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,
    /// Write the verdicts as JSON to FILE; - writes them to stdout instead of the table
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// `plimsoll gather`.
#[derive(Args, Clone, Debug)]
pub struct Gather {
    /// Run documents: files (one may contain several documents), directories of .json files, or -
    /// for stdin
    #[arg(value_name = "FILE|DIR|-", required = true)]
    pub paths: Vec<PathBuf>,
    /// File with the expected machine names, one on each line; a machine without a run document is
    /// reported as missing (exit code 5)
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Write the joined document as JSON to FILE; - writes it to stdout instead of the table
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write the joined results to FILE as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace host names, addresses, serial numbers, user names and directories
    #[arg(long)]
    pub redact: bool,
}

/// `plimsoll site`.
#[derive(Args, Clone, Debug)]
pub struct SiteCommand {
    /// Directory to write the pages to: new, empty, or with an earlier site, whose changed pages
    /// are replaced
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Replace host names, addresses, serial numbers, user names and directories; omit tags and
    /// notes
    #[arg(long)]
    pub redact: bool,
    /// Directory of the history [default: $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
}

/// `plimsoll export`.
#[derive(Args, Clone, Debug)]
pub struct Export {
    /// Run to write: its id or the first characters of it, last, last~1 (the run before), a file,
    /// or a tag (formats otava, otava-config and openmetrics-timed write all its runs, other
    /// formats need a tag of a single run)
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Format to write
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub format: String,
    /// Rows of csv and ndjson: one for each sample, or one for each reference tool of a case
    #[arg(long, value_name = "ROWS", default_value = "samples", value_parser = ["samples", "tools"])]
    pub table: String,
    /// Exit with code 1 unless CASES METRIC >= VALUE (or <=) holds, such as 'disk.io/* latency <=
    /// 200us'; VALUE may also be 80% of limit, or 95% of baseline (the median of the last 10 runs
    /// of its plan).
    /// In junit each case that EXPR names is a test
    #[arg(long, value_name = "EXPR")]
    pub require: Vec<String>,
    /// Write to FILE instead of stdout; an existing FILE is replaced
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace host names, addresses, serial numbers, user names and directories
    #[arg(long)]
    pub redact: bool,
    /// Directory of the history [default: $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
}

/// Parses a loss, such as `5%`, to a share; 0 is refused, as every measurement has noise.
fn loss(text: &str) -> Result<f64, String> {
    match parse_share(text).map_err(|e| e.to_string())? {
        0.0 => Err("must be above 0, such as 5%: every measurement has noise".to_owned()),
        loss => Ok(loss),
    }
}
