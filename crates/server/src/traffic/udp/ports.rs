//! The UDP sockets of a session, connected before any measurement. The client sends a token,
//! received over the control connection, to the server's UDP port from the address of that
//! connection. So a client cannot direct datagrams to another address (RFC 9000 §8.1).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use plimsoll_units::text::shown_within;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use super::flow;
use crate::traffic::{LostTransfer, is_dropped_here, locked};
use crate::wire::{Channel, Hex128, HexBytes, Message, REQUEST, WireError};

/// Interval in which the client repeats its token, since any datagram may be lost.
const REPEAT: Duration = Duration::from_millis(50);
/// Interval in which the server checks its control connection while it waits for tokens.
const CHECK: Duration = Duration::from_millis(20);
/// Length of a token and the number of a stream, bytes.
const HELLO_BYTES: usize = 18;
/// Datagrams that are read from the server's port before other work is done.
const AT_ONCE: usize = 64;

fn hello_datagram(token: &Hex128, stream: usize) -> [u8; HELLO_BYTES] {
    let mut hello = [0; HELLO_BYTES];
    hello[..16].copy_from_slice(&token.0);
    hello[16..].copy_from_slice(&(stream as u16).to_be_bytes());
    hello
}

fn parsed(datagram: &[u8]) -> Option<(Hex128, u16)> {
    let (token, stream) = datagram.split_first_chunk::<16>()?;
    Some((HexBytes(*token), u16::from_be_bytes(stream.try_into().ok()?)))
}

/// Opens the server's nonblocking UDP socket; more sockets of this process may share its port.
pub fn listen(address: SocketAddr) -> io::Result<UdpSocket> {
    let listener = UdpSocket::bind(address)?;
    sockopt::set_socket_reuseport(&listener, true)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Opens a socket with large buffers on the server's port that receives only from `remote`.
fn connected(local: SocketAddr, remote: SocketAddr) -> io::Result<UdpSocket> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    bind(&socket, &local)?;
    connect(&socket, &remote)?;
    let socket = UdpSocket::from(socket);
    flow::enlarge_buffers(&socket)?;
    Ok(socket)
}

type Arrival = (u16, io::Result<UdpSocket>);

#[derive(Debug)]
struct WaitingSession {
    remote: IpAddr,
    local: SocketAddr,
    streams: BTreeSet<u16>,
    arrivals: Sender<Arrival>,
}

/// Sessions of a server that wait for datagrams at its UDP port, by token.
#[derive(Debug, Default)]
pub struct Expected(Mutex<HashMap<Hex128, WaitingSession>>);

#[derive(Debug)]
struct WaitingPlace<'a> {
    expected: &'a Expected,
    token: Hex128,
    arrivals: Receiver<Arrival>,
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        locked(&self.expected.0).remove(&self.token);
    }
}

impl Expected {
    fn expect(&self, local: SocketAddr, remote: IpAddr, streams: u16) -> io::Result<WaitingPlace<'_>> {
        let (token, (sender, arrivals)) = (Hex128::random()?, unbounded());
        let waiting = WaitingSession { remote, local, streams: (0..streams).collect(), arrivals: sender };
        locked(&self.0).insert(token, waiting);
        Ok(WaitingPlace { expected: self, token, arrivals })
    }

    /// Reads up to 64 datagrams at `listener`. The token of an expected session, if it comes from
    /// the client's IP address, opens a socket for one stream of the session.
    pub fn process_datagrams(&self, listener: &UdpSocket) {
        // One byte more detects datagrams that are too long.
        let mut bytes = [0; HELLO_BYTES + 1];
        for _ in 0..AT_ONCE {
            match listener.recv_from(&mut bytes) {
                Ok((count, from)) => self.arrive(bytes.get(..count).unwrap_or_default(), from),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {}
            }
        }
    }

    fn arrive(&self, datagram: &[u8], from: SocketAddr) {
        let Some((token, stream)) = parsed(datagram) else { return };
        let mut expected = locked(&self.0);
        let waiting = expected.get_mut(&token);
        if let Some(waiting) = waiting.filter(|w| w.remote.to_canonical() == from.ip().to_canonical())
            && waiting.streams.remove(&stream)
        {
            let _ = waiting.arrivals.send((stream, connected(waiting.local, from)));
        }
    }
}

