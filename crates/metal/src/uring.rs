//! Asynchronous file I/O through io_uring behind safe types.
//!
//! A [`Ring`] owns its page-aligned buffers, one to a *slot*, and lends a slot's buffer only while no request
//! uses it; dropping the ring waits for what is in flight. So safe code can neither free nor touch memory that
//! the kernel is using. Times are monotonic nanoseconds (see [`monotonic_ns`]), read once a batch, because a
//! clock read for every request would be measured too.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use io_uring::{EnterFlags, IoUring, opcode, squeue, types};
use rustix::io::Errno;
use rustix::time::ClockId;

mod error;
mod region;
#[cfg(test)]
mod tests;

pub use error::{RingError, Unavailable};
pub use region::AlignedBuffer;
use region::Region;

/// The deepest ring: the kernel's own bound on submission entries (`IORING_MAX_ENTRIES`, io_uring/io_uring.h).
pub const MAX_DEPTH: usize = 32_768;

/// The largest block: a registered buffer may not exceed 1 GiB (io_uring_register(2)).
pub const MAX_BLOCK: usize = 1 << 30;

/// Nanoseconds of CLOCK_MONOTONIC: the clock of every time in this module.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    // Neither part of CLOCK_MONOTONIC is ever negative; saturate rather than trust that.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// What a request does to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// From the file into the slot's buffer.
    Read,
    /// From the slot's buffer into the file.
    Write,
    /// fdatasync(2) of the whole file; offset and length mean nothing.
    DataSync,
}

/// One request: `len` bytes between `offset` in the file and byte `start` of the slot's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Which slot carries it: the user index that its completion bears.
    pub slot: usize,
    /// What to do.
    pub op: Op,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// Where in the slot's buffer, in bytes: not 0 for the rest of a short transfer.
    pub start: usize,
    /// How many bytes.
    pub len: usize,
}

/// A finished request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request as it was pushed.
    pub request: Request,
    /// Bytes moved (fewer than asked for at the end of the file), or why it failed.
    pub outcome: Result<usize, Errno>,
    /// When its batch began to be handed to the kernel.
    pub submitted_ns: u64,
    /// When the kernel had accepted its batch.
    pub accepted_ns: u64,
    /// When it was reaped.
    pub completed_ns: u64,
}

/// What the kernel granted a ring, so that a result can say what was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Buffers are registered (pinned once, not at every request), or why not: `ENOMEM` is the memlock limit.
    pub buffers: Result<(), Errno>,
    /// The file is registered (looked up once), or why not.
    pub file: Result<(), Errno>,
    /// How the kernel delivers completions.
    pub delivery: Delivery,
}

/// When the kernel does the completing half of its work; the later kinds interrupt the measured thread less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// By interrupting the thread (any kernel).
    Interrupting,
    /// At the thread's next system call (`IORING_SETUP_COOP_TASKRUN`, Linux 5.19).
    Cooperative,
    /// Only while the thread waits (`IORING_SETUP_DEFER_TASKRUN`, Linux 6.1).
    Deferred,
}

/// What a slot is doing.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Idle,
    /// Pushed, not yet handed to the kernel.
    Queued(Request),
    InFlight {
        request: Request,
        submitted_ns: u64,
        accepted_ns: u64,
    },
}

/// An io_uring bound to one open file, with `depth` buffers of `block` bytes.
///
/// `F` may own the descriptor (`OwnedFd`, `File`, `Arc<File>`) or borrow it (`BorrowedFd`). A ring stays on the
/// thread that made it: with deferred delivery the kernel serves no other.
///
/// ```compile_fail,E0277
/// # use plimsoll_metal::uring::Ring;
/// fn needs_send<T: Send>() {}
/// needs_send::<Ring<std::fs::File>>();
/// ```
#[derive(Debug)]
pub struct Ring<F> {
    uring: UringBox,
    /// `None` once it had to be leaked, because the kernel could not be asked to let go of it.
    region: Option<Region>,
    file: F,
    block: usize,
    slots: Vec<Slot>,
    /// Slots pushed and not yet submitted, oldest first: the order in which the kernel will take them.
    queued: Vec<usize>,
    in_flight: usize,
    granted: Granted,
    not_send: PhantomData<*const ()>,
}

