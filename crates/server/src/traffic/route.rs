//! This machine's addresses, and the interface of packets to an address by the main routing table
//! (`/proc/net/route`, `/proc/net/ipv6_route`). Rules for other tables are ignored.

use plimsoll_machine::Root;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

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

/// Returns the interface that the routes below `root` give for `address`; `None` without a route.
pub fn interface(root: &Root, address: SocketAddr) -> Option<String> {
    let found = match (address.ip().to_canonical(), address) {
        (IpAddr::V6(_), SocketAddr::V6(scoped)) if scoped.scope_id() > 0 => {
            interface_by_index(&root.text("proc/net/if_inet6").ok()?, scoped.scope_id())
        }
        (IpAddr::V4(to), _) => route_v4(&root.text("proc/net/route").ok()?, to),
        (IpAddr::V6(to), _) => route_v6(&root.text("proc/net/ipv6_route").ok()?, to),
    };
    let harmless = |name: &String| !name.contains('/') && name != "." && name != "..";
    found.map(|name| plimsoll_units::text::shown_within(&name, 32)).filter(harmless)
}

/// Returns the interface for packets to `address`: `lo` if it is local, `None` without a route.
pub fn outgoing_interface(address: SocketAddr) -> Option<String> {
    if is_local(address) { Some(LOOPBACK.to_owned()) } else { interface(&Root::live(), address) }
}

/// Returns the interfaces directly below `interface`: none unless it is a VLAN, a bond, a bridge.
pub(super) fn lower_interfaces(root: &Root, interface: &str) -> Vec<String> {
    let files = root.names(format!("sys/class/net/{interface}")).unwrap_or_default();
    files.iter().filter_map(|file| file.strip_prefix("lower_").map(str::to_owned)).collect()
}

/// Returns this machine's IPv4 addresses except loopback, and global IPv6 ones, from below `root`.
pub fn own_addresses(root: &Root) -> Vec<IpAddr> {
    let v4 = root.text("proc/net/fib_trie").unwrap_or_default();
    let v6 = root.text("proc/net/if_inet6").unwrap_or_default();
    let v4 = local_v4(&v4).into_iter().map(IpAddr::V4);
    v4.chain(v6.lines().filter_map(global_v6).map(IpAddr::V6)).collect()
}

/// Parses `/proc/net/fib_trie`. Returns this machine's addresses except loopback, each once.
fn local_v4(text: &str) -> Vec<Ipv4Addr> {
    let mut found: Vec<Ipv4Addr> = Vec::new();
    let mut last = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last.filter(|address: &Ipv4Addr| !address.is_loopback())
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

/// Parses one line of `/proc/net/if_inet6`. Returns its address, `None` if the scope is not global.
fn global_v6(line: &str) -> Option<Ipv6Addr> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let address = u128::from_str_radix(words.first()?, 16).ok()?;
    (*words.get(3)? == "00").then(|| Ipv6Addr::from(address))
}

/// Returns the name of the interface with `index` in `table`, the text of `/proc/net/if_inet6`.
fn interface_by_index(table: &str, index: u32) -> Option<String> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = u32::from_str_radix(words.get(1)?, 16).ok()?;
        (found == index).then(|| words.get(5).copied().map(str::to_owned))?
    };
    table.lines().find_map(row)
}

/// Flag of a route in use (`RTF_UP`).
const UP: u32 = 1;
/// Flag of a rejecting route (`RTF_REJECT`).
const REJECT: u32 = 0x200;

/// Returns the interface of the most specific route to `to`, if any. Columns of `/proc/net/route`:
/// interface, destination, gateway, flags, …, mask at 7; addresses in hexadecimal, native order.
fn route_v4(table: &str, to: Ipv4Addr) -> Option<String> {
    let to = u32::from_ne_bytes(to.octets());
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let (destination, flags, mask) = (hex(1)?, hex(3)?, hex(7)?);
        let matches = flags & (UP | REJECT) == UP && to & mask == destination;
        matches.then(|| (mask.count_ones(), words.first().copied().unwrap_or_default().to_owned()))
    };
    longest(table.lines().skip(1).filter_map(row))
}

/// Returns the interface of the most specific route to `to`, if any. Columns of
/// `/proc/net/ipv6_route`: destination, prefix length, …, flags at 8, interface at 9.
fn route_v6(table: &str, to: Ipv6Addr) -> Option<String> {
    let to = u128::from_be_bytes(to.octets());
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let destination = u128::from_str_radix(words.first()?, 16).ok()?;
        let prefix = u32::from_str_radix(words.get(1)?, 16).ok().filter(|p| *p <= 128)?;
        let flags = u32::from_str_radix(words.get(8)?, 16).ok()?;
        let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
        let matches = flags & (UP | REJECT) == UP && to & mask == destination & mask;
        matches.then(|| (prefix, words.get(9).copied().unwrap_or_default().to_owned()))
    };
    longest(table.lines().filter_map(row))
}

/// Returns the name in the (prefix length, name) row with the longest prefix, the first of equals.
fn longest(rows: impl Iterator<Item = (u32, String)>) -> Option<String> {
    let best = rows.reduce(|best, row| if row.0 > best.0 { row } else { best });
    best.map(|(_, name)| name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t010010AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
        dead\t0000010A\t00000000\t0201\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
        short\t00\n";

    #[test]
    fn the_longest_prefix_wins() {
        if cfg!(target_endian = "big") {
            return;
        }
        assert_eq!(route_v4(V4, Ipv4Addr::new(8, 8, 8, 8)).unwrap(), "eth0");
        assert_eq!(route_v4(V4, Ipv4Addr::new(10, 9, 9, 9)).unwrap(), "eth1");
        assert_eq!(route_v4(V4, Ipv4Addr::new(10, 1, 9, 9)).unwrap(), "eth1", "a route that refuses is none");
        assert_eq!(route_v4("", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn ipv6_as_well() {
        let zero = "0".repeat(32);
        let table = format!(
            "{zero} 00 {zero} 00 {zero} 00000400 00000001 00000000 00000003 eth0\n\
             fd000000000000000000000000000000 08 {zero} 00 {zero} 00000100 00000001 00000000 00000001 eth1\n\
             {zero} ff {zero} 00 {zero} 00000400 00000001 00000000 00000001 bad\n"
        );
        assert_eq!(route_v6(&table, "2001:db8::1".parse().unwrap()).unwrap(), "eth0");
        assert_eq!(route_v6(&table, "fd00::1".parse().unwrap()).unwrap(), "eth1");
    }

    #[test]
    fn a_link_local_address_names_its_interface() {
        let table = "fe800000000000000000000000000001 0b 40 20 80     eth1\nshort\n";
        assert_eq!(interface_by_index(table, 11).as_deref(), Some("eth1"));
        assert_eq!(interface_by_index(table, 12), None);
    }

    #[test]
    fn own_addresses_are_known() {
        assert!(is_local(SocketAddr::from((Ipv4Addr::LOCALHOST, 9))));
        assert!(is_local("[::ffff:127.0.0.1]:9".parse().unwrap()));
        // Documentation addresses (RFC 5737) belong to no machine.
        assert!(!is_local("192.0.2.1:9".parse().unwrap()));
    }
}
