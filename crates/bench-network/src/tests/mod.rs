//! Parameter lists that become cases, and values that are refused before any measurement.

use super::*;
use plimsoll_bench_api::Benchmark;
use plimsoll_model::case::Value;

fn ids(benchmark: &dyn Benchmark, group: &Group) -> Result<Vec<String>, String> {
    let machine = Machine::discover(&plimsoll_machine::Root::live());
    let candidates = benchmark.cases(&machine, group)?;
    Ok(candidates.iter().map(|c| c.case.to_string()).collect())
}

fn word(text: &str) -> Value {
    Value::Word(text.to_owned())
}

#[test]
fn lists_become_cases() {
    let group = Group::default();
    assert_eq!(ids(&Tcp, &group).unwrap(), ["network.tcp/message=128K/streams=1/direction=up"]);
    let latency = ids(&NetworkLatency, &group).unwrap();
    assert_eq!(latency, ["network.latency/protocol=tcp/message=1/streams=1/mode=block"]);
    let group = Group::default()
        .with("message", vec![Value::Size(1), Value::Size(1 << 20)])
        .with("streams", vec![Value::Count(1), Value::Count(64)])
        .with("direction", vec![word("up"), word("down"), word("both")]);
    assert_eq!(ids(&Tcp, &group).unwrap().len(), 12);
}

#[test]
fn messages_up_to_the_largest_datagram_are_cases_and_larger_ones_are_refused() {
    let sized = |bytes| Group::default().with("message", vec![Value::Size(bytes)]);
    let by = |protocol, bytes| sized(bytes).with("protocol", vec![word(protocol)]);
    assert!(ids(&Udp, &sized(65_507)).is_ok());
    for (protocol, bytes) in [("udp", 65_507), ("tcp", 1 << 20), ("connect", 1 << 20)] {
        assert!(ids(&NetworkLatency, &by(protocol, bytes)).is_ok(), "{protocol}");
    }
    for error in [
        ids(&Udp, &sized(65_536)),
        ids(&NetworkLatency, &by("udp", 65_508)),
        ids(&NetworkLatency, &by("icmp", 65_536)),
    ] {
        let error = error.unwrap_err();
        assert!(error.starts_with("message") && error.contains("between 1 and 65507"), "{error}");
    }
}

#[test]
fn what_was_asked_for_is_in_the_id() {
    let group = Group::default()
        .with("server", vec![word("[::1]:7000")])
        .with("zerocopy", vec![word("on"), word("off")])
        .with("congestion", vec![word("bbr")]);
    let found = ids(&Tcp, &group).unwrap();
    assert_eq!(found.len(), 2);
    let end = "/direction=up/server=%5B::1%5D:7000/zerocopy=on/congestion=bbr";
    assert!(found[0].ends_with(end), "{found:?}");
    assert_eq!(found[0].parse::<Case>().unwrap().word("server"), Some("[::1]:7000"));
}

#[test]
fn wrong_values_are_refused_with_what_would_be_right() {
    for (key, value) in [
        ("message", Value::Size(0)),
        ("message", Value::Size((1 << 20) + 1)),
        ("streams", Value::Count(0)),
        ("streams", Value::Count(65)),
        ("direction", word("sideways")),
        ("server", word("-h")),
        ("server", word("host:0")),
        ("window", Value::Size(1)),
        ("mss", Value::Count(1)),
        ("dscp", Value::Count(64)),
    ] {
        let error = ids(&Tcp, &Group::default().with(key, vec![value])).unwrap_err();
        assert!(error.starts_with(key) && error.contains(" must be "), "{error}");
    }
    for (key, value) in [("bind", word("eth0")), ("congestion", word("../x"))] {
        let error = ids(&Tcp, &Group::default().with(key, vec![value])).unwrap_err();
        assert!(error.starts_with(key), "{error}");
    }
    for (key, value) in [
        ("protocol", word("sctp")),
        ("mode", word("spin")),
        ("timeout", Value::Time(std::time::Duration::ZERO)),
        ("interval", Value::Time(std::time::Duration::ZERO)),
    ] {
        let error = ids(&NetworkLatency, &Group::default().with(key, vec![value])).unwrap_err();
        assert!(error.starts_with(key) && error.contains(" must be "), "{error}");
    }
    let both = Group::default().with("search", vec![word("lossless")]).with("rate", vec![Value::Rate(1e6)]);
    assert!(ids(&Udp, &both).unwrap_err().contains("--search"));
    let loaded = Group::default().with("protocol", vec![word("icmp")]).with("load", vec![word("up")]);
    assert!(ids(&NetworkLatency, &loaded).unwrap_err().starts_with("--load"));
}

#[test]
fn a_far_end_that_is_none_is_a_far_end_failure() {
    let open = |program: &str| {
        ServerSession::open(&NetworkSetup::private(program.into(), EndPlacement::default()).place, None)
            .unwrap_err()
    };
    // `true` ignores its input and prints nothing; `cat` returns the orders.
    for program in ["/bin/true", "/bin/cat"] {
        let error = open(program);
        assert_eq!(error.cause, plimsoll_model::sample::FailureCause::ServerFailed, "{error}");
        assert_eq!(error.reason.lines().count(), 1);
    }
    assert_eq!(open("/nonexistent").cause, plimsoll_model::sample::FailureCause::Environment);
}

#[test]
fn both_ends_on_one_cpu_are_told_of() {
    let one = EndPlacement { near: PinnedCpus(vec![0]), far: PinnedCpus(vec![0]) };
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    assert_eq!(one.facts("loopback", address).warnings[0].code(), "ends-share-cpu");
    let two = EndPlacement { near: PinnedCpus(vec![0]), far: PinnedCpus(vec![1]) };
    assert!(two.facts("loopback", address).warnings.is_empty());
}
