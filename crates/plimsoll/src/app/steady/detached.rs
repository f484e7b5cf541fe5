//! `plimsoll steady --start` and `--stop`: a process of its own observes until it is stopped, and
//! then writes the run into a file of the history.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use plimsoll_command::cli::SteadyCommand;
use plimsoll_machine::processes::{ProcessStat, began};
use plimsoll_machine::{Machine, Root};
use plimsoll_reference::supervise::end_as;
use plimsoll_steady::{
    CommandInterval, CommandWatch, Observation, ObservedRun, SteadyAnswer, SteadyDocument, judge,
};
use plimsoll_units::text::{read_small, shown_path};
use tempfile::NamedTempFile;

use super::super::{Failure, own_program, signals, target};
use super::child::{Observer, STOP_SIGNAL, SignalRelay};
use super::{cache, kept};
use crate::failure::OrFailure;
use crate::output::{complain, print_line};

/// Longest observation.
const MAX_OBSERVATION: Duration = Duration::from_hours(24);
/// Largest file of an observation in bytes; the intervals of 24 hours take about 100 MB.
const MAX_FILE_BYTES: u64 = 512 << 20;

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

/// Returns the process that a new observation `name` watches: that of `--below`, else the caller of
/// plimsoll. Fails if it is not visible, or if an observation of this name was started before.
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

/// Observes the process and all that it starts until a signal, its end, or for 24 h; then adds the
/// judged run to the file.
pub(super) fn observe(
    typed: &SteadyCommand,
    (id, start, path): ObservedProcess,
    document: SteadyDocument,
    machine: &Machine,
    relay: &SignalRelay,
) -> Result<ExitCode, Failure> {
    let (root, observer) = (Root::live(), std::process::id());
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(unusable(directory))?;
    let mut kept = Observation { observer, began: began(&root, observer), document };
    // From here on --stop can end it.
    let ended = relay.signal_or_timeout(MAX_OBSERVATION);
    // It gets its name when it is complete, so that --stop can always read it.
    let mut file = NamedTempFile::new_in(directory).map_err(unusable(directory))?;
    serde_json::to_writer(&mut file, &kept).map_err(io::Error::from).map_err(unusable(&path))?;
    file.persist_noclobber(&path).map_err(|e| unusable(&path)(e.error))?;
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
    let mut intervals = Vec::new();
    let ended = observer.observe_until(&ended, |interval| {
        intervals.push(interval);
        began(&root, id) == Some(start)
    });
    let too_early = match ended {
        Some(()) if relay.is_stopped() => None,
        Some(()) => Some("a signal or the limit of 24 h ended its observer".to_owned()),
        None if typed.below.is_some() => None,
        None => Some(format!("process {id} ended; name one that lasts with --below PID")),
    };
    let run = observed_run(&kept.document.started, intervals, too_early, cache(machine));
    let (missing, seconds) = observer.finish();
    kept.document.missing = missing;
    kept.document.observer_share = seconds.map(|seconds| seconds / run.elapsed_s.max(1e-3));
    kept.document.runs = vec![run];
    target(&path)?.put(&serde_json::to_string(&kept).or_environment()?)?;
    Ok(ExitCode::SUCCESS)
}

/// Judges an observed run: unknown if it ended `too_early` (why). `cache`: of a core, in bytes.
fn observed_run(
    started: &str,
    intervals: Vec<CommandInterval>,
    too_early: Option<String>,
    cache: u64,
) -> ObservedRun {
    let elapsed_s = intervals.last().map_or(0.0, |last| last.to);
    let mut verdict = judge(&intervals, cache);
    if let Some(why) = too_early {
        verdict.answer = SteadyAnswer::Unknown;
        verdict.line = format!("unknown: nothing was observed after {elapsed_s:.1} s: {why}");
    }
    ObservedRun { started: started.to_owned(), elapsed_s, ended: None, verdict, intervals }
}

/// Returns a function that turns an I/O error on `path`, an observation's file, into a failure.
fn unusable(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |e| Failure::environment(format!("the file of the observation, {}: {e}", shown_path(path)))
}

/// Removes the file of the observation `name`.
pub(super) fn remove(typed: &SteadyCommand, name: &str) -> Result<(), Failure> {
    let path = path(typed, "--stop", name)?;
    std::fs::remove_file(&path).map_err(unusable(&path))
}

/// Stops the observer of `name`, if it runs; keeps its file. Returns the document with its run.
pub(super) fn end(typed: &SteadyCommand, name: &str) -> Result<SteadyDocument, Failure> {
    let path = path(typed, "--stop", name)?;
    if !path.exists() {
        return Err(Failure::usage(format!(
            "--stop {name}: nothing of this name is observed (it was not started, or ended before); plimsoll steady --start {name} begins it"
        )));
    }
    let read = || -> Result<Observation, Failure> {
        let text = read_small(&path, MAX_FILE_BYTES).map_err(io::Error::other).map_err(unusable(&path))?;
        serde_json::from_str(&text).map_err(|e| {
            let why = format!("it is damaged ({e}); end its observer, then remove it");
            unusable(&path)(io::Error::other(why))
        })
    };
    let mut kept = read()?;
    if let Some(start) = kept.began.filter(|start| began(&Root::live(), kept.observer) == Some(*start)) {
        let advice = format!("end it where it runs, then type plimsoll steady --stop {name} again");
        signals::stop_process(kept.observer, start, STOP_SIGNAL, &advice)?;
        kept = read()?;
    }
    let mut document = kept.document;
    if document.runs.is_empty() {
        let killed = "its observer was killed, the machine restarted, or the disk was full".to_owned();
        document.runs = vec![observed_run(&document.started, Vec::new(), Some(killed), 0)];
    }
    Ok(document)
}
