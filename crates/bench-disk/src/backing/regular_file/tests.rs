use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::backing::check_dir;
use crate::backing::fixture::test_file;
use plimsoll_model::sample::FailureCause;

fn names(dir: &Path) -> usize {
    std::fs::read_dir(dir).expect("list").count()
}

#[test]
fn a_test_file_has_no_name_and_takes_no_space_once_dropped() {
    let (file, dir) = test_file(1 << 20);
    assert_eq!(names(dir.path()), 0);
    let stat = rustix::fs::fstat(&file).expect("stat");
    assert_eq!((stat.st_nlink, stat.st_size, stat.st_mode & 0o777), (0, 1 << 20, 0o600));
    file.allocate(2 << 20, AllocationEffect::Stays).expect("allocate");
    assert_eq!(rustix::fs::fstat(&file).expect("stat").st_size, 1 << 20);
    file.set_len(0).expect("truncate");
    file.sync().expect("sync");
    drop(file);
    assert_eq!(names(dir.path()), 0);
}

#[test]
fn a_link_put_into_the_path_after_it_was_looked_at_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (place, victim) = (dir.path().join("place"), dir.path().join("victim"));
    std::fs::create_dir(&place).expect("create");
    std::fs::create_dir(&victim).expect("create");
    let facts = check_dir(&place).expect("usable");
    TestFile::create(&facts, CacheMode::Buffered).expect("still the same");
    std::fs::remove_dir(&place).expect("remove");
    std::os::unix::fs::symlink(&victim, &place).expect("link");
    let refused = TestFile::create(&facts, CacheMode::Buffered).expect_err("a link");
    assert_eq!(refused.cause, FailureCause::Unsafe, "{refused}");
    assert_eq!(names(&victim), 0);
}

#[test]
fn holes_and_unwritten_parts_are_told_from_what_was_written() {
    let (file, _dir) = test_file(1 << 20);
    // Some file systems report all allocated space as data.
    assert!(matches!(file.first_hole(), Some(0 | 0x10_0000) | None));
    file.file.write_all_at(&[1; 8192], 0).expect("write");
    file.sync().expect("sync");
    assert!(file.first_hole().is_none_or(|hole| hole >= 8192));
    assert!(file.space_taken().is_some_and(|taken| taken >= 8192));
}

#[test]
fn a_file_system_that_others_fill_is_given_up() {
    let (file, _dir) = test_file(0);
    assert_eq!(file.low_space_message(), None, "this test needs half a gibibyte of free space");
    let none = || File::open("/proc/self").expect("no space at all");
    let (cache, facts) = (CacheMode::Buffered, file.facts.clone());
    let full = TestFile { file: none(), cache, facts, device: None, named: false };
    let start = format!("only 0 B are left on {}", file.facts.mount_point());
    assert!(full.low_space_message().is_some_and(|text| text.starts_with(&start)));
    let device = RawDevice { file: none(), name: "/dev/x".to_owned(), bytes: 1, claim: None };
    let device = TestFile { device: Some(Arc::new(device)), ..full };
    assert_eq!(device.low_space_message(), None);
}

#[test]
fn reopened_it_is_the_same_file() {
    let (file, _dir) = test_file(0);
    file.file.write_all_at(b"here", 4096).expect("write");
    let again = file.reopened(CacheMode::Buffered).expect("reopen");
    let mut found = [0; 4];
    again.file.read_exact_at(&mut found, 4096).expect("read");
    assert_eq!(&found, b"here");
    let inode = |file: &TestFile| rustix::fs::fstat(file).expect("stat").st_ino;
    assert_eq!(inode(&file), inode(&again));
}

#[test]
fn a_file_beyond_all_bounds_fails_before_it_is_filled() {
    let (file, _dir) = test_file(0);
    let refused = file.allocate(1 << 62, AllocationEffect::Moves).expect_err("too large").to_string();
    assert!(refused.contains("cannot be allocated: "), "{refused}");
    let holds = [Errno::FBIG, Errno::NOSPC].iter().any(|errno| refused.contains(&errno.to_string()));
    assert!(holds, "{refused}");
}

