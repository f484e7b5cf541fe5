//! The history under faults, by the whole program: killed at each system call, disk full, places that refuse.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use plimsoll::document::RunStatus;
use plimsoll::store::{Location, Store};

use crate::disk::{in_own_mounts, possible};
use crate::support::{ended, plimsoll, scratch, skipped};

const PROGRAM: &str = env!("CARGO_BIN_EXE_plimsoll");

/// A run that takes no time.
const NULL: [&str; 6] = ["run", "--only", "null", "--samples=5", "--sample-time=1ms", "--quiet"];

/// Whether there is strace; if not, it says what is skipped.
fn has_strace(test: &str) -> bool {
    let found = Command::new("strace").arg("--version").output().is_ok();
    if !found {
        skipped(test, "needs strace");
    }
    found
}

/// [`NULL`] into `history.db`, with a fault in one of the program's own system calls, but not in its worker's.
fn injected(dir: &Path, call: &str, fault: &str) -> Output {
    let mut command = Command::new("strace");
    command.args([
        "-o",
        "/dev/null",
        "-e",
        &format!("trace={call}"),
        "-e",
        &format!("inject={call}:{fault}"),
    ]);
    command.arg(PROGRAM).args(NULL).args(["--store", "history.db"]).current_dir(dir).output().unwrap()
}

fn stored(dir: &Path) -> Store {
    Store::read(&Location::named(&dir.join("history.db"))).unwrap()
}

/// Kills the program at the first, second … `call` until it is no longer called so often; calls `check` each time.
/// Returns how often it was killed.
fn killed_at_each(call: &str, step: usize, prepare: impl Fn(&Path), check: impl Fn(&Path)) -> usize {
    for nth in 0.. {
        let dir = scratch();
        prepare(dir.path());
        let output = injected(dir.path(), call, &format!("signal=KILL:when={}", 1 + nth * step));
        check(dir.path());
        if output.status.success() {
            return nth;
        }
        assert!(nth < 200, "{output:?}");
    }
    0
}

#[test]
fn a_kill_at_any_write_loses_no_old_run_and_the_next_run_works() {
    if !has_strace("a kill at any write") {
        return;
    }
    let before = scratch();
    ended(plimsoll(before.path()).args(NULL).args(["--store", "history.db"]), 0);
    let old = stored(before.path()).load("last").unwrap();
    let prepare = |dir: &Path| {
        fs::copy(before.path().join("history.db"), dir.join("history.db")).unwrap();
    };
    let check = |dir: &Path| {
        let lines = stored(dir).list().unwrap();
        assert!(matches!(lines.len(), 1 | 2), "{lines:?}");
        assert_eq!(stored(dir).load(&old.id).unwrap(), old);
        let new = stored(dir).load("last").unwrap();
        assert!(new.status == RunStatus::Complete || new.measurements.len() <= 1);
        ended(plimsoll(dir).args(NULL).args(["--store", "history.db"]), 0);
        assert_eq!(stored(dir).list().unwrap().len(), lines.len() + 1);
    };
    assert!(killed_at_each("pwrite64", 6, prepare, check) >= 5);
    assert!(killed_at_each("fsync", 2, prepare, check) >= 2);
    assert!(killed_at_each("unlink", 1, prepare, check) >= 1);
}

#[test]
fn a_history_is_made_whole_or_not_at_all() {
    if !has_strace("a kill while a history is made") {
        return;
    }
    let check = |dir: &Path| {
        if dir.join("history.db").exists() {
            assert!(stored(dir).list().unwrap().len() <= 1);
        }
        ended(plimsoll(dir).args(NULL).args(["--store", "history.db"]), 0);
        assert_eq!(stored(dir).load("last").unwrap().status, RunStatus::Complete);
    };
    assert!(killed_at_each("pwrite64", 12, |_| {}, check) >= 4);
    assert!(killed_at_each("fsync", 3, |_| {}, check) >= 3);
    assert!(killed_at_each("renameat2", 1, |_| {}, check) >= 1);
}

