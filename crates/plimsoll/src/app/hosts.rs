//! `plimsoll run --hosts`: runs the plan on nodes that a launcher reaches, and joins the results.

mod again;
pub(super) mod between;
pub(crate) mod gather;
pub(crate) mod hosted;
mod kept;
pub(super) mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, after, never, select, tick, unbounded};
use plimsoll_cluster::between::PairResults;
use plimsoll_cluster::ssh::names::{self, HostName};
use plimsoll_cluster::ssh::pairs::{self, ConnectedMachines};
use plimsoll_cluster::ssh::{
    Connection, Hold, MachineProgress, NodeLauncher, ProgramCopy, RunEnd, RunOrder, measured, run_on_node,
};
use plimsoll_command::cli::{Common, Hosts, Measurable, SLURM};
use plimsoll_command::resolve;
use plimsoll_machine::{Machine, Root};
use plimsoll_model::plan::{built_in, write};
use plimsoll_reference::{ProgramSearch, Trust};
use plimsoll_result::document::{Finding, Node, Run, RunStatus};
use plimsoll_result::fleet;
use plimsoll_server::traffic::raise_descriptors;
use plimsoll_units::text::{format_count, read_small, shown_path, shown_within};
use serde_json::json;

use super::prepared::PreparedRun;
use super::resume::{self, ResumedRun};
use super::{Failure, code, complain, ending, interrupts};
use crate::failure::OrFailure;
use crate::output::Outputs;
use kept::JointRun;

const MAX_NAMES: u64 = 1 << 20;
const MAX_LIMITS: u64 = 1 << 20;
const PROGRESS_SECONDS: u32 = 10;
const LOST: &str = "machine-lost";
/// Time for finished results to arrive after an interrupt: all ends within two seconds.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// Runs `what` on all hosts of `typed`, and joins the results. `words` are the options for each
/// host, `key` is the file with the key of `--server`. Returns the exit code of the joint run.
pub(super) fn measure(
    (what, common, key): (&Measurable, &Common, Option<&Path>),
    typed: &Hosts,
    words: Vec<String>,
) -> Result<ExitCode, Failure> {
    check_options(common)?;
    check_started_alone()?;
    super::distinct_outputs(common)?;
    let hosts = hosts(typed)?;
    let launcher = launcher(typed, &hosts)?;
    let begun =
        common.resume.as_deref().map(|run| load_resumed_run(run, what, &hosts, common)).transpose()?;
    let kept = begun.as_ref().map(|begun| resume::plan_of(begun, common)).transpose()?;
    let what = kept.as_ref().unwrap_or(what);
    let prepared = PreparedRun::elsewhere(what, common, Machine::discover(&Root::live()))?;
    let mut order = order(what, common, key, words)?;
    order.stays = hosts.len() > 1;
    let earlier = begun.as_ref().map(|begun| &begun.run);
    let part = |run, node: &Node| Some((node.name.clone(), fleet::run_of_node(run, &node.name)?));
    let call = HostCall {
        launcher,
        programs: programs(&typed.program)?,
        order,
        plan: prepared.plan.file.name.clone(),
        earlier: earlier.iter().flat_map(|run| run.nodes.iter().filter_map(|node| part(run, node))).collect(),
    };
    let interrupts = interrupts()?;
    let mut outputs = Outputs::open(common, &interrupts)?;
    let id = earlier.map_or_else(plimsoll_system::wall::run_id, |run| run.id.clone());
    let _held = earlier.is_none().then(|| resume::lock(&id)).transpose()?;
    let holds: Vec<Hold> = hosts.iter().map(|_| Hold::default()).collect();
    let fleet = Fleet { hosts: &hosts, holds: &holds, interrupts: &interrupts, reports: !common.quiet };
    let mut kept = JointRun::new(&mut outputs, id, earlier);
    let (mut run, mut codes, interrupted) =
        measure_fleet(&call, &fleet, (what, common), typed.parallel, &mut kept)?;
    let outputs = kept.complete(&mut run);
    let kept = outputs.finish(&run);
    codes.push(ending::node_exit_code(&run, interrupted, kept));
    codes.extend((run.status != RunStatus::Complete).then_some(code::SERVER_FAILED));
    let code = ending::run_exit_code(&run, &codes);
    ending::final_exit_code(code, &prepared, &run).map(ExitCode::from)
}

