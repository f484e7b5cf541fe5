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
    refused(&["machine", "--from", "/dev/null"], "not a saved machine");
    refused(&["machine", "--save", "/dev/null"], "--save /dev/null exists");
    refused(&["network", "--server", "http://far"], "the only URL is iperf3://");
    refused(
        &["run", "--budget", "-3s"],
        "--budget must be a time such as 50us, 200ms, 10m, 1h or 30d: '-3s' is negative",
    );
    refused(&["cpu", "--sample-time", "-1ms"], "--sample-time must be a time such as");
    refused(&["network", "--timeout", "-1s"], "--timeout must be a time such as");
    refused(&["disk", "--block", "-4K"], "--block must be a size such as 4K (4096 bytes)");
    refused(&["disk", "--depth", "-1"], "--depth must be a whole number such as 32: '-1' is negative");
    refused(&["disk", "--depth", "--json", "x"], "--depth requires a value (queue depth");
    refused(&["run", "--margin", "-3%"], "--margin must be a share such as 1%");
    refused(
        &["history", "show", "cpu", "--since", "-30d"],
        "--since must be a time such as 50us, 200ms, 10m, 1h or 30d: '-30d' is negative",
    );
    refused(&["serve", "--max-duration", "-60s"], "--max-duration must be a time such as");
    refused(&["memory", "--size", "100"], "size");
    refused(&["run", "--sample-time", "NaN"], "sample-time");
    refused(&["run", "--seed", "x"], "seed");
}

/// No text of a parser's own: the option, what it must be, what was typed.
#[test]
fn mistakes_of_options_have_one_of_four_shapes() {
    for (line, says) in [
        ("cpu --samples 0", "--samples must be between 1 and 1000000: '0' is not"),
        ("cpu --samples x", "--samples must be between 1 and 1000000: 'x' is not a whole number"),
        ("run --repeat 20000", "--repeat must be between 1 and 10000: '20000' is not"),
        ("doctor --rounds x", "--rounds must be between 0 and 100: 'x' is not a whole number"),
        ("serve --port 70000", "--port must be between 0 and 65535: '70000' is not"),
        ("serve --bind nowhere", "--bind must be an IP address of this machine"),
        ("serve --max-streams 0", "--max-streams must be between 1 and 256: '0' is not"),
        ("serve --key f --open", "--key and --open are mutually exclusive"),
        ("run --redact", "--redact requires --json or --html"),
        ("run --redact --json x --events y", "--redact and --events are mutually exclusive"),
        ("compare a b --strict", "--strict requires --fail-on"),
        ("compare a b --missing ignore", "--missing requires --fail-on or --require"),
        ("report x --format csv", "--format requires --tables"),
        ("report x --tables foo", "--tables must be 'published': 'foo' is not"),
        ("export x --format bogus", "--format must be text, html, json"),
        ("references --yes", "--yes requires --install"),
        ("disk --destroy-data-on /dev/x:1", "--destroy-data-on requires --target"),
        ("disk --destroy-data-on /dev/x", "--destroy-data-on must be DEVICE:SERIAL"),
        ("disk --margin 2%", "--margin requires --against"),
        ("disk --peer-path fio=/bin/true", "--reference-path requires --against"),
        ("peers --peer-path fio=/no/such", "--reference-path fio=/no/such must name a program: "),
        (
            "disk --reference-path fio",
            "--reference-path must be NAME=FILE, such as stream=./stream: 'fio' is not",
        ),
        ("network --key f", "--key requires --server or --resume"),
        ("network --bind 192.0.2.7", "--bind must be an address of this machine: 192.0.2.7 is not"),
        ("plan", "plimsoll plan requires a command: list, show or check"),
        ("key", "plimsoll key requires a command: 'new'"),
        ("compare a", "plimsoll compare requires two runs: write, for example, plimsoll compare last~1 last"),
        ("report", "plimsoll report requires a run: write, for example, plimsoll report last"),
        ("--json - cpu", "--json must come after the command: write plimsoll cpu --json -"),
        ("disk --steady on", "--steady requires its value after '=': write --steady=on"),
        (
            "disk --size 50%",
            "--size must be a size such as 4K (4096 bytes), 4kB (4000 bytes) or 1M: '50%' is not (unknown unit '%')",
        ),
        ("disk --rate 10MB/s", "or 1.5G: '10MB/s' is not (unknown unit 'MB/s')"),
        (
            "compare a b --metric bw",
            "--metric is not an option of plimsoll compare; plimsoll compare --help lists its options",
        ),
        (
            "network --depth 3",
            "--depth is not supported on plimsoll network: it is an option of plimsoll disk",
        ),
        (
            "serve --samples 3",
            "--samples is not supported on plimsoll serve: it is an option of plimsoll run",
        ),
        ("cpu --smaples 3", "--smaples is not an option of plimsoll cpu; did you mean --samples?"),
        ("--nonsense", "--nonsense is not an option of plimsoll; plimsoll --help lists its options"),
        ("quick", "'quick' is a plan, not a command: write plimsoll run quick"),
        ("mine.toml", "'mine.toml' is a plan, not a command: write plimsoll run mine.toml"),
        ("disk.fsync", "'disk.fsync' is a benchmark, not a command: write plimsoll disk --only disk.fsync"),
        (
            "sysbench cpu run",
            "sysbench is a word of sysbench: here it is a command for each part of the machine",
        ),
        ("dsik", "plimsoll has no command 'dsik'; did you mean plimsoll disk?"),
        ("cpu fma", "unexpected argument 'fma'; plimsoll cpu --help"),
        ("run --json", "--json requires a value: --json FILE|-"),
        ("run --quiet --quiet", "--quiet is given twice: give it once"),
        ("run --require x", "it must be cases, a metric"),
    ] {
        refused(&line.split(' ').collect::<Vec<_>>(), says);
    }
    #[cfg(target_arch = "x86_64")]
    refused(&["cpu", "--isa", "neon"], "--isa neon is not supported on x86_64: use best, all, portable");
}

