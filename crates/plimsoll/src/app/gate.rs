//! `plimsoll gate`: measures, retests low results, and decides: healthy, sick or unknown.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use plimsoll_command::cli::{AnswerForm, Common, GateCommand as Typed, Measurable};
use plimsoll_gate::{Gate, GateAbout, GateAnswer, Rates, Unjudged, UsualFigures, is_same_machine};
use plimsoll_history::{ProvenCpus, RunSummary, Store};
use plimsoll_machine::health::Health;
use plimsoll_machine::{CpuSet, Machine, Others, Processes, Root};
use plimsoll_model::case::Case;
use plimsoll_model::measurement::Measurement;
use plimsoll_output::report::gate::{explained, for_people, json, metrics, nagios};
use plimsoll_output::report::{Style, StyleOptions};
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_result::event::RunEvent;
use plimsoll_run::Planned;
use plimsoll_system::leftover::Registry;
use plimsoll_system::wall;
use plimsoll_units::text::shown_path;

use super::prepared::{PreparedRun, is_on_files, read_history, takes_server};
use super::{Failure, carry_out, code, document, interrupts_until, printed, serving, target};
use crate::output;

/// Share of the time limit after which no measurement starts.
const MEASURING: f64 = 0.85;
/// Share of the time limit after which a measurement is aborted, such as one on a hanging disk.
const MAX_TIME_SHARE: f64 = 0.95;
const FIRST_TIME_SHARE: f64 = 0.55;
const MAX_MEMORY_SHARE: f64 = 0.05;
/// Plans of the levels. The time limit of a gate is [`Typed::most`].
const PLANS: [&str; 3] = ["gate", "quick", "standard"];
/// Samples of a retested case whose plan would continue until its figure is precise.
const RETEST_SAMPLES: u32 = 10;
const MAX_EARLIER_RUNS: usize = 30;
/// One CPU among this number is proven at a time, and at least two.
const CPUS_PER_PROOF: usize = 8;
/// Runs of the history that are searched for them.
const LOOKED_AT: usize = 200;
/// Longest pause between measurements of one case: a disturbance of one must not affect all.
const MAX_RETEST_PAUSE: Duration = Duration::from_secs(1);

/// Longest time without a reader of the FIFO that --output names: a scheduler waits.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn gate(typed: &Typed) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    let started = wall::now().to_string();
    let to = typed.output.as_deref().map(target).transpose()?;
    let asked = interrupts_until(begun + typed.most().mul_f64(MAX_TIME_SHARE))?;
    let mut prepared = prepared(typed)?;
    let dropped = remove_unmeasurable(&mut prepared, typed);
    choose_cpus(&mut prepared, typed);
    // The figures of the fleet come before those of the history.
    let machine = &prepared.machine;
    let fleet = typed.fleet.as_deref().map(|file| fleet(file, machine)).transpose()?.flatten();
    let usual: Vec<UsualFigures> =
        fleet.into_iter().chain(history(typed.store.as_deref(), machine)?).collect();
    let cases: Vec<Case> = prepared.planned.iter().map(|planned| planned.candidate.case.clone()).collect();
    let rates = Rates { false_alarms: typed.false_alarms, loss: typed.loss };
    let mut gate = Gate::new(&cases, &prepared.machine, &usual, rates);
    gate.unjudged.extend(dropped);
    gate.faults = Health::read(&Root::live()).faults();
    let style = Style::detect(StyleOptions { quiet: typed.quiet, ..StyleOptions::default() });
    if typed.explain {
        return printed(&explained(&gate, typed.level, &style));
    }
    let measuring = Measuring { prepared, asked, style: &style, begun, most: typed.most() };
    gate.interrupted = measuring.all(&mut gate)?;
    let machine = &measuring.prepared.machine;
    record_proven(typed, machine, &gate.proven);
    let about = GateAbout {
        version: env!("CARGO_PKG_VERSION"),
        started: &started,
        elapsed_s: begun.elapsed().as_secs_f64(),
        host: machine.host.as_deref(),
        machine: &machine.id,
        level: u8::try_from(typed.level).unwrap_or(u8::MAX),
    };
    let shown = |form| match form {
        AnswerForm::Text => for_people(&gate, &style),
        AnswerForm::Json => json(&gate, about),
        AnswerForm::Nagios => nagios(&gate),
        AnswerForm::Npd => gate.verdict().line + "\n",
        AnswerForm::Openmetrics => metrics(&gate, about),
    };
    let output = printed(&shown(typed.format));
    if let Some(to) = &to {
        let form = if typed.format == AnswerForm::Text { AnswerForm::Json } else { typed.format };
        let text = shown(form);
        to.fill(Some(OUTPUT_PATIENCE), |file| file.write_all(text.as_bytes()))?;
    }
    output?;
    Ok(ExitCode::from(exit_code(typed, gate.verdict().answer, gate.interrupted)))
}

