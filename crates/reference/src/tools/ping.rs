//! ping: ICMP echo, answered by the kernel of the server, so it is only related to TCP and UDP
//! round trips. Reads the statistics of iputils, busybox, GNU inetutils and the BSDs.

use crate::tools::prelude::*;

/// Echoes per reading: a fifth of a second at the interval of 2 ms.
const ECHOES: &str = "100";

/// Least payload with a time: ping stores a `struct timeval` of 16 bytes in the echo.
const MIN_TIMED_PAYLOAD_BYTES: u64 = 16;

const MAX_PAYLOAD_BYTES: u64 = 65_507;

pub(super) const PING_TOOL: RefTool = RefTool {
    name: "ping",
    checks: "round trips by ICMP echo",
    package: Package::Debian("iputils-ping"),
    version: ("-V", "iputils "),
    results: ResultFormat::of_text(
        "text output of iputils, busybox, inetutils and the BSDs",
        recognises,
        starts,
        read,
    ),
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let known = has_only_parameters(case, "protocol message streams mode server affinity");
    (case.benchmark() == "network.latency" && known).then_some(())?;
    let NetworkStreams { message, streams, .. } = NetworkStreams::of(case);
    let message = message.filter(|message| *message <= MAX_PAYLOAD_BYTES)?;
    let trips = NetworkTrips::of(case).ok()?;
    let (definition, note) = match trips.protocol? {
        TripProtocol::Icmp if message < MIN_TIMED_PAYLOAD_BYTES => {
            (Match::Related, "its smallest message with a time has 16 bytes")
        }
        TripProtocol::Icmp if trips.polls => (Match::Related, "it sleeps until the echo comes"),
        TripProtocol::Icmp if streams == 1 => (Match::Exact, "mean of ICMP echoes"),
        TripProtocol::Icmp => (Match::Related, "one echo at a time"),
        _ => (Match::Related, "the kernel answers an echo, no process does"),
    };
    Some(Pairing::new("rtt", definition, note, 1.0))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let message = NetworkStreams::of(&ask.case).message.ok_or("the case has no message size")?;
    let bytes = message.max(MIN_TIMED_PAYLOAD_BYTES);
    // iputils allows intervals from 2 ms without privileges.
    Ok(ask.call(words(&format!("-n -q -c {ECHOES} -i 0.002 -s {bytes} {}", ask.host))))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let summary = summaries(text).into_iter().next();
    let PingSummary { sent, received, times, .. } =
        summary.ok_or("its output cannot be read: it has no line '… packets transmitted, … received'")?;
    let payload = whole_lines(text).find_map(payload);
    if received == 0.0 {
        return Err(format!("no echo came back: {sent} sent, 0 received"));
    }
    let Some([least, mean, most]) = times else {
        return Err(match payload {
            Some(bytes) if bytes < MIN_TIMED_PAYLOAD_BYTES => {
                format!(
                    "it prints no times for messages of {bytes} B: they begin at {MIN_TIMED_PAYLOAD_BYTES} B"
                )
            }
            _ => format!(
                "its output cannot be read: {received} of {sent} echoes came back, and it has no line 'min/avg/max'"
            ),
        });
    };
    if !(least <= mean && mean <= most) {
        return Err(format!(
            "its mean {mean} ms is not between its minimum {least} ms and maximum {most} ms"
        ));
    }
    // An echo may leave before the last one is back, so only one is known to fit the lifetime.
    let mut reading = ToolFigure::of(mean * 1e-3, Account::of(1.0, Seconds::OF_ITS_LIFE))?;
    if received < sent {
        reading.differs.push(format!("it lost {} of {sent} packets", sent - received));
    }
    if let Some(bytes) = payload {
        let wanted = NetworkStreams::of(case).message.unwrap_or(bytes);
        reading.compare(&fact::MESSAGE_BYTES, bytes as f64, wanted as f64, 0.0);
    }
    Ok(reading)
}

/// Parses the bytes of payload in `PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data.`.
fn payload(line: &str) -> Option<u64> {
    let line = line.strip_prefix("PING ")?;
    let (before, _) = line.split_once(" bytes of data").or_else(|| line.split_once(" data bytes"))?;
    let word = before.split_whitespace().last()?;
    word.split('(').next()?.parse().ok()
}

const NO_LIMIT: &str = "plimsoll derives no limit of a round trip: the path between both ends sets it";

fn recognises(text: &str) -> bool {
    !summaries(text).is_empty()
}

fn starts(text: &str) -> Vec<usize> {
    line_starts(text, |line| {
        line.starts_with("PING ") && (line.contains(" bytes of data") || line.contains(" data bytes"))
    })
}

