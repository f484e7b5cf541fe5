//! Carries out a command line: plan → machine → cases → run → history and report → exit code.

mod check;
mod compare;
mod doctor;
mod ending;
mod export;
mod formats;
mod gate;
mod history;
mod hosts;
mod named_runs;
mod planning;
mod prepared;
mod prices;
mod ref_tools;
mod replay;
mod resume;
mod serving;
mod signals;
mod site;
mod steady;
mod watch;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crossbeam_channel::Receiver;
use plimsoll_bench::Candidate;
use plimsoll_command::cli::{Common, MachineFlags, Measurable, TypedCommand};
use plimsoll_command::resolve;
use plimsoll_history::Location;
use plimsoll_machine::{Health, Machine, Root, saved};
use plimsoll_metal::clock::{CoreClock, ProbeWork};
use plimsoll_metal::isa::Absence;
use plimsoll_model::job::cpu::CpuKernel;
use plimsoll_model::measurement::Measurement;
use plimsoll_model::plan::write;
use plimsoll_output::report;
use plimsoll_output::report::target::{OutputTarget, Waits, is_stdout};
use plimsoll_output::report::{Style, StyleOptions};
use plimsoll_reference::ReferenceTools;
use plimsoll_result::document::{Node, NodeHealth, PlanInfo, RUN_SCHEMA, Run, RunStatus};
use plimsoll_result::event::RunEvent;
use plimsoll_result::finding;
use plimsoll_run::Harness;
use plimsoll_run::clock::SystemClock;
use plimsoll_run::worker::{self, Workers};
use plimsoll_server::wire::SharedKey;
use plimsoll_system::leftover::Registry;
use plimsoll_system::program::OwnProgram;
use plimsoll_system::wall;
use plimsoll_units::text::shown_path;

use crate::failure::{OrFailure, unfit};
use crate::output::{Outputs, complain, shareable};
use hosts::{gather, hosted};
use planning::{generate, plans};
use prepared::PreparedRun;
use resume::ResumedRun;
use signals::{interrupts, interrupts_until};

pub use crate::failure::{Failure, code};
pub use formats::command;

/// Runs a parsed command line to its end. Returns the process's exit code, or the error to print.
pub fn execute(typed: TypedCommand) -> Result<ExitCode, Failure> {
    signals::settle();
    plimsoll_system::random::check_available().or_environment()?;
    if matches!(
        typed,
        TypedCommand::Measure { hosts: None, .. }
            | TypedCommand::Plan(_)
            | TypedCommand::References(_)
            | TypedCommand::Site(_)
            | TypedCommand::Gate(_)
            | TypedCommand::Watch(_)
            | TypedCommand::Steady(_)
            | TypedCommand::History(_)
    ) {
        // `plimsoll doctor` names files that cannot be removed.
        let _ = ref_tools::reaped();
    }
    match typed {
        TypedCommand::Measure { what, common, key, hosts: None } => {
            let key = serving::key(key.as_deref())?;
            measure(&what, &plans::located(&what, *common)?, key)
        }
        TypedCommand::Measure { what, common, key, hosts: Some((hosts, words)) } => {
            plans::refuse_targets(&what, &common)?;
            hosts::measure((&what, &common, key.as_deref()), &hosts, words)
        }
        TypedCommand::EachHost { hosts, words, quiet } => hosts::run_on_hosts(&hosts, words, quiet),
        TypedCommand::Hosted(directory) => hosted::measure(&directory),
        TypedCommand::Plan(work) => plans::execute(*work),
        TypedCommand::Serve(typed) => serving::serve(&typed),
        TypedCommand::NewKey(file) => serving::new_key(file.as_deref()),
        TypedCommand::Machine(typed) => show_machine(&typed),
        TypedCommand::Check(typed) => check::check(&typed),
        TypedCommand::Compare(typed) => compare::compare(&typed),
        TypedCommand::Report(typed) => replay::report(&typed),
        TypedCommand::Export(typed) => export::export(&typed),
        TypedCommand::Gather(typed) => gather::gather(&typed),
        TypedCommand::Gate(typed) => gate::gate(&typed),
        TypedCommand::Watch(typed) => watch::watch(&typed),
        TypedCommand::Steady(typed) => steady::steady(&typed, false),
        TypedCommand::Site(typed) => site::site(&typed),
        TypedCommand::Doctor(typed) => doctor::doctor(&typed),
        TypedCommand::History(typed) => history::history(&typed),
        TypedCommand::Worker => worker::serve(std::io::stdin().lock(), std::io::stdout().lock())
            .map(|()| ExitCode::SUCCESS)
            .or_environment(),
        TypedCommand::References(typed) => ref_tools::list(&typed),
        TypedCommand::Launch(typed) => ref_tools::launch(&typed),
        TypedCommand::PrivateServer => serving::private(),
        TypedCommand::Observer(typed) => steady::steady(&typed, true),
        TypedCommand::Generate(directory) => generate::generate(&directory),
    }
}

