//! Results recorded with the real tools (see `corpus/README.md`), checked against saved machines.

use plimsoll_reference::stated;

use super::*;
use ImpossibleCause::*;

/// File, machine, name of the recording's disk there, expected verdict.
const FILES: &[(&str, &str, &str, Expected)] = &[
    ("fio-direct-randread-psync.json", "desk", "nvme0n1", Right),
    ("fio-direct-randread-qd32.json", "desk", "nvme0n1", Right),
    ("fio-direct-randread-qd32.json", "desk", "sda", Open),
    ("fio-direct-randread-qd32.json", "guest", "vda", Open),
    ("fio-direct-seqread-uring.json", "desk", "nvme0n1", Right),
    ("fio-direct-seqread-uring.json", "guest", "vda", Open),
    ("fio-direct-seqread-uring.json", "desk", "sda", Impossible(Unexplained)),
    ("fio-direct-randrw.json", "desk", "nvme0n1", Right),
    ("fio-direct-write.json", "desk", "nvme0n1", Right),
    ("fio-direct-four-jobs.json", "desk", "nvme0n1", Right),
    ("fio-direct-groups.json", "desk", "nvme0n1", Right),
    ("fio-direct-groups.json", "desk", "sda", Right),
    ("fio-direct-plus.json", "desk", "nvme0n1", Right),
    ("fio-direct-trimless-sync.json", "desk", "sda", Right),
    ("fio-direct-with-notes.json", "desk", "nvme0n1", Right),
    ("fio-2.16-layout.json", "desk", "sda", Open),
    ("fio-3.42-direct.json", "desk", "nvme0n1", Right),
    ("fio-3.42-mixed.json", "desk", "nvme0n1", Right),
    ("fio-3.42-interrupted.json", "desk", "sda", Open),
    ("fio-3.42-client.json", "desk", "nvme0n1", Right),
    ("fio-3.42-client.json", "guest", "vda", Open),
    ("fio-3.42-client-buffered.json", "guest", "vda", Impossible(PageCache)),
    ("fio-3.42-buffered.json", "guest", "vda", Impossible(PageCache)),
    ("fio-buffered-loops.json", "desk", "nvme0n1", Right),
    ("fio-buffered-loops.json", "guest", "vda", Open),
    ("fio-buffered-write.json", "desk", "nvme0n1", Open),
    ("fio-buffered-loops.json", "desk", "sda", Impossible(PageCache)),
    ("fio-buffered-randread.json", "guest", "vda", Impossible(PageCache)),
    ("fio-buffered-seqread.json", "guest", "vda", Impossible(PageCache)),
    ("fio-buffered-write.json", "guest", "vda", Open),
    ("fio-short-cold.json", "desk", "nvme0n1", Open),
    ("fio-short-cold.json", "guest", "vda", Open),
    ("fio-short-end-fsync.json", "guest", "vda", Open),
    ("fio-short-cold-and-warm.json", "guest", "vda", Open),
    ("fio-randwrite-end-fsync.json", "desk", "nvme0n1", Right),
    ("fio-randwrite-end-fsync.json", "guest", "vda", Open),
    ("fio-direct-unwritten.json", "desk", "nvme0n1", Impossible(Unwritten)),
    ("fio-direct-unwritten.json", "desk", "sda", Impossible(Unwritten)),
    ("fio-direct-hole.json", "guest", "vda", Impossible(Unwritten)),
    ("fio-slowed-cold-and-warm.json", "guest", "vda", Impossible(PageCache)),
    ("fio-fsync-quick-write.json", "desk", "nvme0n1", Impossible(PageCache)),
    ("fio-filestat.json", "guest", "vda", Impossible(NoDevice)),
    ("fio-ftruncate.json", "desk", "nvme0n1", Impossible(NoDevice)),
    ("fio-edited-huge.json", "desk", "nvme0n1", Impossible(Absurd)),
    ("fio-edited-iops.json", "desk", "nvme0n1", Impossible(Unexplained)),
    ("fio-edited-kib.json", "guest", "vda", Open),
    ("fio-buffered-mmap.json", "guest", "vda", Impossible(PageCache)),
    ("fio-buffered-four-jobs.json", "guest", "vda", Impossible(PageCache)),
    ("fio-buffered-four-jobs.json", "desk", "sda", Impossible(PageCache)),
    ("fio-tmpfs.json", "guest", "vda", Impossible(Memory)),
    ("fio-tmpfs-write.json", "desk", "vda", Impossible(Memory)),
    ("fio-zram.json", "desk", "vda", Impossible(Memory)),
    ("fio-zram-zero.json", "desk", "vda", Impossible(Compressed)),
    ("fio-null.json", "desk", "vda", Impossible(NoDevice)),
    ("fio-loop.json", "guest", "vda", Open),
    ("fio-edited-eightfold.json", "desk", "nvme0n1", Impossible(BitsForBytes)),
    ("fio-edited-eighth.json", "guest", "vda", Impossible(BitsForBytes)),
    ("fio-edited-all-bytes.json", "guest", "vda", Impossible(BitsForBytes)),
    ("iperf3-gigabit-tcp.json", "desk", "", Right),
    ("iperf3-gigabit-reverse.json", "desk", "", Right),
    ("iperf3-gigabit-bidir.json", "desk", "", Right),
    ("iperf3-gigabit-four.json", "desk", "", Right),
    ("iperf3-gigabit-udp.json", "desk", "", Right),
    ("iperf3-gigabit-tcp.json", "guest", "", Open),
    ("iperf3-3.21-tcp.json", "desk", "", Right),
    ("iperf3-3.21-bidir.json", "desk", "", Right),
    ("iperf3-3.21-udp.json", "desk", "", Right),
    ("iperf3-3.21-udp-reverse.json", "desk", "", Right),
    ("iperf3-3.21-stream.json", "desk", "", Right),
    ("iperf3-3.21-interrupted.json", "desk", "", Right),
    ("iperf3-3.21-interrupted-reverse.json", "desk", "", Right),
    ("iperf3-3.21-lo-v6.json", "guest", "", Open),
    ("iperf3-3.21-lo-v6.json", "desk", "", Impossible(Loopback)),
    ("iperf3-lo-udp-paced.json", "desk", "", Open),
    ("iperf3-lo-tcp.json", "desk", "", Impossible(Loopback)),
    ("iperf3-lo-tcp.json", "guest", "", Impossible(Loopback)),
    ("iperf3-lo-four.json", "guest", "", Impossible(Loopback)),
    ("iperf3-lo-reverse.json", "guest", "", Impossible(Loopback)),
    ("iperf3-lo-bidir.json", "guest", "", Open),
    ("iperf3-lo-bidir.json", "desk", "", Impossible(Loopback)),
    ("iperf3-lo-udp.json", "guest", "", Impossible(Loopback)),
    ("iperf3-own-address.json", "desk", "", Impossible(Loopback)),
    ("iperf3-edited-eightfold.json", "desk", "", Impossible(BitsForBytes)),
    ("iperf3-edited-bytes.json", "guest", "", Impossible(BitsForBytes)),
    ("iperf3-edited-bidir-sum.json", "desk", "", Impossible(BothDirections)),
    ("iperf3-refused.json", "desk", "", NoFigure),
    ("sysbench-cpu-1.txt", "desk", "", Open),
    ("sysbench-cpu-2.txt", "desk", "", Open),
    ("sysbench-edited-threads.txt", "desk", "", Impossible(ManyThreads)),
    ("sysbench-memory-1k.txt", "guest", "", Impossible(CacheAnswered)),
    ("sysbench-memory-1m-local.txt", "desk", "", Impossible(CacheAnswered)),
    ("sysbench-memory-1g.txt", "desk", "", Right),
    ("sysbench-memory-1g-read.txt", "guest", "", Right),
    ("sysbench-edited-eightfold.txt", "desk", "", Impossible(BitsForBytes)),
    ("sysbench-fileio-direct.txt", "desk", "", Right),
    ("sysbench-fileio-direct.txt", "guest", "", Open),
    ("sysbench-fileio-buffered.txt", "guest", "", Open),
    ("stream-480m.txt", "desk", "", Right),
    ("stream-480m-one.txt", "guest", "", Right),
    ("stream-between.txt", "desk", "", Open),
    ("stream-small.txt", "desk", "", Impossible(CacheAnswered)),
    ("stream-small.txt", "guest", "", Impossible(CacheAnswered)),
    ("stream-edited-eightfold.txt", "desk", "", Impossible(BitsForBytes)),
    ("likwid-load-1g.txt", "desk", "", Right),
    ("likwid-load-l1.txt", "desk", "", Right),
    ("likwid-peak.txt", "guest", "", Right),
    ("hpcc-large.txt", "desk", "", Right),
    ("hpcc-small.txt", "desk", "", Impossible(CacheAnswered)),
    ("netperf-gigabit-stream.txt", "desk", "", Right),
    ("netperf-gigabit-rr.txt", "desk", "", Open),
    ("netperf-lo-stream.txt", "desk", "", Impossible(Loopback)),
    ("netperf-lo-udp.txt", "guest", "", Impossible(Loopback)),
    ("netperf-lo-keys.txt", "guest", "", Open),
    ("netperf-edited-eightfold.txt", "guest", "", Impossible(BitsForBytes)),
];

