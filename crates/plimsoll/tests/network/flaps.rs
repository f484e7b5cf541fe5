//! Links that go down and up during a case: its figure is marked with the interface's name.

use serde_json::Value;

use super::Serving;
use super::links::{FAR, Link, Namespace, document};
use crate::support::{skipped, until};

/// Cases that last for seconds, of each benchmark and of each way to make round trips.
const ALL: [&[&str]; 5] = [
    &["--only", "network.tcp"],
    &["--only", "network.tcp", "--direction", "down"],
    &["--only", "network.udp", "--rate", "5M"],
    &["--only", "network.latency", "--protocol", "tcp"],
    &["--only", "network.latency", "--protocol", "udp"],
];

/// Packets that an end has received by this interface.
fn packets(end: &Namespace, device: &str) -> u64 {
    let table = std::fs::read_to_string(format!("/proc/{}/net/dev", end.pid())).unwrap();
    let line = table.lines().find_map(|line| line.trim().strip_prefix(&format!("{device}:")));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap()
}

/// The measurement of a case during which the link of `device` goes down and up again this often.
fn flapped(
    link: &Link,
    server: &Serving,
    arguments: &[&str],
    (end, device): (&Namespace, &str),
    times: usize,
) -> Value {
    let long = ["--samples", "3", "--sample-time", "700ms"];
    let mut before = packets(&link.far, "far0");
    let mut client = link.client_with_sysfs(server, &[&long[..], arguments].concat());
    for _ in 0..times {
        let mut is_over = || client.try_wait().unwrap().is_some();
        until("packets of the case", || is_over() || packets(&link.far, "far0") > before + 200);
        end.must(&format!("ip link set {device} down"));
        end.must(&format!("ip link set {device} up"));
        before = packets(&link.far, "far0");
    }
    document(client, 0)["measurements"][0].clone()
}

/// The warnings about lost links of a measurement.
fn warnings(measurement: &Value) -> Vec<String> {
    let all = measurement["warnings"].as_array().unwrap();
    let flaps = all.iter().filter(|warning| warning["code"] == "link-flapped");
    flaps.map(|warning| warning["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_link_that_goes_and_returns_makes_the_figure_invalid_and_is_named() {
    let Some(link) = Link::new("a_link_that_goes_and_returns_makes_the_figure_invalid_and_is_named") else {
        return;
    };
    let server = link.server(&[]);
    for arguments in ALL {
        let arguments = [&["--server", FAR], arguments].concat();
        // A UDP socket has no route while its own interface is down, and such a case fails.
        let streams = arguments.contains(&"tcp") || arguments.contains(&"network.tcp");
        let flaps = if streams { (&link.near, "near0") } else { (&link.far, "far0") };
        let measurement = flapped(&link, &server, &arguments, flaps, 1);
        assert_eq!(measurement["status"], "invalid", "{measurement}");
        assert!(measurement["reason"].as_str().unwrap().contains("link of near0"), "{measurement}");
        let reported = warnings(&measurement);
        assert!(reported[0].contains("near0 was lost once"), "{reported:?}");
        // Both interfaces of the pair lose their link.
        let servers = reported.iter().filter(|text| text.contains("server's interface far0")).count();
        assert_eq!(servers, 1, "{reported:?}");
    }
    let twice = flapped(&link, &server, &[&["--server", FAR], ALL[2]].concat(), (&link.far, "far0"), 2);
    assert!(warnings(&twice)[0].contains("2 times"), "{twice}");
    // A later case is not about those of before.
    let short = ["--server", FAR, "--samples", "1", "--sample-time", "50ms"];
    let clean = &document(link.client(&server, &short), 0)["measurements"][0];
    assert_eq!((&clean["status"], warnings(clean).len()), (&Value::from("ok"), 0), "{clean}");
}

#[test]
fn a_link_below_the_interface_is_named_and_one_of_the_server_too() {
    let test = "a_link_below_the_interface_is_named_and_one_of_the_server_too";
    let Some(link) = Link::new(test) else { return };
    for (end, device, number) in [(&link.near, "near0", 1), (&link.far, "far0", 2)] {
        let made = ["vlan id 5", "macvlan mode bridge"]
            .iter()
            .any(|kind| end.run(&format!("ip link add link {device} name {device}.5 type {kind}")));
        if !made {
            return skipped(test, "neither VLANs nor macvlan here");
        }
        end.must(&format!("ip address add 10.78.0.{number}/24 dev {device}.5"));
        end.must(&format!("ip link set {device}.5 up"));
    }
    let server = link.server(&[]);
    let arguments = [&["--server", "10.78.0.2"], ALL[2]].concat();
    let below = flapped(&link, &server, &arguments, (&link.near, "near0"), 1);
    assert_eq!(below["status"], "invalid", "{below}");
    assert!(warnings(&below)[0].contains("link of near0 was lost once"), "{below}");
    let far = flapped(&link, &server, &arguments, (&link.far, "far0.5"), 1);
    assert_eq!(far["status"], "invalid", "{far}");
    let reported = warnings(&far);
    assert!(reported.len() == 1 && reported[0].contains("server's interface far0.5"), "{reported:?}");
}

#[test]
fn a_port_of_a_bridge_with_several_is_a_warning() {
    let test = "a_port_of_a_bridge_with_several_is_a_warning";
    let Some(link) = Link::new(test) else { return };
    let near = &link.near;
    if !near.run("ip link add br0 type bridge") || !near.run("ip link add other0 type veth peer name other1")
    {
        return skipped(test, "no bridges here");
    }
    near.must("ip address flush dev near0");
    near.must("ip address add 10.77.0.1/24 dev br0");
    for line in ["near0 master br0", "other0 master br0", "other0 up", "other1 up", "br0 up"] {
        near.must(&format!("ip link set {line}"));
    }
    let server = link.server(&[]);
    let arguments = [&["--server", FAR], ALL[2]].concat();
    let measurement = flapped(&link, &server, &arguments, (near, "other0"), 1);
    assert_eq!(measurement["status"], "ok", "{measurement}");
    let reported = warnings(&measurement);
    assert!(reported.len() == 1 && reported[0].contains("other0"), "{reported:?}");
}