/// Returns 0 for healthy, 1 (Nagios: 2) for sick. For unknown `--exit-unknown` or the format's own
/// code (Nagios: 3), if any, else 130 if `interrupted`, or 6.
fn exit_code(typed: &Typed, answer: GateAnswer, interrupted: bool) -> u8 {
    match (answer, typed.format) {
        (GateAnswer::Healthy, _) => 0,
        (GateAnswer::Sick, AnswerForm::Nagios) => 2,
        (GateAnswer::Sick, _) => code::VERDICT,
        (GateAnswer::Unknown, form) => {
            let own = if interrupted { code::INTERRUPTED } else { code::UNDECIDED };
            typed.exit_unknown.or(form.unknown()).unwrap_or(own)
        }
    }
}

/// Prepares the plan of `--level`. Above level 1, the cases of level 1 that check answers come
/// first: computations on each CPU and, with `--dir`, reads of a file.
fn prepared(typed: &Typed) -> Result<PreparedRun, Failure> {
    let mut prepared = prepared_at(typed.level, typed)?;
    if typed.level > 1 {
        let has_dir = typed.disk_and_network.dir.is_some();
        let checks = |planned: &Planned| {
            plimsoll_bench::proves_cpus(&planned.candidate.case) || has_dir && is_on_files(planned)
        };
        let checks: Vec<Planned> = prepared_at(1, typed)?.planned.into_iter().filter(checks).collect();
        // First, so that no other case uses up their time.
        prepared.planned.splice(0..0, checks);
    }
    Ok(prepared)
}

/// Replaces each case that checks computations of CPUs: at level 1 by a short case on the core
/// checked least recently, above by a case for each group of cores, for all CPUs together.
fn choose_cpus(prepared: &mut PreparedRun, typed: &Typed) {
    let machine = &prepared.machine;
    let cores = machine.cpu.allowed_cores();
    let groups = match typed.level {
        1 => least_recent(cores, &proven_cpus(typed, machine)).into_iter().collect(),
        _ => grouped(cores, (machine.cpu.allowed.len() / CPUS_PER_PROOF).max(2)),
    };
    let replaced = |planned: &Planned| -> Vec<Planned> {
        let case = &planned.candidate.case;
        if !plimsoll_bench::proves_cpus(case) {
            return vec![planned.clone()];
        }
        let on_group = |cpus: &CpuSet| plimsoll_bench::on_cpus(machine, case, cpus, typed.level > 1).ok();
        let candidates = groups.iter().filter_map(on_group);
        candidates.map(|candidate| Planned { candidate, ..planned.clone() }).collect()
    };
    prepared.planned = prepared.planned.iter().flat_map(replaced).collect();
}

/// Returns the core whose last time in `proven` is the oldest (0 if absent), any of equal ones.
fn least_recent(cores: Vec<CpuSet>, proven: &ProvenCpus) -> Option<CpuSet> {
    let last = |core: &CpuSet| core.iter().filter_map(|cpu| proven.get(&cpu)).min().copied().unwrap_or(0);
    let oldest = cores.iter().map(last).min()?;
    let mut oldest: Vec<CpuSet> = cores.into_iter().filter(|core| last(core) == oldest).collect();
    let any = wall::since_boot().to_bits() as usize % oldest.len();
    Some(oldest.swap_remove(any))
}

/// Joins successive cores (each a set of CPUs) to groups of at most `cpus` CPUs, or one core.
fn grouped(cores: Vec<CpuSet>, cpus: usize) -> Vec<CpuSet> {
    let mut groups: Vec<CpuSet> = Vec::new();
    for core in cores {
        match groups.last_mut().filter(|group| group.len() + core.len() <= cpus) {
            Some(group) => core.iter().for_each(|cpu| group.insert(cpu)),
            None => groups.push(core),
        }
    }
    groups
}

/// Returns when each CPU of this host last computed correctly for a gate; empty without a history.
fn proven_cpus(typed: &Typed, machine: &Machine) -> ProvenCpus {
    let host = machine.host.as_deref().unwrap_or_default();
    read_history(typed.store.as_deref()).map(|store| store.proven_cpus(host)).unwrap_or_default()
}

/// Records in the history that `cpus` computed correctly now, so that the next gate checks other
/// CPUs. Does nothing without a history or if it cannot be written.
fn record_proven(typed: &Typed, machine: &Machine, cpus: &CpuSet) {
    let Ok(Some(location)) = output::location(typed.store.as_deref()) else { return };
    if cpus.is_empty() || Store::read(&location).is_err() {
        return;
    }
    let host = machine.host.as_deref().unwrap_or_default();
    let time = wall::now().as_second().unsigned_abs();
    if let Ok(mut store) = Store::open(&location, Registry::here()) {
        drop(store.record_proven(host, cpus, time));
    }
}

