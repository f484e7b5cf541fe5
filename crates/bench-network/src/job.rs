//! A parsed case of the network benchmarks, passed from the planner to the worker.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::amount;
use crate::server::{ServerAddress, source_address};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::case::find_word;
use plimsoll_model::place::ThreadOrder;
use plimsoll_server::wire::{Direction, MAX_MESSAGE, Receiving, Sending, Sockets, Trip, WaitMode};

const TIMEOUT: Duration = Duration::from_secs(1);
const PROTOCOLS: [(&str, Option<Trip>); 4] =
    [("tcp", Some(Trip::Tcp)), ("udp", Some(Trip::Udp)), ("icmp", None), ("connect", Some(Trip::Connect))];
const MODES: [(&str, WaitMode); 2] = [("block", WaitMode::Block), ("poll", WaitMode::Poll)];

/// A parsed case. Parameters that a benchmark does not have keep their defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkJob {
    pub(super) server: Option<ServerAddress>,
    pub(super) from: Option<IpAddr>,
    pub(super) message: u32,
    pub(super) streams: u16,
    pub(super) direction: Direction,
    /// Offered rate, bit/s.
    pub(super) rate: Option<f64>,
    pub(super) messages: Option<u64>,
    pub(super) sockets: Sockets,
    pub(super) omit: Duration,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
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

/// Returns the time at the start of each transfer that is left out (`--omit`); 0 without it.
pub(super) fn omitted(case: &Case) -> Duration {
    case.time("omit").unwrap_or_default()
}

impl NetworkJob {
    /// Reads the parameters of a case; `usual` is the default message size in bytes. Fails for an
    /// invalid server, amount, protocol, mode or affinity.
    pub fn of(machine: &Machine, case: &Case, usual: u32) -> Result<Self, String> {
        let number = |key| case.number(key);
        let is = |key, word| case.word(key) == Some(word);
        let message = number("message").map_or(usual, |bytes| u32::try_from(bytes).unwrap_or(MAX_MESSAGE));
        Ok(Self {
            server: case.word("server").map(named).transpose()?,
            from: case.word("bind").and_then(source_address),
            message: message.clamp(1, MAX_MESSAGE),
            streams: number("streams").and_then(|n| u16::try_from(n).ok()).unwrap_or(1).max(1),
            direction: case.word("direction").map_or(Direction::Up, direction),
            rate: case.rate("rate"),
            messages: amount::messages(case)?,
            sockets: Sockets {
                nodelay: is("nodelay", "on"),
                window: number("window").and_then(|n| u32::try_from(n).ok()),
                congestion: case.word("congestion").map(str::to_owned),
                mss: number("mss").and_then(|n| u16::try_from(n).ok()),
                dscp: number("dscp").and_then(|n| u8::try_from(n).ok()),
            },
            omit: omitted(case),
            sending: if is("zerocopy", "on") { Sending::ZeroCopy } else { Sending::Copy },
            receiving: if is("discard", "on") { Receiving::Discard } else { Receiving::Copy },
            searches: case.get("search").is_some(),
            trip: find_word("protocol", case.word("protocol").unwrap_or("tcp"), &PROTOCOLS)?.1,
            wait: find_word("mode", case.word("mode").unwrap_or("block"), &MODES)?.1,
            timeout: case.time("timeout").unwrap_or(TIMEOUT),
            interval: case.time("interval").unwrap_or_default(),
            load: case.word("load").map(direction),
            place: case.word("affinity").map(|word| ThreadOrder::read(word, machine)).transpose()?,
        })
    }
}

fn direction(word: &str) -> Direction {
    match word {
        "down" => Direction::Down,
        "both" => Direction::Both,
        _ => Direction::Up,
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
