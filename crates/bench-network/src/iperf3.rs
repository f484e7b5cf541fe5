//! Client for an iperf3 server (`--server iperf3://HOST[:PORT]`), as observed with iperf3 3.12.
//! Each sample is one test. All input is bounded. Upwards, lost datagrams are the difference to the
//! client's count, which includes a lost tail (iperf3 counts only gaps).

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::condition::{END_CPU, OFFERED, TCP_RETRANSMITS};
use crate::fact::FAR_END_PROGRAM;
use crate::job::NetworkJob;
use crate::lost_link::{self, lost_links};
use crate::path::Path;
use crate::server::{Address, SCHEME};
use crate::session::dropped_here;
use crate::{CPU_METRIC, EndPlacement, GOODPUT, JITTER, LOSS, MESSAGES_METRIC, new_sample, random_bytes};
use plimsoll_bench_api::prelude::*;
use plimsoll_server::traffic::account::CounterSource;
use plimsoll_server::traffic::udp::{self, flow};
use plimsoll_server::traffic::{LostTransfer, TransferEnd, TransferMeans, nanos, socket, tcp};
use plimsoll_server::wire::{Direction, EndReport, HANDSHAKE, OrderedAmount, RESULTS, Sockets, TcpOrder};
use plimsoll_server::wire::{UdpOrder, UdpReceived, UdpReport, UdpSent, is_closed, read_whole};
use plimsoll_units::text::shown_within;

const BUSY_REASON: &str = "it is busy with another client; try again later";
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time of retries after a refused connection: the port is closed between two tests.
const CLOSED_TIMEOUT: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// First datagram of a stream, which shows the server the client's address. Native byte order.
const HELLO: u32 = 0x3637_3839;
/// Answers to [`HELLO`]: the current one and those of versions before 3.10.
const HELLO_ANSWERS: [u32; 3] = [0x3938_3736, HELLO, 987_654_321];
/// Longest JSON that is read, bytes: far more than the results of 128 streams.
const MAX_JSON_BYTES: u32 = 256 << 10;

pub(super) fn is_on_iperf3(case: &Case) -> bool {
    case.server().is_some_and(|server| server.starts_with(SCHEME))
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

#[derive(Debug, Default, Deserialize)]
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
        let results: Self = plimsoll_units::json::parse_bytes(json)
            .map_err(|e| unreadable(&shown_within(&e.to_string(), 200)))?;
        let is_possible = |s: &StreamResults| {
            let times = [s.start_time, s.end_time, s.end_time - s.start_time, s.jitter];
            times.iter().all(|t| (0.0..1e6).contains(t)) && s.bytes < 1 << 60
        };
        let are_possible = results.streams.iter().all(is_possible);
        are_possible.then_some(results).ok_or_else(|| unreadable("impossible times or counts"))
    }

    /// Returns the number of datagrams that the server sent in the stream with index `place`; 0 if
    /// its results lack the stream.
    fn datagrams(&self, place: usize) -> u64 {
        let own = self.streams.iter().find(|s| s.id == stream_id(place));
        own.map_or(0, |s| s.packets.min(flow::UNKNOWN_COUNT - 1))
    }
}

fn unreadable(why: &str) -> io::Error {
    io::Error::other(format!("its results cannot be read: {why}"))
}

/// Returns iperf3's number of the stream with index `place`: 1, 3, 4, 5 …
const fn stream_id(place: usize) -> usize {
    if place == 0 { 1 } else { place + 2 }
}

/// Reads `length` bytes of the control connection: a state, a length, or results.
fn read(control: &mut TcpStream, length: u32) -> io::Result<Vec<u8>> {
    let mut all = vec![0; length as usize];
    read_whole(control, &mut all, Instant::now() + RESULTS)?;
    Ok(all)
}

fn expect(control: &mut TcpStream, wanted: i8) -> io::Result<()> {
    let why = match read(control, 1)?[0].cast_signed() {
        state if state == wanted => return Ok(()),
        STATE_DENIED => return Err(io::Error::new(ErrorKind::ResourceBusy, BUSY_REASON)),
        STATE_FAILED => "it ended the test with an error of its own; see its messages".to_owned(),
        state => format!("it sent the unexpected state {state}; plimsoll supports iperf3 3.1 and later"),
    };
    Err(io::Error::other(why))
}

fn send_json(control: &mut TcpStream, value: &Value) -> io::Result<()> {
    let json = value.to_string();
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    control.write_all(&[&length.to_be_bytes(), json.as_bytes()].concat())
}

