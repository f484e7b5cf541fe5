//! The ways a message can take there and back: a TCP stream, a UDP socket, an unprivileged ICMP socket, or a new
//! TCP connection each time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};
use serde::{Deserialize, Serialize};

/// How the end that waits for a message does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// It sleeps in the kernel until the message is there.
    Block,
    /// It asks again and again, and keeps its CPU busy.
    Poll,
}

/// How long a write may take before the stream counts as dead.
const WRITE: Duration = Duration::from_secs(10);

/// One way there and back.
pub trait Path {
    /// Sets how it waits; a wait returns after `look` at the latest.
    ///
    /// # Errors
    /// The socket's.
    fn set_wait(&mut self, wait: Wait, look: Duration) -> io::Result<()>;

    /// Sends one message.
    ///
    /// # Errors
    /// The socket's.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// The next echo's length, its bytes in `buffer`; `None` when there is none yet. One byte more than fits a message
    /// may come, so `buffer` is larger by one.
    ///
    /// # Errors
    /// The socket's.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Whether what comes can only be of the other end: datagrams anybody can send under its address.
    fn is_stream(&self) -> bool {
        false
    }
}

fn nothing_yet(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Messages over one TCP stream: they come back whole and in order, or the stream is dead.
#[derive(Debug)]
pub struct TcpPath<'a> {
    stream: &'a TcpStream,
    /// Bytes of the echo that is coming.
    held: usize,
}

impl<'a> TcpPath<'a> {
    /// Over this stream.
    ///
    /// # Errors
    /// The socket's.
    pub fn new(stream: &'a TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE))?;
        Ok(TcpPath { stream, held: 0 })
    }
}

impl Path for TcpPath<'_> {
    fn is_stream(&self) -> bool {
        true
    }

    fn set_wait(&mut self, wait: Wait, look: Duration) -> io::Result<()> {
        self.stream.set_nonblocking(wait == Wait::Poll)?;
        self.stream.set_read_timeout(Some(look))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut rest = message;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => wait_for_room(self.stream)?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let message = buffer.len() - 1;
        match self.stream.read(&mut buffer[self.held..message]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) if self.held + n == message => {
                self.held = 0;
                Ok(Some(message))
            }
            Ok(n) => {
                self.held += n;
                Ok(None)
            }
            Err(e) if nothing_yet(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Waits until a stream takes bytes again, [`WRITE`] at most.
fn wait_for_room(stream: &TcpStream) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let longest = Timespec::try_from(WRITE).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&longest)) {
        Ok(0) => Err(ErrorKind::TimedOut.into()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Messages over a connected UDP socket.
#[derive(Debug)]
pub struct UdpPath<'a>(pub &'a UdpSocket);

impl Path for UdpPath<'_> {
    fn set_wait(&mut self, wait: Wait, look: Duration) -> io::Result<()> {
        self.0.set_nonblocking(wait == Wait::Poll)?;
        self.0.set_write_timeout(Some(WRITE))?;
        self.0.set_read_timeout(Some(look))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self.0.send(message) {
            // No room at the moment: the message is lost, as on any other part of the way.
            Err(e) if nothing_yet(&e) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0.recv(buffer) {
            Ok(n) => Ok(Some(n)),
            Err(e) if nothing_yet(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Bytes of an ICMP echo's header (RFC 792, RFC 4443 §4.1).
const ICMP_HEADER: usize = 8;

/// Echo requests by a socket that needs no privilege (`net.ipv4.ping_group_range`; icmp(7)). The kernel answers at the
/// other end: no far end takes part. The kernel writes identifier and checksum, and hands over answers to this socket
/// alone.
#[derive(Debug)]
pub struct IcmpPath {
    socket: OwnedFd,
    request: u8,
    packet: Vec<u8>,
    sequence: u16,
    nonblocking: bool,
}

impl IcmpPath {
    /// To this address.
    ///
    /// # Errors
    /// `PermissionDenied` where the kernel gives this user no such socket.
    pub fn new(mut to: SocketAddr) -> io::Result<Self> {
        let (family, protocol, request) = match to.ip() {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128),
        };
        let socket =
            rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(protocol))?;
        to.set_port(0);
        rustix::net::connect(&socket, &to)?;
        Ok(IcmpPath { socket, request, packet: Vec::new(), sequence: 0, nonblocking: false })
    }

    /// The type of an answer.
    const fn reply(&self) -> u8 {
        if self.request == 8 { 0 } else { 129 }
    }
}

impl Path for IcmpPath {
    fn set_wait(&mut self, wait: Wait, look: Duration) -> io::Result<()> {
        self.nonblocking = wait == Wait::Poll;
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, Some(look))?)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let [high, low] = self.sequence.to_be_bytes();
        self.packet.clear();
        self.packet.extend([self.request, 0, 0, 0, 0, 0, high, low]);
        self.packet.extend(message);
        rustix::net::send(&self.socket, &self.packet, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let flags = if self.nonblocking { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        self.packet.resize(ICMP_HEADER + buffer.len(), 0);
        let count = match rustix::net::recv(&self.socket, &mut self.packet[..], flags) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        if count < ICMP_HEADER || self.packet[0] != self.reply() {
            return Ok(None);
        }
        let message = &self.packet[ICMP_HEADER..count];
        buffer[..message.len()].copy_from_slice(message);
        Ok(Some(message.len()))
    }
}

/// A new TCP connection for every message: connect, send, read the echo to the end of the stream, close. The far end
/// closes first, so that the connections that linger (`TIME_WAIT`) are its own and no port of this end runs out.
#[derive(Debug)]
pub struct ConnectPath {
    to: SocketAddr,
    wait: Wait,
    look: Duration,
    stream: Option<TcpStream>,
    held: usize,
}

impl ConnectPath {
    /// To this address.
    pub const fn new(to: SocketAddr) -> Self {
        ConnectPath { to, wait: Wait::Block, look: Duration::from_secs(1), stream: None, held: 0 }
    }
}

impl Path for ConnectPath {
    fn is_stream(&self) -> bool {
        true
    }

    fn set_wait(&mut self, wait: Wait, look: Duration) -> io::Result<()> {
        (self.wait, self.look) = (wait, look);
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let stream = match TcpStream::connect_timeout(&self.to, self.look) {
            Ok(stream) => stream,
            // Not answered in time: this round trip is lost.
            Err(e) if matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                self.stream = None;
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE))?;
        (&stream).write_all(message)?;
        stream.set_nonblocking(self.wait == Wait::Poll)?;
        stream.set_read_timeout(Some(self.look))?;
        self.held = 0;
        self.stream = Some(stream);
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(mut stream) = self.stream.as_ref() else {
            // Nothing can come; the time goes by until the round trip counts as lost.
            std::thread::yield_now();
            return Ok(None);
        };
        let room = buffer.get_mut(self.held..).unwrap_or_default();
        match stream.read(room) {
            // The end of the stream, or more than was sent.
            Ok(0) => {
                self.stream = None;
                Ok(Some(self.held))
            }
            Ok(n) => {
                self.held += n;
                Ok(None)
            }
            Err(e) if nothing_yet(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }
}
