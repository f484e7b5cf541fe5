//! What arrived in the course of a transfer, and how an interface is shaped: parts of the messages that carry reports.

use serde::{Deserialize, Serialize};

use super::MAX_LOOKS;
use super::message::time;

/// The highest rate that an end may say it is held to, in bit/s: no interface comes near it.
const MAX_RATE: u64 = 1_000_000_000_000_000;

/// What arrived at the receiver in equal stretches of time, of all streams together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Course {
    /// Nanoseconds of a stretch; 0 where nothing arrived.
    pub width: u64,
    /// Bytes that arrived in each, at most [`MAX_LOOKS`] of them.
    pub bytes: Vec<u64>,
    /// The shortest time on the way of the datagrams that arrived in each, in nanoseconds above the shortest of all; null
    /// where none arrived, empty where datagrams carry no time.
    pub delays: Vec<Option<u64>>,
}

/// What the kernel of an end holds the interface of a session to, as far as it tells. Rates in bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shaping {
    /// All that leaves.
    pub out: Option<u64>,
    /// What leaves of each connection.
    pub each_out: Option<u64>,
    /// All that comes in: a policer drops the rest.
    pub into: Option<u64>,
}

impl Course {
    pub(super) fn in_range(&self) -> Result<(), &'static str> {
        match self {
            Self { bytes, .. } if bytes.len() > MAX_LOOKS => Err("a report with too many intervals"),
            Self { width: 0, bytes, .. } if !bytes.is_empty() => Err("a report with intervals of 0 s"),
            Self { bytes, delays, .. } if !delays.is_empty() && delays.len() != bytes.len() => {
                Err("latency intervals other than those asked for")
            }
            Self { delays, width, .. } => {
                delays.iter().flatten().try_for_each(|delay| time(*delay)).and(time(*width))
            }
        }
    }
}

impl Shaping {
    pub(super) fn in_range(&self) -> Result<(), &'static str> {
        let rates = [self.out, self.each_out, self.into];
        match rates.iter().flatten().all(|rate| (1..=MAX_RATE).contains(rate)) {
            true => Ok(()),
            false => Err("a rate out of range"),
        }
    }
}
