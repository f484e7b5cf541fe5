//! The messages about datagrams and round trips: part of the closed set, see [`super::Message`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::course::Course;
use super::message::{Account, Amount, Direction, size, streams, time};
use super::{MAX_DATAGRAM, MAX_MESSAGES};

/// A transfer of datagrams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Udp {
    /// Streams, from number 0.
    pub streams: u16,
    /// Bytes of a datagram.
    pub datagram: u32,
    /// Who sends.
    pub direction: Direction,
    /// How much.
    pub amount: Amount,
    /// Bits per second over all streams, in each direction; absent: as fast as it goes.
    pub rate: Option<u64>,
    /// Marks the datagrams of this transfer.
    pub tag: u32,
}

/// Who echoes how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trip {
    /// Each message that comes to the UDP ports goes back.
    Udp,
    /// Each message over the TCP streams that have joined.
    Tcp,
    /// Each connection to a port of its own brings one message, which goes back, and is closed.
    Connect,
}

/// How the far end waits for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// It sleeps.
    Block,
    /// It asks again and again.
    Poll,
}

/// Round trips, until the near end says [`super::Message::Enough`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trips {
    /// By what.
    pub trip: Trip,
    /// Streams, from number 0.
    pub streams: u16,
    /// Bytes of a message.
    pub message: u32,
    /// How the far end waits.
    pub waiting: Waiting,
    /// The longest that it goes on, in nanoseconds.
    pub longest: u64,
    /// Which of the far end's CPUs its first thread takes, from 0; the others follow.
    #[serde(default)]
    pub place: u16,
}

/// What the sending half of an end did with datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpSent {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// Nanoseconds of sending.
    pub nanos: u64,
    /// Nanoseconds of CPU time of the sending threads.
    pub cpu_nanos: u64,
    /// Whether the kernel split datagrams that were handed over together.
    pub segmented: bool,
}

/// What the receiving half of an end counted, in datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpReceived {
    /// Sent, as the sender said.
    pub sent: u64,
    /// Received, each once.
    pub received: u64,
    /// Received again.
    pub duplicates: u64,
    /// Received after one that was sent later.
    pub reordered: u64,
    /// Received too late to be told from duplicates.
    pub stale: u64,
    /// Of something else.
    pub foreign: u64,
    /// Variation of the transit time (RFC 3550), in nanoseconds, where datagrams carry their time.
    pub jitter_nanos: Option<u64>,
    /// Nanoseconds from the first arrival to the last.
    pub span_nanos: u64,
    /// Datagrams for which the receiving sockets had no room, where the kernel tells.
    pub dropped: Option<u64>,
    /// Nanoseconds of CPU time of the receiving threads.
    pub cpu_nanos: u64,
    /// When they arrived, each once.
    pub course: Course,
}

/// What the far end saw of a transfer of datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpReport {
    /// Of what it sent.
    pub sent: Option<UdpSent>,
    /// Of what it received.
    pub received: Option<UdpReceived>,
    /// Of its machine.
    pub account: Account,
}

/// What the far end saw of round trips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Echoed {
    /// Messages that went back.
    pub messages: u64,
    /// Nanoseconds of CPU time of the echoing threads.
    pub cpu_nanos: u64,
    /// Of its machine.
    pub account: Account,
}

const fn datagram(bytes: u32) -> Result<(), &'static str> {
    if bytes >= 1 && bytes <= MAX_DATAGRAM { Ok(()) } else { Err("a datagram size out of range") }
}

impl Udp {
    pub(super) fn in_range(&self) -> Result<(), &'static str> {
        streams(self.streams)?;
        datagram(self.datagram)?;
        if self.rate == Some(0) {
            return Err("a rate of 0");
        }
        match self.amount {
            Amount::Nanos(nanos) => time(nanos),
            Amount::Messages(1..=MAX_MESSAGES) => Ok(()),
            Amount::Messages(_) => Err("a number of messages out of range"),
        }
    }

    /// How long it lasts, where a time was asked for or follows from the rate.
    pub fn time(&self) -> Option<Duration> {
        match (self.amount, self.rate) {
            (Amount::Nanos(nanos), _) => Some(Duration::from_nanos(nanos)),
            (Amount::Messages(count), Some(rate)) => {
                let seconds = count as f64 * 8.0 * f64::from(self.datagram) / rate as f64;
                Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
            }
            (Amount::Messages(_), None) => None,
        }
    }
}

impl UdpReport {
    pub(super) fn in_range(&self) -> Result<(), &'static str> {
        self.account.in_range()?;
        self.received.as_ref().map_or(Ok(()), |received| received.course.in_range())
    }
}

impl Trips {
    pub(super) fn in_range(&self) -> Result<(), &'static str> {
        streams(self.streams)?;
        time(self.longest)?;
        match self.trip {
            Trip::Udp => datagram(self.message),
            Trip::Tcp | Trip::Connect => size(self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Hex128, Message};

    fn udp() -> Udp {
        Udp {
            streams: 2,
            datagram: 1024,
            direction: Direction::Down,
            amount: Amount::Messages(1000),
            rate: Some(8_192_000),
            tag: 7,
        }
    }

    fn trips(trip: Trip, message: u32) -> Message {
        Message::Trips(Trips { trip, streams: 1, message, waiting: Waiting::Poll, longest: 1, place: 0 })
    }

    #[test]
    fn messages_round_trip() {
        let report = UdpReport {
            received: Some(UdpReceived { jitter_nanos: Some(5), ..UdpReceived::default() }),
            ..UdpReport::default()
        };
        for message in [
            Message::UdpOpen { streams: 3 },
            Message::UdpToken(Hex128::random().unwrap()),
            Message::Port(65_535.try_into().unwrap()),
            Message::Udp(udp()),
            Message::UdpDone(Box::new(report)),
            trips(Trip::Connect, 1 << 20),
            Message::Echoed(Box::default()),
            Message::Enough,
        ] {
            assert_eq!(Message::parse(&message.to_json()), Ok(message));
        }
        assert_eq!(udp().time(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let refused = |message: Message| Message::parse(&message.to_json()).expect_err("out of range");
        assert!(refused(Message::Udp(Udp { datagram: 65_508, ..udp() })).contains("datagram"));
        assert!(refused(Message::Udp(Udp { datagram: 0, ..udp() })).contains("datagram"));
        assert!(refused(Message::Udp(Udp { rate: Some(0), ..udp() })).contains("rate"));
        assert!(refused(Message::Udp(Udp { streams: 0, ..udp() })).contains("streams"));
        assert!(refused(Message::UdpOpen { streams: 60_000 }).contains("streams"));
        assert!(refused(trips(Trip::Udp, 65_508)).contains("datagram"));
        assert!(refused(trips(Trip::Tcp, (1 << 20) + 1)).contains("message size"));
    }
}
