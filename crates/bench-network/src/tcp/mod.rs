//! `network.tcp`: throughput of TCP streams, counted by the receiver.

use std::time::{Duration, Instant};

use crate::job::NetworkJob;
use crate::server::ServerAddress;
use crate::setup::{NetworkSetup, candidates, streaming, with_options};
use crate::stream_case::{self, JudgedSample, StreamCase, StreamTransfers};
use crate::{CPU_METRIC, EndPlacement, GOODPUT, LOSS, MESSAGES_METRIC, message_sizes, random_bytes, seed};
use crate::{STREAM, amount, end_conditions, new_sample};
use plimsoll_bench_api::fixed::AveragePace;
use plimsoll_bench_api::prelude::*;
use plimsoll_metal::tcp::TcpInfo;
use plimsoll_model::job::network::NetworkStreams;
use plimsoll_server::traffic::Fnv;
use plimsoll_server::traffic::tcp::TcpOutcome;
use plimsoll_server::wire::{self, ReceivingReport, SendingReport};
use plimsoll_server::wire::{ArrivalTimeline, Direction, OrderedAmount, Receiving, TcpOrder};

const DEFAULT_MESSAGE_BYTES: u32 = 128 << 10;
/// Approximate upper bound of the bytes that the check after timing sends, over all streams.
const CHECKED: u64 = 4 << 20;
const TRIAL: u64 = 40_000_000;
const NEAR_US: u32 = 1000;
/// Rate, bit/s, below which the choice of CPUs does not matter.
const NO_CPU_IS_THE_LIMIT: f64 = 100e6;

/// The benchmark `network.tcp`.
#[derive(Debug)]
pub struct Tcp;

impl Benchmark for Tcp {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "network.tcp",
            synonyms: &["iperf", "iperf3"],
            about: "throughput of TCP streams, measured by the receiver",
            words: &[LabelPart::Word("TCP"), LabelPart::Value("message"), LabelPart::Word("writes")],
            keys: &[
                "message",
                "streams",
                "direction",
                "server",
                "omit",
                "zerocopy",
                "discard",
                "nodelay",
                "congestion",
                "window",
                "mss",
                "dscp",
                "bind",
                "volume",
                "count",
                "scaling",
            ],
            common: Some(STREAM),
            // Assumes a link of 10 Gbit/s.
            pace: Some(AveragePace { bytes: 1.25e9, operations: 1e6 }),
            limits: crate::limit::of_segments,
            findings: super::findings::find,
            metrics: const {
                &[
                    Metric::new(GOODPUT, Unit::BitPerSecond, Better::Higher)
                        .about("bits per second that the receiver got"),
                    Metric::new(MESSAGES_METRIC, Unit::PerSecond, Better::Higher)
                        .about("messages per second that the receiver got"),
                    LOSS,
                    Metric::new(CPU_METRIC, Unit::Second, Better::Lower)
                        .about("processor time of both ends for a byte")
                        .shown_between("CPU time of both ends:", "per byte"),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn omitted_seconds(&self, case: &Case) -> f64 {
        NetworkStreams::of(case).omit.as_secs_f64()
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let sizes = message_sizes(group, DEFAULT_MESSAGE_BYTES)?;
        let cases = streaming(self.name(), sizes, group)?;
        let cases = with_options(cases, group, self.keys())?;
        candidates(machine, cases, DEFAULT_MESSAGE_BYTES)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let (job, seed): (NetworkJob, u64) = (parsed.read()?, seed(cx, case));
        if let Some(ServerAddress::Iperf3(address)) = job.server.clone() {
            return Ok(Box::new(super::iperf3::Client::new(&address, job, false, seed, cx.machine)?));
        }
        let setup = NetworkSetup::from_job(&job, EndPlacement::together(cx.machine), cx)?;
        Ok(Box::new(Streams::new(&setup, &job, seed)?))
    }
}

/// TCP streams to a server.
#[derive(Debug)]
pub struct Streams {
    case: StreamCase,
    work: TcpOrder,
    message: Vec<u8>,
}

impl Streams {
    /// Opens a session and the streams of a case; `seed` determines the content of messages.
    pub fn new(setup: &NetworkSetup, job: &NetworkJob, seed: u64) -> Result<Self, CannotMeasure> {
        let mut case = StreamCase::open(setup, job)?;
        case.session.join(job.work.streams, &job.sockets)?;
        // Random, so that no device on the path can compress it.
        let message = random_bytes(job.work.message as usize, seed);
        let mut streams = Streams { case, work: job.work.clone(), message };
        if streams.is_near() && !streams.case.held.is_slow() {
            streams.choose_cpus()?;
        }
        Ok(streams)
    }

    /// Returns whether the server is so near that a short trial is enough for a stream to ramp up.
    fn is_near(&self) -> bool {
        let rtt = self.case.session.streams.first().and_then(|stream| TcpInfo::of(stream).ok());
        self.case.session.pid().is_some() || rtt.is_some_and(|info| info.path_rtt_us() <= NEAR_US)
    }

    /// Tries the ends of each stream on one core and on two, and keeps the fastest placement.
    /// Moving data between cores may cost more than two cores gain, especially in a VM.
    fn choose_cpus(&mut self) -> Result<(), CannotMeasure> {
        let all = self.case.placement.near.clone();
        // The server's CPUs are unknown here. If it has one, all its placements are the same.
        let candidates: &[(u16, u16)] = match (all.0.len(), self.case.session.pid()) {
            (0 | 1, Some(_)) => return Ok(()),
            (0 | 1, None) => &[(0, 0), (0, 1)],
            _ => &[(0, 0), (1, 1), (0, 1), (1, 0)],
        };
        let mut best: (f64, (u16, u16)) = (0.0, (0, 0));
        for (near, far) in candidates.iter().copied().cycle().take(2 * candidates.len()) {
            let work =
                TcpOrder { amount: OrderedAmount::Nanos(TRIAL), omit: 0, place: far, ..self.work.clone() };
            let began = Instant::now();
            let outcome =
                self.case.session.transfer(&work, &self.message, &all.starting_at(usize::from(near)))?;
            let ways = ways(&work, &outcome);
            self.case.watch.note(began, &ways.iter().map(|one| &one.received.timeline).collect::<Vec<_>>());
            let carried: f64 = ways.iter().map(TcpDirection::bits_per_second).sum();
            if carried > best.0 {
                best = (carried, (near, far));
            }
            if self.case.session.pid().is_none() && carried < NO_CPU_IS_THE_LIMIT {
                break;
            }
        }
        let (near, far) = best.1;
        self.work.place = far;
        self.case.placement = EndPlacement {
            near: all.starting_at(usize::from(near)),
            far: self.case.placement.far.starting_at(usize::from(far)),
        };
        Ok(())
    }

    /// Returns the process ID of a private server; `None` for a remote one.
    pub fn server_pid(&self) -> Option<u32> {
        self.case.session.pid()
    }
}

struct TcpDirection<'a> {
    sent: &'a SendingReport,
    received: &'a ReceivingReport,
    /// Initial nanoseconds of sending that are not counted.
    omitted: u64,
}

impl TcpDirection<'_> {
    fn nanos(&self) -> u64 {
        self.received.nanos.max(self.sent.nanos.saturating_sub(self.omitted))
    }

