//! I/O engines: io_uring, Linux AIO, synchronous calls, a mapping, or none. One trait.

use std::sync::Arc;

use rustix::io::Errno;

use crate::backing::TestFile;
use crate::load::AnyEngine;
use plimsoll_metal::aio::Aio;
use plimsoll_metal::block::BlockTraversal;
use plimsoll_metal::mapped::Mapped;
use plimsoll_metal::ticks::TickClock;
use plimsoll_metal::uring::{Completion, Polling, Request, RequestKind, Ring, RingError, WaitEnd};
use plimsoll_model::job::disk::DiskEngine;

mod nothing;
mod one;
mod queue;

use nothing::{NoCall, Nothing};
use one::{Calls, Mapping, OneAtATime};
use queue::Queue;

/// An I/O engine: `depth` slots, each with a buffer of one block.
pub(crate) trait Engine {
    /// Returns the queue depth: the number of slots, each with a buffer and at most one transfer.
    fn depth(&self) -> usize;

    /// Returns the time in ns of the clock that timestamps completions; the origin is arbitrary.
    fn now_ns(&self) -> u64;

    /// Returns the buffer of `slot`; `None` if its transfer is in flight, or there is no such slot.
    fn buffer(&mut self, slot: usize) -> Option<&mut [u8]>;

    /// Queues a transfer. Fails if its slot is in use or its range exceeds the slot's buffer.
    fn push(&mut self, request: Request) -> Result<(), RingError>;

    /// Submits the queued transfers to the kernel. Fails if the kernel refuses the call.
    fn submit(&mut self) -> Result<(), RingError>;

    /// Submits queued transfers and, if any are in flight, waits until one or more complete, at
    /// most for `patience`. [`Engine::done`] returns the completed transfers, also after an error.
    fn wait(&mut self, patience: WaitEnd) -> Result<(), RingError>;

    /// Returns the transfers completed in the last [`Engine::wait`]; valid until the next push.
    fn done(&self) -> &[Completion];

    /// Unmaps file pages so that they can leave the page cache; only the mmap engine has any.
    fn release_pages(&mut self) {}
}

