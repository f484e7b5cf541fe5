//! Processors: what they are, how they are numbered, which may be used, at what clock.
//!
//! Sources: `/proc/cpuinfo` for names and flags, `/sys/devices/system/cpu` (Linux
//! `Documentation/ABI/testing/sysfs-devices-system-cpu`) for topology and clock, `/proc/self/status` for affinity.

mod cache;
mod clock;
mod cpuinfo;

pub use cache::{Cache, CacheKind, EffectiveCache};
pub use clock::Clock;
pub use cpuinfo::ArmId;
pub(super) use cpuinfo::architecture as architecture_by_cpuinfo;

use plimsoll_metal::isa::Isa;

use super::root::garbled;
use super::{CpuSet, Cpuid, Survey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The processors of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// As the processor (x86) or firmware names itself.
    pub model_name: Option<String>,
    /// CPUID vendor: `GenuineIntel`, `AuthenticAMD` (x86 only).
    pub vendor: Option<String>,
    /// Family, extended family included (x86 only).
    pub family: Option<u32>,
    /// Model, extended model included (x86 only).
    pub model: Option<u32>,
    /// Stepping (x86 only).
    pub stepping: Option<u32>,
    /// Microcode revision, as the kernel shows it.
    pub microcode: Option<String>,
    /// Identification of an Arm core (of the first allowed CPU).
    pub arm: Option<ArmId>,
    /// Feature flags, as the kernel names them.
    pub flags: BTreeSet<String>,
    /// CPUs that are running.
    pub online: CpuSet,
    /// CPUs that this process may use: running and in its affinity.
    pub allowed: CpuSet,
    /// Packages that hold online CPUs.
    pub sockets: Option<usize>,
    /// Physical cores that hold online CPUs.
    pub cores: Option<usize>,
    /// Online CPUs (hardware threads).
    pub threads: usize,
    /// Each present CPU, in ascending order.
    pub logical: Vec<Logical>,
    /// Kinds of core, where there is more than one (big.LITTLE, performance and efficiency cores): what is said of
    /// one CPU here then does not hold for all.
    pub kinds: Vec<CoreKind>,
    /// Caches of the online CPUs, alike ones together.
    pub caches: Vec<Cache>,
    /// How much of a last-level cache one CPU really has, where that was measured for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_cache: Option<EffectiveCache>,
    /// What cores were measured to start in a cycle for this run, one of each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// CPUs that were measured for this run to share a core, which the kernel does not say: a hypervisor hides it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_siblings: Vec<CpuSet>,
    /// Clock limits and policy.
    pub clock: Clock,
    /// What CPUID says (x86 only), as read; empty where it was not.
    #[serde(default, skip_serializing_if = "Cpuid::is_empty")]
    pub cpuid: Cpuid,
}

/// What a core was measured to start in a cycle: it can do that at least.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    /// The CPU that was looked at; it stands for its kind.
    pub cpu: usize,
    /// Which instructions.
    pub ability: Ability,
    /// Their instruction set.
    pub isa: String,
    /// Bits of a vector.
    pub bits: u32,
    /// As measured: instructions in a cycle, or the cycles of a latency.
    pub measured: f64,
}

/// Instructions whose rate tells processors apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ability {
    /// Fused multiply-add.
    Fma,
    /// Multiplications and additions, as many of each, counted together.
    MultiplyAndAdd,
    /// Floating-point addition.
    Add,
    /// Floating-point multiplication.
    Multiply,
    /// Integer addition.
    IntegerAdd,
    /// Loads of whole vectors from the level-1 cache.
    Loads,
    /// Cycles from a fused multiply-add to the next that waits for its result.
    FmaLatency,
    /// Cycles from a floating-point addition to the next that waits for its result.
    AddLatency,
}

impl Capability {
    /// Rates that units have.
    const STEPS: [f64; 6] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0];
    /// Share by which a measured rate may miss the step that it means.
    const RATE_STEP_TOLERANCE: f64 = 0.03;

    /// Whether it is a measured rate of multiply-adds of `bits`-wide vectors that stands for `per_cycle` of them in a cycle.
    pub fn is_fma(&self, bits: u32, per_cycle: f64) -> bool {
        self.ability == Ability::Fma && self.bits == bits && self.per_cycle() == Some(per_cycle)
    }

    /// The rate that was meant, in instructions per cycle; `None` where the measured one is between two, or is a latency.
    pub fn per_cycle(&self) -> Option<f64> {
        if matches!(self.ability, Ability::FmaLatency | Ability::AddLatency) {
            return None;
        }
        Self::STEPS.into_iter().find(|step| (self.measured / step - 1.0).abs() <= Self::RATE_STEP_TOLERANCE)
    }
}

