//! Reference tools: what each can say about a case, how it is called for it, and how its answer is read.
//!
//! A tool is one file and one line in [`PEERS`]. Its part is pure: a case goes in and an [`Invocation`] comes out, a
//! text goes in and a [`Reading`] comes out. Finding, running and ending programs is done here once for all of them,
//! and a tool beside a case is a [`crate::bench::Prepared`] like the case itself.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::case::Case;
use crate::machine::Machine;
pub use crate::sample::Match;
use crate::sample::{Achieved, Fact, Offer};

mod account;
mod beside;
mod choice;
mod documents;
pub mod fact;
mod json;
mod other_tools;
mod plausible;
pub mod process;
mod said;
mod search;
pub mod stated;
pub mod supervise;
mod through;
mod tools;
mod version;

use plimsoll_bench as bench;
use plimsoll_machine as machine;
use plimsoll_model::{case, sample, warning};
use plimsoll_system::{leftover, trust};
use plimsoll_units::{quantity, text};

pub use crate::trust::Trust;
pub use account::{Account, Seconds};
pub use beside::{Companion, Companions, Selection, Server as FarServer};
pub use choice::{Against, how_to_get, idle, passed_over, remedy};
pub use documents::read_all;
pub use plausible::impossible;
pub use search::Search;
pub use stated::Stated;
pub use through::Through;
pub use tools::PEERS;

/// A metric of a case that a tool also measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairing {
    /// Name of our metric.
    pub metric: &'static str,
    /// How far the definitions agree.
    pub definition: Match,
    /// Where they differ, or how they were brought together; one phrase.
    pub note: &'static str,
    /// Seconds that one reading takes, roughly: cheaper ones are preferred, and one that takes four times as long is
    /// ended.
    pub seconds: f64,
    /// Pairs that are taken; at least 3 for an interval.
    pub pairs: usize,
}

impl Pairing {
    /// The usual number of pairs.
    pub const PAIRS: usize = 5;
}

/// A further figure of the same metric that a tool gives in the same answer, such as that of another pass over its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// What the tool calls it.
    pub name: &'static str,
    /// How far the definitions agree.
    pub definition: Match,
    /// Where they differ, or how they were brought together; one phrase.
    pub note: &'static str,
}

/// Where a tool comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    /// Debian's main section.
    Debian(&'static str),
    /// Debian's non-free section.
    DebianNonFree(&'static str),
    /// No package: the command that fetches and builds it.
    Source(&'static str),
}

/// What an adapter is asked to call the tool for.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The case.
    pub case: &'a Case,
    /// The machine.
    pub machine: &'a Machine,
    /// What the case has prepared: its CPUs, its file.
    pub offer: &'a Offer,
    /// Seconds that one reading should take, where the tool lets that be chosen.
    pub seconds: f64,
    /// Where the tool's server is.
    pub far: Far<'a>,
}

/// The far end of a tool that needs a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Far<'a> {
    /// On this machine: a server is started on this TCP and UDP port of the loopback interface, free until now.
    Here(u16),
    /// Elsewhere, and listening already.
    There(&'a str, u16),
}

impl Far<'_> {
    /// Its host.
    pub fn host(&self) -> &str {
        match self {
            Far::Here(_) => "127.0.0.1",
            Far::There(host, _) => host,
        }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        match self {
            Far::Here(port) | Far::There(_, port) => *port,
        }
    }

    /// The server, if it is to be started here.
    pub fn served(&self, server: Server) -> Option<Server> {
        matches!(self, Far::Here(_)).then_some(server)
    }
}

/// Where a tool writes its answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Output {
    /// To its standard output.
    #[default]
    Stdout,
    /// To its standard error.
    Stderr,
    /// To this file in its directory.
    File(&'static str),
}

/// A server that must listen before the tool is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Which of the tool's programs.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The TCP port it will listen on; `None`: a UDP port, this one.
    pub listens: Listens,
    /// The CPUs it may use.
    pub cpus: Vec<usize>,
}

