//! A run on nodes that a [`NodeLauncher`] reaches, such as `ssh`: plimsoll is copied to the node,
//! receives an order and returns a run document. A node needs a POSIX shell with `mktemp`, `head`
//! and `wc`. The end of the connection ends the run and removes the copy.

mod hold;
mod launcher;
pub mod names;
pub mod pairs;
mod programs;
mod wire;

use std::io::{BufReader, Read, Write};
use std::process::{ChildStdin, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};

use crate::document::Run;
use crate::text::shown_within;
use hold::Heeded;
pub use hold::Hold;
pub use launcher::NodeLauncher;
use names::HostName;
pub use programs::{ProgramCopy, own_digest};
pub use wire::{FollowUp, MachineProgress, NodeMessage, RunEnd, RunOrder, ending};
use wire::{ReceivedLine, ReceivedLines};

/// Script for the shell on the node: receives the program into a new directory, runs it, and
/// removes both at the end. It is one command on one line, as a shell (and `head`) may read ahead.
const SCRIPT: &str = concat!(
    "{ umask 077; ",
    "d=$(mktemp -d \"${TMPDIR:-/tmp}/plimsoll-hosts.XXXXXXXX\") || exit 1; ",
    "trap 'rm -rf \"$d\"' EXIT; ",
    "trap 'exit 1' HUP INT TERM PIPE; ",
    "echo; echo \"plimsoll-here $(uname -m)\"; ",
    "read -r size || exit 1; ",
    "head -c \"$size\" > \"$d/plimsoll\" || exit 1; ",
    "test $(wc -c < \"$d/plimsoll\") -eq \"$size\" || exit 1; ",
    "chmod 700 \"$d/plimsoll\" || exit 1; ",
    "\"$d/plimsoll\" hosted \"$d\"; exit; }\n",
);

const STDERR_TAIL_BYTES: usize = 4096;
/// Bytes of a command's output that are kept from its start.
const LARGEST_TEXT: usize = 1 << 20;
/// Time for the launcher to exit after the node's last line.
const LINGERS: Duration = Duration::from_secs(2);
/// Exit codes of the shell for a program that it may not start, and one that it cannot.
const MAY_NOT_START: i32 = 126;
const CANNOT_START: i32 = 127;
/// Bytes of the copy that are sent at once; each piece resets the count of silence.
const PIECE: usize = 64 << 10;

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connected node.
pub struct Connection<'a> {
    launcher: &'a NodeLauncher,
    lines: ReceivedLines<BufReader<Heeded<'a>>>,
    hold: &'a Hold,
    programs: &'a [ProgramCopy],
    complained: Arc<Mutex<Vec<u8>>>,
    silent: Receiver<()>,
    /// Why the connection was lost; `None` while it is open.
    pub lost: Option<String>,
}

/// Copies the program for `host`'s architecture to `host`, runs `order` there and waits for the
/// end, which another thread may force with [`Hold::end`]. Returns the run, with the node named as
/// in `host`, how it ended, and the connection, which takes [`FollowUp`] requests if
/// [`RunOrder::stays`], else none. The error is one line.
pub fn measured<'a>(
    launcher: &'a NodeLauncher,
    host: &HostName,
    programs: &'a [ProgramCopy],
    order: &RunOrder,
    hold: &'a Hold,
) -> Result<(Run, RunEnd, Connection<'a>), String> {
    let (mut session, stdin) = connected(launcher, host, programs, hold)?;
    let answered = session.ordered(stdin, order).and_then(|()| session.result());
    let (run, ended) = answered.map_err(|wrong| session.describe_failure(wrong))?;
    hold.state().waits = false;
    Ok((named(run, &host.name)?, ended, session))
}

