//! State and changes of an interface's link, from rtnetlink (linux/rtnetlink.h, linux/if_link.h).

use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with, sockopt,
};
use serde::{Deserialize, Serialize};

use super::shaper::read::{attribute, u32_at};

const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;
/// Lengths of `struct nlmsghdr` and `struct ifinfomsg`.
const LINK_HEADER_BYTES: usize = 16;
const INTERFACE: usize = 16;
const IFLA_CARRIER_CHANGES: u16 = 35;
/// `IFF_UP | IFF_LOWER_UP`. `IFF_RUNNING` would follow the carrier up to a second later.
const RUNNING: u32 = 0x1_0001;

/// The state of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carrier {
    /// Whether the interface is up and has a carrier.
    pub is_up: bool,
    /// Number of carrier changes since the interface exists.
    pub changes: u32,
}

impl Carrier {
    /// Returns the link state of `interface` (`eth0`); `None` if the kernel reports none.
    pub fn of_interface(interface: &str) -> Option<Self> {
        // Protocol 0 is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).ok()?;
        let index = netdevice::name_to_index(&socket, interface).ok()?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1))).ok()?;
        send(&socket, &request(index), SendFlags::empty()).ok()?;
        let mut bytes = vec![0; 32 << 10];
        let (length, _) = recv(&socket, &mut bytes[..], RecvFlags::empty()).ok()?;
        Self::parse(bytes.get(..length)?).map(|(_, carrier)| carrier)
    }

    /// Parses an rtnetlink message about a link to (index of the interface, state of its link);
    /// `None` if it is cut off or lacks the number of carrier changes.
    pub(super) fn parse(message: &[u8]) -> Option<(u32, Self)> {
        let message = message.get(LINK_HEADER_BYTES..)?;
        let changes = attribute(message.get(INTERFACE..)?, IFLA_CARRIER_CHANGES)?;
        let is_up = u32_at(message, 8)? & RUNNING == RUNNING;
        Some((u32_at(message, 4)?, Carrier { is_up, changes: u32_at(changes, 0)? }))
    }
}

fn request(index: u32) -> Vec<u8> {
    let mut request = Vec::with_capacity(LINK_HEADER_BYTES + INTERFACE);
    request.extend(((LINK_HEADER_BYTES + INTERFACE) as u32).to_ne_bytes());
    request.extend(RTM_GETLINK.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number, port; family and type of device are 0.
    request.extend([0; 12]);
    request.extend(index.to_ne_bytes());
    request.extend([0; 8]);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_link_is_read() {
        let mut reply = vec![0; LINK_HEADER_BYTES];
        reply.extend([0; 4]);
        reply.extend(3_u32.to_ne_bytes());
        reply.extend(0x1_1043_u32.to_ne_bytes());
        reply.extend([0; 4]);
        // An attribute of 8 bytes: length, kind, value.
        reply.extend(8_u16.to_ne_bytes());
        reply.extend(IFLA_CARRIER_CHANGES.to_ne_bytes());
        reply.extend(7_u32.to_ne_bytes());
        assert_eq!(Carrier::parse(&reply), Some((3, Carrier { is_up: true, changes: 7 })));
        reply[24] = 0x02;
        assert_eq!(Carrier::parse(&reply).map(|(_, carrier)| carrier.is_up), Some(false));
        assert_eq!(Carrier::parse(&reply[..30]), None);
        assert_eq!(Carrier::of_interface("no-such-interface"), None);
    }
}
