//! Faults of a path that carries the control connection but not a benchmark's packets.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::lost_link::LostLink;
use crate::session::ServerSession;
use plimsoll_bench_api::prelude::*;
use plimsoll_metal::tcp::TcpInfo;
use plimsoll_server::traffic::{PinnedCpus, TransferEnd};
use plimsoll_server::wire::{Direction, Message, OrderedAmount, Sockets, TcpOrder, UdpOrder};

/// Segment sizes of the probe, bytes: smallest path, common tunnels, Ethernet, jumbo frames.
const SEGMENTS: [u16; 12] = [536, 1000, 1200, 1300, 1340, 1360, 1380, 1400, 1420, 1440, 4000, 8000];
/// Bytes per probe connection: several segments of any size.
const CARRIED: usize = 24_000;
const PROBE_TIME: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);
/// Datagram sizes of the probe, bytes: as for segments, and fragmented packets.
const DATAGRAMS: [u32; 10] = [64, 512, 1200, 1372, 1400, 1452, 1472, 4000, 8000, 16_000];
/// Datagrams per size, and the duration of their transfer in seconds.
const DATAGRAM_COUNT: u64 = 5;
const DATAGRAM_SECONDS: f64 = 0.1;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathFault {
    /// Segments of `segment` bytes are lost. `passes` is the largest tried `--mss` that arrives.
    #[error(
        "TCP segments of {segment} bytes {} are lost, and {}",
        direction(*.sender), describe_smaller_segments(*.passes)
    )]
    BlackHole { sender: TransferEnd, segment: u32, passes: Option<u16> },
    /// Datagrams of `bytes` bytes are lost. `passes` is the largest tried size that arrives.
    #[error(
        "UDP datagrams of {bytes} bytes {} are lost, and {}",
        direction(*.sender), describe_smaller_datagrams(*.passes, *.sender)
    )]
    LargeDatagrams { sender: TransferEnd, bytes: u32, passes: Option<u32> },
    #[error(
        "no datagram reaches its UDP port {port}, although TCP works: a firewall, NAT or load balancer between drops UDP; open UDP port {port} too, or forward it with the TCP port"
    )]
    NoDatagram { port: u16 },
    #[error(
        "no connection reaches its TCP port {port}, which it opened for --protocol connect: a firewall, NAT or load balancer opens only the server's port; use --protocol tcp, or open the ports of the server's net.ipv4.ip_local_port_range"
    )]
    NoConnection { port: u16 },
    #[error(
        "connections of one session reach different servers: a load balancer is there; use the address of one server"
    )]
    SeveralServers,
    #[error(
        "connections of one session come from different addresses, as the server sees them: address translation on the way uses several; use a path without it, or have it keep one address for this client"
    )]
    SeveralAddresses,
    #[error("{}, and it is {} now; {}", .0, if .0.loss.is_up { "up" } else { "down" }, .0.remedy())]
    LinkLost(LostLink),
    /// The server answers again and no other fault was found.
    #[error(
        "nothing arrived for too long, and the server answers again now: the path was interrupted, or an end had no CPU time; see the counters of the switches between, and run the case again"
    )]
    Interrupted,
    #[error(
        "the connection was lost, and another server answers there now: it was restarted, or a load balancer is there; see the messages of the server, and run the case again"
    )]
    Restarted,
}

fn direction(sender: TransferEnd) -> &'static str {
    if sender == TransferEnd::Server { "from the server" } else { "to the server" }
}

fn describe_smaller_segments(passes: Option<u16>) -> String {
    match passes {
        Some(passes) => format!(
            "those of --mss {passes} arrive: the path has a smaller MTU than the interfaces, and no ICMP message reports it; use --mss {passes}, or let ICMP \"fragmentation needed\" through"
        ),
        None => {
            "smaller ones too, although the control connection works: a firewall or proxy holds back what the streams carry, or the path is overloaded; see its rules and load"
                .to_owned()
        }
    }
}

fn describe_smaller_datagrams(passes: Option<u32>, sender: TransferEnd) -> String {
    match passes {
        Some(passes) => format!(
            "those of {passes} arrive: the path has a smaller MTU than the interfaces, or drops fragments; use --message {passes}, or see the MTU of each link"
        ),
        None => format!(
            "smaller ones too, although TCP works: a firewall or NAT drops UDP {}; see its rules",
            direction(sender)
        ),
    }
}

impl PathFault {
    /// Returns the error that names this fault of the path to the server at `address`.
    pub(crate) fn of_server(&self, address: std::net::SocketAddr) -> CannotMeasure {
        CannotMeasure::server_failed(format!("the path to the server at {address}: {self}"))
    }
}