/// One CPU as the kernel numbers it: a hardware thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logical {
    /// The kernel's number.
    pub id: usize,
    /// Number of its core, unique within the package.
    pub core: Option<u32>,
    /// Number of its package (socket).
    pub package: Option<u32>,
    /// The hardware threads of its core, itself among them; empty when unknown.
    pub siblings: CpuSet,
    /// Whether it is running.
    pub online: bool,
    /// How much it gets done beside the others, as the kernel ranks cores of several kinds: more is quicker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
}

/// CPUs of one kind, on a machine with several kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreKind {
    /// The kernel's name for the kind: `cpu_core`, `cpu_atom`, or the Arm `midr_el1` value.
    pub name: String,
    /// The CPUs of this kind.
    pub cpus: CpuSet,
}

impl Cpu {
    /// The best set of vector instructions for which there are kernels, by the features that the processor names; `None` where it
    /// names none of them.
    pub fn best_isa(&self) -> Option<Isa> {
        const SETS: [(Isa, &[&str]); 5] = [
            (Isa::Avx512, &["avx512f", "avx512dq", "avx512bw", "avx512vl"]),
            (Isa::Avx2, &["avx2", "fma"]),
            (Isa::Sse2, &["sse2"]),
            (Isa::Sve, &["sve"]),
            (Isa::Neon, &["asimd"]),
        ];
        SETS.into_iter().find(|(_, needs)| needs.iter().all(|feature| self.has(feature))).map(|(isa, _)| isa)
    }

    /// Whether the kernel reports the flag for the first CPU.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    /// The CPU with this number.
    pub fn logical(&self, id: usize) -> Option<&Logical> {
        self.logical.iter().find(|cpu| cpu.id == id)
    }

    /// What identifies the Arm core that is CPU `number`; `None` elsewhere.
    pub fn arm_of(&self, number: usize) -> Option<ArmId> {
        let kind = self.kinds.iter().find(|kind| kind.cpus.contains(number));
        kind.and_then(|kind| ArmId::named(&kind.name)).or_else(|| self.arm.clone())
    }

    /// The distinct cores that these CPUs belong to, as the kernel says or as was measured; `None` if that is not known of
    /// all.
    pub fn cores_of(&self, cpus: &CpuSet) -> Option<usize> {
        let shown = distinct_cores(self.logical.iter().filter(|cpu| cpus.contains(cpu.id)))?;
        let hidden = self.hidden_among(cpus).iter().map(|set| set.len() - 1).sum();
        Some(shown.saturating_sub(hidden).max(1))
    }

    /// The groups among these CPUs that were measured to share a core, though the kernel does not say so.
    pub fn hidden_among(&self, cpus: &CpuSet) -> Vec<CpuSet> {
        let common = self.hidden_siblings.iter().map(|set| set.common(cpus));
        common.filter(|set| set.len() > 1).collect()
    }

    /// The sum over the distinct last-level caches of the allowed CPUs, in bytes; `None` if a size or the sharing
    /// is not known.
    pub fn last_level_bytes(&self) -> Option<u64> {
        self.last_level_of(&self.allowed).map(|(bytes, _)| bytes)
    }

    /// The distinct last-level caches of these CPUs: bytes of all, and how many they are; `None` if a size or the sharing
    /// is not known.
    pub fn last_level_of(&self, cpus: &CpuSet) -> Option<(u64, u64)> {
        cache::last_level(&self.caches, cpus)
    }

    /// Bytes of the distinct level-2 caches of these CPUs that are not their last level; 0 if none is known. A CPU whose
    /// cache sharing is not known counts as a cache of its own.
    pub fn level_2_of(&self, cpus: &CpuSet) -> u64 {
        cache::inner_level_2(&self.caches, cpus)
    }

