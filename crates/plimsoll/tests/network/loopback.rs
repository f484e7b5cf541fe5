//! Over loopback with a private server: whole runs, and servers that are killed, stopped or
//! orphaned.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use plimsoll_bench::Prepared;
use plimsoll_bench_network::{EndPlacement, NetworkJob, NetworkSetup, RoundTrips, Streams};
use plimsoll_machine::{Machine, Root};
use plimsoll_model::case::Case;
use plimsoll_model::sample::{FailureCause, SampleAmount};
use rustix::process::Signal;

use super::{AT_WORK, program, signal, ticks};
use crate::support::{ended, plimsoll, reason, scratch, until};

/// A private server, with unpinned threads.
fn anywhere() -> NetworkSetup {
    NetworkSetup::private(program(), EndPlacement::default())
}

fn stream() -> Streams {
    let case = Case::of("network.tcp").with_size("message", 1 << 16);
    Streams::new(&anywhere(), &job(&case), 1).unwrap()
}

fn round_trips(bytes: u64) -> RoundTrips {
    let case = Case::of("network.latency").with_size("message", bytes);
    RoundTrips::new(&anywhere(), &job(&case), 1).unwrap()
}

fn job(case: &Case) -> NetworkJob {
    NetworkJob::of(&Machine::discover(&Root::live()), case, 1).unwrap()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

/// The server of a running `plimsoll`: its grandchild, below the worker.
fn far_end_of(run: u32) -> Option<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|b| *b == 0).nth(1) == Some(b"private-server")
            && parent(*pid).and_then(parent) == Some(run)
    })
}

/// The achieved placement, the places that were tried, and the first CPU of each end.
fn seats(arguments: &[&str], allowed: Option<&str>) -> (String, usize, [u64; 2]) {
    let dir = scratch();
    let mut command = match allowed {
        Some(cpus) => {
            let mut command = assert_cmd::Command::new("taskset");
            command.current_dir(dir.path()).args(["-c", cpus]).arg(program());
            command
        }
        None => plimsoll(dir.path()),
    };
    command.args(["network", "--only", "network.latency", "--samples", "2", "--sample-time", "20ms"]);
    command.args(["--json", "-", "--store", "none"]).args(arguments);
    let (out, _) = ended(&mut command, 0);
    let run: serde_json::Value = serde_json::from_str(&out).unwrap();
    let achieved = &run["measurements"][0]["achieved"];
    let first = |end: &str| achieved[end][0].as_u64().unwrap();
    let tried = achieved["placements"].as_object().map_or(0, serde_json::Map::len);
    let placement = achieved["placement"].as_str().unwrap().to_owned();
    (placement, tried, [first("client_cpus"), first("server_cpus")])
}

#[test]
fn the_place_of_both_ends_is_tried_and_named_and_one_that_is_asked_for_is_kept() {
    let machine = Machine::discover(&Root::live());
    let allowed: Vec<usize> = machine.cpu.allowed.iter().collect();
    let one = allowed[0].to_string();
    assert_eq!(seats(&[], Some(&one)), ("same-cpu".to_owned(), 0, [allowed[0] as u64; 2]));
    assert_eq!(seats(&["--affinity", &one], None), ("same-cpu".to_owned(), 0, [allowed[0] as u64; 2]));
    if let [first, second, ..] = allowed[..] {
        let (placement, tried, [near, far]) = seats(&[], None);
        assert!(tried >= 2, "{placement}");
        assert_eq!(placement == "same-cpu", near == far);
        let list = format!("{first},{second}");
        let (placement, tried, ends) = seats(&["--affinity", &list], None);
        assert_eq!((tried, ends), (0, [first as u64, second as u64]), "{placement}");
        // Ends that poll would take the CPU from each other.
        let (placement, _, [near, far]) = seats(&["--mode", "poll"], None);
        assert!(placement != "same-cpu" && near != far, "{placement}");
    }
}

