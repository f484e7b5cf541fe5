//! Machine discovery from files below a [`Root`], so saved trees are test fixtures. A missing or
//! invalid value is `None`, with the reason in [`Machine::unknown`]; discovery never fails.
#![forbid(unsafe_code)]

pub mod cgroup;
pub mod clocks;
pub mod cpu;
pub mod cpuid;
pub mod cpuset;
pub mod disk;
mod fingerprint;
pub mod health;
pub mod memory;
pub mod mounts;
pub mod network;
pub mod processes;
pub mod root;
pub mod saved;
pub mod smbios;
pub mod state;
pub mod storage;
mod tree;
pub mod virtualisation;

pub use cgroup::Cgroup;
pub use cpu::{Cpu, EffectiveCache};
pub use cpuid::Cpuid;
pub use cpuset::CpuSet;
pub use disk::{DeviceLink, Disk, DiskKind};
pub use health::Health;
pub use memory::Memory;
pub use mounts::DeviceNumber;
pub use network::Nic;
pub use processes::{BusyProcess, Others, ProcessStat, Processes};
pub use root::{ReadError, Root};
pub use state::{MachineState, StateChange, StateSnapshot, StateWatch};
pub use storage::{DeviceLayer, Medium, MountedFileSystem, Storage, storage_behind};
pub use virtualisation::Virtualisation;

use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::Path;

/// The discovered machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Hash of the hardware: shared by machines of one kind, stable across reboots.
    pub id: String,
    /// Host name.
    pub host: Option<String>,
    /// Kernel.
    pub kernel: Kernel,
    /// Processors and their caches.
    pub cpu: Cpu,
    /// Memory and NUMA nodes.
    pub memory: Memory,
    /// Limits of the control groups on this process.
    pub cgroup: Cgroup,
    /// Block devices, without empty loop and RAM devices.
    pub disks: Vec<Disk>,
    /// Storage behind the directory under test, once known: see [`Machine::set_storage_behind`].
    pub storage: Option<Storage>,
    /// Network interfaces.
    pub network: Vec<Nic>,
    /// Hypervisor and container.
    pub virtualisation: Virtualisation,
    /// Activity of the machine at discovery.
    pub state: MachineState,
    /// Facts that could not be determined.
    pub unknown: Vec<UnknownFact>,
}

/// The running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Release, as `uname -r`.
    pub release: Option<String>,
    /// Build number and date, as `uname -v`.
    pub version: Option<String>,
    /// Architecture, as `uname -m`: `x86_64`, `aarch64` …
    pub architecture: Option<String>,
}

/// A fact that could not be determined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownFact {
    /// Path of the fact in [`Machine`]: `cpu.clock.max_hz`, `network.eth0.speed`.
    pub what: String,
    /// Reason in one line.
    pub why: String,
}

impl Machine {
    /// Reads the facts about the machine with `/proc` and `/sys` below `root`; opens no file for
    /// writing, runs no program. Facts that are not found are listed in [`Machine::unknown`].
    pub fn discover(root: &Root) -> Self {
        let mut survey = Survey::new(root);
        let s = &mut survey;
        let kernel = Kernel::discover(s);
        let cpu = Cpu::discover(s);
        let mut machine = Self {
            id: String::new(),
            host: s.keep("host", root.line("proc/sys/kernel/hostname")),
            memory: Memory::discover(s),
            cgroup: Cgroup::discover(s),
            disks: disk::discover(s),
            storage: None,
            network: network::discover(s),
            virtualisation: Virtualisation::discover(s, &cpu),
            state: MachineState::default(),
            unknown: Vec::new(),
            kernel,
            cpu,
        };
        let snapshot = StateWatch::new(root).snapshot();
        machine.state = MachineState::discover(s, &snapshot, &machine.cpu);
        machine.id = fingerprint::of(&machine);
        machine.unknown = survey.unknown;
        machine
    }

    /// Sets [`Machine::storage`] to the file system and disks of `path`, a test file or device.
    pub fn set_storage_behind(&mut self, root: &Root, path: &Path) {
        self.storage = Some(storage_behind(root, path));
    }

    /// Returns the kernel's name (`sda`) of the disk `number` (`MAJOR:MINOR`); `number` if unknown.
    pub fn device_name<'a>(&'a self, number: &'a str) -> &'a str {
        let has_it = |disk: &&Disk| disk.number.is_some_and(|own| own.to_string() == number);
        self.disks.iter().find(has_it).map_or(number, |disk| &disk.name)
    }

