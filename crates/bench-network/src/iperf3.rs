//! Client for an iperf3 server (`--server iperf3://HOST[:PORT]`), as observed with iperf3 3.12.
//! Each sample is one test. All input is bounded. Upwards, lost datagrams are the difference to the
//! client's count, which includes a lost tail (iperf3 counts only gaps).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::condition::{END_CPU, OFFERED, TCP_RETRANSMITS};
use crate::fact::FAR_END_PROGRAM;
use crate::job::NetworkJob;
use crate::lost_link::lost_links;
use crate::path::Path;
use crate::server::{Address, SCHEME};
use crate::session::dropped_here;
use crate::{CPU_METRIC, EndPlacement, GOODPUT, LOSS, MESSAGES_METRIC, random_bytes};
use crate::{JITTER, lost_link};
use plimsoll_bench_api::prelude::*;
use plimsoll_server::traffic::link_watch::LinkWatch;
use plimsoll_server::traffic::send::{SendEnd, SendOrders, StreamSent, send};
use plimsoll_server::traffic::socket::{bind_address, dial};
use plimsoll_server::traffic::udp::account::{DatagramLayout, DatagramTally, StreamAccount};
use plimsoll_server::traffic::udp::flow::{self, FlowEnd, FlowShape, UNKNOWN_COUNT};
use plimsoll_server::traffic::udp::pace::DatagramPace;
use plimsoll_server::traffic::{SharedTransfer, is_dropped_here, nothing_yet, thread_cpu};
use plimsoll_server::wire::{Direction, HANDSHAKE, Sending, Sockets};
use plimsoll_server::wire::{Gone, RESULTS, read_before};

const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time of retries after a refused connection: the port is closed between two tests.
const CLOSED_TIMEOUT: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// First datagram of a stream, which shows the server the client's address. Native byte order.
const HELLO: u32 = 0x3637_3839;
/// Answers to [`HELLO`]: the current one and those of versions before 3.10.
const HELLO_ANSWERS: [u32; 3] = [0x3938_3736, HELLO, 987_654_321];
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Smallest datagram, bytes: it must hold iperf3's header.
const MIN_DATAGRAM: u64 = 16;
const SUPPORTED: &[&str] = &["server", "message", "streams", "direction", "rate", "bind"];
const COOKIE_BYTES: usize = 37;
const COOKIE_LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Longest JSON that is read, bytes: far more than the results of 128 streams.
const MAX_JSON_BYTES: u32 = 256 << 10;

pub(super) fn is_for(case: &Case) -> bool {
    case.word("server").is_some_and(|server| server.starts_with(SCHEME))
}

pub(super) fn check(case: &Case) -> Result<(), String> {
    if !is_for(case) {
        return Ok(());
    }
    if let Some((name, _)) = case.params().iter().find(|(name, _)| !SUPPORTED.contains(name)) {
        return Err(format!(
            "--{name} is not supported on an iperf3 server: leave it out, or use plimsoll serve"
        ));
    }
    if case.word("direction") == Some("both") {
        return Err("--direction both is not supported on an iperf3 server: use up or down".to_owned());
    }
    match case.number("message") {
        Some(bytes) if case.benchmark() == "network.udp" && bytes < MIN_DATAGRAM => Err(format!(
            "message must be at least {MIN_DATAGRAM} with an iperf3 server (its header): {bytes} is not"
        )),
        _ => Ok(()),
    }
}

/// States of a test, as each end sends them.
const STATE_START: i8 = 1;
const STATE_RUNNING: i8 = 2;
const STATE_END: i8 = 4;
const STATE_PARAMETERS: i8 = 9;
const STATE_STREAMS: i8 = 10;
const STATE_EXCHANGE: i8 = 13;
const STATE_DISPLAY: i8 = 14;
const STATE_DONE: i8 = 16;
const STATE_DENIED: i8 = -1;
const STATE_FAILED: i8 = -2;

#[derive(Debug, Deserialize)]
struct ServerResults {
    streams: Vec<StreamResults>,
}

#[derive(Debug, Deserialize)]
struct StreamResults {
    id: usize,
    bytes: u64,
    /// -1 if unknown, which some versions write as 2⁶⁴ − 1.
    #[serde(default)]
    retransmits: f64,
    jitter: f64,
    packets: u64,
    start_time: f64,
    end_time: f64,
}