/// `IoUring` has no `Debug`.
struct UringBox(IoUring);

impl std::fmt::Debug for UringBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IoUring")
    }
}

impl<F: AsFd> Ring<F> {
    /// A ring on `file` with `depth` slots, each with a zeroed buffer of `block` bytes.
    ///
    /// # Errors
    /// [`RingError::Unavailable`] when this kernel has no io_uring or forbids it, [`RingError::Geometry`] for a
    /// depth or block that cannot be, [`RingError::Memory`] when the buffers cannot be had.
    pub fn new(file: F, depth: usize, block: usize) -> Result<Self, RingError> {
        let geometry = RingError::Geometry { depth, block };
        if depth == 0 || depth > MAX_DEPTH || block == 0 || block > MAX_BLOCK {
            return Err(geometry);
        }
        // Each buffer begins on a page of its own, whatever the block.
        let stride = block.next_multiple_of(rustix::param::page_size());
        let bytes = stride.checked_mul(depth).ok_or(geometry)?;
        let entries = u32::try_from(depth).map_err(|_| RingError::Geometry { depth, block })?;
        let (uring, delivery) = set_up(entries)?;
        let region = Region::new(bytes).map_err(|errno| RingError::Memory { bytes, errno })?;
        let granted = Granted {
            buffers: register_buffers(&uring, &region, depth, stride),
            file: uring.submitter().register_files(&[file.as_fd().as_raw_fd()]).map_err(|e| errno_of(&e)),
            delivery,
        };
        Ok(Ring {
            uring: UringBox(uring),
            region: Some(region),
            file,
            block,
            slots: vec![Slot::Idle; depth],
            queued: Vec::with_capacity(depth),
            in_flight: 0,
            granted,
            not_send: PhantomData,
        })
    }

    /// How many requests it can hold at once.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    /// How many bytes each slot's buffer has.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// How many requests the kernel has and has not finished.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// What the kernel granted.
    #[must_use]
    pub fn granted(&self) -> Granted {
        self.granted
    }

    /// The buffer of an idle slot; `None` while a request uses it or when there is no such slot.
    #[must_use]
    pub fn buffer(&self, slot: usize) -> Option<&[u8]> {
        let data = self.idle_address(slot)?;
        // SAFETY: `block` bytes from `data` are inside the region and were zeroed by the kernel; the slot is idle,
        // so the kernel does not write there, and it stays idle while `self` is borrowed.
        Some(unsafe { std::slice::from_raw_parts(data.as_ptr(), self.block) })
    }

