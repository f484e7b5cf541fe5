//! Processors, from `/proc` and sysfs (Linux `Documentation/ABI/testing/sysfs-devices-system-cpu`).

mod cache;
mod clock;
mod cpuinfo;

pub use cache::{CacheKind, CpuCache, EffectiveCache};
pub use clock::CpuClock;
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
    /// Name given by the processor (x86) or firmware.
    pub model_name: Option<String>,
    /// CPUID vendor: `GenuineIntel`, `AuthenticAMD` (x86 only).
    pub vendor: Option<String>,
    /// Family, extended family included (x86 only).
    pub family: Option<u32>,
    /// Model, extended model included (x86 only).
    pub model: Option<u32>,
    /// Stepping (x86 only).
    pub stepping: Option<u32>,
    /// Microcode revision as shown by the kernel.
    pub microcode: Option<String>,
    /// Identification of the first allowed CPU (Arm only).
    pub arm: Option<ArmId>,
    /// Feature flags, named as by the kernel.
    pub flags: BTreeSet<String>,
    /// Online CPUs.
    pub online: CpuSet,
    /// CPUs that this process may use: online and in its affinity.
    pub allowed: CpuSet,
    /// Number of packages with online CPUs.
    pub sockets: Option<usize>,
    /// Number of physical cores with online CPUs.
    pub cores: Option<usize>,
    /// Number of online CPUs (hardware threads).
    pub threads: usize,
    /// All present CPUs in ascending order.
    pub logical: Vec<Logical>,
    /// Kinds of core if there are several (such as big.LITTLE), else empty.
    pub kinds: Vec<CoreKind>,
    /// Caches of the online CPUs, identical ones combined.
    pub caches: Vec<CpuCache>,
    /// Measured share of a last-level cache for one CPU, if measured for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_cache: Option<EffectiveCache>,
    /// Measured instruction rates and latencies for this run, per kind of core.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// Groups of CPUs measured to share a core although the hypervisor hides it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_siblings: Vec<CpuSet>,
    /// Clock limits and policy.
    pub clock: CpuClock,
    /// Raw CPUID (x86 only); empty if unread.
    #[serde(default, skip_serializing_if = "Cpuid::is_empty")]
    pub cpuid: Cpuid,
}

/// Measured instruction rate or latency of a core, a lower limit of its ability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    /// The measured CPU, representative of its kind.
    pub cpu: usize,
    /// Kind of instruction.
    pub ability: Ability,
    /// Instruction set.
    pub isa: String,
    /// Vector width in bits.
    pub bits: u32,
    /// Measured value: instructions per cycle, or cycles of latency.
    pub measured: f64,
}

/// Instruction rates and latencies that distinguish processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ability {
    /// Fused multiply-add.
    Fma,
    /// Equal numbers of multiplications and additions, counted together.
    MultiplyAndAdd,
    /// Floating-point addition.
    Add,
    /// Floating-point multiplication.
    Multiply,
    /// Integer addition.
    IntegerAdd,
    /// Loads of whole vectors from the L1 cache.
    Loads,
    /// Latency of dependent fused multiply-adds, in cycles.
    FmaLatency,
    /// Latency of dependent floating-point additions, in cycles.
    AddLatency,
}

impl Capability {
    const STEPS: [f64; 6] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0];
    const RATE_STEP_TOLERANCE: f64 = 0.03;

    /// Returns whether this is a rate of `per_cycle` FMAs of `bits`-bit vectors per cycle.
    pub fn is_fma(&self, bits: u32, per_cycle: f64) -> bool {
        self.ability == Ability::Fma && self.bits == bits && self.per_cycle() == Some(per_cycle)
    }

    /// Returns the measured rate, rounded to 0.5, 1, 1.5, 2, 3 or 4 instructions per cycle; `None`
    /// for latencies and for rates that are more than 3 % from all of these.
    pub fn per_cycle(&self) -> Option<f64> {
        if matches!(self.ability, Ability::FmaLatency | Ability::AddLatency) {
            return None;
        }
        Self::STEPS.into_iter().find(|step| (self.measured / step - 1.0).abs() <= Self::RATE_STEP_TOLERANCE)
    }
}

/// One CPU (hardware thread) as numbered by the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logical {
    /// The kernel's number.
    pub id: usize,
    /// Core number, unique within the package.
    pub core: Option<u32>,
    /// Package (socket) number.
    pub package: Option<u32>,
    /// Hardware threads of the core, this one included; empty if unknown.
    pub siblings: CpuSet,
    /// Whether the CPU is online.
    pub online: bool,
    /// The kernel's relative performance rank among several kinds of core: higher is faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
}

