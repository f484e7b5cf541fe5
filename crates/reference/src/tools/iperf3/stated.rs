//! Reads iperf3's JSON: the received data of each direction, summed over streams. 3.1 to 3.20: TCP
//! has `sum_sent` and `sum_received`, with `--bidir` also with `_bidir_reverse`; UDP has `sum`, and
//! since 3.7 also the other sums (iperf_api.c, `iperf_json_finish`).

mod agreement;

use serde::Deserialize;

use crate::tools::prelude::*;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StatedReport {
    pub(super) error: Option<String>,
    pub(super) start: StatedStart,
    intervals: Vec<Interval>,
    pub(super) end: EndResults,
}

#[derive(Deserialize)]
struct StreamEvent {
    event: Option<String>,
}

#[derive(Deserialize)]
struct EventData<T> {
    data: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StatedStart {
    connected: Vec<Connected>,
    version: Option<String>,
    system_info: Option<String>,
    connecting_to: Option<ConnectingHost>,
    accepted_connection: Option<ConnectingHost>,
    target_bitrate: Option<f64>,
    tcp_mss: Option<f64>,
    tcp_mss_default: Option<f64>,
    pub(super) test_start: StatedTest,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Connected {
    local_host: String,
    remote_host: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConnectingHost {
    host: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StatedTest {
    protocol: String,
    pub(super) num_streams: Option<f64>,
    pub(super) blksize: Option<f64>,
    reverse: Option<f64>,
    target_bitrate: Option<f64>,
}

#[derive(Deserialize)]
struct Interval {
    sum: Option<IntervalSum>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct EndResults {
    streams: Vec<StreamSums>,
    sum: Option<IntervalSum>,
    sum_sent: Option<IntervalSum>,
    pub(super) sum_received: Option<IntervalSum>,
    sum_bidir_reverse: Option<IntervalSum>,
    sum_sent_bidir_reverse: Option<IntervalSum>,
    pub(super) sum_received_bidir_reverse: Option<IntervalSum>,
}

#[derive(Deserialize)]
struct StreamSums {
    sender: Option<IntervalSum>,
    receiver: Option<IntervalSum>,
    udp: Option<IntervalSum>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct IntervalSum {
    #[serde(deserialize_with = "json::number")]
    pub(super) bits_per_second: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    pub(super) bytes: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    pub(super) seconds: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    lost_percent: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    lost_packets: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    packets: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    jitter_ms: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    max_snd_cwnd: Option<f64>,
    #[serde(deserialize_with = "json::number")]
    min_rtt: Option<f64>,
    sender: Option<bool>,
    omitted: Option<bool>,
}

impl StreamSums {
    /// Returns whether the stream sent from client to server; `None` if unknown.
    fn sends(&self) -> Option<bool> {
        [&self.sender, &self.receiver, &self.udp].into_iter().flatten().find_map(|sum| sum.sender)
    }
}

impl IntervalSum {
    fn rate(&self) -> Option<f64> {
        self.bits_per_second.filter(|rate| *rate != 0.0)
    }
}

/// Returns whether a text is iperf3's text output: up to 3.2 the heading has the word Bandwidth, as
/// in iperf 2, and totals end with `sender` or `receiver`.
fn is_plain(text: &str) -> bool {
    let heading = |line: &str| line.trim_start().starts_with("[ ID] Interval");
    let is_its_heading = |line: &str| heading(line) && line.contains("Bitrate");
    let is_total = |line: &str| {
        let line = line.trim();
        line.starts_with('[')
            && line.contains("bits/sec")
            && (line.ends_with(" sender") || line.ends_with(" receiver"))
    };
    let banners = ["iperf Done.", "Connecting to host ", "Accepted connection from "];
    let is_banner = |line: &str| banners.iter().any(|banner| line.starts_with(*banner));
    let any = |is: &dyn Fn(&str) -> bool| text.lines().any(is);
    !text.contains("\"start\"")
        && (any(&is_its_heading) || any(&is_total) || any(&heading) && any(&is_banner))
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

/// Returns whether a document is an event that continues a stream (`--json-stream`).
pub(super) fn continues(_: &str, document: &str) -> bool {
    let event = json::document::<StreamEvent>(document).ok().and_then(|event| event.event);
    event.is_some_and(|event| event != "start")
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    if is_plain(text) {
        return Err("it is iperf3's text for people; iperf3 -J writes what can be read".to_owned());
    }
    let report = report(text)?;
    let version = report.start.version.as_deref().map(|v| v.trim_start_matches("iperf ").to_owned());
    let origin = origin(report.start.system_info.as_deref().unwrap_or_default());
    let trouble = report.error.as_deref().map(|error| shown_within(error.trim(), 200));
    let figures = figures(&report);
    if figures.is_empty() && trouble.is_none() {
        return Err("its JSON has no end with a sum".to_owned());
    }
    Ok(Stated { version, origin, trouble, figures, ..Stated::default() })
}

/// Parses a document, whole or in the parts (one event each) that `--json-stream` writes.
fn report(text: &str) -> Result<StatedReport, String> {
    let texts = json::texts(text)?;
    let mut whole = StatedReport::default();
    for text in &texts {
        match json::document::<StreamEvent>(text)?.event.as_deref() {
            None => whole = json::document(text)?,
            Some("start") => whole.start = json::document::<EventData<StatedStart>>(text)?.data,
            Some("end") => whole.end = json::document::<EventData<EndResults>>(text)?.data,
            Some("interval") => whole.intervals.push(json::document::<EventData<Interval>>(text)?.data),
            Some("error") => whole.error = Some(json::document::<EventData<String>>(text)?.data),
            Some(_) => {}
        }
    }
    Ok(whole)
}

/// Parses `uname -a`: system, host, last known architecture or `None`. Below two words, all `None`.
fn origin(uname: &str) -> StatedMachine {
    let words: Vec<&str> = uname.split_whitespace().collect();
    let [system, host, rest @ ..] = words.as_slice() else { return StatedMachine::default() };
    let architecture = rest.iter().rfind(|word| is_architecture(word));
    let kept = |word: &&str| shown_within(word, 64);
    StatedMachine { system: Some(kept(system)), host: Some(kept(host)), architecture: architecture.map(kept) }
}

fn is_architecture(word: &str) -> bool {
    const FAMILIES: [&str; 16] = [
        "x86_64", "amd64", "i386", "i486", "i586", "i686", "aarch64", "arm", "ppc", "powerpc", "s390",
        "riscv", "mips", "loong", "sparc", "alpha",
    ];
    // The word alpha may also be part of a version.
    FAMILIES.iter().any(|family| word.starts_with(family) && (*family != "alpha" || word == "alpha"))
}

fn figures(report: &StatedReport) -> Vec<StatedFigure> {
    let end = &report.end;
    let forward = Sums { suffix: "", sent: &end.sum_sent, received: &end.sum_received, sum: &end.sum };
    let back = Sums {
        suffix: "_bidir_reverse",
        sent: &end.sum_sent_bidir_reverse,
        received: &end.sum_received_bidir_reverse,
        sum: &end.sum_bidir_reverse,
    };
    [forward, back].iter().filter_map(|sums| direction(report, sums)).collect()
}

struct Sums<'a> {
    suffix: &'static str,
    sent: &'a Option<IntervalSum>,
    received: &'a Option<IntervalSum>,
    sum: &'a Option<IntervalSum>,
}

impl<'a> Sums<'a> {
    fn all(&self) -> impl Iterator<Item = &'a IntervalSum> {
        [self.received, self.sent, self.sum].into_iter().flatten()
    }

    fn is_back(&self) -> bool {
        !self.suffix.is_empty()
    }
}

/// Returns the figure of one direction: data received, else data sent; `None` without both.
fn direction(report: &StatedReport, sums: &Sums<'_>) -> Option<StatedFigure> {
    let Sums { suffix, sent, received, sum } = sums;
    let arrived = received.as_ref().filter(|sum| sum.rate().is_some());
    if let Some(why) = agreement::nothing_arrived(report, sums) {
        let none = IntervalSum { bits_per_second: Some(0.0), ..IntervalSum::default() };
        let figure = figure(report, &format!("sum_received{suffix}"), &none, false);
        return Some(StatedFigure { void: Some(why), ..figure });
    }
    let figure = match (arrived, sent, sum) {
        (Some(received), _, _) => figure(report, &format!("sum_received{suffix}"), received, false),
        // Sent UDP data, less the lost share.
        (None, _, Some(sum)) if is_udp(report) => {
            figure(report, &format!("sum{suffix} less lost"), &arrived_of(sum), false)
        }
        (None, Some(sent), _) => figure(report, &format!("sum_sent{suffix}"), sent, true),
        (None, None, Some(sum)) => figure(report, &format!("sum{suffix}"), sum, true),
        (None, None, None) => return None,
    };
    let figure = StatedFigure {
        absurd: agreement::absurd(sums),
        contradiction: agreement::contradiction(report, sums),
        void: ended_early(report),
        ..figure
    };
    (figure.value != 0.0).then(|| with_ways(report, figure, sums.is_back()))
}

/// Returns why a run that ended with an error, not an interrupt, has no figure; else `None`.
fn ended_early(report: &StatedReport) -> Option<String> {
    let error = report.error.as_deref()?.trim();
    (!error.starts_with("interrupt"))
        .then(|| format!("the run ended in an error: {}", shown_within(error, 200)))
}

fn is_udp(report: &StatedReport) -> bool {
    let losses = [&report.end.sum, &report.end.sum_received];
    report.start.test_start.protocol.eq_ignore_ascii_case("udp")
        || losses.into_iter().flatten().any(|sum| sum.lost_percent.is_some())
}

/// Returns the data that arrived: the sent data in `sum` less the lost share.
fn arrived_of(sum: &IntervalSum) -> IntervalSum {
    let share = 1.0 - sum.lost_percent.unwrap_or(0.0).clamp(0.0, 100.0) / 100.0;
    let less = |value: Option<f64>| value.map(|value| value * share);
    IntervalSum { bits_per_second: less(sum.bits_per_second), bytes: less(sum.bytes), ..*sum }
}

fn figure(report: &StatedReport, name: &str, sum: &IntervalSum, is_sent: bool) -> StatedFigure {
    let start = &report.start;
    let StatedTest { protocol, num_streams, blksize, reverse, .. } = &start.test_start;
    let rate = sum.bits_per_second.unwrap_or(0.0);
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
        "TCP" | "UDP" | "" => Ok(EquivalentCase::of(case, "goodput")),
        other => Err(format!("plimsoll derives no limit for {}", shown_within(other, 20))),
    };
    let figure = StatedFigure::new(name, rate, Unit::BitPerSecond, like);
    let mut figure = figure.counted(sum.bytes.unwrap_or(0.0) * 8.0, sum.seconds.unwrap_or(0.0));
    figure.subject = Subject::Link(used(report, sum, streams, is_sent));
    figure
}

fn used(report: &StatedReport, sum: &IntervalSum, streams: u64, is_sent: bool) -> LinkUse {
    let start = &report.start;
    let ends = start.connected.first().map(|c| [c.local_host.clone(), c.remote_host.clone()]);
    let to = start.connecting_to.as_ref().or(start.accepted_connection.as_ref());
    // iperf3's target rate is per stream.
    let is_udp = is_udp(report);
    let target = start.test_start.target_bitrate.or(start.target_bitrate);
    // Versions before 3.10 do not write it; the default for datagrams is 1 Mbit/s.
    let target = target.or(is_udp.then_some(1e6)).filter(|rate| *rate > 0.0);
    let asked = target.map(|rate| rate * streams as f64);
    LinkUse {
        is_v6: ends.as_ref().is_some_and(|[_, far]| far.contains(':')),
        ends: ends.filter(|ends| ends.iter().all(|end| !end.is_empty())),
        to: to.map(|host| host.host.clone()).filter(|host| !host.is_empty()),
        streams,
        segment: start.tcp_mss_default.or(start.tcp_mss).filter(|bytes| *bytes > 0.0),
        seconds: sum.seconds,
        both_directions: None,
        asked,
        is_sent,
        datagram: is_udp.then(|| start.test_start.blksize.unwrap_or(0.0)),
    }
}

/// Adds the rates of both directions, its own first, to `figure` if they ran at once (3.12 does not
/// record `--bidir`). `is_back`: the figure's own direction is from server to client.
fn with_ways(report: &StatedReport, mut figure: StatedFigure, is_back: bool) -> StatedFigure {
    let rate = |stream: &StreamSums| {
        let udp = stream.udp.as_ref().map(arrived_of);
        let tcp = stream.receiver.as_ref().and_then(IntervalSum::rate);
        Some((stream.sends()?, tcp.or_else(|| udp.and_then(|sum| sum.rate()))?))
    };
    let rates: Vec<(bool, f64)> = report.end.streams.iter().filter_map(rate).collect();
    let direction =
        |forward: bool| rates.iter().filter(|(sends, _)| *sends == forward).map(|(_, rate)| rate).sum();
    let (there, back): (f64, f64) = (direction(true), direction(false));
    if let Subject::Link(used) = &mut figure.subject
        && there > 0.0
        && back > 0.0
    {
        used.both_directions = Some(if is_back { [back, there] } else { [there, back] });
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_people_is_told_from_json_and_from_that_of_iperf_2() {
        let text =
            "Connecting to host box, port 5201\n[ ID] Interval           Transfer     Bitrate         Retr\n";
        let old = text.replace("Bitrate", "Bandwidth");
        let total = "[  4]   0.00-10.00  sec  1.10 GBytes   942 Mbits/sec    0             sender\n";
        for text in [text, &old, total] {
            assert!(crate::stated::read(text, None).unwrap_err().contains("-J"), "{text}");
        }
        assert!(!is_plain(
            "[ ID] Interval       Transfer     Bandwidth\n[  3]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec\n"
        ));
    }

    #[test]
    fn the_origin_is_read_from_uname_of_any_system() {
        for (uname, built) in [
            ("Linux a 6.1.0-9-amd64 #1 SMP Debian 6.1.27-1 (2023-05-08) x86_64", "x86_64"),
            ("Linux a 4.4.0-79-generic #100-Ubuntu SMP Wed x86_64 x86_64 x86_64 GNU/Linux\n", "x86_64"),
            ("Linux a 5.15 #1-Alpine SMP x86_64 Linux", "x86_64"),
            ("Linux a 6.1 #1 SMP aarch64 Intel(R) Xeon(R) GenuineIntel GNU/Linux", "aarch64"),
            ("Darwin a 23.5.0 Darwin Kernel Version 23.5.0: root:xnu-1/RELEASE_ARM64_T6000 arm64", "arm64"),
            ("FreeBSD a 13.1-RELEASE FreeBSD 13.1-RELEASE releng/13.1-n250148 GENERIC amd64", "amd64"),
            ("CYGWIN_NT-10.0 a 2.5.1(0.297/5/3) 2016-04-21 22:14 x86_64", "x86_64"),
            ("Linux a 5.10 #1 unknown", ""),
        ] {
            let StatedMachine { system, architecture, host } = origin(uname);
            assert_eq!((system.as_deref(), host.as_deref()), (uname.split(' ').next(), Some("a")));
            assert_eq!(architecture.unwrap_or_default(), built, "{uname}");
        }
        assert_eq!(origin(""), StatedMachine::default());
    }
}
