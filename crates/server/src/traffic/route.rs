//! This machine's addresses, and the interface of packets to an address, both by rtnetlink
//! (linux/rtnetlink.h, linux/if_addr.h): the kernel applies its tables, rules and VRFs.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use plimsoll_machine::Root;
use plimsoll_units::text::shown_within;
use rustix::fd::OwnedFd;
use rustix::net::netdevice;

use super::netlink::{self, MESSAGE_HEADER_BYTES, attribute, u16_at, u32_at};

const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// Lengths of `struct rtmsg` and `struct ifaddrmsg`.
const ROUTE: usize = 12;
const OWN_ADDRESS: usize = 8;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// First type of routes that refuse packets.
const RTN_BLACKHOLE: u8 = 6;

/// Name of the loopback interface.
pub const LOOPBACK: &str = "lo";

/// Returns whether `address` belongs to this machine, so that its traffic never leaves the kernel.
pub fn is_local(mut address: SocketAddr) -> bool {
    address.set_port(0);
    if let IpAddr::V4(v4) = address.ip().to_canonical() {
        address = SocketAddr::from((v4, 0));
    }
    // Only an own address can be bound, except with `ip_nonlocal_bind`, which is rare.
    address.ip().is_loopback() || UdpSocket::bind(address).is_ok()
}

/// Returns the interface for packets to `address`: `lo` if it is local, `None` without a route.
pub fn outgoing_interface(address: SocketAddr) -> Option<String> {
    if is_local(address) {
        return Some(LOOPBACK.to_owned());
    }
    let socket = netlink::open().ok()?;
    let reply = netlink::ask(&socket, RTM_GETROUTE, &route_request(address))?;
    interface_name(&socket, route_interface(&reply)?)
}

/// Returns the interfaces directly below `interface`: none unless it is a VLAN, a bond, a bridge.
pub(super) fn lower_interfaces(interface: &str) -> Vec<String> {
    let files = Root::live().names(format!("sys/class/net/{interface}")).unwrap_or_default();
    files.iter().filter_map(|file| file.strip_prefix("lower_").map(str::to_owned)).collect()
}

/// Returns this machine's IPv4 addresses except loopback, and global IPv6 ones, each with the name
/// of its interface; none if the kernel does not report them.
pub fn own_addresses() -> BTreeMap<IpAddr, String> {
    let Ok(socket) = netlink::open() else { return BTreeMap::new() };
    let found = netlink::dump(&socket, RTM_GETADDR, &[0, 0], own_address).unwrap_or_default();
    // An interface that is down has its addresses, but does not receive packets to them.
    let usable = found.into_iter().filter(|(address, _)| is_local(SocketAddr::new(*address, 0)));
    usable.filter_map(|(address, index)| Some((address, interface_name(&socket, index)?))).collect()
}

/// Parses `struct ifaddrmsg` to (address, index of its interface); `None` as in [`own_addresses`].
fn own_address(message: &[u8]) -> Option<(IpAddr, u32)> {
    let attributes = message.get(OWN_ADDRESS..)?;
    // Between two points, the address in `IFA_ADDRESS` is that of the other end.
    let own = attribute(attributes, IFA_LOCAL).or_else(|| attribute(attributes, IFA_ADDRESS))?;
    let v4 = <[u8; 4]>::try_from(own).map(IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(own).map(IpAddr::from)).ok()?;
    let is_wanted = !address.is_loopback() && (address.is_ipv4() || message.get(3) == Some(&0));
    is_wanted.then_some((address, u32_at(message, 4)?))
}

/// Returns a request for the route to `address`, by the interface that a link-local one names.
fn route_request(address: SocketAddr) -> Vec<u32> {
    let scope = if let SocketAddr::V6(scoped) = address { scoped.scope_id() } else { 0 };
    // AF_INET and AF_INET6.
    let (family, destination) = match address.ip().to_canonical() {
        IpAddr::V4(to) => (2, to.octets().to_vec()),
        IpAddr::V6(to) => (10, to.octets().to_vec()),
    };
    let prefix = destination.len() as u8 * 8;
    let mut words = vec![u32::from_ne_bytes([family, prefix, 0, 0]), 0, 0];
    for (kind, value) in [(RTA_DST, destination), (RTA_OIF, scope.to_ne_bytes().to_vec())] {
        let header = [value.len() as u16 + 4, kind].map(u16::to_ne_bytes).concat();
        words.extend([header, value].concat().chunks(4).filter_map(|word| u32_at(word, 0)));
    }
    words
}

/// Parses a reply with one route to the index of its interface; `None` if it refuses packets.
fn route_interface(reply: &[u8]) -> Option<u32> {
    let message = reply.get(MESSAGE_HEADER_BYTES..u32_at(reply, 0)? as usize)?;
    let is_usable = u16_at(reply, 4)? == RTM_NEWROUTE && *message.get(7)? < RTN_BLACKHOLE;
    u32_at(attribute(message.get(ROUTE..)?, RTA_OIF)?, 0).filter(|_| is_usable)
}

