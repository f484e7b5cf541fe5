//! `plimsoll watch`: starts, resumes, shows and ends a watch.

mod probing;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use plimsoll_command::cli::{Common, DiskAndNetwork, Measurable, WatchCommand as Typed};
use plimsoll_machine::{MachineState, Root, processes};
use plimsoll_metal::usage::cpu_seconds_with_children;
use plimsoll_model::case::Case;
use plimsoll_output::report::{Style, StyleOptions, watch as report};
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_result::event::RunEvent;
use plimsoll_result::finding;
use plimsoll_system::wall;
use plimsoll_units::text::{format_count, shown_path, shown_within};
use plimsoll_watch::{
    JournalContent, JournalEntry, JournalError, MOST_PROBES, WatchJournal, WatchOrder, WatchResources,
    WatchSession, findings,
};
use rustix::process::Signal;

use super::prepared::{PreparedRun, read_history, takes_server};
use super::signals::stop_process;
use super::{Failure, code, document, ending, first_node, interrupts, printed, resume, serving};
use crate::output::{self, Outputs, complain};
use probing::Probing;

const JOURNAL: &str = "watch";
/// Longest time that a process may take to show the result of a watch.
const SETTLES: Duration = Duration::from_secs(60);
/// Code of a finding that a watch reports in its own way.
const OF_SERIES: &str = "changed";

pub(super) fn watch(typed: &Typed) -> Result<ExitCode, Failure> {
    let location = output::location(typed.store.as_deref())?.ok_or_else(|| {
        let why = "watch keeps its journal in the directory of the history: --store none is not possible, use --store DIR";
        Failure::usage(why)
    })?;
    if (typed.status || typed.stop || typed.resume) && !location.directory().exists() {
        return Err(JournalError::Missing(shown_path(&location.directory().join(JOURNAL))).into());
    }
    let path = location.file_path(JOURNAL)?;
    match () {
        () if typed.status => status(&path),
        () if typed.stop => stop(typed, &path),
        () if typed.resume => {
            let (journal, kept) = read_journal(WatchJournal::open(&path)?)?;
            resume_watch(typed, journal, kept)
        }
        () => begin(typed, &path),
    }
}

/// Drops an incomplete last line of a watch's journal file, and returns the journal and its
/// content. Fails, and removes the file, if not even the first line is complete.
fn read_journal(mut journal: WatchJournal) -> Result<(WatchJournal, JournalContent), Failure> {
    if journal.is_stillborn()? {
        let missing = JournalError::Missing(shown_path(&journal.path));
        journal.remove()?;
        return Err(missing.into());
    }
    let kept = journal.read_and_repair()?;
    Ok((journal, kept))
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        match &error {
            JournalError::Failed { .. } => Self::environment(error.to_string()),
            _ => Self::usage(error.to_string()),
        }
    }
}

fn common(typed: &Typed, begun: Option<&WatchOrder>) -> Common {
    let (only, dir, server) = match begun {
        Some(begun) => (&begun.only, &begun.dir, &begun.server),
        None => (&typed.only, &typed.disk_and_network.dir, &typed.disk_and_network.server),
    };
    Common {
        only: only.clone(),
        dir: dir.clone(),
        server: server.iter().cloned().collect(),
        samples: begun.is_none().then_some(1),
        store: typed.store.clone(),
        json: typed.json.clone(),
        html: typed.html.clone(),
        quiet: typed.quiet,
        ..Common::default()
    }
}

fn begin(typed: &Typed, path: &Path) -> Result<ExitCode, Failure> {
    let common = common(typed, None);
    // Reports unwritable outputs before the watch starts.
    drop(Outputs::open(&common, &crossbeam_channel::never())?);
    if path.symlink_metadata().is_ok() {
        // An existing file is never replaced, even if it is no journal.
        let mut journal = WatchJournal::open(path)?;
        if !journal.is_stillborn()? {
            let there = journal.read_and_repair().err();
            return Err(there.unwrap_or_else(|| JournalError::Unfinished(shown_path(path))).into());
        }
        journal.remove()?;
    }
    let [lasts, every] = [typed.lasts, typed.every].map(|time| time.as_secs_f64());
    if lasts / every > MOST_PROBES {
        let least = (lasts / MOST_PROBES * 10.0).ceil() / 10.0;
        return Err(Failure::usage(format!(
            "--every: a watch has at most {MOST_PROBES} probes; with this --for it must be {least}s or more"
        )));
    }
    let DiskAndNetwork { dir, server, key } = &typed.disk_and_network;
    let (key, plan) = (serving::key(key.as_deref())?, Measurable::Plan(typed.plan.clone()));
    let prepared = PreparedRun { key, ..PreparedRun::new(&plan, &common, None, dir.is_some())? };
    let prepared = measurable(prepared, dir.is_some());
    if prepared.planned.is_empty() {
        return Err(Failure::usage("no case of the plan can be watched here: the lines above say why"));
    }
    let (cpu, disk, network) = (typed.cpu_share, typed.disk_a_day as f64, typed.network_a_day as f64);
    let begun = WatchOrder {
        schema: String::new(),
        seconds: lasts,
        every,
        shares: WatchResources { cpu, disk, network },
        idle_only: typed.idle_only,
        dir: dir.as_ref().map(|dir| std::path::absolute(dir).unwrap_or_else(|_| dir.clone())),
        server: server.clone(),
        only: typed.only.clone(),
        run: document(&prepared),
    };
    let mut journal = WatchJournal::make(path, begun)?;
    let kept = journal.read_and_repair()?;
    probe_and_show(typed, &prepared, journal, kept, &common)
}

