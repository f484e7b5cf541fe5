//! The engine that does nothing: what is left is what plimsoll itself costs, clock readings and histograms included.

use super::*;
use plimsoll_metal::uring::AlignedBuffer;

/// Transfers that are finished as soon as they are submitted, stamped like those of a ring.
pub(super) struct Nothing {
    buffer: AlignedBuffer,
    depth: usize,
    queued: Vec<Request>,
    done: Vec<Completion>,
}

impl Nothing {
    pub(super) fn new(depth: usize, block: usize) -> Result<Self, RingError> {
        let buffer = AlignedBuffer::new(block).map_err(|errno| RingError::Memory { bytes: block, errno })?;
        Ok(Nothing { buffer, depth, queued: Vec::with_capacity(depth), done: Vec::with_capacity(depth) })
    }
}

impl Engine for Nothing {
    fn kind(&self) -> Kind {
        Kind::Null
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn buffer(&mut self, _: usize) -> Option<&mut [u8]> {
        Some(&mut self.buffer[..])
    }

    fn push(&mut self, request: Request) -> Result<(), RingError> {
        self.queued.push(request);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), RingError> {
        if self.queued.is_empty() {
            return Ok(());
        }
        let submitted_ns = monotonic_ns();
        let accepted_ns = monotonic_ns();
        self.done.extend(self.queued.drain(..).map(|request| Completion {
            outcome: Ok(request.len),
            request,
            submitted_ns,
            accepted_ns,
            completed_ns: accepted_ns,
        }));
        Ok(())
    }

    fn wait(&mut self, _: Patience, done: &mut Vec<Completion>) -> Result<(), RingError> {
        self.submit()?;
        let completed_ns = monotonic_ns();
        done.extend(self.done.drain(..).map(|completion| Completion { completed_ns, ..completion }));
        Ok(())
    }
}
