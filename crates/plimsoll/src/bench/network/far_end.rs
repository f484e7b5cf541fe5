//! The far end: a second process that receives, counts and echoes for one session, and then ends.
//!
//! It is started by the near end, told its token and CPU through its standard input, listens on a loopback port that
//! the kernel chooses, and answers the port on its standard output. Whoever connects has [`PHASE`] to show the token,
//! beside all others: a silent stranger holds nobody up. It ends with the session, when its standard input ends (its
//! parent is gone), or after [`LIFETIME`].

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::pin::Pinned;
use super::protocol::{
    Fnv, Header, Messages, Op, PHASE, Report, STALL, TOKEN, Token, WELCOME, nanos, read_exact_by, read_some,
    thread_cpu,
};

/// No run is as long; whatever happens, no far end is left after it.
const LIFETIME: Duration = Duration::from_secs(6 * 3600);
/// How long the near end may take to connect and show its token.
const ADMISSION: Duration = Duration::from_secs(30);
/// Strangers that may wait at the door; the oldest goes when one more comes, so that a silent crowd shuts nobody out.
const CROWD: usize = 16;
/// Longest first line.
const MAX_LINE: u64 = 1024;
/// Bytes asked for in one read. Larger reads save calls, but leave the second-level cache.
const READ: usize = 128 << 10;

/// First line to the far end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Orders {
    /// 32 hexadecimal digits.
    pub(super) token: String,
    /// The CPU that its session is pinned to.
    pub(super) cpu: Option<usize>,
}

/// The far end's only line: where it listens, or why it does not.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ready {
    /// The port on 127.0.0.1.
    Port(u16),
    /// One line.
    Error(String),
}

/// Why a far end ended early.
#[derive(Debug, thiserror::Error)]
pub enum FarEndError {
    /// The first line was not what the near end writes.
    #[error(
        "the far end got no valid orders on its standard input; it is started by `plimsoll network`, not by hand"
    )]
    Orders,
    /// A socket or pipe failed.
    #[error("the far end could not {what}: {source}")]
    Io {
        /// What it was doing.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Nobody showed the token in time.
    #[error("nobody showed the far end its token within {} s", ADMISSION.as_secs())]
    Nobody,
    /// It was told to serve longer than any run lasts.
    #[error("the far end ended itself after {} h", LIFETIME.as_secs() / 3600)]
    Lifetime,
}

const fn failed(what: &'static str) -> impl Fn(io::Error) -> FarEndError {
    move |source| FarEndError::Io { what, source }
}

/// Serves one session as the near end orders on `input`, and returns when it is over or `input` ends.
///
/// # Errors
/// [`FarEndError`], for the exit code; the near end sees the connection close.
pub fn serve(input: impl Read + Send + 'static, mut output: impl Write) -> Result<(), FarEndError> {
    let mut input = BufReader::new(input);
    let orders = read_orders(&mut input).ok_or(FarEndError::Orders)?;
    let token = Token::from_hex(&orders.token).ok_or(FarEndError::Orders)?;
    let door = match Door::open() {
        Ok(door) => door,
        Err(error) => {
            tell(&mut output, &Ready::Error(error.to_string()))?;
            return Err(error);
        }
    };
    tell(&mut output, &Ready::Port(door.port))?;
    let (ended, endings) = crossbeam_channel::bounded(2);
    let parent_gone = ended.clone();
    // Both threads end with the process; whichever ends first ends it.
    std::thread::spawn(move || {
        let _ = io::copy(&mut input, &mut io::sink());
        let _ = parent_gone.send(Ok(()));
    });
    std::thread::spawn(move || ended.send(admit_and_serve(door, token, orders.cpu)));
    endings.recv_timeout(LIFETIME).unwrap_or(Err(FarEndError::Lifetime))
}

