//! Measures over a link between two network namespaces.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::process::Command;

use plimsoll_server::wire::{Channel, Message, SharedKey};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Serving;
use crate::namespaces::{FAR, Link, NEAR, first};
use crate::support::{
    PROGRAM, median, possible, reason, scratch, short_of_cpu, signal, skipped, start, ticks, until,
    with_code, without_numbers,
};

#[test]
fn a_shaped_link_is_filled_and_not_overfilled() {
    let Some(link) = Link::new() else { return };
    for (end, device) in link.ends() {
        end.must(&format!("tc qdisc add dev {device} root tbf rate 100mbit burst 32kb latency 50ms"));
    }
    let server = link.server(&[]);
    let limits = scratch();
    let file = limits.path().join("limits.toml");
    // Goodput of a segment: the shaper counts frames without preamble, checksum and gap.
    let goodput = 100e6 * 1448.0 / 1514.0;
    let row = format!(
        "[[limit]]\nmatch = \"network.tcp/*\"\nmetric = \"goodput\"\nunit = \"bit/s\"\nvalue = {goodput}\nkind = \"ceiling\"\nsource = \"tbf\"\n"
    );
    std::fs::write(&file, row).unwrap();
    for direction in ["up", "down"] {
        let how = format!(
            "--direction {direction} --omit 300ms --samples 3 --sample-time 1s --limits {}",
            file.display()
        );
        let measurement = link.measured(&server, &how, 0);
        let got = median(&measurement, "goodput");
        assert!(got <= 100e6, "{got} past the shape");
        // A quota stops both ends for most of some samples.
        let least = if short_of_cpu() { 0.2 } else { 0.95 } * goodput;
        assert!(got >= least, "{got} of {goodput}");
        assert_eq!(measurement["achieved"]["link"], "near0");
        assert_eq!(measurement["status"], "ok");
    }
}

/// A send buffer that grew on a fast link would occupy a slow one for a minute after each sample.
#[test]
fn a_slow_link_gets_no_more_than_it_carries_also_after_a_fast_run() {
    let Some((link, server)) = Link::served(&[]) else { return };
    for ((end, device), direction) in link.ends().into_iter().zip(["up", "down"]) {
        let run = |samples: u8| {
            let how = format!("--direction {direction} --samples {samples} --sample-time 200ms");
            let begun = std::time::Instant::now();
            (median(&link.measured(&server, &how, 0), "goodput"), begun.elapsed().as_secs_f64())
        };
        run(3);
        end.must(&format!("tc qdisc add dev {device} root tbf rate 1mbit burst 4k latency 200ms"));
        let (got, elapsed) = run(2);
        assert!(got > 0.2e6 && got <= 1.05e6, "{direction}: {got}");
        // 64 KiB in the send buffer and 25 kB in the queue: less than a second per transfer.
        assert!(elapsed < 30.0, "{direction}: {elapsed}");
        end.must(&format!("tc qdisc del dev {device} root"));
    }
}

#[test]
fn a_small_mtu_and_ipv6_are_seen_in_the_segments() {
    let Some((link, server)) = Link::served(&[]) else { return };
    if link.near.run("ip -6 address show dev near0 to fd77::1") {
        let measurement = link.measured(&server, "--server fd77::2 --samples 1 --sample-time 50ms", 0);
        // Means over the samples, weighted by time: not exact to the last digit.
        let condition = |name: &str| measurement["conditions"][name].as_f64().unwrap().round();
        assert_eq!((condition("path_ipv6"), condition("tcp_mss")), (1.0, 1428.0));
    } else {
        skipped("a link with IPv6", "no IPv6 here");
    }
    link.ends().into_iter().for_each(|(end, device)| end.must(&format!("ip link set {device} mtu 576")));
    let measurement = link.measured(&server, "--samples 1 --sample-time 50ms", 0);
    // 576 less 20 of IP, 20 of TCP and 12 of timestamps.
    assert_eq!(measurement["conditions"]["tcp_mss"], 524.0);
    assert!(median(&measurement, "goodput") > 0.0);
    // A veth has no line.
    insta::assert_snapshot!(
        "a_small_mtu_is_seen_in_the_segments",
        reason(&measurement["metrics"][0]["limit"])
    );
}

