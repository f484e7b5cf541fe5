//! `plimsoll gate`: measures the cases of a level, measures again what is low, and answers healthy, sick or unknown.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use plimsoll_command::cli::{Common, Form, Gate as Typed, What};
use plimsoll_gate::{About, Answer, Gate, Rates, Unjudged, Usual, is_same};
use plimsoll_history::{Store, StoreError};
use plimsoll_machine::health::Health;
use plimsoll_machine::{Machine, Others, Processes, Root};
use plimsoll_model::case::Case;
use plimsoll_model::measurement::Measurement;
use plimsoll_model::plan::file::SERVER;
use plimsoll_output::report::{self, Style, Wishes};
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_result::event::Event;
use plimsoll_run::{Alone, Planned};
use plimsoll_system::wall;

use super::prepared::Prepared;
use super::progress::Progress;
use super::{
    Failure, Seat, code, document, far_end, interrupts_until, printed, store_failure, target, unwritten,
};
use crate::output;

/// Share of the level's time after which no measurement begins.
const MEASURING: f64 = 0.85;
/// Share of the level's time after which a measurement is broken off: a server that is busy, or a disk that hangs, may keep one for minutes.
const MAX_TIME_SHARE: f64 = 0.95;
/// Share of the level's time for the first measurements.
const FIRST_TIME_SHARE: f64 = 0.55;
/// Share of the memory that level 1 may take.
const MAX_MEMORY_SHARE: f64 = 0.05;
/// The plans of the levels. They say nothing of how long a gate may take: [`Typed::most`] does.
const PLANS: [&str; 3] = ["gate", "quick", "standard"];
/// Samples of a case that is measured again, where its plan would go on until its figure is precise.
const RETEST_SAMPLES: u32 = 10;
/// Earlier runs of this machine that say what is usual.
const MAX_EARLIER_RUNS: usize = 30;
/// Runs of the history that are looked at for them.
const LOOKED_AT: usize = 200;
/// Longest pause between two measurements of one case: what disturbs one shall not disturb all.
const MAX_RETEST_PAUSE: Duration = Duration::from_secs(1);

/// Measures, prints the answer, and ends with its exit code.
///
/// # Errors
/// Nothing can be measured: the code of that says nothing of the machine.
pub(super) fn gate(typed: &Typed) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    let started = wall::now().to_string();
    let to = typed.output.as_deref().map(target).transpose()?;
    let asked = interrupts_until(begun + typed.most().mul_f64(MAX_TIME_SHARE))?;
    let mut prepared = prepared(typed)?;
    let dropped = reduced(&mut prepared, typed);
    let usual = usual(typed, &prepared.machine)?;
    let cases: Vec<Case> = prepared.planned.iter().map(|planned| planned.candidate.case.clone()).collect();
    let rates = Rates { false_alarms: typed.false_alarms, loss: typed.loss };
    let mut gate = Gate::new(&cases, &prepared.machine, &usual, rates);
    gate.unjudged.extend(dropped);
    gate.faults = Health::read(&Root::live()).faults();
    let style = Style::detect(Wishes { quiet: typed.quiet, ..Wishes::default() });
    if typed.explain {
        return printed(&report::gate::explained(&gate, typed.level, &style));
    }
    let mut measuring =
        Measuring { prepared, asked, progress: Progress { style: &style }, begun, most: typed.most() };
    let interrupted = measuring.all(&mut gate)?;
    let about = About {
        version: env!("CARGO_PKG_VERSION"),
        started: &started,
        elapsed_s: begun.elapsed().as_secs_f64(),
        host: measuring.prepared.machine.host.as_deref(),
        machine: &measuring.prepared.machine.id,
        level: u8::try_from(typed.level).unwrap_or(u8::MAX),
    };
    let shown = |form| report::gate::text(&gate, about, form, &style);
    let said = printed(&shown(shape(typed.format)));
    if let Some(to) = &to {
        let form = if typed.format == Form::Text { Form::Json } else { typed.format };
        to.put(&shown(shape(form))).map_err(|e| unwritten(&e))?;
    }
    said?;
    Ok(ExitCode::from(exit_code(typed, gate.verdict().answer, interrupted)))
}

fn shape(form: Form) -> report::gate::Shape {
    match form {
        Form::Text => report::gate::Shape::Text,
        Form::Json => report::gate::Shape::Json,
        Form::Nagios => report::gate::Shape::Nagios,
        Form::Npd => report::gate::Shape::Line,
        Form::Openmetrics => report::gate::Shape::OpenMetrics,
    }
}

