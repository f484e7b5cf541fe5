use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::disk::measurements;
use crate::network::Serving;
use crate::support::{
    Owned, PROGRAM, command, confine, document, ended, gone, has, interrupt, list, lossy, made, measured,
    place_for_programs, plimsoll, reason, scratch, script, signal, skip, skipped, text, until,
    without_numbers,
};

/// Script that prints a million operations per second and takes the time for it.
const ONE_MFLOPS: &str =
    "sleep 0.02; echo 'Time: 0.02 sec'; echo 'Number of Flops: 20000'; echo 'MFlops/s: 1.0'";

/// The result of a tool in a run that must end with 0.
#[track_caller]
fn result(dir: &Path, line: &str) -> Value {
    let run = document(dir, &format!("{line} --json - --store none"), 0);
    run["measurements"][0]["metrics"][0]["references"][0].clone()
}

/// The result of a short case with a script as likwid-bench.
#[track_caller]
fn beside(text: &str, samples: usize) -> Value {
    let dir = place_for_programs();
    let path = script(dir.path(), "tool", text);
    let isa = if std::arch::is_x86_feature_detected!("avx512f") { "avx512" } else { "avx2" };
    let line = format!(
        "cpu --op fma --type f64 --isa {isa} --threads 1 --samples {samples} --sample-time 10ms --json - \
         --store none --against likwid-bench --reference-path likwid-bench={}",
        path.display()
    );
    let run = document(dir.path(), &line, 0);
    measured(&run["measurements"][0]);
    let metric = &run["measurements"][0]["metrics"][0];
    assert_eq!(list(&metric["samples"]).len(), samples);
    metric["references"][0].clone()
}

#[test]
fn a_tool_gives_five_pairs_a_ratio_and_a_verdict() {
    let version = "[ \"$1\" = -v ] && echo 'likwid-bench -- Version 9.9' && exit";
    let peer = beside(&format!("{version}; {ONE_MFLOPS}"), 5);
    assert_eq!((&peer["status"], &peer["version"]), (&"ok".into(), &"9.9".into()), "{peer}");
    assert_eq!(peer["samples"], json!([1e6, 1e6, 1e6, 1e6, 1e6]));
    assert_eq!(peer["verdict"], "higher");
    assert!(peer["ratio"]["median"].as_f64().unwrap() > 1.0);
    let command: Vec<&str> = list(&peer["command"]).iter().map(text).collect();
    assert!(command.contains(&"-t") && command[0] == "taskset", "{command:?}");
    assert_eq!(text(&peer["achieved"]["sha256"]).len(), 64, "{peer}");
    // A number of samples is exact.
    let peer = beside(ONE_MFLOPS, 2);
    assert_eq!(peer["samples"], json!([1e6, 1e6]));
    assert_eq!(peer["verdict"], "inconclusive", "two pairs decide nothing");
}

#[test]
fn a_tool_that_fails_is_told_and_changes_nothing_else() {
    for (script, why) in [
        ("exit 3", "ended with code 3"),
        ("echo 'cannot open shared object' >&2; exit 127", "cannot open shared object"),
        ("kill -SEGV $$", "signal 11"),
        // A figure that is followed by a failure is none.
        ("echo 'MFlops/s: 5.0'; echo 'no such domain' >&2; exit 1", "ended with code 1: no such domain"),
        ("echo 'MFlops/s: 5.0'; kill -KILL $$", "signal 9"),
        ("echo garbage", "no 'MFlops/s:'"),
        ("echo 'Time: 1 sec'; echo 'Number of Flops: 1'; echo 'MFlops/s: NaN'", "not a figure"),
        // Ten times what it did in its own time, a tenth of it, and a time that it never had.
        (
            "sleep 0.2; echo 'Time: 0.200 sec'; echo 'Number of Flops: 200000'; echo 'MFlops/s: 10.0'",
            "its figure of 10.0 MFLOP/s contradicts its own run time: it made at most 200",
        ),
        (
            "sleep 0.2; echo 'Time: 0.200 sec'; echo 'Number of Flops: 200000'; echo 'MFlops/s: 0.1'",
            "its figure of 100 kFLOP/s contradicts its own run time: it made at least 200",
        ),
        (
            "echo 'Time: 60.0 sec'; echo 'Number of Flops: 60000000'; echo 'MFlops/s: 1.0'",
            "its own time contradicts its run time: it says 60.0 s and ended after",
        ),
        ("printf 'MFlops/s: \\033[31mred\\n'", "no number"),
        ("yes | head -c 40000000", "wrote more than"),
    ] {
        let peer = beside(script, 1);
        assert_eq!(peer["status"], "unavailable", "{script}: {peer}");
        let reason = reason(&peer);
        assert!(reason.contains(why) && !reason.contains('\u{1b}'), "{script}: {reason}");
    }
}

