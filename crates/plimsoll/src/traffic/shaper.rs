//! Whether the kernel holds an interface to a rate: a token bucket (`tc … tbf`) that all packets pass, asked of the kernel
//! by rtnetlink (`RTM_GETQDISC`, linux/rtnetlink.h and linux/pkt_sched.h).
//!
//! All packets pass the root of the interface's queueing disciplines, and what is below a root that only delays (`netem`).
//! A bucket below one that sorts packets (`prio`, `mq`) holds some of them alone, and tells nothing of the interface.

use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with, sockopt,
};

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
/// A request for all of them.
const REQUEST_DUMP: u16 = 0x301;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
/// `struct nlmsghdr` and `struct tcmsg`.
const HEADER: usize = 16;
const TRAFFIC_CONTROL: usize = 20;
/// `TC_H_ROOT`: the parent of an interface's first discipline.
const ROOT: u32 = u32::MAX;
/// The part of a handle that names the discipline (`TC_H_MAJ_MASK`).
const MAJOR: u32 = 0xffff_0000;
/// No kernel has more of them than fit in so many replies.
const REPLIES: usize = 64;

/// The rate in bit/s that a token bucket holds the interface to; `None` where there is none, or the kernel does not tell.
pub fn rate(interface: &str) -> Option<f64> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).ok()?;
    let index = netdevice::name_to_index(&socket, interface).ok()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1))).ok()?;
    send(&socket, &request(), SendFlags::empty()).ok()?;
    let mut bytes = vec![0_u8; 64 << 10];
    let mut found = Vec::new();
    for _ in 0..REPLIES {
        let (length, _) = recv(&socket, &mut bytes[..], RecvFlags::empty()).ok()?;
        if read(bytes.get(..length)?, index, &mut found) == Reply::Last {
            break;
        }
    }
    held(&found)
}

/// A queueing discipline of the interface.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Discipline {
    handle: u32,
    parent: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A token bucket of this rate in bit/s.
    Bucket(f64),
    /// Delays and loses, and sorts nothing.
    Netem,
    Other,
}

/// The rate of the bucket that all packets pass.
fn held(all: &[Discipline]) -> Option<f64> {
    let root = all.iter().find(|one| one.parent == ROOT)?;
    let is_below = |one: &&Discipline| one.parent != ROOT && one.parent & MAJOR == root.handle & MAJOR;
    let passed = match root.kind {
        Kind::Netem => all.iter().find(is_below)?,
        _ => root,
    };
    if let Kind::Bucket(rate) = passed.kind { Some(rate) } else { None }
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + TRAFFIC_CONTROL);
    bytes.extend(((HEADER + TRAFFIC_CONTROL) as u32).to_ne_bytes());
    bytes.extend(RTM_GETQDISC.to_ne_bytes());
    bytes.extend(REQUEST_DUMP.to_ne_bytes());
    bytes.resize(HEADER + TRAFFIC_CONTROL, 0);
    bytes
}

#[derive(Debug, PartialEq)]
enum Reply {
    More,
    Last,
}

/// Reads the interface's disciplines from one reply, which holds several messages.
fn read(mut bytes: &[u8], index: u32, found: &mut Vec<Discipline>) -> Reply {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        let Some(message) = bytes.get(HEADER..length) else { return Reply::Last };
        match kind {
            RTM_NEWQDISC if u32_at(message, 4) == Some(index) => found.extend(discipline(message)),
            RTM_NEWQDISC => {}
            // The end (NLMSG_DONE), or an error.
            _ => return Reply::Last,
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Reply::More
}

/// What a message (`struct tcmsg` and attributes) says.
fn discipline(message: &[u8]) -> Option<Discipline> {
    let attributes = message.get(TRAFFIC_CONTROL..)?;
    let kind = match attribute(attributes, TCA_KIND)? {
        b"tbf\0" => bucket(attributes).map_or(Kind::Other, Kind::Bucket),
        b"netem\0" => Kind::Netem,
        _ => Kind::Other,
    };
    Some(Discipline { handle: u32_at(message, 8)?, parent: u32_at(message, 12)?, kind })
}

/// The rate in these attributes of a token bucket.
fn bucket(bytes: &[u8]) -> Option<f64> {
    let options = attribute(bytes, TCA_OPTIONS)?;
    let wide = attribute(options, TCA_TBF_RATE64).and_then(|b| Some(u64::from_ne_bytes(b.try_into().ok()?)));
    // In `struct tc_tbf_qopt` the rate in bytes per second stands behind 8 bytes of `struct tc_ratespec`.
    let narrow = || u32_at(attribute(options, TCA_TBF_PARMS)?, 8).map(u64::from);
    wide.or_else(narrow).filter(|rate| *rate > 0).map(|rate| rate as f64 * 8.0)
}

/// The value of the first attribute of this kind.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    /// The upper bits are flags (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
    const KIND: u16 = 0x3fff;
    loop {
        let length = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(4..length)?;
        if u16_at(bytes, 2)? & KIND == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A discipline of `index` with this handle below that parent.
    fn message(index: u32, handle: u32, parent: u32, kind: &[u8]) -> Vec<u8> {
        let mut parms = vec![0; 36];
        parms[8..12].copy_from_slice(&7_u32.to_ne_bytes());
        let attributes = [with(TCA_KIND, kind), with(TCA_OPTIONS, &with(TCA_TBF_PARMS, &parms))].concat();
        let mut bytes = ((HEADER + TRAFFIC_CONTROL + attributes.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(RTM_NEWQDISC.to_ne_bytes());
        bytes.resize(HEADER + 4, 0);
        bytes.extend([index, handle, parent, 0].iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(attributes);
        bytes
    }

    fn rate_in(reply: &[Vec<u8>]) -> Option<f64> {
        let mut found = Vec::new();
        assert_eq!(read(&reply.concat(), 3, &mut found), Reply::More);
        held(&found)
    }

    #[test]
    fn the_bucket_that_all_packets_pass_is_found_and_no_other() {
        let other = || message(1, 0x1_0000, ROOT, b"tbf\0");
        let root = |kind: &[u8]| message(3, 0x1_0000, ROOT, kind);
        let below = |parent| message(3, 0x8001_0000, parent, b"tbf\0");
        assert_eq!(rate_in(&[other(), root(b"tbf\0")]), Some(56.0));
        assert_eq!(rate_in(&[root(b"netem\0"), below(0x1_0001)]), Some(56.0));
        assert_eq!(rate_in(&[other(), root(b"noqueue\0")]), None);
        for sorting in [&b"prio\0"[..], b"mq\0", b"multiq\0"] {
            assert_eq!(rate_in(&[root(sorting), below(0x1_0001)]), None);
        }
        let nested = message(3, 0x2_0000, 0x1_0001, b"prio\0");
        assert_eq!(rate_in(&[root(b"netem\0"), nested, below(0x2_0001)]), None);
        // The other direction: TC_H_INGRESS.
        assert_eq!(rate_in(&[message(3, 0xffff_0000, 0xffff_fff1, b"tbf\0")]), None);
    }

    proptest! {
        #[test]
        fn any_reply_is_read_to_an_end(mut bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0..200_usize) {
            let mut found = Vec::new();
            read(&bytes, 3, &mut found);
            let good = message(3, 1, ROOT, b"tbf\0");
            bytes.splice(..0, good[..at.min(good.len())].iter().copied());
            read(&bytes, 3, &mut found);
            held(&found);
        }
    }
}
