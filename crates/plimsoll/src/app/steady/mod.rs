//! `plimsoll steady`: probes the machine, runs a command while it observes, probes again, judges.

mod child;
mod kept;
mod probe;

use std::process::ExitCode;

use plimsoll_command::cli::SteadyCommand;
use plimsoll_machine::cpu::CacheKind;
use plimsoll_machine::{Health, Machine, Root};
use plimsoll_output::report::{self, Style, StyleOptions};
use plimsoll_steady::{
    Fingerprint, LevelLoss, ObservedRun, ProbeLevel, STEADY_SCHEMA, SteadyAnswer, SteadyDocument,
    SteadyVerdict, judge, summary,
};
use plimsoll_system::wall;
use plimsoll_units::text::shown_bytes;

use super::progress::ProgressText;
use super::{Failure, code, target};
use crate::output;
use child::SignalRelay;

/// Cache of one core if discovery does not find it, in bytes.
const USUAL_CACHE: u64 = 1 << 20;
/// Share of the time for which the command must run on a CPU to be slowed down by the machine.
const MIN_RUN: f64 = 0.2;

pub(super) fn steady(typed: &SteadyCommand) -> Result<ExitCode, Failure> {
    let to = typed.output.as_deref().map(target).transpose()?;
    let baseline = kept::baseline(typed)?;
    let style = Style::detect(StyleOptions { quiet: typed.quiet, ..StyleOptions::default() });
    let progress = ProgressText { style: &style };
    let relay = SignalRelay::start()?;
    let prepared = probe::prepare(typed)?;
    let machine = &prepared.machine;
    progress.show("steady: probing before the command");
    let before = probe::measure(&prepared, &relay);
    progress.clear();
    if relay.is_interrupted() {
        return Ok(ExitCode::from(code::INTERRUPTED));
    }
    let (started, fingerprint) =
        (wall::now().to_string(), Fingerprint::new(machine, &Health::read(&Root::live())));
    let (runs, missing, observer_share) = match run_all(typed, machine, &relay) {
        Ok(ran) => ran,
        Err(failure) => return Ok(failure),
    };
    progress.show("steady: probing after the command");
    let after = if relay.is_interrupted() { Vec::new() } else { probe::measure(&prepared, &relay) };
    progress.clear();
    let mut document = SteadyDocument {
        schema: STEADY_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        command: typed.command.iter().map(|word| shown(word)).collect(),
        answer: SteadyAnswer::Unknown,
        line: String::new(),
        share: 0.0,
        testbed: fingerprint.testbed(),
        machine: fingerprint,
        baseline: None,
        differences: Vec::new(),
        levels: probe::levels(&before, &after),
        missing,
        observer_share,
        runs,
    };
    decide(&mut document, baseline.as_ref());
    output::print_line(report::format::steady::text(&document, "text").trim_end());
    if let Some(to) = &to {
        to.put(&report::format::steady::text(&document, &typed.format))?;
    }
    kept::keep(typed, &document)?;
    let is_steady = document.answer == SteadyAnswer::HeldStill;
    let code = document.runs.last().map_or(0, |run| run.ended.exit_code());
    Ok(ExitCode::from(if typed.fail_unless_steady && !is_steady { code::UNDECIDED } else { code }))
}

/// The runs of a command, what could not be observed, and the share of a CPU that the observation
/// took.
type CommandRuns = (Vec<ObservedRun>, Vec<String>, Option<f64>);

/// Runs the command as often as wanted. Fails with env's exit code if it cannot be started.
fn run_all(typed: &SteadyCommand, machine: &Machine, relay: &SignalRelay) -> Result<CommandRuns, ExitCode> {
    let (mut runs, mut missing) = (Vec::new(), Vec::new());
    let (mut used, mut elapsed) = (0.0, 0.0);
    for _ in 0..typed.repeat {
        let started = wall::now().to_string();
        let ran = child::run(&typed.command, machine, relay)?;
        missing = ran.missing.iter().map(|text| (*text).to_owned()).collect();
        (used, elapsed) = (used + ran.observer_s.unwrap_or(0.0), elapsed + ran.elapsed_s);
        runs.push(ObservedRun {
            started,
            elapsed_s: ran.elapsed_s,
            ended: ran.status,
            verdict: judge(&ran.intervals, cache(machine)),
            intervals: ran.intervals,
        });
        if relay.is_interrupted() {
            break;
        }
    }
    Ok((runs, missing, (elapsed > 0.0).then(|| used / elapsed)))
}

/// Sets the answer of a document from its runs, its probes and the `baseline`.
fn decide(document: &mut SteadyDocument, baseline: Option<&(String, SteadyDocument)>) {
    let verdicts: Vec<SteadyVerdict> = document.runs.iter().map(|run| run.verdict.clone()).collect();
    let intervals = document.runs.iter().flat_map(|run| &run.intervals);
    let (ran, time) =
        intervals.fold((0.0, 0.0), |(ran, time), one| (ran + one.run, time + one.to - one.from));
    // A command that hardly ran cannot have been slowed down.
    let levels = document.levels.iter().filter(|_| ran >= MIN_RUN * time);
    let levels: Vec<LevelLoss> = levels.filter_map(ProbeLevel::change).collect();
    let compared = baseline.map(|(name, other)| {
        document.differences = document.machine.differences(&other.machine);
        let usual = |level: &ProbeLevel| {
            let there = other.levels.iter().find(|there| there.name == level.name)?;
            level.change_from(there.before?)
        };
        let losses: Vec<LevelLoss> = document.levels.iter().filter_map(usual).collect();
        document.baseline = Some(name.clone());
        (name.as_str(), losses)
    });
    let differences = document.differences.clone();
    let compared = compared.as_ref().map(|(name, losses)| (*name, &differences[..], &losses[..]));
    let verdict = summary(&verdicts, compared, &levels);
    (document.answer, document.line, document.share) = (verdict.answer, verdict.line, verdict.share);
}

/// Returns the bytes of the largest cache that belongs to one core.
fn cache(machine: &Machine) -> u64 {
    let own =
        machine.cpu.caches.iter().filter(|cache| cache.level == 2 && cache.kind != CacheKind::Instruction);
    own.filter_map(|cache| cache.size_bytes).max().unwrap_or(USUAL_CACHE)
}

fn shown(word: &std::ffi::OsStr) -> String {
    shown_bytes(word.as_encoded_bytes())
}
