//! The near end: starts the far end as a second process, connects to it, and sends it transfers.
//!
//! Every wait has a deadline. When the far end fails, the error says how it ended; dropping this ends the process
//! and collects it, whatever state it is in.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use super::far_end::{Orders, Ready};
use super::protocol::{Header, PHASE, Report, STALL, Token, WELCOME, first_byte, read_exact_by, thread_cpu};
use crate::sample::{Amount, CannotMeasure};

/// Longest line that a far end writes.
const MAX_LINE: u64 = 4096;
/// The time is looked at after this many bytes, or after each message if it is larger.
const LOOK: u64 = 64 << 10;

/// A far end in a process of its own, connected and admitted.
#[derive(Debug)]
pub struct FarEnd {
    stream: TcpStream,
    process: Process,
}

/// The far end's process; it is killed and collected on drop.
#[derive(Debug)]
struct Process {
    child: Child,
    /// Kept open: its end tells the far end that its parent is gone.
    _orders: Option<ChildStdin>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself already; collecting it is what matters.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn spawn(program: &Path, token: Token, cpu: Option<usize>) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg0("plimsoll")
            .arg("far-end")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdin.take();
        let mut process = Process { child, _orders: pipe };
        let orders = serde_json::to_string(&Orders { token: token.to_hex(), cpu })?;
        if let Some(pipe) = &mut process._orders {
            // If it has ended already, the missing answer will say so.
            let _ = writeln!(pipe, "{orders}");
        }
        Ok(process)
    }

    /// Waits for the line that names the port.
    fn port(&mut self) -> Result<u16, CannotMeasure> {
        let (sender, line) = crossbeam_channel::bounded(1);
        let output = self.child.stdout.take();
        // A pipe has no read timeout; this thread ends with the far end's process at the latest.
        std::thread::spawn(move || {
            let mut line = String::new();
            if let Some(output) = output {
                let _ = BufReader::new(io::Read::take(output, MAX_LINE)).read_line(&mut line);
            }
            let _ = sender.send(line);
        });
        let line = line.recv_timeout(PHASE).unwrap_or_default();
        match serde_json::from_str(&line) {
            Ok(Ready::Port(port)) => Ok(port),
            Ok(Ready::Error(why)) => Err(CannotMeasure::far_end(crate::text::shown(&why))),
            Err(_) => Err(CannotMeasure::far_end(format!(
                "the far end did not say where it listens within {} s{}; is the loopback interface up?",
                PHASE.as_secs(),
                self.end()
            ))),
        }
    }

    /// `": it was killed (signal 9)"` if the process is gone or going, else nothing.
    fn end(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_millis(200);
        // A broken connection comes a moment before the process can be collected.
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    return match (status.signal(), status.code()) {
                        (Some(signal), _) => format!(": it was killed (signal {signal})"),
                        (None, code) => format!(": it ended (exit {})", code.unwrap_or_default()),
                    };
                }
                Ok(None) => std::thread::yield_now(),
                Err(_) => break,
            }
        }
        String::new()
    }
}

/// What one transfer came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Messages sent.
    pub(super) messages: u64,
    /// CPU time of the sending thread while it sent.
    pub(super) cpu: Duration,
    /// Wall time of sending.
    pub(super) elapsed: Duration,
    /// What the far end counted.
    pub(super) report: Report,
}

/// When to stop sending.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// After this many messages.
    Messages(u64),
    /// After this time.
    Elapsed(Duration),
}

impl Until {
    /// At least one message, at most a day.
    pub(super) fn new(amount: Amount) -> Self {
        const DAY: f64 = 86_400.0;
        match amount {
            Amount::Work(messages) => Until::Messages(messages.max(1)),
            Amount::Seconds(s) if s > 0.0 => Until::Elapsed(Duration::from_secs_f64(s.min(DAY))),
            Amount::Seconds(_) => Until::Messages(1),
        }
    }

    /// Whether the message with this number (from 0) should be the last. The clock is read at every `stride`-th.
    pub(super) fn ends_with(self, number: u64, stride: u64, started: Instant) -> bool {
        match self {
            Until::Messages(n) => number + 1 >= n,
            Until::Elapsed(time) => number.is_multiple_of(stride) && started.elapsed() >= time,
        }
    }
}

impl FarEnd {
    /// Starts `program far-end`, pinned to `cpu`, and connects to it.
    ///
    /// # Errors
    /// It does not start, listen or admit within `PHASE` each.
    pub fn start(program: &Path, cpu: Option<usize>) -> Result<Self, CannotMeasure> {
        let token = Token::random();
        let mut process = Process::spawn(program, token, cpu).map_err(|e| {
            CannotMeasure::environment(format!("cannot start the far end's process: {e}; see `ulimit -u`"))
        })?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, process.port()?));
        match connect(address, &token) {
            Ok(stream) => Ok(FarEnd { stream, process }),
            Err(e) => Err(CannotMeasure::far_end(format!(
                "no session with the far end on {address}: {}{}; is the loopback interface up?",
                plain(&e),
                process.end()
            ))),
        }
    }

    /// The far end's process id.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// The connection.
    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends messages of `buffer`'s size, its first byte overwritten, until `until`, and returns what both ends saw.
    pub(super) fn send(
        &mut self,
        header: Header,
        buffer: &mut [u8],
        until: Until,
    ) -> Result<Transfer, CannotMeasure> {
        self.try_send(header, buffer, until).map_err(|e| self.lost("a transfer", &e))
    }

    fn try_send(&mut self, header: Header, buffer: &mut [u8], until: Until) -> io::Result<Transfer> {
        let stride = (LOOK / (buffer.len() as u64).max(1)).max(1);
        let (started, cpu) = (Instant::now(), thread_cpu());
        self.stream.write_all(&header.encode())?;
        let mut number = 0;
        loop {
            let last = until.ends_with(number, stride, started);
            if let Some(first) = buffer.first_mut() {
                *first = first_byte(number, last);
            }
            self.stream.write_all(buffer)?;
            number += 1;
            if last {
                break;
            }
        }
        let (cpu, elapsed) = (thread_cpu().saturating_sub(cpu), started.elapsed());
        let report = self.report()?;
        Ok(Transfer { messages: number, cpu, elapsed, report })
    }

    /// Waits for the far end's report on the transfer that was just ended.
    pub(super) fn report(&mut self) -> io::Result<Report> {
        let mut bytes = [0; Report::SIZE];
        read_exact_by(&mut self.stream, &mut bytes, Instant::now() + STALL)?;
        Ok(Report::decode(&bytes))
    }

    /// Why there is no figure, after the connection failed `during` something.
    pub(super) fn lost(&mut self, during: &str, error: &io::Error) -> CannotMeasure {
        CannotMeasure::far_end(format!(
            "the far end was lost during {during}{}: {}; run the case again, and see `dmesg` if it was killed",
            self.process.end(),
            plain(error)
        ))
    }
}

/// Connects, shows the token and waits to be welcomed, all within [`PHASE`].
pub(super) fn connect(address: SocketAddr, token: &Token) -> io::Result<TcpStream> {
    let deadline = Instant::now() + PHASE;
    let mut stream = TcpStream::connect_timeout(&address, PHASE)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(STALL))?;
    stream.write_all(token.bytes())?;
    let mut welcome = [0; WELCOME.len()];
    read_exact_by(&mut stream, &mut welcome, deadline)?;
    if welcome != WELCOME {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is not a far end of this version"));
    }
    Ok(stream)
}

/// An error in words for people: what std says of timeouts and ends is about system calls.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it was silent for too long".to_owned(),
        ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}
