//! Evidence about a sector with wrong data, before the device is blamed: transfers in flight are
//! finished, the sector is read again in the same and in another way (past or through the page
//! cache, with another descriptor and buffer), and the ledger shows the last write.

use std::fmt;
use std::sync::Arc;

use rustix::fs::Advice;

use super::{LoadError, Loop, Whole};
use crate::backing::TestFile;
use crate::engine::Engine;
use crate::load::data::SectorContent;
use crate::load::{SECTOR_BYTES, WrongSector};
use plimsoll_metal::uring::{RequestKind, WaitEnd};
use plimsoll_model::job::disk::CacheMode;

/// Block size that any device can read directly, in bytes.
const ALIGNED: usize = 4096;

#[derive(Debug)]
pub(super) struct SuspectSector {
    transfer: Whole,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RereadResult {
    #[error("what was written")]
    Right,
    #[error("the same as at first")]
    Same,
    #[error("{0}")]
    Else(SectorContent),
    #[error("not possible ({0})")]
    Failed(String),
}

/// All evidence about a sector with wrong data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SectorEvidence {
    pub(crate) wrong: WrongSector,
    pub(super) first: SectorContent,
    pub(super) again: RereadResult,
    /// Read in another way, `mode`.
    pub(super) other: RereadResult,
    pub(super) mode: CacheMode,
    /// Number of plimsoll's last write there, if known, and whether it is complete.
    pub(super) last: Option<(u64, bool)>,
}

impl fmt::Display for SectorEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SectorEvidence { wrong, first, again, other, mode, last } = self;
        let mode = if *mode == CacheMode::Direct { "past the page cache" } else { "through the page cache" };
        write!(f, "{wrong}; read: {first}; read again: {again}; read {mode}: {other}; ")?;
        match last {
            Some((0, true)) => f.write_str("plimsoll wrote there when it filled the file and not since; ")?,
            Some((number, true)) => {
                write!(f, "plimsoll's last write there is number {number} and complete; ")?
            }
            Some((number, false)) => write!(f, "plimsoll's write number {number} there did not end; ")?,
            None => {}
        }
        f.write_str("no write of plimsoll's was under way there: ")?;
        let is_wrong = |read: &RereadResult| matches!(read, RereadResult::Same | RereadResult::Else(_));
        f.write_str(match (again, other) {
            (RereadResult::Right, RereadResult::Right | RereadResult::Failed(_)) | (RereadResult::Failed(_), RereadResult::Right) => {
                "what is stored is right, so the first read went wrong (memory, driver or device), or another program \
                 changed the data for a moment; see dmesg"
            }
            (again, other) if is_wrong(again) != is_wrong(other) => {
                "the page cache and the device disagree, which the kernel or another program that writes to the device \
                 can cause; see dmesg"
            }
            _ => "the device, its driver or another program lost, changed or misplaced the data; see dmesg",
        })
    }
}

impl<E: Engine> Loop<E> {
    /// Copies the first wrong sector from the buffer of `slot`, which has the data of `transfer`,
    /// to be examined later by [`Loop::examined`]. Returns `wrong` as an error.
    #[cold]
    pub(super) fn keep_suspect(&mut self, slot: usize, transfer: Whole, wrong: WrongSector) -> LoadError {
        let at = usize::try_from(wrong.offset.saturating_sub(transfer.offset)).unwrap_or(usize::MAX);
        let buffer = self.engine.buffer(slot).and_then(|buffer| buffer.get(at..transfer.len));
        let bytes = buffer.map(|rest| rest.get(..SECTOR_BYTES).unwrap_or(rest).to_vec()).unwrap_or_default();
        self.suspect.get_or_insert(SuspectSector { transfer, bytes });
        LoadError::Wrong(wrong)
    }

    /// Returns `result`; for wrong data, ends the load, reads the sector again in other ways and
    /// adds their results to the error.
    pub(super) fn examined<T>(&mut self, result: Result<T, LoadError>) -> Result<T, LoadError> {
        match result {
            Err(LoadError::Wrong(wrong)) => Err(self.examine(wrong)),
            result => result,
        }
    }