/// What no run of these cases can meet is found before anything is measured.
#[test]
fn a_requirement_that_cannot_be_met_is_wrong_usage() {
    let one =
        |requirement: &str, says: &str| refused(&["run", "--only", "null", "--require", requirement], says);
    one("gpu rate >= 1", "no case of this run matches it");
    one("null speed >= 1", "null has no metric 'speed'; it has ");
    one("null latency >= 1 B/s", "must be given in s: B/s is another unit");
    one("null within 5%", "within requires a run over many machines");
}

#[test]
fn options_and_words_of_other_tools_are_answered_with_what_to_write() {
    refused(&["disk", "--rw=randread", "--bs=4k"], "as in plimsoll disk --op read --pattern random");
    refused(&["network", "--client", "db1"], "as in plimsoll network --server HOST");
    refused(&["--rw=read"], "as in plimsoll disk --op read --pattern random");
    refused(&["disk", "--op", "randread"], "write --op read --pattern random");
    refused(&["serve", "-p", "5201"], "as in plimsoll serve --port 5201");
    refused(&["report", "last", "--output", "x.html"], "as in --html FILE");
    refused(&["job.fio"], "as in plimsoll run FILE");
    refused(&["disk", "/dev/vda"], "as in plimsoll disk --target DEVICE");
    refused(&["gpu"], "plimsoll has no command 'gpu'; its commands are");
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
        assert!(lines.len() == 1 && lines[0].contains("--size"), "{err}");
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
    refused(&["cpu", "--only", "cpu.core-to-core", "--op", "fma"], "must be one of cas, store");
}

#[test]
fn matrices_that_cannot_be_are_refused() {
    refused(&["cpu", "--only", "cpu.linpack", "--n", "0"], "--n must be between 1 and");
    refused(&["cpu", "--only", "cpu.linpack", "--nb", "5000"], "--nb must be between 1 and");
    refused(&["cpu", "--only", "cpu.gemm", "--type", "i8"], "must be f64 or f32");
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
    refused(&["run", "--only", "cpu.peek"], "matches no case");
    refused(&["run", "--only", "["], "--only");
    refused(&["run", "--limits", "no/such/limits.toml"], "no/such/limits.toml");
}

