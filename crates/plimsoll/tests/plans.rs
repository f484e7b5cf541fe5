//! Plans as a user meets them: listed, checked, shown and read back.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use serde_json::Value;

use crate::disk::{in_own_mounts, measurements, possible, with_code};
use crate::support::{
    ended, measured, plimsoll, reason, redacted, scratch, skipped, until, without_ids, without_numbers,
};

#[test]
fn every_built_in_plan_is_listed_in_help_and_is_right() {
    let dir = scratch();
    let (list, _) = ended(plimsoll(dir.path()).args(["plan", "list"]), 0);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let (help, _) = ended(plimsoll(dir.path()).args(["run", "--help"]), 0);
    assert!(names.contains(&"quick"), "{list}");
    assert!(names.iter().all(|name| help.contains(name)), "{help}");
    let (checked, _) = ended(plimsoll(dir.path()).args(["plan", "check"]).args(&names), 0);
    assert_eq!(checked.lines().count(), names.len(), "{checked}");
    assert!(
        checked.lines().zip(&names).all(|(line, name)| line.starts_with(&format!("{name}: valid, "))),
        "{checked}"
    );
}

#[test]
fn a_command_line_becomes_a_file_and_back() {
    let dir = scratch();
    // A fixed size: the default may differ between starts if a large cache is measured.
    let line = ["memory", "--only", "memory.block", "--block", "1K,1M", "--volume", "1G", "--size", "64M"];
    let line = [&line[..], &["--scaling", "strong"]].concat();
    let (cases, _) = ended(plimsoll(dir.path()).args(&line).arg("--list"), 0);
    let (text, _) = ended(plimsoll(dir.path()).args(["plan", "show"]).args(&line), 0);
    fs::write(dir.path().join("shown.toml"), text).unwrap();
    let (again, _) = ended(plimsoll(dir.path()).args(["run", "shown.toml", "--list"]), 0);
    assert_eq!(again, cases);
    let (check, _) = ended(plimsoll(dir.path()).args(["plan", "check", "shown.toml"]), 0);
    assert_eq!(check, format!("shown.toml: valid, {} cases\n", cases.lines().count()));
    let (quick, _) =
        ended(plimsoll(dir.path()).args(["plan", "show", "plimsoll", "run", "quick", "--samples", "2"]), 0);
    let quick: toml::Table = quick.parse().unwrap();
    assert_eq!((quick["name"].as_str(), quick["samples"].as_integer()), (Some("quick"), Some(2)));
}

#[test]
fn limits_in_a_plan_stand_beside_the_figures() {
    let dir = scratch();
    let plan = "samples = 2\nsample-time = \"5ms\"\n[[limit]]\nmatch = \"null*\"\nmetric = \"latency\"\nunit = \"s\"\nvalue = 1e-12\nkind = \"floor\"\nsource = \"a guess\"\n[[group]]\nbenchmark = \"null\"\n";
    fs::write(dir.path().join("p.toml"), plan).unwrap();
    let words = ["run", "p.toml", "--store", "none", "--json", "-"];
    let (out, _) = ended(plimsoll(dir.path()).args(words), 0);
    let run: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(run["measurements"][0]["metrics"][0]["limit"]["value"], 1e-12);
}

#[test]
fn samples_that_a_budget_does_not_end_are_told() {
    let dir = scratch();
    let notes = |samples: &str, budget: &str| {
        let words = ["run", "--only", "null", samples, "--sample-time=5ms", "--budget", budget];
        // On a busy machine the budget of 10 ms can end before the case begins: exit code 4.
        let out = plimsoll(dir.path()).args(words).args(["--store", "none", "--json", "-"]).output().unwrap();
        let run: Value = serde_json::from_slice(&out.stdout).unwrap();
        without_numbers(&run["plan"]["notes"].to_string())
    };
    insta::assert_snapshot!([notes("--samples=9", "10ms"), notes("--samples=5", "1h")].join("\n"));
}

/// A port without a server: a plan that starts to measure would fail with 5.
const NOBODY: &str = "127.0.0.1:1";

