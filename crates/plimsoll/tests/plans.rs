//! Plans as a user meets them: listed, checked, shown and read back.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::disk::{in_own_mounts, measurements};
use crate::support::{
    command, document, done, json, json_of, list, lossy, measured, possible, reason, redacted, repository,
    scratch, signal, skip, start, text, until, with_code, without_ids, without_numbers,
};

#[test]
fn every_built_in_plan_is_listed_in_help_and_is_right() {
    let dir = scratch();
    let (list, _) = done(dir.path(), "plan list", 0);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let (help, _) = done(dir.path(), "run --help", 0);
    assert!(names.contains(&"quick"), "{list}");
    assert!(names.iter().all(|name| help.contains(name)), "{help}");
    let (checked, _) = done(dir.path(), &format!("plan check {}", names.join(" ")), 0);
    assert_eq!(checked.lines().count(), names.len(), "{checked}");
    let is_valid = |(line, name): (&str, &&str)| line.starts_with(&format!("{name}: valid, "));
    assert!(checked.lines().zip(&names).all(is_valid), "{checked}");
}

#[test]
fn a_command_line_becomes_a_file_and_back() {
    let dir = scratch();
    // A fixed size: the default may differ between starts if a large cache is measured.
    let line = "memory --only memory.block --block 1K,1M --volume 1G --size 64M --scaling strong";
    let (cases, _) = done(dir.path(), &format!("{line} --list"), 0);
    fs::write(dir.path().join("shown.toml"), done(dir.path(), &format!("plan show {line}"), 0).0).unwrap();
    assert_eq!(done(dir.path(), "run shown.toml --list", 0).0, cases);
    let (check, _) = done(dir.path(), "plan check shown.toml", 0);
    assert_eq!(check, format!("shown.toml: valid, {} cases\n", cases.lines().count()));
    let quick: toml::Table =
        done(dir.path(), "plan show plimsoll run quick --samples 2", 0).0.parse().unwrap();
    assert_eq!((quick["name"].as_str(), quick["samples"].as_integer()), (Some("quick"), Some(2)));
}

#[test]
fn limits_in_a_plan_stand_beside_the_figures() {
    let dir = scratch();
    let plan = "samples = 2\nsample-time = \"5ms\"\n[[limit]]\nmatch = \"null*\"\nmetric = \"latency\"\nunit = \"s\"\nvalue = 1e-12\nkind = \"floor\"\nsource = \"a guess\"\n[[group]]\nbenchmark = \"null\"\n";
    fs::write(dir.path().join("p.toml"), plan).unwrap();
    let run = document(dir.path(), "run p.toml --store none --json -", 0);
    assert_eq!(run["measurements"][0]["metrics"][0]["limit"]["value"], 1e-12);
}

#[test]
fn samples_that_a_budget_does_not_end_are_told() {
    let dir = scratch();
    let notes = |options: &str| {
        let line = format!("run --only null --sample-time=5ms --store none --json - {options}");
        // On a busy machine the budget of 10 ms can end before the case begins: exit code 4.
        let output = command(&line).current_dir(dir.path()).output().unwrap();
        without_numbers(&json(&lossy(&output.stdout))["plan"]["notes"].to_string())
    };
    insta::assert_snapshot!(["--samples=9 --budget 10ms", "--samples=5 --budget 1h"].map(notes).join("\n"));
}

/// A port without a server: a plan that starts to measure would fail with 5.
const NOBODY: &str = "127.0.0.1:1";

#[test]
fn a_server_is_named_on_the_command_line_and_in_no_plan_file() {
    let dir = scratch();
    let group = "samples = 1\n[[group]]\nbenchmark = \"network.tcp\"\nmessage = \"1K\"\n";
    fs::write(dir.path().join("own.toml"), group).unwrap();
    let (out, _) = done(dir.path(), &format!("run own.toml --server {NOBODY} --list"), 0);
    assert!(out.contains(&format!("/server={NOBODY}")), "{out}");
    for line in ["network --only network.tcp", "run own.toml"] {
        let (out, _) = done(dir.path(), &format!("plan show {line} --server {NOBODY}"), 0);
        let head = "# --server: not part of a plan file; add it on the command line\n";
        assert!(out.starts_with(head) && !out.contains(NOBODY), "{out}");
        fs::write(dir.path().join("shown.toml"), &out).unwrap();
        done(dir.path(), "plan check shown.toml", 0);
    }
}

