//! Streams of datagrams, sent in an open loop, with the same code at both ends.

pub mod account;
pub mod flow;
pub mod pace;
pub mod ports;

use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::{Duration, Instant};

use account::{DatagramLayout, DatagramTally, StreamAccount};
use flow::{FlowEnd, FlowReceived, FlowSent, FlowShape};
use pace::DatagramPace;

use super::account::CounterReading;
use super::team::{StartGate, TeamThreads, ThreadTeam, joined, share};
use super::timeline::Recorder;
use super::{
    LostTransfer, ObservedEvent, SharedTransfer, Supervision, TransferEnd, TransferMeans, TransferOutcome,
    nanos, reported_reason,
};
use crate::wire::{
    Channel, Message, OrderedAmount, RESULTS, UdpOrder, UdpReceived, UdpReport, UdpSent, WireError,
};

/// Parameters of one end of a transfer of datagrams; the content follows their header.
pub type UdpMeans<'a> = TransferMeans<'a, UdpSocket>;

/// Results of a successful transfer of datagrams.
pub type UdpOutcome = TransferOutcome<UdpReport>;

/// Performs the transfer `work` of datagrams that the client requested; the server sends `Ready`.
/// Returns this end's report, and at the client also the server's.
pub fn transfer(
    channel: &mut Channel,
    work: &UdpOrder,
    means: &UdpMeans<'_>,
) -> Result<UdpOutcome, LostTransfer> {
    let shared = SharedTransfer::new(means.sockets.len()).map_err(LostTransfer::Here)?;
    let before = means.ledger.read();
    for socket in means.sockets {
        flow::drain(socket).map_err(LostTransfer::Stream)?;
    }
    let outcome = std::thread::scope(|scope| {
        let run = UdpRun { work, means, shared: &shared };
        let supervision = Supervision::new(channel, &shared, means.longest + RESULTS);
        let outcome = run.through(scope, supervision, &before);
        shared.stop.store(true, Ordering::Relaxed);
        outcome
    });
    outcome.map_err(|lost| reported_reason(channel, means.end, lost))
}

struct UdpRun<'env> {
    work: &'env UdpOrder,
    means: &'env UdpMeans<'env>,
    shared: &'env SharedTransfer,
}

struct UdpProgress<'s> {
    sending: Option<TeamThreads<'s, FlowSent>>,
    receiving: Option<TeamThreads<'s, FlowReceived>>,
    totals: Vec<u64>,
    outcome: UdpOutcome,
}

