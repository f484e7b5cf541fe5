//! What both ends of a network benchmark say to each other on the data connection: pure encoding, and reads that
//! end at a deadline.
//!
//! The near end opens the connection with a [`Token`]; a far end that knows it answers [`WELCOME`], any other
//! answers nothing. Then the near end sends transfers, one after another: a [`Header`], messages whose first byte
//! says whether they are the last ([`is_last`]), and waits for the far end's [`Report`].

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Changes whenever a frame does: both ends must be of one build.
const VERSION: u8 = 1;

/// The far end's answer to the right token.
pub(super) const WELCOME: [u8; 4] = [b'p', b'l', b's', VERSION];

/// How long the connection, a token, a header's rest or a report may take, in all.
pub(super) const PHASE: Duration = Duration::from_secs(5);

/// How long either end waits for the other to take or give a byte within a transfer.
pub(super) const STALL: Duration = Duration::from_secs(10);

/// Largest message: it is allocated at both ends.
pub(super) const MAX_MESSAGE: u32 = 1 << 20;

/// Bytes of a [`Token`].
pub(super) const TOKEN: usize = 16;

/// 128 random bits that prove to the far end that its own parent connects. It travels through a pipe, never through
/// an argument list, which every user of the machine can read.
#[derive(Clone, Copy)]
pub(super) struct Token([u8; TOKEN]);

impl Token {
    /// A new one from the operating system's random source.
    pub(super) fn random() -> Self {
        Token(rand::random())
    }

    /// As hexadecimal digits.
    pub(super) fn to_hex(self) -> String {
        self.0.iter().fold(String::new(), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// The token of exactly 32 hexadecimal digits.
    pub(super) fn from_hex(hex: &str) -> Option<Self> {
        if hex.len() != 2 * TOKEN || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        Some(Token(u128::from_str_radix(hex, 16).ok()?.to_be_bytes()))
    }

    /// Its bytes, as they are sent.
    pub(super) const fn bytes(&self) -> &[u8; TOKEN] {
        &self.0
    }

    /// Whether `other` is this token; takes the same time wherever they differ.
    pub(super) fn matches(&self, other: &[u8; TOKEN]) -> bool {
        self.0.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

/// What a transfer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// The far end counts what arrives.
    Stream,
    /// The far end counts, and hashes every byte with [`Fnv`].
    Checked,
    /// The far end sends every message back.
    Echo,
}

/// The first bytes of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// What to do.
    pub(super) op: Op,
    /// Bytes of every message, 1 to [`MAX_MESSAGE`].
    pub(super) message: u32,
}

impl Header {
    /// Bytes on the wire.
    pub(super) const SIZE: usize = 5;

    /// As bytes.
    pub(super) fn encode(self) -> [u8; Self::SIZE] {
        let op = match self.op {
            Op::Stream => 1,
            Op::Checked => 2,
            Op::Echo => 3,
        };
        let [a, b, c, d] = self.message.to_be_bytes();
        [op, a, b, c, d]
    }

    /// Reads it back; `None` for an unknown operation or a message size out of range.
    pub(super) fn decode([op, a, b, c, d]: [u8; Self::SIZE]) -> Option<Self> {
        let op = match op {
            1 => Op::Stream,
            2 => Op::Checked,
            3 => Op::Echo,
            _ => return None,
        };
        let message = u32::from_be_bytes([a, b, c, d]);
        (1..=MAX_MESSAGE).contains(&message).then_some(Header { op, message })
    }
}

/// What the far end counted in one transfer, by its own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Bytes received.
    pub(super) bytes: u64,
    /// Nanoseconds from the header's arrival to the last byte's.
    pub(super) nanos: u64,
    /// Nanoseconds of CPU time of the far end's thread in that time.
    pub(super) cpu_nanos: u64,
    /// [`Fnv`] of all bytes of a checked transfer, else 0.
    pub(super) hash: u64,
}

impl Report {
    /// Bytes on the wire.
    pub(super) const SIZE: usize = 32;

    /// As bytes.
    pub(super) fn encode(self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        let fields = [self.bytes, self.nanos, self.cpu_nanos, self.hash];
        for (slot, field) in out.chunks_exact_mut(8).zip(fields) {
            slot.copy_from_slice(&field.to_be_bytes());
        }
        out
    }

    /// Reads it back; every value is possible, so the reader judges them.
    pub(super) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        let mut fields = bytes.chunks_exact(8).map(|field| {
            let mut word = [0; 8];
            word.copy_from_slice(field);
            u64::from_be_bytes(word)
        });
        let mut next = || fields.next().unwrap_or_default();
        Report { bytes: next(), nanos: next(), cpu_nanos: next(), hash: next() }
    }
}

