//! Loopback with a private server: whole runs, and servers that are killed, stopped or orphaned.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use plimsoll_bench::Prepared;
use plimsoll_bench_network::{EndPlacement, NetworkJob, NetworkSetup, RoundTrips, Streams};
use plimsoll_machine::{Machine, Root};
use plimsoll_model::case::Case;
use plimsoll_model::sample::{FailureCause, Sample, SampleAmount};
use rustix::process::Signal;

use super::AT_WORK;
use crate::disk::measurements;
use crate::namespaces::first;
use crate::support::{
    PROGRAM, command, list, metric, parent, processes, reason, run_of, scratch, signal, skip, start, text,
    ticks, until,
};

/// A private server, with unpinned threads.
fn anywhere() -> NetworkSetup {
    NetworkSetup::private(PROGRAM.into(), EndPlacement::default())
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

/// The server of a running `plimsoll`: its grandchild, below the worker.
fn far_end_of(run: u32) -> Option<u32> {
    let is_its = |pid: u32| parent(pid).and_then(parent) == Some(run);
    processes().find(|(pid, words)| words.contains("\0private-server") && is_its(*pid)).map(|(pid, _)| pid)
}

/// The achieved placement, the places that were tried, and the first CPU of each end.
fn seats(arguments: &str, allowed: &str) -> (String, usize, [u64; 2]) {
    let line = "network --only network.latency --samples 2 --sample-time 20ms --json - --store none";
    let mut command = Command::new("taskset");
    command.args(["-c", allowed, PROGRAM]).args(line.split(' ')).args(arguments.split_whitespace());
    let achieved = &measurements(&command.output().unwrap(), 0)[0]["achieved"];
    let tried = achieved["placements"].as_object().map_or(0, serde_json::Map::len);
    let ends = ["client_cpus", "server_cpus"].map(|end| achieved[end][0].as_u64().unwrap());
    (text(&achieved["placement"]).to_owned(), tried, ends)
}

#[test]
fn the_place_of_both_ends_is_tried_and_named_and_one_that_is_asked_for_is_kept() {
    let allowed: Vec<u64> =
        plimsoll_metal::affinity::allowed().unwrap().iter().map(|cpu| *cpu as u64).collect();
    let all = allowed.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let one = allowed[0].to_string();
    assert_eq!(seats("", &one), ("same-cpu".to_owned(), 0, [allowed[0]; 2]));
    assert_eq!(seats(&format!("--affinity {one}"), &all), ("same-cpu".to_owned(), 0, [allowed[0]; 2]));
    if let [first, second, ..] = allowed[..] {
        let (placement, tried, [near, far]) = seats("", &all);
        assert!(tried >= 2, "{placement}");
        assert_eq!(placement == "same-cpu", near == far);
        let (placement, tried, ends) = seats(&format!("--affinity {first},{second}"), &all);
        assert_eq!((tried, ends), (0, [first, second]), "{placement}");
        // Ends that poll would take the CPU from each other.
        let (placement, _, [near, far]) = seats("--mode poll", &all);
        assert!(placement != "same-cpu" && near != far, "{placement}");
    }
}

#[test]
fn a_run_over_loopback_is_whole_and_labelled() {
    let run = run_of("network --samples 2 --sample-time 50ms");
    let [tcp, udp, latency] = list(&run["measurements"]).as_slice() else { panic!("{run}") };
    assert_eq!(tcp["case"]["id"], "network.tcp/message=128K/streams=1/direction=up");
    for (measurement, wanted) in [
        (tcp, &["goodput", "messages", "loss", "cpu"][..]),
        (udp, &["goodput", "messages", "loss", "cpu", "jitter"]),
        (latency, &["rtt", "rate", "goodput", "loss"]),
    ] {
        let names: Vec<&str> = list(&measurement["metrics"]).iter().map(|one| text(&one["name"])).collect();
        assert_eq!(names, wanted);
        assert_eq!(measurement["status"], "ok", "{measurement}");
        assert_eq!(measurement["achieved"]["link"], "loopback");
        assert!(measurement["metrics"][0]["summary"]["median"].as_f64().unwrap() > 0.0);
    }
    assert!(reason(&tcp["metrics"][0]["limit"]).starts_with("over loopback a CPU copies"));
    let rtt = &latency["metrics"][0];
    assert!(rtt["percentiles"]["p50"].as_f64().unwrap() <= rtt["percentiles"]["p99"].as_f64().unwrap());
}

#[test]
fn a_volume_is_divided_among_streams_or_each_streams_own() {
    let streams = "--streams 1,4 --volume 400kB --scaling strong,weak --samples 2";
    let run = run_of(&format!("network --only network.tcp,network.udp --message 1000 {streams}"));
    let all = list(&run["measurements"]);
    assert_eq!(all.len(), 8);
    for measurement in all {
        let parts: Vec<&str> = text(&measurement["case"]["id"]).split('/').collect();
        let wide = parts.contains(&"streams=4") && parts.contains(&"scaling=weak");
        assert_eq!(measurement["achieved"]["messages"], if wide { 1600 } else { 400 }, "{parts:?}");
    }
    let course = list(&all[0]["metrics"][0]["curve"]);
    for name in ["t", "tcp_rtt", "tcp_cwnd", "tcp_retransmits", "tcp_busy"] {
        assert!(course.iter().all(|point| point[name].is_number()), "{name}: {course:?}");
    }
}

#[test]
fn round_trips_are_held_against_the_best_echo_of_the_run() {
    let run = run_of("network --protocol icmp,udp --count 50 --samples 2");
    let [icmp, udp] = list(&run["measurements"]).as_slice() else { panic!("{run}") };
    if icmp["status"] == "skipped" {
        return skip("no ICMP here");
    }
    let limit = &metric(udp, "rtt")["limit"];
    assert_eq!((text(&limit["kind"]), text(&limit["source"])), ("floor", "derived"), "{limit}");
    assert!(limit["value"].as_f64().unwrap() <= icmp["metrics"][0]["percentiles"]["p50"].as_f64().unwrap());
}

#[test]
fn the_answer_is_verified_and_amounts_are_kept() {
    let counted = |sample: &Sample| sample.histograms[0].buckets.iter().map(|(_, count)| count).sum::<u64>();
    let mut stream = stream();
    let sample = stream.sample(SampleAmount::Work(100)).unwrap();
    assert_eq!(sample.values["loss"], 0.0);
    let per_second = sample.values["messages"];
    let messages = per_second * sample.elapsed;
    assert!((89.0..=100.0 + 1e-6).contains(&messages), "{messages} of 100: all but the first piece");
    assert!((sample.values["goodput"] / (per_second * 65536.0 * 8.0) - 1.0).abs() < 1e-12);
    stream.verify().unwrap();
    let mut trips = round_trips(1000);
    let sample = trips.sample(SampleAmount::Work(50)).unwrap();
    assert_eq!((counted(&sample), sample.values["loss"]), (50, 0.0));
    assert!((sample.values["rtt"] * sample.values["rate"] - 1.0).abs() < 1e-12);
    trips.verify().unwrap();
    let divided = Case::of("network.latency").with_count("streams", 4).with_count("count", 10);
    let mut trips = RoundTrips::new(&anywhere(), &job(&divided.with_word("scaling", "strong")), 1).unwrap();
    let sample = trips.sample(SampleAmount::Seconds(1.0)).unwrap();
    assert_eq!((counted(&sample), sample.values["loss"]), (10, 0.0));
    assert_eq!(serde_json::to_value(trips.verify().unwrap().achieved).unwrap()["messages"], 10);
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
    let line = "network --only network.tcp --samples 1 --sample-time 1h --json - --store none";
    let child = start(command(line).current_dir(dir.path()));
    let mut private_server = None;
    until("a busy server", || {
        private_server = far_end_of(child.id());
        private_server.and_then(ticks).is_some_and(|t| t > AT_WORK)
    });
    signal(private_server.unwrap(), Signal::KILL);
    let measurement = first(child, 5);
    assert_eq!(measurement["status"], "failed");
    is_lost(reason(&measurement), "it was killed (signal 9)");
    assert_eq!(list(&measurement["metrics"]).len(), 0);
}

#[test]
fn a_far_end_ends_when_its_parent_is_gone() {
    let mut command = Command::new(PROGRAM);
    command.arg("private-server").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let orders = format!("{{\"key\":\"{}\",\"cpus\":[]}}", "0f".repeat(32));
    writeln!(child.stdin.as_mut().unwrap(), "{orders}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"port\":"), "{line}");
    let arguments = fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
    assert!(!arguments.windows(4).any(|w| w == b"0f0f"), "the token must not be in the argument list");
    drop(child.stdin.take());
    until("the server's end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