/// CPUs of one kind on a machine with several kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreKind {
    /// The kernel's name of the kind: `cpu_core`, `cpu_atom`, or the Arm `midr_el1` value.
    pub name: String,
    /// The CPUs of this kind.
    pub cpus: CpuSet,
}

impl Cpu {
    /// Returns the first of AVX-512, AVX2, SSE2, SVE, NEON in the CPU's flags; `None` without any.
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

    /// Returns whether the CPU has the feature `flag`, named as by the kernel, such as `avx2`.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    /// Returns the CPU with the kernel's number `id`, online or not; `None` if not present.
    pub fn logical(&self, id: usize) -> Option<&Logical> {
        self.logical.iter().find(|cpu| cpu.id == id)
    }

    /// Returns the identification of the Arm core of CPU `number`; `None` on other architectures.
    pub fn arm_of(&self, number: usize) -> Option<ArmId> {
        let kind = self.kinds.iter().find(|kind| kind.cpus.contains(number));
        kind.and_then(|kind| ArmId::named(&kind.name)).or_else(|| self.arm.clone())
    }

    /// Returns the number of physical cores of `cpus`; `None` if unknown for a CPU. CPUs that were
    /// measured to share a core, although the hypervisor hides it, count as one core.
    pub fn cores_of(&self, cpus: &CpuSet) -> Option<usize> {
        let shown = distinct_cores(self.logical.iter().filter(|cpu| cpus.contains(cpu.id)))?;
        let hidden = self.hidden_among(cpus).iter().map(|set| set.len() - 1).sum();
        Some(shown.saturating_sub(hidden).max(1))
    }

    /// Returns each set of two or more of `cpus` that share a core by measurement, though hidden.
    pub fn hidden_among(&self, cpus: &CpuSet) -> Vec<CpuSet> {
        let common = self.hidden_siblings.iter().map(|set| set.common(cpus));
        common.filter(|set| set.len() > 1).collect()
    }

    /// Returns the known hardware threads of the core to which `cpu` belongs, `cpu` included.
    pub fn siblings_of(&self, cpu: usize) -> CpuSet {
        let known = self.logical(cpu).map(|logical| &logical.siblings);
        let sets = known.into_iter().chain(self.hidden_siblings.iter().filter(|set| set.contains(cpu)));
        sets.flat_map(CpuSet::iter).chain([cpu]).collect()
    }

    /// Returns for each core its CPUs that this process may use, ordered by the first of them.
    pub fn allowed_cores(&self) -> Vec<CpuSet> {
        let mut cores: Vec<CpuSet> = Vec::new();
        for cpu in self.allowed.iter() {
            if !cores.iter().any(|core| core.contains(cpu)) {
                cores.push(self.siblings_of(cpu).common(&self.allowed));
            }
        }
        cores
    }

    /// Returns the allowed CPU on another core whose number is furthest from `cpu`, as neighbours
    /// may share a cache or power; `None` if there is no other core.
    pub fn on_another_core(&self, cpu: usize) -> Option<usize> {
        let own = self.siblings_of(cpu);
        self.allowed.iter().filter(|other| !own.contains(*other)).max_by_key(|other| other.abs_diff(cpu))
    }

    /// Returns the total bytes of the last-level caches of [`Cpu::allowed`]; `None` if unknown.
    pub fn last_level_bytes(&self) -> Option<u64> {
        self.last_level_of(&self.allowed).map(|(bytes, _)| bytes)
    }

    /// Returns the data or unified cache of `level` (1 to 4) that `cpu` uses; `None` if unknown.
    pub fn cache_of(&self, cpu: usize, level: u8) -> Option<&CpuCache> {
        self.caches.iter().find(|cache| cache.level == level && cache.holds_data() && cache.serves(cpu))
    }