impl<'env> UdpRun<'env> {
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
        before: &CounterReading,
    ) -> Result<UdpOutcome, LostTransfer> {
        if !self.sends() {
            supervision.set_max_silence(RESULTS);
        }
        let receiving = if self.receives() { Some(self.receivers(scope)?) } else { None };
        let (gate, opened) = crossbeam_channel::bounded(0);
        let sending = if self.sends() { Some(self.senders(scope, &opened)?) } else { None };
        // Threads that wait at the gate send nothing if `Go` was not exchanged.
        supervision.begin(self.means.end).inspect_err(|_| self.shared.stop.store(true, Ordering::Relaxed))?;
        drop(gate);
        let mut progress =
            UdpProgress { sending, receiving, totals: Vec::new(), outcome: UdpOutcome::default() };
        loop {
            self.advance(&mut progress, &mut supervision)?;
            let is_server = self.means.end == TransferEnd::Server;
            let done = progress.sending.is_none() && progress.receiving.is_none();
            if done && (is_server || progress.outcome.there.is_some()) {
                progress.outcome.here.account = before.difference_to(&self.means.ledger.read());
                if is_server {
                    supervision.send(&Message::UdpDone(Box::new(progress.outcome.here.clone())))?;
                }
                return Ok(progress.outcome);
            }
            match (supervision.await_next()?, self.means.end) {
                (ObservedEvent::Local, _) => {}
                (ObservedEvent::Message(Message::Sent(totals)), _)
                    if self.receives() && totals.len() == self.means.sockets.len() =>
                {
                    self.shared.set_totals(&totals);
                    progress.totals = totals;
                }
                (ObservedEvent::Message(Message::UdpDone(report)), TransferEnd::Client) => {
                    progress.outcome.there = Some(*report)
                }
                (ObservedEvent::Message(_), _) => return Err(WireError::OutOfTurn.into()),
            }
        }
    }

    fn advance(
        &self,
        progress: &mut UdpProgress<'_>,
        supervision: &mut Supervision<'_>,
    ) -> Result<(), LostTransfer> {
        let all = self.means.sockets.len();
        if self.shared.senders_done.load(Ordering::Acquire) == all
            && let Some(threads) = progress.sending.take()
        {
            let done = joined(threads)?;
            progress.outcome.sent_by_stream = done.iter().map(|d| d.datagrams).collect();
            supervision.send(&Message::Sent(progress.outcome.sent_by_stream.clone()))?;
            progress.outcome.here.sent = Some(sent(&done));
            supervision.set_max_silence(RESULTS);
        }
        if self.shared.receivers_done.load(Ordering::Acquire) == all
            && let Some(threads) = progress.receiving.take()
        {
            progress.outcome.here.received = Some(received(joined(threads)?, &progress.totals)?);
        }
        Ok(())
    }

    fn senders<'s>(
        &self,
        scope: &'s Scope<'s, 'env>,
        gate: &StartGate,
    ) -> Result<TeamThreads<'s, FlowSent>, LostTransfer> {
        let (shared, filler) = (self.shared, self.means.content);
        let works = self.means.sockets.iter().enumerate().map(|(number, socket)| {
            let shape = self.shape(number);
            let gate = gate.clone();
            move || {
                let _ = gate.recv();
                flow::send(socket, shape, filler, &shared.stop)
            }
        });
        let cpus = self.means.cpus;
        ThreadTeam { name: "send", done: &shared.senders_done, shared, cpus, first: 0 }.start(scope, works)
    }

    fn receivers<'s>(
        &self,
        scope: &'s Scope<'s, 'env>,
    ) -> Result<TeamThreads<'s, FlowReceived>, LostTransfer> {
        let shared = self.shared;
        let (size, tag, origin) = (self.work.datagram as usize, self.work.tag, Instant::now());
        let works = self.means.sockets.iter().zip(&shared.totals).map(|(socket, total)| {
            let account = StreamAccount::new(size, tag);
            move || flow::receive(socket, account, size, total, origin, &shared.stop)
        });
        // In both directions at once, receivers use the CPUs after those of the senders.
        let first = if self.sends() { self.means.sockets.len() } else { 0 };
        let cpus = self.means.cpus;
        ThreadTeam { name: "receive", done: &shared.receivers_done, shared, cpus, first }.start(scope, works)
    }

    fn shape(&self, stream: usize) -> FlowShape {
        let (streams, size) = (self.means.sockets.len(), self.work.datagram as usize);
        let asked = self.work.rate.map_or(f64::INFINITY, |rate| rate as f64);
        let until = match self.work.amount {
            OrderedAmount::Nanos(nanos) => FlowEnd::Elapsed(Duration::from_nanos(nanos)),
            OrderedAmount::Messages(all) => FlowEnd::Datagrams(share(all, streams as u64, stream as u64)),
        };
        FlowShape {
            size,
            layout: DatagramLayout::of(size),
            pace: DatagramPace::new(asked.min(self.means.most), size, streams),
            tag: self.work.tag,
            until,
        }
    }
}

fn sent(streams: &[FlowSent]) -> UdpSent {
    UdpSent {
        datagrams: streams.iter().map(|s| s.datagrams).sum(),
        nanos: nanos(flow::total_duration(streams)),
        cpu_nanos: nanos(streams.iter().map(|s| s.cpu).sum()),
        segmented: streams.iter().any(|s| s.segmented),
    }
}

fn received(streams: Vec<FlowReceived>, totals: &[u64]) -> Result<UdpReceived, LostTransfer> {
    let cpu = streams.iter().map(|s| s.cpu).sum();
    let dropped = streams.iter().map(|s| s.dropped).sum();
    let timeline = Recorder::sum_streams(streams.iter().map(|s| s.account.timeline.clone()));
    let mut all = DatagramTally::default();
    for (number, stream) in streams.into_iter().enumerate() {
        let sent = totals.get(number).copied().unwrap_or_default();
        let tally = stream.account.conclude(sent);
        all = all.and(tally.map_err(|e| LostTransfer::Refused(e.to_string()))?);
    }
    Ok(UdpReceived {
        sent: all.sent,
        received: all.received,
        duplicates: all.duplicates,
        reordered: all.reordered,
        stale: all.stale,
        foreign: all.foreign,
        jitter_nanos: all.jitter.map(|jitter| jitter as u64),
        span_nanos: all.span(),
        dropped,
        cpu_nanos: nanos(cpu),
        timeline,
    })
}
