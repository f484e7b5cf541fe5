//! `--server iperf3://HOST[:PORT]`: the same figures against an iperf3 server, as its client.
//!
//! Each sample is one test of iperf3: a control connection, data streams, results. Up, what counts is what the server
//! says that it received; of datagrams, what was lost is decided with this end's own final count, so that a lost tail
//! is seen (iperf3 itself sees gaps between numbers alone). Down, this end counts.

mod data;
mod talk;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use data::Moved;
use talk::{Parameters, Results, State, StreamResults, Talk, TalkError, stream_id};

use super::condition::{END_CPU, OFFERED, TCP_RETRANSMITS};
use super::fact::FAR_END_PROGRAM;
use super::job::Job;
use super::lost_link::{self, lost_links};
use super::near_end::dropped_here;
use super::path::Path;
use super::server::{Address, SCHEME};
use super::{CPU, GOODPUT, JITTER, LOSS, MESSAGES, Placement, random_bytes};
use crate::Prepared;
use crate::case::Case;
use crate::machine::Machine;
use crate::sample::{Amount, CannotMeasure, Conditions, Facts, Sample};
use crate::traffic::is_dropped_here;
use crate::traffic::link_watch::LinkWatch;
use crate::traffic::udp::account::{Account, Layout, Tally};
use crate::traffic::udp::flow::{self, Shape, UNKNOWN, Until};
use crate::traffic::udp::pace::Pace;
use crate::wire::Direction;

/// How long this end waits in all while the server is busy.
const QUEUE: Duration = Duration::from_secs(30);
/// It is asked again this often.
const AGAIN: Duration = Duration::from_millis(200);
/// Between two tests the server has no open port for a moment: this long it may refuse or close.
const CLEARING: Duration = Duration::from_secs(1);
/// Smallest datagram: it must hold iperf3's header.
const SMALLEST: u64 = 16;
/// What a case may say beside the server.
const UNDERSTOOD: &[&str] = &["server", "message", "streams", "direction", "rate", "bind"];

/// Whether the case is for an iperf3 server.
pub(super) fn is_for(case: &Case) -> bool {
    case.word("server").is_some_and(|server| server.starts_with(SCHEME))
}

/// Refuses what an iperf3 server cannot do.
pub(super) fn check(case: &Case) -> Result<(), String> {
    if !is_for(case) {
        return Ok(());
    }
    if let Some((name, _)) = case.params().iter().find(|(name, _)| !UNDERSTOOD.contains(name)) {
        return Err(format!(
            "--{name} is not supported on an iperf3 server: leave it out, or use plimsoll serve"
        ));
    }
    if case.word("direction") == Some("both") {
        return Err("--direction both is not supported on an iperf3 server: use up or down".to_owned());
    }
    match case.number("message") {
        Some(bytes) if case.benchmark() == "network.udp" && bytes < SMALLEST => Err(format!(
            "message must be at least {SMALLEST} with an iperf3 server (its header): {bytes} is not"
        )),
        _ => Ok(()),
    }
}

/// Tests against an iperf3 server, one a sample.
#[derive(Debug)]
pub(super) struct Client {
    server: SocketAddr,
    path: Path,
    links: LinkWatch,
    from: Option<IpAddr>,
    placement: Placement,
    datagrams: bool,
    streams: u16,
    down: bool,
    rate: Option<f64>,
    message: Vec<u8>,
}

/// What one test came to.
struct Test {
    bytes: u64,
    seconds: f64,
    sent: u64,
    received: u64,
    jitter: Option<f64>,
    cpu: Duration,
    retransmits: Option<f64>,
}

type Joined<T> = io::Result<Vec<T>>;

impl Client {
    /// Finds the server.
    ///
    /// # Errors
    /// Its name has no address.
    pub(super) fn new(
        address: &Address,
        job: &Job,
        datagrams: bool,
        seed: u64,
        machine: &Machine,
    ) -> Result<Self, CannotMeasure> {
        let from = job.from;
        let family = |a: &&SocketAddr| from.is_none_or(|from| from.is_ipv4() == a.is_ipv4());
        let addresses = address.resolve()?;
        let none =
            || CannotMeasure::far_end("the iperf3 server has no address of the same IP version as --bind");
        let server = addresses.iter().find(family).copied().ok_or_else(none)?;
        Ok(Client {
            server,
            links: LinkWatch::of_route(server),
            path: Path::to(server, Some(machine)).with_copy_rate(),
            from,
            placement: Placement::apart(machine),
            datagrams,
            streams: job.streams,
            down: job.direction == Direction::Down,
            rate: job.rate,
            message: random_bytes(job.message as usize, seed),
        })
    }

