//! Runs reference tools with a case: a sample is one run of the tool.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, select, tick};
use plimsoll_bench::Prepared;
use plimsoll_bench_network::Address;
use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
use plimsoll_model::sample::{CannotMeasure, Facts, FailureCause, Offer, Sample, SampleAmount, ToolRun};
use plimsoll_model::warning::Warn;
use plimsoll_system::leftover::{Registry, Scratch};
use plimsoll_units::text::{read_small, shown, shown_bytes, shown_path};

use super::answers::CachedAnswers;
use super::choice::{Choice, choose_tools};
use super::process::{OUTPUT_CAP, ProcessError, ProgramOrder, RunningProgram, SelfLauncher, failed};
use super::tools::huge_pages;
use super::version::{ask_version, libraries, sha256_of_program};
use super::{
    Account, Against, InstalledTool, Invocation, InvocationInput, Output, Pairing, Pass, ProgramSearch,
    RefTool, ServerProgram, ToolFigure, ToolLauncher, fact,
};

const SERVER_PATIENCE: Duration = Duration::from_secs(5);

/// Reference tools of a run, and how they are started.
pub struct ReferenceTools {
    /// Selects the tools for each case.
    pub selection: Selection,
    /// Starts the tools.
    pub launcher: SelfLauncher,
    /// Directory in which their private directories are made.
    pub parent: PathBuf,
    /// Directory for tools whose files must lie on the measured disk.
    pub disk: PathBuf,
    /// Servers on other hosts, by the name of their tool.
    pub servers: BTreeMap<String, Address>,
    /// Duration of a reading in seconds, for tools with an option for it.
    pub seconds: f64,
    /// Ends the running tool.
    pub interrupts: Receiver<()>,
    /// Records their private directories, so that those of a killed run are found.
    pub registry: Registry,
    /// The launcher that starts them on other nodes, if any.
    pub through: Option<ToolLauncher>,
    versions: BTreeMap<&'static str, Option<String>>,
    hung: Hung,
    answers: Rc<CachedAnswers<ToolOutput>>,
}

/// Selects the tools for each case of a run.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Finds the tools' programs.
    pub search: ProgramSearch,
    /// Names of the run's benchmarks.
    pub benchmarks: BTreeSet<String>,
    /// Takes at most one pair per tool, and the smallest problem that it has for a case.
    pub is_scaled_down: bool,
}

impl Selection {
    /// Returns a selection without benchmarks: tools that require one are selected only by name.
    pub fn all(search: ProgramSearch) -> Self {
        Self { search, benchmarks: BTreeSet::new(), is_scaled_down: false }
    }

    fn chosen(&self, against: &Against, case: &Case, machine: &Machine) -> Vec<Choice> {
        let mut picked = choose_tools(against, &self.search, &self.benchmarks, case, machine);
        if self.is_scaled_down {
            picked.iter_mut().for_each(Choice::scale_down);
        }
        picked
    }

    /// Returns the expected time in s of the installed tools that `against` selects for a case.
    pub fn seconds(&self, against: &Against, case: &Case, machine: &Machine) -> f64 {
        let picked = self.chosen(against, case, machine);
        let there = picked.iter().filter(|choice| choice.found.is_ok()).map(|choice| &choice.pairing);
        there.map(|pairing| pairing.seconds * pairing.pairs as f64).sum()
    }
}

/// Why tools that hung are not started again, by name: they would hang with every case.
type Hung = Rc<RefCell<BTreeMap<&'static str, String>>>;

/// A tool that is ready to run with a case, or why it is not.
pub struct PreparedTool {
    /// Entry in the results.
    pub about: ToolRun,
    /// Further passes of the same readings.
    pub passes: Vec<ToolRun>,
    /// Number of pairs to take.
    pub pairs: usize,
    /// Takes readings; `None` if the tool is unavailable.
    pub prepared: Option<Box<dyn Prepared>>,
}

impl ReferenceTools {
    /// Prepares to run tools in temporary directories below `parent`. A message on `interrupts`
    /// ends a running tool.
    pub fn new(
        selection: Selection,
        launcher: SelfLauncher,
        parent: PathBuf,
        interrupts: Receiver<()>,
    ) -> Self {
        const SECONDS: f64 = 0.3;
        Self {
            selection,
            launcher,
            disk: parent.clone(),
            parent,
            servers: BTreeMap::new(),
            seconds: SECONDS,
            interrupts,
            registry: Registry::default(),
            through: None,
            versions: BTreeMap::new(),
            hung: Hung::default(),
            answers: Rc::default(),
        }
    }

