//! What netperf prints: the tables of its classic tests, and lines of KEY=VALUE of its omni tests.

use super::{TOOL, value, word};
use crate::case::Case;
use crate::documents::line_starts;
use crate::quantity::Unit;
use crate::stated::{Figure, Like, LinkUse, Stated, Subject};
use crate::text::shown_within;
use crate::{Account, Seconds};

pub(super) fn recognises(text: &str) -> bool {
    let has = |part: &str| text.contains(part);
    has(" TEST from ") && has(" AF_INET")
        || has("ELAPSED_TIME=")
        || has("THROUGHPUT=")
        || has("10^6bits/sec") && has("Throughput")
}

/// A banner, or the key of the first line again.
pub(super) fn starts(text: &str) -> Vec<usize> {
    let mut first: Option<String> = None;
    line_starts(text, |line| {
        let is_key = |key: &&str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let key = line.split_once('=').map(|(key, _)| key).filter(is_key);
        let again = key.is_some() && key == first.as_deref();
        let is_banner = line.contains(" TEST from ");
        match (is_banner, key) {
            (true, _) => first = None,
            (false, Some(key)) if first.is_none() => first = Some(key.to_owned()),
            _ => {}
        }
        is_banner || again
    })
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    let mut stated = Stated::by(TOOL.name, None);
    stated.figures = if text.contains(" TEST from ") || text.contains("Throughput") || text.contains("Trans.")
    {
        tables(text)
    } else {
        keys(text)
    };
    match stated.figures.is_empty() {
        true => Err("it has no figure".to_owned()),
        false => Ok(stated),
    }
}

/// What a unit of its tables and keys is in bit/s.
fn unit(text: &str) -> Option<f64> {
    // `-f` chooses: bits by powers of 1000, bytes by powers of 1024 (netlib.c, `format_units`).
    let units = [
        ("10^9bits/s", 1e9),
        ("10^6bits/s", 1e6),
        ("10^3bits/s", 1e3),
        ("GBytes/s", 8.0 * 1024_f64.powi(3)),
        ("MBytes/s", 8.0 * 1024_f64.powi(2)),
        ("KBytes/s", 8.0 * 1024.0),
    ];
    units.into_iter().find(|(name, _)| text.contains(name)).map(|(_, bits)| bits)
}

/// The other end, and whether it is called by an address of IPv6: `to HOST (ADDRESS) port 0 AF_INET`.
fn far_end(banner: &str) -> (Option<String>, bool) {
    let to = banner.split_once(" to ").map(|(_, rest)| rest.split(" port ").next().unwrap_or(rest));
    let address = to.map(|to| match to.split_once('(') {
        Some((name, address)) if address.trim_end_matches(')').is_empty() => name.trim(),
        Some((_, address)) => address.trim_end_matches(')'),
        None => to.trim(),
    });
    (address.map(|address| shown_within(address, 64)), banner.contains("AF_INET6"))
}

fn tables(text: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    let banners =
        text.match_indices(" TEST from ").map(|(at, _)| text[..at].rfind('\n').map_or(0, |n| n + 1));
    let starts: Vec<usize> = banners.collect();
    let starts = if starts.is_empty() { vec![0] } else { starts };
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(text.len());
        figures.extend(table(&text[*start..end]));
    }
    figures
}

fn table(text: &str) -> Vec<Figure> {
    let banner = text.lines().next().unwrap_or_default();
    let (to, is_v6) = far_end(banner);
    let rows: Vec<Vec<f64>> = text.lines().filter_map(numbers).collect();
    let used =
        |seconds| LinkUse { to: to.clone(), is_v6, streams: 1, seconds: Some(seconds), ..LinkUse::default() };
    let Some(first) = rows.first() else { return Vec::new() };
    if text.contains("Trans.") || text.contains("REQUEST/RESPONSE") {
        return match first[..] {
            [_, _, request, _, _, rate, ..] => vec![round_trips(banner, rate, request)],
            _ => Vec::new(),
        };
    }
    let bits = unit(text).unwrap_or(1e6);
    let is_udp = banner.contains("UDP") || text.contains("Messages");
    match (is_udp, &first[..], rows.get(1).map(Vec::as_slice)) {
        (true, [_, message, seconds, okay, _, sent, ..], received) => {
            let sent = stream("UDP stream, as sent", *sent * bits, *message, true, used(*seconds));
            let sent = sent.counted(okay * message * 8.0, *seconds);
            let received = received
                .and_then(|row| row.get(2))
                .map(|rate| stream("UDP stream, as received", rate * bits, *message, true, used(*seconds)));
            received.map_or_else(|| vec![sent], |received| vec![received])
        }
        (false, [_, _, message, seconds, rate, ..], _) => {
            vec![stream("TCP stream, as received", rate * bits, *message, false, used(*seconds))]
        }
        _ => Vec::new(),
    }
}

