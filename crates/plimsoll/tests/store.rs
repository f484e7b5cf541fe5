//! The history under faults: killed at each system call, full disk, refused directories.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plimsoll_history::{Location, Store};
use plimsoll_result::document::RunStatus;

use crate::disk::in_own_mounts;
use crate::support::{
    NULL, PROGRAM, below, confine, done, ended, has, lossy, made, plimsoll, possible, redacted, run, scratch,
    with_code,
};

/// A command line with the history of the test's directory.
#[track_caller]
fn with_store(dir: &Path, line: &str, code: i32) -> (String, String) {
    done(dir, &format!("{line} --store history"), code)
}

fn injected(dir: &Path, call: &str, fault: &str, line: &str) -> Output {
    let first = plimsoll_metal::affinity::allowed().unwrap()[0].to_string();
    let mut command = Command::new("taskset");
    command.args(["-c", &first, "strace", "-o", "trace", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:{fault}"), PROGRAM]).args(line.split(' '));
    confine(command.args(["--store", "history"]), dir).output().unwrap()
}

fn stored(dir: &Path) -> Store {
    Store::read(&Location::Named(dir.join("history"))).unwrap()
}

fn copied(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from.join("history")).arg(to).status().unwrap();
    assert!(status.success());
}

fn documents(dir: &Path) -> Vec<PathBuf> {
    below(&dir.join("history/runs")).into_iter().filter(|path| path.is_file()).collect()
}

/// Kills the program at each `call` in turn, with `check` after each. Returns the number of kills.
fn killed_at_each(call: &str, prepare: impl Fn(&Path), check: impl Fn(&Path, bool)) -> usize {
    let is_whole = |nth: &usize| {
        let dir = scratch();
        prepare(dir.path());
        let output = injected(dir.path(), call, &format!("signal=KILL:when={nth}"), NULL);
        check(dir.path(), output.status.success());
        output.status.success()
    };
    (1..=300).find(is_whole).unwrap() - 1
}

#[test]
fn a_kill_at_any_call_that_writes_loses_no_run_and_lists_nothing_half() {
    let Some(()) = has(&["strace"]) else { return };
    let before = scratch();
    run(before.path());
    let old = stored(before.path()).load("last").unwrap();
    let check = |dir: &Path, is_whole: bool| {
        let store = stored(dir);
        let lines = store.list().unwrap();
        assert!(store.problems().unwrap().is_empty(), "{:?}", store.problems());
        assert!(matches!((lines.len(), is_whole), (1, false) | (2, _)), "{lines:?}");
        assert_eq!(store.load(&old.id).unwrap(), old);
        let new = store.load("last").unwrap();
        assert!(!is_whole || new.status == RunStatus::Complete);
        assert!(new.status == RunStatus::Complete || new.measurements.len() <= 1);
        run(dir);
        assert_eq!(stored(dir).list().unwrap().len(), lines.len() + 1);
        let is_finished = |file: &PathBuf| file.to_string_lossy().ends_with(".json.gz");
        assert!(documents(dir).iter().all(is_finished), "the next run removes what was left");
    };
    let prepare = |dir: &Path| copied(before.path(), dir);
    assert!(killed_at_each("fsync", prepare, check) >= 5);
    assert!(killed_at_each("fdatasync", prepare, check) >= 1);
    assert!(killed_at_each("rename,renameat,renameat2", prepare, check) >= 3);
    assert!(killed_at_each("unlink,unlinkat", prepare, check) >= 1);
    assert!(killed_at_each("mkdir,mkdirat", prepare, check) >= 2);
}

#[test]
fn a_kill_while_the_first_history_is_made_leaves_one_that_works() {
    let Some(()) = has(&["strace"]) else { return };
    let check = |dir: &Path, _| {
        if dir.join("history").exists() {
            assert!(stored(dir).list().unwrap().len() <= 1);
        }
        run(dir);
        assert_eq!(stored(dir).load("last").unwrap().status, RunStatus::Complete);
    };
    assert!(killed_at_each("mkdir,mkdirat", |_| {}, check) >= 4);
}

#[test]
fn a_read_that_fails_is_named_and_no_damage() {
    let Some(()) = has(&["strace"]) else { return };
    let dir = scratch();
    (0..3).for_each(|_| run(dir.path()));
    let mut failing = 0;
    for nth in 1..500 {
        let here = scratch();
        copied(dir.path(), here.path());
        fs::remove_file(here.path().join("history/index.json")).unwrap();
        let output = injected(here.path(), "read", &format!("error=EIO:when={nth}"), "history");
        if fs::read_to_string(here.path().join("trace")).unwrap().matches("INJECTED").count() == 0 {
            break;
        }
        let (out, err) = (lossy(&output.stdout), lossy(&output.stderr));
        // The loader's own reads are not the history's.
        if err.matches("shared libraries").count() > 0 {
            continue;
        }
        let is_named = err.matches("of the history: Input/output error; 'dmesg'").count() > 0;
        failing += usize::from(is_named);
        let listed = out.matches(" ok").count();
        assert!(listed == 3 || listed == 2 && is_named || !output.status.success(), "{nth}: {out}{err}");
        // The next command reads the file that could not be read.
        assert_eq!(stored(here.path()).list().unwrap().len(), 3);
    }
    assert!(failing >= 2, "{failing}");
}

/// Whether the end of the table of its one case is printed.
fn is_shown(out: &str) -> bool {
    out.lines().any(|line| line.starts_with("1 case in "))
}

#[test]
fn a_damaged_document_is_named_by_each_command_and_costs_itself_alone() {
    let dir = scratch();
    (0..3).for_each(|_| run(dir.path()));
    let file = documents(dir.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&file, &bytes).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    for line in ["history", "history show last", "compare last last~1", "history show null"] {
        let (out, err) = with_store(dir.path(), line, 0);
        assert!(!out.is_empty() && err.contains(name) && err.lines().count() == 1, "{line}: {err}");
    }
    assert_eq!(with_store(dir.path(), "history", 0).0.matches(" ok").count(), 2);
    assert_eq!(fs::read(&file).unwrap(), bytes);
    fs::remove_file(&file).unwrap();
    assert_eq!(with_store(dir.path(), "history", 0).1, "");
}

#[test]
fn a_history_is_deleted_pruned_and_copied_by_hand() {
    let dir = scratch();
    (0..3).for_each(|_| run(dir.path()));
    let command = |line: &str| with_store(dir.path(), line, 0).0;
    command("history tag last~2 kept");
    assert_eq!(command("history delete last"), "1 run deleted\n");
    assert_eq!(command("history prune --older 1y"), "0 runs deleted\n");
    // All are older than the shortest time.
    assert_eq!(command("history prune --older 1ns --keep-tagged"), "1 run deleted, 1 kept for a tag\n");
    assert_eq!(documents(dir.path()).len(), 1);
    let other = scratch();
    run(other.path());
    copied(other.path(), dir.path());
    fs::remove_file(dir.path().join("history/index.json")).unwrap();
    assert_eq!(command("history").matches(" ok").count(), 2);
    for line in ["history delete last", "history prune --older 1y"] {
        done(dir.path(), &format!("{line} --store none-yet"), 2);
    }
    assert!(!dir.path().join("none-yet").exists(), "deleting makes nothing");
}

#[test]
fn a_run_that_ended_before_its_first_case_is_told() {
    let dir = scratch();
    run(dir.path());
    let mut run = stored(dir.path()).load("last").unwrap();
    run.id = "ffffffff-2f1b-7c40-9d21-000000000000".to_owned();
    run.measurements.clear();
    let history = Location::Named(dir.path().join("history"));
    Store::open(&history, Default::default()).unwrap().begin(&run).unwrap();
    with_store(dir.path(), "history tag last empty", 0);
    fs::write(dir.path().join("empty.json"), serde_json::to_string(&run).unwrap()).unwrap();
    let mut stated = String::new();
    for line in [
        "report last",
        "export last",
        "compare last~1 last",
        "report ffffffff",
        "compare last~1 empty",
        "compare ./empty.json last~1",
    ] {
        let (out, err) = with_store(dir.path(), line, 2);
        assert_eq!(out, "");
        stated += &format!("{line}: {err}");
    }
    insta::assert_snapshot!(stated);
    with_store(dir.path(), "report last~1", 0);
}

/// The calls by which the history is written, on a disk that is full or fails from then on.
#[test]
fn when_the_disk_fails_the_result_is_shown_and_the_old_runs_stay() {
    let Some(()) = has(&["strace"]) else { return };
    let mut stated = String::new();
    for (call, fault) in [
        ("fsync", "error=ENOSPC:when=1+"),
        ("fsync", "error=EIO:when=1+"),
        ("fdatasync", "error=EIO:when=1+"),
        ("rename,renameat,renameat2", "error=EROFS:when=2+"),
    ] {
        let dir = scratch();
        run(dir.path());
        let old = stored(dir.path()).load("last").unwrap();
        let (out, err) = with_code(&injected(dir.path(), call, fault, NULL), 4);
        assert!(is_shown(&out), "{out}");
        // Up to the name of a file of this run.
        let line = err.split("plimsoll history import ").next().unwrap();
        stated += &format!("{call} {fault}: {}\n", redacted(line, dir.path()).trim_end());
        assert_eq!(stored(dir.path()).load(&old.id).unwrap(), old);
        // The document is kept in that directory or a temporary one, and can be imported once.
        let Some((_, file)) = err.split_once("plimsoll history import ") else {
            assert!(call.starts_with("rename"), "{err}");
            continue;
        };
        let (file, store) = file.split_once(' ').unwrap();
        assert_eq!(store.trim(), "--store history");
        for entered in ["1 entered\n", "0 entered, 1 here already\n"] {
            let line = format!("history import {file}");
            assert_eq!(with_store(dir.path(), &line, 0).0, entered, "{call} {fault}");
        }
        fs::remove_file(dir.path().join(file)).unwrap();
        let lines = stored(dir.path()).list().unwrap();
        assert_eq!((lines.len(), lines.iter().filter(|l| l.status == RunStatus::Complete).count()), (2, 2));
    }
    insta::assert_snapshot!(stated);
}

#[test]
fn a_power_cut_does_not_undo_what_was_said_to_be_kept() {
    let Some(()) = possible(&["unshare", "mkfs.ext4", "python3"]) else { return };
    let dir = scratch();
    // FS_IOC_SHUTDOWN with NOLOGFLUSH (linux/fs.h): at once, as data is written within seconds.
    let cut = "import fcntl, os, struct; mnt = os.open('mnt', os.O_RDONLY); \
               lost = os.open('mnt/lost', os.O_WRONLY | os.O_CREAT); os.write(lost, b'never synced'); \
               fcntl.ioctl(mnt, 0x8004587d, struct.pack('I', 2))";
    let script = format!(
        "truncate -s 64M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; \
         for i in 1 2 3; do \"$1\" {NULL} --store mnt/history > out.$i; done; \
         python3 -c \"{cut}\"; umount mnt; \
         mount -o loop image mnt; cp -r mnt/history .; test -s mnt/lost && echo kept > synced; umount mnt"
    );
    let output = in_own_mounts(dir.path(), &script);
    let lines = stored(dir.path()).list().unwrap();
    assert_eq!(lines.len(), 3, "{}", lossy(&output.stderr));
    assert!(lines.iter().all(|line| line.status == RunStatus::Complete && line.counts.ok == 1));
    assert!(!dir.path().join("synced").exists(), "what was not synced was to be lost, or nothing was cut");
}

#[test]
fn a_history_that_cannot_be_opened_is_told_before_the_run_if_it_was_named() {
    let Some(()) = has(&["strace"]) else { return };
    let dir = scratch();
    let (out, err) = with_code(&injected(dir.path(), "mkdir,mkdirat", "error=ENOSPC:when=1+", NULL), 4);
    assert_eq!((out.as_str(), err.matches("history").count(), err.lines().count()), ("", 2, 1), "{err}");
}

fn at_home(dir: &Path, home: &str, line: &str) -> assert_cmd::Command {
    let mut command = plimsoll(dir);
    command.env_remove("XDG_DATA_HOME").env("HOME", home).args(line.split(' '));
    command
}

#[test]
fn without_a_home_the_run_goes_on_and_says_so_once() {
    let dir = scratch();
    for home in ["", "relative"] {
        let (out, err) = ended(&mut at_home(dir.path(), home, NULL), 0);
        assert!(is_shown(&out) && !out.lines().any(|line| line.starts_with("kept in")), "{out}");
        assert_eq!((err.matches("--store").count(), err.lines().count()), (2, 1), "{err}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_run_without_its_usual_history_is_kept_elsewhere() {
    let (dir, temporary) = (scratch(), scratch());
    // /proc allows no directories.
    let (out, err) = ended(at_home(dir.path(), "/proc", NULL).env("TMPDIR", temporary.path()), 4);
    assert!(is_shown(&out) && err.starts_with("plimsoll: cannot write the history"), "{out} {err}");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "{err}");
}

#[test]
fn the_usual_history_is_private_and_shown_again() {
    let dir = scratch();
    let home = dir.path().to_str().unwrap();
    let (table, _) = ended(&mut at_home(dir.path(), home, NULL), 0);
    let history = dir.path().join(".local/share/plimsoll");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&history), mode(&history.join("index.json"))), (0o700, 0o600));
    let show = |line: &str| ended(&mut at_home(dir.path(), home, line), 0).0;
    let listed = show("history");
    let has_plan = listed.lines().nth(1).unwrap().split_whitespace().any(|word| word == "quick");
    assert!(listed.lines().count() == 2 && has_plan, "{listed}");
    // A row with warnings begins with a mark.
    let is_row = |line: &&str| line.starts_with("  null ") || line.starts_with("! null ");
    let rows = |text: &str| text.lines().filter(is_row).map(str::to_owned).collect::<Vec<_>>();
    let shown = show("history show last");
    assert!(is_shown(&shown), "{shown}");
    assert_eq!((rows(&table).len(), rows(&shown)), (1, rows(&table)));
}