/// Copies the program for `host`'s architecture to `host` and runs the command `order` there.
/// Returns what the command printed and how it ended. The error is one line.
pub fn run_on_node(
    launcher: &NodeLauncher,
    host: &HostName,
    programs: &[ProgramCopy],
    order: &RunOrder,
    hold: &Hold,
) -> Result<(String, RunEnd), String> {
    let (mut session, stdin) = connected(launcher, host, programs, hold)?;
    let answered = session.ordered(stdin, order).and_then(|()| session.ended());
    answered.map(|(_, text, ended)| (text, ended)).map_err(|wrong| session.describe_failure(wrong))
}

fn connected<'a>(
    launcher: &'a NodeLauncher,
    host: &HostName,
    programs: &'a [ProgramCopy],
    hold: &'a Hold,
) -> Result<(Connection<'a>, ChildStdin), String> {
    let started = launcher.command(host).spawn();
    let mut child = started.map_err(|e| format!("cannot start {}: {e}", launcher.program.display()))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    hold.begin(child);
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(format!("{} was started without its pipes", launcher.name));
    };
    let (complained, silent) = collect_stderr_tail(stderr);
    let lines = ReceivedLines::new(BufReader::new(Heeded { from: stdout, hold }));
    Ok((Connection { launcher, lines, hold, programs, complained, silent, lost: None }, stdin))
}

enum NoResult {
    There(String),
    Gone,
}

impl From<String> for NoResult {
    fn from(why: String) -> Self {
        Self::There(why)
    }
}

