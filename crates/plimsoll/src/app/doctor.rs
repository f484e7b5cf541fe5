//! `plimsoll doctor`: checks the system, then repeats a run to measure its noise.

use std::process::ExitCode;

use crossbeam_channel::Receiver;
use plimsoll_command::cli::{Common, Doctor, Measurable};
use plimsoll_compare::Floors;
use plimsoll_history::Store;
use plimsoll_machine::{Machine, Nic, Root};
use plimsoll_output::report::{self, Style, StyleOptions};
use plimsoll_result::document::Run;
use plimsoll_result::event::RunEvent;
use plimsoll_run::SingleNodePace;
use plimsoll_server::traffic::shaper;
use plimsoll_server::wire::Shaping;
use plimsoll_system::leftover::Registry;

use super::prepared::PreparedRun;
use super::progress::ProgressText;
use super::{Failure, MachineRun, code, document, interrupts, printed, ref_tools, store_failure};
use crate::output;

const SAMPLES_PER_ROUND: u32 = 6;

fn shapings(machine: &Machine) -> Vec<(String, Shaping)> {
    let of = |nic: &Nic| (nic.name.clone(), shaper::read_shaping(&Root::live(), &nic.name));
    machine.network.iter().map(of).collect()
}

/// Checks the system, measures, and stores the noise floor in the history (`plimsoll doctor`).
pub(super) fn doctor(typed: &Doctor) -> Result<ExitCode, Failure> {
    let location = match typed.rounds {
        0 => None,
        _ => output::location(typed.store.as_deref()).map_err(|e| store_failure(&e))?,
    };
    let common = Common {
        only: typed.only.clone(),
        dir: typed.dir.clone(),
        samples: Some(SAMPLES_PER_ROUND),
        quiet: typed.quiet,
        ..Common::default()
    };
    let mut prepared = PreparedRun::new(&Measurable::Plan("quick".to_owned()), &common, None)?;
    prepared.plan.budget = None;
    let mut store = match location {
        Some(location) => {
            let store = Store::open(&location, Registry::here());
            Some(store.map_err(|e| store_failure(&e))?)
        }
        None => None,
    };
    let style = Style::detect(StyleOptions { quiet: typed.quiet, ..StyleOptions::default() });
    let mut facts = plimsoll_doctor::proof::clock(&Root::live(), &prepared.machine.cpu.allowed);
    facts.extend(plimsoll_doctor::checks(&Root::live(), &prepared.machine));
    facts.push(plimsoll_doctor::shapers(&shapings(&prepared.machine)));
    facts.push(plimsoll_doctor::leftovers(ref_tools::reaped().as_ref()));
    facts.extend(plimsoll_doctor::skipped_programs(&ref_tools::passed_over()));
    printed(&(report::doctor::checks(&facts, &style) + &report::doctor::conclusion(&facts, &style)))?;
    if typed.rounds == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let interrupts = interrupts()?;
    let mut runs = Vec::new();
    for round in 1..=typed.rounds {
        let progress = ProgressText { style: &style };
        let (run, ended) = once(&prepared, &interrupts, &mut |event| {
            if let RunEvent::Preparing { case, index, cases, .. } = event {
                let rounds = typed.rounds;
                progress.show(&format!("round {round} of {rounds}, case {} of {cases}: {case}", index + 1));
            }
        })?;
        progress.clear();
        if ended == RoundsEnd::Interrupted {
            output::complain(&format!("interrupted: {} rounds are too few, nothing is kept", runs.len()));
            return Ok(ExitCode::from(code::INTERRUPTED));
        }
        runs.push(run);
    }
    let floors = Floors::of(&runs);
    if let Some(store) = &mut store {
        store.keep_floors(&floors).map_err(|e| store_failure(&e))?;
    }
    printed(&report::doctor::floors(&floors, &style))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RoundsEnd {
    Wholly,
    Interrupted,
}

/// Measures one repetition as a run of its own. Returns the run and whether it was interrupted.
fn once(
    prepared: &PreparedRun,
    interrupts: &Receiver<()>,
    emit: &mut dyn FnMut(RunEvent),
) -> Result<(Run, RoundsEnd), Failure> {
    let run = document(prepared, &plimsoll_system::wall::run_id(), None);
    let mut machine_run = MachineRun::new(prepared, run, interrupts.clone(), None)?;
    let interrupted = machine_run.carry_out(prepared, &mut SingleNodePace, emit);
    Ok((machine_run.document, if interrupted { RoundsEnd::Interrupted } else { RoundsEnd::Wholly }))
}
