//! Backing file of a loop device from its driver (loop(4)); the path in sysfs may be stale.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05 as libc::Ioctl;

/// Backing file of a loop device, and the part that it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backing {
    /// `st_dev` of the backing file.
    pub device: u64,
    /// `st_ino` of the backing file.
    pub inode: u64,
    /// `st_rdev` of the backing file: not 0 if the file is a device.
    pub rdev: u64,
    /// Offset in the backing file at which the loop device starts, in bytes.
    pub offset: u64,
    /// Maximum size of the loop device, in bytes; 0 for no limit.
    pub limit: u64,
}

/// Size of `struct loop_info64` (linux/loop.h), which begins with the five numbers of [`Backing`].
const LOOP_INFO_WORDS: usize = 232 / size_of::<u64>();

/// Reads the backing file of a loop device and the part of it that the device shows. Fails with
/// ENXIO if the device has none, with ENOTTY if `device` is no loop device.
pub fn read_backing(device: impl AsFd) -> io::Result<Backing> {
    let mut info = [0_u64; LOOP_INFO_WORDS];
    // SAFETY: the request writes one `struct loop_info64`, for which `info` has room and alignment.
    let answer = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    let [device, inode, rdev, offset, limit, ..] = info;
    Ok(Backing { device, inode, rdev, offset, limit })
}
