//! A tool beside a case: each sample of it is one run of the tool, with its server, files and directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, after, select, tick};

use super::choice::{Choice, chosen};
use super::process::{Launcher, Order, ProcessError, Running, failed};
use super::{Against, Ask, Found, Invocation, Listens, Output, Scratch, Search, Server, patience};
use crate::bench::Prepared;
use crate::case::Case;
use crate::machine::Machine;
use crate::sample::{Amount, Beside, CannotMeasure, Cause, Facts, Offer, Sample, WrongAnswer};
use crate::warning::Warning;

/// Longest time that a server may take until it listens.
const SERVER_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// How often it is looked whether a server listens.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// Largest file of an answer.
const MOST_BYTES: u64 = super::process::OUTPUT_CAP;

/// The tools of a run.
pub struct Companions {
    /// Which were asked for.
    pub against: Against,
    /// Where they are looked for.
    pub search: Search,
    /// How they are started.
    pub launcher: Launcher,
    /// Where their directories are made.
    pub parent: PathBuf,
    /// Seconds that a reading should take, where the tool lets that be chosen.
    pub seconds: f64,
    /// Ends what runs.
    pub interrupts: Receiver<()>,
    versions: BTreeMap<&'static str, Option<String>>,
}

/// A tool that is ready beside a case, or why it is not.
pub struct Companion {
    /// What is told of it.
    pub about: Beside,
    /// Pairs that are to be taken.
    pub pairs: usize,
    /// Its runs, unless it is unavailable.
    pub prepared: Option<Box<dyn Prepared>>,
}

impl Companions {
    /// The tools of a run, none of them looked for yet.
    pub fn new(
        against: Against,
        search: Search,
        launcher: Launcher,
        parent: PathBuf,
        interrupts: Receiver<()>,
    ) -> Self {
        const SECONDS: f64 = 1.0;
        Self { against, search, launcher, parent, seconds: SECONDS, interrupts, versions: BTreeMap::new() }
    }

    /// Those that stand beside this case.
    pub fn beside(&mut self, case: &Case, machine: &Machine, offer: &Offer) -> Vec<Companion> {
        let picked = chosen(&self.against, &self.search, case, machine);
        picked.into_iter().map(|choice| self.companion(case, machine, offer, choice)).collect()
    }

    fn companion(&mut self, case: &Case, machine: &Machine, offer: &Offer, choice: Choice) -> Companion {
        let Choice { pairing, found } = choice;
        let (name, found) = match found {
            Ok(found) => (found.peer.name(), Ok(found)),
            Err(absent) => (absent.name, Err(absent.why)),
        };
        let version = found.as_ref().ok().and_then(|found| self.version(found));
        let prepared = found.and_then(|found| self.prepared(case, machine, offer, &found, pairing.metric));
        let about = Beside {
            name: name.to_owned(),
            version,
            metric: pairing.metric.to_owned(),
            definition: pairing.definition,
            note: pairing.note.to_owned(),
            command: prepared.as_ref().map(Runs::shown_command).unwrap_or_default(),
            pairs: Vec::new(),
            warnings: Vec::new(),
            unavailable: prepared.as_ref().err().cloned(),
        };
        let prepared = prepared.ok().map(|runs| Box::new(runs) as Box<dyn Prepared>);
        Companion { about, pairs: pairing.pairs, prepared }
    }

    fn prepared(
        &self,
        case: &Case,
        machine: &Machine,
        offer: &Offer,
        found: &Found,
        metric: &'static str,
    ) -> Result<Runs, String> {
        let port = free_port().map_err(|e| format!("no free port: {e}"))?;
        let ask = Ask { case, machine, offer, seconds: self.seconds, port };
        let invocation = found.peer.invocation(&ask)?;
        let scratch = Scratch::new(&self.parent).map_err(|e| format!("no private directory: {e}"))?;
        let order = order(found, &invocation, &scratch, self.seconds)?;
        Ok(Runs {
            found: found.clone(),
            case: case.clone(),
            invocation,
            order,
            scratch,
            metric,
            launcher: self.launcher.clone(),
            interrupts: self.interrupts.clone(),
            facts: Facts::default(),
        })
    }

    /// The version of a tool, asked once.
    pub fn version(&mut self, found: &Found) -> Option<String> {
        if let Some(known) = self.versions.get(found.peer.name()) {
            return known.clone();
        }
        let asked = ask_version(found, &self.launcher, &self.parent, &self.interrupts);
        self.versions.insert(found.peer.name(), asked.clone());
        asked
    }
}

fn ask_version(
    found: &Found,
    launcher: &Launcher,
    parent: &Path,
    interrupts: &Receiver<()>,
) -> Option<String> {
    let scratch = Scratch::new(parent).ok()?;
    let order = Order {
        program: found.programs.first()?.clone()?,
        arguments: found.peer.version_arguments().iter().map(Into::into).collect(),
        cpus: Vec::new(),
        environment: Vec::new(),
        directory: scratch.path().to_owned(),
        stdin: None,
        limit: SERVER_PATIENCE,
    };
    let done = launcher.run(&order, interrupts).ok()?;
    // Several tools tell their version only while they complain.
    let text = format!("{}\n{}", done.stdout, done.stderr);
    found.peer.version(&text).map(|version| crate::text::shown_within(&version, 60))
}

