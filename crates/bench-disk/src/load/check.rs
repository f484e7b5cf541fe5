//! Verification after timing: the last reads as they arrived; the last writes, read back.

use super::{LoadError, Loop, Slot, Whole, remaining_request};
use crate::engine::Engine;
use crate::load::{SECTOR_BYTES, SectorError, WrongSector};
use plimsoll_metal::uring::{RequestKind, WaitEnd};

impl<E: Engine> Loop<E> {
    /// Verifies the data of the last transfer of each slot or, with a ledger of expected contents,
    /// of the whole extent. Fails at the first sector that has wrong data or cannot be read.
    pub(super) fn check_data(&mut self) -> Result<(), LoadError> {
        self.end()?;
        if self.manner.ledger.is_some() {
            return self.reread();
        }
        for slot in 0..self.slots.len() {
            let Slot { whole: last, finished: true, .. } = self.slots[slot] else { continue };
            // A discarded range of a device may read as anything (linux/fs.h, BLKDISCARD).
            if last.op == RequestKind::Trim && self.manner.files.iter().any(|file| file.is_device()) {
                continue;
            }
            if last.op != RequestKind::Read {
                self.read_back(slot, last)?;
            }
            let Some(buffer) = self.engine.buffer(slot).and_then(|buffer| buffer.get(..last.len)) else {
                continue;
            };
            let (found, how) = match last.op {
                // A punched hole of a file reads as zeros (fallocate(2)).
                RequestKind::Trim => {
                    let left = buffer.iter().position(|byte| *byte != 0);
                    let sector = |at: usize| (at - at % SECTOR_BYTES) as u64;
                    (left.map(|at| last.offset + sector(at)), SectorError::NotFreed)
                }
                _ => (self.noise.first_misplaced(buffer, last.offset), SectorError::Address),
            };
            if let Some(offset) = found {
                return Err(self.keep_suspect(slot, last, WrongSector { offset, how }));
            }
        }
        Ok(())
    }

    /// Reads the range of the transfer `last` into the buffer of `slot`, and waits for it.
    pub(super) fn read_back(&mut self, slot: usize, last: Whole) -> Result<(), LoadError> {
        let mut next = Some(Whole { op: RequestKind::Read, ..last }.request(slot));
        while let Some(request) = next {
            self.engine.push(request)?;
            next = loop {
                self.engine.wait(WaitEnd::Endless)?;
                if let Some(completion) = self.engine.done().first() {
                    break remaining_request(completion).map_err(LoadError::Fault)?;
                }
            };
        }
        Ok(())
    }
}
