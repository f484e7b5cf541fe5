//! What MPI itself takes between hosts: the pairs, all of them at once, a tool beside them, and a host that is lost meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::hosts::{Hosts, Kind, in_course_of, said, signal};

const PLAN: &str = "name = 'mpi'\nsamples = 5\nsample-time = '5ms'\n\
    [[group]]\nbenchmark = 'mpi.latency'\nmessage = ['8', '64K']\n\
    [[group]]\nbenchmark = 'mpi.bandwidth'\nmessage = '16K'\n\
    [[group]]\nbenchmark = 'mpi.allreduce'\ntype = ['f32', 'f64']\nmessage = '1K'\n\
    [[group]]\nbenchmark = 'mpi.barrier'\n";

/// In place of a tool that no package has: a program that says what the tool's documentation says it says.
const LATENCY: &str = "#!/bin/sh\n[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] || exit 0\n\
    printf '\\n# OSU MPI Latency Test v5.8\\n# Size          Latency (us)\\n8                       1.25\\n'\n";

fn of<'a>(run: &'a Value, case: &str) -> &'a Value {
    let all = run["measurements"].as_array().unwrap();
    let mut found = all.iter().filter(|m| m["case"]["id"] == case);
    let first = found.next().unwrap_or_else(|| panic!("no {case} in {all:#?}"));
    assert!(found.next().is_none(), "{case} stands twice");
    first
}

/// That it has a figure with an interval.
fn measured(measurement: &Value) -> f64 {
    assert_eq!(measurement["status"], "ok", "{measurement}");
    let metric = &measurement["metrics"][0];
    assert_eq!(
        (metric["samples"].as_array().unwrap().len(), metric["summary"]["ci95"].is_array()),
        (5, true)
    );
    let library = measurement["achieved"]["mpi"].as_str().unwrap();
    assert!(library.contains(|c: char| c.is_ascii_digit()), "{library}");
    metric["summary"]["median"].as_f64().filter(|value| *value > 0.0).unwrap()
}

#[test]
fn hosts_measure_mpi_in_pairs_and_all_together() {
    let Some(hosts) = Hosts::new("hosts_measure_mpi_in_pairs_and_all_together", 3) else { return };
    let plan = hosts.file("mpi.toml", PLAN);
    let mut run = hosts.mpirun();
    let output = run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said(&output).0, Some(0), "{told}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("between machines") && table.contains("3 pairs"), "{table}");
    let stored = hosts.stored();
    assert_eq!(stored["measurements"].as_array().unwrap().len(), 6, "{table}");
    for case in ["mpi.latency/message=8", "mpi.latency/message=64K", "mpi.bandwidth/message=16K"] {
        let pairs = of(&stored, &format!("{case}/server=nodes"));
        measured(pairs);
        let values: Vec<Vec<Option<f64>>> =
            serde_json::from_value(pairs["metrics"][0]["matrix"]["values"].clone()).unwrap();
        let there: Vec<Vec<bool>> =
            values.iter().map(|row| row.iter().map(Option::is_some).collect()).collect();
        let expected = [[false, true, true], [true, false, true], [true, true, false]];
        assert_eq!(there, expected, "{case}");
    }
    let bandwidth = of(&stored, "mpi.bandwidth/message=16K/server=nodes");
    assert_eq!(
        (&bandwidth["achieved"]["window"], &bandwidth["achieved"]["interface"]),
        (&64.into(), &"eth0".into())
    );
    let limit = &bandwidth["metrics"][0]["limit"];
    assert!(limit["value"].is_null() && limit["reason"].as_str().unwrap().contains("software"), "{limit}");
    for case in ["mpi.allreduce/type=f32/message=1K", "mpi.allreduce/type=f64/message=1K", "mpi.barrier"] {
        let all = of(&stored, case);
        measured(all);
        assert_eq!(all["achieved"]["machines"], 3);
    }
    hosts.empty();
}

#[test]
fn a_tool_stands_beside_two_hosts() {
    let Some(hosts) = Hosts::new("a_tool_stands_beside_two_hosts", 2) else { return };
    let tool = hosts.file("osu_latency", LATENCY);
    fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    let plan = hosts.file(
        "one.toml",
        "samples = 3\nsample-time = '5ms'\n[[group]]\nbenchmark = 'mpi.latency'\nmessage = '8'\n",
    );
    let mut run = hosts.mpirun();
    run.args(["-n", "2", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan);
    run.args(["--against", "osu_latency", "--peer-path"]).arg(format!("osu_latency={}", tool.display()));
    let output = run.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said(&output).0, Some(0), "{told}");
    let stored = hosts.stored();
    let peer = &of(&stored, "mpi.latency/message=8/server=nodes")["metrics"][0]["references"][0];
    assert_eq!(
        (&peer["name"], &peer["version"], &peer["match"]),
        (&"osu_latency".into(), &"5.8".into(), &"exact".into()),
        "{peer}"
    );
    assert_eq!(peer["samples"], serde_json::json!([1.25e-6, 1.25e-6, 1.25e-6]), "{peer}");
    let command: Vec<&str> = peer["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(
        command[1..3] == ["-n", "2"] && command.ends_with(&["-i", "1000", "-x", "100", "-m", "8:8"]),
        "{command:?}"
    );
    hosts.empty();
}

/// Clock ticks that a process has computed, by the kernel's account: fields 14 and 15 of its `stat`.
fn computed(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[test]
fn a_host_that_stands_still_while_mpi_is_measured_is_named() {
    let Some(hosts) = Hosts::new("a_host_that_stands_still_while_mpi_is_measured_is_named", 3) else {
        return;
    };
    let plan = hosts
        .file("long.toml", "samples = 4000\nsample-time = '50ms'\n[[group]]\nbenchmark = 'mpi.barrier'\n");
    let mut run = hosts.mpirun();
    let mut run = run.args(["-n", "3", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).spawn().unwrap();
    let mut victim = Vec::new();
    in_course_of(&mut run, "the third host computes", || {
        victim = hosts.processes(3, Kind::Rank);
        // Two seconds: nothing but an exercise takes so much.
        victim.first().is_some_and(|pid| computed(*pid) > 200)
    });
    signal(victim[0], Signal::STOP);
    let output = run.wait_with_output().unwrap();
    let (code, last) = said(&output);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code, Some(4), "{told}");
    assert!(last.starts_with("plimsoll: machine lost: n3 (rank 2): it sent nothing for 12 s"), "{told}");
    assert_eq!(hosts.stored()["status"], "partial", "{told}");
    hosts.empty();
}