/// Ends the test, sends what each stream has sent in units of `unit_bytes`, and returns the results
/// of the server. Waits until the server closes, since it accepts no other test before.
fn finish(
    mut control: TcpStream,
    sent: &[u64],
    unit_bytes: u32,
    time: Duration,
) -> io::Result<ServerResults> {
    control.write_all(&[STATE_END.cast_unsigned()])?;
    expect(&mut control, STATE_EXCHANGE)?;
    let totals = json!({
        "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0, "sender_has_retransmits": 0,
        "streams": sent.iter().enumerate().map(|(place, count)| json!({
            "id": stream_id(place), "bytes": count * u64::from(unit_bytes), "packets": count, "retransmits": -1, "jitter": 0,
            "errors": 0, "start_time": 0, "end_time": time.as_secs_f64(),
        })).collect::<Vec<_>>(),
    });
    send_json(&mut control, &totals)?;
    let length = read(&mut control, 4)?.try_into().map_or(0, u32::from_be_bytes);
    if length > MAX_JSON_BYTES {
        return Err(unreadable(&format!("it announces {length} bytes of results")));
    }
    let results = ServerResults::parse(&read(&mut control, length)?)?;
    expect(&mut control, STATE_DISPLAY)?;
    control.write_all(&[STATE_DONE.cast_unsigned()])?;
    match read(&mut control, 1) {
        Err(e) if is_closed(&e) => Ok(results),
        Ok(_) => Err(io::Error::other("it did not end the test")),
        Err(e) => Err(e),
    }
}

