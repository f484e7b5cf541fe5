//! Transfers and round trips, with the same code at both ends.

pub mod account;
pub mod carrier;
mod exchange;
pub mod link_watch;
mod netlink;
pub mod probe;
mod receive;
pub mod route;
pub mod send;
pub mod shaper;
pub mod socket;
mod supervision;
pub mod tcp;
mod tcp_samples;
pub mod team;
mod timeline;
pub mod trips;
pub mod udp;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use plimsoll_metal::affinity;
use plimsoll_metal::clock::thread_cpu_time;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

pub use supervision::Supervision;

use crate::wire::{Channel, Direction, Message, REQUEST, SILENCE, WireError, is_closed};

/// Raises this process's soft limit of open files to the hard limit, if possible.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Returns whether the error is that this process or the system has no file descriptor left.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Returns the text of an error and, if file descriptors are lacking, the remedy. `whose` names the
/// process that lacks them, such as `this process`.
pub fn describe_io_error(error: &io::Error, whose: &str) -> String {
    let most = getrlimit(Resource::Nofile).current.map_or("unlimited".to_owned(), |most| most.to_string());
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => format!(
            "no file descriptor is left of the {most} that {whose} may have; raise its ulimit -n, or try again later"
        ),
        Some(Errno::NFILE) => format!(
            "no file descriptor is left on the system of {whose}; raise its fs.file-max, or try again later"
        ),
        _ => error.to_string(),
    }
}

/// Longest transfer of a fixed number of messages; messages left after it are not sent.
pub const MAX_FIXED_DURATION: Duration = Duration::from_secs(60);

/// One of the two ends of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferEnd {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl TransferEnd {
    /// Returns whether this end sends in a transfer with the direction `direction`.
    pub fn sends(self, direction: Direction) -> bool {
        direction == Direction::Both || (self == Self::Client) == (direction == Direction::Up)
    }

    /// Returns whether this end receives in a transfer with the direction `direction`.
    pub fn receives(self, direction: Direction) -> bool {
        direction == Direction::Both || (self == Self::Client) == (direction == Direction::Down)
    }
}

/// Parameters of one end of a transfer.
#[derive(Debug)]
pub struct TransferMeans<'a, S> {
    /// Which end this is.
    pub end: TransferEnd,
    /// The connected sockets, in order of the streams' numbers.
    pub sockets: &'a [S],
    /// CPUs of the threads.
    pub cpus: &'a PinnedCpus,
    /// Bytes to send.
    pub content: &'a [u8],
    /// Highest rate over all streams, bit/s.
    pub most: f64,
    /// Longest duration.
    pub longest: Duration,
    /// Counters of this machine.
    pub ledger: &'a account::CounterSource,
}

/// Results of a successful transfer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransferOutcome<R> {
    /// Report of this end.
    pub here: R,
    /// Report of the server; `None` at the server.
    pub there: Option<R>,
    /// Bytes or datagrams sent by this end, per stream.
    pub sent_by_stream: Vec<u64>,
}

