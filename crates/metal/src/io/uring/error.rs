use rustix::io::Errno;

/// Reason why io_uring is not available to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// `ENOSYS`.
    #[error("this kernel has no io_uring (ENOSYS)")]
    Absent,
    /// The probe or the plain read is missing.
    #[error("this kernel's io_uring is too old: Linux 5.6 is needed")]
    TooOld,
    /// `EPERM` with a restrictive sysctl.
    #[error("the sysctl kernel.io_uring_disabled={0} forbids io_uring")]
    Sysctl(u8),
    /// `EPERM` or `EACCES` without such a sysctl: seccomp filter (containers) or security module.
    #[error("a seccomp filter or security module forbids io_uring ({0})")]
    Forbidden(Errno),
    /// `ENOMEM`: before Linux 5.12 the rings counted against RLIMIT_MEMLOCK.
    #[error("no memory for io_uring (ENOMEM): raise RLIMIT_MEMLOCK (ulimit -l)")]
    Memory,
    /// `EMFILE` or `ENFILE`.
    #[error("no file descriptor left for io_uring: raise RLIMIT_NOFILE (ulimit -n)")]
    Descriptors,
    /// Any other error.
    #[error("io_uring cannot be set up: {0}")]
    Other(Errno),
}

impl Unavailable {
    pub(super) fn classify(errno: Errno, sysctl: Option<&str>) -> Self {
        match errno {
            Errno::NOSYS => Unavailable::Absent,
            Errno::PERM | Errno::ACCESS => match sysctl.and_then(|text| text.trim().parse().ok()) {
                Some(level @ 1..=2) => Unavailable::Sysctl(level),
                _ => Unavailable::Forbidden(errno),
            },
            Errno::NOMEM => Unavailable::Memory,
            Errno::MFILE | Errno::NFILE => Unavailable::Descriptors,
            other => Unavailable::Other(other),
        }
    }
}

/// Reason why a ring was not created or refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// io_uring is not available to this process.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Invalid depth or block.
    #[error("a ring of {depth} buffers of {block} bytes: 1 to 32768 buffers of 1 byte to 1 GiB are possible")]
    Geometry {
        /// Requested number of buffers.
        depth: usize,
        /// Requested bytes per buffer.
        block: usize,
    },
    /// The buffers cannot be allocated.
    #[error(
        "no memory for {0} bytes of I/O buffers: choose smaller blocks, a smaller depth or fewer threads, or raise the \
         limit (ulimit -v, the cgroup's memory limit)"
    )]
    Memory(usize),
    /// A file cannot be mapped.
    #[error("{0} bytes of a file cannot be mapped: {1}")]
    Mapping(usize, Errno),
    /// The slot does not exist or is in use.
    #[error("slot {slot} of {depth} does not exist or is in use")]
    Slot {
        /// Requested slot.
        slot: usize,
        /// Number of slots.
        depth: usize,
    },
    /// The bytes exceed the slot's buffer.
    #[error("{len} bytes from {start} do not fit a block of {block} bytes")]
    Range {
        /// First byte.
        start: usize,
        /// Number of bytes.
        len: usize,
        /// Bytes per buffer.
        block: usize,
    },
    /// The file does not exist.
    #[error("file {file} of {files} does not exist")]
    File {
        /// Requested file index.
        file: usize,
        /// Number of files.
        files: usize,
    },
    /// io_uring_enter(2) failed.
    #[error("io_uring_enter: {0}")]
    Enter(Errno),
}