/// An engine, and facts about it.
pub(crate) struct Opened {
    pub(crate) engine: Box<dyn AnyEngine>,
    pub(crate) about: EngineInfo,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineInfo {
    pub(crate) kind: DiskEngine,
    /// Reason for another engine than requested.
    pub(crate) fell_back: Option<String>,
    /// Feature that the kernel did not grant, with a remedy.
    pub(crate) remark: Option<String>,
}

/// Opens engine `kind` on `files` (`Request::file` is an index) with `depth` buffers of `block`
/// bytes; if the kernel refuses it, a fallback, mostly psync. Fails without memory for the buffers,
/// or if a size is 0 or too large. `access` is the expected order of offsets, a hint for mmap;
/// `clock` timestamps completions.
pub(crate) fn open_on(
    kind: DiskEngine,
    files: &[Arc<TestFile>],
    depth: usize,
    block: usize,
    access: BlockTraversal,
    clock: TickClock,
) -> Result<Opened, RingError> {
    let whole = |engine: Box<dyn AnyEngine>| {
        Ok(Opened { engine, about: EngineInfo { kind, fell_back: None, remark: None } })
    };
    let calls = |fell_back| {
        let engine = Box::new(OneAtATime::new(Calls(files.to_vec()), block, clock)?);
        let about = EngineInfo { kind: DiskEngine::Psync, fell_back, remark: None };
        Ok::<_, RingError>(Opened { engine, about })
    };
    match kind {
        DiskEngine::Psync => calls(None),
        DiskEngine::Mmap => whole(Box::new(OneAtATime::new(Mapping::new(files, access)?, block, clock)?)),
        DiskEngine::Null => whole(Box::new(Nothing::new(depth, block, clock)?)),
        DiskEngine::NullCall => whole(Box::new(OneAtATime::new(NoCall, block, clock)?)),
        DiskEngine::Libaio => match Aio::new(files.to_vec(), depth, block) {
            Ok(aio) => whole(Box::new(Queue::of(aio.stamped_by(clock)))),
            Err(RingError::Enter(errno)) => {
                calls(Some(format!("io_setup(2) failed: {errno}; raise the sysctl fs.aio-max-nr")))
            }
            Err(error) => Err(error),
        },
        DiskEngine::IoUring(polling) => match Queue::new(files, depth, block, polling, clock) {
            Ok(queue) => {
                let about = EngineInfo { kind, fell_back: None, remark: queue.remark() };
                Ok(Opened { engine: Box::new(queue), about })
            }
            Err(RingError::Unavailable(why)) => calls(Some(why.to_string())),
            // A device without polling queues fails at the first transfer.
            Err(RingError::Enter(Errno::OPNOTSUPP | Errno::INVAL)) if polling.completion => {
                let less = DiskEngine::IoUring(Polling { completion: false, ..polling });
                let mut opened = open_on(less, files, depth, block, access, clock)?;
                let why = || "the device or its driver has no queues to poll (nvme.poll_queues)".to_owned();
                opened.about.fell_back.get_or_insert_with(why);
                Ok(opened)
            }
            Err(error) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backing::fixture::{open, test_file};

    fn request(op: RequestKind, offset: u64, len: usize) -> Request {
        Request { slot: 0, op, file: 0, offset, start: 0, len }
    }

    fn waited(engine: &mut dyn AnyEngine) -> Vec<Completion> {
        engine.wait(WaitEnd::Endless).expect("wait");
        engine.done().to_vec()
    }

    #[test]
    fn what_one_engine_writes_the_other_reads() {
        let (file, _dir) = test_file(1 << 16);
        for (writer, reader) in [
            (DiskEngine::PLAIN, DiskEngine::Psync),
            (DiskEngine::Psync, DiskEngine::PLAIN),
            (DiskEngine::Mmap, DiskEngine::Psync),
            (DiskEngine::Psync, DiskEngine::Mmap),
            (DiskEngine::IoUring(Polling { submission: true, completion: false }), DiskEngine::PLAIN),
            (DiskEngine::Libaio, DiskEngine::Psync),
            (DiskEngine::PLAIN, DiskEngine::Libaio),
        ] {
            let mut write = open(writer, &file, 4, 512).expect("open").engine;
            let write = write.as_mut();
            let mut done = Vec::new();
            for block in 0..8_u8 {
                write.buffer(0).expect("idle").fill(block ^ 0x55);
                write.push(request(RequestKind::Write, u64::from(block) * 512, 512)).expect("push");
                done.extend(waited(write));
            }
            let mut read = open(reader, &file, 4, 512).expect("open").engine;
            let read = read.as_mut();
            for block in 0..8_u8 {
                read.push(request(RequestKind::Read, u64::from(block) * 512, 512)).expect("push");
                done.extend(waited(read));
                assert!(read.buffer(0).expect("idle").iter().all(|byte| *byte == block ^ 0x55));
            }
            assert_eq!(done.len(), 16);
            assert!(done.iter().all(|completion| completion.outcome == Ok(512)));
            assert!(done.iter().all(|c| c.submitted_ns <= c.accepted_ns && c.accepted_ns <= c.completed_ns));
        }
    }

    #[test]
    fn synchronous_transfers_are_one_at_a_time_whatever_is_asked_for() {
        let (file, _dir) = test_file(1 << 16);
        let mut engine = open(DiskEngine::Psync, &file, 32, 512).expect("open").engine;
        let engine = engine.as_mut();
        assert_eq!(engine.depth(), 1);
        let read = request(RequestKind::Read, 0, 512);
        engine.push(read).expect("push");
        assert_eq!(engine.push(read), Err(RingError::Slot { slot: 0, depth: 1 }));
        engine.submit().expect("submit");
        assert_eq!(engine.push(read), Err(RingError::Slot { slot: 0, depth: 1 }));
        assert_eq!(waited(engine).len(), 1);
        assert_eq!(waited(engine), [], "it is said once");
        assert!(engine.push(Request { slot: 1, ..read }).is_err());
        assert!(engine.push(Request { len: 513, ..read }).is_err());
        assert!(engine.push(Request { start: usize::MAX, ..read }).is_err());
    }

    #[test]
    fn the_end_of_the_file_is_a_short_read_in_both() {
        let (file, _dir) = test_file(1 << 16);
        for (_, kind) in DiskEngine::ALL.iter().filter(|(word, _)| !word.contains("iopoll")) {
            let mut engine = open(*kind, &file, 1, 4096).expect("open").engine;
            let engine = engine.as_mut();
            engine.push(request(RequestKind::Read, (1 << 16) - 512, 4096)).expect("push");
            assert_eq!(waited(engine).first().map(|completion| completion.outcome), Some(Ok(512)));
        }
    }
}
