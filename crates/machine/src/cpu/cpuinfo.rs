use crate::cpuid::CpuidLeaves;
use crate::root::CPUINFO_CAP;
use crate::{Cpu, CpuSet, Root, Survey};
use plimsoll_units::text::{shown, shown_within};
use serde::{Deserialize, Serialize};
use std::path::Path;

const CPUINFO: &str = "proc/cpuinfo";
const MAX_FLAGS: usize = 1024;

/// Identification of an Arm core (Arm Architecture Reference Manual, MIDR_EL1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmId {
    /// Implementer code: 0x41 is Arm, 0xc0 Ampere, 0x61 Apple …
    pub implementer: u32,
    /// Part number; for Arm 0xd0c is Neoverse N1, 0xd40 V1, 0xd49 N2, 0xd4f V2.
    pub part: u32,
    /// Major revision.
    pub variant: u32,
    /// Minor revision.
    pub revision: u32,
    /// Raw register, if sysfs shows it.
    pub midr: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct CpuInfo {
    pub(super) processors: CpuSet,
    /// Only with facts that are the same for all CPUs.
    pub(super) cpu: Cpu,
    midrs: Vec<(usize, u64)>,
}

impl ArmId {
    pub(super) fn named(kind: &str) -> Option<Self> {
        u64::from_str_radix(kind.strip_prefix("midr 0x")?, 16).ok().map(Self::of)
    }

    fn of(midr: u64) -> Self {
        let field = |shift: u32, bits: u32| (midr >> shift) as u32 & ((1 << bits) - 1);
        Self {
            implementer: field(24, 8),
            variant: field(20, 4),
            part: field(4, 12),
            revision: field(0, 4),
            midr: Some(midr),
        }
    }
}

impl CpuInfo {
    pub(super) fn midr_of(&self, cpu: usize) -> Option<u64> {
        self.midrs.iter().find(|(id, _)| *id == cpu).map(|(_, midr)| *midr)
    }

    /// Replaces the kernel's values by those of CPUID, but flags only if the kernel lists none.
    pub(super) fn take(&mut self, answers: &CpuidLeaves) {
        let cpu = &mut self.cpu;
        if let Some(signature) = answers.signature() {
            (cpu.vendor, cpu.family) = (Some(signature.vendor), Some(signature.family));
            (cpu.model, cpu.stepping) = (Some(signature.model), Some(signature.stepping));
        }
        cpu.model_name = answers.name().or(cpu.model_name.take());
        if cpu.flags.is_empty() {
            cpu.flags = answers.features().map(str::to_owned).collect();
        }
    }

    /// Returns (name `cpu.vendor`, key in cpuinfo `vendor_id`, whether known) of facts about x86.
    fn facts(&self) -> [(&'static str, &'static str, bool); 4] {
        let cpu = &self.cpu;
        [
            ("cpu.model_name", "model name", cpu.model_name.is_some()),
            ("cpu.vendor", "vendor_id", cpu.vendor.is_some()),
            ("cpu.family", "cpu family", cpu.family.is_some()),
            ("cpu.model", "model", cpu.model.is_some()),
        ]
    }

    /// Returns the names of the known facts about an x86 processor, such as `cpu.vendor`.
    pub(super) fn known_facts(&self) -> impl Iterator<Item = &'static str> {
        let known = self.facts().into_iter().filter(|(.., is_known)| *is_known).map(|(what, ..)| what);
        known.chain((!self.cpu.flags.is_empty()).then_some("cpu.flags"))
    }
}

pub(super) fn read(s: &mut Survey) -> CpuInfo {
    let text = match s.root.head(Path::new(CPUINFO), CPUINFO_CAP) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(why) => {
            for what in ["cpu.model_name", "cpu.vendor", "cpu.flags"] {
                s.note(what, &why);
            }
            return CpuInfo::default();
        }
    };
    let info = parse(&text);
    if info.cpu.arm.is_none() {
        for (what, key, _) in info.facts().into_iter().filter(|(.., is_known)| !is_known) {
            s.note(what, format_args!("/{CPUINFO} has no usable \"{key}\""));
        }
    }
    if info.cpu.flags.is_empty() {
        s.note("cpu.flags", format_args!("/{CPUINFO} has no \"flags\" or \"Features\""));
    }
    info
}

