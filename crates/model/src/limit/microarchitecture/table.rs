use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use plimsoll_machine::Cpu;
use plimsoll_machine::cpu::ArmId;
use plimsoll_metal::kernel::CoreRate;
use serde::Deserialize;

use super::memory::SocketMemory;

const FILE: &str = include_str!("../../../../../data/microarchitectures.toml");

static TABLE: LazyLock<Result<Table, String>> = LazyLock::new(|| read(FILE));

pub(super) fn table() -> Result<&'static Table, String> {
    TABLE.as_ref().map_err(Clone::clone)
}

/// Parses `data/microarchitectures.toml`; replaces names of feature sets by their features.
fn read(file: &str) -> Result<Table, String> {
    let mut table: Table =
        toml::from_str(file).map_err(|e| format!("data/microarchitectures.toml: {}", e.message()))?;
    for row in &mut table.microarchitecture {
        let mut never = BTreeSet::new();
        for name in &row.never {
            expand(name, &table.features, &mut never, 0)?;
        }
        row.never = never.into_iter().collect();
    }
    Ok(table)
}

const MOST_DEPTH: usize = 16;

/// Adds feature `name`, or the members of `@set`, to `found`; fails if unknown or at `depth` 16.
fn expand(
    name: &str,
    sets: &BTreeMap<String, Vec<String>>,
    found: &mut BTreeSet<String>,
    depth: usize,
) -> Result<(), String> {
    let Some(set) = name.strip_prefix('@') else {
        found.insert(name.to_owned());
        return Ok(());
    };
    let members = sets.get(set).filter(|_| depth < MOST_DEPTH);
    let members = members.ok_or_else(|| format!("data/microarchitectures.toml: no features @{set}"))?;
    members.iter().try_for_each(|member| expand(member, sets, found, depth + 1))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    features: BTreeMap<String, Vec<String>>,
    pub(super) microarchitecture: Vec<Microarchitecture>,
    pub(super) memory: Vec<SocketMemory>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Microarchitecture {
    pub name: String,
    pub(super) chip: Chip,
    pub(super) core_kind: Option<String>,
    #[serde(default)]
    pub(super) never: Vec<String>,
    /// Chips that hypervisors show with this chip's numbers, features and caches.
    #[serde(default)]
    pub(super) mask_of: Vec<String>,
    pub(super) caches: Option<Caches>,
    /// EAX of CPUID 0x1A.
    pub(super) native_model: Option<u32>,
    /// Width of the data paths, if chips with the same numbers differ.
    pub(super) full_width: Option<FullWidth>,
    #[serde(default)]
    pub(super) units_512_by_name: Vec<ByName>,
    pub source: String,
    /// Other facts by key: rates, latencies, cache bandwidths.
    #[serde(flatten)]
    pub(super) facts: BTreeMap<String, WorkFact>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Chip {
    X86 { vendor: String, family: u32, models: Vec<Range>, steppings: Option<Range> },
    Arm { implementer: u32, part: u32 },
}

pub(super) type Range = [u32; 2];

pub(super) fn contains([first, last]: Range, number: u32) -> bool {
    (first..=last).contains(&number)
}

/// Vector widths in bits; 8192 is an AMX tile.
pub(super) const WIDTHS: [u32; 4] = [128, 256, 512, 8192];

/// A number, or one for each of [`WIDTHS`].
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum WorkFact {
    Number(f64),
    Widths(BTreeMap<String, f64>),
}

impl WorkFact {
    pub(super) fn at(&self, bits: u32) -> Option<f64> {
        match self {
            Self::Number(number) => WIDTHS.contains(&bits).then_some(*number),
            Self::Widths(by) => by.get(&bits.to_string()).copied(),
        }
    }
}

/// Possible sizes in KiB and ways of a core's caches; an empty list allows any.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Caches {
    #[serde(default)]
    pub(super) l1d: Vec<[u32; 2]>,
    #[serde(default)]
    pub(super) l1i: Vec<[u32; 2]>,
    #[serde(default)]
    pub(super) l2: Vec<[u32; 2]>,
    /// Largest level 3, in KiB.
    pub(super) l3_most: u64,
    /// Largest level 3 in KiB without a stacked cache, if smaller.
    pub(super) l3_usual: Option<u64>,
    /// Maximum number of cores that share a level 3, unless it belongs to the whole socket.
    pub(super) l3_cores: Option<u64>,
}

/// Chips of a row's numbers that have 512-bit data paths.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullWidth {
    /// Value of CPUID 8000_001A on chips of this row.
    pub(super) is: bool,
    /// Models that belong to this row if CPUID does not show the width.
    pub(super) models: Vec<Range>,
}

/// Number of 512-bit units of chips with `part` in their name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ByName {
    part: String,
    pub(super) per_cycle: f64,
}

impl Chip {
    /// Returns whether family, model … of `cpu`, or part … of `arm`, are those of this chip.
    pub(super) fn is(&self, cpu: &Cpu, arm: Option<&ArmId>) -> bool {
        match self {
            Self::X86 { vendor, family, models, steppings } => {
                cpu.vendor.as_deref() == Some(vendor)
                    && cpu.family == Some(*family)
                    && cpu.model.is_some_and(|model| models.iter().any(|range| contains(*range, model)))
                    && steppings.is_none_or(|range| cpu.stepping.is_some_and(|step| contains(range, step)))
            }
            Self::Arm { implementer, part } => {
                arm.is_some_and(|arm| arm.implementer == *implementer && arm.part == *part)
            }
        }
    }

    pub(super) fn vendor(&self) -> Option<&str> {
        if let Self::X86 { vendor, .. } = self { Some(vendor) } else { None }
    }
}

impl Microarchitecture {
    /// Returns how many `bits`-wide instructions `of` start per cycle; fails if that is unknown.
    pub(super) fn per_cycle(&self, of: CoreRate, bits: u32, cpu: &Cpu) -> Result<f64, String> {
        let named = of.per_512_unit.filter(|_| bits == 512 && !self.units_512_by_name.is_empty());
        match (self.rate(of, bits), named) {
            (Some(rate), _) => Ok(rate),
            (None, Some(each)) => {
                let name = cpu.model_name.as_deref();
                let unit =
                    self.units_512_by_name.iter().find(|row| name.is_some_and(|n| n.contains(&row.part)));
                unit.map(|row| row.per_cycle * each).ok_or_else(|| {
                    format!(
                        "{} chips have one or two 512-bit units, and the name {:?} does not tell which",
                        self.name,
                        name.unwrap_or("(none)")
                    )
                })
            }
            (None, None) => Err(format!("the rate of {bits}-bit {} of {} is not known", of.name, self.name)),
        }
    }

    /// Returns number `key` of this chip; `None` if missing or different for each vector width.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        if let WorkFact::Number(number) = self.facts.get(key)? { Some(*number) } else { None }
    }

    /// Returns the minimum cycles from an instruction `of` to a dependent one; `None` if unknown.
    pub(super) fn latency(&self, of: CoreRate) -> Option<f64> {
        of.latency.cycles(|key| self.number(key))
    }

    /// Returns how many `bits`-wide instructions `of` start per cycle; `None` if not listed.
    pub(super) fn rate(&self, of: CoreRate, bits: u32) -> Option<f64> {
        let listed = self.facts.get(of.key)?.at(bits)?;
        Some(if of.in_cycles { listed.recip() } else { listed })
    }
}
