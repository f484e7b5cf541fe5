//! The control connection to an iperf3 server, as a client. Written from what iperf3 3.12 was seen to send and take.
//!
//! The client opens with a cookie of 37 bytes. Then the server says one byte at a time what state the test is in, and
//! the client answers: its parameters, the data connections, the end of the test, its results, good-bye. Parameters
//! and results are JSON after a length of four bytes, most significant first. All that comes is bounded.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::traffic::socket::dial;
use crate::wire::{Gone, HANDSHAKE, RESULTS, Sockets, read_by};

/// Bytes of a cookie, the last of them 0.
const COOKIE: usize = 37;
/// Letters of a cookie.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Longest JSON that is read: far more than results of 128 streams.
const MAX_JSON: u32 = 256 << 10;

/// A state of the test, as its byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Start,
    Running,
    End,
    Parameters,
    Streams,
    Exchange,
    Display,
    Done,
    Denied,
    Error,
}

impl State {
    const ALL: &[(State, i8)] = &[
        (State::Start, 1),
        (State::Running, 2),
        (State::End, 4),
        (State::Parameters, 9),
        (State::Streams, 10),
        (State::Exchange, 13),
        (State::Display, 14),
        (State::Done, 16),
        (State::Denied, -1),
        (State::Error, -2),
    ];

    fn of(byte: u8) -> Option<State> {
        State::ALL.iter().find(|(_, code)| *code == byte.cast_signed()).map(|(state, _)| *state)
    }

    fn byte(self) -> u8 {
        State::ALL.iter().find(|(state, _)| *state == self).map_or(0, |(_, code)| code.cast_unsigned())
    }
}

/// What the client asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Parameters {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tcp: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) udp: Option<bool>,
    pub(super) omit: u32,
    /// Whole seconds; the client ends the test itself, so this is the longest.
    pub(super) time: u64,
    pub(super) num: u64,
    pub(super) blockcount: u64,
    pub(super) parallel: u16,
    pub(super) len: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reverse: Option<bool>,
    /// Bits per second of each stream; 0 is as fast as it goes.
    pub(super) bandwidth: u64,
    pub(super) pacing_timer: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) udp_counters_64bit: Option<u8>,
    pub(super) client_version: &'static str,
}

/// What an end says of a test. Fields that are not needed are passed over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) cpu_util_total: f64,
    pub(super) cpu_util_user: f64,
    pub(super) cpu_util_system: f64,
    /// -1 where it is not known, which some versions write as 2⁶⁴ − 1.
    pub(super) sender_has_retransmits: f64,
    pub(super) streams: Vec<StreamResults>,
}

/// What an end says of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StreamResults {
    pub(super) id: u32,
    pub(super) bytes: u64,
    pub(super) retransmits: f64,
    /// Seconds.
    pub(super) jitter: f64,
    /// Datagrams lost, as far as numbers that came tell.
    pub(super) errors: i64,
    /// Highest number of a datagram, or how many were sent.
    pub(super) packets: u64,
    pub(super) start_time: f64,
    pub(super) end_time: f64,
}

/// The number that iperf3 gives to the stream at this place: 1, 3, 4, 5 …
pub(super) const fn stream_id(place: usize) -> u32 {
    if place == 0 { 1 } else { place as u32 + 2 }
}

/// Why there is no test.
#[derive(Debug, thiserror::Error)]
pub(super) enum TalkError {
    #[error("it is busy with another client; try again later")]
    Denied,
    #[error("it ended the test with an error of its own; see its messages")]
    Ended,
    #[error("it sent the unexpected state {0}; plimsoll supports iperf3 3.1 and later")]
    OutOfTurn(i8),
    #[error("its results cannot be read: {0}")]
    Results(String),
    #[error("it closed the connection")]
    Closed,
    #[error("it was silent for too long")]
    Silent,
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for TalkError {
    fn from(error: io::Error) -> Self {
        match Gone::of(&error) {
            Gone::Closed => TalkError::Closed,
            Gone::Silent => TalkError::Silent,
            Gone::No => TalkError::Io(error),
        }
    }
}

impl TalkError {
    /// What a client meets while the server clears away the last test.
    pub(super) fn is_between_tests(&self) -> bool {
        match self {
            TalkError::Closed => true,
            TalkError::Io(e) => e.kind() == ErrorKind::ConnectionRefused,
            _ => false,
        }
    }
}

/// The control connection of one test.
#[derive(Debug)]
pub(super) struct Talk {
    stream: TcpStream,
    cookie: [u8; COOKIE],
}

impl Talk {
    /// Connects and shows a new cookie.
    pub(super) fn open(server: SocketAddr, from: Option<IpAddr>) -> Result<Self, TalkError> {
        let mut stream = dial(server, from, &Sockets::default(), HANDSHAKE)?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        let mut cookie: [u8; COOKIE] = crate::random::distinct();
        for byte in &mut cookie[..COOKIE - 1] {
            *byte = LETTERS[usize::from(*byte % 32)];
        }
        cookie[COOKIE - 1] = 0;
        stream.write_all(&cookie)?;
        Ok(Talk { stream, cookie })
    }

