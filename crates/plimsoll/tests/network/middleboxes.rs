//! Between client and server: firewalls, port forwards, NAT, load balancers, other MTUs. The
//! benchmarks measure through them, or the reason names them.

use serde_json::Value;

use super::links::{FAR, Link, Namespace, document};
use crate::support::{scratch, skipped, without_numbers};

/// One short case of each benchmark that needs a server and of both protocols of round trips.
const ALL: [&[&str]; 4] = [
    &["--only", "network.tcp"],
    &["--only", "network.udp", "--rate", "5M"],
    &["--only", "network.latency", "--protocol", "tcp"],
    &["--only", "network.latency", "--protocol", "udp"],
];

const SHORT: [&str; 4] = ["--samples", "1", "--sample-time", "50ms"];

/// Adds nftables rules to a chain of an end, made before.
fn chain(end: &Namespace, kind: &str, rules: &[&str]) {
    end.must("nft add table inet middlebox");
    end.must(&format!("nft add chain inet middlebox {kind} {{ {} }}", hook(kind)));
    for rule in rules {
        end.must(&format!("nft add rule inet middlebox {kind} {rule}"));
    }
}

fn hook(kind: &str) -> &'static str {
    match kind {
        "input" => "type filter hook input priority 0;",
        "prerouting" => "type nat hook prerouting priority -100;",
        _ => "type nat hook postrouting priority 100;",
    }
}

/// The measurements of a short run of each of [`ALL`] against `server`, which must end with 0.
fn all_measured(link: &Link, key_of: &super::Serving, server: &str) -> Vec<Value> {
    let one = |arguments: &&[&str]| {
        let flags = [&["--server", server], &SHORT[..], arguments].concat();
        document(link.client_of(key_of, &flags), 0)["measurements"][0].clone()
    };
    ALL.iter().map(one).collect()
}

#[test]
fn a_link_local_address_is_measured_by_its_interface() {
    let Some(link) = Link::new("a_link_local_address_is_measured_by_its_interface") else { return };
    let address = |end: &Namespace, device: &str, last: u8| {
        end.run(&format!("ip address add fe80::77:{last}/64 dev {device} nodad"))
    };
    if !address(&link.near, "near0", 1) || !address(&link.far, "far0", 2) {
        return skipped("a_link_local_address_is_measured_by_its_interface", "no IPv6 here");
    }
    let server = link.server(&["--bind", "fe80::77:2%far0"]);
    for measurement in all_measured(&link, &server, "fe80::77:2%near0") {
        assert_eq!(measurement["status"], "ok", "{measurement}");
        assert_eq!(measurement["achieved"]["link"], "near0", "{measurement}");
    }
    let flags = [&["--server", "[fe80::77:2%near0]:7546", "--bind", "fe80::77:1"], &SHORT[..]].concat();
    document(link.client(&server, &flags), 0);
}

#[test]
fn a_firewall_that_opens_one_port_number_lets_all_be_measured() {
    let Some(link) = Link::new("a_firewall_that_opens_one_port_number_lets_all_be_measured") else { return };
    let server = link.server(&["--parallel"]);
    chain(&link.far, "input", &["tcp dport != 7546 drop", "udp dport != 7546 drop"]);
    for measurement in all_measured(&link, &server, FAR) {
        assert_eq!(measurement["status"], "ok", "{measurement}");
    }
    // Several streams of several clients share the port, and each datagram comes to its own.
    let udp = [&["--server", FAR, "--streams", "8"], ALL[1], &SHORT[..]].concat();
    let clients: Vec<_> = (0..4).map(|_| link.client_of(&server, &udp)).collect();
    for client in clients {
        let measurement = &document(client, 0)["measurements"][0];
        assert_eq!(measurement["status"], "ok", "{measurement}");
        assert_eq!(measurement["conditions"]["foreign"], 0.0, "{measurement}");
    }
}

#[test]
fn a_server_behind_a_port_forward_is_measured_by_the_port_that_is_dialled() {
    let test = "a_server_behind_a_port_forward_is_measured_by_the_port_that_is_dialled";
    let Some(link) = Link::new(test) else { return };
    let server = link.server(&[]);
    let to = format!("{FAR}:9000");
    chain(&link.far, "prerouting", &["tcp dport 9000 redirect to :7546"]);
    let udp = [&["--server", &to], ALL[1], &SHORT[..]].concat();
    let failed = document(link.client_of(&server, &udp), 5);
    insta::assert_snapshot!(failed["measurements"][0]["reason"].as_str().unwrap());
    link.far.must("nft add rule inet middlebox prerouting udp dport 9000 redirect to :7546");
    for measurement in all_measured(&link, &server, &to) {
        assert_eq!(measurement["status"], "ok", "{measurement}");
    }
}

#[test]
fn a_client_whose_address_and_ports_are_translated_is_served() {
    let Some(link) = Link::new("a_client_whose_address_and_ports_are_translated_is_served") else { return };
    let server = link.server(&[]);
    link.near.must("ip address add 10.77.0.9/24 dev near0");
    let translate = "ip protocol {tcp,udp} snat ip to 10.77.0.9:20000-20100 fully-random";
    chain(&link.near, "postrouting", &[translate]);
    for measurement in all_measured(&link, &server, FAR) {
        assert_eq!(measurement["status"], "ok", "{measurement}");
    }
    assert_ne!(server.log().matches("10.77.0.9").count(), 0);
}

