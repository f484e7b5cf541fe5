//! Share of a file in the page cache.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mm::ProtFlags;

use crate::buffer::MappedRange;

/// Returns how many of the first `len` bytes of `file` are in the page cache.
pub fn resident_bytes(file: BorrowedFd<'_>, len: u64) -> Result<u64, Errno> {
    match by_cachestat(file, len) {
        Err(Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL) => by_mincore(file, len),
        reported => reported,
    }
}

const SYS_CACHESTAT: libc::c_long = 451;

fn by_cachestat(file: BorrowedFd<'_>, len: u64) -> Result<u64, Errno> {
    // `struct cachestat_range`: offset and length; `struct cachestat`, which begins with the cached
    // pages (Linux `include/uapi/linux/mman.h`).
    let (range, mut counts) = ([0, len], [0_u64; 5]);
    // SAFETY: the kernel reads one and writes the other live value of the documented layout.
    let status = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0 as libc::c_uint)
    };
    if status != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOSYS));
    }
    Ok(counts[0].saturating_mul(rustix::param::page_size() as u64).min(len))
}

const WINDOW_BYTES: u64 = 1 << 30;

fn by_mincore(file: BorrowedFd<'_>, len: u64) -> Result<u64, Errno> {
    let page = rustix::param::page_size() as u64;
    let (mut offset, mut resident) = (0, 0);
    while offset < len {
        let window = WINDOW_BYTES.min(len - offset);
        resident += window_pages(file, offset, window)? * page;
        offset += window;
    }
    Ok(resident.min(len))
}

fn window_pages(file: BorrowedFd<'_>, offset: u64, window: u64) -> Result<u64, Errno> {
    let length = usize::try_from(window).map_err(|_| Errno::OVERFLOW)?;
    let mut pages = vec![0_u8; length.div_ceil(rustix::param::page_size())];
    let range = MappedRange::of_file(file, offset, length, ProtFlags::READ)?;
    // SAFETY: the mapping has `length` bytes and is page-aligned; `pages` has a byte for each page.
    match unsafe { libc::mincore(range.start.as_ptr().cast(), length, pages.as_mut_ptr()) } {
        0 => Ok(pages.iter().filter(|page| **page & 1 == 1).count() as u64),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOSYS)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_was_written_through_the_cache_is_in_it_and_a_new_file_is_not() {
        let mut file = tempfile::tempfile().expect("temporary file");
        file.set_len(1 << 20).expect("extend");
        let asked = |file: &File| resident_bytes(file.as_fd(), 1 << 20).expect("known");
        assert_eq!(asked(&file), 0);
        file.write_all(&vec![1; 512 << 10]).expect("write");
        assert_eq!(asked(&file), 512 << 10);
        assert_eq!(by_mincore(file.as_fd(), 1 << 20), Ok(512 << 10));
        match by_cachestat(file.as_fd(), 1 << 20) {
            Err(errno) => assert_eq!(errno, Errno::NOSYS),
            Ok(resident) => assert_eq!(resident, 512 << 10),
        }
    }

    #[test]
    fn beyond_the_end_nothing_is_resident() {
        let mut file = tempfile::tempfile().expect("temporary file");
        file.write_all(&[1; 4096]).expect("write");
        assert_eq!(resident_bytes(file.as_fd(), 1 << 30), Ok(4096));
        assert_eq!(by_mincore(file.as_fd(), 1 << 30), Ok(4096));
    }
}
