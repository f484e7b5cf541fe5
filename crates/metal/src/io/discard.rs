//! Discard (trim) on block devices: `BLKDISCARD` of the kernel's block/ioctl.c.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `_IO(0x12, 119)` (linux/fs.h) on x86, Arm, RISC-V, s390 and LoongArch.
const BLKDISCARD: libc::Ioctl = 0x1277;

/// Discards `bytes` bytes at `offset`, both multiples of the logical block; their content is then
/// undefined. Fails with EOPNOTSUPP, EBADF (not open for writing) or ENOTTY (a file).
pub fn discard(device: impl AsFd, offset: u64, bytes: u64) -> io::Result<()> {
    let range = [offset, bytes];
    // SAFETY: the request reads two 64-bit numbers, which `range` has.
    let answer = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BLKDISCARD, range.as_ptr()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