/// The numbers of a line that has nothing else.
fn numbers(line: &str) -> Option<Vec<f64>> {
    let all: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    all.filter(|all| !all.is_empty())
}

fn stream(name: &str, rate: f64, message: f64, is_udp: bool, used: LinkUse) -> Figure {
    let case = Case::of(if is_udp { "network.udp" } else { "network.tcp" })
        .with_size("message", message.max(1.0) as u64)
        .with_count("streams", 1)
        .with_word("direction", "up");
    let used = LinkUse { is_sent: name.ends_with("sent"), ..used };
    let mut figure = Figure::new(name, rate, Unit::BitPerSecond, Ok(Like::of(case, "goodput")));
    figure.subject = Subject::Link(used);
    figure
}

trait Counting {
    fn counted(self, bits: f64, seconds: f64) -> Self;
}

impl Counting for Figure {
    /// The figure with what was counted apart from it.
    fn counted(mut self, bits: f64, seconds: f64) -> Self {
        self.account = (bits > 0.0 && seconds > 0.0).then(|| Account::of(bits, Seconds::of(seconds)));
        self
    }
}

fn round_trips(banner: &str, rate: f64, _request: f64) -> Figure {
    let name = if banner.contains("UDP") { "UDP round trips" } else { "TCP round trips" };
    let no =
        "the limit of a round trip is an ICMP echo of the same run, which the file does not have".to_owned();
    Figure::new(name, rate, Unit::PerSecond, Err(no))
}

fn keys(text: &str) -> Vec<Figure> {
    let number = |key: &str| value(text, key).ok().filter(|number| *number != 0.0);
    if let Some(seconds) = number("RT_LATENCY").map(|micros| micros * 1e-6) {
        let no = "the limit of a round trip is an ICMP echo of the same run, which the file does not have";
        return vec![Figure::new("round trip", seconds, Unit::Second, Err(no.to_owned()))];
    }
    let bits = word(text, "THROUGHPUT_UNITS").ok().and_then(unit).unwrap_or(1e6);
    let is_udp = word(text, "PROTOCOL").is_ok_and(|protocol| protocol == "UDP");
    let to = word(text, "REMOTE_HOST").or_else(|_| word(text, "DESTINATION_ADDRESS")).ok();
    let to = to.map(|host| shown_within(host, 64));
    let used = LinkUse { to, streams: 1, seconds: number("ELAPSED_TIME"), ..LinkUse::default() };
    let ways =
        [("REMOTE_RECV_THROUGHPUT", "REMOTE_BYTES_RECVD"), ("LOCAL_RECV_THROUGHPUT", "LOCAL_BYTES_RECVD")];
    let received = ways.into_iter().filter_map(|(key, moved)| Some((key, number(key)?, number(moved))));
    let received: Vec<_> = received.collect();
    let all = match (received.is_empty(), number("THROUGHPUT")) {
        (true, Some(rate)) => vec![("THROUGHPUT", rate, None)],
        _ => received,
    };
    let message = number("LOCAL_SEND_SIZE").or_else(|| number("REMOTE_SEND_SIZE")).unwrap_or(1.0);
    let figure = |(key, rate, moved): (&str, f64, Option<f64>)| {
        let figure = stream(key, rate * bits, message, is_udp, used.clone());
        let seconds = used.seconds.unwrap_or(0.0);
        figure.counted(moved.unwrap_or(0.0) * 8.0, seconds)
    };
    all.into_iter().map(figure).collect()
}
