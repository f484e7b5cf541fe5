//! Asynchronous file I/O as in libaio: io_submit(2) and io_getevents(2), called directly.

use std::marker::PhantomData;
use std::os::fd::AsFd;

use rustix::io::Errno;

use super::slots::{SlotEngine, Slots, has_slots};
use crate::ticks::TickClock;
use crate::uring::{Completion, Request, RequestKind, RingError, WaitEnd};

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

/// An I/O context with one page-aligned buffer per slot. Its drop waits for the requests in flight.
#[derive(Debug)]
pub struct Aio<F> {
    context: libc::c_ulong,
    slots: Slots<F>,
    /// One per slot; io_submit(2) copies it.
    blocks: Vec<ControlBlock>,
    pointers: Vec<*mut ControlBlock>,
    events: Vec<CompletionEvent>,
    ready: Vec<Completion>,
    not_send: PhantomData<*const ()>,
}

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

has_slots!(Aio);

impl<F: AsFd> Aio<F> {
    /// Creates a context for requests on `files`, with `depth` slots that have a buffer of `block`
    /// bytes each. Fails with `EAGAIN` beyond the limit `fs.aio-max-nr`, `ENOSYS` without AIO.
    pub fn new(files: Vec<F>, depth: usize, block: usize) -> Result<Self, RingError> {
        let slots = Slots::new(files, depth, block)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number to the variable, which must be 0 before.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth as libc::c_ulong, &raw mut context) };
        if made != 0 {
            return Err(RingError::Enter(errno()));
        }
        Ok(Aio {
            context,
            slots,
            blocks: vec![ControlBlock::default(); depth],
            pointers: Vec::with_capacity(depth),
            events: vec![CompletionEvent::default(); depth],
            ready: Vec::new(),
            not_send: PhantomData,
        })
    }

    /// Executes queued syncs with fsync(2) and fdatasync(2), like fio: AIO has no such request.
    fn make_calls(&mut self) {
        let call = |slots: &Slots<F>| {
            let queued = slots.queued.iter().enumerate();
            queued.filter_map(|(at, slot)| Some((at, slots.waiting(*slot)?))).find(|(_, it)| it.op.is_sync())
        };
        while let Some((at, request)) = call(&self.slots) {
            let slot = self.slots.queued.remove(at);
            self.slots.release(slot);
            let submitted_ns = self.slots.clock.now_ns();
            let file = &self.slots.files[request.file];
            let done = match request.op {
                RequestKind::Sync => rustix::fs::fsync(file),
                _ => rustix::fs::fdatasync(file),
            };
            let completed_ns = self.slots.clock.now_ns();
            let outcome = done.map(|()| 0);
            let accepted_ns = submitted_ns;
            self.ready.push(Completion { request, outcome, submitted_ns, accepted_ns, completed_ns });
        }
    }

    fn reap(&mut self, count: usize, done: &mut Vec<Completion>) {
        let completed_ns = self.slots.clock.now_ns();
        for event in &self.events[..count.min(self.events.len())] {
            done.extend(self.slots.complete(event.data, completed_ns, |_| {
                usize::try_from(event.result).map_err(|_| {
                    let number = i32::try_from(event.result.saturating_neg()).unwrap_or(libc::EIO);
                    Errno::from_raw_os_error(number)
                })
            }));
        }
    }
}

