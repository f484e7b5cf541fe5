//! Recorded output of every tool, whole and damaged.

use std::path::Path;

use plimsoll_machine::fixture::Fixture;
use plimsoll_machine::{Machine, Root};
use plimsoll_model::case::Case;
use plimsoll_model::sample::Offer;
use plimsoll_units::quantity::Unit;

use super::REF_TOOLS;
use crate::{Invocation, InvocationInput, Match, RefTool, ToolFigure, find};

/// Recorded output of a tool for a case.
struct Recording {
    tool: &'static str,
    file: &'static str,
    case: &'static str,
    /// The figure in plimsoll's unit.
    value: f64,
}

macro_rules! recordings {
    ($($tool:literal, $file:literal, $case:literal, $value:expr;)*) => {
        &[$(Recording { tool: $tool, file: $file, case: $case, value: $value }),*]
    };
}

const MIB: f64 = (1 << 20) as f64;

const RECORDINGS: &[Recording] = recordings![
    "likwid-bench", "likwid-5.2.2-peakflops_avx512_fma.txt", "cpu.peak/op=fma/type=f64/isa=avx512/threads=2", 54_247.48e6;
    "likwid-bench", "likwid-5.2.2-copy_mem_avx512.txt", "memory.bandwidth/op=copy/size=64000000/threads=1", 21_319.77e6;
    "xhpl", "xhpl-2.0-1000.txt", "cpu.linpack/n=1000/nb=192/threads=1", 10.51e9;
    "xhpl", "xhpl-2.0-2000.txt", "cpu.linpack/n=2000/nb=192/threads=2", 8574000000.0;
    "hpcc", "hpcc-1.5.0-1000.txt", "cpu.linpack/n=1000/nb=192/threads=1", 11.63e9;
    "hpcc", "hpcc-1.5.0-2000.txt", "cpu.linpack/n=2000/nb=192/threads=2", 15000000000.0;
    "hpcc", "hpcc-1.5.0-1000.txt", "memory.bandwidth/op=triad/size=8000000/threads=1", 70.4045e9;
    "hpcc", "hpcc-1.5.0-two-processes.txt", "memory.bandwidth/op=copy/size=10666656/threads=2", 2.0 * 42.460_267e9;
    "hpcc", "hpcc-1.5.0-two-processes.txt", "memory.bandwidth/op=add/size=15999984/threads=2", 2.0 * 41.038_122e9;
    "xlinpack", "xlinpack-published-1.txt", "cpu.linpack/n=10000/threads=4", 163.2364e9 * (2e4 / 3.0 + 1.5) / (2e4 / 3.0 + 2.0);
    "xlinpack", "xlinpack-published-2.txt", "cpu.linpack/n=13460/threads=24", 165.0621e9 * (2.0 / 3.0 * 13460.0 + 1.5) / (2.0 / 3.0 * 13460.0 + 2.0);
    "sysbench", "sysbench-1.0.20-cpu-1.txt", "cpu.peak/op=div/type=f64/threads=1", 1955.31 * 117_526.0;
    "sysbench", "sysbench-1.0.20-cpu-2.txt", "cpu.peak/op=div/type=f64/threads=2", 242755829.3;
    "openssl", "openssl-3.0.19-aes-128-gcm-1.txt", "cpu.crypto/op=aes-128-gcm/block=16K/threads=1", 54_473.0 * 16_384.0;
    "openssl", "openssl-3.0.19-aes-256-ctr-1.txt", "cpu.crypto/op=aes-256-ctr/block=8K/threads=1", 195_243.0 * 8192.0 / 1.01;
    "openssl", "openssl-3.0.19-sha256-2.txt", "cpu.crypto/op=sha256/block=64/threads=2", (730_838.0 + 713_633.0 / 1.01) * 64.0;
    "openssl", "openssl-3.0.19-chacha20-poly1305-2.txt", "cpu.crypto/op=chacha20-poly1305/block=16K/threads=2", (68_544.0 / 1.03 + 41_781.0) * 16_384.0;
    "perf", "perf-6.1-syscall.txt", "os.syscall/op=getppid/threads=1", 0.214_720e-6;
    "perf", "perf-6.1-pipe.txt", "os.switch/op=pipe/between=processes/distance=same", 5.630_080e-6 / 2.0;
    "perf", "perf-6.1-pipe-threads.txt", "os.switch/op=pipe/between=threads/distance=same", 5.272_900e-6 / 2.0;
    "lat_syscall", "lmbench-3.0-a9-lat_syscall-null.txt", "os.syscall/op=getppid/threads=1", 0.1573e-6;
    "lat_syscall", "lmbench-3.0-a9-lat_syscall-read.txt", "os.syscall/op=read/threads=1", 0.2796e-6;
    "lat_syscall", "lmbench-3.0-a9-lat_syscall-write.txt", "os.syscall/op=write/threads=1", 0.3357e-6;
    "lat_pipe", "lmbench-3.0-a9-lat_pipe-1.txt", "os.switch/op=pipe/between=processes/distance=same", 5.1233e-6 / 2.0;
    "lat_pipe", "lmbench-3.0-a9-lat_pipe-2.txt", "os.switch/op=pipe/between=processes/distance=same", 5.0422e-6 / 2.0;
    "lat_ctx", "lmbench-3.0-a9-lat_ctx-1.txt", "os.switch/op=pipe/between=processes/distance=same", 2.10e-6;
    "lat_ctx", "lmbench-3.0-a9-lat_ctx-2.txt", "os.switch/op=pipe/between=processes/distance=same", 1.33e-6;
    "lat_proc", "lmbench-3.0-a9-lat_proc-1.txt", "os.process/op=fork", 208.9734e-6;
    "lat_proc", "lmbench-3.0-a9-lat_proc-2.txt", "os.process/op=fork", 160.0422e-6;
    "lat_pagefault", "lmbench-3.0-a9-lat_pagefault-1.txt", "os.fault/op=file/threads=1", 0.0731e-6;
    "lat_pagefault", "lmbench-3.0-a9-lat_pagefault-2.txt", "os.fault/op=file/threads=1", 0.0530e-6;
    "cyclictest", "cyclictest-2.40-sleep.txt", "os.wake/op=sleep/interval=1ms/threads=1", 105e-6;
    "cyclictest", "cyclictest-2.40-fifo.txt", "os.wake/op=fifo/interval=1ms/threads=1", 49e-6;
    "java", "java-17-cpu-fma.txt", "cpu.peak/op=fma/type=f64/isa=avx512/threads=2/work=1000000000/scaling=strong", 1.884422144e9 / 0.311911773;
    "java", "java-17-disk-read.txt", "disk.io/op=read/pattern=random/block=1M/depth=1/threads=2/engine=psync/cache=direct", 605.0 * MIB / 0.300385071;
    "java", "java-17-tcp.txt", "network.tcp/message=64K/streams=2/direction=up", 8.511819072e9 / 0.300763289;
    "stream", "stream-5.10-2threads.txt", "memory.bandwidth/op=copy/size=1G/threads=2", 80000000.0 * 16.0 / 0.022752;
    "stream", "stream-5.10-2threads.txt", "memory.bandwidth/op=triad/size=1G/threads=2", 80000000.0 * 24.0 / 0.039182;
    "stream", "stream-5.10-serial.txt", "memory.bandwidth/op=triad/size=480M/threads=1", 20_000_000.0 * 24.0 / 0.029846;
    "pmbw", "pmbw-0.6.3-stats.txt", "memory.bandwidth/op=read/size=32M/threads=2", 129_890_454_437.873_12;
    "pmbw", "pmbw-0.6.3-stats.txt", "memory.bandwidth/op=write/size=1M/threads=1", 121419314332.51213;
    "pmbw", "pmbw-0.6.3-stats.txt", "memory.latency/size=16M", 2.398_185_481_808_600_6e-8;
    "pmbw", "pmbw-0.6.3-stats.txt", "memory.block/op=read/pattern=sequential/block=1K/size=32M/threads=2", 129_890_454_437.873_12;
    "pmbw", "pmbw-0.6.3-stats.txt", "memory.block/op=read-write/pattern=random/block=1/size=16M/threads=1", 2.398_185_481_808_600_6e-8;
    "bw_mem", "lmbench-3.0-a9-bw_mem-frd.txt", "memory.bandwidth/op=read/size=128M/threads=1", 8967.78e6;
    "bw_mem", "lmbench-3.0-a9-bw_mem-fcp-2.txt", "memory.bandwidth/op=copy/size=128M/threads=2", 2.0 * 3147.10e6;
    "lat_mem_rd", "lmbench-3.0-a9-lat_mem_rd-random-16m.txt", "memory.latency/size=16M/pages=thp", 410.907e-9;
    "lat_mem_rd", "lmbench-3.0-a9-lat_mem_rd-random-1m.txt", "memory.latency/size=16K/pages=4k", 2.8140000000000004e-09;
    "mbw", "mbw-1.2.2-copy.txt", "memory.bandwidth/op=copy/size=512M/threads=1", 7_172.516 * MIB * 2.0;
    "mbw", "mbw-1.2.2-small.txt", "memory.bandwidth/op=copy/size=2M/threads=1", 39869810212.864;
    "fio", "fio-3.33-randread-1.json", "disk.io/op=read/pattern=random/block=4K/depth=1/threads=1/engine=io_uring/cache=direct", (21_109.065605 + 91_667.163823) * 1e-9;
    "fio", "fio-3.33-randread-32.json", "disk.io/op=read/pattern=random/block=4K/depth=32/threads=1/engine=io_uring/cache=direct", 82178.464606;
    "fio", "fio-3.33-write-8.json", "disk.io/op=write/pattern=sequential/block=1M/depth=8/threads=1/engine=io_uring/cache=direct", 1429402109.0;
    "fio", "fio-3.33-randrw-8.json", "disk.io/op=mixed/read-share=70/pattern=random/block=4K@60+64K@40/depth=8/threads=1/engine=io_uring/cache=direct", 16424.575425;
    "fio", "fio-3.33-fdatasync.json", "disk.fsync/block=4K/threads=1", 0.005154231922681001;
    "iozone", "iozone-3.489-random-4k-report.txt", "disk.io/op=read/pattern=random/block=4K/depth=1/threads=1/engine=psync/cache=direct", 74_846.0 / 4.0;
    "iozone", "iozone-3.489-sequential-1m.txt", "disk.io/op=write/pattern=sequential/block=1M/depth=1/threads=1/engine=psync/cache=direct", 2_936_528.0 * 1024.0;
    "iozone", "iozone-3.489-i0.txt", "disk.io/op=write/pattern=sequential/block=64K/depth=1/threads=1/engine=psync/cache=direct", 526_621.0 / 64.0;
    "iozone", "iozone-3.489-i1.txt", "disk.io/op=read/pattern=sequential/block=64K/depth=1/threads=1/engine=psync/cache=direct", 340_398.0 / 64.0;
    "iozone", "iozone-3.489-i2.txt", "disk.io/op=read/pattern=random/block=64K/depth=1/threads=1/engine=psync/cache=direct", 260_807.0 / 64.0;
    "iozone", "iozone-3.489-i2.txt", "disk.io/op=write/pattern=random/block=64K/depth=1/threads=1/engine=psync/cache=direct", 509_262.0 / 64.0;
    "iozone", "iozone-3.489-i3.txt", "disk.io/op=read/pattern=backward/block=64K/depth=1/threads=1/engine=psync/cache=direct", 344_232.0 / 64.0;
    "iozone", "iozone-3.489-i4.txt", "disk.io/op=write/pattern=same/block=64K/depth=1/threads=1/engine=psync/cache=direct", 1_051_862.0 / 64.0;
    "iozone", "iozone-3.489-i5.txt", "disk.io/op=read/pattern=strided/block=64K/depth=1/threads=1/engine=psync/cache=direct", 339_437.0 / 64.0;
    "iozone", "iozone-3.489-i0-i6-i7.txt", "disk.io/op=write/pattern=sequential/block=64K/depth=1/threads=1/engine=psync/cache=buffered", 127_952.0 / 64.0;
    "iozone", "iozone-3.489-i0-i6-i7.txt", "disk.io/op=read/pattern=sequential/block=64K/depth=1/threads=1/engine=psync/cache=buffered", 14_820_161.0 / 64.0;
    "iozone", "iozone-3.489-two-processes.txt", "disk.io/op=read/pattern=sequential/block=4K/depth=1/threads=2/engine=psync/cache=direct", 77_886.72 / 4.0;
    "ioping", "ioping-1.3-random-4k.txt", "disk.io/op=read/pattern=random/block=4K/depth=1/threads=1/engine=psync/cache=direct", 102_911e-9;
    "ioping", "ioping-1.3-linear-64k.txt", "disk.io/op=read/pattern=sequential/block=64K/depth=1/threads=1/engine=psync/cache=direct", 108_944e-9;
    "iperf3", "iperf3-3.12-tcp-1.json", "network.tcp/message=128K/streams=1/direction=up", 13862879246.81871;
    "iperf3", "iperf3-3.12-tcp-2-reverse.json", "network.tcp/message=1M/streams=2/direction=down", 22513560490.568115;
    "iperf3", "iperf3-3.12-udp-100m.json", "network.udp/message=1K/streams=1/direction=up/rate=100000000", 99249515.85312328;
    "iperf", "iperf-2.1.8-tcp-1.txt", "network.tcp/message=128K/streams=1/direction=up", 23160953684.0;
    "iperf", "iperf-2.1.8-tcp-2-reverse.txt", "network.tcp/message=128K/streams=2/direction=down", 19_807_023_453.0;
    "iperf", "iperf-2.1.8-udp-100m.txt", "network.udp/message=1K/streams=1/direction=up/rate=100000000", 98_502_834.0;
    "netperf", "netperf-2.7.0-stream.txt", "network.tcp/message=128K/streams=1/direction=up", 11475.80e6;
    "netperf", "netperf-2.7.0-maerts.txt", "network.tcp/message=128K/streams=1/direction=down", 7066.71e6;
    "netperf", "netperf-2.7.0-tcp_rr-1.txt", "network.latency/protocol=tcp/message=1/streams=1/mode=block", 32.985e-6;
    "netperf", "netperf-2.7.0-udp_rr-1024.txt", "network.latency/protocol=udp/message=1K/streams=1/mode=block", 20.594e-6;
    "sockperf", "sockperf-3.7-tcp-14.txt", "network.latency/protocol=tcp/message=14/streams=1/mode=block", 18.658e-6;
    "sockperf", "sockperf-3.7-udp-1024.txt", "network.latency/protocol=udp/message=1K/streams=1/mode=block", 1.5595e-05;
    "ping", "ping-20221126-56.txt", "network.latency/protocol=icmp/message=56/streams=1", 8e-06;
    "ping", "ping-20221126-8192.txt", "network.latency/protocol=icmp/message=8K/streams=1", 1.4e-05;
    "osu_latency", "osu-documented-latency.txt", "mpi.latency/message=8", 1.25e-6;
    "osu_latency", "osu-documented-latency.txt", "mpi.latency/message=1M", 101.47e-6;
    "osu_bw", "osu-documented-bw.txt", "mpi.bandwidth/message=1", 2.99e6;
    "osu_bw", "osu-documented-bw.txt", "mpi.bandwidth/message=1M", 12_214.71e6;
    "osu_allreduce", "osu-documented-allreduce.txt", "mpi.allreduce/type=f32/message=8", 4.12e-6;
    "osu_allreduce", "osu-documented-allreduce.txt", "mpi.allreduce/type=f32/message=64K", 74.2e-6;
    "osu_barrier", "osu-documented-barrier-5.txt", "mpi.barrier", 8.32e-6;
    "osu_barrier", "osu-documented-barrier-7.txt", "mpi.barrier", 4.91e-6;
];

