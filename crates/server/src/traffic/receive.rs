//! The receiving thread of one TCP stream.
//!
//! On a short way it sleeps until [`MUCH`] is there, not for each arrival: the sender pays for waking it, and that is
//! a tenth to a third of what a stream carries within a machine. Both ends' buffers begin on a page: the kernel copies a
//! fifth slower to and from one that begins 16 bytes behind, where an allocator puts it.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_metal::buffer::{Buffer, Pages};
use plimsoll_metal::tcp::{TcpInfo, set_read_at_least};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::course::Recorder;
use super::send::hold_back;
use super::{Fnv, Shared, thread_cpu};
use crate::wire::Receiving;

/// Bytes asked for in one read. Larger reads save calls, but leave the second-level cache.
const READ_BYTES: usize = 128 << 10;
/// Bytes waited for on a short way; the kernel wakes earlier when the window is full before (`tcp_epollin_ready`).
pub(super) const MUCH: i32 = 512 << 10;
/// Round-trip time of a short way, in microseconds. On a longer one the window is needed for what is under way.
const SHORT_US: u32 = 1000;
/// A thread that waits looks up this often: what has come after all, or whether all are to stop.
const WAITING: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// Bytes between two looks at the highest rate.
const RATE_LOOK_BYTES: u64 = 1 << 20;

/// What one stream is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orders<'a> {
    /// The number of the stream.
    pub(super) stream: usize,
    pub(super) receiving: Receiving,
    /// Not counted at the beginning.
    pub(super) omit: Duration,
    /// Highest rate in bytes per second.
    pub(super) most: f64,
    /// When somebody's first byte came, in nanoseconds after `origin`; all ones before.
    pub(super) first: &'a AtomicU64,
    pub(super) origin: Instant,
}

/// What one stream saw.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) bytes: u64,
    /// When the count began, and the bytes of this stream that are not in it.
    pub(super) base: Option<(Instant, u64)>,
    pub(super) last: Instant,
    pub(super) cpu: Duration,
    pub(super) hash: Fnv,
    pub(super) course: Recorder,
}

/// Has a stream on a short way wait for much at once. Before the sender is told to begin.
pub(super) fn wait_for_much(socket: &TcpStream) -> io::Result<()> {
    let short = TcpInfo::of(socket)?.way_us() <= SHORT_US;
    set_read_at_least(socket, if short { MUCH } else { 1 })
}

/// Has this stream wait for a single byte, and wakes who waits for more: the end is near.
pub(super) fn wait_for_little(socket: &TcpStream) -> io::Result<()> {
    set_read_at_least(socket, 1)
}

/// Receives until all that the other end has sent is there, or all are to stop.
///
/// # Errors
/// The connection failed or ended, or more came than was sent.
pub(super) fn receive(socket: &TcpStream, orders: Orders<'_>, shared: &Shared) -> io::Result<Done> {
    let mut buffer = Buffer::new(READ_BYTES, Pages::Small).map_err(io::Error::other)?;
    let nothing = AtomicU64::new(0);
    let total = shared.totals.get(orders.stream).unwrap_or(&nothing);
    let (cpu, started) = (thread_cpu(), Instant::now());
    let mut done = Done {
        bytes: 0,
        base: None,
        last: started,
        cpu: Duration::ZERO,
        hash: Fnv::EMPTY,
        course: Recorder::default(),
    };
    let (mut looked, mut emptied) = (0, true);
    loop {
        let wanted = total.load(Ordering::Acquire);
        if done.bytes >= wanted || shared.stop.load(Ordering::Relaxed) {
            done.cpu = thread_cpu().saturating_sub(cpu);
            return if done.bytes > wanted { Err(surplus()) } else { Ok(done) };
        }
        if emptied {
            match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&WAITING)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        // Also when there is less than was waited for: what came counts when it came.
        let n = match read(socket, buffer.bytes_mut(), orders.receiving) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => n,
            Err(Errno::INTR | Errno::AGAIN) => 0,
            Err(errno) => return Err(errno.into()),
        };
        emptied = n < READ_BYTES;
        if n == 0 {
            continue;
        }
        done.take(n as u64, &orders);
        if orders.receiving == Receiving::Hash {
            done.hash = done.hash.with(buffer.bytes().get(..n).unwrap_or_default());
        }
        if done.bytes - looked >= RATE_LOOK_BYTES {
            looked = done.bytes;
            hold_back(done.bytes, orders.most, started, &shared.stop);
        }
    }
}

fn surplus() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "more bytes came than were sent")
}

/// The length as the kernel tells it: with `MSG_TRUNC` it drops the bytes instead of copying them (tcp(7)).
fn read(socket: &TcpStream, buffer: &mut [u8], receiving: Receiving) -> rustix::io::Result<usize> {
    let flags = match receiving {
        Receiving::Copy | Receiving::Hash => RecvFlags::DONTWAIT,
        Receiving::Discard => RecvFlags::DONTWAIT | RecvFlags::TRUNC,
    };
    Ok(recv(socket, buffer, flags)?.1)
}

impl Done {
    fn take(&mut self, n: u64, orders: &Orders<'_>) {
        self.bytes += n;
        self.last = Instant::now();
        let now = super::nanos(self.last.duration_since(orders.origin));
        self.course.arrive(now, n);
        if self.base.is_none() {
            let first = orders.first.fetch_min(now, Ordering::Relaxed).min(now);
            if now - first >= super::nanos(orders.omit) {
                // With nothing to omit, only the piece that started the clock came before it ran.
                let before = if orders.omit.is_zero() && first != now { 0 } else { self.bytes };
                self.base = Some((self.last, before));
            }
        }
    }
}