/// Inner half of the next test, in its own process because the limit is per process.
#[test]
#[ignore = "run by the test below, under a file size limit"]
fn under_a_file_size_limit() {
    let Some(limit) = getrlimit(Resource::Fsize).current else { return };
    let unneeded = Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, unneeded).expect("register");
    let (file, _dir) = test_file(0);
    assert_eq!(file.facts.file_size_limit, Some(limit));
    assert_eq!(rustix::io::pwrite(&file, b"beyond", limit), Err(Errno::FBIG));
    let refused = file.allocate(limit + 1, AllocationEffect::Moves).expect_err("beyond").to_string();
    assert!(refused.contains("RLIMIT_FSIZE is 1 MiB") && refused.contains("ulimit -f"), "{refused}");
}

/// SIGXFSZ kills a process that writes beyond the limit without a handler.
#[test]
fn the_file_size_limit_is_an_error_and_not_the_end() {
    let program = std::env::current_exe().expect("this program");
    let inner = "backing::regular_file::tests::under_a_file_size_limit";
    let limited = std::process::Command::new("prlimit")
        .arg("--fsize=1048576")
        .arg(program)
        .args(["--exact", inner, "--ignored"])
        .output()
        .expect("prlimit is in util-linux, which every Linux system has");
    let text = String::from_utf8_lossy(&limited.stdout);
    assert!(limited.status.success(), "{} {text}", limited.status);
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
fn memory_file_systems_are_known_for_what_they_are() {
    let Ok(facts) = check_dir(Path::new("/dev/shm")) else { return };
    assert!(facts.is_in_memory());
}

fn opened(dir: &Path) -> OwnedFd {
    open_directory(&dir.canonicalize().expect("a path without links")).expect("open")
}

#[test]
fn without_nameless_files_the_name_is_gone_before_the_first_byte() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let registry = Registry::at(&dir.path().join("entries"));
    let file = open_named(&opened(dir.path()), CacheMode::Buffered, &registry).expect("create");
    assert_eq!((names(&dir.path().join("entries")), names(dir.path())), (0, 1));
    let stat = rustix::fs::fstat(&file).expect("stat");
    assert_eq!((stat.st_nlink, stat.st_mode & 0o777), (0, 0o600));
    file.write_all_at(b"usable", 0).expect("write");
}

#[test]
fn where_everybody_may_rename_a_name_is_refused_and_with_the_sticky_bit_it_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("temporary directory");
    let facts = check_dir(dir.path()).expect("usable");
    for (mode, is_refused) in [(0o777, true), (0o1777, false), (0o755, false)] {
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).expect("chmod");
        let refused = check_sticky_bit(&opened(dir.path()), &facts);
        let cause = refused.err().map(|why| why.cause);
        assert_eq!(cause, is_refused.then_some(FailureCause::Unsafe), "{mode:o}");
    }
}

/// The owner of the directory replaces every new file by a link to a victim, which must stay
/// unchanged. If this user is root, the racer is another user.
#[test]
fn a_racer_with_links_gains_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let opened = opened(dir.path());
    let base = tempfile::tempdir().expect("temporary directory");
    let victim = base.path().join("victim");
    std::fs::write(&victim, "precious").expect("write");
    let racers = rustix::process::geteuid().is_root().then(|| rustix::fs::Uid::from_raw(65534));
    rustix::fs::chown(dir.path(), racers, None).expect("chown");
    let (place, target) = (dir.path().to_path_buf(), victim.clone());
    let (stop, stopped) = crossbeam_channel::bounded::<()>(0);
    let racer = std::thread::spawn(move || {
        rustix::thread::set_thread_res_uid(racers, racers, racers).expect("another user");
        let (mut won, mut number) = (0, 0);
        while !matches!(stopped.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected)) {
            for entry in std::fs::read_dir(&place).expect("list").flatten() {
                if entry.file_name().as_encoded_bytes().starts_with(b".plimsoll-") {
                    number += 1;
                    let moved = std::fs::rename(entry.path(), place.join(format!("moved-{number}"))).is_ok();
                    won += usize::from(moved && std::os::unix::fs::symlink(&target, entry.path()).is_ok());
                }
            }
        }
        won
    });
    for _ in 0..2000 {
        if let Ok(file) = open_named(&opened, CacheMode::Buffered, &Registry::default()) {
            file.write_all_at(b"overwritten", 0).expect("write");
        }
    }
    drop(stop);
    let won = racer.join().expect("racer");
    assert_eq!(std::fs::read_to_string(&victim).expect("read"), "precious", "won {won} times");
    assert_eq!(names(base.path()), 1);
}
