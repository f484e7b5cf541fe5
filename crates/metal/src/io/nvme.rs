//! Reads the SMART log page of an NVMe controller with `NVME_IOCTL_ADMIN_CMD` (linux/nvme_ioctl.h).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Size of the log page (NVM Express Base Specification, Get Log Page, log page identifier 02h).
pub const SMART_BYTES: usize = 512;

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)` as encoded on x86, Arm, RISC-V, s390 and LoongArch.
const ADMIN_CMD: libc::Ioctl = 0xC048_4E41_u32 as libc::Ioctl;
const GET_LOG_PAGE: u8 = 0x02;
const ALL_NAMESPACES: u32 = u32::MAX;
/// Bits 7:0: page identifier; bits 31:16: number of 4-byte words to return, minus one.
const SMART_PAGE: u32 = 0x02 | ((SMART_BYTES as u32 / 4 - 1) << 16);
/// Timeout in ms; 0 is the kernel's default. Never shorter: Linux resets a controller whose admin
/// command times out (`nvme_timeout` in drivers/nvme/host/pci.c).
const TIMEOUT_MS: u32 = 0;

/// `struct nvme_passthru_cmd`, 72 bytes.
#[repr(C)]
#[derive(Default)]
struct NvmeCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_and_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    bytes: u32,
    word_10: u32,
    words_11_to_15: [u32; 5],
    timeout_ms: u32,
    result: u32,
}

/// Returns the SMART log page of `device`, the controller's character device (`/dev/nvme0`). Fails
/// with EACCES without CAP_SYS_ADMIN, ENOTTY on other devices, or the NVMe status.
pub fn smart_log(device: impl AsFd) -> io::Result<[u8; SMART_BYTES]> {
    let mut page = [0_u8; SMART_BYTES];
    let mut command = NvmeCommand {
        opcode: GET_LOG_PAGE,
        namespace: ALL_NAMESPACES,
        address: page.as_mut_ptr() as u64,
        bytes: SMART_BYTES as u32,
        word_10: SMART_PAGE,
        timeout_ms: TIMEOUT_MS,
        ..NvmeCommand::default()
    };
    // SAFETY: the request accesses one `NvmeCommand` and at most `bytes` bytes at `address`.
    let status =
        unsafe { libc::ioctl(device.as_fd().as_raw_fd(), ADMIN_CMD, std::ptr::from_mut(&mut command)) };
    match status {
        0 => Ok(page),
        ..0 => Err(io::Error::last_os_error()),
        status => Err(io::Error::other(format!("the controller answered with status {status:#x}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backing::read_backing;
    use crate::discard::discard;

    #[test]
    fn the_command_is_as_the_kernel_has_it() {
        // linux/nvme_ioctl.h: the size is part of the request number.
        assert_eq!(size_of::<NvmeCommand>(), 72);
        assert_eq!(std::mem::offset_of!(NvmeCommand, address), 24);
        assert_eq!(std::mem::offset_of!(NvmeCommand, word_10), 40);
        assert_eq!(SMART_PAGE, 0x007f_0002);
    }

    #[test]
    fn a_file_is_no_controller_no_loop_device_and_nothing_to_discard_from() {
        let file = tempfile::tempfile().expect("temporary file");
        assert_eq!(smart_log(&file).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(discard(&file, 0, 4096).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert!(read_backing(&file).is_err());
    }
}
