//! Firewalls, port forwards, NAT, load balancers and other MTUs are measured through or named.

use super::Serving;
use crate::namespaces::{FAR, Link, Namespace, first};
use crate::support::{done, reason, scratch, skip, start, without_numbers};

/// One short case of each benchmark that needs a server and of both protocols of round trips.
pub(super) const ALL: [&str; 4] = [
    "--only network.tcp",
    "--only network.udp --rate 5M",
    "--only network.latency --protocol tcp",
    "--only network.latency --protocol udp",
];

const SHORT: &str = "--samples 1 --sample-time 50ms";

/// Adds nftables rules to a chain of an end, made before.
fn chain(end: &Namespace, kind: &str, rules: &[&str]) {
    let hook = match kind {
        "input" => "type filter hook input priority 0;",
        "prerouting" => "type nat hook prerouting priority -100;",
        _ => "type nat hook postrouting priority 100;",
    };
    end.must(&format!("nft add table inet middlebox; nft 'add chain inet middlebox {kind} {{ {hook} }}'"));
    rules.iter().for_each(|rule| end.must(&format!("nft 'add rule inet middlebox {kind} {rule}'")));
}

/// Asserts that a short run of each of [`ALL`] against `address` is measured, by the link if named.
#[track_caller]
fn all_are_measured(link: &Link, server: &Serving, address: &str) {
    for line in ALL {
        let measurement = link.measured(server, &format!("--server {address} {SHORT} {line}"), 0);
        assert_eq!(measurement["status"], "ok", "{measurement}");
        assert_eq!(measurement["achieved"]["link"], "near0", "{measurement}");
    }
}

/// Why a short run fails, with exit code 5.
#[track_caller]
fn failure(link: &Link, server: &Serving, line: &str) -> String {
    reason(&link.measured(server, &format!("{SHORT} {line}"), 5)).to_owned()
}

#[test]
fn a_link_local_address_is_measured_by_its_interface() {
    let Some(link) = Link::new() else { return };
    let address = |end: &Namespace, device: &str, last: u8| {
        end.run(&format!("ip address add fe80::77:{last}/64 dev {device} nodad"))
    };
    if !address(&link.near, "near0", 1) || !address(&link.far, "far0", 2) {
        return skip("no IPv6 here");
    }
    let server = link.server(&["--bind", "fe80::77:2%far0"]);
    all_are_measured(&link, &server, "fe80::77:2%near0");
    link.measured(&server, &format!("--server [fe80::77:2%near0]:7546 --bind fe80::77:1 {SHORT}"), 0);
}

#[test]
fn a_firewall_that_opens_one_port_number_lets_all_be_measured() {
    let Some((link, server)) = Link::served(&["--parallel"]) else { return };
    chain(&link.far, "input", &["tcp dport != 7546 drop", "udp dport != 7546 drop"]);
    all_are_measured(&link, &server, FAR);
    // Several streams of several clients share the port, and each datagram comes to its own.
    let udp = format!("--server {FAR} --streams 8 {} {SHORT}", ALL[1]);
    let clients: Vec<_> = (0..4).map(|_| start(&mut link.client(&server, &udp))).collect();
    for client in clients {
        let measurement = first(client, 0);
        assert_eq!(measurement["status"], "ok", "{measurement}");
        assert_eq!(measurement["conditions"]["foreign"], 0.0, "{measurement}");
    }
}

#[test]
fn a_server_behind_a_port_forward_is_measured_by_the_port_that_is_dialled() {
    let Some((link, server)) = Link::served(&[]) else { return };
    let to = format!("{FAR}:9000");
    chain(&link.far, "prerouting", &["tcp dport 9000 redirect to :7546"]);
    insta::assert_snapshot!(failure(&link, &server, &format!("--server {to} {}", ALL[1])));
    link.far.must("nft add rule inet middlebox prerouting udp dport 9000 redirect to :7546");
    all_are_measured(&link, &server, &to);
}

#[test]
fn a_client_whose_address_and_ports_are_translated_is_served() {
    let Some((link, server)) = Link::served(&[]) else { return };
    link.near.must("ip address add 10.77.0.9/24 dev near0");
    let translate = "ip protocol {tcp,udp} snat ip to 10.77.0.9:20000-20100 fully-random";
    chain(&link.near, "postrouting", &[translate]);
    all_are_measured(&link, &server, FAR);
    assert_ne!(server.log().matches("10.77.0.9").count(), 0);
}

