//! `plimsoll cpu` under obstacles: each is reported in a line.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    PROGRAM, coded, ended, json, list, lossy, measured, plimsoll, reason, run_of, scratch, skip, warns,
    without_numbers,
};

#[test]
fn a_fixed_amount_is_divided_among_the_threads_and_named() {
    let work = "--work 1e10 --scaling strong --affinity compact";
    let document = run_of(&format!("cpu --samples 2 --type f64 --threads 1,2 {work}"));
    for (measurement, threads) in list(&document["measurements"]).iter().zip([1, 2]) {
        measured(measurement);
        let params = &measurement["case"]["params"];
        assert_eq!(params["threads"], threads, "{params}");
        assert_eq!(params["work"], 10_000_000_000_u64, "{params}");
        let achieved = measurement["achieved"]["work"].as_u64().unwrap();
        assert!((10_000_000_000..10_000_010_000).contains(&achieved), "{achieved}");
        let metrics: Vec<&Value> = list(&measurement["metrics"]).iter().map(|m| &m["name"]).collect();
        assert_eq!(metrics, ["rate", "time"]);
    }
    // Figures above known limits, or with most work excluded, allow no conclusion.
    let is_sound = |m: &Value| m["status"] == "ok" && !warns(m, "mostly-excluded");
    let all_sound = list(&document["measurements"]).iter().all(is_sound);
    let found = coded(&document["findings"], "scaling");
    let is_found = found.is_some_and(|f| f["evidence"]["steps"][0]["efficiency"].as_f64() > Some(0.0));
    assert!(!all_sound || is_found, "{}", document["findings"]);
}

#[test]
fn a_limit_on_processes_is_named_where_threads_cannot_start() {
    let nobody = 65534;
    let line = "cpu --type f64 --threads 100 --samples 1 --store none --json -";
    let mut run = Command::new("prlimit");
    run.args(["--nproc=24", PROGRAM]).args(line.split(' ')).uid(nobody).gid(nobody);
    run.current_dir(std::env::temp_dir());
    let output = match run.output() {
        Ok(output) => output,
        Err(why) => return skip(&format!("cannot become another user, whom the limit binds: {why}")),
    };
    let text = lossy(&output.stdout) + &lossy(&output.stderr);
    if text.matches("failed to execute").count() > 0 {
        return skip("another user may not read the build");
    }
    assert_eq!(output.status.code(), Some(4), "{text}");
    let run = json(&lossy(&output.stdout));
    // Refused before any thread starts, or by the first that cannot.
    let why = without_numbers(reason(&run["measurements"][0]));
    let late = why.starts_with("cannot start thread # of #: ") || why.starts_with("cannot start # threads: ");
    let mut parts = why.split(['(', ')', '`', ';', ',']);
    let advice = parts.any(|part| part.trim().trim_start_matches("raise ") == "ulimit -u");
    assert!(late && advice, "{why}");
}

#[test]
fn an_instruction_set_that_an_older_processor_lacks_is_told() {
    let emulator = Path::new("/usr/bin/qemu-x86_64");
    if !emulator.exists() || !cfg!(target_arch = "x86_64") {
        return skip("needs qemu-x86_64 (Debian: qemu-user) on x86-64");
    }
    let words = "cpu --op fma --type f64 --isa avx512,avx2 --threads 1 --list";
    let mut run = Command::new(emulator);
    let output = run.args(["-cpu", "Nehalem", PROGRAM]).args(words.split(' ')).output().unwrap();
    let text = lossy(&output.stdout) + &lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    for (isa, feature) in [("avx512", "avx512f"), ("avx2", "avx2")] {
        let line = text.lines().find(|line| line.contains(&format!("isa={isa}/"))).unwrap();
        let end = format!("not here: {isa} is not supported by this CPU: needs {feature}");
        assert!(line.ends_with(&end), "{line}");
    }
}

#[test]
fn a_wrong_answer_of_one_kernel_on_one_cpu_is_found_and_repeated_there() {
    let allowed = plimsoll_metal::affinity::allowed().unwrap();
    let last = *allowed.last().unwrap();
    let with_flip = |flip: &str, code| {
        let line = "cpu --only cpu.integrity --samples 1 --count 100 --store none";
        ended(plimsoll(scratch().path()).args(line.split(' ')).env("PLIMSOLL_TEST_FLIP", flip), code)
    };
    let (out, err) = with_flip(&format!("{last}:sha256:0.05"), 1);
    let parts = [&format!("CPU {last} computed ")[..], " in sha256 (wrong answer, "];
    assert!(parts.iter().all(|part| out.contains(part)), "{out}{err}");
    let is_compared = out.split_whitespace().collect::<Vec<_>>().join(" ").contains(" in 0 of 8000");
    assert!(is_compared || allowed.len() == 1, "{out}");
    // Other kernels and CPUs are right.
    for flip in ["8191:all:1", &format!("{last}:none:1"), "nonsense"] {
        let (out, _) = with_flip(flip, 0);
        assert!(out.contains("all right: 100 bursts × "), "{out}");
    }
}
