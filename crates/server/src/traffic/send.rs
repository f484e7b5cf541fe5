//! The sending thread of one TCP stream.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_metal::buffer::{Buffer, Pages};
use plimsoll_metal::tcp::{ZerocopyCompletion, enable_zerocopy, read_completion, send_zerocopy};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::{nothing_yet, thread_cpu_time, unless_nothing_yet, wait_for};
use crate::wire::{OrderedAmount, Sending};

const TIME_LOOK_BYTES: u64 = 64 << 10;
const AT_MOST: f64 = 0.1;
const BLOCKED: Duration = Duration::from_millis(100);
/// Shortest sleep, in seconds; a shorter one is not possible.
const SOON: f64 = 0.0005;
/// Zero-copy messages that may be in flight; the kernel limits what it tracks (`optmem_max`).
const MAX_ZEROCOPY_MESSAGES: u64 = 64;

/// Condition under which a stream that waits for room in the send buffer gives up.
struct Cutoff<'a> {
    stop: &'a AtomicBool,
    deadline: Option<Instant>,
}

impl Cutoff<'_> {
    fn is_reached(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Results of a sending stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamSent {
    /// Bytes that the kernel accepted.
    pub bytes: u64,
    /// Wall-clock time of sending.
    pub elapsed: Duration,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Bytes that the kernel copied despite `MSG_ZEROCOPY`.
    pub copied: u64,
}

pub(super) fn page_aligned_copy(message: &[u8]) -> io::Result<Buffer> {
    let mut copy = Buffer::new(message.len(), Pages::Small).map_err(io::Error::other)?;
    copy.bytes_mut().copy_from_slice(message);
    Ok(copy)
}

/// Sends copies of `message`, at most `most` bytes/s, until the amount `until` is reached or `stop`
/// is true. The last copy may be incomplete, so that a slow path does not delay the end.
pub fn send(
    socket: &TcpStream,
    message: &[u8],
    until: OrderedAmount,
    sending: Sending,
    most: f64,
    stop: &AtomicBool,
) -> io::Result<StreamSent> {
    socket.set_write_timeout(Some(BLOCKED))?;
    let mut zero_copy = (sending == Sending::ZeroCopy).then(|| ZeroCopySender::new(socket)).transpose()?;
    let size = message.len() as u64;
    let stride = messages_per_check(size, most);
    let (started, cpu) = (Instant::now(), thread_cpu_time());
    let end = Cutoff { stop, deadline: until.time().and_then(|time| started.checked_add(time)) };
    let (mut number, mut bytes) = (0, 0);
    let mut whole = !stop.load(Ordering::Relaxed);
    while whole && !is_done(until, number, stride, started) {
        let written = match &mut zero_copy {
            None => write(socket, message, &end)?,
            Some(zero_copy) => zero_copy.write(message, &end)?,
        };
        bytes += written;
        whole = written == size && !stop.load(Ordering::Relaxed);
        number += 1;
        if number.is_multiple_of(stride) {
            limit_rate(bytes, most, started, stop);
        }
    }
    // The last messages count too: a transfer is no shorter than the rate limit requires.
    limit_rate(bytes, most, started, stop);
    let elapsed = started.elapsed();
    let copied = zero_copy.map_or(Ok(0), |zero_copy| zero_copy.wait_for_buffers(stop))?;
    Ok(StreamSent { bytes, elapsed, cpu: thread_cpu_time().saturating_sub(cpu), copied: copied * size })
}

fn messages_per_check(size: u64, most: f64) -> u64 {
    (TIME_LOOK_BYTES.min((most * AT_MOST) as u64) / size.max(1)).max(1)
}

/// Returns whether `until` is reached after `number` messages; checks time every `stride` messages.
fn is_done(until: OrderedAmount, number: u64, stride: u64, started: Instant) -> bool {
    match until {
        OrderedAmount::Messages(all) if number >= all => true,
        _ => number > 0 && number.is_multiple_of(stride) && until.is_over(number, started.elapsed()),
    }
}

/// Sleeps until `bytes`, moved since `started`, are due at `most` bytes/s, or until `stop`.
pub(super) fn limit_rate(bytes: u64, most: f64, started: Instant, stop: &AtomicBool) {
    let due = bytes as f64 / most;
    loop {
        let ahead = due - started.elapsed().as_secs_f64();
        if ahead <= SOON || stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(Duration::from_secs_f64(ahead.min(BLOCKED.as_secs_f64())));
    }
}

/// Writes `message`. Returns how many bytes the kernel accepted: fewer if `end` is reached before.
fn write(mut socket: &TcpStream, message: &[u8], end: &Cutoff<'_>) -> io::Result<u64> {
    let mut rest = message;
    loop {
        let count = unless_nothing_yet(socket.write(rest))?.unwrap_or(0);
        rest = rest.get(count..).unwrap_or_default();
        if rest.is_empty() || end.is_reached() {
            return Ok((message.len() - rest.len()) as u64);
        }
    }
}

struct ZeroCopySender<'a> {
    socket: &'a TcpStream,
    calls: u64,
    back: ZerocopyCompletion,
}

