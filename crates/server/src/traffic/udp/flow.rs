//! Send and receive loops of one stream of datagrams, for both ends. All waits are bounded.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_metal::datagram::{
    MAX_DATAGRAM, ReceiveBatch, Segmentation, SendBatch, dropped_at_socket, enable_receive_offload,
};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::account::{DatagramLayout, StreamAccount};
use super::pace::DatagramPace;
use crate::traffic::{nanos, thread_cpu_time};
use crate::wire::OrderedAmount;

const IDLE_LOOK_TIME: Duration = Duration::from_millis(20);
/// Time without arrivals after which no more datagrams are expected from the path.
const QUIET: Duration = Duration::from_millis(200);
/// Longest total wait for them after the sender has ended.
const MAX_TAIL_TIME: Duration = Duration::from_secs(2);
/// Requested size of each buffer, bytes: a millisecond at 30 Gbit/s. More would leave the caches.
const BUFFER_BYTES: usize = 4 << 20;
/// Count of sent datagrams while it is unknown.
pub const UNKNOWN_COUNT: u64 = u64::MAX;

/// Parameters of one sending stream.
#[derive(Clone, Copy, Debug)]
pub struct FlowShape {
    /// Datagram size, bytes.
    pub size: usize,
    /// Pace; `None` for full speed.
    pub pace: Option<DatagramPace>,
    /// Header of the datagrams.
    pub layout: DatagramLayout,
    /// Tag of the transfer, known to the receiver.
    pub tag: u32,
    /// End condition.
    pub until: OrderedAmount,
}

/// Results of the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSent {
    /// Datagrams that the kernel accepted.
    pub datagrams: u64,
    /// Start time.
    pub began: Instant,
    /// Wall-clock time of sending.
    pub elapsed: Duration,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Whether the kernel segmented the datagrams.
    pub segmented: bool,
}

/// Results of a receiver.
#[derive(Debug)]
pub struct FlowReceived {
    /// Account, to be concluded with the sender's count.
    pub account: StreamAccount,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Datagrams dropped because the socket buffer was full, if the kernel reports it.
    pub dropped: Option<u64>,
}

/// Opens a UDP socket with 4 MiB buffers on a free port of `local`, connected to `remote`.
pub fn open(mut local: SocketAddr, remote: SocketAddr) -> io::Result<UdpSocket> {
    local.set_port(0);
    let socket = UdpSocket::bind(local)?;
    enlarge_buffers(&socket)?;
    socket.connect(remote)?;
    Ok(socket)
}

/// Requests 4 MiB send and receive buffers; without CAP_NET_ADMIN the kernel's limits apply.
pub fn enlarge_buffers(socket: &UdpSocket) -> io::Result<()> {
    // Above `net.core.rmem_max` only with CAP_NET_ADMIN; without it, up to that.
    sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_BYTES)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, BUFFER_BYTES))?;
    sockopt::set_socket_send_buffer_size_force(socket, BUFFER_BYTES)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, BUFFER_BYTES))?;
    Ok(())
}

/// Selects segmentation by the kernel if datagrams fit in the path's MTU and leave in bursts.
fn segmentation(socket: &UdpSocket, size: usize, pace: Option<DatagramPace>) -> Segmentation {
    let is_v6 = socket.peer_addr().is_ok_and(|remote| remote.is_ipv6());
    let (headers, mtu) = if is_v6 { (48, sockopt::ipv6_mtu(socket)) } else { (28, sockopt::ip_mtu(socket)) };
    // One by one if they can be spread over time: a burst fills queues that a steady rate does not.
    let together = pace.is_none_or(DatagramPace::is_bursty);
    match mtu {
        Ok(mtu) if together && size + headers <= mtu as usize => Segmentation::Kernel,
        _ => Segmentation::None,
    }
}

/// Sends datagrams of `shape` with the content `filler` until the end condition or `stop`. Fails
/// with `ConnectionRefused` if the other end no longer listens.
pub fn send(socket: &UdpSocket, shape: FlowShape, filler: &[u8], stop: &AtomicBool) -> io::Result<FlowSent> {
    socket.set_write_timeout(Some(IDLE_LOOK_TIME))?;
    let mut sender = Sender::new(socket, shape, filler)?;
    let (started, cpu) = (Instant::now(), thread_cpu_time());
    let (mut sent, mut elapsed) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let due = shape.pace.map_or(Ok(u64::MAX), |pace| pace.due(elapsed, sent)).unwrap_or_else(|wait| {
            std::thread::sleep(wait.min(IDLE_LOOK_TIME));
            0
        });
        let left = match shape.until {
            OrderedAmount::Messages(all) => all.saturating_sub(sent),
            OrderedAmount::Nanos(_) => u64::MAX,
        };
        sent += sender.send_burst(due.min(left), sent, nanos(elapsed))?;
        elapsed = started.elapsed();
        if shape.until.is_over(sent, elapsed) {
            break;
        }
    }
    let cpu = thread_cpu_time().saturating_sub(cpu);
    Ok(FlowSent { datagrams: sent, began: started, elapsed, cpu, segmented: sender.batch.per_message() > 1 })
}

