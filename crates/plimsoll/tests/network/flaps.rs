//! Links that go down and up during a case: its figure is marked with the interface's name.

use serde_json::Value;

use super::Serving;
use super::middleboxes::ALL;
use crate::namespaces::{FAR, Link, Namespace, first};
use crate::support::{list, reason, skip, start, text, until};

/// The measurement of a case during which the link of `device` goes down and up again this often.
fn flapped(
    link: &Link,
    server: &Serving,
    line: &str,
    (end, device): (&Namespace, &str),
    times: usize,
) -> Value {
    let mut before = link.far.packets("far0");
    let line = format!("--samples 3 --sample-time 700ms {line}");
    let mut client = start(&mut link.client_with_sysfs(server, &line));
    for _ in 0..times {
        let mut is_over = || client.try_wait().unwrap().is_some();
        until("packets of the case", || is_over() || link.far.packets("far0") > before + 200);
        end.must(&format!("ip link set {device} down; ip link set {device} up"));
        before = link.far.packets("far0");
    }
    first(client, 0)
}

/// The links that a measurement has warnings about, each with how many times it was lost.
fn lost(measurement: &Value) -> Vec<&str> {
    let flaps = list(&measurement["warnings"]).iter().filter(|warning| warning["code"] == "link-flapped");
    let about = flaps.map(|warning| text(&warning["text"]).strip_prefix("the link of ").unwrap());
    about.map(|words| words.split_once(" during the case").unwrap().0).collect()
}

#[test]
fn a_link_that_goes_and_returns_makes_the_figure_invalid_and_is_named() {
    let Some((link, server)) = Link::served(&[]) else { return };
    for line in ALL.into_iter().chain(["--only network.tcp --direction down"]) {
        // A UDP socket has no route while its own interface is down, and such a case fails.
        let streams = line.contains("tcp");
        let flaps = if streams { (&link.near, "near0") } else { (&link.far, "far0") };
        let measurement = flapped(&link, &server, &format!("--server {FAR} {line}"), flaps, 1);
        assert_eq!(measurement["status"], "invalid", "{measurement}");
        assert!(reason(&measurement).starts_with("the link of near0 was lost once "), "{measurement}");
        // Both interfaces of the pair lose their link.
        assert_eq!(lost(&measurement), ["near0 was lost once", "the server's interface far0 was lost once"]);
    }
    let udp = format!("--server {FAR} {}", ALL[1]);
    let twice = flapped(&link, &server, &udp, (&link.far, "far0"), 2);
    assert_eq!(lost(&twice)[0], "near0 was lost 2 times");
    // A later case is not about those of before.
    let clean = link.measured(&server, "--samples 1 --sample-time 50ms", 0);
    assert_eq!((&clean["status"], lost(&clean).len()), (&Value::from("ok"), 0), "{clean}");
}

#[test]
fn a_link_below_the_interface_is_named_and_one_of_the_server_too() {
    let Some(link) = Link::new() else { return };
    for ((end, device), number) in link.ends().into_iter().zip(1..) {
        let made = ["vlan id 5", "macvlan mode bridge"]
            .iter()
            .any(|kind| end.run(&format!("ip link add link {device} name {device}.5 type {kind}")));
        if !made {
            return skip("neither VLANs nor macvlan here");
        }
        end.must(&format!("ip address add 10.78.0.{number}/24 dev {device}.5; ip link set {device}.5 up"));
    }
    let server = link.server(&[]);
    let udp = format!("--server 10.78.0.2 {}", ALL[1]);
    let below = flapped(&link, &server, &udp, (&link.near, "near0"), 1);
    assert_eq!(below["status"], "invalid", "{below}");
    assert_eq!(lost(&below)[0], "near0 was lost once");
    let far = flapped(&link, &server, &udp, (&link.far, "far0.5"), 1);
    assert_eq!(far["status"], "invalid", "{far}");
    assert_eq!(lost(&far), ["the server's interface far0.5 was lost once"], "{far}");
}

#[test]
fn a_port_of_a_bridge_with_several_is_a_warning() {
    let Some(link) = Link::new() else { return };
    let near = &link.near;
    if !near.run("ip link add br0 type bridge") || !near.run("ip link add other0 type veth peer name other1")
    {
        return skip("no bridges here");
    }
    near.must("ip address flush dev near0; ip address add 10.77.0.1/24 dev br0");
    for line in ["near0 master br0", "other0 master br0", "other0 up", "other1 up", "br0 up"] {
        near.must(&format!("ip link set {line}"));
    }
    let server = link.server(&[]);
    let udp = format!("--server {FAR} {}", ALL[1]);
    let measurement = flapped(&link, &server, &udp, (near, "other0"), 1);
    assert_eq!(measurement["status"], "ok", "{measurement}");
    assert_eq!(lost(&measurement), ["other0 was lost once"], "{measurement}");
}
