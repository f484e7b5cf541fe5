//! Paths of a message: TCP stream, UDP socket, ICMP socket, or a new TCP connection per message.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};

use crate::traffic::{unless_nothing_yet, wait_for};
use crate::wire::WaitMode;

const MAX_WRITE_TIME: Duration = Duration::from_secs(10);

/// A path of messages and their echoes.
pub trait TripPath {
    /// Sets how [`TripPath::receive`] waits; it returns after `look` at the latest.
    fn set_wait(&mut self, wait: WaitMode, look: Duration) -> io::Result<()>;

    /// Sends one message of round trips.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Receives the next echo into `buffer`, which has one byte more than a message, to detect a
    /// longer echo. Returns the length of the echo; `None` if none has arrived yet.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Returns whether only the other end can have sent what arrives; datagrams can be forged.
    fn is_stream(&self) -> bool {
        false
    }
}

/// Path over one TCP stream, which returns messages whole and in order.
#[derive(Debug)]
pub struct TcpPath<'a> {
    stream: &'a TcpStream,
    held: usize,
}

impl<'a> TcpPath<'a> {
    /// Creates a path over `stream` and makes it send small messages at once (`TCP_NODELAY`).
    pub fn new(stream: &'a TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(MAX_WRITE_TIME))?;
        Ok(TcpPath { stream, held: 0 })
    }
}

impl TripPath for TcpPath<'_> {
    fn is_stream(&self) -> bool {
        true
    }

    fn set_wait(&mut self, wait: WaitMode, look: Duration) -> io::Result<()> {
        self.stream.set_nonblocking(wait == WaitMode::Poll)?;
        self.stream.set_read_timeout(Some(look))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut rest = message;
        while !rest.is_empty() {
            match unless_nothing_yet(self.stream.write(rest))? {
                Some(0) => return Err(ErrorKind::WriteZero.into()),
                Some(n) => rest = &rest[n..],
                None if wait_for(self.stream, PollFlags::OUT, MAX_WRITE_TIME)? => {}
                None => return Err(ErrorKind::TimedOut.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let message = buffer.len() - 1;
        match unless_nothing_yet(self.stream.read(&mut buffer[self.held..message]))? {
            Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
            count => self.held += count.unwrap_or(0),
        }
        Ok((self.held == message).then(|| std::mem::take(&mut self.held)))
    }
}

/// Path over a connected UDP socket.
#[derive(Debug)]
pub struct UdpPath<'a>(pub &'a UdpSocket);

impl TripPath for UdpPath<'_> {
    fn set_wait(&mut self, wait: WaitMode, look: Duration) -> io::Result<()> {
        self.0.set_nonblocking(wait == WaitMode::Poll)?;
        self.0.set_write_timeout(Some(MAX_WRITE_TIME))?;
        self.0.set_read_timeout(Some(look))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        // If the send buffer is full, the message is lost, as anywhere on the path.
        unless_nothing_yet(self.0.send(message)).map(drop)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        unless_nothing_yet(self.0.recv(buffer))
    }
}

/// Length of the header of an ICMP echo (RFC 792, RFC 4443 §4.1), bytes.
const ICMP_HEADER: usize = 8;
const IP_HEADER: usize = 60;
/// Types of echoes (RFC 792, RFC 4443 §4.1 and §4.2).
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

/// Path of ICMP echoes over an unprivileged socket (`net.ipv4.ping_group_range`), else a raw one.
#[derive(Debug)]
pub struct IcmpPath {
    socket: OwnedFd,
    request: u8,
    /// Identifier of a raw socket; the kernel sets it for other sockets.
    raw: Option<u16>,
    packet: Vec<u8>,
    sequence: u16,
    nonblocking: bool,
}

impl IcmpPath {
    /// Creates a path to `to`. Fails with `PermissionDenied` if this user may open no such socket.
    pub fn new(mut to: SocketAddr) -> io::Result<Self> {
        let (family, protocol, request) = match to.ip() {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, ECHO_REQUEST),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, ECHO_REQUEST_V6),
        };
        let of_type = |kind| rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol));
        let (socket, raw) = match of_type(SocketType::DGRAM) {
            Ok(socket) => (socket, None),
            Err(errno) => (of_type(SocketType::RAW).map_err(|_| errno)?, Some(new_identifier())),
        };
        to.set_port(0);
        rustix::net::connect(&socket, &to)?;
        Ok(IcmpPath { socket, request, raw, packet: Vec::new(), sequence: 0, nonblocking: false })
    }

    fn echoed<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let is_v4 = self.request == ECHO_REQUEST;
        let skipped = if self.raw.is_some() && is_v4 { usize::from(packet.first()? & 0xf) * 4 } else { 0 };
        let (header, message) = packet.get(skipped..)?.split_at_checked(ICMP_HEADER)?;
        let identifier = u16::from_be_bytes([header[4], header[5]]);
        let reply = if is_v4 { ECHO_REPLY } else { ECHO_REPLY_V6 };
        (header[0] == reply && self.raw.is_none_or(|own| own == identifier)).then_some(message)
    }
}