#[test]
fn a_run_over_loopback_is_whole_and_labelled() {
    let dir = scratch();
    let mut command = plimsoll(dir.path());
    command.args(["network", "--samples", "2", "--sample-time", "50ms", "--json", "-", "--store", "none"]);
    let (out, _) = ended(&mut command, 0);
    let run: serde_json::Value = serde_json::from_str(&out).unwrap();
    let names = |m: &serde_json::Value| {
        let metrics = m["metrics"].as_array().unwrap();
        metrics.iter().map(|metric| metric["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let [tcp, udp, latency] = run["measurements"].as_array().unwrap().as_slice() else { panic!("{out}") };
    assert_eq!(tcp["case"]["id"], "network.tcp/message=128K/streams=1/direction=up");
    assert_eq!(names(tcp), ["goodput", "messages", "loss", "cpu"]);
    assert_eq!(names(udp), ["goodput", "messages", "loss", "cpu", "jitter"]);
    assert_eq!(names(latency), ["rtt", "rate", "goodput", "loss"]);
    assert!(tcp["metrics"][0]["limit"]["reason"].as_str().unwrap().starts_with("over loopback a CPU copies"));
    for measurement in [tcp, udp, latency] {
        assert_eq!(measurement["status"], "ok", "{measurement}");
        assert_eq!(measurement["achieved"]["link"], "loopback");
        assert!(measurement["metrics"][0]["summary"]["median"].as_f64().unwrap() > 0.0);
    }
    let rtt = &latency["metrics"][0];
    assert!(rtt["percentiles"]["p50"].as_f64().unwrap() <= rtt["percentiles"]["p99"].as_f64().unwrap());
}

#[test]
fn a_volume_is_divided_among_streams_or_each_streams_own() {
    let dir = scratch();
    let mut command = plimsoll(dir.path());
    command.args(["network", "--only", "network.tcp,network.udp", "--message", "1000", "--streams", "1,4"]);
    command.args(["--volume", "400kB", "--scaling", "strong,weak", "--samples", "2"]);
    let (out, _) = ended(command.args(["--json", "-", "--store", "none"]), 0);
    let run: serde_json::Value = serde_json::from_str(&out).unwrap();
    let messages: Vec<(String, u64)> = run["measurements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["case"]["id"].as_str().unwrap().to_owned(), m["achieved"]["messages"].as_u64().unwrap()))
        .collect();
    assert_eq!(messages.len(), 8);
    for (id, messages) in messages {
        let parts: Vec<&str> = id.split('/').collect();
        let wide = parts.contains(&"streams=4") && parts.contains(&"scaling=weak");
        assert_eq!(messages, if wide { 1600 } else { 400 }, "{id}");
    }
    let tcp = &run["measurements"][0]["metrics"][0];
    let course = tcp["curve"].as_array().unwrap();
    for name in ["t", "tcp_rtt", "tcp_cwnd", "tcp_retransmits", "tcp_busy"] {
        assert!(course.iter().all(|point| point[name].is_number()), "{name}: {course:?}");
    }
}

#[test]
fn round_trips_are_held_against_the_best_echo_of_the_run() {
    let dir = scratch();
    let mut command = plimsoll(dir.path());
    command.args(["network", "--protocol", "icmp,udp", "--count", "50", "--samples", "2"]);
    let (out, _) = ended(command.args(["--json", "-", "--store", "none"]), 0);
    let run: serde_json::Value = serde_json::from_str(&out).unwrap();
    let [icmp, udp] = run["measurements"].as_array().unwrap().as_slice() else { panic!("{out}") };
    if icmp["status"] == "skipped" {
        return crate::support::skipped(
            "round_trips_are_held_against_the_best_echo_of_the_run",
            "no ICMP here",
        );
    }
    let limit = &udp["metrics"][0]["limit"];
    assert_eq!(
        (limit["kind"].as_str(), limit["source"].as_str()),
        (Some("floor"), Some("derived")),
        "{limit}"
    );
    assert!(limit["value"].as_f64().unwrap() <= icmp["metrics"][0]["percentiles"]["p50"].as_f64().unwrap());
}

#[test]
fn the_answer_is_verified_and_amounts_are_kept() {
    let mut stream = stream();
    let sample = stream.sample(SampleAmount::Work(100)).unwrap();
    assert_eq!(sample.values["loss"], 0.0);
    let per_second = sample.values["messages"];
    let counted = per_second * sample.elapsed;
    assert!((89.0..=100.0 + 1e-6).contains(&counted), "{counted} of 100: all but the first piece");
    assert!((sample.values["goodput"] / (per_second * 65536.0 * 8.0) - 1.0).abs() < 1e-12);
    stream.verify().unwrap();
    let mut trips = round_trips(1000);
    let sample = trips.sample(SampleAmount::Work(50)).unwrap();
    let counted: u64 = sample.histograms[0].buckets.iter().map(|(_, count)| count).sum();
    assert_eq!((counted, sample.values["loss"]), (50, 0.0));
    assert!((sample.values["rtt"] * sample.values["rate"] - 1.0).abs() < 1e-12);
    trips.verify().unwrap();
    let divided = Case::of("network.latency").with_count("streams", 4).with_count("count", 10);
    let mut trips = RoundTrips::new(&anywhere(), &job(&divided.with_word("scaling", "strong")), 1).unwrap();
    let sample = trips.sample(SampleAmount::Seconds(1.0)).unwrap();
    let counted: u64 = sample.histograms[0].buckets.iter().map(|(_, count)| count).sum();
    assert_eq!((counted, sample.values["loss"]), (10, 0.0));
    let achieved = serde_json::to_value(trips.facts().achieved).unwrap();
    assert_eq!(achieved["messages"], 10);
}

/// That the server was lost, by this cause.
#[track_caller]
fn is_lost(reason: &str, cause: &str) {
    let lost = reason.split(": ").next().unwrap();
    assert!(lost.starts_with("the server at ") && lost.split(" was lost during ").count() == 2, "{reason}");
    assert!(reason.split([':', ';']).any(|part| part.trim() == cause), "{reason}");
}

#[test]
fn a_far_end_killed_in_a_transfer_is_a_far_end_failure_and_leaves_no_process() {
    let mut stream = stream();
    let pid = stream.server_pid().unwrap();
    let killer = std::thread::spawn(move || {
        until("a busy server", || ticks(pid).is_none_or(|t| t > AT_WORK));
        signal(pid, Signal::KILL);
    });
    // Without the kill this would take an hour.
    let error = stream.sample(SampleAmount::Seconds(3600.0)).unwrap_err();
    killer.join().unwrap();
    assert_eq!(error.cause, FailureCause::ServerFailed);
    is_lost(&error.reason, "it was killed (signal 9)");
    assert!(stream.sample(SampleAmount::Seconds(0.1)).is_err());
    drop(stream);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_far_end_that_stops_answering_is_given_up() {
    let mut trips = round_trips(1);
    let pid = trips.server_pid().unwrap();
    signal(pid, Signal::STOP);
    let error = trips.sample(SampleAmount::Seconds(3600.0)).unwrap_err();
    assert_eq!(error.cause, FailureCause::ServerFailed);
    is_lost(&error.reason, "it was silent for too long");
    drop(trips);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_run_whose_far_end_is_killed_ends_with_5_and_a_whole_document() {
    let dir = scratch();
    let child = Command::new(program())
        .current_dir(dir.path())
        .args(["network", "--only", "network.tcp", "--samples", "1", "--sample-time", "1h"])
        .args(["--json", "-", "--store", "none"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let run = child.id();
    let mut private_server = None;
    until("a busy server", || {
        private_server = far_end_of(run);
        private_server.and_then(ticks).is_some_and(|t| t > AT_WORK)
    });
    let private_server = private_server.unwrap();
    signal(private_server, Signal::KILL);
    let output = child.wait_with_output().unwrap();
    let stated = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stated}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let measurement = &document["measurements"][0];
    assert_eq!(measurement["status"], "failed");
    is_lost(reason(measurement), "it was killed (signal 9)");
    assert_eq!(measurement["metrics"].as_array().unwrap().len(), 0);
}

fn far_end_by_hand() -> (Child, String) {
    let mut child = Command::new(program())
        .arg("private-server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let orders = format!("{{\"key\":\"{}\",\"cpus\":[]}}", "0f".repeat(32));
    writeln!(child.stdin.as_mut().unwrap(), "{orders}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

#[test]
fn a_far_end_ends_when_its_parent_is_gone() {
    let (mut child, line) = far_end_by_hand();
    assert!(line.starts_with("{\"port\":"), "{line}");
    let arguments = fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
    assert!(!arguments.windows(4).any(|w| w == b"0f0f"), "the token must not be in the argument list");
    drop(child.stdin.take());
    until("the server's end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