/// `history repair` and `history` where each read of the history fails in turn. `check` is given what they did.
fn with_each_read_failing(dir: &Path, words: &[&str], check: impl Fn(&Path, &str, Option<i32>)) {
    let whole = fs::read(dir.join("history.db")).unwrap();
    let mut failing = 0;
    for nth in 1.. {
        let here = scratch();
        fs::write(here.path().join("history.db"), &whole).unwrap();
        let inject = format!("inject=pread64:error=EIO:when={nth}");
        let mut command = Command::new("strace");
        command.args(["-o", "trace", "-e", "trace=pread64", "-e", &inject, PROGRAM]).args(words);
        let output = command.args(["--store", "history.db"]).current_dir(here.path()).output().unwrap();
        let trace = fs::read_to_string(here.path().join("trace")).unwrap();
        if !trace.contains("INJECTED") {
            break;
        }
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        // The loader's own reads are not the history's.
        if err.contains("shared libraries") {
            continue;
        }
        failing += 1;
        assert!(nth < 1000, "{out}{err}");
        check(here.path(), &(out + &err), output.status.code());
    }
    assert!(failing > 5, "{failing}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_read_that_fails_is_no_damage_and_repairs_nothing() {
    if !has_strace("reads of the history that fail") {
        return;
    }
    let dir = scratch();
    for _ in 0..3 {
        ended(plimsoll(dir.path()).args(NULL).args(["--store", "history.db"]), 0);
    }
    let nothing_lost = |there: &Path| {
        assert!(!there.join("history.db.damaged1").exists());
        assert_eq!(stored(there).list().unwrap().len(), 3);
    };
    with_each_read_failing(dir.path(), &["history", "repair"], |there, said, code| {
        nothing_lost(there);
        assert!(code == Some(0) || code == Some(4) && said.contains("a read fails"), "{code:?}: {said}");
    });
    with_each_read_failing(dir.path(), &["history"], |there, said, code| {
        nothing_lost(there);
        assert!(code == Some(0) || code == Some(4) && said.contains("a read fails"), "{code:?}: {said}");
    });
    // A damaged page, and a read that fails: what could not be read may be sound. A read of the new history can fail too.
    let told = |said: &str| {
        ["a read fails", "the operating system refuses a call", "nothing was repaired"]
            .iter()
            .any(|why| said.contains(why))
    };
    let mut bytes = fs::read(dir.path().join("history.db")).unwrap();
    bytes[..4096].fill(0);
    fs::write(dir.path().join("history.db"), &bytes).unwrap();
    with_each_read_failing(dir.path(), &["history", "repair"], |there, said, code| {
        let swapped = there.join("history.db.damaged1").exists();
        assert!(swapped == (code == Some(0)), "{code:?}: {said}");
        let left = fs::read(there.join("history.db")).unwrap();
        assert!(swapped || code == Some(4) && left == bytes && told(said), "{said}");
    });
}

#[test]
fn a_run_that_ended_before_its_first_case_is_told() {
    let dir = scratch();
    ended(plimsoll(dir.path()).args(NULL).args(["--store", "history.db"]), 0);
    let mut run = stored(dir.path()).load("last").unwrap();
    run.id = "ffffffff-2f1b-7c40-9d21-000000000000".to_owned();
    run.measurements.clear();
    Store::open(&Location::named(&dir.path().join("history.db")), None).unwrap().begin(&run).unwrap();
    let tagged = ["history", "tag", "last", "empty", "--store", "history.db"];
    ended(plimsoll(dir.path()).args(tagged), 0);
    fs::write(dir.path().join("empty.json"), serde_json::to_string(&run).unwrap()).unwrap();
    for words in [
        &["report", "last"][..],
        &["export", "last"],
        &["compare", "last~1", "last"],
        &["report", "ffffffff"],
        &["compare", "last~1", "empty"],
        &["compare", "./empty.json", "last~1"],
    ] {
        let (out, err) = ended(plimsoll(dir.path()).args(words).args(["--store", "history.db"]), 2);
        let told = out.is_empty() && err.contains(&format!("run {} has no results", run.id));
        let advised = err.contains("last~1 is the one before last");
        assert!(told && advised == words.contains(&"last"), "{words:?}: {err}");
    }
    ended(plimsoll(dir.path()).args(["report", "last~1", "--store", "history.db"]), 0);
}

#[test]
fn when_the_disk_is_full_the_result_is_shown_and_the_old_runs_stay() {
    if !has_strace("a full disk") {
        return;
    }
    // The first writes open the history; from there on each commit fails.
    for (call, fault) in [
        ("pwrite64", "error=ENOSPC:when=20+"),
        ("pwrite64", "error=EIO:when=20+"),
        ("fsync", "error=EIO:when=1+"),
    ] {
        let dir = scratch();
        ended(plimsoll(dir.path()).args(NULL).args(["--store", "history.db"]), 0);
        let old = stored(dir.path()).load("last").unwrap();
        let output = injected(dir.path(), call, fault);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(4), "{call} {fault}: {out} {err}");
        assert!(out.contains("1 case in"), "{out}");
        assert_eq!(err.matches("history.db").count(), 2, "{err}");
        assert_eq!(stored(dir.path()).load(&old.id).unwrap(), old);
        // It is kept beside the history or among the temporary files, and enters the history later, once.
        let (_, file) =
            err.split_once("plimsoll history import ").unwrap_or_else(|| panic!("{call} {fault}: {err}"));
        let (file, store) = file.split_once(' ').unwrap();
        assert_eq!(store.trim(), "--store history.db");
        for said in ["1 entered", "here already"] {
            let words = ["history", "import", file, "--store", "history.db"];
            let (out, _) = ended(plimsoll(dir.path()).args(words), 0);
            assert!(out.contains(said), "{call} {fault}: {out}");
        }
        fs::remove_file(dir.path().join(file)).unwrap();
        let lines = stored(dir.path()).list().unwrap();
        assert_eq!((lines.len(), lines.iter().filter(|l| l.status == RunStatus::Complete).count()), (2, 2));
    }
}

