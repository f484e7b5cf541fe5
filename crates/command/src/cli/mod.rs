//! The command line as typed. Options of subsystems are derived from the benchmarks' keys.

mod disk_and_network;
mod gate;
mod help;
mod history;
mod hosts;
mod mistakes;
mod order;
pub(crate) mod other_tools;
mod plans;
mod results;
mod serve;
mod steady;
mod values;
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

pub use disk_and_network::DiskAndNetwork;
pub use gate::{AnswerForm, GateCommand, exit_code};
pub use help::rows;
use history::Import;
pub use history::{HistoryCommand, HistoryRequest};
pub use hosts::{Hosts, SLURM};
pub use plans::{PlanWork, built_in_list, built_in_rows};
pub use results::{CheckCommand, Compare, Doctor, Export, Gather, ReportCommand, SiteCommand};
pub use serve::Serve;
pub use steady::SteadyCommand;
use values::{duration, events_file, named_path, named_server, precision, sample_time, scale, seed, whole};
pub use watch::WatchCommand;

use plimsoll_bench::{Consent, Descriptor, RawTarget, benchmarks};
use plimsoll_model::case::{KEYS, Key, ValueKind};
use plimsoll_model::plan::built_in;
use plimsoll_model::plan::file::{MOST_REPEATS, SERVER};
use plimsoll_units::text::shown_within;

/// Requested action.
#[derive(Debug)]
pub enum TypedCommand {
    /// Measure.
    Measure {
        /// Plan or subsystem to measure.
        what: Measurable,
        /// Common options.
        common: Box<Common>,
        /// File with the key of the server.
        key: Option<PathBuf>,
        /// Other machines to measure on, with the options forwarded to each, as typed.
        hosts: Option<(Box<Hosts>, Vec<String>)>,
    },
    /// Print the output of a command on other machines, through a launcher.
    EachHost {
        /// Machines.
        hosts: Box<Hosts>,
        /// Command and options for each machine.
        words: Vec<String>,
        /// Print no progress line
        quiet: bool,
    },
    /// Measure for the launcher that copied this program here.
    /// The path is the directory that the launcher created.
    Hosted(PathBuf),
    /// List, check or print plans.
    Plan(Box<PlanWork>),
    /// Serve network benchmarks.
    Serve(Box<Serve>),
    /// Create a key in a new file; `None` prints it.
    NewKey(Option<PathBuf>),
    /// Print the discovered machine.
    Machine(MachineFlags),
    /// Compare runs.
    Compare(Box<Compare>),
    /// Check results of other tools against a machine's limits.
    Check(Box<CheckCommand>),
    /// Print stored runs, or write them as a page.
    Report(Box<ReportCommand>),
    /// Write a run in a format of other programs.
    Export(Box<Export>),
    /// Join the documents of many machines.
    Gather(Box<Gather>),
    /// Write all runs as pages for a web server.
    Site(Box<SiteCommand>),
    /// Decide whether the machine is healthy.
    Gate(Box<GateCommand>),
    /// Probe the machine for hours or days.
    Watch(Box<WatchCommand>),
    /// Run a command, and judge whether the machine held still.
    Steady(Box<SteadyCommand>),
    /// Check whether the machine is quiet.
    Doctor(Box<Doctor>),
    /// Query or change the history.
    History(Box<HistoryCommand>),
    /// List the reference tools.
    References(ReferenceFlags),
    /// Run another program on given CPUs, and clean up after it.
    Launch(LaunchFlags),
    /// Run as a worker.
    Worker,
    /// Run as the server of a network benchmark.
    PrivateServer,
    /// Observe processes in the background for plimsoll steady.
    Observer(Box<SteadyCommand>),
    /// Write man pages and completions into a directory.
    Generate(PathBuf),
}

/// Default plan.
const DEFAULT_PLAN: &str = "quick";

