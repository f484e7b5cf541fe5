//! Results recorded with the real tools (see `corpus/README.md`), checked against saved machines.

use plimsoll_reference::stated;

use super::*;
use ImpossibleCause::*;

/// Machine, and the name there of the disk of a recording, which is `vda` in its file.
const DESK: &str = "desk vda";
const NVME: &str = "desk nvme0n1";
const SATA: &str = "desk sda";
const GUEST: &str = "guest vda";

/// File and its expected verdict at each of these places.
const FILES: &[(&str, &[(&str, Expected)])] = &[
    ("fio-direct-randread-psync.json", &[(NVME, Right)]),
    ("fio-direct-randread-qd32.json", &[(NVME, Right), (SATA, Open), (GUEST, Open)]),
    ("fio-direct-seqread-uring.json", &[(NVME, Right), (GUEST, Open), (SATA, Impossible(Unexplained))]),
    ("fio-direct-randrw.json", &[(NVME, Right)]),
    ("fio-direct-write.json", &[(NVME, Right)]),
    ("fio-direct-four-jobs.json", &[(NVME, Right)]),
    ("fio-direct-groups.json", &[(NVME, Right), (SATA, Right)]),
    ("fio-direct-plus.json", &[(NVME, Right)]),
    ("fio-direct-trimless-sync.json", &[(SATA, Right)]),
    ("fio-direct-with-notes.json", &[(NVME, Right)]),
    ("fio-2.16-layout.json", &[(SATA, Open)]),
    ("fio-3.42-direct.json", &[(NVME, Right)]),
    ("fio-3.42-mixed.json", &[(NVME, Right)]),
    ("fio-3.42-interrupted.json", &[(SATA, Open)]),
    ("fio-3.42-client.json", &[(NVME, Right), (GUEST, Open)]),
    ("fio-3.42-client-buffered.json", &[(GUEST, Impossible(PageCache))]),
    ("fio-3.42-buffered.json", &[(GUEST, Impossible(PageCache))]),
    ("fio-buffered-loops.json", &[(NVME, Right), (GUEST, Open), (SATA, Impossible(PageCache))]),
    ("fio-buffered-write.json", &[(NVME, Open), (GUEST, Open)]),
    ("fio-buffered-randread.json", &[(GUEST, Impossible(PageCache))]),
    ("fio-buffered-seqread.json", &[(GUEST, Impossible(PageCache))]),
    ("fio-short-cold.json", &[(NVME, Open), (GUEST, Open)]),
    ("fio-short-end-fsync.json", &[(GUEST, Open)]),
    ("fio-short-cold-and-warm.json", &[(GUEST, Open)]),
    ("fio-randwrite-end-fsync.json", &[(NVME, Right), (GUEST, Open)]),
    ("fio-direct-unwritten.json", &[(NVME, Impossible(Unwritten)), (SATA, Impossible(Unwritten))]),
    ("fio-direct-hole.json", &[(GUEST, Impossible(Unwritten))]),
    ("fio-slowed-cold-and-warm.json", &[(GUEST, Impossible(PageCache))]),
    ("fio-fsync-quick-write.json", &[(NVME, Impossible(PageCache))]),
    ("fio-filestat.json", &[(GUEST, Impossible(NoDevice))]),
    ("fio-ftruncate.json", &[(NVME, Impossible(NoDevice))]),
    ("fio-edited-huge.json", &[(NVME, Impossible(Absurd))]),
    ("fio-edited-iops.json", &[(NVME, Impossible(Unexplained))]),
    ("fio-edited-kib.json", &[(GUEST, Open)]),
    ("fio-buffered-mmap.json", &[(GUEST, Impossible(PageCache))]),
    ("fio-buffered-four-jobs.json", &[(GUEST, Impossible(PageCache)), (SATA, Impossible(PageCache))]),
    ("fio-tmpfs.json", &[(GUEST, Impossible(Memory))]),
    ("fio-tmpfs-write.json", &[(DESK, Impossible(Memory))]),
    ("fio-zram.json", &[(DESK, Impossible(Memory))]),
    ("fio-zram-zero.json", &[(DESK, Impossible(Compressed))]),
    ("fio-null.json", &[(DESK, Impossible(NoDevice))]),
    ("fio-loop.json", &[(GUEST, Open)]),
    ("fio-edited-eightfold.json", &[(NVME, Impossible(BitsForBytes))]),
    ("fio-edited-eighth.json", &[(GUEST, Impossible(BitsForBytes))]),
    ("fio-edited-all-bytes.json", &[(GUEST, Impossible(BitsForBytes))]),
    ("iperf3-gigabit-tcp.json", &[(DESK, Right), (GUEST, Open)]),
    ("iperf3-gigabit-reverse.json", &[(DESK, Right)]),
    ("iperf3-gigabit-bidir.json", &[(DESK, Right)]),
    ("iperf3-gigabit-four.json", &[(DESK, Right)]),
    ("iperf3-gigabit-udp.json", &[(DESK, Right)]),
    ("iperf3-3.21-tcp.json", &[(DESK, Right)]),
    ("iperf3-3.21-bidir.json", &[(DESK, Right)]),
    ("iperf3-3.21-udp.json", &[(DESK, Right)]),
    ("iperf3-3.21-udp-reverse.json", &[(DESK, Right)]),
    ("iperf3-3.21-stream.json", &[(DESK, Right)]),
    ("iperf3-3.21-interrupted.json", &[(DESK, Right)]),
    ("iperf3-3.21-interrupted-reverse.json", &[(DESK, Right)]),
    ("iperf3-3.21-lo-v6.json", &[(GUEST, Open), (DESK, Impossible(Loopback))]),
    ("iperf3-lo-udp-paced.json", &[(DESK, Open)]),
    ("iperf3-lo-tcp.json", &[(DESK, Impossible(Loopback)), (GUEST, Impossible(Loopback))]),
    ("iperf3-lo-four.json", &[(GUEST, Impossible(Loopback))]),
    ("iperf3-lo-reverse.json", &[(GUEST, Impossible(Loopback))]),
    ("iperf3-lo-bidir.json", &[(GUEST, Open), (DESK, Impossible(Loopback))]),
    ("iperf3-lo-udp.json", &[(GUEST, Impossible(Loopback))]),
    ("iperf3-own-address.json", &[(DESK, Impossible(Loopback))]),
    ("iperf3-edited-eightfold.json", &[(DESK, Impossible(BitsForBytes))]),
    ("iperf3-edited-bytes.json", &[(GUEST, Impossible(BitsForBytes))]),
    ("iperf3-edited-bidir-sum.json", &[(DESK, Impossible(BothDirections))]),
    ("iperf3-refused.json", &[(DESK, NoFigure)]),
    ("sysbench-cpu-1.txt", &[(DESK, Open)]),
    ("sysbench-cpu-2.txt", &[(DESK, Open)]),
    ("sysbench-edited-threads.txt", &[(DESK, Impossible(ManyThreads))]),
    ("sysbench-memory-1k.txt", &[(GUEST, Impossible(CacheAnswered))]),
    ("sysbench-memory-1m-local.txt", &[(DESK, Impossible(CacheAnswered))]),
    ("sysbench-memory-1g.txt", &[(DESK, Right)]),
    ("sysbench-memory-1g-read.txt", &[(GUEST, Right)]),
    ("sysbench-edited-eightfold.txt", &[(DESK, Impossible(BitsForBytes))]),
    ("sysbench-fileio-direct.txt", &[(DESK, Right), (GUEST, Open)]),
    ("sysbench-fileio-buffered.txt", &[(GUEST, Open)]),
    ("stream-480m.txt", &[(DESK, Right)]),
    ("stream-480m-one.txt", &[(GUEST, Right)]),
    ("stream-between.txt", &[(DESK, Open)]),
    ("stream-small.txt", &[(DESK, Impossible(CacheAnswered)), (GUEST, Impossible(CacheAnswered))]),
    ("stream-edited-eightfold.txt", &[(DESK, Impossible(BitsForBytes))]),
    ("likwid-load-1g.txt", &[(DESK, Right)]),
    ("likwid-load-l1.txt", &[(DESK, Right)]),
    ("likwid-peak.txt", &[(GUEST, Right)]),
    ("hpcc-large.txt", &[(DESK, Right)]),
    ("hpcc-small.txt", &[(DESK, Impossible(CacheAnswered))]),
    ("netperf-gigabit-stream.txt", &[(DESK, Right)]),
    ("netperf-gigabit-rr.txt", &[(DESK, Open)]),
    ("netperf-lo-stream.txt", &[(DESK, Impossible(Loopback))]),
    ("netperf-lo-udp.txt", &[(GUEST, Impossible(Loopback))]),
    ("netperf-lo-keys.txt", &[(GUEST, Open)]),
    ("netperf-edited-eightfold.txt", &[(GUEST, Impossible(BitsForBytes))]),
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
    let all = FILES.iter().flat_map(|(file, places)| places.iter().map(move |found| (file, found)));
    for (file, (place, expected)) in all.clone() {
        let (machine, disk) = place.split_once(' ').unwrap();
        let found = Ok(checked(file, disk, if machine == "desk" { &desk } else { &guest }));
        if !is_as_expected(&found, *expected) {
            wrong.push(format!("{file} on {place}, {expected:?}: {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all.filter(|(_, (_, expected))| matches!(expected, Impossible(_))).count() >= 30);
    let known: BTreeSet<String> = FILES.iter().map(|(file, ..)| (*file).to_owned()).collect();
    assert_eq!(files("corpus"), known, "every file is judged");
    assert!(known.len() >= 40);
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