/// Returns a recording; its first two lines contain tool and version, and command.
fn whole(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/peers");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// Returns a recording without its first two lines.
pub(super) fn body(file: &str) -> String {
    whole(file).split_inclusive('\n').skip(2).collect()
}

/// Returns how the tool is called for the case `id` on a machine with two CPUs.
pub(super) fn invoked(tool: &RefTool, id: &str, is_scaled_down: bool) -> Invocation {
    let machine = Fixture::open("firecracker-zen4").unwrap().machine();
    let (case, offer, host) = (id.parse().unwrap(), Offer::default(), "127.0.0.1".to_owned());
    let (seconds, port, is_local) = (1.0, 1, true);
    let ask = InvocationInput { case, machine, offer, seconds, is_scaled_down, host, port, is_local };
    (tool.invocation)(&ask).unwrap()
}

/// Returns how far the tool's definition agrees with the case's.
pub(super) fn definition(tool: &RefTool, id: &str) -> Match {
    let machine = Machine::discover(&Root::at("/nonexistent"));
    (tool.pairing)(&id.parse().unwrap(), &machine).unwrap().definition
}

/// A recording with everything that a test needs.
struct Heard {
    ref_tool: &'static RefTool,
    case: Case,
    text: String,
    good: ToolFigure,
    about: String,
}

fn heard() -> impl Iterator<Item = Heard> {
    RECORDINGS.iter().map(|recording| {
        let ref_tool = find(recording.tool).expect("a tool of that name");
        let case: Case = recording.case.parse().expect(recording.case);
        let text = body(recording.file);
        let about = format!("{} beside {}", recording.tool, recording.case);
        let good = (ref_tool.parse)(&case, &text).unwrap_or_else(|why| panic!("{about}: {why}"));
        Heard { ref_tool, case, text, good, about }
    })
}

#[test]
fn every_recording_gives_its_figure_and_what_was_asked_without_a_contradiction() {
    for (heard, recording) in heard().zip(RECORDINGS) {
        let ToolFigure { value, account, differs, .. } = &heard.good;
        assert!((value / recording.value - 1.0).abs() < 1e-9, "{}: {:?}", heard.about, heard.good);
        assert!(differs.is_empty(), "{}: {:?}", heard.about, heard.good);
        assert_eq!(account.contradicts(*value, unit(&heard), LONG), None, "{}", heard.about);
    }
}

#[test]
fn what_a_recording_did_otherwise_than_its_case_is_told() {
    let differs = |file: &str, case: &str| {
        let recording = RECORDINGS.iter().find(|recording| recording.file == file).unwrap();
        let parse = find(recording.tool).unwrap().parse;
        parse(&case.parse().unwrap(), &body(file)).unwrap().differs.join(", ")
    };
    let likwid = differs("likwid-5.2.2-copy_mem_avx512.txt", "memory.bandwidth/op=copy/size=1G/threads=4");
    assert!(likwid.starts_with("it ran with threads=1 instead of 4, it ran with size=64000000 "), "{likwid}");
    for (file, threads, wanted) in [
        ("stream-5.10-2threads.txt", 1, "it ran with threads=2 instead of 1"),
        ("stream-5.10-serial.txt", 2, "it ran with threads=1 instead of 2"),
        ("mbw-1.2.2-small.txt", 1, "its arrays had 1 MiB"),
    ] {
        let case = format!("memory.bandwidth/op=copy/size=1G/threads={threads}");
        assert_eq!(differs(file, &case), wanted, "{file}");
    }
    let area = differs("lmbench-3.0-a9-lat_mem_rd-random-16m.txt", "memory.latency/size=512M");
    assert_eq!(area, "it ran with size=16777216 instead of 536870912");
    let iperf3 = differs("iperf3-3.12-tcp-1.json", "network.tcp/message=8/streams=8");
    assert_eq!(iperf3, "it ran with message=131072 instead of 8, it ran with streams=1 instead of 8");
}

fn unit(heard: &Heard) -> Unit {
    let machine = Machine::discover(&Root::at("/nonexistent"));
    // The kernel of some tools depends on the machine; the metric does not.
    let metric = (heard.ref_tool.pairing)(&heard.case, &machine).map_or("bandwidth", |paired| paired.metric);
    let metrics = plimsoll_bench::find(heard.case.benchmark()).unwrap().metrics(&heard.case);
    metrics.iter().find(|m| m.name == metric).unwrap_or(&metrics[0]).unit
}

/// Lifetime in seconds, long enough for any run.
const LONG: f64 = 1e6;

/// Tools that print no time, or whose number of transfers in flight is not fully known.
const ONE_SIDED: &str = "bw_mem lat_mem_rd lat_syscall lat_pipe lat_ctx lat_proc lat_pagefault cyclictest iozone ping \
    osu_latency osu_bw osu_allreduce osu_barrier";

#[test]
fn a_figure_of_another_column_or_unit_contradicts_work_and_time() {
    for heard in heard() {
        let ToolFigure { value, account, .. } = &heard.good;
        let (unit, tool) = (unit(&heard), heard.ref_tool.name);
        // A time with one digit is too coarse (hpcc on arrays of 3 MB).
        if tool == "hpcc" && account.seconds.rounding() > 0.3 {
            continue;
        }
        let off = |factor: f64, life| account.contradicts(value * factor, unit, life).is_some();
        if ONE_SIDED.split(' ').any(|name| name == tool) {
            // The work took this long, so a process with this lifetime cannot have been slower.
            let takes = if unit == Unit::Second { account.amount * value } else { account.amount / value };
            let slower = if unit == Unit::Second { 1e5 } else { 1e-5 };
            assert!(off(slower, takes.max(0.01)), "{}", heard.about);
        } else if unit == Unit::Second {
            assert!(off(10.0, LONG) && off(1e-3, LONG), "{}", heard.about);
        } else {
            assert!(off(10.0, LONG) && off(0.1, LONG), "{}", heard.about);
        }
    }
}

#[test]
fn every_tool_has_two_recordings_with_their_heads() {
    for ref_tool in REF_TOOLS {
        let own: Vec<_> = RECORDINGS.iter().filter(|r| r.tool == ref_tool.name).collect();
        assert!(own.len() >= 2, "{}", ref_tool.name);
        for recording in own {
            let text = whole(recording.file);
            let mut lines = text.lines();
            assert!(lines.next().is_some_and(|l| l.starts_with("# ")), "{}", recording.case);
            assert!(lines.next().is_some_and(|l| l.starts_with("# command: ")), "{}", recording.case);
        }
    }
}

/// Checks that a text gives an error or the same figure.
#[track_caller]
fn no_other_figure(heard: &Heard, text: &str, how: &str) {
    match (heard.ref_tool.parse)(&heard.case, text) {
        Ok(reading) => {
            let same = (reading.value / heard.good.value - 1.0).abs() < 1e-12;
            assert!(same, "{}, {how}: {} for {}", heard.about, reading.value, heard.good.value);
        }
        Err(why) => assert!(
            !why.is_empty() && why.len() < 600 && !why.contains(|c: char| c.is_control()),
            "{}, {how}: {why:?}",
            heard.about
        ),
    }
}

#[test]
fn cut_output_gives_a_line_or_the_same_figure() {
    for heard in heard() {
        let whole = &heard.text;
        // Every position of a short text; five hundred of a long one.
        let step = 1 + whole.len() / 500;
        for cut in (0..whole.len()).filter(|at| whole.is_char_boundary(*at)).step_by(step) {
            no_other_figure(&heard, &whole[..cut], "cut");
        }
    }
}

#[test]
fn empty_foreign_or_senseless_output_gives_a_line_and_no_figure() {
    let texts = "|\n\n\n|\0\u{1b}[31m\u{202e}|bash: orden no encontrada\n|{}|[]|null|\
        {\"jobs\":[],\"end\":{}}|Segmentation fault (core dumped)\n";
    let endless = "9".repeat(100_000);
    for heard in heard() {
        for text in texts.split('|').chain([endless.as_str()]) {
            let why = (heard.ref_tool.parse)(&heard.case, text).expect_err(&heard.about);
            assert!(!why.is_empty() && !why.contains(|c: char| c.is_control()), "{}: {why:?}", heard.about);
        }
    }
}

#[test]
fn decimal_commas_and_words_of_another_language_give_no_other_figure() {
    for heard in heard() {
        no_other_figure(&heard, &heard.text.replace('.', ","), "decimal commas");
        let foreign: String =
            heard.text.chars().map(|c| if c.is_ascii_lowercase() { 'ж' } else { c }).collect();
        no_other_figure(&heard, &foreign, "another alphabet");
    }
}

#[test]
fn figures_that_are_none_are_refused() {
    for heard in heard() {
        for nonsense in ["nan", "inf", "-1", "1e999", "0x10", ""] {
            let text: String = heard
                .text
                .split_inclusive(char::is_whitespace)
                .map(|word| {
                    let digits = word.trim_end();
                    let number = digits.trim_end_matches([',', ';']).parse::<f64>().is_ok();
                    if number { word.replacen(digits, nonsense, 1) } else { word.to_owned() }
                })
                .collect();
            match (heard.ref_tool.parse)(&heard.case, &text) {
                Ok(reading) => assert!(reading.value.is_finite() && reading.value > 0.0, "{}", heard.about),
                Err(why) => assert!(!why.contains(|c: char| c.is_control()), "{}: {why:?}", heard.about),
            }
        }
    }
}

proptest::proptest! {
    /// Any output gives a finite positive figure or an error.
    #[test]
    fn any_text_is_survived(text in "(\\PC|\n|[0-9.]{1,9}|MByte/s:|RESULT\t|WR1 |Gflops|SUM|bits/sec|\"stride=|AVG){0,60}") {
        for recording in RECORDINGS {
            let case: Case = recording.case.parse().unwrap();
            match (find(recording.tool).unwrap().parse)(&case, &text) {
                Ok(reading) => proptest::prop_assert!(reading.value.is_finite() && reading.value > 0.0),
                Err(why) => proptest::prop_assert!(!why.is_empty()),
            }
        }
    }
}
