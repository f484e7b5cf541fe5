//! Why a figure is low, by what was seen beside the measurement.

use std::fmt;

use crate::bench;
use crate::bench::network::condition::SHAPED;
use crate::machine::{Machine, Others};
use crate::measurement::Measurement;
use crate::quantity::{Quantity, Unit, percent, significant};
use crate::view::NOTABLE;

/// CPUs that others use from which on they may be why, however many CPUs there are and whatever is lost. It is no share of what the case uses:
/// this is the mean of the whole measurement, and others may have been at work in its samples alone; and what a process takes of a cache or of
/// memory bandwidth is more than its CPU time.
const BUSY: f64 = 0.25;
/// A figure up to this many times the rate of a shaper is what the shaper lets through: a bucket that was full adds to it.
const SHAPED_TO: f64 = 1.5;

/// A figure up to this share above a group's limit is held by it: the kernel counts in slices.
const IO_ABOVE: f64 = 0.15;

/// Why a figure is low.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// A CPU quota stopped the threads.
    Quota {
        /// CPUs that it allows, where it is known.
        cpus: Option<f64>,
        /// Share of the time.
        share: f64,
    },
    /// A queueing discipline holds the interface to a rate.
    Shaper {
        /// Bits a second.
        rate: f64,
    },
    /// A control group holds the device to a rate.
    IoLimit {
        /// The rate.
        rate: Quantity,
    },
    /// Other processes used the CPUs.
    Busy {
        /// CPUs that they used.
        cpus: f64,
        /// The one that used most, and its id.
        most: Option<(String, u32)>,
    },
    /// The hypervisor gave the CPUs to others.
    Stolen {
        /// Share of the time.
        share: f64,
    },
    /// Threads waited for a CPU, and nobody was seen to use it.
    Waited {
        /// Share of the time.
        share: f64,
    },
}

impl Cause {
    /// What was seen beside a measurement whose figure is low; `low` is where that begins, in the unit of the headline.
    pub(super) fn of(
        measurement: &Measurement,
        others: &Others,
        machine: &Machine,
        low: Option<f64>,
    ) -> Option<Self> {
        let conditions = &measurement.conditions;
        let notable = |share: Option<f64>| share.filter(|share| *share >= NOTABLE);
        let quota = notable(conditions.throttled).map(|share| Self::Quota {
            cpus: machine.cgroup.cpu_quota.as_ref().map(|quota| quota.cpus()),
            share,
        });
        let figure = measurement.headline().map_or(f64::INFINITY, |headline| headline.summary.median);
        let shaped = || {
            let rate = conditions.more.get(&SHAPED)?;
            (figure <= rate * SHAPED_TO).then_some(Self::Shaper { rate })
        };
        let busy = || {
            (others.cpus >= BUSY).then(|| Self::Busy {
                cpus: others.cpus,
                most: others.most.as_ref().map(|most| (most.name.clone(), most.id)),
            })
        };
        let stolen = || notable(conditions.steal).map(|share| Self::Stolen { share });
        let lost =
            [conditions.waited, conditions.excluded_by.switched].into_iter().flatten().reduce(f64::max);
        let waited = || notable(lost).map(|share| Self::Waited { share });
        quota
            .or_else(shaped)
            .or_else(|| io_limit(measurement, machine, low))
            .or_else(busy)
            .or_else(stolen)
            .or_else(waited)
    }

    /// Whether it is this machine's own setting, and no work that somebody else does at the moment.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Quota { .. } | Self::Shaper { .. } | Self::IoLimit { .. })
    }

    /// Its stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Quota { .. } => "cpu-quota",
            Self::Shaper { .. } => "shaper",
            Self::IoLimit { .. } => "io-limit",
            Self::Busy { .. } => "busy",
            Self::Stolen { .. } => "stolen",
            Self::Waited { .. } => "preempted",
        }
    }
}

/// The limit of a control group that holds the figure: one that is itself below where the figure begins to be low, so that it cannot be
/// usual, and that the figure does not exceed.
fn io_limit(measurement: &Measurement, machine: &Machine, low: Option<f64>) -> Option<Cause> {
    let headline = measurement.headline().filter(|_| bench::subsystem_of(&measurement.case).on_files)?;
    let value = headline.summary.median;
    let rates = machine.cgroup.io.iter().flat_map(|limit| match headline.unit {
        Unit::BytePerSecond => [limit.read_bytes, limit.write_bytes],
        Unit::IoPerSecond => [limit.reads, limit.writes],
        _ => [None, None],
    });
    let holds = |rate: &f64| low.is_some_and(|low| *rate < low) && value <= rate * (1.0 + IO_ABOVE);
    let rate = rates.flatten().map(|rate| rate as f64).filter(holds).reduce(f64::min)?;
    Some(Cause::IoLimit { rate: Quantity { value: rate, unit: headline.unit } })
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota { cpus: Some(cpus), share } => {
                write!(
                    f,
                    "CPU quota of {} CPUs, throttled {} of the time",
                    significant(*cpus, 2),
                    percent(*share, 2)
                )
            }
            Self::Quota { cpus: None, share } => {
                write!(f, "a CPU quota, throttled {} of the time", percent(*share, 2))
            }
            Self::Shaper { rate } => {
                let rate = Quantity { value: *rate, unit: Unit::BitPerSecond };
                write!(f, "a shaper limits the interface to {rate}")
            }
            Self::IoLimit { rate } => write!(f, "a control group limits the device to {rate}"),
            Self::Busy { cpus, most: Some((name, id)) } => {
                write!(f, "others use {} CPUs, most of it {name} (pid {id})", significant(*cpus, 2))
            }
            Self::Busy { cpus, most: None } => write!(f, "others use {} CPUs", significant(*cpus, 2)),
            Self::Stolen { share } => write!(f, "hypervisor took {} of the CPU time", percent(*share, 2)),
            Self::Waited { share } => {
                write!(f, "threads waited for a CPU {} of the time", percent(*share, 2))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use plimsoll_machine::cgroup::IoLimit;
    use plimsoll_machine::fixture::Fixture;

    use super::*;
    use crate::view::testing::peak;

    /// What explains a disk's figure in MB/s where the group allows 250 MB/s.
    fn explained(figure: f64, low: Option<f64>) -> Option<&'static str> {
        let mut machine = Fixture::unpack("").unwrap().machine();
        machine.cgroup.io = vec![IoLimit { read_bytes: Some(250_000_000), ..IoLimit::default() }];
        let mut measurement = peak(1, figure * 1e6);
        measurement.case = "disk.io/op=read/pattern=sequential/block=1M/depth=8/size=64M".parse().unwrap();
        measurement.metrics[0].unit = Unit::BytePerSecond;
        Cause::of(&measurement, &Others::default(), &machine, low.map(|low| low * 1e6))
            .map(|cause| cause.code())
    }

    #[test]
    fn a_limit_of_the_group_explains_what_it_alone_makes_low() {
        assert_eq!(explained(250.0, Some(450.0)), Some("io-limit"));
        // Short measurements fall into a slice in which nothing was allowed.
        assert_eq!(explained(175.0, Some(450.0)), Some("io-limit"));
        // More than it allows, or less than is usual while it allows what is usual.
        assert_eq!(explained(400.0, Some(450.0)), None);
        assert_eq!(explained(90.0, Some(100.0)), None);
        assert_eq!(explained(175.0, None), None);
    }
}
