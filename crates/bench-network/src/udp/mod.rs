//! `network.udp`: throughput of UDP datagrams, counted by the receiver. A sample is one transfer in
//! open loop. Goodput is the payload without duplicates over the longer of both ends' times.

mod search;

use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use search::RateTrial;

use crate::condition::{
    DROPPED_AT_RECEIVER, DUPLICATES, END_FULLEST_CPU_BUSY, FOREIGN, OFFERED, REORDERED, TOO_LATE,
};
use crate::fact::SEGMENTATION;
use crate::job::NetworkJob;
use crate::path::fault;
use crate::server::ServerAddress;
use crate::setup::{NetworkSetup, candidates, streaming, with_options};
use crate::stream_case::{self, JudgedSample, StreamCase, StreamTransfers};
use crate::warning::NetworkWarning;
use crate::{CPU_METRIC, GOODPUT, LOSS, MESSAGES_METRIC, check_echoes, message_sizes, random_bytes, seed};
use crate::{EndPlacement, JITTER, STREAM, amount, fit_a_datagram, new_sample};
use plimsoll_bench_api::fixed::AveragePace;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::network::NetworkStreams;
use plimsoll_model::sample::Numbers;
use plimsoll_server::traffic::probe::path::UdpPath;
use plimsoll_server::traffic::probe::payload::Payload;
use plimsoll_server::traffic::probe::{RoundTripOptions, round_trips};
use plimsoll_server::traffic::udp::UdpOutcome;
use plimsoll_server::traffic::{LostTransfer, TransferEnd, nanos};
use plimsoll_server::wire::{self, Trip, UdpReceived, UdpSent};
use plimsoll_server::wire::{ArrivalTimeline, Message, OrderedAmount, TcpOrder, UdpOrder, WaitMode};
use plimsoll_stats::Trend;

/// Default datagram size, bytes: fits in a packet of 1500 bytes, even in a tunnel.
const DEFAULT_DATAGRAM_BYTES: u32 = 1 << 10;
/// Datagrams that are echoed and compared after the last sample.
const CHECKED: u64 = 20;
const CHECK_TIME: Duration = Duration::from_millis(500);
/// Shortest search, seconds: delays that vary by a few ms hide a growth of 1 % in less time.
const LEAST_SEARCH: f64 = 2.0;

/// The benchmark `network.udp`.
#[derive(Debug)]
pub struct Udp;

