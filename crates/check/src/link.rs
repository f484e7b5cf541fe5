//! Network figures: at most the line rate's payload share; impossible if no link was crossed.

use plimsoll_bench_network::condition::{
    PATH_IPV6, PATH_LOOPBACK, PATH_MTU, PATH_SPEED, TCP_MSS, TCP_TIMESTAMPS,
};
use plimsoll_machine::{Machine, Nic};
use plimsoll_model::limit::Limit;
use plimsoll_reference::stated::{EquivalentCase, LinkUse, StatedFigure};
use plimsoll_units::quantity::{Quantity, Unit};
use plimsoll_units::text::shown_within;

use crate::ask::{self, HeldFigure, ask};
use crate::{CheckedMachine, ImpossibleCause};

/// Maximum bytes in a stream's buffers, which only one end counts as moved: several times the
/// kernel's defaults (`tcp_wmem`, `tcp_rmem`: 4 and 6 MiB).
const BUFFERS: f64 = (8 << 20) as f64;
const MOST_BUFFERED: f64 = 0.25;
/// Ratio by which a paced sender may exceed its rate in a short test.
const PACED: f64 = 1.1;
/// Maximum rate in bit/s of a tunnel process, which copies and often encrypts each byte.
const TUNNEL: f64 = 10e9;
/// MTU of jumbo frames, the largest in common use; it leaves the most payload.
const JUMBO_MTU: f64 = 9000.0;
/// Bytes of the smallest IP and TCP headers; IP and UDP take less.
const HEADERS: f64 = 40.0;
const ONLY_SENT: &str = "it counts datagrams that were sent, also those that were lost on the way: the file does not show how many arrived";

pub(crate) fn held(figure: &StatedFigure, used: &LinkUse, place: &CheckedMachine<'_>) -> HeldFigure {
    let speed = speed(place.machine);
    let given = ask::given(figure, place.limits);
    let is_given = given.is_some();
    let mut held = match (given, &speed) {
        (Some(limit), _) => HeldFigure { limit: Some(limit), ..HeldFigure::default() },
        (None, Ok(speed)) => ask(figure, place.machine, |like| vec![asked(like, used, speed)]),
        (None, Err(why)) => HeldFigure::unknown(why.clone()),
    };
    held.possible = "bits and bytes confused, the sum of both directions, both ends on one machine, such as two containers, or a link that is not this machine's";
    held.spare = buffered(figure, used);
    let speed = speed.as_ref().ok().filter(|_| !is_given);
    held.incomplete = speed.and_then(|speed| larger_packets(figure, used, speed));
    held.sure = both_ways(figure, used);
    if used.is_sent {
        held.note = Some("as sent, not as received".to_owned());
    }
    let sent = used.is_sent && used.datagram.is_some();
    let Some((end, is_reserved)) = loopback(used) else {
        return if sent && held.sure.is_none() { HeldFigure::unknown(ONLY_SENT) } else { held };
    };
    let stated = format!("both ends are this machine ({end}), so no link was crossed");
    if used.asked.is_some_and(|asked| figure.value <= asked * PACED) {
        return HeldFigure::unknown(format!(
            "{stated}, and the rate is the one that was asked for: it says nothing of a link"
        ));
    }
    // Traffic of a tunnel's own end is still limited by the link.
    let within = |limit: &Limit| limit.value.is_some_and(|value| figure.value <= value);
    if is_reserved && held.sure.is_none() && held.limit.as_ref().map_or(figure.value <= TUNNEL, within) {
        let why = format!(
            "both ends are this machine's loopback ({end}): loopback, or a tunnel such as ssh -L makes"
        );
        held.doubt = Some(why.clone());
        held.why_not = Some(why);
    } else {
        held.sure = held.sure.or(Some((ImpossibleCause::Loopback, format!("{stated}: not a link's figure"))));
    }
    held
}

/// Returns why the limit may be higher, if packets may have exceeded this machine's MTU.
fn larger_packets(figure: &StatedFigure, used: &LinkUse, crossed: &Crossed) -> Option<String> {
    let payload = match used.datagram {
        Some(datagram) => datagram,
        None if used.segment.is_none() => crossed.mtu,
        None => return None,
    };
    let is_possible = payload + HEADERS > crossed.mtu && crossed.mtu < JUMBO_MTU;
    (is_possible && figure.value <= crossed.speed).then(|| {
        format!("the file does not show the size of its packets, and packets of {JUMBO_MTU} B leave more of the link")
    })
}

