//! The closed set of messages: all that either end can ask or say.
//!
//! JSON of typed structures that know all their fields; every number has a range, checked in [`Message::parse`], and
//! is a whole number: nanoseconds, bytes. No message names a file, a program or an address.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::course::{Course, Shaping};
use super::datagrams::{Echoed, Trips, Udp, UdpReport};
use super::key::{hex, unhex};
use super::{MAX_LOOKS, MAX_MESSAGE, MAX_MESSAGES, MAX_STREAMS};
use crate::traffic::carrier::Carrier;
use crate::traffic::link_watch::{LinkLoss, MAX_LINKS};

/// Longest transfer that can be asked for, in nanoseconds: a day.
const DAY: u64 = 86_400 * 1_000_000_000;
/// Longest text in a message.
const TEXT: usize = 1000;

/// One message, of either end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Message {
    /// Near end, first: it wants a session.
    Open {
        /// Another session of the same client, whose turn it shares: for what is measured under a load.
        beside: Option<Hex128>,
    },
    /// Far end: the session is there.
    Welcome(Welcome),
    /// Near end, first on a connection of its own: it becomes a stream of a session.
    Join(Join),
    /// Far end: bare bytes from here on.
    Joined,
    /// Far end: this server has no session of that name and of the client's address.
    NoSession {
        /// The server that says so, as its welcome names it.
        server: Hex128,
    },
    /// Near end: a TCP transfer over the streams that have joined.
    Tcp(Tcp),
    /// Far end: it is ready for the transfer asked for; those who receive are waiting already.
    Ready,
    /// Near end: it is ready as well, go.
    Go,
    /// Either end, during a transfer.
    Alive,
    /// Far end: the near end acknowledges nothing of what the streams carry; the session ends.
    Unacknowledged {
        /// Payload of the largest segment, in bytes.
        segment: u32,
    },
    /// Either end, when it has sent all: bytes by stream.
    Sent(Vec<u64>),
    /// Far end: the transfer is over, and this is what it saw.
    Done(Box<Report>),
    /// Near end: it wants to send datagrams, from a socket for each stream.
    UdpOpen {
        /// Streams.
        streams: u16,
    },
    /// Far end: to be sent from each of these sockets to its UDP port, which has the number of its TCP port. The
    /// stream's number follows as two bytes, most significant first. It proves that the client holds the address that
    /// the datagrams will go to.
    UdpToken(Hex128),
    /// Far end: the token did not come by UDP for each stream in time.
    NoDatagram,
    /// Far end: the port of `Trip::Connect`.
    Port(std::num::NonZeroU16),
    /// Near end: a transfer of datagrams between the ports.
    Udp(Udp),
    /// Far end: that transfer is over, and this is what it saw.
    UdpDone(Box<UdpReport>),
    /// Near end: round trips.
    Trips(Trips),
    /// Near end: the round trips are over.
    Enough,
    /// Far end: what it saw of them.
    Echoed(Box<Echoed>),
    /// Far end: another client measures; ask again after so many seconds.
    Busy {
        /// Seconds.
        seconds: u32,
    },
    /// Either end: it will not or cannot, and why. The session goes on where it was.
    Refused(String),
}

/// 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hex128([u8; 16]);

impl Hex128 {
    /// New ones.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> std::io::Result<Self> {
        plimsoll_system::random::secret().map(Hex128)
    }

    /// A value with these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Hex128(bytes)
    }

    /// The bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl std::fmt::Debug for Hex128 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hex128(…)")
    }
}

impl Serialize for Hex128 {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hex128 {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(d)?;
        let mut bytes = [0; 16];
        match unhex(&text, &mut bytes) {
            true => Ok(Hex128(bytes)),
            false => Err(serde::de::Error::custom("not 32 hexadecimal digits")),
        }
    }
}

/// What a far end allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// Names the session to the connections that join it.
    pub session: Hex128,
    /// Names the server: random, made when it starts.
    pub server: Hex128,
    /// Most streams.
    pub max_streams: u16,
    /// Longest transfer.
    pub max_nanos: u64,
    /// Highest rate of all streams together, in bit/s, in each direction.
    pub max_rate: u64,
    /// What its kernel holds the interface to that the session came by.
    pub shaping: Shaping,
    /// The link of this interface, if its kernel reports it.
    pub carrier: Option<Carrier>,
}

/// A connection that becomes a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The session, as its welcome named it.
    pub session: Hex128,
    /// The stream's number, from 0.
    pub stream: u16,
    /// How its socket is set up.
    pub sockets: Sockets,
}