/// Why a short run fails, with exit code 5.
fn reason(link: &Link, server: &super::Serving, arguments: &[&str]) -> String {
    let failed = document(link.client_of(server, &[arguments, &SHORT[..]].concat()), 5);
    failed["measurements"][0]["reason"].as_str().unwrap().to_owned()
}

/// Sends single segments, as a network card does, so that rules see their sizes.
fn without_offload(link: &Link) -> bool {
    [(&link.near, "near0"), (&link.far, "far0")]
        .iter()
        .all(|(end, device)| end.run(&format!("ip link set dev {device} gso_max_segs 1 gso_max_size 1500")))
}

#[test]
fn a_path_that_loses_full_segments_is_named_with_the_size_that_passes() {
    let test = "a_path_that_loses_full_segments_is_named_with_the_size_that_passes";
    let Some(link) = Link::new(test) else { return };
    if !without_offload(&link) {
        return skipped(test, "ip sets no gso_max_segs here");
    }
    let server = link.server(&[]);
    let mut reasons = Vec::new();
    for (end, direction) in [(&link.far, "up"), (&link.near, "down")] {
        // 1348 bytes of payload with timestamps; TCP_MAXSEG counts them.
        chain(end, "input", &["ip protocol tcp ip length gt 1400 drop"]);
        let tcp = ["--server", FAR, "--only", "network.tcp", "--direction", direction];
        reasons.push(reason(&link, &server, &tcp));
        let measured =
            document(link.client_of(&server, &[&tcp[..], &SHORT[..], &["--mss", "1360"]].concat()), 0);
        assert_eq!(measured["measurements"][0]["status"], "ok", "{measured}");
        let trips = ["--server", FAR, "--only", "network.latency", "--message", "32K"];
        reasons.push(reason(&link, &server, &trips));
        end.must("nft delete table inet middlebox");
    }
    insta::assert_snapshot!(reasons.join("\n"));
}

#[test]
fn a_path_that_loses_large_datagrams_is_named_with_the_size_that_passes() {
    let test = "a_path_that_loses_large_datagrams_is_named_with_the_size_that_passes";
    let Some(link) = Link::new(test) else { return };
    let server = link.server(&[]);
    let udp =
        |direction| ["--server", FAR, "--only", "network.udp", "--rate", "5M", "--direction", direction];
    let trips = ["--server", FAR, "--only", "network.latency", "--protocol", "udp"];
    let mut reasons = Vec::new();
    for (end, direction) in [(&link.far, "up"), (&link.near, "down")] {
        chain(end, "input", &["udp length gt 1000 drop"]);
        for arguments in [&udp(direction)[..], &trips] {
            reasons.push(reason(&link, &server, &[arguments, &["--message", "1400"]].concat()));
        }
        end.must("nft add rule inet middlebox input udp length gt 8 drop");
        reasons.push(reason(&link, &server, &udp(direction)));
        end.must("nft delete table inet middlebox");
    }
    insta::assert_snapshot!(reasons.join("\n"));
}

#[test]
fn ends_with_different_mtus_are_measured_by_tcp_and_named_for_datagrams() {
    let test = "ends_with_different_mtus_are_measured_by_tcp_and_named_for_datagrams";
    let Some(link) = Link::new(test) else { return };
    link.near.must("ip link set near0 mtu 9000");
    let server = link.server(&[]);
    for measurement in all_measured(&link, &server, FAR) {
        assert_eq!(measurement["status"], "ok", "{measurement}");
    }
    let udp = ["--server", FAR, "--only", "network.udp", "--rate", "5M", "--message", "4000"];
    insta::assert_snapshot!(reason(&link, &server, &udp));
}

#[test]
fn a_load_balancer_before_two_servers_is_named() {
    let Some(link) = Link::new("a_load_balancer_before_two_servers_is_named") else { return };
    let dir = scratch();
    let file = dir.path().join("key").to_str().unwrap().to_owned();
    crate::support::ended(crate::support::plimsoll(dir.path()).args(["key", "new", &file]), 0);
    let rules = ["tcp dport 9000 numgen inc mod 2 0 redirect to :7001", "tcp dport 9000 redirect to :7002"];
    chain(&link.far, "prerouting", &rules);
    let balanced = format!("{FAR}:9000");
    let tcp = ["--server", &balanced, "--only", "network.tcp"];
    {
        let servers = ["7001", "7002"].map(|port| link.server(&["--port", port, "--key", &file]));
        let loaded = ["--server", &balanced, "--only", "network.latency", "--load", "up"];
        let reasons = [&tcp[..], &loaded]
            .map(|arguments| reason(&link, &servers[0], &[arguments, &["--key", &file]].concat()));
        insta::assert_snapshot!(reasons.join("\n"));
    }
    // With keys of their own, the second server refuses.
    let servers = ["7001", "7002"].map(|port| link.server(&["--port", port]));
    let why = servers.each_ref().map(|server| {
        let failed = document(link.client_of(server, &[&tcp[..], &SHORT[..]].concat()), 5);
        failed["measurements"][0]["reason"].as_str().unwrap().to_owned()
    });
    assert!(why.iter().any(|why| why.contains("load balancer")), "{why:?}");
}

#[test]
fn a_firewall_before_the_port_of_new_connections_is_named() {
    let Some(link) = Link::new("a_firewall_before_the_port_of_new_connections_is_named") else { return };
    let server = link.server(&[]);
    chain(&link.far, "input", &["tcp dport != 7546 drop"]);
    let connect = ["--server", FAR, "--only", "network.latency", "--protocol", "connect"];
    insta::assert_snapshot!(without_numbers(&reason(&link, &server, &connect)));
}