/// Without locks, as on some network file systems.
#[test]
fn a_history_needs_no_locks() {
    let Some(()) = has(&["strace"]) else { return };
    let dir = scratch();
    run(dir.path());
    with_code(&injected(dir.path(), "flock", "error=EBADF", "history tag last x"), 0);
    assert_eq!(stored(dir.path()).tagged("x").unwrap().len(), 1);
}

#[test]
fn root_takes_no_history_that_another_user_has_or_could_exchange() {
    let Some(()) = possible(&[]) else { return };
    let dir = scratch();
    let nobody = Some(65534);
    let place = |name: &str, mode: u32, owner: Option<u32>| {
        let path = made(dir.path().join(name), mode);
        chown(&path, owner, None).unwrap();
        path
    };
    place("theirs", 0o700, nobody);
    place("sticky", 0o1777, None);
    place("planted", 0o1777, None);
    place("planted/runs", 0o755, nobody);
    place("open", 0o777, None);
    place("open/below", 0o700, None);
    chown(place("group", 0o770, None), None, Some(65534)).unwrap();
    fs::create_dir(dir.path().join("mine")).unwrap();
    symlink(dir.path().join("mine"), dir.path().join("link")).unwrap();
    std::os::unix::fs::lchown(dir.path().join("link"), nobody, None).unwrap();
    let mut stated = String::new();
    let stores = "theirs theirs/new open open/new group/new link/new open/below group link planted";
    for store in stores.split(' ') {
        let listed = || {
            let of = |name| fs::read_dir(dir.path().join(name)).unwrap().map(|e| e.unwrap().file_name());
            ["theirs", "planted/runs", "open", "open/below", "group", "mine"]
                .map(|name| of(name).collect::<Vec<_>>())
        };
        let before = listed();
        let reading = ["history", "history delete last"].into_iter().filter(|_| !store.ends_with("new"));
        for line in reading.chain([NULL]) {
            let (out, err) = done(dir.path(), &format!("{line} --store {store}"), 3);
            assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{store}: {err}");
            let command = line.split(' ').next().unwrap();
            stated += &format!("{command} --store {store}: {}", redacted(&err, dir.path()));
        }
        assert_eq!(listed(), before, "{store}");
    }
    insta::assert_snapshot!(stated);
    // In a sticky directory, such as /tmp, no other user can replace it.
    for store in ["sticky/own", "sticky"] {
        done(dir.path(), &format!("{NULL} --store {store}"), 0);
        done(dir.path(), &format!("history --store {store}"), 0);
    }
}