    fn parameters(&self, longest: Duration) -> Parameters {
        Parameters {
            tcp: (!self.datagrams).then_some(true),
            udp: self.datagrams.then_some(true),
            time: longest.as_secs() + 1,
            parallel: self.streams,
            // 1 MiB at most.
            len: self.message.len() as u32,
            reverse: self.down.then_some(true),
            bandwidth: self.rate.map_or(0, |rate| (rate / f64::from(self.streams)).max(1.0) as u64),
            pacing_timer: 1000,
            udp_counters_64bit: self.datagrams.then_some(1),
            client_version: "3.12",
            ..Parameters::default()
        }
    }

    /// Opens a test; a server that is busy or still clearing away the last test is asked again for a while.
    fn admitted(&self) -> Result<Talk, TalkError> {
        let begun = Instant::now();
        loop {
            let opened = Talk::open(self.server, self.from)
                .and_then(|mut talk| talk.expect(State::Parameters).map(|()| talk));
            let patience = match &opened {
                Err(TalkError::Denied) => QUEUE,
                Err(e) if e.is_between_tests() => CLEARING,
                _ => return opened,
            };
            if begun.elapsed() > patience {
                return opened;
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn test(&self, until: Until) -> Result<Test, TalkError> {
        let longest = match until {
            Until::Elapsed(time) => time,
            // The server gives up on longer ones.
            Until::Datagrams(_) => Duration::from_secs(60),
        };
        let mut talk = self.admitted()?;
        talk.send(&self.parameters(longest))?;
        talk.expect(State::Streams)?;
        let places = 0..usize::from(self.streams);
        if self.datagrams {
            let hello = |_| data::hello(self.server, self.from);
            let sockets: Vec<UdpSocket> = places.map(hello).collect::<io::Result<_>>()?;
            started(&mut talk)?;
            if self.down {
                self.datagrams_down(talk, &sockets, longest)
            } else {
                self.datagrams_up(talk, &sockets, until)
            }
        } else {
            let open = |_| talk.data(self.server, self.from);
            let sockets: Vec<TcpStream> = places.map(open).collect::<Result<_, _>>()?;
            started(&mut talk)?;
            if self.down {
                self.tcp_down(talk, &sockets, longest)
            } else {
                self.tcp_up(talk, &sockets, until)
            }
        }
    }

    fn tcp_up(&self, talk: Talk, sockets: &[TcpStream], until: Until) -> Result<Test, TalkError> {
        let stop = AtomicBool::new(false);
        let done: Vec<Moved> = std::thread::scope(|scope| {
            let spawn = |(number, socket)| {
                let (stop, message, cpus) = (&stop, &self.message, &self.placement.near);
                scope.spawn(move || {
                    let _pinned = cpus.pin(number);
                    data::write(socket, message, until, stop)
                })
            };
            joined(sockets.iter().enumerate().map(spawn).collect())
        })?;
        let mine = done.iter().map(|d| (d.bytes, 0)).collect::<Vec<_>>();
        let theirs = finish(talk, &mine, longest_of(&done))?;
        let (bytes, sent) = (total(&theirs, |s| s.bytes), done.iter().map(|d| d.bytes).sum());
        Ok(Test {
            bytes,
            seconds: theirs.streams.iter().map(|s| s.end_time - s.start_time).fold(0.0, f64::max),
            sent,
            received: bytes.min(sent),
            jitter: None,
            cpu: done.iter().map(|d| d.cpu).sum(),
            retransmits: None,
        })
    }

    fn tcp_down(&self, talk: Talk, sockets: &[TcpStream], time: Duration) -> Result<Test, TalkError> {
        let stop = AtomicBool::new(false);
        let (done, theirs) = std::thread::scope(|scope| {
            let spawn = |(number, socket)| {
                let (stop, cpus) = (&stop, &self.placement.near);
                scope.spawn(move || {
                    let _pinned = cpus.pin(number);
                    data::read(socket, time, stop)
                })
            };
            let threads: Vec<_> = sockets.iter().enumerate().map(spawn).collect();
            // The test goes on for its time while the threads read.
            std::thread::sleep(time);
            let theirs = finish(talk, &vec![(0, 0); sockets.len()], time);
            stop.store(true, Ordering::Relaxed);
            let done: Vec<Moved> = joined(threads)?;
            Ok::<_, TalkError>((done, theirs?))
        })?;
        let bytes = done.iter().map(|d| d.bytes).sum();
        let retransmits: f64 =
            theirs.streams.iter().map(|s| s.retransmits).filter(|n| (0.0..1e15).contains(n)).sum();
        Ok(Test {
            bytes,
            seconds: longest_of(&done).as_secs_f64(),
            sent: bytes,
            received: bytes,
            jitter: None,
            cpu: done.iter().map(|d| d.cpu).sum(),
            retransmits: Some(retransmits),
        })
    }

    fn datagrams_up(&self, talk: Talk, sockets: &[UdpSocket], until: Until) -> Result<Test, TalkError> {
        let size = self.message.len();
        let stop = AtomicBool::new(false);
        let pace = self.rate.and_then(|rate| Pace::new(rate, size, sockets.len()));
        let shape = Shape { size, pace, layout: Layout::Iperf3, tag: 0, until };
        let done: Vec<flow::Sent> = std::thread::scope(|scope| {
            let spawn = |(number, socket)| {
                let (stop, message, cpus) = (&stop, &self.message, &self.placement.near);
                scope.spawn(move || {
                    let _pinned = cpus.pin(number);
                    flow::send(socket, shape, message, stop)
                })
            };
            joined(sockets.iter().enumerate().map(spawn).collect())
        })?;
        let elapsed = flow::together(&done);
        let mine: Vec<_> = done.iter().map(|d| (d.datagrams * size as u64, d.datagrams)).collect();
        let theirs = finish(talk, &mine, elapsed)?;
        let (bytes, sent) = (total(&theirs, |s| s.bytes), done.iter().map(|d| d.datagrams).sum::<u64>());
        let jitter =
            theirs.streams.iter().map(|s| s.jitter).sum::<f64>() / theirs.streams.len().max(1) as f64;
        let seconds =
            theirs.streams.iter().map(|s| s.end_time - s.start_time).fold(elapsed.as_secs_f64(), f64::max);
        Ok(Test {
            bytes,
            seconds,
            sent,
            received: (bytes / size as u64).min(sent),
            jitter: Some(jitter),
            cpu: done.iter().map(|d| d.cpu).sum(),
            retransmits: None,
        })
    }

    fn datagrams_down(&self, talk: Talk, sockets: &[UdpSocket], time: Duration) -> Result<Test, TalkError> {
        let size = self.message.len();
        let stop = AtomicBool::new(false);
        let origin = Instant::now();
        let totals: Vec<AtomicU64> = sockets.iter().map(|_| AtomicU64::new(UNKNOWN)).collect();
        let (done, theirs) = std::thread::scope(|scope| {
            let spawn = |(number, (socket, total))| {
                let (stop, cpus) = (&stop, &self.placement.near);
                scope.spawn(move || {
                    let _pinned = cpus.pin(number);
                    let account = Account::with_layout(Layout::Iperf3, size, 0);
                    flow::receive(socket, account, size, total, origin, stop)
                })
            };
            let threads: Vec<_> = sockets.iter().zip(&totals).enumerate().map(spawn).collect();
            std::thread::sleep(time);
            let theirs = finish(talk, &vec![(0, 0); sockets.len()], time);
            match &theirs {
                Ok(theirs) => {
                    for (place, total) in totals.iter().enumerate() {
                        total.store(packets_of(theirs, place), Ordering::Release);
                    }
                }
                Err(_) => stop.store(true, Ordering::Relaxed),
            }
            let done: Vec<flow::Received> = joined(threads)?;
            Ok::<_, TalkError>((done, theirs?))
        })?;
        let cpu = done.iter().map(|d| d.cpu).sum();
        let mut all = Tally::default();
        for (place, stream) in done.into_iter().enumerate() {
            let tally = stream.account.conclude(packets_of(&theirs, place));
            all = all.and(tally.map_err(|e| TalkError::Results(e.to_string()))?);
        }
        let seconds = theirs.streams.iter().map(|s| s.end_time - s.start_time);
        Ok(Test {
            bytes: all.received * size as u64,
            seconds: seconds.fold(all.span() as f64 * 1e-9, f64::max),
            sent: all.sent,
            received: all.received,
            jitter: all.jitter.map(|nanos| nanos * 1e-9),
            cpu,
            retransmits: None,
        })
    }

    fn failed(&self, error: &TalkError) -> CannotMeasure {
        if let TalkError::Io(e) = error
            && is_dropped_here(e)
        {
            return dropped_here(self.server);
        }
        CannotMeasure::far_end(format!(
            "no figure from the iperf3 server at {}: {error}; check that iperf3 -s runs there",
            self.server
        ))
    }

    fn read(&self, test: &Test) -> Result<Sample, CannotMeasure> {
        let size = self.message.len() as f64;
        let whole = if self.datagrams { test.sent * self.message.len() as u64 } else { test.sent };
        if test.bytes > whole || test.seconds <= 0.0 {
            return Err(self.failed(&TalkError::Results(format!(
                "{} bytes in {} s of the {whole} that were sent",
                test.bytes, test.seconds
            ))));
        }
        let goodput = test.bytes as f64 * 8.0 / test.seconds;
        let loss = if self.datagrams { 1.0 - test.received as f64 / test.sent.max(1) as f64 } else { 0.0 };
        let mut values = vec![(GOODPUT, goodput), (MESSAGES, goodput / 8.0 / size), (LOSS.name, loss)];
        // This end's alone: the server's is not told in a way that can be added.
        values.push((CPU, test.cpu.as_secs_f64() / (test.bytes.max(1)) as f64));
        values.extend(test.jitter.map(|jitter| (JITTER, jitter)));
        let mut more = self.path.conditions();
        more.set_of(&END_CPU, "near", test.cpu.as_secs_f64() / test.seconds);
        if self.datagrams {
            more.set(&OFFERED, test.sent as f64 * size * 8.0 / test.seconds);
        }
        if let Some(count) = test.retransmits {
            more.set(&TCP_RETRANSMITS, count);
        }
        Ok(Sample {
            elapsed: test.seconds,
            values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            conditions: Conditions { more, ..Conditions::default() },
            ..Sample::default()
        })
    }
}

/// The rest of the way to a running test.
fn started(talk: &mut Talk) -> Result<(), TalkError> {
    talk.expect(State::Start)?;
    talk.expect(State::Running)
}

/// Ends the test and exchanges results: bytes and datagrams of each stream of this end against the server's.
fn finish(mut talk: Talk, mine: &[(u64, u64)], elapsed: Duration) -> Result<Results, TalkError> {
    talk.say(State::End)?;
    talk.expect(State::Exchange)?;
    let streams = mine.iter().enumerate().map(|(place, (bytes, packets))| StreamResults {
        id: stream_id(place),
        bytes: *bytes,
        packets: *packets,
        retransmits: -1.0,
        end_time: elapsed.as_secs_f64(),
        ..StreamResults::default()
    });
    talk.send(&Results { streams: streams.collect(), ..Results::default() })?;
    let theirs = talk.results()?;
    talk.expect(State::Display)?;
    talk.end()?;
    Ok(theirs)
}

fn joined<T>(threads: Vec<ScopedJoinHandle<'_, io::Result<T>>>) -> Joined<T> {
    let ended = || {
        Err(io::Error::other(
            "a thread of plimsoll panicked: this is a bug, please report it with the output above",
        ))
    };
    threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| ended())).collect()
}

fn total(results: &Results, field: fn(&StreamResults) -> u64) -> u64 {
    results.streams.iter().map(field).fold(0, u64::saturating_add)
}

fn packets_of(results: &Results, place: usize) -> u64 {
    let own = results.streams.iter().find(|s| s.id == stream_id(place));
    own.map_or(0, |s| s.packets.min(UNKNOWN - 1))
}

fn longest_of(done: &[Moved]) -> Duration {
    done.iter().map(|d| d.elapsed).max().unwrap_or_default()
}

impl Prepared for Client {
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure> {
        let until = match amount {
            Amount::Seconds(s) => Until::Elapsed(Duration::from_secs_f64(s.clamp(0.01, 86_400.0))),
            Amount::Work(_) if self.down => {
                return Err(CannotMeasure::not_here(
                    "--direction down with an iperf3 server requires --sample-time: a fixed amount is not supported",
                ));
            }
            Amount::Work(messages) => Until::Datagrams(messages.div_ceil(u64::from(self.streams)).max(1)),
        };
        let test = self.test(until).map_err(|e| self.failed(&e))?;
        self.read(&test)
    }

    /// iperf3 says of what it received how much it was, never what: there is nothing to compare but the counts, and
    /// those were compared after each test.
    fn verify(&mut self) -> Result<(), CannotMeasure> {
        Ok(())
    }

    fn facts(&self) -> Facts {
        let mut facts = self.placement.facts(&self.path.name(), self.server);
        facts.achieved.set(&FAR_END_PROGRAM, "iperf3");
        lost_link::note(lost_links(self.links.losses(), &[]), &mut facts);
        facts
    }
}
