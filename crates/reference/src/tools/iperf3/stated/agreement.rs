use super::{IntervalSum, StatedReport, StreamSums, Sums, arrived_of, is_udp};
use crate::tools::prelude::*;

/// Tolerated ratio between counts of the same bytes at both ends.
const ENDS_TOLERANCE: f64 = 1.05;
/// Bytes in the buffers of a stream, which only one end has counted.
const BUFFERED_BYTES: f64 = (8 << 20) as f64;
/// Tolerated relative difference between the times of two sums.
const SAME_TIME: f64 = 0.03;

/// Returns why nothing arrived in a direction; `None` if something may have arrived.
pub(super) fn nothing_arrived(report: &StatedReport, sums: &Sums<'_>) -> Option<String> {
    let Sums { sent, received, sum, .. } = sums;
    let losses = [received, sum].into_iter().filter_map(|sum| sum.as_ref()?.lost_percent);
    if is_udp(report) && losses.into_iter().any(|lost| lost == 100.0) {
        return Some("every datagram was lost: nothing arrived".to_owned());
    }
    let is_none =
        |sum: &Option<IntervalSum>| sum.as_ref().is_some_and(|sum| sum.bits_per_second == Some(0.0));
    let has_some = |sum: &Option<IntervalSum>| sum.as_ref().is_some_and(|sum| sum.rate().is_some());
    let ended = report.error.is_none();
    // A server does not learn how much its client received.
    if ended && report.start.connecting_to.is_some() && is_none(received) && has_some(sent) && !has_some(sum)
    {
        return Some("nothing was received of what was sent".to_owned());
    }
    let known = [sent, received, sum];
    (ended && known.iter().any(|sum| is_none(sum)) && !known.iter().any(|sum| has_some(sum)))
        .then(|| "nothing was sent and nothing was received".to_owned())
}

/// Returns why a number in the sums of a direction is impossible on any machine; `None` if none is.
pub(super) fn absurd(sums: &Sums<'_>) -> Option<String> {
    sums.all().find_map(|sum| {
        let in_no_time = sum.seconds == Some(0.0) && sum.bytes.is_some_and(|bytes| bytes > 0.0);
        impossible_figure("its rate", sum.bits_per_second, Unit::BitPerSecond)
            .or_else(|| impossible_figure("the number of its bytes", sum.bytes, Unit::Byte))
            .or_else(|| impossible_figure("its time", sum.seconds, Unit::Second))
            .or_else(|| impossible_figure("its jitter", sum.jitter_ms, Unit::Second))
            .or_else(|| in_no_time.then(|| format!("it moved {} in 0 s", bytes(sum.bytes.unwrap_or(0.0)))))
            .or_else(|| datagrams(sum).absurd())
    })
}

/// Returns the counts of datagrams in `sum`, which one end of the connection has counted.
fn datagrams(sum: &IntervalSum) -> Messages {
    let IntervalSum { packets: sent, lost_packets: lost, lost_percent, .. } = *sum;
    Messages { what: "datagrams", sent, lost, lost_percent, ..Messages::default() }
}

/// Returns why the datagrams contradict the bytes of their sum or the lost share, if they do.
fn other_than_datagrams(report: &StatedReport, sums: &Sums<'_>) -> Option<String> {
    let size = report.start.test_start.blksize.filter(|_| is_udp(report));
    sums.all().find_map(|sum| Messages { bytes: sum.bytes.zip(size), ..datagrams(sum) }.contradiction())
}

/// Returns why a sum, less `buffers` bytes, exceeds twice the target rate; `None` if none does.
fn more_than_asked(report: &StatedReport, sums: &Sums<'_>, buffers: f64) -> Option<String> {
    const TIMES: f64 = 2.0;
    let start = &report.start;
    let target = start.test_start.target_bitrate.or(start.target_bitrate).filter(|rate| *rate > 0.0)?;
    let asked = target * start.test_start.num_streams.unwrap_or(1.0).max(1.0);
    let is_more = |sum: &&IntervalSum| {
        sum.bytes
            .zip(sum.seconds)
            .is_some_and(|(bytes, seconds)| seconds > 0.0 && bytes > asked / 8.0 * seconds * TIMES + buffers)
    };
    let rate = sums.all().find(is_more)?.rate()?;
    let [rate, asked] = [rate, asked].map(|rate| Quantity::new(rate, Unit::BitPerSecond));
    Some(format!("it moved {rate} where {asked} was asked for"))
}

