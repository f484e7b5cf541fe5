//! Figures of cores: held to what the cores can start in a cycle at the highest clock that any processor has.

use plimsoll_metal::isa::Isa;

use crate::ask::{HIGHEST_CLOCK, Held, ask};
use crate::limit::Limit;
use crate::quantity::significant;
use crate::stated::{CoreUse, Figure, Like};
use crate::{Cause, Place};

/// How many times as many threads the times of a file may add up to as it says.
const ROUNDING: f64 = 1.15;

pub(crate) fn held(figure: &Figure, used: &CoreUse, place: &Place<'_>) -> Held {
    let mut held = ask(figure, place, alternatives);
    held.limit = held.limit.map(at_highest_clock);
    held.possible =
        "work that was counted twice, the figure of many threads taken for one, bits and bytes confused";
    held.sure = used.by_time.filter(|busy| *busy > used.threads * ROUNDING + 0.1).map(|busy| {
        let (busy, threads) = (significant(busy, 3), significant(used.threads, 3));
        (Cause::ManyThreads, format!("the latencies show {busy} busy threads; the file states {threads}"))
    });
    held
}

/// Where the file does not name the instruction set, each.
fn alternatives(like: &Like) -> Vec<Like> {
    let mut like = like.clone();
    like.sample.conditions.clock_hz = Some(HIGHEST_CLOCK);
    if like.case.word("isa").is_some() {
        return vec![like];
    }
    let vectors = Isa::ALL.into_iter().filter(|isa| !isa.is_matrix() && *isa != Isa::Portable);
    vectors.map(|isa| Like { case: like.case.clone().with_word("isa", isa.name()), ..like.clone() }).collect()
}

/// The limit with the clock's origin as it is.
pub(crate) fn at_highest_clock(mut limit: Limit) -> Limit {
    for input in limit.inputs.iter_mut().filter(|input| input.unit == "Hz") {
        input.from = "the highest of any processor sold: the file does not say which was held".to_owned();
    }
    limit
}