impl<'a> ZeroCopySender<'a> {
    fn new(socket: &'a TcpStream) -> io::Result<Self> {
        enable_zerocopy(socket)?;
        Ok(ZeroCopySender { socket, calls: 0, back: ZerocopyCompletion::default() })
    }

    /// Sends `message` by zero copy. Returns how many bytes were accepted: fewer at `end`.
    fn write(&mut self, message: &[u8], end: &Cutoff<'_>) -> io::Result<u64> {
        let mut rest = message;
        while !rest.is_empty() {
            match send_zerocopy(self.socket, rest) {
                Ok(n) => {
                    self.calls += 1;
                    rest = rest.get(n..).unwrap_or_default();
                }
                Err(e) if nothing_yet(&e) => {}
                Err(e) if Errno::from_io_error(&e) == Some(Errno::NOBUFS) => self.wait()?,
                Err(e) => return Err(e),
            }
            if end.is_reached() {
                break;
            }
            while self.calls - self.back.calls > MAX_ZEROCOPY_MESSAGES && !end.is_reached() {
                self.wait()?;
            }
        }
        Ok((message.len() - rest.len()) as u64)
    }

    fn wait(&mut self) -> io::Result<()> {
        let before = self.back.calls;
        while let Some(more) = read_completion(self.socket)? {
            self.back.calls += more.calls;
            self.back.copied += more.copied;
        }
        if self.back.calls == before {
            // Notices on the error queue wake without being requested.
            let _ = wait_for(self.socket, PollFlags::empty(), BLOCKED);
        }
        Ok(())
    }

    /// Waits up to 1 s until the kernel has released all buffers. Returns how many sends it copied.
    fn wait_for_buffers(mut self, stop: &AtomicBool) -> io::Result<u64> {
        let deadline = Instant::now() + Duration::from_secs(1);
        while self.back.calls < self.calls && Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
            self.wait()?;
        }
        Ok(self.back.copied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::MAX_FIXED_DURATION;

    #[test]
    fn the_time_is_looked_at_more_often_at_a_low_rate() {
        assert_eq!([1 << 10, 128 << 10].map(|size| messages_per_check(size, f64::INFINITY)), [64, 1]);
        assert_eq!([1e3, 1e5, 1e7].map(|most| messages_per_check(1000, most)), [1, 10, 65]);
    }

    #[test]
    fn a_fixed_number_is_cut_when_it_takes_too_long() {
        let ago = |time: Duration| Instant::now().checked_sub(time).unwrap();
        let (all, late) = (OrderedAmount::Messages(100), ago(MAX_FIXED_DURATION));
        let later = OrderedAmount::Nanos(2 * crate::traffic::nanos(MAX_FIXED_DURATION));
        assert!(!is_done(all, 99, 1, Instant::now()) && is_done(all, 100, 1, Instant::now()));
        assert!(is_done(all, 64, 64, late) && !is_done(all, 65, 64, late), "between strides");
        assert!(!is_done(all, 0, 64, late) && !is_done(later, 64, 64, late));
    }
}
