//! Course of a transfer at either end: threads start, `Go` is exchanged, totals and reports follow.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use super::account::CounterReading;
use super::team::{ThreadTeam, joined};
use super::{
    LostTransfer, SharedTransfer, Supervision, TransferEnd, TransferMeans, TransferOutcome, reported_reason,
};
use crate::wire::{Channel, Direction, EndReport, Message, RESULTS, WireError};

/// Streams of one kind, TCP or UDP, during one transfer.
pub(super) trait TransferStreams: Sync {
    /// Results of a sending and of a receiving thread.
    type Sent: Send;
    type Received: Send;
    /// Results of all of them, for the report.
    type AllSent: Clone + Default;
    type AllReceived: Clone + Default;
    /// State of the streams as the supervising thread observes it.
    type Watch;

    fn direction(&self) -> Direction;

    /// Prepares the sockets for a transfer. Times of arrivals are counted from this call.
    fn prepare(&mut self) -> io::Result<()>;

    /// Starts to observe the streams. `sends`: whether this end sends over them.
    fn watch(&self, sends: bool) -> Self::Watch;

    /// Prepares to send stream `index`. The returned closure sends all of it, or until `stop`.
    fn sender(&self, index: usize, stop: &AtomicBool) -> io::Result<impl FnOnce() -> io::Result<Self::Sent>>;

    fn receive(&self, stream: usize, shared: &SharedTransfer) -> io::Result<Self::Received>;