#[test]
fn a_power_cut_does_not_undo_what_was_said_to_be_kept() {
    if !possible("a power cut", &["unshare", "mkfs.ext4", "python3"]) {
        return;
    }
    let dir = scratch();
    // FS_IOC_SHUTDOWN with NOLOGFLUSH (linux/fs.h, ext4): nothing that is not on the disk yet gets there. Right after the write:
    // within seconds the kernel would write it back by itself.
    let cut = "import fcntl, os, struct; mnt = os.open('mnt', os.O_RDONLY); \
               lost = os.open('mnt/lost', os.O_WRONLY | os.O_CREAT); os.write(lost, b'never synced'); \
               fcntl.ioctl(mnt, 0x8004587d, struct.pack('I', 2))";
    let run = NULL.join(" ");
    let script = format!(
        "truncate -s 64M image; mkfs.ext4 -q image; mkdir mnt; mount -o loop image mnt; \
         for i in 1 2 3; do \"$1\" {run} --store mnt/history.db > out.$i; done; \
         python3 -c \"{cut}\"; umount mnt; \
         mount -o loop image mnt; cp mnt/history.db* .; test -s mnt/lost && echo kept > synced; umount mnt"
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
    if !has_strace("a full disk at the beginning") {
        return;
    }
    let dir = scratch();
    ended(plimsoll(dir.path()).args(NULL).args(["--store", "history.db"]), 0);
    let output = injected(dir.path(), "pwrite64", "error=ENOSPC:when=1+");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(4), &b""[..]), "{err}");
    assert_eq!((err.matches("history.db").count(), err.lines().count()), (1, 1), "{err}");
    assert_eq!(stored(dir.path()).list().unwrap().len(), 1);
}

