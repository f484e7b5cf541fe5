//! Runs every reference tool of a package: plimsoll's figure must be the one that the tool prints.
//!
//! A script as the tool keeps arguments and output and passes both on. The figure is then found in
//! that text independently.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{ended, place_for_programs, plimsoll, scratch, short_of_cpu, skipped};

/// A tool with a small case of it.
struct Small {
    tool: &'static str,
    /// Location outside of PATH.
    program: &'static str,
    package: &'static str,
    case: &'static str,
    /// The figure in plimsoll's unit, from the tool's output.
    figure: fn(&Printed) -> Option<f64>,
}

struct Printed {
    out: String,
    err: String,
    file: String,
}

fn after(text: &str, mark: &str) -> Option<f64> {
    let (_, rest) = text.split_once(mark)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".+-e".contains(c))).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn json(printed: &Printed) -> Value {
    serde_json::from_str(&printed.out[printed.out.find('{').unwrap_or(0)..]).unwrap()
}

const SMALL: &[Small] = &[
    Small {
        tool: "likwid-bench",
        program: "likwid-bench",
        package: "likwid",
        case: "memory --only memory.bandwidth --op copy --size 1M --threads 1",
        figure: |p| Some(after(&p.out, "MByte/s:")? * 1e6),
    },
    Small {
        tool: "sysbench",
        program: "sysbench",
        package: "sysbench",
        case: "cpu --only cpu.peak --op div --type f64 --threads 1",
        figure: |p| Some(after(&p.out, "events per second:")? * 117_526.0),
    },
    Small {
        tool: "openssl",
        program: "openssl",
        package: "openssl",
        case: "cpu --only cpu.crypto --op sha256 --block 1K --threads 1",
        figure: |p| {
            let counts = p.err.lines().find_map(|line| line.strip_prefix("+R:"))?;
            let (calls, seconds) = counts.split_once(":sha256:")?;
            Some(calls.parse::<f64>().ok()? * 1024.0 / seconds.parse::<f64>().ok()?)
        },
    },
    Small {
        tool: "bw_mem",
        program: "/usr/lib/lmbench/bin/ARCH/bw_mem",
        package: "lmbench",
        case: "memory --only memory.bandwidth --op read --size 1M --threads 1",
        figure: |p| Some(p.err.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1e6),
    },
    Small {
        tool: "lat_mem_rd",
        program: "/usr/lib/lmbench/bin/ARCH/lat_mem_rd",
        package: "lmbench",
        case: "memory --only memory.latency --size 16K --pages 4k",
        figure: |p| Some(after(&p.err, "\n0.01562 ")? * 1e-9),
    },
    Small {
        tool: "mbw",
        program: "mbw",
        package: "mbw",
        case: "memory --only memory.bandwidth --op copy --size 16M --threads 1",
        figure: |p| Some(after(p.out.split_once("AVG")?.1, "Copy:")? * 2_097_152.0),
    },
    Small {
        tool: "fio",
        program: "fio",
        package: "fio",
        case: "disk --only disk.io --op read --pattern random --block 4K --depth 4 --size 16M",
        figure: |p| json(p)["jobs"][0]["read"]["iops"].as_f64(),
    },
    Small {
        tool: "iozone",
        program: "iozone",
        package: "iozone3",
        case: "disk --only disk.io --op read --pattern random --block 4K --depth 1 --engine psync --size 16M",
        figure: |p| {
            // kB, reclen, write, rewrite, and then, with -i 2, the random reads.
            let row = p.out.lines().find(|line| line.split_whitespace().take(2).eq(["8192", "4"]))?;
            Some(row.split_whitespace().nth(4)?.parse::<f64>().ok()? / 4.0)
        },
    },
    Small {
        tool: "ioping",
        program: "ioping",
        package: "ioping",
        case: "disk --only disk.io --op read --pattern random --block 4K --depth 1 --engine psync --size 16M",
        figure: |p| Some(p.out.split_whitespace().nth(5)?.parse::<f64>().ok()? * 1e-9),
    },
    Small {
        tool: "iperf3",
        program: "iperf3",
        package: "iperf3",
        case: "network --only network.tcp --message 64K",
        figure: |p| json(p)["end"]["sum_received"]["bits_per_second"].as_f64(),
    },
    Small {
        tool: "iperf",
        program: "iperf",
        package: "iperf",
        case: "network --only network.tcp --message 64K --direction down",
        figure: |p| p.out.split_once(" bits/sec")?.0.split_whitespace().last()?.parse().ok(),
    },
    Small {
        tool: "netperf",
        program: "netperf",
        package: "netperf",
        case: "network --only network.latency --protocol tcp --message 1",
        figure: |p| Some(after(&p.out, "RT_LATENCY=")? * 1e-6),
    },
    Small {
        tool: "sockperf",
        program: "sockperf",
        package: "sockperf",
        case: "network --only network.latency --protocol udp --message 64",
        figure: |p| Some(after(&p.out, "Round trip is")? * 1e-6),
    },
    Small {
        tool: "ping",
        program: "ping",
        package: "iputils-ping",
        // With TCP: some systems allow echoes only to ping.
        case: "network --only network.latency --protocol tcp --message 56",
        figure: |p| Some(p.out.split_once("mdev = ")?.1.split('/').nth(1)?.parse::<f64>().ok()? * 1e-3),
    },
    Small {
        tool: "perf",
        program: "perf",
        package: "linux-perf",
        case: "os --only os.syscall --op getppid --threads 1",
        figure: |p| {
            let micros = p.out.split_once(" usecs/op")?.0.split_whitespace().last()?;
            Some(micros.parse::<f64>().ok()? * 1e-6)
        },
    },
    Small {
        tool: "lat_syscall",
        program: "/usr/lib/lmbench/bin/ARCH/lat_syscall",
        package: "lmbench",
        case: "os --only os.syscall --op read --threads 1",
        figure: |p| Some(after(&p.err, "Simple read:")? * 1e-6),
    },
    Small {
        tool: "lat_pipe",
        program: "/usr/lib/lmbench/bin/ARCH/lat_pipe",
        package: "lmbench",
        case: "os --only os.switch --op pipe --between processes --distance same",
        figure: |p| Some(after(&p.err, "Pipe latency:")? * 0.5e-6),
    },
    Small {
        tool: "lat_pagefault",
        program: "/usr/lib/lmbench/bin/ARCH/lat_pagefault",
        package: "lmbench",
        case: "os --only os.fault --op file --threads 1",
        figure: |p| {
            Some(
                p.err.strip_suffix(" microseconds\n")?.split_whitespace().last()?.parse::<f64>().ok()? * 1e-6,
            )
        },
    },
    Small {
        tool: "cyclictest",
        program: "cyclictest",
        package: "rt-tests",
        case: "os --only os.wake --op sleep",
        figure: |p| Some(after(&p.out, "Avg:")? * 1e-6),
    },
    Small {
        tool: "hpcc",
        program: "hpcc",
        package: "hpcc",
        case: "cpu --only cpu.linpack --n 500 --threads 1",
        figure: |p| Some(after(&p.file, "\nHPL_Tflops=")? * 1e12),
    },
];

