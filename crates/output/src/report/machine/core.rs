//! Sections about kinds of cores: identity, certainty, instructions per cycle.

use std::collections::BTreeSet;

use plimsoll_machine::{Cpu, CpuSet, Machine};
use plimsoll_metal::kernel::{CoreRate, rate};
use plimsoll_model::limit::microarchitecture::{Core, Identity};
use plimsoll_units::quantity::format::significant;

use super::FactSection;
use crate::report::{grouped, listed};

const WIDTHS: [u32; 3] = [128, 256, 512];

/// Returns a section of facts per kind of core among the allowed CPUs.
pub fn cores(machine: &Machine) -> Vec<FactSection> {
    let cpu = &machine.cpu;
    let name = |number: usize| Core::of(machine, number).map(|core| core.name);
    let kinds = grouped(cpu.allowed.iter().map(|number| (name(number), number)));
    let several = kinds.len() > 1;
    let section_of = |cpus: Vec<usize>| {
        let found = Core::of(machine, *cpus.first()?);
        let cpus: CpuSet = cpus.into_iter().collect();
        Some(section(&found, several.then_some(&cpus), cpu))
    };
    kinds.into_iter().filter_map(|(_, cpus)| section_of(cpus)).collect()
}

/// Returns whether the processor has instructions of kind `of` for vectors of `bits` bits; true if
/// its features are unknown. It may lack some of its microarchitecture's instructions.
fn has(cpu: &Cpu, of: CoreRate, bits: u32) -> bool {
    if cpu.flags.is_empty() {
        return true;
    }
    // Only SVE has vectors longer than 128 bits.
    if cpu.arm.is_some() {
        return bits == 128 || cpu.has("sve");
    }
    let wide = match bits {
        512 => Some("avx512f"),
        256 if of == rate::INTEGER_ADD => Some("avx2"),
        256 => Some("avx"),
        _ => None,
    };
    let needed = wide.into_iter().chain((of == rate::FMA && bits < 512).then_some("fma"));
    needed.into_iter().all(|feature| cpu.has(feature))
}

fn section(found: &Result<Core, String>, cpus: Option<&CpuSet>, cpu: &Cpu) -> FactSection {
    let mut section = FactSection::new("core");
    section.known("CPUs", cpus.map(ToString::to_string));
    section.known("microarchitecture", found.as_ref().err().map(|why| format!("unknown: {why}")));
    let Ok(core) = found else { return section };
    let certainty = if core.identity == Identity::Documented { "documented" } else { "inferred" };
    section.row("microarchitecture", format!("{} ({certainty})", core.name));
    section.known("because", core.note.as_ref());
    section.rows.extend(rates(core, cpu));
    section.row("source", &core.source);
    section
}

/// Returns rows (kind of instruction, instructions per cycle by vector width), with reasons for
/// unknown rates.
fn rates(core: &Core, cpu: &Cpu) -> Vec<(String, String)> {
    if !core.is_rated() {
        let none = "not listed for this chip, so there is no compute limit; give --limits";
        return vec![("rates".to_owned(), none.to_owned())];
    }
    let kinds = [
        ("FMA", rate::FMA),
        ("additions", rate::ADD),
        ("multiplications", rate::MULTIPLY),
        ("integer additions", rate::INTEGER_ADD),
    ];
    let (mut rows, mut reasons) = (Vec::new(), BTreeSet::new());
    for (label, of) in kinds {
        let mut parts = Vec::new();
        for bits in WIDTHS.into_iter().filter(|bits| has(cpu, of, *bits)) {
            match core.per_cycle(of, bits, cpu) {
                Ok(rate) => parts.push(format!("{} of {bits} bits", significant(rate, 2))),
                // The chip decides the length of SVE vectors: a missing width does not exist.
                Err(_) if bits > 128 && cpu.arm.is_some() => {}
                Err(why) => {
                    reasons.insert(why);
                    parts.push(format!("unknown of {bits} bits"));
                }
            }
        }
        rows.extend(listed(parts, ", ").map(|parts| (format!("{label} per cycle"), parts)));
    }
    rows.extend(listed(reasons, "; ").map(|reasons| ("unknown".to_owned(), reasons)));
    rows
}
