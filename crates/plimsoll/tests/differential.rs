//! Compares each adapter's figure with an independent count of the tool's work and time: its system
//! calls (strace), the additional run time of more work, or plimsoll's own figure if neither is
//! possible. A misread column or unit is off by a factor of ten or more.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{ended, place_for_programs, plimsoll, scratch, short_of_cpu, skipped, under_a_quota};
use crate::tools::installed;

enum Against {
    /// The system calls of the run, and the tolerated ratio.
    Calls(fn(&[Call]) -> Option<f64>, f64),
    /// Shell words that run `$real` for less and for more work, and the difference in the figure's
    /// unit, from its arguments.
    Longer([&'static str; 2], fn(&[String]) -> Option<f64>, f64),
    /// Plimsoll's figure for the same metric, only related: the tool makes no calls that can be
    /// counted and takes a time but no amount (lmbench), or does much else in the same process
    /// (hpcc). The bound covers the difference of two programs and 20 ms of each on a busy machine;
    /// within a run, plimsoll also checks such a figure against work ÷ time if the tool prints
    /// these.
    Own(f64),
}

struct Check {
    /// The tool, and which of its several figures.
    tool: &'static str,
    program: &'static str,
    case: &'static str,
    against: Against,
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

fn first_reads(calls: &[Call]) -> Option<f64> {
    pass(calls, READS, 0)
}

fn second_reads(calls: &[Call]) -> Option<f64> {
    pass(calls, READS, 1)
}

fn first_writes(calls: &[Call]) -> Option<f64> {
    pass(calls, WRITES, 0)
}

fn second_writes(calls: &[Call]) -> Option<f64> {
    pass(calls, WRITES, 1)
}

fn last_writes(calls: &[Call]) -> Option<f64> {
    pass(calls, WRITES, (named(calls, WRITES, BLOCK).len() / RECORDS).checked_sub(1)?)
}

/// After the two passes of writes that make the file.
fn stream_writes(calls: &[Call]) -> Option<f64> {
    flushed(calls, 2)
}

fn stream_rewrites(calls: &[Call]) -> Option<f64> {
    flushed(calls, 3)
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

fn seconds_of_a_read(calls: &[Call]) -> Option<f64> {
    per_second(&named(calls, READS, BLOCK)).map(f64::recip)
}

fn bytes_of_large_reads(calls: &[Call]) -> Option<f64> {
    const MIB: u64 = 1 << 20;
    per_second(&named(calls, READS, MIB)).map(|rate| rate * MIB as f64)
}

/// Round trips of messages of 20 bytes, which nothing else has.
fn round_trip(calls: &[Call]) -> Option<f64> {
    per_second(&named(calls, READS, 20)).map(f64::recip)
}

/// Mean time from an echo of 64 bytes that leaves to the one that comes.
fn echoes(calls: &[Call]) -> Option<f64> {
    let sent = named(calls, &["sendto"], 64);
    // With the header of the packet where its socket is raw.
    let received = |call: &&Call| READS.contains(&call.name.as_str()) && [64, 84].contains(&call.gave);
    let received: Vec<&Call> = calls.iter().filter(received).collect();
    let times = sent.iter().filter_map(|out| {
        let back = received.iter().find(|back| back.at > out.at)?;
        Some(back.at - out.at)
    });
    let times: Vec<f64> = times.collect();
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

fn number(args: &[String], before: &str) -> Option<f64> {
    let at = args.iter().position(|arg| arg == before)?;
    args.get(at + 1)?.parse().ok()
}

macro_rules! iozone {
    ($name:literal, $op:literal, $pattern:literal, $cache:literal, $of:expr) => {
        Check {
            tool: $name,
            program: "iozone",
            case: concat!(
                "disk --only disk.io --block 4K --depth 1 --engine psync --size 16M --op ",
                $op,
                " --pattern ",
                $pattern,
                " --cache ",
                $cache
            ),
            against: Against::Calls($of, 1.5),
        }
    };
}

const CHECKS: &[Check] = &[
    // The thirteen operations: write, rewrite, read, reread, single ones, and fwrite to freread.
    iozone!("iozone write", "write", "sequential", "direct", first_writes),
    iozone!("iozone", "write", "sequential", "direct", second_writes),
    iozone!("iozone", "read", "sequential", "direct", first_reads),
    iozone!("iozone reread", "read", "sequential", "direct", second_reads),
    iozone!("iozone", "read", "random", "direct", first_reads),
    iozone!("iozone", "write", "random", "direct", last_writes),
    iozone!("iozone", "read", "backward", "direct", first_reads),
    iozone!("iozone", "write", "same", "direct", last_writes),
    iozone!("iozone", "read", "strided", "direct", first_reads),
    iozone!("iozone fwrite", "write", "sequential", "buffered", stream_writes),
    iozone!("iozone", "write", "sequential", "buffered", stream_rewrites),
    iozone!("iozone", "read", "sequential", "buffered", first_reads),
    iozone!("iozone freread", "read", "sequential", "buffered", second_reads),
    Check {
        tool: "ioping",
        program: "ioping",
        case: "disk --only disk.io --op read --pattern random --block 4K --depth 1 --engine psync --size 16M",
        against: Against::Calls(seconds_of_a_read, 2.0),
    },
    Check {
        tool: "fio",
        program: "fio",
        case: "disk --only disk.io --op read --pattern random --block 4K --depth 1 --engine psync --size 16M",
        against: Against::Calls(seconds_of_a_read, 2.0),
    },
    Check {
        tool: "fio",
        program: "fio",
        case: "disk --only disk.io --op read --pattern sequential --block 1M --depth 1 --engine psync --size 64M",
        against: Against::Calls(bytes_of_large_reads, 1.5),
    },
    Check {
        tool: "iperf3",
        program: "iperf3",
        case: "network --only network.tcp --message 64K --direction down",
        against: Against::Calls(received, 2.0),
    },
    Check {
        tool: "iperf",
        program: "iperf",
        case: "network --only network.tcp --message 64K --direction down",
        against: Against::Calls(received, 2.0),
    },
    Check {
        tool: "netperf",
        program: "netperf",
        case: "network --only network.tcp --message 64K --direction down",
        against: Against::Calls(received, 2.0),
    },
    Check {
        tool: "netperf",
        program: "netperf",
        case: "network --only network.latency --protocol tcp --message 20",
        against: Against::Calls(round_trip, 2.0),
    },
    Check {
        tool: "sockperf",
        program: "sockperf",
        case: "network --only network.latency --protocol udp --message 20",
        against: Against::Calls(round_trip, 2.0),
    },
    Check {
        tool: "mbw",
        program: "mbw",
        case: "memory --only memory.bandwidth --op copy --size 16M --threads 1",
        // A thousand copies more of 8 MiB, each read and written.
        against: Against::Longer(
            ["$real -t0 -n 5 8", "$real -t0 -n 1005 8"],
            |args| (args.last()? == "8").then_some(1000.0 * 2.0 * 8_388_608.0),
            4.0,
        ),
    },
    Check {
        tool: "likwid-bench",
        program: "likwid-bench",
        case: "memory --only memory.bandwidth --op copy --size 1M --threads 1",
        against: Against::Longer(
            ["$real \"$@\"", "$real $1 $2 $3 $4 -i $((3 * $6))"],
            |args| Some(2.0 * number(args, "-i")? * 1_048_576.0),
            4.0,
        ),
    },
    Check {
        tool: "java",
        program: "java",
        case: "disk --only disk.io --op read --pattern random --block 1M --engine psync --depth 1 --threads 1",
        // Calls of the runtime cannot be distinguished; direct transfers of plimsoll move as much.
        against: Against::Own(10.0),
    },
    Check {
        tool: "sysbench",
        program: "sysbench",
        case: "cpu --only cpu.peak --op div --type f64 --threads 1",
        // A number of events, of 117 526 remainders each.
        against: Against::Longer(
            [
                "$real cpu --cpu-max-prime=10000 --threads=1 --time=0 --events=1000 run",
                "$real cpu --cpu-max-prime=10000 --threads=1 --time=0 --events=6000 run",
            ],
            |_| Some(5000.0 * 117_526.0),
            4.0,
        ),
    },
    Check {
        tool: "openssl",
        program: "openssl",
        case: "cpu --only cpu.crypto --op sha256 --block 16K --threads 1",
        // It takes a time and no amount. Both use the same instructions, 20 ms each on a busy
        // machine.
        against: Against::Own(6.0),
    },
    Check {
        tool: "bw_mem",
        program: "/usr/lib/lmbench/bin/ARCH/bw_mem",
        case: "memory --only memory.bandwidth --op read --size 64M --threads 1",
        // It adds every fourth word of a cache line without vectors, plimsoll reads all with the
        // widest: up to a factor of five in a cache, which holds 64 MiB on some machines.
        against: Against::Own(12.0),
    },
    Check {
        tool: "lat_mem_rd",
        program: "/usr/lib/lmbench/bin/ARCH/lat_mem_rd",
        case: "memory --only memory.latency --size 16K --pages 4k",
        // Both wait for the same cycles: a factor of three at worst on a half-busy core.
        against: Against::Own(6.0),
    },
    Check {
        tool: "perf",
        program: "perf",
        case: "os --only os.syscall --op getppid --threads 1",
        against: Against::Own(3.0),
    },
    Check {
        tool: "lat_syscall",
        program: "/usr/lib/lmbench/bin/ARCH/lat_syscall",
        case: "os --only os.syscall --op getppid --threads 1",
        against: Against::Own(3.0),
    },
    Check {
        tool: "lat_pipe",
        program: "/usr/lib/lmbench/bin/ARCH/lat_pipe",
        case: "os --only os.switch --op pipe --between processes --distance same",
        against: Against::Own(3.0),
    },
    Check {
        tool: "lat_ctx",
        program: "/usr/lib/lmbench/bin/ARCH/lat_ctx",
        case: "os --only os.switch --op pipe --between processes --distance same",
        against: Against::Own(6.0),
    },
    Check {
        tool: "lat_proc",
        program: "/usr/lib/lmbench/bin/ARCH/lat_proc",
        case: "os --only os.process --op fork",
        against: Against::Own(6.0),
    },
    Check {
        tool: "lat_pagefault",
        program: "/usr/lib/lmbench/bin/ARCH/lat_pagefault",
        case: "os --only os.fault --op file --threads 1",
        against: Against::Own(10.0),
    },
    Check {
        tool: "cyclictest",
        program: "cyclictest",
        case: "os --only os.wake --op sleep",
        against: Against::Own(6.0),
    },
    Check {
        tool: "ping",
        program: "ping",
        case: "network --only network.latency --protocol tcp --message 56",
        // Clocks are read within the calls, which therefore take somewhat longer.
        against: Against::Calls(echoes, 20.0),
    },
    Check {
        tool: "hpcc",
        program: "hpcc",
        case: "cpu --only cpu.linpack --n 500 --threads 1",
        // Linked to a BLAS without vector code, as by distributions, at a small size.
        against: Against::Own(20.0),
    },
    Check {
        tool: "hpcc STREAM",
        program: "hpcc",
        case: "memory --only memory.bandwidth --op triad --size 64M --threads 1",
        // A region of 64 MiB lies in a cache on some machines, and stores past the caches do not.
        against: Against::Own(12.0),
    },
    Check {
        tool: "hpcc STREAM",
        program: "hpcc",
        case: "memory --only memory.bandwidth --op copy --size 64M --threads 2",
        against: Against::Own(12.0),
    },
];

/// A script as the tool that counts its work and passes its output on.
fn counted(place: &Path, dir: &Path, real: &Path, against: &Against) -> std::path::PathBuf {
    let (script, real, dir) = (place.join("counted"), real.display(), dir.display());
    let run = match against {
        Against::Calls(..) => {
            const CALLS: &str = "read,write,pread64,pwrite64,fsync,sendto,recvfrom,recvmsg";
            format!("exec strace -f -ttt -s 1 -e trace={CALLS} -o {dir}/trace {real} \"$@\"")
        }
        Against::Own(_) | Against::Longer(..) => format!("exec {real} \"$@\""),
    };
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in -s|sr) exec {real} \"$@\";; -v|-V|-h|--version) exec {real} \"$@\";; esac\n\
         printf '%s\\n' \"$@\" > {dir}/args\n{run}\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    script
}

/// Additional seconds of a longer call of the tool, after the run; `args` are those that plimsoll
/// gave it.
fn longer([less, more]: [&str; 2], real: &Path, args: &[String]) -> Option<f64> {
    let script = format!(
        // The shortest of three: whatever else runs only makes it longer.
        "took() {{ t0=$(date +%s%N); \"$@\" > /dev/null 2>&1; echo $(($(date +%s%N) - t0)); }}\n\
         best() {{ for i in 1 2 3; do took \"$@\"; done | sort -n | head -n 1; }}\n\
         real={}; less=$(best {less}); more=$(best {more}); echo $((more - less))",
        real.display()
    );
    let output = Command::new("sh").args(["-c", &script, "sh"]).args(args).output().unwrap();
    let nanos: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().ok()?;
    (nanos > 0.0).then_some(nanos * 1e-9)
}

fn figures(check: &Check, dir: &Path, script: &Path) -> Result<(f64, f64), String> {
    let tool = check.tool.split(' ').next().unwrap_or_default();
    let named = format!("{tool}={}", script.display());
    let mut command = plimsoll(dir);
    command.args(check.case.split(' ')).args(["--samples", "1", "--sample-time", "20ms"]);
    command.args(["--against", tool, "--peer-path", &named, "--json", "-", "--store", "none"]);
    // MPI programs that wait for each other take minutes on a busy machine.
    command.timeout(Duration::from_secs(600));
    let (out, _) = ended(&mut command, 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    let metrics = run["measurements"][0]["metrics"].as_array().unwrap().clone();
    let peers = || metrics.iter().flat_map(|metric| metric["references"].as_array().unwrap());
    let peer = peers().find(|peer| peer["name"] == check.tool).or_else(|| peers().next_back()).cloned();
    let peer = peer.ok_or_else(|| format!("no reference tool: {}", run["measurements"][0]))?;
    let figure = |name: &str| peer[name][0].as_f64();
    figure("samples").zip(figure("own")).ok_or_else(|| peer["reason"].to_string())
}

/// Reasons on this machine: full disk, no ptrace, no MPI launcher, too few CPUs.
const NOT_HERE: &[&str] = &[
    "too little space",
    "PTRACE",
    "missing capabilities",
    "mpirun: ",
    "with a process on a CPU for each thread",
];

enum Outcome {
    Right,
    NotHere(String),
    Wrong(String),
}

/// Runs the tool once and compares its figure with the count.
fn outcome(check: &Check, real: &Path) -> Outcome {
    let (dir, place) = (scratch(), place_for_programs());
    let script = counted(place.path(), dir.path(), real, &check.against);
    let (figure, own) = match figures(check, dir.path(), &script) {
        Ok(figures) => figures,
        Err(why) if NOT_HERE.iter().any(|reason| why.contains(reason)) => return Outcome::NotHere(why),
        Err(why) => return Outcome::Wrong(why),
    };
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    let args: Vec<String> = read("args").lines().map(str::to_owned).collect();
    let (counted, within) = match check.against {
        Against::Calls(of, within) => (of(&calls(&read("trace"))), within),
        Against::Longer(calls, of, within) => {
            (longer(calls, real, &args).zip(of(&args)).map(|(s, more)| more / s), within)
        }
        Against::Own(within) => (Some(own), within),
    };
    let Some(counted) = counted else { return Outcome::Wrong(format!("nothing was counted with {args:?}")) };
    let ratio = figure / counted;
    match (1.0 / within..within).contains(&ratio) {
        true => Outcome::Right,
        false => Outcome::Wrong(format!("{figure:e} for {counted:e} counted ({ratio})")),
    }
}

#[test]
fn every_figure_is_that_of_the_tools_own_bytes_and_seconds() {
    /// Other load can spoil one figure of two, but hardly each time.
    const ATTEMPTS: usize = 3;
    let strace = installed("strace").is_some();
    let quota = under_a_quota();
    for check in CHECKS {
        let name = format!("differential: {} {}", check.tool, check.case);
        let Some(real) = installed(check.program) else {
            skipped(&name, &format!("needs {}: run packaging/test-setup", check.tool));
            continue;
        };
        let by_calls = matches!(check.against, Against::Calls(..));
        if by_calls && !strace {
            skipped(&name, "needs strace");
            continue;
        }
        if !by_calls && quota {
            skipped(&name, "a CPU quota gives the tool and its check different times");
            continue;
        }
        let mut wrong = Vec::new();
        for _ in 0..ATTEMPTS {
            match outcome(check, &real) {
                Outcome::Right => wrong.clear(),
                Outcome::NotHere(why) => {
                    skipped(&name, &why);
                    wrong.clear();
                }
                Outcome::Wrong(why) if why.contains("was ended after") && short_of_cpu() => {
                    skipped(&name, "the tool gets too little CPU time");
                    wrong.clear();
                }
                Outcome::Wrong(why) => {
                    wrong.push(why);
                    continue;
                }
            }
            break;
        }
        if !wrong.is_empty() && !by_calls && short_of_cpu() {
            skipped(&name, "other processes leave the tool and its check different times");
            continue;
        }
        assert!(wrong.is_empty(), "{name}: {}", wrong.join("; "));
    }
}

#[test]
fn every_tool_that_a_package_has_is_checked() {
    let dir = scratch();
    let (out, _) = ended(plimsoll(dir.path()).arg("peers"), 0);
    let built_by_the_user = ["xhpl", "xlinpack", "stream", "pmbw"];
    let row =
        |line: &str| line.strip_prefix("  ").filter(|line| line.starts_with(char::is_alphanumeric)).is_some();
    let tools = out.lines().filter(|line| row(line)).filter_map(|line| line.split_whitespace().next());
    let unchecked: Vec<&str> = tools
        .filter(|tool| *tool != "tool" && !built_by_the_user.contains(tool) && !tool.starts_with("osu_"))
        .filter(|tool| !CHECKS.iter().any(|check| check.tool == *tool))
        .collect();
    assert!(unchecked.is_empty(), "{unchecked:?} are not checked: {out}");
}
