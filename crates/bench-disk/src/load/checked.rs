//! Verification: after timing, of the last reads as they arrived and of the last writes, read back;
//! with `--verify`, of each read, by sealed writes and a ledger of possible generations.

use super::{LoadError, Loop, Slot, TallyMode, Whole, left_ns, remaining_request};
use crate::engine::Engine;
use crate::load::{SECTOR_BYTES, SectorError, WrongSector};
use plimsoll_metal::uring::{RequestKind, WaitEnd};

/// Longest final check of the whole file, in ns.
const REREAD_NS: u64 = 60_000_000_000;

/// Shortest limit for it, in ns, even after the budget.
const LEAST_NS: u64 = 1_000_000_000;

impl<E: Engine> Loop<E> {
    /// Queues transfer `whole` on `slot`. If it is a write, first puts sector addresses into its
    /// data or, with a ledger of expected contents, seals (address, version, checksum).
    #[inline(always)]
    pub(super) fn push(&mut self, slot: usize, whole: Whole) -> Result<(), LoadError> {
        let Whole { op, offset, len, .. } = whole;
        let buffer = if op.is_write() { self.engine.buffer(slot) } else { None };
        let buffer = buffer.and_then(|buffer| buffer.get_mut(..len));
        match (&mut self.manner.ledger, buffer) {
            (Some(ledger), Some(buffer)) => {
                let generation = ledger.begin_write(offset, len);
                self.noise.seal(buffer, offset, generation);
            }
            (Some(ledger), None) => self.slots[slot].entered = ledger.time(),
            (None, Some(buffer)) => self.noise.address(buffer, offset),
            (None, None) => {}
        }
        let of_slot = &mut self.slots[slot];
        (of_slot.whole, of_slot.finished) = (whole, false);
        self.engine.push(whole.request(slot))?;
        self.in_flight += 1;
        Ok(())
    }

    /// With a ledger of expected contents, records the finished write of `slot` or checks its read.
    pub(super) fn check(&mut self, slot: usize) -> Result<(), LoadError> {
        let Whole { op, offset, len, .. } = self.slots[slot].whole;
        let Some(ledger) = &mut self.manner.ledger else { return Ok(()) };
        if op.is_write() {
            ledger.end_write(offset, len);
        } else if op == RequestKind::Read
            && let Some(buffer) = self.engine.buffer(slot).and_then(|buffer| buffer.get(..len))
            && let Err(wrong) = ledger.check(&self.noise, buffer, offset, self.slots[slot].entered)
        {
            return Err(self.keep_suspect(slot, self.slots[slot].whole, wrong));
        }
        Ok(())
    }

    /// Reads and verifies every block once, for at most [`REREAD_NS`] or what the budget leaves.
    pub(super) fn reread(&mut self) -> Result<(), LoadError> {
        let begun = self.engine.now_ns();
        let extent = self.source.walk.extent;
        let end = extent.start + extent.bytes;
        let mut next = extent.start;
        let most_ns = left_ns(self.manner.until).clamp(LEAST_NS, REREAD_NS);
        while next < end && self.engine.now_ns().saturating_sub(begun) < most_ns {
            while next < end
                && let Some(slot) = self.idle.pop()
            {
                // The block size was checked to be addressable.
                let len = extent.largest.min(end - next);
                self.push(slot, Whole { op: RequestKind::Read, file: 0, offset: next, len: len as usize })?;
                next += len;
            }
            self.engine.submit()?;
            self.reap(WaitEnd::Endless, TallyMode::No)?;
        }
        self.end()
    }

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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    use super::super::{CAP_NS, DiskLoad, LoadOptions, Portion, TransferTally};
    use crate::backing::fixture::{open, opened_again, test_file};
    use crate::load::{BlockWalk, Ledger, Seal, TestData, TransferSource, WalkExtent};
    use crate::storage::{CHUNK, refill};
    use plimsoll_model::job::disk::{BlockOrder, BlockSizes, DiskEngine, DiskOperation, WriteThrough};

    const BLOCK: usize = 4096;

    struct Rig {
        load: Box<dyn DiskLoad>,
        plain: std::fs::File,
        _dir: tempfile::TempDir,
    }

    fn rig(kind: DiskEngine, operation: DiskOperation) -> Rig {
        let (file, dir) = test_file(CHUNK as u64);
        let mut noise = TestData::new(1, "fill").with(Seal::Sealed);
        refill(&file, 0, CHUNK as u64, None, &mut noise).expect("fill");
        let plain = opened_again(&file);
        let engine = open(kind, &file, 4, BLOCK).expect("open").engine;
        let extent = WalkExtent::of_blocks((CHUNK / BLOCK) as u64, BLOCK as u64);
        let blocks = BlockSizes::One(BLOCK as u64);
        let walk = BlockWalk::new(BlockOrder::Random, extent, 1);
        let source = TransferSource::new(operation, WriteThrough::No, blocks, walk);
        let ledger = Some(Ledger::new(0, CHUNK as u64, BLOCK as u64).expect("small"));
        let manner = LoadOptions { ledger, files: vec![Arc::clone(&file)], ..LoadOptions::default() };
        let load = engine.into_load(source, TestData::new(1, "case"), manner, TransferTally::default());
        Rig { load, plain, _dir: dir }
    }

    fn amount(rig: &mut Rig, transfers: u64) -> Result<(), String> {
        let done = rig.load.count(Portion::Transfers { transfers, cap_ns: CAP_NS }, TransferTally::default());
        done.map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_read_and_written_is_right_with_both_engines() {
        for kind in [DiskEngine::PLAIN, DiskEngine::Psync] {
            for operation in
                [DiskOperation::Read, DiskOperation::Write, DiskOperation::Mixed { read_share: 50 }]
            {
                let mut rig = rig(kind, operation);
                amount(&mut rig, 600).expect("right");
                rig.load.verify().expect("right");
            }
        }
    }

    #[test]
    fn one_flipped_bit_anywhere_stops_a_read_with_its_offset() {
        let mut rig = rig(DiskEngine::Psync, DiskOperation::Read);
        let mut byte = [0];
        rig.plain.read_exact_at(&mut byte, 300_000).expect("read");
        rig.plain.write_all_at(&[byte[0] ^ 4], 300_000).expect("write");
        let error = amount(&mut rig, 256).expect_err("one is wrong");
        let sector = 300_000 / 512 * 512;
        assert!(error.starts_with(&format!("verify failed at offset {sector}: ")), "{error}");
        assert!(error.contains("checksum"), "{error}");
        // Both descriptors see it, and plimsoll knows its own writes.
        for says in [
            "; read: the right sector with corrupted bytes; read again: the same as at first; ",
            "past the page cache: the same as at first; plimsoll wrote there when it filled the file and not since; ",
            "the device, its driver or another program lost, changed or misplaced the data",
        ] {
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn an_old_version_that_comes_back_is_found_although_its_checksum_fits() {
        let mut rig = rig(DiskEngine::PLAIN, DiskOperation::Write);
        let mut old = vec![0; BLOCK];
        rig.plain.read_exact_at(&mut old, 40 * BLOCK as u64).expect("read");
        amount(&mut rig, 256).expect("every block once");
        rig.load.verify().expect("right");
        rig.plain.write_all_at(&old, 40 * BLOCK as u64).expect("write");
        let error = rig.load.verify().expect_err("old").to_string();
        assert!(error.starts_with("verify failed at offset 163840: an old version"), "{error}");
        assert!(error.contains("; read: write number 0; read again: the same as at first; "), "{error}");
        assert!(error.contains("plimsoll's last write there is number "), "{error}");
    }
}
