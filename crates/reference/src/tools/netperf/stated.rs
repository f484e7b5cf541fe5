//! Reads netperf's tables of classic tests, and tables, KEY=VALUE lines and CSV of omni tests.

mod fields;

use std::collections::BTreeSet;

use crate::tools::prelude::*;
use fields::Fields;

/// Tolerated ratio of received to sent data: both ends round, and stop at different times.
const RECEIVED_TOLERANCE: f64 = 1.1;

pub(super) fn recognises(text: &str) -> bool {
    text.lines().any(is_banner)
        || text.contains("10^6bits/sec") && text.contains("Throughput")
        || Fields::all(text).first().is_some_and(Fields::is_of_netperf)
        || is_bare(text)
}

/// Returns the byte offset of each result: of its banner or, without one, its first KEY=VALUE line.
pub(super) fn starts(text: &str) -> Vec<usize> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let (mut is_in_keys, mut has_banner) = (false, false);
    let found = line_starts(text, |line| {
        let key = fields::key_value(line).map(|(key, _)| key);
        let is_first_key = key.is_some_and(|key| seen.contains(key) || !is_in_keys && !has_banner);
        let is_start = is_banner(line) || is_first_key;
        if is_start {
            seen.clear();
        }
        has_banner = is_banner(line) || has_banner && key.is_none();
        is_in_keys = key.is_some();
        seen.extend(key);
        is_start
    });
    // Other tools write keys too.
    let is_its = |part: &str| {
        part.lines().next().is_some_and(is_banner)
            || Fields::all(part).first().is_some_and(Fields::is_of_netperf)
    };
    let ends = found.iter().skip(1).copied().chain([text.len()]);
    found.iter().copied().zip(ends).filter(|(at, end)| is_its(&text[*at..*end])).map(|(at, _)| at).collect()
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    let banner = text.lines().find(|line| is_banner(line)).unwrap_or_default();
    let results = Fields::all(text);
    let figures = match results.as_slice() {
        [_, ..] => {
            results.iter().map(|fields| of_fields(fields, banner)).collect::<Result<Vec<_>, _>>()?.concat()
        }
        [] if is_bare(text) => {
            return Err(
                "its rows have no headings, so their meaning and unit are unknown: leave out -P 0".to_owned()
            );
        }
        [] => table(text, banner),
    };
    let stated = Stated { figures, ..Stated::default() };
    stated.unless_empty("it has no figure; netperf's -- -k prints keys that can be read")
}

/// Returns whether a line is a banner: `MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0
/// AF_INET to HOST () port 0 AF_INET`; in the first versions with the host only.
fn is_banner(line: &str) -> bool {
    const TESTS: [&str; 6] = ["STREAM", "SEND", "RESPONSE", "MAERTS", "SENDFILE", "OMNI"];
    let name = line.split_once(" TEST from ").or_else(|| line.split_once(" TEST to "));
    name.is_some_and(|(name, _)| TESTS.iter().any(|test| name.contains(test)))
}

/// Returns whether a text is a classic test with `-P 0`: rows of numbers without headings.
fn is_bare(text: &str) -> bool {
    let rows = text.lines().map(|line| line.split_whitespace().collect());
    let rows: Vec<Vec<&str>> = rows.filter(|row: &Vec<&str>| !row.is_empty()).collect();
    let is_whole = |word: &&&str| word.parse::<u64>().is_ok();
    let is_fixed = |word: Option<&&str>| {
        word.and_then(|word| word.split_once('.')).is_some_and(|(_, decimals)| decimals.len() == 2)
    };
    let whole = |row: &[&str]| row.iter().take_while(is_whole).count();
    // Sizes, time and throughput; UDP also has counts, and a row of the receiver.
    let is_row = |row: &Vec<&str>| match (whole(row), row.len()) {
        (3, 5 | 9) => is_fixed(row.get(3)) && is_fixed(row.get(4)),
        (4, 6 | 10) => is_fixed(row.get(4)) && is_fixed(row.get(5)),
        (2, 6 | 8) => is_fixed(row.get(2)) && row.get(3..5).is_some_and(|counts| whole(counts) == 2),
        _ => false,
    };
    let is_second = |row: &Vec<&str>| match (whole(row), row.len()) {
        (2, 2) => true,
        (1, 4 | 6) => is_fixed(row.get(1)),
        _ => false,
    };
    rows.first().is_some_and(is_row) && rows.iter().all(|row| is_row(row) || is_second(row))
}