fn prepared_at(level: u32, typed: &Typed) -> Result<PreparedRun, Failure> {
    let common = Common {
        dir: typed.disk_and_network.dir.clone(),
        store: typed.store.clone(),
        server: typed.disk_and_network.server.iter().cloned().collect(),
        quiet: typed.quiet,
        ..Common::default()
    };
    let key = serving::key(typed.disk_and_network.key.as_deref())?;
    let plan = PLANS[(level.clamp(1, 3) - 1) as usize];
    let prepared = PreparedRun::new(&Measurable::Plan(plan.to_owned()), &common, None, common.dir.is_some())?;
    Ok(PreparedRun { key, ..prepared })
}

/// Removes cases that the options exclude or that cannot be measured here. Returns each with the
/// reason, and as failed if `--dir` is given and no disk case is left.
fn remove_unmeasurable(prepared: &mut PreparedRun, typed: &Typed) -> Vec<Unjudged> {
    let machine = &prepared.machine;
    let memory = machine.memory_available_bytes().or(machine.memory.total_bytes).unwrap_or(u64::MAX);
    let most = (memory as f64 * MAX_MEMORY_SHARE) as u64;
    let has_dir = typed.disk_and_network.dir.is_some();
    let mut dropped: Vec<Unjudged> = Vec::new();
    prepared.planned.retain(|planned| {
        let case = &planned.candidate.case;
        let (takes_server, on_files) = (takes_server(case), is_on_files(planned));
        let size = case.size().unwrap_or(0).saturating_mul(case.threads().max(1) as u64);
        let why = match &planned.candidate.feasible {
            _ if on_files && !has_dir => "needs --dir".to_owned(),
            Err(why) => why.to_string(),
            Ok(()) if takes_server && case.server().is_none() => "needs --server".to_owned(),
            Ok(()) if case.busy_threads() > 1 && !typed.exclusive && !takes_server => {
                "takes more than one core: needs --exclusive".to_owned()
            }
            Ok(()) if typed.level == 1 && !on_files && size > most => {
                "takes more than 5 % of the memory: needs --level 2".to_owned()
            }
            Ok(()) => return true,
        };
        dropped.push(Unjudged { case: case.clone(), why, is_measured: false, failed: false });
        false
    });
    // The requested disk must not pass if none of its cases can be measured.
    if has_dir && !prepared.planned.iter().any(is_on_files) {
        let is_file = |one: &&mut Unjudged| plimsoll_bench::subsystem_of(&one.case).on_files;
        dropped.iter_mut().filter(is_file).for_each(|one| one.failed = true);
    }
    dropped
}

/// Reads the usual results of machines like `machine` from `file`, written by `plimsoll gather`.
/// `None`, with a message on stderr, if the file has too few of them.
fn fleet(file: &Path, machine: &Machine) -> Result<Option<UsualFigures>, Failure> {
    let shown = shown_path(file);
    let wrong = |why: String| {
        Failure::usage(format!("--fleet {shown}: {why}; it must be a document of plimsoll gather --json"))
    };
    let run = Run::read(file).map_err(wrong)?;
    if run.nodes.len() < 2 {
        return Err(wrong("it has the run of one machine".to_owned()));
    }
    let few = |why: String| output::complain(&format!("no fleet is used: {shown}: {why}"));
    Ok(UsualFigures::from_fleet(&run, machine).map_err(few).ok())
}

/// Returns the usual results of this machine, from at most 30 stored runs. `None` without any.
/// Fails if `store` is given and cannot be read; the default history may be missing.
fn history(store: Option<&Path>, machine: &Machine) -> Result<Option<UsualFigures>, Failure> {
    let opened = output::location(store).and_then(|found| found.map(|at| Store::read(&at)).transpose());
    let store = match (opened, store) {
        (Ok(Some(store)), _) => store,
        (Ok(None), _) => return Ok(None),
        (Err(e), Some(_)) => return Err(e.into()),
        (Err(e), None) if e.is_not_found() => return Ok(None),
        (Err(e), None) => {
            output::complain(&format!("no history is used: {e}"));
            return Ok(None);
        }
    };
    let is_own = |line: &RunSummary| {
        line.status == RunStatus::Complete && line.host.is_some() && line.host == machine.host
    };
    let mut runs: Vec<Run> = Vec::new();
    for line in store.list()?.into_iter().filter(is_own).take(LOOKED_AT) {
        // An imported run may come from another machine with the same name.
        if store.is_imported(&line.id)? {
            continue;
        }
        let run = store.load(&line.id)?;
        if run.nodes.len() == 1 && is_same_machine(&run.machine, machine) {
            runs.push(run);
        }
        if runs.len() == MAX_EARLIER_RUNS {
            break;
        }
    }
    runs.reverse();
    Ok(UsualFigures::from_history(&runs, machine))
}

