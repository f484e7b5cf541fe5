//! sockperf: round trips of one message by TCP or UDP (`--full-rtt`, else it prints halves). The
//! smallest message has 14 bytes, so a 1-byte case is only related.

use crate::tools::prelude::*;

const HEADER_BYTES: u64 = 14;

/// Returns the protocol of a case of single blocking round trips by TCP or UDP; else `None`.
pub(super) fn protocol(case: &Case) -> Option<TripProtocol> {
    let known = has_only_parameters(case, "protocol message streams mode server affinity");
    (case.benchmark() == "network.latency" && known).then_some(())?;
    let trips = NetworkTrips::of(case).ok()?;
    (!trips.polls && NetworkStreams::of(case).streams == 1).then_some(())?;
    trips.protocol.filter(|protocol| matches!(protocol, TripProtocol::Tcp | TripProtocol::Udp))
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
    package: Package::Debian("sockperf"),
    version: ("--version", "version "),
    port: Some(11_111),
    results: ResultFormat::of_text("its text output", recognises, starts, read),
    explains: &["network.latency"],
    declines: |_| "it has single blocking round trips by TCP and UDP, without a load",
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    protocol(case)?;
    let (definition, note) = match NetworkStreams::of(case).message? {
        ..HEADER_BYTES => (Match::Related, "its smallest message has 14 bytes"),
        _ => (Match::Exact, "mean of whole round trips, the same message"),
    };
    Some(Pairing::new("rtt", definition, note, 2.0))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let protocol = protocol(&ask.case).ok_or("it has no such round trip")?;
    let message = NetworkStreams::of(&ask.case).message.unwrap_or(HEADER_BYTES).max(HEADER_BYTES);
    let (InvocationInput { host, port, .. }, time) = (ask, whole_seconds(ask));
    let tcp = if protocol == TripProtocol::Tcp { "--tcp" } else { "" };
    let arguments = words(&format!("pp -i {host} -p {port} --full-rtt -m {message} -t {time} {tcp}"));
    let served = words(&format!("sr -i 127.0.0.1 -p {port} {tcp}"));
    Ok(client_and_server(ask, arguments, ("sockperf", served), protocol == TripProtocol::Udp))
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
    if NetworkStreams::of(case).message.is_some_and(|m| m < HEADER_BYTES) {
        reading.differs.push(format!("its messages had {HEADER_BYTES} bytes"));
    }
    Ok(reading)
}

fn recognises(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("sockperf: "))
}

fn starts(text: &str) -> Vec<usize> {
    line_starts(text, |line| line.starts_with("sockperf: ") && line.contains("== version"))
}

/// Reads results of sockperf: the mean time of its messages, or their rate.
fn read(text: &str) -> Result<Stated, String> {
    let version = text.split_once("== version #").and_then(|(_, rest)| rest.split_whitespace().next());
    let mut stated = Stated { version: version.map(str::to_owned), ..Stated::default() };
    let summary = |label: &str| number_after(text, &format!("Summary: {label} is "));
    for (label, mean, name, event) in [
        ("Latency", "avg-latency=", "latency (half a round trip)", BoundedEvent::Message),
        ("Round trip", "avg-rtt=", "round trip", BoundedEvent::RoundTrip),
    ] {
        let micros = summary(label).or_else(|_| number_after(text, mean)).ok();
        stated.figures.extend(micros.map(|micros| time(text, name, micros, event)));
    }
    stated.figures.extend(summary("BandWidth").ok().map(|rate| throughput(text, rate)));
    if stated.figures.is_empty() && text.contains("No messages were received") {
        let none = StatedFigure::new("latency", 0.0, Unit::Second, Err(NO_ECHO.to_owned()));
        stated.figures.push(StatedFigure { void: Some("no message came back".to_owned()), ..none });
    }
    stated.unless_empty("it has no line 'Summary:' with a figure")
}

/// Returns the figure `name`, the mean time of `event` in µs, checked by message counts in `text`.
fn time(text: &str, name: &str, micros: f64, event: BoundedEvent) -> StatedFigure {
    let mut figure = StatedFigure::new(name, micros * 1e-6, Unit::Second, Err(NO_ECHO.to_owned()));
    let counted = text.split_once("[Valid Duration]").map_or("", |(_, line)| line);
    let count = |name: &str| number_after(counted, name).ok();
    let messages = Messages {
        what: "messages",
        sent: count("SentMessages="),
        // Each member of a multicast group answers, and a network may duplicate a message.
        received: count("ReceivedMessages=").filter(|_| count("duplicated messages = ") == Some(0.0)),
        lost: count("dropped messages = "),
        ..Messages::default()
    };
    figure.absurd = messages.absurd().or_else(|| event.too_short(figure.value));
    figure.contradiction = messages.contradiction().or_else(|| other_mean(text, micros));
    figure
}

