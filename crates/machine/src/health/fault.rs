use super::{Health, LinkPace};
use serde::{Deserialize, Serialize};

const WORN: u8 = 100;
const WARNINGS: [&str; 6] = [
    "few spare blocks left",
    "temperature past its limit",
    "reliability degraded",
    "read-only",
    "backup of memory failed",
    "persistent memory unreliable",
];

/// A hardware fault, displayed as a sentence of at most 80 characters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum HardwareFault {
    /// Uncorrected errors of a memory controller.
    #[error("memory controller {controller}: uncorrected errors: {count}")]
    EdacUncorrected {
        /// Controller.
        controller: String,
        /// Errors since boot.
        count: u64,
    },
    /// Critical warning of an NVMe drive.
    #[error("{drive}: critical warning {bits:#04x}: {}", name_bits(*.bits))]
    NvmeCriticalWarning {
        /// Drive.
        drive: String,
        /// Bits of the warning.
        bits: u8,
    },
    /// Data lost by an NVMe drive.
    #[error("{drive}: media errors: {count}")]
    NvmeMediaErrors {
        /// Drive.
        drive: String,
        /// Errors over its lifetime.
        count: u64,
    },
    /// NVMe drive beyond its rated endurance.
    #[error("{drive}: {percent} % of its expected endurance used")]
    NvmeWorn {
        /// Drive.
        drive: String,
        /// Wear in %.
        percent: u8,
    },
    /// Sensor at its critical limit.
    #[error("{sensor}: {celsius:.0} °C; critical from {critical:.0} °C")]
    TooHot {
        /// Sensor.
        sensor: String,
        /// Temperature in °C.
        celsius: f64,
        /// Limit in °C.
        critical: f64,
    },
    /// PCI Express link with fewer lanes than both ends support.
    #[error("{what} {device}: link {}, both ends can do {}", pace(*.now), pace(*.possible))]
    PcieLink {
        /// Kind of device.
        what: String,
        /// PCI address.
        device: String,
        /// Current speed and width.
        now: LinkPace,
        /// Highest speed and width supported by both ends.
        possible: LinkPace,
        /// Whether the device may save power while idle; it was read while idle.
        saves_power: bool,
    },
    /// PCI Express link slower than both ends support, of a device that keeps its speed while idle.
    #[error("{what} {device}: link {}, both ends can do {}", pace(*.now), pace(*.possible))]
    PcieSpeed {
        /// Kind of device.
        what: String,
        /// PCI address.
        device: String,
        /// Current speed and width.
        now: LinkPace,
        /// Highest speed and width supported by both ends.
        possible: LinkPace,
    },
    /// CPUs with different microcode.
    #[error("the CPUs run {revisions} different revisions of microcode")]
    MicrocodeDiffers {
        /// Number of revisions.
        revisions: usize,
    },
}

pub(super) fn of(health: &Health) -> Vec<HardwareFault> {
    let mut faults = Vec::new();
    for one in health.counters.controllers.iter().filter(|one| one.uncorrected > 0) {
        let (controller, count) = (one.name.clone(), one.uncorrected);
        faults.push(HardwareFault::EdacUncorrected { controller, count });
    }
    for drive in &health.drives {
        let (name, smart) = (|| drive.name.clone(), &drive.smart);
        if smart.critical_warning != 0 {
            faults.push(HardwareFault::NvmeCriticalWarning { drive: name(), bits: smart.critical_warning });
        }
        if smart.media_errors > 0 {
            faults.push(HardwareFault::NvmeMediaErrors { drive: name(), count: smart.media_errors });
        }
        if smart.used_percent >= WORN {
            faults.push(HardwareFault::NvmeWorn { drive: name(), percent: smart.used_percent });
        }
    }
    let hot = health.sensors.iter().filter(|sensor| sensor.is_critical());
    faults.extend(hot.filter_map(|sensor| {
        let (celsius, critical) = (sensor.celsius, sensor.critical?);
        Some(HardwareFault::TooHot { sensor: sensor.name(), celsius, critical })
    }));
    for link in &health.links {
        let (what, device) = (link.what.clone(), link.device.clone());
        let (now, possible, saves_power) = (link.now, link.possible, link.saves_power);
        if link.is_narrow() {
            faults.push(HardwareFault::PcieLink { what, device, now, possible, saves_power });
        } else if !saves_power {
            faults.push(HardwareFault::PcieSpeed { what, device, now, possible });
        }
    }
    let revisions = health.microcode.len();
    faults.extend((revisions > 1).then_some(HardwareFault::MicrocodeDiffers { revisions }));
    faults
}

