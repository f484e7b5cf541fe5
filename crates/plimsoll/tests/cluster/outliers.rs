//! Four hosts measure one after the other; the one with a CPU quota and the one behind a token bucket are named.

use serde_json::Value;

use crate::common::{short_of_cpu, skipped, valid_operation};
use crate::hosts::{Hosts, SERVER, said};

/// On a machine that others use, a figure that is off for a moment is measured again.
const ATTEMPTS: usize = 4;

/// Node, benchmark and cause of each outlier.
fn outliers(run: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = run["findings"].as_array().unwrap().iter();
    let outliers = findings.filter(|finding| finding["code"] == "outlier").map(|finding| {
        let evidence = &finding["evidence"];
        let benchmark = text(&evidence["case"]).split('/').next().unwrap_or_default().to_owned();
        (text(&evidence["node"]), benchmark, text(&evidence["cause"]))
    });
    let mut sorted: Vec<_> = outliers.collect();
    sorted.sort();
    sorted
}

fn as_expected(found: &[(String, String, String)]) -> bool {
    match found {
        [cpu, network] => {
            (cpu.0.as_str(), cpu.1.as_str()) == ("n2", "cpu.peak")
                && cpu.2.starts_with("a CPU quota of 0.40 CPUs (throttled ")
                && (network.0.as_str(), network.1.as_str()) == ("n3", "network.tcp")
                && network.2 == "a shaper limits the interface to 50.0 Mbit/s, 200 Mbit/s on most others"
        }
        _ => false,
    }
}

#[test]
fn four_hosts_are_four_rows_and_the_slow_ones_are_named_with_their_causes() {
    let test = "four_hosts_are_four_rows_and_the_slow_ones_are_named_with_their_causes";
    let Some(hosts) = Hosts::new(test, 4) else { return };
    if !hosts.slow_down("n2") {
        return skipped(test, "needs the right to make control groups for the CPU");
    }
    let Some(operation) = valid_operation(test) else { return };
    for (number, rate) in [(1, "200mbit"), (2, "200mbit"), (3, "50mbit"), (4, "200mbit")] {
        hosts.hold(number, rate);
    }
    let _server = hosts.server();
    let plan = format!(
        "name = 'four'\nsamples = 6\nsample-time = '80ms'\n\
        [[group]]\nbenchmark = 'cpu.peak'\nop = '{operation}'\ntype = 'f64'\nthreads = 1\n\
         [[group]]\nbenchmark = 'network.tcp'\nmessage = '64K'\nstreams = 1\ndirection = 'up'\n"
    );
    let plan = hosts.file("four.toml", &plan);
    let mut found = Vec::new();
    for attempt in 1..=ATTEMPTS {
        let mut run = hosts.mpirun();
        run.args(["-n", "4", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(&plan).arg("--one-by-one");
        run.args(["--server", SERVER, "--require", "network.tcp within 20%"]);
        let output = run.output().unwrap();
        let (code, last) = said(&output);
        assert_eq!(code, Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        // With less than a CPU for four hosts and a server, rates of the network differ by more than the shaper holds one back.
        let named = last.contains(": n3: ") || short_of_cpu();
        assert!(last.contains("not met: network.tcp within 20%") && named, "{last}");
        let stored = hosts.stored();
        let names: Vec<_> =
            stored["nodes"].as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
        assert_eq!(names, ["n1", "n2", "n3", "n4"]);
        assert_eq!(
            (&stored["status"], stored["measurements"].as_array().unwrap().len()),
            (&"complete".into(), 8)
        );
        found = outliers(&stored);
        if as_expected(&found) || (short_of_cpu() && found.len() == 1 && found[0].0 == "n2") {
            // One stored run an attempt, and nothing that waits for an import.
            let history =
                hosts.on(1, env!("CARGO_BIN_EXE_plimsoll")).args(["history", "list"]).output().unwrap();
            let listed = String::from_utf8_lossy(&history.stdout).matches(" four ").count();
            assert_eq!(listed, attempt, "{}", String::from_utf8_lossy(&history.stdout));
            return hosts.empty();
        }
    }
    panic!("{found:?}");
}