#[test]
fn a_server_is_named_on_the_command_line_and_in_no_plan_file() {
    let dir = scratch();
    let group = "samples = 1\n[[group]]\nbenchmark = \"network.tcp\"\nmessage = \"1K\"\n";
    fs::write(dir.path().join("own.toml"), group).unwrap();
    let listed = ["run", "own.toml", "--server", NOBODY, "--list"];
    let (out, _) = ended(plimsoll(dir.path()).args(listed), 0);
    assert!(out.contains(&format!("/server={NOBODY}")), "{out}");
    for words in [&["network", "--only", "network.tcp"][..], &["run", "own.toml"]] {
        let (out, _) =
            ended(plimsoll(dir.path()).args(["plan", "show"]).args(words).args(["--server", NOBODY]), 0);
        assert!(
            out.starts_with("# --server: not part of a plan file; add it on the command line\n"),
            "{out}"
        );
        assert!(!out.contains(NOBODY), "{out}");
        fs::write(dir.path().join("shown.toml"), &out).unwrap();
        ended(plimsoll(dir.path()).args(["plan", "check", "shown.toml"]), 0);
    }
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/plan.v1.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[track_caller]
fn validated(name: &str, text: &str) {
    let plan: Value = serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(&plan).map(|e| format!("{e} at {}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{name}: {}", wrong.join("\n"));
}

#[test]
fn the_schema_knows_every_key_and_every_plan_keeps_to_it() {
    let keys = |value: &Value| -> BTreeSet<String> { value.as_object().unwrap().keys().cloned().collect() };
    let schema = schema();
    let wanted = |names: &str| -> BTreeSet<String> { names.split(' ').map(str::to_owned).collect() };
    assert_eq!(keys(&schema["properties"]), wanted(plimsoll_model::plan::file::TOP_KEYS));
    let mut group = wanted(plimsoll_model::plan::file::GROUP_KEYS);
    group.extend(plimsoll_model::case::KEYS.iter().map(|key| key.name.to_owned()));
    // The command line's alone.
    group.remove(plimsoll_model::plan::file::SERVER);
    assert_eq!(keys(&schema["$defs"]["group"]["properties"]), group);
    for plan in plimsoll_model::plan::built_in::BUILT_IN {
        validated(plan.name, plan.text);
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for file in
        fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()).filter(|file| file.is_file())
    {
        let text = fs::read_to_string(&file).unwrap();
        if text.lines().any(|line| line == "[[group]]") {
            validated(&file.display().to_string(), &text);
        }
    }
    let validator = jsonschema::validator_for(&schema).unwrap();
    for wrong in
        [r#"{"group": [{"benchmark": "null", "program": "x"}]}"#, r#"{"samples": 3}"#, r#"{"group": [{}]}"#]
    {
        assert!(!validator.is_valid(&serde_json::from_str(wrong).unwrap()), "{wrong}");
    }
}

const STILL_RUNNING: &str =
    "plimsoll: --resume: run ID is still running in another process; wait until it ends, or interrupt it\n";
const COMPLETE: &str = "plimsoll: --resume: run ID is complete; nothing is left to measure\n";
const OTHER_PLAN: &str = "plimsoll: --resume: run ID was made with another plan or options";

/// Six cases of which each takes about half a second.
const SIX: &str = "samples = 8\nsample-time = \"50ms\"\n[[group]]\nname = \"six\"\nnote = \"counted once\"\nbenchmark = \"cpu.peak\"\nisa = \"portable\"\nop = \"fma\"\ntype = [\"f64\", \"f32\"]\nthreads = [1, 2, 3]\n";

fn ids(run: &Value) -> Vec<String> {
    let all = run["measurements"].as_array().unwrap();
    all.iter().map(|m| format!("{} {}", m["case"]["id"].as_str().unwrap(), m["repeat"])).collect()
}

/// Starts the plan and kills it after `after` cases; returns whether it was still running. Until
/// then it cannot be resumed.
fn killed_after(dir: &Path, after: usize) -> bool {
    let events = dir.join("events");
    let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin("plimsoll"));
    run.current_dir(dir)
        .args(["run", "six.toml", "--repeat", "2", "--store", "h", "--events", "events", "--quiet"]);
    let mut run =
        run.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let measured = || fs::read_to_string(&events).unwrap_or_default().matches("\"measured\"").count();
    let started = || fs::read_to_string(&events).unwrap_or_default().matches("\"preparing\"").count() > 0;
    let mut over = false;
    until("a measured case", || {
        over = run.try_wait().unwrap().is_some();
        over || (started() && measured() >= after)
    });
    if over {
        return false;
    }
    // Stopped, so that it cannot end before.
    let signal = |signal| {
        let id = rustix::process::Pid::from_raw(run.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    };
    signal(rustix::process::Signal::STOP);
    let resume = plimsoll(dir).args(["run", "--resume", "last", "--store", "h"]).output().unwrap();
    let err = String::from_utf8(resume.stderr).unwrap();
    assert_eq!(resume.status.code(), Some(2), "{err}");
    run.kill().unwrap();
    // One that had ended already was not killed.
    let killed = run.wait().unwrap().signal() == Some(9);
    let why = if killed { STILL_RUNNING } else { COMPLETE };
    assert_eq!(without_ids(&err), why);
    killed
}

#[test]
fn a_killed_run_is_resumed_with_every_case_once_and_its_history_whole() {
    for after in [0, 2, 7] {
        let dir = scratch();
        fs::write(dir.path().join("six.toml"), SIX).unwrap();
        if !killed_after(dir.path(), after) {
            // This machine was busy with other things until the run was over.
            continue;
        }
        let resume = ["run", "--resume", "last", "--store", "h", "--json", "-"];
        let (before, _) = ended(plimsoll(dir.path()).args(["history", "list", "--store", "h"]), 0);
        let (other, err) = ended(plimsoll(dir.path()).args(resume).args(["--samples", "3"]), 2);
        let why = without_ids(&err);
        assert_eq!((other.as_str(), why.split(" (its hash is ").next()), ("", Some(OTHER_PLAN)));
        let (out, _) = ended(plimsoll(dir.path()).args(resume), 0);
        let run: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&run["status"], &run["plan"]["cases"]),
            (&"complete".into(), &12.into()),
            "after {after}"
        );
        let (listed, _) = ended(plimsoll(dir.path()).args(["run", "six.toml", "--list"]), 0);
        let wanted: BTreeSet<String> =
            listed.lines().flat_map(|id| [format!("{id} 1"), format!("{id} 2")]).collect();
        let got = ids(&run);
        assert_eq!((got.len(), got.into_iter().collect::<BTreeSet<_>>()), (12, wanted), "after {after}");
        for measurement in run["measurements"].as_array().unwrap() {
            measured(measurement);
            assert_eq!(measurement["metrics"][0]["samples"].as_array().unwrap().len(), 8);
        }
        let (list, _) = ended(plimsoll(dir.path()).args(["history", "list", "--store", "h"]), 0);
        assert_eq!(list.lines().count(), before.lines().count(), "it is the same run: {list}");
        assert_eq!(run["plan"]["notes"], serde_json::json!(["six: counted once"]));
        let (_, err) = ended(plimsoll(dir.path()).args(resume), 2);
        assert_eq!(without_ids(&err), COMPLETE);
    }
}

#[test]
fn every_repeat_has_all_cases_in_an_order_of_its_own() {
    let dir = scratch();
    fs::write(dir.path().join("six.toml"), SIX).unwrap();
    let line = [
        "run",
        "six.toml",
        "--repeat",
        "3",
        "--samples",
        "1",
        "--sample-time",
        "2ms",
        "--store",
        "none",
        "--json",
        "-",
    ];
    let run = |seed: &str| -> Vec<String> {
        let (out, _) = ended(plimsoll(dir.path()).args(line).args(["--seed", seed]), 0);
        ids(&serde_json::from_str(&out).unwrap())
    };
    let all = run("1");
    assert_eq!(all.len(), 18);
    let orders: Vec<Vec<&str>> =
        all.chunks(6).map(|part| part.iter().filter_map(|id| id.split(' ').next()).collect()).collect();
    let set = |order: &[&str]| order.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
    assert!(orders.iter().all(|order| set(order) == set(&orders[0])), "{orders:?}");
    // One of 720 seeds gives the same order twice; this one does not.
    assert!(orders[0] != orders[1] || orders[1] != orders[2], "{orders:?}");
    assert_eq!(run("1"), all, "the same seed gives the same order");
    for repeat in 1..=3 {
        assert_eq!(all.iter().filter(|id| id.ends_with(&format!(" {repeat}"))).count(), 6);
    }
}

#[test]
fn a_published_experiment_is_replayed_beside_its_figures() {
    let dir = scratch();
    let only = "cpu.peak,memory.block/op=read-write/pattern=random/block=1K/*,network.latency/protocol=tcp/*/streams=8/*";
    let words = ["run", "hyperion-prometheus", "--scale", "1e-6", "--only", only, "--against", "installed"];
    let (listed, _) = ended(plimsoll(dir.path()).args(words).arg("--list"), 0);
    let command = ["--store", "h", "--json", "run.json"];
    let (table, _) = ended(plimsoll(dir.path()).args(words).args(["--sample-time", "5ms"]).args(command), 0);
    let begins = |words: &str| table.lines().any(|line| line.trim_start().starts_with(words));
    assert!(begins("published (Hyperion, disk: Prometheus, year") && begins("How it is counted"), "{table}");
    let run: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("run.json")).unwrap()).unwrap();
    let measurements = run["measurements"].as_array().unwrap();
    assert_eq!(measurements.len(), listed.lines().count());
    assert_eq!(run["plan"]["scale"], 1e-6);
    for measurement in measurements {
        let reported = match measurement["status"].as_str().unwrap() {
            "ok" => measurement["metrics"][0]["summary"]["median"].is_number(),
            "skipped" | "invalid" => measurement["reason"].is_string(),
            _ => false,
        };
        assert!(reported, "{measurement}");
    }
    let report = ["report", "last", "--tables", "published", "--store", "h"];
    let (tables, _) = ended(plimsoll(dir.path()).args(report), 0);
    for title in ["CPU throughput", "memory throughput", "disk IOPS", "network latency"] {
        assert!(tables.contains(title), "{title} is not in {tables}");
    }
}