    /// Returns whether one of the installed tools that `against` selects for the case writes to the
    /// case's test file.
    pub fn writes_test_file(&self, against: &Against, case: &Case, machine: &Machine) -> bool {
        let picked = self.selection.chosen(against, case, machine);
        picked.iter().any(|choice| choice.found.as_ref().is_ok_and(|found| (found.ref_tool.writes)(case)))
    }

    /// Prepares the selected tools for a case, whose CPUs and test file are in `offer`. If a tool
    /// is missing or cannot measure the case, its result has the reason.
    pub fn prepare_tools(
        &mut self,
        against: &Against,
        case: &Case,
        machine: &Machine,
        offer: &Offer,
    ) -> Vec<PreparedTool> {
        let picked = self.selection.chosen(against, case, machine);
        let mut offer = offer.clone();
        let file = offer.file.as_ref().and_then(|file| std::fs::metadata(file).ok());
        offer.file_bytes = offer.file_bytes.or(file.map(|file| file.len()));
        picked.into_iter().map(|choice| self.prepare(case, machine, &offer, choice)).collect()
    }

    fn prepare(&mut self, case: &Case, machine: &Machine, offer: &Offer, choice: Choice) -> PreparedTool {
        let Choice { tool, pairing, found } = choice;
        let name = if found.is_ok() { named(tool, case) } else { tool.name.to_owned() };
        let passes = found.as_ref().map(|found| (found.ref_tool.passes)(case)).unwrap_or_default();
        let version = found.as_ref().ok().and_then(|found| self.version(found));
        let prepared = found.and_then(|found| self.prepared(case, machine, offer, &found, &pairing));
        let reported = prepared.as_ref().ok();
        let about = ToolRun {
            name,
            version,
            metric: pairing.metric.to_owned(),
            definition: pairing.definition,
            note: pairing.note.to_owned(),
            command: reported.map(Runs::shown_command).unwrap_or_default(),
            input: reported.map(Runs::shown_input).unwrap_or_default(),
            achieved: Default::default(),
            pairs: Vec::new(),
            warnings: Vec::new(),
            unavailable: prepared.as_ref().err().cloned(),
        };
        let prepared = prepared.ok().map(|runs| Box::new(runs) as Box<dyn Prepared>);
        let pass = |pass: Pass| ToolRun {
            name: format!("{} {}", about.name, pass.name),
            definition: pass.definition,
            note: pass.note.to_owned(),
            ..about.clone()
        };
        let passes = passes.into_iter().map(pass).collect();
        PreparedTool { about, passes, pairs: pairing.pairs, prepared }
    }

    fn prepared(
        &self,
        case: &Case,
        machine: &Machine,
        offer: &Offer,
        found: &InstalledTool,
        pairing: &Pairing,
    ) -> Result<Runs, String> {
        if let Some(hung) = self.hung.borrow().get(found.ref_tool.name) {
            return Err(hung.clone());
        }
        let server = self.server(found.ref_tool, case)?;
        let is_local = server.is_none();
        let local = || Address { host: "127.0.0.1".to_owned(), port: 0 };
        let Address { host, port } = server.unwrap_or_else(local);
        let mut input = InvocationInput {
            case: case.clone(),
            machine: machine.clone(),
            offer: offer.clone(),
            seconds: self.seconds,
            is_scaled_down: self.selection.is_scaled_down,
            host,
            port,
            is_local,
        };
        let invocation = invocation(found.ref_tool, &mut input)?;
        let parent = if invocation.disk_bytes > 0 { &self.disk } else { &self.parent };
        enough_space(parent, invocation.disk_bytes)?;
        let scratch = self.registry.directory_in(parent).map_err(|e| format!("no private directory: {e}"))?;
        let through = match (self.through.clone(), invocation.processes) {
            (None, several @ 2..) => Some(ToolLauncher::open_mpi(&self.selection.search, several)?),
            (through, _) => through,
        };
        let order = order(found, &invocation, &scratch, pairing.seconds.max(self.seconds));
        let libraries = found.ref_tool.library.map(|part| libraries(&order, part, &self.launcher));
        Ok(Runs {
            found: found.clone(),
            input,
            invocation,
            digest: sha256_of_program(&order.program),
            order: through.map_or(order.clone(), |through| through.applied(order)),
            scratch,
            metric: pairing.metric,
            launcher: self.launcher.clone(),
            interrupts: self.interrupts.clone(),
            libraries: libraries.unwrap_or_default(),
            hung: Rc::clone(&self.hung),
            answers: Rc::clone(&self.answers),
            facts: Facts::default(),
        })
    }

