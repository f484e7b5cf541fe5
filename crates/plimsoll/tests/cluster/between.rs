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

/// Machines and pairs that were slow in a benchmark: who, in which direction, and why.
fn slow<'a>(run: &'a Value, benchmark: &str) -> Vec<[&'a str; 3]> {
    let slow = |f: &&Value| ["slow-node", "slow-pair"].iter().any(|code| f["code"] == *code);
    let findings = run["findings"].as_array().unwrap().iter().filter(slow).map(|f| &f["evidence"]);
    let of = findings.filter(|e| e["case"].as_str().unwrap().starts_with(benchmark));
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    of.map(|e| [text(&e["node"]), text(&e["direction"]), text(&e["cause"])]).collect()
}

#[test]
fn the_last_machine_behind_a_token_bucket_is_the_slow_sender_of_all() {
    let test = "the_last_machine_behind_a_token_bucket_is_the_slow_sender_of_all";
    let Some(hosts) = Hosts::new(test, 4) else { return };
    for (number, rate) in [(1, "200mbit"), (2, "200mbit"), (3, "200mbit"), (4, "10mbit")] {
        hosts.hold(number, rate);
    }
    let plan = hosts.file("pairs.toml", PLAN);
    for attempt in 1..=ATTEMPTS {
        let mut run = hosts.mpirun();
        run.args(["-n", "4", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(&plan).arg("--one-by-one");
        let output = run.output().unwrap();
        assert_eq!(said(&output).0, Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            table.contains("between machines")
                && table.contains("6 pairs in both directions; row sends to column"),
            "{table}"
        );
        let stored = hosts.stored();
        for benchmark in ["network.tcp", "network.latency"] {
            // Over loopback on each machine, and once between all.
            assert_eq!((of(&stored, benchmark, "").len(), of(&stored, benchmark, "nodes").len()), (4, 1));
            let measured = pairs(of(&stored, benchmark, "nodes")[0]);
            let there: Vec<Vec<bool>> =
                measured.iter().map(|row| row.iter().map(Option::is_some).collect()).collect();
            let all_but_itself = |row: usize| (0..4).map(|column| column != row).collect::<Vec<_>>();
            assert_eq!(there, [0, 1, 2, 3].map(all_but_itself));
        }
        // Rates of pairs add up, times do not.
        assert_eq!(of(&stored, "network.latency", "bisection").len(), 0);
        let bisection = &of(&stored, "network.tcp", "bisection")[0]["metrics"][0]["summary"]["median"];
        assert!(bisection.as_f64().unwrap() > 0.0, "{bisection}");
        let back = &of(&stored, "network.tcp", "bisection-back")[0]["metrics"][0]["summary"]["median"];
        assert!(back.as_f64().unwrap() > 0.0, "{back}");
        let slow = slow(&stored, "network.tcp");
        if let [[node, direction, cause]] = slow[..]
            && (node, direction) == ("n4", "sending")
            && cause.contains("shaper")
            && cause.contains("10.0 Mbit/s, the others' to 200 Mbit/s")
        {
            return hosts.empty();
        }
        assert!(attempt < ATTEMPTS, "{slow:?}\n{table}");
    }
}