/// Continues a watch with its stored options. If its time is over, shows and stores its result.
fn resume_watch(typed: &Typed, journal: WatchJournal, kept: JournalContent) -> Result<ExitCode, Failure> {
    if elapsed(&kept) >= kept.begun.seconds {
        return ended(typed, journal, kept);
    }
    let common = common(typed, Some(&kept.begun));
    drop(Outputs::open(&common, &crossbeam_channel::never())?);
    let key = serving::key(typed.disk_and_network.key.as_deref())?;
    let run = &kept.begun.run;
    let what = plan(&kept.begun);
    let prepared = PreparedRun::new(&what, &common, Some(&run.machine), common.dir.is_some())?;
    let mut prepared = PreparedRun { key, ..prepared };
    resume::same_text(run, &mut prepared)?;
    let prepared = measurable(prepared, kept.begun.dir.is_some());
    probe_and_show(typed, &prepared, journal, kept, &common)
}

fn plan(begun: &WatchOrder) -> Measurable {
    let plan = &begun.run.plan;
    Measurable::Text { name: plimsoll_units::text::shown(&plan.name), text: plan.text.clone() }
}

/// Returns the seconds since the watch started; by wall clock if the machine has rebooted since.
fn elapsed(kept: &JournalContent) -> f64 {
    let here = boot();
    let by_boot = kept.sessions.last().filter(|session| session.boot == here);
    let by_boot = by_boot.map(|session| session.at + wall::since_boot() - session.since_boot);
    let by_wall = || wall::seconds_since(&kept.begun.run.started).unwrap_or(0.0);
    by_boot.unwrap_or_else(by_wall).max(kept.reached)
}

fn boot() -> String {
    shown_within(&Root::live().line("proc/sys/kernel/random/boot_id").unwrap_or_default(), 64)
}

/// Removes cases that cannot be measured here, and prints why. `has_dir`: `--dir` is given.
fn measurable(mut prepared: PreparedRun, has_dir: bool) -> PreparedRun {
    let mut left_out: Vec<(String, String)> = Vec::new();
    prepared.planned.retain(|planned| {
        let case = &planned.candidate.case;
        let why = match &planned.candidate.feasible {
            _ if plimsoll_bench::subsystem_of(case).on_files && !has_dir => "needs --dir".to_owned(),
            _ if takes_server(case) && case.server().is_none() => "needs --server".to_owned(),
            Err(why) => why.to_string(),
            Ok(()) => return true,
        };
        left_out.push((plimsoll_bench::label::full(case), why));
        false
    });
    let mut reasons: Vec<&String> = left_out.iter().map(|(_, why)| why).collect();
    reasons.dedup();
    for why in reasons {
        let cases = left_out.iter().filter(|(_, of)| of == why).map(|(case, _)| case.as_str());
        complain(&format!("not watched ({why}): {}", cases.collect::<Vec<_>>().join(", ")));
    }
    prepared.plan.budget = None;
    prepared
}

/// Measures at intervals until the watch's time is over, then shows its result; 130 after a signal.
fn probe_and_show(
    typed: &Typed,
    prepared: &PreparedRun,
    mut journal: WatchJournal,
    kept: JournalContent,
    common: &Common,
) -> Result<ExitCode, Failure> {
    let session = WatchSession {
        pid: std::process::id(),
        pid_began: processes::began(&Root::live(), std::process::id()).unwrap_or(0),
        boot: boot(),
        since_boot: wall::since_boot(),
        at: elapsed(&kept),
        spent: WatchResources { cpu: cpu_seconds_with_children(), ..WatchResources::default() },
    };
    journal.add(&JournalEntry::Session(session.clone()))?;
    let style = Style::detect(StyleOptions { quiet: typed.quiet, ..StyleOptions::default() });
    let mut probing = Probing::new(prepared, &kept, journal, &session, interrupts()?, style);
    if probing.is_stopped() {
        let line = "the watch is stopped: plimsoll watch --resume continues it, plimsoll watch --stop ends it with its result (with the same --store)";
        complain(line);
        return Ok(ExitCode::from(code::INTERRUPTED));
    }
    let mut journal = probing.journal;
    let kept = journal.read_and_repair()?;
    shown(&kept, common, journal)
}

/// Ends the watch, now or at its planned end if that is over, and shows and stores its result.
fn ended(typed: &Typed, journal: WatchJournal, mut kept: JournalContent) -> Result<ExitCode, Failure> {
    kept.until = elapsed(&kept).min(kept.begun.seconds);
    let common = common(typed, Some(&kept.begun));
    super::distinct_outputs(&common)?;
    shown(&kept, &common, journal)
}