    /// Returns the time until data requested now could arrive here: a round trip, or 0 if unknown.
    fn delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Wakes receivers that wait for more data than is left; called when the sent totals are known.
    fn stop_waiting(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether data has moved since the last call. Fails if a stream is stuck. `_awaited`:
    /// `None` if this end receives nothing more, else whether the other end's report has arrived.
    fn look(&self, _: &mut Self::Watch, _awaited: Option<bool>) -> Result<bool, LostTransfer> {
        Ok(false)
    }

    /// Returns the amount that a thread has sent: bytes (TCP) or datagrams (UDP).
    fn amount(sent: &Self::Sent) -> u64;

    fn sent(&self, watch: &mut Self::Watch, streams: &[Self::Sent]) -> Self::AllSent;

    /// Sums the threads' results. `go`: when data could first arrive. `totals`: sent, by stream.
    fn received(
        &self,
        streams: Vec<Self::Received>,
        go: Instant,
        totals: &[u64],
    ) -> Result<Self::AllReceived, LostTransfer>;

    fn to_message(report: EndReport<Self::AllSent, Self::AllReceived>) -> Message;

    /// Returns the server's report; `None` if the message is another one.
    fn read_report(message: Message) -> Option<EndReport<Self::AllSent, Self::AllReceived>>;
}

type StreamsOutcome<T> =
    TransferOutcome<EndReport<<T as TransferStreams>::AllSent, <T as TransferStreams>::AllReceived>>;

/// Performs one end of a requested transfer over `streams`, from `Ready` and `Go` to the reports.
/// Returns this end's report, at the client also the server's. An error makes the streams unusable.
pub(super) fn exchange<T: TransferStreams, S: Sync>(
    channel: &mut Channel,
    mut streams: T,
    means: &TransferMeans<'_, S>,
) -> Result<StreamsOutcome<T>, LostTransfer> {
    let shared = SharedTransfer::new(means.sockets.len()).map_err(LostTransfer::Here)?;
    let before = means.ledger.read();
    let prepared = streams.prepare().map_err(LostTransfer::Stream);
    let outcome = std::thread::scope(|scope| {
        let supervision = Supervision::new(channel, &shared, means.longest + RESULTS);
        let outcome =
            prepared.and_then(|()| supervised(scope, supervision, &streams, means, &shared, &before));
        shared.stop.store(true, Ordering::Relaxed);
        outcome
    });
    outcome.map_err(|lost| reported_reason(channel, means.end, lost))
}

/// Runs the client's end of a test that another protocol (iperf3's) controls; receives for
/// `means.longest`. Then calls `finish` with the amount sent per stream; if the client receives,
/// `finish` returns what the server has sent per stream, or `None` to stop receiving at once.
pub(super) fn run_streams<T: TransferStreams, S: Sync>(
    streams: &T,
    means: &TransferMeans<'_, S>,
    finish: impl FnOnce(&[u64]) -> io::Result<Option<Vec<u64>>>,
) -> Result<EndReport<T::AllSent, T::AllReceived>, LostTransfer> {
    let (all, mut report) = (means.sockets.len(), EndReport::default());
    let (shared, go) = (&SharedTransfer::new(all).map_err(LostTransfer::Here)?, Instant::now());
    // Nothing waits for the counter: the threads of the one direction are joined.
    let team = ThreadTeam { name: "stream", done: &shared.senders_done, shared, cpus: means.cpus, first: 0 };
    std::thread::scope(|scope| {
        if means.end.sends(streams.direction()) {
            let works = (0..all).map(|stream| move || streams.sender(stream, &shared.stop)?());
            let done = joined(team.start(scope, works)?)?;
            // The other end reports what its kernel saw; this one does not observe its streams.
            report.sent = Some(streams.sent(&mut streams.watch(false), &done));
            finish(&done.iter().map(T::amount).collect::<Vec<_>>())?;
            return Ok(report);
        }
        let works = (0..all).map(|stream| move || streams.receive(stream, shared));
        let threads = team.start(scope, works)?;
        std::thread::sleep(means.longest);
        let totals = finish(&vec![0; all]);
        let awaited = totals.as_ref().ok().and_then(Option::as_deref);
        shared.set_totals(awaited.unwrap_or_default());
        shared.stop.store(awaited.is_none(), Ordering::Relaxed);
        let done = joined(threads)?;
        report.received = Some(streams.received(done, go, totals?.as_deref().unwrap_or_default())?);
        Ok(report)
    })
}

fn supervised<'s, 'env, T: TransferStreams, S: Sync>(
    scope: &'s Scope<'s, 'env>,
    mut supervision: Supervision<'_>,
    streams: &'env T,
    means: &'env TransferMeans<'_, S>,
    shared: &'env SharedTransfer,
    before: &CounterReading,
) -> Result<StreamsOutcome<T>, LostTransfer> {
    let (all, is_server) = (means.sockets.len(), means.end == TransferEnd::Server);
    let (sends, receives) = (means.end.sends(streams.direction()), means.end.receives(streams.direction()));
    if !sends {
        supervision.set_max_silence(RESULTS);
    }
    // In both directions at once, receivers use the CPUs after those of the senders.
    let first = if sends { all } else { 0 };
    let team = ThreadTeam { name: "receive", done: &shared.receivers_done, shared, cpus: means.cpus, first };
    let works = (0..all).map(|stream| move || streams.receive(stream, shared));
    let mut receiving = receives.then(|| team.start(scope, works)).transpose()?;
    let (gate, opened) = crossbeam_channel::bounded::<Infallible>(0);
    let team = ThreadTeam { name: "send", done: &shared.senders_done, first: 0, ..team };
    let works = (0..all).map(|stream| {
        let gate = opened.clone();
        move || {
            let send = streams.sender(stream, &shared.stop)?;
            // Closed to start all threads together.
            let _ = gate.recv();
            send()
        }
    });
    let mut sending = sends.then(|| team.start(scope, works)).transpose()?;
    let mut watch = streams.watch(sends);
    // Threads that wait at the gate send nothing if `Go` was not exchanged.
    supervision.begin(means.end).inspect_err(|_| shared.stop.store(true, Ordering::Relaxed))?;
    let go = Instant::now() + if is_server { Duration::ZERO } else { streams.delay() };
    drop(gate);
    let mut outcome = StreamsOutcome::<T>::default();
    loop {
        if shared.senders_done.load(Ordering::Acquire) == all
            && let Some(threads) = sending.take()
        {
            let done = joined(threads)?;
            outcome.sent_by_stream = done.iter().map(T::amount).collect();
            supervision.send(&Message::Sent(outcome.sent_by_stream.clone()))?;
            outcome.here.sent = Some(streams.sent(&mut watch, &done));
            supervision.set_max_silence(RESULTS);
        }
        if shared.receivers_done.load(Ordering::Acquire) == all
            && let Some(threads) = receiving.take()
        {
            outcome.here.received = Some(streams.received(joined(threads)?, go, &shared.known_totals())?);
        }
        if sending.is_none() && receiving.is_none() && (is_server || outcome.there.is_some()) {
            outcome.here.account = before.difference_to(&means.ledger.read());
            if is_server {
                supervision.send(&T::to_message(outcome.here.clone()))?;
            }
            return Ok(outcome);
        }
        if let Some(message) = supervision.await_next()? {
            take_message(message, streams, shared, receives, is_server, &mut outcome)?;
        }
        if streams.look(&mut watch, receiving.as_ref().map(|_| outcome.there.is_some()))? {
            supervision.message_received();
        }
    }
}

fn take_message<T: TransferStreams>(
    message: Message,
    streams: &T,
    shared: &SharedTransfer,
    receives: bool,
    is_server: bool,
    outcome: &mut StreamsOutcome<T>,
) -> Result<(), LostTransfer> {
    match message {
        Message::Sent(totals) if receives && totals.len() == shared.totals.len() => {
            shared.set_totals(&totals);
            streams.stop_waiting().map_err(LostTransfer::Stream)
        }
        message if !is_server => {
            outcome.there = Some(T::read_report(message).ok_or(WireError::OutOfTurn)?);
            Ok(())
        }
        _ => Err(WireError::OutOfTurn.into()),
    }
}