    #[cold]
    fn examine(&mut self, wrong: WrongSector) -> LoadError {
        self.up = false;
        while self.in_flight > 0 {
            if let Err(LoadError::Engine(_)) = self.reap(WaitEnd::Endless, super::TallyMode::No) {
                break;
            }
        }
        let Some(SuspectSector { transfer, bytes }) = self.suspect.take() else {
            return LoadError::Wrong(wrong);
        };
        let again =
            self.looked(&bytes, transfer.op, wrong.offset, |load| load.read_again(transfer, wrong.offset));
        let file = self.manner.files.get(transfer.file).cloned();
        let is_direct = file.as_ref().is_none_or(|file| file.cache == CacheMode::Direct);
        let mode = if is_direct { CacheMode::Buffered } else { CacheMode::Direct };
        let other = self.looked(&bytes, transfer.op, wrong.offset, |_| {
            read_in_other_mode(&file.ok_or("no other way is known")?, mode, wrong.offset)
        });
        let last = self.manner.ledger.as_ref().map(|ledger| ledger.last_write(wrong.offset));
        let first = self.noise.identify(&bytes, wrong.offset);
        LoadError::Examined(Box::new(SectorEvidence { wrong, first, again, other, mode, last }))
    }

    fn looked(
        &mut self,
        first: &[u8],
        op: RequestKind,
        offset: u64,
        read: impl FnOnce(&mut Self) -> Result<Vec<u8>, String>,
    ) -> RereadResult {
        let sector = match read(self) {
            Ok(sector) => sector,
            Err(why) => return RereadResult::Failed(why),
        };
        let right = match (&self.manner.ledger, op) {
            (Some(ledger), _) => ledger.check(&self.noise, &sector, offset, ledger.time()).is_ok(),
            (None, RequestKind::Trim) => sector.iter().all(|byte| *byte == 0),
            (None, _) => self.noise.first_misplaced(&sector, offset).is_none(),
        };
        match right {
            true => RereadResult::Right,
            false if !first.is_empty() && sector.starts_with(first) => RereadResult::Same,
            false => RereadResult::Else(self.noise.identify(&sector, offset)),
        }
    }

    /// Repeats `transfer` as a read with the same engine; returns its sector at byte `offset`.
    fn read_again(&mut self, transfer: Whole, offset: u64) -> Result<Vec<u8>, String> {
        let slot = *self.idle.last().ok_or("no slot is idle")?;
        self.read_back(slot, transfer).map_err(|error| error.to_string())?;
        let at = usize::try_from(offset.saturating_sub(transfer.offset)).map_err(|e| e.to_string())?;
        let bytes = self.engine.buffer(slot).and_then(|buffer| buffer.get(at..transfer.len));
        let rest = bytes.ok_or("no buffer")?;
        Ok(rest.get(..SECTOR_BYTES).unwrap_or(rest).to_vec())
    }
}

/// Returns the sector at byte `offset`, read on a new descriptor past or through the page cache.
fn read_in_other_mode(file: &Arc<TestFile>, mode: CacheMode, offset: u64) -> Result<Vec<u8>, String> {
    let other = match (file.reopened(mode), mode) {
        // If the page cache cannot be bypassed, it is emptied.
        (Err(_), CacheMode::Direct) => file.reopened(CacheMode::Buffered),
        (other, _) => other,
    };
    let other = other.map_err(|e| e.to_string())?;
    if other.cache != CacheMode::Direct {
        // Only advice: dirty or locked pages stay.
        let _ = rustix::fs::fdatasync(&other);
        let _ = rustix::fs::fadvise(&other, 0, None, Advice::DontNeed);
    }
    let unit = other.direct_alignment().map_or(ALIGNED, |bytes| ALIGNED.max(bytes as usize));
    let from = offset - offset % unit as u64;
    let mut space = vec![0; 2 * unit];
    let aligned = space.as_ptr().align_offset(unit);
    let block = space.get_mut(aligned..).and_then(|rest| rest.get_mut(..unit)).ok_or("no aligned buffer")?;
    let read = rustix::io::pread(&other, &mut *block, from).map_err(|errno| errno.to_string())?;
    let at = usize::try_from(offset - from).map_err(|e| e.to_string())?;
    let sector =
        block.get(at..read).filter(|rest| !rest.is_empty()).ok_or("it is behind the end of the file")?;
    Ok(sector.get(..SECTOR_BYTES).unwrap_or(sector).to_vec())
}