/// Returns the number of bit/s in a unit such as `10^6bits/s`; `None` if the unit is unknown.
fn unit(text: &str) -> Option<f64> {
    // `-f` selects powers of 1000 for bits, of 1024 for bytes (netlib.c, `format_units`).
    let units = [
        ("10^9bits/s", 1e9),
        ("10^6bits/s", 1e6),
        ("10^3bits/s", 1e3),
        ("GBytes/s", 8.0 * 1024_f64.powi(3)),
        ("MBytes/s", 8.0 * 1024_f64.powi(2)),
        ("KBytes/s", 8.0 * 1024.0),
    ];
    // Tables with CPU columns have `MBytes  /s`.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" /s", "/s");
    units.into_iter().find(|(name, _)| words.contains(name)).map(|(_, bits)| bits)
}

/// Parses the server in `to HOST (ADDRESS) port 0 AF_INET`, and whether its address is IPv6.
fn server(banner: &str) -> (Option<String>, bool) {
    let to = banner.split_once(" to ").map(|(_, rest)| rest.split(" port ").next().unwrap_or(rest));
    let address = to.map(|to| match to.split_once('(') {
        Some((name, address)) if address.trim_end_matches(')').is_empty() => name.trim(),
        Some((_, address)) => address.trim_end_matches(')'),
        None => to.trim(),
    });
    (address.map(|address| shown_within(address, 64)), banner.contains("AF_INET6"))
}

fn table(text: &str, banner: &str) -> Vec<StatedFigure> {
    let (to, is_v6) = server(banner);
    let is_udp = banner.contains("UDP") || text.contains("Okay Errors");
    if let Some((rate, unit_name)) = omni_row(text) {
        let used = LinkUse { to, is_v6, streams: 1, ..LinkUse::default() };
        let figure = match unit(unit_name) {
            Some(bits) => {
                stream("throughput", rate * bits, None, LinkUse { is_sent: is_udp, ..used }, is_udp)
            }
            None => round_trips(banner, rate),
        };
        return vec![figure];
    }
    let rows: Vec<Vec<f64>> = text.lines().filter_map(numbers).collect();
    let used =
        |seconds| LinkUse { to: to.clone(), is_v6, streams: 1, seconds: Some(seconds), ..LinkUse::default() };
    let Some(first) = rows.first() else { return Vec::new() };
    if text.contains("Trans.") || text.contains("REQUEST/RESPONSE") {
        return match first[..] {
            [_, _, _, _, _, rate, ..] => vec![round_trips(banner, rate)],
            _ => Vec::new(),
        };
    }
    let bits = unit(text).unwrap_or(1e6);
    match (is_udp, &first[..], rows.get(1).map(Vec::as_slice)) {
        (true, [_, message, _, sent, _, ..], Some([_, seconds, received, rate, ..])) => {
            let figure = stream("UDP stream, as received", rate * bits, Some(*message), used(*seconds), true);
            let mut figure = figure.counted(received * message * 8.0, *seconds);
            figure.contradiction = (*received > sent * RECEIVED_TOLERANCE)
                .then(|| format!("it sent {sent} datagrams and received {received}"));
            vec![figure]
        }
        (true, [_, message, seconds, sent, _, rate, ..], _) => {
            let used = LinkUse { is_sent: true, ..used(*seconds) };
            let figure = stream("UDP stream, as sent", rate * bits, Some(*message), used, true);
            vec![figure.counted(sent * message * 8.0, *seconds)]
        }
        (false, [_, _, message, seconds, rate, ..], _) => {
            vec![stream("TCP stream, as received", rate * bits, Some(*message), used(*seconds), false)]
        }
        _ => Vec::new(),
    }
}