#[test]
fn a_tool_that_is_not_there_is_told_with_how_to_get_it() {
    let dir = place_for_programs();
    let line =
        "memory --op copy --size 64K --threads 1 --samples 1 --against mbw,stream --json - --store none";
    let mut command = plimsoll(dir.path());
    let output = command.env("PATH", "").args(line.split(' ')).output().unwrap();
    let run = crate::support::json(&lossy(&output.stdout));
    let peers = list(&run["measurements"][0]["metrics"][0]["references"]);
    let stream = peers.iter().find(|p| p["name"] == "stream").unwrap();
    insta::assert_snapshot!(reason(stream));
}

/// A short CPU case with a script as likwid-bench and directories below `dir`.
fn hanging(dir: &Path, text: &str) -> Command {
    let path = script(dir, "tool", &format!("[ \"$1\" = -v ] && exit; {text}"));
    let line = "cpu --op fma --type f64 --threads 1 --sample-time 10ms --samples 1 --against likwid-bench --store none";
    let mut command = command(&format!("{line} --reference-path likwid-bench={}", path.display()));
    confine(&mut command, dir).env("TMPDIR", dir).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Shell words that write the ids of the tool and what it has started to the file `pids`.
fn marks(dir: &Path) -> String {
    let mark = dir.join("pids");
    format!("echo \"$$ $!\" > {0}.new; mv {0}.new {0}", mark.display())
}

/// Starts a run, and waits until its tool has written the file `pids`.
#[track_caller]
fn until_the_tool_runs(mut command: Command, dir: &Path) -> Child {
    let mut run = command.spawn().unwrap();
    until("the start of the tool", || {
        assert!(run.try_wait().unwrap().is_none(), "the run ended without the tool");
        dir.join("pids").exists()
    });
    run
}

/// Waits for the end of the `count` processes in the file `pids`.
#[track_caller]
fn all_are_gone(dir: &Path, count: usize) {
    let pids = fs::read_to_string(dir.join("pids")).unwrap();
    assert_eq!(pids.split_whitespace().count(), count, "{pids}");
    pids.split_whitespace().for_each(|pid| gone(pid.parse().unwrap()));
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("plimsoll-peer-")).collect()
}

#[test]
fn a_tool_that_hangs_is_ended_with_all_that_it_started_when_the_run_is() {
    let dir = place_for_programs();
    let tool = format!("sleep 1000 & {}; wait", marks(dir.path()));
    let mut run = until_the_tool_runs(hanging(dir.path(), &tool), dir.path());
    signal(run.id(), interrupt());
    assert_eq!(run.wait().unwrap().code(), Some(130));
    all_are_gone(dir.path(), 2);
}

/// Entries of the registry below `dir`; one that is empty was never written, and goes in an hour.
fn entries(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir.join("state/plimsoll/scratch")) else { return 0 };
    entries.filter(|entry| entry.as_ref().unwrap().metadata().unwrap().len() > 0).count()
}

/// The next start uses another directory of temporary files, working directory and command.
#[test]
fn what_a_killed_run_left_goes_away_wherever_the_next_one_starts() {
    let (dir, elsewhere) = (place_for_programs(), scratch());
    let tool = format!(
        "mkdir -p a/b; head -c 100000 /dev/zero >a/b/data; ln -s {} a/link; {}; exec sleep 1000",
        elsewhere.path().display(),
        marks(dir.path())
    );
    let run = Owned(until_the_tool_runs(hanging(dir.path(), &tool), dir.path()));
    let start = |line: &str| {
        let mut other = plimsoll(elsewhere.path());
        other.env("TMPDIR", elsewhere.path()).env("XDG_STATE_HOME", dir.path().join("state"));
        ended(other.args(line.split(' ')), 0).0
    };
    // While it lives nothing is taken from it.
    start("references");
    assert!(directories(dir.path()).iter().any(|path| path.join("a/b/data").exists()));
    drop(run);
    // The tool ends with the run that started it.
    all_are_gone(dir.path(), 1);
    let left = directories(dir.path());
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert!(!left.is_empty() && left.iter().all(|path| mode(path) == 0o700), "{left:?}");
    let reported = start("doctor --rounds 0").split_whitespace().collect::<String>();
    assert!(left.iter().all(|path| reported.contains(path.to_str().unwrap())), "{reported}");
    assert_eq!((directories(dir.path()), entries(dir.path())), (Vec::new(), 0));
    let found = start("doctor --rounds 0");
    let words = "ok left by killed runs nothing".split(' ');
    assert!(found.lines().any(|line| line.split_whitespace().eq(words.clone())), "{found}");
}

