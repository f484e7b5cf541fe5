//! `plimsoll serve` as a process: many sessions, crowds, clients that vanish, wrong use.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use plimsoll_bench_network::{Address, ServerLocation, ServerSession};
use plimsoll_model::sample::FailureCause;
use plimsoll_server::wire::{Direction, OrderedAmount, SharedKey, Sockets, TcpOrder};

use super::Serving;
use crate::disk;
use crate::namespaces::first;
use crate::support::{
    Owned, PROGRAM, command, done, has, json, plimsoll, reason, repository, scratch, start, ticks, until,
    warns, with_code, without_numbers,
};

fn location(server: &Serving) -> ServerLocation {
    let key = SharedKey::from_hex(&server.key, "the announcement").unwrap();
    ServerLocation::Server { address: Address::parse(&server.address).unwrap(), key }
}

fn open(server: &Serving) -> ServerSession {
    ServerSession::open(&location(server), None).unwrap()
}

/// Leaves the server with six further descriptors.
fn with_few_descriptors(flags: &[&str]) -> Serving {
    let server = Serving::here(flags);
    let limit = format!("--nofile={0}:{0}", server.descriptors() + 6);
    let pid = server.child.id().to_string();
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    server
}

/// The measurements of a short run with `key` against `address`, which must end with `code`.
#[track_caller]
fn measurements(key: &str, address: &str, line: &str, code: i32) -> Vec<serde_json::Value> {
    let line = format!("network --server {address} --store none --json - --quiet {line}");
    let dir = scratch();
    let ran = plimsoll(dir.path()).args(line.split_whitespace()).env("PLIMSOLL_KEY", key).output().unwrap();
    disk::measurements(&ran, code)
}

fn work(streams: u16) -> TcpOrder {
    TcpOrder::new(streams, 1000, Direction::Both, OrderedAmount::Messages(640))
}

#[test]
fn many_sessions_and_streams_beside_a_silent_crowd_leave_nothing() {
    let server = Serving::here(&[]);
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    let session = |streams: u16| {
        let mut far = open(&server);
        far.join(streams, &Sockets::default()).unwrap();
        let outcome = far.transfer(&work(streams), &[7; 1000], &Default::default()).unwrap();
        assert_eq!(outcome.there.unwrap().received.unwrap().bytes, 640_000);
    };
    session(64);
    let settled = || until("the end of all sessions", || server.threads() == 1);
    settled();
    (0..50).for_each(|_| session(1));
    settled();
    let (descriptors, memory) = (server.descriptors(), server.resident());
    (0..1000).for_each(|_| session(1));
    settled();
    drop(crowd);
    session(64);
    settled();
    // Strangers' descriptors come and go; sessions leave none.
    assert!(server.descriptors() <= descriptors, "{} after {descriptors}", server.descriptors());
    assert!(server.resident() < memory + 4096, "{} kB after {memory}", server.resident());
    let log = server.log();
    assert!(log.lines().any(|line| line.ends_with("ended after 1 transfer")), "{log}");
}

#[test]
fn a_client_killed_in_each_direction_is_noticed_and_the_next_is_served() {
    let server = Serving::here(&["--max-duration", "1h"]);
    for direction in ["up", "down", "both"] {
        let before = ticks(server.child.id()).unwrap();
        let long = "--only network.tcp --samples 1 --sample-time 10m --store none --quiet";
        let line = format!("network {long} --direction {direction} --server {}", server.address);
        let client = Owned(start(command(&line).env("PLIMSOLL_KEY", &server.key)));
        until("a busy server", || ticks(server.child.id()).unwrap() > before + 5);
        drop(client);
        // The worker ends with it, and the session with the worker.
        until("the session's end", || server.threads() == 1);
        let mut far = open(&server);
        far.join(1, &Sockets::default()).unwrap();
        far.transfer(&work(1), &[7; 1000], &Default::default()).unwrap();
    }
    assert_ne!(server.log().matches("aborted").count(), 0, "a client that vanishes is told of");
}