fn order(found: &Found, invocation: &Invocation, scratch: &Scratch, seconds: f64) -> Result<Order, String> {
    let program = found
        .program(invocation.program)
        .ok_or_else(|| format!("its program {} is not installed", invocation.program))?;
    Ok(Order {
        program: program.to_owned(),
        arguments: invocation.arguments.iter().map(Into::into).collect(),
        cpus: invocation.cpus.clone(),
        environment: invocation.environment.clone(),
        directory: scratch.path().to_owned(),
        stdin: invocation.stdin.clone(),
        limit: patience(seconds),
    })
}

/// A port that nobody has at this moment.
fn free_port() -> std::io::Result<u16> {
    std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).map(|a| a.port())
}

/// The runs of one tool for one case.
struct Runs {
    found: Found,
    case: Case,
    invocation: Invocation,
    order: Order,
    scratch: Scratch,
    metric: &'static str,
    launcher: Launcher,
    interrupts: Receiver<()>,
    facts: Facts,
}

impl Runs {
    /// The command as a person would type it.
    fn shown_command(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.order.environment.is_empty() {
            words.push("env".to_owned());
            words.extend(self.order.environment.iter().map(|(name, value)| format!("{name}={value}")));
        }
        if !self.order.cpus.is_empty() {
            let cpus: Vec<String> = self.order.cpus.iter().map(usize::to_string).collect();
            words.extend(["taskset".to_owned(), "-c".to_owned(), cpus.join(",")]);
        }
        words.push(crate::text::shown_bytes(self.order.program.as_os_str().as_encoded_bytes()));
        words.extend(self.invocation.arguments.iter().map(|a| crate::text::shown(a)));
        words
    }

    fn reading(&self) -> Result<super::Reading, CannotMeasure> {
        for (name, text) in &self.invocation.files {
            let path = self.scratch.path().join(name);
            std::fs::write(path, text).map_err(|e| CannotMeasure::environment(format!("{name}: {e}")))?;
        }
        let _server = self.invocation.server.as_ref().map(|server| self.serve(server)).transpose()?;
        let done = self.launcher.run(&self.order, &self.interrupts).map_err(|error| match error {
            ProcessError::Interrupted => {
                CannotMeasure { cause: Cause::Interrupted, reason: "interrupted".to_owned() }
            }
            other => CannotMeasure::environment(other.to_string()),
        })?;
        if let Some(how) = failed(&done) {
            return Err(CannotMeasure::environment(how));
        }
        let text = match self.invocation.output {
            Output::Stdout => done.stdout,
            Output::Stderr => done.stderr,
            Output::File(name) => crate::text::read_small(&self.scratch.path().join(name), MOST_BYTES)
                .map_err(|why| CannotMeasure::environment(format!("its output {name}: {why}")))?,
        };
        self.found.peer.parse(&self.case, &text).map_err(CannotMeasure::environment)
    }

    /// Starts the tool's server and waits until it listens.
    fn serve(&self, server: &Server) -> Result<Running, CannotMeasure> {
        let cannot =
            |why: String| CannotMeasure::environment(format!("its server {}: {why}", server.program));
        let program =
            self.found.program(server.program).ok_or_else(|| cannot("is not installed".to_owned()))?;
        let order = Order {
            program: program.to_owned(),
            arguments: server.arguments.iter().map(Into::into).collect(),
            cpus: server.cpus.clone(),
            environment: Vec::new(),
            directory: self.scratch.path().to_owned(),
            stdin: None,
            limit: SERVER_PATIENCE,
        };
        let mut running = self.launcher.start_quiet(&order).map_err(|e| cannot(e.to_string()))?;
        let (deadline, looks) = (after(SERVER_PATIENCE), tick(LOOK));
        loop {
            if listens(server.listens) {
                return Ok(running);
            }
            if running.ended().is_some() {
                return Err(cannot("ended at once".to_owned()));
            }
            select! {
                recv(looks) -> _ => {}
                recv(deadline) -> _ => return Err(cannot("did not listen within 5 s".to_owned())),
            }
        }
    }
}

/// Whether a socket of this machine listens there, as /proc/net tells (proc_net_tcp.rst: state 0A is LISTEN, a UDP
/// socket that is bound has 07).
fn listens(at: Listens) -> bool {
    let (files, port, state) = match at {
        Listens::Tcp(port) => (["/proc/net/tcp", "/proc/net/tcp6"], port, "0A"),
        Listens::Udp(port) => (["/proc/net/udp", "/proc/net/udp6"], port, "07"),
    };
    let suffix = format!(":{port:04X}");
    files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).any(|text| {
        text.lines().skip(1).any(|line| {
            let mut words = line.split_whitespace().skip(1);
            words.next().is_some_and(|local| local.ends_with(&suffix)) && words.nth(1) == Some(state)
        })
    })
}

impl Prepared for Runs {
    /// One run of the tool. It decides itself how long it takes.
    fn sample(&mut self, _: Amount) -> Result<Sample, CannotMeasure> {
        let begun = std::time::Instant::now();
        let reading = self.reading()?;
        self.facts.achieved = reading.achieved.into_iter().map(|(k, v)| (k, v.into())).collect();
        self.facts.warnings = reading
            .differs
            .into_iter()
            .map(|text| Warning::Other { code: "peer-differs".to_owned(), text })
            .collect();
        Ok(Sample {
            elapsed: begun.elapsed().as_secs_f64(),
            values: [(self.metric.to_owned(), reading.value)].into(),
            ..Sample::default()
        })
    }

    fn verify(&mut self) -> Result<(), WrongAnswer> {
        Ok(())
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}
