//! Fixtures of the integration tests: the program, its documents, processes, skipped tests.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Output, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use plimsoll_metal::clock::thread_cpu_time;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_plimsoll");

/// Time limit of a program, for tests that hang, also if all tests share half of a CPU.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

/// Lets a command work in a directory, with its history and its state there and without colour.
pub(crate) fn confine<'a>(
    command: &'a mut std::process::Command,
    dir: &Path,
) -> &'a mut std::process::Command {
    command.env("XDG_DATA_HOME", dir.join("data")).env("XDG_STATE_HOME", dir.join("state"));
    command.env("NO_COLOR", "1").current_dir(dir)
}

/// The program, [confined](confine) to a directory.
pub(crate) fn plimsoll(dir: &Path) -> Command {
    let mut command = std::process::Command::new(PROGRAM);
    confine(&mut command, dir);
    let mut command = Command::from_std(command);
    command.timeout(PATIENCE);
    command
}

/// Standard output and standard error of a command that must end with `code`.
#[track_caller]
pub(crate) fn ended(command: &mut Command, code: i32) -> (String, String) {
    with_code(&command.output().unwrap(), code)
}

/// Standard output and standard error of a program that must have ended with `code`.
#[track_caller]
pub(crate) fn with_code(output: &Output, code: i32) -> (String, String) {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8(text.clone()).unwrap());
    let status = output.status;
    let killed = status.signal().map(|_| format!(" (a test ends what takes {PATIENCE:?}, or what it sets)"));
    let killed = killed.unwrap_or_default();
    assert!(status.code() == Some(code), "{status}{killed}, and not {code}\nstderr: {err}\nstdout: {out}");
    (out, err)
}

/// Words as a shell has them: blanks part, single quotes hold together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(place, part)| match place % 2 {
        1 => vec![part],
        _ => part.split_whitespace().collect(),
    });
    words.map(str::to_owned).collect()
}

/// The program with the words of a command line, as a process to be started.
pub(crate) fn command(line: &str) -> std::process::Command {
    let mut command = std::process::Command::new(PROGRAM);
    command.args(words(line));
    command
}

/// Starts a program without input; its output can be read.
#[track_caller]
pub(crate) fn start(command: &mut std::process::Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// [`ended`] of the program with the words of a command line.
#[track_caller]
pub(crate) fn done(dir: &Path, line: &str, code: i32) -> (String, String) {
    ended(plimsoll(dir).args(words(line)), code)
}

/// The document that a command line prints.
#[track_caller]
pub(crate) fn document(dir: &Path, line: &str, code: i32) -> Value {
    json(&done(dir, line, code).0)
}

/// The document of a run with the words of a command line, which must end with 0.
#[track_caller]
pub(crate) fn run_of(line: &str) -> Value {
    document(scratch().path(), &format!("{line} --store none --json -"), 0)
}

/// The shortest run that has an interval.
pub(crate) const NULL: &str = "run --only null --samples=5 --sample-time=1ms --quiet";

/// Stores the shortest run in `history`.
#[track_caller]
pub(crate) fn run(dir: &Path) {
    done(dir, &format!("{NULL} --store history"), 0);
}

#[track_caller]
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A document that keeps to its schema.
#[track_caller]
pub(crate) fn validated(text: &str) -> Value {
    let document = json(text);
    let name = document["schema"].as_str().unwrap().strip_prefix("plimsoll.").unwrap();
    let file = format!("{}.json", name.replace('/', ".v"));
    let validator = jsonschema::validator_for(&json_of(&repository("schema"), &file)).unwrap();
    let wrong = validator.iter_errors(&document).map(|e| format!("{e} at {}\n", e.instance_path()));
    let wrong: String = wrong.collect();
    assert!(wrong.is_empty(), "{wrong}");
    document
}

#[track_caller]
pub(crate) fn json_of(dir: &Path, file: &str) -> Value {
    json(&fs::read_to_string(dir.join(file)).unwrap())
}

/// A recorded run: pages must not depend on this machine.
pub(crate) fn recorded() -> Value {
    validated(include_str!("fixtures/runs/threads.json"))
}

/// Makes the run one of a machine of this name.
pub(crate) fn rename_machine(run: &mut Value, name: &str) {
    run["machine"]["host"] = name.into();
    run["nodes"][0]["name"] = name.into();
    run["measurements"].as_array_mut().unwrap().iter_mut().for_each(|one| one["node"] = name.into());
}

/// Multiplies a number, or all numbers of a list.
pub(crate) fn scale(value: &mut Value, times: f64) {
    match value {
        Value::Number(number) => *value = (number.as_f64().unwrap() * times).into(),
        Value::Array(all) => all.iter_mut().for_each(|one| scale(one, times)),
        _ => {}
    }
}

/// Multiplies the samples of a metric and what follows from them, except for shares.
pub(crate) fn scale_metric(metric: &mut Value, times: f64) {
    scale(&mut metric["samples"], times);
    for key in ["mean", "stdev", "median", "mad", "min", "max", "ci95"] {
        scale(&mut metric["summary"][key], times);
    }
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of the repository, by its path below the root.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[track_caller]
pub(crate) fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// The entry of a list of warnings or findings with this code.
pub(crate) fn coded<'a>(all: &'a Value, code: &str) -> Option<&'a Value> {
    all.as_array()?.iter().find(|one| one["code"] == code)
}

