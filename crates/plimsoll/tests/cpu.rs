//! `plimsoll cpu` under obstacles: each is reported in a line.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{ended, measured as figures, plimsoll, reason, scratch, skipped, without_numbers};

fn reported(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy);
    text.concat()
}

fn measured(words: &[&str]) -> Value {
    let dir = scratch();
    let all = ["cpu", "--samples", "2", "--json", "-", "--store", "none"];
    let (out, _) = ended(plimsoll(dir.path()).args(all).args(words), 0);
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_fixed_amount_is_divided_among_the_threads_and_named() {
    let words = [
        "--type",
        "f64",
        "--threads",
        "1,2",
        "--work",
        "1e10",
        "--scaling",
        "strong",
        "--affinity",
        "compact",
    ];
    let document = measured(&words);
    for (measurement, threads) in document["measurements"].as_array().unwrap().iter().zip([1, 2]) {
        figures(measurement);
        let params = &measurement["case"]["params"];
        assert_eq!(
            (&params["threads"], &params["work"]),
            (&threads.into(), &10_000_000_000_u64.into()),
            "{params}"
        );
        let achieved = measurement["achieved"]["work"].as_u64().unwrap();
        assert!((10_000_000_000..10_000_010_000).contains(&achieved), "{achieved}");
        let metrics: Vec<&Value> =
            measurement["metrics"].as_array().unwrap().iter().map(|m| &m["name"]).collect();
        assert_eq!(metrics, ["rate", "time"]);
    }
    // Figures above known limits, or with most work excluded, allow no conclusion.
    let sound = |m: &Value| {
        let mut codes = m["warnings"].as_array().unwrap().iter().map(|note| &note["code"]);
        m["status"] == "ok" && codes.all(|code| code != "mostly-excluded")
    };
    let all_sound = document["measurements"].as_array().unwrap().iter().all(sound);
    let found = document["findings"].as_array().unwrap().iter().find(|f| f["code"] == "scaling");
    assert!(
        !all_sound || found.is_some_and(|f| f["evidence"]["steps"][0]["efficiency"].as_f64() > Some(0.0))
    );
}

#[test]
fn a_limit_on_processes_is_named_where_threads_cannot_start() {
    let name = "a_limit_on_processes_is_named_where_threads_cannot_start";
    let nobody = 65534;
    let dir = std::env::temp_dir();
    let mut run = Command::new("prlimit");
    run.args(["--nproc=24", env!("CARGO_BIN_EXE_plimsoll")])
        .args("cpu --type f64 --threads 100 --samples 1 --store none --json -".split(' '))
        .current_dir(&dir)
        .uid(nobody)
        .gid(nobody);
    let output = match run.output() {
        Ok(output) => output,
        Err(why) => {
            return skipped(name, &format!("cannot become another user, whom the limit binds: {why}"));
        }
    };
    let text = reported(&output);
    if text.matches("failed to execute").count() > 0 {
        return skipped(name, "another user may not read the build");
    }
    assert_eq!(output.status.code(), Some(4), "{text}");
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Refused before any thread starts, or by the first that cannot.
    let why = without_numbers(reason(&run["measurements"][0]));
    let late = why.starts_with("cannot start thread # of #: ") || why.starts_with("cannot start # threads: ");
    let advice = why
        .split(['(', ')', '`', ';', ','])
        .any(|part| part.trim().trim_start_matches("raise ") == "ulimit -u");
    assert!(late && advice, "{why}");
}

#[test]
fn an_instruction_set_that_an_older_processor_lacks_is_told() {
    let name = "an_instruction_set_that_an_older_processor_lacks_is_told";
    let emulator = Path::new("/usr/bin/qemu-x86_64");
    if !emulator.exists() || !cfg!(target_arch = "x86_64") {
        return skipped(name, "needs qemu-x86_64 (Debian: qemu-user) on x86-64");
    }
    let words = "cpu --op fma --type f64 --isa avx512,avx2 --threads 1 --list";
    let output = Command::new(emulator)
        .args(["-cpu", "Nehalem", env!("CARGO_BIN_EXE_plimsoll")])
        .args(words.split(' '))
        .output()
        .unwrap();
    let text = reported(&output);
    assert!(output.status.success(), "{text}");
    for (isa, feature) in [("avx512", "avx512f"), ("avx2", "avx2")] {
        let line = text.lines().find(|line| line.contains(&format!("isa={isa}/"))).unwrap();
        assert!(
            line.ends_with(&format!("not here: {isa} is not supported by this CPU: needs {feature}")),
            "{line}"
        );
    }
}

#[test]
fn a_wrong_answer_of_one_kernel_on_one_cpu_is_found_and_repeated_there() {
    let dir = scratch();
    let allowed = plimsoll_metal::affinity::allowed().unwrap();
    let last = *allowed.last().unwrap();
    let words = ["cpu", "--only", "cpu.integrity", "--samples", "1", "--count", "100", "--store", "none"];
    let flip = format!("{last}:sha256:0.05");
    let (out, err) = ended(plimsoll(dir.path()).args(words).env("PLIMSOLL_TEST_FLIP", flip), 1);
    assert!(
        out.contains(&format!("CPU {last} computed ")) && out.contains(" in sha256 (wrong answer, "),
        "{out}{err}"
    );
    let is_compared = out.split_whitespace().collect::<Vec<_>>().join(" ").contains(" in 0 of 8000");
    assert!(is_compared || allowed.len() == 1, "{out}");
    // Other kernels and CPUs are right.
    for flip in ["8191:all:1", &format!("{last}:none:1"), "nonsense"] {
        let (out, _) = ended(plimsoll(dir.path()).args(words).env("PLIMSOLL_TEST_FLIP", flip), 0);
        assert!(out.contains("all right: 100 bursts × "), "{out}");
    }
}