    /// The data (or unified) cache of this level that `cpu` uses.
    pub fn cache_of(&self, cpu: usize, level: u8) -> Option<&Cache> {
        self.caches.iter().find(|cache| cache.level == level && cache.holds_data() && cache.serves(cpu))
    }

    pub(super) fn discover(s: &mut Survey) -> Self {
        let mut info = cpuinfo::read(s);
        let (mut present, mut online) = present_and_online(s, &info.processors);
        let allowed = allowed(s, &online);
        // A container's file system (lxcfs) shows as many CPUs as the container may use, numbered from 0; the affinity is the
        // kernel's own word. The rest of the machine is then not seen.
        if !allowed.iter().all(|cpu| online.contains(cpu)) {
            online.clone_from(&allowed);
            present.clone_from(&allowed);
        }
        let cpuid = Cpuid::discover(s, &allowed);
        if online.is_empty() {
            online = cpuid.cpus();
        }
        present = present.iter().chain(online.iter()).collect();
        let allowed = if allowed.is_empty() { online.clone() } else { allowed };
        let mut logical: Vec<Logical> = present.iter().map(|id| Logical::discover(s, id, &online)).collect();
        let running = || logical.iter().filter(|cpu| cpu.online);
        let packages: Option<BTreeSet<u32>> = running().map(|cpu| cpu.package).collect();
        let sockets = packages.map(|set| set.len()).filter(|&n| n > 0);
        let cores = distinct_cores(running());
        if sockets.is_none() {
            s.note("cpu.sockets", "the kernel does not tell the package of every CPU");
        }
        if cores.is_none() {
            s.note("cpu.cores", "the kernel does not tell the core of every CPU");
        }
        let first = allowed.first().or(online.first()).unwrap_or(0);
        let kinds = kinds(s, &info, &online);
        if !kinds.is_empty() {
            rank_by_firmware(s, &mut logical);
        }
        if let Some(answers) = cpuid.of(first) {
            info.take(answers);
            info.told().for_each(|what| s.forget(what));
        }
        let mut caches = cache::discover(s, &online);
        if caches.is_empty() {
            caches = cache::of_cpuid(&cpuid, &online);
        }
        Self {
            arm: cpuinfo::arm_id(s, &info, first),
            kinds,
            caches,
            effective_cache: None,
            hidden_siblings: Vec::new(),
            capabilities: Vec::new(),
            clock: Clock::discover(s, &allowed, info.model_name.as_deref()),
            threads: online.len(),
            model_name: info.model_name,
            vendor: info.vendor,
            family: info.family,
            model: info.model,
            stepping: info.stepping,
            microcode: info.microcode,
            flags: info.flags,
            online,
            allowed,
            sockets,
            cores,
            logical,
            cpuid,
        }
    }
}

impl Logical {
    fn discover(s: &mut Survey, id: usize, online: &CpuSet) -> Self {
        let topology = sys_cpu(id).join("topology");
        // An Arm kernel writes -1 where the firmware tells nothing; such a number does not parse.
        let number = |name: &str| s.root.parse::<u32>(topology.join(name), "a number").ok();
        let siblings = s
            .root
            .parse::<CpuSet>(topology.join("core_cpus_list"), "a CPU list")
            .or_else(|_| s.root.parse(topology.join("thread_siblings_list"), "a CPU list"))
            .ok()
            .filter(|set| set.contains(id));
        Self {
            id,
            core: number("core_id"),
            package: number("physical_package_id"),
            siblings: siblings.unwrap_or_default(),
            online: online.contains(id),
            // A capacity is there where capacities differ (Arm, and hybrid x86 of late); firmware ranks by performance.
            capacity: s.root.parse(sys_cpu(id).join("cpu_capacity"), "a capacity").ok(),
        }
    }
}

/// Ranks CPUs by the performance that the firmware names for each, where the kernel gives no capacities.
fn rank_by_firmware(s: &Survey, logical: &mut [Logical]) {
    if logical.iter().any(|cpu| cpu.capacity.is_some()) {
        return;
    }
    for cpu in logical {
        cpu.capacity = s.root.parse(sys_cpu(cpu.id).join("acpi_cppc/highest_perf"), "a performance").ok();
    }
}

