//! sockperf: round trips of one message by TCP or UDP (`--full-rtt`, else it prints halves). The
//! smallest message has 14 bytes, so a 1-byte case is only related.

mod stated;

use crate::tools::prelude::*;
use stated::{read, recognises, starts};

const HEADER_BYTES: u64 = 14;

fn protocol(case: &Case) -> Option<&'static str> {
    let known = has_only_parameters(case, "protocol message streams mode server affinity");
    (case.benchmark() == "network.latency" && known).then_some(())?;
    (case.word("mode").is_none_or(|m| m == "block") && case.number("streams").unwrap_or(1) == 1)
        .then_some(())?;
    ["tcp", "udp"].into_iter().find(|protocol| case.word("protocol") == Some(protocol))
}

/// Parses received messages and time in `[Valid Duration] RunTime=0.550 sec; SentMessages=29457;
/// ReceivedMessages=29457`; at least 30 % of the time was work, as one message is in flight.
fn account(text: &str) -> Result<Account, String> {
    const BUSY: f64 = 0.3;
    let (_, line) = text.split_once("[Valid Duration]").ok_or("its output has no '[Valid Duration]'")?;
    let seconds = Seconds::printed(word_after(line, "RunTime=")?)?;
    Ok(Account::of(number_after(line, "ReceivedMessages=")?, seconds.scale_lower_bound(BUSY)))
}

pub(super) const SOCKPERF: RefTool = RefTool {
    name: "sockperf",
    checks: "TCP and UDP round trips",
    programs: &["sockperf"],
    package: Package::Debian("sockperf"),
    version_arguments: &["--version"],
    version_after: "version ",
    port: Some(11_111),
    results: ResultFormat::of_text("its text output", recognises, starts, read),
    declines: |case| {
        (case.benchmark() == "network.latency")
            .then_some("it has single blocking round trips by TCP and UDP, without a load")
    },
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    protocol(case)?;
    let (definition, note) = match case.number("message")? {
        ..HEADER_BYTES => (Match::Related, "its smallest message has 14 bytes"),
        _ => (Match::Exact, "mean of whole round trips, the same message"),
    };
    Some(Pairing::new("rtt", definition, note, 2.0))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let protocol = protocol(&ask.case).ok_or("it has no such round trip")?;
    let message = ask.case.number("message").unwrap_or(HEADER_BYTES).max(HEADER_BYTES);
    let port = ask.port.to_string();
    let tcp: &[&str] = if protocol == "tcp" { &["--tcp"] } else { &[] };
    let mut arguments =
        words(&["pp", "-i", &ask.host, "-p", &port, "--full-rtt", "-m", &message.to_string()]);
    arguments.extend(words(&["-t", &whole_seconds(ask)]));
    arguments.extend(words(tcp));
    let mut served = words(&["sr", "-i", "127.0.0.1", "-p", &port]);
    served.extend(words(tcp));
    Ok(client_and_server(ask, [("sockperf", arguments), ("sockperf", served)], protocol == "udp"))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let line = text.lines().find(|line| line.contains("Summary: Round trip is "));
    let line = line.ok_or("its output has no 'Summary: Round trip is'")?;
    if !line.contains("usec") {
        return Err("its summary is cut off".to_owned());
    }
    let mut reading = ToolFigure::of(number_after(line, "Round trip is ")? * 1e-6, account(text)?)?;
    if let Ok(lost) = number_after(text, "dropped messages = ")
        && lost > 0.0
    {
        reading.differs.push(format!("it lost {lost} messages"));
    }
    if case.number("message").is_some_and(|m| m < HEADER_BYTES) {
        reading.differs.push(format!("its messages had {HEADER_BYTES} bytes"));
    }
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    #[test]
    fn a_message_below_its_header_is_only_related() {
        let id = |message: u8| format!("network.latency/protocol=tcp/message={message}");
        let definition = |message| golden::definition(&SOCKPERF, &id(message));
        assert_eq!((definition(1), definition(14)), (Match::Related, Match::Exact));
        let text = golden::body(include_str!("../../tests/fixtures/peers/sockperf-3.7-tcp-14.txt"));
        assert_eq!(parse(&id(1).parse().unwrap(), &text).unwrap().differs, ["its messages had 14 bytes"]);
    }
}
