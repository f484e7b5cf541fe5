//! Synchronous engines: one transfer at a time, within the call that submits it.

use std::io::{IoSlice, IoSliceMut};

use rustix::io::ReadWriteFlags;

use super::*;
use plimsoll_metal::buffer::Buffer;
use plimsoll_metal::uring::transfer_buffer;

/// Synchronous I/O of one transfer.
pub(crate) trait Transfer {
    /// Reads at byte `offset` of file number `file` into `buffer`; returns the bytes read, 0 at the
    /// end of the file.
    fn read(&mut self, file: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Writes `bytes` at byte `offset` of file number `file`, durably as with O_DSYNC or O_SYNC if
    /// `op` requires it. Returns the bytes written.
    fn write(&mut self, file: usize, offset: u64, bytes: &[u8], op: RequestKind) -> Result<usize, Errno>;

    /// Unmaps the pages of a mapping; other kinds have none and do nothing.
    fn release_pages(&mut self) {}

    /// Returns file number `file`, for syncs and trims. Fails if there is none.
    fn file(&self, file: usize) -> Result<&TestFile, Errno>;
}

/// preadv2(2) and pwritev2(2).
pub(crate) struct Calls(pub(super) Vec<Arc<TestFile>>);

impl Transfer for Calls {
    fn read(&mut self, file: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut slices = [IoSliceMut::new(buffer)];
        rustix::io::preadv2(self.file(file)?, &mut slices, offset, ReadWriteFlags::empty())
    }

    fn write(&mut self, file: usize, offset: u64, bytes: &[u8], op: RequestKind) -> Result<usize, Errno> {
        let flags = match op {
            RequestKind::WriteThrough => ReadWriteFlags::DSYNC,
            RequestKind::WriteSync => ReadWriteFlags::SYNC,
            _ => ReadWriteFlags::empty(),
        };
        rustix::io::pwritev2(self.file(file)?, &[IoSlice::new(bytes)], offset, flags)
    }

    fn file(&self, file: usize) -> Result<&TestFile, Errno> {
        self.0.get(file).map(Arc::as_ref).ok_or(Errno::BADF)
    }
}

pub(crate) struct Mapping {
    files: Vec<Arc<TestFile>>,
    mapped: Vec<Mapped>,
}

impl Mapping {
    pub(super) fn new(files: &[Arc<TestFile>], access: BlockTraversal) -> Result<Self, RingError> {
        let map = |file: &Arc<TestFile>| {
            let len = file.length().map(|bytes| usize::try_from(bytes).unwrap_or(0));
            let failed = |errno| RingError::Mapping(len.unwrap_or(0), errno);
            Mapped::new(file, len.map_err(failed)?, access, file.is_writable()).map_err(failed)
        };
        Ok(Mapping { files: files.to_vec(), mapped: files.iter().map(map).collect::<Result<_, _>>()? })
    }
}

impl Transfer for Mapping {
    fn read(&mut self, file: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mapped = self.mapped.get(file).ok_or(Errno::BADF)?;
        Ok(mapped.read(usize::try_from(offset).map_err(|_| Errno::OVERFLOW)?, buffer))
    }

    fn write(&mut self, file: usize, offset: u64, bytes: &[u8], op: RequestKind) -> Result<usize, Errno> {
        let mapped = self.mapped.get_mut(file).ok_or(Errno::BADF)?;
        let written = mapped.write(usize::try_from(offset).map_err(|_| Errno::OVERFLOW)?, bytes);
        // Both also write dirty pages of mappings (fsync(2)).
        match op {
            RequestKind::WriteThrough => rustix::fs::fdatasync(self.file(file)?)?,
            RequestKind::WriteSync => rustix::fs::fsync(self.file(file)?)?,
            _ => {}
        }
        Ok(written)
    }

    fn release_pages(&mut self) {
        self.mapped.iter_mut().for_each(Mapped::release);
    }

    fn file(&self, file: usize) -> Result<&TestFile, Errno> {
        self.files.get(file).map(Arc::as_ref).ok_or(Errno::BADF)
    }
}

/// A synchronous engine: one transfer in flight, whatever the requested depth.
pub(crate) struct OneAtATime<T> {
    transfer: T,
    buffer: Buffer,
    clock: TickClock,
    at_hand: Completion,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Queued,
    CarriedOut,
    Done,
}

impl<T: Transfer> OneAtATime<T> {
    pub(super) fn new(transfer: T, block: usize, clock: TickClock) -> Result<Self, RingError> {
        let buffer = transfer_buffer(block)?;
        let request = Request { slot: 0, op: RequestKind::Read, file: 0, offset: 0, start: 0, len: 0 };
        let at_hand =
            Completion { request, outcome: Ok(0), submitted_ns: 0, accepted_ns: 0, completed_ns: 0 };
        Ok(OneAtATime { transfer, buffer, clock, at_hand, stage: Stage::Idle })
    }

    fn carry_out(&mut self, request: Request) -> Result<usize, Errno> {
        let Request { op, file, offset, start, len, .. } = request;
        let buffer = &mut self.buffer.bytes_mut()[start..start + len];
        match op {
            RequestKind::Read => self.transfer.read(file, offset, buffer),
            RequestKind::Write | RequestKind::WriteThrough | RequestKind::WriteSync => {
                self.transfer.write(file, offset, buffer, op)
            }
            RequestKind::DataSync => rustix::fs::fdatasync(self.transfer.file(file)?).map(|()| 0),
            RequestKind::Sync => rustix::fs::fsync(self.transfer.file(file)?).map(|()| 0),
            RequestKind::Trim => self.transfer.file(file)?.trim(offset, len as u64).map(|()| len),
        }
    }
}

impl<T: Transfer> Engine for OneAtATime<T> {
    fn depth(&self) -> usize {
        1
    }

    fn release_pages(&mut self) {
        self.transfer.release_pages();
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn buffer(&mut self, slot: usize) -> Option<&mut [u8]> {
        (slot == 0).then_some(self.buffer.bytes_mut())
    }

    #[inline]
    fn push(&mut self, request: Request) -> Result<(), RingError> {
        let Request { slot, start, len, .. } = request;
        if slot != 0 || matches!(self.stage, Stage::Queued | Stage::CarriedOut) {
            return Err(RingError::Slot { slot, depth: 1 });
        }
        let block = self.buffer.bytes().len();
        if start.checked_add(len).is_none_or(|end| end > block) {
            return Err(RingError::Range { start, len, block });
        }
        self.at_hand.request = request;
        self.stage = Stage::Queued;
        Ok(())
    }

    #[inline]
    fn submit(&mut self) -> Result<(), RingError> {
        if self.stage == Stage::Queued {
            let submitted_ns = self.clock.now_ns();
            let outcome = self.carry_out(self.at_hand.request);
            let completed_ns = self.clock.now_ns();
            // Submission and completion are one call, so the two times are the same.
            let accepted_ns = submitted_ns;
            self.at_hand = Completion { outcome, submitted_ns, accepted_ns, completed_ns, ..self.at_hand };
            self.stage = Stage::CarriedOut;
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self, _: WaitEnd) -> Result<(), RingError> {
        self.submit()?;
        self.stage = if self.stage == Stage::CarriedOut { Stage::Done } else { Stage::Idle };
        Ok(())
    }

    #[inline]
    fn done(&self) -> &[Completion] {
        if self.stage == Stage::Done { std::slice::from_ref(&self.at_hand) } else { &[] }
    }
}
