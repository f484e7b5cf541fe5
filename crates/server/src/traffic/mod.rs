//! What is measured itself: the same code moves and counts bytes at both ends of a network benchmark.
//!
//! The control connection ([`crate::wire`]) says what is to be moved; [`Supervision`] keeps watch over it meanwhile, so
//! that no end goes on sending to nobody.

pub mod account;
pub mod carrier;
mod course;
pub mod link_watch;
pub mod pin;
pub mod probe;
mod receive;
pub mod route;
mod send;
pub mod shaper;
pub mod socket;
mod supervision;
pub mod tcp;
mod tcp_samples;
mod team;
pub mod trips;
pub mod udp;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

pub use supervision::{Seen, Supervision};

use crate::wire::{Channel, Direction, Gone, Message, REQUEST, SILENCE, WireError};

/// Raises how many descriptors this process may have to what the system allows; how many those are, if they are limited.
pub fn raise_descriptors() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    // What is refused stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current
}

/// Whether an error says that no descriptor is left, of this process or of its system.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// An error in words for `whose` reader: one that says that no descriptor is left also says how many there may be, and
/// what raises that.
pub fn plain(error: &io::Error, whose: &str) -> String {
    let most = getrlimit(Resource::Nofile).current.map_or("unlimited".to_owned(), |most| most.to_string());
    match error.raw_os_error() {
        Some(errno) if errno == Errno::MFILE.raw_os_error() => format!(
            "no file descriptor is left of the {most} that {whose} may have; raise its ulimit -n, or try again later"
        ),
        Some(errno) if errno == Errno::NFILE.raw_os_error() => format!(
            "no file descriptor is left on the system of {whose}; raise its fs.file-max, or try again later"
        ),
        _ => error.to_string(),
    }
}

/// The longest that a fixed amount is sent for; what is left of it then is not sent.
pub const CUT: Duration = Duration::from_secs(60);

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that asks.
    Near,
    /// The one that serves.
    Far,
}

impl End {
    /// Whether this end sends in a transfer of that direction.
    pub const fn sends(self, direction: Direction) -> bool {
        match (direction, self) {
            (Direction::Both, _) | (Direction::Up, End::Near) | (Direction::Down, End::Far) => true,
            (Direction::Up, End::Far) | (Direction::Down, End::Near) => false,
        }
    }

    /// Whether this end receives in a transfer of that direction.
    pub const fn receives(self, direction: Direction) -> bool {
        match (direction, self) {
            (Direction::Both, _) | (Direction::Up, End::Far) | (Direction::Down, End::Near) => true,
            (Direction::Up, End::Near) | (Direction::Down, End::Far) => false,
        }
    }
}

/// Why a transfer came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The control connection failed.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The other end said nothing while it had to.
    #[error("it was silent for too long")]
    Silent,
    /// The other end will not or cannot.
    #[error("it refused: {0}")]
    Refused(String),
    /// The control connection works, and the other end acknowledges nothing of what the streams carry.
    #[error("segments of {segment} bytes were not acknowledged, although the control connection works")]
    Unacknowledged {
        /// Payload of the largest segment, in bytes.
        segment: u32,
        /// The end that sent them.
        sender: End,
    },
    /// A connection reached another server than the control connection.
    #[error("a connection reached another server than the control connection")]
    OtherServer,
    /// The server has no session to which a connection from this address belongs.
    #[error("the server does not know the session of a connection")]
    NoSession,
    /// No datagram reaches the server.
    #[error("no datagram came to its UDP port {port} within {} s", REQUEST.as_secs())]
    NoDatagram {
        /// The port that the client sends to.
        port: u16,
    },
    /// A stream failed.
    #[error("a stream failed: {0}")]
    Stream(io::Error),
    /// A firewall of the machine that sends drops its packets.
    #[error("the firewall of the sending machine drops its packets (EPERM)")]
    Dropped,
    /// The time that any transfer may take is over.
    #[error("it was not done within {0} s")]
    TooLong(u64),
    /// This machine gives no thread.
    #[error("cannot start a thread for a stream: {0}; see ulimit -u and ulimit -v")]
    Thread(io::Error),
    /// This machine cannot do what was asked.
    #[error("{}", plain(.0, "this process"))]
    Here(io::Error),
}

impl Lost {
    /// A stream failed with this error.
    pub fn of_stream(error: io::Error) -> Self {
        match is_dropped_here(&error) {
            true => Self::Dropped,
            false => Self::Stream(error),
        }
    }
}

/// Whether a send failed because a rule of this machine's firewall drops the packet: netfilter's verdict on an outgoing packet
/// is the only cause of EPERM for a socket that is open.
pub fn is_dropped_here(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::PERM.raw_os_error())
}

/// What the threads of one transfer share with the one that watches.
#[derive(Debug)]
pub struct Shared {
    /// All threads are to end.
    pub stop: AtomicBool,
    /// Threads that have ended sending.
    pub senders_done: AtomicUsize,
    /// Threads that have ended receiving.
    pub receivers_done: AtomicUsize,
    /// Bytes that the other end has sent, by stream; all ones while that is not known.
    pub totals: Vec<AtomicU64>,
    wake: OwnedFd,
}

