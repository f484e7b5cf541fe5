//! Real disk faults: full, read-only, immutable and lying file systems, limits, failing calls,
//! SIGKILL. Mounts end with their mount namespace. Tests without root or a tool are skipped by
//! name.
#![allow(clippy::print_stderr)]

mod calls;
mod devices;
mod file_systems;
mod io_limit;
mod killed;
mod racer;
mod shared;
mod slow;
mod steady;
mod target;
mod verify;

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use serde_json::Value;

use crate::support::{skipped, until};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_plimsoll");

/// A small case and a short one: 8 MiB of file, two samples.
pub(crate) const QUICK: &[&str] = &[
    "disk",
    "--op",
    "read",
    "--pattern",
    "random",
    "--block",
    "4K",
    "--depth",
    "4",
    "--size",
    "8M",
    "--samples",
    "2",
    "--sample-time",
    "10ms",
    "--store",
    "none",
    "--quiet",
    "--json",
    "-",
];

/// Whether the test is possible here; otherwise it is skipped with the reason.
pub(crate) fn possible(test: &str, tools: &[&str]) -> bool {
    let found = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    let missing: Vec<_> = tools.iter().filter(|tool| !found(tool)).collect();
    let root = rustix::process::geteuid().is_root();
    if !root || !missing.is_empty() {
        skipped(test, &format!("needs root and {tools:?}; root: {root}, missing: {missing:?}"));
    }
    root && missing.is_empty()
}

/// Runs a shell script in a mount namespace of its own; `$1` is plimsoll, `$2` the directory.
pub(crate) fn in_own_mounts(dir: &Path, script: &str, arguments: &[&str]) -> Output {
    Command::new("unshare")
        .args(["--mount", "--propagation", "private", "timeout", "300", "sh", "-euc", script, "sh", PROGRAM])
        .arg(dir)
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap()
}

/// The output of a run that must end with `code`.
#[track_caller]
pub(crate) fn with_code(output: &Output, code: i32) -> (String, String) {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "stdout: {out}\nstderr: {err}");
    (out, err)
}

/// Asserts that a run on a released device succeeds at last: for a moment a child of another test
/// thread may hold an open file, and a loop device ends after it.
#[track_caller]
pub(crate) fn set_free(run: impl Fn() -> Output) {
    let mut last = run();
    until("the users of a device are gone", || {
        let refused = last.status.code() == Some(3);
        if refused {
            last = run();
        }
        !refused
    });
    with_code(&last, 0);
}

/// One line on stderr that holds all of `says`, nothing on stdout.
#[track_caller]
pub(crate) fn one_line(output: &Output, code: i32, says: &[&str]) {
    let (out, err) = with_code(output, code);
    assert_eq!(out, "");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(says.iter().all(|word| err.contains(word)), "{err:?} does not say all of {says:?}");
}

/// A run on a device whose bytes it may destroy, followed by its events.
pub(crate) struct Told {
    child: Child,
    events: Lines<BufReader<ChildStdout>>,
    document: PathBuf,
}

impl Told {
    /// Starts plimsoll on a device of `bytes` bytes, with the command's `words` and `more` options.
    pub(crate) fn new(words: &[&str], more: &[&str], (device, bytes): (&str, u64), dir: &Path) -> Self {
        let document = dir.join("run.json");
        let consent = format!("{device}:{bytes}");
        let mut child = Command::new(PROGRAM)
            .args(words)
            .args(more)
            .args(["--target", device, "--destroy-data-on", &consent])
            .args(["--store", "none", "--quiet", "--events", "-", "--json"])
            .arg(&document)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, events, document }
    }

    /// Waits for its first sample.
    #[track_caller]
    pub(crate) fn until_sampled(&mut self) {
        let sampled = self.events.any(|line| line.unwrap().contains("sampled"));
        assert!(sampled, "it ended before it was sampled");
    }

    /// Reads the rest of its events.
    pub(crate) fn until_it_ends(&mut self) {
        self.events.by_ref().for_each(|line| drop(line.unwrap()));
    }

    /// Returns the exit code and document.
    pub(crate) fn document(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, std::fs::read_to_string(&self.document).unwrap())
    }
}

pub(crate) fn measurements(document: &str) -> Vec<Value> {
    let run: Value = serde_json::from_str(document).unwrap();
    run["measurements"].as_array().unwrap().clone()
}

pub(crate) fn names(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

/// Users of writable devices: a number of tests, or the one thread whose test makes all devices
/// suspect.
static DEVICES: (Mutex<(usize, Option<ThreadId>)>, Condvar) = (Mutex::new((0, None)), Condvar::new());

fn devices() -> MutexGuard<'static, (usize, Option<ThreadId>)> {
    DEVICES.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part in the devices, while no other test makes them suspect.
struct Shared;

impl Shared {
    fn enter() -> Self {
        let this = std::thread::current().id();
        let wait = |now: &mut (usize, Option<ThreadId>)| now.1.is_some_and(|one| one != this);
        let mut now = DEVICES.1.wait_while(devices(), wait).unwrap_or_else(PoisonError::into_inner);
        now.0 += 1;
        Self
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        devices().0 -= 1;
        DEVICES.1.notify_all();
    }
}

/// Lock of a test that makes every device suspect.
pub(crate) struct Alone;

impl Alone {
    pub(crate) fn enter() -> Self {
        let wait = |now: &mut (usize, Option<ThreadId>)| now.0 > 0 || now.1.is_some();
        let mut now = DEVICES.1.wait_while(devices(), wait).unwrap_or_else(PoisonError::into_inner);
        now.1 = Some(std::thread::current().id());
        Self
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        devices().1 = None;
        DEVICES.1.notify_all();
    }
}

/// A loop device on a file of its own, taken down again whatever happens.
pub(crate) struct Loop {
    pub(crate) device: String,
    pub(crate) image: PathBuf,
    _shared: Shared,
}

impl Loop {
    /// A device of `bytes` zeros; `options` go to losetup. A failure skips the test with the
    /// reason.
    pub(crate) fn new(test: &str, dir: &Path, bytes: u64, options: &[&str]) -> Option<Loop> {
        let image = dir.join("image");
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        Loop::on(test, &image, options)
    }

    pub(crate) fn on(test: &str, image: &Path, options: &[&str]) -> Option<Loop> {
        if !possible(test, &["losetup"]) {
            return None;
        }
        let shared = Shared::enter();
        let made =
            Command::new("losetup").args(["--find", "--show"]).args(options).arg(image).output().unwrap();
        if !made.status.success() {
            skipped(test, &format!("no loop device: {}", String::from_utf8_lossy(&made.stderr).trim()));
            return None;
        }
        let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        Some(Loop { device, image: image.to_owned(), _shared: shared })
    }

    /// All bytes that are on it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        assert!(Command::new("sync").arg(&self.device).status().unwrap().success());
        std::fs::read(&self.image).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}