    /// Returns the tool's server on the host of the case's `--server`; `None` without `--server`:
    /// one is started here if needed. Fails if `--reference-server` names none on that host.
    fn server(&self, tool: &RefTool, case: &Case) -> Result<Option<Address>, String> {
        let named = self.servers.get(tool.name);
        let Some(far) = case.server() else {
            let why = "--reference-server requires --server with the same host";
            return named.map_or(Ok(None), |_| Err(why.to_owned()));
        };
        let native = far.strip_prefix("iperf3://");
        let usual = tool.port.unwrap_or(1);
        let address =
            Address::parse_with(native.unwrap_or(far), usual).map_err(|why| format!("--server {why}"))?;
        let (name, host) = (tool.name, shown(&address.host));
        match named {
            Some(server) if server.host == address.host => Ok(Some(server.clone())),
            Some(_) => {
                Err(format!("--reference-server and --server must be the same host: --server is {host}"))
            }
            None if tool.port.is_none() || native.is_some() && name == "iperf3" => Ok(Some(address)),
            None => Err(format!(
                "the server is another host: start {name}'s server there and name it with --reference-server {name}={host}:{usual}"
            )),
        }
    }

    /// Returns the version of a tool; `None` if unknown. The tool runs for the first request only.
    pub fn version(&mut self, found: &InstalledTool) -> Option<String> {
        let ask = || ask_version(found, &self.launcher, &self.parent, &self.registry);
        self.versions.entry(found.ref_tool.name).or_insert_with(ask).clone()
    }
}

/// Fails if files of `bytes` would leave less than a tenth of the free space, or less than 1 GiB.
fn enough_space(directory: &Path, bytes: u64) -> Result<(), String> {
    const MIN_FREE_BYTES: u64 = 1 << 30;
    if bytes == 0 {
        return Ok(());
    }
    let room = rustix::fs::statvfs(directory).map_err(|e| format!("its directory: {e}"))?;
    let available = room.f_bavail.saturating_mul(room.f_frsize);
    let free = available.saturating_sub(MIN_FREE_BYTES.max(available / 10));
    if bytes > free {
        return Err(format!(
            "its file of {} would leave too little space on the disk; use a --dir with more",
            plimsoll_units::quantity::format_size(bytes)
        ));
    }
    Ok(())
}

/// Returns the tool's name, and which of its benchmarks measures the case: `lmbench bw_mem`.
fn named(ref_tool: &RefTool, case: &Case) -> String {
    let name = ref_tool.name;
    (ref_tool.benchmark_name)(case).map_or_else(|| name.to_owned(), |part| format!("{name} {part}"))
}

fn order(found: &InstalledTool, invocation: &Invocation, scratch: &Scratch, seconds: f64) -> ProgramOrder {
    ProgramOrder {
        arguments: invocation.arguments.iter().map(Into::into).collect(),
        cpus: invocation.cpus.clone(),
        environment: invocation.environment.clone(),
        stdin: invocation.stdin.clone(),
        limit: Duration::from_secs_f64((seconds * 4.0).clamp(20.0, 1800.0)),
        ..ProgramOrder::of(&found.program, scratch.path())
    }
}

/// Returns the tool's call for `input`, whose port it sets to a free port if the server is local.
fn invocation(ref_tool: &RefTool, input: &mut InvocationInput) -> Result<Invocation, String> {
    if input.is_local {
        let free = TcpListener::bind((input.host.as_str(), 0)).and_then(|socket| socket.local_addr());
        input.port = free.map_err(|e| format!("no free port: {e}"))?.port();
    }
    let mut invocation = (ref_tool.invocation)(input)?;
    invocation.environment.extend(huge_pages(&input.case));
    Ok(invocation)
}

struct Runs {
    found: InstalledTool,
    input: InvocationInput,
    invocation: Invocation,
    order: ProgramOrder,
    scratch: Scratch,
    metric: &'static str,
    launcher: SelfLauncher,
    interrupts: Receiver<()>,
    libraries: Vec<String>,
    digest: Option<String>,
    hung: Hung,
    answers: Rc<CachedAnswers<ToolOutput>>,
    facts: Facts,
}

