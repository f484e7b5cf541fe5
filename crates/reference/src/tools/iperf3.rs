//! iperf3: TCP streams and datagrams as received. Both processes are bound to the case's CPUs.

mod stated;

use crate::tools::prelude::*;
use stated::{IntervalSum, StatedReport};

const TCP: &str = "message streams direction server omit zerocopy nodelay congestion window mss";
const UDP: &str = "message streams direction rate server";
const MIN_DATAGRAM_BYTES: u64 = 16;

pub(super) const IPERF3: RefTool = RefTool {
    name: "iperf3",
    checks: "TCP throughput as received",
    package: Package::Debian("iperf3"),
    version: ("--version", "iperf "),
    port: Some(5201),
    results: ResultFormat {
        about: "JSON of 3.1 and later, TCP and UDP",
        recognises: stated::recognises,
        continues: stated::continues,
        read: stated::read,
        ..ResultFormat::NONE
    },
    explains: &["network.tcp", "network.udp"],
    declines,
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn declines(case: &Case) -> &'static str {
    match case.benchmark() {
        "network.tcp" => {
            "it reads what it receives, and takes --message, --streams, --direction, --omit, --zerocopy, --nodelay, --congestion, --window, --mss"
        }
        _ => "it sends datagrams of 16 bytes and more, and searches for no rate",
    }
}

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let message = NetworkStreams::of(case).message;
    let note = match case.benchmark() {
        "network.tcp" if has_only_parameters(case, TCP) => {
            "bits per second as received, the same message size and streams"
        }
        "network.udp" if has_only_parameters(case, UDP) && message? >= MIN_DATAGRAM_BYTES => {
            "bits per second as received, the same datagrams at the same rate"
        }
        _ => return None,
    };
    let seconds = 1.5 + warm_up_seconds(case);
    Some(Pairing::new("goodput", Match::Exact, note, seconds))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let (InvocationInput { host, port, .. }, time) = (ask, whole_seconds(ask));
    let NetworkStreams { message, streams, direction, rate, .. } = NetworkStreams::of(&ask.case);
    let message = message.ok_or("the case has no message size")?;
    let mut arguments = words(&format!("-c {host} -p {port} -J -t {time} -l {message} -P {streams}"));
    match direction {
        Flow::Up => {}
        Flow::Down => arguments.push("-R".to_owned()),
        Flow::Both => arguments.push("--bidir".to_owned()),
    }
    if ask.case.benchmark() == "network.udp" {
        // The case's rate is for all streams, iperf3's for each stream.
        let rate = rate.map_or(0.0, |rate| rate / streams as f64);
        arguments.extend(words(&format!("-u -b {rate:.0}")));
    }
    arguments.extend(options(&ask.case));
    let served = words(&format!("-s -B 127.0.0.1 -p {port}"));
    Ok(client_and_server(ask, arguments, ("iperf3", served), false))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let start = text.find('{').ok_or("its output is no JSON")?;
    let report: StatedReport = json::document(&text[start..])?;
    if let Some(error) = report.error {
        return Err(shown_within(&error, 200));
    }
    let figures = |sum: IntervalSum| Some([sum.bits_per_second?, sum.bytes?, sum.seconds?]);
    let there = report.end.sum_received.and_then(figures).ok_or("its JSON has no end.sum_received")?;
    let back = report.end.sum_received_bidir_reverse.and_then(figures);
    let back = match NetworkStreams::of(case).direction {
        Flow::Both => back.ok_or("its JSON has no end.sum_received_bidir_reverse")?,
        _ => [0.0; 3],
    };
    let account = Account::of((there[1] + back[1]) * 8.0, Seconds::of(there[2].max(back[2])));
    let mut reading = ToolFigure::of(there[0] + back[0], account)?;
    let asked = [
        (fact::MESSAGE_BYTES, report.start.test_start.blksize),
        (fact::STREAM_COUNT, report.start.test_start.num_streams),
    ];
    for (row, used) in asked {
        let used = used.unwrap_or(0.0);
        reading.compare(&row, used, case.number(row.name).map_or(used, |asked| asked as f64), 0.0);
    }
    Ok(reading)
}

/// Returns the warm-up in whole seconds for iperf3's `-O`; 0 without a warm-up.
fn warm_up_seconds(case: &Case) -> f64 {
    NetworkStreams::of(case).omit.as_secs_f64().ceil()
}

fn options(case: &Case) -> Vec<String> {
    let mut all = Vec::new();
    if warm_up_seconds(case) > 0.0 {
        all.extend(words(&format!("-O {}", warm_up_seconds(case))));
    }
    let own = NetworkStreams::of(case);
    for (is_on, option) in [(own.zerocopy, "-Z"), (own.nodelay, "-N")] {
        all.extend(is_on.then(|| option.to_owned()));
    }
    all.extend(own.congestion.into_iter().flat_map(|name| ["-C", name]).map(str::to_owned));
    for (bytes, option) in [(own.window, "-w"), (own.mss, "-M")] {
        all.extend(bytes.into_iter().flat_map(|n| [option.to_owned(), n.to_string()]));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_error_is_told() {
        let text = "{\"start\":{},\"error\":\"error - unable to connect\"}";
        let why = parse(&Case::of("network.tcp"), text);
        assert_eq!(why.unwrap_err(), "error - unable to connect");
    }
}