/// The exit code of an answer, as who asks reads it.
fn exit_code(typed: &Typed, answer: Answer, interrupted: bool) -> u8 {
    let unknown = typed.exit_unknown.and_then(|code| u8::try_from(code).ok());
    match (answer, typed.format) {
        (Answer::Healthy, _) => 0,
        (Answer::Sick, Form::Nagios) => 2,
        (Answer::Sick, _) => code::VERDICT,
        (Answer::Unknown, form) => {
            let own = if interrupted { code::INTERRUPTED } else { code::UNKNOWN };
            unknown.or(form.unknown()).unwrap_or(own)
        }
    }
}

/// The plan of the level, on this machine. Each level that writes a file also has the disk case of level 1, with every read
/// checked.
fn prepared(typed: &Typed) -> Result<Prepared, Failure> {
    let mut prepared = prepared_at(typed.level, typed)?;
    if typed.level > 1 && typed.beside.dir.is_some() {
        let checked = prepared_at(1, typed)?.planned.into_iter();
        prepared
            .planned
            .extend(checked.filter(|planned| plimsoll_bench::subsystem_of(&planned.candidate.case).on_files));
    }
    Ok(prepared)
}

fn prepared_at(level: u32, typed: &Typed) -> Result<Prepared, Failure> {
    let common = Common {
        dir: typed.beside.dir.clone(),
        store: typed.store.clone(),
        server: typed.beside.server.iter().cloned().collect(),
        quiet: typed.quiet,
        ..Common::default()
    };
    let key = far_end::key(typed.beside.key.as_deref())?;
    let plan = PLANS[(level.clamp(1, 3) - 1) as usize];
    let prepared = Prepared::where_named(&What::Plan(plan.to_owned()), &common, None)?;
    Ok(Prepared { key, ..prepared })
}

/// Leaves out what this gate does not measure, and says of each case why.
fn reduced(prepared: &mut Prepared, typed: &Typed) -> Vec<Unjudged> {
    let memory =
        prepared.machine.memory_available_bytes().or(prepared.machine.memory.total_bytes).unwrap_or(u64::MAX);
    let most = (memory as f64 * MAX_MEMORY_SHARE) as u64;
    let is_file = |case: &Case| plimsoll_bench::subsystem_of(case).on_files;
    let mut dropped: Vec<Unjudged> = Vec::new();
    prepared.planned.retain(|planned| {
        let case = &planned.candidate.case;
        let takes_server = plimsoll_bench::find(case.benchmark()).is_some_and(|b| b.keys().contains(&SERVER));
        let on_files = is_file(case);
        let size = case.size().unwrap_or(0).saturating_mul(case.threads().max(1) as u64);
        let why = match &planned.candidate.feasible {
            // Without a directory nothing is written anywhere.
            _ if on_files && typed.beside.dir.is_none() => Some("needs --dir".to_owned()),
            Err(why) => Some(why.to_string()),
            Ok(()) if takes_server && case.server().is_none() => Some("needs --server".to_owned()),
            Ok(()) if case.busy_threads() > 1 && !typed.exclusive && !takes_server => {
                Some("takes more than one core: needs --exclusive".to_owned())
            }
            Ok(()) if typed.level == 1 && !on_files && size > most => {
                Some("takes more than 5 % of the memory: needs --level 2".to_owned())
            }
            Ok(()) => None,
        };
        let is_kept = why.is_none();
        dropped.extend(why.map(|why| Unjudged {
            case: case.clone(),
            why,
            is_measured: false,
            failed: false,
        }));
        is_kept
    });
    // The disk that was asked for is not known to be well where none of its cases can be measured.
    if typed.beside.dir.is_some() && !prepared.planned.iter().any(|planned| is_file(&planned.candidate.case))
    {
        dropped.iter_mut().filter(|one| is_file(&one.case)).for_each(|one| one.failed = true);
    }
    dropped
}

/// What is usual: of the fleet first, then of the history.
fn usual(typed: &Typed, machine: &Machine) -> Result<Vec<Usual>, Failure> {
    let fleet = typed.fleet.as_deref().map(|file| fleet(file, machine)).transpose()?.flatten();
    Ok(fleet.into_iter().chain(history(typed.store.as_deref(), machine)?).collect())
}

/// The fleet of a document; none where it has too few machines of this kind: one command serves all machines of a mixed fleet.
fn fleet(file: &Path, machine: &Machine) -> Result<Option<Usual>, Failure> {
    let shown = || plimsoll_units::text::shown_bytes(file.as_os_str().as_encoded_bytes());
    let wrong = |why: String| {
        Failure::usage(format!("--fleet {}: {why}; it must be a document of plimsoll gather --json", shown()))
    };
    let run = Run::read(file).map_err(wrong)?;
    let few = |why: String| output::complain(&format!("no fleet is used: {}: {why}", shown()));
    Ok(Usual::of_fleet(&run, machine).map_err(few).ok())
}