/// The program with `home` as its home.
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
        assert!(out.contains("1 case in") && !out.contains("kept in"), "{out}");
        assert_eq!((err.matches("--store").count(), err.lines().count()), (2, 1), "{err}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_run_without_its_usual_history_is_kept_elsewhere() {
    let (dir, temporary) = (scratch(), scratch());
    // Nobody can make a directory in /proc.
    let (out, err) = ended(at_home(dir.path(), "/proc").env("TMPDIR", temporary.path()), 4);
    assert!(out.contains("1 case in") && err.contains("os error"), "{out} {err}");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "{err}");
}

#[test]
fn the_usual_history_is_private_and_shown_again() {
    let dir = scratch();
    let home = dir.path().to_str().unwrap();
    ended(&mut at_home(dir.path(), home), 0);
    let history = dir.path().join(".local/share/plimsoll");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&history), mode(&history.join("history.db"))), (0o700, 0o600));
    let show = |arguments: &[&str]| {
        let mut command = plimsoll(dir.path());
        ended(command.env_remove("XDG_DATA_HOME").env("HOME", home).arg("history").args(arguments), 0).0
    };
    assert_eq!(show(&[]).lines().count(), 2);
    assert!(show(&["show", "last"]).contains("null"));
}

/// Without RENAME_NOREPLACE, as on NFS and many of FUSE's file systems, and without hard links either, as on FAT.
#[test]
fn a_first_run_needs_neither_a_rename_that_does_not_replace_nor_links() {
    if !has_strace("a file system without RENAME_NOREPLACE") {
        return;
    }
    let no_rename = "inject=renameat2:error=EINVAL";
    for (links, locks) in [(true, true), (false, true), (false, false)] {
        let dir = scratch();
        let mut command = Command::new("strace");
        command.args(["-o", "/dev/null", "-e", "trace=renameat2,link,linkat,flock", "-e", no_rename]);
        if !links {
            command.args(["-e", "inject=link,linkat:error=EPERM"]);
        }
        if !locks {
            command.args(["-e", "inject=flock:error=EBADF"]);
        }
        for runs in 1..=2 {
            let mut again = Command::new("strace");
            again.args(command.get_args());
            let output = again
                .arg(PROGRAM)
                .args(NULL)
                .args(["--store", "history.db"])
                .current_dir(dir.path())
                .output();
            let output = output.unwrap();
            assert!(output.status.success(), "{links} {locks}: {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(stored(dir.path()).list().unwrap().len(), runs);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{links} {locks}");
        }
    }
}

/// As after a kill between giving the second name and taking the first away.
#[test]
fn the_name_of_an_unfinished_history_is_no_second_name() {
    let dir = scratch();
    ended(plimsoll(dir.path()).args(NULL).args(["--store", "history.db"]), 0);
    let unfinished = dir.path().join(".plimsoll-aB3dE");
    fs::hard_link(dir.path().join("history.db"), &unfinished).unwrap();
    ended(plimsoll(dir.path()).args(["history", "--store", "history.db"]), 0);
    assert!(!unfinished.exists());
    let copy = dir.path().join("history-copy");
    fs::hard_link(dir.path().join("history.db"), &copy).unwrap();
    let (_, err) = ended(plimsoll(dir.path()).args(["history", "--store", "history.db"]), 3);
    assert!(err.contains("second name"), "{err}");
    assert!(copy.exists());
}

