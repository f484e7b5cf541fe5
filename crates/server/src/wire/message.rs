//! The closed set of messages: JSON without unknown fields. Numbers are integers (ns, bytes) in a
//! range that [`Message::parse`] checks.

use std::time::Duration;

use data_encoding::HEXLOWER_PERMISSIVE;
use plimsoll_units::json;
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::datagrams::{Echoed, TripsOrder, UdpOrder, UdpReport};
use super::key::unhex;
use super::timeline::{ArrivalTimeline, Shaping};
use super::{MAX_LOOKS, MAX_MESSAGE, MAX_MESSAGES, MAX_STREAMS};
use crate::traffic::MAX_FIXED_DURATION;
use crate::traffic::carrier::Carrier;
use crate::traffic::link_watch::{LinkLoss, MAX_LINKS};

/// Longest transfer that can be requested, ns: a day.
const DAY: u64 = 86_400 * 1_000_000_000;
const TEXT: usize = 1000;
const MANY_STREAMS: &str = "results of too many streams";

/// A message of either end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Message {
    /// Client, first message: requests a session.
    Open {
        /// Another session of the same client whose turn it shares, to measure under a load.
        other_session: Option<Hex128>,
    },
    /// Server: the session is open.
    Welcome(Welcome),
    /// Client, first message on a further connection: makes it a stream of a session.
    Join(Join),
    /// Server: only bare bytes follow.
    Joined,
    /// Server: there is no such session for the client's address.
    NoSession {
        /// Id of the server, as in its welcome.
        server: Hex128,
    },
    /// Client: requests a TCP transfer over the joined streams.
    Tcp(TcpOrder),
    /// Server: ready for the requested transfer; its receivers are waiting.
    Ready,
    /// Client: ready as well; start.
    Go,
    /// Either end: keep-alive during a transfer.
    Alive,
    /// Server: the client acknowledges no stream data; the session ends.
    Unacknowledged {
        /// Payload of the largest segment, bytes.
        segment: u32,
    },
    /// Either end: all is sent; bytes per stream.
    Sent(Vec<u64>),
    /// Server: the transfer is over; its report.
    Done(Box<EndReport>),
    /// Client: requests UDP sockets.
    UdpOpen {
        /// Number of streams.
        streams: u16,
    },
    /// Server: token that the client sends from each of its sockets to the server's UDP port,
    /// followed by the stream's number (two bytes, big-endian), to prove its address.
    UdpToken(Hex128),
    /// Server: the token did not arrive by UDP for each stream in time.
    NoDatagram,
    /// Server: the port of `Trip::Connect`.
    Port(std::num::NonZeroU16),
    /// Client: requests a transfer of datagrams over the UDP sockets.
    Udp(UdpOrder),
    /// Server: that transfer is over; its report.
    UdpDone(Box<UdpReport>),
    /// Client: requests round trips.
    Trips(TripsOrder),
    /// Client: ends the round trips.
    Enough,
    /// Server: its report on the round trips.
    Echoed(Box<Echoed>),
    /// Server: another client measures; ask again later.
    Busy {
        /// Time to wait, s.
        seconds: u32,
    },
    /// Either end: refuses, with a reason. The session continues.
    Refused(String),
}

/// Random bytes, written as hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HexBytes<const N: usize>(pub [u8; N]);

/// 128 random bits, written as 32 hexadecimal digits.
pub type Hex128 = HexBytes<16>;

impl<const N: usize> HexBytes<N> {
    /// Creates a random value. Fails if the system provides no random bytes.
    pub fn random() -> std::io::Result<Self> {
        plimsoll_system::random::secret_bytes().map(HexBytes)
    }
}

impl<const N: usize> std::fmt::Debug for HexBytes<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HexBytes(…)")
    }
}

impl<const N: usize> Serialize for HexBytes<N> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&HEXLOWER_PERMISSIVE.encode(&self.0))
    }
}

impl<'de, const N: usize> Deserialize<'de> for HexBytes<N> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(d)?;
        let wrong = || serde::de::Error::custom(format!("not {} hexadecimal digits", 2 * N));
        unhex(&text).map(HexBytes).ok_or_else(wrong)
    }
}

