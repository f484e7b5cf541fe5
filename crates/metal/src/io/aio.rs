//! Asynchronous file I/O as in libaio: io_submit(2) and io_getevents(2), called directly.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::ticks::TickClock;
use crate::uring::{Completion, Request, RequestKind, RingError, WaitEnd, buffer_layout, transfer_buffer};

/// linux/aio_abi.h.
const PREAD_COMMAND: u16 = 0;
const PWRITE_COMMAND: u16 = 1;

/// `struct iocb` of linux/aio_abi.h on a little-endian machine: a request.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct ControlBlock {
    data: u64,
    key: u32,
    flags: i32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    len: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_descriptor: u32,
}

/// `struct io_event` of linux/aio_abi.h: a completion.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct CompletionEvent {
    data: u64,
    block: u64,
    result: i64,
    more: i64,
}

#[cfg(not(target_endian = "little"))]
compile_error!("the halves of iocb's key and flags are the other way round on big-endian machines");

#[derive(Debug, Clone, Copy)]
enum AioSlot {
    Idle,
    Queued(Request),
    InFlight { request: Request, submitted_ns: u64, accepted_ns: u64 },
}

/// An I/O context with one page-aligned buffer per slot. Its drop waits for the requests in flight.
#[derive(Debug)]
pub struct Aio<F> {
    context: libc::c_ulong,
    region: Buffer,
    files: Vec<F>,
    block: usize,
    stride: usize,
    slots: Vec<AioSlot>,
    queued: Vec<usize>,
    /// One per slot; io_submit(2) copies it.
    blocks: Vec<ControlBlock>,
    pointers: Vec<*mut ControlBlock>,
    events: Vec<CompletionEvent>,
    ready: Vec<Completion>,
    in_flight: usize,
    clock: TickClock,
    not_send: PhantomData<*const ()>,
}

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl<F: AsFd> Aio<F> {
    /// Creates a context with `depth` slots of `block` bytes each on `files`. Fails with `EAGAIN`
    /// beyond the limit `fs.aio-max-nr`, with `ENOSYS` if the kernel has no AIO.
    pub fn new(files: Vec<F>, depth: usize, block: usize) -> Result<Self, RingError> {
        let (stride, bytes) = buffer_layout(files.len(), depth, block)?;
        let region = transfer_buffer(bytes)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number to the variable, which must be 0 before.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth as libc::c_ulong, &raw mut context) };
        if made != 0 {
            return Err(RingError::Enter { errno: errno() });
        }
        Ok(Aio {
            context,
            region,
            files,
            block,
            stride,
            slots: vec![AioSlot::Idle; depth],
            queued: Vec::with_capacity(depth),
            blocks: vec![ControlBlock::default(); depth],
            pointers: Vec::with_capacity(depth),
            events: vec![CompletionEvent::default(); depth],
            ready: Vec::new(),
            in_flight: 0,
            clock: TickClock::system(),
            not_send: PhantomData,
        })
    }

    /// Sets the clock that stamps completions.
    #[must_use]
    pub fn stamped_by(mut self, clock: TickClock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the current time of the clock that stamps completions, in ns.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns the number of slots: the maximum number of requests in flight.
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Returns the buffer of an idle slot to fill or read it; `None` if the slot is busy.
    pub fn buffer_mut(&mut self, slot: usize) -> Option<&mut [u8]> {
        if !matches!(self.slots.get(slot)?, AioSlot::Idle) {
            return None;
        }
        let data = self.address(slot, 0);
        // SAFETY: the `block` bytes are inside the zeroed region; the kernel uses no idle slot.
        Some(unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), self.block) })
    }

    /// Returns the address of byte `start` (at most `block`) in the buffer of an existing `slot`.
    fn address(&self, slot: usize, start: usize) -> NonNull<u8> {
        // SAFETY: callers have checked `slot` and `start`: inside the `depth` × `stride` bytes.
        unsafe { self.region.start.add(slot * self.stride + start) }
    }

    /// Queues a request for [`Aio::submit`]. Fails if the slot is busy, the bytes exceed its
    /// buffer, the file does not exist, or for a trim.
    pub fn push(&mut self, request: Request) -> Result<(), RingError> {
        let Request { slot, op, file, offset, start, len } = request;
        if !matches!(self.slots.get(slot), Some(AioSlot::Idle)) {
            return Err(RingError::Slot { slot, depth: self.depth() });
        }
        let out_of_range = RingError::Range { start, len, block: self.block };
        if start.checked_add(len).is_none_or(|end| end > self.block) {
            return Err(out_of_range);
        }
        let files = self.files.len();
        let chosen = self.files.get(file).ok_or(RingError::File { file, files })?;
        let descriptor = u32::try_from(chosen.as_fd().as_raw_fd()).map_err(|_| out_of_range)?;
        let (opcode, flags) = match op {
            RequestKind::Read => (PREAD_COMMAND, 0),
            RequestKind::Write => (PWRITE_COMMAND, 0),
            RequestKind::WriteThrough => (PWRITE_COMMAND, libc::RWF_DSYNC),
            RequestKind::WriteSync => (PWRITE_COMMAND, libc::RWF_SYNC),
            RequestKind::DataSync | RequestKind::Sync => (PREAD_COMMAND, 0),
            RequestKind::Trim => return Err(RingError::Enter { errno: Errno::OPNOTSUPP }),
        };
        self.blocks[slot] = ControlBlock {
            data: slot as u64,
            flags,
            opcode,
            descriptor,
            buffer: self.address(slot, start).as_ptr() as u64,
            len: len as u64,
            offset: i64::try_from(offset).map_err(|_| out_of_range)?,
            ..ControlBlock::default()
        };
        self.slots[slot] = AioSlot::Queued(request);
        self.queued.push(slot);
        Ok(())
    }

    /// Submits the queued requests; after an error those that the kernel refused stay queued.
    pub fn submit(&mut self) -> Result<(), RingError> {
        self.make_calls()?;
        while !self.queued.is_empty() {
            self.pointers.clear();
            let blocks = self.blocks.as_mut_ptr();
            // SAFETY: a queued slot exists, so the pointer is inside `blocks`.
            self.pointers.extend(self.queued.iter().map(|slot| unsafe { blocks.add(*slot) }));
            let submitted_ns = self.clock.now_ns();
            let wanted = self.pointers.len() as libc::c_long;
            // SAFETY: the kernel copies the blocks in the call. Their buffers are in the region,
            // which outlives the context; no reference to them exists (the slots were idle) or can
            // be made (they are not idle now). `files` keeps the descriptors open.
            let taken = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, wanted, self.pointers.as_mut_ptr())
            };
            let accepted_ns = self.clock.now_ns();
            let count = match usize::try_from(taken) {
                Ok(count) if count > 0 => count.min(self.queued.len()),
                _ => match errno() {
                    Errno::INTR => continue,
                    errno => return Err(RingError::Enter { errno }),
                },
            };
            for slot in self.queued.drain(..count) {
                if let AioSlot::Queued(request) = self.slots[slot] {
                    self.slots[slot] = AioSlot::InFlight { request, submitted_ns, accepted_ns };
                }
            }
            self.in_flight += count;
        }
        Ok(())
    }

    /// Executes queued syncs with fsync(2) and fdatasync(2), like fio: AIO has no such request.
    fn make_calls(&mut self) -> Result<(), RingError> {
        while let Some(at) = self.queued.iter().position(|slot| self.is_call(*slot)) {
            let slot = self.queued.remove(at);
            let AioSlot::Queued(request) = std::mem::replace(&mut self.slots[slot], AioSlot::Idle) else {
                continue;
            };
            let submitted_ns = self.clock.now_ns();
            let file = &self.files[request.file];
            let done = match request.op {
                RequestKind::Sync => rustix::fs::fsync(file),
                _ => rustix::fs::fdatasync(file),
            };
            let completed_ns = self.clock.now_ns();
            let outcome = done.map(|()| 0);
            let accepted_ns = submitted_ns;
            self.ready.push(Completion { request, outcome, submitted_ns, accepted_ns, completed_ns });
        }
        Ok(())
    }

    fn is_call(&self, slot: usize) -> bool {
        matches!(self.slots[slot], AioSlot::Queued(request) if matches!(request.op, RequestKind::DataSync | RequestKind::Sync))
    }

    /// Submits the queue, waits up to `patience` for a completion if a request is in flight, and
    /// appends all completions to `done`. A failed request has its error in its completion.
    pub fn wait_within(&mut self, patience: WaitEnd, done: &mut Vec<Completion>) -> Result<(), RingError> {
        self.submit()?;
        let called = !self.ready.is_empty();
        done.append(&mut self.ready);
        if self.in_flight == 0 {
            return Ok(());
        }
        loop {
            let mut longest = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let (least, timeout) = match patience {
                _ if called => (0, &raw mut longest),
                WaitEnd::Endless => (1, std::ptr::null_mut()),
                WaitEnd::Nanoseconds(ns) => {
                    longest.tv_sec = (ns / 1_000_000_000) as libc::time_t;
                    longest.tv_nsec = (ns % 1_000_000_000) as libc::c_long;
                    (libc::c_long::from(ns > 0), &raw mut longest)
                }
            };
            let most = self.events.len() as libc::c_long;
            // SAFETY: the kernel writes at most `most` events, the length of `events`.
            let got = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    least,
                    most,
                    self.events.as_mut_ptr(),
                    timeout,
                )
            };
            match usize::try_from(got) {
                Ok(count) => {
                    self.reap(count, done);
                    return Ok(());
                }
                Err(_) => match errno() {
                    Errno::INTR if least > 0 => {}
                    Errno::INTR => return Ok(()),
                    errno => return Err(RingError::Enter { errno }),
                },
            }
        }
    }

    fn reap(&mut self, count: usize, done: &mut Vec<Completion>) {
        let completed_ns = self.clock.now_ns();
        for event in &self.events[..count.min(self.events.len())] {
            let Some(state) = usize::try_from(event.data).ok().and_then(|slot| self.slots.get_mut(slot))
            else {
                continue;
            };
            let AioSlot::InFlight { request, submitted_ns, accepted_ns } = *state else { continue };
            *state = AioSlot::Idle;
            self.in_flight -= 1;
            let outcome = usize::try_from(event.result).map_err(|_| {
                let number = i32::try_from(event.result.saturating_neg()).unwrap_or(libc::EIO);
                Errno::from_raw_os_error(number)
            });
            done.push(Completion { request, outcome, submitted_ns, accepted_ns, completed_ns });
        }
    }
}