pub(crate) fn warns(measurement: &Value, code: &str) -> bool {
    coded(&measurement["warnings"], code).is_some()
}

#[track_caller]
pub(crate) fn metric<'a>(measurement: &'a Value, name: &str) -> &'a Value {
    let found = list(&measurement["metrics"]).iter().find(|metric| metric["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {measurement}"))
}

#[track_caller]
pub(crate) fn median(measurement: &Value, name: &str) -> f64 {
    let median = metric(measurement, name)["summary"]["median"].as_f64();
    median.unwrap_or_else(|| panic!("no median of {name}: {measurement}"))
}

#[track_caller]
pub(crate) fn reason(measurement: &Value) -> &str {
    measurement["reason"].as_str().unwrap_or_else(|| panic!("{measurement}"))
}

/// Asserts that a case has figures, which may be above their limit on this machine's processor.
#[track_caller]
pub(crate) fn measured(measurement: &Value) {
    assert!(matches!(text(&measurement["status"]), "ok" | "invalid"), "{measurement}");
    assert!(measurement["metrics"][0]["summary"]["median"].is_number(), "{measurement}");
}

/// All that is below a directory, in the order of names.
pub(crate) fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    let with_deeper = |path: PathBuf| {
        let deeper = if path.is_symlink() { Vec::new() } else { below(&path) };
        [vec![path], deeper].concat()
    };
    let mut found: Vec<PathBuf> = entries.flat_map(with_deeper).collect();
    found.sort();
    found
}

/// A fresh directory on the disk that holds the build, which is a real file system.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A new directory for programs, to whose parents no other user can write.
pub(crate) fn place_for_programs() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Makes a directory with these permissions.
pub(crate) fn made(path: PathBuf, mode: u32) -> PathBuf {
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// Makes a shell script that can be executed.
pub(crate) fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Whether a program can be started.
pub(crate) fn exists(program: &str) -> bool {
    // Not by starting it: hpcc would measure, and write its file here.
    std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|dir| dir.join(program).is_file())
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

/// Waits until `holds`: what takes a moment on a quiet machine may take a minute on a busy one.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come about within five minutes");
        // So that waiting does not take the processor from what is waited for.
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A process that ends with its test.
pub(crate) struct Owned(pub(crate) Child);

impl Owned {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run followed by its events, with its document in `run.json`.
pub(crate) struct Running {
    child: Owned,
    events: BufReader<ChildStdout>,
    document: PathBuf,
}

impl Running {
    /// Starts a command that ends in the words of a command line.
    #[track_caller]
    pub(crate) fn start(command: &mut std::process::Command, dir: &Path) -> Self {
        command.args("--events - --json run.json --store none".split(' ')).current_dir(dir);
        let mut child = start(command);
        let events = BufReader::new(child.stdout.take().unwrap());
        Self { child: Owned(child), events, document: dir.join("run.json") }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn workers(&self) -> Vec<u32> {
        children(self.pid())
    }

    pub(crate) fn signal(&self, by: Signal) {
        signal(self.pid(), by);
    }

    /// Reads the next event; `None` at the end.
    pub(crate) fn next_event(&mut self) -> Option<Value> {
        let mut line = String::new();
        (self.events.read_line(&mut line).unwrap() > 0).then(|| json(&line))
    }

    #[track_caller]
    pub(crate) fn until(&mut self, event: &str) {
        while self.next_event().expect("the run ended before the event came")["event"] != event {}
    }

    /// Reads events until the second case is being sampled, the first one being finished then.
    pub(crate) fn until_the_second_case(&mut self) {
        self.until("measured");
        self.until("sampled");
    }

    /// Reads the rest; returns the document, which must have this status.
    #[track_caller]
    pub(crate) fn ended(self, code: i32, status: &str) -> Value {
        let (ended, err, document) = self.end();
        assert_eq!((ended, &document["status"]), (Some(code), &status.into()), "{err}");
        document
    }

    /// Reads the rest; returns the exit code, the messages and the document, null without one.
    pub(crate) fn end(mut self) -> (Option<i32>, String, Value) {
        self.events.read_to_string(&mut String::new()).unwrap();
        let mut messages = String::new();
        self.child.0.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        let code = self.child.0.wait().unwrap().code();
        let document = fs::read_to_string(&self.document);
        (code, messages, document.map_or(Value::Null, |text| json(&text)))
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Signal that interrupts the program: tests that a script starts in the background ignore SIGINT.
pub(crate) fn interrupt() -> Signal {
    if heeded(Signal::INT) { Signal::INT } else { Signal::TERM }
}

/// Whether a program started from here does not ignore this signal.
pub(crate) fn heeded(signal: Signal) -> bool {
    !plimsoll_metal::signal::is_ignored(signal.as_raw())
}

/// The value of `key` in a process's status, in `/proc/PID/status`.
pub(crate) fn status(pid: u32, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned()
}

/// The fields of a process after its name, from its state on (proc_pid_stat(5)).
fn fields(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit(')').next()?.split_whitespace().map(str::to_owned).collect())
}

pub(crate) fn parent(pid: u32) -> Option<u32> {
    fields(pid)?.get(1)?.parse().ok()
}

/// All processes, each with its command line.
pub(crate) fn processes() -> impl Iterator<Item = (u32, String)> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, lossy(&fs::read(format!("/proc/{pid}/cmdline")).ok()?))))
}

