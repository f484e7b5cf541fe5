use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::disk::dir::check_dir;

fn names(dir: &Path) -> usize {
    std::fs::read_dir(dir).expect("list").count()
}

fn directory() -> (tempfile::TempDir, DirFacts) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let facts = check_dir(dir.path()).expect("usable");
    (dir, facts)
}

#[test]
fn a_test_file_has_no_name_and_takes_no_space_once_dropped() {
    let (dir, facts) = directory();
    let file = TestFile::create(&facts, Cache::Buffered).expect("create");
    file.allocate(1 << 20, End::Moves).expect("allocate");
    assert_eq!(names(dir.path()), 0);
    let stat = rustix::fs::fstat(&file).expect("stat");
    assert_eq!((stat.st_nlink, stat.st_size, stat.st_mode & 0o777), (0, 1 << 20, 0o600));
    file.allocate(2 << 20, End::Stays).expect("allocate");
    assert_eq!(rustix::fs::fstat(&file).expect("stat").st_size, 1 << 20);
    file.set_len(0).expect("truncate");
    file.sync().expect("sync");
    drop(file);
    assert_eq!(names(dir.path()), 0);
}

#[test]
fn a_link_put_into_the_path_after_it_was_looked_at_is_refused() {
    let (dir, _) = directory();
    let (place, victim) = (dir.path().join("place"), dir.path().join("victim"));
    std::fs::create_dir(&place).expect("create");
    std::fs::create_dir(&victim).expect("create");
    let facts = check_dir(&place).expect("usable");
    TestFile::create(&facts, Cache::Buffered).expect("still the same");
    std::fs::remove_dir(&place).expect("remove");
    std::os::unix::fs::symlink(&victim, &place).expect("link");
    let refused = TestFile::create(&facts, Cache::Buffered).expect_err("a link");
    assert!(matches!(refused, TargetError::Planted { .. }), "{refused}");
    assert_eq!(names(&victim), 0);
}

#[test]
fn holes_and_unwritten_parts_are_told_from_what_was_written() {
    let (_dir, facts) = directory();
    let file = TestFile::create(&facts, Cache::Buffered).expect("create");
    file.allocate(1 << 20, End::Moves).expect("allocate");
    // Some file systems take all that is allocated for data.
    assert!(matches!(file.first_hole(), Some(0 | 0x10_0000) | None));
    file.file.write_all_at(&[1; 8192], 0).expect("write");
    file.sync().expect("sync");
    assert!(file.first_hole().is_none_or(|hole| hole >= 8192));
    assert!(file.space_taken().is_some_and(|taken| taken >= 8192));
}

#[test]
fn reopened_it_is_the_same_file() {
    let (_dir, facts) = directory();
    let file = TestFile::create(&facts, Cache::Buffered).expect("create");
    file.file.write_all_at(b"here", 4096).expect("write");
    let again = file.reopened(Cache::Buffered).expect("reopen");
    let mut found = [0; 4];
    again.file.read_exact_at(&mut found, 4096).expect("read");
    assert_eq!(&found, b"here");
    let inode = |file: &TestFile| rustix::fs::fstat(file).expect("stat").st_ino;
    assert_eq!(inode(&file), inode(&again));
}

#[test]
fn a_file_beyond_all_bounds_fails_before_it_is_filled() {
    let (_dir, facts) = directory();
    let file = TestFile::create(&facts, Cache::Buffered).expect("create");
    let refused = file.allocate(1 << 62, End::Moves).expect_err("too large");
    let TargetError::Failed { what: "allocated", errno: Errno::FBIG | Errno::NOSPC, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert!(refused.to_string().contains("cannot be allocated"), "{refused}");
}

/// The inner half of the next test: in a process of its own, as the limit is the whole process's.
#[test]
#[ignore = "run by the test below, under a file size limit"]
fn under_a_file_size_limit() {
    let Some(limit) = getrlimit(Resource::Fsize).current else { return };
    // As the program does when it starts.
    let unneeded = Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, unneeded).expect("register");
    let (_dir, facts) = directory();
    assert_eq!(facts.file_size_limit, Some(limit));
    let file = TestFile::create(&facts, Cache::Buffered).expect("create");
    assert_eq!(rustix::io::pwrite(&file, b"beyond", limit), Err(Errno::FBIG));
    let refused = file.allocate(limit + 1, End::Moves).expect_err("beyond").to_string();
    assert!(refused.contains("RLIMIT_FSIZE is 1 MiB") && refused.contains("ulimit -f"), "{refused}");
}

/// Not caught, SIGXFSZ kills whoever writes beyond the limit.
#[test]
fn the_file_size_limit_is_an_error_and_not_the_end() {
    let program = std::env::current_exe().expect("this program");
    let inner = "disk::target::tests::under_a_file_size_limit";
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
    assert_eq!(facts.file_system.medium, Some(crate::machine::storage::Medium::Memory));
}
