//! A connection that other threads supervise: they end it, and count its silence.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use rustix::process::{Pid, Signal, kill_process_group};

use super::locked;
use super::wire::MachineProgress;

/// Seconds of silence after which a node is given up: a login may take a minute.
const SILENT: u32 = 90;

/// A connection that another thread may end.
#[derive(Debug, Default)]
pub struct Hold {
    state: Mutex<HoldState>,
    /// Seconds since data was last received or sent, counted while an answer is expected.
    seconds: AtomicU32,
}

#[derive(Debug, Default)]
pub(super) struct HoldState {
    child: Option<Child>,
    /// Pipe to the node; closing it shows the node that no request follows.
    pub(super) stdin: Option<ChildStdin>,
    ended: bool,
    /// Reason of that, if it is not known otherwise.
    pub(super) why: Option<String>,
    /// Whether an answer is expected, so that silence is a failure.
    pub(super) waits: bool,
    pub(super) progress: MachineProgress,
}

impl Hold {
    pub(super) fn state(&self) -> MutexGuard<'_, HoldState> {
        locked(&self.state)
    }

    /// Stores the process of the connection; kills it at once if the connection was ended before.
    pub(super) fn begin(&self, child: Child) {
        let mut state = self.state();
        state.waits = true;
        if state.ended {
            kill_group(&child);
        }
        state.child = Some(child);
    }

    pub(super) fn send_line(&self, line: &str) -> io::Result<()> {
        let mut state = self.state();
        state.waits = true;
        let stdin = state.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush())
    }

    /// Makes the node end its run and send the results; disconnects if no run has started.
    pub fn ask_to_end(&self) {
        let stdin = self.state().stdin.take();
        if stdin.is_none() {
            self.end();
        }
    }

    /// Kills the process of the connection, and its children, at once.
    pub fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.child.as_ref().iter().for_each(|child| kill_group(child));
    }

    /// Returns the latest progress that the node reported.
    pub fn progress(&self) -> MachineProgress {
        self.state().progress
    }

    pub(super) fn lines_read(&self) {
        self.seconds.store(0, Ordering::Relaxed);
    }

    /// Counts a second of silence; ends the connection after 90. The supervising thread calls it,
    /// so that time in which this process is stopped does not count.
    pub fn count_silent_second(&self) {
        if !self.state().waits {
            return self.lines_read();
        }
        if self.seconds.fetch_add(1, Ordering::Relaxed) == SILENT {
            self.state().why = Some(format!("it sent nothing for {SILENT} s"));
            self.end();
        }
    }

    pub(super) fn waited(&self) -> Option<ExitStatus> {
        // The lock is not held while waiting: another thread may want to kill the process.
        let child = self.state().child.take();
        child.and_then(|mut child| child.wait().ok())
    }
}

/// Kills the process group of `leader`: children such as ssh's proxy may keep the pipes open.
fn kill_group(leader: &Child) {
    let _ = kill_process_group(Pid::from_child(leader), Signal::KILL);
}

/// Output of a node; each read resets the count of silence.
pub(super) struct Heeded<'a> {
    pub(super) from: ChildStdout,
    pub(super) hold: &'a Hold,
}

impl Read for Heeded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let came = self.from.read(buffer);
        self.hold.lines_read();
        came
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").stdin(Stdio::piped()).process_group(0).spawn().unwrap()
    }

    #[test]
    fn the_children_of_a_connection_end_with_it() {
        let mut ssh = Command::new("sh");
        ssh.args(["-c", "sleep 60; true"]).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = ssh.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let hold = Hold::default();
        hold.begin(child);
        hold.end();
        assert_eq!(out.read(&mut [0]).unwrap(), 0, "the pipe has no writer");
        assert_eq!(hold.waited().unwrap().code(), None);
    }

    #[test]
    fn one_that_was_to_end_before_it_began_ends_when_it_begins() {
        let hold = Hold::default();
        hold.end();
        hold.begin(sleeper());
        assert_eq!(hold.waited().unwrap().code(), None);
    }

    #[test]
    fn a_machine_is_given_up_after_a_long_silence_while_it_is_waited_for() {
        let hold = Hold::default();
        hold.begin(sleeper());
        (0..SILENT).for_each(|_| hold.count_silent_second());
        hold.lines_read();
        hold.state().waits = false;
        (0..2 * SILENT).for_each(|_| hold.count_silent_second());
        assert_eq!(hold.state().why, None);
        assert!(hold.send_line("a question\n").is_err(), "it cannot be asked yet");
        (0..=SILENT).for_each(|_| hold.count_silent_second());
        assert_eq!(hold.state().why.as_deref(), Some("it sent nothing for 90 s"));
        assert_eq!(hold.waited().unwrap().code(), None);
    }
}
