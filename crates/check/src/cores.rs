//! Figures of CPU cores: limited by what the cores start per cycle at [`HIGHEST_CLOCK`].

use plimsoll_metal::isa::Isa;
use plimsoll_model::job::cpu::CpuKernel;
use plimsoll_model::limit::{Input, Limit, LimitKind, LimitSource};
use plimsoll_reference::stated::{CoreUse, EquivalentCase, StatedFigure};
use plimsoll_units::quantity::significant;

use crate::ask::{HIGHEST_CLOCK, HeldFigure, ask};
use crate::{CheckedMachine, ImpossibleCause};

/// Tolerated ratio of busy threads, by the times in a file, to the threads that it states.
const THREADS_TOLERANCE: f64 = 1.15;

pub(crate) fn held(figure: &StatedFigure, used: &CoreUse, place: &CheckedMachine<'_>) -> HeldFigure {
    let mut held = match used.remainders.filter(|remainders| *remainders > 0.0) {
        Some(remainders) => of_remainders(figure, used.threads, remainders, place),
        None => ask(figure, place.machine, cases_at_highest_clock),
    };
    held.limit = held.limit.map(at_highest_clock);
    held.possible = "work that was counted twice, the figure of many threads taken for one, an accelerator, bits and bytes confused";
    held.sure = used.by_time.filter(|busy| *busy > used.threads * THREADS_TOLERANCE + 0.1).map(|busy| {
        let [busy, threads] = [busy, used.threads].map(|number| significant(number, 3));
        let text = format!("the latencies show {busy} busy threads; the file states {threads}");
        (ImpossibleCause::ManyThreads, text)
    });
    held
}

/// Derives the limit in events/s of a loop with `remainders` integer remainders per event, on
/// `threads` threads: at most one integer division starts per cycle.
fn of_remainders(
    figure: &StatedFigure,
    threads: f64,
    remainders: f64,
    place: &CheckedMachine<'_>,
) -> HeldFigure {
    let cpus = threads.max(1.0).min(place.machine.cpu.allowed.len().max(1) as f64);
    let inputs = vec![
        Input::new("cpus", cpus, "1", "threads of the file, at most the CPUs of this machine"),
        Input::new("clock", HIGHEST_CLOCK, "Hz", ""),
        Input::new("remainders", remainders, "1", "those of the loop over all divisors, one a cycle at most"),
    ];
    let value = cpus * HIGHEST_CLOCK / remainders;
    let formula = "cpus × clock ÷ remainders";
    let [rate, each] = [figure.value, remainders].map(|number| significant(number, 3));
    let not_done = format!(
        "{rate} events a second of {each} integer remainders each are more than a remainder a cycle: the loop was optimised away, \
         or its events were not counted by their work"
    );
    HeldFigure {
        limit: Some(Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, value, formula, inputs)),
        likely: Some((ImpossibleCause::NotDone, not_done)),
        ..HeldFigure::default()
    }
}

/// Returns the cases that a figure of the case `like` may be from, at [`HIGHEST_CLOCK`]: a copy of
/// `like` if it names an instruction set, else one copy per vector instruction set.
fn cases_at_highest_clock(like: &EquivalentCase) -> Vec<EquivalentCase> {
    let mut like = like.clone();
    like.sample.conditions.clock_hz = Some(HIGHEST_CLOCK);
    if CpuKernel::of(&like.case).isa.is_some() {
        return vec![like];
    }
    let vectors = Isa::ALL.into_iter().filter(|isa| !isa.is_matrix() && *isa != Isa::Portable);
    let with_isa =
        |isa: Isa| EquivalentCase { case: like.case.clone().with_word("isa", isa.name()), ..like.clone() };
    vectors.map(with_isa).collect()
}

pub(crate) fn at_highest_clock(mut limit: Limit) -> Limit {
    for input in limit.inputs.iter_mut().filter(|input| input.unit == "Hz") {
        input.from = "the highest of any processor sold: the file does not say which was held".to_owned();
    }
    limit
}
