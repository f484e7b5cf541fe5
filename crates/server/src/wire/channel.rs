//! A connection that carries sealed messages, every wait with a deadline in all, never one per read.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use snow::TransportState;

use super::frame::{self, FrameError, Inbox};
use super::handshake::{HandshakeError, Initiator, LENGTH};
use super::{HANDSHAKE, Key, Message, REQUEST};

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The handshake failed.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// A frame is none.
    #[error("it sent {0}")]
    Frame(#[from] FrameError),
    /// A message is none.
    #[error("it sent a message that cannot be read: {0}; use the same plimsoll version on both machines")]
    Message(String),
    /// A message that may be read, in the wrong place.
    #[error("it sent a message out of turn; use the same plimsoll version on both machines")]
    OutOfTurn,
    /// The other closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// The deadline is over.
    #[error("it was silent for too long")]
    Silent,
    /// The system failed.
    #[error("{0}")]
    Io(io::Error),
}

/// What an error of a connection says of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It closed the connection.
    Closed,
    /// It said nothing in time.
    Silent,
    /// Nothing: the system failed.
    No,
}

impl Gone {
    /// By the kind of the error.
    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Gone::Closed,
            // What a socket's timeout gives on Linux.
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Gone::Silent,
            _ => Gone::No,
        }
    }
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        match Gone::of(&error) {
            Gone::Closed => WireError::Closed,
            Gone::Silent => WireError::Silent,
            Gone::No => WireError::Io(error),
        }
    }
}

/// A connection whose ends know each other.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    transport: TransportState,
    inbox: Inbox,
}

impl Channel {
    /// The near end's handshake on a new connection.
    ///
    /// # Errors
    /// The other does not know the key, is of another version or something else, or is silent.
    pub fn connect(mut stream: TcpStream, key: &Key) -> Result<Self, WireError> {
        let deadline = Instant::now() + HANDSHAKE;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        let (initiator, message) = Initiator::new(key)?;
        stream.write_all(&message)?;
        let mut answer = [0; LENGTH];
        let mut done = 0;
        while done < LENGTH {
            done += match read_by(&mut stream, &mut answer[done..], deadline) {
                // A stranger to the far end gets no answer but the end.
                Err(error) if Gone::of(&error) == Gone::Closed => return Err(HandshakeError::Refused.into()),
                other => other?,
            };
        }
        Ok(Channel::new(stream, initiator.finish(&answer)?))
    }

    /// A connection whose handshake is over.
    pub fn new(stream: TcpStream, transport: TransportState) -> Self {
        Channel { stream, transport, inbox: Inbox::default() }
    }

    /// The connection itself, for its addresses and options.
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The bare connection, for a stream: nothing of it is read ahead.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends one message.
    ///
    /// # Errors
    /// The other takes nothing, or is gone.
    pub fn send(&mut self, message: &Message) -> Result<(), WireError> {
        let frame = frame::seal(&mut self.transport, &message.to_json())?;
        self.stream.set_write_timeout(Some(REQUEST))?;
        Ok(self.stream.write_all(&frame)?)
    }

    /// Waits for the next message until `deadline`, however slowly its bytes come.
    ///
    /// # Errors
    /// [`WireError::Silent`] at the deadline; what has come of a frame by then is kept.
    pub fn receive(&mut self, deadline: Instant) -> Result<Message, WireError> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(message);
            }
            let mut piece = [0; 4096];
            let wanted = self.inbox.wanted()?.min(piece.len());
            let n = read_by(&mut self.stream, &mut piece[..wanted], deadline)?;
            self.inbox.push(&piece[..n]);
        }
    }

    /// The next request: it may begin as late as `idle`, and must then come within [`REQUEST`] in all.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive_request(&mut self, idle: Instant) -> Result<Message, WireError> {
        if !self.inbox.has_begun() {
            let mut first = [0];
            let n = read_by(&mut self.stream, &mut first, idle)?;
            self.inbox.push(&first[..n]);
        }
        self.receive(Instant::now() + REQUEST)
    }

    /// Reads what is there, without waiting.
    ///
    /// # Errors
    /// It ended, or sent what is no message.
    pub fn try_receive(&mut self) -> Result<Option<Message>, WireError> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(Some(message));
            }
            let mut piece = [0; 4096];
            let wanted = self.inbox.wanted()?.min(piece.len());
            match recv(&self.stream, &mut piece[..wanted], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(WireError::Closed),
                Ok((_, n)) => self.inbox.push(&piece[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
    }

    fn next(&mut self) -> Result<Option<Message>, WireError> {
        let Some(bytes) = self.inbox.take(&mut self.transport)? else { return Ok(None) };
        Message::parse(&bytes).map(Some).map_err(WireError::Message)
    }

    /// Sends a message and waits for the answer, [`REQUEST`] in all.
    ///
    /// # Errors
    /// As [`Channel::send`] and [`Channel::receive`].
    pub fn ask(&mut self, message: &Message) -> Result<Message, WireError> {
        let deadline = Instant::now() + REQUEST;
        self.send(message)?;
        self.receive(deadline)
    }

    /// How long until `deadline`, for those who wait for other things as well.
    pub fn left(deadline: Instant) -> Duration {
        deadline.saturating_duration_since(Instant::now())
    }
}

/// Reads at least one byte before `deadline`.
///
/// # Errors
/// What [`Gone`] tells apart; at the end of the connection `UnexpectedEof`, at the deadline `TimedOut`.
pub fn read_by(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        let left = Channel::left(deadline);
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => return Ok(n),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
