//! The far end: serves measuring sessions to those who know its key.
//!
//! One thread keeps the door (`door`): it lets nobody in before the handshake and reads nothing else of strangers.
//! Each session has a thread of its own (`session`) and a place in the queue (`queue`): while one measures, the
//! others are told when to ask again. Nothing here trusts what comes over the wire; see the caps.

mod door;
mod private;
mod queue;
mod session;
mod sessions;

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

pub use private::{Orders, Ready, serve_private};
pub use sessions::Sessions;

use crate::traffic::{Cpus, raise_descriptors, udp};
use crate::wire::Key;

/// What a descriptor that is kept back stands for meanwhile.
const SPARE: &str = "/dev/null";

/// What a far end allows; always finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Caps {
    /// Highest rate of a session, in bit/s.
    pub max_rate: f64,
    /// Longest transfer.
    pub max_duration: Duration,
    /// Most streams of a session.
    pub max_streams: u16,
    /// Most sessions at once.
    pub max_sessions: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { max_rate: 100e9, max_duration: Duration::from_secs(60), max_streams: 64, max_sessions: 32 }
    }
}

/// How a far end serves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The secret that clients must know.
    pub key: Key,
    /// What they may ask for.
    pub caps: Caps,
    /// Whose connections are accepted; empty: anybody's.
    pub allow: Vec<Net>,
    /// Whether clients may measure at the same time.
    pub parallel: bool,
    /// Where the threads of transfers run.
    pub cpus: Cpus,
}

/// What happens, for the one who prints.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// A session began.
    Began(SocketAddr),
    /// A session ended: after so many transfers, and why unless the client closed it.
    Ended(SocketAddr, u64, Option<String>),
    /// Connections that were closed since the last time: no key, another version, too slow, not allowed. Told at most
    /// every ten seconds.
    Turned(u64),
}

/// Why a far end cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its address.
    #[error("cannot listen on {address}: {source}; {}", remedy(source))]
    Listen {
        /// Which.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// Anything else.
    #[error("the server cannot {what}: {source}")]
    Io {
        /// What it was doing.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Only with orders.
    #[error(
        "there is no valid request on standard input: this command is started by `plimsoll network`, not by users"
    )]
    Orders,
}

impl ServeError {
    /// Whether the address to listen on is not one of this machine: a mistake of who named it.
    pub fn is_no_address(&self) -> bool {
        matches!(self, Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrNotAvailable)
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
    move |source| ServeError::Io { what, source }
}

/// A far end that listens.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    /// One UDP socket for each listener, with the same address and port number.
    datagrams: Vec<UdpSocket>,
    settings: Settings,
}

/// Ports that are tried if the kernel chooses: one that is free for TCP may be in use for UDP.
const MAX_PORT_TRIES: usize = 16;

/// Listens on an address, TCP and UDP.
fn listen(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let tries = if address.port() == 0 { MAX_PORT_TRIES } else { 1 };
    let mut refused = Vec::new();
    loop {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        match udp::ports::listen(listener.local_addr()?) {
            Ok(datagrams) => return Ok((listener, datagrams)),
            // It stays open meanwhile, or the kernel might choose it again.
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && refused.len() + 1 < tries => {
                refused.push(listener);
            }
            Err(e) => return Err(io::Error::new(e.kind(), format!("its UDP port: {e}"))),
        }
    }
}

impl Server {
    /// Listens on all of `addresses`, TCP and UDP.
    ///
    /// # Errors
    /// One of them cannot be had.
    pub fn bind(addresses: &[SocketAddr], settings: Settings) -> Result<Self, ServeError> {
        let listen = |address: &SocketAddr| {
            listen(*address).map_err(|source| ServeError::Listen { address: *address, source })
        };
        let both = addresses.iter().map(listen).collect::<Result<Vec<_>, _>>()?;
        let (listeners, datagrams) = both.into_iter().unzip();
        Ok(Server { listeners, datagrams, settings })
    }

    /// Listens on all addresses of this machine, of both families where there is IPv6.
    ///
    /// # Errors
    /// The port cannot be had.
    pub fn bind_any(port: u16, settings: Settings) -> Result<Self, ServeError> {
        let any = |ip: IpAddr| [SocketAddr::new(ip, port)];
        let both = Server::bind(&any(std::net::Ipv6Addr::UNSPECIFIED.into()), settings.clone());
        match both {
            // Without IPv6 there is no such family, or no such address.
            Err(ServeError::Listen { source, .. }) if source.kind() != io::ErrorKind::AddrInUse => {
                Server::bind(&any(std::net::Ipv4Addr::UNSPECIFIED.into()), settings)
            }
            other => other,
        }
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Serves until `until` can be read or ends.
    ///
    /// # Errors
    /// The system fails at what it was just doing for others.
    pub fn run(
        &self,
        until: &(impl rustix::fd::AsFd + ?Sized),
        tell: &(dyn Fn(Happening) + Sync),
    ) -> Result<(), ServeError> {
        // Each stream is one.
        raise_descriptors();
        let first = File::open(SPARE).map_err(failed("open /dev/null"))?;
        let sessions = Sessions::new(&self.settings).map_err(failed("get random bytes"))?;
        std::thread::scope(|scope| {
            let mut door = door::Door::new(self, &sessions, tell, first);
            let ended = door.keep(scope, until.as_fd());
            // Sessions are not waited for longer than it takes them to notice.
            sessions.close();
            ended
        })
    }
}

/// Addresses that share their first bits, as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    bits: u128,
    mask: u128,
}

impl Net {
    /// Reads `ADDRESS` or `ADDRESS/BITS`, of either family.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        // IPv4 lies in the last 32 bits of its mapped form.
        let host = width.checked_sub(bits)?;
        let mask = u128::MAX.checked_shl(host).unwrap_or(0);
        Some(Net { bits: mapped(address) & mask, mask: if width == 128 && bits == 0 { 0 } else { mask } })
    }

    /// Whether the address is one of these.
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