#[test]
fn the_schema_knows_every_key_and_every_plan_keeps_to_it() {
    let schema = json_of(&repository("schema"), "plan.v1.json");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let validated = |name: &str, text: &str| {
        let plan: Value = serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap();
        let wrong: Vec<String> =
            validator.iter_errors(&plan).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert!(wrong.is_empty(), "{name}: {}", wrong.join("\n"));
    };
    let keys = |value: &Value| -> BTreeSet<String> { value.as_object().unwrap().keys().cloned().collect() };
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
    let examples = fs::read_dir(repository("examples")).unwrap().map(|entry| entry.unwrap().path());
    for file in examples.filter(|file| file.is_file()) {
        let text = fs::read_to_string(&file).unwrap();
        if text.lines().any(|line| line == "[[group]]") {
            validated(&file.display().to_string(), &text);
        }
    }
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
    list(&run["measurements"]).iter().map(|m| format!("{} {}", text(&m["case"]["id"]), m["repeat"])).collect()
}

/// Kills the plan after `after` cases, until when none can resume it. Whether it was still running.
fn killed_after(dir: &Path, after: usize) -> bool {
    let events = dir.join("events");
    let line = "run six.toml --repeat 2 --store h --events events --quiet";
    let mut run = start(command(line).current_dir(dir));
    let count = |event: &str| fs::read_to_string(&events).unwrap_or_default().matches(event).count();
    let mut over = false;
    until("a measured case", || {
        over = run.try_wait().unwrap().is_some();
        over || (count("\"preparing\"") > 0 && count("\"measured\"") >= after)
    });
    if over {
        return false;
    }
    // Stopped, so that it cannot end before.
    signal(run.id(), Signal::STOP);
    let (_, err) = done(dir, "run --resume last --store h", 2);
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
        let resume = "run --resume last --store h --json -";
        let listed = || done(dir.path(), "history list --store h", 0).0.lines().count();
        let before = listed();
        let (other, err) = done(dir.path(), &format!("{resume} --samples 3"), 2);
        let why = without_ids(&err);
        assert_eq!((other.as_str(), why.split(" (its hash is ").next()), ("", Some(OTHER_PLAN)));
        let run = document(dir.path(), resume, 0);
        let whole = (&run["status"], &run["plan"]["cases"]);
        assert_eq!(whole, (&"complete".into(), &12.into()), "after {after}");
        let (cases, _) = done(dir.path(), "run six.toml --list", 0);
        let wanted: BTreeSet<String> =
            cases.lines().flat_map(|id| [format!("{id} 1"), format!("{id} 2")]).collect();
        let got = ids(&run);
        assert_eq!((got.len(), got.into_iter().collect::<BTreeSet<_>>()), (12, wanted), "after {after}");
        for measurement in list(&run["measurements"]) {
            measured(measurement);
            assert_eq!(list(&measurement["metrics"][0]["samples"]).len(), 8);
        }
        assert_eq!(listed(), before, "it is the same run");
        assert_eq!(run["plan"]["notes"], serde_json::json!(["six: counted once"]));
        assert_eq!(without_ids(&done(dir.path(), resume, 2).1), COMPLETE);
    }
}