pub(crate) fn children(pid: u32) -> Vec<u32> {
    processes().map(|(child, _)| child).filter(|child| parent(*child) == Some(pid)).collect()
}

/// CPU time of a process and of its ended children, each in user and system mode, in clock ticks.
pub(crate) fn cpu_times(pid: u32) -> Option<[u64; 4]> {
    let fields = fields(pid)?;
    let times: Vec<u64> = fields.get(11..15)?.iter().filter_map(|field| field.parse().ok()).collect();
    times.try_into().ok()
}

/// CPU time of a process without its children, in clock ticks.
pub(crate) fn ticks(pid: u32) -> Option<u64> {
    cpu_times(pid).map(|[user, system, ..]| user + system)
}

/// Waits for the end of a process that is not a child of this one.
#[track_caller]
pub(crate) fn gone(pid: u32) {
    until(&format!("the end of process {pid}"), || {
        fields(pid).is_none_or(|fields| fields.is_empty() || ["Z", "X"].contains(&fields[0].as_str()))
    });
}

/// An operation of `cpu.peak` with a valid figure. `None`, and a skipped test, if all are invalid,
/// as in a virtual machine that hides its processor.
#[track_caller]
pub(crate) fn valid_operation() -> Option<String> {
    let dir = scratch();
    let words =
        "cpu --op all --type f64 --threads 1 --samples 3 --sample-time 10ms --store none --quiet --json -";
    let run = json(&lossy(&plimsoll(dir.path()).args(words.split(' ')).output().unwrap().stdout));
    let valid = list(&run["measurements"]).iter().find(|m| m["status"] == "ok");
    let operation = valid.and_then(|m| m["case"]["params"]["op"].as_str()).map(str::to_owned);
    if operation.is_none() {
        return skip("what is known of this processor is wrong for every operation");
    }
    operation
}

/// Lists the running test as skipped, and returns what stands for nothing: `()` or `None`.
#[track_caller]
pub(crate) fn skip<T: Default>(why: &str) -> T {
    let (thread, place) = (std::thread::current(), Location::caller());
    // With one thread, tests run on the main one.
    let name = thread.name().filter(|name| *name != "main");
    skipped(&name.map_or_else(|| place.to_string(), str::to_owned), why);
    T::default()
}

/// Names a skipped test, or a part of one, on stderr and in the list that `make test` prints.
pub(crate) fn skipped(test: &str, why: &str) {
    let line = format!("{test}: {why}\n");
    let _ = write!(std::io::stderr(), "skipped: {line}");
    if let Some(list) = std::env::var_os("PLIMSOLL_SKIPPED") {
        OpenOptions::new().create(true).append(true).open(list).unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// `None`, and a skipped test, if one of these programs is missing.
#[track_caller]
pub(crate) fn has(programs: &[&str]) -> Option<()> {
    let missing: Vec<_> = programs.iter().filter(|program| !exists(program)).collect();
    if missing.is_empty() { Some(()) } else { skip(&format!("needs {missing:?}")) }
}

/// `None`, and a skipped test, without root or one of these programs.
#[track_caller]
pub(crate) fn possible(programs: &[&str]) -> Option<()> {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root");
    }
    has(programs)
}

/// Whether a control group limits this process, which the kernel then stops for tenths of a second.
pub(crate) fn under_a_quota() -> bool {
    let machine = document(scratch().path(), "machine --json", 0);
    machine.pointer("/cgroup/cpu_quota").is_some_and(|quota| !quota.is_null())
}

/// Whether this thread gets less than 60 % of a CPU over 100 ms: deadlines may then be missed.
pub(crate) fn short_of_cpu() -> bool {
    let (begin, before) = (Instant::now(), thread_cpu_time());
    while begin.elapsed() < Duration::from_millis(100) {
        std::hint::spin_loop();
    }
    under_a_quota() || thread_cpu_time().saturating_sub(before) < begin.elapsed().mul_f64(0.6)
}
