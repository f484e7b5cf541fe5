//! Requests, completions, and what a ring may be asked for.

use rustix::io::Errno;

/// What a request does to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// From the file into the slot's buffer.
    Read,
    /// From the slot's buffer into the file.
    Write,
    /// As [`Op::Write`], finished only when the device has it for good (`RWF_DSYNC`, what `O_DSYNC` asks for).
    WriteThrough,
    /// As [`Op::WriteThrough`], with all that is known of the file too (`RWF_SYNC`, what `O_SYNC` asks for).
    WriteSync,
    /// fdatasync(2) of the whole file; offset and length mean nothing.
    DataSync,
    /// fsync(2) of the whole file.
    Sync,
    /// Frees the bytes in the file and, through file system and device, the space (`FALLOC_FL_PUNCH_HOLE`). All of
    /// them are moved, or none.
    Trim,
}

impl Op {
    /// Whether it writes what is in the buffer.
    #[inline]
    pub fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::WriteThrough | Op::WriteSync)
    }

    /// Whether it keeps for good what was written before.
    #[inline]
    pub fn is_sync(self) -> bool {
        matches!(self, Op::DataSync | Op::Sync)
    }
}

/// One request: `len` bytes between `offset` in the file and byte `start` of the slot's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Which slot carries it: the user index that its completion bears.
    pub slot: usize,
    /// What to do.
    pub op: Op,
    /// Which of the files: 0 is the first.
    pub file: usize,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// Where in the slot's buffer, in bytes: not 0 for the rest of a short transfer.
    pub start: usize,
    /// How many bytes.
    pub len: usize,
}

/// A finished request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request as it was pushed.
    pub request: Request,
    /// Bytes moved (fewer than asked for at the end of the file), or why it failed.
    pub outcome: Result<usize, Errno>,
    /// When its batch began to be handed to the kernel.
    pub submitted_ns: u64,
    /// When the kernel had accepted its batch.
    pub accepted_ns: u64,
    /// When it was reaped.
    pub completed_ns: u64,
}

/// What the kernel granted a ring, so that a result can say what was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Buffers are registered (pinned once, not at every request), or why not: `ENOMEM` is the memlock limit.
    pub buffers: Result<(), Errno>,
    /// The file is registered (looked up once), or why not.
    pub file: Result<(), Errno>,
    /// How the kernel delivers completions.
    pub delivery: Delivery,
}

/// When the kernel does the completing half of its work; the later kinds interrupt the measured thread less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// By interrupting the thread (any kernel).
    Interrupting,
    /// At the thread's next system call (`IORING_SETUP_COOP_TASKRUN`, Linux 5.19).
    Cooperative,
    /// Only while the thread waits (`IORING_SETUP_DEFER_TASKRUN`, Linux 6.1).
    Deferred,
}

/// Who looks for new requests, and who for completions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Polling {
    /// A kernel thread takes requests without being called (`IORING_SETUP_SQPOLL`).
    pub submission: bool,
    /// The device is asked for completions instead of interrupting (`IORING_SETUP_IOPOLL`): direct I/O on a device
    /// with polling queues.
    pub completion: bool,
}

/// Until when to wait for a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Until there is one.
    Endless,
    /// So many nanoseconds at most; 0 only looks.
    Nanoseconds(u64),
}
