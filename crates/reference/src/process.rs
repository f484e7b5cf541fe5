//! Runs strangers' programs with care: an absolute path and plain arguments, no shell, an environment of our own, a
//! process group of its own, a time limit, an output cap, and an end for all of the group whatever happens.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, bounded, select};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Most bytes that are kept of what a program writes; one that writes more is ended.
pub const OUTPUT_CAP: u64 = 16 << 20;

/// How long a program has to end after it was asked to: an interrupted run ends within 2 s, and some (lmbench) do not listen.
const GRACE: Duration = Duration::from_secs(3);

/// A program to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The CPUs that it may use; empty: all.
    pub cpus: Vec<usize>,
    /// Added to the clean environment.
    pub environment: Vec<(&'static str, String)>,
    /// The launcher's own variables, which it needs as they are here.
    pub of_launcher: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// What it reads.
    pub stdin: Option<String>,
    /// How long it may run.
    pub limit: Duration,
}

impl Order {
    /// A program without arguments in a directory, on all CPUs, for a minute at most.
    pub fn of(program: &Path, directory: &Path) -> Self {
        Self {
            program: program.to_owned(),
            arguments: Vec::new(),
            cpus: Vec::new(),
            environment: Vec::new(),
            of_launcher: Vec::new(),
            directory: directory.to_owned(),
            stdin: None,
            limit: Duration::from_secs(60),
        }
    }
}

/// What a program did.
#[derive(Debug)]
pub struct Done {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output; what is not UTF-8 is replaced.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Why a program gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It did not start.
    #[error("{program} cannot be started: {why}")]
    Start {
        /// Its path, made harmless.
        program: String,
        /// Why.
        why: String,
    },
    /// It ran too long and was ended.
    #[error("{program} was ended after {seconds:.0} s without a result")]
    Hung {
        /// Its path, made harmless.
        program: String,
        /// Its time.
        seconds: f64,
    },
    /// It wrote too much and was ended.
    #[error("{program} wrote more than {} MiB and was ended", OUTPUT_CAP >> 20)]
    TooMuch {
        /// Its path, made harmless.
        program: String,
    },
    /// The user ended the run.
    #[error("interrupted")]
    Interrupted,
}

/// A program that runs; dropping it ends its whole group.
pub struct Running {
    child: Child,
    program: String,
    /// Its number may be another's by now.
    collected: bool,
}

/// How this program re-executes itself to start another one (`plimsoll launch`): a process that watches over it, and one
/// that binds the CPUs, asks the kernel to end it with its parent, and becomes the other program.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Path of plimsoll.
    pub plimsoll: PathBuf,
}

impl Launcher {
    /// Starts a program of which nobody reads what it says.
    ///
    /// # Errors
    /// [`ProcessError::Start`].
    pub fn start_quiet(&self, order: &Order) -> Result<Running, ProcessError> {
        self.start(order, Stdio::null)
    }