    /// Returns the bytes usable without evicting other processes: the kernel's estimate or, if
    /// smaller, what the control group leaves; `None` if both are unknown.
    pub fn memory_available_bytes(&self) -> Option<u64> {
        let group = self.cgroup.memory.as_ref().map(cgroup::MemoryLimit::available_bytes);
        self.memory.available_bytes.into_iter().chain(group).min()
    }

    /// Returns how many CPUs this process can use: those allowed or, if smaller, the quota.
    pub fn cpu_capacity(&self) -> f64 {
        let allowed = self.cpu.allowed.len() as f64;
        self.cgroup.cpu_quota.as_ref().map_or(allowed, |quota| quota.cpus().min(allowed))
    }

    /// Returns whether QEMU emulates the CPU (TCG): by the hypervisor's name in CPUID or, on Arm
    /// except Apple's, by the DMI product name, which differs under KVM (QEMU, `hw/arm/virt.c`).
    pub fn is_emulated(&self) -> bool {
        const APPLE: u32 = 0x61;
        let on_arm = self.cpu.arm.as_ref().is_some_and(|arm| arm.implementer != APPLE)
            && self.virtualisation.product.as_deref() == Some("QEMU Virtual Machine");
        self.cpu.cpuid.hypervisor().as_deref() == Some(virtualisation::TCG) || on_arm
    }

    /// Returns the default maximum of a benchmark's threads: the CPU quota, rounded up and at least
    /// two, or the number of allowed CPUs if smaller.
    pub fn most_threads(&self) -> usize {
        (self.cpu_capacity().ceil() as usize).max(2).min(self.cpu.allowed.len()).max(1)
    }

    /// Returns the thread count that represents the whole machine: the number of allowed CPUs if
    /// among `of_cases`, the thread counts that were measured, else [`Machine::most_threads`].
    pub fn all_threads(&self, mut of_cases: impl Iterator<Item = usize>) -> usize {
        let cpus = self.cpu.allowed.len();
        if of_cases.any(|threads| threads == cpus) { cpus } else { self.most_threads() }
    }
}

impl Kernel {
    fn discover(s: &mut Survey) -> Self {
        let read = |name: &str| s.root.line(Path::new("proc/sys/kernel").join(name));
        let (release, version, architecture) = (read("osrelease"), read("version"), read("arch"));
        // gVisor lacks these files. On Linux the banner names the build machine, so it is not read.
        let shown = s.root.line(virtualisation::BANNER).ok().filter(|line| virtualisation::is_gvisor(line));
        let shown = shown.and_then(|line| {
            let (release, version) = line.strip_prefix("Linux version ")?.split_once(' ')?;
            Some((release.to_owned(), version.to_owned()))
        });
        let (shown_release, shown_version) = shown.unzip();
        Self {
            release: shown_release.or_else(|| s.keep("kernel.release", release)),
            version: version.ok().or(shown_version),
            // The file exists since Linux 6.1; before, cpuinfo shows the architecture.
            architecture: architecture.ok().or_else(|| cpu::architecture_by_cpuinfo(s.root)),
        }
    }
}

pub(crate) struct Survey<'a> {
    pub(crate) root: &'a Root,
    pub(crate) unknown: Vec<UnknownFact>,
}

const MAX_UNKNOWN: usize = 256;

impl<'a> Survey<'a> {
    pub(crate) fn new(root: &'a Root) -> Self {
        Self { root, unknown: Vec::new() }
    }

    pub(crate) fn note(&mut self, what: &str, why: impl Display) {
        let (what, why) = (plimsoll_units::text::shown(what), plimsoll_units::text::shown(&why.to_string()));
        if self.unknown.len() < MAX_UNKNOWN && !self.unknown.iter().any(|known| known.what == what) {
            self.unknown.push(UnknownFact { what, why });
        }
    }

    /// Removes the fact `what`, such as `cpu.vendor`, from the list of unknown facts.
    pub(crate) fn forget(&mut self, what: &str) {
        self.unknown.retain(|known| known.what != what);
    }

    /// Returns the value, or `None` after noting the error as why the fact `what` is unknown.
    pub(crate) fn keep<T, E: Display>(&mut self, what: &str, found: Result<T, E>) -> Option<T> {
        found.map_err(|why| self.note(what, why)).ok()
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod tests;
