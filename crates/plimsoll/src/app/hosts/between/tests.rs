use super::*;
use std::net::Ipv4Addr;

use plimsoll_cluster::between::MachinePair;
use plimsoll_machine::Root;

#[test]
fn own_addresses_are_those_that_others_may_reach() {
    let found = own_addresses(&Machine::discover(&Root::live()));
    let others_reach = |own: &IpAddr| !own.is_loopback() && route::is_local(SocketAddr::new(*own, 0));
    assert!(found.iter().all(others_reach), "{found:?}");
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
    assert!(found.len() <= ADDRESSES);
}

#[test]
fn machines_with_one_network_stack_are_told_so() {
    let place = |addresses: Vec<IpAddr>| ServingPlace { addresses, port: 1, key: String::new() };
    for own in [Vec::new(), vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]] {
        let why = first_reachable(&place(own)).unwrap_err();
        assert_eq!(why.cause, FailureCause::NotHere);
        assert!(why.reason.contains("share one network stack"), "{}", why.reason);
    }
}

fn names() -> [String; 3] {
    ["n1", "n2", "n3"].map(str::to_owned)
}

fn figure(value: f64, speed: f64) -> PairAnswer {
    let more = [("path_loopback".to_owned(), 0.0), ("path_speed".to_owned(), speed)].into_iter().collect();
    let conditions = Conditions { more, ..Conditions::default() };
    Ok(PairFigure { samples: vec![value, value * 1.1, value * 0.9], conditions })
}

fn between(from: usize, to: usize, answer: PairAnswer) -> PairResults {
    PairResults { pair: MachinePair { from, to }, kind: ALL_PAIRS, answers: vec![answer] }
}

fn case() -> Case {
    "network.tcp/message=128K/streams=1/direction=up".parse().unwrap()
}

#[test]
fn a_pair_is_a_cell_and_one_that_failed_is_named_and_without_a_figure_the_case_has_none() {
    let lost = CannotMeasure::server_failed("no\nroute");
    let pairs = [
        between(0, 1, figure(100.0, 1e9)),
        between(0, 2, figure(50.0, 2e9)),
        between(1, 2, Err(lost.clone())),
    ];
    let all: Vec<(&PairResults, &PairAnswer)> = pairs.iter().map(|one| (one, &one.answers[0])).collect();
    let made = each(case(), &all, &names()).unwrap();
    assert_eq!((made.samples.len(), made.values("goodput")[0], made.ended), (3, 75.0, None));
    let cells: Vec<_> = made.samples[0].matrix.iter().map(|c| (c.row, c.column, c.value)).collect();
    assert_eq!(cells, [(0, 1, 100.0), (0, 2, 50.0)]);
    // The interfaces differ in speed, so no limit can depend on it.
    assert_eq!(made.samples[0].conditions.more, [("path_loopback".to_owned(), 0.0)].into_iter().collect());
    let reported = made.facts.warnings[0].to_string();
    assert_eq!(reported, r"1 of 3 pairs have no figure: n2 to n3: no\u{a}route");
    assert_eq!(simultaneous_sum(case(), &all).unwrap().ended, Some(lost));
    let sum = simultaneous_sum(case(), &all[..2]).unwrap();
    assert_eq!(sum.values("goodput")[0], 150.0);
    let more = [("path_loopback".to_owned(), 0.0), ("pairs".to_owned(), 2.0)];
    assert_eq!(sum.samples[0].conditions.more, more.into_iter().collect());
    assert_eq!(each(case(), &[], &names()), None);
    let trips = "network.latency/protocol=tcp/message=1/streams=1".parse().unwrap();
    assert_eq!(simultaneous_sum(trips, &all[..2]), None);
    let pair = between(0, 1, Err(CannotMeasure::not_here("one network stack")));
    let made = each(case(), &[(&pair, &pair.answers[0])], &names()).unwrap();
    assert!(made.samples.is_empty() && matches!(made.ended, Some(why) if why.cause == FailureCause::NotHere));
}