    pub(super) fn discover(s: &mut Survey) -> Self {
        let mut info = cpuinfo::read(s);
        let (mut present, mut online) = present_and_online(s, &info.processors);
        let allowed = allowed(s, &online);
        // A container's file system (lxcfs) may renumber CPUs; the affinity comes from the kernel.
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
        let sockets = sockets.ok_or("the kernel does not tell the package of every CPU");
        let sockets = s.keep("cpu.sockets", sockets);
        let cores = s.keep("cpu.cores", cores.ok_or("the kernel does not tell the core of every CPU"));
        let first = allowed.first().or(online.first()).unwrap_or(0);
        let kinds = kinds(s, &info, &online);
        if !kinds.is_empty() && logical.iter().all(|cpu| cpu.capacity.is_none()) {
            for cpu in &mut logical {
                let path = sys_cpu(cpu.id).join("acpi_cppc/highest_perf");
                cpu.capacity = s.root.parse(path, "a performance").ok();
            }
        }
        if let Some(answers) = cpuid.of(first) {
            info.take(answers);
            info.known_facts().for_each(|what| s.forget(what));
        }
        let mut caches = cache::discover(s, &online);
        if caches.is_empty() {
            caches = cache::of_cpuid(&cpuid, &online);
        }
        Self {
            arm: cpuinfo::arm_id(s, &info, first),
            kinds,
            caches,
            clock: CpuClock::discover(s, &allowed, info.cpu.model_name.as_deref()),
            threads: online.len(),
            online,
            allowed,
            sockets,
            cores,
            logical,
            cpuid,
            ..info.cpu
        }
    }
}

impl Logical {
    fn discover(s: &mut Survey, id: usize, online: &CpuSet) -> Self {
        let topology = sys_cpu(id).join("topology");
        // An Arm kernel writes -1 if the firmware gives no number, which does not parse.
        let number = |name: &str| s.root.parse::<u32>(topology.join(name), "a number").ok();
        let list = |name: &str| s.root.parse::<CpuSet>(topology.join(name), "a CPU list").ok();
        let siblings = list("core_cpus_list").or_else(|| list("thread_siblings_list"));
        let siblings = siblings.filter(|set| set.contains(id));
        Self {
            id,
            core: number("core_id"),
            package: number("physical_package_id"),
            siblings: siblings.unwrap_or_default(),
            online: online.contains(id),
            // Only set if capacities differ (Arm, recently hybrid x86).
            capacity: s.root.parse(sys_cpu(id).join("cpu_capacity"), "a capacity").ok(),
        }
    }
}

fn sys_cpu(id: usize) -> PathBuf {
    PathBuf::from(format!("sys/devices/system/cpu/cpu{id}"))
}

/// Counts the physical cores of `cpus`; `None` if `cpus` is empty or the core of a CPU is unknown.
fn distinct_cores<'a>(cpus: impl Iterator<Item = &'a Logical>) -> Option<usize> {
    // By siblings, else by package and core.
    let identity = |cpu: &'a Logical| match cpu.siblings.is_empty() {
        false => Some((Some(&cpu.siblings), None)),
        true => Some((None, Some((cpu.package?, cpu.core?)))),
    };
    let cores: Option<BTreeSet<_>> = cpus.map(identity).collect();
    cores.map(|set| set.len()).filter(|&n| n > 0)
}

/// Reads (present CPUs, online CPUs) from sysfs; `listed`, from cpuinfo, replaces a missing list.
fn present_and_online(s: &mut Survey, listed: &CpuSet) -> (CpuSet, CpuSet) {
    let read = |name: &str| s.root.parse::<CpuSet>(format!("sys/devices/system/cpu/{name}"), "a CPU list");
    let (present, online) = (read("present"), read("online"));
    let none = || garbled("sys/devices/system/cpu/online", "", "a CPU list");
    let online = online.and_then(|set| if set.is_empty() { Err(none()) } else { Ok(set) });
    let online = online.unwrap_or_else(|why| {
        if listed.is_empty() {
            s.note("cpu.online", why);
        }
        listed.clone()
    });
    (present.unwrap_or_default(), online)
}

/// Returns the online CPUs in this process's affinity, or `online` if the affinity is unreadable.
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
    let Some(affinity) = s.keep("cpu.allowed", affinity) else { return online.clone() };
    // A CPU of the affinity is online if listed so or (in a container) if it has a topology.
    let is_shown = |cpu: usize| {
        let off = s.root.text(sys_cpu(cpu).join("online")).is_ok_and(|text| text == "0");
        !off && s.root.exists(sys_cpu(cpu).join("topology/core_id"))
    };
    let runs = |cpu: &usize| online.contains(*cpu) || is_shown(*cpu);
    let running: CpuSet = affinity.iter().filter(runs).collect();
    if running.is_empty() { affinity } else { running }
}