impl Benchmark for Udp {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "network.udp",
            about: "throughput and loss of UDP datagrams, measured by the receiver",
            words: &[
                LabelPart::Word("UDP"),
                LabelPart::Value("message"),
                LabelPart::Word("datagrams"),
                LabelPart::Rates(Unit::BitPerSecond),
            ],
            keys: &[
                "message",
                "streams",
                "direction",
                "server",
                "rate",
                "search",
                "bind",
                "volume",
                "count",
                "scaling",
            ],
            common: Some(STREAM),
            curves: &[
                Curve { x: OFFERED.name, x_unit: "bit/s", log: false, y: GOODPUT, y_unit: "bit/s" },
                Curve { x: OFFERED.name, x_unit: "bit/s", log: false, y: LOSS.name, y_unit: "" },
            ],
            // Assumes a link of 10 Gbit/s.
            pace: Some(AveragePace { bytes: 1.25e9, operations: 1e6 }),
            limits: crate::limit::of_datagrams,
            metrics: const {
                &[
                    Metric::new(GOODPUT, Unit::BitPerSecond, Better::Higher)
                        .about("bits per second that the receiver got"),
                    Metric::new(MESSAGES_METRIC, Unit::PerSecond, Better::Higher)
                        .about("datagrams per second that the receiver got"),
                    LOSS,
                    Metric::new(CPU_METRIC, Unit::Second, Better::Lower)
                        .about("processor time of both ends for a byte"),
                    Metric::new(JITTER, Unit::Second, Better::Lower)
                        .about("how much the time on the way differs from datagram to datagram (RFC 3550)")
                        .shown_between("jitter", ""),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn metric_of(&self, case: &Case, row: Metric) -> Option<Metric> {
        // Smaller datagrams have no room for a timestamp.
        let timed = NetworkStreams::of(case).message.is_none_or(|bytes| bytes >= 16);
        Some(row).filter(|row| timed || row.name != JITTER)
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let sizes = message_sizes(group, DEFAULT_DATAGRAM_BYTES)?;
        fit_a_datagram(&sizes, "UDP")?;
        if group.asked("search") && group.asked("rate") {
            return Err("--search and --rate are mutually exclusive: the search finds the rate".to_owned());
        }
        if group.asked("search") && (group.asked("volume") || group.asked("count")) {
            return Err(
                "--search is not supported with --volume and --count: each trial lasts for a time".to_owned()
            );
        }
        let cases = streaming(self.name(), sizes, group)?;
        let cases = with_options(cases, group, self.keys())?;
        candidates(machine, cases, DEFAULT_DATAGRAM_BYTES)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let (job, seed): (NetworkJob, u64) = (parsed.read()?, seed(cx, case));
        if let Some(ServerAddress::Iperf3(address)) = job.server.clone() {
            return Ok(Box::new(super::iperf3::Client::new(&address, job, true, seed, cx.machine)?));
        }
        let setup = NetworkSetup::from_job(&job, EndPlacement::on_two_cores(cx.machine), cx)?;
        Ok(Box::new(Datagrams::new(&setup, &job, seed)?))
    }
}

/// UDP sockets to a server.
#[derive(Debug)]
pub struct Datagrams {
    case: StreamCase,
    sockets: Vec<UdpSocket>,
    work: UdpOrder,
    filler: Vec<u8>,
    searches: bool,
    searches_done: usize,
    unfinished: usize,
    unproved: usize,
    segmented: bool,
    foreign: u64,
}

impl Datagrams {
    /// Opens a session and the UDP sockets of a case; `seed` determines the content of datagrams.
    pub fn new(setup: &NetworkSetup, job: &NetworkJob, seed: u64) -> Result<Self, CannotMeasure> {
        let TcpOrder { message: datagram, streams, direction, amount, .. } = job.work;
        let mut case = StreamCase::open(setup, job)?;
        let sockets = case.session.open_udp(streams)?;
        // Between 1 and 10¹⁵.
        let rate = job.rate.map(|rate| rate as u64);
        Ok(Datagrams {
            case,
            sockets,
            work: UdpOrder { streams, datagram, direction, amount, rate, tag: 0 },
            filler: random_bytes(datagram as usize, seed),
            searches: job.searches,
            searches_done: 0,
            unfinished: 0,
            unproved: 0,
            segmented: false,
            foreign: 0,
        })
    }

    /// Transfers at `rate` bit/s (`None`: full speed). Returns the sample and its role in a search.
    fn transfer_at(
        &mut self,
        amount: SampleAmount,
        rate: Option<u64>,
    ) -> Result<(JudgedSample, RateTrial), CannotMeasure> {
        let fixed = self.case.fixed.filter(|_| !self.searches);
        let amount = amount::amount_of_sample(fixed, amount, self.work.streams);
        let work = UdpOrder { amount, rate, tag: tag(), ..self.work.clone() };
        let began = Instant::now();
        let StreamCase { session, placement, .. } = &mut self.case;
        let done = session.transfer_udp(&work, &self.sockets, &self.filler, &placement.near)?;
        let ways = ways(&work, &done)?;
        self.check_arrivals(&work, &ways)?;
        self.foreign += ways.iter().map(|direction| direction.received.foreign).sum::<u64>();
        self.segmented = ways.iter().any(|direction| direction.sent.segmented);
        let sent = ways.iter().map(|direction| direction.sent.datagrams).min();
        if let Some((fixed, sent)) = self.case.fixed.as_mut().zip(sent).filter(|_| !self.searches) {
            fixed.moved(sent);
        }
        let (mut sample, trial) = sample_of(&work, &ways, &done);
        sample.conditions.more.add(self.case.path.conditions.clone());
        let bits = f64::from(work.datagram) * 8.0;
        let rates = ways.iter().map(|one| (&one.received.timeline, one.bits_per_second(bits)));
        let rates: Vec<(&ArrivalTimeline, f64)> = rates.collect();
        // In a search, only transfers at full speed show the behaviour of the path.
        let shows = !self.searches || rate.is_none();
        let judged = match shows {
            true => self.case.judge(sample, began, &rates, bits),
            false => (sample, rates.iter().map(|(_, whole)| *whole).collect(), false),
        };
        Ok((judged, trial))
    }

    /// Fails if nothing arrived in a direction, and no datagram of this size does in a probe.
    fn check_arrivals(&mut self, work: &UdpOrder, ways: &[UdpDirection<'_>]) -> Result<(), CannotMeasure> {
        let senders = [TransferEnd::Client, TransferEnd::Server].into_iter();
        let senders = senders.filter(|end| end.sends(work.direction));
        let is_private = self.case.session.pid().is_some();
        for (sender, done) in senders.zip(ways) {
            if is_private || done.sent.datagrams == 0 || done.received.received > 0 {
                continue;
            }
            let fault = fault::probe_datagrams(&mut self.case.session, &self.sockets, sender, work.datagram)?;
            if let Some(fault) = fault {
                return Err(fault.of_server(self.case.session.address));
            }
        }
        Ok(())
    }

    fn searched(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let SampleAmount::Seconds(seconds) = amount else {
            return Err(CannotMeasure::not_here("--search is mutually exclusive with --volume and --count"));
        };
        // Each trial is shorter than the sum of all trials. The server must allow the longest one.
        let allowed = Duration::from_nanos(self.case.session.welcome.max_nanos).as_secs_f64()
            / search::ALL_TRIALS_SHARE;
        let seconds = seconds.max(LEAST_SEARCH).min(allowed);
        let most = self.case.watch.base();
        let found = search::search(seconds, most, |rate, seconds| {
            let rate = rate.map(|rate| rate.max(1.0) as u64);
            let ((sample, ..), trial) = self.transfer_at(SampleAmount::Seconds(seconds), rate)?;
            Ok((trial, sample))
        })?;
        if most.is_none() && self.detect_bucket() {
            self.case.held.forget();
            // A rate found before the bucket was known may be its burst rate.
            let again = self.searched(amount)?;
            return Ok(Sample { renewed: true, ..again });
        }
        self.searches_done += 1;
        self.unfinished += usize::from(found.unfinished);
        self.unproved += usize::from(!found.proved);
        let curve: Vec<CurvePoint> = found.tried.iter().map(|(trial, _)| trial.point()).collect();
        let lowest = found.tried.iter().map(|(trial, _)| trial.offered).fold(f64::INFINITY, f64::min);
        match found.best() {
            Some((trial, sample)) => {
                let ways = self.work.direction.count();
                let mut sample = Sample { curve, ..sample.clone() };
                self.case.record(&mut sample, &vec![trial.goodput / ways as f64; ways]);
                Ok(sample)
            }
            None => Err(CannotMeasure::not_here(format!(
                "every rate that was tried {}, down to {}; measure with --rate and read the loss",
                found.too_much(),
                Quantity { value: lowest, unit: Unit::BitPerSecond }
            ))),
        }
    }
}

/// Returns why a result is invalid if at least half of the searches did not prove their rate.
fn unproved(unproved: usize, searches: usize) -> Option<String> {
    (unproved > 0 && 2 * unproved >= searches).then(|| {
        format!(
            "{unproved} of {searches} searches did not show that the path serves the rate: its delays vary too much for their time; use a longer --sample-time"
        )
    })
}

fn tag() -> u32 {
    u32::from_ne_bytes(plimsoll_system::random::unique_bytes())
}

struct UdpDirection<'a> {
    sent: &'a UdpSent,
    received: &'a UdpReceived,
    interval: f64,
}

impl UdpDirection<'_> {
    fn spent(&self) -> f64 {
        Duration::from_nanos(self.sent.nanos.max(self.received.span_nanos)).as_secs_f64().max(1e-9)
    }

    fn sending(&self) -> f64 {
        let sent = Duration::from_nanos(self.sent.nanos).as_secs_f64();
        sent.max(self.sent.datagrams as f64 * self.interval)
    }

    fn seconds(&self) -> f64 {
        self.spent().max(self.sending())
    }

    fn bits_per_second(&self, bits: f64) -> f64 {
        self.received.received as f64 * bits / self.seconds()
    }

    fn is_plausible(&self, bytes: u64) -> bool {
        let UdpReceived { sent, received, duplicates, ref timeline, .. } = *self.received;
        let arrived = timeline.bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        sent == self.sent.datagrams
            && received <= sent
            && arrived <= received.saturating_add(duplicates).saturating_mul(bytes)
            && self.sent.nanos > 0
    }
}

/// Returns the highest rate at the end, bit/s, and the surest growth of delay, of any direction.
fn tails(ways: &[UdpDirection<'_>]) -> (Option<f64>, Option<Trend>) {
    let all: Vec<_> = ways.iter().map(|direction| search::tail(&direction.received.timeline)).collect();
    let rate = all.iter().filter_map(|(rate, _)| *rate).reduce(f64::max);
    let surely = |trend: &Trend| trend.slope - 2.0 * trend.error;
    let growth = all.iter().filter_map(|(_, growth)| *growth);
    (rate, growth.max_by(|a, b| surely(a).total_cmp(&surely(b))))
}

fn ways<'a>(work: &UdpOrder, done: &'a UdpOutcome) -> Result<Vec<UdpDirection<'a>>, CannotMeasure> {
    let bits = f64::from(work.datagram) * 8.0;
    let interval = work.rate.filter(|rate| *rate > 0).map_or(0.0, |rate| bits / rate as f64);
    let ways = done.there.iter().flat_map(|there| stream_case::directions(&done.here, there));
    let ways: Vec<UdpDirection<'a>> =
        ways.map(|(sent, received)| UdpDirection { sent, received, interval }).collect();
    let is_plausible = |direction: &UdpDirection<'_>| direction.is_plausible(work.datagram.into());
    match ways.len() == work.direction.count() && ways.iter().all(is_plausible) {
        true => Ok(ways),
        false => Err(CannotMeasure::server_failed(
            "the server reports other datagrams than the client: both must be the same build",
        )),
    }
}