struct Sender<'a> {
    socket: &'a UdpSocket,
    batch: SendBatch,
    shape: FlowShape,
    filler: &'a [u8],
}

impl<'a> Sender<'a> {
    fn new(socket: &'a UdpSocket, shape: FlowShape, filler: &'a [u8]) -> io::Result<Self> {
        let batch = SendBatch::new(shape.size, Segmentation::None);
        let mut sender = Sender { socket, batch, shape, filler };
        let wanted = segmentation(socket, shape.size, shape.pace);
        let prepared = sender.batch_of(wanted).or_else(|_| sender.batch_of(Segmentation::None));
        // A kernel without the option also refuses to disable it.
        prepared.or_else(|e| if wanted == Segmentation::Kernel { Ok(()) } else { Err(e) })?;
        Ok(sender)
    }

    fn batch_of(&mut self, segmentation: Segmentation) -> io::Result<()> {
        let mut batch = SendBatch::new(self.shape.size, segmentation);
        for index in 0..batch.capacity() {
            let bytes = batch.datagram_mut(index).iter_mut().zip(self.filler.iter().cycle());
            bytes.for_each(|(byte, filler)| *byte = *filler);
        }
        let prepared = batch.prepare(self.socket);
        self.batch = batch;
        prepared
    }

    /// Sends up to `due` datagrams numbered from `first`, stamped `now` ns. Returns how many.
    fn send_burst(&mut self, due: u64, first: u64, now: u64) -> io::Result<u64> {
        let count = due.min(self.batch.capacity() as u64) as usize;
        let FlowShape { layout, tag, .. } = self.shape;
        for index in 0..count {
            layout.write(self.batch.datagram_mut(index), tag, first + index as u64, now);
        }
        let mut gone = 0;
        while gone < count {
            let sent = self.batch.send(self.socket, gone..count);
            match sent.map_err(|e| (Errno::from_io_error(&e), e)) {
                Ok(taken) => gone += taken,
                // The send buffer is full: the rest is neither sent nor counted.
                Err((Some(Errno::AGAIN | Errno::NOBUFS), _)) => break,
                Err((Some(Errno::IO | Errno::INVAL), _)) if self.batch.per_message() > 1 => {
                    self.batch_of(Segmentation::None)?;
                    break;
                }
                Err((_, e)) => return Err(e),
            }
        }
        Ok(gone as u64)
    }
}

/// Returns the time from the first start to the last end: on few CPUs streams send in turn.
pub fn total_duration(streams: &[FlowSent]) -> Duration {
    let first = streams.iter().map(|sent| sent.began).min();
    let last = streams.iter().map(|sent| sent.began + sent.elapsed).max();
    first.zip(last).map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first))
}

/// Receives datagrams of `size` bytes into `account` until `stop`, or until `sent` (the sender's
/// count, [`UNKNOWN_COUNT`] while it sends) have come or are overdue. Times count from `origin`.
pub fn receive(
    socket: &UdpSocket,
    mut account: StreamAccount,
    size: usize,
    sent: &AtomicU64,
    origin: Instant,
    stop: &AtomicBool,
) -> io::Result<FlowReceived> {
    let offload = enable_receive_offload(socket).is_ok();
    let mut batch = ReceiveBatch::new(if offload { MAX_DATAGRAM } else { size });
    socket.set_read_timeout(Some(IDLE_LOOK_TIME))?;
    let dropped_before = dropped_at_socket(socket).ok();
    let cpu = thread_cpu_time();
    let (mut last, mut ended) = (Duration::ZERO, None);
    while !stop.load(Ordering::Relaxed) {
        let arrived = match batch.receive(socket) {
            Ok(_) => true,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => false,
            Err(e) => return Err(e),
        };
        let now = origin.elapsed();
        for datagram in batch.datagrams() {
            account.arrive(datagram, nanos(now));
        }
        last = if arrived { now } else { last };
        let count = sent.load(Ordering::Acquire);
        if count != UNKNOWN_COUNT {
            let since = *ended.get_or_insert(now);
            let is_quiet = now.saturating_sub(last.max(since)) >= QUIET;
            if account.received() >= count || is_quiet || now.saturating_sub(since) >= MAX_TAIL_TIME {
                break;
            }
        }
    }
    let dropped = dropped_before.zip(dropped_at_socket(socket).ok());
    Ok(FlowReceived {
        account,
        cpu: thread_cpu_time().saturating_sub(cpu),
        dropped: dropped.map(|(before, after)| u64::from(after.wrapping_sub(before))),
    })
}

