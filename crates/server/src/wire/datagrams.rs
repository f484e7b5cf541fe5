//! Messages for datagrams and round trips: part of the closed set [`super::Message`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::MAX_DATAGRAM;
use super::message::{Direction, EndAccount, EndReport, OrderedAmount, check, size, streams, time};
use super::timeline::ArrivalTimeline;

/// Request for a transfer of datagrams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpOrder {
    /// Number of streams.
    pub streams: u16,
    /// Datagram size, bytes.
    pub datagram: u32,
    /// Direction.
    pub direction: Direction,
    /// Amount to move.
    pub amount: OrderedAmount,
    /// Target rate per direction over all streams, bit/s; absent for full speed.
    pub rate: Option<u64>,
    /// Tag of the datagrams of this transfer.
    pub tag: u32,
}

/// How the server echoes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trip {
    /// Messages to the UDP sockets.
    Udp,
    /// Messages over the joined TCP streams.
    Tcp,
    /// One message per connection to a separate port.
    Connect,
}

/// How an end waits for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitMode {
    /// Sleeps in the kernel until one arrives.
    Block,
    /// Polls, which keeps the CPU busy.
    Poll,
}

/// Request for round trips, until the client sends [`super::Message::Enough`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TripsOrder {
    /// How messages are echoed.
    pub trip: Trip,
    /// Number of streams.
    pub streams: u16,
    /// Message size, bytes.
    pub message: u32,
    /// How the server waits.
    pub waiting: WaitMode,
    /// Longest duration, ns.
    pub longest: u64,
    /// Index of the server's CPU for its first thread; the next threads follow.
    #[serde(default)]
    pub place: u16,
}

/// Results of a sender of datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpSent {
    /// Datagrams that the kernel accepted.
    pub datagrams: u64,
    /// Time of sending, ns.
    pub nanos: u64,
    /// CPU time of the sending threads, ns.
    pub cpu_nanos: u64,
    /// Whether the kernel segmented datagrams (`UDP_SEGMENT`).
    pub segmented: bool,
}

/// Results of a receiver, in datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpReceived {
    /// Sent according to the sender.
    pub sent: u64,
    /// Received, without duplicates.
    pub received: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Received after one that was sent later.
    pub reordered: u64,
    /// Received too late to be distinguished from duplicates.
    pub stale: u64,
    /// Not part of the transfer.
    pub foreign: u64,
    /// Variation of the transit time (RFC 3550), ns, if datagrams carry their time.
    pub jitter_nanos: Option<u64>,
    /// Time from the first arrival to the last, ns.
    pub span_nanos: u64,
    /// Datagrams dropped because a socket buffer was full, if the kernel reports it.
    pub dropped: Option<u64>,
    /// CPU time of the receiving threads, ns.
    pub cpu_nanos: u64,
    /// Arrivals over time, without duplicates.
    pub timeline: ArrivalTimeline,
}

/// Report of an end on a transfer of datagrams.
pub type UdpReport = EndReport<UdpSent, UdpReceived>;

/// Report of the server on round trips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Echoed {
    /// Messages echoed.
    pub messages: u64,
    /// CPU time of the echoing threads, ns.
    pub cpu_nanos: u64,
    /// Counters of its machine.
    pub account: EndAccount,
}

fn datagram(bytes: u32) -> Result<(), &'static str> {
    check((1..=MAX_DATAGRAM).contains(&bytes), "a datagram size out of range")
}

impl UdpOrder {
    pub(super) fn in_range(&self) -> Result<(), &'static str> {
        streams(self.streams)?;
        datagram(self.datagram)?;
        check(self.rate != Some(0), "a rate of 0")?;
        self.amount.in_range()
    }

    /// Returns the requested time, or messages ÷ rate; `None` for messages without a rate.
    pub fn time(&self) -> Option<Duration> {
        let OrderedAmount::Messages(count) = self.amount else { return self.amount.time() };
        let seconds = count as f64 * 8.0 * f64::from(self.datagram) / self.rate? as f64;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

impl TripsOrder {
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
    use crate::wire::Message;

    fn udp() -> UdpOrder {
        let (direction, amount) = (Direction::Down, OrderedAmount::Messages(1000));
        UdpOrder { streams: 2, datagram: 1024, direction, amount, rate: Some(8_192_000), tag: 7 }
    }

    fn trips(trip: Trip, message: u32) -> Message {
        let waiting = WaitMode::Poll;
        Message::Trips(TripsOrder { trip, streams: 1, message, waiting, longest: 1, place: 0 })
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        assert_eq!(udp().time(), Some(Duration::from_secs(1)));
        for whole in [Message::Udp(udp()), trips(Trip::Connect, 1 << 20)] {
            assert_eq!(Message::parse(&whole.to_json()), Ok(whole));
        }
        let refused = |message: Message| Message::parse(&message.to_json()).expect_err("out of range");
        assert!(refused(Message::Udp(UdpOrder { datagram: 65_508, ..udp() })).contains("datagram"));
        assert!(refused(Message::Udp(UdpOrder { datagram: 0, ..udp() })).contains("datagram"));
        assert!(refused(Message::Udp(UdpOrder { rate: Some(0), ..udp() })).contains("rate"));
        assert!(refused(Message::Udp(UdpOrder { streams: 0, ..udp() })).contains("streams"));
        assert!(refused(Message::UdpOpen { streams: 60_000 }).contains("streams"));
        assert!(refused(trips(Trip::Udp, 65_508)).contains("datagram"));
        assert!(refused(trips(Trip::Tcp, (1 << 20) + 1)).contains("message size"));
    }
}