impl Shared {
    /// Of a transfer of so many streams, none of which has begun.
    ///
    /// # Errors
    /// The kernel gives no event descriptor.
    pub fn new(streams: usize) -> io::Result<Self> {
        Ok(Shared {
            stop: AtomicBool::new(false),
            senders_done: AtomicUsize::new(0),
            receivers_done: AtomicUsize::new(0),
            totals: (0..streams).map(|_| AtomicU64::new(u64::MAX)).collect(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Wakes the one that watches.
    pub fn wake(&self) {
        // A counter that is full has woken it already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// What wakes the supervising thread.
    pub const fn waker(&self) -> &OwnedFd {
        &self.wake
    }

    /// What the other end has sent.
    pub fn settle(&self, totals: &[u64]) {
        for (slot, total) in self.totals.iter().zip(totals) {
            slot.store(*total, Ordering::Release);
        }
    }
}

/// The CPUs that an end's threads are pinned to, in turn; empty leaves them to the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(pub Vec<usize>);

impl Cpus {
    /// The CPU of the thread with this number.
    pub fn of(&self, thread: usize) -> Option<usize> {
        self.0.get(thread.checked_rem(self.0.len())?).copied()
    }

    /// The same CPUs, begun with another one.
    #[must_use]
    pub fn from(&self, first: usize) -> Self {
        let by = first.checked_rem(self.0.len()).unwrap_or(0);
        let mut cpus = self.0.clone();
        cpus.rotate_left(by);
        Cpus(cpus)
    }

    /// Pins the calling thread, where there is something to pin it to. A CPU that has gone meanwhile is no failure:
    /// the thread then runs where it may.
    pub fn pin(&self, thread: usize) -> Option<pin::Pinned> {
        self.of(thread).and_then(|cpu| pin::Pinned::to(cpu).ok())
    }
}

/// FNV-1a, 64 bit, over the bytes of a checked transfer: it finds faults, it keeps nobody out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv(pub u64);

impl Fnv {
    /// The hash of nothing.
    pub const EMPTY: Fnv = Fnv(0xcbf2_9ce4_8422_2325);

    /// With these bytes added.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        Fnv(bytes
            .iter()
            .fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)))
    }
}

/// CPU time that this thread has used so far.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// CPU time that all threads of this process have used.
fn process_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Why a transfer was lost: an end that gives up says why, and its streams may end before its word is read.
fn reason(channel: &mut Channel, end: End, lost: Lost) -> Lost {
    let is_gone = match &lost {
        Lost::Stream(e) => Gone::of(e) == Gone::Closed || e.kind() == io::ErrorKind::ConnectionRefused,
        Lost::Wire(WireError::Closed) => true,
        _ => false,
    };
    // The far end has nobody to tell it to.
    let deadline = Instant::now() + if end == End::Near && is_gone { SILENCE } else { Duration::ZERO };
    while Instant::now() < deadline {
        match channel.receive(deadline) {
            Ok(Message::Refused(why)) => return Lost::Refused(plimsoll_units::text::shown(&why)),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    lost
}

/// Nanoseconds, held at the largest number there is.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_hash() {
        assert_eq!(Fnv::EMPTY.with(b"foo").with(b"bar"), Fnv(0x8594_4171_f739_67e8));
    }

    #[test]
    fn an_end_that_says_why_it_ends_is_believed_before_its_streams() {
        use io::ErrorKind::{ConnectionRefused, PermissionDenied, UnexpectedEof};
        let (mut near, mut far) = crate::wire::tests::channels();
        let mut shown =
            |end, kind: io::ErrorKind| reason(&mut near, end, Lost::Stream(kind.into())).to_string();
        for kind in [UnexpectedEof, ConnectionRefused] {
            far.send(&Message::Alive).unwrap();
            far.send(&Message::Refused("no thread".to_owned())).unwrap();
            assert_eq!(shown(End::Near, PermissionDenied), "a stream failed: permission denied");
            assert_eq!(shown(End::Far, kind), format!("a stream failed: {kind}"));
            assert_eq!(shown(End::Near, kind), "it refused: no thread");
        }
        assert!(matches!(Lost::of_stream(Errno::PERM.into()), Lost::Dropped));
        assert!(matches!(Lost::of_stream(Errno::ACCESS.into()), Lost::Stream(_)));
        drop(far);
        assert_eq!(shown(End::Near, UnexpectedEof), "a stream failed: unexpected end of file");
    }

    #[test]
    fn threads_take_the_cpus_in_turn() {
        let cpus = Cpus(vec![4, 7]);
        assert_eq!([0, 1, 2].map(|n| cpus.of(n)), [Some(4), Some(7), Some(4)]);
        assert_eq!(Cpus::default().of(3), None);
        assert_eq!(cpus.from(3), Cpus(vec![7, 4]));
        assert_eq!(Cpus::default().from(3), Cpus::default());
    }
}
