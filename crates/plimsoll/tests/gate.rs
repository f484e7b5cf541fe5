//! `plimsoll gate` by the program: what it answers, how it ends, and that it leaves nothing.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::disk::{in_own_mounts, possible};
use crate::namespaces::{Namespaces, SERVER};
use crate::quota::Group;
use crate::support::{ended, plimsoll, scratch, short_of_cpu, skipped, under_a_quota};

fn is_valid(document: &Value) -> Vec<String> {
    let schema =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/gate.v1.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.iter_errors(document).map(|error| error.to_string()).collect()
}

#[test]
fn a_machine_is_not_sick_for_what_others_take_and_nothing_is_left() {
    let dir = scratch();
    let gate = plimsoll(dir.path()).args(["gate", "--store", "none", "--format", "json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&gate.stdout).unwrap();
    assert_eq!(is_valid(&document), Vec::<String>::new());
    let line = document["line"].as_str().unwrap();
    assert!(line.chars().count() <= 80 && !line.contains('\n'), "{line}");
    let answer = document["answer"].as_str().unwrap();
    let code = ["healthy", "sick", "?", "?", "?", "?", "unknown"].iter().position(|word| *word == answer);
    assert_eq!(gate.status.code(), code.and_then(|code| i32::try_from(code).ok()), "{line}");
    // A quota and a fault of this hardware are reasons.
    let is_stated = !document["faults"].as_array().unwrap().is_empty();
    assert!(answer != "sick" || under_a_quota() || is_stated, "{document:#}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn half_a_cpu_is_sick_with_the_quota_as_its_cause() {
    let name = "half_a_cpu_is_sick_with_the_quota_as_its_cause";
    let group = match Group::make("gate") {
        Ok(group) => group,
        Err(why) => return skipped(name, &format!("no group: {why}")),
    };
    group.limit(0.5);
    let dir = scratch();
    let made = |_| {
        let output = group.run(dir.path(), "gate --store none --output gate.json --format nagios").output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // On a busy machine a gate's time may be over before a figure is decided.
    let is_decided = |(_, line): &(Option<i32>, String)| !line.contains(" - unknown: ");
    let Some((code, line)) = (0..10).map(made).find(is_decided) else {
        assert!(short_of_cpu(), "no gate was decided in time");
        return skipped(name, "a gate gets too little CPU time");
    };
    assert_eq!(code, Some(2), "{line}");
    assert!(line.starts_with("PLIMSOLL CRITICAL - sick: CPU quota of 0.50 CPUs, throttled "), "{line}");
    let (_, figures) = line.split_once(" | ").unwrap();
    assert!(figures.starts_with("'cpu fma f64 ") && line.lines().count() == 1, "{line}");
    assert_eq!(fs::read_to_string(dir.path().join("gate.json")).unwrap(), line);
}

#[test]
fn fewer_cpus_than_in_the_history_are_a_reason() {
    let name = "fewer_cpus_than_in_the_history_are_a_reason";
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return skipped(name, "needs two CPUs");
    }
    let dir = scratch();
    let run =
        ["run", "gate", "--only", "cpu.peak", "--samples", "1", "--sample-time", "5ms", "--store", "kept"];
    ended(plimsoll(dir.path()).args(run), 0);
    let (out, _) = ended(plimsoll(dir.path()).args(["gate", "--store", "kept", "--explain"]), 0);
    assert_eq!(out.matches("CPU usable").count(), 0, "{out}");
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let allowed =
        allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    let first = allowed.split([',', '-']).next().unwrap();
    let mut bound = Command::new("taskset");
    bound.args(["-c", first, env!("CARGO_BIN_EXE_plimsoll"), "gate", "--store", "kept", "--format", "npd"]);
    let output = match bound.current_dir(dir.path()).output() {
        Ok(output) => output,
        Err(why) => return skipped(name, &format!("taskset: {why}")),
    };
    let line = String::from_utf8_lossy(&output.stdout);
    assert!(line.starts_with("sick: 1 CPU usable, ") && line.ends_with(" before\n"), "{line}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_new_shaper_is_a_reason_until_it_is_usual() {
    let name = "a_new_shaper_is_a_reason_until_it_is_usual";
    let Some(mut ends) = Namespaces::new(name) else { return };
    ends.serve();
    let dir = scratch();
    let made = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let server = ["--server", SERVER, "--store", "kept", "--quiet"];
        let output = ends.plimsoll(&[&words[..], &server].concat()).current_dir(dir.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let run = || assert_eq!(made("run gate --only network.tcp --samples 2 --sample-time 10ms").0, Some(0));
    (0..3).for_each(|_| run());
    ends.near("tc qdisc add dev veth0 root tbf rate 20mbit burst 64kb latency 50ms");
    // On a busy machine a gate's time may be over before the network cases.
    let is_decided = |(_, line): &(Option<i32>, String)| !line.starts_with("unknown: ");
    let Some((code, line)) = (0..10).map(|_| made("gate --format npd")).find(is_decided) else {
        assert!(short_of_cpu(), "no gate was decided in time");
        return skipped(name, "a gate gets too little CPU time");
    };
    assert!(line.starts_with("sick: a shaper limits the interface to 20.0 Mbit/s, usual is "), "{line}");
    assert_eq!(code, Some(1));
    (0..4).for_each(|_| run());
    let (_, line) = made("gate --format npd");
    assert_eq!(line.matches("shaper").count(), 0, "{line}");
}

#[test]
fn a_gate_ends_in_time_where_its_server_measures_for_others() {
    let name = "a_gate_ends_in_time_where_its_server_measures_for_others";
    let Some(mut ends) = Namespaces::new(name) else { return };
    ends.serve();
    let dir = scratch();
    let mut other = ends.network(&["--only", "network.tcp", "--samples", "1000", "--sample-time", "50s"]);
    let mut other = other.spawn().unwrap();
    // Until it is past its trials, which are short.
    ends.near("until awk '/veth0/ { exit $10 < 2e9 }' /proc/net/dev; do sleep 0.1; done");
    let begun = Instant::now();
    let words = ["gate", "--server", SERVER, "--store", "none", "--format", "json"];
    let output = ends.plimsoll(&words).current_dir(dir.path()).output().unwrap();
    // The server lets a second client wait for up to 90 s.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    // A quota is a reason by itself.
    let is_sick = under_a_quota() && (output.status.code(), &document["answer"]) == (Some(1), &"sick".into());
    let is_unknown = (output.status.code(), &document["answer"]) == (Some(6), &"unknown".into());
    assert!(is_unknown || is_sick, "{document:#}");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn without_a_directory_none_is_needed_that_it_may_write_to() {
    let (out, _) = ended(plimsoll(Path::new("/proc")).args(["gate", "--explain", "--store", "none"]), 0);
    assert!(out.lines().any(|line| line.ends_with(": needs --dir")), "{out}");
    let output = plimsoll(Path::new("/proc")).args(["gate", "--store", "none", "--format", "npd"]).output();
    let line = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    assert!(["healthy: ", "sick: ", "unknown: "].iter().any(|word| line.starts_with(word)), "{line}");
}

#[test]
fn a_directory_whose_disk_cannot_be_measured_is_unknown() {
    let name = "a_directory_whose_disk_cannot_be_measured_is_unknown";
    if !possible(name, &["unshare"]) {
        return;
    }
    let dir = scratch();
    let script = "mkdir mnt; mount -t tmpfs -o size=4M none mnt; exec \"$1\" gate --dir mnt --store none --quiet --format json";
    let output = in_own_mounts(dir.path(), script, &[]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let disk: Vec<&Value> = document["not_judged"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["case"].as_str().unwrap().starts_with("disk.io"))
        .collect();
    assert!(!disk.is_empty(), "{document:#}");
    if under_a_quota() || !document["faults"].as_array().unwrap().is_empty() {
        return skipped(name, "a quota or a fault of this hardware is told first");
    }
    assert_eq!(document["answer"], "unknown", "{document:#}");
}

#[test]
fn the_answer_is_printed_also_where_its_file_cannot_be_written() {
    let dir = scratch();
    let words = ["gate", "--store", "none", "--format", "npd", "--output", "/dev/full"];
    let output = plimsoll(dir.path()).args(words).output().unwrap();
    let line = String::from_utf8_lossy(&output.stdout);
    assert!(["healthy: ", "sick: ", "unknown: "].iter().any(|word| line.starts_with(word)), "{output:?}");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr));
}

#[test]
fn imported_runs_say_nothing_of_what_was_before() {
    let dir = scratch();
    let run = "run gate --only cpu.peak --samples 1 --sample-time 5ms --store none --json kept.json";
    ended(plimsoll(dir.path()).args(run.split(' ')), 0);
    let mut other: Value = serde_json::from_slice(&fs::read(dir.path().join("kept.json")).unwrap()).unwrap();
    let memory = other["machine"]["memory"]["total_bytes"].as_u64().unwrap();
    other["machine"]["memory"]["total_bytes"] = (memory * 4).into();
    fs::write(dir.path().join("other.json"), other.to_string()).unwrap();
    let explained = "gate --store other --explain".split(' ');
    ended(plimsoll(dir.path()).args("history import other.json --store other".split(' ')), 0);
    let (out, _) = ended(plimsoll(dir.path()).args(explained), 0);
    assert_eq!(out.matches(" before").count(), 0, "{out}");
}

#[test]
fn a_fleet_says_what_is_usual_for_its_kind_also_of_a_machine_that_lost_memory_since() {
    let dir = scratch();
    let run = "run gate --only cpu.peak --samples 1 --sample-time 5ms --store none --json own.json";
    ended(plimsoll(dir.path()).args(run.split(' ')), 0);
    let own: Value = serde_json::from_slice(&fs::read(dir.path().join("own.json")).unwrap()).unwrap();
    let host = own["nodes"][0]["name"].as_str().unwrap();
    // Five machines with four times the memory, and perhaps this one as it was then.
    let gathered = |names: &[&str], to: &str| {
        let results = dir.path().join(format!("of-{to}"));
        fs::create_dir(&results).unwrap();
        for name in names {
            let mut other = own.clone();
            let memory = other["machine"]["memory"]["total_bytes"].as_u64().unwrap();
            other["machine"]["memory"]["total_bytes"] = (memory * 4).into();
            other["machine"]["id"] = "0123456789abcdef".into();
            other["machine"]["host"] = (*name).into();
            other["nodes"][0]["name"] = (*name).into();
            for measurement in other["measurements"].as_array_mut().unwrap() {
                measurement["node"] = (*name).into();
            }
            fs::write(results.join(format!("{name}.json")), other.to_string()).unwrap();
        }
        let words = format!("gather of-{to} --json {to}");
        ended(plimsoll(dir.path()).args(words.split(' ')), 0);
    };
    let others = ["other-1", "other-2", "other-3", "other-4", "other-5"];
    let explained = |fleet: &str| {
        let words = format!("gate --store none --explain --fleet {fleet}");
        ended(plimsoll(dir.path()).args(words.split(' ')), 0)
    };
    gathered(&[&others[..], &[host]].concat(), "with.json");
    let (out, err) = explained("with.json");
    let lost = |out: &str| {
        out.lines()
            .filter(|line| line.trim_start().starts_with("! memory ") && line.ends_with(" in the fleet"))
            .count()
    };
    assert_eq!((lost(&out), err.as_str()), (1, ""), "{out}");
    gathered(&others, "without.json");
    let (out, err) = explained("without.json");
    assert_eq!(lost(&out), 0, "{out}");
    insta::assert_snapshot!(err);
}

#[test]
fn what_would_be_measured_is_explained_without_measuring() {
    let dir = scratch();
    let (out, _) = ended(plimsoll(dir.path()).args(["gate", "--explain", "--store", "none"]), 0);
    let ends = ["finds a loss of 10 %; 16 low measurements show it", ": needs --server", ": needs --dir"];
    assert!(ends.iter().all(|end| out.lines().any(|line| line.ends_with(end))), "{out}");
}

#[test]
fn each_gate_proves_another_core_and_a_wrong_answer_names_it() {
    let name = "each_gate_proves_another_core_and_a_wrong_answer_names_it";
    let dir = scratch();
    let run =
        ["run", "gate", "--only", "cpu.peak", "--samples", "1", "--sample-time", "5ms", "--store", "kept"];
    ended(plimsoll(dir.path()).args(run), 0);
    let skipped = || skipped(name, "a gate gets too little CPU time, or no CPU has its own core");
    let gate = |flip: &str| -> Value {
        let words = ["gate", "--store", "kept", "--format", "json"];
        let output = plimsoll(dir.path()).args(words).env("PLIMSOLL_TEST_FLIP", flip).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
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
    let line = second["line"].as_str().unwrap();
    assert!(
        line.starts_with(&format!("sick: CPU {next} computed ")) && line.contains(" in sha256 "),
        "{line}"
    );
    // It is not proven, so it is the next one again.
    let Some(third) = decided("") else { return skipped() };
    assert_eq!(third["proven"], serde_json::json!([next]));
}
