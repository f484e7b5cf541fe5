//! Rows about processors and caches.

use plimsoll_machine::Cpu;
use plimsoll_machine::cpu::{CacheKind, CpuCache};
use plimsoll_units::text::format_count;

use super::{FactSection, UNKNOWN_VALUE, cpus_of, hertz, listed, or_unknown, size};

/// Vector extensions that decide which kernels can run, the best first, as named by the kernel.
const VECTOR_FLAGS: &str =
    "amx_tile avx512_fp16 avx512_bf16 avx512_vnni avx512f avx_vnni avx2 fma avx sse4_2 sse2 sve2 sve asimd";

pub(super) fn processors(cpu: &Cpu) -> FactSection {
    let mut section = FactSection::new("CPU");
    section.row("model", model(cpu));
    section.row("topology", topology(cpu));
    cpu.kinds.iter().for_each(|kind| section.row("kind", format!("{}: CPUs {}", kind.name, kind.cpus)));
    section.row("allowed", cpus_of(&cpu.allowed, &cpu.online));
    let clock = &cpu.clock;
    let source = clock.base_source.as_ref().map(|source| format!(" (by {source})")).unwrap_or_default();
    let base = format!("nominal {}{source}", hertz(clock.base_hz));
    section.row("clock", format!("{base}, highest {}", hertz(clock.max_hz)));
    let governors = or_unknown(listed(&clock.governors, ", "));
    section.known("governor", clock.driver.as_ref().map(|driver| format!("{governors} ({driver})")));
    let vector = VECTOR_FLAGS.split(' ').filter(|flag| cpu.has(flag));
    section.row("vectors", or_unknown(listed(vector, " ")));
    section
}

fn model(cpu: &Cpu) -> String {
    let name = cpu.model_name.clone();
    let number = |what: &str, n: Option<u32>| n.map(|n| format!("{what} {n}"));
    let x86 = [number("family", cpu.family), number("model", cpu.model), number("stepping", cpu.stepping)];
    let arm = cpu.arm.as_ref().map(|arm| {
        let (variant, revision) = (arm.variant, arm.revision);
        format!("Arm implementer {:#x} part {:#x} r{variant}p{revision}", arm.implementer, arm.part)
    });
    let microcode = cpu.microcode.as_ref().map(|revision| format!("microcode {revision}"));
    let parts = [name, cpu.vendor.clone()].into_iter().chain(x86).chain([arm, microcode]);
    or_unknown(listed(parts.flatten(), ", "))
}

fn topology(cpu: &Cpu) -> String {
    let known =
        |n: Option<usize>, one: &str| n.map_or(format!("{UNKNOWN_VALUE} {one}s"), |n| format_count(n, one));
    let (sockets, cores) = (known(cpu.sockets, "socket"), known(cpu.cores, "core"));
    format!("{sockets}, {cores}, {}", format_count(cpu.threads, "thread"))
}

pub(super) fn caches(cpu: &Cpu) -> FactSection {
    let mut section = FactSection::new("caches");
    for cache in &cpu.caches {
        let kind = match cache.kind {
            CacheKind::Data => " data",
            CacheKind::Instruction => " instruction",
            CacheKind::Unified => "",
            CacheKind::Unknown => " (kind unknown)",
        };
        section.row(format!("L{}{kind}", cache.level), one(cache));
    }
    let last = cpu.last_level_bytes();
    let last = last.map(|bytes| format!("{} in all, for the allowed CPUs", size(Some(bytes))));
    section.row("last level", or_unknown(last));
    section
}

fn one(cache: &CpuCache) -> String {
    let mut text = size(cache.size_bytes);
    if !cache.instances.is_empty() {
        text += &format!(" × {}", cache.instances.len());
    }
    let mut sharers: Vec<usize> = cache.instances.iter().map(|cpus| cpus.len()).collect();
    sharers.sort_unstable();
    if let (Some(&least), Some(&most)) = (sharers.first(), sharers.last()) {
        let one = if least == most { String::new() } else { format!("{least} to ") };
        text += &format!(", each for {one}{}", format_count(most, "CPU"));
    }
    if !cache.sharing_unknown.is_empty() {
        text += &format!(", sharing unknown of CPUs {}", cache.sharing_unknown);
    }
    let ways = cache.ways.map(|ways| format!("{ways} ways of ")).unwrap_or_default();
    text + &cache.line_bytes.map(|line| format!(", {ways}{line} B lines")).unwrap_or_default()
}
