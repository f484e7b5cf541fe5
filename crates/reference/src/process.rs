//! Runs untrusted programs without a shell, in a clean environment, with their own process group, a
//! time limit and an output cap. The whole group is ended in any case.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, bounded, select};
use plimsoll_units::text::shown_path;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Most bytes of output that are kept; a program that writes more is ended.
pub const OUTPUT_CAP: u64 = 16 << 20;

/// Time from SIGTERM to SIGKILL; some tools (lmbench) ignore SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

/// A program to run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramOrder {
    /// Absolute path.
    pub program: PathBuf,
    /// Command-line arguments.
    pub arguments: Vec<OsString>,
    /// CPUs that it may use; empty: all.
    pub cpus: Vec<usize>,
    /// Variables added to the clean environment.
    pub environment: Vec<(&'static str, String)>,
    /// Variables of the MPI launcher, passed on unchanged.
    pub of_launcher: Vec<(OsString, OsString)>,
    /// Working directory.
    pub directory: PathBuf,
    /// Text for its standard input.
    pub stdin: Option<String>,
    /// Time limit.
    pub limit: Duration,
}

impl ProgramOrder {
    /// Returns an order to run `program` in `directory`: no arguments, all CPUs, at most 1 min.
    pub fn of(program: &Path, directory: &Path) -> Self {
        let (program, directory, limit) = (program.to_owned(), directory.to_owned(), Duration::from_secs(60));
        Self { program, directory, limit, ..Self::default() }
    }
}

/// Result of a program that ended.
#[derive(Debug)]
pub struct ProgramEnd {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output; invalid UTF-8 is replaced.
    pub stdout: String,
    /// Standard error; invalid UTF-8 is replaced.
    pub stderr: String,
}

/// Why a program gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It did not start: its path, safe to print, and the reason.
    #[error("{0} cannot be started: {1}")]
    Start(String, String),
    /// It reached its time limit, in seconds, and was ended.
    #[error("{0} was ended after {1:.0} s without a result")]
    Hung(String, f64),
    /// It wrote more than [`OUTPUT_CAP`] and was ended.
    #[error("{0} wrote more than {mib} MiB and was ended", mib = OUTPUT_CAP >> 20)]
    TooMuch(String),
    /// The user ended the run.
    #[error("interrupted")]
    Interrupted,
}

/// A running program; dropping it ends its process group.
pub struct RunningProgram {
    child: Child,
    program: String,
    /// Collected: its number may belong to another process.
    collected: bool,
}

/// Re-executes plimsoll to start a program (`plimsoll launch`), with a process that supervises it.
#[derive(Clone, Debug)]
pub struct SelfLauncher {
    /// Path of plimsoll.
    pub plimsoll: PathBuf,
}

impl SelfLauncher {
    /// Starts a program, whose output is discarded. Fails if it does not start.
    pub fn start_quiet(&self, order: &ProgramOrder) -> Result<RunningProgram, ProcessError> {
        self.start(order, Stdio::null)
    }

    fn start(&self, order: &ProgramOrder, end: fn() -> Stdio) -> Result<RunningProgram, ProcessError> {
        let program = shown_path(&order.program);
        let cpus: Vec<String> = order.cpus.iter().map(usize::to_string).collect();
        let mut command = Command::new(&self.plimsoll);
        command.arg0("plimsoll").args(["launch", "--cpus", &cpus.join(","), "--"]).arg(&order.program);
        command.args(&order.arguments).current_dir(&order.directory).process_group(0);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("HOME", &order.directory);
        command.envs(order.environment.iter().map(|(name, value)| (*name, value.as_str())));
        command.envs(order.of_launcher.iter().map(|(name, value)| (name, value)));
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().map_err(|e| ProcessError::Start(program.clone(), e.to_string()))?;
        Ok(RunningProgram { child, program, collected: false })
    }

