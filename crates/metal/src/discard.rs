//! Telling a block device that it may forget a range (discard, trim): `BLKDISCARD` of the kernel's block/ioctl.c.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The request's number, `_IO(0x12, 119)` (linux/fs.h), as x86, Arm, RISC-V, s390 and LoongArch make it of these two.
const BLKDISCARD: libc::Ioctl = 0x1277;

/// Discards `bytes` from `offset` on, both in bytes and multiples of the device's logical block, and waits for it. What is read
/// there afterwards is for the device to say.
///
/// # Errors
/// What ioctl(2) says: EOPNOTSUPP where the device takes none, EBADF where it is not open for writing, ENOTTY of a file.
pub fn discard(device: impl AsFd, offset: u64, bytes: u64) -> io::Result<()> {
    let range = [offset, bytes];
    // SAFETY: the request reads two 64-bit numbers from memory that holds them.
    let answer = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BLKDISCARD, range.as_ptr()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_device() {
        let file = tempfile::tempfile().expect("temporary file");
        assert_eq!(discard(&file, 0, 4096).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
