//! Runs every command by the release program, without debug assertions, from `PLIMSOLL_RELEASE`.

use std::collections::BTreeSet;

use assert_cmd::Command;

use crate::support::{PATIENCE, confine, done, lossy, scratch, skip};

/// Command lines, which may use results of earlier ones, and exit codes; figures mean nothing.
const LINES: &[(&str, &[i32])] = &[
    ("--version", &[0]),
    ("--help", &[0]),
    ("--help-all", &[0]),
    ("frobnicate", &[2]),
    ("plan list", &[0]),
    ("plan show quick", &[0]),
    ("plan show cpu --op add --type f64 --threads 1", &[0]),
    ("run quick --dry-run", &[0]),
    ("run --list", &[0]),
    ("machine", &[0]),
    ("machine --json", &[0]),
    ("machine --save machine.tar.gz", &[0]),
    ("machine --from machine.tar.gz", &[0]),
    ("references", &[0]),
    ("references --install", &[0]),
    ("references --reference-path fio=/bin/true", &[0]),
    ("references --hosts nowhere.invalid --program nothing", &[2]),
    ("references --inventory nothing", &[2]),
    ("doctor --rounds 0 --store none --quiet", &[0, 1]),
    ("doctor --hosts nowhere.invalid --program nothing", &[2]),
    ("key new key", &[0]),
    ("serve --key nothing", &[2, 3]),
    ("cpu --op add --type f64 --threads 1 --samples 2 --sample-time 5ms --quiet", &[0]),
    ("cpu --op add --type f64 --threads 1 --samples 2 --sample-time 5ms --json a.json --html a.html", &[0]),
    ("cpu --only cpu.gemm --type f64 --n 64 --threads 1 --samples 2 --sample-time 5ms --store none", &[0]),
    ("cpu --only cpu.linpack --n 64 --threads 1 --samples 2 --quiet --store none", &[0]),
    ("cpu --only cpu.crypto --threads 1 --samples 2 --sample-time 5ms --quiet --store none", &[0]),
    ("memory --op read --size 1M --threads 1 --samples 2 --sample-time 5ms --json - --store none", &[0]),
    ("memory --only memory.latency --size 1M --samples 2 --sample-time 5ms --quiet --store none", &[0]),
    ("disk --op write --block 4K --size 1M --samples 2 --sample-time 5ms --verify --store none", &[0]),
    ("disk --only disk.fsync --samples 2 --sample-time 5ms --quiet --store none", &[0]),
    ("network --samples 2 --sample-time 20ms --quiet --store none --only network.tcp", &[0]),
    ("network --samples 2 --sample-time 20ms --quiet --store none --only network.udp --rate 10M", &[0]),
    ("network --samples 2 --sample-time 20ms --quiet --store none --only network.latency", &[0]),
    ("history", &[0]),
    ("history list", &[0]),
    ("history show cpu.peak", &[0]),
    ("history tag last mine", &[0]),
    ("history tag last", &[2]),
    ("report last", &[0]),
    ("report last --card", &[0]),
    ("report last --html b.html", &[0]),
    ("report last --tables published --format csv", &[2]),
    ("export last --format json --output b.json", &[0]),
    ("export last --format csv", &[0]),
    ("export last --format ndjson", &[0]),
    ("export last --format markdown", &[0]),
    ("export last --format junit", &[0]),
    ("export last --format openmetrics", &[0]),
    ("import a.json", &[0]),
    ("compare a.json b.json", &[0, 1]),
    ("compare a.json b.json --format markdown --all", &[0, 1]),
    ("compare a.json a.json b.json", &[2]),
    ("compare last last --fail-on 5% --missing fail", &[2]),
    ("gather a.json", &[0]),
    ("gather a.json --expect machine.tar.gz", &[2]),
    ("check machine.tar.gz", &[2]),
    ("site pages", &[0]),
    ("gate --level 1 --store none --quiet", &[0, 1, 6]),
    ("gate --level 1 --store none --format json", &[0, 1, 6]),
    ("os --only os.syscall --op getppid --samples 1 --sample-time 10ms --store none --quiet", &[0]),
    ("steady --store none --quiet -- true", &[0]),
    ("steady --store none --repeat 2 --output steady.json -- sleep 0.1", &[0]),
    ("steady --baseline steady.json --fail-unless-steady --format bmf --output steady.bmf -- false", &[1, 6]),
    ("steady --format bmf -- true", &[2]),
    ("steady --store none -- ./nothing", &[127]),
    ("steady --start it --quiet", &[0]),
    ("steady --start it", &[2]),
    ("steady --stop it --fail-unless-steady --results steady.json", &[0, 6]),
    ("steady --stop it", &[2]),
    ("steady --start it --below 4194304", &[2]),
    ("watch --for 10s --every 5s --only cpu.peak --quiet --store none", &[2]),
    ("watch --status", &[0]),
    ("watch --stop", &[2]),
];

#[test]
fn every_command_ends_with_its_documented_exit_code() {
    let Some(program) = std::env::var_os("PLIMSOLL_RELEASE") else {
        return skip("PLIMSOLL_RELEASE names no program");
    };
    let dir = scratch();
    let mut wrong = Vec::new();
    for (line, codes) in LINES {
        let mut command = std::process::Command::new(&program);
        confine(&mut command, dir.path()).args(line.split(' '));
        let output = Command::from_std(command).timeout(PATIENCE).output().unwrap();
        let (code, texts) = (output.status.code(), lossy(&[output.stdout, output.stderr].concat()));
        let expected = code.is_some_and(|code| codes.contains(&code));
        if !expected || texts.contains("internal error") {
            wrong.push(format!("plimsoll {line}\n  ended with {code:?} and not one of {codes:?}\n{texts}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_has_a_line_here() {
    let dir = scratch();
    let (help, _) = done(dir.path(), "--help", 0);
    let named: BTreeSet<&str> = LINES.iter().filter_map(|(line, _)| line.split(' ').next()).collect();
    let sections = help.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let words = sections.filter_map(|line| line.split_whitespace().next());
    let commands: BTreeSet<&str> = words.filter(|word| !word.starts_with('-')).collect();
    assert!(commands.len() > 10, "{commands:?}");
    let missing: Vec<&str> = commands.difference(&named).copied().collect();
    assert!(missing.is_empty(), "{missing:?}");
}
