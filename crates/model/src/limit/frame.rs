//! What a frame of Ethernet has beside the program's bytes.

use super::Limit;
use crate::machine::Machine;

/// What is the matter where a figure is past what the link carries.
pub const PASSED_BY: &str = "the traffic did not cross the link";
/// Ethernet beside the IP packet: preamble and delimiter 8, header 14, check 4, gap 12 (IEEE 802.3).
pub const ETHERNET: f64 = 38.0;
/// Of these what the kernel counts.
pub const ETHERNET_HEADER: f64 = 14.0;
/// The header of IPv4 (RFC 791).
pub const IPV4_HEADER: f64 = 20.0;
/// The header of IPv6 (RFC 8200).
pub const IPV6_HEADER: f64 = 40.0;
/// The header of TCP (RFC 9293).
pub const TCP_HEADER: f64 = 20.0;
/// TCP's option for timestamps, with its padding (RFC 7323).
pub const TIMESTAMPS: f64 = 12.0;
/// The header of UDP (RFC 768).
pub const UDP_HEADER: f64 = 8.0;
/// The shortest frame on the wire: 64 bytes, preamble and gap (IEEE 802.3).
pub const SMALLEST: f64 = 84.0;

/// The same limit by the speed that an interface states. In a guest that is what the hypervisor shows, and a virtual function may reach others
/// of its card faster than the line.
pub fn stated(limit: Limit, machine: &Machine) -> Limit {
    match machine.virtualisation.is_virtual {
        Some(true) => limit.resting_on_or("the speed of the line that the hypervisor shows", PASSED_BY),
        _ => limit,
    }
}