/// Reads results of ping in any language: counts and times below the statistics' heading.
fn read(text: &str) -> Result<Stated, String> {
    let figures = summaries(text).iter().map(figure).collect::<Result<_, _>>()?;
    Stated { figures, ..Stated::default() }.unless_empty("it has no statistics below its echoes")
}

struct PingSummary {
    sent: f64,
    received: f64,
    lost_percent: Option<f64>,
    /// Minimum, mean and maximum in ms.
    times: Option<[f64; 3]>,
}

/// Parses all statistics: `--- HOST ping statistics ---`, a line of counts, later one of times.
fn summaries(text: &str) -> Vec<PingSummary> {
    let mut found: Vec<PingSummary> = Vec::new();
    let mut is_below_heading = false;
    for line in text.lines().map(str::trim) {
        if let Some((sent, received)) = counts(line).filter(|_| is_below_heading) {
            found.push(PingSummary { sent, received, lost_percent: percent(line), times: None });
        } else if let Some(last) = found.last_mut()
            && last.times.is_none()
        {
            last.times = times(line);
        }
        is_below_heading =
            line.starts_with("---") && line.ends_with("---") && line.to_lowercase().contains("ping");
    }
    found
}

/// Parses (sent, received) in `3 packets transmitted, 3 received, 0% packet loss`, in any language.
fn counts(line: &str) -> Option<(f64, f64)> {
    let mut numbers =
        line.split(|c: char| !(c.is_ascii_digit() || c == '-')).filter_map(|word| word.parse().ok());
    line.contains('%').then_some((numbers.next()?, numbers.next()?))
}

fn percent(line: &str) -> Option<f64> {
    let (before, _) = line.split_once('%')?;
    let is_other = |c: char| !(c.is_ascii_digit() || matches!(c, '-' | '.' | ','));
    before.trim_end().rsplit(is_other).next()?.replace(',', ".").parse().ok()
}

/// Parses minimum, mean and maximum in ms of `rtt min/avg/max/mdev = 0.004/0.008/0.037/0.006 ms`.
fn times(line: &str) -> Option<[f64; 3]> {
    let (_, values) = line.split_once(" = ").filter(|(names, _)| names.contains('/'))?;
    let mut values = values.split_whitespace().next()?.split('/').map(|value| value.parse::<f64>().ok());
    Some([values.next()??, values.next()??, values.next()??])
}

