//! A run on machines that the user's own `ssh` reaches: a copy of plimsoll goes there, an order, and a run document comes
//! back.
//!
//! Nothing but ssh is needed on the way, and a POSIX shell with `mktemp` and `head` there. The shell gets a fixed script: names, plans and options
//! travel as data. The end of the connection ends the run there, and the copy is removed with its directory.

pub mod names;
mod programs;
mod wire;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};

use crate::document::Run;
use crate::text::shown_within;
use names::Host;
pub use programs::{Program, own_digest};
pub use wire::{Ended, Order, ending, hello};
use wire::{Line, Lines};

/// What the shell there does: a directory for this run alone, the program of the announced size in it, and both are removed
/// when the program has ended, however that was. Lines are sent only when the script waits for them, so that `head`
/// cannot take what is for the program.
const SCRIPT: &str = concat!(
    "exec /bin/sh -c '",
    "umask 077; ",
    "d=$(mktemp -d \"${TMPDIR:-/tmp}/plimsoll-hosts.XXXXXXXX\") || exit 1; ",
    "trap \"rm -rf \\\"\\$d\\\"\" EXIT; ",
    "trap \"exit 1\" HUP INT TERM PIPE; ",
    "echo \"plimsoll-here $(uname -m)\"; ",
    "read -r size || exit 1; ",
    "head -c \"$size\" > \"$d/plimsoll\" || exit 1; ",
    "chmod 700 \"$d/plimsoll\" || exit 1; ",
    "\"$d/plimsoll\" hosted \"$d\"",
    "'",
);

/// Bytes of stderr that are kept, the last ones.
const KEPT: usize = 4096;
/// How long ssh may take to end after the machine has sent its last line.
const LINGERS: Duration = Duration::from_secs(2);
/// The shell's exit codes where it cannot start a program.
const CANNOT_START: [i32; 2] = [126, 127];
/// The exit code of ssh where it is ssh itself that failed.
const SSH_FAILED: i32 = 255;

/// How the user's ssh is called.
#[derive(Clone, Debug)]
pub struct Ssh {
    /// Its file.
    pub program: PathBuf,
    /// Configuration in place of the user's.
    pub config: Option<PathBuf>,
}

impl Ssh {
    /// Nobody is asked for a password: many would ask at once. A group of its own keeps the terminal's Ctrl-C from ssh, which
    /// would end the connection before the results are here.
    fn command(&self, host: &Host) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-T", "-x", "-a"]);
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=15",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=4",
            "ControlMaster=no",
            "ClearAllForwardings=yes",
        ] {
            command.args(["-o", option]);
        }
        if let Some(config) = &self.config {
            command.arg("-F").arg(config);
        }
        if let Some(port) = host.port {
            command.args(["-p", &port.to_string()]);
        }
        command.args(["--", &host.destination, SCRIPT]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    }
}

/// A connection that another thread may end.
#[derive(Debug, Default)]
pub struct Hold {
    child: Mutex<Option<Child>>,
    /// Its end is what the machine there hears.
    open: Mutex<Option<ChildStdin>>,
}

impl Hold {
    /// Asks the machine to end its run and to send what it has; one that does not measure yet is let go.
    pub fn ask_to_end(&self) {
        if locked(&self.open).take().is_none() {
            self.end();
        }
    }

    /// Ends the connection.
    pub fn end(&self) {
        if let Some(child) = locked(&self.child).as_mut() {
            // It may have ended meanwhile.
            let _ = child.kill();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a machine did.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its run, under the name that the user has for the machine.
    pub run: Run,
    /// How it ended.
    pub ended: Ended,
}

/// Measures on one machine; `begun` is called when it has its order.
///
/// # Errors
/// Why there is no result, in one line.
pub fn measured(
    ssh: &Ssh,
    host: &Host,
    programs: &[Program],
    order: &Order,
    hold: &Hold,
    begun: impl FnOnce(),
) -> Result<Answer, String> {
    let mut child =
        ssh.command(host).spawn().map_err(|e| format!("cannot start {}: {e}", ssh.program.display()))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err("ssh was started without its pipes".to_owned());
    };
    *locked(&hold.child) = Some(child);
    let (complained, silent) = listened(stderr);
    let mut lines = Lines::new(BufReader::new(stdout));
    let talked = talk(&mut lines, stdin, programs, order, hold, begun);
    drop(locked(&hold.open).take());
    // ssh ends when the machine has; one that does not is ended.
    if matches!(talked, Err(Wrong::There(_)))
        || silent.recv_timeout(LINGERS) == Err(RecvTimeoutError::Timeout)
    {
        hold.end();
    }
    // Not while it is waited for: another thread may want to end it.
    let child = locked(&hold.child).take();
    let ended = child.map(|mut child| child.wait());
    let status = ended.and_then(Result::ok);
    match talked {
        Ok((run, ended)) => Ok(Answer { run: named(run, &host.name)?, ended }),
        Err(Wrong::There(why)) => Err(why),
        Err(Wrong::Gone) => Err(gone(status, &locked(&complained), programs)),
    }
}

/// Why there is no result.
enum Wrong {
    /// What was wrong with what it sent.
    There(String),
    /// It sent nothing more.
    Gone,
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::There(why)
    }
}