/// Killed at many moments while the directories of its tools are entered, made, locked and removed.
#[test]
fn killed_at_any_moment_no_directory_of_a_tool_stays_after_the_next_start() {
    let Some(()) = has(&["strace"]) else { return };
    let (dir, elsewhere) = (place_for_programs(), scratch());
    let run = hanging(dir.path(), &format!("echo left > HPL.out; {ONE_MFLOPS}"));
    let moments =
        [("mkdir", 1..=3), ("flock", 1..=4), ("rmdir", 1..=1), ("unlinkat", 1..=3), ("unlink", 1..=2)];
    let mut kills = 0;
    for (call, nth) in moments.into_iter().flat_map(|(call, times)| times.map(move |nth| (call, nth))) {
        let mut traced = Command::new("strace");
        traced.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        traced.args(["-e", &format!("inject={call}:signal=KILL:when={nth}")]).arg(run.get_program());
        traced.args(run.get_args()).current_dir(dir.path());
        traced.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let traced = traced.stdout(Stdio::null()).stderr(Stdio::null());
        kills += usize::from(!traced.status().unwrap().success());
        let mut next = plimsoll(elsewhere.path());
        next.env("TMPDIR", elsewhere.path()).env("XDG_STATE_HOME", dir.path().join("state"));
        // Without tools that would be called.
        ended(next.env("PATH", "").args(["references", "--install"]), 0);
        let left = (directories(dir.path()), directories(elsewhere.path()), entries(dir.path()));
        assert_eq!(left, (Vec::new(), Vec::new(), 0), "{call} {nth}");
    }
    assert!(kills >= 5, "only {kills} of them hit");
}

#[test]
fn a_tool_has_a_clean_environment_a_directory_of_its_own_and_a_group_of_its_own() {
    let dir = place_for_programs();
    let reported = dir.path().join("told");
    let tool = format!(
        "{{ env; echo at=$(pwd); echo group=$(cut -d' ' -f5 /proc/$$/stat); echo pid=$$; }} > {}; {ONE_MFLOPS}",
        reported.display()
    );
    let mut run = hanging(dir.path(), &tool);
    run.env("LD_PRELOAD", "").env("LC_ALL", "de_DE.UTF-8").env("SECRET", "x").env("GCONV_PATH", "/tmp");
    assert!(run.status().unwrap().success());
    let text = fs::read_to_string(&reported).unwrap();
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    for name in ["SECRET", "LD_PRELOAD", "GCONV_PATH", "TMPDIR"] {
        assert_eq!(value(name), None, "{text}");
    }
    assert_eq!((value("LC_ALL"), value("PATH")), (Some("C"), Some("/usr/bin:/bin")));
    let place = Path::new(value("at").unwrap());
    assert!(place.file_name().unwrap().to_str().unwrap().starts_with("plimsoll-peer-"), "{text}");
    assert_eq!(value("HOME"), value("at"));
    let own = rustix::process::getpgrp().as_raw_nonzero().to_string();
    assert!(value("group").is_some_and(|group| group != own), "{text}");
}

#[test]
fn a_tool_that_does_not_end_is_ended_with_its_children_and_told() {
    let dir = place_for_programs();
    // It ignores the request to end, and so does what it started.
    let mark = dir.path().join("pids");
    let tool = format!("trap '' TERM; sleep 1000 & echo \"$$ $!\" >> {}; wait; wait", mark.display());
    let mut run = hanging(dir.path(), &tool);
    let output = run.args(["--repeat", "2", "--json", "-"]).stdout(Stdio::piped()).output().unwrap();
    let all = measurements(&output, 0);
    all.iter().for_each(measured);
    let reasons = [0, 1].map(|repeat: usize| reason(&all[repeat]["metrics"][0]["references"][0]));
    let case = text(&all[0]["case"]["id"]);
    let tool = dir.path().join("tool").display().to_string();
    insta::assert_snapshot!(without_numbers(
        &reasons.join("\n").replace(case, "CASE").replace(&tool, "TOOL")
    ));
    // It was not started again.
    all_are_gone(dir.path(), 2);
    assert_eq!(directories(dir.path()), Vec::<PathBuf>::new());
}