impl<F> Drop for Aio<F> {
    fn drop(&mut self) {
        // SAFETY: not used again. io_destroy(2) waits for requests: the kernel uses no buffer
        // later.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: usize) -> std::fs::File {
        let file = tempfile::tempfile().expect("file");
        file.set_len(bytes as u64).expect("length");
        file
    }

    fn waited(aio: &mut Aio<std::fs::File>, wanted: usize) -> Vec<Completion> {
        let mut done = Vec::new();
        while done.len() < wanted {
            aio.wait_within(WaitEnd::Endless, &mut done).expect("wait");
        }
        done
    }

    #[test]
    fn what_is_written_is_read_and_each_slot_is_its_own() {
        let mut aio = Aio::new(vec![file(1 << 16)], 4, 4096).expect("context");
        for slot in 0..4 {
            aio.buffer_mut(slot).expect("idle").fill(slot as u8 + 1);
            let offset = slot as u64 * 4096;
            aio.push(Request { slot, op: RequestKind::Write, file: 0, offset, start: 0, len: 4096 })
                .expect("push");
        }
        assert!(aio.buffer_mut(0).is_none(), "it is in use");
        let again = Request { slot: 0, op: RequestKind::Read, file: 0, offset: 0, start: 0, len: 4096 };
        assert!(aio.push(again).is_err());
        let done = waited(&mut aio, 4);
        assert!(done.iter().all(|one| one.outcome == Ok(4096)));
        assert!(done.iter().all(|c| c.submitted_ns <= c.accepted_ns && c.accepted_ns <= c.completed_ns));
        aio.push(Request { slot: 0, op: RequestKind::Sync, file: 0, offset: 0, start: 0, len: 0 })
            .expect("push");
        assert_eq!(waited(&mut aio, 1)[0].outcome, Ok(0));
        for slot in 0..4 {
            aio.buffer_mut(slot).expect("idle").fill(0);
            let offset = (3 - slot) as u64 * 4096;
            aio.push(Request { slot, op: RequestKind::Read, file: 0, offset, start: 0, len: 4096 })
                .expect("push");
        }
        waited(&mut aio, 4);
        for slot in 0..4 {
            assert!(aio.buffer_mut(slot).expect("idle").iter().all(|byte| *byte == 4 - slot as u8));
        }
    }

    #[test]
    fn the_end_of_the_file_is_short_and_what_cannot_be_is_refused() {
        let mut aio = Aio::new(vec![file(512)], 1, 4096).expect("context");
        let read = Request { slot: 0, op: RequestKind::Read, file: 0, offset: 0, start: 0, len: 4096 };
        aio.push(read).expect("push");
        assert_eq!(waited(&mut aio, 1)[0].outcome, Ok(512));
        assert!(aio.push(Request { len: 4097, ..read }).is_err());
        assert!(aio.push(Request { slot: 1, ..read }).is_err());
        assert!(aio.push(Request { file: 1, ..read }).is_err());
        assert!(aio.push(Request { op: RequestKind::Trim, ..read }).is_err());
        let mut none = Vec::new();
        aio.wait_within(WaitEnd::Nanoseconds(0), &mut none).expect("nothing in flight");
        assert!(none.is_empty());
        assert!(Aio::<std::fs::File>::new(Vec::new(), 1, 4096).is_err());
    }
}
