//! How transfers are asked for: io_uring, or synchronous pread and pwrite. One trait, so that nothing else knows.

use std::sync::Arc;

use plimsoll_metal::uring::{
    AlignedBuffer, Completion, Op, Request, Ring, RingError, Unavailable, monotonic_ns,
};
use rustix::io::Errno;

use super::target::TestFile;

/// The engines there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Many transfers in flight, asked for in batches.
    IoUring,
    /// One transfer at a time: pread(2), pwrite(2).
    Psync,
}

impl Kind {
    /// Every engine, with the word that names it.
    pub const ALL: &'static [(&'static str, Kind)] = &[("io_uring", Kind::IoUring), ("psync", Kind::Psync)];

    /// The engine of that name.
    pub fn from_word(word: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// Something that carries out transfers: `depth` slots, each with a buffer of one block.
pub trait Engine {
    /// Which it is.
    fn kind(&self) -> Kind;

    /// How many transfers it holds at once.
    fn depth(&self) -> usize;

    /// The buffer of a slot that no transfer uses.
    fn buffer(&mut self, slot: usize) -> Option<&mut [u8]>;

    /// Queues a transfer.
    ///
    /// # Errors
    /// A slot in use, or bytes beyond its buffer.
    fn push(&mut self, request: Request) -> Result<(), RingError>;

    /// Begins what is queued.
    ///
    /// # Errors
    /// When the kernel refuses the call.
    fn submit(&mut self) -> Result<(), RingError>;

    /// Begins what is queued, waits for `at_least` completions, and appends all there are to `done`.
    ///
    /// # Errors
    /// When the kernel refuses the call.
    fn wait(&mut self, at_least: usize, done: &mut Vec<Completion>) -> Result<(), RingError>;

    /// What the kernel did not grant, as a sentence with the remedy.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// An engine, and why it is not the one asked for.
pub struct Opened {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Why io_uring was not to be had.
    pub fell_back: Option<Unavailable>,
}

/// Opens the engine on the file, or psync where there is no io_uring.
///
/// # Errors
/// No memory for the buffers, or an impossible geometry.
pub fn open(kind: Kind, file: &Arc<TestFile>, depth: usize, block: usize) -> Result<Opened, RingError> {
    let psync = || Psync::new(Arc::clone(file), block).map(|psync| Box::new(psync) as Box<dyn Engine>);
    match kind {
        Kind::Psync => Ok(Opened { engine: psync()?, fell_back: None }),
        Kind::IoUring => match Ring::new(Arc::clone(file), depth, block) {
            Ok(ring) => Ok(Opened { engine: Box::new(ring), fell_back: None }),
            Err(RingError::Unavailable(why)) => Ok(Opened { engine: psync()?, fell_back: Some(why) }),
            Err(error) => Err(error),
        },
    }
}

impl Engine for Ring<Arc<TestFile>> {
    fn kind(&self) -> Kind {
        Kind::IoUring
    }

    fn depth(&self) -> usize {
        Ring::depth(self)
    }

    fn buffer(&mut self, slot: usize) -> Option<&mut [u8]> {
        self.buffer_mut(slot)
    }

    fn push(&mut self, request: Request) -> Result<(), RingError> {
        Ring::push(self, request)
    }

    fn submit(&mut self) -> Result<(), RingError> {
        Ring::submit(self).map(|_| ())
    }

    fn wait(&mut self, at_least: usize, done: &mut Vec<Completion>) -> Result<(), RingError> {
        Ring::wait(self, at_least, done).map(|_| ())
    }

    fn remark(&self) -> Option<String> {
        let errno = self.granted().buffers.err()?;
        Some(format!(
            "the kernel did not register the buffers ({errno}), so each transfer pins its own and costs more CPU time; \
             raise ulimit -l"
        ))
    }
}

/// Synchronous transfers: whatever depth is asked for, one is in flight.
struct Psync {
    file: Arc<TestFile>,
    buffer: AlignedBuffer,
    queued: Option<Request>,
    done: Option<Completion>,
}

impl Psync {
    fn new(file: Arc<TestFile>, block: usize) -> Result<Self, RingError> {
        let buffer = AlignedBuffer::new(block).map_err(|errno| RingError::Memory { bytes: block, errno })?;
        Ok(Psync { file, buffer, queued: None, done: None })
    }

    fn transfer(&mut self, request: Request) -> Result<usize, Errno> {
        let Request { op, offset, start, len, .. } = request;
        let buffer = &mut self.buffer[start..start + len];
        match op {
            Op::Read => rustix::io::pread(&self.file, buffer, offset),
            Op::Write => rustix::io::pwrite(&self.file, buffer, offset),
            Op::DataSync => rustix::fs::fdatasync(&self.file).map(|()| 0),
        }
    }
}

impl Engine for Psync {
    fn kind(&self) -> Kind {
        Kind::Psync
    }

    fn depth(&self) -> usize {
        1
    }

    fn buffer(&mut self, slot: usize) -> Option<&mut [u8]> {
        (slot == 0).then_some(&mut self.buffer[..])
    }

    fn push(&mut self, request: Request) -> Result<(), RingError> {
        let Request { slot, start, len, .. } = request;
        if slot != 0 || self.queued.is_some() || self.done.is_some() {
            return Err(RingError::Slot { slot, depth: 1 });
        }
        if start.checked_add(len).is_none_or(|end| end > self.buffer.len()) {
            return Err(RingError::Range { start, len, block: self.buffer.len() });
        }
        self.queued = Some(request);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), RingError> {
        let Some(request) = self.queued.take() else { return Ok(()) };
        let submitted_ns = monotonic_ns();
        let outcome = self.transfer(request);
        let completed_ns = monotonic_ns();
        // The call that submits also completes: nothing is left to tell them apart.
        let accepted_ns = submitted_ns;
        self.done = Some(Completion { request, outcome, submitted_ns, accepted_ns, completed_ns });
        Ok(())
    }

    fn wait(&mut self, _: usize, done: &mut Vec<Completion>) -> Result<(), RingError> {
        self.submit()?;
        done.extend(self.done.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::dir::check_dir;
    use super::super::target::{Cache, End};
    use super::*;

    fn file(dir: &std::path::Path) -> Arc<TestFile> {
        let facts = check_dir(dir).expect("usable");
        let file = TestFile::create(&facts, Cache::Buffered).expect("create");
        file.allocate(1 << 16, End::Moves).expect("allocate");
        Arc::new(file)
    }

    #[test]
    fn names_round_trip() {
        for (word, kind) in Kind::ALL {
            assert_eq!((Kind::from_word(word), kind.word()), (Some(*kind), *word));
        }
        assert_eq!(Kind::from_word("libaio"), None);
    }

    /// Both engines write and read the same bytes at the same places.
    #[test]
    fn what_one_engine_writes_the_other_reads() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = file(dir.path());
        for (writer, reader) in [(Kind::IoUring, Kind::Psync), (Kind::Psync, Kind::IoUring)] {
            let mut done = Vec::new();
            let mut write = open(writer, &file, 4, 512).expect("open").engine;
            for block in 0..8_u8 {
                write.buffer(0).expect("idle").fill(block ^ 0x55);
                let offset = u64::from(block) * 512;
                write.push(Request { slot: 0, op: Op::Write, offset, start: 0, len: 512 }).expect("push");
                write.wait(1, &mut done).expect("wait");
            }
            let mut read = open(reader, &file, 4, 512).expect("open").engine;
            for block in 0..8_u8 {
                let offset = u64::from(block) * 512;
                read.push(Request { slot: 0, op: Op::Read, offset, start: 0, len: 512 }).expect("push");
                read.wait(1, &mut done).expect("wait");
                assert!(read.buffer(0).expect("idle").iter().all(|byte| *byte == block ^ 0x55));
            }
            assert_eq!(done.len(), 16);
            assert!(done.iter().all(|completion| completion.outcome == Ok(512)));
            assert!(done.iter().all(|c| c.submitted_ns <= c.accepted_ns && c.accepted_ns <= c.completed_ns));
        }
    }

    #[test]
    fn synchronous_transfers_are_one_at_a_time_whatever_is_asked_for() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut engine = open(Kind::Psync, &file(dir.path()), 32, 512).expect("open").engine;
        assert_eq!(engine.depth(), 1);
        let read = Request { slot: 0, op: Op::Read, offset: 0, start: 0, len: 512 };
        engine.push(read).expect("push");
        assert_eq!(engine.push(read), Err(RingError::Slot { slot: 0, depth: 1 }));
        engine.submit().expect("submit");
        assert_eq!(engine.push(read), Err(RingError::Slot { slot: 0, depth: 1 }));
        let mut done = Vec::new();
        engine.wait(1, &mut done).expect("wait");
        assert_eq!(done.len(), 1);
        assert!(engine.push(Request { slot: 1, ..read }).is_err());
        assert!(engine.push(Request { len: 513, ..read }).is_err());
        assert!(engine.push(Request { start: usize::MAX, ..read }).is_err());
    }

    #[test]
    fn the_end_of_the_file_is_a_short_read_in_both() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = file(dir.path());
        for (_, kind) in Kind::ALL {
            let mut engine = open(*kind, &file, 1, 4096).expect("open").engine;
            let read = Request { slot: 0, op: Op::Read, offset: (1 << 16) - 512, start: 0, len: 4096 };
            engine.push(read).expect("push");
            let mut done = Vec::new();
            engine.wait(1, &mut done).expect("wait");
            assert_eq!(done.first().map(|completion| completion.outcome), Some(Ok(512)));
        }
    }
}
