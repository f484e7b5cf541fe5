//! Control protocol between the two ends of a network benchmark: a handshake ([`handshake`]), then
//! encrypted frames ([`frame`]), each with one [`Message`].

mod channel;
mod datagrams;
#[cfg(test)]
pub(crate) mod fixture;
pub mod frame;
pub mod handshake;
pub mod key;
mod message;
mod timeline;

use std::time::Duration;

pub use channel::{Channel, WireError, is_closed, read_whole};
pub use datagrams::{Echoed, Trip, TripsOrder, UdpOrder, UdpReceived, UdpReport, UdpSent, WaitMode};
pub use key::SharedKey;
pub use message::{
    Direction, EndAccount, EndReport, Hex128, HexBytes, Join, Message, OrderedAmount, Receiving,
    ReceivingReport, Sending, SendingReport, Sockets, TcpLook, TcpOrder, Welcome, is_congestion_control,
};
pub use timeline::{ArrivalTimeline, Shaping};

/// Version of the messages, exchanged in the handshake. It changes whenever a message does.
pub const PROTOCOL_VERSION: u16 = 6;

/// Default TCP and UDP port of `plimsoll serve`.
pub const PORT: u16 = 7546;

/// Timeout of a handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(5);

/// Timeout of a request from its first byte, and of the answer to one without a measurement.
pub const REQUEST: Duration = Duration::from_secs(5);

/// Timeout of results.
pub const RESULTS: Duration = Duration::from_secs(10);

/// Silence of the other end after which a sender stops.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Interval between keep-alives in a transfer.
pub const PULSE: Duration = Duration::from_millis(200);

/// Largest message of a benchmark, bytes: both ends hold one in memory.
pub const MAX_MESSAGE: u32 = 1 << 20;

/// Largest datagram, bytes: an IPv4 packet of 65535 bytes without IP and UDP headers.
pub const MAX_DATAGRAM: u32 = 65_507;

/// Most messages of one transfer: their bytes, and these times 8, can be counted in 64 bits.
pub const MAX_MESSAGES: u64 = (1 << 40) - 1;

/// Most samples and stretches of time in a report, so that it fits in a frame.
pub const MAX_LOOKS: usize = 128;

/// Most streams of a session on any server.
pub const MAX_STREAMS: u16 = 256;
