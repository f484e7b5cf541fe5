//! Limits of network throughput: on a link, the payload share of a frame (per segment: TCP header
//! 20 bytes, RFC 9293; timestamps 12, RFC 7323; IP header 20, RFC 791, or 40, RFC 8200; Ethernet
//! 38, IEEE 802.3); over loopback, the copy rate of a CPU within its caches, since data in flight
//! stays there.

mod held;

use crate::condition::{
    PATH_COPY, PATH_IPV6, PATH_LINE, PATH_LOOPBACK, PATH_MTU, PATH_SPEED, TCP_MSS, TCP_TIMESTAMPS,
};
use crate::{GOODPUT, MESSAGES_METRIC};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::network::{Flow, NetworkStreams};
use plimsoll_model::limit::LimitScope;
use plimsoll_model::limit::device::{Burstable, NetworkPromise};
use plimsoll_model::limit::frame::{
    ETHERNET, ETHERNET_HEADER, IPV4_HEADER, IPV6_HEADER, MIN_FRAME_BYTES, PASSED_BY, TCP_HEADER, TIMESTAMPS,
    UDP_HEADER, rest_on_shown_speed,
};
use plimsoll_model::limit::user::OF_VIRTUAL_DEVICES;

/// Returns the limits of `network.tcp`: the payload share of full segments on the link.
pub(super) fn of_segments(question: &Question<'_>) -> Vec<Limit> {
    throughput(question, segments(question))
}

/// Returns the limits of `network.udp`: the payload share of datagrams and fragments on the link.
pub(super) fn of_datagrams(question: &Question<'_>) -> Vec<Limit> {
    throughput(question, datagrams(question))
}

/// Returns the limits of goodput or message rate; `framed` is the payload share of frames.
fn throughput(question: &Question<'_>, framed: Framed) -> Vec<Limit> {
    let goodput = || match question.condition(&PATH_LOOPBACK) {
        Some(loopback) if loopback > 0.5 => {
            std::iter::once(loopback_limit(question)).chain(held::limits(question, &framed)).collect()
        }
        Some(_) => {
            let link = std::iter::once(framing(question, &framed)).chain(promised_limit(question, &framed));
            link.chain(held::limits(question, &framed)).collect()
        }
        None => {
            let why = "nothing was measured, so the way to the server is unknown";
            vec![Limit::unknown(LimitKind::Ceiling, why)]
        }
    };
    let goodput = || goodput().into_iter().map(|limit| limit.passed_by(PASSED_BY));
    let bits = NetworkStreams::of(question.case).message.map(|bytes| bytes as f64 * 8.0);
    match (question.metric, bits) {
        (GOODPUT, _) => goodput().collect(),
        (MESSAGES_METRIC, Some(bits)) => goodput().map(|limit| per_message(limit, bits)).collect(),
        _ => Vec::new(),
    }
}

fn directions(question: &Question<'_>) -> f64 {
    if NetworkStreams::of(question.case).direction == Flow::Both { 2.0 } else { 1.0 }
}

fn per_message(mut limit: Limit, bits: f64) -> Limit {
    limit.value = limit.value.map(|value| value / bits);
    if limit.value.is_some() {
        limit.formula += " ÷ message";
    }
    limit
}

struct Framed {
    /// Payload share of the bytes on the wire, or the reason why it is unknown.
    share: Result<f64, &'static str>,
    /// Payload share of the bytes that a kernel's shaper counts: only the header of Ethernet.
    counted: f64,
    formula: &'static str,
    inputs: Vec<Input>,
}

/// Returns the length of an IP header on this path, bytes: 20 (IPv4) or 40 (IPv6).
fn ip_header(question: &Question<'_>) -> f64 {
    let is_v6 = question.condition(&PATH_IPV6).is_some_and(|v6| v6 > 0.5);
    if is_v6 { IPV6_HEADER } else { IPV4_HEADER }
}

fn headers(ip: f64) -> [Input; 2] {
    [
        Input::new("ip", ip, "B", "header of IPv4 (RFC 791) or IPv6 (RFC 8200)"),
        Input::new("ethernet", ETHERNET, "B", "preamble 8, header 14, check 4, gap 12 (IEEE 802.3)"),
    ]
}

