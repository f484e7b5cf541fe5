//! Asynchronous engine by io_submit(2), like libaio.

use super::*;
use plimsoll_metal::aio::Aio;

/// Many transfers in flight; each batch is submitted by a call.
pub(crate) struct LinuxAio {
    aio: Aio<Arc<TestFile>>,
    done: Vec<Completion>,
}

impl LinuxAio {
    pub(super) fn new(
        files: &[Arc<TestFile>],
        depth: usize,
        block: usize,
        clock: TickClock,
    ) -> Result<Self, RingError> {
        let aio = Aio::new(files.to_vec(), depth, block)?.stamped_by(clock);
        Ok(LinuxAio { aio, done: Vec::with_capacity(depth) })
    }
}

impl Engine for LinuxAio {
    fn depth(&self) -> usize {
        self.aio.depth()
    }

    fn now_ns(&self) -> u64 {
        self.aio.now_ns()
    }

    fn buffer(&mut self, slot: usize) -> Option<&mut [u8]> {
        self.aio.buffer_mut(slot)
    }

    #[inline]
    fn push(&mut self, request: Request) -> Result<(), RingError> {
        self.aio.push(request)
    }

    fn submit(&mut self) -> Result<(), RingError> {
        self.aio.submit()
    }

    fn wait(&mut self, patience: WaitEnd) -> Result<(), RingError> {
        self.done.clear();
        self.aio.wait_within(patience, &mut self.done)
    }

    #[inline]
    fn done(&self) -> &[Completion] {
        &self.done
    }
}
