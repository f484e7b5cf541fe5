//! Datagrams and round trips between two network namespaces, over shaped, lossy or cut links.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::namespaces::{Namespaces, median};
use crate::support::{ended, plimsoll, scratch, short_of_cpu, skipped, until};

const UDP: &[&str] = &["--only", "network.udp", "--samples", "1"];
const TRIPS: &[&str] = &["--only", "network.latency", "--samples", "1"];

fn with<'a>(first: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [first, more].concat()
}

/// Every tenth UDP packet that comes to an end is dropped.
const LOSE_A_TENTH: &str = "nft add table inet lossy; \
    nft add chain inet lossy in '{ type filter hook input priority 0; }'; \
    nft add rule inet lossy in meta l4proto udp numgen inc mod 10 0 drop";

#[test]
fn the_loss_of_a_lossy_path_is_the_loss_that_is_reported() {
    let Some(mut ends) = Namespaces::new("loss of a lossy path") else { return };
    ends.serve();
    for (end, direction) in [("far", "up"), ("near", "down")] {
        if end == "far" {
            ends.far(LOSE_A_TENTH)
        } else {
            ends.near(LOSE_A_TENTH)
        }
        // A rate at which the sender makes no batches: a batch is one packet for the rule.
        for (size, rate) in [("1", "50k"), ("1000", "2M")] {
            let more =
                ["--message", size, "--direction", direction, "--rate", rate, "--sample-time", "400ms"];
            let seen = ends.measured(&with(UDP, &more));
            let loss = median(&seen, "loss");
            assert!((loss - 0.1).abs() < 0.02, "{direction}, {size} bytes: {loss}");
            assert_eq!(seen["conditions"]["duplicates"], 0.0, "{seen}");
        }
    }
}

/// A rate with one datagram per sample is not exceeded.
#[test]
fn few_datagrams_are_no_more_than_the_rate_asked_for() {
    for (rate, most) in [("1", 1.0), ("20k", 20e3)] {
        let dir = scratch();
        let words = ["network", "--only", "network.udp", "--rate", rate, "--message", "1K", "--samples=2"];
        let more = ["--sample-time=50ms", "--quiet", "--store", "none", "--json", "-"];
        let (out, _) = ended(plimsoll(dir.path()).args(words).args(more), 0);
        let run: serde_json::Value = serde_json::from_str(&out).unwrap();
        let seen = &run["measurements"][0];
        let (goodput, offered) = (median(seen, "goodput"), seen["conditions"]["offered"].as_f64().unwrap());
        assert!(goodput > 0.0 && goodput <= most * 1.000_001, "{rate}: {goodput}");
        assert!(offered <= most * 1.000_001, "{rate}: {offered}");
    }
}

#[test]
fn twice_what_a_shaped_link_carries_loses_half() {
    let Some(mut ends) = Namespaces::new("UDP over a shaped link") else { return };
    ends.near("tc qdisc add dev veth0 root tbf rate 100mbit burst 32k latency 10ms");
    ends.serve();
    let more = ["--message", "1400", "--rate", "200M", "--sample-time", "1s"];
    let seen = ends.measured(&with(UDP, &more));
    let (loss, goodput) = (median(&seen, "loss"), median(&seen, "goodput"));
    let offered = seen["conditions"]["offered"].as_f64().unwrap();
    // 1400 of the 1442 bytes that tbf counts are payload: 97.1 of 200 Mbit/s pass. Its bucket holds
    // 2.6 ms, so a busy machine loses more. Under a quota the sender may offer less, and the bucket
    // fills while it is stopped.
    assert!((loss - (1.0 - goodput / offered)).abs() < 0.03, "{loss}: {goodput} of {offered}");
    assert!(goodput <= 100e6 && offered <= 1.05 * 200e6, "{goodput} of {offered}");
    assert!(short_of_cpu() || (0.47..0.8).contains(&loss), "{loss}");
    assert!(short_of_cpu() || (goodput >= 30e6 && offered >= 0.95 * 200e6), "{goodput} of {offered}");
}

/// Attempts: other load may spoil one, but hardly all.
const ATTEMPTS: usize = 4;

