//! One TCP transfer over all streams of a session, with the same code at both ends. The receiver
//! counts: from `Go`, as it arrives at the server or could have returned to the client, or from an
//! earlier first piece, without that piece. With omitted time, it counts from the first piece after
//! it.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use plimsoll_metal::tcp::{TcpInfo, set_read_at_least, set_unsent_limit};

use super::receive::{self, receive};
use super::send::{self, SendEnd, send};
use super::tcp_samples::TcpSamples;
use super::team::{StartGate, TeamThreads, ThreadTeam, joined, share};
use super::timeline::Recorder;
use super::{
    LostTransfer, ObservedEvent, SharedTransfer, Supervision, TransferEnd, TransferMeans, TransferOutcome,
    account, nanos, reported_reason,
};
use crate::wire::{
    Channel, EndReport, Message, OrderedAmount, RESULTS, ReceivingReport, SendingReport, TcpLook, TcpOrder,
};

/// Time and consecutive timeouts after which unacknowledged segments count as lost.
const UNACKNOWLEDGED: Duration = Duration::from_secs(4);
const TIMEOUTS: u8 = 3;

/// A send buffer holds at most what the path carries in this time, or this many bytes.
const UNSENT: Duration = Duration::from_millis(100);
const LEAST_UNSENT: u32 = 64 << 10;

/// Parameters of one end of a TCP transfer; the content is one message.
pub type TcpMeans<'a> = TransferMeans<'a, TcpStream>;

/// Results of a successful TCP transfer.
pub type TcpOutcome = TransferOutcome<EndReport>;

/// Performs the transfer `work` that the client requested; the server sends `Ready`. Returns this
/// end's report, and at the client also the server's. After an error the streams are unusable.
pub fn transfer(
    channel: &mut Channel,
    work: &TcpOrder,
    means: &TcpMeans<'_>,
) -> Result<TcpOutcome, LostTransfer> {
    let shared = SharedTransfer::new(means.sockets.len()).map_err(LostTransfer::Here)?;
    let before = means.ledger.read();
    let origin = Instant::now();
    let first = AtomicU64::new(u64::MAX);
    let outcome = std::thread::scope(|scope| {
        let run = TcpRun { work, means, shared: &shared, origin, first: &first };
        let supervision = Supervision::new(channel, &shared, means.longest + RESULTS);
        let outcome = run.through(scope, supervision, &before);
        shared.stop.store(true, Ordering::Relaxed);
        outcome
    });
    outcome.map_err(|lost| reported_reason(channel, means.end, lost))
}

struct TcpRun<'env> {
    work: &'env TcpOrder,
    means: &'env TcpMeans<'env>,
    shared: &'env SharedTransfer,
    origin: Instant,
    first: &'env AtomicU64,
}

struct TcpProgress<'s, 'env> {
    go: Instant,
    sending: Option<TeamThreads<'s, send::StreamSent>>,
    receiving: Option<TeamThreads<'s, receive::StreamReceived>>,
    infos: Infos<'env>,
    arrivals: ByteArrivals,
    outcome: TcpOutcome,
}

struct ByteArrivals {
    bytes: u64,
    progressed: Instant,
}

impl ByteArrivals {
    fn look(&mut self, sockets: &[TcpStream]) -> bool {
        let bytes = sockets.iter().filter_map(|socket| TcpInfo::of(socket).ok()?.received).sum();
        let has_progressed = std::mem::replace(&mut self.bytes, bytes) != bytes;
        if has_progressed {
            self.progressed = Instant::now();
        }
        has_progressed
    }

    /// Fails if nothing has arrived for [`UNACKNOWLEDGED`]. Call it while sent data is missing.
    fn check(&self, sockets: &[TcpStream]) -> Result<(), LostTransfer> {
        if self.progressed.elapsed() < UNACKNOWLEDGED {
            return Ok(());
        }
        let segment = sockets.first().and_then(|socket| TcpInfo::of(socket).ok()).map_or(0, |i| i.send_mss);
        Err(LostTransfer::Unacknowledged { segment, sender: TransferEnd::Server })
    }
}

impl<'env> TcpRun<'env> {
    fn sends(&self) -> bool {
        self.means.end.sends(self.work.direction)
    }

    fn receives(&self) -> bool {
        self.means.end.receives(self.work.direction)
    }

