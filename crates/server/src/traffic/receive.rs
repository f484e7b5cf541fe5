//! Receiving thread of one TCP stream. On a short path it sleeps until [`BATCH_BYTES`] has arrived:
//! the sender pays for each wake-up. Buffers are page-aligned: the kernel copies a fifth slower
//! with an offset of 16 bytes, as an allocator returns it.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_metal::buffer::{Buffer, Pages};
use plimsoll_metal::tcp::{TcpInfo, set_read_at_least};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::send::limit_rate;
use super::tcp::TcpRun;
use super::timeline::Recorder;
use super::{Fnv, SharedTransfer, thread_cpu_time, wait_for};
use crate::wire::Receiving;

/// Length of one read, bytes. Larger reads save calls, but leave the second-level cache.
const READ_BYTES: usize = 128 << 10;
/// Bytes to wait for on a short path; a full window wakes earlier (`tcp_epollin_ready`).
pub(super) const BATCH_BYTES: i32 = 512 << 10;
/// Longest round-trip time of a short path, µs. A longer one needs the window for data in flight.
const SHORT_US: u32 = 1000;
const WAITING: Duration = Duration::from_millis(5);
const RATE_LOOK_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub(super) struct StreamReceived {
    pub(super) bytes: u64,
    pub(super) base: Option<(Instant, u64)>,
    pub(super) last: Instant,
    pub(super) cpu: Duration,
    pub(super) hash: Fnv,
    pub(super) timeline: Recorder,
}

/// Makes reads wait for [`BATCH_BYTES`] if the round trip is ≤ 1 ms. Call it before data is sent.
pub(super) fn set_batched_reads(socket: &TcpStream) -> io::Result<()> {
    let short = TcpInfo::of(socket)?.path_rtt_us() <= SHORT_US;
    set_read_at_least(socket, if short { BATCH_BYTES } else { 1 })
}

pub(super) fn receive(run: &TcpRun<'_>, index: usize, shared: &SharedTransfer) -> io::Result<StreamReceived> {
    let mut buffer = Buffer::new(READ_BYTES, Pages::Small).map_err(io::Error::other)?;
    let (socket, total, receiving) = (&run.means.sockets[index], &shared.totals[index], run.work.receiving);
    let (cpu, started) = (thread_cpu_time(), Instant::now());
    let mut done = StreamReceived {
        bytes: 0,
        base: None,
        last: started,
        cpu: Duration::ZERO,
        hash: Fnv::EMPTY,
        timeline: Recorder::default(),
    };
    let (mut looked, mut emptied) = (0, true);
    loop {
        let wanted = total.load(Ordering::Acquire);
        if done.bytes >= wanted || shared.stop.load(Ordering::Relaxed) {
            done.cpu = thread_cpu_time().saturating_sub(cpu);
            return match done.bytes > wanted {
                true => Err(io::Error::new(ErrorKind::InvalidData, "more bytes came than were sent")),
                false => Ok(done),
            };
        }
        if emptied {
            wait_for(socket, PollFlags::IN, WAITING)?;
        }
        // Reads even if less has arrived than was waited for, so that data counts when it arrives.
        let n = match read(socket, buffer.bytes_mut(), receiving) {
            Ok(0) | Err(Errno::CONNRESET) if run.sender_closes => {
                total.store(done.bytes, Ordering::Release);
                0
            }
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => n,
            Err(Errno::INTR | Errno::AGAIN) => 0,
            Err(errno) => return Err(errno.into()),
        };
        emptied = n < READ_BYTES;
        if n == 0 {
            continue;
        }
        done.take(n as u64, run);
        if receiving == Receiving::Hash {
            done.hash = done.hash.append(buffer.bytes().get(..n).unwrap_or_default());
        }
        if done.bytes - looked >= RATE_LOOK_BYTES {
            looked = done.bytes;
            limit_rate(done.bytes, run.most(), started, &shared.stop);
        }
    }
}

/// Reads without waiting; `Discard` drops data in the kernel (tcp(7)). Returns the number of bytes.
fn read(socket: &TcpStream, buffer: &mut [u8], receiving: Receiving) -> rustix::io::Result<usize> {
    let dropped = if receiving == Receiving::Discard { RecvFlags::TRUNC } else { RecvFlags::empty() };
    Ok(recv(socket, buffer, RecvFlags::DONTWAIT | dropped)?.1)
}

impl StreamReceived {
    fn take(&mut self, n: u64, run: &TcpRun<'_>) {
        self.bytes += n;
        self.last = Instant::now();
        let now = super::nanos(self.last.duration_since(run.origin));
        self.timeline.arrive(now, n);
        if self.base.is_none() {
            let first = run.first.fetch_min(now, Ordering::Relaxed).min(now);
            if now - first >= run.work.omit {
                // With nothing to omit, only the piece that started the clock arrived before.
                let before = if run.work.omit == 0 && first != now { 0 } else { self.bytes };
                self.base = Some((self.last, before));
            }
        }
    }
}