impl ServerResults {
    fn parse(json: &[u8]) -> Result<Self, TestError> {
        let refused = |why: &str| TestError::results(&plimsoll_units::text::shown_within(why, 200));
        let results: Self = serde_json::from_slice(json).map_err(|e| refused(&e.to_string()))?;
        let is_possible = |s: &StreamResults| {
            let times = [s.start_time, s.end_time, s.jitter];
            times.iter().all(|t| (0.0..1e6).contains(t)) && s.end_time >= s.start_time && s.bytes < 1 << 60
        };
        match results.streams.iter().all(is_possible) && results.streams.len() <= 1024 {
            true => Ok(results),
            false => Err(refused("impossible times or counts")),
        }
    }

    /// Returns the number of datagrams that the server sent in the stream with index `place`; 0 if
    /// its results lack the stream.
    fn datagrams(&self, place: usize) -> u64 {
        let own = self.streams.iter().find(|s| s.id == stream_id(place));
        own.map_or(0, |s| s.packets.min(UNKNOWN_COUNT - 1))
    }
}

/// Returns iperf3's number of the stream with index `place`: 1, 3, 4, 5 …
const fn stream_id(place: usize) -> usize {
    if place == 0 { 1 } else { place + 2 }
}

#[derive(Debug, thiserror::Error)]
enum TestError {
    #[error("it is busy with another client; try again later")]
    Busy,
    #[error("it closed the connection")]
    Closed,
    #[error("{0}")]
    Protocol(String),
    #[error("{0}")]
    Io(io::Error),
}

impl TestError {
    fn results(why: &str) -> Self {
        Self::Protocol(format!("its results cannot be read: {why}"))
    }
}

impl From<io::Error> for TestError {
    fn from(error: io::Error) -> Self {
        match Gone::of(&error) {
            Gone::Closed => Self::Closed,
            Gone::Silent => Self::Protocol("it was silent for too long".to_owned()),
            Gone::No => Self::Io(error),
        }
    }
}

#[derive(Debug)]
struct Control {
    stream: TcpStream,
    cookie: [u8; COOKIE_BYTES],
}

impl Control {
    fn open(server: SocketAddr, from: Option<IpAddr>) -> Result<Self, TestError> {
        let mut cookie: [u8; COOKIE_BYTES] = plimsoll_system::random::unique_bytes();
        cookie.iter_mut().for_each(|byte| *byte = COOKIE_LETTERS[usize::from(*byte % 32)]);
        cookie[COOKIE_BYTES - 1] = 0;
        let mut stream = dial(server, from, &Sockets::default(), HANDSHAKE)?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        stream.write_all(&cookie)?;
        let mut control = Self { stream, cookie };
        control.expect(STATE_PARAMETERS)?;
        Ok(control)
    }

    fn expect(&mut self, wanted: i8) -> Result<(), TestError> {
        match self.read(1, Instant::now() + RESULTS)?.first().map_or(0, |byte| byte.cast_signed()) {
            byte if byte == wanted => Ok(()),
            STATE_DENIED => Err(TestError::Busy),
            STATE_FAILED => Err(TestError::Protocol(
                "it ended the test with an error of its own; see its messages".to_owned(),
            )),
            byte => Err(TestError::Protocol(format!(
                "it sent the unexpected state {byte}; plimsoll supports iperf3 3.1 and later"
            ))),
        }
    }

    fn send_state(&mut self, state: i8) -> Result<(), TestError> {
        Ok(self.stream.write_all(&[state.cast_unsigned()])?)
    }

    fn send(&mut self, value: &Value) -> Result<(), TestError> {
        let json = value.to_string();
        let length = u32::try_from(json.len()).map_err(io::Error::other)?;
        self.stream.write_all(&length.to_be_bytes())?;
        Ok(self.stream.write_all(json.as_bytes())?)
    }

    /// Reads exactly `length` bytes: a state, a length, or at most [`MAX_JSON_BYTES`] of results.
    fn read(&mut self, length: u32, deadline: Instant) -> Result<Vec<u8>, TestError> {
        let (mut all, mut count) = (vec![0; length as usize], 0);
        while count < all.len() {
            count += read_before(&mut self.stream, &mut all[count..], deadline)?;
        }
        Ok(all)
    }

