//! Sockets of streams. Options are set before connecting, since some apply to the first packet.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use plimsoll_metal::tcp::set_max_segment;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt};

use super::wait_for;
use crate::wire::Sockets;

/// Connects by TCP to `to` within `patience`, from address `from` if given, with options `sockets`.
pub fn dial(
    to: SocketAddr,
    from: Option<IpAddr>,
    sockets: &Sockets,
    patience: Duration,
) -> io::Result<TcpStream> {
    connect_socket(create_socket(to, from, sockets)?, to, patience)
}

/// Creates an unconnected TCP socket for a stream to `to`, bound to the address `from` if given.
pub fn create_socket(to: SocketAddr, from: Option<IpAddr>, sockets: &Sockets) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    set_options(&socket, sockets, to.is_ipv4())?;
    if let Some(from) = from {
        bind(&socket, &bind_address(from, to)).map_err(|errno| {
            let why =
                format!("cannot send from {from}: {errno}; name an address of this machine with --bind");
            io::Error::new(errno.kind(), why)
        })?;
    }
    Ok(socket)
}

/// Returns the address to bind for packets from `from` to `to`: port 0, and the IPv6 scope of `to`.
pub fn bind_address(from: IpAddr, to: SocketAddr) -> SocketAddr {
    let mut source = SocketAddr::new(from, 0);
    if let (SocketAddr::V6(source), SocketAddr::V6(to)) = (&mut source, to) {
        source.set_scope_id(to.scope_id());
    }
    source
}

/// Connects `socket` of [`create_socket`] to `to` within `patience`. Returns the blocking stream.
pub fn connect_socket(socket: OwnedFd, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    match connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) if wait_for(&socket, PollFlags::OUT, patience)? => {
            sockopt::socket_error(&socket)??;
        }
        Err(Errno::INPROGRESS) => return Err(ErrorKind::TimedOut.into()),
        Err(errno) => return Err(errno.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Sets the options of a TCP socket, IPv4 if `ipv4`, else IPv6. The error names the refused option.
pub fn set_options(socket: impl AsFd, sockets: &Sockets, ipv4: bool) -> io::Result<()> {
    fn named<E: Into<io::Error>>(what: &str, done: Result<(), E>) -> io::Result<()> {
        let why = |e: io::Error| io::Error::new(e.kind(), format!("the kernel refuses the {what}: {e}"));
        done.map_err(|e| why(e.into()))
    }
    named("no-delay option", sockopt::set_tcp_nodelay(&socket, sockets.nodelay))?;
    if let Some(window) = sockets.window {
        let window = window as usize;
        named("receive buffer", sockopt::set_socket_recv_buffer_size(&socket, window))?;
        named("send buffer", sockopt::set_socket_send_buffer_size(&socket, window))?;
    }
    if let Some(name) = &sockets.congestion {
        let done = sockopt::set_tcp_congestion(&socket, name);
        named(&format!("congestion control {name} (see net.ipv4.tcp_available_congestion_control)"), done)?;
    }
    if let Some(mss) = sockets.mss {
        named("segment size", set_max_segment(&socket, mss))?;
    }
    if let Some(dscp) = sockets.dscp {
        // The code point is the upper six bits (RFC 2474).
        let class = dscp << 2;
        let done = match ipv4 {
            true => sockopt::set_ip_tos(&socket, class),
            false => sockopt::set_ipv6_tclass(&socket, u32::from(class)),
        };
        named("code point", done)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn options_hold_on_a_connected_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (window, congestion) = (Some(64 << 10), Some("reno".to_owned()));
        let sockets = Sockets { nodelay: false, window, congestion, mss: Some(600), dscp: Some(10) };
        let to = listener.local_addr().unwrap();
        let stream = dial(to, Some("127.0.0.1".parse().unwrap()), &sockets, Duration::from_secs(5)).unwrap();
        assert!(!stream.nodelay().unwrap());
        assert_eq!(sockopt::ip_tos(&stream).unwrap(), 40);
        assert_eq!(sockopt::tcp_congestion(&stream).unwrap(), "reno");
        // The kernel doubles the requested size for its own overhead.
        assert_eq!(sockopt::socket_send_buffer_size(&stream).unwrap(), 128 << 10);
        assert!(plimsoll_metal::tcp::TcpInfo::of(&stream).unwrap().send_mss <= 600);
    }

    #[test]
    fn refusals_name_the_option_and_nobody_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let sockets = Sockets { congestion: Some("no-such".to_owned()), ..Sockets::default() };
        let error = dial(to, None, &sockets, Duration::from_secs(5)).unwrap_err();
        assert!(error.to_string().contains("congestion control no-such"), "{error}");
        drop(listener);
        let error = dial(to, None, &Sockets::default(), Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
}
