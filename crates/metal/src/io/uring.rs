//! Asynchronous file I/O with io_uring behind safe types. A [`Ring`] owns one page-aligned buffer
//! per *slot* and lends it only while no request uses it. Times are monotonic nanoseconds, read
//! once per batch, because the reading would be measured too.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};

use io_uring::{EnterFlags, IoUring, opcode, squeue, types};
use rustix::io::Errno;
use rustix::time::ClockId;

use super::slots::{SlotEngine, Slots, has_slots};
use crate::ticks::TickClock;

mod error;
mod request;
mod setup;
#[cfg(test)]
pub(super) mod tests;

pub use error::{RingError, Unavailable};
pub use request::{Completion, Granted, Polling, Request, RequestKind, WaitEnd};
pub use setup::transfer_buffer;
use setup::{errno_of, set_up};

/// Largest depth (`IORING_MAX_ENTRIES`, io_uring/io_uring.h).
pub const MAX_DEPTH: usize = 32_768;

/// Largest block in bytes: registered buffers are limited to 1 GiB (io_uring_register(2)).
pub const MAX_BLOCK: usize = 1 << 30;

/// Returns CLOCK_MONOTONIC in nanoseconds: the default clock of [`Ring`].
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// An io_uring bound to open files, with `depth` buffers of `block` bytes; drop waits for requests.
///
/// `F` owns or borrows a descriptor. A ring stays on the thread that made it: with deferred
/// delivery the kernel serves no other.
///
/// ```compile_fail,E0277
/// # use plimsoll_metal::uring::Ring;
/// fn needs_send<T: Send>() {}
/// needs_send::<Ring<std::fs::File>>();
/// ```
pub struct Ring<F> {
    uring: IoUring,
    slots: Slots<F>,
    polling: Polling,
    granted: Granted,
    not_send: PhantomData<*const ()>,
}

has_slots!(Ring);

impl<F: AsFd> Ring<F> {
    /// Creates a ring on `files` (at least one) with `depth` slots, each with a zeroed buffer of
    /// `block` bytes, and with mode `polling`.
    pub fn on(files: Vec<F>, depth: usize, block: usize, polling: Polling) -> Result<Self, RingError> {
        let slots = Slots::new(files, depth, block)?;
        let entries = u32::try_from(depth).map_err(|_| RingError::Geometry { depth, block })?;
        let uring = set_up(entries, polling)?;
        let descriptors: Vec<_> = slots.files.iter().map(|file| file.as_fd().as_raw_fd()).collect();
        let granted = Granted {
            // SAFETY: the ring drops the buffers only after the kernel has finished every request.
            buffers: unsafe { uring.submitter().register_buffers(&slots.vectors()) }.map_err(errno_of),
            file: uring.submitter().register_files(&descriptors).map_err(errno_of),
        };
        Ok(Ring { uring, slots, polling, granted, not_send: PhantomData })
    }

    /// Returns the features granted by the kernel.
    pub fn granted(&self) -> Granted {
        self.granted
    }

    fn entry(&self, request: Request) -> Result<squeue::Entry, RingError> {
        let Request { slot, op, file, offset, len, .. } = request;
        let (data, descriptor) = self.slots.checked(&request)?;
        let index =
            u32::try_from(file).map_err(|_| RingError::File { file, files: self.slots.files.len() })?;
        let data = data.as_ptr();
        let len = u32::try_from(len).map_err(|_| self.slots.out_of_range(&request))?;
        let buffer = self.granted.buffers.is_ok().then(|| u16::try_from(slot).ok()).flatten();
        let file = types::Fd(descriptor);
        let through = match op {
            RequestKind::WriteThrough => libc::RWF_DSYNC,
            RequestKind::WriteSync => libc::RWF_SYNC,
            _ => 0,
        };
        // Plain and registered files are two types, so each entry is built for both.
        macro_rules! on_file {
            ($file:ident => $entry:expr) => {
                if self.granted.file.is_ok() {
                    let $file = types::Fixed(index);
                    $entry.build()
                } else {
                    let $file = file;
                    $entry.build()
                }
            };
        }
        Ok(match (op, buffer) {
            (RequestKind::Read, Some(index)) => {
                on_file!(file => opcode::ReadFixed::new(file, data, len, index).offset(offset))
            }
            (RequestKind::Read, None) => on_file!(file => opcode::Read::new(file, data, len).offset(offset)),
            (RequestKind::Write | RequestKind::WriteThrough | RequestKind::WriteSync, Some(index)) => {
                on_file!(file => opcode::WriteFixed::new(file, data, len, index).offset(offset).rw_flags(through))
            }
            (RequestKind::Write | RequestKind::WriteThrough | RequestKind::WriteSync, None) => {
                on_file!(file => opcode::Write::new(file, data, len).offset(offset).rw_flags(through))
            }
            (RequestKind::Trim, _) => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                on_file!(file => opcode::Fallocate::new(file, u64::from(len)).offset(offset).mode(mode))
            }
            (RequestKind::DataSync, _) => {
                on_file!(file => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC))
            }
            (RequestKind::Sync, _) => on_file!(file => opcode::Fsync::new(file)),
        })
    }

    /// Submits queued requests, waits until `at_least` are finished (or all in flight), and appends
    /// all finished ones, failed or not, to `done`.
    pub fn wait(&mut self, at_least: usize, done: &mut Vec<Completion>) -> Result<(), RingError> {
        self.submit()?;
        let wanted = at_least.min(self.slots.in_flight);
        while self.uring.completion().len() < wanted {
            match self.uring.submit_and_wait(wanted).map_err(errno_of) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(RingError::Enter(errno)),
            }
        }
        self.reap(done);
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let completed_ns = self.slots.clock.now_ns();
        for entry in self.uring.completion() {
            done.extend(self.slots.complete(entry.user_data(), completed_ns, |request| {
                usize::try_from(entry.result())
                    .map(|moved| if request.op == RequestKind::Trim { request.len } else { moved })
                    .map_err(|_| Errno::from_raw_os_error(entry.result().saturating_neg()))
            }));
        }
    }
}

