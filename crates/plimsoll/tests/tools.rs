//! Runs every reference tool of a package: plimsoll's figure must be the one that the tool prints,
//! and agree with a count of the tool's system calls (strace), with the additional run time of more
//! work, or else with plimsoll's own figure. A misread column or unit is off by ten or more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_reference::Package;
use serde_json::Value;

use crate::support::{
    document, done, ended, exists, json, list, lossy, place_for_programs, plimsoll, scratch, script,
    short_of_cpu, skipped, text, under_a_quota,
};

/// The arguments and the output of a tool.
struct Printed {
    args: Vec<String>,
    out: String,
    err: String,
    file: String,
    trace: String,
}

/// Position of the figure in the output, and the factor that converts it to plimsoll's unit.
#[derive(Clone, Copy)]
enum Figure {
    /// Not checked.
    Unread,
    /// The number after a text of standard output.
    Out(&'static str, f64),
    /// The number after a text of standard error.
    Err(&'static str, f64),
    By(fn(&Printed) -> Option<f64>),
}

impl Figure {
    fn find(self, printed: &Printed) -> Option<f64> {
        match self {
            Self::Unread => None,
            Self::Out(mark, factor) => after(&printed.out, mark).map(|number| number * factor),
            Self::Err(mark, factor) => after(&printed.err, mark).map(|number| number * factor),
            Self::By(find) => find(printed),
        }
    }
}

enum Against {
    /// The system calls of the run, and the tolerated ratio.
    Calls(fn(&[Call]) -> Option<f64>, f64),
    /// Shell words that run `$real` for less and for more work, and the difference in its unit.
    Longer([&'static str; 2], fn(&[String]) -> Option<f64>, f64),
    /// Plimsoll's figure for the same metric: the tool makes no calls that can be counted and takes
    /// no amount (lmbench), or does much else in the same process (hpcc). The bound covers the
    /// difference of two programs and 20 ms of each on a busy machine.
    Own(f64),
}

/// A tool, and which of its several figures, with a small case of it.
struct Check(&'static str, String, Figure, Against);

impl Check {
    fn tool(&self) -> &'static str {
        self.0.split(' ').next().unwrap_or_default()
    }
}

fn after(text: &str, mark: &str) -> Option<f64> {
    let (_, rest) = text.split_once(mark)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".+-e".contains(c))).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number before a text.
fn before(text: &str, mark: &str) -> Option<f64> {
    text.split_once(mark)?.0.split_whitespace().last()?.parse().ok()
}

/// A figure in the document that a tool prints.
fn within(text: &str, pointer: &str) -> Option<f64> {
    json(&text[text.find('{').unwrap_or(0)..]).pointer(pointer)?.as_f64()
}

/// A system call that moved data: start, name, result.
struct Call {
    at: f64,
    name: String,
    gave: u64,
}

/// The calls of a recording of `strace -f -ttt`, by start; interrupted ones are joined.
fn calls(trace: &str) -> Vec<Call> {
    let mut begun: std::collections::BTreeMap<&str, (f64, String)> = std::collections::BTreeMap::new();
    let mut all: Vec<Call> = Vec::new();
    for line in trace.lines() {
        let mut words = line.split_whitespace();
        let (Some(pid), Some(at), Some(what)) = (words.next(), words.next(), words.next()) else { continue };
        let Ok(at) = at.parse::<f64>() else { continue };
        let name = what.split('(').next().unwrap_or_default().to_owned();
        if line.ends_with("<unfinished ...>") {
            begun.insert(pid, (at, name));
            continue;
        }
        let (at, name) = if what == "<..." { begun.remove(pid).unwrap_or((at, name)) } else { (at, name) };
        let gave = line.rsplit_once(" = ").and_then(|(_, gave)| gave.split_whitespace().next()?.parse().ok());
        all.extend(gave.map(|gave| Call { at, name, gave }));
    }
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    all
}

fn named<'a>(calls: &'a [Call], names: &'a [&str], gave: u64) -> Vec<&'a Call> {
    calls.iter().filter(|call| names.contains(&call.name.as_str()) && call.gave == gave).collect()
}

const READS: &[&str] = &["read", "pread64", "recvfrom", "recvmsg", "recv"];
const WRITES: &[&str] = &["write", "pwrite64"];
const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;
const RECORDS: usize = 2048;

fn per_second(calls: &[&Call]) -> Option<f64> {
    let (first, last) = (calls.first()?, calls.last()?);
    (calls.len() > 10).then(|| (calls.len() - 1) as f64 / (last.at - first.at))
}

/// Records a second in a pass over IOzone's file, of those of that kind from 0.
fn pass(calls: &[Call], names: &[&str], number: usize) -> Option<f64> {
    per_second(named(calls, names, BLOCK).get(number * RECORDS..(number + 1) * RECORDS)?)
}

/// [`pass`] for writes through the page cache: its time includes the first of two flushes.
fn flushed(calls: &[Call], number: usize) -> Option<f64> {
    let of_file =
        |call: &&Call| call.name == "fsync" || WRITES.contains(&call.name.as_str()) && call.gave == BLOCK;
    let all: Vec<&Call> = calls.iter().filter(of_file).collect();
    let writes = |(at, call): (usize, &&Call)| (call.name != "fsync").then_some(at);
    let writes: Vec<usize> = all.iter().enumerate().filter_map(writes).collect();
    let (first, last) = (*writes.get(number * RECORDS)?, *writes.get((number + 1) * RECORDS - 1)?);
    let [flush, after] = [all.get(last + 1)?, all.get(last + 2)?];
    let is_flushed = flush.name == "fsync" && after.name == "fsync";
    is_flushed.then(|| RECORDS as f64 / (after.at - all[first].at))
}

/// Bits a second of all that is received in large pieces.
fn received(calls: &[Call]) -> Option<f64> {
    const LARGE: u64 = 1000;
    let large: Vec<&Call> =
        calls.iter().filter(|call| READS.contains(&call.name.as_str()) && call.gave >= LARGE).collect();
    // The document of options and results is large as well: it comes before and after.
    let steady = large.get(large.len() / 10..large.len() - large.len() / 10)?;
    let bytes: u64 = steady.iter().map(|call| call.gave).sum();
    Some(bytes as f64 * 8.0 / (steady.last()?.at - steady.first()?.at))
}

/// Mean time from an echo of 64 bytes that leaves to the one that comes.
fn echoes(calls: &[Call]) -> Option<f64> {
    let sent = named(calls, &["sendto"], 64);
    // With the header of the packet where its socket is raw.
    let received = |call: &&Call| READS.contains(&call.name.as_str()) && [64, 84].contains(&call.gave);
    let received: Vec<&Call> = calls.iter().filter(received).collect();
    let time = |out: &&Call| Some(received.iter().find(|back| back.at > out.at)?.at - out.at);
    let times: Vec<f64> = sent.iter().filter_map(time).collect();
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

fn checks() -> Vec<Check> {
    use Against::{Calls, Longer, Own};
    use Figure::{By, Err, Out, Unread};
    let random =
        "disk --only disk.io --op read --pattern random --block 4K --depth 1 --engine psync --size 16M";
    let large =
        "disk --only disk.io --op read --pattern sequential --block 1M --depth 1 --engine psync --size 64M";
    let mapped =
        "disk --only disk.io --op read --pattern random --block 1M --engine psync --depth 1 --threads 1";
    let tcp = "network --only network.tcp --message 64K --direction down";
    let tcp_trips = "network --only network.latency --protocol tcp --message 20";
    let udp_trips = "network --only network.latency --protocol udp --message 20";
    let echo = "network --only network.latency --protocol tcp --message 56";
    let pipe = "os --only os.switch --op pipe --between processes --distance same";
    let small_copy = "memory --only memory.bandwidth --op copy --size 1M --threads 1";
    let wide_copy = "memory --only memory.bandwidth --op copy --size 64M --threads 2";
    let triad = "memory --only memory.bandwidth --op triad --size 64M --threads 1";
    let latency = "memory --only memory.latency --size 16K --pages 4k";
    let getppid = "os --only os.syscall --op getppid --threads 1";
    let read_call = "os --only os.syscall --op read --threads 1";
    let division = "cpu --only cpu.peak --op div --type f64 --threads 1";
    let check = |tool, case: &str, figure, against| Check(tool, case.to_owned(), figure, against);
    let last_writes = |c: &[Call]| pass(c, WRITES, (named(c, WRITES, BLOCK).len() / RECORDS).checked_sub(1)?);
    // The thirteen operations, from write to freread. Two passes of writes make the file.
    type OfCalls = fn(&[Call]) -> Option<f64>;
    let iozone: [(&str, &str, &str, &str, OfCalls); 13] = [
        ("iozone write", "write", "sequential", "direct", |c| pass(c, WRITES, 0)),
        ("iozone", "write", "sequential", "direct", |c| pass(c, WRITES, 1)),
        ("iozone", "read", "sequential", "direct", |c| pass(c, READS, 0)),
        ("iozone reread", "read", "sequential", "direct", |c| pass(c, READS, 1)),
        ("iozone", "read", "random", "direct", |c| pass(c, READS, 0)),
        ("iozone", "write", "random", "direct", last_writes),
        ("iozone", "read", "backward", "direct", |c| pass(c, READS, 0)),
        ("iozone", "write", "same", "direct", last_writes),
        ("iozone", "read", "strided", "direct", |c| pass(c, READS, 0)),
        ("iozone fwrite", "write", "sequential", "buffered", |c| flushed(c, 2)),
        ("iozone", "write", "sequential", "buffered", |c| flushed(c, 3)),
        ("iozone", "read", "sequential", "buffered", |c| pass(c, READS, 0)),
        ("iozone freread", "read", "sequential", "buffered", |c| pass(c, READS, 1)),
    ];
    let iozone = iozone.into_iter().map(|(tool, op, pattern, cache, of)| {
        let case = format!(
            "disk --only disk.io --block 4K --depth 1 --engine psync --size 16M --op {op} --pattern {pattern} --cache {cache}"
        );
        // kB, reclen, write, rewrite, and then, with -i 2, the random reads.
        let figure = By(|p| {
            let row = p.out.lines().find(|line| line.split_whitespace().take(2).eq(["8192", "4"]))?;
            Some(row.split_whitespace().nth(4)?.parse::<f64>().ok()? / 4.0)
        });
        let figure = if op == "read" && pattern == "random" { figure } else { Unread };
        Check(tool, case, figure, Calls(of, 1.5))
    });
    // Round trips of messages of 20 bytes, which nothing else has.
    let round_trip = |c: &[Call]| per_second(&named(c, READS, 20)).map(f64::recip);
    let ioping = By(|p| Some(p.out.split_whitespace().nth(5)?.parse::<f64>().ok()? * 1e-9));
    let iperf3 = By(|p| within(&p.out, "/end/sum_received/bits_per_second"));
    let iperf = By(|p| before(&p.out, " bits/sec"));
    let ping = By(|p| Some(p.out.split_once("mdev = ")?.1.split('/').nth(1)?.parse::<f64>().ok()? * 1e-3));
    let mbw = By(|p| Some(after(p.out.split_once("AVG")?.1, "Copy:")? * 2_097_152.0));
    let openssl = By(|p| {
        let counts = p.err.lines().find_map(|line| line.strip_prefix("+R:"))?;
        let (calls, seconds) = counts.split_once(":sha256:")?;
        Some(calls.parse::<f64>().ok()? * 16_384.0 / seconds.parse::<f64>().ok()?)
    });
    let bw_mem = By(|p| Some(p.err.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1e6));
    let perf = By(|p| Some(before(&p.out, " usecs/op")? * 1e-6));
    let lat_pagefault = By(|p| Some(before(&p.err, " microseconds\n")? * 1e-6));
    let hpcc = By(|p| Some(after(&p.file, "\nHPL_Tflops=")? * 1e12));
    // A thousand copies more of 8 MiB, each read and written.
    let more_copies = Longer(
        ["$real -t0 -n 5 8", "$real -t0 -n 1005 8"],
        |args| (args.last()? == "8").then_some(1000.0 * 2.0 * 8_388_608.0),
        4.0,
    );
    let more_repetitions = Longer(
        ["$real \"$@\"", "$real $1 $2 $3 $4 -i $((3 * $6))"],
        |args| (args.get(4)? == "-i").then_some(2.0 * args.get(5)?.parse::<f64>().ok()? * 1_048_576.0),
        4.0,
    );
    // A number of events, of 117 526 remainders each.
    let more_events = Longer(
        [
            "$real cpu --cpu-max-prime=10000 --threads=1 --time=0 --events=1000 run",
            "$real cpu --cpu-max-prime=10000 --threads=1 --time=0 --events=6000 run",
        ],
        |_| Some(5000.0 * 117_526.0),
        4.0,
    );
    let others = vec![
        check("ioping", random, ioping, Calls(|c| per_second(&named(c, READS, BLOCK)).map(f64::recip), 2.0)),
        check("fio", random, Unread, Calls(|c| per_second(&named(c, READS, BLOCK)).map(f64::recip), 2.0)),
        check(
            "fio",
            large,
            By(|p| within(&p.out, "/jobs/0/read/bw_bytes")),
            Calls(|c| per_second(&named(c, READS, MIB)).map(|rate| rate * MIB as f64), 1.5),
        ),
        check("iperf3", tcp, iperf3, Calls(received, 2.0)),
        check("iperf", tcp, iperf, Calls(received, 2.0)),
        check("netperf", tcp, Unread, Calls(received, 2.0)),
        check("netperf", tcp_trips, Out("RT_LATENCY=", 1e-6), Calls(round_trip, 2.0)),
        check("sockperf", udp_trips, Out("Round trip is", 1e-6), Calls(round_trip, 2.0)),
        // With TCP: some systems allow echoes only to ping. Clocks are read within the calls.
        check("ping", echo, ping, Calls(echoes, 20.0)),
        check("mbw", "memory --only memory.bandwidth --op copy --size 16M --threads 1", mbw, more_copies),
        check("likwid-bench", small_copy, Out("MByte/s:", 1e6), more_repetitions),
        check("sysbench", division, Out("events per second:", 117_526.0), more_events),
        // Calls of the runtime cannot be distinguished; direct transfers of plimsoll move as much.
        check("java", mapped, Unread, Own(10.0)),
        // It takes a time and no amount. Both use the same instructions, 20 ms each.
        check("openssl", "cpu --only cpu.crypto --op sha256 --block 16K --threads 1", openssl, Own(6.0)),
        // It adds every fourth word of a cache line without vectors, plimsoll reads all with the
        // widest: up to a factor of five in a cache, which holds 64 MiB on some machines.
        check("bw_mem", "memory --only memory.bandwidth --op read --size 64M --threads 1", bw_mem, Own(12.0)),
        // Both wait for the same cycles: a factor of three at worst on a half-busy core.
        check("lat_mem_rd", latency, Err("\n0.01562 ", 1e-9), Own(6.0)),
        check("perf", getppid, perf, Own(3.0)),
        check("lat_syscall", getppid, Unread, Own(3.0)),
        check("lat_syscall", read_call, Err("Simple read:", 1e-6), Own(6.0)),
        check("lat_pipe", pipe, Err("Pipe latency:", 0.5e-6), Own(3.0)),
        check("lat_ctx", pipe, Unread, Own(6.0)),
        check("lat_proc", "os --only os.process --op fork", Unread, Own(6.0)),
        check("lat_pagefault", "os --only os.fault --op file --threads 1", lat_pagefault, Own(10.0)),
        check("cyclictest", "os --only os.wake --op sleep", Out("Avg:", 1e-6), Own(6.0)),
        // Linked to a BLAS without vector code, as by distributions, at a small size.
        check("hpcc", "cpu --only cpu.linpack --n 500 --threads 1", hpcc, Own(20.0)),
        // A region of 64 MiB lies in a cache on some machines, and stores past the caches do not.
        check("hpcc STREAM", triad, Unread, Own(12.0)),
        check("hpcc STREAM", wide_copy, Unread, Own(12.0)),
    ];
    iozone.chain(others).collect()
}

/// Path of a program, if it is installed.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let lmbench = format!("/usr/lib/lmbench/bin/{}-linux-gnu", std::env::consts::ARCH);
    let places = std::env::split_paths(&path).chain([PathBuf::from(lmbench)]);
    places.map(|place| place.join(program)).find(|path| path.is_absolute() && path.is_file())
}

/// A script instead of `real` that keeps arguments, output and counted calls in `dir`.
fn overheard(place: &Path, dir: &Path, real: &Path, against: &Against) -> PathBuf {
    const CALLS: &str = "read,write,pread64,pwrite64,fsync,sendto,recvfrom,recvmsg";
    let (real, dir) = (real.display(), dir.display());
    let strace = match against {
        Against::Calls(..) => format!("strace -f -ttt -s 1 -e trace={CALLS} -o {dir}/trace"),
        Against::Own(_) | Against::Longer(..) => String::new(),
    };
    let text = format!(
        "case \"$1\" in -s|sr|-v|-V|-h|--version) exec {real} \"$@\";; esac\n\
         printf '%s\\n' \"$@\" > {dir}/args\n{strace} {real} \"$@\" > {dir}/out 2> {dir}/err\ncode=$?\n\
         if [ -f hpccoutf.txt ]; then cp hpccoutf.txt {dir}/file; fi\n\
         cat {dir}/out; cat {dir}/err >&2; exit $code"
    );
    script(place, "overheard", &text)
}

/// Runs the case once with the tool; returns the tool's part of the document.
fn beside(tool: &str, case: &str, dir: &Path, script: &Path) -> Value {
    let name = tool.split(' ').next().unwrap();
    let how = format!("--against {name} --reference-path {name}={}", script.display());
    let run = document(dir, &format!("{case} --samples 1 --sample-time 20ms --json - --store none {how}"), 0);
    let peers =
        || list(&run["measurements"][0]["metrics"]).iter().flat_map(|metric| list(&metric["references"]));
    let peer = peers().find(|peer| peer["name"] == tool).or_else(|| peers().last());
    peer.unwrap_or_else(|| panic!("{tool} stands beside nothing: {run}")).clone()
}

/// Additional seconds of a longer call of the tool; `args` are those that plimsoll gave it.
fn longer([less, more]: [&str; 2], real: &Path, args: &[String]) -> Option<f64> {
    let script = format!(
        // The shortest of three: whatever else runs only makes it longer.
        "took() {{ t0=$(date +%s%N); \"$@\" > /dev/null 2>&1; echo $(($(date +%s%N) - t0)); }}\n\
         best() {{ for i in 1 2 3; do took \"$@\"; done | sort -n | head -n 1; }}\n\
         real={}; less=$(best {less}); more=$(best {more}); echo $((more - less))",
        real.display()
    );
    let output = Command::new("sh").args(["-c", &script, "sh"]).args(args).output().unwrap();
    let nanos: f64 = lossy(&output.stdout).trim().parse().ok()?;
    (nanos > 0.0).then_some(nanos * 1e-9)
}

/// Reasons on this machine: disk, ptrace, real time, no MPI launcher, too few CPUs.
const NOT_HERE: [&str; 5] = [
    "too little space",
    "PTRACE",
    "missing capabilities",
    "mpirun: ",
    "with a process on a CPU for each thread",
];

/// The package of a tool; empty if it is built from its source.
fn package(tool: &str) -> &'static str {
    match plimsoll_reference::find(tool).unwrap().package {
        Package::Debian(name) | Package::DebianNonFree(name) => name,
        Package::Source(_) => "",
    }
}

/// Asserts that the figure is the one that the tool prints, and that it was called as is shown.
#[track_caller]
fn is_printed(tool: &str, peer: &Value, printed: &Printed, figure: Figure) {
    let wanted = figure.find(printed).unwrap_or_else(|| panic!("{tool}: {}{}", printed.out, printed.err));
    let reported = peer["samples"][0].as_f64().unwrap();
    // hpcc prints its figure with four digits and with six.
    assert!((reported / wanted - 1.0).abs() < 1e-3, "{tool}: {reported} for {wanted}");
    let shown: Vec<&str> = list(&peer["command"]).iter().map(text).collect();
    let given: Vec<&str> = printed.args.iter().map(String::as_str).filter(|arg| !arg.is_empty()).collect();
    assert!(shown.ends_with(&given), "{tool}: {shown:?} is not {given:?}");
    // The version of these two is that of their package, which a script does not come from.
    assert!(peer["version"].is_string() || ["lmbench", "mbw"].contains(&package(tool)), "{peer}");
}

/// Why the tool cannot run on this machine; an error if its figure is not as printed and counted.
fn compare(check: &Check, real: &Path) -> Result<Option<String>, String> {
    let Check(tool, case, figure, against) = check;
    let (dir, place) = (scratch(), place_for_programs());
    let script = overheard(place.path(), dir.path(), real, against);
    let peer = beside(tool, case, dir.path(), &script);
    if let Some(why) = peer["reason"].as_str().filter(|_| peer["status"] != "ok") {
        let is_here = !NOT_HERE.iter().any(|reason| why.contains(reason));
        return if is_here { Err(why.to_owned()) } else { Ok(Some(why.to_owned())) };
    }
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    let args = read("args").lines().map(str::to_owned).collect();
    let printed =
        Printed { args, out: read("out"), err: read("err"), file: read("file"), trace: read("trace") };
    if !matches!(figure, Figure::Unread) {
        is_printed(check.tool(), &peer, &printed, *figure);
    }
    let reported = |name: &str| peer[name][0].as_f64().unwrap_or_else(|| panic!("{peer}"));
    let (counted, within) = match *against {
        Against::Calls(of, within) => (of(&calls(&printed.trace)), within),
        Against::Longer(calls, of, within) => {
            let took = longer(calls, real, &printed.args);
            (took.zip(of(&printed.args)).map(|(seconds, more)| more / seconds), within)
        }
        Against::Own(within) => (Some(reported("own")), within),
    };
    let counted = counted.ok_or_else(|| format!("nothing was counted with {:?}", printed.args))?;
    let (figure, ratio) = (reported("samples"), reported("samples") / counted);
    let is_close = (1.0 / within..within).contains(&ratio);
    is_close.then_some(None).ok_or_else(|| format!("{figure:e} for {counted:e} counted ({ratio})"))
}

/// Other load can spoil one figure of two, but hardly each time.
const ATTEMPTS: usize = 3;

#[test]
fn every_figure_is_the_one_that_the_tool_prints_and_that_of_its_own_bytes_and_seconds() {
    let (strace, quota) = (exists("strace"), under_a_quota());
    for check in checks() {
        let name = format!("tools: {} {}", check.0, check.1);
        let by_calls = matches!(check.3, Against::Calls(..));
        let Some(real) = installed(check.tool()).filter(|_| !by_calls || strace) else {
            skipped(&name, "needs the tool, and strace: run packaging/test-setup");
            continue;
        };
        if !by_calls && quota {
            skipped(&name, "a CPU quota gives the tool and its check different times");
            continue;
        }
        let mut wrong = Vec::new();
        let compared = (0..ATTEMPTS).find_map(|_| match compare(&check, &real) {
            Ok(not_here) => Some(not_here),
            Err(why) if why.contains("was ended after") && short_of_cpu() => {
                Some(Some("the tool gets too little CPU time".to_owned()))
            }
            Err(why) => {
                wrong.push(why);
                None
            }
        });
        let spoilt = "other processes leave the tool and its check different times";
        let is_spoilt = || (!by_calls && short_of_cpu()).then(|| Some(spoilt.to_owned()));
        match compared.or_else(is_spoilt) {
            Some(why) => why.iter().for_each(|why| skipped(&name, why)),
            None => panic!("{name}: {}", wrong.join("; ")),
        }
    }
}

/// Each tool of a package is checked above, one of each by what it prints, except for Java's.
#[test]
fn every_tool_and_every_package_is_in_the_table() {
    let dir = scratch();
    let (out, _) = done(dir.path(), "references", 0);
    let built_by_the_user = ["xhpl", "xlinpack", "stream", "pmbw"];
    let row =
        |line: &str| line.strip_prefix("  ").filter(|line| line.starts_with(char::is_alphanumeric)).is_some();
    let tools = out.lines().filter(|line| row(line)).filter_map(|line| line.split_whitespace().next());
    let checks = checks();
    let unchecked: Vec<&str> = tools
        .filter(|tool| *tool != "tool" && !built_by_the_user.contains(tool) && !tool.starts_with("osu_"))
        .filter(|tool| !checks.iter().any(|check| check.0 == *tool))
        .collect();
    assert!(unchecked.is_empty(), "{unchecked:?} are not checked: {out}");
    let mut named = built_by_the_user.iter().chain(&["likwid-bench", "fio", "iperf3", "ping"]);
    assert!(named.all(|tool| out.contains(tool)), "{out}");
    let mut install = plimsoll(dir.path());
    let (out, _) = ended(install.env("PATH", "").args(["references", "--install"]), 0);
    let packages = out.lines().next().and_then(|line| line.strip_prefix("apt-get install --yes ")).unwrap();
    assert!(packages.split(' ').any(|package| package == "fio"), "{out}");
    for needed in packages.split(' ').filter(|package| *package != "default-jdk-headless") {
        let mut checked = checks.iter().filter(|check| !matches!(check.2, Figure::Unread));
        assert!(checked.any(|check| package(check.tool()) == needed), "no tool of {needed} is run");
    }
}

/// By what each once printed, and shell words that output it as `$answer`.
#[test]
fn tools_that_no_package_has_are_called_for_the_case_and_read() {
    for (tool, case, printed, hands_over, figure) in [
        (
            "xhpl",
            "cpu --only cpu.linpack --n 1000 --nb 192 --threads 1",
            include_str!("../../reference/tests/fixtures/peers/xhpl-2.0-1000.txt"),
            "sleep 0.1; grep -q '^1000 ' HPL.dat && cat $answer",
            10.51e9,
        ),
        (
            "stream",
            "memory --only memory.bandwidth --op triad --size 1M --threads 1",
            include_str!("../../reference/tests/fixtures/peers/stream-5.10-2threads.txt"),
            "sleep 0.1; [ $OMP_NUM_THREADS = 1 ] && cat $answer",
            // Arrays of 80 000 000 elements in the mean time.
            24.0 * 80e6 / 0.039_182,
        ),
        (
            "pmbw",
            "memory --only memory.bandwidth --op write --size 1M --threads 1",
            include_str!("../../reference/tests/fixtures/peers/pmbw-0.6.3-stats.txt"),
            "sleep 1.5; while [ $# != 0 ] && [ $1 != -o ]; do shift; done; cat $answer > $2",
            121_419_314_332.512_13,
        ),
    ] {
        let dir = place_for_programs();
        let answer = dir.path().join("answer");
        let body: String = printed.split_inclusive('\n').filter(|line| !line.starts_with("# ")).collect();
        fs::write(&answer, body).unwrap();
        let text = format!("answer={}\n{hands_over}", answer.display());
        let peer = beside(tool, case, dir.path(), &script(dir.path(), "tool", &text));
        assert_eq!(peer["status"], "ok", "{peer}");
        let reported = peer["samples"][0].as_f64().unwrap();
        assert!((reported / figure - 1.0).abs() < 1e-9, "{tool}: {reported}");
    }
}

/// A program that prints like Intel's, from its file or from the answers to its questions.
#[test]
fn intels_linpack_is_given_its_file_and_the_answers_to_its_questions() {
    let from_file = "n=$(sed -n 4p \"$1\" | cut -d' ' -f1); lda=$(sed -n 5p \"$1\" | cut -d' ' -f1)";
    let from_questions = "read kind; [ $kind = data ] || exit 1; read n; read lda; read trials; read align";
    for reads in [from_file, from_questions] {
        let dir = place_for_programs();
        let text = format!(
            "[ \"$1\" = -v ] && exit\n{reads}\n\
             echo 'Size   LDA    Align. Time(s)    GFlops   Residual     Residual(norm) Check'\n\
             sleep 0.05; echo \"$n $lda  4  0.0121 1.5 1e-12 3e-2 pass\""
        );
        let script = script(dir.path(), "xlinpack", &text);
        let peer = beside("xlinpack", "cpu --only cpu.linpack --n 300 --threads 1", dir.path(), &script);
        assert_eq!((&peer["status"], &peer["match"]), (&"ok".into(), &"scaled".into()), "{peer}");
        // 1.5 GFLOP/s of its count, 2/3·N³ + 2·N², converted to plimsoll's.
        let wanted = 1.5e9 * (200.0 + 1.5) / (200.0 + 2.0);
        assert!((peer["samples"][0].as_f64().unwrap() / wanted - 1.0).abs() < 1e-12, "{peer}");
        assert!(crate::support::text(&peer["input"]["stdin"]).starts_with("data\n300\n"), "{peer}");
    }
}