fn numbers(line: &str) -> Option<Vec<f64>> {
    let all: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    all.filter(|all| !all.is_empty())
}

/// Returns throughput and its unit in the table of an omni test, `941.5 10^6bits/s` in one row.
fn omni_row(text: &str) -> Option<(f64, &str)> {
    let is_unit = |word: &str| word == "Trans/s" || word.ends_with("bits/s") || word.ends_with("Bytes/s");
    text.lines().filter(|line| !line.contains("Interim")).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| is_unit(word))?;
        let rate = words.get(at.checked_sub(1)?)?.parse().ok()?;
        Some((rate, *words.get(at)?))
    })
}

fn stream(name: &str, rate: f64, message: Option<f64>, used: LinkUse, is_udp: bool) -> StatedFigure {
    let datagram = is_udp.then(|| message.unwrap_or(0.0));
    let mut figure = StatedFigure::of_link(name, rate, message, LinkUse { datagram, ..used });
    if is_udp && message.is_none() {
        figure.like = Err("the file does not show the size of its datagrams".to_owned());
    }
    figure
}

fn round_trips(banner: &str, rate: f64) -> StatedFigure {
    let name = if banner.contains("UDP") { "UDP round trips" } else { "round trips" };
    let figure = StatedFigure::new(name, rate, Unit::PerSecond, Err(NO_ECHO.to_owned()));
    StatedFigure { absurd: BoundedEvent::RoundTrip.too_short(rate.recip()), ..figure }
}

/// Returns the figures of an omni test, whose heading is `banner`. Fails if the unit is unknown.
fn of_fields(fields: &Fields, banner: &str) -> Result<Vec<StatedFigure>, String> {
    let number = |key: &str| fields.number(key);
    if let Some(seconds) = number("RT_LATENCY").filter(|micros| *micros != 0.0).map(|micros| micros * 1e-6) {
        let figure = StatedFigure::new("round trip", seconds, Unit::Second, Err(NO_ECHO.to_owned()));
        return Ok(vec![StatedFigure { absurd: BoundedEvent::RoundTrip.too_short(seconds), ..figure }]);
    }
    let units = fields.word("THROUGHPUT_UNITS");
    let is_of_trips =
        units.is_some_and(|units| units.starts_with("Trans")) || banner.contains("REQUEST/RESPONSE");
    if let Some(rate) = number("TRANSACTION_RATE").or(number("THROUGHPUT").filter(|_| is_of_trips)) {
        return Ok(vec![round_trips(banner, rate)]);
    }
    let unknown = |units: &str| format!("its unit '{}' is not known", shown_within(units, 20));
    let bits = units.map_or(Ok(1e6), |units| unit(units).ok_or_else(|| unknown(units)))?;
    let is_udp = banner.contains("UDP") || fields.word("PROTOCOL").is_some_and(|word| word.contains("UDP"));
    let (named, is_v6) = server(banner);
    let to = fields.word("REMOTE_HOST").or_else(|| fields.word("DESTINATION_ADDRESS"));
    let used = LinkUse {
        to: to.map(|host| shown_within(host, 64)).or(named),
        is_v6,
        streams: 1,
        seconds: number("ELAPSED_TIME"),
        ..LinkUse::default()
    };
    let message = number("LOCAL_SEND_SIZE").or(number("REMOTE_SEND_SIZE")).filter(|bytes| *bytes >= 1.0);
    let figure = |(sender, receiver): (&str, &str), rate: f64| {
        let [own, key] = [format!("{receiver}_RECV_THROUGHPUT"), format!("{sender}_SEND_THROUGHPUT")];
        let figure = stream(&own, rate * bits, message, used.clone(), is_udp);
        let moved = number(&format!("{receiver}_BYTES_RECVD")).unwrap_or(0.0) * 8.0;
        let mut figure = figure.counted(moved, used.seconds.unwrap_or(0.0));
        let sent = number(&key).filter(|sent| *sent > 0.0 && rate > sent * RECEIVED_TOLERANCE);
        figure.contradiction = sent.map(|sent| format!("its {own} is {rate} and its {key} is {sent}"));
        figure
    };
    let direction = fields.word("DIRECTION").unwrap_or_default();
    let received: Vec<((&str, &str), f64)> = RECEIVERS
        .iter()
        .filter(|(named, ..)| direction.is_empty() || direction.contains(named))
        .filter_map(|(_, near, far)| Some(((*near, *far), number(&format!("{far}_RECV_THROUGHPUT"))?)))
        .collect();
    let some: Vec<&((&str, &str), f64)> = received.iter().filter(|(_, rate)| *rate != 0.0).collect();
    Ok(match (some.as_slice(), received.first(), number("THROUGHPUT")) {
        ([], _, Some(rate)) if direction.is_empty() || received.is_empty() => {
            // Lost datagrams are included.
            let used = LinkUse { is_sent: is_udp, ..used.clone() };
            vec![stream("THROUGHPUT", rate * bits, message, used, is_udp)]
        }
        ([], Some((ends, rate)), _) => vec![figure(*ends, *rate)],
        (some, ..) => some.iter().map(|(ends, rate)| figure(*ends, *rate)).collect(),
    })
}

