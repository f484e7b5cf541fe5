//! Redaction of documents with many names.

use plimsoll_model::measurement::{MetricResult, ToolResult};
use proptest::prelude::*;

use super::names::Names;
use crate::document::{Finding, Node, Run};
use crate::fixture;

const SECRETS: &[&str] = &[
    "db7.example.org",
    "db7",
    "10.1.2.3",
    "fe80::5054:ff:fe12:3456",
    "52:54:00:12:34:56",
    "nvme-SAMSUNG_S4EWNX0M",
    "6f1d2c3b-1111-4222-8333-444455556666",
    "4f0c9a7711ab22cd33ef44aa55bb66cc",
    "alice",
    "far.example.net",
    "gone.example.org",
];

fn telling() -> Run {
    let mut run = fixture::run();
    run.machine.host = Some("db7.example.org".to_owned());
    run.nodes = vec![Node { name: "db7.example.org".to_owned(), machine: None }];
    let route = "db7: no route from 10.1.2.3:80 to fe80::5054:ff:fe12:3456, mac 52:54:00:12:34:56.";
    let reason = "/home/alice/x on /dev/disk/by-id/nvme-SAMSUNG_S4EWNX0M UUID=6f1d2c3b-1111-4222-8333-444455556666 docker-4f0c9a7711ab22cd33ef44aa55bb66cc.scope";
    for measurement in &mut run.measurements {
        measurement.node = "db7.example.org".to_owned();
        measurement.warnings.push(fixture::note("other", route));
        measurement.reason = Some(reason.to_owned());
    }
    let far = "network.tcp/message=64K/streams=1/direction=up/server=far.example.net:5201";
    let unit = plimsoll_units::quantity::Unit::BitPerSecond;
    let mut remote = fixture::measured(far, "goodput", unit, 1e9);
    remote.warnings.push(fixture::note("x", &format!("{far} was slow")));
    let by_address = far.replace("far.example.net", "10.1.2.3");
    run.measurements.extend([remote, fixture::measured(&by_address, "goodput", unit, 1e9)]);
    let why = "Could not resolve hostname jump7";
    let evidence = serde_json::json!({ "node": "gone.example.org", "why": why });
    let text = format!("gone.example.org (rank 1) was lost: {why}");
    run.findings.push(Finding::new("machine-lost", text, evidence));
    run
}

#[test]
fn nothing_that_names_the_machine_stays() {
    let run = telling();
    let redacted = run.redacted().unwrap();
    let text = serde_json::to_string(&redacted).unwrap();
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert_eq!(redacted.machine.host.as_deref(), Some("host-1"));
    assert_eq!([&redacted.nodes[0].name, &redacted.measurements[0].node], ["host-1"; 2]);
    let warning = &redacted.measurements[0].warnings.last().unwrap().text;
    assert_eq!(warning, "host-1: no route from address-1:80 to address, mac mac.");
    let reason = redacted.measurements[0].reason.as_deref().unwrap();
    assert_eq!(reason, "/home/user/path on /dev/disk/by-id/device UUID=uuid docker-identifier.scope");
    let [.., far, _] = &redacted.measurements[..] else { panic!("{text}") };
    let server = far.case.word("server").unwrap();
    assert!(server.starts_with("host-") && !server.starts_with("host-1:"), "{server}");
    assert!(server.ends_with(":5201"), "{server}");
    assert_eq!(far.warnings[0].text, format!("{} was slow", far.case.id()));
    let index = run.measurements.len() - 2;
    let mut texts = [run.measurements[index].warnings[0].text.clone(), "DB7: 1 s".to_owned()];
    run.redact(&mut texts);
    assert_eq!(texts, [far.warnings[0].text.clone(), "host-1: 1 s".to_owned()]);
}

#[test]
fn what_was_measured_stays() {
    // Parsed again, because fields that are not written are not compared.
    let run: Run = serde_json::from_str(&serde_json::to_string(&telling()).unwrap()).unwrap();
    let redacted = run.redacted().unwrap();
    assert_eq!((&redacted.id, &redacted.machine.id), (&run.id, &run.machine.id));
    // Limits and tools may name the server.
    let figures = |m: &MetricResult| MetricResult {
        limit: None,
        other_limits: Vec::new(),
        tool_results: Vec::new(),
        ..m.clone()
    };
    for (a, b) in run.measurements.iter().zip(&redacted.measurements) {
        let [was, is] = [a, b].map(|m| m.metrics.iter().map(figures).collect::<Vec<_>>());
        assert_eq!((was, &a.conditions, a.status), (is, &b.conditions, b.status));
    }
    assert_eq!(redacted.redacted().unwrap(), redacted, "a redacted run has nothing to redact");
}

#[test]
fn loopback_versions_times_and_numbers_are_no_addresses() {
    let names = Names::default();
    for text in [
        "127.0.0.1:5201 and [::1]:80",
        "fio 3.33, kernel 6.1.0-13, 12:30:45, 0.0.0.0:0",
        "1234567890123456789 bytes; std::net",
        "cpu.peak/op=fma/type=f64/threads=2",
    ] {
        assert_eq!(names.text(text), text);
    }
    assert_eq!(names.text("[2001:db8::1]:80 192.0.2.1/24"), "[address]:80 address/24");
}

#[test]
fn a_host_called_like_a_word_of_the_document_keeps_it_readable() {
    let words = |run: &Run| -> Vec<String> {
        let metrics = run.measurements.iter().flat_map(|m| &m.metrics);
        let limit = |m: &MetricResult| m.limit.as_ref().map(|l| format!("{:?} {:?}", l.kind, l.source));
        let tools = |m: &MetricResult| m.tool_results.iter().map(|p| p.tool.clone()).collect::<String>();
        metrics.map(|m| format!("{} {:?} {}", m.name, limit(m), tools(m))).collect()
    };
    let mut run = fixture::run();
    run.measurements[0].metrics[0].tool_results = vec![ToolResult::of(&fixture::tool_run("fio", &[]), 0.03)];
    assert!(words(&run)[0].ends_with(" fio"), "{:?}", words(&run));
    let names = "cpu rate latency bus_bandwidth fio ceiling derived ok higher plimsoll.run/1 x \u{1b}[31m<b>";
    for name in names.split(' ') {
        let mut named = run.clone();
        named.machine.host = Some(name.to_owned());
        let redacted = named.redacted().unwrap();
        assert_eq!(redacted.machine.host.as_deref(), Some("host-1"), "{name}");
        assert_eq!(redacted.measurements[0].case, run.measurements[0].case);
        assert_eq!(redacted.measurements[0].status, run.measurements[0].status);
        assert_eq!(words(&redacted), words(&run), "{name}");
    }
}

proptest! {
    #[test]
    fn any_text_is_walked(text in "\\PC{0,80}", host in "\\PC{1,12}") {
        let mut run = fixture::run();
        run.machine.host = Some(host);
        run.measurements[0].reason = Some(text);
        if let Ok(redacted) = run.redacted() {
            prop_assert_eq!(redacted.measurements.len(), run.measurements.len());
        }
    }
}