/// Shell words that start an orphan outside of the tool's group and session; its id is in `pids`.
fn gives_away(dir: &Path) -> String {
    let pids = dir.join("pids");
    let path = script(dir, "given-away", &format!("echo $$ >> {}\nexec sleep 1000", pids.display()));
    let (path, pids) = (path.display(), pids.display());
    format!("(setsid {path} </dev/null >/dev/null 2>&1 &); while [ ! -s {pids} ]; do sleep 0.01; done")
}

#[test]
fn what_left_the_session_of_a_tool_ends_with_it() {
    for (body, why) in [(ONE_MFLOPS, ""), ("trap '' TERM; sleep 1000", "was ended after")] {
        let dir = place_for_programs();
        let mut run = hanging(dir.path(), &format!("{}; {body}", gives_away(dir.path())));
        let output = run.args(["--json", "-"]).stdout(Stdio::piped()).output().unwrap();
        let peer = &measurements(&output, 0)[0]["metrics"][0]["references"][0];
        let reason = peer["reason"].as_str().unwrap_or_default();
        assert_eq!((reason.is_empty(), reason.contains(why)), (why.is_empty(), true), "{peer}");
        all_are_gone(dir.path(), 1);
    }
}

#[test]
fn what_left_the_session_of_a_tool_ends_with_a_run_that_is_killed() {
    for by in [Signal::KILL, interrupt()] {
        let dir = place_for_programs();
        let pids = dir.path().join("pids");
        let tool =
            format!("{}; echo $$ >> {}; exec setsid sleep 1000", gives_away(dir.path()), pids.display());
        let mut run = until_the_tool_runs(hanging(dir.path(), &tool), dir.path());
        until("both ids", || fs::read_to_string(&pids).unwrap().lines().count() == 2);
        signal(run.id(), by);
        run.wait().unwrap();
        all_are_gone(dir.path(), 2);
    }
}

/// A short case of TCP with a script as iperf3.
fn with_iperf3(dir: &Path, text: &str) -> String {
    let path = script(dir, "tool", text).display().to_string();
    let line = "network --only network.tcp --samples 1 --sample-time 20ms --against iperf3 --reference-path";
    format!("{line} iperf3={path}")
}

#[test]
fn the_server_of_a_tool_is_ended_with_it() {
    let dir = place_for_programs();
    let tool = format!(
        "case \"$1\" in -s) echo $$ > {}; exec iperf3 \"$@\";; --version) exit;; esac; exec iperf3 \"$@\"",
        dir.path().join("pids").display()
    );
    let peer = result(dir.path(), &with_iperf3(dir.path(), &tool));
    if peer["status"] != "ok" {
        assert_eq!(reason(&peer), "ended with code 127");
        return skip("needs iperf3");
    }
    let server: Vec<&str> = text(&peer["input"]["server"]).split(' ').collect();
    assert!(server.windows(2).any(|words| words == ["iperf3", "-s"]), "{peer}");
    all_are_gone(dir.path(), 1);
}

