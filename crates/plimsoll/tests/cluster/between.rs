//! Four hosts measure to each other: the pair behind a token bucket is the slow one, in the document and on the terminal.

use serde_json::Value;

use crate::hosts::{Hosts, said};

/// On a machine that others use, a pair that is off for a moment is measured again.
const ATTEMPTS: usize = 4;

const PLAN: &str = "name = 'pairs'\nsamples = 2\nsample-time = '50ms'\n\
    [[group]]\nbenchmark = 'network.tcp'\nmessage = '64K'\nstreams = 1\ndirection = 'up'\n\
    [[group]]\nbenchmark = 'network.latency'\nprotocol = 'tcp'\nmessage = '1'\nstreams = 1\n";

fn of<'a>(run: &'a Value, benchmark: &str, server: &str) -> Vec<&'a Value> {
    let all = run["measurements"].as_array().unwrap().iter();
    let meant = |m: &&Value| {
        m["case"]["benchmark"] == benchmark && m["case"]["params"]["server"].as_str().unwrap_or("") == server
    };
    all.filter(meant).collect()
}

/// The value of each pair; none where it was not measured.
fn pairs(measurement: &Value) -> Vec<Vec<Option<f64>>> {
    serde_json::from_value(measurement["metrics"][0]["matrix"]["values"].clone()).unwrap()
}

/// From whom to whom a benchmark was slow.
fn slow<'a>(run: &'a Value, benchmark: &str) -> Vec<[&'a str; 2]> {
    let findings = run["findings"].as_array().unwrap().iter().filter(|f| f["code"] == "slow-pair");
    let of = findings.map(|f| &f["evidence"]).filter(|e| e["case"].as_str().unwrap().starts_with(benchmark));
    of.map(|evidence| ["from", "to"].map(|key| evidence[key].as_str().unwrap())).collect()
}

#[test]
fn the_pair_behind_a_token_bucket_is_the_slow_one_of_all() {
    let Some(hosts) = Hosts::new("the_pair_behind_a_token_bucket_is_the_slow_one_of_all", 4) else { return };
    for (number, rate) in [(1, "200mbit"), (2, "200mbit"), (3, "10mbit"), (4, "200mbit")] {
        hosts.hold(number, rate);
    }
    let plan = hosts.file("pairs.toml", PLAN);
    for attempt in 1..=ATTEMPTS {
        let mut run = hosts.mpirun();
        run.args(["-n", "4", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(&plan).arg("--one-by-one");
        let output = run.output().unwrap();
        assert_eq!(said(&output).0, Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(table.contains("between machines") && table.contains("6 pairs"), "{table}");
        let stored = hosts.stored();
        for benchmark in ["network.tcp", "network.latency"] {
            // Over loopback on each machine, and once between all.
            assert_eq!((of(&stored, benchmark, "").len(), of(&stored, benchmark, "nodes").len()), (4, 1));
            let measured = pairs(of(&stored, benchmark, "nodes")[0]);
            let there: Vec<Vec<bool>> =
                measured.iter().map(|row| row.iter().map(Option::is_some).collect()).collect();
            assert_eq!(there, [[true, true, true], [false, true, true], [false, false, true]]);
        }
        // Rates of pairs add up, times do not.
        assert_eq!(of(&stored, "network.latency", "bisection").len(), 0);
        let bisection = &of(&stored, "network.tcp", "bisection")[0]["metrics"][0]["summary"]["median"];
        assert!(bisection.as_f64().unwrap() > 0.0, "{bisection}");
        let slow = slow(&stored, "network.tcp");
        if slow == [["n3", "n4"]] {
            return hosts.empty();
        }
        assert!(attempt < ATTEMPTS, "{slow:?}\n{table}");
    }
}
