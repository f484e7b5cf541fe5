//! One TCP transfer over all streams of a session, same code at both ends. The receiver counts:
//! from `Go`, as it arrives at the server or could have returned to the client, or from an earlier
//! first piece, without that piece. With omitted time, it counts from the first piece after it.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use plimsoll_metal::tcp::{TcpInfo, set_read_at_least, set_unsent_limit};

use super::exchange::{TransferStreams, exchange, run_streams};
use super::receive::{self, StreamReceived, receive};
use super::send::{StreamSent, page_aligned_copy, send};
use super::tcp_samples::TcpSamples;
use super::timeline::Recorder;
use super::{LostTransfer, SharedTransfer, TransferEnd, TransferMeans, TransferOutcome, nanos};
use crate::wire::{
    Channel, Direction, EndReport, Message, OrderedAmount, ReceivingReport, SendingReport, TcpLook, TcpOrder,
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

/// Performs one end of the TCP transfer `work`, which the client has requested over `channel`.
/// Returns this end's report, at the client also the server's. An error makes the streams unusable.
pub fn transfer(
    channel: &mut Channel,
    work: &TcpOrder,
    means: &TcpMeans<'_>,
) -> Result<TcpOutcome, LostTransfer> {
    exchange(channel, TcpRun::new(work, means, false), means)
}

/// Runs the client's streams of a TCP test that another protocol (iperf3's) controls; if the client
/// receives, for `means.longest`. `finish` gets the bytes sent per stream and returns those that
/// the server sent; `None` ends reception. The server closes its streams.
pub fn run_test(
    work: &TcpOrder,
    means: &TcpMeans<'_>,
    finish: impl FnOnce(&[u64]) -> io::Result<Option<Vec<u64>>>,
) -> Result<EndReport, LostTransfer> {
    run_streams(&TcpRun::new(work, means, true), means, finish)
}

pub(super) struct TcpRun<'a> {
    pub(super) work: &'a TcpOrder,
    pub(super) means: &'a TcpMeans<'a>,
    pub(super) origin: Instant,
    /// Time of the first byte on any stream, ns after `origin`; `u64::MAX` before.
    pub(super) first: AtomicU64,
    /// Whether the sender closes the streams after the last byte.
    pub(super) sender_closes: bool,
}

impl<'a> TcpRun<'a> {
    fn new(work: &'a TcpOrder, means: &'a TcpMeans<'a>, sender_closes: bool) -> Self {
        TcpRun { work, means, origin: Instant::now(), first: AtomicU64::new(u64::MAX), sender_closes }
    }

    fn is_long(&self) -> bool {
        let OrderedAmount::Messages(all) = self.work.amount else { return true };
        let each = all / self.means.sockets.len().max(1) as u64;
        each.saturating_mul(self.means.content.len() as u64) >= 64 * receive::BATCH_BYTES as u64
    }

    /// Returns the rate limit of one stream, bytes/s: an equal share of that of the transfer.
    pub(super) fn most(&self) -> f64 {
        self.means.most / 8.0 / self.means.sockets.len().max(1) as f64
    }
}

impl<'a> TransferStreams for TcpRun<'a> {
    type Sent = StreamSent;
    type Received = StreamReceived;
    type AllSent = SendingReport;
    type AllReceived = ReceivingReport;
    type Watch = TcpWatch<'a>;

    fn direction(&self) -> Direction {
        self.work.direction
    }

    fn prepare(&mut self) -> io::Result<()> {
        self.origin = Instant::now();
        match self.means.end.receives(self.work.direction) && self.is_long() {
            true => self.means.sockets.iter().try_for_each(receive::set_batched_reads),
            false => Ok(()),
        }
    }

