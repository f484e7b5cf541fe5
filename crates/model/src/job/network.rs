//! Jobs of the network benchmarks: [`NetworkStreams`], and [`NetworkTrips`] for latency.

use std::time::Duration;

use super::disk::TransferAmount;
use super::meaning;
use crate::case::{Case, find_word};

/// Direction of transfers between machines: rows are clients, columns servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The client sends.
    Up,
    /// The server sends.
    Down,
    /// Both send.
    Both,
}

impl Flow {
    /// Returns the case's `direction`; without it, up for a rate (`is_rate`), else both.
    pub fn of(case: &Case, is_rate: bool) -> Self {
        case.word("direction").map_or(if is_rate { Self::Up } else { Self::Both }, Self::named)
    }

    fn named(word: &str) -> Self {
        match word {
            "up" => Self::Up,
            "down" => Self::Down,
            _ => Self::Both,
        }
    }

    /// Returns the meaning of rows and columns, such as `row sends to column`.
    pub const fn orientation(self) -> &'static str {
        match self {
            Self::Up => "row sends to column",
            Self::Down => "row receives from column",
            Self::Both => "row is the client, column the server",
        }
    }
}

/// Streams of a network case. Parameters that its benchmark does not have keep their defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkStreams<'a> {
    /// Local IP address to send from.
    pub bind: Option<&'a str>,
    /// Bytes per message; `None` if the case names no size.
    pub message: Option<u64>,
    /// Number of streams.
    pub streams: u64,
    /// Direction of the messages.
    pub direction: Flow,
    /// Target rate of all streams, bit/s.
    pub rate: Option<f64>,
    /// Whether the highest rate without loss is searched.
    pub searches: bool,
    /// Fixed amount per sample, in bytes or messages.
    pub amount: Option<TransferAmount>,
    /// Time at the start of each transfer that is not counted.
    pub omit: Duration,
    /// Whether the sender lends its data to the kernel (`MSG_ZEROCOPY`).
    pub zerocopy: bool,
    /// Whether the receiver's kernel drops the data (`MSG_TRUNC`).
    pub discard: bool,
    /// Whether small messages are sent at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Congestion control, by the kernel's name.
    pub congestion: Option<&'a str>,
    /// Bytes of the send and receive buffers.
    pub window: Option<u64>,
    /// Bytes of the largest segment.
    pub mss: Option<u64>,
    /// Differentiated services code point.
    pub dscp: Option<u64>,
}

impl<'a> NetworkStreams<'a> {
    /// Reads the parameters of a case; one stream upwards by default.
    pub fn of(case: &'a Case) -> Self {
        let is_on = |key| case.word(key) == Some("on");
        let volume = case.number("volume").map(TransferAmount::Bytes);
        Self {
            bind: case.word("bind"),
            message: case.number("message"),
            streams: case.number("streams").unwrap_or(1),
            direction: Flow::of(case, true),
            rate: case.rate("rate"),
            searches: case.word("search").is_some(),
            amount: volume.or(case.number("count").map(TransferAmount::Transfers)),
            omit: case.time("omit").unwrap_or_default(),
            zerocopy: is_on("zerocopy"),
            discard: is_on("discard"),
            nodelay: is_on("nodelay"),
            congestion: case.word("congestion"),
            window: case.number("window"),
            mss: case.number("mss"),
            dscp: case.number("dscp"),
        }
    }
}

/// Protocol of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripProtocol {
    /// Messages over a TCP connection.
    Tcp,
    /// UDP datagrams.
    Udp,
    /// ICMP echoes, which the server's kernel answers.
    Icmp,
    /// One message per new TCP connection.
    Connect,
}

impl TripProtocol {
    const PROTOCOL_WORDS: &'static [(&'static str, Self)] =
        &[("tcp", Self::Tcp), ("udp", Self::Udp), ("icmp", Self::Icmp), ("connect", Self::Connect)];

    /// Returns the name of the protocol in ids, such as `tcp`.
    pub fn word(self) -> &'static str {
        Self::PROTOCOL_WORDS.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }
}

/// Round trips of a latency case over its [`NetworkStreams`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkTrips<'a> {
    /// Protocol; `None` if the case names none.
    pub protocol: Option<TripProtocol>,
    /// Whether both ends poll for a message instead of sleeping.
    pub polls: bool,
    /// Time after which a message is lost.
    pub timeout: Duration,
    /// Time between the starts of two messages; `None` to send each right after the one before.
    pub interval: Option<Duration>,
    /// Direction of a concurrent TCP stream that loads the path.
    pub load: Option<Flow>,
    /// CPUs of both ends: an order of threads, or a list.
    pub affinity: Option<&'a str>,
}

impl<'a> NetworkTrips<'a> {
    /// Reads the parameters of a case, by default blocking and with a timeout of a second; fails
    /// for an unknown protocol or mode.
    pub fn of(case: &'a Case) -> Result<Self, String> {
        let protocol = |word| find_word("protocol", word, TripProtocol::PROTOCOL_WORDS);
        Ok(Self {
            protocol: case.word("protocol").map(protocol).transpose()?.map(|(_, protocol)| protocol),
            polls: meaning(case, "mode", &[("block", false), ("poll", true)], false)?,
            timeout: case.time("timeout").unwrap_or(Duration::from_secs(1)),
            interval: case.time("interval"),
            load: case.word("load").map(Flow::named),
            affinity: case.word("affinity"),
        })
    }
}