/// Plan or subsystem to measure.
#[derive(Clone, Debug, PartialEq)]
pub enum Measurable {
    /// A plan, built in or from a file.
    Plan(String),
    /// The plan of the resumed run.
    Kept,
    /// The text of a plan file that a run has stored.
    Text {
        /// Name in errors.
        name: String,
        /// Text.
        text: String,
    },
    /// One subsystem, with its parameters as typed.
    Subsystem {
        /// cpu, memory, disk or network.
        name: String,
        /// Typed values by parameter.
        lists: BTreeMap<String, Vec<String>>,
    },
}

/// Options of all commands that measure.
#[derive(Args, Clone, Debug, Default)]
pub struct Common {
    /// Measure only cases whose id (see --list) begins with NAME as whole words, such as cpu.peak
    /// or cpu.peak/op=fma (not cpu.pe), or matches NAME as a glob, such as '*f64*'; NAME,NAME for
    /// several
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Print the ids of the cases, and exit
    #[arg(long, conflicts_with = "json")]
    pub list: bool,
    /// Show what would be measured and how long it takes, and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Number of threads, or a list such as 1,2,4 to measure each [default: depends on the
    /// benchmark: 1, one per CPU that affinity and CPU quota allow, or both as separate cases;
    /// --list shows which]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub threads: Vec<String>,
    /// Take exactly N samples of each case [default: what the plan sets, or 6 to 30, until
    /// --precision is reached]
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 1_000_000>)]
    pub samples: Option<u32>,
    /// Length of one sample, such as 1s [default: what the plan sets, or 200ms]
    #[arg(long, value_name = "TIME", value_parser = sample_time, allow_hyphen_values = true)]
    pub sample_time: Option<Duration>,
    /// Stop sampling a case when its 95 % confidence interval is within ± this share of the median
    /// [default: what the plan sets, or 1%]
    #[arg(long, value_name = "SHARE", value_parser = precision, conflicts_with = "samples", allow_hyphen_values = true)]
    pub precision: Option<f64>,
    /// Limit the sampling time of the whole run, such as 10m; cases that no longer fit are skipped.
    /// Reference tools, and measurements across several machines of --hosts, take extra time
    /// [default: what the plan sets, or no limit]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub budget: Option<Duration>,
    /// Measure all cases N times, each time in a new random order [default: what the plan sets, or
    /// 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, MOST_REPEATS>)]
    pub repeat: Option<u32>,
    /// Multiply the fixed amounts of work (--work, --volume, --count, sizes of test files, the work
    /// of --n) by this factor, such as 0.01; below 1 also shorten the time series of plans
    /// [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    pub scale: Option<f64>,
    /// Continue a run that was interrupted: its id or the first characters of it, or last, if it is
    /// the newest run. plimsoll run --resume RUN takes plan and options from the run; other
    /// commands need the same options again
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// TOML file with your own limits, such as figures of a data sheet (see examples/limits.toml,
    /// examples/limits-vm.toml)
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,
    /// Also run reference tools in the same run: installed (the best installed one for each
    /// metric), all (every installed one that measures it), or names from plimsoll references
    #[arg(long, value_name = "NAME,…|installed|all", value_delimiter = ',')]
    pub against: Vec<String>,
    /// With --against: call a tool's result equivalent to plimsoll's if they differ by at most this
    /// share [default: 3%]
    #[arg(long, value_name = "SHARE", value_parser = precision, allow_hyphen_values = true)]
    pub margin: Option<f64>,
    /// Path of a reference tool that is not in PATH, such as stream=./stream
    #[arg(long = "reference-path", value_name = "NAME=FILE", value_parser = named_path)]
    pub reference_path: Vec<(String, PathBuf)>,
    /// With --against and --server: server of a reference tool that you have started on the host of
    /// --server, such as iperf3=HOST:PORT
    #[arg(long = "reference-server", value_name = "NAME=HOST:PORT", value_parser = named_server)]
    pub reference_server: Vec<(String, String)>,
    /// Exit with code 1 unless CASES METRIC >= VALUE (or <=) holds, such as 'disk.io/* latency <=
    /// 200us'; VALUE may also be 80% of limit, or 95% of baseline (the median of the last 10
    /// runs of the same plan or command)
    #[arg(long, value_name = "EXPR")]
    pub require: Vec<String>,
    /// Seed of all random numbers [default: a new one for each run]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub seed: Option<u64>,
    /// Write the run as JSON to FILE; - writes it to stdout instead of the table
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write the report to FILE as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write progress and samples as JSON lines to FILE; - writes them to stdout instead of the
    /// table
    #[arg(long, value_name = "FILE|-", value_parser = events_file)]
    pub events: Option<PathBuf>,
    /// Directory of the history to store the run in; none: do not store it [default:
    /// $XDG_DATA_HOME/plimsoll or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR|none")]
    pub store: Option<PathBuf>,
    /// Replace host names, addresses, serial numbers, user names and directories in --json and
    /// --html, not in the history
    #[arg(long, conflicts_with = "events")]
    pub redact: bool,
    /// Also print, below each part of the table, the code variants chosen (such as avx512),
    /// percentiles, and the meaning of limits and warnings
    #[arg(long)]
    pub explain: bool,
    /// Print no progress line
    #[arg(long, short)]
    pub quiet: bool,
    /// Print without colours, as with NO_COLOR in the environment
    #[arg(long)]
    pub no_color: bool,
    /// Block device instead of test files: a flag of `plimsoll disk` and `plimsoll run`.
    #[arg(skip)]
    pub target: Option<RawTarget>,
    /// Directory for test files: a flag of `plimsoll disk` and `plimsoll run`.
    #[arg(skip)]
    pub dir: Option<PathBuf>,
    /// The servers that a plan's network cases are measured to: `plimsoll run` alone takes them
    /// here, `plimsoll network` among its parameters.
    #[arg(skip)]
    pub server: Vec<String>,
    /// Whether to ignore options of a job file without a counterpart; for `plimsoll run` alone.
    #[arg(skip)]
    pub ignore_unsupported: bool,
}

