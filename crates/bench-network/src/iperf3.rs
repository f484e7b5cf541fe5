//! Client for an iperf3 server (`--server iperf3://HOST[:PORT]`), as observed with iperf3 3.12.
//! Each sample is one test. All input is bounded. Upwards, lost datagrams are the difference to the
//! client's count, which includes a lost tail (iperf3 counts only gaps).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
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
use crate::{CPU_METRIC, EndPlacement, GOODPUT, JITTER, LOSS, MESSAGES_METRIC, lost_link, random_bytes};
use plimsoll_bench_api::prelude::*;
use plimsoll_server::traffic::link_watch::LinkWatch;
use plimsoll_server::traffic::send::send;
use plimsoll_server::traffic::socket::{bind_address, dial};
use plimsoll_server::traffic::udp::account::{DatagramLayout, StreamAccount, conclude};
use plimsoll_server::traffic::udp::flow::{self, FlowShape, UNKNOWN_COUNT};
use plimsoll_server::traffic::udp::pace::DatagramPace;
use plimsoll_server::traffic::{SharedTransfer, is_dropped_here, nanos, nothing_yet, thread_cpu};
use plimsoll_server::wire::{Direction, HANDSHAKE, OrderedAmount, Sending, Sockets};
use plimsoll_server::wire::{Gone, RESULTS, read_before};
use plimsoll_units::text::shown_within;

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
    fn parse(json: &[u8]) -> io::Result<Self> {
        let results: Self =
            serde_json::from_slice(json).map_err(|e| unreadable(&shown_within(&e.to_string(), 200)))?;
        let is_possible = |s: &StreamResults| {
            let times = [s.start_time, s.end_time, s.jitter];
            times.iter().all(|t| (0.0..1e6).contains(t)) && s.end_time >= s.start_time && s.bytes < 1 << 60
        };
        match results.streams.iter().all(is_possible) && results.streams.len() <= 1024 {
            true => Ok(results),
            false => Err(unreadable("impossible times or counts")),
        }
    }

    /// Returns the number of datagrams that the server sent in the stream with index `place`; 0 if
    /// its results lack the stream.
    fn datagrams(&self, place: usize) -> u64 {
        let own = self.streams.iter().find(|s| s.id == stream_id(place));
        own.map_or(0, |s| s.packets.min(UNKNOWN_COUNT - 1))
    }
}

fn unreadable(why: &str) -> io::Error {
    io::Error::other(format!("its results cannot be read: {why}"))
}

/// Returns iperf3's number of the stream with index `place`: 1, 3, 4, 5 …
const fn stream_id(place: usize) -> usize {
    if place == 0 { 1 } else { place + 2 }
}

fn expect(control: &mut TcpStream, wanted: i8) -> io::Result<()> {
    let why = match read(control, 1, Instant::now() + RESULTS)?[0].cast_signed() {
        state if state == wanted => return Ok(()),
        STATE_DENIED => {
            let why = "it is busy with another client; try again later";
            return Err(io::Error::new(ErrorKind::ResourceBusy, why));
        }
        STATE_FAILED => "it ended the test with an error of its own; see its messages".to_owned(),
        state => format!("it sent the unexpected state {state}; plimsoll supports iperf3 3.1 and later"),
    };
    Err(io::Error::other(why))
}

fn send_json(control: &mut TcpStream, value: &Value) -> io::Result<()> {
    let json = value.to_string();
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    control.write_all(&length.to_be_bytes())?;
    control.write_all(json.as_bytes())
}

/// Reads exactly `length` bytes: a state, a length, or at most [`MAX_JSON_BYTES`] of results.
fn read(control: &mut TcpStream, length: u32, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut all, mut count) = (vec![0; length as usize], 0);
    while count < all.len() {
        count += read_before(control, &mut all[count..], deadline)?;
    }
    Ok(all)
}

