//! Rates that settings of this machine hold a case to: a shaper on its interface, a control group's limit on its device.

use std::fmt;

use plimsoll_units::quantity::Quantity;

/// A rate that somebody set on this machine, and that all of a case has to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// What was set.
    pub kind: Kind,
    /// The rate, in the unit of the case's headline; transfers in a second if that is a latency.
    pub rate: Quantity,
    /// The best headline under that rate: the rate itself, or the least latency.
    pub bound: Quantity,
}

/// What holds something to a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A queueing discipline, of what leaves the interface.
    Shaper,
    /// A policer, of what comes in by it.
    Policer,
    /// A limit of a control group on a block device.
    IoLimit,
}

impl Kind {
    /// Its stable name.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Shaper => "shaper",
            Self::Policer => "policer",
            Self::IoLimit => "io-limit",
        }
    }

    /// Its name in a sentence, after "the".
    pub const fn word(self) -> &'static str {
        match self {
            Self::Shaper => "rate of the shaper",
            Self::Policer => "rate of the policer",
            Self::IoLimit => "I/O limit of the control group",
        }
    }
}

/// A figure beyond this many times the rate of a shaper shows that what is sent does not pass it: another class of its discipline takes it. Up to
/// it, a bucket that was full adds to the rate.
const PASSED: f64 = 1.5;
/// The same of a figure that is as usual: it shows no loss that a bucket could hide.
const PASSED_AS_USUAL: f64 = 1.05;

impl Setting {
    /// A rate that limits a headline in its own unit.
    pub fn of_rate(kind: Kind, rate: Quantity) -> Self {
        Self { kind, rate, bound: rate }
    }

    /// Whether a figure, which `is_low` or as usual, refutes that the setting holds it. A group's limit on a device is kept by the kernel for each
    /// transfer, but over slices of a tenth of a second (Linux `block/blk-throttle.c`), so that short samples may be above it.
    pub fn is_refuted_by(&self, figure: f64, is_low: bool) -> bool {
        let passed = if is_low { PASSED } else { PASSED_AS_USUAL };
        match self.kind {
            Kind::Shaper | Kind::Policer => figure > self.rate.value * passed,
            Kind::IoLimit => false,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, rate, .. } = self;
        match kind {
            Kind::Shaper => write!(f, "a shaper limits the interface to {rate}"),
            Kind::Policer => write!(f, "a policer limits the interface to {rate}"),
            Kind::IoLimit => write!(f, "a control group limits the device to {rate}"),
        }
    }
}
