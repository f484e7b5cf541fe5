//! plimsoll as a client of the real iperf3.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use crate::support::{Owned, document, done, has, list, median, reason, scratch, start, text};

struct Server {
    _child: Owned,
    port: u16,
}

impl Server {
    #[track_caller]
    fn start() -> Option<Self> {
        has(&["iperf3"])?;
        // A free port: no other program searches this range.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let line = format!("-s --forceflush -B 127.0.0.1 -p {port}");
        let mut child = start(Command::new("iperf3").args(line.split(' ')));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("listening")), "iperf3 does not listen");
        // It goes on writing, and must not be stopped by a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Server { _child: Owned(child), port })
    }

    fn measured(&self, line: &str) -> Value {
        let server = format!("network --server iperf3://127.0.0.1:{}", self.port);
        let line = format!("{server} --json - --store none --quiet {line}");
        document(scratch().path(), &line, 0)["measurements"].clone()
    }
}

#[test]
fn tcp_and_udp_in_both_directions_over_two_streams() {
    let Some(server) = Server::start() else { return };
    for direction in ["up", "down"] {
        for benchmark in ["network.tcp", "network.udp"] {
            let rate = if benchmark == "network.udp" { "--rate 20M" } else { "" };
            let how = format!("--samples 2 --sample-time 300ms --streams 2 --direction {direction} {rate}");
            let seen = &server.measured(&format!("--only {benchmark} {how}"))[0];
            assert_eq!(seen["status"], "ok", "{seen}");
            assert_eq!(seen["achieved"]["server_program"], "iperf3");
            assert_eq!(seen["conditions"]["path_loopback"], 1.0);
            assert!(seen["metrics"][0]["limit"]["value"].is_number(), "{}", seen["metrics"][0]["limit"]);
            let goodput = median(seen, "goodput");
            assert!(goodput > 0.0 && goodput.is_finite(), "{benchmark} {direction}: {goodput}");
            if benchmark == "network.udp" {
                // Never above what was offered; the server may run a little past the end.
                assert!(goodput < 25e6, "{direction}: {goodput}");
                assert!((0.0..1.0).contains(&median(seen, "loss")));
            }
        }
    }
}

/// Without `--only`, unsupported cases are skipped with the reason, the rest is measured.
#[test]
fn what_an_iperf3_server_cannot_serve_is_skipped() {
    let Some(server) = Server::start() else { return };
    let all = server.measured("--samples 1 --sample-time 100ms");
    let of = |name| list(&all).iter().find(|m| text(&m["case"]["id"]).starts_with(name)).unwrap();
    assert_eq!(of("network.tcp")["status"], "ok", "{all}");
    assert_eq!(of("network.latency")["status"], "skipped");
    insta::assert_snapshot!(reason(of("network.latency")));
    // An exact number of datagrams arrives.
    let udp = "--only network.udp --message 1000 --rate 8M --samples 1 --sample-time 200ms";
    let seen = &server.measured(udp)[0];
    let offered = seen["conditions"]["offered"].as_f64().unwrap();
    let (goodput, loss) = (median(seen, "goodput"), median(seen, "loss"));
    assert!((goodput / offered - (1.0 - loss)).abs() < 1e-6, "{seen}");
}

#[test]
fn nobody_there_is_a_far_end_failure_and_wishes_that_it_does_not_know_are_refused() {
    let dir = scratch();
    let line = "network --only network.tcp --server iperf3://127.0.0.1:1 --store none";
    let (_, err) = done(dir.path(), line, 5);
    assert_eq!(err.matches("panic").count(), 0, "{err}");
    let line = "network --server iperf3://127.0.0.1 --only network.latency --store none";
    insta::assert_snapshot!(done(dir.path(), line, 4).1);
}