/// The first byte of a message: whether it is the last of its transfer, and 7 bits of its number, so that even an
/// echo of one byte can be told from the one before.
pub(super) const fn first_byte(number: u64, last: bool) -> u8 {
    ((number as u8) << 1) | last as u8
}

/// Whether the message that begins with this byte is the last of its transfer.
pub(super) const fn is_last(first_byte: u8) -> bool {
    first_byte & 1 == 1
}

/// Finds the end of a transfer in a stream of bytes that arrive in pieces of any size.
#[derive(Debug)]
pub(super) struct Messages {
    message: u64,
    /// Bytes until the next message begins.
    to_next: u64,
    last_began: bool,
}

impl Messages {
    /// Messages of this many bytes, at least 1.
    pub(super) fn new(message: u32) -> Self {
        Messages { message: u64::from(message.max(1)), to_next: 0, last_began: false }
    }

    /// Takes the next piece; true when it ends the last message. Bytes past the last message are an error.
    pub(super) fn take(&mut self, piece: &[u8]) -> io::Result<bool> {
        let length = piece.len() as u64;
        while !self.last_began && self.to_next < length {
            // Below the length of a slice, so it is an index.
            self.last_began = is_last(piece[self.to_next as usize]);
            self.to_next += self.message;
        }
        if self.last_began && length > self.to_next {
            return Err(io::Error::new(ErrorKind::InvalidData, "bytes after the last message"));
        }
        self.to_next -= length;
        Ok(self.last_began && self.to_next == 0)
    }
}

/// FNV-1a, 64 bit, over the bytes of a checked transfer: it finds faults, it keeps nobody out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fnv(pub(super) u64);

impl Fnv {
    /// The hash of nothing.
    pub(super) const EMPTY: Fnv = Fnv(0xcbf2_9ce4_8422_2325);

    /// With these bytes added.
    pub(super) fn with(self, bytes: &[u8]) -> Self {
        Fnv(bytes
            .iter()
            .fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)))
    }
}

/// Fills `buffer` before `deadline`, however slowly the bytes come. Leaves a read timeout on the stream.
pub(super) fn read_exact_by(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        done += read_some(stream, &mut buffer[done..])?;
    }
    Ok(())
}

/// Reads at least one byte within the stream's own timeout.
pub(super) fn read_some(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => return Ok(n),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            // What a socket's timeout gives on Linux.
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(e) => return Err(e),
        }
    }
}

/// CPU time that this thread has used so far.
pub(super) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Nanoseconds, held at the largest number there is.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_differ_and_round_trip() {
        let (one, two) = (Token::random(), Token::random());
        assert!(!one.matches(two.bytes()));
        assert!(Token::from_hex(&one.to_hex()).unwrap().matches(one.bytes()));
        for wrong in
            ["", "+0000000000000000000000000000001", &"0".repeat(31), &"0".repeat(33), &"g".repeat(32)]
        {
            assert!(Token::from_hex(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn headers_out_of_range_are_refused() {
        let good = Header { op: Op::Echo, message: MAX_MESSAGE };
        assert_eq!(Header::decode(good.encode()), Some(good));
        assert_eq!(Header::decode([1, 0, 0, 0, 0]), None);
        assert_eq!(Header::decode([1, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(Header::decode([0, 0, 0, 0, 1]), None);
        assert_eq!(Header::decode(*b"GET /"), None);
    }

    #[test]
    fn the_published_hash() {
        assert_eq!(Fnv::EMPTY.with(b"foo").with(b"bar"), Fnv(0x8594_4171_f739_67e8));
    }

    proptest! {
        #[test]
        fn reports_round_trip(bytes: u64, nanos: u64, cpu_nanos: u64, hash: u64) {
            let report = Report { bytes, nanos, cpu_nanos, hash };
            prop_assert_eq!(Report::decode(&report.encode()), report);
        }

        #[test]
        fn the_end_is_found_however_the_bytes_are_cut(
            message in 1u32..50, count in 1u64..40, cuts in prop::collection::vec(1usize..60, 1..40), surplus in 0usize..2,
        ) {
            let mut bytes = Vec::new();
            for number in 0..count {
                // Odd filler: only the first byte of a message may say that it is the last.
                bytes.push(first_byte(number, number + 1 == count));
                bytes.extend(std::iter::repeat_n(0xffu8, message as usize - 1));
            }
            bytes.extend(std::iter::repeat_n(1u8, surplus));
            let mut messages = Messages::new(message);
            let (mut rest, mut ended, mut refused) = (bytes.as_slice(), false, false);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() || ended || refused { break; }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                match messages.take(piece) {
                    Ok(end) => ended = end,
                    Err(_) => refused = true,
                }
                rest = after;
            }
            // Exactly at the last byte, never before; a surplus in the same piece is refused.
            prop_assert!(ended != refused);
            prop_assert!(!ended || rest.len() == surplus);
            prop_assert!(!refused || surplus > 0);
        }
    }
}
