//! The UDP sockets of a session: made by both ends, and connected to each other before any figure.
//!
//! The far end sends nothing by UDP before the near end has sent it a 128-bit token, which it was told over the sealed
//! control connection, from the address of that connection. So nobody can have datagrams sent to another (RFC 9000
//! §8.1 has the same rule and allows three times what came; this far end sends nothing at all). From then on the
//! sockets are connected: the kernel drops what others send.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::flow;
use crate::traffic::Lost;
use crate::wire::{Channel, Hex128, Message, Ports, REQUEST, WireError};

/// The near end says its token again this often: any datagram may be lost.
const AGAIN: Duration = Duration::from_millis(50);
/// Bytes of a token and the stream's number.
const PROOF: usize = 18;

fn proof(token: &Hex128, stream: usize) -> [u8; PROOF] {
    let mut proof = [0; PROOF];
    proof[..16].copy_from_slice(token.bytes());
    // At most 256 streams.
    proof[16..].copy_from_slice(&(stream as u16).to_be_bytes());
    proof
}

/// The same address with a port.
fn at(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// Same host, however the address is written.
fn same(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

/// The far end's half: opens a port for each stream on the address of the control connection, and waits until the
/// token has come to each of them from the other end's address. What else comes is not answered.
///
/// # Errors
/// No socket can be had; the control connection failed. `Ok(Err)` says in words why a port was not reached.
pub fn admit(channel: &mut Channel, streams: u16) -> Result<Result<Vec<UdpSocket>, String>, Lost> {
    let (local, peer) = addresses(channel).map_err(Lost::Here)?;
    let open = |_| {
        let socket = flow::open(at(local, 0))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let sockets: Vec<UdpSocket> = (0..streams).map(open).collect::<io::Result<_>>().map_err(Lost::Here)?;
    let ports: io::Result<Vec<u16>> = sockets.iter().map(|s| Ok(s.local_addr()?.port())).collect();
    let token = Hex128::random().map_err(Lost::Here)?;
    channel.send(&Message::Ports(Ports { token, ports: ports.map_err(Lost::Here)? }))?;
    let mut waiting: Vec<usize> = (0..sockets.len()).collect();
    let deadline = Instant::now() + REQUEST;
    while let Some(first) = waiting.first() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let port = sockets.get(*first).and_then(|s| s.local_addr().ok()).map_or(0, |a| a.port());
            return Ok(Err(format!(
                "no datagram came to UDP port {port} within {} s; check that firewalls allow UDP",
                REQUEST.as_secs()
            )));
        }
        if channel.try_receive()?.is_some() {
            return Err(WireError::OutOfTurn.into());
        }
        wait(channel, &waiting, &sockets, left).map_err(Lost::Here)?;
        waiting.retain(|stream| {
            let proven = |socket| proven(socket, peer.ip(), &proof(&token, *stream)).unwrap_or(false);
            !sockets.get(*stream).is_some_and(proven)
        });
    }
    for socket in &sockets {
        socket.set_nonblocking(false).map_err(Lost::Here)?;
    }
    Ok(Ok(sockets))
}

fn addresses(channel: &Channel) -> io::Result<(SocketAddr, SocketAddr)> {
    Ok((channel.stream().local_addr()?, channel.stream().peer_addr()?))
}

fn wait(channel: &Channel, waiting: &[usize], sockets: &[UdpSocket], longest: Duration) -> io::Result<()> {
    let mut fds = vec![PollFd::new(channel.stream(), PollFlags::IN)];
    fds.extend(waiting.iter().filter_map(|n| sockets.get(*n)).map(|s| PollFd::new(s, PollFlags::IN)));
    let longest = Timespec::try_from(longest.max(Duration::from_millis(1))).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&longest)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// TcpSamples at one datagram; connects the socket to its sender if it is the right one.
fn proven(socket: &UdpSocket, peer: IpAddr, proof: &[u8; PROOF]) -> io::Result<bool> {
    let mut bytes = [0; PROOF + 1];
    let (count, from) = socket.recv_from(&mut bytes)?;
    // In constant time: the stream's number is no secret, and comes along.
    let equal = bytes.iter().zip(proof).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0;
    if count != PROOF || !same(from.ip(), peer) || !equal {
        return Ok(false);
    }
    socket.connect(from)?;
    Ok(true)
}

/// The near end's half: opens its sockets, and sends the token from each until the far end says that all have come.
///
/// # Errors
/// No socket can be had; the far end refuses or is gone.
pub fn join(channel: &mut Channel, ports: &Ports) -> Result<Vec<UdpSocket>, Lost> {
    let (local, peer) = addresses(channel).map_err(Lost::Here)?;
    let open = |port: &u16| {
        let socket = flow::open(at(local, 0))?;
        socket.connect(at(peer, *port))?;
        Ok(socket)
    };
    let sockets: Vec<UdpSocket> =
        ports.ports.iter().map(open).collect::<io::Result<_>>().map_err(Lost::Here)?;
    let deadline = Instant::now() + 2 * REQUEST;
    loop {
        for (stream, socket) in sockets.iter().enumerate() {
            // Lost or refused, it is sent again.
            let _ = socket.send(&proof(&ports.token, stream));
        }
        match channel.receive(deadline.min(Instant::now() + AGAIN)) {
            Ok(Message::Joined) => return Ok(sockets),
            Ok(Message::Refused(why)) => return Err(Lost::Refused(crate::text::shown_within(&why, 300))),
            Ok(_) => return Err(WireError::OutOfTurn.into()),
            Err(WireError::Silent) if Instant::now() < deadline => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Whether an error says that nobody is at the other port, or that the network told so.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    )
}
