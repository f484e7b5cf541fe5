//! The engines that do nothing: what is left is what plimsoll itself costs, clock readings and histograms included.

use super::one::{Transfer, hand_over};
use super::*;
use plimsoll_metal::buffer::Buffer;
use plimsoll_metal::uring::transfer_buffer;

/// Transfers that are finished as soon as they are submitted, stamped like those of a ring.
pub(super) struct Nothing {
    buffer: Buffer,
    depth: usize,
    clock: Clock,
    /// What was asked for, as it will be handed back.
    queued: Vec<Completion>,
    /// How many of these were handed over.
    begun: usize,
}

impl Nothing {
    pub(super) fn new(depth: usize, block: usize, clock: Clock) -> Result<Self, RingError> {
        let buffer = transfer_buffer(block)?;
        Ok(Nothing { buffer, depth, clock, queued: Vec::with_capacity(depth), begun: 0 })
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
        Some(self.buffer.bytes_mut())
    }

    fn push(&mut self, request: Request) -> Result<(), RingError> {
        let outcome = Ok(request.len);
        self.queued.push(Completion { request, outcome, submitted_ns: 0, accepted_ns: 0, completed_ns: 0 });
        Ok(())
    }

    fn submit(&mut self) -> Result<(), RingError> {
        if self.begun < self.queued.len() {
            let (submitted_ns, accepted_ns) = (self.clock.now_ns(), self.clock.now_ns());
            for transfer in &mut self.queued[self.begun..] {
                (transfer.submitted_ns, transfer.accepted_ns) = (submitted_ns, accepted_ns);
            }
            self.begun = self.queued.len();
        }
        Ok(())
    }

    fn wait(&mut self, _: Patience, done: &mut Vec<Completion>) -> Result<(), RingError> {
        self.submit()?;
        let completed_ns = self.clock.now_ns();
        self.queued.iter_mut().for_each(|transfer| transfer.completed_ns = completed_ns);
        hand_over(&mut self.queued, done);
        self.begun = 0;
        Ok(())
    }
}

/// A synchronous transfer without its system call.
pub(super) struct NoCall;

impl Transfer for NoCall {
    const KIND: Kind = Kind::NullCall;

    fn read(&mut self, _: usize, _: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        Ok(buffer.len())
    }

    fn write(&mut self, _: usize, _: u64, bytes: &[u8], _: Op) -> Result<usize, Errno> {
        Ok(bytes.len())
    }

    fn file(&self, _: usize) -> Result<&TestFile, Errno> {
        Err(Errno::BADF)
    }
}
