//! The history under faults: killed at each system call, full disk, refused directories.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plimsoll_history::{Location, Store};
use plimsoll_result::document::RunStatus;

use crate::disk::{in_own_mounts, possible};
use crate::support::{ended, plimsoll, redacted, scratch, skipped};

const PROGRAM: &str = env!("CARGO_BIN_EXE_plimsoll");

const NULL: [&str; 6] = ["run", "--only", "null", "--samples=5", "--sample-time=1ms", "--quiet"];

const STORE: [&str; 2] = ["--store", "history"];

/// Whether strace is installed; otherwise the test is skipped.
fn has_strace(test: &str) -> bool {
    let found = Command::new("strace").arg("--version").output().is_ok();
    if !found {
        skipped(test, "needs strace");
    }
    found
}

fn run(dir: &Path) {
    ended(plimsoll(dir).args(NULL).args(STORE), 0);
}

fn injected(dir: &Path, call: &str, fault: &str, words: &[&str]) -> Output {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let first: String = allowed.trim().chars().take_while(char::is_ascii_digit).collect();
    let mut command = Command::new("taskset");
    command.args([
        "-c",
        &first,
        "strace",
        "-o",
        "trace",
        "-e",
        &format!("trace={call}"),
        "-e",
        &format!("inject={call}:{fault}"),
    ]);
    command.env("XDG_STATE_HOME", dir.join("state"));
    command.arg(PROGRAM).args(words).args(STORE).current_dir(dir).output().unwrap()
}

fn stored(dir: &Path) -> Store {
    Store::read(&Location::from_directory(&dir.join("history"))).unwrap()
}

fn copied(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from.join("history")).arg(to).status().unwrap();
    assert!(status.success());
}

fn documents(dir: &Path) -> Vec<PathBuf> {
    let listed = |dir: &Path| -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> =
            fs::read_dir(dir).into_iter().flatten().map(|e| e.unwrap().path()).collect();
        all.sort();
        all
    };
    let months = listed(&dir.join("history/runs")).into_iter().flat_map(|year| listed(&year));
    months.flat_map(|month| listed(&month)).collect()
}

/// Kills the program at each `call` in turn, with `check` after each. Returns the number of kills.
fn killed_at_each(call: &str, prepare: impl Fn(&Path), check: impl Fn(&Path, bool)) -> usize {
    for nth in 1.. {
        let dir = scratch();
        prepare(dir.path());
        let output = injected(dir.path(), call, &format!("signal=KILL:when={nth}"), &NULL);
        check(dir.path(), output.status.success());
        if output.status.success() {
            return nth - 1;
        }
        assert!(nth < 300, "{output:?}");
    }
    0
}