#[test]
fn the_highest_rate_without_loss_is_that_of_the_link_however_deep_its_queue_is() {
    let name = "highest rate without loss";
    let Some(mut ends) = Namespaces::new(name) else { return };
    ends.serve();
    for latency in ["5ms", "60ms"] {
        ends.near(&format!("tc qdisc replace dev veth0 root tbf rate 50mbit burst 16k latency {latency}"));
        let more = ["--message", "1000", "--search", "lossless", "--sample-time", "2s"];
        // 1000 of the 1042 bytes that tbf counts. Before, a queue of 60 ms took in 3 % of a second
        // more.
        let most = 50e6 * 1000.0 / 1042.0;
        // A lower bound: pauses of sender or receiver lower it, and under a quota there may be no
        // rate.
        let least = if short_of_cpu() { 0.1 } else { 0.6 } * most;
        let (mut found, mut without, mut was_short) = (Vec::new(), 0, false);
        while found.len() + without < ATTEMPTS && found.last().is_none_or(|goodput| *goodput < least) {
            let output = ends.network(&with(UDP, &more)).output().unwrap();
            let (stated, code) = (String::from_utf8_lossy(&output.stderr), output.status.code());
            was_short |= short_of_cpu();
            if code == Some(4) && stated.contains("every rate that was tried") {
                without += 1;
                continue;
            }
            assert_eq!(code, Some(0), "{stated}");
            let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let seen = &run["measurements"][0];
            assert_eq!(median(seen, "loss"), 0.0);
            found.push(median(seen, "goodput"));
            assert!(found.iter().all(|goodput| *goodput < 1.02 * most), "{latency}: {found:?} of {most}");
        }
        if was_short && !found.iter().any(|goodput| *goodput >= least) {
            return skipped(name, "other work stops both ends for longer than the queue lasts");
        }
        assert!(found.iter().any(|goodput| *goodput >= least), "{latency}: {found:?} of {most}");
    }
}

/// Tokens of 8 MB and then 64 Mbit/s: of a second, half is burst.
const BUCKET: &str = "tc qdisc replace dev veth0 root tbf rate 64mbit burst 8mb latency 20ms";

#[test]
fn a_token_bucket_is_named_and_the_figure_is_its_base_rate() {
    let Some(mut ends) = Namespaces::new("token bucket") else { return };
    ends.serve();
    let udp = ["--only", "network.udp", "--message", "1400", "--samples", "2", "--sample-time", "1s"];
    let tcp = ["--only", "network.tcp", "--samples", "2", "--sample-time", "1s"];
    for arguments in [udp.as_slice(), tcp.as_slice()] {
        // A new one is full.
        ends.near("tc qdisc del dev veth0 root 2>/dev/null || true");
        ends.near(BUCKET);
        let seen = ends.measured(arguments);
        let goodput = median(&seen, "goodput");
        // With all tokens it would be twice as much; stalls of a busy machine take some.
        assert!((0.7 * 64e6..1.05 * 64e6).contains(&goodput), "{goodput}: {seen}");
        let bucket = &seen["achieved"]["token_bucket_up"];
        assert!(bucket["burst_rate"].as_f64().unwrap() > 1.2 * 64e6, "{bucket}");
        assert!((2e6..10e6).contains(&bucket["burst_bytes"].as_f64().unwrap()), "{bucket}");
        assert!(codes(&seen).contains(&"token-bucket".to_owned()), "{seen}");
        assert_eq!(seen["metrics"][0]["limit"]["source"], "documented");
    }
}

