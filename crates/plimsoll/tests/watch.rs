//! `plimsoll watch`: events are found with their time, and any end loses at most one probe.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::groups::Group;
use crate::support::{
    Owned, coded, command, confine, cpu_times, done, json_of, list, lossy, plimsoll, redacted, scratch,
    signal, start, until, valid_operation, with_code, without_numbers,
};

const BEGIN: &str = "watch probe.toml --for 60s --every 1s --cpu-share 50% --store h --quiet";

/// A directory with the plan of a minimal probe; `None`, and a skipped test, without valid figures.
#[track_caller]
fn with_plan() -> Option<tempfile::TempDir> {
    let (dir, operation) = (scratch(), valid_operation()?);
    let text = format!(
        "name = \"probe\"\nsamples = 1\nsample-time = \"40ms\"\n\n[[group]]\nbenchmark = \"cpu.peak\"\nop = \"{operation}\"\n\
         type = \"f64\"\nthreads = 1\n"
    );
    fs::write(dir.path().join("probe.toml"), text).unwrap();
    Some(dir)
}

fn probes(dir: &Path) -> Vec<f64> {
    let text = fs::read_to_string(dir.join("h/watch")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line["probe"]["at"].as_f64()).collect()
}

/// Waits for `wanted` probes while the process lives.
fn until_probes(dir: &Path, child: &mut Child, wanted: usize) {
    until("a probe", || {
        assert!(child.try_wait().unwrap().is_none(), "ended with {} probes", probes(dir).len());
        probes(dir).len() >= wanted
    });
}

fn reported(output: &Output) -> String {
    lossy(&output.stdout) + &lossy(&output.stderr)
}

fn begun(dir: &Path, line: &str) -> Child {
    start(confine(&mut command(line), dir))
}

#[test]
fn a_quota_that_is_set_is_found_with_its_time_and_the_watch_keeps_to_its_share() {
    let Some(group) = Group::make("cpu") else { return };
    let Some(dir) = with_plan() else { return };
    let words = "watch probe.toml --for 120s --every 2s --cpu-share 2% --store h --json run.json --quiet";
    let begun = Instant::now();
    let mut child = start(&mut group.run(dir.path(), words));
    // Half of the probes that the CPU share allows.
    until_probes(dir.path(), &mut child, 2);
    let (mut used, mut set) = (None, None);
    until("its end", || {
        if set.is_none() && begun.elapsed() > Duration::from_secs(60) {
            group.limit(0.3);
            set = Some(probes(dir.path()).len());
        }
        let ticks = cpu_times(child.id()).map(|times| times.iter().sum::<u64>() as f64);
        let cpu = ticks.map(|ticks| ticks / rustix::param::clock_ticks_per_second() as f64);
        used = cpu.map(|cpu| (cpu, begun.elapsed().as_secs_f64())).or(used);
        child.try_wait().unwrap().is_some()
    });
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", reported(&output));
    let run = json_of(dir.path(), "run.json");
    let set = set.unwrap();
    let quota = coded(&run["findings"], "quota-changed").unwrap_or_else(|| panic!("{}", reported(&output)));
    assert_eq!((&quota["evidence"]["before"], &quota["evidence"]["after"]), (&Value::Null, &0.3.into()));
    // The probes around the moment at which it was set; one more where that was during a probe.
    let watched = &coded(&run["findings"], "watched").unwrap()["evidence"];
    let times: Vec<f64> = list(&watched["at_s"]).iter().map(|at| at.as_f64().unwrap()).collect();
    let around = |pair: &Value| {
        let at = times.iter().rposition(|at| *at <= pair[1].as_f64().unwrap()).unwrap();
        assert!(at.abs_diff(set) <= 1, "{pair} is not around probe {set} of {times:?}");
    };
    around(&quota["evidence"]["between_s"]);
    let level = coded(&run["findings"], "level-changed").unwrap_or_else(|| panic!("{}", reported(&output)));
    assert_eq!(level["evidence"]["cause"], "quota", "{level}");
    around(&level["evidence"]["between_s"]);
    // The reported CPU share is the kernel's, and within the limit.
    let (cpu, seconds) = used.unwrap();
    let stated = watched["cpu_share"].as_f64().unwrap();
    assert!((cpu / seconds - stated).abs() < 0.004, "{cpu} s in {seconds} s, {stated} said");
    assert!(stated <= 0.021, "{stated}");
    assert!(!dir.path().join("h/watch").exists());
}

