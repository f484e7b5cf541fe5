//! iperf 2: TCP streams as sent (with `-R` as received), and datagrams as received.

mod stated;

use crate::tools::prelude::*;
use stated::{IperfRow, read, recognises, starts};

/// Returns the streams of a case that it can measure, with a rate for datagrams alone.
fn streams(case: &Case) -> Option<NetworkStreams<'_>> {
    let own = NetworkStreams::of(case);
    let is_known = match case.benchmark() {
        "network.tcp" => own.direction != Flow::Both && own.rate.is_none(),
        "network.udp" => own.direction == Flow::Up && own.streams == 1 && own.rate.is_some(),
        _ => false,
    };
    (is_known && has_only_parameters(case, "message streams direction rate server")).then_some(own)
}

pub(super) const IPERF: RefTool = RefTool {
    name: "iperf",
    checks: "TCP throughput, UDP at a rate (iperf 2)",
    package: Package::Debian("iperf"),
    version: ("-v", "iperf version "),
    port: Some(5001),
    results: ResultFormat::of_text("text and CSV output of iperf 2, TCP and UDP", recognises, starts, read),
    explains: &["network.tcp", "network.udp"],
    declines: |_| "it has TCP in one direction without further options, and one stream of datagrams at a --rate",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let own = streams(case)?;
    let (definition, note) = match own.direction {
        _ if own.rate.is_some() => {
            (Match::Exact, "bits per second as its server received them, at the same rate")
        }
        Flow::Up => (Match::Related, "as sent: what is on its way at the end counts"),
        _ => (Match::Exact, "bits per second as received, the same message size and streams"),
    };
    Some(Pairing::new("goodput", definition, note, 1.5))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let own = streams(&ask.case).ok_or("it has no such test")?;
    let message = own.message.ok_or("the case has no message size")?;
    let (InvocationInput { host, port, seconds, .. }, streams) = (ask, own.streams);
    let mut arguments = words(&format!("-c {host} -p {port} -t {seconds} -l {message} -P {streams} -f b"));
    let mut served = words(&format!("-s -B 127.0.0.1 -p {port}"));
    if own.direction == Flow::Down {
        arguments.push("-R".to_owned());
    }
    if let Some(rate) = own.rate {
        arguments.extend(words(&format!("-u -b {rate:.0}")));
        served.push("-u".to_owned());
    }
    Ok(client_and_server(ask, arguments, ("iperf", served), own.rate.is_some()))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let NetworkStreams { streams, rate, .. } = streams(case).ok_or("it has no such test")?;
    // The sender's own figure comes before this line.
    let part = match text.split_once("Server Report:") {
        _ if rate.is_none() => text,
        found => found.ok_or("its output has no 'Server Report:'")?.1,
    };
    let rows = whole_lines(part).filter_map(IperfRow::of);
    let (sums, single): (Vec<_>, Vec<_>) = rows.partition(|row| row.id.trim_start_matches('*') == "SUM");
    let row = if streams == 1 { single.first() } else { sums.first() };
    let row = row.ok_or("its output has no line of a whole interval in bits/sec")?;
    let mut reading = ToolFigure::of(row.rate, Account::of(row.bytes * 8.0, row.seconds))?;
    reading.compare(&fact::STREAM_COUNT, single.len() as f64, streams as f64, 0.0);
    Ok(reading)
}