impl<F: AsFd> SlotEngine<F> for Aio<F> {
    fn push(&mut self, request: Request) -> Result<(), RingError> {
        let (data, descriptor) = self.slots.checked(&request)?;
        let out_of_range = self.slots.out_of_range(&request);
        let Request { slot, op, offset, len, .. } = request;
        let descriptor = u32::try_from(descriptor).map_err(|_| out_of_range)?;
        let (opcode, flags) = match op {
            RequestKind::Read => (PREAD_COMMAND, 0),
            RequestKind::Write => (PWRITE_COMMAND, 0),
            RequestKind::WriteThrough => (PWRITE_COMMAND, libc::RWF_DSYNC),
            RequestKind::WriteSync => (PWRITE_COMMAND, libc::RWF_SYNC),
            RequestKind::DataSync | RequestKind::Sync => (PREAD_COMMAND, 0),
            RequestKind::Trim => return Err(RingError::Enter(Errno::OPNOTSUPP)),
        };
        self.blocks[slot] = ControlBlock {
            data: slot as u64,
            flags,
            opcode,
            descriptor,
            buffer: data.as_ptr() as u64,
            len: len as u64,
            offset: i64::try_from(offset).map_err(|_| out_of_range)?,
            ..ControlBlock::default()
        };
        self.slots.queue(request);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), RingError> {
        self.make_calls();
        while !self.slots.queued.is_empty() {
            self.pointers.clear();
            let blocks = self.blocks.as_mut_ptr();
            // SAFETY: a queued slot exists, so the pointer is inside `blocks`.
            self.pointers.extend(self.slots.queued.iter().map(|slot| unsafe { blocks.add(*slot) }));
            let submitted_ns = self.slots.clock.now_ns();
            let wanted = self.pointers.len() as libc::c_long;
            // SAFETY: the kernel copies the blocks in the call. Their buffers are in the region,
            // which outlives the context; no reference to them exists (the slots were idle) or can
            // be made (they are not idle now). `slots` keeps the descriptors open.
            let taken = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, wanted, self.pointers.as_mut_ptr())
            };
            let count = match usize::try_from(taken) {
                Ok(count) if count > 0 => count.min(self.slots.queued.len()),
                _ => match errno() {
                    Errno::INTR => continue,
                    errno => return Err(RingError::Enter(errno)),
                },
            };
            self.slots.accept(count, submitted_ns);
        }
        Ok(())
    }

    fn wait_within(&mut self, patience: WaitEnd, done: &mut Vec<Completion>) -> Result<(), RingError> {
        self.submit()?;
        let called = !self.ready.is_empty();
        done.append(&mut self.ready);
        if self.slots.in_flight == 0 {
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
            let events = self.events.as_mut_ptr();
            // SAFETY: the kernel writes at most `most` events, the length of `events`.
            let got =
                unsafe { libc::syscall(libc::SYS_io_getevents, self.context, least, most, events, timeout) };
            match usize::try_from(got) {
                Ok(count) => {
                    self.reap(count, done);
                    return Ok(());
                }
                Err(_) => match errno() {
                    Errno::INTR if least > 0 => {}
                    Errno::INTR => return Ok(()),
                    errno => return Err(RingError::Enter(errno)),
                },
            }
        }
    }
}

impl<F> Drop for Aio<F> {
    fn drop(&mut self) {
        // SAFETY: not used again. io_destroy(2) awaits requests: the kernel uses no buffer later.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uring::tests::read;

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
            aio.push(Request { op: RequestKind::Write, ..read(slot, offset, 4096) }).expect("push");
        }
        assert!(aio.buffer_mut(0).is_none(), "it is in use");
        assert!(aio.push(read(0, 0, 4096)).is_err());
        let done = waited(&mut aio, 4);
        assert!(done.iter().all(|one| one.outcome == Ok(4096)));
        assert!(done.iter().all(|c| c.submitted_ns <= c.accepted_ns && c.accepted_ns <= c.completed_ns));
        aio.push(Request { op: RequestKind::Sync, ..read(0, 0, 0) }).expect("push");
        assert_eq!(waited(&mut aio, 1)[0].outcome, Ok(0));
        for slot in 0..4 {
            aio.buffer_mut(slot).expect("idle").fill(0);
            aio.push(read(slot, (3 - slot) as u64 * 4096, 4096)).expect("push");
        }
        waited(&mut aio, 4);
        for slot in 0..4 {
            assert!(aio.buffer_mut(slot).expect("idle").iter().all(|byte| *byte == 4 - slot as u8));
        }
    }

    #[test]
    fn the_end_of_the_file_is_short_and_what_cannot_be_is_refused() {
        let mut aio = Aio::new(vec![file(512)], 1, 4096).expect("context");
        let read = read(0, 0, 4096);
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
