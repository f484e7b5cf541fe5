//! Raw CPUID (Intel 325462, volume 2A, CPUID; AMD 24594, appendix E): identifying leaves without
//! per-CPU values (APIC IDs), so that identical CPUs have one table. Leaf 3 (serial) is never read.

#[cfg(any(test, feature = "testing"))]
mod fixture;
mod meaning;
mod text;

#[cfg(any(test, feature = "testing"))]
pub use fixture::with_features;
pub use meaning::{Signature, is_identifying_feature};
pub use text::{BadText, parse, write};

use super::{CpuSet, Survey};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Path of the CPUID file of a saved machine below its root.
pub const CPUID_FILE: &str = "cpuid.txt";
/// Largest size of that file in bytes: 512 CPUs of cpuid(1) output.
const FILE_CAP: u64 = 32 << 20;
const OVERRIDE: &str = "PLIMSOLL_TEST_CPUID";

/// One leaf and subleaf; as text a line of `cpuid -r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Leaf {
    /// EAX on input.
    pub leaf: u32,
    /// ECX on input.
    pub subleaf: u32,
    /// EAX, EBX, ECX and EDX on output.
    pub registers: [u32; 4],
}

/// CPUID of a group of CPUs with identical results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuidLeaves {
    /// The queried CPUs of the group.
    pub cpus: CpuSet,
    /// Results in the order of leaves.
    pub leaves: Vec<Leaf>,
}

/// CPUID of a machine: one entry per group of identical CPUs. Not every CPU need be queried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cpuid(pub Vec<CpuidLeaves>);

impl CpuidLeaves {
    /// Returns EAX, EBX, ECX and EDX of `leaf` and `subleaf`; `None` if they were not queried.
    pub fn get(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        self.leaves.iter().find(|l| (l.leaf, l.subleaf) == (leaf, subleaf)).map(|l| l.registers)
    }
}

impl Cpuid {
    /// Returns the CPUID leaves of `cpu` (if not hybrid, those of any CPU); `None` if not queried.
    pub fn of(&self, cpu: usize) -> Option<&CpuidLeaves> {
        match self.0.as_slice() {
            [only] if !only.is_hybrid() => Some(only),
            several => several.iter().find(|answers| answers.cpus.contains(cpu)),
        }
    }

    /// Returns the hypervisor's CPUID name, such as `KVMKVMKVM`; `None` without one.
    pub fn hypervisor(&self) -> Option<String> {
        self.0.first()?.hypervisor()
    }

    /// Returns whether no CPU was queried.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the queried CPUs.
    pub fn cpus(&self) -> CpuSet {
        self.0.iter().flat_map(|answers| answers.cpus.iter()).collect()
    }

    /// Executes CPUID on the first of the `allowed` CPUs, or on all if their cores differ in kind,
    /// or reads a saved machine's `cpuid.txt`; empty without that file.
    pub(super) fn discover(s: &mut Survey, allowed: &CpuSet) -> Self {
        let replaced = std::env::var_os(OVERRIDE).filter(|_| s.root.is_live());
        let text = match replaced {
            None if s.root.is_live() => return Self::ask(allowed),
            Some(path) => s.root.bytes(Path::new(&path), FILE_CAP),
            None if !s.root.exists(CPUID_FILE) => return Self::default(),
            None => s.root.bytes(Path::new(CPUID_FILE), FILE_CAP),
        };
        let parsed = text.map_err(|e| e.to_string()).and_then(|bytes| {
            parse(&String::from_utf8_lossy(&bytes)).map_err(|e| format!("{CPUID_FILE}: {e}"))
        });
        s.keep("cpu.cpuid", parsed).unwrap_or_default()
    }

    fn ask(allowed: &CpuSet) -> Self {
        let Some(first) = allowed.first() else { return Self::default() };
        let mut found = Self::default();
        found.add(first, query_cpu(first));
        if found.of(first).is_some_and(CpuidLeaves::is_hybrid) {
            for cpu in allowed.iter().skip(1) {
                found.add(cpu, query_cpu(cpu));
            }
        }
        found
    }