fn read_orders(input: &mut impl BufRead) -> Option<Orders> {
    let mut line = String::new();
    input.take(MAX_LINE).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

fn tell(output: &mut impl Write, ready: &Ready) -> Result<(), FarEndError> {
    let line = serde_json::to_string(ready).map_err(io::Error::from).map_err(failed("write its port"))?;
    writeln!(output, "{line}").and_then(|()| output.flush()).map_err(failed("write its port"))
}

fn admit_and_serve(door: Door, token: Token, cpu: Option<usize>) -> Result<(), FarEndError> {
    let _pinned = cpu.map(Pinned::to).transpose().map_err(failed("pin itself to its CPU"))?;
    let mut stream = door.admit(&token)?;
    session(&mut stream).map_err(failed("serve the session"))
}

/// Where it listens, until the one who knows the token is in.
struct Door {
    listener: TcpListener,
    port: u16,
    waiting: Vec<Stranger>,
}

/// A connection that has not shown the token yet.
struct Stranger {
    stream: TcpStream,
    shown: [u8; TOKEN],
    length: usize,
    deadline: Instant,
}

/// What a look at a stranger's bytes says.
enum Look {
    Wait,
    Refuse,
    Token([u8; TOKEN]),
}

impl Stranger {
    fn look(&mut self) -> Look {
        match self.stream.read(&mut self.shown[self.length..]) {
            Ok(0) => Look::Refuse,
            Ok(n) => {
                self.length += n;
                if self.length == TOKEN { Look::Token(self.shown) } else { Look::Wait }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Look::Wait,
            Err(_) => Look::Refuse,
        }
    }
}

impl Door {
    fn open() -> Result<Self, FarEndError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed("listen on 127.0.0.1"))?;
        listener.set_nonblocking(true).map_err(failed("listen on 127.0.0.1"))?;
        let port = listener.local_addr().map_err(failed("learn its port"))?.port();
        Ok(Door { listener, port, waiting: Vec::new() })
    }

    /// Waits for the one who shows the token; the door is shut behind it, and on all others.
    fn admit(mut self, token: &Token) -> Result<TcpStream, FarEndError> {
        let closing = Instant::now() + ADMISSION;
        loop {
            let now = Instant::now();
            self.waiting.retain(|stranger| stranger.deadline > now);
            let until = self.waiting.iter().map(|s| s.deadline).fold(closing, Instant::min);
            if now >= closing {
                return Err(FarEndError::Nobody);
            }
            self.wait(until.saturating_duration_since(now)).map_err(failed("wait for the near end"))?;
            if let Some(stream) = self.look_at_all(token) {
                return greet(stream).map_err(failed("greet the near end"));
            }
            self.let_in();
        }
    }

    /// Sleeps until somebody connects or sends, or `longest` is over.
    fn wait(&self, longest: Duration) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(self.waiting.iter().map(|s| PollFd::new(&s.stream, PollFlags::IN)));
        // At least a millisecond, so that a deadline just ahead is passed and not spun at.
        let longest = Timespec::try_from(longest.max(Duration::from_millis(1))).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads what the strangers have sent; the first with the right token is taken out, wrong ones are closed
    /// without an answer.
    fn look_at_all(&mut self, token: &Token) -> Option<TcpStream> {
        let mut index = 0;
        while let Some(stranger) = self.waiting.get_mut(index) {
            match stranger.look() {
                Look::Wait => index += 1,
                Look::Token(shown) if token.matches(&shown) => {
                    return Some(self.waiting.remove(index).stream);
                }
                Look::Token(_) | Look::Refuse => drop(self.waiting.remove(index)),
            }
        }
        None
    }

    fn let_in(&mut self) {
        // A failed accept (the other has gone, no descriptor is free) is that stranger's loss.
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.waiting.len() >= CROWD {
                self.waiting.remove(0);
            }
            let deadline = Instant::now() + PHASE;
            self.waiting.push(Stranger { stream, shown: [0; TOKEN], length: 0, deadline });
        }
    }
}

fn greet(mut stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(STALL))?;
    stream.write_all(&WELCOME)?;
    Ok(stream)
}

/// Carries out transfers until the near end closes the connection between two of them.
fn session(stream: &mut TcpStream) -> io::Result<()> {
    while let Some(header) = next_header(stream)? {
        let started = Instant::now();
        let cpu = thread_cpu();
        stream.set_read_timeout(Some(STALL))?;
        let counted = match header.op {
            Op::Stream => receive(stream, header.message, |_| ())?,
            Op::Checked => {
                let mut hash = Fnv::EMPTY;
                let counted = receive(stream, header.message, |piece| hash = hash.with(piece))?;
                Counted { hash: hash.0, ..counted }
            }
            Op::Echo => echo(stream, header.message)?,
        };
        let Counted { bytes, hash, until } = counted;
        let cpu_nanos = nanos(thread_cpu().saturating_sub(cpu));
        let report = Report { bytes, nanos: nanos(until.duration_since(started)), cpu_nanos, hash };
        stream.write_all(&report.encode())?;
    }
    stream.shutdown(Shutdown::Both).or(Ok(()))
}

/// The next transfer's header; `None` when the near end has closed the connection. Between transfers it may be
/// silent for as long as this process lives: other tools may have the machine.
fn next_header(stream: &mut TcpStream) -> io::Result<Option<Header>> {
    let mut bytes = [0; Header::SIZE];
    stream.set_read_timeout(None)?;
    match read_some(stream, &mut bytes[..1]) {
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    read_exact_by(stream, &mut bytes[1..], Instant::now() + PHASE)?;
    let invalid = || io::Error::new(ErrorKind::InvalidData, "a transfer of an unknown kind or size");
    Header::decode(bytes).map(Some).ok_or_else(invalid)
}

/// What was received, and when the last byte had come.
struct Counted {
    bytes: u64,
    hash: u64,
    until: Instant,
}

fn receive(stream: &mut TcpStream, message: u32, mut look: impl FnMut(&[u8])) -> io::Result<Counted> {
    let mut buffer = vec![0; READ];
    let mut messages = Messages::new(message);
    let mut bytes = 0;
    loop {
        let n = read_some(stream, &mut buffer)?;
        let piece = &buffer[..n];
        bytes += n as u64;
        look(piece);
        if messages.take(piece)? {
            return Ok(Counted { bytes, hash: 0, until: Instant::now() });
        }
    }
}

fn echo(stream: &mut TcpStream, message: u32) -> io::Result<Counted> {
    let mut buffer = vec![0; message as usize];
    let mut bytes = 0;
    loop {
        let mut done = 0;
        while done < buffer.len() {
            done += read_some(stream, &mut buffer[done..])?;
        }
        bytes += done as u64;
        stream.write_all(&buffer)?;
        if super::protocol::is_last(buffer[0]) {
            return Ok(Counted { bytes, hash: 0, until: Instant::now() });
        }
    }
}