#[test]
fn a_kill_and_a_boot_lose_one_probe_at_most() {
    let Some(dir) = with_plan() else { return };
    let mut child = begun(dir.path(), BEGIN);
    until_probes(dir.path(), &mut child, 5);
    // While it runs, no other one begins.
    let second = done(dir.path(), BEGIN, 2);
    let (status, _) = done(dir.path(), "watch --status --store h", 0);
    assert!(status.contains(&format!("running, process {}", child.id())), "{status}");
    drop(Owned(child));
    let before = probes(dir.path());
    let unfinished = done(dir.path(), BEGIN, 2);
    // After a boot the clock restarts, and the line being written is cut off.
    let text = fs::read_to_string(dir.path().join("h/watch")).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::write(dir.path().join("h/watch"), text.replace(boot.trim(), "another") + "{\"probe\":{\"at\":")
        .unwrap();
    let mut child = begun(dir.path(), "watch --resume --store h --quiet");
    until_probes(dir.path(), &mut child, before.len() + 3);
    done(dir.path(), "watch --stop --store h --json run.json", 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let run = json_of(dir.path(), "run.json");
    let series = list(&run["measurements"][0]["metrics"][0]["series"]);
    let measured: Vec<f64> = series.iter().map(|point| point["t"].as_f64().unwrap()).collect();
    // Every probe that was written is there, once, in the order of time.
    assert!(measured.len() >= before.len() + 3);
    assert!(measured.windows(2).all(|pair| pair[0] < pair[1]), "{measured:?}");
    assert!(measured.iter().zip(&before).all(|(sample, probe)| (0.0..60.0).contains(&(sample - probe))));
    let unwatched = coded(&run["findings"], "unwatched").unwrap_or_else(|| panic!("{}", run["findings"]));
    assert_eq!(unwatched["evidence"]["boots"], 1);
    // It is in the history, and another one may begin.
    assert!(!dir.path().join("h/watch").exists());
    let id = run["id"].as_str().unwrap();
    done(dir.path(), &format!("history show {id} --store h"), 0);
    let none = done(dir.path(), "watch --status --store h", 0);
    let printed = [second, unfinished, none].map(|(out, err)| out + &err).concat();
    insta::assert_snapshot!(redacted(&printed, dir.path()));
}

#[test]
fn a_watch_gives_way_to_who_uses_the_machine() {
    let Some(dir) = with_plan() else { return };
    // Ended by its own id below; it cannot outlive the test by more.
    let mut busy = Command::new("timeout").args(["120", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
    let line = "watch probe.toml --for 12s --every 2s --cpu-share 50% --idle-only --store h --json run.json \
                --quiet";
    let output = plimsoll(dir.path()).args(line.split(' ')).output().unwrap();
    signal(busy.id(), Signal::TERM);
    busy.wait().unwrap();
    // Nothing was measured, which is no success.
    insta::assert_snapshot!(without_numbers(&with_code(&output, 4).1));
    assert!(!dir.path().join("h/watch").exists());
}

/// The process that ends a watch holds its journal until the result is stored, to store it once.
#[test]
fn many_who_end_a_watch_make_one_result() {
    let Some(dir) = with_plan() else { return };
    let mut child = begun(dir.path(), BEGIN);
    until_probes(dir.path(), &mut child, 2);
    signal(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let journal = fs::read(dir.path().join("h/watch")).unwrap();
    let all: Vec<Child> = (0..4).map(|_| begun(dir.path(), "watch --stop --store h")).collect();
    let ended: Vec<Output> = all.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    for output in &ended {
        let text = reported(output);
        let bad = ["UNIQUE", "only copy"].map(|words| text.matches(words).count());
        assert_eq!(bad, [0, 0], "{text}");
        // A loser finds no watch, or that it has just ended.
        assert!([Some(0), Some(2)].contains(&output.status.code()), "{text}");
    }
    let keeps = |output: &&Output| reported(output).lines().any(|line| line.starts_with("kept in h;"));
    assert_eq!(ended.iter().filter(keeps).count(), 1);
    assert!(!dir.path().join("h/watch").exists());
    // A journal whose result is in the history already, as after a kill between the two.
    fs::write(dir.path().join("h/watch"), &journal).unwrap();
    let (out, err) = done(dir.path(), "watch --stop --store h", 0);
    // An incomplete journal is none, but is not overwritten.
    fs::write(dir.path().join("h/watch"), &journal[..40]).unwrap();
    let none = begun(dir.path(), "watch --resume --store h").wait_with_output().unwrap();
    insta::assert_snapshot!(redacted(&[out, err, reported(&none)].concat(), dir.path()));
    assert!(!dir.path().join("h/watch").exists());
    fs::write(dir.path().join("h/watch"), &journal).unwrap();
    done(dir.path(), "watch --stop --store h --json h/watch", 2);
    assert_eq!(fs::read(dir.path().join("h/watch")).unwrap(), journal);
}