/// How the sockets of streams are set up, at both ends. What is absent is left as the system has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sockets {
    /// Small messages leave at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Bytes of the send and receive buffers.
    pub window: Option<u32>,
    /// Congestion control, by the kernel's name.
    pub congestion: Option<String>,
    /// Largest segment, in bytes.
    pub mss: Option<u16>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: Option<u8>,
}

impl Default for Sockets {
    fn default() -> Self {
        Self { nodelay: true, window: None, congestion: None, mss: None, dscp: None }
    }
}

/// How much a transfer moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// As much as goes in this many nanoseconds.
    Nanos(u64),
    /// This many messages, divided among the streams; in each direction.
    Messages(u64),
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The near end.
    Up,
    /// The far end.
    Down,
    /// Both at once, on the same streams.
    Both,
}

/// How bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sending {
    /// Copied to the kernel.
    Copy,
    /// Lent to the kernel (`MSG_ZEROCOPY`).
    ZeroCopy,
}

/// How bytes are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Receiving {
    /// Copied from the kernel.
    Copy,
    /// Dropped in the kernel (`MSG_TRUNC`).
    Discard,
    /// Copied and hashed, to prove that they are what was sent.
    Hash,
}

/// A TCP transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// Streams, from number 0.
    pub streams: u16,
    /// Bytes of a message: of one call that sends.
    pub message: u32,
    /// Who sends.
    pub direction: Direction,
    /// How much.
    pub amount: Amount,
    /// Nanoseconds at the beginning that are not counted; added to a time.
    pub omit: u64,
    /// How it is sent.
    pub sending: Sending,
    /// How it is received.
    pub receiving: Receiving,
    /// Where among its CPUs the far end's first thread is pinned; the others follow.
    pub place: u16,
}

/// What the sending half of an end did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// Bytes handed to the kernel.
    pub bytes: u64,
    /// Nanoseconds from the first call to the last one's return.
    pub nanos: u64,
    /// Nanoseconds of CPU time of the sending threads.
    pub cpu_nanos: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Smoothed round-trip time in nanoseconds, the mean over the transfer; 0 where it is not known.
    pub rtt_nanos: u64,
    /// Congestion window in bytes, of all streams together, the mean over the transfer.
    pub cwnd_bytes: u64,
    /// Largest segment's payload in bytes.
    pub mss: u32,
    /// Whether segments carry timestamps: 12 bytes of options.
    pub timestamps: bool,
    /// Nanoseconds in which there was something to send, summed over the streams.
    pub busy_nanos: u64,
    /// Of these, held up by the receiver's window.
    pub receiver_limited_nanos: u64,
    /// Of these, held up by the send buffer.
    pub buffer_limited_nanos: u64,
    /// Bytes that the kernel copied although they were lent (`MSG_ZEROCOPY`), as over loopback.
    pub copied: u64,
    /// TCP in the course of the transfer.
    pub looks: Vec<Look>,
}

/// What TCP said of all sending streams at one moment. Counts and times are since the transfer began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// When, in nanoseconds since the transfer began.
    pub at: u64,
    /// Smoothed round-trip time in nanoseconds, the mean over the streams.
    pub rtt_nanos: u64,
    /// Congestion window in bytes, of all streams together.
    pub cwnd_bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Nanoseconds in which there was something to send, summed over the streams.
    pub busy_nanos: u64,
    /// Of these, held up by the receiver's window.
    pub receiver_limited_nanos: u64,
    /// Of these, held up by the send buffer.
    pub buffer_limited_nanos: u64,
}

/// What the receiving half of an end saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// All bytes that arrived, of all streams.
    pub bytes: u64,
    /// Bytes that count: those after the first piece, or after what was omitted.
    pub counted: u64,
    /// Nanoseconds in which the counted bytes arrived.
    pub nanos: u64,
    /// Nanoseconds of CPU time of the receiving threads, over all bytes.
    pub cpu_nanos: u64,
    /// Hash of all bytes by stream, where it was asked for.
    pub hashes: Vec<u64>,
    /// When they arrived.
    pub course: Course,
}

/// What an end's machine did meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Nanoseconds between the two looks.
    pub nanos: u64,
    /// CPU that was busiest.
    pub fullest_cpu: u32,
    /// How busy it was, in millionths; work of the kernel and of others included.
    pub fullest_busy: u32,
    /// Packets that the interface dropped, in and out.
    pub nic_drops: u64,
    /// Packets that the interface found faulty.
    pub nic_errors: u64,
    /// TCP segments sent again by anybody on this machine.
    pub tcp_retransmits: u64,
    /// UDP datagrams that found their receive buffer full, of anybody on this machine.
    pub udp_buffer_errors: u64,
    /// The links to the other end that were lost since the session began.
    pub lost_links: Vec<LinkLoss>,
}