    /// Ends the test, sends the totals `own` per stream and returns the server's results. Waits
    /// until the server closes, since it accepts no other test before.
    fn finish(mut self, own: &[StreamTotals]) -> Result<ServerResults, TestError> {
        self.send_state(STATE_END)?;
        self.expect(STATE_EXCHANGE)?;
        let stream = |(place, moved): (usize, &StreamTotals)| {
            json!({
                "id": stream_id(place), "bytes": moved.bytes, "packets": moved.datagrams, "retransmits": -1, "jitter": 0, "errors": 0,
                "start_time": 0, "end_time": moved.elapsed.as_secs_f64(),
            })
        };
        self.send(&json!({
            "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0, "sender_has_retransmits": 0,
            "streams": own.iter().enumerate().map(stream).collect::<Vec<_>>(),
        }))?;
        let deadline = Instant::now() + RESULTS;
        let length = self.read(4, deadline)?.try_into().map_or(0, u32::from_be_bytes);
        if length > MAX_JSON_BYTES {
            return Err(TestError::results(&format!("it announces {length} bytes of results")));
        }
        let results = ServerResults::parse(&self.read(length, deadline)?)?;
        self.expect(STATE_DISPLAY)?;
        self.send_state(STATE_DONE)?;
        match self.read(1, Instant::now() + RESULTS) {
            Err(TestError::Closed) => Ok(results),
            Ok(_) => Err(TestError::Protocol("it did not end the test".to_owned())),
            Err(e) => Err(e),
        }
    }
}

#[derive(Debug)]
enum DataConnection {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

#[derive(Debug)]
struct Iperf3Streams {
    until: FlowEnd,
    started: Instant,
    shared: SharedTransfer,
}

#[derive(Debug, Default)]
struct StreamTotals {
    bytes: u64,
    datagrams: u64,
    elapsed: Duration,
    cpu: Duration,
    received: Option<StreamAccount>,
}

/// Client that runs one test per sample against an iperf3 server.
#[derive(Debug)]
pub(super) struct Client {
    server: SocketAddr,
    path: Path,
    links: LinkWatch,
    from: Option<IpAddr>,
    placement: EndPlacement,
    datagrams: bool,
    streams: u16,
    down: bool,
    rate: Option<f64>,
    message: Vec<u8>,
}

impl Client {
    pub(super) fn new(
        address: &Address,
        job: &NetworkJob,
        datagrams: bool,
        seed: u64,
        machine: &Machine,
    ) -> Result<Self, CannotMeasure> {
        let from = job.from;
        let is_usable = |a: &SocketAddr| from.is_none_or(|from| from.is_ipv4() == a.is_ipv4());
        let server = address.resolve()?.into_iter().find(is_usable).ok_or_else(|| {
            CannotMeasure::server_failed("the iperf3 server has no address of the same IP version as --bind")
        })?;
        Ok(Client {
            server,
            links: LinkWatch::start_on_route(server),
            path: Path::to(server, Some(machine)).with_copy_rate(),
            from,
            placement: EndPlacement::on_separate_cpus(machine),
            datagrams,
            streams: job.streams,
            down: job.direction == Direction::Down,
            rate: job.rate,
            message: random_bytes(job.message as usize, seed),
        })
    }

