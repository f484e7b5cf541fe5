//! Derives the limit of a figure and decides whether the limit is binding.

use plimsoll_machine::Machine;
use plimsoll_model::limit::user::UserLimits;
use plimsoll_model::limit::{Limit, LimitEvidence, LimitKind, LimitSource, Question, tightest_first};
use plimsoll_reference::stated::{EquivalentCase, StatedFigure, Subject};

use crate::{CheckedMachine, ImpossibleCause};

/// Highest clock in Hz of any processor sold (Intel Core i9-14900KS, 6.2 GHz, 2024): files do not
/// contain the clock, and a lower one could make a true figure impossible.
pub(crate) const HIGHEST_CLOCK: f64 = 6.2e9;

/// Maximum threads of a judged case. Linux has no more CPUs (x86: NR_CPUS ≤ 8192).
const MOST_THREADS: u64 = 1 << 16;

#[derive(Debug, Default)]
pub(crate) struct HeldFigure {
    pub(crate) limit: Option<Limit>,
    pub(crate) why_not: Option<String>,
    /// Cause and reason that the file proves, whatever the limit.
    pub(crate) sure: Option<(ImpossibleCause, String)>,
    /// Cause and reason that the file suggests if the figure is past the limit.
    pub(crate) likely: Option<(ImpossibleCause, String)>,
    pub(crate) possible: &'static str,
    /// Reason why a figure within the limit cannot be judged.
    pub(crate) doubt: Option<String>,
    pub(crate) incomplete: Option<String>,
    pub(crate) note: Option<String>,
    /// Amount that the way of counting may add to the figure, in the figure's unit.
    pub(crate) spare: f64,
}

impl HeldFigure {
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self { why_not: Some(why.into()), ..Self::default() }
    }
}

/// Derives the limit of `figure` on `machine`: the most permissive limit among the cases
/// that `alternatives` makes from the figure's case. Without a limit, returns the reason.
pub(crate) fn ask(
    figure: &StatedFigure,
    machine: &Machine,
    alternatives: impl Fn(&EquivalentCase) -> Vec<EquivalentCase>,
) -> HeldFigure {
    let like = match &figure.like {
        Ok(like) => like,
        Err(why) => return HeldFigure::unknown(why.clone()),
    };
    if like.case.threads() as u64 > MOST_THREADS {
        return HeldFigure::unknown("it states more threads than any machine runs");
    }
    let mut found: Vec<Limit> =
        alternatives(like).iter().filter_map(|like| physical(machine, like)).collect();
    let reason = found.iter().find_map(|limit| limit.reason.clone());
    tightest_first(&mut found);
    if let Some(limit) = found.into_iter().rfind(|limit| limit.value.is_some_and(|value| value > 0.0)) {
        return HeldFigure { limit: Some(limit), ..HeldFigure::default() };
    }
    HeldFigure::unknown(reason.unwrap_or_else(|| "plimsoll derives no limit for it".to_owned()))
}

/// Returns the user's limit of which `figure` reaches the highest share; `None` without a limit.
pub(crate) fn given(figure: &StatedFigure, limits: &UserLimits) -> Option<Limit> {
    let like = figure.like.as_ref().ok()?;
    let metric = plimsoll_bench::metric(&like.case, like.metric)?;
    let share = |limit: &Limit| limit.value.map_or(0.0, |value| limit.share(figure.value, value));
    limits.of(&like.case, &metric).into_iter().max_by(|a, b| share(a).total_cmp(&share(b)))
}

/// Returns the first known limit that is no maker's rating, else the first known, else the first.
fn physical(machine: &Machine, like: &EquivalentCase) -> Option<Limit> {
    let EquivalentCase { case, metric, sample } = like;
    let (samples, evidence) = (std::slice::from_ref(sample), LimitEvidence::default());
    let limits = plimsoll_bench::limits(&Question { machine, case, metric, samples, evidence });
    let binds = |limit: &&Limit| limit.value.is_some() && !limit.is_promise;
    let found = limits.iter().find(binds).or_else(|| limits.iter().find(|limit| limit.value.is_some()));
    found.or(limits.first()).cloned()
}

/// Returns `Ok` if a figure past `limit` is impossible, else `Err` with what else can explain the
/// figure. `share` is figure ÷ limit; `explained`: the file itself suggests a cause.
pub(crate) fn binding(
    limit: &Limit,
    figure: &StatedFigure,
    share: f64,
    explained: bool,
    place: &CheckedMachine<'_>,
) -> Result<(), &'static str> {
    const HIDDEN_SOCKETS: f64 = 2.0;
    let guest = place.machine.virtualisation.is_virtual != Some(false);
    Err(match figure.subject {
        _ if limit.source == LimitSource::User => return Ok(()),
        _ if limit.is_promise => "past a rating, which is a promise and no physical limit",
        _ if limit.source == LimitSource::Inferred => "past the limit, which is inferred and may be wrong",
        Subject::Disk(_) if limit.kind == LimitKind::Floor => {
            "below the mean time of half a turn, which the disk's own cache passes too"
        }
        Subject::Disk(_) | Subject::Link(_) if guest => {
            "past what the device states, which binds nothing in a virtual machine: a hypervisor makes it up"
        }
        Subject::Memory(_) if guest && !explained && share <= HIDDEN_SOCKETS => {
            "past the limit of the sockets that the hypervisor shows; it may hide others"
        }
        _ => return Ok(()),
    })
}