    fn through<'s>(
        &self,
        scope: &'s Scope<'s, 'env>,
        mut supervision: Supervision<'_>,
        before: &account::CounterReading,
    ) -> Result<TcpOutcome, LostTransfer> {
        if !self.sends() {
            supervision.set_max_silence(RESULTS);
        }
        let receiving = if self.receives() { Some(self.receivers(scope)?) } else { None };
        let (gate, opened) = crossbeam_channel::bounded(0);
        let sending = if self.sends() { Some(self.senders(scope, &opened)?) } else { None };
        let infos = Infos::new(if self.sends() { self.means.sockets } else { &[] });
        // Threads that wait at the gate send nothing if `Go` was not exchanged.
        supervision.begin(self.means.end).inspect_err(|_| self.shared.stop.store(true, Ordering::Relaxed))?;
        let first = self.means.sockets.first().filter(|_| self.means.end == TransferEnd::Client);
        let info = first.and_then(|socket| TcpInfo::of(socket).ok());
        let go = Instant::now() + Duration::from_micros(info.map_or(0, |info| u64::from(info.path_rtt_us())));
        drop(gate);
        let arrivals = ByteArrivals { bytes: 0, progressed: Instant::now() };
        let mut progress =
            TcpProgress { go, sending, receiving, infos, arrivals, outcome: TcpOutcome::default() };
        loop {
            self.advance(&mut progress, &mut supervision)?;
            let is_server = self.means.end == TransferEnd::Server;
            let done = progress.sending.is_none() && progress.receiving.is_none();
            if done && (is_server || progress.outcome.there.is_some()) {
                progress.outcome.here.account = before.difference_to(&self.means.ledger.read());
                if is_server {
                    supervision.send(&Message::Done(Box::new(progress.outcome.here.clone())))?;
                }
                return Ok(progress.outcome);
            }
            match self.expect(supervision.await_next()?)? {
                Some(Message::Done(report)) => progress.outcome.there = Some(*report),
                _ if progress.infos.look() => supervision.message_received(),
                _ => progress.infos.check(self.means.end)?,
            }
            if progress.receiving.is_some() && progress.arrivals.look(self.means.sockets) {
                supervision.message_received();
            } else if progress.receiving.is_some() && progress.outcome.there.is_some() {
                progress.arrivals.check(self.means.sockets)?;
            }
        }
    }

    fn expect(&self, seen: ObservedEvent) -> Result<Option<Message>, LostTransfer> {
        match (seen, self.means.end) {
            (ObservedEvent::Local, _) => Ok(None),
            (ObservedEvent::Message(Message::Sent(totals)), _)
                if self.receives() && totals.len() == self.shared.totals.len() =>
            {
                self.shared.set_totals(&totals);
                // Wakes the threads that wait for more than one byte.
                let immediate = |socket: &TcpStream| set_read_at_least(socket, 1);
                self.means.sockets.iter().try_for_each(immediate).map_err(LostTransfer::Stream)?;
                Ok(None)
            }
            (ObservedEvent::Message(message @ Message::Done(_)), TransferEnd::Client) => Ok(Some(message)),
            (ObservedEvent::Message(_), _) => Err(crate::wire::WireError::OutOfTurn.into()),
        }
    }

    fn advance(
        &self,
        progress: &mut TcpProgress<'_, '_>,
        supervision: &mut Supervision<'_>,
    ) -> Result<(), LostTransfer> {
        let all = self.means.sockets.len();
        if self.shared.senders_done.load(Ordering::Acquire) == all
            && let Some(threads) = progress.sending.take()
        {
            let done = joined(threads)?;
            progress.outcome.sent_by_stream = done.iter().map(|d| d.bytes).collect();
            supervision.send(&Message::Sent(progress.outcome.sent_by_stream.clone()))?;
            progress.outcome.here.sent = Some(progress.infos.sent(&done));
            supervision.set_max_silence(RESULTS);
        }
        if self.shared.receivers_done.load(Ordering::Acquire) == all
            && let Some(threads) = progress.receiving.take()
        {
            progress.outcome.here.received =
                Some(received(&joined(threads)?, self.origin, progress.go, self.work.omit > 0));
        }
        Ok(())
    }

    fn senders<'s>(
        &self,
        scope: &'s Scope<'s, 'env>,
        gate: &StartGate,
    ) -> Result<TeamThreads<'s, send::StreamSent>, LostTransfer> {
        let shared = self.shared;
        let works = self.means.sockets.iter().enumerate().map(|(number, socket)| {
            let (until, sending, most) = (self.until(number), self.work.sending, self.most());
            let (message, gate) = (self.means.content, gate.clone());
            move || {
                let message = send::page_aligned_copy(message)?;
                let _ = gate.recv();
                if shared.stop.load(Ordering::Relaxed) {
                    return Ok(send::StreamSent::default());
                }
                send(socket, send::SendOrders { message: message.bytes(), until, sending, most }, shared)
            }
        });
        let cpus = &self.means.cpus;
        ThreadTeam { name: "send", done: &shared.senders_done, shared, cpus, first: 0 }.start(scope, works)
    }

    fn receivers<'s>(
        &self,
        scope: &'s Scope<'s, 'env>,
    ) -> Result<TeamThreads<'s, receive::StreamReceived>, LostTransfer> {
        let shared = self.shared;
        if self.is_long() {
            let mut sockets = self.means.sockets.iter();
            sockets.try_for_each(receive::set_batched_reads).map_err(LostTransfer::Stream)?;
        }
        let works = self.means.sockets.iter().enumerate().map(|(stream, socket)| {
            let orders = receive::ReceiveOrders {
                stream,
                receiving: self.work.receiving,
                omit: Duration::from_nanos(self.work.omit),
                most: self.most(),
                first: self.first,
                origin: self.origin,
            };
            move || receive(socket, orders, shared)
        });
        // In both directions at once, receivers use the CPUs after those of the senders.
        let first = if self.sends() { self.means.sockets.len() } else { 0 };
        let cpus = &self.means.cpus;
        ThreadTeam { name: "receive", done: &shared.receivers_done, shared, cpus, first }.start(scope, works)
    }

    fn is_long(&self) -> bool {
        match self.work.amount {
            OrderedAmount::Nanos(_) => true,
            OrderedAmount::Messages(all) => {
                let each = all / self.means.sockets.len().max(1) as u64;
                each.saturating_mul(self.means.content.len() as u64) >= 64 * receive::BATCH_BYTES as u64
            }
        }
    }

    /// Returns the rate limit of one stream, bytes/s: an equal share of that of the transfer.
    fn most(&self) -> f64 {
        self.means.most / 8.0 / self.means.sockets.len().max(1) as f64
    }

    fn until(&self, stream: usize) -> SendEnd {
        match self.work.amount {
            OrderedAmount::Nanos(nanos) => {
                SendEnd::Elapsed(Duration::from_nanos(nanos.saturating_add(self.work.omit)))
            }
            OrderedAmount::Messages(all) => {
                SendEnd::Messages(share(all, self.means.sockets.len() as u64, stream as u64))
            }
        }
    }
}

