//! Datagrams and round trips between two network namespaces, over shaped, lossy or cut links.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::namespaces::{FAR, Link, first};
use crate::network::Serving;
use crate::support::{
    json, lossy, median, metric, reason, run_of, short_of_cpu, signal, skip, start, until, warns,
};

const UDP: &str = "--only network.udp --samples 1";
const TRIPS: &str = "--only network.latency --samples 1";

/// Every tenth UDP packet that comes to an end is dropped.
const LOSE_A_TENTH: &str = "nft add table inet lossy; \
    nft add chain inet lossy in '{ type filter hook input priority 0; }'; \
    nft add rule inet lossy in meta l4proto udp numgen inc mod 10 0 drop";

#[test]
fn the_loss_of_a_lossy_path_is_the_loss_that_is_reported() {
    let Some((link, server)) = Link::served(&[]) else { return };
    for (end, direction) in [(&link.far, "up"), (&link.near, "down")] {
        end.must(LOSE_A_TENTH);
        // A rate at which the sender makes no batches: a batch is one packet for the rule.
        for (size, rate) in [("1", "50k"), ("1000", "2M")] {
            let how = format!("--message {size} --direction {direction} --rate {rate} --sample-time 400ms");
            let seen = link.measured(&server, &format!("{UDP} {how}"), 0);
            let loss = median(&seen, "loss");
            assert!((loss - 0.1).abs() < 0.02, "{direction}, {size} bytes: {loss}");
            assert_eq!(seen["conditions"]["duplicates"], 0.0, "{seen}");
        }
    }
    // Lost datagrams are in no time; the slowest answer came within the timeout if a CPU was free.
    link.near.must("nft delete table inet lossy");
    let trips = format!("{TRIPS} --protocol udp --message 100 --timeout 5ms --sample-time 500ms");
    let slowest = (0..ATTEMPTS).map(|_| {
        let seen = link.measured(&server, &trips, 0);
        let loss = median(&seen, "loss");
        assert!((0.08..0.13).contains(&loss), "{loss}");
        seen["metrics"][0]["percentiles"]["max"].as_f64().unwrap()
    });
    let slowest: Vec<f64> = slowest.collect();
    assert!(slowest.iter().any(|slowest| *slowest < 0.01) || short_of_cpu(), "{slowest:?}");
}

/// A rate with one datagram per sample is not exceeded.
#[test]
fn few_datagrams_are_no_more_than_the_rate_asked_for() {
    for (rate, most) in [("1", 1.0), ("20k", 20e3)] {
        let how = format!("--rate {rate} --message 1K --samples=2 --sample-time=50ms");
        let seen = &run_of(&format!("network --only network.udp {how}"))["measurements"][0];
        let (goodput, offered) = (median(seen, "goodput"), seen["conditions"]["offered"].as_f64().unwrap());
        assert!(goodput > 0.0 && goodput <= most * 1.000_001, "{rate}: {goodput}");
        assert!(offered <= most * 1.000_001, "{rate}: {offered}");
    }
}

#[test]
fn twice_what_a_shaped_link_carries_loses_half() {
    let Some(link) = Link::new() else { return };
    link.near.must("tc qdisc add dev near0 root tbf rate 100mbit burst 32k latency 10ms");
    let more = format!("{UDP} --message 1400 --rate 200M --sample-time 1s");
    let seen = link.measured(&link.server(&[]), &more, 0);
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
    let Some((link, server)) = Link::served(&[]) else { return };
    for latency in ["5ms", "60ms"] {
        let tbf = format!("tc qdisc replace dev near0 root tbf rate 50mbit burst 16k latency {latency}");
        link.near.must(&tbf);
        let more = format!("--server {FAR} {UDP} --message 1000 --search lossless --sample-time 2s");
        // 1000 of the 1042 bytes that tbf counts. Before, a queue of 60 ms took in 3 % of a second
        // more.
        let most = 50e6 * 1000.0 / 1042.0;
        // A lower bound: pauses of sender or receiver lower it, and under a quota there may be no
        // rate.
        let least = if short_of_cpu() { 0.1 } else { 0.6 } * most;
        let (mut found, mut without, mut was_short) = (Vec::new(), 0, false);
        while found.len() + without < ATTEMPTS && found.last().is_none_or(|goodput| *goodput < least) {
            let output = link.client(&server, &more).output().unwrap();
            let (stated, code) = (lossy(&output.stderr), output.status.code());
            was_short |= short_of_cpu();
            if code == Some(4) && stated.contains("every rate that was tried") {
                without += 1;
                continue;
            }
            assert_eq!(code, Some(0), "{stated}");
            let seen = &json(&lossy(&output.stdout))["measurements"][0];
            assert_eq!(median(seen, "loss"), 0.0);
            found.push(median(seen, "goodput"));
            assert!(found.iter().all(|goodput| *goodput < 1.02 * most), "{latency}: {found:?} of {most}");
        }
        if was_short && !found.iter().any(|goodput| *goodput >= least) {
            return skip("other work stops both ends for longer than the queue lasts");
        }
        assert!(found.iter().any(|goodput| *goodput >= least), "{latency}: {found:?} of {most}");
    }
}