fn interface_name(socket: &OwnedFd, index: u32) -> Option<String> {
    netdevice::index_to_name(socket, index).ok().map(|name| shown_within(&name, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 9)
    }

    /// Returns a message of `kind`: header, `structure`, and (type, value) attributes.
    fn message(kind: u16, structure: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = [&[0; 4][..], &kind.to_ne_bytes(), &[0; 10], structure].concat();
        for (kind, value) in attributes {
            bytes.extend([value.len() as u16 + 4, *kind].map(u16::to_ne_bytes).concat());
            bytes.extend(*value);
        }
        let length = (bytes.len() as u32).to_ne_bytes();
        bytes[..4].copy_from_slice(&length);
        bytes
    }

    #[test]
    fn the_route_in_a_reply_is_found() {
        let attributes: [(u16, &[u8]); 2] = [(RTA_DST, &[8; 4]), (RTA_OIF, &3_u32.to_ne_bytes())];
        let reply = |kind, route| message(kind, &[2, 32, 0, 0, 254, 0, 0, route, 0, 0, 0, 0], &attributes);
        let good = reply(RTM_NEWROUTE, 1);
        assert_eq!(route_interface(&good), Some(3));
        assert_eq!(route_interface(&reply(RTM_NEWROUTE, 7)), None, "a route that refuses is none");
        assert_eq!(route_interface(&reply(2, 1)), None, "an error is no route");
        assert!((0..good.len()).all(|short| route_interface(&good[..short]).is_none()));
    }

    #[test]
    fn a_request_names_the_destination_and_the_interface_of_a_link_local_address() {
        let requested = |address| {
            let bytes: Vec<u8> = route_request(address).iter().flat_map(|word| word.to_ne_bytes()).collect();
            let value = |kind| attribute(&bytes[ROUTE..], kind).unwrap();
            (bytes[0], bytes[1], value(RTA_DST).to_vec(), u32_at(value(RTA_OIF), 0))
        };
        assert_eq!(requested(address("192.0.2.1")), (2, 32, vec![192, 0, 2, 1], Some(0)));
        assert_eq!(requested(address("::ffff:192.0.2.1")), (2, 32, vec![192, 0, 2, 1], Some(0)));
        let scoped: SocketAddr = "[fe80::1%11]:9".parse().unwrap();
        let octets: Vec<u8> = [vec![0xfe, 0x80], vec![0; 13], vec![1]].concat();
        assert_eq!(requested(scoped), (10, 128, octets, Some(11)));
    }

    #[test]
    fn own_addresses_are_those_that_others_may_reach() {
        fn read(scope: u8, attributes: &[(u16, &[u8])]) -> Option<String> {
            let message = message(20, &[0, 0, 0, scope, 0, 0, 0, 0], attributes);
            own_address(&message[MESSAGE_HEADER_BYTES..]).map(|(address, _)| address.to_string())
        }
        let v6 = |first: u8| -> Vec<u8> { [vec![first, 1], vec![0; 13], vec![7]].concat() };
        let between_two = read(0, &[(IFA_ADDRESS, &[192, 0, 2, 1]), (IFA_LOCAL, &[192, 0, 2, 2])]);
        assert_eq!(between_two.unwrap(), "192.0.2.2");
        assert_eq!(read(253, &[(IFA_LOCAL, &[169, 254, 0, 1])]).unwrap(), "169.254.0.1");
        assert_eq!(read(254, &[(IFA_LOCAL, &[127, 0, 0, 1])]), None);
        assert_eq!(read(0, &[(IFA_ADDRESS, &v6(0x20))]).unwrap(), "2001::7");
        assert_eq!(read(253, &[(IFA_ADDRESS, &v6(0xfe))]), None, "of its link alone");
        assert_eq!(read(0, &[(IFA_ADDRESS, &[1, 2, 3])]), None);
        let whole = message(20, &[0; 8], &[(IFA_ADDRESS, &v6(0x20))]).split_off(MESSAGE_HEADER_BYTES);
        assert!((0..whole.len()).all(|short| own_address(&whole[..short]).is_none()));
    }

    #[test]
    fn local_addresses_leave_by_loopback_and_others_by_another_interface() {
        assert!(is_local(address("127.0.0.1")) && is_local(address("::ffff:127.0.0.1")));
        assert_eq!(outgoing_interface(address("127.0.0.1")).as_deref(), Some(LOOPBACK));
        // Documentation addresses (RFC 5737) belong to no machine.
        assert!(!is_local(address("192.0.2.1")));
        assert_ne!(outgoing_interface(address("192.0.2.1")).as_deref(), Some(LOOPBACK));
        for (own, interface) in own_addresses() {
            assert!(is_local(SocketAddr::new(own, 9)) && !own.is_loopback(), "{own} {interface}");
        }
    }
}