    fn seconds(&self) -> f64 {
        Duration::from_nanos(self.nanos()).as_secs_f64()
    }

    fn bits_per_second(&self) -> f64 {
        self.received.counted as f64 * 8.0 / self.seconds().max(1e-9)
    }

    fn possible(&self) -> bool {
        let (sent, received) = (self.sent, self.received);
        let arrived = received.timeline.bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        received.bytes == sent.bytes
            && received.counted <= received.bytes
            && arrived == received.bytes
            && self.nanos() > 0
    }
}

/// Returns the reports per direction; none if the server's is missing.
fn ways<'a>(work: &TcpOrder, outcome: &'a TcpOutcome) -> Vec<TcpDirection<'a>> {
    let there = outcome.there.iter();
    let ways = there.flat_map(|there| stream_case::directions(&outcome.here, there));
    ways.map(|(sent, received)| TcpDirection { sent, received, omitted: work.omit }).collect()
}

/// Returns the reports per direction. Fails if they are implausible or nothing counted arrived.
fn checked<'a>(work: &TcpOrder, outcome: &'a TcpOutcome) -> Result<Vec<TcpDirection<'a>>, CannotMeasure> {
    let ways = ways(work, outcome);
    if ways.len() != work.direction.count() || !ways.iter().all(TcpDirection::possible) {
        return Err(CannotMeasure::server_failed(
            "the server reports other bytes or times than the client: both must be the same build",
        ));
    }
    if ways.iter().any(|direction| direction.received.counted == 0) {
        return Err(CannotMeasure::environment(
            "nothing arrived after the time of --omit; use a longer --sample-time or a shorter --omit",
        ));
    }
    Ok(ways)
}