/// Tokens of 8 MB and then 64 Mbit/s: of a second, half is burst. A new one is full.
const BUCKET: &str = "tc qdisc del dev near0 root 2>/dev/null || true; \
    tc qdisc replace dev near0 root tbf rate 64mbit burst 8mb latency 20ms";

#[test]
fn a_token_bucket_is_named_and_the_figure_is_its_base_rate() {
    let Some((link, server)) = Link::served(&[]) else { return };
    for case in ["network.udp --message 1400", "network.tcp"] {
        link.near.must(BUCKET);
        let seen = link.measured(&server, &format!("--only {case} --samples 2 --sample-time 1s"), 0);
        let goodput = median(&seen, "goodput");
        // With all tokens it would be twice as much; stalls of a busy machine take some.
        assert!((0.7 * 64e6..1.05 * 64e6).contains(&goodput), "{goodput}: {seen}");
        let bucket = &seen["achieved"]["token_bucket_up"];
        assert!(bucket["burst_rate"].as_f64().unwrap() > 1.2 * 64e6, "{bucket}");
        assert!((2e6..10e6).contains(&bucket["burst_bytes"].as_f64().unwrap()), "{bucket}");
        assert!(warns(&seen, "token-bucket"), "{seen}");
        assert_eq!(seen["metrics"][0]["limit"]["source"], "documented");
    }
}

#[test]
fn a_shaper_of_either_end_is_named_and_is_the_limit() {
    let Some(link) = Link::new() else { return };
    link.near.must(
        "tc qdisc add dev near0 root handle 1: htb default 10; \
         tc class add dev near0 parent 1: classid 1:1 htb rate 90mbit quantum 1514; \
         tc class add dev near0 parent 1:1 classid 1:10 htb rate 10mbit ceil 80mbit quantum 1514",
    );
    link.far.must("tc qdisc add dev far0 root tbf rate 40mbit burst 16k latency 20ms");
    let server = link.server(&[]);
    for (direction, rate) in [("up", 80e6), ("down", 40e6), ("both", 120e6)] {
        let line = format!("--direction {direction} --streams 2 --samples 1 --sample-time 1s");
        let seen = link.measured(&server, &line, 0);
        let goodput = metric(&seen, "goodput");
        let limit = &goodput["limit"];
        let value = limit["value"].as_f64().unwrap();
        assert_eq!(limit["source"], "documented");
        assert!((value / (rate * 1448.0 / 1514.0) - 1.0).abs() < 1e-6, "{direction}: {value}");
        let share = goodput["of_limit"].as_f64().unwrap();
        assert!(share < 1.05, "{direction}: {share}");
        assert!(share <= 0.9 || warns(&seen, "shaped"), "{direction}: {seen}");
    }
    let trips = link.measured(&server, &format!("{TRIPS} --protocol udp --sample-time 100ms"), 0);
    assert!(!warns(&trips, "shaped"));
}

#[test]
fn echoes_by_icmp_are_measured_by_a_group_or_root_and_else_it_is_told_what_is_needed() {
    let Some(link) = Link::new() else { return };
    let server = Serving::here(&[]);
    let line = format!("--server {FAR} {TRIPS} --protocol icmp --message 56 --sample-time 100ms");
    let is_measured = || {
        let seen = link.measured(&server, &line, 0);
        assert!(median(&seen, "rtt") > 0.0);
        assert_eq!(seen["status"], "ok");
    };
    link.near.must("sysctl -qw net.ipv4.ping_group_range='1 0'");
    is_measured();
    let whole = link.client(&server, &line);
    let mut without_right = Command::new("setpriv");
    without_right.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw", "--"]);
    let output = without_right.arg(whole.get_program()).args(whole.get_args()).output().unwrap();
    insta::assert_snapshot!(reason(&json(&lossy(&output.stdout))["measurements"][0]));
    link.near.must("sysctl -qw net.ipv4.ping_group_range='0 2147483647'");
    is_measured();
}

type Harm<'a> = &'a dyn Fn(&Serving);

/// Measurements of an hour end soon with exit code 5 after the path was harmed.
#[test]
fn a_server_that_is_killed_and_a_link_that_goes_down_under_datagrams_are_noticed() {
    let Some(link) = Link::new() else { return };
    let kill = |server: &Serving| signal(server.child.id(), Signal::KILL);
    let cut = |_: &Serving| link.far.must("ip link set far0 down");
    let harms: [(&str, Harm<'_>); 4] = [
        ("network.udp --rate 100M", &kill),
        ("network.udp --rate 100M --direction down", &kill),
        ("network.latency --protocol udp", &kill),
        ("network.udp --rate 100M", &cut),
    ];
    for (case, harm) in harms {
        let server = link.server(&[]);
        let before = link.far.packets("far0");
        let line = format!("--server {FAR} --only {case} --samples 1 --sample-time 50s");
        let client = start(&mut link.client(&server, &line));
        until("a stream of datagrams", || link.far.packets("far0") >= before + 2000);
        harm(&server);
        let harmed = Instant::now();
        let seen = first(client, 5);
        assert_eq!(seen["status"], "failed", "{case}: {seen}");
        assert!(harmed.elapsed() < Duration::from_secs(40), "{case}: {:?}", harmed.elapsed());
    }
}
