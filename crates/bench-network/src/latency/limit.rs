//! Limits of round trips: the fastest ICMP echo of the same run to the same server, plus the time
//! of the message's bytes on the wire. Without an echo the limit is unknown.

use super::NetworkLatency;
use crate::condition::PATH_SPEED;
use crate::{GOODPUT, RATE_METRIC, RTT};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::network::{NetworkStreams, NetworkTrips, TripProtocol};
use plimsoll_model::limit::frame::PASSED_BY;
use plimsoll_model::sample::Outcome;

pub(super) fn limits(question: &Question<'_>) -> Vec<Limit> {
    let Ok(own) = NetworkTrips::of(question.case) else { return Vec::new() };
    match question.metric {
        RTT => vec![floor(question, &own)],
        RATE_METRIC | GOODPUT => vec![ceiling(question, &own)],
        _ => Vec::new(),
    }
}

/// Returns time in s and message size in bytes of the fastest echo of `outcome`.
fn fastest_echo(outcome: &Outcome) -> Option<(f64, f64)> {
    let histograms = outcome.samples.iter().flat_map(|sample| &sample.histograms);
    let quickest = histograms.filter_map(|h| h.buckets.first()).map(|(edge, _)| *edge).min()?;
    Some((quickest as f64 * 1e-9, NetworkStreams::of(&outcome.case).message? as f64))
}

fn floor(question: &Question<'_>, own: &NetworkTrips<'_>) -> Limit {
    let unknown = |why: &str| Limit::unknown(LimitKind::Floor, why);
    if own.protocol == Some(TripProtocol::Icmp) {
        return unknown("an ICMP echo is itself the floor that other round trips are held against");
    }
    // Only echoes with the same settings are compared: polling, or a shorter sleep, is faster.
    let alike = |echo: NetworkTrips<'_>| {
        echo.protocol == Some(TripProtocol::Icmp) && (echo.polls, echo.interval) == (own.polls, own.interval)
    };
    let echoes = question.evidence.iter().filter(|o| {
        o.ended.is_none()
            && o.case.benchmark() == NetworkLatency.name()
            && o.case.server() == question.case.server()
            && NetworkTrips::of(&o.case).is_ok_and(alike)
    });
    let fastest = echoes.filter_map(fastest_echo).min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((echo_seconds, echo_bytes)) = fastest else {
        return unknown(&format!(
            "the ICMP echo time, which is the limit, was not measured: run plimsoll network --protocol {},icmp (with the same --server, --mode and --interval, if any)",
            own.protocol.unwrap_or(TripProtocol::Tcp).word()
        ));
    };
    let bytes = NetworkStreams::of(question.case).message.unwrap_or(1) as f64;
    // A new connection takes one round trip before that of the message.
    let trips = if own.protocol == Some(TripProtocol::Connect) { 2.0 } else { 1.0 };
    let speed = question.condition(&PATH_SPEED);
    let mut inputs =
        vec![Input::new("echo", echo_seconds, "s", "the quickest ICMP echo of this run to the same server")];
    let mut value = trips * echo_seconds;
    let mut formula = if trips > 1.0 { "2 × echo" } else { "echo" }.to_owned();
    if let Some(speed) = speed.filter(|speed| *speed > 0.0 && bytes > echo_bytes) {
        value += 2.0 * 8.0 * (bytes - echo_bytes) / speed;
        formula += " + 2 × 8 × (message − that of the echo) ÷ speed";
        let more = "what the message has more than the echo had";
        inputs.push(Input::new("message", bytes - echo_bytes, "B", more));
        let from = "/sys/class/net of the interface that the packets take";
        inputs.push(Input::new("speed", speed, "bit/s", from));
    }
    // A polling server is awake, but the kernel that answers echoes may have to be woken.
    let source = if own.polls { LimitSource::Inferred } else { LimitSource::Derived };
    Limit::fixed(LimitKind::Floor, source, value, &formula, inputs)
}

