//! Streams of datagrams, sent in an open loop, with the same code at both ends.

pub mod account;
pub mod flow;
pub mod pace;
pub mod ports;

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use account::{DatagramLayout, StreamAccount};
use flow::{FlowReceived, FlowSent, FlowShape};
use pace::DatagramPace;

use super::exchange::{TransferStreams, exchange, run_streams};
use super::{LostTransfer, SharedTransfer, TransferMeans, TransferOutcome, nanos};
use crate::wire::{Channel, Direction, Message, UdpOrder, UdpReceived, UdpReport, UdpSent};

/// Parameters of one end of a transfer of datagrams; the content follows their header.
pub type UdpMeans<'a> = TransferMeans<'a, UdpSocket>;

/// Results of a successful transfer of datagrams.
pub type UdpOutcome = TransferOutcome<UdpReport>;

/// Performs one end of the UDP transfer `work`, which the client has requested over `channel`.
/// Returns this end's report, at the client also the server's.
pub fn transfer(
    channel: &mut Channel,
    work: &UdpOrder,
    means: &UdpMeans<'_>,
) -> Result<UdpOutcome, LostTransfer> {
    let layout = DatagramLayout::of(work.datagram as usize);
    exchange(channel, UdpRun { work, means, origin: Instant::now(), layout }, means)
}

/// Runs the client's datagrams of an iperf3 test; if it receives, for `means.longest`. `finish`
/// gets the number sent per stream and returns the server's numbers; `None` ends reception.
pub fn run_test(
    work: &UdpOrder,
    means: &UdpMeans<'_>,
    finish: impl FnOnce(&[u64]) -> io::Result<Option<Vec<u64>>>,
) -> Result<UdpReport, LostTransfer> {
    let layout = DatagramLayout::Iperf3;
    run_streams(&UdpRun { work, means, origin: Instant::now(), layout }, means, finish)
}

struct UdpRun<'a> {
    work: &'a UdpOrder,
    means: &'a UdpMeans<'a>,
    origin: Instant,
    layout: DatagramLayout,
}

impl TransferStreams for UdpRun<'_> {
    type Sent = FlowSent;
    type Received = FlowReceived;
    type AllSent = UdpSent;
    type AllReceived = UdpReceived;
    type Watch = ();

    fn direction(&self) -> Direction {
        self.work.direction
    }

    fn prepare(&mut self) -> io::Result<()> {
        self.origin = Instant::now();
        self.means.sockets.iter().try_for_each(flow::drain)
    }

    fn watch(&self, _: bool) {}

    fn sender(&self, index: usize, stop: &AtomicBool) -> io::Result<impl FnOnce() -> io::Result<FlowSent>> {
        let (streams, size) = (self.means.sockets.len(), self.work.datagram as usize);
        let asked = self.work.rate.map_or(f64::INFINITY, |rate| rate as f64);
        let shape = FlowShape {
            size,
            layout: self.layout,
            pace: DatagramPace::new(asked.min(self.means.most), size, streams),
            tag: self.work.tag,
            until: self.work.amount.share(streams, index),
        };
        Ok(move || flow::send(&self.means.sockets[index], shape, self.means.content, stop))
    }

    fn receive(&self, stream: usize, shared: &SharedTransfer) -> io::Result<FlowReceived> {
        let size = self.work.datagram as usize;
        let account = StreamAccount::new(self.layout, size, self.work.tag);
        let (socket, total) = (&self.means.sockets[stream], &shared.totals[stream]);
        flow::receive(socket, account, size, total, self.origin, &shared.stop)
    }

    fn amount(sent: &FlowSent) -> u64 {
        sent.datagrams
    }

    fn sent(&self, (): &mut (), streams: &[FlowSent]) -> UdpSent {
        UdpSent {
            datagrams: streams.iter().map(|s| s.datagrams).sum(),
            nanos: nanos(flow::total_duration(streams)),
            cpu_nanos: nanos(streams.iter().map(|s| s.cpu).sum()),
            segmented: streams.iter().any(|s| s.segmented),
        }
    }

    fn received(
        &self,
        streams: Vec<FlowReceived>,
        _: Instant,
        totals: &[u64],
    ) -> Result<UdpReceived, LostTransfer> {
        let cpu_nanos = nanos(streams.iter().map(|s| s.cpu).sum());
        let dropped = streams.iter().map(|s| s.dropped).sum();
        let accounts = streams.into_iter().map(|stream| stream.account).zip(totals.iter().copied());
        let all = account::conclude(accounts)?;
        Ok(UdpReceived { dropped, cpu_nanos, ..all })
    }

    fn to_message(report: UdpReport) -> Message {
        Message::UdpDone(Box::new(report))
    }

    fn read_report(message: Message) -> Option<UdpReport> {
        if let Message::UdpDone(report) = message { Some(*report) } else { None }
    }
}