/// Where a server is seen to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listens {
    /// A TCP port.
    Tcp(u16),
    /// A UDP port.
    Udp(u16),
}

/// How a tool is called for a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Invocation {
    /// Which of the tool's programs.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Files that it reads, by name in its directory.
    pub files: Vec<(&'static str, String)>,
    /// Added to a clean environment.
    pub environment: Vec<(&'static str, String)>,
    /// What it reads from its standard input.
    pub stdin: Option<String>,
    /// Where it answers.
    pub output: Output,
    /// What must listen before it starts.
    pub server: Option<Server>,
    /// The CPUs it is bound to from outside; empty where it binds its threads itself.
    pub cpus: Vec<usize>,
    /// Processes of it that MPI's launcher starts; up to one is started without it.
    pub processes: usize,
    /// Bytes of files that it makes in its directory.
    pub disk_bytes: u64,
    /// Whether its answer holds for other cases too that call it by the same command: it is then called once for all of
    /// them. For tools that measure several things in one call and take long for it.
    pub answers_others: bool,
}

/// The statistic of a figure that is the best of its repetitions: paired with the best of our samples.
pub const BEST: &str = "best";

/// What a tool said.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// In the unit of our metric, any factor applied.
    pub value: f64,
    /// What it did for that, and in how many seconds.
    pub account: Account,
    /// The same of its further passes, by their names.
    pub passes: BTreeMap<&'static str, (f64, Account)>,
    /// Parameters that it says it used, as text. Those of the case are compared.
    pub achieved: Achieved,
    /// Where it did something else than asked; one phrase each.
    pub differs: Vec<String>,
}

impl Reading {
    /// A figure, if it is one, and what the tool did for it.
    ///
    /// # Errors
    /// What was read instead.
    pub fn of(value: f64, account: Account) -> Result<Self, String> {
        match value {
            v if v.is_finite() && v > 0.0 => Ok(Self {
                value: v,
                account,
                passes: BTreeMap::new(),
                achieved: Achieved::default(),
                differs: Vec::new(),
            }),
            v => Err(format!("it printed {v}, which is not a figure")),
        }
    }

    /// The same, where it is the best of what the tool did and not the mean.
    #[must_use]
    pub fn best(mut self) -> Self {
        self.tell(&fact::STATISTIC, BEST);
        self
    }

    /// Keeps what a tool says of its run.
    pub fn tell(&mut self, fact: &Fact<String>, value: impl ToString) {
        /// Characters of it that are kept.
        const MOST: usize = 200;
        self.achieved.set(fact, text::shown_within(&value.to_string(), MOST));
    }
}

/// What a tool is: all that is known of it before there is a case.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// The name that `--against` takes.
    pub name: &'static str,
    /// What it checks, in a few words.
    pub checks: &'static str,
    /// Its programs, the one that must be there first.
    pub programs: &'static [&'static str],
    /// Directories of its package that are not on PATH.
    pub directories: &'static [&'static str],
    /// Where to get it.
    pub package: Package,
    /// Arguments that make it tell its version; without any it is not asked.
    pub version_arguments: &'static [&'static str],
    /// What stands before its version, then or above its results; empty where it tells none.
    pub version_after: &'static str,
    /// The port that its server usually has, where it needs one at the far end.
    pub port: Option<u16>,
    /// Benchmarks of which the plan must have one before `installed` or `all` takes it; empty: it is always taken. For
    /// tools that take minutes.
    pub only_with: &'static [&'static str],
    /// Part of the name of a library whose exact version is recorded with its figures.
    pub library: Option<&'static str>,
    /// What of its results is read from a file ([`Peer::stated`]), in a few words; `None`: nothing.
    pub results: Option<&'static str>,
}

impl Tool {
    /// What most tools lack.
    const NONE: Self = Self {
        name: "",
        checks: "",
        programs: &[],
        directories: &[],
        package: Package::Source(""),
        version_arguments: &[],
        version_after: "",
        port: None,
        only_with: &[],
        library: None,
        results: None,
    };