#[test]
fn a_kill_at_any_call_that_writes_loses_no_run_and_lists_nothing_half() {
    if !has_strace("a kill at any write") {
        return;
    }
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
        let unfinished =
            documents(dir).iter().filter(|file| !file.to_string_lossy().ends_with(".json.gz")).count();
        assert_eq!(unfinished, 0, "the next run removes what was left");
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
    if !has_strace("a kill while a history is made") {
        return;
    }
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
    if !has_strace("reads of the history that fail") {
        return;
    }
    let dir = scratch();
    (0..3).for_each(|_| run(dir.path()));
    let mut failing = 0;
    for nth in 1..500 {
        let here = scratch();
        copied(dir.path(), here.path());
        fs::remove_file(here.path().join("history/index.json")).unwrap();
        let output = injected(here.path(), "read", &format!("error=EIO:when={nth}"), &["history"]);
        if fs::read_to_string(here.path().join("trace")).unwrap().matches("INJECTED").count() == 0 {
            break;
        }
        let (out, err) = (text(&output.stdout), text(&output.stderr));
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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
    for words in [
        &["history"][..],
        &["history", "show", "last"],
        &["compare", "last", "last~1"],
        &["history", "show", "null"],
    ] {
        let (out, err) = ended(plimsoll(dir.path()).args(words).args(STORE), 0);
        assert!(!out.is_empty() && err.contains(name) && err.lines().count() == 1, "{words:?}: {err}");
    }
    assert_eq!(ended(plimsoll(dir.path()).args(["history"]).args(STORE), 0).0.matches(" ok").count(), 2);
    assert_eq!(fs::read(&file).unwrap(), bytes);
    fs::remove_file(&file).unwrap();
    assert_eq!(ended(plimsoll(dir.path()).args(["history"]).args(STORE), 0).1, "");
}

#[test]
fn a_history_is_deleted_pruned_and_copied_by_hand() {
    let dir = scratch();
    (0..3).for_each(|_| run(dir.path()));
    let command = |words: &[&str], code| ended(plimsoll(dir.path()).args(words).args(STORE), code);
    command(&["history", "tag", "last~2", "kept"], 0);
    assert_eq!(command(&["history", "delete", "last"], 0).0, "1 run deleted\n");
    assert_eq!(command(&["history", "prune", "--older", "1y"], 0).0, "0 runs deleted\n");
    // All are older than the shortest time.
    let pruned = ["history", "prune", "--older", "1ns", "--keep-tagged"];
    assert_eq!(command(&pruned, 0).0, "1 run deleted, 1 kept for a tag\n");
    assert_eq!(documents(dir.path()).len(), 1);
    let other = scratch();
    run(other.path());
    let status = Command::new("cp")
        .arg("-r")
        .arg(other.path().join("history/runs"))
        .arg(dir.path().join("history"))
        .status();
    assert!(status.unwrap().success());
    fs::remove_file(dir.path().join("history/index.json")).unwrap();
    assert_eq!(command(&["history"], 0).0.matches(" ok").count(), 2);
    assert!(!dir.path().join("none").exists());
    for words in [&["history", "delete", "last"][..], &["history", "prune", "--older", "1y"]] {
        ended(plimsoll(dir.path()).args(words).args(["--store", "none-yet"]), 2);
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
    Store::open(&Location::from_directory(&dir.path().join("history")), Default::default())
        .unwrap()
        .begin(&run)
        .unwrap();
    ended(plimsoll(dir.path()).args(["history", "tag", "last", "empty"]).args(STORE), 0);
    fs::write(dir.path().join("empty.json"), serde_json::to_string(&run).unwrap()).unwrap();
    let mut stated = String::new();
    for words in [
        &["report", "last"][..],
        &["export", "last"],
        &["compare", "last~1", "last"],
        &["report", "ffffffff"],
        &["compare", "last~1", "empty"],
        &["compare", "./empty.json", "last~1"],
    ] {
        let (out, err) = ended(plimsoll(dir.path()).args(words).args(STORE), 2);
        assert_eq!(out, "");
        stated += &format!("{}: {err}", words.join(" "));
    }
    insta::assert_snapshot!(stated);
    ended(plimsoll(dir.path()).args(["report", "last~1"]).args(STORE), 0);
}

/// The calls by which the history is written, on a disk that is full or fails from then on.
#[test]
fn when_the_disk_fails_the_result_is_shown_and_the_old_runs_stay() {
    if !has_strace("a full disk") {
        return;
    }
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
        let output = injected(dir.path(), call, fault, &NULL);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(4), "{call} {fault}: {out} {err}");
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
            let words = ["history", "import", file];
            assert_eq!(ended(plimsoll(dir.path()).args(words).args(STORE), 0).0, entered, "{call} {fault}");
        }
        fs::remove_file(dir.path().join(file)).unwrap();
        let lines = stored(dir.path()).list().unwrap();
        assert_eq!((lines.len(), lines.iter().filter(|l| l.status == RunStatus::Complete).count()), (2, 2));
    }
    insta::assert_snapshot!(stated);
}

#[test]
fn a_power_cut_does_not_undo_what_was_said_to_be_kept() {
    if !possible("a power cut", &["unshare", "mkfs.ext4", "python3"]) {
        return;
    }
    let dir = scratch();
    // FS_IOC_SHUTDOWN with NOLOGFLUSH (linux/fs.h, ext4): unwritten data is lost. At once, as the
    // kernel writes data back within seconds.
    let cut = "import fcntl, os, struct; mnt = os.open('mnt', os.O_RDONLY); \
               lost = os.open('mnt/lost', os.O_WRONLY | os.O_CREAT); os.write(lost, b'never synced'); \
               fcntl.ioctl(mnt, 0x8004587d, struct.pack('I', 2))";
    let run = NULL.join(" ");
    let script = format!(
        "truncate -s 64M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; \
         for i in 1 2 3; do \"$1\" {run} --store mnt/history > out.$i; done; \
         python3 -c \"{cut}\"; umount mnt; \
         mount -o loop image mnt; cp -r mnt/history .; test -s mnt/lost && echo kept > synced; umount mnt"
    );
    let output = in_own_mounts(dir.path(), &script, &[]);
    let _ = &output;
    let lines = stored(dir.path()).list().unwrap();
    assert_eq!(lines.len(), 3, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(lines.iter().all(|line| line.status == RunStatus::Complete && line.counts.ok == 1));
    assert!(!dir.path().join("synced").exists(), "what was not synced was to be lost, or nothing was cut");
}

#[test]
fn a_history_that_cannot_be_opened_is_told_before_the_run_if_it_was_named() {
    if !has_strace("a directory that refuses") {
        return;
    }
    let dir = scratch();
    let output = injected(dir.path(), "mkdir,mkdirat", "error=ENOSPC:when=1+", &NULL);
    let err = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(4), &b""[..]), "{err}");
    assert_eq!((err.matches("history").count(), err.lines().count()), (2, 1), "{err}");
}