/// Client that runs one test per sample against an iperf3 server.
#[derive(Debug)]
pub(super) struct Client {
    server: SocketAddr,
    path: Path,
    ledger: CounterSource,
    placement: EndPlacement,
    datagrams: bool,
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
        let server = address.resolve(job.from)?[0];
        let (path, ledger) =
            (Path::to(server, Some(machine)).with_copy_rate(), CounterSource::on_route(server));
        let placement = EndPlacement::on_separate_cpus(machine);
        let message = random_bytes(job.work.message as usize, seed);
        Ok(Client { server, path, ledger, placement, datagrams, job, message })
    }

    fn connect(&self, cookie: &str) -> io::Result<TcpStream> {
        let mut stream = socket::dial(self.server, self.job.from, &Sockets::default(), HANDSHAKE)?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        stream.write_all(cookie.as_bytes())?;
        Ok(stream)
    }

    /// Opens a test. Retries for a while if the server is busy or still ends its last test. Returns
    /// its control connection, and the cookie of its streams.
    fn open(&self) -> io::Result<(TcpStream, String)> {
        let begun = Instant::now();
        loop {
            let cookie = format!("{:036x}\0", u128::from_ne_bytes(plimsoll_system::random::unique_bytes()));
            let opened = self.connect(&cookie).and_then(|mut control| {
                expect(&mut control, STATE_PARAMETERS)?;
                Ok((control, cookie))
            });
            let timeout = match &opened {
                Err(e) if e.kind() == ErrorKind::ResourceBusy => BUSY_TIMEOUT,
                Err(e) if e.kind() == ErrorKind::ConnectionRefused || is_closed(e) => CLOSED_TIMEOUT,
                _ => return opened,
            };
            if begun.elapsed() > timeout {
                return opened;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    fn parameters(&self, time: Duration) -> Value {
        let mut all = json!({
            (if self.datagrams { "udp" } else { "tcp" }): true, "time": time.as_secs() + 1, "parallel": self.job.work.streams,
            "len": self.message.len(), "client_version": "3.12", "udp_counters_64bit": 1,
            "bandwidth": self.job.rate.map_or(0, |rate| (rate / f64::from(self.job.work.streams)).max(1.0) as u64),
        });
        if self.job.work.direction == Direction::Down {
            all["reverse"] = true.into();
        }
        all
    }

    fn datagram_stream(&self, control: &TcpStream) -> io::Result<UdpSocket> {
        let socket = flow::open(control.local_addr()?, self.server)?;
        socket.set_read_timeout(Some(HELLO_TIMEOUT))?;
        // Sent only once: the server would take a second one for that of the next stream.
        socket.send(&HELLO.to_ne_bytes())?;
        let mut answer = [0; 4];
        match socket.recv(&mut answer)? == 4 && HELLO_ANSWERS.contains(&u32::from_ne_bytes(answer)) {
            true => Ok(socket),
            false => Err(io::Error::other("its first datagram is not that of iperf3")),
        }
    }

    fn means<'a, S>(&'a self, sockets: &'a [S], longest: Duration) -> TransferMeans<'a, S> {
        let (cpus, content, ledger) = (&self.placement.near, self.message.as_slice(), &self.ledger);
        let (end, most) = (TransferEnd::Client, f64::INFINITY);
        TransferMeans { end, sockets, cpus, content, most, longest, ledger }
    }

    fn test(&self, time: Duration) -> Result<Sample, LostTransfer> {
        let (mut control, cookie) = self.open()?;
        send_json(&mut control, &self.parameters(time))?;
        expect(&mut control, STATE_STREAMS)?;
        let (amount, mut theirs) = (OrderedAmount::Nanos(nanos(time)), ServerResults::default());
        let TcpOrder { streams, message, direction, .. } = self.job.work;
        let own = if self.datagrams {
            let sockets = (0..streams).map(|_| self.datagram_stream(&control));
            let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
            let rate = self.job.rate.map(|rate| rate as u64);
            let work = UdpOrder { streams, datagram: message, direction, amount, rate, tag: 0 };
            expect(&mut control, STATE_START)?;
            expect(&mut control, STATE_RUNNING)?;
            udp::run_test(&work, &self.means(&sockets, time), |sent| {
                theirs = finish(control, sent, message, time)?;
                Ok(Some((0..sent.len()).map(|place| theirs.datagrams(place)).collect()))
            })?
        } else {
            let sockets = (0..streams).map(|_| self.connect(&cookie)).collect::<io::Result<Vec<_>>>()?;
            let work = TcpOrder::new(streams, message, direction, amount);
            expect(&mut control, STATE_START)?;
            expect(&mut control, STATE_RUNNING)?;
            let report = tcp::run_test(&work, &self.means(&sockets, time), |sent| {
                theirs = finish(control, sent, 1, time)?;
                Ok(None)
            })?;
            in_datagrams(report)
        };
        Ok(self.figures(own, &theirs)?)
    }

    fn figures(&self, own: UdpReport, theirs: &ServerResults) -> io::Result<Sample> {
        let (message, streams) = (f64::from(self.job.work.message), &theirs.streams);
        let unit = if self.datagrams { message } else { 1.0 };
        let sum = |field: fn(&StreamResults) -> f64| streams.iter().map(field).sum::<f64>();
        let is_down = own.received.is_some();
        let (sent, received) = (own.sent.unwrap_or_default(), own.received.unwrap_or_default());
        let jitter = match is_down {
            true => received.jitter_nanos.map(|nanos| nanos as f64 * 1e-9),
            false => self.datagrams.then(|| sum(|s| s.jitter) / streams.len().max(1) as f64),
        };
        let own_seconds = sent.nanos.max(received.span_nanos) as f64 * 1e-9;
        let seconds = streams.iter().map(|s| s.end_time - s.start_time).fold(own_seconds, f64::max);
        let cpu = sent.cpu_nanos.max(received.cpu_nanos) as f64 * 1e-9;
        let sent = sent.datagrams.max(received.sent) as f64 * unit;
        let arrived = if is_down { received.received as f64 * unit } else { sum(|s| s.bytes as f64) };
        if arrived > sent || seconds <= 0.0 {
            return Err(unreadable(&format!("{arrived} bytes in {seconds} s of the {sent} that were sent")));
        }
        let goodput = arrived * 8.0 / seconds;
        let values = [
            (GOODPUT, goodput),
            (MESSAGES_METRIC, goodput / 8.0 / message),
            (LOSS.name, if self.datagrams { 1.0 - arrived / sent.max(1.0) } else { 0.0 }),
            // CPU time of the client only: the server reports none that could be added.
            (CPU_METRIC, cpu / arrived.max(1.0)),
        ];
        let mut more = self.path.conditions.clone();
        more.set_of(&END_CPU, "near", cpu / seconds);
        if self.datagrams {
            more.set(&OFFERED, sent * 8.0 / seconds);
        } else if is_down {
            let known = streams.iter().map(|s| s.retransmits).filter(|n| (0.0..1e15).contains(n));
            more.set(&TCP_RETRANSMITS, known.sum());
        }
        Ok(new_sample(seconds, values.into_iter().chain(jitter.map(|jitter| (JITTER, jitter))), more))
    }
}

/// Converts the report of a TCP test to one of datagrams of one byte.
fn in_datagrams(report: EndReport) -> UdpReport {
    let sent = report.sent.map(|sent| UdpSent {
        datagrams: sent.bytes,
        nanos: sent.nanos,
        cpu_nanos: sent.cpu_nanos,
        ..UdpSent::default()
    });
    let received = report.received.map(|received| UdpReceived {
        sent: received.counted,
        received: received.counted,
        span_nanos: received.nanos,
        cpu_nanos: received.cpu_nanos,
        ..UdpReceived::default()
    });
    UdpReport { sent, received, account: report.account }
}

impl Prepared for Client {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let seconds = amount.seconds()?;
        let tested = self.test(Duration::from_secs_f64(seconds.clamp(0.01, 86_400.0)));
        tested.map_err(|error| match error {
            LostTransfer::Dropped => dropped_here(self.server),
            error => CannotMeasure::server_failed(format!(
                "no figure from the iperf3 server at {}: {error}; check that iperf3 -s runs there",
                self.server
            )),
        })
    }

    /// Always succeeds: iperf3 reports no content, and the counts are checked after each test.
    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let mut facts = self.placement.facts(&self.path.name(), self.server);
        facts.achieved.set(&FAR_END_PROGRAM, "iperf3");
        lost_link::add_warnings(lost_links(self.ledger.lost_links(), &[]), &mut facts);
        Ok(facts)
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