    /// As [`Ring::buffer`], to fill it before a write.
    #[must_use]
    pub fn buffer_mut(&mut self, slot: usize) -> Option<&mut [u8]> {
        let data = self.idle_address(slot)?;
        // SAFETY: as in `buffer`, and the exclusive borrow of `self` excludes any other reference to it.
        Some(unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), self.block) })
    }

    fn idle_address(&self, slot: usize) -> Option<NonNull<u8>> {
        match self.slots.get(slot)? {
            Slot::Idle => self.address(slot, 0),
            _ => None,
        }
    }

    /// Where byte `start` (at most `block`) of an existing slot's buffer is.
    fn address(&self, slot: usize, start: usize) -> Option<NonNull<u8>> {
        let stride = self.block.next_multiple_of(rustix::param::page_size());
        let base = self.region.as_ref()?.base();
        // SAFETY: callers have checked that `slot` exists and that `start` lies within its block, so the result is
        // inside the mapping of `depth` × `stride` bytes.
        Some(unsafe { base.add(slot * stride + start) })
    }

    /// Queues a request without telling the kernel; [`Ring::submit`] hands over the batch.
    ///
    /// # Errors
    /// [`RingError::Slot`] when there is no such slot or it is in use, [`RingError::Range`] when the bytes are not
    /// within its block.
    pub fn push(&mut self, request: Request) -> Result<(), RingError> {
        let Request { slot, start, len, .. } = request;
        if !matches!(self.slots.get(slot), Some(Slot::Idle)) {
            return Err(RingError::Slot { slot, depth: self.depth() });
        }
        if start.checked_add(len).is_none_or(|end| end > self.block) {
            return Err(RingError::Range { start, len, block: self.block });
        }
        let entry = self.entry(request)?.user_data(slot as u64);
        // SAFETY: the entry's buffer is in our region, which lives until the request is finished (see `drop`); no
        // reference to it exists (the slot was idle and `self` is borrowed exclusively) nor can be made (the slot
        // is not idle from the next line on). The descriptor is kept open by `self.file`.
        let pushed = unsafe { self.uring.0.submission().push(&entry) };
        // There are at least as many entries as slots, and a slot holds one request.
        pushed.map_err(|_| RingError::Slot { slot, depth: self.depth() })?;
        self.slots[slot] = Slot::Queued(request);
        self.queued.push(slot);
        Ok(())
    }

    fn entry(&self, request: Request) -> Result<squeue::Entry, RingError> {
        let Request { slot, op, offset, start, len } = request;
        let out_of_range = RingError::Range { start, len, block: self.block };
        let Some(data) = self.address(slot, start) else { return Err(out_of_range) };
        let data = data.as_ptr();
        let len = u32::try_from(len).map_err(|_| out_of_range)?;
        let buffer = self.granted.buffers.is_ok().then(|| u16::try_from(slot).ok()).flatten();
        let file = types::Fd(self.file.as_fd().as_raw_fd());
        // The crate makes the plain and the registered file two types, so each entry is written for both.
        macro_rules! on_file {
            ($file:ident => $entry:expr) => {
                if self.granted.file.is_ok() {
                    let $file = types::Fixed(0);
                    $entry.build()
                } else {
                    let $file = file;
                    $entry.build()
                }
            };
        }
        Ok(match (op, buffer) {
            (Op::Read, Some(index)) => {
                on_file!(file => opcode::ReadFixed::new(file, data, len, index).offset(offset))
            }
            (Op::Read, None) => on_file!(file => opcode::Read::new(file, data, len).offset(offset)),
            (Op::Write, Some(index)) => {
                on_file!(file => opcode::WriteFixed::new(file, data, len, index).offset(offset))
            }
            (Op::Write, None) => on_file!(file => opcode::Write::new(file, data, len).offset(offset)),
            (Op::DataSync, _) => {
                on_file!(file => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC))
            }
        })
    }

    /// Hands every queued request to the kernel, and returns how many.
    ///
    /// # Errors
    /// [`RingError::Enter`]: what the kernel did not take stays queued.
    pub fn submit(&mut self) -> Result<usize, RingError> {
        let mut taken = 0;
        while !self.queued.is_empty() {
            let submitted_ns = monotonic_ns();
            let count = match self.uring.0.submit().map_err(|e| errno_of(&e)) {
                Ok(count) => count.min(self.queued.len()),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(RingError::Enter { errno }),
            };
            let accepted_ns = monotonic_ns();
            for slot in self.queued.drain(..count) {
                if let Slot::Queued(request) = self.slots[slot] {
                    self.slots[slot] = Slot::InFlight { request, submitted_ns, accepted_ns };
                }
            }
            self.in_flight += count;
            taken += count;
        }
        Ok(taken)
    }

    /// Submits what is queued, waits until `at_least` requests are finished (or as many as are in flight), and
    /// appends every finished one to `done`. Returns how many it appended.
    ///
    /// # Errors
    /// [`RingError::Enter`] when the kernel refuses the call. A failed request is not an error here: its
    /// completion says so.
    pub fn wait(&mut self, at_least: usize, done: &mut Vec<Completion>) -> Result<usize, RingError> {
        self.submit()?;
        let wanted = at_least.min(self.in_flight);
        while self.uring.0.completion().len() < wanted {
            match self.uring.0.submit_and_wait(wanted).map_err(|e| errno_of(&e)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(RingError::Enter { errno }),
            }
        }
        Ok(self.reap(done))
    }

    fn reap(&mut self, done: &mut Vec<Completion>) -> usize {
        let before = done.len();
        let completed_ns = monotonic_ns();
        for entry in self.uring.0.completion() {
            let Some(state) =
                usize::try_from(entry.user_data()).ok().and_then(|slot| self.slots.get_mut(slot))
            else {
                continue;
            };
            let Slot::InFlight { request, submitted_ns, accepted_ns } = *state else { continue };
            *state = Slot::Idle;
            self.in_flight -= 1;
            let outcome = usize::try_from(entry.result())
                .map_err(|_| Errno::from_raw_os_error(entry.result().saturating_neg()));
            done.push(Completion { request, outcome, submitted_ns, accepted_ns, completed_ns });
        }
        done.len() - before
    }
}

