//! What a document of iperf3 states: what arrived in each direction, of all its streams together.
//!
//! 3.1 to 3.20: TCP has `sum_sent` and `sum_received`, and for `--bidir` both again with `_bidir_reverse`; UDP has `sum` with
//! what was sent and the share that was lost, and since 3.7 the others too (iperf_api.c, `iperf_json_finish`).

use serde::Deserialize;

use super::TOOL;
use crate::case::Case;
use crate::quantity::Unit;
use crate::stated::{Figure, Like, LinkUse, Origin, Stated, Subject};
use crate::text::shown_within;
use crate::{Account, Seconds, json};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Report {
    error: Option<String>,
    start: Start,
    end: End,
}

/// What a part of a stream of documents is.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    event: Option<String>,
}

#[derive(Deserialize)]
struct Part<T> {
    data: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Start {
    connected: Vec<Connected>,
    version: Option<String>,
    system_info: Option<String>,
    connecting_to: Option<Host>,
    accepted_connection: Option<Host>,
    target_bitrate: Option<f64>,
    tcp_mss: Option<f64>,
    tcp_mss_default: Option<f64>,
    test_start: TestStart,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Connected {
    local_host: String,
    remote_host: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Host {
    host: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TestStart {
    protocol: String,
    num_streams: Option<f64>,
    blksize: Option<f64>,
    reverse: Option<f64>,
    target_bitrate: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct End {
    streams: Vec<Stream>,
    sum: Option<Sum>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    sum_bidir_reverse: Option<Sum>,
    sum_sent_bidir_reverse: Option<Sum>,
    sum_received_bidir_reverse: Option<Sum>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stream {
    sender: Option<Sum>,
    receiver: Option<Sum>,
    udp: Option<Sum>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sum {
    #[serde(deserialize_with = "json::number")]
    bits_per_second: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    bytes: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    seconds: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    lost_percent: Option<f64>,
    sender: Option<bool>,
}

impl Sum {
    fn rate(&self) -> Option<f64> {
        self.bits_per_second.filter(|rate| *rate != 0.0)
    }

    /// Why its share of lost datagrams cannot be true.
    fn absurd_loss(&self) -> Option<String> {
        let lost = self.lost_percent.filter(|lost| !(0.0..=100.0).contains(lost))?;
        Some(format!("it lost {lost} % of its datagrams: a share is between 0 and 100 %"))
    }
}

/// Whether a text is what iperf3 prints for people.
fn is_plain(text: &str) -> bool {
    let header = |line: &str| line.trim_start().starts_with("[ ID] Interval") && line.contains("Bitrate");
    !text.contains("\"start\"") && text.lines().any(header)
}

pub(super) fn recognises(text: &str) -> bool {
    let has = |key: &str| text.contains(key);
    is_plain(text)
        || text.trim_start().starts_with("{\"event\"") && has("\"data\"")
        || has("\"start\"") && (has("\"test_start\"") || has("\"iperf 3") || has("\"error\""))
        || has("\"error\"") && has("\"end\"")
        || text.trim_start().starts_with('{')
            && has("\"error\"")
            && !has("\"fio version\"")
            && text.len() < 4096
}

/// An event of a stream that another one began.
pub(super) fn continues(_: &str, document: &str) -> bool {
    let event = json::document::<Event>(document).ok().and_then(|event| event.event);
    event.is_some_and(|event| event != "start")
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    if is_plain(text) {
        return Err("it is iperf3's text for people; iperf3 -J writes what can be read".to_owned());
    }
    let report = report(text)?;
    let version = report.start.version.as_deref().map(|v| v.trim_start_matches("iperf "));
    let mut stated = Stated::by(TOOL.name, version);
    stated.origin = origin(report.start.system_info.as_deref().unwrap_or_default());
    stated.trouble = report.error.as_deref().map(|error| shown_within(error.trim(), 200));
    stated.figures = figures(&report);
    if stated.figures.is_empty() && stated.trouble.is_none() {
        return Err("its JSON has no end with a sum".to_owned());
    }
    Ok(stated)
}

/// The document; with `--json-stream` its parts are documents of their own.
fn report(text: &str) -> Result<Report, String> {
    let texts = json::texts(text)?;
    let mut whole = Report::default();
    for text in &texts {
        match json::document::<Event>(text)?.event.as_deref() {
            None => whole = json::document(text)?,
            Some("start") => whole.start = json::document::<Part<Start>>(text)?.data,
            Some("end") => whole.end = json::document::<Part<End>>(text)?.data,
            Some("error") => whole.error = Some(json::document::<Part<String>>(text)?.data),
            Some(_) => {}
        }
    }
    Ok(whole)
}

/// `Linux HOST RELEASE VERSION ARCHITECTURE`, as `uname -a` says it.
fn origin(uname: &str) -> Origin {
    let words: Vec<&str> = uname.split_whitespace().collect();
    let known = words.len() >= 4 && words.first() == Some(&"Linux");
    let kept = |word: Option<&&str>| word.filter(|_| known).map(|word| shown_within(word, 64));
    Origin { host: kept(words.get(1)), architecture: kept(words.last()) }
}

fn figures(report: &Report) -> Vec<Figure> {
    let End { sum, sum_sent, sum_received, sum_bidir_reverse, .. } = &report.end;
    let back = (&report.end.sum_sent_bidir_reverse, &report.end.sum_received_bidir_reverse);
    let is_udp = is_udp(report);
    let mut figures = Vec::new();
    for (sent, received, sum, is_back) in
        [(sum_sent, sum_received, sum, false), (back.0, back.1, sum_bidir_reverse, true)]
    {
        let suffix = if is_back { "_bidir_reverse" } else { "" };
        let arrived = received.as_ref().filter(|sum| sum.rate().is_some());
        let figure = match (arrived, sent, sum) {
            (Some(received), _, _) => figure(report, &format!("sum_received{suffix}"), received, false),
            // What was sent of UDP, less what was lost.
            (None, _, Some(sum)) if is_udp => {
                figure(report, &format!("sum{suffix} less lost"), &arrived_of(sum), false)
            }
            (None, Some(sent), _) => figure(report, &format!("sum_sent{suffix}"), sent, true),
            (None, None, Some(sum)) => figure(report, &format!("sum{suffix}"), sum, true),
            (None, None, None) => None,
        };
        figures.extend(figure.map(|figure| with_ways(report, figure, is_back)));
    }
    figures
}

/// Whether datagrams were sent: only they are lost.
fn is_udp(report: &Report) -> bool {
    let losses = [&report.end.sum, &report.end.sum_received];
    report.start.test_start.protocol.eq_ignore_ascii_case("udp")
        || losses.into_iter().flatten().any(|sum| sum.lost_percent.is_some())
}

/// What arrived, where a sum counts what was sent and the share that was lost.
fn arrived_of(sum: &Sum) -> Sum {
    let share = 1.0 - sum.lost_percent.unwrap_or(0.0).clamp(0.0, 100.0) / 100.0;
    let less = |value: Option<f64>| value.map(|value| value * share);
    Sum { bits_per_second: less(sum.bits_per_second), bytes: less(sum.bytes), ..*sum }
}

fn figure(report: &Report, name: &str, sum: &Sum, is_sent: bool) -> Option<Figure> {
    let start = &report.start;
    let TestStart { protocol, num_streams, blksize, reverse, .. } = &start.test_start;
    let rate = sum.rate()?;
    let is_udp = is_udp(report);
    let benchmark = if is_udp { "network.udp" } else { "network.tcp" };
    let down = reverse.is_some_and(|reverse| reverse > 0.5) ^ name.contains("_reverse");
    let streams = num_streams.filter(|n| *n >= 1.0).unwrap_or(1.0) as u64;
    let mut case = Case::of(benchmark)
        .with_count("streams", streams)
        .with_word("direction", if down { "down" } else { "up" });
    if let Some(message) = blksize.filter(|bytes| *bytes >= 1.0) {
        case = case.with_size("message", message as u64);
    }
    let like = match protocol.to_ascii_uppercase().as_str() {
        "TCP" | "UDP" | "" => Ok(Like::of(case, "goodput")),
        other => Err(format!("plimsoll derives no limit for {}", shown_within(other, 20))),
    };
    let mut figure = Figure::new(name, rate, Unit::BitPerSecond, like);
    figure.account = sum
        .bytes
        .zip(sum.seconds)
        .filter(|(bytes, seconds)| *bytes > 0.0 && *seconds > 0.0)
        .map(|(bytes, seconds)| Account::of(bytes * 8.0, Seconds::of(seconds)));
    figure.absurd = sum.absurd_loss();
    figure.subject = Subject::Link(used(report, sum, streams, is_sent));
    Some(figure)
}

fn used(report: &Report, sum: &Sum, streams: u64, is_sent: bool) -> LinkUse {
    let start = &report.start;
    let ends = start.connected.first().map(|c| [c.local_host.clone(), c.remote_host.clone()]);
    let to = start.connecting_to.as_ref().or(start.accepted_connection.as_ref());
    // iperf3's own target is of each stream.
    let is_udp = is_udp(report);
    let target = start.test_start.target_bitrate.or(start.target_bitrate);
    // Versions before 3.10 do not write it, and datagrams are sent at 1 Mbit/s unless asked otherwise.
    let target = target.or(is_udp.then_some(1e6)).filter(|rate| *rate > 0.0);
    let asked = target.map(|rate| rate * streams as f64);
    LinkUse {
        is_v6: ends.as_ref().is_some_and(|[_, far]| far.contains(':')),
        ends: ends.filter(|ends| ends.iter().all(|end| !end.is_empty())),
        to: to.map(|host| host.host.clone()).filter(|host| !host.is_empty()),
        streams,
        segment: start.tcp_mss_default.or(start.tcp_mss).filter(|bytes| *bytes > 0.0),
        seconds: sum.seconds,
        each_way: None,
        asked,
        is_sent,
    }
}

/// The figure with what the streams of each direction say, where both ran at once (`--bidir`, which 3.12 does not write down itself).
fn with_ways(report: &Report, mut figure: Figure, is_back: bool) -> Figure {
    let rate = |stream: &Stream| {
        let udp = stream.udp.as_ref().map(arrived_of);
        let tcp = stream.receiver.as_ref().and_then(Sum::rate);
        let sends =
            [&stream.sender, &stream.receiver, &stream.udp].into_iter().flatten().find_map(|s| s.sender);
        Some((sends?, tcp.or_else(|| udp.and_then(|sum| sum.rate()))?))
    };
    let rates: Vec<(bool, f64)> = report.end.streams.iter().filter_map(rate).collect();
    let way = |forward: bool| rates.iter().filter(|(sends, _)| *sends == forward).map(|(_, rate)| rate).sum();
    let (there, back): (f64, f64) = (way(true), way(false));
    if let Subject::Link(used) = &mut figure.subject
        && there > 0.0
        && back > 0.0
    {
        used.each_way = Some(if is_back { [back, there] } else { [there, back] });
    }
    figure
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_for_people_is_told_from_json() {
        let text =
            "Connecting to host box, port 5201\n[ ID] Interval           Transfer     Bitrate         Retr\n";
        assert!(crate::stated::read(text, None).unwrap_err().contains("-J"));
    }
}
