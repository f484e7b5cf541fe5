//! Synthetic results of network, CPU and memory tools on a desktop with 2 CPUs and 1 Gbit/s.

use super::*;
use ImpossibleCause::{Absurd, CacheAnswered, Loopback, NotDone, Unexplained};

/// File and expected verdict of each of its results.
const CASES: &[(&str, &[Expected])] = &[
    ("dd.txt", &[Unread("dd")]),
    ("hpcc-appended.txt", &[Fine(58e9), Impossible(Unexplained)]),
    ("hpcc-failed.txt", &[Unjudged("Success=0")]),
    ("hpl-out.txt", &[Impossible(Unexplained)]),
    ("iperf-full-duplex.txt", &[Fine(936e6)]),
    ("iperf-lo.csv", &[Impossible(Loopback)]),
    ("iperf-tcp.txt", &[Fine(941e6)]),
    ("iperf-udp.txt", &[Fine(860e6)]),
    ("iperf3-jumbo-segments.json", &[Fine(989e6)]),
    ("iperf3-macos.json", &[Unjudged("Darwin")]),
    ("iperf3-omit-counted-in-the-sum.json", &[Contradicted("intervals")]),
    ("iperf3-received-more-than-sent.json", &[Contradicted("sent")]),
    ("iperf3-text-3.1.txt", &[Unread("-J")]),
    ("iperf3-two-runs-first-impossible.json", &[Impossible(Unexplained), Fine(931e6)]),
    ("iperf3-udp-all-lost.json", &[Unjudged("lost")]),
    ("iperf3-udp-server-312.json", &[Fine(60e6)]),
    ("iperf3-uname-a.json", &[Fine(931e6)]),
    ("lat_mem_rd.txt", &[Unjudged("fetched ahead")]),
    ("mbw-256.txt", &[Fine(13.42e9)]),
    ("mbw-4.txt", &[Impossible(CacheAnswered)]),
    ("netperf-P0.txt", &[Unread("-P 0")]),
    ("netperf-omni-csv.txt", &[Fine(935.96e6)]),
    ("netperf-omni-keys.txt", &[Fine(935.96e6)]),
    ("netperf-udp-stream.txt", &[Fine(943.3e6)]),
    ("osu-bw.txt", &[Unjudged("on one machine")]),
    ("osu-latency.txt", &[Unjudged("on one machine")]),
    ("ping-german.txt", &[Unjudged("round trip")]),
    ("ping.txt", &[Unjudged("round trip")]),
    ("sockperf-ping-pong.txt", &[Unjudged("round trip")]),
    ("stream-inf.txt", &[Impossible(Absurd)]),
    ("stream-two-runs.txt", &[Fine(9e9), Impossible(CacheAnswered)]),
    ("sysbench-cpu-26M.txt", &[Impossible(NotDone)]),
];

/// Returns the desktop machine's verdicts on each result of a text.
fn checked(text: &str) -> Vec<Result<Checked, String>> {
    Saved::unpack("desk.tree").check_all(text)
}

#[test]
fn a_limit_of_the_user_binds() {
    let limits = |speed: &str| {
        format!(
            "[[limit]]\nmatch = \"network.tcp\"\nmetric = \"goodput\"\nunit = \"bit/s\"\nvalue = {speed}\nkind = \"ceiling\"\n\
            source = \"data sheet\"\n"
        )
    };
    let text =
        "Client connecting to 192.0.2.2, TCP port 5001\n[  3]  0.0-10.0 sec  1.00 GBytes   860 Mbits/sec\n";
    let row = |text: &str, limits: &str| {
        let saved = Saved { limits: UserLimits::parse(limits).unwrap(), ..Saved::unpack("desk.tree") };
        saved.check_all(text).remove(0).unwrap().rows.remove(0)
    };
    for (speed, verdict) in [("1e9", Plausibility::Fine), ("5e8", Plausibility::Impossible)] {
        let row = row(text, &limits(speed));
        assert_eq!((row.verdict, row.limit.map(|limit| limit.value)), (verdict, speed.parse().ok()));
    }
    // Verdicts on loopback and on datagrams with unknown loss do not depend on the limit.
    let loopback = text.replace(
        "[  3]  0.0",
        "[  3] local 127.0.0.1 port 42012 connected with 127.0.0.1 port 5001\n[  3]  0.0",
    );
    assert_eq!(row(&loopback, &limits("5e8")).cause, Some(Loopback));
    let sent = text.replace("TCP port", "UDP port");
    let udp = limits("5e8").replace("network.tcp", "network.udp");
    assert_eq!(row(&sent, &udp).verdict, Plausibility::Unjudged);
}

#[test]
fn each_case_has_its_verdict() {
    for (file, expected) in CASES {
        let found = checked(&text("tools", file));
        assert_eq!(found.len(), expected.len(), "{file}: {found:#?}");
        for (found, expected) in found.iter().zip(*expected) {
            assert!(is_as_expected(found, *expected), "{file}: expected {expected:?}, found {found:#?}");
        }
    }
    let known: BTreeSet<String> = CASES.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(files("tools"), known, "every file is in the table");
}

/// File and the text before a figure in it.
const FIGURES: &[(&str, &str)] = &[
    ("hpl-out.txt", " 15.00 "),
    ("iperf-tcp.txt", "1.10 GBytes"),
    ("iperf-udp.txt", "1.00 GBytes"),
    ("iperf-lo.csv", ",29401856000,"),
    ("lat_mem_rd.txt", "64.00000"),
    ("mbw-256.txt", "AVG\tMethod: MEMCPY\tElapsed: 0.04000\tMiB: 256.00000\tCopy:"),
    ("netperf-omni-csv.txt", "Remote Recv Size\n"),
    ("osu-bw.txt", "4194304"),
    ("osu-latency.txt", "4194304"),
    ("ping.txt", "0.142/"),
    ("sockperf-ping-pong.txt", "Latency is"),
    ("sysbench-cpu-26M.txt", "events per second:"),
];

#[test]
fn a_value_that_no_machine_has_is_impossible_for_every_tool() {
    let desk = Saved::unpack("desk.tree");
    for (file, before) in FIGURES {
        assert_absurd_is_found(&desk, &text("tools", file), &[*before]);
    }
}

#[test]
fn a_system_that_does_not_fit_in_memory_was_solved_by_another_machine() {
    let text = text("tools", "hpl-out.txt");
    let larger = text.replace(
        "WR11C2R4       30000   256     1     2              15.00",
        "WR11C2R4 141312 256 1 2 1567.7",
    );
    assert_ne!(larger, text);
    let found = checked(&larger);
    assert!(is_as_expected(&found[0], Unjudged("memory")), "{found:#?}");
}

#[test]
fn every_result_of_a_file_is_judged_for_every_tool() {
    let all: Vec<String> = FIGURES.iter().map(|(file, _)| text("tools", file)).collect();
    let rows = |text: &str| checked(text).into_iter().flatten().map(|found| found.rows.len()).sum::<usize>();
    for ((file, _), text) in FIGURES.iter().zip(&all) {
        assert_eq!(rows(&text.repeat(3)), 3 * rows(text), "{file}");
    }
    let each: usize = all.iter().map(|text| rows(text)).sum();
    assert_eq!(rows(&all.concat()), each);
}
