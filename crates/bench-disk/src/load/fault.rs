//! Failures of transfers, and which of them can be continued.

use std::fmt;

use rustix::io::Errno;

use super::evidence::SectorEvidence;
use crate::backing::hint;
use crate::display::human;
use crate::load::WrongSector;
use plimsoll_metal::uring::{Completion, Request, RequestKind, RingError};
use plimsoll_model::sample::CannotMeasure;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransferFault {
    pub(crate) request: Request,
    pub(crate) what: FaultCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultCause {
    Errno(Errno),
    /// A short transfer that cannot be continued; the bytes moved.
    Short(usize),
    /// More bytes reported than requested, so that no count of the kernel is reliable.
    Excess(usize),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("{0}")]
    Fault(TransferFault),
    /// A sector has wrong data; not examined yet.
    #[error("{0}")]
    Wrong(WrongSector),
    /// A sector has wrong data; examined.
    #[error("{0}")]
    Examined(Box<SectorEvidence>),
    #[error("the I/O engine failed: {0}")]
    Engine(#[from] RingError),
    /// The test file could not be renewed or synced.
    #[error("{0}")]
    File(#[from] CannotMeasure),
}

impl fmt::Display for TransferFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { op, offset, start, len, .. } = self.request;
        // A short transfer is reported as a whole; other failures concern the requested rest.
        let (offset, len) = match self.what {
            FaultCause::Errno(_) | FaultCause::Excess(_) => (offset, len),
            FaultCause::Short(_) => (offset.saturating_sub(start as u64), start + len),
        };
        let op = match op {
            RequestKind::Read => "read",
            RequestKind::Write | RequestKind::WriteThrough | RequestKind::WriteSync => "write",
            RequestKind::DataSync => "fdatasync",
            RequestKind::Sync => "fsync",
            RequestKind::Trim => "trim",
        };
        write!(f, "{op} of {} at offset {offset} ", human(len as u64))?;
        match self.what {
            FaultCause::Errno(errno) => write!(f, "failed: {errno}{}", hint(errno)),
            FaultCause::Excess(moved) => {
                let moved = human(moved as u64);
                write!(f, "reports {moved}, more than that: the kernel, or a layer between, counts wrongly")
            }
            FaultCause::Short(moved) => {
                let moved = human(moved as u64);
                write!(f, "moved only {moved} of it; the file was cut, or the device is failing, see dmesg")
            }
        }
    }
}

/// Returns the request for what is left of a transfer: `None` if it is done, all of it after an
/// interruption. Fails if the transfer failed or cannot be continued.
#[inline]
pub(crate) fn remaining_request(completion: &Completion) -> Result<Option<Request>, TransferFault> {
    let request = completion.request;
    let fault = |what| Err(TransferFault { request, what });
    match completion.outcome {
        Ok(moved) if moved > request.len => fault(FaultCause::Excess(moved)),
        Ok(moved) if moved == request.len => Ok(None),
        // The end of the file, or a device that accepts no more.
        Ok(0) => fault(FaultCause::Short(request.start)),
        Ok(moved) => Ok(Some(Request {
            offset: request.offset + moved as u64,
            start: request.start + moved,
            len: request.len - moved,
            ..request
        })),
        Err(Errno::INTR | Errno::AGAIN) if !request.op.is_sync() => Ok(Some(request)),
        // Direct I/O cannot continue at an unaligned offset.
        Err(Errno::INVAL) if request.start > 0 => fault(FaultCause::Short(request.start)),
        Err(errno) => fault(FaultCause::Errno(errno)),
    }
}
