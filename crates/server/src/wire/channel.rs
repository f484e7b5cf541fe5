//! A connection with sealed messages. Deadlines bound a whole wait, not a single read.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, recv};
use snow::TransportState;

use super::frame::{self, FrameError, Inbox};
use super::handshake::{HandshakeError, Initiator, LENGTH};
use super::{HANDSHAKE, Message, REQUEST, SharedKey};

/// Reason why a connection is unusable.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The handshake failed.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// The other end sent an invalid frame.
    #[error("it sent {0}")]
    Frame(#[from] FrameError),
    /// The other end sent an invalid message.
    #[error("it sent a message that cannot be read: {0}; use the same plimsoll version on both machines")]
    Message(String),
    /// The other end sent a valid message at the wrong time.
    #[error("it sent a message out of turn; use the same plimsoll version on both machines")]
    OutOfTurn,
    /// The other end closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// Nothing arrived before the deadline.
    #[error("it was silent for too long")]
    Silent,
    /// A system call failed.
    #[error("{0}")]
    Io(io::Error),
}

/// Returns whether the error of a socket is that the other end closed the connection.
pub fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            _ if is_closed(&error) => WireError::Closed,
            // Linux returns these for a socket's timeout.
            ErrorKind::WouldBlock | ErrorKind::TimedOut => WireError::Silent,
            _ => WireError::Io(error),
        }
    }
}

/// An authenticated connection.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    transport: TransportState,
    inbox: Inbox,
}

impl Channel {
    /// Performs the client's handshake on a new connection. Fails if the server refuses `key`.
    pub fn connect(mut stream: TcpStream, key: &SharedKey) -> Result<Self, WireError> {
        let deadline = Instant::now() + HANDSHAKE;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        let (initiator, message) = Initiator::new(key)?;
        stream.write_all(&message)?;
        let mut answer = [0; LENGTH];
        read_whole(&mut stream, &mut answer, deadline).map_err(|error| match WireError::from(error) {
            WireError::Closed => HandshakeError::Refused.into(),
            other => other,
        })?;
        Ok(Channel::new(stream, initiator.finish(&answer)?))
    }

    /// Creates a channel on `stream` after the handshake; `transport` has the session's keys.
    pub fn new(stream: TcpStream, transport: TransportState) -> Self {
        Channel { stream, transport, inbox: Inbox::default() }
    }

    /// Returns the TCP connection, for its addresses and options.
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns the address of this end and that of the other end.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.stream.local_addr()?, self.stream.peer_addr()?))
    }

    /// Returns the TCP connection without encryption, to carry a stream; no data was read ahead.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Encrypts and sends one message. Fails if the other end accepts no data, or is gone.
    pub fn send(&mut self, message: &Message) -> Result<(), WireError> {
        let frame = frame::seal(&mut self.transport, &message.to_json())?;
        self.stream.set_write_timeout(Some(REQUEST))?;
        Ok(self.stream.write_all(&frame)?)
    }

    /// Waits until `deadline` for the next message. A timeout keeps an incomplete one for later.
    pub fn receive(&mut self, deadline: Instant) -> Result<Message, WireError> {
        self.receive_by(|stream, piece| read_before(stream, piece, deadline))
    }

    fn receive_by(
        &mut self,
        read: impl Fn(&mut TcpStream, &mut [u8]) -> io::Result<usize>,
    ) -> Result<Message, WireError> {
        loop {
            if let Some(bytes) = self.inbox.next_message(&mut self.transport)? {
                return Message::parse(&bytes).map_err(WireError::Message);
            }
            let mut piece = [0; 4096];
            let wanted = self.inbox.missing_bytes()?.min(piece.len());
            let n = read(&mut self.stream, &mut piece[..wanted])?;
            self.inbox.push(&piece[..n]);
        }
    }

    /// Waits for the next request: for its first byte until `idle`, for the rest 5 s ([`REQUEST`]).
    pub fn receive_request(&mut self, idle: Instant) -> Result<Message, WireError> {
        if !self.inbox.has_begun() {
            let mut first = [0];
            let n = read_before(&mut self.stream, &mut first, idle)?;
            self.inbox.push(&first[..n]);
        }
        self.receive(Instant::now() + REQUEST)
    }

    /// Returns the next message if it has arrived, without waiting, else `None`.
    pub fn try_receive(&mut self) -> Result<Option<Message>, WireError> {
        let received = self.receive_by(|stream, piece| {
            match retry_on_intr(|| recv(&*stream, &mut *piece, RecvFlags::DONTWAIT))? {
                (_, 0) => Err(ErrorKind::UnexpectedEof.into()),
                (_, n) => Ok(n),
            }
        });
        match received {
            Err(WireError::Silent) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Sends a message and returns the answer. Both together take at most 5 s ([`REQUEST`]).
    pub fn ask(&mut self, message: &Message) -> Result<Message, WireError> {
        let deadline = Instant::now() + REQUEST;
        self.send(message)?;
        self.receive(deadline)
    }
}

/// Reads until `buffer` is full. Fails at the end of the stream ([`is_closed`]) or `deadline`.
pub fn read_whole(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        done += read_before(stream, &mut buffer[done..], deadline)?;
    }
    Ok(())
}

/// Reads at least one byte before `deadline`. Returns how many bytes. Errors: as [`read_whole`].
pub(super) fn read_before(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
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
