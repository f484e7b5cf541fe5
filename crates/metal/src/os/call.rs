//! System calls through the C library, as programs make them, and one without it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

fn check(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Calls getppid(2), which does next to nothing in the kernel. Fails if a filter refuses it.
#[inline]
pub fn get_parent() -> io::Result<()> {
    // SAFETY: getppid takes no arguments and changes nothing.
    check(unsafe { libc::syscall(libc::SYS_getppid) })
}

/// Calls getppid(2) `count` times by an inlined instruction: after a system call some mitigations
/// make the return from a function slow, such as that of the C library.
pub fn enter_kernel(count: u32) {
    for _ in 0..count {
        std::hint::black_box(rustix::process::getppid());
    }
}

/// Reads CLOCK_MONOTONIC by entering the kernel, past the vDSO. Fails if a filter refuses it.
#[inline]
pub fn read_clock() -> io::Result<()> {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the call writes one `timespec` to the memory given.
    check(unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, time.as_mut_ptr()) })
}

/// Calls read(2) of the C library once; returns the number of bytes read, 0 at the end.
#[inline]
pub fn read(file: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the call writes to the buffer, at most its length.
    let count = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Calls write(2) of the C library once; returns the number of bytes written.
#[inline]
pub fn write(file: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the call reads from the slice, at most its length.
    let count = unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_nothing_refuses_succeed() {
        get_parent().unwrap();
        read_clock().unwrap();
        enter_kernel(2);
        assert!(check(-1).is_err());
    }

    #[test]
    fn bytes_pass_and_a_closed_end_is_the_end() {
        let (inward, outward) = rustix::pipe::pipe().unwrap();
        let mut buffer = [0; 4];
        assert_eq!(write(&outward, &[7, 8]).unwrap(), 2);
        assert_eq!((read(&inward, &mut buffer).unwrap(), buffer), (2, [7, 8, 0, 0]));
        assert!(read(&outward, &mut buffer).is_err() && write(&inward, &[1]).is_err());
        drop(outward);
        assert_eq!(read(&inward, &mut buffer).unwrap(), 0);
    }
}
