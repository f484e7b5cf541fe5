//! A parsed case of the network benchmarks, passed from the planner to the worker.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::amount;
use crate::server::{ServerAddress, source_address};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::network::{Flow, NetworkStreams, NetworkTrips, TripProtocol};
use plimsoll_model::place::ThreadOrder;
use plimsoll_server::traffic::nanos;
use plimsoll_server::wire::{Direction, MAX_MESSAGE, OrderedAmount, Receiving, Sending, Sockets};
use plimsoll_server::wire::{TcpOrder, Trip, WaitMode};

/// A parsed case. Parameters that a benchmark does not have keep their defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkJob {
    pub(super) server: Option<ServerAddress>,
    pub(super) from: Option<IpAddr>,
    /// Streams, message and direction; as an order, one message on each stream.
    pub(super) work: TcpOrder,
    /// Offered rate, bit/s.
    pub(super) rate: Option<f64>,
    pub(super) messages: Option<u64>,
    pub(super) sockets: Sockets,
    pub(super) searches: bool,
    /// How the server echoes messages; `None`: its kernel answers ICMP echoes.
    pub(super) trip: Option<Trip>,
    pub(super) wait: WaitMode,
    pub(super) timeout: Duration,
    /// Time between the starts of two messages; zero to send each right after the one before.
    pub(super) interval: Duration,
    /// Direction of a concurrent TCP stream that loads the path.
    pub(super) load: Option<Direction>,
    pub(super) place: Option<ThreadOrder>,
}

impl NetworkJob {
    /// Reads the parameters of a case; `usual` is the default message size in bytes. Fails for an
    /// invalid server, amount, protocol, mode or affinity.
    pub fn of(machine: &Machine, case: &Case, usual: u32) -> Result<Self, String> {
        let server = case.server().map(named).transpose()?;
        let messages = amount::messages(case)?;
        let (own, trips) = (NetworkStreams::of(case), NetworkTrips::of(case)?);
        let message = own.message.map_or(usual, |bytes| u32::try_from(bytes).unwrap_or(MAX_MESSAGE));
        let streams = u16::try_from(own.streams).unwrap_or(1).max(1);
        let amount = OrderedAmount::Messages(streams.into());
        Ok(Self {
            server,
            from: own.bind.and_then(source_address),
            work: TcpOrder {
                omit: nanos(own.omit),
                sending: if own.zerocopy { Sending::ZeroCopy } else { Sending::Copy },
                receiving: if own.discard { Receiving::Discard } else { Receiving::Copy },
                ..TcpOrder::new(streams, message.clamp(1, MAX_MESSAGE), direction(own.direction), amount)
            },
            rate: own.rate,
            messages,
            sockets: Sockets {
                nodelay: own.nodelay,
                window: own.window.and_then(|n| u32::try_from(n).ok()),
                congestion: own.congestion.map(str::to_owned),
                mss: own.mss.and_then(|n| u16::try_from(n).ok()),
                dscp: own.dscp.and_then(|n| u8::try_from(n).ok()),
            },
            searches: own.searches,
            trip: match trips.protocol {
                None | Some(TripProtocol::Tcp) => Some(Trip::Tcp),
                Some(TripProtocol::Udp) => Some(Trip::Udp),
                Some(TripProtocol::Connect) => Some(Trip::Connect),
                Some(TripProtocol::Icmp) => None,
            },
            wait: if trips.polls { WaitMode::Poll } else { WaitMode::Block },
            timeout: trips.timeout,
            interval: trips.interval.unwrap_or_default(),
            load: trips.load.map(direction),
            place: trips.affinity.map(|word| ThreadOrder::read(word, machine)).transpose()?,
        })
    }
}

const fn direction(flow: Flow) -> Direction {
    match flow {
        Flow::Up => Direction::Up,
        Flow::Down => Direction::Down,
        Flow::Both => Direction::Both,
    }
}

pub(super) fn named(name: &str) -> Result<ServerAddress, String> {
    ServerAddress::parse(name).map_err(|why| format!("server {why}"))
}

/// Returns a copy of `candidate` for the server `name` (`HOST[:PORT]` or `iperf3://…`). Fails if
/// the name is invalid or the case does not measure the network.
pub fn to_server(candidate: &Candidate, name: &str) -> Result<Candidate, CannotMeasure> {
    let mut job: NetworkJob = candidate.parsed.read()?;
    job.server = Some(named(name).map_err(CannotMeasure::server_failed)?);
    let case = candidate.case.clone().with_word("server", name);
    Ok(Candidate::new(case, candidate.feasible.clone()).parsed(&job))
}
