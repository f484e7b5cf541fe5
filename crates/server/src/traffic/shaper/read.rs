//! Parser of the kernel's replies (linux/rtnetlink.h, pkt_sched.h, pkt_cls.h). Rates in bit/s.

use super::super::netlink::{attribute, u32_at};

const TRAFFIC_CONTROL: usize = 20;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_CAKE_BASE_RATE64: u16 = 2;
const TCA_FQ_FLOW_MAX_RATE: u16 = 7;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
/// Length of `struct tc_netem_qopt`, which precedes `netem`'s attributes.
const NETEM: usize = 24;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_MATCHALL_ACT: u16 = 2;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_POLICE: u16 = 6;
const TCA_U32_ACT: u16 = 7;
/// Lengths of `struct tc_u32_sel` without its keys, and of a key (`struct tc_u32_key`).
const SELECTOR: usize = 16;
const SELECTOR_KEY: usize = 16;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_POLICE_TBF: u16 = 1;
const TCA_POLICE_RATE64: u16 = 8;
/// Action that drops packets above the rate (`TC_ACT_SHOT`).
const DROP: u32 = 2;
/// Most actions of one filter (`TCA_ACT_MAX_PRIO`).
const ACTIONS: u16 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Discipline {
    pub(super) handle: u32,
    pub(super) parent: u32,
    pub(super) kind: ShaperKind,
}

/// Kind of a queueing discipline. Rates in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShaperKind {
    /// Limits all packets to this rate (`tbf`, `cake`).
    Bucket(u64),
    /// Limits each connection to this rate (`fq maxrate`).
    Each(u64),
    /// Delays and drops, but does not sort (`netem`); its rate, if it has one.
    Delay(Option<u64>),
    /// Has classes (`htb`); number of the default class.
    Classes(u32),
    /// One discipline per hardware queue (`mq`).
    Queues,
    /// Attachment point of filters (`ingress`, `clsact`).
    Ingress,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) handle: u32,
    pub(super) parent: u32,
    /// Guaranteed rate, bit/s.
    pub(super) rate: Option<u64>,
    /// Highest rate including borrowed bandwidth, bit/s.
    pub(super) ceiling: Option<u64>,
}

/// Reads a message of the kernel after its header; `None` for another kind.
pub(super) type MessageReader<T> = fn(&[u8]) -> Option<T>;

/// Returns a reader that returns `None` for messages about other interfaces than `index`.
pub(super) fn of_interface<T>(index: u32, one: MessageReader<T>) -> impl Fn(&[u8]) -> Option<T> {
    move |message| one(message).filter(|_| u32_at(message, 4) == Some(index))
}

pub(super) fn discipline(message: &[u8]) -> Option<Discipline> {
    let attributes = message.get(TRAFFIC_CONTROL..)?;
    let options = attribute(attributes, TCA_OPTIONS).unwrap_or_default();
    let kind = match attribute(attributes, TCA_KIND)? {
        b"tbf\0" => rate(options, TCA_TBF_RATE64, TCA_TBF_PARMS, 8).map(ShaperKind::Bucket),
        b"cake\0" => wide(options, TCA_CAKE_BASE_RATE64).map(ShaperKind::Bucket),
        b"fq\0" => per_connection_rate(options).map(ShaperKind::Each),
        b"netem\0" => {
            let options = options.get(NETEM..).unwrap_or_default();
            Some(ShaperKind::Delay(rate(options, TCA_NETEM_RATE64, TCA_NETEM_RATE, 0)))
        }
        // In `struct tc_htb_glob`, the number of the default class follows version and quantum.
        b"htb\0" => attribute(options, TCA_HTB_INIT).and_then(|b| u32_at(b, 8)).map(ShaperKind::Classes),
        b"mq\0" => Some(ShaperKind::Queues),
        b"ingress\0" | b"clsact\0" => Some(ShaperKind::Ingress),
        _ => None,
    };
    let kind = kind.unwrap_or(ShaperKind::Other);
    Some(Discipline { handle: u32_at(message, 8)?, parent: u32_at(message, 12)?, kind })
}