fn both_ways(figure: &StatedFigure, used: &LinkUse) -> Option<(ImpossibleCause, String)> {
    /// Streams are rounded and start and end at other moments than their sum.
    const STREAM_SUM_TOLERANCE: f64 = 0.05;
    let [own, other] = used.both_directions?;
    let is_sum = (figure.value / (own + other) - 1.0).abs() < STREAM_SUM_TOLERANCE
        && other > own * 2.0 * STREAM_SUM_TOLERANCE;
    let is_own = (figure.value / own - 1.0).abs() < STREAM_SUM_TOLERANCE;
    (is_sum && !is_own).then(|| {
        let [own, other] = [own, other].map(|rate| Quantity::new(rate, Unit::BitPerSecond));
        let text = format!("its streams say {own} this way and {other} the other: it is their sum");
        (ImpossibleCause::BothDirections, text)
    })
}

/// Returns the address that shows that both ends are one machine, and whether it is reserved for
/// loopback; `None` if they may be two.
fn loopback(used: &LinkUse) -> Option<(String, bool)> {
    let is_own = |end: &str| {
        let end = end.trim_start_matches("::ffff:");
        end == "::1" || end.starts_with("127.") || end.eq_ignore_ascii_case("localhost")
    };
    if let Some([near, far]) = &used.ends {
        let is_reserved = is_own(far) && is_own(near);
        return (near == far || is_reserved).then(|| (shown_within(far, 64), is_reserved));
    }
    used.to.as_deref().filter(|end| is_own(end)).map(|end| (shown_within(end, 64), true))
}

/// Returns the summed speed in bit/s of all interfaces that have a line and are not down, and their
/// largest MTU in bytes. Fails without such an interface or if a speed is unknown.
pub(crate) fn speed(machine: &Machine) -> Result<Crossed, String> {
    let is_line = |nic: &&Nic| nic.has_line() && nic.state.as_deref() != Some("down");
    let lines = || machine.network.iter().filter(is_line);
    let largest = lines().filter_map(|nic| nic.mtu_bytes).max();
    let mtu = largest.ok_or("this machine has no network interface that is up and has a line")? as f64;
    let rate = |nic: &Nic| {
        let rate = nic.line_rate(machine.virtualisation.is_virtual).map(|rate| rate as f64);
        let name = &nic.name;
        rate.ok_or_else(|| format!("the limit of the link is unknown: {name} does not state its speed"))
    };
    // A bond or several paths spread even one stream over several links.
    Ok(Crossed { speed: lines().map(rate).sum::<Result<f64, String>>()?, mtu })
}

pub(crate) struct Crossed {
    /// Bit/s.
    pub(crate) speed: f64,
    mtu: f64,
}

fn asked(like: &EquivalentCase, used: &LinkUse, crossed: &Crossed) -> EquivalentCase {
    let mut like = like.clone();
    // The connection may have had another MTU than this machine has now.
    let payload = used.segment.unwrap_or((crossed.mtu.min(JUMBO_MTU) - HEADERS).max(536.0));
    let more = &mut like.sample.conditions.more;
    more.set(&PATH_LOOPBACK, 0.0);
    more.set(&PATH_SPEED, crossed.speed);
    more.set(&PATH_MTU, crossed.mtu);
    more.set(&PATH_IPV6, f64::from(used.is_v6));
    more.set(&TCP_MSS, payload);
    more.set(&TCP_TIMESTAMPS, 0.0);
    like
}

/// Returns by how many bit/s data in buffers may raise the figure: 8 MiB per stream over the test's
/// time (1 s if unknown), at most a quarter of the figure.
fn buffered(figure: &StatedFigure, used: &LinkUse) -> f64 {
    let seconds = used.seconds.filter(|seconds| *seconds > 0.0).unwrap_or(1.0);
    let most = figure.value * MOST_BUFFERED;
    (used.streams as f64 * BUFFERS * 8.0 / seconds).min(most)
}