/// Ends the test, sends the totals `own` per stream and returns the server's results. Waits until
/// the server closes, since it accepts no other test before.
fn finish(mut control: TcpStream, own: &[StreamTotals]) -> io::Result<ServerResults> {
    control.write_all(&[STATE_END.cast_unsigned()])?;
    expect(&mut control, STATE_EXCHANGE)?;
    let stream = |(place, moved): (usize, &StreamTotals)| {
        json!({
            "id": stream_id(place), "bytes": moved.bytes, "packets": moved.datagrams, "retransmits": -1, "jitter": 0, "errors": 0,
            "start_time": 0, "end_time": moved.elapsed.as_secs_f64(),
        })
    };
    let totals = json!({
        "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0, "sender_has_retransmits": 0,
        "streams": own.iter().enumerate().map(stream).collect::<Vec<_>>(),
    });
    send_json(&mut control, &totals)?;
    let deadline = Instant::now() + RESULTS;
    let length = read(&mut control, 4, deadline)?.try_into().map_or(0, u32::from_be_bytes);
    if length > MAX_JSON_BYTES {
        return Err(unreadable(&format!("it announces {length} bytes of results")));
    }
    let results = ServerResults::parse(&read(&mut control, length, deadline)?)?;
    expect(&mut control, STATE_DISPLAY)?;
    control.write_all(&[STATE_DONE.cast_unsigned()])?;
    match read(&mut control, 1, Instant::now() + RESULTS) {
        Err(e) if Gone::of(&e) == Gone::Closed => Ok(results),
        Ok(_) => Err(io::Error::other("it did not end the test")),
        Err(e) => Err(e),
    }
}

#[derive(Debug)]
enum DataConnection {
    Tcp(TcpStream),
    Udp(UdpSocket),
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
    placement: EndPlacement,
    datagrams: bool,
    down: bool,
    job: NetworkJob,
    message: Vec<u8>,
}

impl Client {
    pub(super) fn new(
        address: &Address,
        job: NetworkJob,
        datagrams: bool,
        seed: u64,
        machine: &Machine,
    ) -> Result<Self, CannotMeasure> {
        let is_usable = |a: &SocketAddr| job.from.is_none_or(|from| from.is_ipv4() == a.is_ipv4());
        let server = address.resolve()?.into_iter().find(is_usable).ok_or_else(|| {
            CannotMeasure::server_failed("the iperf3 server has no address of the same IP version as --bind")
        })?;
        Ok(Client {
            server,
            links: LinkWatch::start_on_route(server),
            path: Path::to(server, Some(machine)).with_copy_rate(),
            placement: EndPlacement::on_separate_cpus(machine),
            datagrams,
            down: job.direction == Direction::Down,
            message: random_bytes(job.message as usize, seed),
            job,
        })
    }

    fn connect(&self, cookie: &[u8]) -> io::Result<TcpStream> {
        let mut stream = dial(self.server, self.job.from, &Sockets::default(), HANDSHAKE)?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        stream.write_all(cookie)?;
        Ok(stream)
    }