fn desk() -> Saved {
    Saved::unpack("desk.tree")
}

fn guest() -> Saved {
    Saved::of(Fixture::open("firecracker-zen4").unwrap())
}

fn checked(file: &str, disk: &str, saved: &Saved) -> Checked {
    checked_text(file, &text("corpus", file).replace("\"vda\"", &format!("\"{disk}\"")), saved)
}

fn checked_text(file: &str, text: &str, saved: &Saved) -> Checked {
    let stated = stated::read(text, None).unwrap_or_else(|why| panic!("{file}: {why}"));
    assert!(file.starts_with(stated.tool.split('-').next().unwrap()), "{file} is taken for {}", stated.tool);
    saved.check(&stated)
}

#[test]
fn nothing_right_is_accused_and_what_is_wrong_is_named_with_its_cause() {
    let (desk, guest) = (desk(), guest());
    let mut wrong = Vec::new();
    for (file, machine, disk, expected) in FILES {
        let found = Ok(checked(file, disk, if *machine == "desk" { &desk } else { &guest }));
        if !is_as_expected(&found, *expected) {
            wrong.push(format!("{file} on {machine} {disk}, {expected:?}: {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(FILES.iter().filter(|(.., expected)| matches!(expected, Impossible(_))).count() >= 30);
}

#[test]
fn only_what_the_file_shows_of_a_job_is_held_against_it() {
    let guest = guest();
    let accused = |file: &str| -> Vec<String> {
        let checked = checked(file, "vda", &guest);
        assert!(!checked.passes(), "{file}");
        let rows = checked.rows.iter().filter(|row| row.verdict == Plausibility::Impossible);
        rows.map(|row| row.name.clone()).collect()
    };
    let warm = accused("fio-slowed-cold-and-warm.json");
    assert!(warm.iter().any(|name| name.starts_with("warm: ")), "{warm:?}");
    assert!(!warm.iter().any(|name| name.starts_with("cold: ")), "{warm:?}");
    // The rates include the fsync, the latency does not.
    assert_eq!(accused("fio-fsync-quick-write.json"), ["fallocated: write latency"]);
}

#[test]
fn a_file_that_contradicts_itself_does_not_pass() {
    let desk = desk();
    for file in ["fio-edited-iops.json", "fio-edited-kib.json"] {
        let checked = checked(file, "nvme0n1", &desk);
        assert!(checked.count(Plausibility::Fine) > 0 && !checked.passes(), "{file}");
        assert!(checked.rows.iter().any(|row| row.contradicts_itself), "{file}");
    }
}

#[test]
fn what_is_no_possible_value_is_impossible_for_every_tool() {
    let desk = desk();
    let figures: [(&str, &[&str]); 9] = [
        ("stream-480m.txt", &["Scale:"]),
        ("sysbench-cpu-1.txt", &["events per second:"]),
        ("sysbench-memory-1g.txt", &["MiB transferred ("]),
        ("sysbench-fileio-direct.txt", &["reads/s:"]),
        ("likwid-load-1g.txt", &["MByte/s:"]),
        ("hpcc-large.txt", &["\nHPL_Tflops="]),
        ("netperf-lo-keys.txt", &["REMOTE_RECV_THROUGHPUT="]),
        ("fio-direct-randread-psync.json", &["\"iops\" :"]),
        ("iperf3-gigabit-tcp.json", &["\"sum_received\":", "\"bits_per_second\":"]),
    ];
    for (file, before) in figures {
        assert_absurd_is_found(&desk, &text("corpus", file), before);
    }
}

#[test]
fn absurdly_many_threads_are_survived() {
    let text = text("corpus", "stream-480m.txt");
    let counted = "Number of Threads counted = 2";
    assert!(text.contains(counted), "{text}");
    let text = text.replace(counted, "Number of Threads counted = 18446744073709551615");
    assert!(!checked_text("stream-480m.txt", &text, &desk()).passes());
}

#[test]
fn every_file_of_the_corpus_is_judged_and_there_are_enough() {
    let known: BTreeSet<String> = FILES.iter().map(|(file, ..)| (*file).to_owned()).collect();
    assert_eq!(files("corpus"), known);
    assert!(known.len() >= 40);
}

#[test]
fn a_file_of_another_machine_is_not_judged_by_its_limits() {
    let mut desk = desk();
    let verdict = |desk: &Saved| checked("iperf3-gigabit-tcp.json", "", desk).rows.remove(0);
    assert_eq!(verdict(&desk).verdict, Plausibility::Fine);
    desk.is_named = false;
    let row = verdict(&desk);
    assert_eq!(row.verdict, Plausibility::Unjudged);
    assert!(row.reason.contains("it says box, this is desk"), "{}", row.reason);
    // The caches of another machine do not count either.
    let cached = checked("hpcc-small.txt", "", &desk);
    assert_eq!(cached.count(Plausibility::Impossible), 0, "{:?}", cached.rows);
    desk.is_named = true;
    desk.machine.kernel.architecture = Some("aarch64".to_owned());
    assert_eq!(verdict(&desk).verdict, Plausibility::Unjudged);
}