fn parse(text: &str) -> CpuInfo {
    let pairs = || {
        text.lines().filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            Some((key.trim(), value.trim()))
        })
    };
    // The first value is the first processor's; some kernels list machine-wide keys last.
    let first = |wanted: &str| pairs().find(|(key, _)| *key == wanted).map(|pair| pair.1);
    let number = |key: &str| first(key).and_then(parse_number);
    let line = |key: &str| first(key).filter(|v| !v.is_empty()).map(shown);
    let flags = first("flags").or_else(|| first("Features")).unwrap_or_default();
    let ids = pairs().filter(|(key, _)| *key == "processor");
    let cpu = Cpu {
        model_name: line("model name"),
        vendor: line("vendor_id"),
        family: number("cpu family"),
        model: number("model"),
        stepping: number("stepping"),
        microcode: line("microcode"),
        flags: flags.split_whitespace().take(MAX_FLAGS).map(|flag| shown_within(flag, 32)).collect(),
        arm: stated_midr(first).map(listed_arm),
        ..Cpu::default()
    };
    let processors = ids.filter_map(|(_, value)| value.parse::<usize>().ok()).collect();
    CpuInfo { processors, cpu, midrs: midrs(text) }
}

fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the identification of Arm CPU number `cpu`, from its register or cpuinfo, else `None`.
pub(super) fn arm_id(s: &Survey, info: &CpuInfo, cpu: usize) -> Option<ArmId> {
    let listed = || info.midr_of(cpu).map(listed_arm);
    midr(s.root, cpu).map(ArmId::of).or_else(listed).or_else(|| info.cpu.arm.clone())
}

fn listed_arm(midr: u64) -> ArmId {
    ArmId { midr: None, ..ArmId::of(midr) }
}

/// Returns (CPU number, MIDR) of each Arm CPU in `text`, the contents of `/proc/cpuinfo`.
fn midrs(text: &str) -> Vec<(usize, u64)> {
    // One paragraph per processor; old kernels list the four lines once at the end for all.
    let found = text.split("\n\n").filter_map(|paragraph| {
        let value = |wanted: &str| {
            let mut pairs = paragraph.lines().filter_map(|line| line.split_once(':'));
            pairs.find(|(key, _)| key.trim() == wanted).map(|(_, value)| value.trim())
        };
        Some((value("processor")?.parse().ok()?, stated_midr(value)?))
    });
    found.collect()
}

/// Composes the MIDR of the values of cpuinfo's lines; `None` without implementer and part.
fn stated_midr<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Option<u64> {
    let field = |key: &str, bits: u32| Some(u64::from(parse_number(value(key)?)?) & ((1 << bits) - 1));
    let (implementer, part) = (field("CPU implementer", 8)?, field("CPU part", 12)?);
    let (variant, revision) = (field("CPU variant", 4).unwrap_or(0), field("CPU revision", 4).unwrap_or(0));
    Some(implementer << 24 | variant << 20 | 0xf << 16 | part << 4 | revision)
}

pub(super) fn midr(root: &Root, cpu: usize) -> Option<u64> {
    let path = super::sys_cpu(cpu).join("regs/identification/midr_el1");
    let text = root.text(path).ok()?;
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns `x86_64` or `aarch64`, by the keys in `/proc/cpuinfo`; `None` for other architectures.
pub(crate) fn architecture(root: &Root) -> Option<String> {
    let head = root.head(Path::new(CPUINFO), 1 << 16).ok()?;
    let text = String::from_utf8_lossy(&head);
    let has = |key: &str| text.lines().any(|line| line.split(':').next().is_some_and(|k| k.trim() == key));
    let wide = text.lines().any(|l| l.starts_with("flags") && l.split_whitespace().any(|flag| flag == "lm"));
    match (has("vendor_id"), has("CPU implementer")) {
        (true, _) if wide => Some("x86_64".into()),
        // A 32-bit Arm kernel writes identical keys; "CPU architecture: 8" is common to both.
        (_, true) if has("Features") && text.contains("asimd") => Some("aarch64".into()),
        _ => None,
    }
}