/// Directory of a command that measures files, but neither a test file nor a device.
#[derive(Args, Clone, Debug, Default)]
struct DirFlag {
    /// Directory for the small files of os.file; its file system is measured [default: .]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Returns whether a benchmark of the subsystem `name` waits for the device of a directory.
fn takes_directory(name: &str) -> bool {
    let waits = |part: &plimsoll_bench::Subsystem| {
        part.benchmarks.iter().any(|one| one.descriptor().waits_for_a_device)
    };
    plimsoll_bench::subsystem(name).is_some_and(waits)
}

/// Flags of commands that measure a disk. No plan file can give them.
#[derive(Args, Clone, Debug, Default)]
struct DiskFlags {
    /// Directory for test files, on the disk to measure [default: .]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Block device to measure instead of a file in --dir, such as /dev/nvme1n1; only read, unless
    /// --destroy-data-on allows writing
    #[arg(long, value_name = "DEVICE", help_heading = "Devices")]
    target: Option<PathBuf>,
    /// Also write to the device of --target: ALL DATA ON IT IS LOST. The value repeats the device
    /// and adds its serial number from lsblk -o NAME,SERIAL, such as /dev/sdx:S4EWNX0N (no serial
    /// number: its size in bytes). Refused if the device is in use, or holds a file system,
    /// partition table, RAID or LVM
    #[arg(long, value_name = "DEVICE:SERIAL", value_parser = Consent::parse, help_heading = "Devices")]
    destroy_data_on: Option<Consent>,
}

impl DiskFlags {
    /// Sets directory and device of `common`. `--destroy-data-on` alone names no device
    /// ([`mistakes::requirements`]): nothing is written if `--target` is missing or mistyped.
    fn apply(self, common: &mut Common) {
        common.dir = self.dir;
        common.target = self.target.map(|device| RawTarget { device, consent: self.destroy_data_on });
    }
}

const CHECK_EXIT_CODE_HELP: &str =
    "Exit code 1: a result is impossible, or no result of a file can be judged.";

/// End of `plimsoll watch`, for its help.
const WATCHED: &str = "Ctrl-C or another signal stops a watch; --resume continues it, --stop ends it. examples/systemd has a unit for systemd.";

const GATED: &str = "Exit codes: 0 healthy, 1 sick, 6 unknown; 2 to 5 and 130: the gate could not run (--format nagios and npd have their own). \
    Drain a node only on 1: the other codes do not mean a fault of the machine. docs/src/recipes.md has examples for Slurm, Nagios and systemd.";

const STEADY_EXIT_CODES: &str = "Exit code: that of COMMAND; 128 + N if signal N killed it; 127 not found, 126 cannot be run; 2 usage. \
    With --fail-unless-steady 6, whatever COMMAND returned, unless the verdict is held still. \
    Held still: nothing took 5 % of the command's time.";

fn keys_of(subsystem: &str) -> impl Iterator<Item = &'static Key> {
    let benchmarks = plimsoll_bench::subsystem(subsystem).map_or(&[][..], |subsystem| subsystem.benchmarks);
    KEYS.iter().filter(move |key| {
        key.name != "threads" && benchmarks.iter().any(|benchmark| benchmark.keys().contains(&key.name))
    })
}

