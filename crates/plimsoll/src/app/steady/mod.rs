//! `plimsoll steady`: probes the machine, runs a command while it observes, probes again, judges.

mod child;
mod detached;
mod kept;
mod probe;
mod results;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_command::cli::SteadyCommand;
use plimsoll_machine::cpu::CacheKind;
use plimsoll_machine::{Health, Machine, Root};
use plimsoll_output::report::{self, Style, StyleOptions};
use plimsoll_steady::{
    ExitStatusShown, Fingerprint, LevelLoss, ProbeLevel, ResultMarker, STEADY_SCHEMA, SteadyAnswer,
    SteadyDocument, SteadyVerdict, summary,
};
use plimsoll_system::wall;
use plimsoll_units::text::shown_bytes;

use rustix::process::{Signal, set_parent_process_death_signal};

use super::{Failure, code, target};
use crate::output;
use child::SignalRelay;

/// Cache of one core if discovery does not find it, in bytes.
const USUAL_CACHE: u64 = 1 << 20;
/// Share of the time for which the command must run on a CPU to be slowed down by the machine.
const MIN_RUN: f64 = 0.2;

/// Carries out `plimsoll steady`; if `is_observer`, as the background process of `steady --start`.
pub(super) fn steady(typed: &SteadyCommand, is_observer: bool) -> Result<ExitCode, Failure> {
    if typed.start.is_some() && !is_observer {
        return detached::start();
    }
    if let [line] = typed.command.as_slice()
        && line.to_string_lossy().contains(' ')
        && !is_program(line)
    {
        let line = shown(line);
        let why = format!("'{line}' is one word: write the command without quotes, or after sh -c");
        return Err(Failure::usage(why));
    }
    let to = typed.output.as_deref().map(target).transpose()?;
    let baseline = kept::baseline(typed)?;
    let observed = typed.start.as_deref().map(|name| detached::find_process(typed, name)).transpose()?;
    let style = Style::detect(StyleOptions { quiet: typed.quiet, ..StyleOptions::default() });
    if is_observer {
        // Until it observes, it ends with the process that waits for that.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    let relay = SignalRelay::start()?;
    // Before the look at the machine, which would count as work of the caller.
    let stopped = typed.stop.as_deref().map(|name| detached::end(typed, name)).transpose()?;
    let prepared = probe::prepare(typed)?;
    let probe = |when: &str| {
        output::show_progress(&style, &format!("steady: probing {when} the command"));
        let levels = probe::measure(&prepared, &relay);
        output::show_progress(&style, "");
        levels
    };
    let mut document = match stopped {
        Some(stopped) => stopped,
        None => {
            let levels = probe("before");
            if relay.is_interrupted() {
                return Ok(ExitCode::from(code::INTERRUPTED));
            }
            let mut document = new_document(typed, &prepared.machine, levels);
            if let Some(observed) = observed {
                return detached::observe(typed, observed, document, &prepared.machine, &relay);
            }
            if let Err(failure) = run_all(typed, &prepared.machine, &relay, &mut document) {
                return Ok(failure);
            }
            document
        }
    };
    if !relay.is_interrupted() {
        probe::join(&mut document.levels, &probe("after"));
    }
    decide(&mut document, baseline.as_ref());
    let marker = ResultMarker::new(&document);
    document.results = typed.results.iter().flat_map(|path| results::mark(path, &marker)).collect();
    output::print_line(report::format::steady::text(&document, "text").trim_end());
    if let Some(to) = &to {
        to.put(&report::format::steady::text(&document, &typed.format))?;
    }
    kept::keep(typed, &document)?;
    typed.stop.iter().try_for_each(|name| detached::remove(typed, name))?;
    let is_steady = document.answer == SteadyAnswer::HeldStill;
    let code = document.runs.last().and_then(|run| run.ended).map_or(0, ExitStatusShown::exit_code);
    Ok(ExitCode::from(if typed.fail_unless_steady && !is_steady { code::UNDECIDED } else { code }))
}

fn is_program(name: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain([PathBuf::new()]).any(|directory| directory.join(name).exists())
}

fn new_document(typed: &SteadyCommand, machine: &Machine, levels: Vec<ProbeLevel>) -> SteadyDocument {
    let fingerprint = Fingerprint::new(machine, &Health::read(&Root::live()));
    SteadyDocument {
        schema: STEADY_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: wall::now().to_string(),
        command: typed.start.iter().cloned().chain(typed.command.iter().map(|word| shown(word))).collect(),
        testbed: fingerprint.testbed(),
        machine: fingerprint,
        levels,
        ..SteadyDocument::default()
    }
}

/// Runs the command `--repeat` times, or until a signal, and adds the runs to `document`. The error
/// is the exit code if a run cannot be started.
fn run_all(
    typed: &SteadyCommand,
    machine: &Machine,
    relay: &SignalRelay,
    document: &mut SteadyDocument,
) -> Result<(), ExitCode> {
    let mut used = 0.0;
    for _ in 0..typed.repeat {
        used += child::run(&typed.command, machine, relay, document)?;
        if relay.is_interrupted() {
            break;
        }
    }
    let elapsed: f64 = document.runs.iter().map(|run| run.elapsed_s).sum();
    document.observer_share = (elapsed > 0.0).then(|| used / elapsed);
    Ok(())
}

/// Sets the verdict of `document` from its runs, its probes and the (name, document) of a baseline.
fn decide(document: &mut SteadyDocument, baseline: Option<&(String, SteadyDocument)>) {
    let verdicts: Vec<SteadyVerdict> = document.runs.iter().map(|run| run.verdict.clone()).collect();
    let intervals = document.runs.iter().flat_map(|run| &run.intervals);
    let (ran, time) =
        intervals.fold((0.0, 0.0), |(ran, time), one| (ran + one.run, time + one.to - one.from));
    // A command that hardly ran cannot have been slowed down.
    let levels = document.levels.iter().filter(|_| ran >= MIN_RUN * time);
    let levels: Vec<LevelLoss> = levels.filter_map(|level| level.loss(level.before, level.after)).collect();
    let mut losses: Vec<LevelLoss> = Vec::new();
    if let Some((name, other)) = baseline {
        document.differences = document.machine.differences(&other.machine);
        let usual = |level: &ProbeLevel| {
            let there = other.levels.iter().find(|there| there.name == level.name)?;
            level.loss(there.before, level.before)
        };
        losses = document.levels.iter().filter_map(usual).collect();
        document.baseline = Some(name.clone());
    }
    let name = document.baseline.as_deref().unwrap_or_default();
    (document.answer, document.line) = summary(&verdicts, (name, &document.differences, &losses), &levels);
    document.share = verdicts.iter().map(|run| run.share).sum::<f64>() / verdicts.len().max(1) as f64;
}

/// Returns the bytes of the largest cache of one core, on level 2; [`USUAL_CACHE`] if unknown.
fn cache(machine: &Machine) -> u64 {
    let own =
        machine.cpu.caches.iter().filter(|cache| cache.level == 2 && cache.kind != CacheKind::Instruction);
    own.filter_map(|cache| cache.size_bytes).max().unwrap_or(USUAL_CACHE)
}

fn shown(word: &OsStr) -> String {
    shown_bytes(word.as_encoded_bytes())
}
