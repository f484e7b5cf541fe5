//! What the integration tests share: running the program, bounded and without a history of its own.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use assert_cmd::Command;

/// The program, in an empty directory, with its history switched off and no colour.
pub(crate) fn plimsoll(dir: &Path) -> Command {
    let mut command = Command::cargo_bin("plimsoll").unwrap();
    command
        .current_dir(dir)
        .env("NO_COLOR", "1")
        .env("XDG_DATA_HOME", dir.join("data"))
        .timeout(Duration::from_secs(120));
    command
}

/// A fresh directory on the disk that holds the build, which is a real file system.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Standard output and standard error of a command that must end with `code`.
pub(crate) fn ended(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let status = output.status;
    assert!(status.code() == Some(code), "{status}, and not {code}\nstderr: {err}\nstdout: {out}");
    (out, err)
}

/// Waits until `holds`: what takes a moment on a quiet machine may take a minute on a busy one.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come about within two minutes");
        // So that waiting does not take the processor from what is waited for.
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Names a test that cannot be made here: on stderr, and in the list that `make test` prints at its end.
pub(crate) fn skipped(test: &str, why: &str) {
    let line = format!("{test}: {why}\n");
    let _ = write!(std::io::stderr(), "skipped: {line}");
    if let Some(list) = std::env::var_os("PLIMSOLL_SKIPPED") {
        OpenOptions::new().create(true).append(true).open(list).unwrap().write_all(line.as_bytes()).unwrap();
    }
}