/// Returns why a TCP stream sent far more than its congestion window allows per round trip; `None`
/// if none did. Window and round trip are sampled once per interval, so that the window may have
/// been larger between; only Linux counts them in bytes and microseconds.
fn more_than_window(report: &StatedReport, sums: &Sums<'_>) -> Option<String> {
    const TIMES: f64 = 20.0;
    let is_linux = report.start.system_info.as_deref().is_some_and(|uname| uname.starts_with("Linux "));
    if !is_linux || sums.is_back() {
        return None;
    }
    report.end.streams.iter().filter_map(|stream| stream.sender.as_ref()).find_map(|sender| {
        let window = sender.max_snd_cwnd.filter(|bytes| *bytes > 0.0)?;
        let micros = sender.min_rtt.filter(|micros| *micros > 0.0)?;
        let most = window * 8.0 / (micros * 1e-6);
        let rate = sender.rate().filter(|rate| *rate > most * TIMES)?;
        let [rate, most] = [rate, most].map(|rate| Quantity::new(rate, Unit::BitPerSecond));
        let round_trip = Quantity::new(micros * 1e-6, Unit::Second);
        Some(format!(
            "a stream sent {rate}; its window of {} in a round trip of {round_trip} lets it send {most}",
            bytes(window)
        ))
    })
}

/// Returns the first contradiction to the sums of a direction; `None` without any.
pub(super) fn contradiction(report: &StatedReport, sums: &Sums<'_>) -> Option<String> {
    let buffers = report.start.test_start.num_streams.unwrap_or(1.0).max(1.0) * BUFFERED_BYTES;
    more_than_sent(sums, buffers)
        .or_else(|| other_than_streams(report, sums, buffers))
        .or_else(|| other_than_intervals(report, sums, buffers))
        .or_else(|| other_than_datagrams(report, sums))
        .or_else(|| more_than_asked(report, sums, buffers))
        .or_else(|| more_than_window(report, sums))
}

fn more_than_sent(sums: &Sums<'_>, buffers: f64) -> Option<String> {
    let (sent, received) = (sums.sent.as_ref()?, sums.received.as_ref()?);
    let is_more = sent.bytes? > 0.0 && received.bytes? > sent.bytes? * ENDS_TOLERANCE + buffers;
    is_more.then(|| format!("its sender sent {} and its receiver received {}", moved(sent), moved(received)))
}

/// Returns why the bytes of the streams are not their TCP sum, with `buffers` bytes of tolerance.
fn other_than_streams(report: &StatedReport, sums: &Sums<'_>, buffers: f64) -> Option<String> {
    let streams = &report.end.streams;
    if is_udp(report) || is_both_ways(report) || sums.is_back() || streams.is_empty() {
        return None;
    }
    let received = |stream: &StreamSums| stream.receiver.as_ref().and_then(|sum| sum.bytes);
    let of_streams: f64 = streams.iter().map(received).sum::<Option<f64>>()?;
    let sum = sums.received.as_ref()?.bytes?;
    (!agree(of_streams, sum, buffers))
        .then(|| format!("its streams received {} and their sum is {}", bytes(of_streams), bytes(sum)))
}

/// Returns why the intervals, counted at one end, contradict all sums by more than `buffers` bytes.
fn other_than_intervals(report: &StatedReport, sums: &Sums<'_>, buffers: f64) -> Option<String> {
    if is_both_ways(report) || sums.is_back() {
        return None;
    }
    let all: Vec<&IntervalSum> =
        report.intervals.iter().filter_map(|interval| interval.sum.as_ref()).collect();
    let is_omitted = |sum: &IntervalSum| sum.omitted == Some(true);
    let total = |value: fn(&IntervalSum) -> Option<f64>, omitted: bool| {
        all.iter().filter(|sum| omitted || !is_omitted(sum)).map(|sum| value(sum)).sum::<Option<f64>>()
    };
    let (moved, seconds) = (total(|sum| sum.bytes, false)?, total(|sum| sum.seconds, false)?);
    let with_omitted = total(|sum| sum.seconds, true)?;
    let ends = [sums.sent, sums.received, sums.sum].into_iter().flatten();
    let ends: Vec<(f64, f64)> = ends
        .flat_map(|sum| [(sum.bytes, sum.seconds), (arrived_of(sum).bytes, sum.seconds)])
        .filter_map(|(bytes, seconds)| Some((bytes.filter(|bytes| *bytes > 0.0)?, seconds?)))
        .collect();
    let lasts = |wanted: f64| move |(_, seconds): &(f64, f64)| (seconds / wanted - 1.0).abs() < SAME_TIME;
    let rate = |bytes: f64, seconds: f64| Quantity::new(bytes * 8.0 / seconds, Unit::BitPerSecond);
    let same: Vec<&(f64, f64)> = ends.iter().filter(|end| lasts(seconds)(end)).collect();
    match (same.as_slice(), ends.first()) {
        ([(sum, time), ..], _) => (!same.iter().any(|(sum, _)| agree(*sum, moved, buffers))).then(|| {
            format!("its intervals have {} and their sum is {}", rate(moved, seconds), rate(*sum, *time))
        }),
        ([], Some(end)) => (with_omitted > seconds && lasts(with_omitted)(end))
            .then(|| "its sum counts the seconds that were to be omitted".to_owned()),
        ([], None) => None,
    }
}