    fn watch(&self, sends: bool) -> TcpWatch<'a> {
        TcpWatch::new(if sends { self.means.sockets } else { &[] })
    }

    fn sender(&self, index: usize, stop: &AtomicBool) -> io::Result<impl FnOnce() -> io::Result<StreamSent>> {
        let message = page_aligned_copy(self.means.content)?;
        let until = match self.work.amount {
            OrderedAmount::Nanos(time) => OrderedAmount::Nanos(time.saturating_add(self.work.omit)),
            all => all.share(self.means.sockets.len(), index),
        };
        Ok(move || {
            let socket = &self.means.sockets[index];
            send(socket, message.bytes(), until, self.work.sending, self.most(), stop)
        })
    }

    fn receive(&self, stream: usize, shared: &SharedTransfer) -> io::Result<StreamReceived> {
        receive(self, stream, shared)
    }

    fn delay(&self) -> Duration {
        let info = self.means.sockets.first().and_then(|socket| TcpInfo::of(socket).ok());
        Duration::from_micros(info.map_or(0, |info| u64::from(info.path_rtt_us())))
    }

    fn stop_waiting(&self) -> io::Result<()> {
        self.means.sockets.iter().try_for_each(|socket| set_read_at_least(socket, 1))
    }

    fn look(&self, watch: &mut TcpWatch<'a>, awaited: Option<bool>) -> Result<bool, LostTransfer> {
        let has_sent = watch.look();
        if !has_sent {
            watch.check(self.means.end)?;
        }
        let Some(is_reported) = awaited else { return Ok(has_sent) };
        let sockets = self.means.sockets;
        let bytes = sockets.iter().filter_map(|socket| TcpInfo::of(socket).ok()?.received).sum();
        let has_received = watch.received.update(bytes);
        if !has_received && is_reported && watch.received.is_stuck() {
            let info = sockets.first().and_then(|socket| TcpInfo::of(socket).ok());
            let segment = info.map_or(0, |info| info.send_mss);
            return Err(LostTransfer::Unacknowledged { segment, sender: TransferEnd::Server });
        }
        Ok(has_sent || has_received)
    }

    fn amount(sent: &StreamSent) -> u64 {
        sent.bytes
    }

    fn sent(&self, watch: &mut TcpWatch<'a>, streams: &[StreamSent]) -> SendingReport {
        watch.look();
        let now = watch.now();
        let (last, first) = (watch.take_look(&now), now.first().copied().unwrap_or_default());
        let (rtt_nanos, cwnd_bytes) = watch.tcp_samples.means();
        SendingReport {
            bytes: streams.iter().map(|t| t.bytes).sum(),
            nanos: streams.iter().map(|t| nanos(t.elapsed)).max().unwrap_or_default(),
            cpu_nanos: streams.iter().map(|t| nanos(t.cpu)).sum(),
            retransmits: last.retransmits,
            rtt_nanos,
            cwnd_bytes,
            mss: first.send_mss,
            timestamps: first.timestamps,
            busy_nanos: last.busy_nanos,
            receiver_limited_nanos: last.receiver_limited_nanos,
            buffer_limited_nanos: last.buffer_limited_nanos,
            copied: streams.iter().map(|t| t.copied).sum(),
            looks: std::mem::take(&mut watch.tcp_samples.kept),
        }
    }

    fn received(
        &self,
        streams: Vec<StreamReceived>,
        go: Instant,
        _: &[u64],
    ) -> Result<ReceivingReport, LostTransfer> {
        let origin = self.origin;
        let bytes: u64 = streams.iter().map(|s| s.bytes).sum();
        let last = streams.iter().map(|s| s.last).max().unwrap_or(origin);
        let first = streams.iter().filter_map(|s| s.base).map(|(at, _)| at).min();
        let omitted: u64 = streams.iter().map(|s| s.base.map_or(s.bytes, |(_, before)| before)).sum();
        let (counted, begun) = match first {
            Some(at) if self.work.omit > 0 => (bytes - omitted, at),
            None if self.work.omit > 0 => (0, last),
            // Nearly all in one piece: the transfer time lies before its arrival.
            Some(at) if at < go && omitted * 10 <= bytes => (bytes - omitted, at),
            // Bytes that arrived before the clock started must not be counted by it.
            Some(at) if at < go => (bytes, origin),
            _ if go < last => (bytes, go),
            _ => (bytes, origin),
        };
        Ok(ReceivingReport {
            bytes,
            counted,
            nanos: nanos(last.saturating_duration_since(begun)),
            cpu_nanos: nanos(streams.iter().map(|s| s.cpu).sum()),
            hashes: streams.iter().map(|s| s.hash.0).collect(),
            timeline: Recorder::sum_streams(streams.into_iter().map(|s| s.timeline)),
        })
    }

    fn to_message(report: EndReport) -> Message {
        Message::Done(Box::new(report))
    }

    fn read_report(message: Message) -> Option<EndReport> {
        if let Message::Done(report) = message { Some(*report) } else { None }
    }
}

/// A count of bytes, and when it last changed.
struct ByteProgress {
    bytes: u64,
    at: Instant,
}

impl ByteProgress {
    fn start() -> Self {
        ByteProgress { bytes: 0, at: Instant::now() }
    }

    fn update(&mut self, bytes: u64) -> bool {
        let has_changed = std::mem::replace(&mut self.bytes, bytes) != bytes;
        if has_changed {
            self.at = Instant::now();
        }
        has_changed
    }

    fn is_stuck(&self) -> bool {
        self.at.elapsed() >= UNACKNOWLEDGED
    }
}

/// State of the streams that send, and of the arrivals.
pub(super) struct TcpWatch<'a> {
    sockets: Vec<(&'a TcpStream, TcpInfo)>,
    began: Instant,
    acknowledged: ByteProgress,
    received: ByteProgress,
    tcp_samples: TcpSamples,
}

impl<'a> TcpWatch<'a> {
    fn new(sockets: &'a [TcpStream]) -> Self {
        let with_info = |socket: &'a TcpStream| Some((socket, TcpInfo::of(socket).ok()?));
        let watch = TcpWatch {
            sockets: sockets.iter().filter_map(with_info).collect(),
            began: Instant::now(),
            acknowledged: ByteProgress::start(),
            received: ByteProgress::start(),
            tcp_samples: TcpSamples::default(),
        };
        watch.limit_unsent(watch.sockets.iter().map(|(_, info)| info));
        watch
    }

    /// Limits each send buffer to what the path carries in [`UNSENT`] (100 ms), given a state per
    /// stream: megabytes would keep a slow path busy for a minute after a short sample.
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
        self.acknowledged.update(now.iter().filter_map(|i| i.acknowledged).sum())
    }

    /// Fails if the other end has acknowledged nothing for [`UNACKNOWLEDGED`] (4 s) despite
    /// retransmissions. The error names `sender`, the end that sends.
    fn check(&self, sender: TransferEnd) -> Result<(), LostTransfer> {
        let is_stuck = |info: &&TcpInfo| info.unacknowledged > 0 && info.timeouts >= TIMEOUTS;
        let now = if self.acknowledged.is_stuck() { self.now() } else { Vec::new() };
        match now.iter().find(is_stuck) {
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
}