/// Returns the canonical form of a path whose last parts may not exist; `-` (stdout) is unchanged.
fn canonical_path(path: &Path) -> PathBuf {
    /// The kernel's limit (path_resolution(7)).
    const MOST_LINKS: usize = 40;
    if is_stdout(path) {
        return PathBuf::from("-");
    }
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(whole) = path.canonicalize() {
            return whole;
        }
        let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let Ok(link) = path.read_link() else {
            let below = |above: &Path| {
                let existing = if above == Path::new("") { Path::new(".") } else { above };
                Some(existing.canonicalize().ok()?.join(path.strip_prefix(above).ok()?))
            };
            return path.ancestors().skip(1).find_map(below).unwrap_or_else(|| path.clone());
        };
        path = directory.join(link);
    }
    path
}

fn distinct_outputs(common: &Common) -> Result<(), Failure> {
    let named = [("--json", &common.json), ("--html", &common.html), ("--events", &common.events)];
    let places = places(&named);
    if let Ok(Some(store)) = crate::output::location(common.store.as_deref()) {
        let history = Location::Named(canonical_path(store.directory()));
        if let Some((flag, path)) = places.iter().find(|(_, path)| history.holds(path)) {
            let path = shown_path(path);
            return Err(Failure::usage(format!("{flag} must not be a file of the history: {path} is")));
        }
    }
    distinct(&places)
}

fn refuse_overwriting_input<'a, const N: usize>(
    read: impl IntoIterator<Item = &'a Path>,
    named: [(&'static str, &Option<PathBuf>); N],
) -> Result<(), Failure> {
    let read: Vec<PathBuf> =
        read.into_iter().filter(|path| !is_stdout(path) && path.exists()).map(canonical_path).collect();
    let replaced = places(&named).into_iter().find(|(_, to)| read.contains(to));
    let Some((flag, path)) = replaced else { return Ok(()) };
    let path = shown_path(&path);
    Err(Failure::usage(format!("{flag} would replace {path}, which is read; name another file")))
}

/// Fails if `json`, the path of `--json`, is a file whose text does not start with `own`, as all
/// documents of the same `kind` (`a check document`) do. An empty or missing file and `-` pass.
fn refuse_replacing(json: Option<&Path>, own: &str, kind: &str) -> Result<(), Failure> {
    let Some(path) = json.filter(|path| !is_stdout(path) && path.is_file()) else { return Ok(()) };
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(own.len() as u64).read_to_end(&mut head));
    if read.is_err() || head.is_empty() || head == own.as_bytes() {
        return Ok(());
    }
    let path = shown_path(path);
    Err(Failure::usage(format!(
        "--json would replace {path}, which is not {kind}; name another file, or - for stdout"
    )))
}