fn received(
    streams: &[receive::StreamReceived],
    origin: Instant,
    go: Instant,
    omits: bool,
) -> ReceivingReport {
    let bytes: u64 = streams.iter().map(|s| s.bytes).sum();
    let last = streams.iter().map(|s| s.last).max().unwrap_or(origin);
    let first = streams.iter().filter_map(|s| s.base).min_by_key(|(at, _)| *at);
    let omitted: u64 = streams.iter().map(|s| s.base.map_or(s.bytes, |(_, before)| before)).sum();
    let (counted, begun) = match first {
        Some((at, _)) if omits => (bytes - omitted, at),
        None if omits => (0, last),
        // Nearly all in one piece: the transfer time lies before its arrival.
        Some((at, _)) if at < go && omitted * 10 <= bytes => (bytes - omitted, at),
        // Bytes that arrived before the clock started must not be counted by it.
        Some((at, _)) if at < go => (bytes, origin),
        _ if go < last => (bytes, go),
        _ => (bytes, origin),
    };
    ReceivingReport {
        bytes,
        counted,
        nanos: nanos(last.saturating_duration_since(begun)),
        cpu_nanos: nanos(streams.iter().map(|s| s.cpu).sum()),
        hashes: streams.iter().map(|s| s.hash.0).collect(),
        timeline: Recorder::sum_streams(streams.iter().map(|s| s.timeline.clone())),
    }
}

struct Infos<'a> {
    sockets: Vec<(&'a TcpStream, TcpInfo)>,
    began: Instant,
    acknowledged: u64,
    progressed: Instant,
    tcp_samples: TcpSamples,
}