impl<F> Drop for Ring<F> {
    fn drop(&mut self) {
        // What is queued and not submitted the kernel never sees. For the rest it is asked with `to_submit` = 0.
        while self.in_flight > 0 {
            let wanted = u32::try_from(self.in_flight).unwrap_or(u32::MAX);
            let flags = EnterFlags::GETEVENTS.bits();
            // SAFETY: no argument is passed, so there is no pointer that could be wrong.
            let entered = unsafe { self.uring.0.submitter().enter::<libc::sigset_t>(0, wanted, flags, None) };
            match entered.map_err(|e| errno_of(&e)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => {
                    // The kernel may still write to the buffers: they must outlive us.
                    std::mem::forget(self.region.take());
                    return;
                }
            }
            self.in_flight = self.in_flight.saturating_sub(self.uring.0.completion().count());
        }
    }
}

/// Makes the ring with the quietest delivery of completions that this kernel has.
fn set_up(entries: u32) -> Result<(IoUring, Delivery), RingError> {
    let (uring, delivery) =
        build_quietest(entries).map_err(|e| RingError::Unavailable(Unavailable::from_errno(errno_of(&e))))?;
    let mut probe = io_uring::Probe::new();
    let probed = uring.submitter().register_probe(&mut probe);
    // The probe and the plain read came together (Linux 5.6).
    if probed.is_err() || !probe.is_supported(opcode::Read::CODE) {
        return Err(RingError::Unavailable(Unavailable::TooOld));
    }
    Ok((uring, delivery))
}

fn build_quietest(entries: u32) -> std::io::Result<(IoUring, Delivery)> {
    // An unknown set-up flag is EINVAL (io_uring_setup(2)): only that leads to the next try.
    let unknown = |e: &std::io::Error| errno_of(e) == Errno::INVAL;
    match IoUring::builder().dontfork().setup_single_issuer().setup_defer_taskrun().build(entries) {
        Err(e) if unknown(&e) => {}
        made => return made.map(|uring| (uring, Delivery::Deferred)),
    }
    match IoUring::builder().dontfork().setup_coop_taskrun().build(entries) {
        Err(e) if unknown(&e) => {}
        made => return made.map(|uring| (uring, Delivery::Cooperative)),
    }
    IoUring::builder().dontfork().build(entries).map(|uring| (uring, Delivery::Interrupting))
}

fn register_buffers(uring: &IoUring, region: &Region, depth: usize, stride: usize) -> Result<(), Errno> {
    let buffers: Vec<libc::iovec> = (0..depth)
        .map(|slot| {
            // SAFETY: the region has `depth` × `stride` bytes, and `slot` < `depth`.
            let base = unsafe { region.base().add(slot * stride) };
            libc::iovec { iov_base: base.as_ptr().cast(), iov_len: stride }
        })
        .collect();
    // SAFETY: the buffers are in `region`, which the ring drops only after the kernel has let go of every request;
    // closing the ring then unpins them.
    unsafe { uring.submitter().register_buffers(&buffers) }.map_err(|e| errno_of(&e))
}

/// The errno in an `io::Error` that came from a system call.
fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
