//! iperf 2: TCP streams as sent (with `-R` as received), and datagrams as received.

mod stated;

use crate::tools::prelude::*;
use stated::{IperfRow, read, recognises, starts};

#[derive(Clone, Copy, PartialEq)]
enum IperfTest {
    Up,
    Down,
    Datagrams,
}

fn test(case: &Case) -> Option<IperfTest> {
    has_only_parameters(case, "message streams direction rate server").then_some(())?;
    match (case.benchmark(), case.word("direction")) {
        ("network.tcp", None | Some("up")) => Some(IperfTest::Up),
        ("network.tcp", Some("down")) => Some(IperfTest::Down),
        ("network.udp", None | Some("up")) if case.number("streams").unwrap_or(1) == 1 => {
            case.rate("rate").map(|_| IperfTest::Datagrams)
        }
        _ => None,
    }
}

pub(super) const IPERF: RefTool = RefTool {
    name: "iperf",
    checks: "TCP throughput, UDP at a rate (iperf 2)",
    programs: &["iperf"],
    package: Package::Debian("iperf"),
    version_arguments: &["-v"],
    version_after: "iperf version ",
    port: Some(5001),
    results: ResultFormat::of_text("text and CSV output of iperf 2, TCP and UDP", recognises, starts, read),
    declines: |case| {
        matches!(case.benchmark(), "network.tcp" | "network.udp").then_some(
            "it has TCP in one direction without further options, and one stream of datagrams at a --rate",
        )
    },
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let (definition, note) = match test(case)? {
        IperfTest::Up => (Match::Related, "as sent: what is on its way at the end counts"),
        IperfTest::Down => (Match::Exact, "bits per second as received, the same message size and streams"),
        IperfTest::Datagrams => {
            (Match::Exact, "bits per second as its server received them, at the same rate")
        }
    };
    Some(Pairing::new("goodput", definition, note, 1.5))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let test = test(&ask.case).ok_or("it has no such test")?;
    let message = ask.case.number("message").ok_or("the case has no message size")?.to_string();
    let streams = ask.case.number("streams").unwrap_or(1).to_string();
    let (port, time) = (ask.port.to_string(), ask.seconds.to_string());
    let mut arguments = words(&["-c", &ask.host, "-p", &port, "-t", &time, "-l", &message]);
    arguments.extend(words(&["-P", &streams, "-f", "b"]));
    let mut served = words(&["-s", "-B", "127.0.0.1", "-p", &port]);
    match test {
        IperfTest::Up => {}
        IperfTest::Down => arguments.push("-R".to_owned()),
        IperfTest::Datagrams => {
            let rate = ask.case.rate("rate").ok_or("the case has no rate")?;
            arguments.extend(words(&["-u", "-b", &format!("{rate:.0}")]));
            served.push("-u".to_owned());
        }
    }
    Ok(client_and_server(ask, [("iperf", arguments), ("iperf", served)], test == IperfTest::Datagrams))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let test = test(case).ok_or("it has no such test")?;
    let streams = case.number("streams").unwrap_or(1);
    // The sender's own figure comes before this line.
    let part = match text.split_once("Server Report:") {
        _ if test != IperfTest::Datagrams => text,
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
