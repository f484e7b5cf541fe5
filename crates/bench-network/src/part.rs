//! Network benchmarks as a subsystem.

use crate::condition::{POLICED, SHAPED};
use crate::fact::LINK;
use plimsoll_bench_api::prelude::*;
use plimsoll_bench_api::setting::{Setting, SettingKind};
use plimsoll_model::job::network::{Flow, NetworkStreams};

/// The network benchmarks.
pub static SUBSYSTEM: Subsystem = Subsystem {
    name: "network",
    benchmarks: &[&crate::Tcp, &crate::Udp, &crate::NetworkLatency],
    title: "Network",
    synonyms: &["net", "tcp", "udp"],
    about: "TCP, UDP, latency (like iperf3)",
    context: |_, first| context(first),
    asked_first: &["server", "key", "protocol", "streams", "direction", "rate"],
    help: &[
        (
            "message",
            "bytes of a message (one send), such as 8K [default: network.tcp 128K, network.udp 1K, network.latency 1]",
        ),
        (
            "affinity",
            "network.latency without --server: CPUs of client and server: spread (two sockets, or two cores), compact (one core), or a list such as 0,1 [default: the fastest pair in a trial]",
        ),
        (
            "rate",
            "network.udp: target rate of all streams together, in bit/s, such as 1G [default: as fast as possible]",
        ),
        (
            "volume",
            "end a sample after this many bytes, such as 1G, per stream (with --scaling strong: in total), instead of after --sample-time",
        ),
        (
            "count",
            "end a sample after this many messages per stream (with --scaling strong: in total), instead of after --sample-time",
        ),
        (
            "scaling",
            "with --volume or --count: weak (each stream moves that amount) or strong (the streams divide it) [default: weak]",
        ),
    ],
    cpus: |machine, _| spread_cpus(machine, 2),
    instead_of_threads: Some("a stream has a thread of its own; use --streams"),
    uses_interfaces: true,
    has_percentiles: true,
    setting: |measurement, _| setting(measurement),
    // The server and the path to it have other users.
    is_alone: |_, _| false,
    ..Subsystem::USUAL
};

fn context(first: &Measurement) -> Vec<String> {
    let link = first.achieved.get(&LINK).map(|link| match link.as_str() {
        "loopback" => "loopback: memory, not a link".to_owned(),
        link => link.to_owned(),
    });
    link.into_iter().collect()
}

/// Returns the kernel's rate limit in the case's direction; `None` for none or both directions.
fn setting(measurement: &Measurement) -> Option<Setting> {
    let unit = measurement.headline()?.unit;
    let (kind, condition) = match NetworkStreams::of(&measurement.case).direction {
        Flow::Up => (SettingKind::Shaper, SHAPED),
        Flow::Down => (SettingKind::Policer, POLICED),
        Flow::Both => return None,
    };
    let rate = measurement.conditions.more.get(&condition).filter(|_| unit == Unit::BitPerSecond)?;
    Some(Setting::of_rate(kind, Quantity { value: rate, unit }))
}