fn sample_of(work: &TcpOrder, outcome: &TcpOutcome, ways: &[TcpDirection<'_>]) -> Sample {
    let goodput: f64 = ways.iter().map(TcpDirection::bits_per_second).sum();
    let total = |field: fn(&TcpDirection<'_>) -> u64| ways.iter().map(field).sum::<u64>() as f64;
    let (sent, received) = (total(|w| w.sent.bytes), total(|w| w.received.bytes));
    let cpu = total(|w| w.sent.cpu_nanos.saturating_add(w.received.cpu_nanos)) * 1e-9;
    let values = [
        (GOODPUT, goodput),
        (MESSAGES_METRIC, goodput / 8.0 / f64::from(work.message)),
        (LOSS.name, ((sent - received) / sent).max(0.0)),
        (CPU_METRIC, cpu / received),
    ];
    let there = outcome.there.as_ref();
    let more = there.map(|there| end_conditions::conditions(work, outcome, there)).unwrap_or_default();
    let elapsed = ways.iter().map(TcpDirection::seconds).fold(0.0, f64::max);
    let curve = ways.first().map(|direction| end_conditions::timeline(direction.sent)).unwrap_or_default();
    Sample { curve, ..new_sample(elapsed, values, more) }
}

impl StreamTransfers for Streams {
    fn case(&mut self) -> &mut StreamCase {
        &mut self.case
    }

    fn transfer(&mut self, amount: SampleAmount) -> Result<JudgedSample, CannotMeasure> {
        let amount = amount::amount_of_sample(self.case.fixed, amount, self.work.streams);
        let work = TcpOrder { amount, ..self.work.clone() };
        let began = Instant::now();
        let outcome = self.case.session.transfer(&work, &self.message, &self.case.placement.near)?;
        let ways = checked(&work, &outcome)?;
        let sent = ways.iter().map(|direction| direction.sent.bytes).min();
        if let Some((fixed, sent)) = self.case.fixed.as_mut().zip(sent) {
            fixed.moved(sent / u64::from(work.message));
        }
        let rates = ways.iter().map(|one| (&one.received.timeline, one.bits_per_second()));
        let rates: Vec<(&ArrivalTimeline, f64)> = rates.collect();
        let sample = sample_of(&work, &outcome, &ways);
        Ok(self.case.judge(sample, began, &rates, f64::from(work.message) * 8.0))
    }

    fn detect_bucket(&mut self) -> bool {
        let StreamCase { session, placement, watch, .. } = &mut self.case;
        watch.detect_bucket(session.welcome.max_nanos, |nanos| {
            let work = TcpOrder { amount: OrderedAmount::Nanos(nanos), omit: 0, ..self.work.clone() };
            let outcome = session.transfer(&work, &self.message, &placement.near)?;
            Ok(ways(&work, &outcome).iter().map(|one| one.received.timeline.clone()).collect())
        })
    }
}

impl Prepared for Streams {
    fn offer(&self) -> Offer {
        self.case.placement.offer(self.work.streams.into())
    }

    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let mut sample = self.settled(amount)?;
        sample.conditions.more.add(self.case.path.conditions.clone());
        self.case.held.end_sample();
        Ok(sample)
    }

    /// Sends a few more messages and compares the receiver's hash of each stream with the sender's.
    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let streams = u64::from(self.work.streams);
        let rate = self.case.held.median_rate().min(self.case.session.welcome.max_rate as f64);
        let each = check_message_count(rate, streams, self.work.message.into());
        let work = TcpOrder {
            amount: OrderedAmount::Messages(each * streams),
            direction: Direction::Up,
            omit: 0,
            receiving: Receiving::Hash,
            ..self.work.clone()
        };
        let outcome = self.case.session.transfer(&work, &self.message, &self.case.placement.near)?;
        // A transfer that was cut cannot be compared.
        if outcome.sent_by_stream.iter().any(|sent| *sent != each * u64::from(self.work.message)) {
            return Ok(self.case.facts(None, None));
        }
        let expected = (0..each).fold(Fnv::EMPTY, |hash, _| hash.append(&self.message));
        let hashes = outcome.there.and_then(|report| report.received).map(|received| received.hashes);
        let hashes = hashes.unwrap_or_default();
        if hashes.len() as u64 != streams || hashes.iter().any(|hash| *hash != expected.0) {
            let wrong = WrongAnswer::new(WrongAnswerSource::Network, "TCP", "another hash");
            let wrong = wrong.detail("the server received other bytes than were sent");
            return Err(wrong.into());
        }
        Ok(self.case.facts(None, None))
    }
}

/// Returns the messages per stream for the check: of all streams a second at `rate` bit/s, but at
/// most [`CHECKED`] bytes; a message has `message` bytes.
fn check_message_count(rate: f64, streams: u64, message: u64) -> u64 {
    let bytes = CHECKED.min((rate / 8.0) as u64);
    bytes.div_ceil(message).clamp(1, 1 << 12).div_ceil(streams)
}

const _: () = assert!(DEFAULT_MESSAGE_BYTES <= wire::MAX_MESSAGE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_takes_about_a_second_of_a_slow_path_and_few_bytes_of_a_quick_one() {
        assert_eq!(check_message_count(f64::INFINITY, 1, 128 << 10), 32);
        assert_eq!(check_message_count(f64::INFINITY, 4, 128 << 10), 8);
        assert_eq!(check_message_count(1e9, 1, 1), 1 << 12);
        assert_eq!(check_message_count(400e3, 1, 1000), 50);
        assert_eq!(check_message_count(400e3, 4, 128 << 10), 1, "one message of each stream at least");
        assert_eq!(check_message_count(0.0, 1, 1), 1);
    }
}