/// Starts an endless transfer in `direction`, breaks it, and returns why the client ended with 5.
fn broken(link: &Link, server: &Serving, direction: &str, by: impl FnOnce()) -> String {
    let before = ticks(server.child.id()).unwrap();
    let how =
        format!("--server {FAR} --only network.tcp --direction {direction} --samples 1 --sample-time 10m");
    let client = start(&mut link.client(server, &how));
    until("a busy server", || ticks(server.child.id()).unwrap() > before + 5);
    by();
    reason(&first(client, 5)).to_owned()
}

#[test]
fn a_far_end_killed_and_a_link_that_goes_down_end_both_ends_in_each_direction() {
    let Some(link) = Link::new() else { return };
    let directions = ["up", "down", "both"];
    for direction in directions {
        let server = link.server(&["--max-duration", "1h"]);
        // The namespace's command has become the server itself.
        let reason = broken(&link, &server, direction, || signal(server.child.id(), Signal::KILL));
        assert!(reason.starts_with(&format!("the server at {FAR}:7546 was lost during a ")), "{reason}");
    }
    let server = link.server(&["--max-duration", "1h"]);
    for direction in directions {
        let reason = broken(&link, &server, direction, || link.near.must("ip link set near0 down"));
        let begins = format!("the path to the server at {FAR}:7546: the link of near0 was lost once ");
        assert!(reason.starts_with(&begins), "{reason}");
        until("the session's end", || server.threads() == 1);
        link.near.must("ip link set near0 up");
    }
    let log = server.log();
    assert_eq!(log.matches("aborted").count(), 3, "{log}");
}

#[test]
fn the_address_to_send_from_is_kept() {
    let Some((link, server)) = Link::served(&["--allow", "10.77.0.9"]) else { return };
    link.near.must("ip address add 10.77.0.9/24 dev near0");
    let how = |from: &str| format!("--bind {from} --samples 1 --sample-time 20ms");
    assert_eq!(link.measured(&server, &how("10.77.0.9"), 0)["status"], "ok");
    assert_eq!(link.measured(&server, &how(NEAR), 5)["status"], "failed");
    // A mistake of the client, found before anything is measured.
    let line = format!("--server {FAR} {}", how("192.0.2.1"));
    insta::assert_snapshot!(with_code(&link.client(&server, &line).output().unwrap(), 2).1);
}

/// A new network namespace has its loopback down, and no server would help.
#[test]
fn a_loopback_that_is_down_is_named() {
    let Some(()) = possible(&["unshare"]) else { return };
    let mut command = Command::new("unshare");
    command.args(["--net", PROGRAM]);
    command.args("network --only network.tcp --store none --json - --quiet".split(' '));
    insta::assert_snapshot!(without_numbers(reason(&first(start(&mut command), 4))));
}

#[test]
fn a_client_that_vanishes_between_two_requests_leaves_no_session() {
    let Some((link, server)) = Link::served(&[]) else { return };
    let place = std::fs::File::open(format!("/proc/{}/ns/net", link.near.pid())).unwrap();
    let key = SharedKey::from_hex(&server.key, "the server's word").unwrap();
    let to = format!("{FAR}:{}", server.port());
    // This thread alone enters the namespace, and ends in it.
    let client = std::thread::spawn(move || {
        move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let mut channel = Channel::connect(TcpStream::connect(to).unwrap(), &key).unwrap();
        let answer = channel.ask(&Message::Open { other_session: None }).unwrap();
        assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
        channel
    });
    let channel = client.join().unwrap();
    // The session, and the watch over its links.
    until("the session", || server.threads() == 3);
    link.near.must("ip link set near0 down");
    until("the session's end", || server.threads() == 1);
    drop(channel);
    let log = server.log();
    assert_eq!(log.matches("aborted").count(), 1, "{log}");
}