#[test]
fn few_descriptors_neither_stop_nor_spin_the_server() {
    let server = with_few_descriptors(&[]);
    let crowd: Vec<_> = (0..40).filter_map(|_| TcpStream::connect(&server.address).ok()).collect();
    assert!(crowd.len() > 20);
    let before = ticks(server.child.id()).unwrap();
    let mut reply = [0];
    // The oldest is closed to make room for later ones.
    let mut first = crowd.first().unwrap().try_clone().unwrap();
    until("a closed connection", || matches!(first.read(&mut reply), Ok(0) | Err(_)));
    drop(crowd);
    until("a session", || ServerSession::open(&location(&server), None).is_ok());
    // A loop that spins would have used hundreds.
    assert!(ticks(server.child.id()).unwrap() - before < 200);
}

#[test]
fn a_server_without_descriptors_says_so_and_accuses_no_key() {
    let server = with_few_descriptors(&["--max-sessions", "1000"]);
    let mut sessions = Vec::new();
    // A descriptor that the server had in use for a moment may be free for the next.
    let mut refusal = || loop {
        match ServerSession::open(&location(&server), None) {
            Ok(session) => sessions.push(session),
            Err(why) => break why.reason,
        }
        assert!(sessions.len() < 20);
    };
    // The first and each after that hear the same, however often.
    let why: BTreeSet<String> = (0..11).map(|_| without_numbers(&refusal())).collect();
    // A session that needs more than is left hears it as well.
    let session = sessions.last_mut().unwrap();
    let streams = session.join(20, &Sockets::default()).unwrap_err().reason;
    let ports = session.open_udp(20).unwrap_err().reason;
    insta::assert_debug_snapshot!((why, without_numbers(&streams), without_numbers(&ports)));
    sessions.clear();
    until("a session", || ServerSession::open(&location(&server), None).is_ok());
}

#[test]
fn a_client_without_descriptors_says_that_it_has_none() {
    let server = Serving::here(&[]);
    let line = "network --only network.tcp --streams 64 --samples 1 --sample-time 10ms --store none --json -";
    let mut command = Command::new("prlimit");
    command.env("PLIMSOLL_KEY", &server.key).args(["--nofile=40:40", PROGRAM]).args(line.split(' '));
    insta::assert_snapshot!(reason(&first(start(command.args(["--server", &server.address])), 4)));
}

#[test]
fn wrong_keys_and_wrong_places_end_with_5_and_one_line() {
    let server = Serving::here(&[]);
    let run = |key: &str, name: &str| {
        let line = "--only network.tcp --samples 1 --sample-time 10ms";
        reason(&measurements(key, name, line, 5)[0]).to_owned()
    };
    let (address, wrong) = (server.address.clone(), "ab".repeat(32));
    let mut reasons = vec![run(&wrong, &address)];
    // The resolver's message follows.
    let reason = run(&server.key, "no-such-host.invalid");
    assert!(reason.starts_with("the server's name no-such-host.invalid has no address: "), "{reason}");
    drop(server);
    reasons.push(run(&wrong, &address));
    insta::assert_snapshot!(reasons.join("\n").replace(&address, "ADDRESS"));
}

#[test]
fn root_and_a_port_in_use_are_refused_before_anything_is_served() {
    let dir = scratch();
    let server = Serving::here(&[]);
    let line = format!("serve --allow-root --bind 127.0.0.1 --port {}", server.port());
    let busy = format!(
        "plimsoll: cannot listen on {}: Address already in use; use another --port\n",
        server.address
    );
    assert_eq!(done(dir.path(), &line, 5), (String::new(), busy));
    if rustix::process::geteuid().is_root() {
        let (out, err) = done(dir.path(), "serve", 3);
        assert_eq!(out, "");
        insta::assert_snapshot!(err);
    }
}

#[test]
fn a_key_file_made_by_key_new_lets_a_client_in() {
    let dir = scratch();
    done(dir.path(), "key new secret", 0);
    let file = dir.path().join("secret");
    let server = Serving::here(&["--key", file.to_str().unwrap()]);
    let line = format!(
        "network --server {} --key secret --samples 1 --only network.tcp --sample-time 20ms --store none --json -",
        server.address
    );
    let (out, _) = done(dir.path(), &line, 0);
    let measurement = &json(&out)["measurements"][0];
    assert_eq!(measurement["achieved"]["link"], "loopback", "its own address, so no link");
    assert_eq!(measurement["case"]["params"]["server"], server.address.as_str());
    let key = std::fs::read_to_string(&file).unwrap();
    assert_eq!(out.matches(key.trim()).count(), 0, "the key is in no document");
}

