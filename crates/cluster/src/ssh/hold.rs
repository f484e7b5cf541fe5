//! A connection that other threads look after: they end it, and know how long it has been silent.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};

use super::locked;
use super::wire::Progress;

/// Seconds without a byte after which a machine is given up. It says every ten seconds that it is there; logging in may take
/// a minute where a directory service is asked.
const SILENT: u32 = 90;

/// A connection that another thread may end.
#[derive(Debug, Default)]
pub struct Hold {
    inner: Mutex<Inner>,
    /// Seconds since something came or could be sent; they count while something is waited for.
    seconds: AtomicU32,
}

#[derive(Debug, Default)]
struct Inner {
    child: Option<Child>,
    /// Its end is what the machine there hears.
    stdin: Option<ChildStdin>,
    /// Whether it was ended from here.
    ended: bool,
    /// Why, where nobody else says it.
    why: Option<String>,
    /// Whether an answer is waited for.
    waits: bool,
    progress: Progress,
}

impl Hold {
    /// The process that holds the connection. One that is to end already does so at once.
    pub(super) fn begin(&self, child: Child) {
        let mut inner = locked(&self.inner);
        inner.waits = true;
        if inner.ended {
            kill_group(&child);
        }
        inner.child = Some(child);
    }

    /// From now on the machine can be asked.
    pub(super) fn opened(&self, stdin: ChildStdin) {
        locked(&self.inner).stdin = Some(stdin);
    }

    /// Sends a line that is answered.
    pub(super) fn say(&self, line: &str) -> io::Result<()> {
        let mut inner = locked(&self.inner);
        inner.waits = true;
        let stdin = inner.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush())
    }

    /// Nothing is waited for until it is asked again.
    pub(super) fn rests(&self) {
        locked(&self.inner).waits = false;
    }

    /// Tells the machine that nothing more will be asked.
    pub(super) fn close(&self) {
        locked(&self.inner).stdin = None;
    }

    /// Asks the machine to end its run and to send what it has; one that does not measure yet is let go.
    pub fn ask_to_end(&self) {
        let asked = locked(&self.inner).stdin.take().is_some();
        if !asked {
            self.end();
        }
    }

    /// Ends the connection.
    pub fn end(&self) {
        let mut inner = locked(&self.inner);
        inner.ended = true;
        inner.child.as_ref().iter().for_each(|child| kill_group(child));
    }

    /// How far the machine is.
    pub fn progress(&self) -> Progress {
        locked(&self.inner).progress
    }

    pub(super) fn progressed(&self, progress: Progress) {
        locked(&self.inner).progress = progress;
    }

    /// Why it was ended from here.
    pub(super) fn why(&self) -> Option<String> {
        locked(&self.inner).why.clone()
    }

    /// Something came, or could be sent.
    pub(super) fn heard(&self) {
        self.seconds.store(0, Ordering::Relaxed);
    }

    /// A second has passed. It is counted by whoever looks after all: one in which this process stood still is no silence.
    pub fn second(&self) {
        if !locked(&self.inner).waits {
            return self.heard();
        }
        if self.seconds.fetch_add(1, Ordering::Relaxed) == SILENT {
            locked(&self.inner).why = Some(format!("it sent nothing for {SILENT} s"));
            self.end();
        }
    }

    /// Waits for the process, which has ended or is about to.
    pub(super) fn waited(&self) -> Option<ExitStatus> {
        // Not while it is waited for: another thread may want to end it.
        let child = locked(&self.inner).child.take();
        child.and_then(|mut child| child.wait().ok())
    }
}

/// Ends the process and its children, such as the proxy of an ssh: each of them may hold the pipes open. The process was started as the
/// leader of a group of its own.
fn kill_group(leader: &Child) {
    // Every child may have ended by now.
    let _ = kill_process_group(Pid::from_child(leader), Signal::KILL);
}

/// What a machine sends, noticed as it comes.
pub(super) struct Heeded<'a> {
    from: ChildStdout,
    hold: &'a Hold,
}

impl<'a> Heeded<'a> {
    pub(super) fn new(from: ChildStdout, hold: &'a Hold) -> Self {
        Self { from, hold }
    }
}

impl Read for Heeded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let came = self.from.read(buffer);
        self.hold.heard();
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

    /// A grandchild that holds the pipe open is no reason to wait.
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
        (0..SILENT).for_each(|_| hold.second());
        hold.heard();
        hold.rests();
        (0..2 * SILENT).for_each(|_| hold.second());
        assert_eq!(hold.why(), None);
        assert!(hold.say("a question\n").is_err(), "it cannot be asked yet");
        (0..=SILENT).for_each(|_| hold.second());
        assert_eq!(hold.why().unwrap(), "it sent nothing for 90 s");
        assert_eq!(hold.waited().unwrap().code(), None);
    }
}
