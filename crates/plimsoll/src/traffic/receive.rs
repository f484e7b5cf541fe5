//! The receiving thread of one TCP stream.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

use super::send::hold_back;
use super::{Fnv, Shared, thread_cpu};
use crate::wire::Receiving;

/// Bytes asked for in one read. Larger reads save calls, but leave the second-level cache.
const READ: usize = 128 << 10;
/// A read that waits looks up this often: whether all has come, or all are to stop.
const WAITING: Duration = Duration::from_millis(5);
/// Bytes between two looks at the highest rate.
const LOOK: u64 = 1 << 20;

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
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) bytes: u64,
    /// When the count began, and the bytes of this stream that are not in it.
    pub(super) base: Option<(Instant, u64)>,
    pub(super) last: Instant,
    pub(super) cpu: Duration,
    pub(super) hash: Fnv,
}

/// Receives until all that the other end has sent is there, or all are to stop.
///
/// # Errors
/// The connection failed or ended, or more came than was sent.
pub(super) fn receive(socket: &TcpStream, orders: Orders<'_>, shared: &Shared) -> io::Result<Done> {
    socket.set_read_timeout(Some(WAITING))?;
    let mut buffer = vec![0; READ];
    let nothing = AtomicU64::new(0);
    let total = shared.totals.get(orders.stream).unwrap_or(&nothing);
    let (cpu, started) = (thread_cpu(), Instant::now());
    let mut done = Done { bytes: 0, base: None, last: started, cpu: Duration::ZERO, hash: Fnv::EMPTY };
    let mut looked = 0;
    loop {
        let wanted = total.load(Ordering::Acquire);
        if done.bytes >= wanted || shared.stop.load(Ordering::Relaxed) {
            done.cpu = thread_cpu().saturating_sub(cpu);
            return if done.bytes > wanted { Err(surplus()) } else { Ok(done) };
        }
        let n = match read(socket, &mut buffer, orders.receiving) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted || e.kind() == ErrorKind::WouldBlock => continue,
            Err(e) => return Err(e),
        };
        done.take(n as u64, &orders);
        if orders.receiving == Receiving::Hash {
            done.hash = done.hash.with(buffer.get(..n).unwrap_or_default());
        }
        if done.bytes - looked >= LOOK {
            looked = done.bytes;
            hold_back(done.bytes, orders.most, started);
        }
    }
}

fn surplus() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "more bytes came than were sent")
}

fn read(mut socket: &TcpStream, buffer: &mut [u8], receiving: Receiving) -> io::Result<usize> {
    match receiving {
        Receiving::Copy | Receiving::Hash => socket.read(buffer),
        Receiving::Discard => Ok(recv(socket, buffer, RecvFlags::TRUNC)?.1),
    }
}

impl Done {
    fn take(&mut self, n: u64, orders: &Orders<'_>) {
        self.bytes += n;
        self.last = Instant::now();
        if self.base.is_none() {
            let now = super::nanos(self.last.duration_since(orders.origin));
            let first = orders.first.fetch_min(now, Ordering::Relaxed).min(now);
            if now - first >= super::nanos(orders.omit) {
                // With nothing to omit, only the piece that started the clock came before it ran.
                let before = if orders.omit.is_zero() && first != now { 0 } else { self.bytes };
                self.base = Some((self.last, before));
            }
        }
    }
}
