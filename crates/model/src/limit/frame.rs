//! Sizes of packet and frame headers, in bytes.

use plimsoll_machine::Machine;

use super::Limit;

/// Explanation of a figure past the limit of the link.
pub const PASSED_BY: &str = "the traffic did not cross the link";
/// Overhead of an Ethernet frame: preamble 8, header 14, check 4, gap 12 (IEEE 802.3).
pub const ETHERNET: f64 = 38.0;
/// Part of [`ETHERNET`] that the kernel counts.
pub const ETHERNET_HEADER: f64 = 14.0;
/// IPv4 header (RFC 791).
pub const IPV4_HEADER: f64 = 20.0;
/// IPv6 header (RFC 8200).
pub const IPV6_HEADER: f64 = 40.0;
/// TCP header (RFC 9293).
pub const TCP_HEADER: f64 = 20.0;
/// TCP timestamps option with padding (RFC 7323).
pub const TIMESTAMPS: f64 = 12.0;
/// UDP header (RFC 768).
pub const UDP_HEADER: f64 = 8.0;
/// Minimum frame on the wire: 64 bytes, preamble and gap (IEEE 802.3).
pub const MIN_FRAME_BYTES: f64 = 84.0;

/// Returns the `limit` of a link; in a guest, [`Limit::fact`] is the speed that the hypervisor
/// shows, as a virtual function may reach its card's other functions faster than the line.
pub fn rest_on_shown_speed(limit: Limit, machine: &Machine) -> Limit {
    match machine.virtualisation.is_virtual {
        Some(true) => limit.resting_on_or("the speed of the line that the hypervisor shows", PASSED_BY),
        _ => limit,
    }
}
