//! Parameter lists that become cases, and values that are refused before any measurement.

use super::*;
use plimsoll_bench_api::Benchmark;
use plimsoll_model::fixture::{group, parse_group};

fn ids(benchmark: &dyn Benchmark, group: &Group) -> Result<Vec<String>, String> {
    let machine = Machine::discover(&plimsoll_machine::Root::live());
    let candidates = benchmark.cases(&machine, group)?;
    Ok(candidates.iter().map(|c| c.case.to_string()).collect())
}

#[test]
fn lists_become_cases() {
    let none = Group::default();
    assert_eq!(ids(&Tcp, &none).unwrap(), ["network.tcp/message=128K/streams=1/direction=up"]);
    let latency = ids(&NetworkLatency, &none).unwrap();
    assert_eq!(latency, ["network.latency/protocol=tcp/message=1/streams=1/mode=block"]);
    let lists = "message=1,1M/streams=1,64/direction=up,down,both";
    assert_eq!(ids(&Tcp, &parse_group(lists)).unwrap().len(), 12);
}

#[test]
fn messages_up_to_the_largest_datagram_are_cases_and_larger_ones_are_refused() {
    let of = |benchmark: &dyn Benchmark, lists| ids(benchmark, &parse_group(lists));
    assert!(of(&Udp, "message=65507").is_ok());
    for lists in ["protocol=udp/message=65507", "protocol=tcp/message=1M", "protocol=connect/message=1M"] {
        assert!(of(&NetworkLatency, lists).is_ok(), "{lists}");
    }
    let by_udp = of(&NetworkLatency, "protocol=udp/message=65508");
    let by_icmp = of(&NetworkLatency, "protocol=icmp/message=65536");
    for error in [of(&Udp, "message=65536"), by_udp, by_icmp] {
        let error = error.unwrap_err();
        assert!(error.starts_with("message") && error.contains("between 1 and 65507"), "{error}");
    }
}

#[test]
fn what_was_asked_for_is_in_the_id() {
    let found = ids(&Tcp, &parse_group("server=[::1]:7000/zerocopy=on,off/congestion=bbr")).unwrap();
    assert_eq!(found.len(), 2);
    let end = "/direction=up/server=%5B::1%5D:7000/zerocopy=on/congestion=bbr";
    assert!(found[0].ends_with(end), "{found:?}");
    assert_eq!(found[0].parse::<Case>().unwrap().word("server"), Some("[::1]:7000"));
}

#[test]
fn wrong_values_are_refused_with_what_would_be_right() {
    let of_tcp = "message=0 message=1048577 streams=0 streams=65 direction=sideways server=-h server=host:0 \
                  window=1 mss=1 dscp=64";
    let of_latency = "protocol=sctp mode=spin timeout=0s interval=0s";
    for (benchmark, lists) in [(&Tcp as &dyn Benchmark, of_tcp), (&NetworkLatency, of_latency)] {
        for list in lists.split(' ') {
            let error = ids(benchmark, &parse_group(list)).unwrap_err();
            let (key, _) = list.split_once('=').unwrap();
            assert!(error.starts_with(key) && error.contains(" must be "), "{error}");
        }
    }
    for (key, text) in [("bind", "eth0"), ("congestion", "../x")] {
        let error = ids(&Tcp, &group(&[(key, &[text])])).unwrap_err();
        assert!(error.starts_with(key), "{error}");
    }
    assert!(ids(&Udp, &parse_group("search=lossless/rate=1e6")).unwrap_err().contains("--search"));
    assert!(ids(&NetworkLatency, &parse_group("protocol=icmp/load=up")).unwrap_err().starts_with("--load"));
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