    fn add(&mut self, cpu: usize, leaves: Vec<Leaf>) {
        if leaves.is_empty() {
            return;
        }
        let is_full = self.0.len() >= MOST_KINDS;
        match self.0.iter_mut().find(|answers| answers.leaves == leaves) {
            Some(alike) => alike.cpus.insert(cpu),
            None if !is_full => self.0.push(CpuidLeaves { cpus: CpuSet::single(cpu), leaves }),
            None => {}
        }
    }
}

/// Most groups kept: a hypervisor that numbers caches by CPU gives each CPU its own.
const MOST_KINDS: usize = 1024;

/// Returns the numbers of the CPUID leaves that identify a processor model, in ascending order.
fn identifying_leaves() -> impl Iterator<Item = u32> {
    let ranges = [0..=0x24, 0x4000_0000..=0x4000_0001, 0x8000_0000..=0x8000_0021];
    ranges.into_iter().flatten().filter(|leaf| subleaves(*leaf) > 0)
}

/// Returns how many subleaves of `leaf` are queried: 16 of leaf 4, 0 if `leaf` identifies no model.
fn subleaves(leaf: u32) -> u32 {
    match leaf {
        0x4 | 0x8000_001d => 16,
        0x7 => 3,
        0x1d | 0x1e | 0x24 => 2,
        0x0..=0x2 | 0x5 | 0x6 | 0x15 | 0x16 | 0x1a | 0x4000_0000 | 0x4000_0001 => 1,
        0x8000_0000..=0x8000_0004 | 0x8000_0006..=0x8000_0008 | 0x8000_001a | 0x8000_0021 => 1,
        _ => 0,
    }
}

/// Returns `leaf` without the bits of APIC ID and OSXSAVE; `None` if it does not identify a model.
fn identifying_part(leaf: Leaf) -> Option<Leaf> {
    let mut registers = leaf.registers;
    if let (0x1, [_, ebx, ecx, _]) = (leaf.leaf, &mut registers) {
        // EBX[31:24] is the CPU's APIC ID; ECX[27], OSXSAVE, is a setting of the kernel.
        *ebx &= 0x00ff_ffff;
        *ecx &= !(1 << 27);
    }
    let is_end = matches!(leaf.leaf, 0x4 | 0x8000_001d) && registers[0] & 0x1f == 0;
    (!is_end && leaf.subleaf < subleaves(leaf.leaf)).then_some(Leaf { registers, ..leaf })
}

/// Executes CPUID on CPU `number`, in a thread pinned to it; empty if that fails.
fn query_cpu(number: usize) -> Vec<Leaf> {
    let ask = move || plimsoll_metal::affinity::pin_to(&[number]).map(|()| query_this_cpu());
    let thread = std::thread::Builder::new().spawn(ask).ok();
    thread.and_then(|thread| thread.join().ok()?.ok()).unwrap_or_default()
}

fn query_this_cpu() -> Vec<Leaf> {
    let ask = |leaf: u32, subleaf: u32| {
        let registers = plimsoll_metal::cpuid::read_leaf(leaf, subleaf)?;
        Some(Leaf { leaf, subleaf, registers })
    };
    let asked =
        identifying_leaves().flat_map(|leaf| (0..subleaves(leaf)).filter_map(move |sub| ask(leaf, sub)));
    let found = bounded(asked.filter_map(identifying_part).collect());
    found.into_iter().filter(|leaf| leaf.subleaf == 0 || leaf.registers != [0; 4]).collect()
}

/// Removes the leaves above the highest of their range (EAX of its first leaf), for which Intel
/// returns the highest basic leaf. Removes a range whose maximum is outside the range.
fn bounded(leaves: Vec<Leaf>) -> Vec<Leaf> {
    const RANGE: u32 = 0xc000_0000;
    let highest = |range: u32| leaves.iter().find(|leaf| leaf.leaf == range).map(|leaf| leaf.registers[0]);
    let bounds = [0, 0x4000_0000, 0x8000_0000].map(|range| (range, highest(range)));
    let is_there = |leaf: &&Leaf| match bounds.iter().find(|(range, _)| leaf.leaf & RANGE == *range) {
        // An old KVM gives its name and 0 as its highest leaf.
        Some((range, Some(0))) if leaf.leaf == *range => true,
        Some((range, Some(last))) => last & RANGE == *range && leaf.leaf <= *last,
        _ => true,
    };
    leaves.iter().filter(is_there).copied().collect()
}

#[cfg(test)]
mod tests;
