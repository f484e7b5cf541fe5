//! What may stand between client and server, in network namespaces: firewalls, port forwards, address translation, load
//! balancers, links with other MTUs. Either the benchmarks measure through it, or the reason names it.

use serde_json::Value;

use super::links::{FAR, Link, Namespace, document};
use crate::support::skipped;

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

/// The measurements of one short run of each of [`ALL`] against `server`, which all must end with 0.
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
    let reason = failed["measurements"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("UDP port 9000"), "{reason}");
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
    assert!(server.log().contains("10.77.0.9"));
}
