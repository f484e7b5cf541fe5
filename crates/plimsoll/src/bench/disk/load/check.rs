//! Checking the data after timing: what was read last, as it arrived; what was written last, read back.

use plimsoll_metal::uring::{Op, Patience, Request};

use super::{Load, LoadError, Whole, rest};

impl Load {
    /// The offset of a sector among those last transferred that is not what belongs there.
    ///
    /// # Errors
    /// Reading back failed.
    pub fn stranger(&mut self) -> Result<Option<u64>, LoadError> {
        self.stop()?;
        if self.ledger.is_some() {
            return self.reread().map(|()| None);
        }
        for slot in 0..self.slots.len() {
            let Some(last) = self.slots[slot].last else { continue };
            if last.op != Op::Read {
                self.read_back(slot, last)?;
            }
            let Some(buffer) = self.engine.buffer(slot).and_then(|buffer| buffer.get(..last.len)) else {
                continue;
            };
            let found = match last.op {
                // What is freed reads as zeros (fallocate(2)).
                Op::Trim => buffer.iter().any(|byte| *byte != 0).then_some(last.offset),
                _ => self.noise.stranger(buffer, last.offset),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn read_back(&mut self, slot: usize, last: Whole) -> Result<(), LoadError> {
        let Whole { file, offset, len, .. } = last;
        self.engine.push(Request { slot, op: Op::Read, file, offset, start: 0, len })?;
        let mut done = Vec::new();
        loop {
            self.engine.wait(Patience::Endless, &mut done)?;
            for completion in done.drain(..) {
                match rest(&completion).map_err(LoadError::Fault)? {
                    Some(more) => self.engine.push(more)?,
                    None => return Ok(()),
                }
            }
        }
    }
}
