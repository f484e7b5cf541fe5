//! Documents at all kinds of destinations.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};

use crossbeam_channel::unbounded;

use super::*;

fn target(path: &Path) -> Result<OutputTarget, UnwritableTarget> {
    OutputTarget::new(path, &Waits::without_interrupts(|_| {}))
}

fn names(directory: &Path) -> Vec<String> {
    fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// A directory, and a document in it.
fn with_old() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.json");
    fs::write(&path, "old").unwrap();
    (directory, path)
}

#[test]
fn the_document_replaces_the_old_one_and_leaves_nothing_else() {
    let (directory, path) = with_old();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    target(&path).unwrap().put("new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names(directory.path()), ["run.json"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_failure_keeps_the_old_file() {
    let (directory, path) = with_old();
    let full = |_: &mut dyn Write| Err(Errno::NOSPC.into());
    let error = target(&path).unwrap().fill(None, full).unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    // Replaced by a directory after the check.
    let checked = target(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = checked.put("new").unwrap_err();
    assert!(error.to_string().contains("run.json"), "{error}");
    assert_eq!(names(directory.path()), ["run.json"]);
}

#[test]
fn a_full_disk_is_told_and_devices_are_not_replaced() {
    let error = target(Path::new("/dev/full")).unwrap().put("new").unwrap_err();
    assert!(error.to_string().contains("/dev/full"), "{error}");
    target(Path::new("/dev/null")).unwrap().put("new").unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_link_of_ones_own_keeps_leading_to_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (directory.path().join("real.json"), directory.path().join("latest.json"));
    symlink("real.json", &link).unwrap();
    for text in ["first", "second"] {
        target(&link).unwrap().put(text).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), text);
    }
}

#[test]
fn what_cannot_be_written_is_told_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for path in ["/nonexistent/run.json", "/dev/null/x", "", ".", ".."] {
        let path = if path.starts_with('.') { here.join(path) } else { path.into() };
        let error = target(&path).unwrap_err().to_string();
        assert!(!error.contains('\n') && error.contains("use another"), "{error}");
    }
    let _socket = std::os::unix::net::UnixListener::bind(here.join("socket")).unwrap();
    let refused = [
        (here.join("socket"), "a socket"),
        ("/dev/random".into(), "a character device"),
        ("/proc/run.html".into(), "/proc or /sys"),
    ];
    for (path, what) in refused {
        let error = target(&path).unwrap_err();
        assert!(matches!(&error, UnwritableTarget::Refused(_, why) if why.contains(what)), "{error}");
    }
}

#[test]
fn checking_makes_no_file_and_a_relative_name_is_taken_from_here() {
    let directory = tempfile::tempdir().unwrap();
    target(&directory.path().join("run.json")).unwrap();
    assert!(names(directory.path()).is_empty());
    assert!(target(Path::new("surely-not-there.json")).is_ok());
}

/// A directory like /tmp, and the user that plants files in it; only root can plant for another
/// user.
fn shared() -> Option<(tempfile::TempDir, u32)> {
    const OTHER: u32 = 65_533;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
    let probe = directory.path().join("probe");
    fs::write(&probe, "").unwrap();
    let may = chown(&probe, Some(OTHER), None).is_ok();
    fs::remove_file(&probe).unwrap();
    may.then_some((directory, OTHER))
}

#[track_caller]
fn refused(path: &Path, user: u32) {
    let waits = Waits::without_interrupts(|_| {});
    for error in [target(path).unwrap_err(), open_incremental(path, &waits).err().unwrap()] {
        let told = error.to_string();
        assert!(matches!(error, UnwritableTarget::Refused(..)), "{told}");
        assert!(told.contains(&format!("user {user}")) && !told.contains('\n'), "{told}");
    }
}

#[test]
fn another_users_file_stays_that_users() {
    let Some((_, other)) = shared() else { return };
    let (directory, path) = with_old();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    chown(&path, Some(other), Some(other)).unwrap();
    target(&path).unwrap().put("new").unwrap();
    let about = fs::metadata(&path).unwrap();
    assert_eq!((about.uid(), about.gid(), about.mode() & 0o777), (other, other, 0o640));
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn what_another_user_has_planted_is_refused() {
    let Some((directory, other)) = shared() else { return };
    let own = tempfile::tempdir().unwrap();
    let victim = own.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let at = |name: &str| directory.path().join(name);
    symlink(&victim, at("link")).unwrap();
    symlink(own.path(), at("way")).unwrap();
    fs::write(at("file"), "").unwrap();
    fifo(&at("fifo"));
    for name in ["link", "way", "file", "fifo"] {
        lchown(at(name), Some(other), None).unwrap();
    }
    for path in ["link", "way/victim", "file", "fifo"] {
        refused(&at(path), other);
    }
    // Planted after the check.
    let checked = target(&at("later")).unwrap();
    symlink(&victim, at("later")).unwrap();
    lchown(at("later"), Some(other), None).unwrap();
    assert!(matches!(checked.put("new"), Err(UnwritableTarget::Refused(..))));
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    // Own links are followed and replaced.
    symlink(&victim, at("mine")).unwrap();
    target(&at("mine")).unwrap().put("new").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"new");
}

