//! Engines that do one transfer at a time, within the call that begins it.

use super::*;
use plimsoll_metal::buffer::Buffer;
use plimsoll_metal::uring::transfer_buffer;
use rustix::io::ReadWriteFlags;
use std::io::{IoSlice, IoSliceMut};

/// How one transfer is done.
pub(super) trait Transfer {
    /// Which engine that is.
    const KIND: Kind;

    /// Reads into `buffer`.
    fn read(&mut self, file: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Writes `bytes`.
    fn write(&mut self, file: usize, offset: u64, bytes: &[u8], op: Op) -> Result<usize, Errno>;

    /// The file itself, for what is done alike everywhere.
    fn file(&self, file: usize) -> Result<&TestFile, Errno>;
}

/// preadv2(2) and pwritev2(2).
pub(super) struct Calls(pub(super) Vec<Arc<TestFile>>);

impl Transfer for Calls {
    const KIND: Kind = Kind::Psync;

    fn read(&mut self, file: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut slices = [IoSliceMut::new(buffer)];
        rustix::io::preadv2(self.file(file)?, &mut slices, offset, ReadWriteFlags::empty())
    }

    fn write(&mut self, file: usize, offset: u64, bytes: &[u8], op: Op) -> Result<usize, Errno> {
        let flags = match op {
            Op::WriteThrough => ReadWriteFlags::DSYNC,
            _ => ReadWriteFlags::empty(),
        };
        rustix::io::pwritev2(self.file(file)?, &[IoSlice::new(bytes)], offset, flags)
    }

    fn file(&self, file: usize) -> Result<&TestFile, Errno> {
        self.0.get(file).map(Arc::as_ref).ok_or(Errno::BADF)
    }
}

/// Copies from and to a mapping.
pub(super) struct Mapping {
    files: Vec<Arc<TestFile>>,
    mapped: Vec<Mapped>,
}

impl Mapping {
    pub(super) fn new(files: &[Arc<TestFile>], access: Access) -> Result<Self, RingError> {
        let map = |file: &Arc<TestFile>| {
            let len = rustix::fs::fstat(file).map(|stat| usize::try_from(stat.st_size).unwrap_or(0));
            let failed = |errno| RingError::Mapping { bytes: len.unwrap_or(0), errno };
            Mapped::new(file, len.map_err(failed)?, access).map_err(failed)
        };
        Ok(Mapping { files: files.to_vec(), mapped: files.iter().map(map).collect::<Result<_, _>>()? })
    }
}

impl Transfer for Mapping {
    const KIND: Kind = Kind::Mmap;

    fn read(&mut self, file: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mapped = self.mapped.get(file).ok_or(Errno::BADF)?;
        Ok(mapped.read(usize::try_from(offset).map_err(|_| Errno::OVERFLOW)?, buffer))
    }

    fn write(&mut self, file: usize, offset: u64, bytes: &[u8], op: Op) -> Result<usize, Errno> {
        let mapped = self.mapped.get_mut(file).ok_or(Errno::BADF)?;
        let written = mapped.write(usize::try_from(offset).map_err(|_| Errno::OVERFLOW)?, bytes);
        if op == Op::WriteThrough {
            // It writes dirty pages of mappings too (fsync(2)).
            rustix::fs::fdatasync(self.file(file)?)?;
        }
        Ok(written)
    }

    fn file(&self, file: usize) -> Result<&TestFile, Errno> {
        self.files.get(file).map(Arc::as_ref).ok_or(Errno::BADF)
    }
}

/// Adds what is finished to `done`; where nothing is there, the lists change hands, and no completion is copied.
pub(super) fn hand_over(finished: &mut Vec<Completion>, done: &mut Vec<Completion>) {
    match done.is_empty() {
        true => std::mem::swap(done, finished),
        false => done.append(finished),
    }
}

/// Synchronous transfers: whatever depth is asked for, one is in flight.
pub(super) struct OneAtATime<T> {
    transfer: T,
    buffer: Buffer,
    clock: Clock,
    /// The transfer at hand, as it will be handed back; at most one.
    queued: Vec<Completion>,
    /// Whether it was carried out.
    begun: bool,
}

impl<T: Transfer> OneAtATime<T> {
    pub(super) fn new(transfer: T, block: usize, clock: Clock) -> Result<Self, RingError> {
        let buffer = transfer_buffer(block)?;
        Ok(OneAtATime { transfer, buffer, clock, queued: Vec::with_capacity(1), begun: false })
    }

    fn carry_out(&mut self, request: Request) -> Result<usize, Errno> {
        let Request { op, file, offset, start, len, .. } = request;
        let buffer = &mut self.buffer.bytes_mut()[start..start + len];
        match op {
            Op::Read => self.transfer.read(file, offset, buffer),
            Op::Write | Op::WriteThrough => self.transfer.write(file, offset, buffer, op),
            Op::DataSync => rustix::fs::fdatasync(self.transfer.file(file)?).map(|()| 0),
            Op::Trim => {
                let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(self.transfer.file(file)?, hole, offset, len as u64).map(|()| len)
            }
        }
    }
}

impl<T: Transfer> Engine for OneAtATime<T> {
    fn kind(&self) -> Kind {
        T::KIND
    }

    fn depth(&self) -> usize {
        1
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn buffer(&mut self, slot: usize) -> Option<&mut [u8]> {
        (slot == 0).then_some(self.buffer.bytes_mut())
    }

    fn push(&mut self, request: Request) -> Result<(), RingError> {
        let Request { slot, start, len, .. } = request;
        if slot != 0 || !self.queued.is_empty() {
            return Err(RingError::Slot { slot, depth: 1 });
        }
        if start.checked_add(len).is_none_or(|end| end > self.buffer.len()) {
            return Err(RingError::Range { start, len, block: self.buffer.len() });
        }
        let outcome = Ok(0);
        self.queued.push(Completion { request, outcome, submitted_ns: 0, accepted_ns: 0, completed_ns: 0 });
        Ok(())
    }

    fn submit(&mut self) -> Result<(), RingError> {
        let Some(request) = self.queued.first().map(|held| held.request).filter(|_| !self.begun) else {
            return Ok(());
        };
        self.begun = true;
        let submitted_ns = self.clock.now_ns();
        let outcome = self.carry_out(request);
        let completed_ns = self.clock.now_ns();
        for held in &mut self.queued {
            held.outcome = outcome;
            // The call that submits also completes: nothing is left to tell them apart.
            (held.submitted_ns, held.accepted_ns, held.completed_ns) =
                (submitted_ns, submitted_ns, completed_ns);
        }
        Ok(())
    }

    fn wait(&mut self, _: Patience, done: &mut Vec<Completion>) -> Result<(), RingError> {
        self.submit()?;
        hand_over(&mut self.queued, done);
        self.begun = false;
        Ok(())
    }
}