    fn start(&self, order: &Order, end: fn() -> Stdio) -> Result<Running, ProcessError> {
        let program = shown(&order.program);
        let cpus: Vec<String> = order.cpus.iter().map(usize::to_string).collect();
        let mut command = Command::new(&self.plimsoll);
        command
            .arg0("plimsoll")
            .arg("launch")
            .arg("--cpus")
            .arg(cpus.join(","))
            .arg("--")
            .arg(&order.program);
        command.args(&order.arguments).current_dir(&order.directory).process_group(0);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("HOME", &order.directory);
        command.envs(order.environment.iter().map(|(name, value)| (*name, value.as_str())));
        command.envs(order.of_launcher.iter().map(|(name, value)| (name, value)));
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command
            .spawn()
            .map_err(|e| ProcessError::Start { program: program.clone(), why: e.to_string() })?;
        Ok(Running { child, program, collected: false })
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// [`ProcessError`]; the program and all that it started in its group have ended then.
    pub fn run(&self, order: &Order, interrupts: &Receiver<()>) -> Result<Done, ProcessError> {
        let mut running = self.start(order, Stdio::piped)?;
        let program = running.program.clone();
        let thread = |e: std::io::Error| ProcessError::Start { program: program.clone(), why: e.to_string() };
        let (said, hears) = bounded(2);
        let stdout = listen(running.child.stdout.take(), Stream::Out, said.clone()).map_err(thread);
        let stderr = listen(running.child.stderr.take(), Stream::Err, said).map_err(thread);
        stdout.and(stderr)?;
        feed(&mut running.child, order.stdin.as_deref()).map_err(thread)?;
        let (mut out, mut err) = (None, None);
        let deadline = after(order.limit);
        while out.is_none() || err.is_none() {
            select! {
                recv(hears) -> heard => match heard {
                    Ok(Heard { bytes: None, .. }) | Err(_) => return Err(ProcessError::TooMuch { program }),
                    Ok(Heard { stream: Stream::Out, bytes }) => out = bytes,
                    Ok(Heard { stream: Stream::Err, bytes }) => err = bytes,
                },
                recv(interrupts) -> _ => return Err(ProcessError::Interrupted),
                recv(deadline) -> _ => {
                    return Err(ProcessError::Hung { program, seconds: order.limit.as_secs_f64() });
                }
            }
        }
        let status = running.collect().map_err(thread)?;
        let text = |bytes: Option<Vec<u8>>| String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        Ok(Done { status, stdout: text(out), stderr: text(err) })
    }
}

#[derive(Clone, Copy)]
enum Stream {
    Out,
    Err,
}

/// All of a stream, or `None` where it was too much.
struct Heard {
    stream: Stream,
    bytes: Option<Vec<u8>>,
}

fn listen(
    pipe: Option<impl Read + Send + 'static>,
    stream: Stream,
    said: Sender<Heard>,
) -> std::io::Result<()> {
    let work = move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // A broken pipe ends the text; what came before it counts.
            let _ = pipe.take(OUTPUT_CAP + 1).read_to_end(&mut bytes);
        }
        let fits = bytes.len() as u64 <= OUTPUT_CAP;
        // Nobody listens any more: the program was ended.
        let _ = said.send(Heard { stream, bytes: fits.then_some(bytes) });
    };
    std::thread::Builder::new().name("reference output".to_owned()).spawn(work).map(drop)
}

fn feed(child: &mut Child, text: Option<&str>) -> std::io::Result<()> {
    let Some(mut pipe) = child.stdin.take() else { return Ok(()) };
    let Some(text) = text.map(str::to_owned) else { return Ok(()) };
    // A program that does not read its input must not stop us.
    let work = move || drop(std::io::Write::write_all(&mut pipe, text.as_bytes()));
    std::thread::Builder::new().name("reference input".to_owned()).spawn(work).map(drop)
}

impl Running {
    /// Whether it has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.group().is_none_or(has_ended)
    }

    /// Its process group, which has its own number.
    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Waits for its end and collects it last: before that the kernel gives its number to nobody else, so the signal meets
    /// only what it left behind. The process that watches over it ends that, too, unless it was killed itself.
    fn collect(&mut self) -> std::io::Result<ExitStatus> {
        if !self.collected
            && let Some(group) = self.group()
        {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(group), options) {}
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.collected = true;
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.collected
            && let Some(group) = self.group()
        {
            if !has_ended(group) {
                let _ = kill_process_group(group, Signal::TERM);
                wait_for_end(group, GRACE);
            }
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.collect();
    }
}

/// Whether a child of this process has ended; it is not collected.
fn has_ended(process: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(process), options), Ok(None))
}

/// Waits until a child of this process has ended, at most `patience`; it is not collected.
pub(super) fn wait_for_end(process: Pid, patience: Duration) {
    let begun = Instant::now();
    while !has_ended(process) {
        if begun.elapsed() >= patience {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How a program ended, in words, if it did not end well.
pub fn failed(done: &Done) -> Option<String> {
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
        Some(said) => Some(format!("{how}: {}", crate::text::shown_within(&said, 200))),
        None => Some(how),
    }
}

fn shown(path: &Path) -> String {
    crate::text::shown_bytes(path.as_os_str().as_encoded_bytes())
}

/// Becomes another program: bound to `cpus` (none: as it is), and ended with whoever started it. Returns only on failure.
///
/// # Errors
/// Why it could not.
pub fn become_program(cpus: &[usize], program: &Path, arguments: &[OsString]) -> std::io::Error {
    // Best effort, as for workers: the parent ends the group as well.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if !cpus.is_empty()
        && let Err(error) = plimsoll_metal::affinity::keep_on(cpus)
    {
        return error;
    }
    Command::new(program).args(arguments).exec()
}
