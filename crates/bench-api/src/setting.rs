//! Rate limits configured on this machine: traffic shaping, I/O limit of a control group.

use std::fmt;

use plimsoll_units::quantity::Quantity;

/// A configured rate limit that applies to a whole case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Kind of the limit.
    pub kind: SettingKind,
    /// Rate, in the unit of the case's headline; transfers per second if that is a latency.
    pub rate: Quantity,
    /// Best possible headline under the limit: the rate itself, or the lowest latency.
    pub bound: Quantity,
}

/// Kind of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// Queueing discipline for outgoing traffic.
    Shaper,
    /// Policer for incoming traffic.
    Policer,
    /// I/O limit of a control group on a block device.
    IoLimit,
}

impl SettingKind {
    /// Returns the stable identifier: `shaper`, `policer` or `io-limit`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Shaper => "shaper",
            Self::Policer => "policer",
            Self::IoLimit => "io-limit",
        }
    }

    /// Returns a phrase to follow "the", such as "rate of the shaper".
    pub const fn word(self) -> &'static str {
        match self {
            Self::Shaper => "rate of the shaper",
            Self::Policer => "rate of the policer",
            Self::IoLimit => "I/O limit of the control group",
        }
    }
}

/// Result ÷ rate above which traffic bypasses a shaper. Below, a full token bucket may add to it.
const PASSED: f64 = 1.5;
const PASSED_AS_USUAL: f64 = 1.05;

impl Setting {
    /// Creates a limit of `rate`, which has the unit of the headline metric and is its upper bound.
    pub fn of_rate(kind: SettingKind, rate: Quantity) -> Self {
        Self { kind, rate, bound: rate }
    }

    /// Returns whether `figure`, a headline in the unit of `rate`, exceeds the limit too far for it
    /// to apply: by 50 % if `is_low` (result below usual), else by 5 %. False for I/O limits, which
    /// hold only over slices of 0.1 s (Linux `block/blk-throttle.c`).
    pub fn is_refuted_by(&self, figure: f64, is_low: bool) -> bool {
        let passed = if is_low { PASSED } else { PASSED_AS_USUAL };
        match self.kind {
            SettingKind::Shaper | SettingKind::Policer => figure > self.rate.value * passed,
            SettingKind::IoLimit => false,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, rate, .. } = self;
        match kind {
            SettingKind::Shaper => write!(f, "a shaper limits the interface to {rate}"),
            SettingKind::Policer => write!(f, "a policer limits the interface to {rate}"),
            SettingKind::IoLimit => write!(f, "a control group limits the device to {rate}"),
        }
    }
}
