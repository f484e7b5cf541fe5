//! The server: one thread accepts and authenticates connections (`door`). Each session has its own
//! thread (`session`) and takes turns in a queue (`queue`).

mod door;
mod private;
mod queue;
mod session;
mod sessions;

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

pub use private::{PrivateOrder, PrivateReply, serve_private};
use sessions::Sessions;

use crate::traffic::{PinnedCpus, raise_descriptors, udp};
use crate::wire::SharedKey;

const SPARE: &str = "/dev/null";

/// Limits of a server; always finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Caps {
    /// Highest rate of a session per direction, bit/s.
    pub max_rate: f64,
    /// Longest transfer.
    pub max_duration: Duration,
    /// Most streams of a session.
    pub max_streams: u16,
    /// Most concurrent sessions.
    pub max_sessions: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { max_rate: 100e9, max_duration: Duration::from_secs(60), max_streams: 64, max_sessions: 32 }
    }
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Secret that clients must know.
    pub key: SharedKey,
    /// Limits of requests.
    pub caps: Caps,
    /// Networks of accepted clients; empty accepts all.
    pub allow: Vec<Net>,
    /// Whether clients may measure at the same time.
    pub parallel: bool,
    /// CPUs of the threads of transfers.
    pub cpus: PinnedCpus,
}

/// Event that a server reports to its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEvent {
    /// A session of the client at this address has started.
    Began(SocketAddr),
    /// A session has ended: client, number of transfers, reason unless the client closed it.
    Ended(SocketAddr, u64, Option<String>),
    /// Number of connections refused since the last report, at most every ten seconds.
    Turned(u64),
}

/// Reason why a server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on an address.
    #[error("cannot listen on {0}: {1}; {remedy}", remedy = remedy(.1))]
    Listen(SocketAddr, #[source] io::Error),
    /// Another operation, with this name, failed.
    #[error("the server cannot {0}: {1}")]
    Io(&'static str, #[source] io::Error),
    /// The first line of standard input is not a valid [`PrivateOrder`].
    #[error(
        "there is no valid request on standard input: this command is started by `plimsoll network`, not by users"
    )]
    Orders,
}

impl ServeError {
    /// Returns whether listening failed because the address does not belong to this machine.
    pub fn is_no_address(&self) -> bool {
        matches!(self, Self::Listen(_, source) if source.kind() == io::ErrorKind::AddrNotAvailable)
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "use another --port",
        io::ErrorKind::AddrNotAvailable => "--bind must be an address of this machine (see `ip address`)",
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE: use another --port"
        }
        _ => "see --bind and --port",
    }
}

const fn failed(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |source| ServeError::Io(what, source)
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
    settings: Settings,
}

const MAX_PORT_TRIES: usize = 16;

fn listen(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let tries = if address.port() == 0 { MAX_PORT_TRIES } else { 1 };
    let mut refused = Vec::new();
    loop {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        match udp::ports::listen(listener.local_addr()?) {
            Ok(datagrams) => return Ok((listener, datagrams)),
            // The refused listener stays open, or the kernel might choose its port again.
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && refused.len() + 1 < tries => {
                refused.push(listener);
            }
            Err(e) => return Err(io::Error::new(e.kind(), format!("its UDP port: {e}"))),
        }
    }
}

impl Server {
    /// Listens on all `addresses`, by TCP and UDP on the same port. Fails if any cannot be bound.
    pub fn bind(addresses: &[SocketAddr], settings: Settings) -> Result<Self, ServeError> {
        let listen =
            |address: &SocketAddr| listen(*address).map_err(|source| ServeError::Listen(*address, source));
        let both = addresses.iter().map(listen).collect::<Result<Vec<_>, _>>()?;
        let (listeners, datagrams) = both.into_iter().unzip();
        Ok(Server { listeners, datagrams, settings })
    }

    /// Listens with TCP and UDP on `port` at all addresses of this machine, IPv4 and IPv6.
    pub fn bind_any(port: u16, settings: Settings) -> Result<Self, ServeError> {
        let any = |ip: IpAddr| [SocketAddr::new(ip, port)];
        match Server::bind(&any(std::net::Ipv6Addr::UNSPECIFIED.into()), settings.clone()) {
            // Without IPv6, the address family or the address does not exist.
            Err(ServeError::Listen(_, source)) if source.kind() != io::ErrorKind::AddrInUse => {
                Server::bind(&any(std::net::Ipv4Addr::UNSPECIFIED.into()), settings)
            }
            other => other,
        }
    }

    /// Returns the TCP addresses on which the server listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Serves clients until `until` is readable or closed. Calls `notify` on any thread, per event.
    pub fn run(
        &self,
        until: &(impl rustix::fd::AsFd + ?Sized),
        notify: &(dyn Fn(ServerEvent) + Sync),
    ) -> Result<(), ServeError> {
        // Each stream needs a descriptor.
        raise_descriptors();
        let first = File::open(SPARE).map_err(failed("open /dev/null"))?;
        let sessions = Sessions::new(&self.settings).map_err(failed("get random bytes"))?;
        std::thread::scope(|scope| {
            let mut door = door::Door::new(self, &sessions, notify, first);
            let ended = door.accept_loop(scope, until.as_fd());
            sessions.close();
            ended
        })
    }
}

/// A network such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    bits: u128,
    mask: u128,
}

impl Net {
    /// Parses `ADDRESS` (a single address) or `ADDRESS/BITS`, such as `fd00::/8`; else `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        // IPv4 occupies the last 32 bits of its mapped form.
        let host = width.checked_sub(bits)?;
        let mask = u128::MAX.checked_shl(host).unwrap_or(0);
        Some(Net { bits: mapped(address) & mask, mask })
    }

    /// Returns whether this network contains `address`; an IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        mapped(address.to_canonical()) & self.mask == self.bits
    }
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from_be_bytes(v4.to_ipv6_mapped().octets()),
        IpAddr::V6(v6) => u128::from_be_bytes(v6.octets()),
    }
}

#[cfg(test)]
mod tests;