#[test]
fn every_repeat_has_all_cases_in_an_order_of_its_own() {
    let dir = scratch();
    fs::write(dir.path().join("six.toml"), SIX).unwrap();
    let line = "run six.toml --repeat 3 --samples 1 --sample-time 2ms --store none --json - --seed 1";
    let run = || ids(&document(dir.path(), line, 0));
    let all = run();
    assert_eq!(all.len(), 18);
    let orders: Vec<Vec<&str>> =
        all.chunks(6).map(|part| part.iter().filter_map(|id| id.split(' ').next()).collect()).collect();
    let set = |order: &[&str]| order.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
    assert!(orders.iter().all(|order| set(order) == set(&orders[0])), "{orders:?}");
    // One of 720 seeds gives the same order twice; this one does not.
    assert!(orders[0] != orders[1] || orders[1] != orders[2], "{orders:?}");
    assert_eq!(run(), all, "the same seed gives the same order");
    for repeat in 1..=3 {
        assert_eq!(all.iter().filter(|id| id.ends_with(&format!(" {repeat}"))).count(), 6);
    }
}

#[test]
fn a_published_experiment_is_replayed_beside_its_figures() {
    let dir = scratch();
    let only = "cpu.peak,memory.block/op=read-write/pattern=random/block=1K/*,network.latency/protocol=tcp/*/streams=8/*";
    let line = format!("run hyperion-prometheus --scale 1e-6 --only {only} --against installed");
    let (listed, _) = done(dir.path(), &format!("{line} --list"), 0);
    let (table, _) = done(dir.path(), &format!("{line} --sample-time 5ms --store h --json run.json"), 0);
    let begins = |words: &str| table.lines().any(|line| line.trim_start().starts_with(words));
    assert!(begins("published (Hyperion, disk: Prometheus, year") && begins("How it is counted"), "{table}");
    let run = json_of(dir.path(), "run.json");
    assert_eq!(list(&run["measurements"]).len(), listed.lines().count());
    assert_eq!(run["plan"]["scale"], 1e-6);
    for measurement in list(&run["measurements"]) {
        let reported = match text(&measurement["status"]) {
            "ok" => measurement["metrics"][0]["summary"]["median"].is_number(),
            "skipped" | "invalid" => measurement["reason"].is_string(),
            _ => false,
        };
        assert!(reported, "{measurement}");
    }
    let (tables, _) = done(dir.path(), "report last --tables published --store h", 0);
    for title in ["CPU throughput", "memory throughput", "disk IOPS", "network latency"] {
        assert!(tables.contains(title), "{title} is not in {tables}");
    }
}

/// Reason of a case without enough disk space.
const FULL: &str = "the test file needs # MiB, and only # B can be used on mnt: # B are free, and # GiB stay free; \
                    use a smaller --size or another --dir";

#[test]
fn on_a_full_disk_its_cases_are_skipped_and_the_rest_runs() {
    let Some(()) = possible(&["unshare", "mkfs.ext4"]) else { return };
    let dir = scratch();
    let plan = "samples = 1\nsample-time = \"2ms\"\n[[group]]\nbenchmark = [\"disk.io\", \"null\"]\n";
    fs::write(dir.path().join("p.toml"), plan).unwrap();
    // A disk that is full at the start.
    let script = "truncate -s 64M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; \
                  head -c 128M /dev/zero > mnt/fill 2>/dev/null || true; \
                  exec \"$1\" run p.toml --dir mnt --store none --quiet --json -";
    let all = measurements(&in_own_mounts(dir.path(), script), 0);
    let (null, disk): (Vec<&Value>, Vec<&Value>) =
        all.iter().partition(|m| text(&m["case"]["id"]).starts_with("null"));
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
    let Some(()) = possible(&["unshare"]) else { return };
    let dir = scratch();
    let script = "mkdir t m; mount -t tmpfs -o size=4G none t; mkdir t/lower t/upper t/work; \
                  o=lowerdir=$PWD/t/lower,upperdir=$PWD/t/upper,workdir=$PWD/t/work; \
                  mount -t overlay -o $o none m || exit 77; \
                  exec \"$1\" disk --only disk.io --op read --size 8M --dir m --store none";
    let output = in_own_mounts(dir.path(), script);
    if output.status.code() == Some(77) {
        return skip("this kernel mounts no overlay");
    }
    insta::assert_snapshot!(redacted(&with_code(&output, 4).1, dir.path()));
}