impl Runs {
    fn shown_command(&self) -> Vec<String> {
        let ProgramOrder { environment, cpus, program, arguments, .. } = &self.order;
        let env = environment.first().map(|_| "env".to_owned());
        let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
        let arguments = arguments.iter().map(|a| shown_bytes(a.as_encoded_bytes()));
        let call = bound(cpus).into_iter().chain([shown_path(program)]).chain(arguments);
        env.into_iter().chain(variables).chain(call).collect()
    }

    /// Returns, by name, the tool's input files, standard input and server command.
    fn shown_input(&self) -> BTreeMap<String, String> {
        let Invocation { files, stdin, server, .. } = &self.invocation;
        let files = files.iter().map(|(name, text)| (*name, text.clone()));
        let stdin = stdin.iter().map(|text| ("stdin", text.clone()));
        let server = server.iter().map(|server| {
            let words = [bound(&server.cpus), vec![server.program.to_owned()], server.arguments.clone()];
            ("server", words.concat().join(" "))
        });
        files.chain(stdin).chain(server).map(|(name, text)| (name.to_owned(), text)).collect()
    }

    /// Returns the tool's output. If it comes from an earlier run of the tool, also returns the
    /// case of that run, else `None`.
    fn read_output(&mut self) -> Result<(ToolOutput, Option<Case>), CannotMeasure> {
        if !self.invocation.answers_others {
            return Ok((self.answer()?, None));
        }
        let (command, case) = (self.shown_command(), self.input.case.clone());
        if let Some(taken) = self.answers.take(&command, &case) {
            return Ok(taken);
        }
        let answer = self.answer()?;
        self.answers.keep(command, case, answer.clone());
        Ok((answer, None))
    }

    fn answer(&mut self) -> Result<ToolOutput, CannotMeasure> {
        for (name, text) in &self.invocation.files {
            let path = self.scratch.path().join(name);
            std::fs::write(path, text).map_err(|e| CannotMeasure::environment(format!("{name}: {e}")))?;
        }
        // The previous answer must not be read again.
        if let Output::File(name) = self.invocation.output {
            let _ = std::fs::remove_file(self.scratch.path().join(name));
        }
        let _server = self.start_server()?;
        let begun = Instant::now();
        let done = self.launcher.run(&self.order, &self.interrupts).map_err(|error| self.reported(&error))?;
        let life = begun.elapsed().as_secs_f64();
        if let Some(how) = failed(&done) {
            return Err(CannotMeasure::environment(how));
        }
        let text = match self.invocation.output {
            Output::Stdout => done.stdout,
            Output::Stderr => done.stderr.clone(),
            Output::File(name) => read_small(&self.scratch.path().join(name), OUTPUT_CAP)
                .map_err(|why| CannotMeasure::environment(format!("its output {name}: {why}")))?,
        };
        Ok(ToolOutput { text, stderr: done.stderr, life })
    }

    /// Parses the output. Fails if the figure contradicts the work and time that the tool reports.
    fn plausible(&self, answer: &ToolOutput) -> Result<ToolFigure, String> {
        let case = &self.input.case;
        let mut reading = (self.found.ref_tool.parse)(case, &answer.text)?;
        let metrics = plimsoll_bench::find(case.benchmark()).map(|benchmark| benchmark.metrics(case));
        let metric = metrics.into_iter().flatten().find(|metric| metric.name == self.metric);
        let unit = metric.ok_or_else(|| format!("the case has no metric {}", self.metric))?.unit;
        let is_wrong = |value: f64, account: &Account| account.contradicts(value, unit, answer.life);
        reading.passes.retain(|_, (value, account)| is_wrong(*value, account).is_none());
        is_wrong(reading.value, &reading.account).map_or(Ok(reading), Err)
    }

    /// Converts an error of the tool to that of the case. A tool that hung is not started again.
    fn reported(&self, error: &ProcessError) -> CannotMeasure {
        match error {
            ProcessError::Interrupted => return CannotMeasure::new(FailureCause::Interrupted, "interrupted"),
            ProcessError::Hung(_, seconds) => {
                let case = self.input.case.id();
                let why =
                    format!("was ended after {seconds:.0} s in {case} and is not started again in this run");
                self.hung.borrow_mut().insert(self.found.ref_tool.name, why);
            }
            ProcessError::Start(..) | ProcessError::TooMuch(..) => {}
        }
        CannotMeasure::environment(error.to_string())
    }

