//! `plimsoll gate` by the program: what it answers, how it ends, and that it leaves nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::disk::in_own_mounts;
use crate::groups::Group;
use crate::namespaces::{FAR, Link};
use crate::support::{
    Owned, PROGRAM, command, done, json, json_of, list, lossy, plimsoll, possible, rename_machine, scratch,
    short_of_cpu, skip, start, text, under_a_quota, validated,
};

/// A short run of the gate's plan.
const RUN: &str = "run gate --only cpu.peak --samples 1 --sample-time 5ms";

/// The exit code of a gate and what it prints.
fn answered(dir: &Path, line: &str) -> (Option<i32>, String) {
    answer(plimsoll(dir).args(line.split(' ')).output().unwrap())
}

fn answer(output: Output) -> (Option<i32>, String) {
    (output.status.code(), lossy(&output.stdout))
}

/// The first of some answers that is decided: on a busy machine a gate's time may be over before.
fn decided(mut gate: impl FnMut() -> (Option<i32>, String)) -> Option<(Option<i32>, String)> {
    let found = (0..5).map(|_| gate()).find(|(_, line)| !line.contains("unknown: "));
    assert!(found.is_some() || short_of_cpu(), "no gate was decided in time");
    if found.is_some() { found } else { skip("a gate gets too little CPU time") }
}

