//! State and changes of an interface's link, from rtnetlink (linux/rtnetlink.h, linux/if_link.h).

use serde::{Deserialize, Serialize};

use super::netlink::{self, MESSAGE_HEADER_BYTES, attribute, u32_at};

const RTM_GETLINK: u16 = 18;
/// Length of `struct ifinfomsg`.
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
        let (socket, index) = netlink::open_for(interface)?;
        let reply = netlink::ask(&socket, RTM_GETLINK, &[0, index, 0, 0])?;
        Self::parse(&reply).map(|(_, carrier)| carrier)
    }

    /// Parses an rtnetlink message about a link to (index of the interface, state of its link);
    /// `None` if it is cut off or lacks the number of carrier changes.
    pub(super) fn parse(message: &[u8]) -> Option<(u32, Self)> {
        let message = message.get(MESSAGE_HEADER_BYTES..)?;
        let changes = attribute(message.get(INTERFACE..)?, IFLA_CARRIER_CHANGES)?;
        let is_up = u32_at(message, 8)? & RUNNING == RUNNING;
        Some((u32_at(message, 4)?, Carrier { is_up, changes: u32_at(changes, 0)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_link_is_read() {
        let mut reply = vec![0; MESSAGE_HEADER_BYTES];
        reply.extend([0, 3, 0x1_1043, 0].map(u32::to_ne_bytes).concat());
        // An attribute of 8 bytes: length, kind, value.
        reply.extend([8, IFLA_CARRIER_CHANGES].map(u16::to_ne_bytes).concat());
        reply.extend(7_u32.to_ne_bytes());
        assert_eq!(Carrier::parse(&reply), Some((3, Carrier { is_up: true, changes: 7 })));
        reply[24] = 0x02;
        assert_eq!(Carrier::parse(&reply).map(|(_, carrier)| carrier.is_up), Some(false));
        assert_eq!(Carrier::parse(&reply[..30]), None);
        assert_eq!(Carrier::of_interface("no-such-interface"), None);
    }
}