/// What the far end saw of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Of what it sent.
    pub sent: Option<Sent>,
    /// Of what it received.
    pub received: Option<Received>,
    /// Of its machine.
    pub account: Account,
}

impl Account {
    /// Whether its numbers can be.
    pub(super) fn in_range(&self) -> Result<(), &'static str> {
        match () {
            () if self.fullest_busy > 1_000_000 => Err("CPU use above 100 %"),
            () if self.lost_links.len() > MAX_LINKS => Err("too many links"),
            () if self.lost_links.iter().any(|loss| loss.interface.len() > TEXT) => {
                Err("a name that is too long")
            }
            () => Ok(()),
        }
    }
}

impl Message {
    /// Reads one message.
    ///
    /// # Errors
    /// What is wrong with it, in one line; the text in it is made harmless.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let message: Message = serde_json::from_slice(bytes)
            .map_err(|e| plimsoll_units::text::shown_within(&e.to_string(), 200))?;
        message.in_range().map_err(str::to_owned)?;
        Ok(message)
    }

    /// As JSON.
    pub fn to_json(&self) -> Vec<u8> {
        // Nothing in a message can fail to be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn in_range(&self) -> Result<(), &'static str> {
        match self {
            Message::Tcp(tcp) => tcp.in_range(),
            Message::UdpOpen { streams: count } => streams(*count),
            Message::Udp(udp) => udp.in_range(),
            Message::Trips(trips) => trips.in_range(),
            Message::Welcome(welcome) => welcome.shaping.in_range(),
            Message::UdpDone(report) => report.in_range(),
            Message::Echoed(report) => report.account.in_range(),
            Message::Join(join) => join.in_range(),
            Message::Sent(bytes) if bytes.len() > usize::from(MAX_STREAMS) => {
                Err("results of too many streams")
            }
            Message::Done(report) => match (&report.received, &report.sent) {
                (Some(received), _) if received.hashes.len() > usize::from(MAX_STREAMS) => {
                    Err("results of too many streams")
                }
                (_, Some(sent)) if sent.looks.len() > MAX_LOOKS => Err("too many status requests"),
                (received, _) => {
                    report.account.in_range()?;
                    received.as_ref().map_or(Ok(()), |received| received.course.in_range())
                }
            },
            Message::Busy { seconds } if *seconds > 86_400 => Err("a waiting time of more than a day"),
            Message::Refused(why) if why.len() > TEXT => Err("a reason that is too long"),
            _ => Ok(()),
        }
    }
}

pub(super) const fn streams(n: u16) -> Result<(), &'static str> {
    if n >= 1 && n <= MAX_STREAMS { Ok(()) } else { Err("a number of streams out of range") }
}

pub(super) const fn size(bytes: u32) -> Result<(), &'static str> {
    if bytes >= 1 && bytes <= MAX_MESSAGE { Ok(()) } else { Err("a message size out of range") }
}

pub(super) const fn time(nanos: u64) -> Result<(), &'static str> {
    if nanos <= DAY { Ok(()) } else { Err("a time of more than a day") }
}

impl Tcp {
    fn in_range(&self) -> Result<(), &'static str> {
        streams(self.streams)?;
        size(self.message)?;
        time(self.omit)?;
        match self.amount {
            Amount::Nanos(nanos) => time(nanos),
            Amount::Messages(1..=MAX_MESSAGES) => Ok(()),
            Amount::Messages(_) => Err("a number of messages out of range"),
        }
    }

    /// How long it lasts where a time was asked for, what is omitted included.
    pub fn time(&self) -> Option<Duration> {
        match self.amount {
            Amount::Nanos(nanos) => Some(Duration::from_nanos(nanos.saturating_add(self.omit))),
            Amount::Messages(_) => None,
        }
    }
}

impl Join {
    fn in_range(&self) -> Result<(), &'static str> {
        let named = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
        let Sockets { window, congestion, mss, dscp, .. } = &self.sockets;
        match () {
            () if self.stream >= MAX_STREAMS => Err("a stream's number out of range"),
            () if window.is_some_and(|w| !(1024..=1 << 30).contains(&w)) => Err("a window out of range"),
            () if mss.is_some_and(|m| !(88..=32_767).contains(&m)) => Err("a segment size out of range"),
            () if dscp.is_some_and(|d| d > 63) => Err("a code point out of range"),
            () if congestion
                .as_ref()
                .is_some_and(|c| c.is_empty() || c.len() > 15 || !c.bytes().all(named)) =>
            {
                Err("no name of a congestion control")
            }
            () => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