struct Measuring<'a> {
    prepared: PreparedRun,
    asked: Receiver<()>,
    style: &'a Style,
    begun: Instant,
    most: Duration,
}

impl Measuring<'_> {
    /// Measures all cases, then those with low results again until `gate` needs no more or time is
    /// over, and records all in `gate`. Returns whether a signal ended it early.
    fn all(&self, gate: &mut Gate) -> Result<bool, Failure> {
        let every = self.prepared.planned.clone();
        if every.is_empty() {
            return Ok(false);
        }
        let budget = self.most.as_secs_f64() * FIRST_TIME_SHARE;
        let (measurements, _, mut interrupted) = self.measured(&every, Some(budget))?;
        gate.record_first(&measurements, interrupted && !self.is_over());
        while let Some(case) = gate.next().cloned() {
            if interrupted || self.left().is_zero() {
                break;
            }
            let mut again: Vec<Planned> =
                every.iter().filter(|p| p.candidate.case == case).cloned().collect();
            for planned in &mut again {
                planned.sampling.samples.get_or_insert(RETEST_SAMPLES);
            }
            let before = Instant::now();
            let (measurements, others, ended) = self.measured(&again, None)?;
            measurements.iter().for_each(|measurement| gate.record_repetition(measurement, &others));
            if measurements.is_empty() {
                interrupted = ended;
                break;
            }
            interrupted = ended || self.pause(gate.repetitions_to_spread(), before.elapsed());
        }
        output::show_progress(self.style, "");
        Ok(interrupted && !self.is_over())
    }

    fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.most.mul_f64(MAX_TIME_SHARE)
    }

    fn left(&self) -> Duration {
        self.most.mul_f64(MEASURING).saturating_sub(self.begun.elapsed())
    }

    /// Pauses for at most 1 s so that the `needed` further retests spread over the remaining time;
    /// the last retest lasted `took`. Returns whether a signal ended the pause.
    fn pause(&self, needed: usize, took: Duration) -> bool {
        let each = self.left() / u32::try_from(needed.max(1)).unwrap_or(u32::MAX);
        let pause = each.saturating_sub(took).min(MAX_RETEST_PAUSE);
        needed > 0 && !pause.is_zero() && self.asked.recv_timeout(pause).is_ok()
    }

    /// Measures `cases` once, within `budget` seconds if given. Returns their results, the use of
    /// the machine by other processes during this, and whether a signal or the time limit came.
    fn measured(
        &self,
        cases: &[Planned],
        budget: Option<f64>,
    ) -> Result<(Vec<Measurement>, Others, bool), Failure> {
        let mut prepared = PreparedRun { planned: cases.to_vec(), ..self.prepared.clone() };
        prepared.plan.budget = budget;
        let (root, second) = (Root::live(), rustix::param::clock_ticks_per_second());
        let before = Processes::read(&root);
        let mut emit = |event| {
            if let RunEvent::Preparing { case, .. } = event {
                output::show_progress(self.style, &format!("gate: {case}"));
            }
        };
        let (run, interrupted) =
            carry_out(&prepared, document(&prepared), self.asked.clone(), None, &mut emit)?;
        let others = before.until(&Processes::read(&root), std::process::id(), second);
        Ok((run.measurements, others, interrupted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(texts: &[&str]) -> Vec<CpuSet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn cores_take_turns_and_those_that_were_never_proven_come_first() {
        let cores = || sets(&["0,4", "1,5", "7"]);
        let next = |proven: &[(usize, u64)]| {
            least_recent(cores(), &proven.iter().copied().collect()).map(|core| core.to_string())
        };
        assert_eq!(next(&[(0, 9), (4, 9), (1, 8), (5, 8)]).as_deref(), Some("7"));
        assert_eq!(next(&[(0, 9), (4, 9), (1, 8), (5, 8), (7, 10)]).as_deref(), Some("1,5"));
        assert!(next(&[(0, 9), (4, 9)]).is_some_and(|core| core != "0,4"));
        assert_eq!(least_recent(Vec::new(), &ProvenCpus::new()), None);
    }

    #[test]
    fn groups_are_of_whole_cores_and_have_all_cpus() {
        let cores = sets(&["0,4", "1,5", "2,6", "3,7", "9"]);
        assert_eq!(grouped(cores.clone(), 2), cores);
        assert_eq!(grouped(cores.clone(), 5), sets(&["0-1,4-5", "2-3,6-7,9"]));
        assert_eq!(grouped(cores, 1).len(), 5);
    }
}