fn figure(summary: &PingSummary) -> Result<StatedFigure, String> {
    let PingSummary { sent, received, lost_percent, times } = summary;
    let echoes = Messages {
        what: "echoes",
        sent: Some(*sent),
        received: Some(*received),
        lost_percent: *lost_percent,
        ..Messages::default()
    };
    let [least, mean, most] = match times {
        Some(times) => *times,
        None if *received <= 0.0 => [0.0; 3],
        None => return Err("it has no line of times: messages below 16 B have none".to_owned()),
    };
    let mut figure =
        StatedFigure::new("round trip (mean)", mean * 1e-3, Unit::Second, Err(NO_LIMIT.to_owned()));
    figure.void = (*received == 0.0).then(|| format!("no echo of {sent} came back"));
    figure.absurd = match [least, most].iter().find(|time| !time.is_finite() || **time < 0.0) {
        Some(time) => Some(format!("one of its times is {time} ms")),
        None => echoes.absurd().or_else(|| BoundedEvent::RoundTrip.too_short(figure.value)),
    };
    let is_between = (least..=most).contains(&mean);
    let why = format!("its mean of {mean} ms is not between its least, {least} ms, and its most, {most} ms");
    figure.contradiction = echoes.contradiction().or((!is_between).then_some(why));
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::super::golden;
    use super::*;

    const SMALL: &str = "ping-20221126-56.txt";

    fn case(message: u64) -> Case {
        Case::of("network.latency").with_word("protocol", "icmp").with_size("message", message)
    }

    #[test]
    fn the_statistics_of_other_versions_are_read() {
        // Written from documentation, not recorded.
        let others = golden::body("ping-others-documented.txt");
        let all: Vec<&str> = others.split("\n== ").skip(1).collect();
        assert_eq!(all.len(), 6);
        for text in all {
            let (about, text) = text.split_once('\n').unwrap();
            let reading = parse(&case(56), text).expect(about);
            assert!((reading.value - 58e-6).abs() < 1e-12, "{about}: {reading:?}");
            assert!(reading.differs.is_empty(), "{about}: {reading:?}");
            assert_eq!(reading.achieved.get(&fact::MESSAGE_BYTES).as_deref(), Some("56"), "{about}");
        }
    }

    #[test]
    fn loss_is_told_and_each_lack_of_a_figure_has_its_own_cause() {
        let some = golden::body(SMALL).replace("100 received, 0%", "93 received, 7%");
        assert_eq!(parse(&case(56), &some).unwrap().differs, ["it lost 7 of 100 packets"]);
        let why = |text: &str| parse(&case(1), text).unwrap_err();
        let heading = "--- 127.0.0.1 ping statistics ---\n";
        let silent = format!("{heading}100 packets transmitted, 0 received, 100% packet loss, time 200ms\n");
        assert_eq!(why(&silent), "no echo came back: 100 sent, 0 received");
        let small = "PING 127.0.0.1 (127.0.0.1) 1(29) bytes of data.\n\n--- 127.0.0.1 ping statistics ---\n20 packets \
                     transmitted, 20 received, 0% packet loss, time 20ms\n\n";
        assert_eq!(why(small), "it prints no times for messages of 1 B: they begin at 16 B");
        let strange = small.replace("1(29)", "56(84)");
        assert!(why(&strange).contains("20 of 20 echoes came back, and it has no line"), "{}", why(&strange));
        assert!(why("Statistik: 20 Pakete\n").contains("cannot be read"));
        let impossible = golden::body(SMALL).replace("0.004/0.008/0.037", "0.004/0.080/0.037");
        assert!(why(&impossible).contains("is not between"));
    }

    #[test]
    fn a_message_too_small_for_a_time_is_sent_with_16_bytes_and_only_related() {
        let id = |message: u8| format!("network.latency/protocol=icmp/message={message}");
        let definition = |message| golden::definition(&PING_TOOL, &id(message));
        assert_eq!((definition(1), definition(16)), (Match::Related, Match::Exact));
        assert!(golden::invoked(&PING_TOOL, &id(1), false).arguments.join(" ").contains("-s 16 "));
        let case = case(1);
        let differs = parse(&case, &golden::body(SMALL).replace("56(84)", "16(44)")).unwrap().differs;
        assert_eq!(differs, ["it ran with message=16 instead of 1"]);
    }

    const LOST: &str = "PING h (192.0.2.1) 56(84) bytes of data.\n\n--- h ping statistics ---\n\
        3 packets transmitted, 0 received, +3 errors, 100% packet loss, time 2043ms\n";

    #[test]
    fn echoes_that_did_not_come_back_are_no_figure() {
        assert!(recognises(LOST) && read(LOST).unwrap().figures[0].void.is_some());
        let times = "rtt min/avg/max/mdev = 0.042/0.058/0.071/0.006 ms\n";
        let some = format!("{}{times}", LOST.replace(" 0 rec", " 3 rec").replace("100%", "0%"));
        let figure = read(&some).unwrap().figures.remove(0);
        assert!((figure.value - 58e-6).abs() < 1e-12 && figure.contradiction.is_none());
        let contradicts = |text: &str| read(text).unwrap().figures[0].contradiction.is_some();
        assert!(contradicts(&some.replace("0.058", "0.580")));
        assert!(contradicts(&some.replace(" 3 rec", " 4 rec")));
        assert!(contradicts(&some.replace("3 packets", "12 packets")));
        for share in ["200%", "-50%"] {
            assert!(read(&some.replace("0%", share)).unwrap().figures[0].absurd.is_some(), "{share}");
        }
        for time in ["-0.042", "nan", "inf"] {
            assert!(read(&some.replace("0.042", time)).unwrap().figures[0].absurd.is_some(), "{time}");
        }
    }

    #[test]
    fn statistics_in_any_language_are_read() {
        for text in [
            "--- 192.0.2.1 ping-Statistiken ---\n4 Pakete übertragen, 4 empfangen, 0% packet loss, time 3004ms\n\
             rtt min/avg/max/mdev = 0.042/0.058/0.071/0.006 ms\n",
            "--- statistiques ping 192.0.2.1 ---\n4 paquets transmis, 4 reçus, 0 % paquets perdus, temps 3004 ms\n\
             rtt min/moy/max/mdev = 0.042/0.058/0.071/0.006 ms\n",
            "--- 192.0.2.1 ping 统计 ---\n已发送 4 个包， 已接收 4 个包, 0% packet loss, time 3054ms\n\
             rtt min/avg/max/mdev = 0.042/0.058/0.071/0.006 ms\n",
            "----192.0.2.1 PING Statistics----\n4 packets transmitted, 4 packets received, 0.0% packet loss\n\
             round-trip (ms)  min/avg/max/stddev = 0.042/0.058/0.071/0.006\n",
        ] {
            let figures = read(text).unwrap().figures;
            assert!(figures.len() == 1 && (figures[0].value - 58e-6).abs() < 1e-12, "{text}: {figures:?}");
            assert!(figures[0].void.is_none() && figures[0].contradiction.is_none());
            assert_eq!(read(&text.repeat(2)).unwrap().figures.len(), 2);
        }
        assert!(!recognises("--- a.txt ---\n3 of 4, 5%\n"));
    }
}