/// Where the kernel describes a CPU.
fn sys_cpu(id: usize) -> PathBuf {
    PathBuf::from(format!("sys/devices/system/cpu/cpu{id}"))
}

/// What tells a core from another.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum CoreKey<'a> {
    Siblings(&'a CpuSet),
    Numbers { package: u32, core: u32 },
}

/// How many cores these CPUs are on, by their siblings or else by package and core number.
fn distinct_cores<'a>(cpus: impl Iterator<Item = &'a Logical>) -> Option<usize> {
    let cores: Option<BTreeSet<CoreKey<'_>>> = cpus
        .map(|cpu| match cpu.siblings.is_empty() {
            false => Some(CoreKey::Siblings(&cpu.siblings)),
            true => Some(CoreKey::Numbers { package: cpu.package?, core: cpu.core? }),
        })
        .collect();
    cores.map(|set| set.len()).filter(|&n| n > 0)
}

/// The CPUs that exist and those that run; `listed` is what cpuinfo has, which is the running ones.
fn present_and_online(s: &mut Survey, listed: &CpuSet) -> (CpuSet, CpuSet) {
    let read = |name: &str| s.root.parse::<CpuSet>(format!("sys/devices/system/cpu/{name}"), "a CPU list");
    let (present, online) = (read("present"), read("online"));
    let online = match online {
        Ok(set) if !set.is_empty() => set,
        other => {
            let why =
                other.err().unwrap_or_else(|| garbled("sys/devices/system/cpu/online", "", "a CPU list"));
            if listed.is_empty() {
                s.note("cpu.online", why);
            }
            listed.clone()
        }
    };
    let present = present.unwrap_or_default().iter().chain(online.iter()).collect();
    (present, online)
}

/// The running CPUs in this process's affinity; all of them when that cannot be read.
fn allowed(s: &mut Survey, online: &CpuSet) -> CpuSet {
    if s.root.is_live()
        && let Ok(cpus) = plimsoll_metal::affinity::allowed()
    {
        return cpus.into_iter().collect();
    }
    const STATUS: &str = "proc/self/status";
    let affinity = s.root.text(STATUS).and_then(|text| {
        let value = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
        match value.parse::<CpuSet>() {
            Ok(set) if !set.is_empty() => Ok(set),
            _ => Err(garbled(STATUS, value, "a CPU list in Cpus_allowed_list")),
        }
    });
    // The list may name CPUs that are off. A running one is in the list of those online, or, where a container's file
    // system has made that list, has a topology.
    let is_shown = |cpu: usize| {
        let off = s.root.text(sys_cpu(cpu).join("online")).is_ok_and(|text| text == "0");
        !off && s.root.exists(sys_cpu(cpu).join("topology/core_id"))
    };
    let runs = |cpu: &usize| online.contains(*cpu) || is_shown(*cpu);
    match affinity {
        Ok(affinity) => {
            let running: CpuSet = affinity.iter().filter(runs).collect();
            if running.is_empty() { affinity } else { running }
        }
        Err(why) => {
            s.note("cpu.allowed", why);
            online.clone()
        }
    }
}

