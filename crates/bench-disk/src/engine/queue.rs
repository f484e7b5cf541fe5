//! Asynchronous engines by io_uring, and by io_submit(2), like libaio.

use super::*;
use plimsoll_metal::io::slots::SlotEngine;

/// Many transfers in flight; each batch is submitted by a call.
pub(crate) struct Queue<R> {
    ring: R,
    done: Vec<Completion>,
}

impl<R: SlotEngine<Arc<TestFile>>> Queue<R> {
    pub(super) fn of(ring: R) -> Self {
        let done = Vec::with_capacity(ring.depth());
        Queue { ring, done }
    }
}

impl Queue<Ring<Arc<TestFile>>> {
    /// Opens a ring with `depth` buffers of `block` bytes. Fails if the device refuses `polling`.
    pub(super) fn new(
        files: &[Arc<TestFile>],
        depth: usize,
        block: usize,
        polling: Polling,
        clock: TickClock,
    ) -> Result<Self, RingError> {
        let ring = Ring::on(files.to_vec(), depth, block, polling)?.stamped_by(clock);
        let mut queue = Queue::of(ring);
        if polling.completion {
            queue.show_polling(files)?;
        }
        Ok(queue)
    }

    /// Describes a refused kernel feature (registered buffers) and its remedy; `None` if none was.
    pub(super) fn remark(&self) -> Option<String> {
        let errno = self.ring.granted().buffers.err()?;
        Some(format!(
            "the kernel did not register the buffers ({errno}), so each transfer costs more CPU time; raise the limit of locked memory (ulimit -l)"
        ))
    }

    /// Fails if the device of `files` cannot poll for completions, by reading a block. An empty
    /// file needs no device access, so a block is written first and cut off again.
    fn show_polling(&mut self, files: &[Arc<TestFile>]) -> Result<(), RingError> {
        let mut outcome = self.first_block(RequestKind::Read)?;
        let writable = files.first().filter(|file| file.is_writable());
        if let (Ok(0), Some(file)) = (outcome, writable) {
            outcome = match self.first_block(RequestKind::Write)? {
                Ok(_) => self.first_block(RequestKind::Read)?,
                refused @ Err(Errno::OPNOTSUPP | Errno::INVAL) => refused,
                Err(_) => Ok(0),
            };
            rustix::fs::ftruncate(file, 0).map_err(RingError::Enter)?;
        }
        outcome.map(|_| ()).map_err(RingError::Enter)
    }

    fn first_block(&mut self, op: RequestKind) -> Result<Result<usize, Errno>, RingError> {
        let len = self.ring.block();
        self.done.clear();
        self.ring.push(Request { slot: 0, op, file: 0, offset: 0, start: 0, len })?;
        self.ring.wait(1, &mut self.done)?;
        let outcome = self.done.first().map_or(Ok(0), |completion| completion.outcome);
        self.done.clear();
        Ok(outcome)
    }
}

impl<R: SlotEngine<Arc<TestFile>>> Engine for Queue<R> {
    fn depth(&self) -> usize {
        self.ring.depth()
    }

    fn now_ns(&self) -> u64 {
        self.ring.now_ns()
    }

    fn buffer(&mut self, slot: usize) -> Option<&mut [u8]> {
        self.ring.buffer_mut(slot)
    }

    #[inline]
    fn push(&mut self, request: Request) -> Result<(), RingError> {
        self.ring.push(request)
    }

    fn submit(&mut self) -> Result<(), RingError> {
        self.ring.submit()
    }

    fn wait(&mut self, patience: WaitEnd) -> Result<(), RingError> {
        self.done.clear();
        self.ring.wait_within(patience, &mut self.done)
    }

    #[inline]
    fn done(&self) -> &[Completion] {
        &self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backing::check_dir;
    use crate::backing::fixture::open;
    use plimsoll_model::job::disk::CacheMode;

    /// Without polling queues, as on most machines, it must fall back before any measurement.
    #[test]
    fn on_an_empty_file_polling_works_or_is_given_up_at_once() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let facts = check_dir(dir.path()).expect("usable");
        let Ok(file) = TestFile::create(&facts, CacheMode::Direct) else { return };
        let file = Arc::new(file);
        let polling = Polling { completion: true, ..Polling::default() };
        let mut opened = open(DiskEngine::IoUring(polling), &file, 1, 4096).expect("open");
        let fell_back = opened.about.fell_back.is_some();
        assert_eq!(opened.about.kind != DiskEngine::IoUring(polling), fell_back);
        assert_eq!(rustix::fs::fstat(&file).expect("stat").st_size, 0, "it is still to be appended to");
        for op in [RequestKind::Write, RequestKind::Read] {
            let request = Request { slot: 0, op, file: 0, offset: 0, start: 0, len: 4096 };
            let engine = opened.engine.as_mut();
            engine.push(request).expect("push");
            engine.wait(WaitEnd::Endless).expect("wait");
            while engine.done().is_empty() {
                engine.wait(WaitEnd::Endless).expect("wait");
            }
            assert_eq!(engine.done().first().map(|done| done.outcome), Some(Ok(4096)), "{op:?}");
        }
    }
}