/// Reason why a transfer failed.
#[derive(Debug, thiserror::Error)]
pub enum LostTransfer {
    /// The control connection failed.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The other end was silent for too long.
    #[error("it was silent for too long")]
    Silent,
    /// The other end refused.
    #[error("it refused: {0}")]
    Refused(String),
    /// The counts of both ends contradict each other.
    #[error("{0}")]
    Impossible(#[from] udp::account::Impossible),
    /// The other end acknowledges no stream data, although the control connection works.
    #[error("segments of {segment} bytes were not acknowledged, although the control connection works")]
    Unacknowledged {
        /// Payload of the largest segment, bytes.
        segment: u32,
        /// End that sent the segments.
        sender: TransferEnd,
    },
    /// A connection reached another server than the control connection.
    #[error("a connection reached another server than the control connection")]
    OtherServer,
    /// The server has no session for a connection from this address.
    #[error("the server does not know the session of a connection")]
    NoSession,
    /// No datagram reaches the server.
    #[error("no datagram came to its UDP port {port} within {} s", REQUEST.as_secs())]
    NoDatagram {
        /// UDP port of the server.
        port: u16,
    },
    /// A stream failed.
    #[error("a stream failed: {0}")]
    Stream(io::Error),
    /// A firewall of the sending machine drops the packets.
    #[error("the firewall of the sending machine drops its packets (EPERM)")]
    Dropped,
    /// The transfer exceeded the time limit, in seconds.
    #[error("it was not done within {0} s")]
    TooLong(u64),
    /// A thread could not be started.
    #[error("cannot start a thread for a stream: {0}; see ulimit -u and ulimit -v")]
    Thread(io::Error),
    /// A local operation failed.
    #[error("{}", describe_io_error(.0, "this process"))]
    Here(io::Error),
}

impl From<io::Error> for LostTransfer {
    /// Converts a connection's error: to `Dropped` if the local firewall caused it, else to `Wire`.
    fn from(error: io::Error) -> Self {
        if is_dropped_here(&error) { Self::Dropped } else { WireError::from(error).into() }
    }
}

impl LostTransfer {
    /// Converts a socket error: to `Dropped` if the local firewall caused it, else to `Stream`.
    pub fn from_socket_error(error: io::Error) -> Self {
        if is_dropped_here(&error) { Self::Dropped } else { Self::Stream(error) }
    }
}

/// Returns whether the error of a socket is EPERM: a firewall of this machine drops the packets.
pub fn is_dropped_here(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::PERM)
}

/// Returns whether `error` only means no data, a full buffer or a signal, so that a retry may work.
pub fn nothing_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Returns the result of a call on a socket; `None` if the error is only [`nothing_yet`].
pub(crate) fn unless_nothing_yet<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(e) if nothing_yet(&e) => Ok(None),
        other => other.map(Some),
    }
}

/// State shared between the threads of a transfer and the supervising thread.
#[derive(Debug)]
pub struct SharedTransfer {
    /// Whether all threads are to end.
    pub stop: AtomicBool,
    /// Number of threads that have finished sending.
    pub senders_done: AtomicUsize,
    /// Number of threads that have finished receiving.
    pub receivers_done: AtomicUsize,
    /// Bytes or datagrams that the other end has sent, per stream; `u64::MAX` while unknown.
    pub totals: Vec<AtomicU64>,
    wake: OwnedFd,
}

