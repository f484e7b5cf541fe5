//! What can go wrong with a transfer, and whether it can be gone on with.

use std::fmt;

use plimsoll_metal::uring::{Completion, Op, Request, RingError};
use rustix::io::Errno;

use super::evidence::Evidence;
use crate::backing::regular_file::{TargetError, hint};
use crate::display::human;
use crate::load::data::Wrong;

/// A transfer that did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What was asked.
    pub request: Request,
    /// What went wrong.
    pub what: What,
}

/// What went wrong with a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It failed.
    Errno(Errno),
    /// It ended early, where no retry can continue.
    Short {
        /// Bytes it moved.
        moved: usize,
    },
    /// The kernel reports more bytes than the request has, so none of its counts can be believed.
    Excess {
        /// Bytes that it reports.
        moved: usize,
    },
}

/// Why the load ended.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A transfer failed.
    #[error("{0}")]
    Fault(Fault),
    /// A sector that was read is not what was written; nothing more is known yet.
    #[error("{0}")]
    Wrong(Wrong),
    /// The same, looked at again.
    #[error("{0}")]
    Examined(Box<Evidence>),
    /// The engine failed.
    #[error("the I/O engine failed: {0}")]
    Engine(#[from] RingError),
    /// The test file could not be begun anew.
    #[error("{0}")]
    Target(#[from] TargetError),
    /// It could not be filled anew.
    #[error("the test file cannot be filled again: {0}")]
    Fill(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { op, offset, start, len, .. } = self.request;
        // What moved is a part of the whole transfer; what failed is the rest that was asked for.
        let (offset, len) = match self.what {
            What::Errno(_) | What::Excess { .. } => (offset, len),
            What::Short { .. } => (offset.saturating_sub(start as u64), start + len),
        };
        let op = match op {
            Op::Read => "read",
            Op::Write | Op::WriteThrough | Op::WriteSync => "write",
            Op::DataSync => "fdatasync",
            Op::Sync => "fsync",
            Op::Trim => "trim",
        };
        write!(f, "{op} of {} at offset {offset} ", human(len as u64))?;
        match self.what {
            What::Errno(errno) => write!(f, "failed: {errno}{}", hint(errno)),
            What::Excess { moved } => {
                let moved = human(moved as u64);
                write!(f, "reports {moved}, more than that: the kernel, or a layer between, counts wrongly")
            }
            What::Short { moved } => {
                let moved = human(moved as u64);
                write!(f, "moved only {moved} of it; the file was cut, or the device is failing, see dmesg")
            }
        }
    }
}

/// What is left to be done of a transfer after this completion: nothing, itself again after an interruption, or
/// its rest after a short one.
///
/// # Errors
/// It failed, or can go no further.
#[inline]
pub fn rest(completion: &Completion) -> Result<Option<Request>, Fault> {
    let request = completion.request;
    let fault = |what| Err(Fault { request, what });
    match completion.outcome {
        Ok(moved) if moved > request.len => fault(What::Excess { moved }),
        Ok(moved) if moved == request.len => Ok(None),
        // The end of the file, or a device that takes no more.
        Ok(0) => fault(What::Short { moved: request.start }),
        Ok(moved) => Ok(Some(Request {
            offset: request.offset + moved as u64,
            start: request.start + moved,
            len: request.len - moved,
            ..request
        })),
        Err(Errno::INTR | Errno::AGAIN) if !request.op.is_sync() => Ok(Some(request)),
        // Direct I/O cannot continue at an odd place.
        Err(Errno::INVAL) if request.start > 0 => fault(What::Short { moved: request.start }),
        Err(errno) => fault(What::Errno(errno)),
    }
}
