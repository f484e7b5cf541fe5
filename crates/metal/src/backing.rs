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

/// `struct loop_info64` (linux/loop.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// Reads the backing file of a loop device and the part of it that the device shows. Fails with
/// ENXIO if the device has none, with ENOTTY if `device` is no loop device.
pub fn read_backing(device: impl AsFd) -> io::Result<Backing> {
    let mut info = std::mem::MaybeUninit::<LoopInfo>::zeroed();
    // SAFETY: the request writes one `struct loop_info64`, which has the layout of `LoopInfo`.
    let answer = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was zeroed, and zeros are valid for its fields, which are all integers.
    let info = unsafe { info.assume_init() };
    Ok(Backing {
        device: info.device,
        inode: info.inode,
        rdev: info.rdevice,
        offset: info.offset,
        limit: info.size_limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_long_as_the_kernels_and_a_file_is_no_loop_device() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        let file = tempfile::tempfile().expect("temporary file");
        assert!(read_backing(&file).is_err());
    }
}