fn subsystem(name: &'static str) -> Command {
    let all = benchmarks().filter(|b| b.name().starts_with(name));
    let list: Vec<(&str, String)> = all.map(|b| (b.name(), described(b.descriptor()))).collect();
    let part = plimsoll_bench::subsystem(name);
    let about = part.map(|part| part.about).unwrap_or_default();
    let flags = keys_of(name).map(|key| {
        let flag = Arg::new(key.name)
            .long(key.name)
            .help(part.map_or_else(|| key.help.to_owned(), |part| plimsoll_bench::help_of(part, key)))
            .action(ArgAction::Append)
            .help_heading("Parameters (a,b: one case each; benchmarks without the parameter are left out)");
        if key.name == "affinity" {
            return flag.value_name("spread|compact|CPULIST");
        }
        let flag = flag.value_delimiter(',');
        if key.kind == ValueKind::Switch {
            return flag
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("on")
                .value_name("on|off");
        }
        // The value's parser refuses negative values; numbers without a unit reach it.
        let has_unit = !matches!(key.kind, ValueKind::Word | ValueKind::Count);
        flag.value_name("VALUE,…").allow_hyphen_values(has_unit)
    });
    let command = Command::new(name).args(flags).allow_negative_numbers(true);
    let takes_server = keys_of(name).any(|key| key.name == SERVER);
    let command = if takes_server { KeyFlag::augment_args(command) } else { command };
    let command = Common::augment_args(command);
    let command = match plimsoll_bench::uses_test_files(name) {
        true => DiskFlags::augment_args(command),
        false if takes_directory(name) => DirFlag::augment_args(command),
        false => command,
    };
    let takes_threads = part.is_none_or(|part| part.instead_of_threads.is_none());
    let command = command.mut_arg("threads", |threads| match part.is_some_and(|part| part.on_files) {
        true => threads.help("Number of threads, or a list such as 1,2,4 to measure each [default: 1]"),
        false => threads.hide(!takes_threads),
    });
    // Overrides the doc comments of the structs.
    command.about(about).after_help(help::listed("Benchmarks", &list, help::HELP_COLUMNS))
}

/// Returns the description of a benchmark for the list of its command.
fn described(benchmark: &Descriptor) -> String {
    match benchmark.by_default {
        true => benchmark.about.to_owned(),
        false => format!("{} (not by default: --only {})", benchmark.about, benchmark.name),
    }
}

#[derive(Args)]
struct KeyFlag {
    /// File with the key of --server [default: the key in the environment variable PLIMSOLL_KEY]
    #[arg(long, alias = "key-file", value_name = "FILE")]
    key: Option<PathBuf>,
}

