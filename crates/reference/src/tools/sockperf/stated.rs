//! Reads results of sockperf: the mean time of its messages, or their rate.

use super::SOCKPERF;
use crate::stated::prelude::*;

const BYTES_PER_MIB: f64 = (1 << 20) as f64;

pub(super) fn recognises(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("sockperf: "))
}

pub(super) fn starts(text: &str) -> Vec<usize> {
    line_starts(text, |line| line.starts_with("sockperf: ") && line.contains("== version"))
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    let version = text.split_once("== version #").and_then(|(_, rest)| rest.split_whitespace().next());
    let mut stated = Stated::by(SOCKPERF.name, version);
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
    let is_tcp = text.contains("# TCP");
    let case = Case::of(if is_tcp { "network.tcp" } else { "network.udp" })
        .with_count("streams", 1)
        .with_word("direction", "up")
        .with_size("message", 1);
    let mut figure = StatedFigure::like("bandwidth, as sent", bits, Unit::BitPerSecond, case, "goodput");
    let to = word_after(text, " IP = ").ok().map(str::to_owned);
    let datagram = (!is_tcp).then_some(0.0);
    figure.subject = Subject::Link(LinkUse { to, streams: 1, is_sent: true, datagram, ..LinkUse::default() });
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

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
