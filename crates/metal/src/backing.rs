//! What a loop device is backed by, as its driver says it (loop(4), `LOOP_GET_STATUS64`).
//!
//! sysfs gives only a path, as it was in the mount namespace of whoever made the device; the driver gives device and inode,
//! which name the file also when it was renamed, deleted or mounted elsewhere.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The request's number (linux/loop.h).
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05 as libc::Ioctl;

/// What backs a loop device, and which part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backing {
    /// The `st_dev` of the backing file.
    pub device: u64,
    /// The `st_ino` of the backing file.
    pub inode: u64,
    /// The `st_rdev` of the backing file: not 0 where it is a device.
    pub is_device: u64,
    /// Where in it the loop device begins, in bytes.
    pub offset: u64,
    /// How many bytes of it the loop device shows at most; 0 for all of them.
    pub limit: u64,
}

/// `struct loop_info64` (linux/loop.h): three more fields follow in it, of which nothing is needed.
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

/// Asks the driver of an open loop device.
///
/// # Errors
/// What ioctl(2) says: ENXIO where nothing is attached, ENOTTY where it is no loop device.
pub fn backing(device: impl AsFd) -> io::Result<Backing> {
    let mut info = std::mem::MaybeUninit::<LoopInfo>::zeroed();
    // SAFETY: the request writes one `struct loop_info64`, whose layout `LoopInfo` has, to memory of that size.
    let answer = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was zeroed, and all its fields are integers, for which zeros are valid.
    let info = unsafe { info.assume_init() };
    Ok(Backing {
        device: info.device,
        inode: info.inode,
        is_device: info.rdevice,
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
        assert!(backing(&file).is_err());
    }
}