/// Returns the run document of a watch: each case has the results of all probes in `kept`.
fn result(kept: &JournalContent, common: &Common) -> Result<Run, Failure> {
    let begun = &kept.begun;
    let prepared = PreparedRun::elsewhere(&plan(begun), common, begun.run.machine.clone())?;
    let mut cases: Vec<Case> =
        prepared.planned.iter().map(|planned| planned.candidate.case.clone()).collect();
    for probed in kept.probes.iter().flat_map(|probe| &probe.cases) {
        if !cases.contains(&probed.case) {
            cases.push(probed.case.clone());
        }
    }
    let outcomes = kept.join_probes(&cases, begun.run.machine.cpu.allowed.len());
    let mut run = begun.run.clone();
    let node = first_node(&run);
    let maker = plimsoll_result::evaluate::Maker { seed: run.seed, ..prepared.maker(&node) };
    run.measurements = outcomes.iter().map(|outcome| maker.measurement(outcome, &outcomes)).collect();
    run.findings = findings(kept, &run.measurements);
    let general = finding::findings(&run.measurements).into_iter();
    run.findings.extend(general.filter(|finding| finding.code != OF_SERIES));
    run.plan.cases = run.measurements.len();
    run.status = RunStatus::Complete;
    run.elapsed_s = kept.reached;
    // The machine's state before the first probe does not describe the watch.
    run.machine.state = MachineState::default();
    Ok(run)
}

/// Prints the result and stores it in the history; removes the journal once it is stored.
fn shown(kept: &JournalContent, common: &Common, journal: WatchJournal) -> Result<ExitCode, Failure> {
    if kept.probes.is_empty() {
        return fail_without_probes(kept, journal);
    }
    let id = &kept.begun.run.id;
    if is_in_history(id, common) {
        journal.remove()?;
        let id = plimsoll_units::text::shown(id);
        return printed(&format!("the result is in the history: plimsoll history show {id}\n"));
    }
    let run = result(kept, common)?;
    let mut outputs = Outputs::open(common, &crossbeam_channel::never())?;
    outputs.begin(&Run { measurements: Vec::new(), ..run.clone() }, false);
    for measurement in &run.measurements {
        outputs.event(&RunEvent::Measured { measurement: Box::new(measurement.clone()) });
    }
    let all = outputs.finish(&run);
    match is_in_history(id, common) {
        true => journal.remove()?,
        false => complain(
            "the result is not in the history, so the journal of the watch stays: plimsoll watch --stop tries again",
        ),
    }
    let own = ending::node_exit_code(&run, false, all);
    Ok(ExitCode::from(ending::run_exit_code(&run, &[own])))
}

/// Removes the journal of a watch without probes. Always fails, with the reason.
fn fail_without_probes(kept: &JournalContent, journal: WatchJournal) -> Result<ExitCode, Failure> {
    journal.remove()?;
    let why = match kept.passed.len() {
        0 => "it was stopped before the first one".to_owned(),
        n => format!(
            "others used the machine whenever one was due ({}); leave out --idle-only to measure all the same",
            format_count(n, "probe")
        ),
    };
    Err(Failure::environment(format!("no probe was made: {why}")))
}

fn is_in_history(id: &str, common: &Common) -> bool {
    let kept = read_history(common.store.as_deref()).and_then(|store| store.load(id).ok());
    kept.is_some_and(|kept| kept.status == RunStatus::Complete)
}

fn status(path: &Path) -> Result<ExitCode, Failure> {
    let kept = match JournalContent::read(path) {
        Err(JournalError::Missing { .. }) => return printed("no watch is running or unfinished\n"),
        kept => kept?,
    };
    let runs = matches!(WatchJournal::open(path), Err(JournalError::Running { .. }));
    let run = result(&kept, &Common::default())?;
    let style = Style::detect(StyleOptions::default());
    printed(&report::status(&kept, &run, runs, elapsed(&kept), &style))
}

fn stop(typed: &Typed, path: &Path) -> Result<ExitCode, Failure> {
    let kept = JournalContent::read(path)?;
    if let Err(e) = WatchJournal::open(path) {
        match (e, kept.sessions.last()) {
            (JournalError::Running { .. }, Some(session)) => {
                let advice = "stop the watch where it runs (Ctrl-C), then type plimsoll watch --stop again";
                complain(&format!("stopping the watch of process {}", session.pid));
                stop_process(session.pid, session.pid_began, Signal::TERM, advice)?;
            }
            (e, _) => return Err(e.into()),
        }
    }
    let journal = match WatchJournal::open_at_last(path, SETTLES) {
        Err(JournalError::Missing { .. }) => {
            return printed("the watch ended by itself meanwhile: plimsoll history shows its result\n");
        }
        journal => journal?,
    };
    let (journal, kept) = read_journal(journal)?;
    ended(typed, journal, kept)
}