/// Locks and loads the stored run `wanted`, to resume it. Fails if it cannot be resumed, `hosts`
/// lacks one of its nodes, or `what` names another plan.
fn load_resumed_run(
    wanted: &str,
    what: &Measurable,
    hosts: &[HostName],
    common: &Common,
) -> Result<ResumedRun, Failure> {
    let begun = resume::begun(wanted, common)?;
    let run = &begun.run;
    let id = &run.id;
    if let Measurable::Plan(name) = what
        && *name != run.plan.name
    {
        let plan = shown_within(&run.plan.name, 60);
        return Err(Failure::usage(format!("--resume: run {id} is of plan {plan}: leave out the plan")));
    }
    let named: BTreeSet<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let mut unnamed = run.nodes.iter().filter(|node| !named.contains(node.name.as_str()));
    let Some(one) = unnamed.next().map(|node| shown_within(&node.name, 64)) else { return Ok(begun) };
    let more = Some(unnamed.count()).filter(|n| *n > 0).map(|n| format!(" and {n} more"));
    Err(Failure::usage(format!(
        "--resume: run {id} has results of {one}{}, which --hosts does not name: name all its machines",
        more.unwrap_or_default()
    )))
}

/// Runs plimsoll with the arguments `words` on each host of `typed`, and prints their outputs in
/// the order of the hosts; with `quiet`, without progress. Returns 130 if interrupted, 5 if a host
/// did not answer, else the highest exit code of a host.
pub(super) fn run_on_hosts(typed: &Hosts, words: Vec<String>, quiet: bool) -> Result<ExitCode, Failure> {
    check_started_alone()?;
    let hosts = hosts(typed)?;
    let (programs, launcher) = (programs(&typed.program)?, launcher(typed, &hosts)?);
    let order = RunOrder { words, ..RunOrder::default() };
    let interrupts = interrupts()?;
    raise_descriptors();
    let holds: Vec<Hold> = hosts.iter().map(|_| Hold::default()).collect();
    let fleet = Fleet { hosts: &hosts, holds: &holds, interrupts: &interrupts, reports: !quiet };
    let work = |index: usize| run_on_node(&launcher, &hosts[index], &programs, &order, &holds[index]);
    let mut ended = BTreeMap::new();
    let interrupted = fleet.each(typed.parallel, work, |index, outcome| {
        fleet.report(&format!("{}: ended ({} of {})", hosts[index].name, ended.len() + 1, hosts.len()));
        ended.insert(index, outcome);
    })?;
    let mut worst = if ended.len() < hosts.len() { code::SERVER_FAILED } else { 0 };
    for (index, outcome) in ended {
        let name = &hosts[index].name;
        let why = match outcome {
            Ok((text, ended)) => {
                let text: Vec<String> = text.lines().map(|line| shown_within(line, 400)).collect();
                super::printed(&format!("== {name}\n{}\n", text.join("\n")))?;
                worst = worst.max(ended.code.min(code::SERVER_FAILED));
                ended.line
            }
            Err(why) => {
                worst = code::SERVER_FAILED;
                Some(why)
            }
        };
        why.iter().for_each(|why| complain(&format!("{name}: {}", shown_within(why, 400))));
    }
    Ok(ExitCode::from(if interrupted { code::INTERRUPTED } else { worst }))
}

fn check_started_alone() -> Result<(), Failure> {
    let why = "--hosts is not supported under mpirun or srun, where each process would reach all hosts";
    match plimsoll_cluster::started_with_others() {
        Some(_) => Err(Failure::usage(format!("{why}: leave out --hosts, or start plimsoll without them"))),
        None => Ok(()),
    }
}

/// Measures each node's own cases, on `at_once` nodes in parallel; then repeats results that differ
/// between nodes, and measures between nodes. Stores each node's results in `kept` at once. Returns
/// the joint run, exit codes, and true if interrupted. Fails if no node has a result.
fn measure_fleet(
    call: &HostCall,
    fleet: &Fleet<'_>,
    (what, common): (&Measurable, &Common),
    at_once: usize,
    kept: &mut JointRun<'_>,
) -> Result<(Run, Vec<u8>, bool), Failure> {
    raise_descriptors();
    let AllNodes { mut run, codes, connected, mut interrupted } = call.all(fleet, at_once, kept)?;
    let place = |name: &str| fleet.hosts.iter().position(|host| host.name == name);
    run.nodes.sort_by_cached_key(|node| place(&node.name));
    if !interrupted && !connected.is_empty() {
        let prepared = PreparedRun::elsewhere(what, common, run.machine.clone())?;
        let names = run.nodes.iter().map(|node| node.name.clone()).collect();
        let host = |node: &Node| fleet.hosts.iter().find(|host| host.name == node.name);
        let hosts = run.nodes.iter().filter_map(host).collect();
        let together =
            Together { fleet, prepared: &prepared, common, launcher: &call.launcher, names, hosts };
        interrupted = together.measured(&mut run, connected) || {
            let (measured, interrupted) = together.measured_by_tools(&run);
            between::added(&mut run, measured, &BTreeMap::new());
            interrupted
        };
        if interrupted {
            run.status = RunStatus::Partial;
        }
    }
    Ok((run, codes, interrupted))
}