#[derive(Args)]
struct RunFlags {
    #[arg(value_name = "PLAN")]
    plan: Option<String>,
    /// Measure the plan's network cases to each of these hosts, where plimsoll serve runs, or to an
    /// iperf3 server, iperf3://HOST[:PORT] [default: over loopback]
    #[arg(long, value_name = "HOST[:PORT],…", value_delimiter = ',')]
    server: Vec<String>,
    #[command(flatten)]
    key: KeyFlag,
    /// Ignore options of a fio job file that plimsoll does not support, and list them in the run
    /// [default: refuse the file]
    #[arg(long)]
    ignore_unsupported: bool,
}

/// `plimsoll machine`.
#[derive(Args, Debug)]
pub struct MachineFlags {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Save a description of the hardware, for a bug report or check --machine, without names,
    /// addresses and serial numbers
    #[arg(long, value_name = "DIR|FILE.tar.gz", conflicts_with = "json")]
    pub save: Option<PathBuf>,
    /// Print the machine that --save wrote to this path [default: this machine]
    #[arg(long, value_name = "DIR|FILE.tar.gz")]
    pub from: Option<PathBuf>,
}

/// `plimsoll references`.
#[derive(Args, Debug)]
pub struct ReferenceFlags {
    /// Path of a reference tool that is not in PATH, such as stream=./stream
    #[arg(long = "reference-path", value_name = "NAME=FILE", value_parser = named_path)]
    pub named: Vec<(String, PathBuf)>,
    /// Print the command that installs missing tools, as far as they are Debian packages
    #[arg(long, conflicts_with_all = ["hosts", "inventory"])]
    pub install: bool,
    /// With --install: run the command, instead of printing it
    #[arg(long)]
    pub yes: bool,
}