    /// The version in what it says: the first word after what stands before it, if it begins with a digit.
    pub fn version(&self, text: &str) -> Option<String> {
        let (_, rest) = text.split_once(Some(self.version_after).filter(|lead| !lead.is_empty())?)?;
        let word = rest.split_whitespace().next()?;
        let version = word.starts_with(|c: char| c.is_ascii_digit());
        version.then(|| word.trim_end_matches([',', ';', ')']).to_owned())
    }
}

/// A reference tool.
pub trait Peer: Sync {
    /// What it is.
    fn tool(&self) -> &'static Tool;

    /// Why it has no counterpart of a case of its subsystem, where there is more to say than that it is another subject.
    fn declines(&self, _: &Case) -> Option<&'static str> {
        None
    }

    /// Which of its parts measures this case, where it runs several benchmarks: it is named with the tool.
    fn part(&self, _: &Case) -> Option<&'static str> {
        None
    }

    /// What else it says of the metric that it is paired with.
    fn passes(&self, _: &Case) -> Vec<Pass> {
        Vec::new()
    }

    /// What its standard error tells of how it ran, where its answer is elsewhere.
    fn aside(&self, _: &str) -> Vec<(Fact<String>, String)> {
        Vec::new()
    }

    /// Whether it writes to the case's test file where it measures this case: it is lent a place for that.
    fn writes(&self, _: &Case) -> bool {
        false
    }

    /// The metric of a case that it measures too; `None` when it does not.
    fn pairing(&self, case: &Case, machine: &Machine) -> Option<Pairing>;

    /// How it is called for the case.
    ///
    /// # Errors
    /// Why it cannot be called for this one, in one line.
    fn invocation(&self, ask: &Ask<'_>) -> Result<Invocation, String>;

    /// Reads its answer.
    ///
    /// # Errors
    /// What is wrong with the text, in one line.
    fn parse(&self, case: &Case, text: &str) -> Result<Reading, String>;

    /// Whether a text is an answer of this tool, whoever called it and for what.
    fn recognises(&self, _: &str) -> bool {
        false
    }

    /// Where its results begin in a text without JSON documents, as byte offsets.
    fn starts(&self, _: &str) -> Vec<usize> {
        Vec::new()
    }

    /// Whether a JSON document belongs to the same result as the document before it, which is from this tool.
    fn continues(&self, _before: &str, _document: &str) -> bool {
        false
    }

    /// Reads such a text with one result: all figures in it.
    ///
    /// # Errors
    /// What is wrong with the text, in one line.
    fn stated(&self, _: &str) -> Result<Stated, String> {
        Err("its results are not read".to_owned())
    }
}

/// The tool of that name.
pub fn find(name: &str) -> Option<&'static dyn Peer> {
    PEERS.iter().copied().find(|p| p.tool().name == name)
}

/// A tool that is installed.
#[derive(Clone)]
pub struct Found {
    /// The tool.
    pub peer: &'static dyn Peer,
    /// Its programs, in the order of [`Tool::programs`]; the first is there.
    pub programs: Vec<Option<PathBuf>>,
}

impl Found {
    /// Looks for a tool.
    ///
    /// # Errors
    /// That it is not installed, or why it is not trusted.
    pub fn look(peer: &'static dyn Peer, search: &Search) -> Result<Self, String> {
        let Tool { name, programs, directories, .. } = peer.tool();
        let (first, rest) = programs.split_first().ok_or("it has no program")?;
        let first = search.find(name, first, directories)?;
        let part = |program: &&str| search.find_part(name, program, directories).ok();
        Ok(Self { peer, programs: std::iter::once(Some(first)).chain(rest.iter().map(part)).collect() })
    }

    /// Path of one of its programs.
    pub fn program(&self, name: &str) -> Option<&Path> {
        let at = self.peer.tool().programs.iter().position(|program| *program == name)?;
        self.programs.get(at)?.as_deref()
    }
}

/// Longest time that a reading may take when it was to take `seconds`.
pub fn patience(seconds: f64) -> Duration {
    Duration::from_secs_f64((seconds * 4.0).clamp(20.0, 1800.0))
}