#[test]
fn a_file_with_a_second_name_is_not_emptied_where_others_write() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("victim"), "precious").unwrap();
    fs::hard_link(at("victim"), at("events")).unwrap();
    let waits = Waits::without_interrupts(|_| {});
    fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
    assert!(matches!(open_incremental(&at("events"), &waits), Err(UnwritableTarget::Refused(..))));
    assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
    // Only this name is replaced.
    target(&at("events")).unwrap().put("new").unwrap();
    assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
    assert_eq!(fs::metadata(at("victim")).unwrap().nlink(), 1);
}

#[test]
fn lines_are_written_as_they_come() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events");
    for _ in 0..2 {
        let mut to = open_incremental(&path, &Waits::without_interrupts(|_| {})).unwrap();
        to.write_all(b"one\n").unwrap();
        to.flush().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
    }
}

#[test]
fn a_fifo_waits_for_its_reader() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    fifo(&path);
    let (writer, text) = (target(&path).unwrap(), "x".repeat(1 << 20));
    let expected = text.clone();
    let writing = std::thread::spawn(move || writer.put(&text));
    let mut read = String::new();
    File::open(&path).unwrap().read_to_string(&mut read).unwrap();
    writing.join().unwrap().unwrap();
    assert!(read == expected);
}

#[test]
fn an_interrupt_ends_the_waiting_and_stays_to_be_seen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    fifo(&path);
    let (interrupt, interrupts) = unbounded();
    let waits = Waits { interrupts, ..Waits::without_interrupts(|_| {}) };
    interrupt.send(()).unwrap();
    let error = OutputTarget::new(&path, &waits).unwrap().put("new").unwrap_err();
    assert!(error.to_string().contains("nobody reads this FIFO"), "{error}");
    // The reader is stalled: the text exceeds a pipe's capacity.
    let _reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let error = OutputTarget::new(&path, &waits).unwrap().put(&"x".repeat(4 << 20)).unwrap_err();
    assert!(error.to_string().contains("does not read"), "{error}");
    assert_eq!(waits.interrupts.len(), 1);
}

#[test]
fn what_is_open_is_written_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    fs::write(&path, "before\n").unwrap();
    let held = File::open(&path).unwrap();
    let link = format!("/proc/self/fd/{}", held.as_raw_fd());
    target(Path::new(&link)).unwrap().put("new\n").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before\nnew\n");
}

/// A bind-mounted file, as in containers.
#[test]
fn a_file_that_is_mounted_is_written_in_place_and_one_that_only_grows_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (host, shown) = (directory.path().join("host"), directory.path().join("run.json"));
    for path in [&host, &shown] {
        fs::write(path, "an old document, longer than the new one").unwrap();
    }
    let run = |program: &str, arguments: &[&Path]| {
        let mut command = std::process::Command::new(program);
        let status = command.args(arguments).stderr(std::process::Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if run("mount", &[Path::new("--bind"), &host, &shown]) {
        let written = target(&shown).and_then(|target| target.put("new"));
        let failed = target(&shown).unwrap().fill(None, |_| Err(Errno::NOSPC.into()));
        assert!(run("umount", &[&shown]));
        assert!(written.is_ok() && failed.is_err(), "{written:?} {failed:?}");
        assert_eq!(fs::read(&host).unwrap(), b"new");
        assert_eq!(names(directory.path()).len(), 2);
    }
    let chattr = |flag: &str| run("chattr", &[Path::new(flag), &host]);
    if chattr("+a") {
        let refused = target(&host).unwrap_err().to_string();
        assert!(chattr("-a") && refused.contains("append-only"), "{refused}");
    }
}

#[test]
fn what_a_kill_leaves_of_a_document_is_entered_for_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::at(&directory.path().join("scratch"));
    let waits = Waits { registry, ..Waits::without_interrupts(|_| {}) };
    let path = directory.path().join("run.json");
    let entered = std::cell::Cell::new(0);
    let fill = |out: &mut dyn Write| {
        let entries = names(&directory.path().join("scratch"));
        let all = names(directory.path());
        let unfinished = all.iter().find(|name| name.starts_with(".plimsoll-")).unwrap();
        assert!(entries == [format!("{unfinished}.json")], "{entries:?}");
        entered.set(entries.len());
        out.write_all(b"new")
    };
    OutputTarget::new(&path, &waits).unwrap().fill(None, fill).unwrap();
    assert_eq!((entered.get(), names(&directory.path().join("scratch")).len()), (1, 0));
    assert_eq!(fs::read(&path).unwrap(), b"new");
}
