//! Limits of a path below its link: a shaper, a policer, the server's cap, or a token bucket.

use super::{Framed, directions};
use crate::GOODPUT;
use crate::condition::{BASE_RATE, FAR_POLICED, FAR_SHAPED, POLICED, SERVER_CAP, SHAPED};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::network::{Flow, NetworkStreams};
use plimsoll_model::limit::frame::ETHERNET_HEADER;
use plimsoll_model::limit::median;

const REFUTING_FACTOR: f64 = 1.05;
const SAME_LIMIT_DISTANCE: f64 = 0.1;

pub(super) fn limits(question: &Question<'_>, framed: &Framed) -> Vec<Limit> {
    let came = median(question.samples.iter().filter_map(|s| s.values.get(GOODPUT).copied()).collect());
    let holds = |limit: &Limit| {
        came.is_none_or(|came| limit.value.is_some_and(|most| came <= REFUTING_FACTOR * most))
    };
    let set = [shaper_limit(question, framed), policer_limit(question), capped(question)];
    let mut all: Vec<Limit> = set.into_iter().flatten().filter(holds).collect();
    let near = |own: f64| {
        all.iter().filter_map(|limit| limit.value).any(|set| (own / set - 1.0).abs() < SAME_LIMIT_DISTANCE)
    };
    let inferred = inferred(question).filter(holds).filter(|limit| limit.value.is_some_and(|own| !near(own)));
    all.extend(inferred);
    all
}

/// Returns `up`, `down` or their sum, by the direction of the case; `None` if that is unknown.
fn rate_in_direction(question: &Question<'_>, up: &OwnCondition, down: &OwnCondition) -> Option<f64> {
    match NetworkStreams::of(question.case).direction {
        Flow::Up => question.condition(up),
        Flow::Down => question.condition(down),
        Flow::Both => Some(question.condition(up)? + question.condition(down)?),
    }
}

/// Returns the limit by the sender's shaper: the client's in an upload, else the server's.
fn shaper_limit(question: &Question<'_>, framed: &Framed) -> Option<Limit> {
    let rate = rate_in_direction(question, &SHAPED, &FAR_SHAPED)?;
    let from = "queueing discipline or class that all packets pass where they leave (rtnetlink)";
    let mut inputs = vec![Input::new("shaper", rate, "bit/s", from)];
    inputs.extend(framed.inputs.iter().filter(|input| input.name != "ethernet").cloned());
    let from = "what the kernel counts of Ethernet: its header";
    inputs.push(Input::new("ethernet", ETHERNET_HEADER, "B", from));
    let formula = format!("shaper × {}", framed.formula);
    let (value, why) = (rate * framed.counted, "the shaper's, not the link's");
    Some(ceiling(LimitSource::Documented, value, &formula, inputs, why))
}

/// Returns the limit by the receiver's policer: the server's in an upload, else the client's.
fn policer_limit(question: &Question<'_>) -> Option<Limit> {
    let rate = rate_in_direction(question, &FAR_POLICED, &POLICED)?;
    let from = "policer that drops what comes in beyond it (rtnetlink)";
    let inputs = vec![Input::new("policer", rate, "bit/s", from)];
    let why = "the policer's, not the link's";
    Some(ceiling(LimitSource::Documented, rate, "policer", inputs, why))
}

fn capped(question: &Question<'_>) -> Option<Limit> {
    let cap = question.condition(&SERVER_CAP)?;
    let inputs = vec![Input::new("max-rate", cap, "bit/s", "the server's --max-rate, as it says")];
    let ways = directions(question);
    let formula = if ways > 1.0 { "2 × max-rate" } else { "max-rate" };
    let why = "the server's cap, not the link's";
    Some(ceiling(LimitSource::Documented, ways * cap, formula, inputs, why))
}

fn inferred(question: &Question<'_>) -> Option<Limit> {
    let base = question.condition(&BASE_RATE)?;
    let from = "what arrived when the burst was over, and again after a pause filled the bucket";
    let inputs = vec![Input::new("base", base, "bit/s", from)];
    let why = "a token bucket on the way, from this run's own arrivals";
    Some(ceiling(LimitSource::Inferred, base, "base", inputs, why))
}