#[test]
fn limits_that_fit_no_figure_are_refused_and_not_passed_over() {
    let dir = scratch();
    let row = |name: &str, metric: &str, unit: &str| {
        let row = format!(
            "[[limit]]\nmatch = \"{name}\"\nmetric = \"{metric}\"\nunit = \"{unit}\"\nvalue = 1e9\nkind = \"ceiling\"\nsource = \"me\"\n"
        );
        fs::write(dir.path().join("l.toml"), &row).unwrap();
        fs::write(dir.path().join("p.toml"), format!("{row}[[group]]\nbenchmark = \"cpu.peak\"\n")).unwrap();
    };
    for (name, metric, unit, why) in [
        ("cpu.peek", "rate", "FLOP/s", "match 'cpu.peek' matches no benchmark"),
        ("cpu.peak/*", "rat", "FLOP/s", "metric 'rat' is not a metric of"),
        ("cpu.peak", "rate", "s", "unit must be "),
    ] {
        row(name, metric, unit);
        let (_, err) = ended(plimsoll(dir.path()).args(["cpu", "--dry-run", "--limits", "l.toml"]), 2);
        assert!(err.contains("--limits l.toml, limit 1: ") && err.contains(why), "{err}");
        let (_, err) = ended(plimsoll(dir.path()).args(["plan", "check", "p.toml"]), 2);
        assert!(err.contains("plan p.toml, line 1, column 1: limit: ") && err.contains(why), "{err}");
    }
    row("cpu.peak", "rate", "FLOP/s");
    ended(plimsoll(dir.path()).args(["cpu", "--dry-run", "--limits", "l.toml"]), 0);
    ended(plimsoll(dir.path()).args(["plan", "check", "p.toml"]), 0);
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
    refused(&["run", "--json", "-", "--events", "-"], "--events - are mutually exclusive");
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
    // A large cache is measured for both, and other tests may use it for one of them: sizes follow it.
    let without_sizes = |text: &str| -> Vec<String> {
        let cases = text.lines().take(list.lines().count());
        cases.map(|case| case.split('/').filter(|part| !part.starts_with("size=")).collect()).collect()
    };
    assert_eq!(without_sizes(&dry), without_sizes(&list), "the dry run lists the same cases");
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
    refused(&["run", "--only", "memory.lat"], "matches no case");
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
            Some(name) if name.starts_with("limits") => {
                command.args(["run", "--dry-run", "--limits"]).arg(&path)
            }
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
        error.contains("--op mul is not supported with --type i8 on x86_64: mul has f64, f32"),
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

#[test]
fn each_process_of_a_launcher_measures_alone_and_the_first_says_so() {
    let quick = ["run", "--only", "null", "--samples=2", "--sample-time=1ms", "--store=none"];
    for (rank, size) in
        [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "SLURM_STEP_NUM_TASKS")]
    {
        for (number, processes, noted) in [("0", "1", false), ("0", "2", true), ("1", "2", false)] {
            let dir = scratch();
            let mut command = plimsoll(dir.path());
            let (out, err) = ended(command.env(rank, number).env(size, processes).args(quick), 0);
            assert!(out.contains("null"), "{out}");
            assert_eq!(err.contains("each of the 2 processes measures alone"), noted, "{err}");
        }
    }
}

/// Other programs write to the same pipe, as under `mpirun`: a line of several writes would be cut by theirs.
#[test]
fn a_line_on_stderr_is_one_write() {
    // Of a pipe in packet mode (O_DIRECT, pipe(2)) each read gives what one write wrote.
    let (end, other) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::DIRECT).unwrap();
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let status = std::process::Command::new(program).args(["run", "nothing.toml"]).stderr(other).status();
    assert_eq!(status.unwrap().code(), Some(2));
    let mut text = [0_u8; 4096];
    let read = rustix::io::read(&end, &mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..read]);
    assert!(
        text.starts_with("plimsoll: ") && text.ends_with('\n') && text.contains("nothing.toml"),
        "{text:?}"
    );
}
