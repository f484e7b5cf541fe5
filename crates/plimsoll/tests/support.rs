//! Shared by integration tests: runs the program with a time limit and without a history.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use rustix::process::Signal;

pub(crate) use crate::common::{short_of_cpu, skipped, under_a_quota, until, valid_operation};

/// Time limit of a program, for tests that hang, also if all tests share half of a CPU.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

/// The program, in an empty directory, with its history switched off and no colour.
pub(crate) fn plimsoll(dir: &Path) -> Command {
    let mut command = Command::cargo_bin("plimsoll").unwrap();
    command
        .current_dir(dir)
        .env("NO_COLOR", "1")
        .env("XDG_DATA_HOME", dir.join("data"))
        .env("XDG_STATE_HOME", dir.join("state"))
        .timeout(PATIENCE);
    command
}

/// Signal that interrupts the program. Tests started in the background by a script ignore SIGINT,
/// which their children inherit.
pub(crate) fn interrupt() -> Signal {
    if heeded(Signal::INT) { Signal::INT } else { Signal::TERM }
}

/// Whether a program started from here does not ignore this signal.
pub(crate) fn heeded(signal: Signal) -> bool {
    !plimsoll_metal::signal::is_ignored(signal.as_raw())
}

/// A fresh directory on the disk that holds the build, which is a real file system.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A new directory for programs, to whose parents no other user can write.
pub(crate) fn place_for_programs() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Standard output and standard error of a command that must end with `code`.
pub(crate) fn ended(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let status = output.status;
    let killed = status.signal().map(|_| format!(" (a test ends what takes {PATIENCE:?}, or what it sets)"));
    let killed = killed.unwrap_or_default();
    assert!(status.code() == Some(code), "{status}{killed}, and not {code}\nstderr: {err}\nstdout: {out}");
    (out, err)
}

/// Replaces each id of a run by `ID`.
pub(crate) fn without_ids(text: &str) -> String {
    let is_id = |part: &str| {
        let is_dash = |place: usize| [8, 13, 18, 23].contains(&place);
        part.bytes().enumerate().all(|(place, byte)| {
            is_dash(place) == (byte == b'-') && (byte == b'-' || byte.is_ascii_hexdigit())
        })
    };
    let found = (0..text.len()).filter_map(|at| text.get(at..at + 36)).find(|part| is_id(part));
    found.map_or_else(|| text.to_owned(), |id| without_ids(&text.replace(id, "ID")))
}

/// The text with each number as `#`: figures of this machine and of this run.
pub(crate) fn without_numbers(text: &str) -> String {
    let text = without_ids(text);
    let (mut made, mut letters) = (String::new(), text.chars().peekable());
    while let Some(letter) = letters.next() {
        made.push(if letter.is_ascii_digit() { '#' } else { letter });
        while letter.is_ascii_digit() && letters.next_if(|c| c.is_ascii_digit() || *c == '.').is_some() {}
    }
    made
}

/// The text without numbers and without the name of a test's directory.
pub(crate) fn redacted(text: &str, dir: &Path) -> String {
    let (below, dir) = (format!("{}/", dir.display()), dir.display().to_string());
    without_numbers(&text.replace(&below, "").replace(&dir, "."))
}

#[track_caller]
pub(crate) fn reason(measurement: &serde_json::Value) -> &str {
    measurement["reason"].as_str().unwrap_or_else(|| panic!("{measurement}"))
}

/// Asserts that a case has figures. A figure above its limit counts, as it depends on this
/// machine's processor.
#[track_caller]
pub(crate) fn measured(measurement: &serde_json::Value) {
    let status = measurement["status"].as_str().unwrap();
    assert!(matches!(status, "ok" | "invalid"), "{measurement}");
    assert!(measurement["metrics"][0]["summary"]["median"].is_number(), "{measurement}");
}