fn codes(seen: &serde_json::Value) -> Vec<String> {
    let warnings = seen["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_shaper_of_either_end_is_named_and_is_the_limit() {
    let Some(mut ends) = Namespaces::new("shapers") else { return };
    ends.near(
        "tc qdisc add dev veth0 root handle 1: htb default 10; \
         tc class add dev veth0 parent 1: classid 1:1 htb rate 90mbit quantum 1514; \
         tc class add dev veth0 parent 1:1 classid 1:10 htb rate 10mbit ceil 80mbit quantum 1514",
    );
    ends.far("tc qdisc add dev veth0 root tbf rate 40mbit burst 16k latency 20ms");
    ends.serve();
    for (direction, rate) in [("up", 80e6), ("down", 40e6), ("both", 120e6)] {
        let flags = ["--only", "network.tcp", "--direction", direction, "--streams", "2", "--samples", "1"];
        let seen = ends.measured(&with(&flags, &["--sample-time", "1s"]));
        let limit = &seen["metrics"][0]["limit"];
        let value = limit["value"].as_f64().unwrap();
        assert_eq!(limit["source"], "documented");
        assert!((value / (rate * 1448.0 / 1514.0) - 1.0).abs() < 1e-6, "{direction}: {value}");
        let share = seen["metrics"][0]["of_limit"].as_f64().unwrap();
        assert!(share < 1.05, "{direction}: {share}");
        if share > 0.9 {
            assert!(codes(&seen).contains(&"shaped".to_owned()), "{direction}: {seen}");
        }
    }
    let trips = ends.measured(&with(TRIPS, &["--protocol", "udp", "--sample-time", "100ms"]));
    assert!(!codes(&trips).contains(&"shaped".to_owned()));
}

#[test]
fn lost_round_trips_are_told_and_nothing_hangs() {
    let Some(mut ends) = Namespaces::new("lost round trips") else { return };
    ends.serve();
    ends.far(LOSE_A_TENTH);
    let more = ["--protocol", "udp", "--message", "100", "--timeout", "5ms", "--sample-time", "500ms"];
    // Lost datagrams are in no time; the slowest answer came within the timeout if a CPU was free.
    let slowest = (0..ATTEMPTS).map(|_| {
        let seen = ends.measured(&with(TRIPS, &more));
        let loss = median(&seen, "loss");
        assert!((0.08..0.13).contains(&loss), "{loss}");
        seen["metrics"][0]["percentiles"]["max"].as_f64().unwrap()
    });
    let slowest: Vec<f64> = slowest.collect();
    assert!(slowest.iter().any(|slowest| *slowest < 0.01) || short_of_cpu(), "{slowest:?}");
}

#[test]
fn echoes_by_icmp_are_measured_by_a_group_or_root_and_else_it_is_told_what_is_needed() {
    let Some(ends) = Namespaces::new("ICMP echo") else { return };
    let more = ["--protocol", "icmp", "--message", "56", "--sample-time", "100ms"];
    ends.near("sysctl -qw net.ipv4.ping_group_range='1 0'");
    let by_root = ends.measured(&with(TRIPS, &more));
    assert!(median(&by_root, "rtt") > 0.0);
    assert_eq!(by_root["status"], "ok");
    let whole = ends.network(&with(TRIPS, &more));
    let mut without_right = Command::new("setpriv");
    without_right.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw", "--"]);
    let output = without_right.arg(whole.get_program()).args(whole.get_args()).output().unwrap();
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = run["measurements"][0]["reason"].as_str().unwrap();
    insta::assert_snapshot!(reason);
    ends.near("sysctl -qw net.ipv4.ping_group_range='0 2147483647'");
    let seen = ends.measured(&with(TRIPS, &more));
    assert!(median(&seen, "rtt") > 0.0);
    assert_eq!(seen["status"], "ok");
}

#[test]
fn a_firewall_that_drops_udp_is_named_and_nothing_hangs() {
    let Some(mut ends) = Namespaces::new("UDP dropped by a firewall") else { return };
    ends.serve();
    ends.far(&LOSE_A_TENTH.replace("numgen inc mod 10 0 ", ""));
    let output = ends.network(UDP).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = run["measurements"][0]["reason"].as_str().unwrap();
    insta::assert_snapshot!(reason);
}

/// Starts a measurement of an hour, harms the path, and requires a soon end with exit code 5.
fn ends_soon_after(test: &str, arguments: &[&str], harm: impl Fn(&Namespaces)) {
    let Some(mut ends) = Namespaces::new(test) else { return };
    ends.serve();
    let mut command = ends.network(arguments);
    let child =
        command.args(["--samples", "1", "--sample-time", "50s"]).stdout(Stdio::piped()).spawn().unwrap();
    let counter = || std::fs::read_to_string(format!("/proc/{}/net/dev", ends.server())).unwrap_or_default();
    let packets = |text: &str| {
        let line = text.lines().find(|l| l.trim_start().starts_with("veth0")).map(str::to_owned);
        let words: Vec<u64> =
            line.iter().flat_map(|l| l.split_whitespace().skip(1)).filter_map(|w| w.parse().ok()).collect();
        words.get(1).copied().unwrap_or(0) + words.get(9).copied().unwrap_or(0)
    };
    until("a stream of datagrams", || packets(&counter()) >= 2000);
    harm(&ends);
    let harmed = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["measurements"][0]["status"], "failed", "{run}");
    assert!(harmed.elapsed() < Duration::from_secs(40), "{:?}", harmed.elapsed());
}

fn kill(ends: &Namespaces) {
    kill_process(Pid::from_raw(ends.server().cast_signed()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_far_end_killed_while_datagrams_go_up_is_noticed() {
    ends_soon_after("server killed, UDP up", &["--only", "network.udp", "--rate", "100M"], kill);
}

#[test]
fn a_far_end_killed_while_datagrams_come_down_is_noticed() {
    ends_soon_after(
        "server killed, UDP down",
        &["--only", "network.udp", "--rate", "100M", "--direction", "down"],
        kill,
    );
}

#[test]
fn a_far_end_killed_between_round_trips_is_noticed() {
    ends_soon_after("server killed, round trips", &["--only", "network.latency", "--protocol", "udp"], kill);
}

#[test]
fn a_link_that_goes_down_under_datagrams_is_noticed() {
    ends_soon_after("link down, UDP up", &["--only", "network.udp", "--rate", "100M"], |ends| {
        ends.far("ip link set veth0 down");
    });
}
