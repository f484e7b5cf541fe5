//! Why there is no ring, or why it refused: each reason with what can be done.

use rustix::io::Errno;

/// Where the kernel says who may use io_uring: 0 all, 1 only `kernel.io_uring_group` and CAP_SYS_ADMIN, 2 nobody
/// (Documentation/admin-guide/sysctl/kernel.rst, Linux 6.6).
const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

/// Why this process gets no io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// `ENOSYS`.
    #[error("this kernel has no io_uring (ENOSYS)")]
    Absent,
    /// The probe or the plain read is missing.
    #[error("this kernel's io_uring is too old: Linux 5.6 is needed")]
    TooOld,
    /// `EPERM` and the sysctl says so.
    #[error("the sysctl kernel.io_uring_disabled={0} forbids io_uring")]
    Sysctl(u8),
    /// `EPERM` or `EACCES` without such a sysctl: a seccomp filter (containers have one) or a security module.
    #[error("a seccomp filter or security module forbids io_uring ({0})")]
    Forbidden(Errno),
    /// `ENOMEM`: before Linux 5.12 the rings themselves counted against RLIMIT_MEMLOCK.
    #[error("no memory for io_uring (ENOMEM): raise RLIMIT_MEMLOCK (ulimit -l)")]
    Memory,
    /// `EMFILE` or `ENFILE`.
    #[error("no file descriptor left for io_uring: raise RLIMIT_NOFILE (ulimit -n)")]
    Descriptors,
    /// Anything else.
    #[error("io_uring cannot be set up: {0}")]
    Other(Errno),
}

impl Unavailable {
    /// What the errno of io_uring_setup(2) means here.
    pub(super) fn from_errno(errno: Errno) -> Self {
        let sysctl = std::fs::read_to_string(SYSCTL).ok();
        Unavailable::classify(errno, sysctl.as_deref())
    }

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

/// Why a ring could not be made or refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// There is no io_uring for this process.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The ring cannot have this shape.
    #[error("a ring of {depth} buffers of {block} bytes: 1 to 32768 buffers of 1 byte to 1 GiB are possible")]
    Geometry {
        /// Buffers asked for.
        depth: usize,
        /// Bytes in each.
        block: usize,
    },
    /// The buffers cannot be had.
    #[error(
        "no memory for {bytes} bytes of I/O buffers: choose smaller blocks, a smaller depth or fewer threads, or raise the \
         limit (ulimit -v, the cgroup's memory limit)"
    )]
    Memory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A file cannot be mapped.
    #[error("{bytes} bytes of a file cannot be mapped: {errno}")]
    Mapping {
        /// Bytes of the file.
        bytes: usize,
        /// What mmap(2) said.
        errno: Errno,
    },
    /// The slot does not exist, or a request is using it.
    #[error("slot {slot} of {depth} does not exist or is in use")]
    Slot {
        /// The slot asked for.
        slot: usize,
        /// How many there are.
        depth: usize,
    },
    /// The bytes are not within the slot's buffer.
    #[error("{len} bytes from {start} do not fit a block of {block} bytes")]
    Range {
        /// First byte.
        start: usize,
        /// Bytes.
        len: usize,
        /// The buffer's size.
        block: usize,
    },
    /// There is no such file.
    #[error("file {file} of {files} does not exist")]
    File {
        /// The file asked for.
        file: usize,
        /// How many there are.
        files: usize,
    },
    /// io_uring_enter(2) failed.
    #[error("io_uring_enter: {errno}")]
    Enter {
        /// What it said.
        errno: Errno,
    },
}
