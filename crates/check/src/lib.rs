//! Checks results of other tools against the limits of a machine. A figure is impossible if its own
//! file contradicts it or if it is past a physical limit. A figure with another explanation (a
//! limit made up by a hypervisor, a rating, a file from another machine) cannot be judged.
#![forbid(unsafe_code)]

mod ask;
mod cores;
mod disk;
mod link;
mod memory;
mod own;
mod read;
mod verdict;

use plimsoll_reference::{Account, impossible};

use ask::HeldFigure;
use plimsoll_machine::{Machine, Root};
use plimsoll_model::limit::LimitKind;
use plimsoll_model::limit::user::UserLimits;
use plimsoll_reference::stated::{Stated, StatedFigure, StatedMachine, Subject};
use plimsoll_units::quantity::{Quantity, Unit, significant};

pub use own::check_measurements;
pub use read::{MOST_BYTES, contents};
pub use verdict::{
    CheckDocument, Checked, CheckedFigure, ImpossibleCause, LimitShown, Plausibility, UnreadResult,
};

/// Ratio to a limit above which a figure is past the limit, as in `result::evaluate`.
const LIMIT_TOLERANCE: f64 = 1.02;

/// Machine that figures are checked against.
#[derive(Clone, Copy)]
pub struct CheckedMachine<'a> {
    /// Discovered description.
    pub machine: &'a Machine,
    /// Root of the file tree that the description was read from.
    pub root: &'a Root,
    /// Whether the user states that the results come from this machine.
    pub is_named: bool,
    /// Limits from the user; they replace derived ones.
    pub limits: &'a UserLimits,
}

/// Judges all figures of the result `stated` by the limits of the machine `place`. `file` is the
/// name to show; `document` is the result's number, from 1, if the file has several.
pub fn check(file: &str, document: Option<usize>, stated: &Stated, place: &CheckedMachine<'_>) -> Checked {
    let foreign = foreign(&stated.origin, place);
    let row = |figure: &StatedFigure| {
        let of_another = foreign.clone().or_else(|| crowded(figure, place.machine));
        judged(figure, place, of_another.as_deref())
    };
    Checked {
        file: plimsoll_units::text::shown(file),
        document,
        tool: stated.tool,
        version: stated.version.clone(),
        trouble: stated.trouble.clone(),
        rows: stated.figures.iter().map(row).collect(),
    }
}

/// Returns why the result comes from another machine than `place`; `None` if nothing shows that.
fn foreign(origin: &StatedMachine, place: &CheckedMachine<'_>) -> Option<String> {
    const SYSTEM: &str = "Linux";
    let Machine { host, kernel, .. } = place.machine;
    if let Some(system) = origin.system.as_deref().filter(|system| *system != SYSTEM) {
        return Some(format!(
            "the file is of another machine: it was made on {system}, and the limits are those of a machine with {SYSTEM}"
        ));
    }
    let differs = |says: &Option<String>, is: &Option<String>| match (says, is) {
        (Some(says), Some(is)) if says != is => Some((says.clone(), is.clone())),
        _ => None,
    };
    let host = differs(&origin.host, host).filter(|_| !place.is_named);
    let (says, is) = differs(&origin.architecture, &kernel.architecture).or(host)?;
    Some(format!(
        "the file is of another machine: it says {says}, this is {is}; name its saved machine with --machine"
    ))
}

/// Returns why `figure` needs more CPUs or memory than `machine` has; else `None`.
fn crowded(figure: &StatedFigure, machine: &Machine) -> Option<String> {
    let (threads, working_set) = match &figure.subject {
        Subject::Cores(used) => (used.threads, used.working_set),
        Subject::Memory(used) => {
            (figure.like.as_ref().map_or(1.0, |like| like.case.threads() as f64), used.footprint)
        }
        _ => return None,
    };
    let cpus = machine.cpu.allowed.len();
    let memory = machine.memory.total_bytes.map_or(f64::INFINITY, |bytes| bytes as f64);
    let why = match working_set {
        Some(bytes) if bytes > memory => {
            let [bytes, memory] = [bytes, memory].map(|bytes| Quantity::new(bytes, Unit::Byte).human(3));
            format!("its data of {bytes} is larger than this machine's memory ({memory})")
        }
        _ if cpus > 0 && threads > cpus as f64 => {
            let threads = significant(threads, 3);
            format!("{threads} threads or processes made it, and this machine has {cpus} CPUs")
        }
        _ => return None,
    };
    Some(format!("{why}: it may be of another, or of several"))
}

