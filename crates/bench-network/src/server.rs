//! Address of a server: `HOST[:PORT]`, IPv4 or IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use serde::{Deserialize, Serialize};

use plimsoll_model::sample::CannotMeasure;
use plimsoll_server::wire::PORT;
use plimsoll_units::text::shown;

pub(super) const SCHEME: &str = "iperf3://";
const IPERF3_PORT: u16 = 5201;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ServerAddress {
    Plimsoll(Address),
    Iperf3(Address),
}

impl ServerAddress {
    /// Parses `HOST[:PORT]` (plimsoll) or `iperf3://HOST[:PORT]`.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        match name.strip_prefix(SCHEME) {
            Some(host) => Address::parse_with(host, IPERF3_PORT).map(Self::Iperf3),
            None => Address::parse(name).map(Self::Plimsoll),
        }
    }
}

/// A host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Host name or address, as given.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Address {
    /// Parses `HOST[:PORT]` or `[ADDRESS]:PORT`. An IPv6 address may end with `%INTERFACE`. The
    /// error text is to follow the name of the option.
    pub fn parse(text: &str) -> Result<Self, String> {
        Address::parse_with(text, PORT)
    }

    /// Parses `HOST[:PORT]` with the default port `usual`; see [`Address::parse`].
    pub fn parse_with(text: &str, usual: u16) -> Result<Self, String> {
        let bad = |why: &str| {
            format!("must be HOST, HOST:PORT or [ADDRESS]:PORT: '{}' is not ({why})", shown(text))
        };
        // A host may be called iperf3.
        let lacks_slashes = text.strip_prefix("iperf3:").is_some_and(|port| port.parse::<u16>().is_err());
        if text.contains("://") || lacks_slashes {
            return Err(bad("the only URL is iperf3://HOST[:PORT]"));
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => {
                (host, Some(rest.strip_prefix(':').ok_or_else(|| bad("text after the ']'"))?))
            }
            None if without_interface(text).parse::<IpAddr>().is_ok() => (text, None),
            None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if let Some((before, port)) = text.rsplit_once(':')
            && host == text
            && (before == "::1" || port == usual.to_string() && before.parse::<Ipv6Addr>().is_ok())
        {
            return Err(bad(&format!("an IPv6 address with a port is [{before}]:{port}")));
        }
        if host.contains(':') && without_interface(host).parse::<Ipv6Addr>().is_err() {
            return Err(bad("only an IPv6 address has several colons"));
        }
        let named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-' | b'%');
        let first = host.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b':');
        if !first || host.len() > 253 || !host.bytes().all(named) {
            return Err(bad("the host is not a name or address"));
        }
        if host.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad("the host is only a number: a port follows its host after a ':'"));
        }
        let is_dotted = host.split('.').count() == 4 && host.bytes().all(|b| b == b'.' || b.is_ascii_digit());
        if is_dotted && host.parse::<Ipv4Addr>().is_err() {
            return Err(bad("no IPv4 address: each of its numbers must be between 0 and 255"));
        }
        if host.parse::<Ipv6Addr>().is_ok_and(|address| address.is_unicast_link_local()) {
            return Err(format!(
                "must be {host}%INTERFACE, with an interface of this machine (see `ip link`): each link has an address {host} of its own"
            ));
        }
        let port = match port {
            Some(port) => {
                let port = port.parse().ok().filter(|p| *p > 0);
                port.ok_or_else(|| bad("the port is not a number from 1 to 65535"))?
            }
            None => usual,
        };
        Ok(Address { host: host.to_owned(), port })
    }

    /// Returns the addresses of the host that can be reached from `from`: those of its IP version,
    /// in the resolver's order. Fails if there are none.
    pub fn resolve(&self, from: Option<IpAddr>) -> Result<Vec<SocketAddr>, CannotMeasure> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        if let (Err(_), Some((address, interface))) = (&found, self.host.split_once('%'))
            && address.parse::<Ipv6Addr>().is_ok()
        {
            return Err(CannotMeasure::environment(format!(
                "the server's address {} names an interface that this machine does not have: {interface}; see `ip link`",
                self.host
            )));
        }
        let found = found.map_err(|e| {
            CannotMeasure::server_failed(format!(
                "the server's name {0} has no address: {e}; see `getent hosts {0}`, or give its address",
                self.host
            ))
        })?;
        let is_usable = |address: &SocketAddr| from.is_none_or(|from| from.is_ipv4() == address.is_ipv4());
        let usable: Vec<SocketAddr> = found.filter(is_usable).collect();
        match usable.is_empty() {
            false => Ok(usable),
            true => Err(CannotMeasure::server_failed(format!(
                "the server {} has no address of the same IP version as --bind; use a --bind address of the server's IP version",
                self.host
            ))),
        }
    }
}