fn talk<R: BufRead>(
    lines: &mut Lines<R>,
    mut stdin: ChildStdin,
    programs: &[Program],
    order: &Order,
    hold: &Hold,
    begun: impl FnOnce(),
) -> Result<(Run, Ended), Wrong> {
    let architecture = loop {
        match lines.next()? {
            None => return Err(Wrong::Gone),
            Some(Line::Here(architecture)) => break architecture,
            Some(_) => {}
        }
    };
    let program = Program::of(programs, &architecture)?;
    let size = program.bytes.len();
    let sent = writeln!(stdin, "{size}").and_then(|()| stdin.write_all(&program.bytes));
    sent.and_then(|()| stdin.flush()).map_err(|_| Wrong::Gone)?;
    let hello = loop {
        match lines.next()? {
            None => return Err(Wrong::Gone),
            Some(Line::Hello(hello)) => break hello,
            Some(_) => {}
        }
    };
    if hello.sha256 != program.sha256 {
        return Err(Wrong::There(
            "the copy of plimsoll there is not what was sent: its checksum differs".to_owned(),
        ));
    }
    let order = serde_json::to_string(order).map_err(|e| e.to_string())?;
    writeln!(stdin, "{order}").and_then(|()| stdin.flush()).map_err(|_| Wrong::Gone)?;
    *locked(&hold.open) = Some(stdin);
    begun();
    let mut run = None;
    loop {
        match lines.next()? {
            None => return Err(Wrong::Gone),
            Some(Line::Document(document)) => run = Some(*document),
            Some(Line::Ended(ended)) => {
                let without = || ended.line.clone().unwrap_or_else(|| "it sent no run document".to_owned());
                let run = run.take().ok_or_else(|| shown_within(&without(), 300))?;
                return Ok((run, ended));
            }
            Some(_) => {}
        }
    }
}

/// The end of what ssh and the machine say on stderr. Whoever holds it open longer, such as a shared connection's master,
/// is not waited for: the receiver is cut off when all is read.
fn listened(mut stderr: impl Read + Send + 'static) -> (Arc<Mutex<Vec<u8>>>, Receiver<()>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let fill = kept.clone();
    let (open, silent) = unbounded::<()>();
    // Without a thread the reason is missing; ssh would wait where it says more than a pipe holds.
    let _ = std::thread::Builder::new().name("stderr".to_owned()).spawn(move || {
        let mut piece = [0; 1024];
        while let Ok(count @ 1..) = stderr.read(&mut piece) {
            let mut kept = locked(&fill);
            kept.extend_from_slice(&piece[..count]);
            let over = kept.len().saturating_sub(KEPT);
            kept.drain(..over);
        }
        drop(open);
    });
    (kept, silent)
}

/// Why a machine sent nothing more.
fn gone(status: Option<ExitStatus>, complained: &[u8], programs: &[Program]) -> String {
    let text = String::from_utf8_lossy(complained);
    let last: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = last.last().map(|line| shown_within(line, 200)).unwrap_or_default();
    match status.and_then(|status| status.code()) {
        Some(SSH_FAILED) if said.is_empty() => "the ssh connection failed".to_owned(),
        Some(SSH_FAILED) => format!("the ssh connection failed: {said}"),
        Some(code) if CANNOT_START.contains(&code) => {
            let hint = match programs.iter().all(|program| program.is_static) {
                true => "set TMPDIR there to a directory that may hold programs",
                false => {
                    "this plimsoll needs the shared libraries of this machine; give a static one with --program"
                }
            };
            format!("the copy of plimsoll cannot be started there: {said}; {hint}")
        }
        Some(code) => format!("it ended with exit code {code} and no result: {said}"),
        None => format!("ssh was ended by a signal; no result came: {said}"),
    }
}

/// The run of one machine under the user's name for it, whatever name it has for itself.
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
    // What it says of other machines is not its to say; of itself the join finds it again.
    run.findings.clear();
    Ok(run)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::fixture;

    #[test]
    fn the_script_has_no_quote_that_another_shell_reads_otherwise() {
        let inner =
            SCRIPT.strip_prefix("exec /bin/sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
        assert!(!inner.contains(['\'', '!', '\n', '`']), "{inner}");
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
        let of = |code: i32, text: &str| gone(Some(ExitStatus::from_raw(code << 8)), text.as_bytes(), &[]);
        assert_eq!(
            of(255, "banner\nssh: connect to host n4 port 22: No route to host\r\n\n"),
            "the ssh connection failed: ssh: connect to host n4 port 22: No route to host"
        );
        assert_eq!(of(255, ""), "the ssh connection failed");
        assert!(!of(1, "\u{1b}]0;owned\u{7}").contains('\u{1b}'));
        assert!(of(126, "sh: plimsoll: Permission denied").contains("cannot be started there"));
    }
}
