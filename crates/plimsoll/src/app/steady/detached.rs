//! `plimsoll steady --start` and `--stop`: a process of its own observes until it is stopped, and
//! writes each interval as a line into a file of the history.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use plimsoll_command::cli::SteadyCommand;
use plimsoll_machine::processes::{ProcessStat, began};
use plimsoll_machine::{Machine, Root};
use plimsoll_reference::supervise::end_as;
use plimsoll_steady::{CommandInterval, CommandWatch, ObservedRun, SteadyAnswer, SteadyDocument, judge};
use plimsoll_units::text::read_small;

use super::super::{Failure, own_program, signals};
use super::child::{Observer, SignalRelay};
use super::kept;
use crate::failure::OrFailure;
use crate::output::{complain, print_line};

/// Longest observation.
const MAX_OBSERVATION: Duration = Duration::from_hours(24);
/// Largest file of intervals in bytes; those of 24 hours take about 100 MB.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// First line of the file: ID and start of the observing process, and the document so far.
type ObservationStart = (u32, Option<u64>, SteadyDocument);

/// Last line of the file: the reason if it was not stopped, what could not be observed, and the CPU
/// time of the observation.
type ObservationEnd = (Option<String>, Vec<String>, Option<f64>);

/// A process to observe, by its ID and start, and the file for it.
type ObservedProcess = (u32, u64, PathBuf);

fn path(typed: &SteadyCommand, option: &str, name: &str) -> Result<PathBuf, Failure> {
    Ok(kept::history(typed, option)?.file_path("steady")?.join(format!("{name}.started")))
}

/// Starts a process that observes, with the options of this one, and waits until it does.
pub(super) fn start() -> Result<ExitCode, Failure> {
    let words = std::env::args_os().skip_while(|word| word != "steady").skip(1);
    let mut command = Command::new(own_program()?);
    command.arg0("plimsoll").arg("observer").args(words);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().or_environment()?;
    let lines = child.stderr.take().into_iter().flat_map(|output| BufReader::new(output).lines());
    for line in lines.map_while(Result::ok) {
        if line.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        print_line(&line);
    }
    Ok(ExitCode::from(end_as(child.wait().or_environment()?)))
}

/// Finds the process for the observation `name`. Fails if there is one of this name already.
pub(super) fn find(typed: &SteadyCommand, name: &str) -> Result<ObservedProcess, Failure> {
    let path = path(typed, "--start", name)?;
    if path.exists() {
        let why = format!("--start {name} was started before; plimsoll steady --stop {name} ends it");
        return Err(Failure::usage(why));
    }
    let root = Root::live();
    let parent = |id: u32| Some(ProcessStat::read(&root, &format!("proc/{id}"))?.parent);
    // Between the caller and this process is the one that waits in `start`.
    let id = typed.below.or_else(|| parent(parent(std::process::id())?));
    let found = id.and_then(|id| Some((id, began(&root, id)?, path)));
    let why = "--start: the process to observe is not visible here; name another one with --below PID";
    found.ok_or_else(|| Failure::usage(why))
}

/// Observes the process and all that it starts until a signal, its end, or for 24 h.
pub(super) fn observe(
    typed: &SteadyCommand,
    (id, start, path): ObservedProcess,
    document: SteadyDocument,
    machine: &Machine,
    relay: &SignalRelay,
) -> Result<ExitCode, Failure> {
    let (root, own) = (Root::live(), std::process::id());
    path.parent().map(std::fs::create_dir_all).transpose().or_environment()?;
    let mut file = File::options().append(true).create_new(true).open(&path).or_environment()?;
    let mut write = |line: serde_json::Result<String>| writeln!(file, "{}", line?);
    let name = document.command.concat();
    let first: ObservationStart = (own, began(&root, own), document);
    write(serde_json::to_string(&first)).or_environment()?;
    let mut watch = CommandWatch::new(&root, &machine.cpu.allowed);
    watch.attach(id);
    let mut observer = Observer::new(watch, relay);
    let ended = relay.probe_ends(MAX_OBSERVATION);
    // Nothing waits for it, its terminal or its directory.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    complain(&format!(
        "observing process {id} and all that it starts; plimsoll steady --stop {name} ends it"
    ));
    print_line("");
    let mut written = Ok(());
    let ended = observer.observe_until(&ended, |interval| {
        written = write(serde_json::to_string(&interval));
        written.is_ok() && began(&root, id) == Some(start)
    });
    // Without a last line, --stop knows that the file is not complete.
    written.or_environment()?;
    let why = match ended {
        Some(()) => Some("a signal or the limit of 24 h ended its observer".to_owned()),
        None if typed.below.is_some() => None,
        None => Some(format!("process {id} ended; name one that lasts with --below PID")),
    };
    let (missing, seconds) = observer.finish();
    let last: ObservationEnd = (why, missing, seconds);
    write(serde_json::to_string(&last)).or_environment()?;
    Ok(ExitCode::SUCCESS)
}

/// Ends the observation `name` and removes its file. Returns its document with the run, judged by
/// the size of the cache of one core in bytes.
pub(super) fn end(typed: &SteadyCommand, name: &str, cache: u64) -> Result<SteadyDocument, Failure> {
    let path = path(typed, "--stop", name)?;
    let unknown = |why: String| {
        let line = format!(
            "--stop {name}: nothing of this name is observed ({why}); plimsoll steady --start {name} begins it"
        );
        Failure::usage(line)
    };
    let read = || read_small(&path, MAX_FILE_BYTES).map_err(unknown);
    let first: Result<ObservationStart, _> = serde_json::from_str(read()?.lines().next().unwrap_or_default());
    let (id, start, mut document) = first.map_err(|_| {
        let _ = std::fs::remove_file(&path);
        unknown("--start did not succeed".to_owned())
    })?;
    let is_running = start.is_some() && began(&Root::live(), id) == start;
    if is_running {
        signals::stop_process(id, start.unwrap_or(0))?;
    }
    let text = read()?;
    let end = text.lines().last().and_then(|line| serde_json::from_str::<ObservationEnd>(line).ok());
    let intervals = text.lines().skip(1).map_while(|line| serde_json::from_str(line).ok());
    let intervals: Vec<CommandInterval> = intervals.collect();
    let elapsed_s = intervals.last().map_or(0.0, |last| last.to);
    let mut verdict = judge(&intervals, cache);
    let is_stopped = is_running && end.is_some();
    let killed = "its observer was killed, the machine restarted, or the disk was full";
    let (why, missing, seconds) = end.unwrap_or_else(|| (Some(killed.to_owned()), Vec::new(), None));
    if let Some(why) = why.filter(|_| !is_stopped) {
        verdict.answer = SteadyAnswer::Unknown;
        verdict.line = format!("unknown: nothing was observed after {elapsed_s:.1} s: {why}");
    }
    document.missing = missing;
    document.observer_share = seconds.map(|seconds| seconds / elapsed_s.max(1e-3));
    let started = document.started.clone();
    document.runs = vec![ObservedRun { started, elapsed_s, ended: None, verdict, intervals }];
    std::fs::remove_file(&path).or_environment()?;
    Ok(document)
}
