//! The engine that keeps many transfers in flight.

use super::*;

/// Many transfers in flight, through a ring.
pub struct Queue {
    ring: Ring<Arc<TestFile>>,
    done: Vec<Completion>,
}

impl Queue {
    /// Opens it; one that polls for completions has shown that it can.
    pub(super) fn new(
        files: &[Arc<TestFile>],
        depth: usize,
        block: usize,
        polling: Polling,
        clock: Clock,
    ) -> Result<Self, RingError> {
        let mut ring = Ring::on(files.to_vec(), depth, block, polling)?.stamped_by(clock);
        let mut done = Vec::with_capacity(depth);
        if polling.completion {
            ring.push(Request { slot: 0, op: Op::Read, file: 0, offset: 0, start: 0, len: block })?;
            ring.wait(1, &mut done)?;
            if let Some(Err(errno)) = done.first().map(|completion| completion.outcome) {
                return Err(RingError::Enter { errno });
            }
            done.clear();
        }
        Ok(Queue { ring, done })
    }
}

impl Engine for Queue {
    fn kind(&self) -> Kind {
        Kind::IoUring(self.ring.polling())
    }

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
        self.ring.submit().map(|_| ())
    }

    fn wait(&mut self, patience: Patience) -> Result<(), RingError> {
        self.done.clear();
        self.ring.wait_within(patience, &mut self.done).map(|_| ())
    }

    #[inline]
    fn done(&self) -> &[Completion] {
        &self.done
    }

    fn remark(&self) -> Option<String> {
        let errno = self.ring.granted().buffers.err()?;
        Some(format!(
            "the kernel did not register the buffers ({errno}), so each transfer pins its own and costs more CPU time; \
             raise ulimit -l"
        ))
    }
}
