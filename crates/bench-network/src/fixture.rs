//! Fixtures for tests of limits.

use plimsoll_machine::{Machine, Root};
use plimsoll_model::case::Case;
use plimsoll_model::limit::{Limit, LimitEvidence, Question};
use plimsoll_model::sample::{Conditions, Numbers, Sample};
use plimsoll_server::wire::{HexBytes, Shaping, Welcome};

use crate::{GOODPUT, SUBSYSTEM};

/// Returns the limits of `metric` on this machine after a sample with the conditions `more`.
pub(crate) fn limits(case: &Case, metric: &str, goodput: Option<f64>, more: Numbers) -> Vec<Limit> {
    limits_on(&Machine::discover(&Root::live()), case, metric, goodput, more)
}

pub(crate) fn limits_on(
    machine: &Machine,
    case: &Case,
    metric: &str,
    goodput: Option<f64>,
    more: Numbers,
) -> Vec<Limit> {
    let values = goodput.map(|goodput| (GOODPUT.to_owned(), goodput)).into_iter().collect();
    let conditions = Conditions { more, ..Conditions::default() };
    let samples = [Sample { values, conditions, ..Sample::default() }];
    let evidence = LimitEvidence::default();
    SUBSYSTEM.limits(&Question { machine, case, metric, samples: &samples, evidence })
}

/// Returns the answer of a server whose kernel shapes as given.
pub(crate) fn welcome(max_rate: u64, shaping: Shaping) -> Welcome {
    let (session, max_streams, max_nanos) = (HexBytes([7; 16]), 64, 60_000_000_000);
    Welcome { session, server: session, max_streams, max_nanos, max_rate, shaping, carrier: None }
}
