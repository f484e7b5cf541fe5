//! plimsoll as a client of the real iperf3.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::namespaces::median;
use crate::support::{ended, plimsoll, scratch, skipped};

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(test: &str) -> Option<Self> {
        if Command::new("iperf3").arg("--version").output().is_err() {
            skipped(test, "needs iperf3");
            return None;
        }
        // A free port: no other program searches this range.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new("iperf3")
            .args(["-s", "--forceflush", "-B", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("listening")), "iperf3 does not listen");
        // It goes on writing, and must not be stopped by a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Server { child, port })
    }

    fn measured(&self, arguments: &[&str]) -> serde_json::Value {
        self.all_measured(arguments)[0].clone()
    }

    fn all_measured(&self, arguments: &[&str]) -> serde_json::Value {
        let dir = scratch();
        let server = format!("iperf3://127.0.0.1:{}", self.port);
        let mut command = plimsoll(dir.path());
        command
            .args(["network", "--server", &server, "--json", "-", "--store", "none", "--quiet"])
            .args(arguments);
        let (out, _) = ended(&mut command, 0);
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["measurements"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn tcp_and_udp_in_both_directions_over_two_streams() {
    let Some(server) = Server::start("iperf3's protocol") else { return };
    for direction in ["up", "down"] {
        for benchmark in ["network.tcp", "network.udp"] {
            let more =
                ["--samples", "2", "--sample-time", "300ms", "--streams", "2", "--direction", direction];
            let mut arguments = vec!["--only", benchmark];
            arguments.extend(more);
            if benchmark == "network.udp" {
                arguments.extend(["--rate", "20M"]);
            }
            let seen = server.measured(&arguments);
            assert_eq!(seen["status"], "ok", "{seen}");
            assert_eq!(seen["achieved"]["server_program"], "iperf3");
            assert_eq!(seen["conditions"]["path_loopback"], 1.0);
            assert!(seen["metrics"][0]["limit"]["value"].is_number(), "{}", seen["metrics"][0]["limit"]);
            let goodput = median(&seen, "goodput");
            assert!(goodput > 0.0 && goodput.is_finite(), "{benchmark} {direction}: {goodput}");
            if benchmark == "network.udp" {
                // Never above what was offered; the server may run a little past the end.
                assert!(goodput < 25e6, "{direction}: {goodput}");
                assert!((0.0..1.0).contains(&median(&seen, "loss")));
            }
        }
    }
}

/// Without `--only`, unsupported cases are skipped with the reason, the rest is measured.
#[test]
fn what_an_iperf3_server_cannot_serve_is_skipped() {
    let Some(server) = Server::start("iperf3's protocol without --only") else { return };
    let all = server.all_measured(&["--samples", "1", "--sample-time", "100ms"]);
    let all = all.as_array().unwrap();
    let of = |name: &str| all.iter().find(|m| m["case"]["id"].as_str().unwrap().starts_with(name)).unwrap();
    assert_eq!(of("network.tcp")["status"], "ok", "{all:?}");
    assert_eq!(of("network.latency")["status"], "skipped");
    insta::assert_snapshot!(of("network.latency")["reason"].as_str().unwrap());
}

#[test]
fn an_exact_number_of_datagrams_arrives() {
    let Some(server) = Server::start("iperf3's protocol by count") else { return };
    let seen = server.measured(&[
        "--only",
        "network.udp",
        "--message",
        "1000",
        "--rate",
        "8M",
        "--samples",
        "1",
        "--sample-time",
        "200ms",
    ]);
    let loss = median(&seen, "loss");
    let offered = seen["conditions"]["offered"].as_f64().unwrap();
    assert!((median(&seen, "goodput") / offered - (1.0 - loss)).abs() < 1e-6, "{seen}");
}

#[test]
fn nobody_there_is_a_far_end_failure_and_wishes_that_it_does_not_know_are_refused() {
    let dir = scratch();
    let mut command = plimsoll(dir.path());
    command.args(["network", "--only", "network.tcp", "--server", "iperf3://127.0.0.1:1", "--store", "none"]);
    let (_, err) = ended(&mut command, 5);
    assert_eq!(err.matches("panic").count(), 0, "{err}");
    let mut command = plimsoll(dir.path());
    command.args("network --server iperf3://127.0.0.1 --only network.latency --store none".split(' '));
    let (_, err) = ended(&mut command, 4);
    insta::assert_snapshot!(err);
}