/// An interrupt does not wait for the attempts that a server would have.
#[test]
fn an_interrupt_ends_the_wait_for_a_server_that_never_listens() {
    let dir = place_for_programs();
    let mark = dir.path().join("pids");
    let tool = format!("case \"$1\" in -s) echo $$ >> {}; exec sleep 1000;; esac; exit", mark.display());
    let mut command = command(&format!("{} --store none", with_iperf3(dir.path(), &tool)));
    command.current_dir(dir.path()).env("TMPDIR", dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = until_the_tool_runs(command, dir.path());
    until("its id", || fs::read_to_string(&mark).unwrap().ends_with('\n'));
    signal(run.id(), interrupt());
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let started = fs::read_to_string(&mark).unwrap().lines().count();
    assert!(started < 3, "every attempt was made: {started}");
    all_are_gone(dir.path(), started);
    assert_eq!(directories(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_server_elsewhere_is_named_and_used() {
    let dir = place_for_programs();
    // It prints its arguments.
    let tool = "case \"$1\" in --version) exit;; esac; printf '%s ' \"$@\" >&2; exit 7";
    let line = with_iperf3(dir.path(), tool);
    let serving = Serving::here(&["--open"]);
    let beside = |far: &str, server: &str| {
        result(dir.path(), &format!("{line} --reference-server iperf3={server} {far}"))
    };
    let far = format!("--server 127.0.0.1:{}", serving.port());
    let iperf3 = beside(&far, "127.0.0.1:5299");
    assert!(iperf3["input"].get("server").is_none(), "{iperf3}");
    // Both servers must be on the same host.
    let other = beside(&far, "[2001:db8::7]:5299");
    let own = beside("", "127.0.0.1:5299");
    insta::assert_snapshot!([&iperf3, &other, &own].map(reason).join("\n"));
}

#[test]
fn a_case_without_a_counterpart_says_why() {
    let (dir, place) = (scratch(), place_for_programs());
    let line = format!(
        "disk --only disk.io --op copy --pattern sequential --block 64K --depth 1 --size 16M --samples 1 \
         --sample-time 20ms --against fio --reference-path fio={}",
        script(place.path(), "fio", "exit 0").display()
    );
    let peer = result(dir.path(), &line);
    assert_eq!((text(&peer["status"]), reason(&peer)), ("unavailable", "it has no copy"), "{peer}");
}

/// The copy of plimsoll in `place`, run by a user of no name.
fn as_user(place: &Path) -> Command {
    let mut command = Command::new("/usr/bin/setpriv");
    command.args(["--reuid", "65533", "--regid", "65533", "--clear-groups"]).arg(place.join("plimsoll"));
    command.current_dir("/").env("TMPDIR", "/tmp").env("HOME", "/");
    command
}

/// A directory with a copy of plimsoll for every user; `None` without the right to change users.
fn for_another_user() -> Option<tempfile::TempDir> {
    let place = place_for_programs();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(PROGRAM, place.path().join("plimsoll")).unwrap();
    let works = as_user(place.path()).arg("--version").output();
    works.is_ok_and(|output| output.status.success()).then_some(place)
}

/// The row of ioping in `plimsoll references` with this PATH.
fn said_of_ioping(command: &mut Command, path: &Path) -> String {
    let output = command.arg("references").env("PATH", path).env("COLUMNS", "400").output().unwrap();
    let text = lossy(&output.stdout);
    // A long path is wrapped.
    let (_, row) = text.split_once("\n  ioping ").unwrap();
    let (row, _) = row.split_once("\n  iperf3 ").unwrap();
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_tool_that_others_could_have_put_there_is_not_run_by_anybody() {
    let dir = place_for_programs();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let own = made(dir.path().join("own"), 0o755);
    let real = script(&own, "ioping", "echo 'ioping 1.3'");
    let open = made(dir.path().join("open"), 0o777);
    // A link to the owner's program; the owner's directory below an open one; a program behind a
    // link in an open directory; and one in a sticky directory.
    std::os::unix::fs::symlink(&real, open.join("ioping")).unwrap();
    let below = made(open.join("below"), 0o755);
    fs::copy(&real, below.join("ioping")).unwrap();
    let linked = made(dir.path().join("linked"), 0o755);
    std::os::unix::fs::symlink("../open/ioping", linked.join("ioping")).unwrap();
    let sticky = made(dir.path().join("sticky"), 0o1777);
    fs::copy(&real, sticky.join("ioping")).unwrap();
    let good = made(sticky.join("good"), 0o755);
    fs::copy(&real, good.join("ioping")).unwrap();
    let here = || Command::new(PROGRAM);
    let other = for_another_user();
    if other.is_none() {
        skipped("references: programs as another user", "needs root and setpriv");
    }
    for (path, danger) in [(&open, &open), (&below, &open), (&linked, &open), (&sticky, &sticky)] {
        let wanted = format!("other users may write {}", danger.canonicalize().unwrap().display());
        let stated = said_of_ioping(&mut here(), path);
        assert!(stated.contains(&wanted), "{}: {stated}", path.display());
        if let Some(place) = &other {
            let stated = said_of_ioping(&mut as_user(place.path()), path);
            assert!(stated.contains(&wanted) && !stated.contains("as root"), "{}: {stated}", path.display());
        }
    }
    let stated = said_of_ioping(&mut here(), &good);
    assert!(stated.contains("1.3") && stated.contains("good/ioping"), "{stated}");
    let Some(place) = &other else { return };
    assert!(said_of_ioping(&mut as_user(place.path()), &good).contains("good/ioping"));
    // That user may run its own program, root may not.
    let theirs = made(dir.path().join("theirs"), 0o755);
    fs::copy(&real, theirs.join("ioping")).unwrap();
    for path in [theirs.clone(), theirs.join("ioping")] {
        std::os::unix::fs::chown(path, Some(65_533), Some(65_533)).unwrap();
    }
    assert!(said_of_ioping(&mut as_user(place.path()), &theirs).contains("theirs/ioping"));
    let stated = said_of_ioping(&mut here(), &theirs);
    assert!(stated.contains("is not run as root") && stated.contains("belongs to another user"), "{stated}");
}