fn segments(question: &Question<'_>) -> Framed {
    let formula = "payload ÷ (payload + options + 20 + ip + ethernet)";
    let Some(payload) = question.condition(&TCP_MSS).filter(|mss| *mss > 0.0) else {
        let share = Err("the segment size is unknown: the kernel does not report TCP_INFO");
        return Framed { share, counted: 1.0, formula, inputs: Vec::new() };
    };
    let options = question.condition(&TCP_TIMESTAMPS).map_or(0.0, |on| on.round() * TIMESTAMPS);
    let ip = ip_header(question);
    let mut inputs = vec![
        Input::new("payload", payload, "B", "segment size of the connection (TCP_INFO)"),
        Input::new("options", options, "B", "timestamps, if the connection has them (RFC 7323)"),
    ];
    inputs.extend(headers(ip));
    let segment = payload + options + TCP_HEADER + ip;
    let (share, counted) = (Ok(payload / (segment + ETHERNET)), payload / (segment + ETHERNET_HEADER));
    Framed { share, counted, formula, inputs }
}

fn datagrams(question: &Question<'_>) -> Framed {
    let formula = "datagram ÷ (datagram + 8 + frames × (ip + ethernet))";
    let message = NetworkStreams::of(question.case).message;
    let (Some(mtu), Some(bytes)) = (question.condition(&PATH_MTU), message) else {
        let share = Err("the largest packet of the interface (MTU) is unknown");
        return Framed { share, counted: 1.0, formula, inputs: Vec::new() };
    };
    let (bytes, ip) = (bytes as f64, ip_header(question));
    let (frames, wire) = on_the_wire(bytes + UDP_HEADER, mtu, ip);
    let mut inputs = vec![
        Input::new("datagram", bytes, "B", "--message"),
        Input::new("frames", frames, "1", "one, or as many fragments as the interface's MTU wants"),
    ];
    inputs.extend(headers(ip));
    let counted = bytes / (bytes + UDP_HEADER + frames * (ip + ETHERNET_HEADER));
    Framed { share: Ok(bytes / wire), counted, formula, inputs }
}

/// Returns (number of frames, their bytes on the wire) for an IP payload, an MTU and an IP header,
/// in bytes. A fragment's payload is a multiple of 8 (RFC 791); IPv6 adds 8 (RFC 8200); a frame
/// takes at least 84 (IEEE 802.3).
fn on_the_wire(payload: f64, mtu: f64, ip: f64) -> (f64, f64) {
    if payload + ip <= mtu {
        return (1.0, (payload + ip + ETHERNET).max(MIN_FRAME_BYTES));
    }
    let more = if ip > IPV4_HEADER { 8.0 } else { 0.0 };
    let each = (((mtu - ip - more) / 8.0).floor() * 8.0).max(8.0);
    let frames = (payload / each).ceil();
    (frames, payload + frames * (ip + more + ETHERNET))
}

fn framing(question: &Question<'_>, framed: &Framed) -> Limit {
    let unknown = |why: &str| Limit::unknown(LimitKind::Ceiling, why);
    let Some(speed) = question.condition(&PATH_SPEED) else {
        let stated = Burstable::unpublished_note(&question.machine.virtualisation).unwrap_or_default();
        return unknown(&format!(
            "the link's speed is unknown: the interface is software, or its driver does not tell{stated}; {OF_VIRTUAL_DEVICES}",
        ));
    };
    let share = match framed.share {
        Ok(share) => share,
        Err(why) => return unknown(why),
    };
    let speed = Input::new("speed", speed, "bit/s", "/sys/class/net of the interface that the packets take");
    rest_on_shown_speed(framed_limit(question, framed, share, LimitSource::Derived, speed), question.machine)
}

/// Returns the limit of payload, bit/s, over a link of rate `rate`, of which payload has `share`.
fn framed_limit(
    question: &Question<'_>,
    framed: &Framed,
    share: f64,
    source: LimitSource,
    rate: Input,
) -> Limit {
    let both = if directions(question) > 1.0 { "2 × " } else { "" };
    let formula = format!("{both}{} × {}", rate.name, framed.formula);
    let value = directions(question) * rate.value * share;
    let inputs = std::iter::once(rate).chain(framed.inputs.iter().cloned()).collect();
    Limit::fixed(LimitKind::Ceiling, source, value, &formula, inputs)
}