fn is_both_ways(report: &StatedReport) -> bool {
    let end = &report.end;
    let back = [&end.sum_bidir_reverse, &end.sum_sent_bidir_reverse, &end.sum_received_bidir_reverse];
    let directions = end.streams.iter().filter_map(StreamSums::sends).collect::<Vec<_>>();
    back.into_iter().any(Option::is_some) || directions.contains(&true) && directions.contains(&false)
}

/// Returns whether two counts of bytes agree within 5 % + `buffers` bytes; NaN agrees with all.
fn agree(one: f64, other: f64, buffers: f64) -> bool {
    let (least, most) = (one.min(other), one.max(other));
    most <= least * ENDS_TOLERANCE + buffers
}

/// Formats the bytes of a sum and, if known, its rate.
fn moved(sum: &IntervalSum) -> String {
    let rate = sum.bits_per_second.map(|rate| format!(" ({})", Quantity::new(rate, Unit::BitPerSecond)));
    format!("{}{}", bytes(sum.bytes.unwrap_or(f64::NAN)), rate.unwrap_or_default())
}

fn bytes(bytes: f64) -> Quantity {
    Quantity::new(bytes, Unit::Byte)
}

#[cfg(test)]
mod tests {
    use crate::stated::{StatedFigure, read};

    const UDP: &str = r#"{"start": {"version": "iperf 3.12", "system_info": "Linux box 6.1 #1 SMP x86_64",
        "test_start": {"protocol": "UDP", "num_streams": 1, "blksize": 1448, "target_bitrate": 500000000}},
        "end": {"sum_sent": {"seconds": 2.0, "bytes": 124959504, "bits_per_second": 499838016, "packets": 86298},
        "sum_received": {"seconds": 2.0, "bytes": 89098336, "bits_per_second": 356393344, "jitter_ms": 0.1,
        "lost_packets": 24766, "packets": 86298, "lost_percent": 28.7}}}"#;
    const TCP: &str = r#"{"start": {"version": "iperf 3.12", "system_info": "Linux box 6.1 #1 SMP x86_64",
        "test_start": {"protocol": "TCP", "num_streams": 1, "blksize": 131072}},
        "end": {"streams": [{"sender": {"bits_per_second": 860000000, "max_snd_cwnd": 637120, "min_rtt": 1208}}],
        "sum_sent": {"seconds": 2.0, "bytes": 217500000, "bits_per_second": 870000000},
        "sum_received": {"seconds": 2.0, "bytes": 215000000, "bits_per_second": 860000000}}, "error": null}"#;

    fn changed(text: &str, from: &str, to: &str) -> StatedFigure {
        assert!(text.contains(from), "{from}");
        read(&text.replace(from, to), Some("iperf3")).unwrap().figures.remove(0)
    }

    #[test]
    fn numbers_that_agree_are_not_accused() {
        for text in [UDP, TCP] {
            let figure = changed(text, "Linux", "Linux");
            assert_eq!((figure.absurd, figure.contradiction, figure.void), (None, None, None));
        }
    }

    #[test]
    fn impossible_numbers_of_a_sum_are_absurd() {
        for (text, from, to) in [
            (UDP, "\"lost_packets\": 24766", "\"lost_packets\": 999999"),
            (UDP, "\"lost_packets\": 24766", "\"lost_packets\": -24766"),
            (UDP, "\"jitter_ms\": 0.1", "\"jitter_ms\": -3"),
            (UDP, "28.7", "-5"),
            (UDP, "28.7", "250"),
            (UDP, "28.7", "nan"),
            (TCP, "\"seconds\": 2.0", "\"seconds\": -2.0"),
            (TCP, "\"seconds\": 2.0", "\"seconds\": 0"),
            (TCP, "870000000", "-870000000"),
            (TCP, "870000000", "1e308"),
        ] {
            assert!(changed(text, from, to).absurd.is_some(), "{from} {to}");
        }
    }

    #[test]
    fn sums_that_their_own_counts_contradict_are_found() {
        for (text, from, to) in [
            (UDP, "\"lost_packets\": 24766", "\"lost_packets\": 0"),
            (UDP, "\"packets\": 86298}", "\"packets\": 10}"),
            (UDP, "500000000", "1000000"),
            (TCP, "637120, \"min_rtt\": 1208", "14480, \"min_rtt\": 200000"),
        ] {
            assert!(changed(text, from, to).contradiction.is_some(), "{from} {to}");
        }
    }

    #[test]
    fn a_run_that_ended_in_an_error_is_no_figure() {
        assert!(changed(TCP, "null", "\"error - unable to receive results\"").void.is_some());
        assert!(changed(TCP, "null", "\"interrupt - the client has terminated\"").void.is_none());
    }
}