/// `plimsoll launch` (hidden).
#[derive(Args, Debug)]
pub struct LaunchFlags {
    /// CPUs, divided by commas; empty leaves the affinity unchanged.
    #[arg(long)]
    pub cpus: String,
    /// Whether to exec the program instead of supervising it.
    #[arg(long = "become")]
    pub becomes: bool,
    /// Program and arguments.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

fn run() -> Command {
    let names = built_in::names().join(", ");
    let help = format!(
        "Plan to measure: {names}, a plan file (FILE.toml) or a fio job file (FILE.fio) [default: quick]"
    );
    let run = RunFlags::augment_args(Command::new("run").allow_negative_numbers(true));
    Hosts::augment_args(DiskFlags::augment_args(Common::augment_args(run)))
        .mut_arg("plan", |plan| plan.help(help))
        .about("Measure a plan: CPU, memory, disk and network [default: quick]")
        .after_help(built_in_list(help::HELP_COLUMNS))
}

/// Returns clap's definition of the whole command line.
pub fn command() -> Command {
    let root = Command::new("plimsoll")
        .about("Measures what a machine can do, and how far each figure is from its limit")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .after_help(help::EXIT_CODES_HELP);
    let doctor = of::<Doctor>("doctor", "Check whether this machine is quiet enough: noise, clocks, rights");
    let references = "List reference tools: what they measure, how to install them";
    let references = of::<ReferenceFlags>("references", references);
    // The added options would overwrite the description.
    let with_hosts = |command: Command| {
        let about = command.get_about().cloned().unwrap_or_default();
        Hosts::augment_args(command).about(about)
    };
    let gate = of::<GateCommand>("gate", "Decide in seconds for a scheduler: healthy, sick or unknown");
    let watch =
        of::<WatchCommand>("watch", "Probe for hours: how steady, the worst hour, what changed and when");
    let steady = of::<SteadyCommand>(
        "steady",
        "Run a command, and report whether other programs, the host or the clock slowed it down",
    );
    let directory =
        Arg::new("directory").value_name("DIR").required(true).value_parser(clap::value_parser!(PathBuf));
    root.subcommand(run()).subcommands(plimsoll_bench::commands().map(subsystem)).subcommands([
        of::<Serve>("serve", "Run the server of network benchmarks, for clients that have the key")
            .allow_negative_numbers(true),
        key(),
        of::<MachineFlags>("machine", "Print the hardware, and each limit with its derivation"),
        with_hosts(references),
        plans::command(),
        of::<HistoryCommand>("history", "List, show, tag, note, import and delete stored runs"),
        of::<ReportCommand>("report", "Print stored runs again, or write them as one HTML page"),
        of::<Export>("export", "Write a stored run for other programs: CSV, Prometheus, JUnit …"),
        of::<Import>("import", "Copy runs from run documents and HTML pages into the history"),
        of::<Gather>("gather", "Join the runs of many machines: which one is slow, and why"),
        of::<SiteCommand>("site", "Write all runs as pages for a web server: trends and changes"),
        of::<Compare>("compare", "Compare runs: which differences are larger than the noise"),
        of::<CheckCommand>("check", "Check results of other tools: which cannot be true, and why")
            .after_help(CHECK_EXIT_CODE_HELP),
        with_hosts(doctor.allow_negative_numbers(true)),
        gate.allow_negative_numbers(true).after_help(GATED),
        watch.allow_negative_numbers(true).after_help(WATCHED),
        steady.after_help(STEADY_EXIT_CODES),
        LaunchFlags::augment_args(Command::new("launch").hide(true)),
        Command::new("worker").hide(true),
        Command::new("private-server").hide(true),
        of::<SteadyCommand>("observer", "").hide(true),
        Command::new("generate")
            .hide(true)
            .about("Write man pages and completions into DIR")
            .arg(directory.clone()),
        Command::new("hosted").hide(true).arg(directory),
    ])
}

/// Returns the command `name` with the options of `A` and the description `about`.
fn of<A: Args>(name: &'static str, about: &'static str) -> Command {
    A::augment_args(Command::new(name)).about(about)
}

fn key() -> Command {
    let file = Arg::new("file")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("New file for the key, readable only by its owner [default: print the key]");
    let new = Command::new("new").about("Make a key, and write it to FILE or print it").arg(file);
    Command::new("key")
        .about("Make a key for serve and network --server")
        .subcommand_required(true)
        .subcommand(new)
}

/// Parses the command line; `command` is [`command`], possibly with more value parsers. The error
/// is the first mistake, or the help or version to print.
pub fn parse(
    command: Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<TypedCommand, clap::Error> {
    let (asked, words) = help::asked(arguments);
    let command = mistakes::accepting_blanks(command);
    let known = command.clone();
    mistakes::slips_of_typing(&known, &words)?;
    let wrong = |error| mistakes::worded(error, &known, &words);
    let matches = help::arranged(command, asked).try_get_matches_from(&words).map_err(wrong)?;
    let typed = matches.subcommand().and_then(|(name, m)| Some((name, m, known.find_subcommand(name)?)));
    let Some((name, m, command)) = typed else {
        return Err(known.clone().error(ErrorKind::MissingSubcommand, "a command is missing"));
    };
    mistakes::requirements(command, m)?;
    mistakes::values_of_other_tools(m)?;
    if ["doctor", "references"].contains(&name)
        && let Some(elsewhere) = hosts::forwarded_command(command, m)?
    {
        return Ok(elsewhere);
    }
    let path = |m: &ArgMatches, id| m.get_one::<PathBuf>(id).cloned();
    Ok(match name {
        "run" => asked_of_run(m, command)?,
        "hosted" => TypedCommand::Hosted(path(m, "directory").unwrap_or_default()),
        "plan" => TypedCommand::Plan(Box::new(plans::parse(m)?)),
        "machine" => TypedCommand::Machine(MachineFlags::from_arg_matches(m)?),
        "history" => TypedCommand::History(Box::new(HistoryCommand::from_arg_matches(m)?)),
        "import" => TypedCommand::History(Box::new(Import::from_arg_matches(m)?.into())),
        "compare" => TypedCommand::Compare(Box::new(Compare::from_arg_matches(m)?)),
        "report" => TypedCommand::Report(Box::new(ReportCommand::from_arg_matches(m)?)),
        "export" => TypedCommand::Export(Box::new(Export::from_arg_matches(m)?)),
        "check" => TypedCommand::Check(Box::new(CheckCommand::from_arg_matches(m)?)),
        "gather" => TypedCommand::Gather(Box::new(Gather::from_arg_matches(m)?)),
        "gate" => TypedCommand::Gate(Box::new(GateCommand::from_arg_matches(m)?)),
        "watch" => TypedCommand::Watch(Box::new(watch::parse(m)?)),
        "steady" => TypedCommand::Steady(Box::new(SteadyCommand::from_arg_matches(m)?)),
        "site" => TypedCommand::Site(Box::new(SiteCommand::from_arg_matches(m)?)),
        "doctor" => TypedCommand::Doctor(Box::new(Doctor::from_arg_matches(m)?)),
        "serve" => TypedCommand::Serve(Box::new(Serve::from_arg_matches(m)?)),
        "key" => TypedCommand::NewKey(m.subcommand_matches("new").and_then(|m| path(m, "file"))),
        "references" => TypedCommand::References(ReferenceFlags::from_arg_matches(m)?),
        "launch" => TypedCommand::Launch(LaunchFlags::from_arg_matches(m)?),
        "worker" => TypedCommand::Worker,
        "private-server" => TypedCommand::PrivateServer,
        "observer" => TypedCommand::Observer(Box::new(SteadyCommand::from_arg_matches(m)?)),
        "generate" => TypedCommand::Generate(path(m, "directory").unwrap_or_default()),
        name => asked_of_subsystem(name, m)?,
    })
}

/// Converts the matches of `plimsoll run` to a measurement on this machine or on `--hosts`.
fn asked_of_run(m: &ArgMatches, command: &Command) -> Result<TypedCommand, clap::Error> {
    let mut common = Common::from_arg_matches(m)?;
    let RunFlags { plan, server, key: KeyFlag { key }, ignore_unsupported } = RunFlags::from_arg_matches(m)?;
    DiskFlags::from_arg_matches(m)?.apply(&mut common);
    (common.server, common.ignore_unsupported) = (server, ignore_unsupported);
    let what = match (plan, &common.resume) {
        (Some(named), _) => Measurable::Plan(named),
        (None, Some(_)) => Measurable::Kept,
        (None, None) => {
            mistakes::plan_as_file(&[("json", &common.json), ("html", &common.html)])?;
            Measurable::Plan(DEFAULT_PLAN.to_owned())
        }
    };
    let hosts = Hosts::from_arg_matches(m)?;
    let hosts = hosts.is_named().then(|| (Box::new(hosts), hosts::forwarded(command, m)));
    Ok(TypedCommand::Measure { what, common: Box::new(common), key, hosts })
}

fn asked_of_subsystem(name: &str, m: &ArgMatches) -> Result<TypedCommand, clap::Error> {
    let lists = keys_of(name).filter_map(|key| {
        let values: Vec<String> = m.get_many::<String>(key.name)?.cloned().collect();
        Some((key.name.to_owned(), values))
    });
    let what = Measurable::Subsystem { name: name.to_owned(), lists: lists.collect() };
    let mut common = Common::from_arg_matches(m)?;
    if plimsoll_bench::uses_test_files(name) {
        DiskFlags::from_arg_matches(m)?.apply(&mut common);
    } else if takes_directory(name) {
        common.dir = DirFlag::from_arg_matches(m)?.dir;
    }
    let key = m.try_get_one::<PathBuf>("key").ok().flatten().cloned();
    Ok(TypedCommand::Measure { what, common: Box::new(common), key, hosts: None })
}

/// Formats an error of `clap` in one line.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let is_message = |l: &&str| !l.starts_with("Usage:") && !l.starts_with("For more information");
    let kept = text.lines().map(str::trim).take_while(is_message).filter(|l| !l.is_empty());
    let line = kept.collect::<Vec<_>>().join("; ");
    shown_within(line.strip_prefix("error: ").unwrap_or(&line), 1000)
}