/// What fails, by each call of SQLite's that can: one line that says what failed and where, and what to do about it.
#[test]
fn a_call_that_fails_is_told_with_its_cause_and_a_remedy() {
    if !has_strace("calls of the history that fail") {
        return;
    }
    for (call, fault, wanted) in [
        ("pwrite64", "error=EIO:when=20+", "a write fails"),
        ("pwrite64", "error=EDQUOT:when=20+", "a write fails"),
        ("pwrite64", "error=ENOSPC:when=20+", "no space is left"),
        ("fsync,fdatasync", "error=EIO", "a sync fails"),
        ("pread64", "error=EIO:when=8+", "a read fails"),
        ("ftruncate", "error=EIO", "shared memory"),
        ("fcntl", "error=EINVAL", "gives no locks"),
    ] {
        let dir = scratch();
        ended(plimsoll(dir.path()).args(NULL).args(["--store", "history.db"]), 0);
        let output = injected(dir.path(), call, fault);
        let err = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            // Not every kernel and file system needs each call.
            assert_eq!(stored(dir.path()).list().unwrap().len(), 2, "{call} {fault}: {err}");
            continue;
        }
        assert_eq!(output.status.code(), Some(4), "{call} {fault}: {err}");
        let line = err.lines().find(|line| line.contains("history.db")).unwrap();
        assert!(line.contains(wanted) && line.contains("history.db"), "{call} {fault}: {err}");
        assert!(["make room", "dmesg", "--store"].iter().any(|remedy| line.contains(remedy)), "{err}");
        assert!(!err.contains("disk I/O error"), "{err}");
    }
}

/// A directory of root's own below the test's, which others may have.
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
    ended(plimsoll(dir.path()).args(NULL).args(["--store", "history.db"]), 0);
    let history = dir.path().join("history.db");
    for (name, mode, owner) in [("theirs", 0o700, nobody), ("sticky", 0o1777, None), ("open", 0o777, None)] {
        fs::copy(&history, place(name, mode, owner).join("old.db")).unwrap();
    }
    let group = place("group", 0o770, None);
    chown(&group, None, Some(65534)).unwrap();
    fs::create_dir(dir.path().join("mine")).unwrap();
    fs::copy(&history, dir.path().join("mine/theirs.db")).unwrap();
    chown(dir.path().join("mine/theirs.db"), nobody, None).unwrap();
    symlink(dir.path().join("mine"), dir.path().join("link")).unwrap();
    std::os::unix::fs::lchown(dir.path().join("link"), nobody, None).unwrap();
    fs::hard_link(&history, dir.path().join("mine/second.db")).unwrap();
    for (store, wanted) in [
        ("theirs/new.db", "belongs to user 65534"),
        ("theirs/old.db", "sudo -u '#65534'"),
        ("sticky/new.db", "every user can write its directory"),
        ("sticky/old.db", "use --store FILE in a directory that only root can write"),
        ("open/new.db", "every user can write its directory"),
        ("group/new.db", "group 65534 can write its directory"),
        ("mine/theirs.db", "use another --store FILE"),
        ("link/new.db", "symbolic link owned by user 65534"),
        ("mine/second.db", "second name"),
    ] {
        let listed = || {
            let of =
                |dir: &Path| fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
            ["theirs", "sticky", "open", "group", "mine"].map(|name| of(&dir.path().join(name)))
        };
        let before = listed();
        for words in [&NULL[..], &["history"], &["history", "repair"]] {
            let (out, err) = ended(plimsoll(dir.path()).args(words).args(["--store", store]), 3);
            assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{store}: {err}");
            assert!(err.contains(wanted), "{store}: {err}");
        }
        assert_eq!(listed(), before, "{store}");
    }
}

#[test]
fn root_leaves_nothing_in_the_home_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        skipped("root in another user's home", "needs root");
        return;
    }
    let dir = scratch();
    chown(dir.path(), Some(65534), None).unwrap();
    let (out, err) = ended(&mut at_home(dir.path(), dir.path().to_str().unwrap()), 3);
    assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{err}");
    assert!(err.contains("without sudo"), "{err}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_history_that_is_none_is_refused_before_anything_is_measured() {
    let dir = scratch();
    fs::write(dir.path().join("history.db"), "my notes ".repeat(1000)).unwrap();
    symlink("history.db", dir.path().join("link.db")).unwrap();
    for (store, code) in [("history.db", 4), ("link.db", 3)] {
        let (out, err) = ended(plimsoll(dir.path()).args(NULL).args(["--store", store]), code);
        assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{err}");
        assert!(err.contains(store), "{err}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("history.db")).unwrap(), "my notes ".repeat(1000));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