    /// Starts the tool's server, at most three times on different ports; `None` if it needs none.
    fn start_server(&mut self) -> Result<Option<RunningProgram>, CannotMeasure> {
        let mut attempts_left = 3;
        loop {
            let Some(server) = &self.invocation.server else { return Ok(None) };
            attempts_left -= 1;
            match self.serve(server) {
                Err(cannot) if attempts_left > 0 && cannot.cause != FailureCause::Interrupted => {}
                done => return done.map(Some),
            }
            self.invocation =
                invocation(self.found.ref_tool, &mut self.input).map_err(CannotMeasure::environment)?;
            self.order.arguments = self.invocation.arguments.iter().map(Into::into).collect();
        }
    }

    /// Starts this server and waits until it listens. Fails after [`SERVER_PATIENCE`].
    fn serve(&self, server: &ServerProgram) -> Result<RunningProgram, CannotMeasure> {
        let cannot =
            |why: String| CannotMeasure::environment(format!("its server {}: {why}", server.program));
        let program = self.found.server.as_ref().ok_or_else(|| cannot("is not installed".to_owned()))?;
        let order = ProgramOrder {
            arguments: server.arguments.iter().map(Into::into).collect(),
            cpus: server.cpus.clone(),
            limit: SERVER_PATIENCE,
            ..ProgramOrder::of(program, self.scratch.path())
        };
        let running = self.launcher.start_quiet(&order).map_err(|e| cannot(e.to_string()))?;
        let (deadline, looks) = (after(SERVER_PATIENCE), tick(Duration::from_millis(5)));
        loop {
            if listens(server) {
                return Ok(running);
            }
            if running.has_ended() {
                return Err(cannot("ended at once".to_owned()));
            }
            select! {
                recv(looks) -> _ => {}
                recv(self.interrupts) -> _ => return Err(self.reported(&ProcessError::Interrupted)),
                recv(deadline) -> _ => return Err(cannot("did not listen within 5 s".to_owned())),
            }
        }
    }
}

#[derive(Clone, Default)]
struct ToolOutput {
    text: String,
    stderr: String,
    life: f64,
}

fn bound(cpus: &[usize]) -> Vec<String> {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    if cpus.is_empty() { cpus } else { vec!["taskset".to_owned(), "-c".to_owned(), cpus.join(",")] }
}

/// Returns whether the server's port is open, by /proc/net (proc_net_tcp.rst: TCP 0A, UDP 07).
fn listens(server: &ServerProgram) -> bool {
    let (files, state) = match server.is_udp {
        false => (["/proc/net/tcp", "/proc/net/tcp6"], "0A"),
        true => (["/proc/net/udp", "/proc/net/udp6"], "07"),
    };
    let suffix = format!(":{:04X}", server.port);
    files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).any(|text| {
        text.lines().skip(1).any(|line| {
            let mut words = line.split_whitespace().skip(1);
            words.next().is_some_and(|local| local.ends_with(&suffix)) && words.nth(1) == Some(state)
        })
    })
}

impl Prepared for Runs {
    fn sample(&mut self, _: SampleAmount) -> Result<Sample, CannotMeasure> {
        let begun = Instant::now();
        let (answer, taken_for) = self.read_output()?;
        let ref_tool = self.found.ref_tool;
        let mut reading = self.plausible(&answer).map_err(CannotMeasure::environment)?;
        let version = ref_tool.version(&answer.text).map(|version| (fact::VERSION, version));
        let digest = self.digest.clone().map(|digest| (fact::SHA256, digest));
        let aside = (ref_tool.stderr_facts)(&answer.stderr).into_iter().chain(version).chain(digest);
        aside.for_each(|(row, value)| reading.record(&row, value));
        self.facts.achieved = reading.achieved;
        self.facts.achieved.set_some(&fact::TAKEN_DURING_CASE, taken_for.map(|case| case.to_string()));
        if !self.libraries.is_empty() {
            self.facts.achieved.set(&fact::LIBRARIES, self.libraries.clone());
        }
        self.facts.warnings = reading.differs.into_iter().map(|text| Differs(text).into()).collect();
        let tool = named(ref_tool, &self.input.case);
        let passes = reading.passes.iter().map(|(pass, (value, _))| (format!("{tool} {pass}"), *value));
        Ok(Sample {
            elapsed: begun.elapsed().as_secs_f64(),
            values: passes.chain([(self.metric.to_owned(), reading.value)]).collect(),
            ..Sample::default()
        })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        Ok(self.facts.clone())
    }
}

/// A difference from the requested parameters.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Differs(String);

impl Warn for Differs {
    fn code(&self) -> &'static str {
        "reference-differs"
    }
}