impl<F: AsFd> SlotEngine<F> for Ring<F> {
    fn push(&mut self, request: Request) -> Result<(), RingError> {
        let entry = self.entry(request)?.user_data(request.slot as u64);
        // SAFETY: the buffer is in our region, which outlives the request (see `drop`); nothing
        // refers to it until the slot is idle again. `self.slots` keeps the file open.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        pushed.map_err(|_| RingError::Slot { slot: request.slot, depth: self.depth() })?;
        self.slots.queue(request);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), RingError> {
        while !self.slots.queued.is_empty() {
            let submitted_ns = self.slots.clock.now_ns();
            let count = match self.uring.submit().map_err(errno_of) {
                Ok(count) => count.min(self.slots.queued.len()),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(RingError::Enter(errno)),
            };
            // A polling kernel thread takes all of them.
            let count = if self.polling.submission { self.slots.queued.len() } else { count };
            self.slots.accept(count, submitted_ns);
        }
        Ok(())
    }

    fn wait_within(&mut self, patience: WaitEnd, done: &mut Vec<Completion>) -> Result<(), RingError> {
        let WaitEnd::Nanoseconds(ns) = patience else { return self.wait(1, done) };
        self.submit()?;
        if self.slots.in_flight > 0 && self.uring.completion().is_empty() {
            let entered = if ns > 0 && self.uring.params().is_feature_ext_arg() {
                let longest =
                    types::Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                let arguments = types::SubmitArgs::new().timespec(&longest);
                self.uring.submitter().submit_with_args(1, &arguments)
            } else {
                // Deferred completions come only to a thread that enters the kernel for them.
                self.ask_for_completions(0)
            };
            match entered.map_err(errno_of) {
                Ok(_) | Err(Errno::INTR | Errno::TIME) => {}
                Err(errno) => return Err(RingError::Enter(errno)),
            }
        }
        self.reap(done);
        Ok(())
    }
}

impl<F> Ring<F> {
    fn ask_for_completions(&self, wanted: u32) -> std::io::Result<usize> {
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: no argument is passed, so no pointer can be wrong.
        unsafe { self.uring.submitter().enter::<libc::sigset_t>(0, wanted, flags, None) }
    }
}

impl<F> Drop for Ring<F> {
    fn drop(&mut self) {
        // Queued requests are seen only by a polling kernel thread.
        if self.polling.submission && !self.slots.queued.is_empty() {
            let _ = self.uring.submit();
            self.slots.in_flight += self.slots.queued.len();
        }
        while self.slots.in_flight > 0 {
            let wanted = u32::try_from(self.slots.in_flight).unwrap_or(u32::MAX);
            match self.ask_for_completions(wanted).map_err(errno_of) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => {
                    self.slots.leak();
                    return;
                }
            }
            self.slots.in_flight = self.slots.in_flight.saturating_sub(self.uring.completion().count());
        }
        // The kernel tears a ring down late and keeps the files and their space until then.
        let _ = self.uring.submitter().unregister_files();
        let _ = self.uring.submitter().unregister_buffers();
    }
}