/// The runs of this machine in the history; none where there is no history. One that was named must be there.
fn history(store: Option<&Path>, machine: &Machine) -> Result<Option<Usual>, Failure> {
    let location = match (output::location(store), store) {
        (Ok(Some(location)), _) => location,
        (Ok(None), _) => return Ok(None),
        (Err(e), None) => return Ok(unused(&e)),
        (Err(e), Some(_)) => return Err(store_failure(&e)),
    };
    let store = match (Store::read(&location), store) {
        (Ok(store), _) => store,
        (Err(e), Some(_)) => return Err(store_failure(&e)),
        (Err(e), None) if e.is_not_found() => return Ok(None),
        (Err(e), None) => return Ok(unused(&e)),
    };
    let lines = store.list().map_err(|e| store_failure(&e))?;
    let of_host = |host: &Option<String>| host.is_some() && *host == machine.host;
    let own = lines.iter().filter(|line| line.status == RunStatus::Complete && of_host(&line.host));
    let mut runs: Vec<Run> = Vec::new();
    for line in own.take(LOOKED_AT) {
        // An imported run may be of another machine of that name.
        if store.is_imported(&line.id).map_err(|e| store_failure(&e))? {
            continue;
        }
        let run = store.load(&line.id).map_err(|e| store_failure(&e))?;
        if run.nodes.len() == 1 && is_same(&run.machine, machine) {
            runs.push(run);
        }
        if runs.len() == MAX_EARLIER_RUNS {
            break;
        }
    }
    runs.reverse();
    Ok(Usual::of_history(&runs, machine))
}

/// Says that the usual history cannot be used: under a daemon there is often no HOME to find it by.
fn unused(why: &StoreError) -> Option<Usual> {
    output::complain(&format!("no history is used: {why}"));
    None
}

/// What measures.
struct Measuring<'a> {
    prepared: Prepared,
    asked: Receiver<()>,
    progress: Progress<'a>,
    begun: Instant,
    most: Duration,
}

impl Measuring<'_> {
    /// Measures all cases, and again what is low, until it is decided or the time is over. Whether it was interrupted.
    fn all(&mut self, gate: &mut Gate) -> Result<bool, Failure> {
        let every = self.prepared.planned.clone();
        if every.is_empty() {
            return Ok(false);
        }
        let budget = self.most.as_secs_f64() * FIRST_TIME_SHARE;
        let (measurements, _, mut interrupted) = self.measured(&every, Some(budget))?;
        gate.screen(&measurements, interrupted && !self.is_over());
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
            interrupted = ended;
            for measurement in &measurements {
                gate.add(measurement, &others);
            }
            if measurements.is_empty() {
                break;
            }
            interrupted |= self.paused(gate.spread(), before.elapsed());
        }
        self.progress.clear();
        Ok(interrupted && !self.is_over())
    }

    /// Whether measurements are broken off because the time is over, and not because somebody asked.
    fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.most.mul_f64(MAX_TIME_SHARE)
    }

    /// What is left of the time for measuring.
    fn left(&self) -> Duration {
        self.most.mul_f64(MEASURING).saturating_sub(self.begun.elapsed())
    }

    /// Waits so that the measurements that are needed are spread over the time that is left. Whether it was interrupted.
    fn paused(&self, needed: usize, took: Duration) -> bool {
        let each = self.left() / u32::try_from(needed.max(1)).unwrap_or(u32::MAX);
        let pause = each.saturating_sub(took).min(MAX_RETEST_PAUSE);
        needed > 0 && !pause.is_zero() && self.asked.recv_timeout(pause).is_ok()
    }

    /// Measures these cases once: what came of them, what others used meanwhile, and whether it was interrupted.
    fn measured(
        &self,
        cases: &[Planned],
        budget: Option<f64>,
    ) -> Result<(Vec<Measurement>, Others, bool), Failure> {
        let mut prepared = Prepared { planned: cases.to_vec(), ..self.prepared.clone() };
        prepared.plan.budget = budget;
        let run = document(&prepared, &wall::run_id(), None);
        let mut seat = Seat::new(&prepared, run, self.asked.clone(), None)?;
        let (root, second) = (Root::live(), rustix::param::clock_ticks_per_second());
        let before = Processes::read(&root);
        let interrupted = seat.carry_out(&prepared, &mut Alone, &mut |event| {
            if let Event::Preparing { case, .. } = event {
                self.progress.show(&format!("gate: {case}"));
            }
        });
        let others = before.until(&Processes::read(&root), std::process::id(), second);
        Ok((seat.document.measurements, others, interrupted))
    }
}
