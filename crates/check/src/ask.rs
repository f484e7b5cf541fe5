//! Derives the limit of a figure and decides whether the limit is binding.

use plimsoll_machine::Machine;
use plimsoll_model::limit::user::UserLimits;
use plimsoll_model::limit::{Evidence, Kind, Limit, Question, Source};
use plimsoll_reference::stated::{Figure, Like, Subject};

use crate::{Cause, Place};

/// Highest clock in Hz of any processor sold (Intel Core i9-14900KS, 6.2 GHz, 2024). Files do not
/// contain the clock, and a limit at a lower one could wrongly make a figure impossible.
pub(crate) const HIGHEST_CLOCK: f64 = 6.2e9;

/// Maximum threads of a judged case. Linux has no more CPUs (x86: NR_CPUS ≤ 8192).
const MOST_THREADS: u64 = 1 << 16;

#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) limit: Option<Limit>,
    pub(crate) why_not: Option<String>,
    /// Cause and reason that the file proves, whatever the limit.
    pub(crate) sure: Option<(Cause, String)>,
    /// Cause and reason that the file suggests if the figure is past the limit.
    pub(crate) likely: Option<(Cause, String)>,
    /// Possible causes if the file shows none.
    pub(crate) possible: &'static str,
    /// Reason why the figure cannot be judged though it is within the limit.
    pub(crate) doubt: Option<String>,
    /// Reason why the limit may be higher.
    pub(crate) incomplete: Option<String>,
    pub(crate) note: Option<String>,
    /// Part of the figure that its way of counting may add, in the figure's unit.
    pub(crate) spare: f64,
}

impl Held {
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self { why_not: Some(why.into()), ..Self::default() }
    }
}

/// Derives the limit of a figure: the most permissive one of the cases that `alternatives` returns.
pub(crate) fn ask(figure: &Figure, place: &Place<'_>, alternatives: impl Fn(&Like) -> Vec<Like>) -> Held {
    ask_of(figure, place.machine, alternatives)
}

pub(crate) fn ask_of(figure: &Figure, machine: &Machine, alternatives: impl Fn(&Like) -> Vec<Like>) -> Held {
    let like = match &figure.like {
        Ok(like) if like.case.threads() as u64 > MOST_THREADS => {
            return Held::unknown("it states more threads than any machine runs");
        }
        Ok(like) => like,
        Err(why) => return Held::unknown(why.clone()),
    };
    let found: Vec<Limit> =
        alternatives(like).iter().filter_map(|like| physical(limits(machine, like))).collect();
    let known = found.iter().filter(|limit| limit.value.is_some_and(|value| value > 0.0));
    let room = |limit: &&Limit| match limit.kind {
        Kind::Ceiling => limit.value.unwrap_or(0.0),
        Kind::Floor => -limit.value.unwrap_or(0.0),
    };
    match known.max_by(|a, b| room(a).total_cmp(&room(b))) {
        Some(limit) => Held { limit: Some(limit.clone()), ..Held::default() },
        None => {
            let reason = found.into_iter().find_map(|limit| limit.reason);
            Held::unknown(reason.unwrap_or_else(|| "plimsoll derives no limit for it".to_owned()))
        }
    }
}

/// Returns the user's limit for a figure; of several the one with the highest share.
pub(crate) fn given(figure: &Figure, limits: &UserLimits) -> Option<Limit> {
    let like = figure.like.as_ref().ok()?;
    let metric = plimsoll_bench::metric(&like.case, like.metric)?;
    let share = |limit: &Limit| limit.value.map_or(0.0, |value| limit.share(figure.value, value));
    limits.of(&like.case, &metric).into_iter().max_by(|a, b| share(a).total_cmp(&share(b)))
}

fn limits(machine: &Machine, like: &Like) -> Vec<Limit> {
    let samples = [like.sample.clone()];
    let evidence = Evidence::default();
    plimsoll_bench::limits(&Question {
        machine,
        case: &like.case,
        metric: like.metric,
        samples: &samples,
        evidence,
    })
}

/// Returns the tightest limit that is not a promise; else any with a value, else the first.
fn physical(limits: Vec<Limit>) -> Option<Limit> {
    let binds = |limit: &&Limit| limit.value.is_some() && !limit.is_promise;
    let found = limits.iter().find(binds).or_else(|| limits.iter().find(|limit| limit.value.is_some()));
    found.or(limits.first()).cloned()
}

/// Returns `Ok` if a figure past this limit is impossible, else what else can explain it.
pub(crate) fn binding(
    limit: &Limit,
    figure: &Figure,
    share: f64,
    explained: bool,
    place: &Place<'_>,
) -> Result<(), String> {
    /// Sockets of the host per socket that a guest sees, at most.
    const HIDDEN_SOCKETS: f64 = 2.0;
    if limit.source == Source::User {
        return Ok(());
    }
    if limit.is_promise {
        return Err("past a rating, which is a promise and no physical limit".to_owned());
    }
    if limit.source == Source::Inferred {
        return Err("past the limit, which is inferred and may be wrong".to_owned());
    }
    let guest = place.machine.virtualisation.is_virtual != Some(false);
    match figure.subject {
        Subject::Disk(_) if limit.kind == Kind::Floor => {
            Err("below the mean time of half a turn, which the disk's own cache passes too".to_owned())
        }
        Subject::Disk(_) | Subject::Link(_) if guest => Err(
            "past what the device states, which binds nothing in a virtual machine: a hypervisor makes it up"
                .to_owned(),
        ),
        Subject::Memory(_) if guest && !explained && share <= HIDDEN_SOCKETS => {
            Err("past the limit of the sockets that the hypervisor shows; it may hide others".to_owned())
        }
        _ => Ok(()),
    }
}