fn ceiling(source: LimitSource, value: f64, formula: &str, inputs: Vec<Input>, why: &str) -> Limit {
    let limit = Limit::fixed(LimitKind::Ceiling, source, value, formula, inputs);
    Limit { reason: Some(why.to_owned()), ..limit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{PATH_LOOPBACK, PATH_MTU, PATH_SPEED, TCP_MSS, TCP_TIMESTAMPS};
    use crate::fixture;
    use plimsoll_model::limit::tightest_first;

    fn limit(direction: &str, goodput: f64, conditions: &[(OwnCondition, f64)]) -> Limit {
        let case = Case::of("network.tcp").with_size("message", 1 << 17).with_word("direction", direction);
        let usual = [(PATH_LOOPBACK, 0.0), (TCP_MSS, 1448.0), (TCP_TIMESTAMPS, 1.0)];
        let more = usual.iter().chain(conditions).copied().collect();
        let mut all = fixture::limits(&case, GOODPUT, Some(goodput), more);
        tightest_first(&mut all);
        all.remove(0)
    }

    #[test]
    fn a_cap_below_the_link_is_the_limit_in_each_direction() {
        let gigabit = (PATH_SPEED, 1e9);
        let found = limit("up", 49e6, &[gigabit, (SERVER_CAP, 50e6)]);
        assert_eq!((found.value, found.source), (Some(50e6), LimitSource::Documented));
        assert_eq!(limit("both", 99e6, &[(SERVER_CAP, 50e6)]).value, Some(100e6));
        let found = limit("up", 900e6, &[gigabit, (SERVER_CAP, 5e9)]);
        assert_eq!(found.source, LimitSource::Derived);
    }

    #[test]
    fn a_word_that_the_figure_has_passed_is_no_limit() {
        let found = limit("down", 80e6, &[(SERVER_CAP, 50e6), (FAR_SHAPED, 60e6)]);
        assert_eq!((found.value, found.source), (None, LimitSource::Unknown));
        let found = limit("down", 80e6, &[(SERVER_CAP, 50e6), (FAR_SHAPED, 100e6)]);
        assert!((found.value.unwrap() - 100e6 * 1448.0 / 1514.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn each_direction_has_its_shapers_and_policers() {
        let all = [(SHAPED, 200e6), (FAR_SHAPED, 100e6), (POLICED, 300e6), (FAR_POLICED, 150e6)];
        assert_eq!(limit("up", 1e6, &all).value, Some(150e6));
        let payload = 1448.0 / 1514.0;
        assert!((limit("down", 1e6, &all).value.unwrap() - 100e6 * payload).abs() < 1.0);
        assert!((limit("both", 1e6, &all).value.unwrap() - 300e6 * payload).abs() < 1.0);
        assert_eq!(limit("both", 1e6, &[(SHAPED, 200e6)]).value, None, "the other direction is not known");
    }

    #[test]
    fn what_arrived_for_good_is_an_inferred_limit_unless_it_is_known_already() {
        let found = limit("up", 95e6, &[(BASE_RATE, 96e6)]);
        assert_eq!((found.value, found.source), (Some(96e6), LimitSource::Inferred));
        let found = limit("up", 95e6, &[(BASE_RATE, 95e6), (SHAPED, 100e6)]);
        assert_eq!(found.source, LimitSource::Documented);
    }

    #[test]
    fn of_datagrams_the_shaper_counts_each_frame_with_its_header() {
        let case = Case::of("network.udp").with_size("message", 1400);
        let more = [(PATH_LOOPBACK, 0.0), (PATH_MTU, 1500.0), (SHAPED, 100e6)].into_iter().collect();
        let all = fixture::limits(&case, GOODPUT, None, more);
        let known: Vec<f64> = all.iter().filter_map(|limit| limit.value).collect();
        assert!((known[0] - 100e6 * 1400.0 / 1442.0).abs() < 1.0, "{known:?}");
    }
}