/// Answer to the opening of a session, with the server's limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// Id of the session, for connections that join it.
    pub session: Hex128,
    /// Id of the server: random, created at its start.
    pub server: Hex128,
    /// Most streams.
    pub max_streams: u16,
    /// Longest transfer, ns.
    pub max_nanos: u64,
    /// Highest rate per direction over all streams, bit/s.
    pub max_rate: u64,
    /// Rate limits that the server's kernel applies to the interface of the session.
    pub shaping: Shaping,
    /// Link state of this interface, if the kernel reports it.
    pub carrier: Option<Carrier>,
}

/// Request to make a connection a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Id of the session, as in its welcome.
    pub session: Hex128,
    /// Number of the stream, from 0.
    pub stream: u16,
    /// Options of its socket.
    pub sockets: Sockets,
}

/// Socket options of streams at both ends. Absent ones keep the system's default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sockets {
    /// Whether to send small messages at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Size of the send and receive buffers, bytes.
    pub window: Option<u32>,
    /// Congestion control, by the kernel's name.
    pub congestion: Option<String>,
    /// Largest segment, bytes.
    pub mss: Option<u16>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: Option<u8>,
}

impl Default for Sockets {
    fn default() -> Self {
        Self { nodelay: true, window: None, congestion: None, mss: None, dscp: None }
    }
}

/// Amount of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderedAmount {
    /// As much as possible in this time, ns.
    Nanos(u64),
    /// This number of messages per direction, divided among the streams.
    Messages(u64),
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The client sends.
    Up,
    /// The server sends.
    Down,
    /// Both send at once, on the same streams.
    Both,
}

impl Direction {
    /// Returns the number of directions: two for [`Self::Both`].
    pub const fn count(self) -> usize {
        if matches!(self, Self::Both) { 2 } else { 1 }
    }
}

/// How data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sending {
    /// Copied to the kernel.
    Copy,
    /// Lent to the kernel (`MSG_ZEROCOPY`).
    ZeroCopy,
}

/// How data is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Receiving {
    /// Copied from the kernel.
    Copy,
    /// Dropped in the kernel (`MSG_TRUNC`).
    Discard,
    /// Copied and hashed, to verify the content.
    Hash,
}

/// Request for a TCP transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpOrder {
    /// Number of streams.
    pub streams: u16,
    /// Message size, bytes: the length of one send call.
    pub message: u32,
    /// Direction.
    pub direction: Direction,
    /// Amount to move.
    pub amount: OrderedAmount,
    /// Initial time that is not counted, ns; added to the time of the amount.
    pub omit: u64,
    /// How data is sent.
    pub sending: Sending,
    /// How data is received.
    pub receiving: Receiving,
    /// Index of the server's CPU for its first thread; the next threads follow.
    pub place: u16,
}

/// Results of a sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendingReport {
    /// Bytes passed to the kernel.
    pub bytes: u64,
    /// Time from the first call to the return of the last, ns.
    pub nanos: u64,
    /// CPU time of the sending threads, ns.
    pub cpu_nanos: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Smoothed round-trip time, mean over the transfer, ns; 0 if unknown.
    pub rtt_nanos: u64,
    /// Congestion window over all streams, mean over the transfer, bytes.
    pub cwnd_bytes: u64,
    /// Payload of the largest segment, bytes.
    pub mss: u32,
    /// Whether segments carry timestamps: 12 bytes of options.
    pub timestamps: bool,
    /// Time with data to send, summed over the streams, ns.
    pub busy_nanos: u64,
    /// Part of `busy_nanos` limited by the receiver's window.
    pub receiver_limited_nanos: u64,
    /// Part of `busy_nanos` limited by the send buffer.
    pub buffer_limited_nanos: u64,
    /// Bytes that the kernel copied despite `MSG_ZEROCOPY`, as over loopback.
    pub copied: u64,
    /// TCP statistics over time.
    pub looks: Vec<TcpLook>,
}

