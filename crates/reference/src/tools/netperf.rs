//! netperf: TCP streams in one direction as received, and mean round trips by TCP or UDP.

mod stated;

use super::sockperf;
use crate::tools::prelude::*;
use stated::{read, recognises, starts};

const STREAM_KEYS: &str = "REMOTE_RECV_THROUGHPUT,LOCAL_RECV_THROUGHPUT,LOCAL_SEND_SIZE,REMOTE_SEND_SIZE,\
    THROUGHPUT,ELAPSED_TIME,REMOTE_BYTES_RECVD,LOCAL_BYTES_RECVD";
const ROUND_TRIP_KEYS: &str = "RT_LATENCY,MEAN_LATENCY,P50_LATENCY,P99_LATENCY,REQUEST_SIZE,RESPONSE_SIZE,\
    ELAPSED_TIME,LOCAL_BYTES_RECVD";

/// Returns netperf's test for `case`, and the output keys of result, bytes and message size.
fn test(case: &Case) -> Option<[&'static str; 4]> {
    has_only_parameters(case, "message streams direction protocol mode server affinity").then_some(())?;
    let NetworkStreams { streams, direction, .. } = NetworkStreams::of(case);
    (streams == 1).then_some(())?;
    match (case.benchmark(), direction) {
        ("network.tcp", Flow::Up) => {
            Some(["TCP_STREAM", "REMOTE_RECV_THROUGHPUT", "REMOTE_BYTES_RECVD", "LOCAL_SEND_SIZE"])
        }
        // The server sends.
        ("network.tcp", Flow::Down) => {
            Some(["TCP_MAERTS", "LOCAL_RECV_THROUGHPUT", "LOCAL_BYTES_RECVD", "REMOTE_SEND_SIZE"])
        }
        ("network.latency", _) => {
            let name = if sockperf::protocol(case)? == TripProtocol::Tcp { "TCP_RR" } else { "UDP_RR" };
            Some([name, "RT_LATENCY", "LOCAL_BYTES_RECVD", "REQUEST_SIZE"])
        }
        _ => None,
    }
}

pub(super) const NETPERF: RefTool = RefTool {
    name: "netperf",
    checks: "TCP throughput of one stream, TCP and UDP round trips",
    server: Some("netserver"),
    package: Package::DebianNonFree("netperf"),
    version: ("-V", "Netperf version "),
    port: Some(12_865),
    results: ResultFormat::of_text("text output: tables, KEY=VALUE and CSV", recognises, starts, read),
    explains: &["network"],
    declines: |_| "it has one TCP stream in one direction, and single round trips by TCP and UDP that block",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    test(case)?;
    let (metric, note) = match case.benchmark() {
        "network.tcp" => ("goodput", "bits per second as received, the same message size"),
        _ => ("rtt", "mean of whole round trips, as their number in a second gives it"),
    };
    Some(Pairing::new(metric, Match::Exact, note, 1.3))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let [name, ..] = test(&ask.case).ok_or("it has no such test")?;
    let message = NetworkStreams::of(&ask.case).message.ok_or("the case has no message size")?;
    let (option, size, keys) = match name {
        "TCP_STREAM" => ("-m", message.to_string(), STREAM_KEYS),
        "TCP_MAERTS" => ("-m", format!(",{message}"), STREAM_KEYS),
        _ => ("-r", format!("{message},{message}"), ROUND_TRIP_KEYS),
    };
    let (InvocationInput { host, port, .. }, time) = (ask, whole_seconds(ask));
    let family = if ask.is_local { "-4" } else { "" };
    let line = format!("{family} -H {host} -p {port} -l {time} -t {name} -P 0 -- {option} {size} -k {keys}");
    let served = words(&format!("-D -4 -L 127.0.0.1 -p {port}"));
    Ok(client_and_server(ask, words(&line), ("netserver", served), false))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let [_, figure, moved, key] = test(case).ok_or("it has no such test")?;
    let (factor, amount) = match case.benchmark() {
        "network.tcp" => (1e6, number_of(text, moved)? * 8.0),
        _ => (1e-6, number_of(text, moved)? / number_of(text, "RESPONSE_SIZE")?),
    };
    let account = Account::of(amount, Seconds::printed(value_of(whole_lines(text), "ELAPSED_TIME")?)?);
    let mut reading = ToolFigure::of(number_of(text, figure)? * factor, account)?;
    let used = number_of(text, key)?;
    let wanted = NetworkStreams::of(case).message.map_or(used, |wanted| wanted as f64);
    reading.compare(&fact::MESSAGE_BYTES, used, wanted, 0.0);
    Ok(reading)
}
