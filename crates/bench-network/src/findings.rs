//! Finding "bottleneck" of TCP cases: a busy thread, receive window, send buffer, or the link.

use serde_json::json;

use crate::Tcp;
use crate::condition::{END_CPU, END_FULLEST_CPU, PATH_LOOPBACK, TCP_BUFFER_LIMITED, TCP_RECEIVER_LIMITED};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::network::{Flow, NetworkStreams};
use plimsoll_units::quantity::percent;

const BUSY_THREAD_SHARE: f64 = 0.95;
/// Share of the sending time from which a window or buffer counts as the bottleneck.
const HELD: f64 = 0.5;
const FULL_LINK_SHARE: f64 = 0.9;

pub(super) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    select(run, Tcp.name()).filter_map(held_back).collect()
}

fn held_back(measurement: &Measurement) -> Option<PlainFinding> {
    let metric = measurement.headline()?;
    let finite = |share: &f64| share.is_finite();
    let reported = |row: &OwnCondition| measurement.conditions.more.get(row).filter(finite);
    let of = |row: &OwnCondition, end: &str| measurement.conditions.more.get_of(row, end).filter(finite);
    let busy = |end: &str| of(&END_CPU, end).filter(|share| (BUSY_THREAD_SHARE..=1.1).contains(share));
    let (near, far) = (busy("near"), busy("far"));
    let loopback = reported(&PATH_LOOPBACK).is_some_and(|on| on > 0.5);
    let full = metric.of_limit.filter(|share| *share >= FULL_LINK_SHARE && !loopback);
    let held = |row: &OwnCondition| reported(row).filter(|share| *share >= HELD);
    let what = if let Some(share) = near.into_iter().chain(far).reduce(f64::max) {
        let end = if near >= far { "near" } else { "far" };
        let sends = (end == "near") != (NetworkStreams::of(&measurement.case).direction == Flow::Down);
        let role = if sends { "sender" } else { "receiver" };
        let cpu = of(&END_FULLEST_CPU, end).map(|cpu| format!(" {cpu:.0}")).unwrap_or_default();
        format!("the {role}'s CPU{cpu}, {} busy", percent(share.min(1.0), 2))
    } else if let Some(share) = full {
        format!("the link, at {} of its limit", percent(share, 2))
    } else if let Some(share) = held(&TCP_RECEIVER_LIMITED) {
        format!("the receiver's window, for {} of the time", percent(share, 2))
    } else if let Some(share) = held(&TCP_BUFFER_LIMITED) {
        format!("the send buffer, for {} of the time; a larger --window may help", percent(share, 2))
    } else {
        return None;
    };
    let evidence = json!({
        "case": measurement.case.id(),
        "near": of(&END_CPU, "near"),
        "far": of(&END_CPU, "far"),
        "receiver_limited": reported(&TCP_RECEIVER_LIMITED),
        "buffer_limited": reported(&TCP_BUFFER_LIMITED),
        "of_limit": metric.of_limit,
    });
    let text = format!("{}: the bottleneck is {what}", crate::SUBSYSTEM.label(&measurement.case));
    Some(PlainFinding { topic: Topic::Limit, code: "bottleneck", text, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::measured;
    use plimsoll_units::quantity::Unit;

    fn stream(direction: &str, conditions: &[(&str, f64)]) -> Measurement {
        let id = format!("network.tcp/message=64K/streams=1/direction={direction}");
        let mut measurement = measured(&id, Unit::BitPerSecond, Better::Higher, &[3e10]);
        let more = conditions.iter().map(|(name, value)| ((*name).to_owned(), *value));
        measurement.conditions.more = more.collect();
        measurement
    }

    fn shown_between(measurement: Measurement) -> Option<String> {
        let found = find(&[measurement]);
        found.first().and_then(|f| f.text.split(": the bottleneck is ").nth(1).map(str::to_owned))
    }

    #[test]
    fn the_end_without_time_is_named_by_what_it_does() {
        let near = [("near_cpu", 0.997), ("far_cpu", 0.7), ("near_fullest_cpu", 1.0)];
        assert_eq!(shown_between(stream("up", &near)).unwrap(), "the sender's CPU 1, 100 % busy");
        assert_eq!(shown_between(stream("down", &near)).unwrap(), "the receiver's CPU 1, 100 % busy");
        let far = [("near_cpu", 0.5), ("far_cpu", 0.96)];
        assert_eq!(shown_between(stream("up", &far)).unwrap(), "the receiver's CPU, 96 % busy");
    }

    #[test]
    fn windows_buffers_and_links_are_named() {
        let window = [("near_cpu", 0.1), ("tcp_receiver_limited", 0.83)];
        let shown = shown_between(stream("up", &window)).unwrap();
        assert_eq!(shown, "the receiver's window, for 83 % of the time");
        let buffer = shown_between(stream("up", &[("tcp_buffer_limited", 0.6)])).unwrap();
        assert!(buffer.starts_with("the send buffer") && buffer.contains("--window"), "{buffer}");
        let mut link = stream("up", &[("near_cpu", 0.2), ("path_loopback", 0.0)]);
        link.metrics[0].of_limit = Some(0.97);
        assert_eq!(shown_between(link).unwrap(), "the link, at 97 % of its limit");
    }

    #[test]
    fn it_is_silent_where_nothing_held_it_back_or_nothing_is_known() {
        assert_eq!(shown_between(stream("up", &[])), None);
        let little = [("near_cpu", 0.9), ("far_cpu", f64::NAN), ("tcp_receiver_limited", 0.1)];
        assert_eq!(shown_between(stream("up", &little)), None);
    }
}
