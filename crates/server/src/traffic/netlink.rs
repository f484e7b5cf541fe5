//! Requests to the kernel by rtnetlink (linux/netlink.h, linux/rtnetlink.h), and its replies.

use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with, sockopt,
};

/// Length of `struct nlmsghdr`, bytes.
pub(super) const MESSAGE_HEADER_BYTES: usize = 16;
const NLM_F_REQUEST: u16 = 1;
const REQUEST_DUMP: u16 = 0x301;
/// Last message of a reply, and an error instead of a reply (`NLMSG_ERROR`, `NLMSG_DONE`).
const END_MESSAGE_TYPES: [u16; 2] = [2, 3];
/// Most replies to one request; no kernel sends more.
const REPLIES: usize = 64;

pub(super) fn open() -> rustix::io::Result<OwnedFd> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1)))?;
    Ok(socket)
}

/// Opens a netlink socket. Returns it and the index of `interface`; `None` if either is missing.
pub(super) fn open_for(interface: &str) -> Option<(OwnedFd, u32)> {
    let socket = open().ok()?;
    let index = netdevice::name_to_index(&socket, interface).ok()?;
    Some((socket, index))
}

/// Requests one object of type `what`, with the content `words`. Returns the kernel's reply.
pub(super) fn ask(socket: &OwnedFd, what: u16, words: &[u32]) -> Option<Vec<u8>> {
    send(socket, &request(what, NLM_F_REQUEST, words), SendFlags::empty()).ok()?;
    receive(socket)
}

/// Requests all objects of type `what`, with the content `words`. Returns what `read` returns for
/// their messages; `None` if the reply is incomplete.
pub(super) fn dump<T>(
    socket: &OwnedFd,
    what: u16,
    words: &[u32],
    read: impl Fn(&[u8]) -> Option<T>,
) -> Option<Vec<T>> {
    send(socket, &request(what, REQUEST_DUMP, words), SendFlags::empty()).ok()?;
    let mut found = Vec::new();
    for _ in 0..REPLIES {
        if read_messages(&receive(socket)?, &read, &mut found) {
            return Some(found);
        }
    }
    None
}

fn receive(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 64 << 10];
    let (length, _) = recv(socket, &mut bytes[..], RecvFlags::empty()).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// Appends to `found` what `read` returns for the messages in `bytes`, each without its header.
/// Returns whether the kernel's reply is complete.
pub(super) fn read_messages<T>(
    mut bytes: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
    found: &mut Vec<T>,
) -> bool {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        let message = bytes.get(MESSAGE_HEADER_BYTES..length);
        let Some(message) = message.filter(|_| !END_MESSAGE_TYPES.contains(&kind)) else { return true };
        found.extend(read(message));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

/// Returns a netlink message: a header of type `what` with `flags`, then `words`, in native order.
fn request(what: u16, flags: u16, words: &[u32]) -> Vec<u8> {
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
