//! What was discovered about the machine, from files below a [`Root`], so that saved trees are test fixtures.
//!
//! Every part is a plain value. What is missing or makes no sense is `None` (or absent) with the reason in
//! [`Machine::unknown`]; discovery as a whole never fails, and text from outside has passed `text::shown`.
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
pub use disk::Disk;
pub use health::Health;
pub use memory::Memory;
pub use network::Nic;
pub use processes::{Busy, Others, Processes};
pub use root::Root;
pub use state::{Change, Snapshot, State, Watch};
pub use storage::{Storage, storage_behind};
pub use virtualisation::Virtualisation;

use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::Path;

/// Everything that was discovered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// A hash of the hardware that was discovered: machines of one kind share it, and it survives a reboot.
    pub id: String,
    /// Host name.
    pub host: Option<String>,
    /// Kernel.
    pub kernel: Kernel,
    /// Processors and their caches.
    pub cpu: Cpu,
    /// Memory and NUMA nodes.
    pub memory: Memory,
    /// What the control groups allow this process.
    pub cgroup: Cgroup,
    /// Block devices, without empty loop and RAM ones.
    pub disks: Vec<Disk>,
    /// What is behind the directory under test, once it is known: see [`Machine::look_behind`].
    pub storage: Option<Storage>,
    /// Network interfaces.
    pub network: Vec<Nic>,
    /// Hypervisor and container.
    pub virtualisation: Virtualisation,
    /// What else the machine was doing at discovery.
    pub state: State,
    /// What could not be found out, and why.
    pub unknown: Vec<Unknown>,
}

/// The running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// As `uname -r`.
    pub release: Option<String>,
    /// As `uname -v`: build number and date.
    pub version: Option<String>,
    /// As `uname -m`: `x86_64`, `aarch64` …
    pub architecture: Option<String>,
}

/// Something that could not be found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Which fact, by its path in [`Machine`]: `cpu.clock.max_hz`, `network.eth0.speed`.
    pub what: String,
    /// Why, in one line.
    pub why: String,
}

impl Machine {
    /// Reads what is below `root`. Nothing is opened for writing, and nothing is run.
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
            state: State::default(),
            unknown: Vec::new(),
            kernel,
            cpu,
        };
        let snapshot = Watch::new(root).snapshot();
        machine.state = State::discover(s, &snapshot, &machine.cpu);
        machine.id = fingerprint::of(&machine);
        machine.unknown = survey.unknown;
        machine
    }

    /// Finds what is behind the directory (or file, or block device) that disk benchmarks will use.
    pub fn look_behind(&mut self, root: &Root, path: &Path) {
        self.storage = Some(storage_behind(root, path));
    }

    /// The kernel's name of the device with this number, `MAJOR:MINOR`; the number if no such device is known.
    pub fn device_name<'a>(&'a self, number: &'a str) -> &'a str {
        let has_it = |disk: &&Disk| disk.number.is_some_and(|own| own.to_string() == number);
        self.disks.iter().find(has_it).map_or(number, |disk| &disk.name)
    }

    /// The memory that can be taken without pushing others out: the lesser of what the system and the control
    /// groups have left, in bytes.
    pub fn memory_available_bytes(&self) -> Option<u64> {
        let group = self.cgroup.memory.as_ref().map(cgroup::MemoryLimit::available_bytes);
        match (self.memory.available_bytes, group) {
            (Some(system), Some(group)) => Some(system.min(group)),
            (system, group) => system.or(group),
        }
    }

    /// How many CPUs' worth of time this process can use: the allowed CPUs, or the control group's quota if that
    /// is less.
    pub fn cpu_capacity(&self) -> f64 {
        let allowed = self.cpu.allowed.len() as f64;
        self.cgroup.cpu_quota.as_ref().map_or(allowed, |quota| quota.cpus().min(allowed))
    }

    /// Whether QEMU computes each instruction of the processor itself (TCG): by its name in CPUID, or, on Arm, by the name of the
    /// machine, which is another one under KVM (QEMU, `hw/arm/virt.c`). On Apple's processors macOS may be the hypervisor.
    pub fn is_emulated(&self) -> bool {
        const APPLE: u32 = 0x61;
        let on_arm = self.cpu.arm.as_ref().is_some_and(|arm| arm.implementer != APPLE)
            && self.virtualisation.product.as_deref() == Some("QEMU Virtual Machine");
        self.cpu.cpuid.hypervisor().as_deref() == Some(virtualisation::TCG) || on_arm
    }

    /// The most threads that are measured where none are named: as many as allowed CPUs. Where a control group allows less
    /// time than that: as many as CPUs of time, rounded up, and at least two. More would be stopped most of the time.
    pub fn most_threads(&self) -> usize {
        (self.cpu_capacity().ceil() as usize).max(2).min(self.cpu.allowed.len()).max(1)
    }

    /// How many threads are those of all CPUs among cases with so many threads each: as many as CPUs, or, where none has so many,
    /// [`Machine::most_threads`].
    pub fn all_threads(&self, mut of_cases: impl Iterator<Item = usize>) -> usize {
        let cpus = self.cpu.allowed.len();
        if of_cases.any(|threads| threads == cpus) { cpus } else { self.most_threads() }
    }
}

impl Kernel {
    fn discover(s: &mut Survey) -> Self {
        let read = |name: &str| s.root.line(Path::new("proc/sys/kernel").join(name));
        let (release, version, architecture) = (read("osrelease"), read("version"), read("arch"));
        // gVisor has no such files. What Linux says here names the machine it was built on, so it is not read for more.
        let shown = s.root.line(virtualisation::BANNER).ok().filter(|line| virtualisation::is_gvisor(line));
        let shown = shown.and_then(|line| {
            let (release, version) = line.strip_prefix("Linux version ")?.split_once(' ')?;
            Some((release.to_owned(), version.to_owned()))
        });
        let (shown_release, shown_version) = shown.unzip();
        Self {
            release: shown_release.or_else(|| s.keep("kernel.release", release)),
            version: version.ok().or(shown_version),
            // The file is new in Linux 6.1; before that the shape of cpuinfo tells.
            architecture: architecture.ok().or_else(|| cpu::architecture_by_cpuinfo(s.root)),
        }
    }
}

/// Discovery under way: where to read, and what was not found.
pub(crate) struct Survey<'a> {
    /// Where to read.
    pub(crate) root: &'a Root,
    /// What was not found so far.
    pub(crate) unknown: Vec<Unknown>,
}

/// The most reasons that are kept: a machine of garbage needs no more to be recognised.
const MAX_UNKNOWN: usize = 256;

impl<'a> Survey<'a> {
    /// Nothing read yet.
    pub(crate) fn new(root: &'a Root) -> Self {
        Self { root, unknown: Vec::new() }
    }

    /// Keeps the reason why something is unknown.
    pub(crate) fn note(&mut self, what: &str, why: impl Display) {
        let (what, why) = (plimsoll_units::text::shown(what), plimsoll_units::text::shown(&why.to_string()));
        if self.unknown.len() < MAX_UNKNOWN && !self.unknown.iter().any(|known| known.what == what) {
            self.unknown.push(Unknown { what, why });
        }
    }

    /// Drops the reason, because the fact is known from elsewhere.
    pub(crate) fn forget(&mut self, what: &str) {
        self.unknown.retain(|known| known.what != what);
    }

    /// The value, or `None` with its reason kept.
    pub(crate) fn keep<T, E: Display>(&mut self, what: &str, found: Result<T, E>) -> Option<T> {
        found.map_err(|why| self.note(what, why)).ok()
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod tests;
