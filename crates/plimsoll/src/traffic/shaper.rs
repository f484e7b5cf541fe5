//! Whether the kernel holds an interface to a rate: a token bucket (`tc … tbf`) among its queueing disciplines, asked of
//! the kernel by rtnetlink (`RTM_GETQDISC`, linux/rtnetlink.h and linux/pkt_sched.h).

use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netdevice, recv, send, socket, sockopt};

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_DONE: u16 = 3;
/// A request for all of them.
const REQUEST_DUMP: u16 = 0x301;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
/// `struct nlmsghdr` and `struct tcmsg`.
const HEADER: usize = 16;
const TRAFFIC_CONTROL: usize = 20;
/// No kernel has more of them than fit in so many replies.
const REPLIES: usize = 64;

/// The rate in bit/s that a token bucket holds the interface to; `None` where there is none, or the kernel does not tell.
pub fn rate(interface: &str) -> Option<f64> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None).ok()?;
    let index = netdevice::name_to_index(&socket, interface).ok()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1))).ok()?;
    send(&socket, &request(), SendFlags::empty()).ok()?;
    let mut bytes = vec![0_u8; 64 << 10];
    for _ in 0..REPLIES {
        let (length, _) = recv(&socket, &mut bytes[..], RecvFlags::empty()).ok()?;
        match read(bytes.get(..length)?, index) {
            Reply::Rate(rate) => return Some(rate),
            Reply::More => {}
            Reply::End => return None,
        }
    }
    None
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
    Rate(f64),
    More,
    End,
}

/// Reads one reply, which holds several messages.
fn read(mut bytes: &[u8], index: u32) -> Reply {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        let Some(message) = bytes.get(HEADER..length) else { return Reply::End };
        match kind {
            NLMSG_DONE => return Reply::End,
            RTM_NEWQDISC if u32_at(message, 4) == Some(index) => {
                if let Some(rate) = message.get(TRAFFIC_CONTROL..).and_then(bucket) {
                    return Reply::Rate(rate);
                }
            }
            RTM_NEWQDISC => {}
            _ => return Reply::End,
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Reply::More
}

/// The rate in these attributes of a queueing discipline, if it is a token bucket.
fn bucket(bytes: &[u8]) -> Option<f64> {
    if attribute(bytes, TCA_KIND)? != b"tbf\0" {
        return None;
    }
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

    fn message(index: u32, kind: &[u8], rate: u32) -> Vec<u8> {
        let mut parms = vec![0; 36];
        parms[8..12].copy_from_slice(&rate.to_ne_bytes());
        let attributes = [with(TCA_KIND, kind), with(TCA_OPTIONS, &with(TCA_TBF_PARMS, &parms))].concat();
        let mut bytes = ((HEADER + TRAFFIC_CONTROL + attributes.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(RTM_NEWQDISC.to_ne_bytes());
        bytes.resize(HEADER + 4, 0);
        bytes.extend(index.to_ne_bytes());
        bytes.resize(HEADER + TRAFFIC_CONTROL, 0);
        bytes.extend(attributes);
        bytes
    }

    #[test]
    fn the_bucket_of_the_interface_is_found() {
        let reply = [message(1, b"tbf\0", 5), message(2, b"noqueue\0", 6), message(3, b"tbf\0", 7)].concat();
        assert_eq!(read(&reply, 3), Reply::Rate(56.0));
        assert_eq!(read(&reply, 2), Reply::More);
    }

    proptest! {
        #[test]
        fn any_reply_is_read_to_an_end(mut bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0..200_usize) {
            read(&bytes, 3);
            let good = message(3, b"tbf\0", 7);
            bytes.splice(..0, good[..at.min(good.len())].iter().copied());
            read(&bytes, 3);
        }
    }
}