#[test]
fn a_far_end_that_is_something_else_is_a_far_end_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n________").unwrap();
    });
    let place = ServerLocation::Server {
        address: Address::parse(&address.to_string()).unwrap(),
        key: SharedKey::random().unwrap(),
    };
    let error = ServerSession::open(&place, None).unwrap_err();
    other.join().unwrap();
    assert_eq!(error.cause, FailureCause::ServerFailed);
    insta::assert_snapshot!(error.reason.replace(&address.to_string(), "ADDRESS"));
}

#[test]
fn the_unit_is_sound_and_hardened() {
    let Some(()) = has(&["systemd-analyze"]) else { return };
    let unit = std::fs::read_to_string(repository("packaging/plimsoll-serve.service")).unwrap();
    let dir = scratch();
    let file = dir.path().join("plimsoll-serve.service");
    std::fs::write(&file, unit.replace("/usr/bin/plimsoll", PROGRAM)).unwrap();
    // 20 is an exposure of 2.0 of 10.
    for line in ["verify", "security --offline=true --threshold=20"] {
        let output = Command::new("systemd-analyze").args(line.split(' ')).arg(&file).output().unwrap();
        let (_, stated) = with_code(&output, 0);
        assert_eq!(stated.matches("plimsoll-serve.service:").count(), 0, "{stated}");
    }
    // The unit's command is valid.
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/plimsoll ")).unwrap();
    assert_eq!(line, "serve --key %d/key");
}

#[test]
fn the_servers_cap_is_the_limit_and_is_named_in_every_direction() {
    let server = Serving::here(&["--max-rate", "40M"]);
    for case in ["network.tcp --streams 1", "network.tcp --streams 3", "network.udp --streams 2"] {
        let line = format!("--only {case} --direction up,down,both --samples 2 --sample-time 400ms");
        for measurement in measurements(&server.key, &server.address, &line, 0) {
            let (metric, id) = (&measurement["metrics"][0], &measurement["case"]["id"]);
            let ways = if measurement["case"]["params"]["direction"] == "both" { 2.0 } else { 1.0 };
            let limit = (&metric["limit"]["source"], metric["limit"]["value"].as_f64().unwrap());
            assert_eq!(limit, (&"documented".into(), ways * 40e6), "{id}");
            // The cap is held at both ends; a machine that is busy may stay below it.
            let share = metric["of_limit"].as_f64().unwrap();
            assert!(share < 1.05, "{id}: {share}");
            assert!(warns(&measurement, "server-cap") || share < 0.97, "{id}: {measurement}");
        }
    }
}

#[test]
fn a_low_cap_does_not_cut_the_check_and_accuses_no_path() {
    let server = Serving::here(&["--max-rate", "400k"]);
    let with = |how: &str, code| {
        let line = format!("--only network.tcp {how} --samples 1 --sample-time 100ms");
        measurements(&server.key, &server.address, &line, code).remove(0)
    };
    let measured = with("--streams 2 --message 4K", 0);
    assert_eq!(measured["status"], "ok", "{measured}");
    // 168 s of the 60 s that a transfer may take.
    insta::assert_snapshot!(without_numbers(reason(&with("--streams 64 --message 128K", 5))));
}

#[test]
fn a_cap_below_one_message_each_tenth_of_a_second_is_held_as_well() {
    let server = Serving::here(&["--max-rate", "2M"]);
    for direction in [Direction::Up, Direction::Down] {
        let mut far = open(&server);
        far.join(1, &Sockets::default()).unwrap();
        // 262 ms each at that rate.
        let message = vec![7; 65_536];
        let work = TcpOrder { message: 65_536, direction, amount: OrderedAmount::Messages(4), ..work(1) };
        let outcome = far.transfer(&work, &message, &Default::default()).unwrap();
        let there = outcome.there.unwrap();
        let sent = outcome.here.sent.or(there.sent).unwrap();
        assert!(sent.bytes == 4 * 65_536 && sent.nanos > 1_000_000_000, "{sent:?}");
    }
}