impl Connection<'_> {
    /// Sends a request. Returns the result of `answer`, which reads the reply.
    fn asked<T>(
        &mut self,
        ask: &FollowUp,
        answer: impl FnOnce(&mut Self) -> Result<T, NoResult>,
    ) -> Result<T, String> {
        if let Some(why) = &self.lost {
            return Err(why.clone());
        }
        let ask = serde_json::to_string(ask).unwrap_or_default() + "\n";
        let sent = self.hold.send_line(&ask).map_err(|_| NoResult::Gone);
        let found = sent.and_then(|()| answer(self));
        self.hold.state().waits = false;
        found.map_err(|wrong| self.describe_failure(wrong))
    }

    /// Makes the node measure `cases` (ids) again. Returns the run, with its node named `name`.
    pub fn again(&mut self, cases: Vec<String>, name: &str) -> Result<Run, String> {
        let (run, _, ended) = self.asked(&FollowUp::Again(cases), Self::ended)?;
        named(run.ok_or_else(|| without_document(&ended, ""))?, name)
    }

    /// Copies the program for the node's architecture to `stdin`, and sends `order` after the node
    /// has confirmed the checksum.
    fn ordered(&mut self, mut stdin: ChildStdin, order: &RunOrder) -> Result<(), NoResult> {
        stdin.write_all(SCRIPT.as_bytes()).and_then(|()| stdin.flush()).map_err(|_| NoResult::Gone)?;
        let here = |line| if let ReceivedLine::Here(name) = line { Some(name) } else { None };
        let architecture = self.until(here)?;
        let program = ProgramCopy::of(self.programs, &architecture)?;
        self.sent(&mut stdin, &program.bytes).map_err(|_| NoResult::Gone)?;
        let sha256 = self.until(|line| match line {
            ReceivedLine::Message(NodeMessage::Hello(sha256)) => Some(sha256),
            _ => None,
        })?;
        if sha256 != program.sha256 {
            return Err(NoResult::There(
                "the copy of plimsoll there is not what was sent: its checksum differs".to_owned(),
            ));
        }
        let order = serde_json::to_string(order).map_err(|e| e.to_string())?;
        writeln!(stdin, "{order}").and_then(|()| stdin.flush()).map_err(|_| NoResult::Gone)?;
        self.hold.state().stdin = Some(stdin);
        Ok(())
    }

    fn result(&mut self) -> Result<(Run, RunEnd), NoResult> {
        let (run, _, ended) = self.ended()?;
        let run = run.ok_or_else(|| without_document(&ended, &last_line(&locked(&self.complained))))?;
        Ok((run, ended))
    }

    /// Reads to the end of a run or command. Returns its document, if any, what it printed, and how
    /// it ended.
    fn ended(&mut self) -> Result<(Option<Run>, String, RunEnd), NoResult> {
        let (mut run, mut text) = (None, String::new());
        let ended = self.until(|line| {
            match line {
                ReceivedLine::Message(NodeMessage::Ended(ended)) => return Some(ended),
                ReceivedLine::Document(document) => run = Some(*document),
                ReceivedLine::Other(line) if text.len() + line.len() < LARGEST_TEXT => text += &(line + "\n"),
                _ => {}
            }
            None
        })?;
        Ok((run, text, ended))
    }

    /// Returns the first value that `meant` returns for a received line. Records progress reports.
    fn until<T>(&mut self, mut meant: impl FnMut(ReceivedLine) -> Option<T>) -> Result<T, NoResult> {
        loop {
            let line = self.lines.next()?.ok_or(NoResult::Gone)?;
            if let ReceivedLine::Message(NodeMessage::Progress(progress)) = line {
                self.hold.state().progress = progress;
                continue;
            }
            if let Some(found) = meant(line) {
                return Ok(found);
            }
        }
    }

    fn sent(&self, stdin: &mut ChildStdin, bytes: &[u8]) -> std::io::Result<()> {
        writeln!(stdin, "{}", bytes.len())?;
        for piece in bytes.chunks(PIECE) {
            stdin.write_all(piece)?;
            self.hold.lines_read();
        }
        stdin.flush()
    }

    /// Ends the connection after the error `wrong`. Returns and stores the reason for the user.
    fn describe_failure(&mut self, wrong: NoResult) -> String {
        let status = self.end();
        let known = self.hold.state().why.clone();
        let why = match (wrong, known) {
            (NoResult::There(why), _) | (NoResult::Gone, Some(why)) => why,
            (NoResult::Gone, None) => gone(self.launcher, status, &locked(&self.complained), self.programs),
        };
        self.lost.insert(why).clone()
    }

    /// Ends the connection, and kills the launcher after 2 s. Returns its exit status, if known.
    fn end(&mut self) -> Option<ExitStatus> {
        self.hold.state().stdin = None;
        if self.silent.recv_timeout(LINGERS) == Err(RecvTimeoutError::Timeout) {
            self.hold.end();
        }
        self.hold.waited()
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns why a node sent no document: the message in `ended`, or `printed`, its last line.
fn without_document(ended: &RunEnd, printed: &str) -> String {
    let why = ended.line.clone().unwrap_or_else(|| match printed {
        "" => "it sent no run document".to_owned(),
        printed => format!("it sent no run document: {printed}"),
    });
    shown_within(&why, 300)
}

/// Collects the last bytes of `stderr` in a thread. The receiver is disconnected at end of file; a
/// process that keeps stderr open, such as a shared connection's master, is not waited for.
fn collect_stderr_tail(mut stderr: impl Read + Send + 'static) -> (Arc<Mutex<Vec<u8>>>, Receiver<()>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let fill = kept.clone();
    let (open, silent) = unbounded::<()>();
    // If no thread starts, the reason is missing, and the launcher blocks once the pipe is full.
    let _ = std::thread::Builder::new().name("stderr".to_owned()).spawn(move || {
        let mut piece = [0; 1024];
        while let Ok(count @ 1..) = stderr.read(&mut piece) {
            let mut kept = locked(&fill);
            kept.extend_from_slice(&piece[..count]);
            let over = kept.len().saturating_sub(STDERR_TAIL_BYTES);
            kept.drain(..over);
        }
        drop(open);
    });
    (kept, silent)
}

fn last_line(complained: &[u8]) -> String {
    let text = String::from_utf8_lossy(complained);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    last.map(|line| shown_within(line, 200)).unwrap_or_default()
}

fn gone(
    launcher: &NodeLauncher,
    status: Option<ExitStatus>,
    complained: &[u8],
    programs: &[ProgramCopy],
) -> String {
    let last = last_line(complained);
    let after = |text: &str| if last.is_empty() { text.to_owned() } else { format!("{text}: {last}") };
    let libraries =
        "this plimsoll needs the shared libraries of this machine; give a static one with --program";
    let is_static = programs.iter().all(|program| program.is_static);
    let name = &launcher.name;
    match status.and_then(|status| status.code()) {
        Some(code) if launcher.could_not_connect(code) && last.is_empty() => {
            format!("the {name} connection failed, or the shell there was killed")
        }
        Some(code) if launcher.could_not_connect(code) => after(&format!("the {name} connection failed")),
        Some(MAY_NOT_START) => format!(
            "{}; set TMPDIR there to a directory that may hold programs",
            after("the copy of plimsoll may not be started there")
        ),
        // The message comes from the loader, or from the shell if that loader is missing.
        Some(code) if !is_static && (code == CANNOT_START || last.contains("GLIBC")) => {
            format!("{}; {libraries}", after("the copy of plimsoll cannot be started there"))
        }
        Some(code) => after(&format!("{name} ended with exit code {code} and no result")),
        None => after(&format!("{name} was ended by a signal; no result came")),
    }
}

/// Returns `run` without findings and with its only node renamed to `name`. Fails with more nodes.
fn named(mut run: Run, name: &str) -> Result<Run, String> {
    let [node] = run.nodes.as_mut_slice() else {
        return Err(format!("its document is of {} machines, not of itself", run.nodes.len()));
    };
    let own = std::mem::replace(&mut node.name, name.to_owned());
    if run.measurements.iter().any(|measurement| measurement.node != own) {
        return Err("its document has measurements of another machine".to_owned());
    }
    run.measurements.iter_mut().for_each(|measurement| measurement.node = name.to_owned());
    run.clock_steps.iter_mut().for_each(|step| step.node = name.to_owned());
    run.health.iter_mut().for_each(|one| one.node = name.to_owned());
    run.findings.clear();
    Ok(run)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::fixture;

    #[test]
    fn the_script_is_one_line() {
        assert_eq!(SCRIPT.find('\n'), Some(SCRIPT.len() - 1));
        assert!(SCRIPT.len() < 1024, "a shell reads it at once");
    }

    #[test]
    fn a_machine_has_the_users_name_and_speaks_for_itself_alone() {
        let mut run = named(fixture::run(), "rack1-n7").unwrap();
        assert!(run.nodes[0].name == "rack1-n7" && run.measurements.iter().all(|m| m.node == "rack1-n7"));
        run.measurements[0].node = "other".to_owned();
        assert!(named(run.clone(), "n").unwrap_err().contains("another machine"));
        run.nodes.push(run.nodes[0].clone());
        assert!(named(run, "n").unwrap_err().contains("2 machines"));
    }

    #[test]
    fn the_reason_is_what_ssh_said_last_without_its_control_characters() {
        let ssh = NodeLauncher::parse(None).unwrap();
        let of =
            |code: i32, text: &str| gone(&ssh, Some(ExitStatus::from_raw(code << 8)), text.as_bytes(), &[]);
        let failed = of(255, "banner\nssh: connect to host n4 port 22: No route to host\r\n\n");
        assert_eq!(failed, "the ssh connection failed: ssh: connect to host n4 port 22: No route to host");
        assert_eq!(of(255, " \n"), "the ssh connection failed, or the shell there was killed");
        assert!(!of(1, "\u{1b}]0;owned\u{7}").contains('\u{1b}'));
        let denied = of(126, "sh: plimsoll: Permission denied");
        assert!(denied.contains("may not be started there") && denied.contains("TMPDIR"), "{denied}");
        let killed = of(137, "sh: line 1: 77 Killed");
        assert_eq!(killed, "ssh ended with exit code 137 and no result: sh: line 1: 77 Killed");
    }
}