/// Probes in a new session which TCP segments smaller than `segment` bytes arrive, after those of
/// that size were lost. `None` if segments of the size that the kernel chooses arrive.
pub(crate) fn probe_segments(
    session: &ServerSession,
    sender: TransferEnd,
    segment: u32,
) -> Result<Option<PathFault>, CannotMeasure> {
    let mut probe = session.reopen()?;
    let most = usize::from(probe.welcome.max_streams).max(1) - 1;
    let sizes = SEGMENTS.iter().copied().filter(|size| u32::from(*size) < segment).take(most);
    let sizes: Vec<Option<u16>> = sizes.map(Some).chain([None]).collect();
    for mss in &sizes {
        probe.join(1, &Sockets { mss: *mss, ..Sockets::default() })?;
    }
    let carried = match sender {
        TransferEnd::Client => carried_up(&probe.streams),
        TransferEnd::Server => carried_down(&mut probe, sizes.len())?,
    };
    if carried.last() == Some(&true) {
        return Ok(None);
    }
    let passes = sizes.iter().zip(&carried).filter(|(_, carried)| **carried).filter_map(|(size, _)| *size);
    Ok(Some(PathFault::BlackHole { sender, segment, passes: passes.max() }))
}

/// Writes to each stream. Returns for each whether the server's kernel acknowledged all within 2 s.
fn carried_up(streams: &[TcpStream]) -> Vec<bool> {
    let bytes = vec![0; CARRIED];
    let acknowledged = |stream: &TcpStream| TcpInfo::of(stream).ok().and_then(|info| info.acknowledged);
    let write = |mut stream: &TcpStream| {
        let before = acknowledged(stream)?;
        stream.set_nonblocking(true).ok()?;
        stream.write(&bytes).ok().map(|count| before + count as u64)
    };
    let wanted: Vec<Option<u64>> = streams.iter().map(write).collect();
    let mut carried = vec![false; streams.len()];
    let deadline = Instant::now() + PROBE_TIME;
    while carried.contains(&false) && Instant::now() < deadline {
        // Polls, because an acknowledgement wakes no waiter.
        std::thread::sleep(LOOK);
        for ((stream, wanted), carried) in streams.iter().zip(&wanted).zip(&mut carried) {
            *carried |= wanted.is_some_and(|wanted| acknowledged(stream) >= Some(wanted));
        }
    }
    carried
}

/// Requests data on `streams` streams. Returns for each whether all of it arrived within 2 s.
fn carried_down(probe: &mut ServerSession, streams: usize) -> Result<Vec<bool>, CannotMeasure> {
    // At most the number of sizes.
    let count = streams as u16;
    let amount = OrderedAmount::Messages(u64::from(count));
    probe.begin(&Message::Tcp(TcpOrder::new(count, CARRIED as u32, Direction::Down, amount)))?;
    probe.go()?;
    let mut arrived = vec![0; streams];
    let mut bytes = vec![0; CARRIED];
    let deadline = Instant::now() + PROBE_TIME;
    while arrived.iter().any(|count| *count < CARRIED) && Instant::now() < deadline {
        std::thread::sleep(LOOK);
        for (mut stream, arrived) in probe.streams.iter().zip(&mut arrived) {
            let _ = stream.set_nonblocking(true);
            *arrived += stream.read(&mut bytes).unwrap_or(0);
        }
    }
    Ok(arrived.iter().map(|count| *count >= CARRIED).collect())
}

/// Probes over connected `sockets` which datagrams from `sender` arrive. `None` if those of `bytes`
/// bytes do; else the fault, with the largest tried size that arrives.
pub(crate) fn probe_datagrams(
    session: &mut ServerSession,
    sockets: &[UdpSocket],
    sender: TransferEnd,
    bytes: u32,
) -> Result<Option<PathFault>, CannotMeasure> {
    let mut arrives = |size: u32| {
        let datagrams = DATAGRAM_COUNT * sockets.len() as u64;
        let bits = (datagrams * u64::from(size) * 8) as f64;
        let work = UdpOrder {
            // At most the limit of a session.
            streams: sockets.len() as u16,
            datagram: size,
            direction: if sender == TransferEnd::Client { Direction::Up } else { Direction::Down },
            amount: OrderedAmount::Messages(datagrams),
            rate: Some((bits / DATAGRAM_SECONDS) as u64),
            tag: u32::from_ne_bytes(plimsoll_system::random::unique_bytes()),
        };
        let done = session.transfer_udp(&work, sockets, &vec![0; size as usize], &PinnedCpus::default())?;
        let received = done.there.and_then(|there| there.received).or(done.here.received);
        Ok::<bool, CannotMeasure>(received.is_some_and(|received| received.received > 0))
    };
    if arrives(bytes)? {
        return Ok(None);
    }
    let mut passes = None;
    for size in DATAGRAMS.into_iter().rev().filter(|size| *size < bytes) {
        if arrives(size)? {
            passes = Some(size);
            break;
        }
    }
    Ok(Some(PathFault::LargeDatagrams { sender, bytes, passes }))
}
