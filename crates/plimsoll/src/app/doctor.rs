//! `plimsoll doctor`: checks the system, then repeats a run to measure its noise.

use std::process::ExitCode;

use plimsoll_command::cli::{Common, Doctor, Measurable};
use plimsoll_compare::Floors;
use plimsoll_history::Store;
use plimsoll_machine::{Nic, Root};
use plimsoll_output::report::{self, Style, StyleOptions};
use plimsoll_result::event::RunEvent;
use plimsoll_server::traffic::shaper;
use plimsoll_system::leftover::Registry;

use super::prepared::PreparedRun;
use super::{Failure, carry_out, code, document, interrupts, printed, ref_tools};
use crate::output;

const SAMPLES_PER_ROUND: u32 = 6;

pub(super) fn doctor(typed: &Doctor) -> Result<ExitCode, Failure> {
    let location = if typed.rounds == 0 { None } else { output::location(typed.store.as_deref())? };
    let common = Common {
        only: typed.only.clone(),
        dir: typed.dir.clone(),
        samples: Some(SAMPLES_PER_ROUND),
        quiet: typed.quiet,
        ..Common::default()
    };
    let mut prepared = PreparedRun::new(&Measurable::Plan("quick".to_owned()), &common, None, true)?;
    prepared.plan.budget = None;
    let store = location.map(|location| Store::open(&location, Registry::here())).transpose()?;
    let style = Style::detect(StyleOptions { quiet: typed.quiet, ..StyleOptions::default() });
    let mut facts = plimsoll_doctor::proof::clock(&Root::live(), &prepared.machine.cpu.allowed);
    facts.extend(plimsoll_doctor::checks(&Root::live(), &prepared.machine));
    let shaping = |nic: &Nic| (nic.name.clone(), shaper::read_shaping(&nic.name));
    let shapings: Vec<_> = prepared.machine.network.iter().map(shaping).collect();
    facts.push(plimsoll_doctor::shapers(&shapings));
    facts.push(plimsoll_doctor::leftovers(ref_tools::reaped().as_ref()));
    let untrusted = plimsoll_reference::untrusted_programs(&ref_tools::search(&[])?);
    facts.extend(plimsoll_doctor::skipped_programs(&untrusted));
    printed(&(report::doctor::checks(&facts, &style) + &report::doctor::conclusion(&facts, &style)))?;
    if typed.rounds == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let interrupts = interrupts()?;
    let mut runs = Vec::new();
    for round in 1..=typed.rounds {
        let mut emit = |event| {
            if let RunEvent::Preparing { case, index, cases, .. } = event {
                let (rounds, number) = (typed.rounds, index + 1);
                let line = format!("round {round} of {rounds}, case {number} of {cases}: {case}");
                output::show_progress(&style, &line);
            }
        };
        let (run, interrupted) =
            carry_out(&prepared, document(&prepared), interrupts.clone(), None, &mut emit)?;
        output::show_progress(&style, "");
        if interrupted {
            output::complain(&format!("interrupted: {} rounds are too few, nothing is kept", runs.len()));
            return Ok(ExitCode::from(code::INTERRUPTED));
        }
        runs.push(run);
    }
    let floors = Floors::of(&runs);
    if let Some(mut store) = store {
        store.keep_floors(&floors)?;
    }
    printed(&report::doctor::floors(&floors, &style))
}
