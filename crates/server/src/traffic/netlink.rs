//! Requests about an interface to the kernel (linux/netlink.h, linux/rtnetlink.h), and its replies.

use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with, sockopt};

/// Length of `struct nlmsghdr`, bytes.
pub(super) const MESSAGE_HEADER_BYTES: usize = 16;

pub(super) fn open() -> rustix::io::Result<OwnedFd> {
    // Protocol 0 is NETLINK_ROUTE.
    socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
}

/// Opens a netlink socket. Returns it and the index of `interface`; `None` if either is missing.
pub(super) fn open_for(interface: &str) -> Option<(OwnedFd, u32)> {
    let socket = open().ok()?;
    let index = netdevice::name_to_index(&socket, interface).ok()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1))).ok()?;
    Some((socket, index))
}

/// Returns a netlink message: a header of type `what` with `flags`, then `words`, in native order.
pub(super) fn request(what: u16, flags: u16, words: &[u32]) -> Vec<u8> {
    let length = (MESSAGE_HEADER_BYTES + size_of_val(words)) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend([what, flags].into_iter().flat_map(u16::to_ne_bytes));
    // Sequence number and port are 0.
    bytes.extend([0; 8]);
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// Returns the value of the first netlink attribute of type `wanted` in `bytes`, if any.
pub(super) fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;
    loop {
        let length = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(4..length)?;
        if u16_at(bytes, 2)? & ATTRIBUTE_TYPE_MASK == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
