//! CPUID as text in the format of `cpuid -r`: `CPU 0:`, then a line per leaf and subleaf.

use super::{Cpuid, Leaf, bounded, identifying_part};
use crate::cpuset::MAX_CPUS;
use plimsoll_units::text::shown_within;

const MOST_LEAVES: usize = 128;

/// Reason why a text is no CPUID dump.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    /// The line of this number from 1, sanitised and cut, is neither a CPU heading nor a leaf.
    #[error(
        "line {0} is \"{1}\"; a line is \"CPU N:\" or \"0xLEAF 0xSUBLEAF: eax=0x… ebx=0x… ecx=0x… edx=0x…\""
    )]
    Line(usize, String),
    /// The text has no leaf.
    #[error("it holds no leaf")]
    Empty,
}

/// Parses the output of `cpuid -r`, also with `-1`, and keeps the leaves that identify chips. Fails
/// at a line that is neither a heading nor a leaf, and if no leaf is left.
pub fn parse(text: &str) -> Result<Cpuid, BadText> {
    let mut found = Cpuid::default();
    let mut cpu = 0;
    let mut leaves = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let bad = || BadText::Line(number + 1, shown_within(line.trim(), 60));
        let words = line.trim();
        if words.is_empty() {
            continue;
        }
        if let Some(heading) = words.strip_prefix("CPU").and_then(|rest| rest.strip_suffix(':')) {
            found.add(cpu, bounded(std::mem::take(&mut leaves)));
            cpu = if heading.is_empty() { Some(0) } else { heading.trim().parse().ok() }
                .filter(|cpu| *cpu < MAX_CPUS)
                .ok_or_else(bad)?;
            continue;
        }
        let leaf = leaf_of(words).ok_or_else(bad)?;
        let is_new =
            |leaf: &Leaf| !leaves.iter().any(|l: &Leaf| (l.leaf, l.subleaf) == (leaf.leaf, leaf.subleaf));
        if let Some(leaf) = identifying_part(leaf).filter(|leaf| leaves.len() < MOST_LEAVES && is_new(leaf)) {
            leaves.push(leaf);
        }
    }
    found.add(cpu, bounded(leaves));
    if found.0.is_empty() { Err(BadText::Empty) } else { Ok(found) }
}

/// Formats `cpuid` as `cpuid -r` does: for each CPU a heading `CPU 0:` and a line per leaf.
pub fn write(cpuid: &Cpuid) -> String {
    let mut text = String::new();
    for cpu in cpuid.cpus().iter() {
        text.push_str(&format!("CPU {cpu}:\n"));
        for leaf in cpuid.of(cpu).map(|answers| answers.leaves.as_slice()).unwrap_or_default() {
            text.push_str(&format!("   {}\n", String::from(*leaf)));
        }
    }
    text
}

impl From<Leaf> for String {
    fn from(leaf: Leaf) -> Self {
        let [eax, ebx, ecx, edx] = leaf.registers;
        format!(
            "{:#010x} {:#04x}: eax={eax:#010x} ebx={ebx:#010x} ecx={ecx:#010x} edx={edx:#010x}",
            leaf.leaf, leaf.subleaf
        )
    }
}

impl TryFrom<String> for Leaf {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        leaf_of(&text).ok_or_else(|| format!("\"{}\" is no leaf of CPUID", shown_within(&text, 60)))
    }
}

fn leaf_of(line: &str) -> Option<Leaf> {
    let hex = |word: Option<&str>, before: &str, after: &str| {
        let digits = word?.strip_prefix(before)?.strip_suffix(after)?.strip_prefix("0x")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut words = line.split_whitespace();
    let leaf = hex(words.next(), "", "")?;
    let subleaf = hex(words.next(), "", ":")?;
    let mut registers = [0; 4];
    for (register, name) in registers.iter_mut().zip(["eax=", "ebx=", "ecx=", "edx="]) {
        *register = hex(words.next(), name, "")?;
    }
    words.next().is_none().then_some(Leaf { leaf, subleaf, registers })
}