fn places(named: &[(&'static str, &Option<PathBuf>)]) -> Vec<(&'static str, PathBuf)> {
    named.iter().filter_map(|(flag, path)| Some((*flag, canonical_path(path.as_ref()?)))).collect()
}

fn distinct(places: &[(&'static str, PathBuf)]) -> Result<(), Failure> {
    for (i, (flag, path)) in places.iter().enumerate() {
        if let Some((other, _)) = places[..i].iter().find(|(_, earlier)| earlier == path) {
            let shown = shown_path(path);
            return Err(Failure::usage(match shown.as_str() {
                "-" => format!("{other} - and {flag} - are mutually exclusive: stdout takes one of them"),
                _ => format!("{other} and {flag} must be different files: both are {shown}"),
            }));
        }
    }
    Ok(())
}

fn measure(what: &Measurable, common: &Common, key: Option<SharedKey>) -> Result<ExitCode, Failure> {
    let looks = common.list || common.dry_run;
    match plimsoll_cluster::started_with_others() {
        Some((number, _)) if looks && number > 0 => return Ok(ExitCode::SUCCESS),
        Some((0, processes)) if !looks => complain(&format!(
            "each of the {processes} processes measures alone; for one run over all machines start one and name them with --hosts"
        )),
        _ => {}
    }
    let measured = measure_here(what, common, key).map(ExitCode::from);
    // A worker is killed at its end, with files that have names.
    let _ = ref_tools::reaped();
    measured
}

/// Measures `what` on this machine, or prints what `--list` or `--dry-run` requests. Returns the
/// exit code. `key` is the secret shared with `--server`, if any.
fn measure_here(what: &Measurable, common: &Common, key: Option<SharedKey>) -> Result<u8, Failure> {
    let begun = common.resume.as_deref().map(|run| resume::begun(run, common)).transpose()?;
    let resumed = begun.as_ref().filter(|_| *what == Measurable::Kept);
    let kept = resumed.map(|begun| resume::plan_of(begun, common)).transpose()?;
    let before = begun.as_ref().map(|begun| &begun.run.machine);
    let what_now = kept.as_ref().unwrap_or(what);
    let mut prepared = PreparedRun { key, ..PreparedRun::new(what_now, common, before, true)? };
    if let Some(begun) = &begun {
        resume::same(&begun.run, &mut prepared)?;
    }
    if common.list || common.dry_run {
        for file in [&common.json, &common.html].into_iter().flatten() {
            target(file)?;
        }
        if let Some(store) = common.store.as_ref().filter(|store| store.is_file()) {
            let store = shown_path(store);
            return Err(Failure::usage(format!("--store must be a directory: {store} is a file")));
        }
        let text = if common.list {
            prepared::listed(&prepared) + &prepared::kernels(&prepared, what)
        } else {
            prepared::dry_run_text(&prepared, common)?
        };
        printed(&text)?;
        let none = prepared.planned.iter().all(|planned| planned.candidate.feasible.is_err());
        return Ok(if common.dry_run && none { code::ENVIRONMENT } else { 0 });
    }
    let interrupts = interrupts()?;
    run(Outputs::open(common, &interrupts)?, &prepared, common, interrupts, begun).map(|(_, code)| code)
}

fn target(path: &Path) -> Result<OutputTarget, Failure> {
    let waits = Waits { registry: Registry::here(), ..Waits::without_interrupts(complain) };
    OutputTarget::new(path, &waits).map_err(|e| unfit(&e))
}

fn own_program() -> Result<PathBuf, Failure> {
    let own = OwnProgram::find().map_err(|e| {
        Failure::environment(format!(
            "cannot find plimsoll's own program file: {e}; mount /proc, or start plimsoll by its full path"
        ))
    });
    own.map(|own| own.path)
}

/// Prints `text` to stdout. Returns success, also if the reader of stdout has closed the pipe.
fn printed(text: &str) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(lost(&e)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn lost(error: &std::io::Error) -> Failure {
    Failure::environment(format!("cannot write to stdout: {error}"))
}

/// Measures what `earlier`, a run to resume, lacks of `prepared`, completes `outputs`, and checks
/// `--require`. Returns the run and its exit code. A message on `interrupts` ends the run early.
fn run(
    mut outputs: Outputs,
    prepared: &PreparedRun,
    common: &Common,
    interrupts: Receiver<()>,
    earlier: Option<ResumedRun>,
) -> Result<(Run, u8), Failure> {
    let reference_tools = ref_tools::reference_tools(common, interrupts.clone(), prepared)?;
    OwnProgram::find().ok().and_then(|own| own.caution).iter().for_each(|line| complain(line));
    let resumed = earlier.is_some();
    let begun = earlier.map_or_else(|| ResumedRun::new(prepared), Ok)?;
    let ResumedRun { run, held: _held, .. } = begun;
    outputs.begin(&run, resumed);
    let mut emit = |event| outputs.event(&event);
    let (mut run, interrupted) = carry_out(prepared, run, interrupts.clone(), reference_tools, &mut emit)?;
    let shown = Health::read(&Root::live()).into_stored();
    let seen = (!shown.is_empty()).then(|| NodeHealth { node: first_node(&run), shown });
    run.health = seen.into_iter().collect();
    run.findings.extend(finding::health(&run.health));
    let kept = outputs.finish(&run);
    let own = ending::node_exit_code(&run, interrupted || !interrupts.is_empty(), kept);
    let code = ending::final_exit_code(ending::run_exit_code(&run, &[own]), prepared, &run)?;
    Ok((run, code))
}

/// Measures the cases of `prepared` that `document` lacks, and completes it except for `health`.
/// Returns it, and true if a message on `interrupts` ended the run. Calls `emit` for each event.
fn carry_out(
    prepared: &PreparedRun,
    mut document: Run,
    interrupts: Receiver<()>,
    reference_tools: Option<ReferenceTools>,
    emit: &mut dyn FnMut(RunEvent),
) -> Result<(Run, bool), Failure> {
    let (plan, machine) = (&prepared.plan, &prepared.machine);
    let mut station = Workers::new(own_program()?, machine, &prepared.options(), interrupts);
    station.reference_tools = reference_tools;
    let begun = wall::monotonic();
    let mut clock = SystemClock::new(&Root::live(), &machine.cpu.allowed);
    let node = first_node(&document);
    let maker = prepared.maker(&node);
    let mut left = resolve::in_turn(plan, &prepared.planned);
    left.retain(|planned| !resume::measured(&document, planned));
    let before = document.measurements.iter().map(Measurement::evidence).collect();
    let (station, clock) = (&mut station, &mut clock);
    let mut harness = Harness { station, clock, emit, maker, budget: plan.budget, reference_s: 0.0 };
    let ran = harness.run(&document.id, &left, before);
    document.clock_steps.extend(clock.steps(&node));
    document.measurements.extend(ran.measurements(maker));
    document.findings = finding::findings(&document.measurements);
    document.findings.extend(finding::clock_steps(&document.clock_steps));
    document.status = if ran.interrupted { RunStatus::Partial } else { RunStatus::Complete };
    document.elapsed_s += wall::monotonic() - begun;
    Ok((document, ran.interrupted || station.was_interrupted()))
}

fn first_node(run: &Run) -> String {
    run.nodes.first().map(|node| node.name.clone()).unwrap_or_default()
}

/// Returns the document of a new run: a new id, start now, status partial, no measurements.
fn document(prepared: &PreparedRun) -> Run {
    let (plan, machine) = (&prepared.plan, &prepared.machine);
    let name = machine.host.as_deref().unwrap_or("localhost");
    Run {
        schema: RUN_SCHEMA.to_owned(),
        id: wall::run_id(),
        started: wall::now().to_string(),
        elapsed_s: 0.0,
        clock_steps: Vec::new(),
        health: Vec::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: plan.seed,
        status: RunStatus::Partial,
        plan: PlanInfo {
            name: plan.name.clone(),
            samples: plan.sampling.samples,
            sample_time: plan.sampling.sample_time,
            precision: plan.sampling.precision,
            budget: plan.budget,
            cases: prepared.planned.len() * plan.repeat as usize,
            repeat: plan.repeat,
            scale: plan.scale,
            hash: resolve::hash(plan, &prepared.planned),
            text: write::text(&plan.file),
            notes: [plans::notes(plan, &prepared.planned), ref_tools::idle(prepared)].concat(),
        },
        machine: machine.clone(),
        nodes: vec![Node { name: name.to_owned(), machine: None }],
        findings: Vec::new(),
        measurements: Vec::new(),
    }
}

fn show_machine(typed: &MachineFlags) -> Result<ExitCode, Failure> {
    let from = typed.from.as_deref();
    let named = |flag: &str, e: saved::SavedError| {
        let text = format!("{flag} {e}");
        if e.is_of_the_name() { Failure::usage(text) } else { Failure::environment(text) }
    };
    let root = from.map_or_else(|| Ok(Root::live()), saved::open).map_err(|e| named("--from", e))?;
    let mut machine = Machine::discover(&root);
    if let Some(to) = &typed.save {
        saved::save(&root, &machine, to).map_err(|e| named("--save", e))?;
        return Ok(ExitCode::SUCCESS);
    }
    if from.is_none() {
        machine.set_storage_behind(&root, Path::new("."));
    } else if root.exists("proc/self/mountinfo") {
        machine.set_storage_behind(&root, Path::new("/"));
    }
    if typed.json {
        return printed(&(serde_json::to_string_pretty(&machine).or_environment()? + "\n"));
    }
    let mut sections = report::machine::describe(&machine);
    sections.extend(report::machine::cores(&machine));
    sections.extend(report::machine::health(&Health::read(&root)));
    // A clock measured here does not belong to the saved machine.
    let probe = || CoreClock::calibrate(ProbeWork::SCALAR).ok().and_then(|clock| clock.probe());
    let clock_hz = if from.is_none() { probe() } else { None };
    let plan = resolve::plan(&Measurable::Plan("quick".to_owned()), &Common::default());
    let planned = plan.and_then(|plan| resolve::planned(&plan, &machine)).map_err(plans::usage)?;
    let mut candidates: Vec<Candidate> = planned.into_iter().map(|p| p.candidate).collect();
    if from.is_some() {
        // The best instruction set of a saved machine, if this program has kernels for it.
        let isa = machine.cpu.best_isa();
        let isa = isa.filter(|isa| !matches!(isa.available(), Err(Absence::Architecture { .. })));
        let has_isa = |one: &Candidate| CpuKernel::of(&one.case).isa.is_some();
        candidates.retain(|one| isa.is_some() || !has_isa(one));
        for one in candidates.iter_mut().filter(|one| has_isa(one)) {
            one.case = one.case.clone().with_word("isa", isa.map_or("", |isa| isa.name()));
        }
    }
    sections.extend(report::machine::limits(&machine, &candidates, clock_hz));
    let style = Style::detect(StyleOptions::default());
    printed(&report::machine::text(&sections, style.width))
}