/// Parses an htb class; `None` if cut off. `struct tc_htb_opt` starts with rate and ceiling.
pub(super) fn class(message: &[u8]) -> Option<Class> {
    let options = attribute(message.get(TRAFFIC_CONTROL..)?, TCA_OPTIONS).unwrap_or_default();
    let own = rate(options, TCA_HTB_RATE64, TCA_HTB_PARMS, 8);
    let ceiling = rate(options, TCA_HTB_CEIL64, TCA_HTB_PARMS, 20);
    Some(Class { handle: u32_at(message, 8)?, parent: u32_at(message, 12)?, rate: own, ceiling })
}

/// Parses a filter: the rate above which it drops packets, bit/s, if it matches all packets, else
/// an inner `None`. `None` if the message cannot be read.
pub(super) fn filter(message: &[u8]) -> Option<Option<u64>> {
    let attributes = message.get(TRAFFIC_CONTROL..)?;
    let options = attribute(attributes, TCA_OPTIONS).unwrap_or_default();
    Some(match attribute(attributes, TCA_KIND)? {
        b"matchall\0" => attribute(options, TCA_MATCHALL_ACT).and_then(actions),
        b"u32\0" if attribute(options, TCA_U32_SEL).is_some_and(matches_all) => {
            let own = attribute(options, TCA_U32_POLICE).and_then(police);
            own.or_else(|| attribute(options, TCA_U32_ACT).and_then(actions))
        }
        _ => None,
    })
}

/// Returns whether a `u32` filter's selector matches all packets: the masks of its keys are zero.
fn matches_all(selector: &[u8]) -> bool {
    let keys = selector.get(SELECTOR..).unwrap_or_default();
    let stated = selector.get(2).copied().map(usize::from);
    stated == Some(keys.len() / SELECTOR_KEY)
        && keys.chunks(SELECTOR_KEY).all(|key| u32_at(key, 0) == Some(0))
}

fn actions(bytes: &[u8]) -> Option<u64> {
    (1..=ACTIONS).find_map(|number| {
        let action = attribute(bytes, number)?;
        let is_police = attribute(action, TCA_ACT_KIND)? == b"police\0";
        is_police.then(|| attribute(action, TCA_ACT_OPTIONS).and_then(police))?
    })
}

/// Returns the rate, bit/s, of a policer; `None` if it does not drop. In `struct tc_police` the
/// action is at byte 4, and the rate in a `struct tc_ratespec` at byte 20.
fn police(options: &[u8]) -> Option<u64> {
    let drops = u32_at(attribute(options, TCA_POLICE_TBF)?, 4)? == DROP;
    rate(options, TCA_POLICE_RATE64, TCA_POLICE_TBF, 28).filter(|_| drops)
}

/// Returns a rate in bit/s, from attribute `in_64`, else from the u32 at byte `at` of `structure`.
fn rate(options: &[u8], in_64: u16, structure: u16, at: usize) -> Option<u64> {
    let narrow = || u32_at(attribute(options, structure)?, at).map(u64::from).and_then(to_bits_per_second);
    wide(options, in_64).or_else(narrow)
}

fn wide(options: &[u8], wanted: u16) -> Option<u64> {
    let bytes = attribute(options, wanted)?.try_into().ok()?;
    to_bits_per_second(u64::from_ne_bytes(bytes))
}

/// Returns the rate, bit/s, to which `fq` limits each connection; `None` without a limit.
fn per_connection_rate(options: &[u8]) -> Option<u64> {
    let rate = u32_at(attribute(options, TCA_FQ_FLOW_MAX_RATE)?, 0)?;
    (rate != u32::MAX).then(|| to_bits_per_second(u64::from(rate)))?
}

/// Converts bytes/s to bit/s; `None` for 0 or above 10¹⁵ bit/s, which mean "no limit".
fn to_bits_per_second(bytes: u64) -> Option<u64> {
    const MAX_RATE: u64 = 1_000_000_000_000_000;
    bytes.checked_mul(8).filter(|bits| (1..=MAX_RATE).contains(bits))
}