    /// Runs a program to its end and returns its output. Fails at its time limit, on a message on
    /// `interrupts`, or for too much output; its process group has then ended, too.
    pub fn run(&self, order: &ProgramOrder, interrupts: &Receiver<()>) -> Result<ProgramEnd, ProcessError> {
        let mut running = self.start(order, Stdio::piped)?;
        let program = running.program.clone();
        let thread = |e: std::io::Error| ProcessError::Start(program.clone(), e.to_string());
        let (sender, outputs) = bounded(2);
        let stdout = listen(running.child.stdout.take(), false, sender.clone()).map_err(thread);
        let stderr = listen(running.child.stderr.take(), true, sender).map_err(thread);
        stdout.and(stderr)?;
        feed(&mut running.child, order.stdin.as_deref()).map_err(thread)?;
        let (mut stdout, mut stderr) = (None, None);
        let deadline = after(order.limit);
        while stdout.is_none() || stderr.is_none() {
            select! {
                recv(outputs) -> output => match output {
                    Ok((is_stderr, Some(text))) => *if is_stderr { &mut stderr } else { &mut stdout } = Some(text),
                    Ok((_, None)) | Err(_) => return Err(ProcessError::TooMuch(program)),
                },
                recv(interrupts) -> _ => return Err(ProcessError::Interrupted),
                recv(deadline) -> _ => return Err(ProcessError::Hung(program, order.limit.as_secs_f64())),
            }
        }
        let status = running.collect().map_err(thread)?;
        Ok(ProgramEnd { status, stdout: stdout.unwrap_or_default(), stderr: stderr.unwrap_or_default() })
    }
}

/// Starts a thread that sends (`is_stderr`, text of `pipe`) at its end; `None` if it is too long.
fn listen(
    pipe: Option<impl Read + Send + 'static>,
    is_stderr: bool,
    output: Sender<(bool, Option<String>)>,
) -> std::io::Result<()> {
    let work = move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // An error ends the text; what was read before counts.
            let _ = pipe.take(OUTPUT_CAP + 1).read_to_end(&mut bytes);
        }
        let fits = bytes.len() as u64 <= OUTPUT_CAP;
        let text = fits.then(|| String::from_utf8_lossy(&bytes).into_owned());
        let _ = output.send((is_stderr, text));
    };
    std::thread::Builder::new().name("reference output".to_owned()).spawn(work).map(drop)
}

fn feed(child: &mut Child, text: Option<&str>) -> std::io::Result<()> {
    let Some((mut pipe, text)) = child.stdin.take().zip(text.map(str::to_owned)) else { return Ok(()) };
    // A program that does not read its input must not block plimsoll.
    let work = move || drop(std::io::Write::write_all(&mut pipe, text.as_bytes()));
    std::thread::Builder::new().name("reference input".to_owned()).spawn(work).map(drop)
}

impl RunningProgram {
    /// Returns whether the program and all its children have ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        has_ended(Pid::from_child(&self.child))
    }

    /// Waits until the program ends, kills its process group, then reaps it. Until it is reaped,
    /// its ID is not reused, so that the signal reaches only processes that it left behind.
    fn collect(&mut self) -> std::io::Result<ExitStatus> {
        if !self.collected {
            let group = Pid::from_child(&self.child);
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(group), options) {}
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.collected = true;
        self.child.wait()
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if !self.collected {
            let group = Pid::from_child(&self.child);
            if !has_ended(group) {
                let _ = kill_process_group(group, Signal::TERM);
                wait_for_end(group, GRACE);
            }
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.collect();
    }
}

fn has_ended(process: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(process), options), Ok(None))
}

/// Waits until the child `process` has ended, at most `patience`; does not reap it.
pub(super) fn wait_for_end(process: Pid, patience: Duration) {
    let begun = Instant::now();
    while !has_ended(process) {
        if begun.elapsed() >= patience {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns how a program failed, with its last line of output; `None` if it succeeded.
pub fn failed(done: &ProgramEnd) -> Option<String> {
    if done.status.success() {
        return None;
    }
    let how = match (done.status.signal(), done.status.code()) {
        (Some(signal), _) => format!("ended by signal {signal}"),
        (None, Some(code)) => format!("ended with code {code}"),
        (None, None) => "did not end well".to_owned(),
    };
    let words = |line: &&str| line.contains(char::is_alphanumeric);
    let last = |text: &str| text.lines().map(str::trim).rfind(words).map(str::to_owned);
    match last(&done.stderr).or_else(|| last(&done.stdout)) {
        Some(lines_out) => Some(format!("{how}: {}", plimsoll_units::text::shown_within(&lines_out, 200))),
        None => Some(how),
    }
}

/// Replaces this process by `program`, bound to `cpus` (empty: unchanged) and killed when its
/// parent ends. Returns only if this fails.
pub fn become_program(cpus: &[usize], program: &Path, arguments: &[OsString]) -> std::io::Error {
    // Best effort, as for workers: the parent also ends the group.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if !cpus.is_empty()
        && let Err(error) = plimsoll_metal::affinity::pin_to(cpus)
    {
        return error;
    }
    Command::new(program).args(arguments).exec()
}