fn at_home(dir: &Path, home: &str) -> assert_cmd::Command {
    let mut command = plimsoll(dir);
    command.env_remove("XDG_DATA_HOME").env("HOME", home).args(NULL);
    command
}

#[test]
fn without_a_home_the_run_goes_on_and_says_so_once() {
    let dir = scratch();
    for home in ["", "relative"] {
        let (out, err) = ended(&mut at_home(dir.path(), home), 0);
        assert!(is_shown(&out) && !out.lines().any(|line| line.starts_with("kept in")), "{out}");
        assert_eq!((err.matches("--store").count(), err.lines().count()), (2, 1), "{err}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_run_without_its_usual_history_is_kept_elsewhere() {
    let (dir, temporary) = (scratch(), scratch());
    // /proc allows no directories.
    let (out, err) = ended(at_home(dir.path(), "/proc").env("TMPDIR", temporary.path()), 4);
    assert!(is_shown(&out) && err.starts_with("plimsoll: cannot write the history"), "{out} {err}");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "{err}");
}

#[test]
fn the_usual_history_is_private_and_shown_again() {
    let dir = scratch();
    let home = dir.path().to_str().unwrap();
    ended(&mut at_home(dir.path(), home), 0);
    let history = dir.path().join(".local/share/plimsoll");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&history), mode(&history.join("index.json"))), (0o700, 0o600));
    let show = |arguments: &[&str]| {
        let mut command = plimsoll(dir.path());
        ended(command.env_remove("XDG_DATA_HOME").env("HOME", home).arg("history").args(arguments), 0).0
    };
    assert_eq!(show(&[]).lines().count(), 2);
    assert!(is_shown(&show(&["show", "last"])));
}

/// Without locks, as on some network file systems.
#[test]
fn a_history_needs_no_locks() {
    if !has_strace("a file system without locks") {
        return;
    }
    let dir = scratch();
    run(dir.path());
    let output = injected(dir.path(), "flock", "error=EBADF", &["history", "tag", "last", "x"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(stored(dir.path()).tagged("x").unwrap().len(), 1);
}

/// A directory of root below the test's, which other users may own.
fn roots_own(test: &str) -> Option<tempfile::TempDir> {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped(test, "needs root");
    }
    root.then(scratch)
}

#[test]
fn root_takes_no_history_that_another_user_has_or_could_exchange() {
    let Some(dir) = roots_own("root and the history of another user") else { return };
    let nobody = Some(65534);
    let place = |name: &str, mode: u32, owner: Option<u32>| {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
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
    for store in [
        "theirs",
        "theirs/new",
        "open",
        "open/new",
        "group/new",
        "link/new",
        "open/below",
        "group",
        "link",
        "planted",
    ] {
        let listed = || {
            let of =
                |dir: &Path| fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
            ["theirs", "planted/runs", "open", "open/below", "group", "mine"]
                .map(|name| of(&dir.path().join(name)))
        };
        let before = listed();
        let reading: &[&[&str]] = &[&["history"], &["history", "delete", "last"]];
        let reading = reading.iter().filter(|_| !store.ends_with("new"));
        for words in reading.chain([&&NULL[..]]) {
            let (out, err) = ended(plimsoll(dir.path()).args(*words).args(["--store", store]), 3);
            assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{store}: {err}");
            stated += &format!("{} --store {store}: {}", words[0], redacted(&err, dir.path()));
        }
        assert_eq!(listed(), before, "{store}");
    }
    insta::assert_snapshot!(stated);
    // In a sticky directory, such as /tmp, no other user can replace it.
    for store in ["sticky/own", "sticky"] {
        ended(plimsoll(dir.path()).args(NULL).args(["--store", store]), 0);
        ended(plimsoll(dir.path()).args(["history", "--store", store]), 0);
    }
}
