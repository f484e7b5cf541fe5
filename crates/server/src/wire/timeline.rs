//! Arrivals over time and shaping of an interface: parts of the messages with reports.

use serde::{Deserialize, Serialize};

use super::MAX_LOOKS;
use super::message::{check, time};

/// Highest valid rate of a shaper or policer, bit/s: above that of any interface.
const MAX_RATE: u64 = 1_000_000_000_000_000;

/// Arrivals at the receiver in equal stretches of time, over all streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalTimeline {
    /// Length of a stretch, ns; 0 if nothing arrived.
    pub width: u64,
    /// Bytes per stretch, at most [`MAX_LOOKS`] values.
    pub bytes: Vec<u64>,
    /// Shortest transit time per stretch, ns above the shortest of all; null without arrivals,
    /// empty without timestamps.
    pub delays: Vec<Option<u64>>,
}

/// Rate limits that an end's kernel reports for the interface of a session. Rates in bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shaping {
    /// Limit of all outgoing packets.
    pub out: Option<u64>,
    /// Limit of the outgoing packets of each connection.
    pub each_out: Option<u64>,
    /// Limit of all incoming packets; a policer drops the rest.
    pub into: Option<u64>,
}

impl ArrivalTimeline {
    pub(super) fn in_range(&self) -> Result<(), &'static str> {
        let Self { width, bytes, delays } = self;
        check(bytes.len() <= MAX_LOOKS, "a report with too many intervals")?;
        check(*width > 0 || bytes.is_empty(), "a report with intervals of 0 s")?;
        let is_alike = delays.is_empty() || delays.len() == bytes.len();
        check(is_alike, "latency intervals other than those asked for")?;
        delays.iter().flatten().chain([width]).try_for_each(|nanos| time(*nanos))
    }
}

impl Shaping {
    pub(super) fn in_range(&self) -> Result<(), &'static str> {
        let rates = [self.out, self.each_out, self.into];
        check(rates.iter().flatten().all(|rate| (1..=MAX_RATE).contains(rate)), "a rate out of range")
    }
}