/// Parses an IP address to send from, whose `%INTERFACE` is ignored; `None` for other text.
pub(super) fn source_address(text: &str) -> Option<IpAddr> {
    without_interface(text).parse().ok()
}

fn without_interface(address: &str) -> &str {
    address.split_once('%').map_or(address, |(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_addresses_and_ports_are_read() {
        let read = |text| Address::parse(text).map(|a| (a.host, a.port)).unwrap();
        assert_eq!(read("far"), ("far".to_owned(), PORT));
        assert_eq!(read("far.example:99"), ("far.example".to_owned(), 99));
        assert_eq!(read("192.0.2.1:99"), ("192.0.2.1".to_owned(), 99));
        assert_eq!(read("2001:db8::1"), ("2001:db8::1".to_owned(), PORT));
        assert_eq!(read("[2001:db8::1]"), ("2001:db8::1".to_owned(), PORT));
        assert_eq!(read("[::1]:99"), ("::1".to_owned(), 99));
        assert_eq!(read("fe80::1%eth0"), ("fe80::1%eth0".to_owned(), PORT));
        assert_eq!(read("[fe80::1%eth0.5]:99"), ("fe80::1%eth0.5".to_owned(), 99));
        assert_eq!(read("[fe80::1%2]"), ("fe80::1%2".to_owned(), PORT));
    }

    #[test]
    fn a_link_local_address_requires_an_interface_of_this_machine() {
        for text in ["fe80::1", "[fe80::1]:99", "[febf::1]"] {
            let error = Address::parse(text).unwrap_err();
            assert!(error.contains("%INTERFACE"), "{error}");
        }
        let error = Address::parse("fe80::1%no-such").unwrap().resolve(None).unwrap_err();
        assert_eq!(error.cause, plimsoll_model::sample::FailureCause::Environment);
        let found = Address::parse("fe80::1%lo").unwrap().resolve(None).unwrap();
        assert!(matches!(found.as_slice(), [SocketAddr::V6(v6)] if v6.scope_id() > 0), "{found:?}");
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in
            ["", "-h", ":99", "a:0", "a:65536", "a:b", "[::1]99", "[", "a b", "a;b", "a\u{1b}", "../x", "é"]
        {
            let error = Address::parse(text).unwrap_err();
            assert!(error.starts_with("must be HOST") && !error.contains('\u{1b}'), "{error}");
        }
        let named = Address::parse("iperf3:5201").expect("a host of this name");
        assert_eq!((named.host.as_str(), named.port), ("iperf3", 5201));
        assert!(Address::parse("iperf3:192.0.2.1").unwrap_err().contains("iperf3://HOST"));
        let url = Address::parse("http://far:99").unwrap_err();
        assert!(url.contains("iperf3://") && !url.contains("not a number"), "{url}");
    }

    #[test]
    fn a_name_without_an_address_is_a_far_end_failure() {
        // Reserved for this (RFC 6761).
        let error = Address::parse("no-such-host.invalid").unwrap().resolve(None).unwrap_err();
        assert_eq!(error.cause, plimsoll_model::sample::FailureCause::ServerFailed);
        assert!(error.reason.contains("no-such-host.invalid has no address"), "{error}");
        assert!(Address::parse("127.0.0.1").unwrap().resolve(None).unwrap()[0].ip().is_loopback());
    }
}