/// Server side of [`join`]: sends a token, and returns one socket per stream, connected to the
/// address from which the token comes back; `None` if one is missing after [`REQUEST`].
pub fn admit(
    channel: &mut Channel,
    expected: &Expected,
    streams: u16,
) -> Result<Option<Vec<UdpSocket>>, LostTransfer> {
    let (local, remote) = channel.addresses().map_err(LostTransfer::Here)?;
    let place = expected.expect(local, remote.ip(), streams).map_err(LostTransfer::Here)?;
    channel.send(&Message::UdpToken(place.token))?;
    let deadline = Instant::now() + REQUEST;
    let mut sockets = BTreeMap::new();
    while sockets.len() < usize::from(streams) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        if channel.try_receive()?.is_some() {
            return Err(WireError::OutOfTurn.into());
        }
        if let Ok((stream, socket)) = place.arrivals.recv_timeout(left.min(CHECK)) {
            sockets.insert(stream, socket.map_err(LostTransfer::Here)?);
        }
    }
    Ok(Some(sockets.into_values().collect()))
}

/// Client side: opens one socket per stream, and sends the token until the server has received all.
pub fn join(channel: &mut Channel, token: &Hex128, streams: u16) -> Result<Vec<UdpSocket>, LostTransfer> {
    let (local, remote) = channel.addresses().map_err(LostTransfer::Here)?;
    let sockets: io::Result<Vec<UdpSocket>> = (0..streams).map(|_| flow::open(local, remote)).collect();
    let sockets = sockets.map_err(LostTransfer::Here)?;
    let deadline = Instant::now() + 2 * REQUEST;
    loop {
        for (stream, socket) in sockets.iter().enumerate() {
            if socket.send(&hello_datagram(token, stream)).is_err_and(|e| is_dropped_here(&e)) {
                return Err(LostTransfer::Dropped);
            }
        }
        match channel.receive(deadline.min(Instant::now() + REPEAT)) {
            Ok(Message::Joined) => return Ok(sockets),
            Ok(Message::NoDatagram) => return Err(LostTransfer::NoDatagram { port: remote.port() }),
            Ok(Message::Refused(why)) => return Err(LostTransfer::Refused(shown_within(&why, 300))),
            Ok(_) => return Err(WireError::OutOfTurn.into()),
            Err(WireError::Silent) if Instant::now() < deadline => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Returns whether the remote port or host is unreachable.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn each_stream_gets_a_socket_of_its_own_on_the_servers_port() {
        let listener = listen(here()).unwrap();
        let local = listener.local_addr().unwrap();
        let expected = Expected::default();
        let place = expected.expect(local, here().ip(), 2).unwrap();
        let clients: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind(here()).unwrap()).collect();
        for (stream, client) in clients.iter().enumerate() {
            // Twice, since any may be lost; the third has a number that no stream has.
            client.send_to(&hello_datagram(&place.token, stream), local).unwrap();
            client.send_to(&hello_datagram(&place.token, stream), local).unwrap();
        }
        clients[2].send_to(&hello_datagram(&Hex128::random().unwrap(), 0), local).unwrap();
        expected.process_datagrams(&listener);
        let sockets: Vec<Arrival> = place.arrivals.try_iter().collect();
        assert_eq!(sockets.iter().map(|(stream, _)| *stream).collect::<Vec<_>>(), [0, 1]);
        for (stream, socket) in sockets {
            let (socket, client) = (socket.unwrap(), &clients[usize::from(stream)]);
            assert_eq!(socket.local_addr().unwrap(), local);
            assert_eq!(socket.peer_addr().unwrap(), client.local_addr().unwrap());
            client.send_to(b"data", local).unwrap();
            assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 4);
        }
        drop(place);
        assert!(locked(&expected.0).is_empty());
    }

    #[test]
    fn a_token_from_another_address_proves_nothing() {
        let listener = listen(here()).unwrap();
        let local = listener.local_addr().unwrap();
        let expected = Expected::default();
        let place = expected.expect(local, [127, 0, 0, 2].into(), 1).unwrap();
        let pending = UdpSocket::bind(here()).unwrap();
        pending.send_to(&hello_datagram(&place.token, 0), local).unwrap();
        expected.process_datagrams(&listener);
        assert!(place.arrivals.is_empty());
    }

    #[test]
    fn no_second_server_has_the_port() {
        let listener = listen(here()).unwrap();
        let again = listen(listener.local_addr().unwrap()).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AddrInUse);
    }
}
