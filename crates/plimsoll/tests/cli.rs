//! Command lines: what is listed, measured and printed; mistakes are in refusals.txt.

use std::fs;

use crate::support::{
    PROGRAM, document, done, ended, list, measured, metric, plimsoll, reason, repository, scratch,
};

#[test]
fn a_run_in_which_nothing_was_measured_says_so() {
    let dir = scratch();
    let line = "memory --only memory.bandwidth --size 2K --threads 1 --json -";
    let (out, mut stated) = done(dir.path(), line, 4);
    let run = crate::support::json(&out);
    assert!(list(&run["measurements"]).iter().all(|m| m["status"] == "skipped"), "{out}");
    // Requirements are named, too, and a resumed run has nothing more to measure.
    let required = "--store none --quiet --require 'memory.bandwidth bandwidth >= 1% of limit'";
    stated += &done(dir.path(), &format!("{line} {required}"), 4).1;
    let plan = "[[group]]\nbenchmark = \"memory.bandwidth\"\nsize = \"2K\"\nthreads = 1\n";
    fs::write(dir.path().join("plan.toml"), plan).unwrap();
    stated += &done(dir.path(), "run ./plan.toml --store none --quiet", 4).1;
    insta::assert_snapshot!(stated);
}

#[test]
fn small_matrices_are_solved_and_multiplied_and_what_no_memory_holds_fails() {
    let dir = scratch();
    let huge = "cpu --only cpu.linpack --n 100000000 --store none --json -";
    let run = document(dir.path(), huge, 4);
    let measurement = &run["measurements"][0];
    assert_eq!(measurement["cause"], "environment");
    assert!(reason(measurement).starts_with("needs 71.1 PiB of memory"), "{measurement}");
    let line = "cpu --only cpu.linpack,cpu.gemm --n 300 --samples 5 --store none --json -";
    let run = document(dir.path(), line, 0);
    let of = |name| list(&run["measurements"]).iter().filter(move |m| m["case"]["benchmark"] == name);
    let linpack = of("cpu.linpack").next().unwrap();
    measured(linpack);
    assert_eq!(linpack["case"]["params"]["n"], 300);
    let residual = metric(linpack, "residual");
    let is_below = |sample: &serde_json::Value| sample.as_f64().is_some_and(|sample| sample < 16.0);
    assert!(list(&residual["samples"]).iter().all(is_below), "{residual}");
    assert!(of("cpu.gemm").count() >= 2);
}

#[test]
fn a_dry_run_and_a_list_measure_nothing_and_list_what_is_asked_for() {
    let dir = scratch();
    let (list, _) = done(dir.path(), "run --list", 0);
    assert!(list.lines().all(|l| l.contains('/')), "{list}");
    let mut named = "cpu.peak memory.bandwidth memory.latency disk.io disk.fsync network.tcp".split(' ');
    assert!(named.all(|name| list.contains(&format!("{name}/"))), "{list}");
    let (dry, _) = done(dir.path(), "run --dry-run --seed 7", 0);
    // A large cache is measured by both runs, so sizes may differ.
    let without_sizes = |text: &str| -> Vec<String> {
        let cases = text.lines().take(list.lines().count());
        cases.map(|case| case.split('/').filter(|part| !part.starts_with("size=")).collect()).collect()
    };
    assert_eq!(without_sizes(&dry), without_sizes(&list), "the dry run lists the same cases");
    assert!(dry.split(", ").any(|part| part == "seed 7"), "{dry}");
    let (list, _) = done(dir.path(), "run --list --only cpu.peak/*threads=1", 0);
    assert!(list.lines().all(|l| l.starts_with("cpu.peak/") && l.ends_with("threads=1")), "{list}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn every_example_is_a_valid_plan() {
    let files = fs::read_dir(repository("examples")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| !path.is_dir()).collect();
    for path in &files {
        let is_limits = path.file_name().unwrap().to_str().unwrap().starts_with("limits");
        let option = if is_limits { "--limits" } else { "" };
        let (out, _) = done(scratch().path(), &format!("run --dry-run {option} {}", path.display()), 0);
        assert!(!out.is_empty(), "{}", path.display());
    }
    assert!(files.len() >= 5, "found {} examples", files.len());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_no_instruction_set_has_is_refused_and_what_this_one_lacks_is_listed() {
    let dir = scratch();
    let refused = ["cpu --op mul --type i8", "cpu --isa neon", "memory --variant sse9 --op copy"]
        .map(|line| done(dir.path(), line, 2).1);
    insta::assert_snapshot!(refused.concat());
    let (list, _) = done(dir.path(), "cpu --op dot --type i8 --isa all --threads 1 --list", 0);
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

const NOTE: &str = "plimsoll: each of the 2 processes measures alone; for one run over all machines start one and name them \
                    with --hosts";

#[test]
fn each_process_of_a_launcher_measures_alone_and_the_first_says_so() {
    let quick = "run --only null --samples=2 --sample-time=1ms --store=none";
    let set = [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "SLURM_STEP_NUM_TASKS")];
    for (rank, size) in set {
        for (number, processes, noted) in [("0", "1", false), ("0", "2", true), ("1", "2", false)] {
            let dir = scratch();
            let mut command = plimsoll(dir.path());
            let (_, err) = ended(command.env(rank, number).env(size, processes).args(quick.split(' ')), 0);
            assert_eq!(err.lines().filter(|line| *line == NOTE).count(), usize::from(noted), "{err}");
        }
    }
}

/// Output of other programs to the same pipe, as under `mpirun`, would split a line of several
/// writes.
#[test]
fn a_line_on_stderr_is_one_write() {
    // From a pipe in packet mode (O_DIRECT, pipe(2)) each read returns one write.
    let (end, other) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::DIRECT).unwrap();
    let status = std::process::Command::new(PROGRAM).args(["run", "nothing.toml"]).stderr(other).status();
    assert_eq!(status.unwrap().code(), Some(2));
    let mut text = [0_u8; 4096];
    let read = rustix::io::read(&end, &mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..read]);
    assert_eq!(text, "plimsoll: plan nothing.toml: No such file or directory\n");
}
