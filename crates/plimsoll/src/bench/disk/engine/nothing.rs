//! The engine that does nothing: what is left is what plimsoll itself costs, clock readings and histograms included.

use super::*;
use plimsoll_metal::uring::AlignedBuffer;

/// Transfers that are finished as soon as they are submitted, stamped like those of a ring.
pub(super) struct Nothing {
    buffer: AlignedBuffer,
    depth: usize,
    clock: Clock,
    queued: Vec<Request>,
    /// Of each batch: up to which request it goes, when it was handed over and when it was taken.
    batches: Vec<(usize, u64, u64)>,
}

impl Nothing {
    pub(super) fn new(depth: usize, block: usize, clock: Clock) -> Result<Self, RingError> {
        let buffer = AlignedBuffer::new(block).map_err(|errno| RingError::Memory { bytes: block, errno })?;
        Ok(Nothing { buffer, depth, clock, queued: Vec::with_capacity(depth), batches: Vec::new() })
    }
}

impl Engine for Nothing {
    fn kind(&self) -> Kind {
        Kind::Null
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn buffer(&mut self, _: usize) -> Option<&mut [u8]> {
        Some(&mut self.buffer[..])
    }

    fn push(&mut self, request: Request) -> Result<(), RingError> {
        self.queued.push(request);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), RingError> {
        if self.batches.last().map_or(0, |batch| batch.0) < self.queued.len() {
            self.batches.push((self.queued.len(), self.clock.now_ns(), self.clock.now_ns()));
        }
        Ok(())
    }

    fn wait(&mut self, _: Patience, done: &mut Vec<Completion>) -> Result<(), RingError> {
        self.submit()?;
        let completed_ns = self.clock.now_ns();
        let mut requests = self.queued.drain(..);
        let mut from = 0;
        for (to, submitted_ns, accepted_ns) in self.batches.drain(..) {
            done.extend(requests.by_ref().take(to - from).map(|request| Completion {
                outcome: Ok(request.len),
                request,
                submitted_ns,
                accepted_ns,
                completed_ns,
            }));
            from = to;
        }
        Ok(())
    }
}