/// The nodes with a result, and what it takes to measure between them.
struct Together<'a, 'b> {
    fleet: &'b Fleet<'a>,
    prepared: &'b PreparedRun,
    common: &'b Common,
    launcher: &'b NodeLauncher,
    names: Vec<String>,
    hosts: Vec<&'b HostName>,
}

impl Together<'_, '_> {
    /// Repeats results that differ from other nodes', and measures the network between nodes, into
    /// `run`. Ends all connections. Returns whether it was interrupted.
    fn measured(&self, run: &mut Run, mut connected: BTreeMap<String, Connection<'_>>) -> bool {
        let numbers = self.names.iter().enumerate();
        let mut connected =
            numbers.filter_map(|(number, name)| Some((number, connected.remove(name)?))).collect();
        let interrupted = again::measured(run, self, &mut connected) || self.between(run, &mut connected);
        let gone = |(index, session): (&usize, &Connection<'_>)| Some((*index, session.lost.clone()?));
        let gone: Vec<(usize, String)> = connected.iter().filter(|_| !interrupted).filter_map(gone).collect();
        // All get the request before any is waited for.
        self.fleet.holds.iter().for_each(Hold::ask_to_end);
        if interrupted || !gone.is_empty() {
            run.status = RunStatus::Partial;
        }
        for (index, why) in gone {
            let name = self.names.get(index).map(String::as_str).unwrap_or_default();
            let finding = lost_machine(name, "was lost after its own run", &why);
            complain(&finding.text);
            run.findings.insert(0, finding);
        }
        interrupted
    }

    /// Measures the plan's network cases between nodes, into `run`. Returns true if interrupted.
    fn between(&self, run: &mut Run, connected: &mut ConnectedMachines<'_>) -> bool {
        let (prepared, names) = (self.prepared, self.names.as_slice());
        let planned = between::cases(prepared);
        if planned.is_empty() || names.len() < 2 {
            return false;
        }
        let cases: Vec<String> =
            planned.iter().map(|planned| planned.candidate.case.id().to_string()).collect();
        let (made, interrupted) = self.fleet.run_supervised(|goes_on| {
            let begins = |round: usize, rounds: usize| {
                let line = format!("measuring between the machines: round {} of {rounds}", round + 1);
                goes_on(round.is_multiple_of(rounds.div_ceil(10)).then_some(line))
            };
            let suspects = |made: &[PairResults]| between::outlier_pairs(prepared, names, made);
            pairs::between(connected, names.len(), &cases, begins, suspects)
        });
        let shared = between::measurements(prepared, names, &made);
        between::added(run, shared, &between::paths(prepared, &made));
        interrupted
    }
}

/// Fails for `--list`, `--dry-run` and `--events`, which only a run on this machine supports.
fn check_options(common: &Common) -> Result<(), Failure> {
    let instead = [
        (common.list, "--list", "leave out --hosts or --inventory"),
        (common.dry_run, "--dry-run", "leave out --hosts or --inventory"),
        (common.events.is_some(), "--events", "use --json"),
    ];
    let Some((_, option, instead)) = instead.into_iter().find(|(typed, ..)| *typed) else { return Ok(()) };
    Err(Failure::usage(format!("{option} is not supported with --hosts: {instead}")))
}

fn order(
    what: &Measurable,
    common: &Common,
    key: Option<&Path>,
    words: Vec<String>,
) -> Result<RunOrder, Failure> {
    let mut order = RunOrder { words: vec!["run".to_owned()], ..RunOrder::default() };
    match what {
        Measurable::Plan(name) if built_in::find(name).is_some() => order.words.push(name.clone()),
        named => {
            let file = resolve::file(named, &Common::default()).or_usage()?;
            order.plan = Some((file.name.clone().unwrap_or_default(), write::text(&file)));
        }
    }
    order.words.extend(words);
    if let Some(path) = &common.limits {
        let text = read_small(path, MAX_LIMITS).map_err(|e| Failure::usage(format!("--limits: {e}")))?;
        order.files.insert("limits".to_owned(), text);
    }
    // The key may be for other work: nodes get it only together with a server.
    if !common.server.is_empty()
        && let Some(key) = super::serving::key(key)?
    {
        order.files.insert("key".to_owned(), key.to_hex());
    }
    Ok(order)
}

fn launcher(typed: &Hosts, hosts: &[HostName]) -> Result<NodeLauncher, Failure> {
    let mut launcher =
        NodeLauncher::parse(typed.launcher()).map_err(|why| Failure::usage(format!("--launcher {why}")))?;
    if let Some(file) = &typed.ssh_config {
        std::fs::File::open(file).map_err(|e| {
            Failure::usage(format!("--ssh-config cannot be read: {e}; give a file as for ssh -F"))
        })?;
        launcher = launcher.with_ssh_config(&file.to_string_lossy()).map_err(Failure::usage)?;
    }
    if let Some(why) = hosts.iter().find_map(|host| launcher.refusal(host)) {
        return Err(Failure::usage(why));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = launcher.program.to_string_lossy().into_owned();
    let search = ProgramSearch::new(&path, BTreeMap::new(), Trust::here());
    launcher.program = search.find(&launcher.name, &program, &[]).map_err(|why| {
        Failure::environment(format!(
            "--hosts needs {program}: {why}; install it or choose another --launcher"
        ))
    })?;
    Ok(launcher)
}

fn programs(named: &[PathBuf]) -> Result<Vec<ProgramCopy>, Failure> {
    let read = |path: &PathBuf| {
        let shown = shown_path(path);
        ProgramCopy::read(path).map_err(|why| Failure::usage(format!("--program {shown}: {why}")))
    };
    let mut programs: Vec<ProgramCopy> = named.iter().map(read).collect::<Result<_, _>>()?;
    let unread =
        |why: String| Failure::environment(format!("cannot read plimsoll's own program file: {why}"));
    programs.push(ProgramCopy::read(&super::own_program()?).map_err(unread)?);
    Ok(programs)
}

fn hosts(typed: &Hosts) -> Result<Vec<HostName>, Failure> {
    let file = |option: &str, path: &Path| {
        let shown = shown_path(path);
        read_small(path, MAX_NAMES).map_err(|why| Failure::usage(format!("{option} {shown}: {why}")))
    };
    let named = |option: &str, why: String| Failure::usage(format!("{option}: {why}"));
    if let Some(path) = &typed.inventory {
        let found = names::of_inventory(&file("--inventory", path)?).and_then(names::distinct);
        return found.map_err(|why| named("--inventory", why));
    }
    let mut hosts = Vec::new();
    for word in &typed.hosts {
        match word.strip_prefix('@') {
            Some(path) => {
                let text = file("--hosts", Path::new(path))?;
                hosts.extend(names::of_list(&text).map_err(|why| named("--hosts", why))?);
            }
            None if word == SLURM => {
                let why = "slurm requires an allocation: run it inside salloc or sbatch";
                let nodes =
                    std::env::var("SLURM_JOB_NODELIST").map_err(|_| named("--hosts", why.to_owned()))?;
                hosts.extend(names::of_allocation(&nodes).map_err(|why| named("SLURM_JOB_NODELIST", why))?);
            }
            None if word.contains(['.', '/']) && Path::new(word).is_file() => {
                let why = format!("{0} is a file: write --hosts @{0}", shown_within(word, 64));
                return Err(named("--hosts", why));
            }
            None => hosts.push(HostName::typed(word).map_err(|why| named("--hosts", why))?),
        }
    }
    names::distinct(hosts).map_err(|why| named("--hosts", why))
}

/// The order for every node, and how nodes are reached.
struct HostCall {
    launcher: NodeLauncher,
    programs: Vec<ProgramCopy>,
    order: RunOrder,
    plan: Option<String>,
    earlier: BTreeMap<String, Run>,
}

struct Fleet<'a> {
    hosts: &'a [HostName],
    holds: &'a [Hold],
    interrupts: &'a Receiver<()>,
    reports: bool,
}

/// The joint run of all nodes, their exit codes, and those that wait for further orders.
struct AllNodes<'a> {
    run: Run,
    codes: Vec<u8>,
    connected: BTreeMap<String, Connection<'a>>,
    interrupted: bool,
}