/// Returns the payload rate promised for the cloud instance type; `None` without such a promise.
fn promised_limit(question: &Question<'_>, framed: &Framed) -> Option<Limit> {
    question.condition(&PATH_LINE).filter(|line| *line > 0.5)?;
    let promise = NetworkPromise::of(&question.machine.virtualisation)?;
    let share = framed.share.ok()?;
    let from = format!(
        "data/instances.toml, {} by the firmware's product name; {}; not re-read for this file",
        promise.product, promise.source
    );
    let burst = Input::new("promise", promise.burst, "bit/s", &from);
    let mut limit = framed_limit(question, framed, share, LimitSource::Rated, burst);
    let lasting = Quantity::new(promise.baseline, Unit::BitPerSecond);
    limit.reason = match promise.baseline < promise.burst {
        true => Some(format!(
            "a burst, while credit lasts; what {} promises for ever is {lasting}",
            promise.product
        )),
        false => promise.weighting,
    };
    Some(limit.promised())
}

/// Returns the limit over loopback: the copy rate of a CPU times the number of sending CPUs.
fn loopback_limit(question: &Question<'_>) -> Limit {
    let NetworkStreams { streams, zerocopy, discard, .. } = NetworkStreams::of(question.case);
    if zerocopy && discard {
        let why = "no physical link, and neither end copies: nothing bounds it";
        return Limit::unknown(LimitKind::Ceiling, why);
    }
    let Some(copied) = question.condition(&PATH_COPY) else {
        let why = "no physical link; and how fast a CPU copies was not measured";
        return Limit::unknown(LimitKind::Ceiling, why);
    };
    let streams = streams as f64 * directions(question);
    let cpus = question.machine.cpu.allowed.len().max(1) as f64;
    let senders = streams.min(cpus);
    let from = "bytes read and written by a CPU that copies in its caches, in this run";
    let inputs = vec![
        Input::new("copy rate", copied, "B/s", from),
        Input::new("CPUs", senders, "1", "CPUs that send: one a stream and direction, at most those allowed"),
    ];
    let value = copied * 8.0 * senders;
    let mut limit =
        Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, value, "copy rate × 8 bit × CPUs", inputs);
    limit.reason = Some(
        "over loopback a CPU copies each byte that it sends; each case measures the copy rate itself, with data in the CPU's cache"
            .to_owned(),
    );
    limit.scope = Some(LimitScope::Loopback);
    limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use plimsoll_machine::{Machine, Root};
    use plimsoll_model::case::Case;
    use plimsoll_model::sample::Numbers;

    fn numbers(conditions: &[(&str, f64)]) -> Numbers {
        conditions.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn limit_of(case: &Case, metric: &str, conditions: &[(&str, f64)]) -> Limit {
        fixture::limits(case, metric, None, numbers(conditions)).remove(0)
    }

    fn case() -> Case {
        "network.tcp/message=64K/streams=1/direction=up".parse().unwrap()
    }

    const GIGABIT: [(&str, f64); 5] = [
        ("path_loopback", 0.0),
        ("path_speed", 1e9),
        ("path_ipv6", 0.0),
        ("tcp_mss", 1448.0),
        ("tcp_timestamps", 1.0),
    ];

    #[test]
    fn gigabit_ethernet_carries_what_is_known_of_it() {
        // 1448 of 1538 bytes: 941.5 Mbit/s, the well-known payload rate of gigabit Ethernet.
        let found = limit_of(&case(), "goodput", &GIGABIT);
        assert!((found.value.unwrap() - 941.482_4e6).abs() < 1e3, "{found:?}");
        assert_eq!(found.source, LimitSource::Derived);
        let mut v6 = GIGABIT;
        v6[2].1 = 1.0;
        v6[3].1 = 1428.0;
        assert!((limit_of(&case(), "goodput", &v6).value.unwrap() - 928.478_5e6).abs() < 1e3);
        let both = case().with_word("direction", "both");
        assert!((limit_of(&both, "goodput", &GIGABIT).value.unwrap() - 2.0 * 941.482_4e6).abs() < 2e3);
        let messages = limit_of(&case(), "messages", &GIGABIT);
        assert!((messages.value.unwrap() * 8.0 * 65536.0 - 941.482_4e6).abs() < 1e3);
    }

    #[test]
    fn without_a_line_the_limit_is_unknown_and_says_what_to_do() {
        let found = limit_of(&case(), "goodput", &[("path_loopback", 0.0), ("tcp_mss", 1448.0)]);
        assert!(found.value.is_none() && found.reason.unwrap().contains(OF_VIRTUAL_DEVICES));
        let found = limit_of(&case(), "goodput", &[]);
        assert_eq!(found.source, LimitSource::Unknown);
        let found = limit_of(&case(), "messages", &[("path_loopback", 0.0), ("path_speed", 1e9)]);
        assert!(found.reason.unwrap().contains("segment size"));
    }

    #[test]
    fn over_loopback_the_copy_bounds_and_says_that_it_is_no_link() {
        let found = limit_of(&case(), "goodput", &[("path_loopback", 1.0), ("path_copy", 100e9)]);
        assert_eq!((found.value, found.source), (Some(800e9), LimitSource::Derived));
        assert!(found.reason.unwrap().starts_with("over loopback a CPU copies each byte"));
        let neither = case().with_word("zerocopy", "on").with_word("discard", "on");
        let found = limit_of(&neither, "goodput", &[("path_loopback", 1.0), ("path_copy", 100e9)]);
        assert_eq!(found.value, None);
    }

    #[test]
    fn an_instance_promises_its_network() {
        let mut machine = Machine::discover(&Root::live());
        machine.virtualisation.system_vendor = Some("Amazon EC2".to_owned());
        machine.virtualisation.product = Some("m6i.large".to_owned());
        let by = |line: f64| {
            let mut conditions = GIGABIT;
            conditions[1] = ("path_line", line);
            fixture::limits_on(&machine, &case(), "goodput", None, numbers(&conditions))
        };
        assert_eq!(by(0.0).len(), 1, "a bridge or a tunnel is none of the promise's");
        let found = by(1.0);
        let sources: Vec<LimitSource> = found.iter().map(|limit| limit.source).collect();
        assert_eq!(sources, [LimitSource::Unknown, LimitSource::Rated]);
        assert!((found[1].value.unwrap() / (12.5e9 * 1448.0 / 1538.0) - 1.0).abs() < 1e-9);
        assert!(found[1].reason.as_ref().unwrap().contains("781 Mbit/s"), "{found:?}");
        assert!(found[1].is_promise && !found[0].is_promise, "what passes a promise is not invalid");
    }

    #[test]
    fn datagrams_pay_for_their_frames_and_fragments() {
        let of = |bytes: u64, mtu: f64, v6: f64| {
            let case = Case::of("network.udp").with_size("message", bytes).with_count("streams", 1);
            let conditions = [(PATH_LOOPBACK, 0.0), (PATH_SPEED, 1e9), (PATH_MTU, mtu), (PATH_IPV6, v6)];
            let limits = fixture::limits(&case, GOODPUT, None, conditions.into_iter().collect());
            limits[0].value.unwrap() / 1e9
        };
        // Largest unfragmented datagram: 1472 of 1538 bytes on the wire; smallest: 1 of 84.
        assert!((of(1472, 1500.0, 0.0) - 1472.0 / 1538.0).abs() < 1e-9);
        assert!((of(1, 1500.0, 0.0) - 1.0 / 84.0).abs() < 1e-9);
        // One more byte needs a second frame of 20 + 38 bytes.
        assert!((of(1473, 1500.0, 0.0) - 1473.0 / (1481.0 + 2.0 * 58.0)).abs() < 1e-9);
        assert!((of(65_507, 1500.0, 0.0) - 65_507.0 / (65_515.0 + 45.0 * 58.0)).abs() < 1e-9);
        assert!((of(1452, 1500.0, 1.0) - 1452.0 / 1538.0).abs() < 1e-9);
    }
}
