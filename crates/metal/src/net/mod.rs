//! Sockets: streams and datagrams.

pub mod datagram;
pub mod tcp;

use std::io;
use std::os::fd::{AsFd, AsRawFd};

fn set(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer is to an int that outlives the call, with its length.
    let done = unsafe { libc::setsockopt(descriptor, level, name, (&raw const value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option into `to` (getsockopt(2)); returns how many bytes were written.
fn get<T: Copy>(socket: impl AsFd, level: libc::c_int, name: libc::c_int, to: &mut [T]) -> io::Result<usize> {
    let (descriptor, most) = (socket.as_fd().as_raw_fd(), size_of_val(to));
    let mut length = most as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the length of `to`, which holds integers.
    let done = unsafe { libc::getsockopt(descriptor, level, name, to.as_mut_ptr().cast(), &raw mut length) };
    if done == 0 { Ok((length as usize).min(most)) } else { Err(io::Error::last_os_error()) }
}
