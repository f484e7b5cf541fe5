use plimsoll_bench::Setting;
use plimsoll_machine::Machine;
use plimsoll_units::quantity::{Quantity, Unit, format_cpus, significant};
use plimsoll_units::text::format_count;

/// Memory is missing if more than this share and more than [`MEMORY_BYTES`] is gone: a kernel
/// reserves varying amounts (crashkernel), and a hypervisor may take some back (ballooning).
const MEMORY_SHARE: f64 = 0.06;
const MEMORY_BYTES: u64 = 1 << 30;
/// A quota or rate below this share of another one is tighter.
pub(super) const TIGHTER: f64 = 0.99;

/// A resource that a machine has less of than usual.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MachineLoss {
    /// CPUs that it may use.
    #[error("{} usable, {usual} {of}", format_count(*.now, "CPU"))]
    Cpus {
        /// CPUs now.
        now: usize,
        /// Usual CPUs.
        usual: usize,
        /// "before" or "in the fleet".
        of: &'static str,
    },
    /// Memory, in bytes.
    #[error("memory {}, {} {of}", bytes(*.now), bytes(*.usual))]
    Memory {
        /// Bytes now.
        now: u64,
        /// Usual bytes.
        usual: u64,
        /// "before" or "in the fleet".
        of: &'static str,
    },
    /// CPU quota, in CPUs.
    #[error("CPU quota of {}, {} {of}", format_cpus(*.now, 2), usual_quota(*.usual))]
    Quota {
        /// Quota now.
        now: f64,
        /// Usual quota; `None` is no quota.
        usual: Option<f64>,
        /// "before" or "in the fleet".
        of: &'static str,
    },
    /// A setting that limits a case to a rate below its usual figure.
    #[error("{now}, usual is {usual}")]
    Setting {
        /// Setting now.
        now: Setting,
        /// Usual figure of the case.
        usual: Quantity,
    },
}

impl MachineLoss {
    /// Returns a loss for each of CPUs, memory and CPU quota that `machine` has less of than
    /// `usual`. `of` names the origin of `usual`: "before" or "in the fleet".
    pub(super) fn find_losses(usual: &Machine, machine: &Machine, of: &'static str) -> Vec<Self> {
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
        // A quota of more CPUs than there are has no effect.
        let most = cpus_of(usual).min(cpus_of(machine)) as f64;
        let usual = quota(usual);
        let tighter = |now: &f64| usual.unwrap_or(most).min(most) * TIGHTER > *now;
        let quota = quota(machine).filter(tighter).map(|now| Self::Quota { now, usual, of });
        cpus.into_iter().chain(memory).chain(quota).collect()
    }

    /// Returns the stable identifier of the loss, such as `fewer-cpus`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Cpus { .. } => "fewer-cpus",
            Self::Memory { .. } => "less-memory",
            Self::Quota { .. } => "cpu-quota",
            Self::Setting { now, .. } => now.kind.code(),
        }
    }
}

fn bytes(bytes: u64) -> Quantity {
    Quantity::new(bytes as f64, Unit::Byte)
}

fn usual_quota(usual: Option<f64>) -> String {
    usual.map_or("none".to_owned(), |usual| significant(usual, 2))
}
