//! Engines without I/O, to measure plimsoll's own overhead: clock readings, histograms.

use super::one::Transfer;
use super::*;
use plimsoll_metal::buffer::Buffer;
use plimsoll_metal::uring::transfer_buffer;

/// Transfers that complete when submitted, with the timestamps of a ring.
pub(crate) struct Nothing {
    buffer: Buffer,
    depth: usize,
    clock: TickClock,
    transfers: Vec<Completion>,
    begun: usize,
    finished: bool,
}

impl Nothing {
    pub(super) fn new(depth: usize, block: usize, clock: TickClock) -> Result<Self, RingError> {
        let (buffer, transfers) = (transfer_buffer(block)?, Vec::with_capacity(depth));
        Ok(Nothing { buffer, depth, clock, transfers, begun: 0, finished: false })
    }

    #[inline]
    fn begin_anew(&mut self) {
        if self.finished {
            self.transfers.clear();
            (self.begun, self.finished) = (0, false);
        }
    }
}

impl Engine for Nothing {
    fn depth(&self) -> usize {
        self.depth
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn buffer(&mut self, _: usize) -> Option<&mut [u8]> {
        Some(self.buffer.bytes_mut())
    }

    #[inline]
    fn push(&mut self, request: Request) -> Result<(), RingError> {
        self.begin_anew();
        let outcome = Ok(request.len);
        let transfer = Completion { request, outcome, submitted_ns: 0, accepted_ns: 0, completed_ns: 0 };
        self.transfers.push(transfer);
        Ok(())
    }

    #[inline]
    fn submit(&mut self) -> Result<(), RingError> {
        if self.begun < self.transfers.len() {
            let (submitted_ns, accepted_ns) = (self.clock.now_ns(), self.clock.now_ns());
            for transfer in &mut self.transfers[self.begun..] {
                (transfer.submitted_ns, transfer.accepted_ns) = (submitted_ns, accepted_ns);
            }
            self.begun = self.transfers.len();
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self, _: WaitEnd) -> Result<(), RingError> {
        self.begin_anew();
        self.submit()?;
        let completed_ns = self.clock.now_ns();
        self.transfers.iter_mut().for_each(|transfer| transfer.completed_ns = completed_ns);
        self.finished = true;
        Ok(())
    }

    #[inline]
    fn done(&self) -> &[Completion] {
        if self.finished { &self.transfers } else { &[] }
    }
}

/// A synchronous transfer without its system call.
pub(crate) struct NoCall;

impl Transfer for NoCall {
    fn read(&mut self, _: usize, _: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        Ok(buffer.len())
    }

    fn write(&mut self, _: usize, _: u64, bytes: &[u8], _: RequestKind) -> Result<usize, Errno> {
        Ok(bytes.len())
    }

    fn file(&self, _: usize) -> Result<&TestFile, Errno> {
        Err(Errno::BADF)
    }
}