type HostOutcome<'a> = Result<(Run, RunEnd, Connection<'a>), String>;

impl HostCall {
    /// Measures on all nodes, `at_once` at a time. Stores each result in `kept` when it arrives.
    fn all<'a>(
        &'a self,
        fleet: &Fleet<'a>,
        at_once: usize,
        kept: &mut JointRun<'_>,
    ) -> Result<AllNodes<'a>, Failure> {
        let mut ended = BTreeMap::new();
        let work = |index: usize| self.one(&fleet.hosts[index], &fleet.holds[index]);
        let interrupted = fleet.each(at_once, work, |index, outcome| {
            if let Ok((run, ..)) = &outcome {
                kept.ended(run);
            }
            fleet.show_outcome(index, &outcome, ended.len() + 1);
            ended.insert(index, outcome);
        })?;
        let (mut answers, mut codes, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut connected = BTreeMap::new();
        for (index, host) in fleet.hosts.iter().enumerate() {
            let why = match ended.remove(&index) {
                Some(Ok((run, end, session))) => {
                    // Other exit codes are not plimsoll's.
                    codes.push(end.code.min(code::SERVER_FAILED));
                    answers.push(run);
                    if self.order.stays {
                        connected.insert(host.name.clone(), session);
                    }
                    continue;
                }
                Some(Err(why)) => why,
                None => "the run was interrupted before its turn".to_owned(),
            };
            let earlier = self.earlier.get(&host.name).cloned();
            let what = if earlier.is_some() { "has the results of before alone" } else { "has no result" };
            lost.push(lost_machine(&host.name, what, &why));
            answers.extend(earlier);
        }
        if answers.is_empty() {
            let machines = format_count(lost.len(), "machine");
            let (line, code) = match interrupted {
                true => ("interrupted before a machine had a result".to_owned(), code::INTERRUPTED),
                false => (
                    format!("0 of {machines} have a result, for the reasons above; nothing is stored"),
                    code::SERVER_FAILED,
                ),
            };
            return Err(Failure { line, code });
        }
        let run = gather::together(answers, &BTreeSet::new(), lost)?;
        Ok(AllNodes { run, codes, connected, interrupted })
    }

    fn one<'a>(&'a self, host: &HostName, hold: &'a Hold) -> HostOutcome<'a> {
        let begun = self.earlier.get(&host.name).cloned().map(Box::new);
        let order = RunOrder { begun, ..self.order.clone() };
        let (run, end, session) = measured(&self.launcher, host, &self.programs, &order, hold)?;
        let own = env!("CARGO_PKG_VERSION");
        if run.version != own {
            let version = shown_within(&run.version, 40);
            return Err(format!("its document is of plimsoll {version}, this is {own}"));
        }
        if Some(&run.plan.name) != self.plan.as_ref() {
            return Err(format!("its document is of plan {}", shown_within(&run.plan.name, 60)));
        }
        Ok((run, end, session))
    }
}