/// Path of a program, if it is installed.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let arch = format!("{}-linux-gnu", std::env::consts::ARCH);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).map(|directory| directory.join(program));
    places
        .chain([PathBuf::from(program.replace("ARCH", &arch))])
        .find(|path| path.is_absolute() && path.is_file())
}

/// A script below `place` instead of `real`: starts servers, and keeps arguments and output of all
/// else in `dir`.
fn overheard(place: &Path, dir: &Path, real: &Path) -> PathBuf {
    let (script, real, dir) = (place.join("overheard"), real.display(), dir.display());
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in -s|sr) exec {real} \"$@\";; esac\n\
         printf '%s\\n' \"$@\" > {dir}/args\n{real} \"$@\" > {dir}/out 2> {dir}/err\ncode=$?\n\
         if [ -f hpccoutf.txt ]; then cp hpccoutf.txt {dir}/file; fi\n\
         cat {dir}/out; cat {dir}/err >&2; exit $code\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    script
}

/// Runs the case once with the tool; returns the tool's part of the document.
fn beside(tool: &str, case: &str, dir: &Path, script: &Path) -> Value {
    let named = format!("{tool}={}", script.display());
    let mut command = plimsoll(dir);
    command.args(case.split(' ')).args(["--samples", "1", "--sample-time", "20ms"]);
    command.args(["--against", tool, "--peer-path", &named, "--json", "-", "--store", "none"]);
    let (out, _) = ended(&mut command, 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    let metrics = run["measurements"][0]["metrics"].as_array().unwrap().clone();
    let peers = metrics.iter().flat_map(|metric| metric["references"].as_array().unwrap().clone());
    peers.last().unwrap_or_else(|| panic!("{tool} stands beside nothing: {}", run["measurements"][0]))
}

#[test]
fn the_figure_of_every_installed_tool_is_the_one_that_it_prints() {
    for small in SMALL {
        let Some(real) = installed(small.program) else {
            skipped(
                &format!("tools: {}", small.tool),
                &format!("needs {}: run packaging/test-setup", small.package),
            );
            continue;
        };
        let (dir, place) = (scratch(), place_for_programs());
        let script = overheard(place.path(), dir.path(), &real);
        let peer = beside(small.tool, small.case, dir.path(), &script);
        let why = peer["reason"].as_str().unwrap_or_default();
        let not_here = match why {
            _ if why.contains("too little space") => Some("the disk of the build is nearly full"),
            _ if why.contains("was ended after") && short_of_cpu() => Some("it gets too little CPU time"),
            _ if why.contains("missing capabilities") => Some("it may not run in real time"),
            _ => None,
        };
        if let Some(not_here) = not_here {
            skipped(&format!("tools: {}", small.tool), not_here);
            continue;
        }
        assert_eq!(peer["status"], "ok", "{peer}");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        let printed = Printed { out: read("out"), err: read("err"), file: read("file") };
        let wanted = (small.figure)(&printed)
            .unwrap_or_else(|| panic!("{}: {}{}", small.tool, printed.out, printed.err));
        let reported = peer["samples"][0].as_f64().unwrap();
        // hpcc prints its figure with four digits and with six.
        assert!((reported / wanted - 1.0).abs() < 1e-3, "{}: {reported} for {wanted}", small.tool);
        // It was called as is shown.
        let shown: Vec<&str> = peer["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let args = read("args");
        let given: Vec<&str> = args.lines().filter(|arg| !arg.is_empty()).collect();
        assert!(shown.ends_with(&given), "{}: {shown:?} is not {given:?}", small.tool);
        // The version of these two is that of their package, which a script does not come from.
        assert!(peer["version"].is_string() || ["lmbench", "mbw"].contains(&small.package), "{peer}");
    }
}

/// Every package that `peers --install` would get has its tools run above: none is forgotten.
#[test]
fn every_package_has_a_tool_in_the_table() {
    let dir = scratch();
    let (out, _) = ended(plimsoll(dir.path()).env("PATH", "").args(["peers", "--install"]), 0);
    let packages = out.lines().next().and_then(|line| line.strip_prefix("apt-get install --yes ")).unwrap();
    // The differential check has the loops in Java.
    for package in packages.split(' ').filter(|package| *package != "default-jdk-headless") {
        assert!(SMALL.iter().any(|small| small.package == package), "no tool of {package} is run");
    }
}

/// A tool that no package has, with what it once printed.
struct Recorded {
    tool: &'static str,
    case: &'static str,
    text: &'static str,
    /// Shell words that output `$answer` like the tool.
    hands_over: &'static str,
    figure: f64,
}

const RECORDED: &[Recorded] = &[
    Recorded {
        tool: "xhpl",
        case: "cpu --only cpu.linpack --n 1000 --nb 192 --threads 1",
        text: include_str!("../../reference/tests/fixtures/peers/xhpl-2.0-1000.txt"),
        hands_over: "sleep 0.1; grep -q '^1000 ' HPL.dat && cat $answer",
        figure: 10.51e9,
    },
    Recorded {
        tool: "stream",
        case: "memory --only memory.bandwidth --op triad --size 1M --threads 1",
        text: include_str!("../../reference/tests/fixtures/peers/stream-5.10-2threads.txt"),
        hands_over: "sleep 0.1; [ $OMP_NUM_THREADS = 1 ] && cat $answer",
        // Arrays of 80 000 000 elements in the mean time.
        figure: 24.0 * 80e6 / 0.039_182,
    },
    Recorded {
        tool: "pmbw",
        case: "memory --only memory.bandwidth --op write --size 1M --threads 1",
        text: include_str!("../../reference/tests/fixtures/peers/pmbw-0.6.3-stats.txt"),
        hands_over: "sleep 1.5; while [ $# != 0 ] && [ $1 != -o ]; do shift; done; cat $answer > $2",
        figure: 121_419_314_332.512_13,
    },
];

#[test]
fn tools_that_no_package_has_are_called_for_the_case_and_read() {
    for recorded in RECORDED {
        let dir = place_for_programs();
        let (answer, script) = (dir.path().join("answer"), dir.path().join("tool"));
        let body: String =
            recorded.text.split_inclusive('\n').filter(|line| !line.starts_with("# ")).collect();
        fs::write(&answer, body).unwrap();
        let text = format!("#!/bin/sh\nanswer={}\n{}\n", answer.display(), recorded.hands_over);
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let peer = beside(recorded.tool, recorded.case, dir.path(), &script);
        assert_eq!(peer["status"], "ok", "{peer}");
        let reported = peer["samples"][0].as_f64().unwrap();
        assert!((reported / recorded.figure - 1.0).abs() < 1e-9, "{}: {reported}", recorded.tool);
    }
}

#[test]
fn tools_that_no_package_has_are_named() {
    for (tool, program) in
        [("xhpl", "xhpl"), ("xlinpack", "xlinpack_xeon64"), ("stream", "stream"), ("pmbw", "pmbw")]
    {
        if installed(program).is_none() {
            skipped(&format!("tools: {tool}"), "no package has it; its recorded output is read");
        }
        let dir = scratch();
        let (out, _) = ended(plimsoll(dir.path()).arg("peers"), 0);
        assert!(out.contains(tool), "{out}");
    }
}

/// A program that prints like Intel's; `reads` finds the order of the system.
fn as_intels_prints(dir: &Path, reads: &str) -> PathBuf {
    let path = dir.join("xlinpack");
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = -v ] && exit\n{reads}\n\
         echo 'Size   LDA    Align. Time(s)    GFlops   Residual     Residual(norm) Check'\n\
         sleep 0.05; echo \"$n $lda  4  0.0121 1.5 1e-12 3e-2 pass\"\n"
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn intels_linpack_is_given_its_file_and_the_answers_to_its_questions() {
    let from_file = "n=$(sed -n 4p \"$1\" | cut -d' ' -f1); lda=$(sed -n 5p \"$1\" | cut -d' ' -f1)";
    let from_questions = "read kind; [ $kind = data ] || exit 1; read n; read lda; read trials; read align";
    for reads in [from_file, from_questions] {
        let dir = place_for_programs();
        let script = as_intels_prints(dir.path(), reads);
        let peer = beside("xlinpack", "cpu --only cpu.linpack --n 300 --threads 1", dir.path(), &script);
        assert_eq!((&peer["status"], &peer["match"]), (&"ok".into(), &"scaled".into()), "{peer}");
        // 1.5 GFLOP/s of its count, 2/3·N³ + 2·N², converted to plimsoll's.
        let wanted = 1.5e9 * (200.0 + 1.5) / (200.0 + 2.0);
        assert!((peer["samples"][0].as_f64().unwrap() / wanted - 1.0).abs() < 1e-12, "{peer}");
        assert!(peer["input"]["stdin"].as_str().unwrap().starts_with("data\n300\n"), "{peer}");
    }
}