/// The kinds of core, if there is more than one.
fn kinds(s: &Survey, info: &cpuinfo::CpuInfo, online: &CpuSet) -> Vec<CoreKind> {
    let mut kinds: Vec<CoreKind> = Vec::new();
    for name in ["cpu_core", "cpu_atom", "cpu_lowpower"] {
        if let Ok(cpus) = s.root.parse::<CpuSet>(format!("sys/devices/{name}/cpus"), "a CPU list") {
            kinds.push(CoreKind { name: name.into(), cpus: cpus.common(online) });
        }
    }
    for id in online.iter() {
        let Some(midr) = cpuinfo::midr(s.root, id).or_else(|| info.midr_of(id)) else { continue };
        let name = cpuinfo::midr_name(midr);
        match kinds.iter_mut().find(|kind| kind.name == name) {
            Some(kind) => kind.cpus.insert(id),
            None => kinds.push(CoreKind { name, cpus: CpuSet::single(id) }),
        }
    }
    kinds.retain(|kind| !kind.cpus.is_empty());
    if kinds.len() > 1 { kinds } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fault, Fixture};

    fn discover(tree: &str) -> Result<Cpu, Fault> {
        let fixture = Fixture::unpack(tree)?;
        Ok(Cpu::discover(&mut Survey::new(&fixture.root)))
    }

    #[test]
    fn kinds_of_core_are_told_apart() -> Result<(), Fault> {
        let online = "sys/devices/system/cpu/online = 0-7\n";
        let hybrid = format!("{online}sys/devices/cpu_core/cpus = 0-3\nsys/devices/cpu_atom/cpus = 4-7,9\n");
        let names = |cpu: &Cpu| -> Vec<String> {
            cpu.kinds.iter().map(|kind| format!("{} {}", kind.name, kind.cpus)).collect()
        };
        assert_eq!(names(&discover(&hybrid)?), ["cpu_core 0-3", "cpu_atom 4-7"]);
        let midr = "regs/identification/midr_el1";
        let arm = format!(
            "{online}sys/devices/system/cpu/cpu[0-5]/{midr} = 0x00000000412fd050\n\
             sys/devices/system/cpu/cpu[6-7]/{midr} = 0x00000000413fd0c1\n"
        );
        let arm = discover(&arm)?;
        assert_eq!(names(&arm), ["midr 0x00000000412fd050 0-5", "midr 0x00000000413fd0c1 6-7"]);
        let id = arm.arm.ok_or("no id")?;
        assert_eq!((id.implementer, id.part), (0x41, 0xd05));
        assert_eq!((id.variant, id.revision, id.midr), (2, 0, Some(0x412f_d050)));
        assert_eq!(names(&discover(online)?), [""; 0]);
        Ok(())
    }

    #[test]
    fn offline_and_forbidden_cpus_do_not_count() -> Result<(), Fault> {
        let topology = "sys/devices/system/cpu/cpu[0-3]/topology";
        let cpu = discover(&format!(
            "sys/devices/system/cpu/present = 0-3\nsys/devices/system/cpu/online = 0-2\n\
             proc/self/status = Cpus_allowed_list:\\t1,3\n{topology}/physical_package_id = {{n/2}}\n\
             {topology}/core_id = 0\nsys/devices/system/cpu/cpu3/online = 0\n"
        ))?;
        assert_eq!((cpu.sockets, cpu.cores, cpu.threads), (Some(2), Some(2), 3));
        assert_eq!(cpu.allowed, CpuSet::single(1));
        assert_eq!(cpu.logical.iter().filter(|cpu| cpu.online).count(), 3);
        assert_eq!(cpu.cores_of(&"0-1".parse()?), Some(1));
        Ok(())
    }

    #[test]
    fn in_a_container_whose_file_system_numbers_cpus_anew_the_affinity_counts() -> Result<(), Fault> {
        let cpu = discover(
            "sys/devices/system/cpu/online = 0-1\nproc/self/status = Cpus_allowed_list:\\t4,7\n\
             sys/devices/system/cpu/cpu[0-7]/topology/core_id = {n}\n\
             sys/devices/system/cpu/cpu[0-7]/topology/physical_package_id = 0\n",
        )?;
        assert_eq!(
            (cpu.allowed, cpu.cores, cpu.threads),
            ("4,7".parse()?, Some(2), 2),
            "0 and 1 are other names of 4 and 7"
        );
        Ok(())
    }

    #[test]
    fn mixed_arm_cores_are_told_apart_by_cpuinfo_where_the_register_is_not_shown() -> Result<(), Fault> {
        let core = |id: u32, part: &str| {
            format!(
                "proc/cpuinfo = processor\\t: {id}\nproc/cpuinfo = CPU implementer\\t: 0x41\n\
             proc/cpuinfo = CPU variant\\t: 0x0\nproc/cpuinfo = CPU part\\t: {part}\n\
             proc/cpuinfo = CPU revision\\t: 1\nproc/cpuinfo = \n"
            )
        };
        let tree = core(0, "0xd87") + &core(1, "0xd87") + &core(2, "0xd85");
        let cpu = discover(&format!("sys/devices/system/cpu/online = 0-2\n{tree}"))?;
        let part = |number: usize| cpu.arm_of(number).map(|arm| arm.part);
        assert_eq!([0, 1, 2].map(part), [Some(0xd87), Some(0xd87), Some(0xd85)]);
        assert_eq!(cpu.kinds.len(), 2);
        Ok(())
    }
}