fn sample_of(work: &UdpOrder, ways: &[UdpDirection<'_>], done: &UdpOutcome) -> (Sample, RateTrial) {
    let bits = f64::from(work.datagram) * 8.0;
    let total =
        |count: fn(&UdpDirection<'_>) -> u64| ways.iter().map(count).fold(0, u64::saturating_add) as f64;
    let goodput: f64 = ways.iter().map(|direction| direction.bits_per_second(bits)).sum();
    let offered =
        ways.iter().map(|direction| direction.sent.datagrams as f64 * bits / direction.sending()).sum();
    let (sent, received) = (total(|w| w.sent.datagrams), total(|w| w.received.received));
    let loss = if sent > 0.0 { (sent - received) / sent } else { 0.0 };
    let cpu = total(|w| w.sent.cpu_nanos.saturating_add(w.received.cpu_nanos)) * 1e-9;
    let mut values = vec![(GOODPUT, goodput), (MESSAGES_METRIC, goodput / bits), (LOSS.name, loss)];
    if received > 0.0 {
        values.push((CPU_METRIC, cpu / (received * f64::from(work.datagram))));
    }
    let jitters: Vec<f64> =
        ways.iter().filter_map(|w| Some(w.received.jitter_nanos? as f64 * 1e-9)).collect();
    if !jitters.is_empty() {
        values.push((JITTER, jitters.iter().sum::<f64>() / jitters.len() as f64));
    }
    let more = [
        (OFFERED, offered),
        (DUPLICATES, total(|w| w.received.duplicates)),
        (REORDERED, total(|w| w.received.reordered)),
        (TOO_LATE, total(|w| w.received.stale)),
        (FOREIGN, total(|w| w.received.foreign)),
        (DROPPED_AT_RECEIVER, total(|w| w.received.dropped.unwrap_or_default())),
    ];
    let mut more: Numbers = more.into_iter().collect();
    for (end, report) in [("near", Some(&done.here)), ("far", done.there.as_ref())] {
        let Some(report) = report else { continue };
        more.set_of(&END_FULLEST_CPU_BUSY, end, f64::from(report.account.fullest_busy) * 1e-6);
    }
    let sample = new_sample(ways.iter().map(UdpDirection::spent).fold(0.0, f64::max), values, more);
    let most = ways.iter().map(|direction| direction.bits_per_second(bits)).fold(0.0, f64::max);
    let (arriving, growth) = tails(ways);
    let each = offered / ways.len().max(1) as f64;
    (sample, RateTrial { offered, each, goodput, loss, arriving: arriving.unwrap_or(most), growth })
}

impl StreamTransfers for Datagrams {
    fn case(&mut self) -> &mut StreamCase {
        &mut self.case
    }

    fn transfer(&mut self, amount: SampleAmount) -> Result<JudgedSample, CannotMeasure> {
        self.transfer_at(amount, self.work.rate).map(|(judged, _)| judged)
    }

    fn detect_bucket(&mut self) -> bool {
        let StreamCase { session, placement, watch, .. } = &mut self.case;
        watch.detect_bucket(session.welcome.max_nanos, |nanos| {
            let amount = OrderedAmount::Nanos(nanos);
            let work = UdpOrder { amount, tag: tag(), ..self.work.clone() };
            let done = session.transfer_udp(&work, &self.sockets, &self.filler, &placement.near)?;
            Ok(ways(&work, &done)?.iter().map(|direction| direction.received.timeline.clone()).collect())
        })
    }
}

impl Prepared for Datagrams {
    fn offer(&self) -> Offer {
        self.case.placement.offer(self.work.streams.into())
    }

    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let warms_up = !self.case.held.warm;
        let sample = match self.searches {
            true if warms_up => self.transfer_at(amount, None).map(|((sample, ..), _)| sample),
            true => self.searched(amount),
            false => self.settled(amount),
        };
        self.case.held.end_sample();
        sample
    }

    /// Has some datagrams of the first stream echoed and compares them in full. Lost ones are no
    /// wrong answer.
    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        const DURING: &str = "a check of datagrams";
        // Long enough to distinguish a changed datagram from a foreign one.
        let size = self.filler.len().max(Payload::WITH_TOKEN);
        let mut payload = Payload::new(self.filler.iter().copied().cycle().take(size).collect());
        let session = &mut self.case.session;
        let request = Message::Trips(wire::TripsOrder {
            trip: Trip::Udp,
            streams: self.work.streams,
            message: payload.bytes().len() as u32,
            waiting: WaitMode::Block,
            longest: session.welcome.max_nanos.min(nanos(CHECK_TIME * CHECKED as u32)),
            place: 0,
        });
        session.begin(&request)?;
        let until = OrderedAmount::Messages(CHECKED);
        let manner =
            RoundTripOptions { wait: WaitMode::Block, timeout: CHECK_TIME, interval: Duration::ZERO, until };
        let mut path = UdpPath(&self.sockets[0]);
        let trips = round_trips(&mut path, &mut payload, 0, manner, &AtomicBool::new(false));
        let trips = trips.map_err(|e| session.lost(DURING, &LostTransfer::from_socket_error(e)))?;
        session.finish_trips().map_err(|e| session.lost(DURING, &e.into()))?;
        check_echoes("UDP", "datagrams came back with other bytes than were sent", trips.wrong)?;
        let (searches, all) = (self.unfinished, self.searches_done);
        let search = NetworkWarning::SearchNotConverged { searches, all };
        let search = (searches > 0).then(|| search.into());
        let mut facts = self.case.facts(super::foreign_datagrams(self.foreign), search);
        facts.achieved.set(&SEGMENTATION, if self.segmented { "kernel" } else { "none" });
        facts.invalid = unproved(self.unproved, all).or(facts.invalid);
        Ok(facts)
    }
}
