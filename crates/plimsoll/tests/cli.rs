//! The command line as a user meets it: one line for each mistake, the documented exit code, nothing left behind.

use std::fs;

use crate::support::{ended, measured, plimsoll, scratch};

/// A mistake: exit 2, nothing on stdout, one line on stderr that holds `says`, nothing left in the directory.
#[track_caller]
fn refused(arguments: &[&str], says: &str) {
    let dir = scratch();
    let (out, err) = ended(plimsoll(dir.path()).args(arguments), 2);
    assert_eq!(out, "");
    assert_eq!(err.trim_end().lines().count(), 1, "{err}");
    assert!(err.contains(says), "{err:?} does not say {says:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn wrong_flags_and_values_are_told_in_one_line() {
    refused(&["--nonsense"], "--nonsense");
    refused(&["frobnicate"], "frobnicate");
    refused(&["cpu", "--threads", "0"], "threads");
    refused(&["cpu", "--threads", "two"], "threads");
    refused(&["disk", "--block", "1e999"], "block");
    refused(&["disk", "--block", "4Q"], "block");
    refused(&["disk", "--block", "0"], "block");
    refused(&["cpu", "--op", "fmaa"], "fma");
    refused(&["run", "--samples", "0"], "samples");
    refused(&["run", "--precision", "-1"], "precision");
    refused(&["run", "--budget", "0s"], "budget");
    refused(&["machine", "--from", "nothing"], "--from nothing: ");
    refused(&["machine", "--from", "/dev/null"], "no saved machine");
    refused(&["machine", "--save", "/dev/null"], "--save /dev/null exists");
    refused(&["network", "--server", "http://far"], "iperf3:// alone");
    refused(
        &["--budget", "-3s"],
        "'--budget <TIME>': '-3s' is negative, which a duration cannot be: write 200ms",
    );
    refused(&["cpu", "--sample-time", "-1ms"], "'--sample-time <TIME>': '-1ms' is negative");
    refused(&["network", "--timeout", "-1s"], "timeout: '-1s' is negative");
    refused(&["disk", "--block", "-4K"], "block: '-4K' is negative");
    refused(&["disk", "--depth", "-1"], "depth: '-1' is negative");
    refused(&["disk", "--depth", "--json", "x"], "a value is required for '--depth <VALUE,…>'");
    refused(&["run", "--margin", "-3%"], "'--margin <SHARE>': ");
    refused(&["history", "show", "cpu", "--since", "-30d"], "'--since <TIME>': a time such as 30d");
    refused(&["serve", "--max-duration", "-60s"], "'--max-duration <TIME>': ");
    refused(&["memory", "--size", "100"], "write at least 1K, or 4K where there are arrays");
    refused(&["run", "--sample-time", "NaN"], "sample-time");
    refused(&["run", "--seed", "x"], "seed");
}

#[test]
fn a_run_in_which_nothing_was_measured_says_so() {
    let dir = scratch();
    let words = ["memory", "--only", "memory.bandwidth", "--size", "2K", "--json", "-"];
    let (out, err) = ended(plimsoll(dir.path()).args(words), 4);
    assert!(out.contains("\"skipped\"") && !out.contains("\"ok\""), "{out}");
    let said = |err: &str| {
        let lines: Vec<String> =
            err.lines().filter(|l| l.contains("nothing was measured")).map(str::to_owned).collect();
        assert!(lines.len() == 1 && lines[0].ends_with("give a --size of 4K"), "{err}");
    };
    said(&err);
    // What is required is named, too, and a run that is resumed has nothing more to measure.
    let required = ["--require", "memory.bandwidth bandwidth >= 1% of limit", "--store", "none"];
    let (_, err) = ended(plimsoll(dir.path()).args(words).args(required), 4);
    said(&err);
    assert!(err.contains("not met: ") && err.contains("skipped: "), "{err}");
    fs::write(dir.path().join("plan.toml"), "[[group]]\nbenchmark = \"memory.bandwidth\"\nsize = \"2K\"\n")
        .unwrap();
    let (_, err) = ended(plimsoll(dir.path()).args(["run", "./plan.toml", "--store", "none", "--quiet"]), 4);
    said(&err);
}

#[test]
fn a_value_is_judged_by_the_benchmarks_that_are_asked_for() {
    let dir = scratch();
    let only = ["cpu", "--only", "cpu.core-to-core", "--op", "store", "--list"];
    let (out, _) = ended(plimsoll(dir.path()).args(only), 0);
    assert!(out.starts_with("cpu.core-to-core/op=store"), "{out}");
    refused(&["cpu", "--only", "cpu.core-to-core", "--op", "fma"], "choose cas, store");
}

#[test]
fn matrices_that_cannot_be_are_refused() {
    refused(&["cpu", "--only", "cpu.linpack", "--n", "0"], "n: 0 is out of range");
    refused(&["cpu", "--only", "cpu.linpack", "--nb", "5000"], "nb: 5000 is out of range");
    refused(&["cpu", "--only", "cpu.gemm", "--type", "i8"], "choose f64, f32");
    refused(&["cpu", "--n", "1000"], "--only");
    let dir = scratch();
    let huge = ["cpu", "--only", "cpu.linpack", "--n", "100000000", "--store", "none"];
    let (out, _) = ended(plimsoll(dir.path()).args(huge), 4);
    assert!(out.contains("needs 71.1 PiB of memory"), "{out}");
}

#[test]
fn small_matrices_are_solved_and_multiplied() {
    let dir = scratch();
    let only = "cpu.linpack,cpu.gemm";
    let words = ["cpu", "--only", only, "--n", "300", "--samples", "5", "--store", "none", "--json", "-"];
    let (out, _) = ended(plimsoll(dir.path()).args(words), 0);
    let run: serde_json::Value = serde_json::from_str(&out).unwrap();
    let measurements = run["measurements"].as_array().unwrap();
    let linpack = measurements.iter().find(|m| m["case"]["benchmark"] == "cpu.linpack").unwrap();
    measured(linpack);
    assert_eq!(linpack["case"]["params"]["n"], 300);
    let residual = linpack["metrics"].as_array().unwrap().iter().find(|m| m["name"] == "residual").unwrap();
    let below = |sample: &serde_json::Value| sample.as_f64().is_some_and(|sample| sample < 16.0);
    assert!(residual["samples"].as_array().unwrap().iter().all(below), "{residual}");
    assert!(measurements.iter().filter(|m| m["case"]["benchmark"] == "cpu.gemm").count() >= 2);
}

#[test]
fn unknown_plans_and_benchmarks_are_told() {
    refused(&["run", "no-such-plan"], "quick");
    refused(&["run", "no/such/plan.toml"], "no/such/plan.toml");
    refused(&["run", "/dev/zero"], "not a regular file");
    refused(&["run", "--only", "cpu.peek"], "matches nothing");
    refused(&["run", "--only", "["], "--only");
    refused(&["run", "--limits", "no/such/limits.toml"], "no/such/limits.toml");
}

#[test]
fn a_missing_directory_is_told_before_anything_is_measured() {
    refused(&["run", "--dir", "/nonexistent"], "/nonexistent");
    refused(&["disk", "--dir", "/dev/null"], "/dev/null");
}

#[test]
fn network_has_streams_and_no_threads() {
    refused(&["network", "--threads", "2"], "--streams");
}

#[test]
fn two_documents_do_not_fit_one_stdout() {
    refused(&["run", "--json", "-", "--events", "-"], "--events -");
}

#[test]
fn a_plan_with_an_unknown_key_is_told_with_line_column_and_the_nearest() {
    let dir = scratch();
    let plan = dir.path().join("p.toml");
    fs::write(&plan, "[[group]]\nbenchmark = \"cpu.peak\"\nthread = 2\n").unwrap();
    let (out, err) = ended(plimsoll(dir.path()).args(["run", "p.toml"]), 2);
    assert_eq!(out, "");
    assert_eq!(
        err,
        "plimsoll: plan p.toml, line 3, column 1: unknown key 'thread'; did you mean 'threads'?\n"
    );
}

#[test]
fn a_plan_of_a_gibibyte_is_refused_unread() {
    let dir = scratch();
    let plan = fs::File::create(dir.path().join("big.toml")).unwrap();
    plan.set_len(1 << 30).unwrap();
    let (_, err) = ended(plimsoll(dir.path()).args(["run", "big.toml"]), 2);
    assert!(err.contains("larger than 1 MiB"), "{err}");
}

#[test]
fn a_dry_run_and_a_list_measure_nothing() {
    let dir = scratch();
    let (list, _) = ended(plimsoll(dir.path()).args(["run", "--list"]), 0);
    assert!(list.lines().all(|l| l.contains('/')), "{list}");
    for part in
        ["cpu.peak/", "memory.bandwidth/", "memory.latency/", "disk.io/", "disk.fsync/", "network.tcp/"]
    {
        assert!(list.contains(part), "{part} is not in:\n{list}");
    }
    let (dry, _) = ended(plimsoll(dir.path()).args(["run", "--dry-run", "--seed", "7"]), 0);
    assert!(dry.starts_with(&list), "the dry run lists the same cases");
    assert!(dry.contains("seed 7"), "{dry}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn only_takes_whole_components_and_globs() {
    let dir = scratch();
    let list = |only: &str| ended(plimsoll(dir.path()).args(["run", "--list", "--only", only]), 0).0;
    assert!(list("memory").lines().all(|l| l.starts_with("memory.")));
    assert!(list("memory.latency").lines().all(|l| l.starts_with("memory.latency/")));
    assert!(list("cpu.peak/*threads=1").lines().all(|l| l.ends_with("threads=1")));
    refused(&["run", "--only", "memory.lat"], "matches nothing");
}

#[test]
fn every_example_is_a_valid_plan() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let dir = scratch();
        let mut command = plimsoll(dir.path());
        match path.file_name().unwrap().to_str() {
            Some("limits.toml") => command.args(["run", "--dry-run", "--limits"]).arg(&path),
            _ => command.args(["run", "--dry-run"]).arg(&path),
        };
        let (out, _) = ended(&mut command, 0);
        assert!(out.contains("cases"), "{}: {out}", path.display());
        seen += 1;
    }
    assert!(seen >= 5, "found {seen} examples");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_no_instruction_set_has_is_refused_and_what_this_one_lacks_is_listed() {
    let dir = scratch();
    let (_, error) = ended(plimsoll(dir.path()).args(["cpu", "--op", "mul", "--type", "i8"]), 2);
    assert!(
        error.contains("no instruction set of x86_64 has mul of i8; mul there is for f64, f32"),
        "{error}"
    );
    let dots = ["cpu", "--op", "dot", "--type", "i8", "--isa", "all", "--threads", "1", "--list"];
    let (list, _) = ended(plimsoll(dir.path()).args(dots), 0);
    let (cases, kernels) = list.split_once("\n\n").unwrap();
    let ids: Vec<&str> = cases.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let isas = ["avx2", "avx512", "amx"];
    assert_eq!(ids, isas.map(|isa| format!("cpu.peak/op=dot/type=i8/isa={isa}/threads=1")));
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap();
    for (isa, feature) in isas.into_iter().zip(["avx_vnni", "avx512_vnni", "amx_int8"]) {
        let has = flags.split_whitespace().any(|flag| flag == feature);
        let needs = format!("not supported by this CPU: needs {feature}");
        for part in [cases, kernels] {
            let line = part.lines().find(|line| line.contains(isa)).unwrap();
            assert_eq!(line.contains(&needs), !has, "{line}");
        }
    }
}

/// With MPI such a process joins a world of one; that needs MPI, and tests/cluster has it.
#[cfg(not(feature = "mpi"))]
#[test]
fn a_process_that_a_launcher_started_alone_is_an_ordinary_run() {
    let quick = ["run", "--only", "null", "--samples=2", "--sample-time=1ms", "--store=none"];
    let started = |rank: &str, size: &str, ranks: &str| {
        let dir = scratch();
        let mut command = plimsoll(dir.path());
        command.env(rank, "0").env(size, ranks).args(quick);
        ended(&mut command, if ranks == "1" { 0 } else { 4 })
    };
    for (rank, size) in [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "SLURM_NTASKS")] {
        let (out, _) = started(rank, size, "1");
        assert!(out.contains("null"), "{out}");
        let (_, err) = started(rank, size, "2");
        assert!(err.contains("this build has no MPI"), "{err}");
    }
}
