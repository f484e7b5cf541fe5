//! Supervises one tool from a separate process, so that none of its processes outlives it: the
//! kernel gives orphans to the nearest subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`).

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getpid, kill_process, pidfd_open,
    set_child_subreaper, set_parent_process_death_signal, setrlimit, wait,
};
use signal_hook::consts::SIGTERM;
use signal_hook::low_level;

use super::process::wait_for_end;

/// Time from SIGTERM to SIGKILL; the parent waits longer than this plus [`SWEEP`].
const GRACE: Duration = Duration::from_millis(500);
const SWEEP: Duration = Duration::from_secs(2);

/// Starts `tool`, waits until it ends, kills all processes that it left, and returns its status.
/// Ends it early on SIGTERM or if the parent of this process ends. Fails if it cannot be started.
pub fn supervise(mut tool: Command) -> std::io::Result<ExitStatus> {
    // Best effort: some kernels support none of these, and the parent also ends the process group.
    let _ = set_child_subreaper(Some(getpid()));
    let asked = asked_to_end();
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    let mut tool = tool.spawn()?;
    if let Ok(asked) = asked {
        wait_for_tool_or_request(&mut tool, asked);
    }
    let status = tool.wait();
    sweep();
    status
}

/// Returns a socket that gets a byte when this process receives SIGTERM.
fn asked_to_end() -> std::io::Result<UnixStream> {
    let (hears, wakes) = UnixStream::pair()?;
    low_level::pipe::register(SIGTERM, wakes)?;
    Ok(hears)
}

fn wait_for_tool_or_request(tool: &mut Child, mut asked: UnixStream) {
    let pid = Pid::from_child(tool);
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return wait_without_handle(tool, pid, &asked);
    };
    loop {
        let mut events = [PollFd::new(&handle, PollFlags::IN), PollFd::new(&asked, PollFlags::IN)];
        if poll(&mut events, None).is_err() {
            continue;
        }
        let [ended, request] = events.map(|event| !event.revents().is_empty());
        if ended {
            return;
        }
        if request {
            let _ = asked.read(&mut [0]);
            return end(pid);
        }
    }
}

fn end(pid: Pid) {
    let _ = kill_process(pid, Signal::TERM);
    wait_for_end(pid, GRACE);
    let _ = kill_process(pid, Signal::KILL);
}

/// Waits until the tool ends, or ends it (`pid`) when `asked` gets a byte. Polls, for kernels
/// without process handles (before Linux 5.3) or filters that forbid them.
fn wait_without_handle(tool: &mut Child, pid: Pid, asked: &UnixStream) {
    let pause = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while let Ok(None) = tool.try_wait() {
        if poll(&mut [PollFd::new(asked, PollFlags::IN)], Some(&pause)).is_ok_and(|ready| ready > 0) {
            return end(pid);
        }
    }
}

/// Kills children for at most [`SWEEP`] until none is left; this process adopts their children.
fn sweep() {
    let deadline = Instant::now() + SWEEP;
    loop {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let left = || deadline.saturating_duration_since(Instant::now());
        if left().is_zero() {
            return;
        }
        let children = children();
        if children.is_empty() {
            // /proc does not show the remaining ones.
            std::thread::sleep(Duration::from_millis(10));
        }
        for child in &children {
            let _ = kill_process(*child, Signal::KILL);
        }
        children.iter().for_each(|child| wait_for_end(*child, left()));
    }
}

/// Returns the children of this process, from /proc (proc_pid_stat(5): field 4 is the parent).
fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let child = |entry: std::fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        // The name in parentheses may hold any characters.
        let at = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = String::from_utf8_lossy(stat.get(at + 1..)?);
        let parent = rest.split_whitespace().nth(1)?;
        (parent == own).then(|| Pid::from_raw(pid)).flatten()
    };
    entries.flatten().filter_map(child).collect()
}

/// Returns the exit code of the tool's status. A signal that ended it ends this process, too.
pub fn end_as(status: ExitStatus) -> u8 {
    const BY_SIGNAL: i32 = 128;
    if let Some(signal) = status.signal() {
        // The tool may have dumped core; this process must not dump another one.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        let _ = low_level::emulate_default_handler(signal);
        return u8::try_from(BY_SIGNAL + signal).unwrap_or(u8::MAX);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
