//! Whether the sums of a document of iperf3 agree with each other, with their streams and with their intervals.

use super::{Report, Stream, Sum, Sums, arrived_of, is_udp};
use crate::quantity::{Quantity, Unit};

/// How far sums of the same bytes may be apart: both ends start and stop counting at other moments.
const TOLERANCE: f64 = 1.05;
/// Bytes that the buffers of a stream hold, which only one end has counted.
const BUFFERED_BYTES: f64 = (8 << 20) as f64;
/// How near the seconds of two sums of the same time are.
const SAME_TIME: f64 = 0.03;

/// Why nothing arrived in a direction, as far as the document shows.
pub(super) fn nothing_arrived(report: &Report, sums: &Sums<'_>) -> Option<String> {
    let Sums { sent, received, sum, .. } = sums;
    let losses = [received, sum].into_iter().filter_map(|sum| sum.as_ref()?.lost_percent);
    if is_udp(report) && losses.into_iter().any(|lost| lost == 100.0) {
        return Some("every datagram was lost: nothing arrived".to_owned());
    }
    let is_none = |sum: &Option<Sum>| sum.as_ref().is_some_and(|sum| sum.bits_per_second == Some(0.0));
    let has_some = |sum: &Option<Sum>| sum.as_ref().is_some_and(|sum| sum.rate().is_some());
    let ended = report.error.is_none();
    // A server does not learn what its client received.
    if ended && report.start.connecting_to.is_some() && is_none(received) && has_some(sent) && !has_some(sum)
    {
        return Some("nothing was received of what was sent".to_owned());
    }
    let known = [sent, received, sum];
    (ended && known.iter().any(|sum| is_none(sum)) && !known.iter().any(|sum| has_some(sum)))
        .then(|| "nothing was sent and nothing was received".to_owned())
}

/// What in the document contradicts the sums of a direction.
pub(super) fn contradiction(report: &Report, sums: &Sums<'_>) -> Option<String> {
    let buffers = report.start.test_start.num_streams.unwrap_or(1.0).max(1.0) * BUFFERED_BYTES;
    more_than_sent(sums, buffers)
        .or_else(|| other_than_streams(report, sums, buffers))
        .or_else(|| other_than_intervals(report, sums, buffers))
}

fn more_than_sent(sums: &Sums<'_>, buffers: f64) -> Option<String> {
    let (sent, received) = (sums.sent.as_ref()?, sums.received.as_ref()?);
    let is_more = sent.bytes? > 0.0 && received.bytes? > sent.bytes? * TOLERANCE + buffers;
    is_more.then(|| format!("its sender sent {} and its receiver received {}", moved(sent), moved(received)))
}

/// The streams of TCP, of which each end counts its own bytes.
fn other_than_streams(report: &Report, sums: &Sums<'_>, buffers: f64) -> Option<String> {
    let streams = &report.end.streams;
    if is_udp(report) || is_both_ways(report) || sums.is_back() || streams.is_empty() {
        return None;
    }
    let received = |stream: &Stream| stream.receiver.as_ref().and_then(|sum| sum.bytes);
    let of_streams: f64 = streams.iter().map(received).sum::<Option<f64>>()?;
    let sum = sums.received.as_ref()?.bytes?;
    (!agree(of_streams, sum, buffers))
        .then(|| format!("its streams received {} and their sum is {}", bytes(of_streams), bytes(sum)))
}

/// The intervals count what one end moved.
fn other_than_intervals(report: &Report, sums: &Sums<'_>, buffers: f64) -> Option<String> {
    if is_both_ways(report) || sums.is_back() {
        return None;
    }
    let all: Vec<&Sum> = report.intervals.iter().filter_map(|interval| interval.sum.as_ref()).collect();
    let is_omitted = |sum: &Sum| sum.omitted == Some(true);
    let total = |value: fn(&Sum) -> Option<f64>, omitted: bool| {
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

fn is_both_ways(report: &Report) -> bool {
    let end = &report.end;
    let back = [&end.sum_bidir_reverse, &end.sum_sent_bidir_reverse, &end.sum_received_bidir_reverse];
    let directions = end.streams.iter().filter_map(Stream::sends).collect::<Vec<_>>();
    back.into_iter().any(Option::is_some) || directions.contains(&true) && directions.contains(&false)
}

/// Whether two counts of the same bytes agree; what is no number contradicts nothing.
fn agree(one: f64, other: f64, buffers: f64) -> bool {
    let (least, most) = (one.min(other), one.max(other));
    most <= least * TOLERANCE + buffers
}

/// The bytes of a sum and its rate.
fn moved(sum: &Sum) -> String {
    let rate = sum.bits_per_second.map(|rate| format!(" ({})", Quantity::new(rate, Unit::BitPerSecond)));
    format!("{}{}", bytes(sum.bytes.unwrap_or(f64::NAN)), rate.unwrap_or_default())
}

fn bytes(bytes: f64) -> Quantity {
    Quantity::new(bytes, Unit::Byte)
}