/// TCP statistics of all sending streams, since the start of the transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpLook {
    /// Time since the start of the transfer, ns.
    pub at: u64,
    /// Smoothed round-trip time, mean over the streams, ns.
    pub rtt_nanos: u64,
    /// Congestion window over all streams, bytes.
    pub cwnd_bytes: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Time with data to send, summed over the streams, ns.
    pub busy_nanos: u64,
    /// Part of `busy_nanos` limited by the receiver's window.
    pub receiver_limited_nanos: u64,
    /// Part of `busy_nanos` limited by the send buffer.
    pub buffer_limited_nanos: u64,
}

/// Results of a receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceivingReport {
    /// Bytes received, over all streams.
    pub bytes: u64,
    /// Bytes counted: those after the first piece, or after the omitted time.
    pub counted: u64,
    /// Time in which the counted bytes arrived, ns.
    pub nanos: u64,
    /// CPU time of the receiving threads for all bytes, ns.
    pub cpu_nanos: u64,
    /// Hash of all bytes per stream, if requested.
    pub hashes: Vec<u64>,
    /// Arrivals over time.
    pub timeline: ArrivalTimeline,
}

/// Counters of a machine during a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndAccount {
    /// Time between the two looks, ns.
    pub nanos: u64,
    /// Number of the busiest CPU.
    pub fullest_cpu: u32,
    /// Busy share of that CPU in millionths, kernel and other processes included.
    pub fullest_busy: u32,
    /// Packets that the interface dropped, in and out.
    pub nic_drops: u64,
    /// Packets with errors at the interface.
    pub nic_errors: u64,
    /// TCP segments retransmitted by the whole machine.
    pub tcp_retransmits: u64,
    /// UDP datagrams of the whole machine dropped because a receive buffer was full.
    pub udp_buffer_errors: u64,
    /// Links to the other end that were lost since the session started.
    pub lost_links: Vec<LinkLoss>,
}

/// Report of an end on a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndReport<S = SendingReport, R = ReceivingReport> {
    /// Results of its sender.
    pub sent: Option<S>,
    /// Results of its receiver.
    pub received: Option<R>,
    /// Counters of its machine.
    pub account: EndAccount,
}

impl EndAccount {
    fn in_range(&self) -> Result<(), &'static str> {
        check(self.fullest_busy <= 1_000_000, "CPU use above 100 %")?;
        check(self.lost_links.len() <= MAX_LINKS, "too many links")?;
        check(self.lost_links.iter().all(|loss| loss.interface.len() <= TEXT), "a name that is too long")
    }
}

impl Message {
    /// Parses one message (JSON) and checks its values. The error is one line, safe to print.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let message: Message = json::parse_bytes(bytes).map_err(|e| shown_within(&e.to_string(), 200))?;
        message.in_range()?;
        Ok(message)
    }

    /// Returns the message as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn in_range(&self) -> Result<(), &'static str> {
        match self {
            Message::Tcp(tcp) => tcp.in_range(),
            Message::UdpOpen { streams: count } => streams(*count),
            Message::Udp(udp) => udp.in_range(),
            Message::Trips(trips) => trips.in_range(),
            Message::Welcome(welcome) => welcome.shaping.in_range(),
            Message::UdpDone(report) => {
                report.account.in_range()?;
                report.received.as_ref().map_or(Ok(()), |received| received.timeline.in_range())
            }
            Message::Echoed(report) => report.account.in_range(),
            Message::Join(join) => join.in_range(),
            Message::Sent(bytes) => check(bytes.len() <= usize::from(MAX_STREAMS), MANY_STREAMS),
            Message::Done(report) => {
                let EndReport { sent, received, account } = &**report;
                let hashes = received.as_ref().map_or(0, |received| received.hashes.len());
                check(hashes <= usize::from(MAX_STREAMS), MANY_STREAMS)?;
                let looks = sent.as_ref().map_or(0, |sent| sent.looks.len());
                check(looks <= MAX_LOOKS, "too many status requests")?;
                account.in_range()?;
                received.as_ref().map_or(Ok(()), |received| received.timeline.in_range())
            }
            Message::Busy { seconds } => check(*seconds <= 86_400, "a waiting time of more than a day"),
            Message::Refused(why) => check(why.len() <= TEXT, "a reason that is too long"),
            _ => Ok(()),
        }
    }
}