    /// A data connection of this test.
    pub(super) fn data(&self, server: SocketAddr, from: Option<IpAddr>) -> Result<TcpStream, TalkError> {
        let mut stream = dial(server, from, &Sockets::default(), HANDSHAKE)?;
        stream.write_all(&self.cookie)?;
        Ok(stream)
    }

    /// Waits for one of the states in turn.
    pub(super) fn expect(&mut self, wanted: State) -> Result<(), TalkError> {
        let mut byte = [0];
        self.read(&mut byte, Instant::now() + RESULTS)?;
        match State::of(byte[0]) {
            Some(state) if state == wanted => Ok(()),
            Some(State::Denied) => Err(TalkError::Denied),
            Some(State::Error) => Err(TalkError::Ended),
            _ => Err(TalkError::OutOfTurn(byte[0].cast_signed())),
        }
    }

    /// Says good-bye and waits until the server has ended the test: before that it serves nobody.
    pub(super) fn end(mut self) -> Result<(), TalkError> {
        self.say(State::Done)?;
        match self.read(&mut [0], Instant::now() + RESULTS) {
            Err(TalkError::Closed) => Ok(()),
            Ok(()) => Err(TalkError::Ended),
            Err(e) => Err(e),
        }
    }

    /// Says a state.
    pub(super) fn say(&mut self, state: State) -> Result<(), TalkError> {
        Ok(self.stream.write_all(&[state.byte()])?)
    }

    /// Sends JSON.
    pub(super) fn send(&mut self, value: &impl Serialize) -> Result<(), TalkError> {
        let json = serde_json::to_vec(value).map_err(io::Error::from)?;
        let length = u32::try_from(json.len()).map_err(io::Error::other)?;
        self.stream.write_all(&length.to_be_bytes())?;
        Ok(self.stream.write_all(&json)?)
    }

    /// Reads the server's results; memory grows with what has come, not with what was announced.
    pub(super) fn results(&mut self) -> Result<Results, TalkError> {
        let deadline = Instant::now() + RESULTS;
        let mut length = [0; 4];
        self.read(&mut length, deadline)?;
        let length = u32::from_be_bytes(length);
        if length > MAX_JSON {
            return Err(TalkError::Results(format!("it announces {length} bytes of results")));
        }
        let mut json = Vec::new();
        while json.len() < length as usize {
            let mut piece = [0; 4096];
            let wanted = piece.len().min(length as usize - json.len());
            self.read(&mut piece[..wanted], deadline)?;
            json.extend_from_slice(&piece[..wanted]);
        }
        read_results(&json)
    }

    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> Result<(), TalkError> {
        let mut done = 0;
        while done < buffer.len() {
            done += read_by(&mut self.stream, &mut buffer[done..], deadline)?;
        }
        Ok(())
    }
}

/// Reads results; what cannot be is refused.
fn read_results(json: &[u8]) -> Result<Results, TalkError> {
    let refused = |why: String| TalkError::Results(crate::text::shown_within(&why, 200));
    let results: Results = serde_json::from_slice(json).map_err(|e| refused(e.to_string()))?;
    let possible = |s: &StreamResults| {
        let times = [s.start_time, s.end_time, s.jitter];
        times.iter().all(|t| (0.0..1e6).contains(t)) && s.end_time >= s.start_time && s.bytes < 1 << 60
    };
    match results.streams.iter().all(possible) && results.streams.len() <= 1024 {
        true => Ok(results),
        false => Err(refused("impossible times or counts".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What iperf3 3.12 sent at the end of a UDP test over two streams.
    const SEEN: &str = r#"{"cpu_util_total":1.4,"cpu_util_user":0,"cpu_util_system":1.4,
        "sender_has_retransmits":18446744073709551615,"streams":[
        {"id":1,"bytes":324608,"retransmits":18446744073709551615,"jitter":4.49e-06,"errors":35,"packets":352,"start_time":0,"end_time":0.500497},
        {"id":3,"bytes":324608,"retransmits":18446744073709551615,"jitter":4.7e-06,"errors":35,"packets":352,"start_time":0,"end_time":0.500498}]}"#;

    #[test]
    fn results_are_read() {
        let results = read_results(SEEN.as_bytes()).unwrap();
        assert_eq!(results.streams.iter().map(|s| s.id).collect::<Vec<_>>(), [stream_id(0), stream_id(1)]);
        assert_eq!((results.streams[0].packets, results.streams[0].errors), (352, 35));
        for (from, to) in
            [("0.500497", "-1"), ("\"end_time\":0.500498", "\"end_time\":1e9"), ("324608", "-5"), ("[", "")]
        {
            assert!(matches!(
                read_results(SEEN.replacen(from, to, 1).as_bytes()),
                Err(TalkError::Results(_))
            ));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_results_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read_results(&bytes).is_err());
        }

        #[test]
        fn states_are_bytes(byte: u8) {
            prop_assert!(State::of(byte).is_none_or(|state| state.byte() == byte));
        }
    }
}