#[test]
fn a_path_that_loses_full_segments_is_named_with_the_size_that_passes() {
    let Some(link) = Link::new() else { return };
    // Single segments, as a network card sends them, so that rules see their sizes.
    let single = |(end, device): (&Namespace, &str)| {
        end.run(&format!("ip link set dev {device} gso_max_segs 1 gso_max_size 1500"))
    };
    if !link.ends().into_iter().all(single) {
        return skip("ip sets no gso_max_segs here");
    }
    let server = link.server(&[]);
    let mut reasons = Vec::new();
    for (end, direction) in [(&link.far, "up"), (&link.near, "down")] {
        // 1348 bytes of payload with timestamps; TCP_MAXSEG counts them.
        chain(end, "input", &["ip protocol tcp ip length gt 1400 drop"]);
        let tcp = format!("--only network.tcp --direction {direction}");
        reasons.push(failure(&link, &server, &tcp));
        let measured = link.measured(&server, &format!("{SHORT} {tcp} --mss 1360"), 0);
        assert_eq!(measured["status"], "ok", "{measured}");
        reasons.push(failure(&link, &server, "--only network.latency --message 32K"));
        end.must("nft delete table inet middlebox");
    }
    insta::assert_snapshot!(reasons.join("\n"));
}

#[test]
fn a_path_that_loses_large_datagrams_is_named_with_the_size_that_passes() {
    let Some((link, server)) = Link::served(&[]) else { return };
    let mut reasons = Vec::new();
    for (end, direction) in [(&link.far, "up"), (&link.near, "down")] {
        chain(end, "input", &["udp length gt 1000 drop"]);
        let udp = format!("{} --direction {direction}", ALL[1]);
        for line in [udp.as_str(), ALL[3]] {
            reasons.push(failure(&link, &server, &format!("{line} --message 1400")));
        }
        end.must("nft add rule inet middlebox input udp length gt 8 drop");
        reasons.push(failure(&link, &server, &udp));
        end.must("nft delete table inet middlebox");
    }
    insta::assert_snapshot!(reasons.join("\n"));
}

#[test]
fn ends_with_different_mtus_are_measured_by_tcp_and_named_for_datagrams() {
    let Some(link) = Link::new() else { return };
    link.near.must("ip link set near0 mtu 9000");
    let server = link.server(&[]);
    all_are_measured(&link, &server, FAR);
    insta::assert_snapshot!(failure(&link, &server, &format!("{} --message 4000", ALL[1])));
}

#[test]
fn a_load_balancer_before_two_servers_is_named() {
    let Some(link) = Link::new() else { return };
    let dir = scratch();
    let file = dir.path().join("key").to_str().unwrap().to_owned();
    done(dir.path(), "key new key", 0);
    let rules = ["tcp dport 9000 numgen inc mod 2 0 redirect to :7001", "tcp dport 9000 redirect to :7002"];
    chain(&link.far, "prerouting", &rules);
    let tcp = format!("--server {FAR}:9000 --only network.tcp");
    {
        let servers = ["7001", "7002"].map(|port| link.server(&["--port", port, "--key", &file]));
        let loaded = format!("--server {FAR}:9000 --only network.latency --load up");
        let reasons =
            [&tcp, &loaded].map(|line| failure(&link, &servers[0], &format!("{line} --key {file}")));
        insta::assert_snapshot!(reasons.join("\n"));
    }
    // With keys of their own, the second server refuses.
    let servers = ["7001", "7002"].map(|port| link.server(&["--port", port]));
    let why = servers.each_ref().map(|server| failure(&link, server, &tcp));
    assert!(why.iter().any(|why| why.contains("load balancer")), "{why:?}");
}

#[test]
fn a_firewall_before_the_port_of_new_connections_is_named() {
    let Some((link, server)) = Link::served(&[]) else { return };
    chain(&link.far, "input", &["tcp dport != 7546 drop"]);
    let connect = "--only network.latency --protocol connect";
    insta::assert_snapshot!(without_numbers(&failure(&link, &server, connect)));
}