/// Returns why a mean of `micros` µs is outside the range of observations in `text`, if it is.
fn other_mean(text: &str, micros: f64) -> Option<String> {
    let [least, most] =
        ["<MIN>", "<MAX>"].map(|end| number_after(text, &format!("{end} observation =")).ok());
    let (least, most) = (least?, most?);
    (micros < least || micros > most)
        .then(|| format!("its mean is {micros} us, and its observations took {least} to {most} us"))
}

/// Returns the figure for the printed `rate` of a throughput test, as sent. MB are 2²⁰ bytes, GB
/// (`--giga-size`) 1000 MB. Older versions print MB, with nine decimals, as GB.
fn throughput(text: &str, rate: f64) -> StatedFigure {
    let word = word_after(text, "Summary: BandWidth is ").unwrap_or_default();
    let is_short = word.split_once('.').is_some_and(|(_, decimals)| decimals.len() <= 3);
    let is_giga = is_short && text.contains(&format!("BandWidth is {word} GBps"));
    let rate = if is_giga { rate * 1000.0 } else { rate };
    let bits = rate * BYTES_PER_MIB * 8.0;
    let to = word_after(text, " IP = ").ok().map(str::to_owned);
    let datagram = (!text.contains("# TCP")).then_some(0.0);
    let used = LinkUse { to, streams: 1, is_sent: true, datagram, ..LinkUse::default() };
    StatedFigure::of_link("bandwidth, as sent", bits, None, used)
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
        let text = golden::body("sockperf-3.7-tcp-14.txt");
        assert_eq!(parse(&id(1).parse().unwrap(), &text).unwrap().differs, ["its messages had 14 bytes"]);
    }

    const HEAD: &str = "sockperf: == version #3.7-no.git == \n[ 0] IP = 192.0.2.2      PORT = 11111 # UDP\n";

    #[test]
    fn counts_and_means_agree_or_are_named() {
        let text = "sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages=1000; ReceivedMessages=1000\n\
            sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0\n\
            sockperf: Summary: Round trip is 18.658 usec\nsockperf: ---> <MAX> observation = 4677.313\n\
            sockperf: ---> <MIN> observation =   13.449\n";
        let figure = |from: &str, to: &str| {
            read(&format!("{HEAD}{}", text.replace(from, to))).unwrap().figures.remove(0)
        };
        assert_eq!(figure("", "").absurd.or(figure("", "").contradiction), None);
        for (from, to) in
            [("ReceivedMessages=1000", "ReceivedMessages=1001"), ("13.449", "20.0"), ("4677.313", "1.0")]
        {
            assert!(figure(from, to).contradiction.is_some(), "{to}");
        }
        for (from, to) in [("dropped messages = 0", "dropped messages = 1001"), ("18.658", "0.0003")] {
            assert!(figure(from, to).absurd.is_some(), "{to}");
        }
    }

    #[test]
    fn times_and_rates_of_the_summary_are_read() {
        for (label, value) in [("Latency is 17.293 usec", 17.293e-6), ("Round trip is 94.790 usec", 94.79e-6)]
        {
            let stated = read(&format!("{HEAD}sockperf: Summary: {label}\n")).unwrap();
            assert!((stated.figures[0].value - value).abs() < 1e-12, "{label}");
            assert_eq!(stated.version.as_deref(), Some("3.7-no.git"));
        }
        let rates = "sockperf: Summary: Message Rate is 100000 [msg/sec]\n\
            sockperf: Summary: BandWidth is 100.000 MBps (800.000 Mbps)\n";
        let figure = read(&format!("{HEAD}{rates}")).unwrap().figures.remove(0);
        assert_eq!(figure.value, 100.0 * 1_048_576.0 * 8.0);
        assert!(matches!(figure.subject, Subject::Link(LinkUse { to: Some(to), .. }) if to == "192.0.2.2"));
        let giga = rates.replace("100.000 MBps (800.000 Mbps)", "0.100 GBps (0.800 Gbps)");
        let figure = read(&format!("{HEAD}{giga}")).unwrap().figures.remove(0);
        assert!((figure.value / (100.0 * 1_048_576.0 * 8.0) - 1.0).abs() < 1e-9, "{figure:?}");
        let none =
            format!("{HEAD}sockperf: No messages were received from the server. Is the server down?\n");
        assert!(read(&none).unwrap().figures[0].void.is_some());
    }
}