#[test]
fn a_machine_is_not_sick_for_what_others_take_and_nothing_is_left() {
    let dir = scratch();
    let (ended, out) = answered(dir.path(), "gate --store none --format json");
    let document = validated(&out);
    let line = text(&document["line"]);
    assert!(line.chars().count() <= 80 && !line.contains('\n'), "{line}");
    let answer = text(&document["answer"]);
    let code = ["healthy", "sick", "?", "?", "?", "?", "unknown"].iter().position(|word| *word == answer);
    assert_eq!(ended, code.and_then(|code| i32::try_from(code).ok()), "{line}");
    // A quota and a fault of this hardware are reasons.
    let is_stated = !list(&document["faults"]).is_empty();
    assert!(answer != "sick" || under_a_quota() || is_stated, "{document:#}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn half_a_cpu_is_sick_with_the_quota_as_its_cause() {
    let Some(group) = Group::make("cpu") else { return };
    group.limit(0.5);
    let dir = scratch();
    let line = "gate --store none --output gate.json --format nagios";
    let gate = || answer(group.run(dir.path(), line).output().unwrap());
    let Some((code, line)) = decided(gate) else { return };
    assert_eq!(code, Some(2), "{line}");
    assert!(line.starts_with("PLIMSOLL CRITICAL - sick: CPU quota of 0.50 CPUs, throttled "), "{line}");
    let (_, figures) = line.split_once(" | ").unwrap();
    assert!(figures.starts_with("'cpu fma f64 ") && line.lines().count() == 1, "{line}");
    assert_eq!(fs::read_to_string(dir.path().join("gate.json")).unwrap(), line);
}

#[test]
fn fewer_cpus_than_in_the_history_are_a_reason() {
    let allowed = plimsoll_metal::affinity::allowed().unwrap();
    if allowed.len() < 2 {
        return skip("needs two CPUs");
    }
    let dir = scratch();
    done(dir.path(), &format!("{RUN} --store kept"), 0);
    let (out, _) = done(dir.path(), "gate --store kept --explain", 0);
    assert_eq!(out.matches("CPU usable").count(), 0, "{out}");
    let mut bound = Command::new("taskset");
    bound.args(["-c", &allowed[0].to_string(), PROGRAM]).args("gate --store kept --format npd".split(' '));
    let (code, line) = answer(bound.current_dir(dir.path()).output().unwrap());
    assert!(line.starts_with("sick: 1 CPU usable, ") && line.ends_with(" before\n"), "{line}");
    assert_eq!(code, Some(1));
}

#[test]
fn a_new_shaper_is_a_reason_until_it_is_usual() {
    let Some((link, server)) = Link::served(&[]) else { return };
    let dir = scratch();
    let made = |line: &str| {
        let mut command = link.near.command(PROGRAM);
        command.args(line.split(' ')).args(["--server", FAR, "--store", "kept", "--quiet"]);
        answer(command.env("PLIMSOLL_KEY", &server.key).current_dir(dir.path()).output().unwrap())
    };
    let run = || assert_eq!(made("run gate --only network.tcp --samples 2 --sample-time 10ms").0, Some(0));
    (0..3).for_each(|_| run());
    link.near.must("tc qdisc add dev near0 root tbf rate 20mbit burst 64kb latency 50ms");
    let Some((code, line)) = decided(|| made("gate --format npd")) else { return };
    assert!(line.starts_with("sick: a shaper limits the interface to 20.0 Mbit/s, usual is "), "{line}");
    assert_eq!(code, Some(1));
    (0..4).for_each(|_| run());
    let (_, line) = made("gate --format npd");
    assert_eq!(line.matches("shaper").count(), 0, "{line}");
}

#[test]
fn a_gate_ends_in_time_where_its_server_measures_for_others() {
    let Some((link, server)) = Link::served(&[]) else { return };
    let dir = scratch();
    let line = format!("--server {FAR} --only network.tcp --samples 1000 --sample-time 50s");
    let _other = Owned(start(&mut link.client(&server, &line)));
    // Until it is past its trials, which are short.
    link.near.must("until awk '/near0/ { exit $10 < 2e9 }' /proc/net/dev; do sleep 0.1; done");
    let begun = Instant::now();
    let mut gate = link.near.command(PROGRAM);
    gate.args(["gate", "--server", FAR, "--store", "none", "--format", "json"]).current_dir(dir.path());
    let (code, out) = answer(gate.env("PLIMSOLL_KEY", &server.key).output().unwrap());
    // The server lets a second client wait for up to 90 s.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let document = json(&out);
    // A quota is a reason by itself.
    let is_sick = under_a_quota() && (code, &document["answer"]) == (Some(1), &"sick".into());
    let is_unknown = (code, &document["answer"]) == (Some(6), &"unknown".into());
    assert!(is_unknown || is_sick, "{document:#}");
}

#[test]
fn without_a_directory_none_is_needed_that_it_may_write_to() {
    let (out, _) = done(Path::new("/proc"), "gate --explain --store none", 0);
    let ends = ["finds a loss of 10 %; 16 low measurements show it", ": needs --server", ": needs --dir"];
    assert!(ends.iter().all(|end| out.lines().any(|line| line.ends_with(end))), "{out}");
    let (_, line) = answered(Path::new("/proc"), "gate --store none --format npd");
    assert!(["healthy: ", "sick: ", "unknown: "].iter().any(|word| line.starts_with(word)), "{line}");
}

#[test]
fn a_directory_whose_disk_cannot_be_measured_is_unknown() {
    let Some(()) = possible(&["unshare"]) else { return };
    let script = "mkdir mnt; mount -t tmpfs -o size=4M none mnt; exec \"$1\" gate --dir mnt --store none --quiet --format json";
    let document = json(&lossy(&in_own_mounts(scratch().path(), script).stdout));
    let is_disk = |row: &Value| text(&row["case"]).starts_with("disk.io");
    assert!(list(&document["not_judged"]).iter().any(is_disk), "{document:#}");
    if under_a_quota() || !list(&document["faults"]).is_empty() {
        return skip("a quota or a fault of this hardware is told first");
    }
    assert_eq!(document["answer"], "unknown", "{document:#}");
}

#[test]
fn the_answer_is_printed_also_where_its_file_cannot_be_written() {
    let line = "gate --store none --format npd --output /dev/full";
    let (line, err) = done(scratch().path(), line, 2);
    assert!(["healthy: ", "sick: ", "unknown: "].iter().any(|word| line.starts_with(word)), "{line}");
    insta::assert_snapshot!(err);
}

/// A scheduler waits for the gate.
#[test]
fn a_fifo_without_a_reader_does_not_keep_the_gate_waiting() {
    let dir = scratch();
    mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_ne!(done(dir.path(), "gate --store none --output pipe", 4).0, "");
}

#[test]
fn imported_runs_say_nothing_of_what_was_before_and_a_fleet_says_what_is_usual_for_its_kind() {
    let dir = scratch();
    done(dir.path(), &format!("{RUN} --store none --json own.json"), 0);
    let own = json_of(dir.path(), "own.json");
    let mut larger = own.clone();
    let memory = own["machine"]["memory"]["total_bytes"].as_u64().unwrap();
    larger["machine"]["memory"]["total_bytes"] = (memory * 4).into();
    fs::write(dir.path().join("larger.json"), larger.to_string()).unwrap();
    done(dir.path(), "history import larger.json --store other", 0);
    let (out, _) = done(dir.path(), "gate --store other --explain", 0);
    assert_eq!(out.matches(" before").count(), 0, "{out}");
    larger["machine"]["id"] = "0123456789abcdef".into();
    // Five machines with four times the memory, and perhaps this one as it was then.
    let gathered = |names: &[&str], to: &str| {
        let results = dir.path().join(format!("of-{to}"));
        fs::create_dir(&results).unwrap();
        for name in names {
            let mut other = larger.clone();
            rename_machine(&mut other, name);
            fs::write(results.join(format!("{name}.json")), other.to_string()).unwrap();
        }
        done(dir.path(), &format!("gather of-{to} --json {to}"), 0);
        done(dir.path(), &format!("gate --store none --explain --fleet {to}"), 0)
    };
    let is_lost = |line: &&str| line.trim_start().starts_with("! memory ") && line.ends_with(" in the fleet");
    let others = ["other-1", "other-2", "other-3", "other-4", "other-5"];
    let (out, err) = gathered(&[&others[..], &[text(&own["nodes"][0]["name"])]].concat(), "with.json");
    assert_eq!((out.lines().filter(is_lost).count(), err.as_str()), (1, ""), "{out}");
    let (out, err) = gathered(&others, "without.json");
    assert_eq!(out.lines().filter(is_lost).count(), 0, "{out}");
    insta::assert_snapshot!("a_fleet_says_what_is_usual_for_its_kind", err);
}

#[test]
fn each_gate_proves_another_core_and_a_wrong_answer_names_it() {
    let dir = scratch();
    done(dir.path(), &format!("{RUN} --store kept"), 0);
    let skipped = || skip("a gate gets too little CPU time, or no CPU has its own core");
    let gate = |flip: &str| -> Value {
        let mut gate = command("gate --store kept --format json");
        let gate = gate.current_dir(dir.path()).env("PLIMSOLL_TEST_FLIP", flip).output().unwrap();
        json(&lossy(&gate.stdout))
    };
    // On a busy machine a gate's time may be over before its core is proven.
    let decided = |flip: &str| {
        let is_decided = |gate: &Value| gate["answer"] == "sick" || gate["proven"][0].is_u64();
        let answer = (0..5).map(|_| gate(flip)).find(is_decided);
        assert!(answer.is_some() || short_of_cpu(), "no core was proven in time");
        answer
    };
    let Some(first) = decided("") else { return skipped() };
    let proven = first["proven"].as_array().unwrap();
    let allowed = plimsoll_metal::affinity::allowed().unwrap();
    let next = allowed.iter().find(|cpu| !proven.contains(&(**cpu).into()));
    let Some(next) = next.filter(|_| allowed.len() == 2 && proven.len() == 1) else { return skipped() };
    let Some(second) = decided(&format!("{next}:sha256:1")) else { return skipped() };
    assert_eq!(second["answer"], "sick", "{second:#}");
    let line = text(&second["line"]);
    let begins = format!("sick: CPU {next} computed ");
    assert!(line.starts_with(&begins) && line.contains(" in sha256 "), "{line}");
    // It is not proven, so it is the next one again.
    let Some(third) = decided("") else { return skipped() };
    assert_eq!(third["proven"], serde_json::json!([next]));
}