/// Discards what is left in the socket, such as late datagrams of an earlier transfer.
pub fn drain(socket: &UdpSocket) -> io::Result<()> {
    const MAX_RECEIVE_BUFFER_BYTES: usize = 1 << 20;
    socket.set_nonblocking(true)?;
    let mut byte = [0];
    let empty = (0..MAX_RECEIVE_BUFFER_BYTES).find_map(|_| socket.recv(&mut byte).err());
    socket.set_nonblocking(false)?;
    match empty {
        Some(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::account::conclude;
    use super::*;

    const TAG: u32 = 7;
    const HOUR: OrderedAmount = OrderedAmount::Nanos(3_600_000_000_000);

    fn pair() -> (UdpSocket, UdpSocket) {
        let any = SocketAddr::from(([127, 0, 0, 1], 9));
        let a = open(any, any).unwrap();
        let b = open(any, a.local_addr().unwrap()).unwrap();
        a.connect(b.local_addr().unwrap()).unwrap();
        (a, b)
    }

    fn shape(size: usize, until: OrderedAmount) -> FlowShape {
        FlowShape { size, pace: None, layout: DatagramLayout::of(size), tag: TAG, until }
    }

    fn run(shape: FlowShape) -> (FlowSent, FlowReceived) {
        let (a, b) = pair();
        let (ending, stop) = (AtomicU64::new(UNKNOWN_COUNT), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let account = StreamAccount::new(shape.layout, shape.size, TAG);
            let receiver =
                scope.spawn(|| receive(&b, account, shape.size, &ending, Instant::now(), &stop).unwrap());
            let sent = send(&a, shape, &[0xa5; 64], &stop).unwrap();
            ending.store(sent.datagrams, Ordering::Release);
            (sent, receiver.join().unwrap())
        })
    }

    #[test]
    fn exactly_the_number_asked_for_is_sent_and_all_are_accounted_for() {
        for size in [1, 8, 16, 1024, 1473, 9000, MAX_DATAGRAM] {
            let (sent, received) = run(shape(size, OrderedAmount::Messages(100)));
            assert_eq!(sent.datagrams, 100, "{size}");
            let dropped = received.dropped.unwrap();
            let tally = conclude([(received.account, 100)]).unwrap();
            assert_eq!((tally.sent, tally.received), (100, 100 - dropped), "{size}");
            assert_eq!((tally.duplicates, tally.foreign, tally.reordered), (0, 0, 0), "{size}");
        }
    }

    #[test]
    fn a_pace_is_never_exceeded() {
        let pace = DatagramPace::new(20e6, 1000, 1);
        let (sent, received) = run(FlowShape { pace, ..shape(1000, OrderedAmount::Messages(500)) });
        // The first is due at once, the last after 499 intervals of 400 µs.
        assert!(sent.elapsed >= Duration::from_micros(499 * 400), "{:?}", sent.elapsed);
        assert!(!sent.segmented);
        let tally = conclude([(received.account, sent.datagrams)]).unwrap();
        assert_eq!(tally.sent - tally.received, received.dropped.unwrap());
        assert!(tally.jitter_nanos.unwrap() > 0);
    }

    #[test]
    fn streams_that_sent_one_after_another_took_the_time_of_all() {
        let first = Instant::now();
        let of = |after, elapsed| {
            let (began, elapsed) = (first + Duration::from_micros(after), Duration::from_micros(elapsed));
            FlowSent { datagrams: 10, began, elapsed, cpu: Duration::ZERO, segmented: false }
        };
        assert_eq!(total_duration(&[of(30, 10), of(0, 10), of(15, 12)]), Duration::from_micros(40));
        assert_eq!(total_duration(&[of(0, 10), of(0, 12)]), Duration::from_micros(12));
        assert_eq!(total_duration(&[]), Duration::ZERO);
    }

    fn account() -> StreamAccount {
        StreamAccount::new(DatagramLayout::of(100), 100, TAG)
    }

    #[test]
    fn a_receiver_of_nothing_ends_soon_after_the_sender() {
        let (_a, b) = pair();
        let (ending, stop) = (AtomicU64::new(UNKNOWN_COUNT), AtomicBool::new(false));
        ending.store(1000, Ordering::Release);
        let received = receive(&b, account(), 100, &ending, Instant::now(), &stop).unwrap();
        assert_eq!(conclude([(received.account, 1000)]).unwrap().received, 0);
    }

    #[test]
    fn both_loops_end_when_they_are_told_to() {
        let (a, b) = pair();
        let (ending, stop) = (AtomicU64::new(UNKNOWN_COUNT), AtomicBool::new(true));
        receive(&b, account(), 100, &ending, Instant::now(), &stop).unwrap();
        let sent = send(&a, shape(100, HOUR), &[1], &stop).unwrap();
        assert_eq!(sent.datagrams, 0);
    }

    #[test]
    fn a_sender_notices_that_nobody_listens() {
        let (a, b) = pair();
        drop(b);
        let error = send(&a, shape(100, HOUR), &[1], &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn what_is_left_of_a_transfer_before_is_thrown_away() {
        let (a, b) = pair();
        for _ in 0..10 {
            a.send(&[0; 100]).unwrap();
        }
        drain(&b).unwrap();
        b.set_nonblocking(true).unwrap();
        assert_eq!(b.recv(&mut [0; 100]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