fn new_identifier() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    (std::process::id() as u16).wrapping_mul(31).wrapping_add(number)
}

/// Returns the checksum (RFC 1071) of an ICMP packet whose checksum field is 0.
fn checksum(packet: &[u8]) -> [u8; 2] {
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
    let mut sum: u64 = packet.chunks(2).map(|pair| u64::from(word(pair))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

impl TripPath for IcmpPath {
    fn set_wait(&mut self, wait: WaitMode, look: Duration) -> io::Result<()> {
        self.nonblocking = wait == WaitMode::Poll;
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, Some(look))?)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let [high, low] = self.sequence.to_be_bytes();
        let [first, second] = self.raw.unwrap_or(0).to_be_bytes();
        self.packet.clear();
        self.packet.extend([self.request, 0, 0, 0, first, second, high, low]);
        self.packet.extend(message);
        // The kernel sets the checksum for IPv6 and for its own ICMP sockets.
        if self.raw.is_some() && self.request == ECHO_REQUEST {
            let checksum = checksum(&self.packet);
            self.packet[2..4].copy_from_slice(&checksum);
        }
        rustix::net::send(&self.socket, &self.packet, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let flags = if self.nonblocking { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let mut packet = std::mem::take(&mut self.packet);
        packet.resize(IP_HEADER + ICMP_HEADER + buffer.len(), 0);
        let received = rustix::net::recv(&self.socket, &mut packet[..], flags);
        let echoed = unless_nothing_yet(received.map_err(io::Error::from)).map(|received| {
            let message = self.echoed(&packet[..received?.0])?;
            let length = message.len().min(buffer.len());
            buffer[..length].copy_from_slice(&message[..length]);
            Some(length)
        });
        self.packet = packet;
        echoed
    }
}

/// Path with a new TCP connection per message. The server closes first and holds the connection in
/// `TIME_WAIT`, so that the client does not run out of ports.
#[derive(Debug)]
pub struct ConnectPath {
    to: SocketAddr,
    wait: WaitMode,
    look: Duration,
    stream: Option<TcpStream>,
    held: usize,
}

impl ConnectPath {
    /// Creates a path that connects to `to` for each message.
    pub const fn new(to: SocketAddr) -> Self {
        ConnectPath { to, wait: WaitMode::Block, look: Duration::from_secs(1), stream: None, held: 0 }
    }
}

impl TripPath for ConnectPath {
    fn is_stream(&self) -> bool {
        true
    }

    fn set_wait(&mut self, wait: WaitMode, look: Duration) -> io::Result<()> {
        (self.wait, self.look) = (wait, look);
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let stream = match TcpStream::connect_timeout(&self.to, self.look) {
            Ok(stream) => stream,
            Err(e) if matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                self.stream = None;
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(MAX_WRITE_TIME))?;
        (&stream).write_all(message)?;
        stream.set_nonblocking(self.wait == WaitMode::Poll)?;
        stream.set_read_timeout(Some(self.look))?;
        self.held = 0;
        self.stream = Some(stream);
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(mut stream) = self.stream.as_ref() else {
            std::thread::yield_now();
            return Ok(None);
        };
        let room = buffer.get_mut(self.held..).unwrap_or_default();
        match unless_nothing_yet(stream.read(room))? {
            Some(0) => {
                self.stream = None;
                return Ok(Some(self.held));
            }
            count => self.held += count.unwrap_or(0),
        }
        Ok(None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_with_its_checksum_sums_up_to_nothing() {
        // The example of RFC 1071 §3.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), [0x22, 0x0d]);
        let mut packet = [8, 0, 0, 0, 1, 2, 3, 4, 255, 255, 7];
        let sum = checksum(&packet);
        packet[2..4].copy_from_slice(&sum);
        assert_eq!(checksum(&packet), [0, 0]);
    }

    #[test]
    fn a_raw_socket_reads_past_the_header_and_only_its_own_echoes() {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
        let path = |raw, request| {
            let socket = socket.try_clone().unwrap();
            IcmpPath { socket, request, raw, packet: Vec::new(), sequence: 0, nonblocking: false }
        };
        let reply = [0, 0, 9, 9, 1, 2, 0, 1, 42];
        let with_header = |words: u8| [vec![0x40 | words; usize::from(words) * 4], reply.to_vec()].concat();
        let raw = path(Some(0x0102), ECHO_REQUEST);
        assert_eq!(raw.echoed(&with_header(5)), Some(&[42][..]));
        assert_eq!(raw.echoed(&with_header(15)), Some(&[42][..]));
        assert_eq!(path(Some(7), ECHO_REQUEST).echoed(&with_header(5)), None, "of another program");
        let mut request = with_header(5);
        request[20] = ECHO_REQUEST;
        assert_eq!(raw.echoed(&request), None, "its own request on the loopback");
        assert!((0..24).all(|short| raw.echoed(&with_header(15)[..short]).is_none()));
        assert_eq!(path(None, ECHO_REQUEST).echoed(&reply), Some(&[42][..]));
        assert_eq!(path(None, ECHO_REQUEST).echoed(&[]), None);
    }
}