fn judged(figure: &StatedFigure, place: &CheckedMachine<'_>, foreign: Option<&str>) -> CheckedFigure {
    if let Some(why) = &figure.void {
        return CheckedFigure::unjudged(figure, None, why.clone());
    }
    if let Some(why) = impossible(figure.value, figure.unit).or_else(|| figure.absurd.clone()) {
        return CheckedFigure::impossible(figure, None, ImpossibleCause::Absurd, true, why);
    }
    if figure.value == 0.0 && figure.unit != Unit::Second {
        let why = "the rate is 0: nothing was done or nothing arrived";
        return CheckedFigure::unjudged(figure, None, why.to_owned());
    }
    let mut held = match &figure.subject {
        Subject::Disk(used) => disk::held(figure, used, place),
        Subject::Link(used) => link::held(figure, used, place),
        Subject::Memory(used) => memory::held(figure, used, place),
        Subject::Cores(used) => cores::held(figure, used, place),
        Subject::Other => ask::ask(figure, place.machine, |like| vec![like.clone()]),
    };
    let is_link = matches!(figure.subject, Subject::Link(_));
    if let Some(limit) = ask::given(figure, place.limits).filter(|_| !is_link) {
        held = HeldFigure { limit: Some(limit), why_not: None, incomplete: None, ..held };
    }
    let by_caches = matches!(&figure.subject, Subject::Memory(used) if memory::depends_on_caches(used));
    held.sure = held.sure.filter(|_| foreign.is_none() || !by_caches);
    if held.sure.is_none() {
        if let Some(why) = &figure.contradiction {
            let row = CheckedFigure::unjudged(figure, held.limit.as_ref(), why.clone());
            return CheckedFigure { contradicts_itself: true, ..row };
        }
        let of = |account| contradicted(figure, account, &held, foreign.is_some());
        if let Some(row) = figure.account.as_ref().and_then(of) {
            return row;
        }
    }
    decided(figure, held, place, foreign)
}

/// Judges a figure that contradicts `account`, the work and time in its own file; `None` if it does
/// not contradict them. `foreign`: the file comes from another machine.
fn contradicted(
    figure: &StatedFigure,
    account: &Account,
    held: &HeldFigure,
    foreign: bool,
) -> Option<CheckedFigure> {
    const FACTOR_OF_8_TOLERANCE: f64 = 0.06;
    let why = account.contradicts(figure.value, figure.unit, f64::INFINITY)?;
    let factor = figure.value / (account.amount / account.seconds.value());
    let is = |wanted: f64| (factor / wanted - 1.0).abs() < FACTOR_OF_8_TOLERANCE;
    let limit = held.limit.as_ref();
    let past = limit.filter(|_| !foreign).and_then(|limit| Some(limit.share(figure.value, limit.value?)));
    let row = |cause, why| CheckedFigure::impossible(figure, limit, cause, true, why);
    let bits = |how: &str| row(ImpossibleCause::BitsForBytes, format!("{why}, which is {how}"));
    let is_rate = figure.unit != Unit::Second;
    let found = match () {
        () if is_rate && is(8.0) => bits("an eighth of it"),
        () if is_rate && is(0.125) => bits("8 times as much"),
        () if past.is_some_and(|share| share > LIMIT_TOLERANCE) => {
            let text = format!("above the limit, and contradicts its own bytes and seconds: {why}");
            row(ImpossibleCause::Unexplained, text)
        }
        () if factor.is_finite() && is_rate => {
            let times = significant(factor, 3);
            let text = format!("{why}: the figure is {times} times what its file says otherwise");
            CheckedFigure::unjudged(figure, limit, text)
        }
        () => CheckedFigure::unjudged(figure, limit, why.clone()),
    };
    Some(CheckedFigure { contradicts_itself: true, ..found })
}

/// Judges a figure that its own file does not contradict, by the limit and causes in `held`.
/// `foreign` is the reason why the file comes from another machine, else `None`.
fn decided(
    figure: &StatedFigure,
    held: HeldFigure,
    place: &CheckedMachine<'_>,
    foreign: Option<&str>,
) -> CheckedFigure {
    let HeldFigure { limit, why_not, sure, likely, possible, doubt, incomplete, note, spare } = held;
    if let Some((cause, why)) = sure {
        return CheckedFigure::impossible(figure, limit.as_ref(), cause, true, why);
    }
    let Some(limit) = limit else {
        let why = why_not.unwrap_or_else(|| "no limit is known".to_owned());
        let also = note.map(|note| format!("; {note}")).unwrap_or_default();
        return CheckedFigure::unjudged(figure, None, why + &also);
    };
    let share = limit.share((figure.value - spare).max(0.0), limit.value.unwrap_or(f64::NAN));
    let unjudged = |why: String| CheckedFigure::unjudged(figure, Some(&limit), why);
    if let Some(foreign) = foreign {
        return unjudged(foreign.to_owned());
    }
    if share <= LIMIT_TOLERANCE {
        return doubt.map_or_else(|| CheckedFigure::fine(figure, &limit, note), unjudged);
    }
    if let Some(incomplete) = incomplete.filter(|_| likely.is_none()) {
        return unjudged(format!("past the limit, but {incomplete}"));
    }
    if let Err(why) = ask::binding(&limit, figure, share, likely.is_some(), place) {
        return unjudged(why.to_owned());
    }
    let certain = likely.is_some();
    let (cause, why) = likely.unwrap_or_else(|| {
        let side = if limit.kind == LimitKind::Ceiling { "above" } else { "below" };
        let causes = if possible.is_empty() { "" } else { "; possible causes: " };
        (ImpossibleCause::Unexplained, format!("{side} the limit{causes}{possible}"))
    });
    CheckedFigure::impossible(figure, Some(&limit), cause, certain, why)
}
