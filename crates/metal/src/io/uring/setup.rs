use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use super::{Polling, RingError, Unavailable};
use crate::buffer::{self, Buffer, Pages};

/// 1 = only `kernel.io_uring_group` and CAP_SYS_ADMIN, 2 = disabled (sysctl/kernel.rst).
const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";
/// Idle time of a submission-polling kernel thread before it sleeps, in ms.
const SQPOLL_IDLE_MS: u32 = 100;

/// Allocates `bytes` zeroed bytes for device transfers (O_DIRECT), in huge pages if they fill one:
/// a virtio disk takes 254 segments, and moved 1 MiB in 4 KiB pages at two thirds of the rate.
pub fn transfer_buffer(bytes: usize) -> Result<Buffer, RingError> {
    let pages = if bytes < buffer::BUFFER_ALIGNMENT { Pages::Small } else { Pages::Thp };
    Buffer::new(bytes, pages).map_err(|_| RingError::Memory(bytes))
}

/// Creates a ring of `entries` entries, whose completions interrupt the thread as little as the
/// kernel allows (without polling). Fails before Linux 5.6.
pub(super) fn set_up(entries: u32, polling: Polling) -> Result<IoUring, RingError> {
    let uring = build(entries, polling).map_err(|e| {
        let sysctl = std::fs::read_to_string(SYSCTL).ok();
        Unavailable::classify(errno_of(e), sysctl.as_deref())
    })?;
    let mut probe = io_uring::Probe::new();
    let probed = uring.submitter().register_probe(&mut probe);
    // The probe and the plain read came together (Linux 5.6).
    if probed.is_err() || !probe.is_supported(opcode::Read::CODE) {
        return Err(RingError::Unavailable(Unavailable::TooOld));
    }
    Ok(uring)
}

fn build(entries: u32, polling: Polling) -> std::io::Result<IoUring> {
    if polling == Polling::default() {
        return build_quietest(entries);
    }
    let mut builder = IoUring::builder();
    builder.dontfork();
    if polling.submission {
        builder.setup_sqpoll(SQPOLL_IDLE_MS);
    }
    if polling.completion {
        builder.setup_iopoll();
    }
    builder.build(entries)
}

fn build_quietest(entries: u32) -> std::io::Result<IoUring> {
    // An unknown set-up flag is EINVAL (io_uring_setup(2)): only that leads to the next attempt.
    let unknown = |e: &std::io::Error| Errno::from_io_error(e) == Some(Errno::INVAL);
    // Completions are delivered only while the thread waits (Linux 6.1).
    match IoUring::builder().dontfork().setup_single_issuer().setup_defer_taskrun().build(entries) {
        Err(e) if unknown(&e) => {}
        made => return made,
    }
    // They are delivered at the thread's next system call (Linux 5.19).
    match IoUring::builder().dontfork().setup_coop_taskrun().build(entries) {
        Err(e) if unknown(&e) => {}
        made => return made,
    }
    IoUring::builder().dontfork().build(entries)
}

pub(super) fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