    /// Opens a test. Retries for a while if the server is busy or still ends its last test. Returns
    /// its control connection, and the cookie of its streams.
    fn open(&self) -> io::Result<(TcpStream, [u8; COOKIE_BYTES])> {
        let begun = Instant::now();
        loop {
            let mut cookie: [u8; COOKIE_BYTES] = plimsoll_system::random::unique_bytes();
            cookie.iter_mut().for_each(|byte| *byte = COOKIE_LETTERS[usize::from(*byte % 32)]);
            cookie[COOKIE_BYTES - 1] = 0;
            let opened = self.connect(&cookie).and_then(|mut control| {
                expect(&mut control, STATE_PARAMETERS)?;
                Ok((control, cookie))
            });
            let timeout = match &opened {
                Err(e) if e.kind() == ErrorKind::ResourceBusy => BUSY_TIMEOUT,
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => CLOSED_TIMEOUT,
                Err(e) if Gone::of(e) == Gone::Closed => CLOSED_TIMEOUT,
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
            protocol: true, "omit": 0, "time": longest.as_secs() + 1, "num": 0, "blockcount": 0, "parallel": self.job.streams,
            "len": self.message.len(), "pacing_timer": 1000, "client_version": "3.12",
            "bandwidth": self.job.rate.map_or(0, |rate| (rate / f64::from(self.job.streams)).max(1.0) as u64),
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
            return self.connect(cookie).map(DataConnection::Tcp);
        }
        let any: IpAddr = if self.server.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
        let socket = flow::open(bind_address(self.job.from.unwrap_or(any), self.server))?;
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

    /// Moves the data of stream `number` in the direction of the test, which `started`. A download
    /// ends at the stop of the test, or with UDP when the server's count of datagrams have arrived.
    fn run_stream(
        &self,
        number: usize,
        stream: &DataConnection,
        until: OrderedAmount,
        started: Instant,
        shared: &SharedTransfer,
    ) -> io::Result<StreamTotals> {
        let size = self.message.len();
        match (stream, self.down) {
            (DataConnection::Tcp(stream), false) => {
                let sent = send(stream, &self.message, until, Sending::Copy, f64::INFINITY, shared)?;
                let (bytes, elapsed, cpu) = (sent.bytes, sent.elapsed, sent.cpu);
                Ok(StreamTotals { bytes, elapsed, cpu, ..StreamTotals::default() })
            }
            (DataConnection::Tcp(stream), true) => read_stream(stream, until, started, shared),
            (DataConnection::Udp(socket), false) => {
                let pace = self
                    .job
                    .rate
                    .and_then(|rate| DatagramPace::new(rate, size, usize::from(self.job.streams)));
                let shape = FlowShape { size, pace, layout: DatagramLayout::Iperf3, tag: 0, until };
                let sent = flow::send(socket, shape, &self.message, &shared.stop)?;
                let (datagrams, cpu) = (sent.datagrams, sent.cpu);
                let elapsed = (sent.began + sent.elapsed).saturating_duration_since(started);
                Ok(StreamTotals { bytes: datagrams * size as u64, datagrams, elapsed, cpu, received: None })
            }
            (DataConnection::Udp(socket), true) => {
                let account = StreamAccount::with_layout(DatagramLayout::Iperf3, size, 0);
                let total = &shared.totals[number];
                let done = flow::receive(socket, account, size, total, started, &shared.stop)?;
                Ok(StreamTotals { cpu: done.cpu, received: Some(done.account), ..StreamTotals::default() })
            }
        }
    }

    /// Runs one test until `until`. Returns the client's totals per stream and the server's report.
    fn test(&self, until: OrderedAmount) -> io::Result<(Vec<StreamTotals>, ServerResults)> {
        let time = match until {
            OrderedAmount::Nanos(time) => Duration::from_nanos(time),
            // The server aborts longer tests.
            OrderedAmount::Messages(_) => Duration::from_secs(60),
        };
        let (mut control, cookie) = self.open()?;
        send_json(&mut control, &self.parameters(time))?;
        expect(&mut control, STATE_STREAMS)?;
        let streams: Vec<DataConnection> =
            (0..self.job.streams).map(|_| self.stream(&cookie)).collect::<io::Result<_>>()?;
        expect(&mut control, STATE_START)?;
        expect(&mut control, STATE_RUNNING)?;
        let (shared, started) = (&SharedTransfer::new(streams.len())?, Instant::now());
        std::thread::scope(|scope| {
            let spawn = |(number, stream)| {
                scope.spawn(move || {
                    let _pinned = self.placement.near.pin(number);
                    self.run_stream(number, stream, until, started, shared)
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
                let theirs = finish(control, &own)?;
                return Ok((own, theirs));
            }
            std::thread::sleep(time);
            let none = |_| StreamTotals { elapsed: time, ..StreamTotals::default() };
            let theirs = finish(control, &streams.iter().map(none).collect::<Vec<_>>());
            if let Ok(theirs) = &theirs {
                let totals = (0..streams.len()).map(|place| theirs.datagrams(place));
                shared.set_totals(&totals.collect::<Vec<_>>());
            }
            shared.stop.store(!self.datagrams || theirs.is_err(), Ordering::Relaxed);
            let own = joined()?;
            Ok((own, theirs?))
        })
    }

    fn failed(&self, error: &io::Error) -> CannotMeasure {
        let why = match Gone::of(error) {
            _ if is_dropped_here(error) => return dropped_here(self.server),
            Gone::Closed => "it closed the connection".to_owned(),
            Gone::Silent => "it was silent for too long".to_owned(),
            Gone::No => error.to_string(),
        };
        CannotMeasure::server_failed(format!(
            "no figure from the iperf3 server at {}: {why}; check that iperf3 -s runs there",
            self.server
        ))
    }

    fn figures(&self, own: Vec<StreamTotals>, theirs: &ServerResults) -> io::Result<Sample> {
        let size = self.message.len() as u64;
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
                let accounts = own.into_iter().filter_map(|moved| moved.received).enumerate();
                let accounts = accounts.map(|(place, account)| (account, theirs.datagrams(place)));
                let all = conclude(accounts).map_err(|e| unreadable(&e.to_string()))?;
                let seconds = of_server.max(all.span_nanos as f64 * 1e-9);
                (all.sent * size, all.received * size, seconds, all.jitter_nanos.map(|ns| ns as f64 * 1e-9))
            }
        };
        if bytes > sent || seconds <= 0.0 {
            return Err(unreadable(&format!("{bytes} bytes in {seconds} s of the {sent} that were sent")));
        }
        let goodput = bytes as f64 * 8.0 / seconds;
        let loss = if self.datagrams { 1.0 - bytes as f64 / sent.max(1) as f64 } else { 0.0 };
        let values = [
            (GOODPUT, goodput),
            (MESSAGES_METRIC, goodput / 8.0 / size as f64),
            (LOSS.name, loss),
            // CPU time of the client only: the server reports none that could be added.
            (CPU_METRIC, cpu / bytes.max(1) as f64),
        ];
        let values = values.into_iter().chain(jitter.map(|jitter| (JITTER, jitter)));
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
            values: values.map(|(name, value)| (name.to_owned(), value)).collect(),
            conditions: Conditions { more, ..Conditions::default() },
            ..Sample::default()
        })
    }
}

/// Receives until the time of the test is over, then without counting until `stop`.
fn read_stream(
    mut stream: &TcpStream,
    until: OrderedAmount,
    started: Instant,
    shared: &SharedTransfer,
) -> io::Result<StreamTotals> {
    stream.set_read_timeout(Some(POLL_INTERVAL))?;
    let mut buffer = vec![0; 128 << 10];
    let cpu = thread_cpu();
    let mut moved = StreamTotals::default();
    while !shared.stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let elapsed = started.elapsed();
                if !matches!(until, OrderedAmount::Nanos(time) if nanos(elapsed) > time) {
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
            SampleAmount::Seconds(s) => {
                OrderedAmount::Nanos(nanos(Duration::from_secs_f64(s.clamp(0.01, 86_400.0))))
            }
            SampleAmount::Work(_) if self.down => {
                return Err(CannotMeasure::not_here(
                    "--direction down with an iperf3 server requires --sample-time: a fixed amount is not supported",
                ));
            }
            SampleAmount::Work(all) => OrderedAmount::Messages(all.div_ceil(self.job.streams.into()).max(1)),
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
            let error = ServerResults::parse(SEEN.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with("its results cannot be read: "), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_results_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(ServerResults::parse(&bytes).is_err());
        }
    }
}