/// Returns the limit of round trips per second, or of their goodput, from the floor of the latency:
/// one trip at a time on each stream.
fn ceiling(question: &Question<'_>, own: &NetworkTrips<'_>) -> Limit {
    let floor = floor(question, own);
    let Some(seconds) = floor.value else {
        return Limit { kind: LimitKind::Ceiling, ..floor };
    };
    let NetworkStreams { streams, message, .. } = NetworkStreams::of(question.case);
    let bits = message.unwrap_or(1) as f64 * 8.0;
    let (each, formula) = match question.metric {
        GOODPUT => (2.0 * bits, "2 × message × streams"),
        _ => (1.0, "streams"),
    };
    let value = each * streams as f64 / seconds;
    let formula = format!("{formula} ÷ ({})", floor.formula);
    Limit { kind: LimitKind::Ceiling, value: Some(value), formula, ..floor }.passed_by(PASSED_BY)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use plimsoll_machine::{Machine, Root};
    use plimsoll_model::case::Value;
    use plimsoll_model::limit::LimitEvidence;
    use plimsoll_model::sample::{Conditions, Facts, Histogram, Sample};

    fn case(protocol: &str, message: u64) -> Case {
        format!("network.latency/protocol={protocol}/message={message}/streams=4").parse().unwrap()
    }

    fn echo(server: Option<&str>) -> Outcome {
        let case = case("icmp", 1);
        let buckets = vec![(20_000, 3), (50_000, 9)];
        let histograms = vec![Histogram { metric: "rtt".to_owned(), buckets }];
        let case = server.map_or(case.clone(), |name| case.with_word("server", name));
        let samples = vec![Sample { histograms, ..Sample::default() }];
        Outcome { case, repeat: 0, samples, facts: Facts::default(), tool_results: Vec::new(), ended: None }
    }

    fn ask(case: &Case, metric: &str, outcomes: &[Outcome], speed: Option<f64>) -> Limit {
        let machine = Machine::discover(&Root::live());
        let more = speed.map(|speed| ("path_speed".to_owned(), speed)).into_iter().collect();
        let samples =
            [Sample { conditions: Conditions { more, ..Conditions::default() }, ..Sample::default() }];
        let evidence: LimitEvidence<'_> = outcomes;
        limits(&Question { machine: &machine, case, metric, samples: &samples, evidence }).remove(0)
    }

    #[test]
    fn the_quickest_echo_is_the_floor() {
        let outcomes = [echo(None)];
        assert_eq!(ask(&case("tcp", 1), "rtt", &outcomes, None).value, Some(20e-6));
        assert_eq!(ask(&case("connect", 1), "rtt", &outcomes, None).value, Some(40e-6));
        // 1001 bytes, 1000 more than the echo, both ways at 1 Gbit/s: 16 µs.
        let found = ask(&case("udp", 1001), "rtt", &outcomes, Some(1e9));
        assert!((found.value.unwrap() - 36e-6).abs() < 1e-12 && found.kind == LimitKind::Floor, "{found:?}");
        let rate = ask(&case("tcp", 1), "rate", &outcomes, None);
        assert!((rate.value.unwrap() - 4.0 / 20e-6).abs() < 1e-3 && rate.kind == LimitKind::Ceiling);
        assert!((ask(&case("tcp", 1), "goodput", &outcomes, None).value.unwrap() - 64.0 / 20e-6).abs() < 1.0);
    }

    #[test]
    fn an_echo_that_sleeps_is_no_floor_for_one_that_looks() {
        let mut outcomes = [echo(None)];
        outcomes[0].case = outcomes[0].case.clone().with_word("mode", "block");
        let polled = ask(&case("tcp", 1).with_word("mode", "poll"), "rtt", &outcomes, None);
        assert!(polled.value.is_none() && polled.reason.unwrap().contains("--mode"));
        let blocking = case("tcp", 1).with_word("mode", "block");
        let blocked = ask(&blocking, "rtt", &outcomes, None);
        assert_eq!((blocked.value, blocked.source), (Some(20e-6), LimitSource::Derived));
        // Nor after a longer sleep. If the server polls, its kernel's echo is an estimate.
        let spaced = blocking.with("interval", Value::Time(Duration::from_millis(10)));
        assert_eq!(ask(&spaced, "rtt", &outcomes, None).value, None);
        outcomes[0].case = outcomes[0].case.clone().with_word("mode", "poll");
        let polled = ask(&case("tcp", 1).with_word("mode", "poll"), "rtt", &outcomes, None);
        assert_eq!((polled.value, polled.source), (Some(20e-6), LimitSource::Inferred));
    }

    #[test]
    fn without_an_echo_to_the_same_server_it_is_unknown_and_says_what_to_run() {
        for outcomes in [&[][..], &[echo(Some("elsewhere"))]] {
            let found = ask(&case("tcp", 1), "rtt", outcomes, None);
            assert!(found.value.is_none() && found.reason.unwrap().contains(",icmp"));
            assert_eq!(ask(&case("tcp", 1), "rate", outcomes, None).kind, LimitKind::Ceiling);
        }
        assert!(ask(&case("icmp", 1), "rtt", &[echo(None)], None).value.is_none());
    }
}