/// Directions of a stream with the ends that send and receive, as keys name them.
const RECEIVERS: [(&str, &str, &str); 2] = [("Send", "LOCAL", "REMOTE"), ("Recv", "REMOTE", "LOCAL")];

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(text: &str) -> StatedFigure {
        let mut figures = read(text).unwrap().figures;
        assert_eq!(figures.len(), 1, "{text}");
        figures.remove(0)
    }

    const UDP: &str = "MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to far () port 0 AF_INET : demo\n\
        Socket  Message  Elapsed      Messages                \n\
        Size    Size     Time         Okay Errors   Throughput\n\
        bytes   bytes    secs            #      #   10^6bits/sec\n\n\
        212992   65507   10.00       53595      0    2808.66\n\
        212992           10.00       18000            943.30\n";

    #[test]
    fn what_arrived_of_datagrams_is_the_figure() {
        let received = figure(UDP);
        assert!((received.value - 943.3e6).abs() < 1.0, "{received:?}");
        assert!(received.account.unwrap().contradicts(received.value, received.unit, 1e9).is_none());
        let cpu = UDP.replace("10^6bits/sec", "MBytes  /s % S").replace("943.30\n", "112.45 -1.00 -1.000\n");
        assert!((figure(&cpu).value - 112.45 * 8.0 * 1048576.0).abs() < 1.0);
        assert!(figure(&UDP.replace("18000 ", "180000")).contradiction.is_some());
        let sent_only = UDP.split_inclusive('\n').take(6).collect::<String>();
        let subject = figure(&sent_only).subject;
        assert!(matches!(subject, Subject::Link(LinkUse { is_sent: true, datagram: Some(_), .. })));
    }

    #[test]
    fn each_row_below_a_heading_is_a_result() {
        let csv = "Throughput,Throughput Units\n935.96,10^6bits/s\n9935.96,10^6bits/s\n";
        let values: Vec<f64> = read(csv).unwrap().figures.iter().map(|figure| figure.value / 1e6).collect();
        assert_eq!(values, [935.96, 9935.96]);
    }

    #[test]
    fn keys_csv_and_table_of_an_omni_test_are_read() {
        let banner = "OMNI Send TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to far (192.0.2.20) port 0 AF_INET : demo\n";
        let keys = "THROUGHPUT=935.96\nTHROUGHPUT_UNITS=10^6bits/s\nELAPSED_TIME=10.01\nPROTOCOL=TCP\nDIRECTION=Send\n\
            COMMAND_LINE=\"netperf -- -d send\"\n";
        let csv = "Throughput,Throughput Units,Elapsed Time (sec),Command Line\n\
            935.96,10^6bits/s,10.01,\"netperf -O a,b\"\n";
        let columns = "Throughput Throughput  Local  \n           Units       CPU    \n\n935.96     10^6bits/s  30.31  \n";
        for text in [keys, csv, columns] {
            let (bare, whole) = (figure(text), figure(&format!("{banner}{text}")));
            assert!((bare.value - 935.96e6).abs() < 1.0 && bare.unit == Unit::BitPerSecond, "{text}");
            assert_eq!(bare.value, whole.value);
            let is_far = |to: &str| to == "192.0.2.20";
            assert!(matches!(whole.subject, Subject::Link(LinkUse { to: Some(to), .. }) if is_far(&to)));
            let trips = figure(&text.replace("10^6bits/s", "Trans/s"));
            assert_eq!((trips.value, trips.unit), (935.96, Unit::PerSecond), "{text}");
        }
        assert!(read(&keys.replace("10^6bits/s", "furlongs")).unwrap_err().contains("furlongs"));
        assert!(recognises(keys) && recognises(csv) && recognises(&format!("{banner}{columns}")));
    }

    #[test]
    fn each_block_of_keys_starts_a_result_and_keys_of_other_tools_do_not() {
        let banner = "OMNI Send TEST from a to b : demo\n";
        let keys = "THROUGHPUT=1\nTHROUGHPUT_UNITS=10^6bits/s\nELAPSED_TIME=1\n";
        let other = "HPL_N=1\nHPL_NB=2\n";
        let found = |parts: &[&str]| starts(&parts.concat()).len();
        assert_eq!(found(&[other, other, "x\n", keys, keys, other]), 2);
        assert_eq!(found(&[banner, "x\n", keys, banner, keys, "x\n", keys]), 3);
        assert_eq!(found(&[other, other]), 0);
    }

    #[test]
    fn what_an_end_received_comes_before_the_throughput() {
        let keys = "THROUGHPUT=2808\nREMOTE_RECV_THROUGHPUT=943\nLOCAL_RECV_THROUGHPUT=0.00\nPROTOCOL=UDP\n\
            LOCAL_SEND_SIZE=1472\n";
        assert!((figure(keys).value - 943e6).abs() < 1.0);
        let none = keys.replace("=943", "=0").replace("PROTOCOL", "DIRECTION=Send\nPROTOCOL");
        assert_eq!(figure(&none).value, 0.0);
        let sending = "THROUGHPUT=936\nLOCAL_RECV_THROUGHPUT=0.00\nDIRECTION=Send\nPROTOCOL=TCP\n";
        assert!((figure(sending).value - 936e6).abs() < 1.0);
        let more = "REMOTE_RECV_THROUGHPUT=943\nLOCAL_SEND_THROUGHPUT=500\n";
        assert!(figure(more).contradiction.is_some());
    }

    #[test]
    fn rows_without_headings_are_recognised_and_the_remedy_is_named() {
        for text in [
            " 87380  16384  16384    10.03     235.15   \n 87380  16384  16384    10.03     235.09   \n",
            "212992   65507   10.00       53595      0    2808.66\n212992           10.00       18000            943.30\n\n",
            "16384  87380  1        1       10.00    9876.54   \n16384  87380 \n",
        ] {
            assert!(recognises(text), "{text}");
            assert!(read(text).unwrap_err().contains("-P 0"), "{text}");
        }
        for other in ["1 2 3 4 5\n", "0.1 0.2\n", "", "87380 16384 16384 10.03 235.15 x\n"] {
            assert!(!recognises(other), "{other}");
        }
    }
}
