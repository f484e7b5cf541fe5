//! What the two ends of a network benchmark say to each other, apart from what is measured.
//!
//! A connection begins with a handshake of two messages of one fixed size ([`handshake`], Noise NNpsk0): whoever does
//! not know the key gets no answer, and nothing is parsed before. Then come frames ([`frame`]) of bounded length, each
//! sealed, each one [`Message`] of a closed set. A connection that joins a session as a data stream ends its frames
//! with `Joined`, and carries bare bytes from then on: encrypting them would change what is measured.

mod channel;
mod course;
mod datagrams;
pub mod frame;
pub mod handshake;
pub mod key;
mod message;

use std::time::Duration;

pub use channel::read_by;
pub use channel::{Channel, Gone, WireError};
pub use course::{Course, Shaping};
pub use datagrams::{Echoed, Trip, Trips, Udp, UdpReceived, UdpReport, UdpSent, Waiting};
pub use key::Key;
pub use message::{
    Account, Amount, Direction, Hex128, Join, Look, Message, Received, Receiving, Report, Sending, Sent,
    Sockets, Tcp, Welcome,
};

/// Changes whenever a message does. Told in the handshake, so that an end of another version can be named.
pub const PROTOCOL_VERSION: u16 = 5;

/// The TCP and UDP port of `plimsoll serve` if none is named.
pub const PORT: u16 = 7546;

/// How long a handshake may take in all.
pub const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long a request may take in all, from its first byte, and the answer to one that needs no measuring.
pub const REQUEST: Duration = Duration::from_secs(5);

/// How long results may take in all.
pub const RESULTS: Duration = Duration::from_secs(10);

/// In a transfer, the end that sends stops when it has heard nothing for this long.
pub const SILENCE: Duration = Duration::from_secs(1);

/// In a transfer, each end says that it is alive this often.
pub const PULSE: Duration = Duration::from_millis(200);

/// Largest message of a benchmark: both ends hold one in memory.
pub const MAX_MESSAGE: u32 = 1 << 20;

/// Largest datagram: 65535 bytes of IPv4 packet less its header and that of UDP.
pub const MAX_DATAGRAM: u32 = 65_507;

/// Most messages of one transfer: their bytes, and these times 8, can be counted in 64 bits.
pub const MAX_MESSAGES: u64 = (1 << 40) - 1;

/// Most looks at TCP, and most stretches of time, that a report tells: they fit a frame.
pub const MAX_LOOKS: usize = 128;

/// Most streams that any far end serves in one session.
pub const MAX_STREAMS: u16 = 256;

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ends of a control connection.
    pub(crate) fn channels() -> (Channel, Channel) {
        let key = Key::random().unwrap();
        let (near, first) = handshake::Initiator::new(&key).unwrap();
        let answer = handshake::respond(&key, &first).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = Channel::new(stream, near.finish(&answer.message).unwrap());
        (near, Channel::new(listener.accept().unwrap().0, answer.transport.unwrap()))
    }
}