impl<'a> Infos<'a> {
    fn new(sockets: &'a [TcpStream]) -> Self {
        let take_look = |socket: &'a TcpStream| Some((socket, TcpInfo::of(socket).ok()?));
        let infos = Infos {
            sockets: sockets.iter().filter_map(take_look).collect(),
            began: Instant::now(),
            acknowledged: 0,
            progressed: Instant::now(),
            tcp_samples: TcpSamples::default(),
        };
        infos.limit_unsent(infos.sockets.iter().map(|(_, info)| info));
        infos
    }

    /// Limits the send buffers to what the path carries in [`UNSENT`], given one state per stream:
    /// a buffer of megabytes would keep a slow path busy for a minute after a short sample.
    fn limit_unsent<'i>(&self, infos: impl Iterator<Item = &'i TcpInfo>) {
        for ((socket, _), info) in self.sockets.iter().zip(infos) {
            let rate = info.delivery_rate.unwrap_or(u64::MAX);
            let bytes = (rate as f64 * UNSENT.as_secs_f64()) as u32;
            let _ = set_unsent_limit(socket, bytes.max(LEAST_UNSENT));
        }
    }

    fn now(&self) -> Vec<TcpInfo> {
        self.sockets.iter().map(|(socket, before)| TcpInfo::of(socket).unwrap_or(*before)).collect()
    }

    fn look(&mut self) -> bool {
        let now = self.now();
        if now.is_empty() {
            return false;
        }
        self.tcp_samples.push(self.take_look(&now));
        self.limit_unsent(now.iter());
        let acknowledged = now.iter().filter_map(|i| i.acknowledged).sum();
        let has_progressed = std::mem::replace(&mut self.acknowledged, acknowledged) != acknowledged;
        if has_progressed {
            self.progressed = Instant::now();
        }
        has_progressed
    }

    /// Fails if the other end has acknowledged nothing for [`UNACKNOWLEDGED`] despite
    /// retransmissions. The error names `sender`, the end that sends.
    fn check(&self, sender: TransferEnd) -> Result<(), LostTransfer> {
        if self.progressed.elapsed() < UNACKNOWLEDGED {
            return Ok(());
        }
        let stuck = |info: &TcpInfo| info.unacknowledged > 0 && info.timeouts >= TIMEOUTS;
        match self.now().iter().find(|info| stuck(info)) {
            Some(info) => Err(LostTransfer::Unacknowledged { segment: info.send_mss, sender }),
            None => Ok(()),
        }
    }

    fn take_look(&self, now: &[TcpInfo]) -> TcpLook {
        let since = |field: fn(&TcpInfo) -> u64| -> u64 {
            let both = self.sockets.iter().zip(now);
            both.map(|((_, before), after)| field(after).saturating_sub(field(before))).sum()
        };
        let micros = |field: fn(&TcpInfo) -> u64| since(field).saturating_mul(1000);
        let rtts: u64 = now.iter().map(|i| u64::from(i.rtt_us)).sum();
        TcpLook {
            at: nanos(self.began.elapsed()),
            rtt_nanos: rtts * 1000 / now.len().max(1) as u64,
            cwnd_bytes: now.iter().map(|i| u64::from(i.cwnd) * u64::from(i.send_mss)).sum(),
            retransmits: since(|i| u64::from(i.total_retransmits)),
            busy_nanos: micros(|i| i.busy_us.unwrap_or_default()),
            receiver_limited_nanos: micros(|i| i.receiver_limited_us.unwrap_or_default()),
            buffer_limited_nanos: micros(|i| i.buffer_limited_us.unwrap_or_default()),
        }
    }

    fn sent(&mut self, threads: &[send::StreamSent]) -> SendingReport {
        self.look();
        let now = self.now();
        let (last, first) = (self.take_look(&now), now.first().copied().unwrap_or_default());
        let (rtt_nanos, cwnd_bytes) = self.tcp_samples.means();
        SendingReport {
            bytes: threads.iter().map(|t| t.bytes).sum(),
            nanos: threads.iter().map(|t| nanos(t.elapsed)).max().unwrap_or_default(),
            cpu_nanos: threads.iter().map(|t| nanos(t.cpu)).sum(),
            retransmits: last.retransmits,
            rtt_nanos,
            cwnd_bytes,
            mss: first.send_mss,
            timestamps: first.timestamps,
            busy_nanos: last.busy_nanos,
            receiver_limited_nanos: last.receiver_limited_nanos,
            buffer_limited_nanos: last.buffer_limited_nanos,
            copied: threads.iter().map(|t| t.copied).sum(),
            looks: self.tcp_samples.kept.clone(),
        }
    }
}