    /// Opens a test. Retries for a while if the server is busy or still ends its last test.
    fn open_test(&self) -> Result<Control, TestError> {
        let begun = Instant::now();
        loop {
            let opened = Control::open(self.server, self.from);
            let timeout = match &opened {
                Err(TestError::Busy) => BUSY_TIMEOUT,
                Err(TestError::Closed) => CLOSED_TIMEOUT,
                Err(TestError::Io(e)) if e.kind() == ErrorKind::ConnectionRefused => CLOSED_TIMEOUT,
                _ => return opened,
            };
            if begun.elapsed() > timeout {
                return opened;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    fn parameters(&self, longest: Duration) -> Value {
        let protocol = if self.datagrams { "udp" } else { "tcp" };
        let mut all = json!({
            protocol: true, "omit": 0, "time": longest.as_secs() + 1, "num": 0, "blockcount": 0, "parallel": self.streams,
            "len": self.message.len(), "pacing_timer": 1000, "client_version": "3.12",
            "bandwidth": self.rate.map_or(0, |rate| (rate / f64::from(self.streams)).max(1.0) as u64),
        });
        if self.down {
            all["reverse"] = true.into();
        }
        if self.datagrams {
            all["udp_counters_64bit"] = 1.into();
        }
        all
    }

    fn stream(&self, cookie: &[u8]) -> io::Result<DataConnection> {
        if !self.datagrams {
            let mut stream = dial(self.server, self.from, &Sockets::default(), HANDSHAKE)?;
            stream.write_all(cookie)?;
            return Ok(DataConnection::Tcp(stream));
        }
        let any: IpAddr = if self.server.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
        let socket = flow::open(bind_address(self.from.unwrap_or(any), self.server))?;
        socket.connect(self.server)?;
        socket.set_read_timeout(Some(HELLO_TIMEOUT / 5))?;
        let deadline = Instant::now() + HELLO_TIMEOUT;
        // Sent only once: the server would take a second one for that of the next stream.
        socket.send(&HELLO.to_ne_bytes())?;
        while Instant::now() < deadline {
            let mut answer = [0; 64];
            match socket.recv(&mut answer) {
                Ok(4) if HELLO_ANSWERS.iter().any(|a| answer[..4] == a.to_ne_bytes()) => {
                    return Ok(DataConnection::Udp(socket));
                }
                Ok(_) => {}
                Err(e) if nothing_yet(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    /// Moves the data of stream `number` in the direction of the test. A download ends at the stop
    /// of the test, or with UDP when the server's count of datagrams have arrived.
    fn run_stream(
        &self,
        number: usize,
        stream: &DataConnection,
        test: &Iperf3Streams,
    ) -> io::Result<StreamTotals> {
        let Iperf3Streams { until, started, shared } = test;
        let size = self.message.len();
        match (stream, self.down) {
            (DataConnection::Tcp(stream), false) => {
                let until = match *until {
                    FlowEnd::Elapsed(time) => SendEnd::Elapsed(time),
                    FlowEnd::Datagrams(messages) => SendEnd::Messages(messages),
                };
                let (message, sending, most) = (self.message.as_slice(), Sending::Copy, f64::INFINITY);
                let sent = send(stream, SendOrders { message, until, sending, most }, shared)?;
                let StreamSent { bytes, elapsed, cpu, .. } = sent;
                Ok(StreamTotals { bytes, elapsed, cpu, ..StreamTotals::default() })
            }
            (DataConnection::Tcp(stream), true) => read(stream, test),
            (DataConnection::Udp(socket), false) => {
                let pace =
                    self.rate.and_then(|rate| DatagramPace::new(rate, size, usize::from(self.streams)));
                let shape = FlowShape { size, pace, layout: DatagramLayout::Iperf3, tag: 0, until: *until };
                let sent = flow::send(socket, shape, &self.message, &shared.stop)?;
                let (datagrams, cpu) = (sent.datagrams, sent.cpu);
                let elapsed = (sent.began + sent.elapsed).saturating_duration_since(*started);
                Ok(StreamTotals { bytes: datagrams * size as u64, datagrams, elapsed, cpu, received: None })
            }
            (DataConnection::Udp(socket), true) => {
                let account = StreamAccount::with_layout(DatagramLayout::Iperf3, size, 0);
                let unknown = AtomicU64::new(UNKNOWN_COUNT);
                let total = shared.totals.get(number).unwrap_or(&unknown);
                let received = flow::receive(socket, account, size, total, *started, &shared.stop)?;
                Ok(StreamTotals {
                    cpu: received.cpu,
                    received: Some(received.account),
                    ..StreamTotals::default()
                })
            }
        }
    }

    /// Runs one test until `until`. Returns the client's totals per stream and the server's report.
    fn test(&self, until: FlowEnd) -> Result<(Vec<StreamTotals>, ServerResults), TestError> {
        let time = match until {
            FlowEnd::Elapsed(time) => time,
            // The server aborts longer tests.
            FlowEnd::Datagrams(_) => Duration::from_secs(60),
        };
        let mut control = self.open_test()?;
        control.send(&self.parameters(time))?;
        control.expect(STATE_STREAMS)?;
        let streams: Vec<DataConnection> =
            (0..self.streams).map(|_| self.stream(&control.cookie)).collect::<io::Result<_>>()?;
        control.expect(STATE_START)?;
        control.expect(STATE_RUNNING)?;
        let shared = SharedTransfer::new(streams.len())?;
        let running = Iperf3Streams { until, started: Instant::now(), shared };
        std::thread::scope(|scope| {
            let spawn = |(number, stream)| {
                let running = &running;
                scope.spawn(move || {
                    let _pinned = self.placement.near.pin(number);
                    self.run_stream(number, stream, running)
                })
            };
            let threads: Vec<_> = streams.iter().enumerate().map(spawn).collect();
            let joined = || -> io::Result<Vec<StreamTotals>> {
                let panicked =
                    "a thread of plimsoll panicked: this is a bug, please report it with the output above";
                let joined = threads.into_iter().map(|thread| thread.join());
                joined.map(|ended| ended.unwrap_or_else(|_| Err(io::Error::other(panicked)))).collect()
            };
            if !self.down {
                let own = joined()?;
                let theirs = control.finish(&own)?;
                return Ok((own, theirs));
            }
            std::thread::sleep(time);
            let none = |_| StreamTotals { elapsed: time, ..StreamTotals::default() };
            let theirs = control.finish(&streams.iter().map(none).collect::<Vec<_>>());
            if let Ok(theirs) = &theirs {
                let totals = (0..streams.len()).map(|place| theirs.datagrams(place));
                running.shared.set_totals(&totals.collect::<Vec<_>>());
            }
            running.shared.stop.store(!self.datagrams || theirs.is_err(), Ordering::Relaxed);
            let own = joined()?;
            Ok((own, theirs?))
        })
    }

    fn failed(&self, error: &TestError) -> CannotMeasure {
        match error {
            TestError::Io(e) if is_dropped_here(e) => dropped_here(self.server),
            _ => CannotMeasure::server_failed(format!(
                "no figure from the iperf3 server at {}: {error}; check that iperf3 -s runs there",
                self.server
            )),
        }
    }

    fn figures(&self, own: Vec<StreamTotals>, theirs: &ServerResults) -> Result<Sample, TestError> {
        let size = self.message.len() as f64;
        let cpu = own.iter().map(|moved| moved.cpu).sum::<Duration>().as_secs_f64();
        let elapsed = own.iter().map(|moved| moved.elapsed).max().unwrap_or_default().as_secs_f64();
        let sent: u64 = own.iter().map(|moved| moved.bytes).sum();
        let streams = &theirs.streams;
        let of_server = streams.iter().map(|s| s.end_time - s.start_time).fold(0.0, f64::max);
        let reported = streams.iter().map(|s| s.bytes).fold(0, u64::saturating_add);
        let (sent, bytes, seconds, jitter) = match (self.datagrams, self.down) {
            (false, false) => (sent, reported, of_server, None),
            (false, true) => (sent, sent, elapsed, None),
            (true, false) => {
                let jitter = streams.iter().map(|s| s.jitter).sum::<f64>() / streams.len().max(1) as f64;
                (sent, reported, of_server.max(elapsed), Some(jitter))
            }
            (true, true) => {
                let mut all = DatagramTally::default();
                for (place, account) in own.into_iter().filter_map(|moved| moved.received).enumerate() {
                    let tally = account.conclude(theirs.datagrams(place));
                    all = all.and(tally.map_err(|e| TestError::results(&e.to_string()))?);
                }
                let bytes = [all.sent, all.received].map(|count| count * self.message.len() as u64);
                let seconds = of_server.max(all.span() as f64 * 1e-9);
                (bytes[0], bytes[1], seconds, all.jitter.map(|nanos| nanos * 1e-9))
            }
        };
        if bytes > sent || seconds <= 0.0 {
            return Err(TestError::results(&format!(
                "{bytes} bytes in {seconds} s of the {sent} that were sent"
            )));
        }
        let goodput = bytes as f64 * 8.0 / seconds;
        let loss = if self.datagrams { 1.0 - bytes as f64 / sent.max(1) as f64 } else { 0.0 };
        // CPU time of the client only: the server reports none that could be added.
        let per_byte = cpu / bytes.max(1) as f64;
        let mut values = vec![
            (GOODPUT, goodput),
            (MESSAGES_METRIC, goodput / 8.0 / size),
            (LOSS.name, loss),
            (CPU_METRIC, per_byte),
        ];
        values.extend(jitter.map(|jitter| (JITTER, jitter)));
        let mut more = self.path.conditions();
        more.set_of(&END_CPU, "near", cpu / seconds);
        if self.datagrams {
            more.set(&OFFERED, sent as f64 * 8.0 / seconds);
        } else if self.down {
            let known = streams.iter().map(|s| s.retransmits).filter(|n| (0.0..1e15).contains(n));
            more.set(&TCP_RETRANSMITS, known.sum());
        }
        Ok(Sample {
            elapsed: seconds,
            values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            conditions: Conditions { more, ..Conditions::default() },
            ..Sample::default()
        })
    }
}

/// Receives until the time of the test is over, then without counting until `stop`.
fn read(mut stream: &TcpStream, test: &Iperf3Streams) -> io::Result<StreamTotals> {
    stream.set_read_timeout(Some(POLL_INTERVAL))?;
    let mut buffer = vec![0; 128 << 10];
    let cpu = thread_cpu();
    let mut moved = StreamTotals::default();
    while !test.shared.stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let elapsed = test.started.elapsed();
                if !matches!(test.until, FlowEnd::Elapsed(time) if elapsed > time) {
                    moved.bytes += count as u64;
                    (moved.elapsed, moved.cpu) = (elapsed, thread_cpu().saturating_sub(cpu));
                }
            }
            Err(e) if nothing_yet(&e) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
            Err(e) => return Err(e),
        }
    }
    Ok(moved)
}

impl Prepared for Client {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let until = match amount {
            SampleAmount::Seconds(s) => FlowEnd::Elapsed(Duration::from_secs_f64(s.clamp(0.01, 86_400.0))),
            SampleAmount::Work(_) if self.down => {
                return Err(CannotMeasure::not_here(
                    "--direction down with an iperf3 server requires --sample-time: a fixed amount is not supported",
                ));
            }
            SampleAmount::Work(messages) => {
                FlowEnd::Datagrams(messages.div_ceil(u64::from(self.streams)).max(1))
            }
        };
        let tested = self.test(until).and_then(|(own, theirs)| self.figures(own, &theirs));
        tested.map_err(|e| self.failed(&e))
    }

    /// Always succeeds: iperf3 reports no content, and the counts are checked after each test.
    fn verify(&mut self) -> Result<(), CannotMeasure> {
        Ok(())
    }

    fn facts(&self) -> Facts {
        let mut facts = self.placement.facts(&self.path.name(), self.server);
        facts.achieved.set(&FAR_END_PROGRAM, "iperf3");
        lost_link::add_warnings(lost_links(self.links.losses(), &[]), &mut facts);
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Results that iperf3 3.12 sent after a UDP test over two streams.
    const SEEN: &str = r#"{"cpu_util_total":1.4,"cpu_util_user":0,"cpu_util_system":1.4,
        "sender_has_retransmits":18446744073709551615,"streams":[
        {"id":1,"bytes":324608,"retransmits":18446744073709551615,"jitter":4.49e-06,"errors":35,"packets":352,"start_time":0,"end_time":0.500497},
        {"id":3,"bytes":324608,"retransmits":18446744073709551615,"jitter":4.7e-06,"errors":35,"packets":352,"start_time":0,"end_time":0.500498}]}"#;

    #[test]
    fn results_are_read() {
        let results = ServerResults::parse(SEEN.as_bytes()).unwrap();
        assert_eq!(results.streams.iter().map(|s| s.id).collect::<Vec<_>>(), [stream_id(0), stream_id(1)]);
        assert_eq!((results.datagrams(1), results.streams[0].bytes), (352, 324_608));
        for (from, to) in
            [("0.500497", "-1"), ("\"end_time\":0.500498", "\"end_time\":1e9"), ("324608", "-5"), ("[", "")]
        {
            assert!(matches!(
                ServerResults::parse(SEEN.replacen(from, to, 1).as_bytes()),
                Err(TestError::Protocol(_))
            ));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_results_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(ServerResults::parse(&bytes).is_err());
        }
    }
}
