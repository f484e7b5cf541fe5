//! `plimsoll steady --start` and `--stop`: a process of its own observes until it is stopped, and
//! writes each interval as a line into a file of the history.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use plimsoll_command::cli::SteadyCommand;
use plimsoll_machine::processes::{ProcessStat, began};
use plimsoll_machine::{Machine, Root};
use plimsoll_reference::supervise::end_as;
use plimsoll_steady::{CommandInterval, CommandWatch, ObservedRun, SteadyAnswer, SteadyDocument, judge};
use plimsoll_units::text::shown_path;
use tempfile::NamedTempFile;

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

/// Document so far, observed intervals, and why they may end too early.
type StoppedObservation = (SteadyDocument, Vec<CommandInterval>, Option<String>);

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
pub(super) fn find_process(typed: &SteadyCommand, name: &str) -> Result<ObservedProcess, Failure> {
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
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(unusable(directory))?;
    let first: ObservationStart = (own, began(&root, own), document);
    // From here on --stop can end it.
    let ended = relay.signal_or_timeout(MAX_OBSERVATION);
    // It gets its name with the first line, so that --stop can always read this.
    let (mut file, hidden) = NamedTempFile::new_in(directory).map_err(unusable(directory))?.into_parts();
    let mut write = |line: serde_json::Result<String>| writeln!(file, "{}", line?);
    write(serde_json::to_string(&first)).map_err(unusable(&path))?;
    hidden.persist_noclobber(&path).map_err(|e| unusable(&path)(e.error))?;
    let mut watch = CommandWatch::new(&root, &machine.cpu.allowed);
    watch.attach(id);
    let mut observer = Observer::new(watch, relay);
    // Nothing waits for it, its terminal or its directory.
    let _ = rustix::process::setsid();
    let _ = rustix::process::set_parent_process_death_signal(None);
    let _ = std::env::set_current_dir("/");
    let name = typed.start.as_deref().unwrap_or_default();
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
    written.map_err(unusable(&path))?;
    let why = match ended {
        Some(()) => Some("a signal or the limit of 24 h ended its observer".to_owned()),
        None if typed.below.is_some() => None,
        None => Some(format!("process {id} ended; name one that lasts with --below PID")),
    };
    let (missing, seconds) = observer.finish();
    let last: ObservationEnd = (why, missing, seconds);
    write(serde_json::to_string(&last)).map_err(unusable(&path))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a function that names the file `path` of an observation in an error.
fn unusable(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |e| Failure::environment(format!("the file of the observation, {}: {e}", shown_path(path)))
}

/// Removes the file of the observation `name`.
pub(super) fn remove(typed: &SteadyCommand, name: &str) -> Result<(), Failure> {
    let path = path(typed, "--stop", name)?;
    std::fs::remove_file(&path).map_err(unusable(&path))
}

/// Ends the observation `name`, and keeps its file. Returns what was observed.
pub(super) fn end(typed: &SteadyCommand, name: &str) -> Result<StoppedObservation, Failure> {
    let path = path(typed, "--stop", name)?;
    let not_observed = |why: &str| {
        Failure::usage(format!(
            "--stop {name}: nothing of this name is observed ({why}); plimsoll steady --start {name} begins it"
        ))
    };
    let file = File::options().read(true).append(true).open(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => not_observed("it was not started, or ended before"),
        _ => unusable(&path)(e),
    })?;
    let mut reader = BufReader::new((&file).take(MAX_FILE_BYTES));
    let mut line = String::new();
    if reader.read_line(&mut line).map_err(unusable(&path))? == 0 {
        // A file gets its name with the first line: the machine crashed.
        remove(typed, name)?;
        return Err(not_observed("its file is empty"));
    }
    let (id, start, mut document): ObservationStart = serde_json::from_str(&line).map_err(|e| {
        let why = format!("its first line is damaged ({e}); end its observer, then remove it");
        unusable(&path)(io::Error::other(why))
    })?;
    let is_running = start.is_some() && began(&Root::live(), id) == start;
    if is_running {
        let advice = format!("end it where it runs, then type plimsoll steady --stop {name} again");
        signals::stop_process(id, start.unwrap_or(0), &advice, || ())?;
    }
    let lines: Vec<String> = reader.lines().collect::<Result<_, _>>().map_err(unusable(&path))?;
    let mut end = lines.last().and_then(|line| serde_json::from_str::<ObservationEnd>(line).ok());
    if let Some(end) = end.as_mut().filter(|_| is_running) {
        end.0 = None;
        // For another --stop, if the verdict cannot be kept. Without it the answer is unknown then.
        let _ = writeln!(&file, "{}", serde_json::to_string(end).unwrap_or_default());
    }
    let parsed = lines.iter().map_while(|line| serde_json::from_str(line).ok());
    let intervals: Vec<CommandInterval> = parsed.collect();
    let killed = "its observer was killed, the machine restarted, or the disk was full";
    let (why, missing, seconds) = end.unwrap_or_else(|| (Some(killed.to_owned()), Vec::new(), None));
    let elapsed_s = intervals.last().map_or(0.0, |last| last.to);
    document.missing = missing;
    document.observer_share = seconds.map(|seconds| seconds / elapsed_s.max(1e-3));
    Ok((document, intervals, why))
}

/// Adds the observed run to the document, judged by the size of the cache of one core in bytes.
pub(super) fn judged((mut document, intervals, why): StoppedObservation, cache: u64) -> SteadyDocument {
    let elapsed_s = intervals.last().map_or(0.0, |last| last.to);
    let mut verdict = judge(&intervals, cache);
    if let Some(why) = why {
        verdict.answer = SteadyAnswer::Unknown;
        verdict.line = format!("unknown: nothing was observed after {elapsed_s:.1} s: {why}");
    }
    let started = document.started.clone();
    document.runs = vec![ObservedRun { started, elapsed_s, ended: None, verdict, intervals }];
    document
}