impl HardwareFault {
    /// Codes of all faults, in the order of findings.
    pub const FAULT_CODES: [&str; 8] = [
        "edac-uncorrected",
        "nvme-critical-warning",
        "nvme-media-errors",
        "nvme-worn",
        "too-hot",
        "pcie-link",
        "pcie-speed",
        "microcode-differs",
    ];

    /// Returns the stable code of the fault, such as `nvme-worn`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::EdacUncorrected { .. } => "edac-uncorrected",
            Self::NvmeCriticalWarning { .. } => "nvme-critical-warning",
            Self::NvmeMediaErrors { .. } => "nvme-media-errors",
            Self::NvmeWorn { .. } => "nvme-worn",
            Self::TooHot { .. } => "too-hot",
            Self::PcieLink { .. } => "pcie-link",
            Self::PcieSpeed { .. } => "pcie-speed",
            Self::MicrocodeDiffers { .. } => "microcode-differs",
        }
    }

    /// Returns the effect of the fault on results, as a sentence without advice.
    pub fn meaning(&self) -> &'static str {
        match self {
            Self::EdacUncorrected { .. } => "Results computed on this memory may be wrong",
            Self::NvmeCriticalWarning { .. } => "The drive may lose data or refuse writes",
            Self::NvmeMediaErrors { .. } => "At some time the drive had data that it could not recover",
            Self::NvmeWorn { .. } => "Its write figures may be below those of a new drive",
            Self::TooHot { .. } => "Hardware slows itself down at its critical temperature",
            Self::PcieLink { .. } => {
                "Both ends are the device and the port above it; the slot or cable between them may have fewer lanes"
            }
            Self::PcieSpeed { .. } => {
                "Both ends are the device and the port above it. The speed was read while the link was idle; such a device does not \
                 lower it then"
            }
            Self::MicrocodeDiffers { .. } => "The cores may differ in speed and in errata",
        }
    }

    /// Returns the remedy, as an order without a full stop: `update firmware and microcode`.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::EdacUncorrected { .. } => {
                "test the memory and replace the module that the kernel log names"
            }
            Self::NvmeCriticalWarning { .. } => "save its data, and see `smartctl -a`",
            Self::NvmeMediaErrors { .. } => "see `smartctl -a`; replace it if the number grows",
            Self::NvmeWorn { .. } => "replace it",
            Self::TooHot { .. } => "check fans, heat sinks and the temperature of the room",
            Self::PcieLink { .. } | Self::PcieSpeed { .. } => {
                "seat the device again; check riser, cable and the slot's setting in the firmware"
            }
            Self::MicrocodeDiffers { .. } => "update firmware and microcode",
        }
    }
}

fn pace(pace: LinkPace) -> String {
    format!("{} GT/s ×{}", pace.transfers_per_s as f64 / 1e9, pace.lanes)
}

fn name_bits(bits: u8) -> String {
    let set = (0..8_u32).filter(|bit| bits >> bit & 1 == 1);
    let first = set.clone().next().and_then(|bit| WARNINGS.get(bit as usize));
    let more = if set.count() > 1 { " and more" } else { "" };
    format!("{}{more}", first.unwrap_or(&"reserved"))
}