pub(super) const fn check(holds: bool, why: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(why) }
}

pub(super) fn streams(n: u16) -> Result<(), &'static str> {
    check((1..=MAX_STREAMS).contains(&n), "a number of streams out of range")
}

pub(super) fn size(bytes: u32) -> Result<(), &'static str> {
    check((1..=MAX_MESSAGE).contains(&bytes), "a message size out of range")
}

pub(super) fn time(nanos: u64) -> Result<(), &'static str> {
    check(nanos <= DAY, "a time of more than a day")
}

impl OrderedAmount {
    /// Returns the amount for stream number `stream` of `streams`: the same time, or an equal part
    /// of the messages; if they do not divide evenly, the first streams have one message more.
    #[must_use]
    pub const fn share(self, streams: usize, stream: usize) -> Self {
        let Self::Messages(all) = self else { return self };
        let (streams, stream) = (streams as u64, stream as u64);
        Self::Messages(all / streams + if stream < all % streams { 1 } else { 0 })
    }

    /// Returns the requested time; `None` if a number of messages is requested.
    pub const fn time(self) -> Option<Duration> {
        if let Self::Nanos(nanos) = self { Some(Duration::from_nanos(nanos)) } else { None }
    }

    /// Returns whether a stream is done that has `sent` messages after `elapsed`. A number of
    /// messages also ends after 60 s ([`MAX_FIXED_DURATION`]).
    pub fn is_over(self, sent: u64, elapsed: Duration) -> bool {
        match self {
            Self::Messages(all) => sent >= all || elapsed >= MAX_FIXED_DURATION,
            Self::Nanos(time) => elapsed >= Duration::from_nanos(time),
        }
    }

    pub(super) fn in_range(self) -> Result<(), &'static str> {
        match self {
            Self::Nanos(nanos) => time(nanos),
            Self::Messages(n) => check((1..=MAX_MESSAGES).contains(&n), "a number of messages out of range"),
        }
    }
}

impl TcpOrder {
    /// Creates an order for messages of `message` bytes, all counted; both ends copy the data.
    pub const fn new(streams: u16, message: u32, direction: Direction, amount: OrderedAmount) -> Self {
        let (sending, receiving) = (Sending::Copy, Receiving::Copy);
        Self { streams, message, direction, amount, omit: 0, sending, receiving, place: 0 }
    }

    fn in_range(&self) -> Result<(), &'static str> {
        streams(self.streams)?;
        size(self.message)?;
        time(self.omit)?;
        self.amount.in_range()
    }

    /// Returns the duration, omitted time included; `None` if a number of messages is requested.
    pub fn time(&self) -> Option<Duration> {
        self.amount.time().map(|time| time + Duration::from_nanos(self.omit))
    }
}

/// Returns whether `text` can be the name of a congestion control, such as `bbr`.
pub fn is_congestion_control(text: &str) -> bool {
    let is_in_names = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    (1..=15).contains(&text.len()) && text.bytes().all(is_in_names)
}

impl Join {
    fn in_range(&self) -> Result<(), &'static str> {
        let Sockets { window, congestion, mss, dscp, .. } = &self.sockets;
        check(self.stream < MAX_STREAMS, "a stream's number out of range")?;
        check(window.is_none_or(|w| (1024..=1 << 30).contains(&w)), "a window out of range")?;
        check(mss.is_none_or(|m| (88..=32_767).contains(&m)), "a segment size out of range")?;
        check(dscp.is_none_or(|d| d <= 63), "a code point out of range")?;
        let is_name = congestion.as_deref().is_none_or(is_congestion_control);
        check(is_name, "no name of a congestion control")
    }
}

#[cfg(test)]
mod tests;
