//! What a machine has less of than is usual: CPUs, memory, quota, and rates that settings hold it to. No low figure is needed to know it.

use std::fmt;

use plimsoll_bench::Setting;
use plimsoll_machine::Machine;
use plimsoll_units::quantity::{Quantity, Unit, format_cpus, significant};

/// Memory is missing if more than this share of it is gone, and more than [`MEMORY_BYTES`]: a kernel reserves differing parts of it (crashkernel),
/// and a hypervisor takes some back for a while (ballooning).
const MEMORY_SHARE: f64 = 0.06;
/// See [`MEMORY_SHARE`].
const MEMORY_BYTES: u64 = 1 << 30;
/// A quota or rate below this share of another is tighter.
pub(super) const TIGHTER: f64 = 0.99;

/// Something that a machine has less of.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// CPUs that it may use.
    Cpus {
        /// Now.
        now: usize,
        /// What is usual.
        usual: usize,
        /// "before" or "in the fleet".
        of: &'static str,
    },
    /// Memory, in bytes.
    Memory {
        /// Now.
        now: u64,
        /// What is usual.
        usual: u64,
        /// "before" or "in the fleet".
        of: &'static str,
    },
    /// A CPU quota, in CPUs.
    Quota {
        /// Now.
        now: f64,
        /// What is usual; `None` is no quota.
        usual: Option<f64>,
        /// "before" or "in the fleet".
        of: &'static str,
    },
    /// A rate that a setting holds a case to, and that is below its usual figure.
    Setting {
        /// Now.
        now: Setting,
        /// The usual figure.
        usual: Quantity,
    },
}

impl Difference {
    /// What `machine` has less of than `usual`.
    pub(super) fn between(usual: &Machine, machine: &Machine, of: &'static str) -> Vec<Self> {
        let cpus_of = |machine: &Machine| machine.cpu.allowed.len();
        let cpus = (cpus_of(machine), cpus_of(usual));
        let cpus = (cpus.0 < cpus.1).then_some(Self::Cpus { now: cpus.0, usual: cpus.1, of });
        let memory = machine.memory.total_bytes.zip(usual.memory.total_bytes);
        let memory = memory
            .filter(|(now, usual)| {
                let gone = usual.saturating_sub(*now);
                gone > MEMORY_BYTES && gone as f64 > *usual as f64 * MEMORY_SHARE
            })
            .map(|(now, usual)| Self::Memory { now, usual, of });
        let quota = |machine: &Machine| machine.cgroup.cpu_quota.as_ref().map(|quota| quota.cpus());
        // A quota of more CPUs than there are holds nothing.
        let most = cpus_of(usual).min(cpus_of(machine)) as f64;
        let tighter = |now: f64| quota(usual).unwrap_or(most).min(most) * TIGHTER > now;
        let quota = quota(machine).filter(|now| tighter(*now)).map(|now| Self::Quota {
            now,
            usual: quota(usual),
            of,
        });
        cpus.into_iter().chain(memory).chain(quota).collect()
    }

    /// Its stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Cpus { .. } => "fewer-cpus",
            Self::Memory { .. } => "less-memory",
            Self::Quota { .. } => "cpu-quota",
            Self::Setting { now, .. } => now.kind.code(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus { now, usual, of } => {
                write!(f, "{} usable, {usual} {of}", plimsoll_units::text::counted(*now, "CPU"))
            }
            Self::Memory { now, usual, of } => {
                let shown = |bytes: &u64| Quantity { value: *bytes as f64, unit: Unit::Byte };
                write!(f, "memory {}, {} {of}", shown(now), shown(usual))
            }
            Self::Quota { now, usual: Some(usual), of } => {
                write!(f, "CPU quota of {}, {} {of}", format_cpus(*now, 2), significant(*usual, 2))
            }
            Self::Quota { now, usual: None, of } => {
                write!(f, "CPU quota of {}, none {of}", format_cpus(*now, 2))
            }
            Self::Setting { now, usual } => write!(f, "{now}, usual is {usual}"),
        }
    }
}