fn kinds(s: &Survey, info: &cpuinfo::CpuInfo, online: &CpuSet) -> Vec<CoreKind> {
    let named = ["cpu_core", "cpu_atom", "cpu_lowpower"].into_iter().filter_map(|name| {
        let cpus: CpuSet = s.root.parse(format!("sys/devices/{name}/cpus"), "a CPU list").ok()?;
        Some(CoreKind { name: name.into(), cpus: cpus.common(online) })
    });
    let mut kinds: Vec<CoreKind> = named.collect();
    for id in online.iter() {
        let Some(midr) = cpuinfo::midr(s.root, id).or_else(|| info.midr_of(id)) else { continue };
        let name = format!("midr {midr:#018x}");
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
    use crate::fixture::Fixture;

    fn discover(tree: &str) -> Cpu {
        let fixture = Fixture::unpack(tree).unwrap();
        Cpu::discover(&mut Survey::new(&fixture.root))
    }

    #[test]
    fn kinds_of_core_are_told_apart() {
        let online = "sys/devices/system/cpu/online = 0-7\n";
        let hybrid = format!("{online}sys/devices/cpu_core/cpus = 0-3\nsys/devices/cpu_atom/cpus = 4-7,9\n");
        let names = |cpu: &Cpu| -> Vec<String> {
            cpu.kinds.iter().map(|kind| format!("{} {}", kind.name, kind.cpus)).collect()
        };
        assert_eq!(names(&discover(&hybrid)), ["cpu_core 0-3", "cpu_atom 4-7"]);
        let midr = "regs/identification/midr_el1";
        let arm = format!(
            "{online}sys/devices/system/cpu/cpu[0-5]/{midr} = 0x00000000412fd050\n\
             sys/devices/system/cpu/cpu[6-7]/{midr} = 0x00000000413fd0c1\n"
        );
        let arm = discover(&arm);
        assert_eq!(names(&arm), ["midr 0x00000000412fd050 0-5", "midr 0x00000000413fd0c1 6-7"]);
        let id = arm.arm.unwrap();
        assert_eq!((id.implementer, id.part), (0x41, 0xd05));
        assert_eq!((id.variant, id.revision, id.midr), (2, 0, Some(0x412f_d050)));
        assert_eq!(names(&discover(online)), [""; 0]);
    }

    #[test]
    fn offline_and_forbidden_cpus_do_not_count() {
        let topology = "sys/devices/system/cpu/cpu[0-3]/topology";
        let cpu = discover(&format!(
            "sys/devices/system/cpu/present = 0-3\nsys/devices/system/cpu/online = 0-2\n\
             proc/self/status = Cpus_allowed_list:\\t1,3\n{topology}/physical_package_id = {{n/2}}\n\
             {topology}/core_id = 0\nsys/devices/system/cpu/cpu3/online = 0\n"
        ));
        assert_eq!((cpu.sockets, cpu.cores, cpu.threads), (Some(2), Some(2), 3));
        assert_eq!(cpu.allowed, CpuSet::single(1));
        assert_eq!(cpu.logical.iter().filter(|cpu| cpu.online).count(), 3);
        assert_eq!(cpu.cores_of(&"0-1".parse().unwrap()), Some(1));
    }

    #[test]
    fn in_a_container_whose_file_system_numbers_cpus_anew_the_affinity_counts() {
        let cpu = discover(
            "sys/devices/system/cpu/online = 0-1\nproc/self/status = Cpus_allowed_list:\\t4,7\n\
             sys/devices/system/cpu/cpu[0-7]/topology/core_id = {n}\n\
             sys/devices/system/cpu/cpu[0-7]/topology/physical_package_id = 0\n",
        );
        // 0 and 1 are other names of 4 and 7.
        assert_eq!((cpu.allowed, cpu.cores, cpu.threads), ("4,7".parse().unwrap(), Some(2), 2));
    }

    #[test]
    fn mixed_arm_cores_are_told_apart_by_cpuinfo_where_the_register_is_not_shown() {
        let core = |id: u32, part: &str| {
            format!(
                "proc/cpuinfo = processor\\t: {id}\nproc/cpuinfo = CPU implementer\\t: 0x41\n\
             proc/cpuinfo = CPU variant\\t: 0x0\nproc/cpuinfo = CPU part\\t: {part}\n\
             proc/cpuinfo = CPU revision\\t: 1\nproc/cpuinfo = \n"
            )
        };
        let tree = core(0, "0xd87") + &core(1, "0xd87") + &core(2, "0xd85");
        let cpu = discover(&format!("sys/devices/system/cpu/online = 0-2\n{tree}"));
        let part = |number: usize| cpu.arm_of(number).map(|arm| arm.part);
        assert_eq!([0, 1, 2].map(part), [Some(0xd87), Some(0xd87), Some(0xd85)]);
        assert_eq!(cpu.kinds.len(), 2);
    }
}
