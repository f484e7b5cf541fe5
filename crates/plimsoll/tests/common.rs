//! What both test programs share: waiting, and naming a test that cannot be made.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

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