impl<'a> Fleet<'a> {
    /// Calls `work` with each node's index, on at most `at_once` threads, and `received` with index
    /// and result on this thread. Returns whether it was interrupted, which leaves nodes out.
    fn each<T: Send>(
        &self,
        at_once: usize,
        work: impl Fn(usize) -> T + Sync,
        mut received: impl FnMut(usize, T),
    ) -> Result<bool, Failure> {
        let (begun, all) = (AtomicUsize::new(0), self.hosts.len());
        let (sender, happenings) = unbounded::<(usize, T)>();
        let next = || Some(begun.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < all);
        let stop = || begun.store(all, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for started in 0..at_once.min(all) {
                let (sender, next, work) = (sender.clone(), &next, &work);
                let one_by_one = move || {
                    while let Some(index) = next() {
                        let _ = sender.send((index, work(index)));
                    }
                };
                match std::thread::Builder::new().name("node".to_owned()).spawn_scoped(scope, one_by_one) {
                    Ok(_) => {}
                    // The threads that started serve all hosts.
                    Err(_) if started > 0 => break,
                    Err(e) => {
                        let line = format!("cannot start a thread: {e}; see ulimit -u and ulimit -v");
                        return Err(Failure::environment(line));
                    }
                }
            }
            drop(sender);
            Ok(self.follow(&happenings, stop, |(index, came)| received(index, came)))
        })
    }

    /// Passes messages to `received` until `happenings` closes. If interrupted, calls `stop`, sends
    /// the nodes a request to end, kills the connections 1.5 s later, and returns true.
    fn follow<T>(&self, happenings: &Receiver<T>, stop: impl Fn(), mut received: impl FnMut(T)) -> bool {
        let (mut interrupts, mut last) = (self.interrupts.clone(), never());
        let seconds = tick(Duration::from_secs(1));
        let mut last_shown = (0, self.progress());
        let mut interrupted = false;
        loop {
            select! {
                recv(happenings) -> happening => match happening {
                    Ok(happening) => received(happening),
                    Err(_) => return interrupted,
                },
                recv(interrupts) -> _ => {
                    interrupted = true;
                    stop();
                    self.holds.iter().for_each(Hold::ask_to_end);
                    interrupts = never();
                    last = after(LAST_WORDS);
                }
                recv(last) -> _ => self.holds.iter().for_each(Hold::end),
                recv(seconds) -> _ => {
                    self.holds.iter().for_each(Hold::count_silent_second);
                    last_shown = self.show_progress(last_shown);
                }
            }
        }
    }

    /// Runs `work` on a thread, with interrupts as in [`Self::follow`]. Its argument prints a line,
    /// if any, and returns false once interrupted. Returns the result, and true if interrupted.
    fn run_supervised<T: Send + Default>(
        &self,
        work: impl FnOnce(&dyn Fn(Option<String>) -> bool) -> T + Send,
    ) -> (T, bool) {
        let goes_on = AtomicBool::new(true);
        let (sender, lines) = unbounded::<String>();
        std::thread::scope(|scope| {
            let goes_on = &goes_on;
            let stop = || goes_on.store(false, Ordering::Relaxed);
            let works = move || {
                work(&|line| {
                    line.into_iter().for_each(|line| drop(sender.send(line)));
                    goes_on.load(Ordering::Relaxed)
                })
            };
            let thread = std::thread::Builder::new().name("together".to_owned()).spawn_scoped(scope, works);
            let Ok(thread) = thread else { return (T::default(), false) };
            let interrupted = self.follow(&lines, stop, |line: String| self.report(&line));
            (thread.join().unwrap_or_default(), interrupted)
        })
    }

    fn report(&self, line: &str) {
        if self.reports {
            complain(line);
        }
    }

    fn progress(&self) -> MachineProgress {
        self.holds.iter().map(Hold::progress).fold(MachineProgress::default(), |sum, one| MachineProgress {
            done: sum.done.saturating_add(one.done),
            of: sum.of.saturating_add(one.of),
        })
    }

    /// Prints how many cases are done, if that changed and the last line is [`PROGRESS_SECONDS`]
    /// old. Takes and returns the age of the last line in s, and its counts. Call it once a second.
    fn show_progress(&self, (seconds, last): (u32, MachineProgress)) -> (u32, MachineProgress) {
        let now = self.progress();
        if seconds < PROGRESS_SECONDS || now == last {
            return (seconds + 1, last);
        }
        self.report(&format!("{} of {} measured", now.done, format_count(now.of, "case")));
        (0, now)
    }

    fn show_outcome(&self, index: usize, outcome: &HostOutcome<'_>, ended: usize) {
        let (name, all) = (&self.hosts[index].name, format_count(self.hosts.len(), "machine"));
        match outcome {
            Ok((run, end, _)) => {
                if let Some(line) = &end.line {
                    complain(&format!("{name}: {}", shown_within(line, 400)));
                }
                let (cases, seconds) = (format_count(run.measurements.len(), "case"), run.elapsed_s);
                self.report(&format!("{name}: {cases} in {seconds:.0} s ({ended} of {all} ended)"));
            }
            Err(why) => complain(&format!("{name}: {why}")),
        }
    }
}

/// Returns the finding `NAME WHAT: WHY` on a lost node, such as `n7 has no result: timeout`.
fn lost_machine(name: &str, what: &str, why: &str) -> Finding {
    let why = shown_within(why, 400);
    Finding::new(LOST, format!("{name} {what}: {why}"), json!({ "node": name, "why": why }))
}
