//! Checking the data after timing: what was read last, as it arrived; what was written last, read back.

use plimsoll_metal::uring::{Op, Patience};

use super::{Load, LoadError, Loop, Slot, Whole, rest};
use crate::bench::disk::engine::Engine;

impl<E: Engine> Loop<E> {
    /// The offset of a sector among those last transferred that is not what belongs there.
    ///
    /// # Errors
    /// Reading back failed.
    pub(super) fn find_stranger(&mut self) -> Result<Option<u64>, LoadError> {
        self.stop()?;
        if self.manner.ledger.is_some() {
            return self.reread().map(|()| None);
        }
        for slot in 0..self.slots.len() {
            let Slot { whole: last, finished: true, .. } = self.slots[slot] else { continue };
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
        let mut next = Some(Whole { op: Op::Read, ..last }.request(slot));
        while let Some(request) = next {
            self.engine.push(request)?;
            next = loop {
                self.engine.wait(Patience::Endless)?;
                if let Some(completion) = self.engine.done().first() {
                    break rest(completion).map_err(LoadError::Fault)?;
                }
            };
        }
        Ok(())
    }
}