/// Reason of a case without enough disk space.
const FULL: &str = "the test file needs # MiB, and only # B can be used on mnt: # B are free, and # GiB stay free; \
                    use a smaller --size or another --dir";

#[test]
fn on_a_full_disk_its_cases_are_skipped_and_the_rest_runs() {
    if !possible("full disk in a plan", &["unshare", "mkfs.ext4"]) {
        return;
    }
    let dir = scratch();
    let plan = "samples = 1\nsample-time = \"2ms\"\n[[group]]\nbenchmark = [\"disk.io\", \"null\"]\n";
    fs::write(dir.path().join("p.toml"), plan).unwrap();
    // A disk that is full at the start.
    let script = "truncate -s 64M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; \
                  head -c 128M /dev/zero > mnt/fill 2>/dev/null || true; \
                  exec \"$1\" run p.toml --dir mnt --store none --quiet --json -";
    let (out, _) = with_code(&in_own_mounts(dir.path(), script, &[]), 0);
    let all = measurements(&out);
    let (null, disk): (Vec<&Value>, Vec<&Value>) =
        all.iter().partition(|m| m["case"]["id"].as_str().unwrap().starts_with("null"));
    assert!(!null.is_empty() && null.iter().all(|m| m["status"] == "ok"), "{null:?}");
    assert!(!disk.is_empty());
    for measurement in disk {
        assert_eq!(measurement["status"], "skipped", "{measurement}");
        assert_eq!(redacted(reason(measurement), dir.path()), FULL);
    }
}

/// As on a live system, whose memory would fill up.
#[test]
fn an_overlay_in_memory_is_no_disk() {
    let name = "an_overlay_in_memory_is_no_disk";
    if !possible(name, &["unshare"]) {
        return;
    }
    let dir = scratch();
    let script = "mkdir t m; mount -t tmpfs -o size=4G none t; mkdir t/lower t/upper t/work; \
                  o=lowerdir=$PWD/t/lower,upperdir=$PWD/t/upper,workdir=$PWD/t/work; \
                  mount -t overlay -o $o none m || exit 77; \
                  exec \"$1\" disk --only disk.io --op read --size 8M --dir m --store none";
    let output = in_own_mounts(dir.path(), script, &[]);
    let stated = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        return skipped(name, "this kernel mounts no overlay");
    }
    assert_eq!(output.status.code(), Some(4), "{stated}");
    insta::assert_snapshot!(redacted(&stated, dir.path()));
}
