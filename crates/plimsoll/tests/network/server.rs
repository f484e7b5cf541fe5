//! `plimsoll serve` as a process: many sessions, crowds, clients that vanish, wrong use.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use plimsoll_bench_network::{Address, ServerLocation, ServerSession};
use plimsoll_model::sample::FailureCause;
use plimsoll_server::wire::{Direction, OrderedAmount, Receiving, Sending, SharedKey, Sockets, TcpOrder};
use rustix::process::Signal;

use super::{Serving, program, signal, ticks};
use crate::support::{ended, plimsoll, reason, scratch, until, without_numbers};

fn open(server: &Serving) -> ServerSession {
    let key = SharedKey::from_hex(&server.key, "the announcement").unwrap();
    ServerSession::open(
        &ServerLocation::Server { address: Address::parse(&server.address).unwrap(), key },
        None,
    )
    .unwrap()
}

fn work(streams: u16) -> TcpOrder {
    TcpOrder {
        streams,
        message: 1000,
        direction: Direction::Both,
        amount: OrderedAmount::Messages(640),
        omit: 0,
        sending: Sending::Copy,
        receiving: Receiving::Copy,
        place: 0,
    }
}

#[test]
fn many_sessions_and_streams_beside_a_silent_crowd_leave_nothing() {
    let server = Serving::here(&[]);
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    let session = |streams: u16| {
        let mut far = open(&server);
        far.join(streams, &Sockets::default(), None).unwrap();
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
        let mut client = Command::new(program())
            .env("PLIMSOLL_KEY", &server.key)
            .args(["network", "--only", "network.tcp", "--direction", direction, "--server", &server.address])
            .args(["--samples", "1", "--sample-time", "10m", "--store", "none", "--quiet"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("a busy server", || ticks(server.child.id()).unwrap() > before + 5);
        signal(client.id(), Signal::KILL);
        client.wait().unwrap();
        // The worker ends with it, and the session with the worker.
        until("the session's end", || server.threads() == 1);
        let mut far = open(&server);
        far.join(1, &Sockets::default(), None).unwrap();
        far.transfer(&work(1), &[7; 1000], &Default::default()).unwrap();
    }
    assert_ne!(server.log().matches("aborted").count(), 0, "a client that vanishes is told of");
}

#[test]
fn few_descriptors_neither_stop_nor_spin_the_server() {
    let server = Serving::here(&[]);
    let limit = format!("--nofile={}:{}", server.descriptors() + 6, server.descriptors() + 6);
    let pid = server.child.id().to_string();
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    let crowd: Vec<_> = (0..40).filter_map(|_| TcpStream::connect(&server.address).ok()).collect();
    assert!(crowd.len() > 20);
    let before = ticks(server.child.id()).unwrap();
    let mut reply = [0];
    // The oldest is closed to make room for later ones.
    let mut first = crowd.first().unwrap().try_clone().unwrap();
    until("a closed connection", || matches!(std::io::Read::read(&mut first, &mut reply), Ok(0) | Err(_)));
    drop(crowd);
    until("a session", || {
        let key = SharedKey::from_hex(&server.key, "key").unwrap();
        let address = Address::parse(&server.address).unwrap();
        ServerSession::open(&ServerLocation::Server { address, key }, None).is_ok()
    });
    // A loop that spins would have used hundreds.
    assert!(ticks(server.child.id()).unwrap() - before < 200);
}

#[test]
fn a_server_without_descriptors_says_so_and_accuses_no_key() {
    let server = Serving::here(&["--max-sessions", "1000"]);
    let limit = format!("--nofile={}:{}", server.descriptors() + 6, server.descriptors() + 6);
    let pid = server.child.id().to_string();
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    let place = || ServerLocation::Server {
        key: SharedKey::from_hex(&server.key, "key").unwrap(),
        address: Address::parse(&server.address).unwrap(),
    };
    let mut sessions = Vec::new();
    // A descriptor that the server had in use for a moment may be free for the next.
    let mut refusal = || loop {
        match ServerSession::open(&place(), None) {
            Ok(session) => sessions.push(session),
            Err(why) => break why.reason,
        }
        assert!(sessions.len() < 20);
    };
    // The first and each after that hear the same, however often.
    let why: BTreeSet<String> = (0..11).map(|_| without_numbers(&refusal())).collect();
    // A session that needs more than is left hears it as well.
    let session = sessions.last_mut().unwrap();
    let streams = session.join(20, &Sockets::default(), None).unwrap_err().reason;
    let ports = session.open_udp(20).unwrap_err().reason;
    insta::assert_debug_snapshot!((why, without_numbers(&streams), without_numbers(&ports)));
    sessions.clear();
    until("a session", || ServerSession::open(&place(), None).is_ok());
}

#[test]
fn a_client_without_descriptors_says_that_it_has_none() {
    let dir = scratch();
    let server = Serving::here(&[]);
    let mut command = assert_cmd::Command::new("prlimit");
    command.current_dir(dir.path()).env("PLIMSOLL_KEY", &server.key).arg("--nofile=40:40").arg(program());
    command.args(["network", "--only", "network.tcp", "--server", &server.address, "--streams", "64"]);
    command.args(["--samples", "1", "--sample-time", "10ms", "--store", "none", "--json", "-"]);
    let (out, _) = ended(&mut command, 4);
    let run: serde_json::Value = serde_json::from_str(&out).unwrap();
    insta::assert_snapshot!(run["measurements"][0]["reason"].as_str().unwrap());
}

#[test]
fn wrong_keys_and_wrong_places_end_with_5_and_one_line() {
    let dir = scratch();
    let server = Serving::here(&[]);
    let run = |key: &str, name: &str| {
        let mut command = plimsoll(dir.path());
        command.env("PLIMSOLL_KEY", key).args(["network", "--only", "network.tcp", "--server", name]);
        command.args(["--samples", "1", "--sample-time", "10ms", "--store", "none", "--json", "-"]);
        let (out, _) = ended(&mut command, 5);
        let run: serde_json::Value = serde_json::from_str(&out).unwrap();
        run["measurements"][0]["reason"].as_str().unwrap().to_owned()
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
    let refused = |arguments: &[&str], code: i32| {
        let (out, err) = ended(plimsoll(dir.path()).args(arguments), code);
        assert!(out.is_empty(), "{out}");
        err
    };
    let server = Serving::here(&[]);
    let busy = refused(&["serve", "--allow-root", "--bind", "127.0.0.1", "--port", server.port()], 5);
    let address = &server.address;
    assert_eq!(
        busy,
        format!("plimsoll: cannot listen on {address}: Address already in use; use another --port\n")
    );
    if rustix::process::geteuid().is_root() {
        insta::assert_snapshot!(refused(&["serve"], 3));
    }
}

#[test]
fn a_key_file_made_by_key_new_lets_a_client_in() {
    let dir = scratch();
    ended(plimsoll(dir.path()).args(["key", "new", "secret"]), 0);
    let file = dir.path().join("secret");
    let server = Serving::here(&["--key", file.to_str().unwrap()]);
    let mut command = plimsoll(dir.path());
    command.args(["network", "--server", &server.address, "--key", "secret", "--samples", "1"]);
    command.args(["--only", "network.tcp", "--sample-time", "20ms", "--store", "none", "--json", "-"]);
    let (out, _) = ended(&mut command, 0);
    let run: serde_json::Value = serde_json::from_str(&out).unwrap();
    let measurement = &run["measurements"][0];
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
        std::io::Write::write_all(
            &mut stream,
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n________",
        )
        .unwrap();
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
    if Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status().is_err() {
        return crate::support::skipped("the_unit_is_sound_and_hardened", "needs systemd-analyze of systemd");
    }
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/plimsoll-serve.service");
    let unit = std::fs::read_to_string(shipped).unwrap();
    let dir = scratch();
    let file = dir.path().join("plimsoll-serve.service");
    std::fs::write(&file, unit.replace("/usr/bin/plimsoll", program().to_str().unwrap())).unwrap();
    // 20 is an exposure of 2.0 of 10.
    for words in [&["verify"][..], &["security", "--offline=true", "--threshold=20"]] {
        let output = Command::new("systemd-analyze").args(words).arg(&file).output().unwrap();
        let stated = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stated}{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(stated.matches("plimsoll-serve.service:").count(), 0, "{stated}");
    }
    // The unit's command is valid.
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/plimsoll ")).unwrap();
    assert_eq!(line, "serve --key %d/key");
}

#[test]
fn the_servers_cap_is_the_limit_and_is_named_in_every_direction() {
    let server = Serving::here(&["--max-rate", "40M"]);
    for (benchmark, streams) in [("network.tcp", "1"), ("network.tcp", "3"), ("network.udp", "2")] {
        let dir = scratch();
        let mut command = plimsoll(dir.path());
        command
            .env("PLIMSOLL_KEY", &server.key)
            .args(["network", "--only", benchmark, "--server", &server.address, "--streams", streams])
            .args(["--direction", "up,down,both", "--samples", "2", "--sample-time", "400ms"])
            .args(["--store", "none", "--json", "-", "--quiet"]);
        let (out, _) = ended(&mut command, 0);
        let run: serde_json::Value = serde_json::from_str(&out).unwrap();
        for measurement in run["measurements"].as_array().unwrap() {
            let (metric, id) = (&measurement["metrics"][0], &measurement["case"]["id"]);
            let ways = if measurement["case"]["params"]["direction"] == "both" { 2.0 } else { 1.0 };
            let limit = &metric["limit"];
            assert_eq!(
                (&limit["source"], limit["value"].as_f64().unwrap()),
                (&"documented".into(), ways * 40e6),
                "{id}"
            );
            // The cap is held at both ends; a machine that is busy may stay below it.
            let share = metric["of_limit"].as_f64().unwrap();
            assert!(share < 1.05, "{id}: {share}");
            let named = measurement["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "server-cap");
            assert!(named || share < 0.97, "{id}: {measurement}");
        }
    }
}

#[test]
fn a_low_cap_does_not_cut_the_check_and_accuses_no_path() {
    let server = Serving::here(&["--max-rate", "400k"]);
    let with = |streams: &str, message: &str| {
        let dir = scratch();
        let mut command = plimsoll(dir.path());
        command
            .env("PLIMSOLL_KEY", &server.key)
            .args(["network", "--only", "network.tcp", "--server", &server.address, "--streams", streams])
            .args(["--message", message, "--samples", "1", "--sample-time", "100ms"])
            .args(["--store", "none", "--json", "-", "--quiet"]);
        let output = command.output().unwrap();
        let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        run["measurements"][0].clone()
    };
    let measured = with("2", "4K");
    assert_eq!(measured["status"], "ok", "{measured}");
    // 168 s of the 60 s that a transfer may take.
    insta::assert_snapshot!(without_numbers(reason(&with("64", "128K"))));
}

#[test]
fn a_cap_below_one_message_each_tenth_of_a_second_is_held_as_well() {
    let server = Serving::here(&["--max-rate", "2M"]);
    for direction in [Direction::Up, Direction::Down] {
        let mut far = open(&server);
        far.join(1, &Sockets::default(), None).unwrap();
        // 262 ms each at that rate.
        let message = vec![7; 65_536];
        let work = TcpOrder { message: 65_536, direction, amount: OrderedAmount::Messages(4), ..work(1) };
        let outcome = far.transfer(&work, &message, &Default::default()).unwrap();
        let there = outcome.there.unwrap();
        let sent = outcome.here.sent.or(there.sent).unwrap();
        assert!(sent.bytes == 4 * 65_536 && sent.nanos > 1_000_000_000, "{sent:?}");
    }
}
