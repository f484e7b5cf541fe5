use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Operation of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// From the file into the slot's buffer.
    #[default]
    Read,
    /// From the slot's buffer into the file.
    Write,
    /// Like [`RequestKind::Write`], completed when the data is durable (`RWF_DSYNC`).
    WriteThrough,
    /// Like [`RequestKind::WriteThrough`], including the file's metadata (`RWF_SYNC`).
    WriteSync,
    /// fdatasync(2) of the whole file; offset and length are ignored.
    DataSync,
    /// fsync(2) of the whole file.
    Sync,
    /// Deallocates the bytes in the file and on the device (`FALLOC_FL_PUNCH_HOLE`): all or none.
    Trim,
}

impl RequestKind {
    /// Returns whether the operation writes the slot's buffer to the file.
    #[inline]
    pub fn is_write(self) -> bool {
        matches!(self, RequestKind::Write | RequestKind::WriteThrough | RequestKind::WriteSync)
    }

    /// Returns whether the operation is `DataSync` or `Sync`, which transfer no data.
    #[inline]
    pub fn is_sync(self) -> bool {
        matches!(self, RequestKind::DataSync | RequestKind::Sync)
    }
}

/// One request: `len` bytes between `offset` in the file and byte `start` of the slot's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Slot of the request, returned in its completion.
    pub slot: usize,
    /// Operation.
    pub op: RequestKind,
    /// Index of the file, from 0.
    pub file: usize,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Offset in the slot's buffer, in bytes; not 0 for the rest of a short transfer.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

/// A finished request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request as pushed.
    pub request: Request,
    /// Bytes transferred (fewer at the end of the file), or the error.
    pub outcome: Result<usize, Errno>,
    /// Time in ns before its batch was submitted.
    pub submitted_ns: u64,
    /// Time in ns when the kernel had accepted its batch.
    pub accepted_ns: u64,
    /// Time in ns when it was reaped.
    pub completed_ns: u64,
}

/// Features that the kernel granted a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Registered buffers (pinned once), or the error; `ENOMEM` is the memlock limit.
    pub buffers: Result<(), Errno>,
    /// Registered file (looked up once), or the error.
    pub file: Result<(), Errno>,
}

/// Polling instead of system calls and interrupts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polling {
    /// A kernel thread polls for requests (`IORING_SETUP_SQPOLL`).
    pub submission: bool,
    /// The device is polled for completions (`IORING_SETUP_IOPOLL`): needs polling queues.
    pub completion: bool,
}

/// Limit of waiting for a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// No limit.
    Endless,
    /// Nanoseconds; 0 only polls.
    Nanoseconds(u64),
}