impl SharedTransfer {
    /// Creates the state for `streams` streams. Fails if the kernel provides no event descriptor.
    pub fn new(streams: usize) -> io::Result<Self> {
        Ok(SharedTransfer {
            stop: AtomicBool::new(false),
            senders_done: AtomicUsize::new(0),
            receivers_done: AtomicUsize::new(0),
            totals: (0..streams).map(|_| AtomicU64::new(u64::MAX)).collect(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Wakes the thread that supervises the transfer.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn known_totals(&self) -> Vec<u64> {
        self.totals.iter().map(|total| total.load(Ordering::Acquire)).collect()
    }

    /// Stores how much the other end has sent, per stream, in bytes (TCP) or datagrams (UDP).
    pub fn set_totals(&self, totals: &[u64]) {
        for (slot, total) in self.totals.iter().zip(totals) {
            slot.store(*total, Ordering::Release);
        }
    }
}

/// CPUs to which an end's threads are pinned, in turn; if empty, the scheduler decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedCpus(pub Vec<usize>);

impl PinnedCpus {
    /// Returns the CPUs in the same cyclic order from index `first` modulo their number on.
    #[must_use]
    pub fn starting_at(&self, first: usize) -> Self {
        let by = first.checked_rem(self.0.len()).unwrap_or(0);
        let mut cpus = self.0.clone();
        cpus.rotate_left(by);
        PinnedCpus(cpus)
    }

    /// Pins the calling thread to the CPU with index `thread` modulo the number of CPUs, until it
    /// ends. Returns false if there are no CPUs or pinning fails.
    pub fn pin(&self, thread: usize) -> bool {
        let cpu = thread.checked_rem(self.0.len()).and_then(|index| self.0.get(index));
        cpu.is_some_and(|cpu| affinity::pin_to(&[*cpu]).is_ok())
    }
}

/// 64-bit FNV-1a hash of a checked transfer; it detects faults, not attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv(pub u64);

impl Fnv {
    /// Hash of no bytes.
    pub const EMPTY: Fnv = Fnv(0xcbf2_9ce4_8422_2325);

    /// Returns the hash of the earlier bytes followed by `bytes`.
    #[must_use]
    pub fn append(self, bytes: &[u8]) -> Self {
        let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Fnv(bytes.iter().fold(self.0, add))
    }
}

/// Returns `count` incompressible bytes that depend only on `seed`.
pub fn random_bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; count];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Waits until `socket` is ready for `what`, at most `longest`. Returns whether it is.
pub fn wait_for(socket: impl AsFd, what: PollFlags, longest: Duration) -> io::Result<bool> {
    let longest = Timespec::try_from(longest).map_err(io::Error::other)?;
    let ready = retry_on_intr(|| poll(&mut [PollFd::new(&socket, what)], Some(&longest)))?;
    Ok(ready > 0)
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned state is consistent: every change is a single call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn process_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Returns why a transfer failed: the server's refusal, if one arrives on the control connection
/// `channel` within [`SILENCE`], else the local error `lost`. Waits for a refusal only if `end` is
/// the client and a connection was closed or refused.
fn reported_reason(channel: &mut Channel, end: TransferEnd, lost: LostTransfer) -> LostTransfer {
    let is_gone = match &lost {
        _ if end == TransferEnd::Server => false,
        LostTransfer::Stream(e) => is_closed(e) || e.kind() == io::ErrorKind::ConnectionRefused,
        LostTransfer::Wire(WireError::Closed) => true,
        _ => false,
    };
    let deadline = Instant::now() + SILENCE;
    while is_gone && let Ok(message) = channel.receive(deadline) {
        if let Message::Refused(why) = message {
            return LostTransfer::Refused(plimsoll_units::text::shown(&why));
        }
    }
    lost
}

/// Converts a duration to nanoseconds, `u64::MAX` if it is longer.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_hash() {
        assert_eq!(Fnv::EMPTY.append(b"foo").append(b"bar"), Fnv(0x8594_4171_f739_67e8));
    }

    #[test]
    fn an_end_that_says_why_it_ends_is_believed_before_its_streams() {
        use io::ErrorKind::{ConnectionRefused, PermissionDenied, UnexpectedEof};
        let (mut near, mut far) = crate::wire::fixture::channels();
        let mut shown = |end, kind: io::ErrorKind| {
            reported_reason(&mut near, end, LostTransfer::Stream(kind.into())).to_string()
        };
        for kind in [UnexpectedEof, ConnectionRefused] {
            far.send(&Message::Alive).unwrap();
            far.send(&Message::Refused("no thread".to_owned())).unwrap();
            assert_eq!(shown(TransferEnd::Client, PermissionDenied), "a stream failed: permission denied");
            assert_eq!(shown(TransferEnd::Server, kind), format!("a stream failed: {kind}"));
            assert_eq!(shown(TransferEnd::Client, kind), "it refused: no thread");
        }
        assert!(matches!(LostTransfer::from_socket_error(Errno::PERM.into()), LostTransfer::Dropped));
        assert!(matches!(LostTransfer::from_socket_error(Errno::ACCESS.into()), LostTransfer::Stream(_)));
        drop(far);
        assert_eq!(shown(TransferEnd::Client, UnexpectedEof), "a stream failed: unexpected end of file");
    }

    #[test]
    fn threads_take_the_cpus_in_turn() {
        let before = affinity::allowed().unwrap();
        let (first, last) = (before[0], before[before.len() - 1]);
        for (thread, cpu) in [first, last, first].into_iter().enumerate() {
            assert!(PinnedCpus(vec![first, last]).pin(thread));
            assert_eq!(affinity::allowed().unwrap(), [cpu]);
            affinity::pin_to(&before).unwrap();
        }
        for cpus in [Vec::new(), vec![affinity::MAX_CPUS - 1], vec![usize::MAX]] {
            assert!(!PinnedCpus(cpus).pin(3));
        }
        assert_eq!(PinnedCpus(vec![4, 7]).starting_at(3), PinnedCpus(vec![7, 4]));
        assert_eq!(PinnedCpus::default().starting_at(3), PinnedCpus::default());
    }
}
