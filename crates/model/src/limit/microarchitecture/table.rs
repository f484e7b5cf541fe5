//! The rows of `data/microarchitectures.toml`, and what each says of a kind of work.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use plimsoll_metal::kernel::Rate;
use serde::Deserialize;

use super::Unknown;
use super::memory::SocketMemory;
use crate::limit::work::{Fact, Widths};
use crate::machine::Cpu;
use crate::machine::cpu::ArmId;

const FILE: &str = include_str!("../../../../../data/microarchitectures.toml");

/// The rows, read once. Immutable.
static TABLE: LazyLock<Result<Table, String>> = LazyLock::new(|| read(FILE));

/// The table, or what is wrong with it.
///
/// # Errors
/// The file is not of its form.
pub(super) fn table() -> Result<&'static Table, Unknown> {
    TABLE.as_ref().map_err(|e| Unknown(e.clone()))
}

/// Reads the file and replaces the names of sets of features by the features.
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

/// Sets may name sets so deep.
const MOST_DEPTH: usize = 16;

/// Adds a feature, or all of a set and of the sets that it names.
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

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    features: BTreeMap<String, Vec<String>>,
    pub(super) microarchitecture: Vec<Microarchitecture>,
    pub(super) memory: Vec<SocketMemory>,
}

/// One row: what a core can do in one cycle. A test knows which keys there are.
#[derive(Debug, Deserialize)]
pub(super) struct Microarchitecture {
    /// Name, as engineers call it.
    pub name: String,
    pub(super) chip: Chip,
    /// The kernel's name for this kind of core, on chips that mix several.
    pub(super) core_kind: Option<String>,
    /// Features that the chip cannot have.
    #[serde(default)]
    pub(super) never: Vec<String>,
    /// Chips that hypervisors show with the numbers, features and caches of this one.
    #[serde(default)]
    pub(super) mask_of: Vec<String>,
    /// What its caches are.
    pub(super) caches: Option<Caches>,
    /// CPUID 0x1A, EAX.
    pub(super) native_model: Option<u32>,
    /// Whether the data paths have 512 bits, where chips of one number differ.
    pub(super) full_width: Option<FullWidth>,
    #[serde(default)]
    pub(super) units_512_by_name: Vec<ByName>,
    /// Where the row is from.
    pub source: String,
    /// All else that it says, by key: rates, latencies, what caches deliver.
    #[serde(flatten)]
    pub(super) facts: BTreeMap<String, Fact>,
}

/// Which chips a row is about.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Chip {
    X86 { vendor: String, family: u32, models: Vec<Range>, steppings: Option<Range> },
    Arm { implementer: u32, part: u32 },
}

/// An inclusive range, `[first, last]`.
#[derive(Debug, Deserialize, Clone, Copy)]
#[serde(from = "[u32; 2]")]
pub(super) struct Range {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// Caches of a core: all sizes, in KiB, and ways that chips of the row have; any, where none is listed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Caches {
    #[serde(default)]
    pub(super) l1d: Vec<[u32; 2]>,
    #[serde(default)]
    pub(super) l1i: Vec<[u32; 2]>,
    #[serde(default)]
    pub(super) l2: Vec<[u32; 2]>,
    /// The largest level 3, in KiB.
    pub(super) l3_most: u64,
    /// The largest without a cache stacked on top, if that is less.
    pub(super) l3_usual: Option<u64>,
    /// The most cores that share a level 3, if it does not belong to the whole socket.
    pub(super) l3_cores: Option<u64>,
}

/// Which chips of a row's numbers have 512-bit data paths.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullWidth {
    /// What CPUID 8000_001A says on chips of this row.
    pub(super) is: bool,
    /// The models that are of this row where CPUID does not say.
    pub(super) models: Vec<Range>,
}

/// The number of 512-bit units of chips whose name has this part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ByName {
    part: String,
    pub(super) per_cycle: f64,
}

impl From<[u32; 2]> for Range {
    fn from([first, last]: [u32; 2]) -> Self {
        Self { first, last }
    }
}

impl Range {
    pub(super) fn contains(self, number: u32) -> bool {
        RangeInclusive::new(self.first, self.last).contains(&number)
    }
}

impl Chip {
    /// Whether the numbers that the processor gives are of this chip; `arm` identifies the core that is asked about.
    pub(super) fn is(&self, cpu: &Cpu, arm: Option<&ArmId>) -> bool {
        match self {
            Self::X86 { vendor, family, models, steppings } => {
                cpu.vendor.as_deref() == Some(vendor)
                    && cpu.family == Some(*family)
                    && cpu.model.is_some_and(|model| models.iter().any(|range| range.contains(model)))
                    && steppings
                        .is_none_or(|range| cpu.stepping.is_some_and(|stepping| range.contains(stepping)))
            }
            Self::Arm { implementer, part } => {
                arm.is_some_and(|arm| arm.implementer == *implementer && arm.part == *part)
            }
        }
    }

    /// Whose processor it is, for an x86.
    pub(super) fn vendor(&self) -> Option<&str> {
        match self {
            Self::X86 { vendor, .. } => Some(vendor),
            Self::Arm { .. } => None,
        }
    }
}

impl Microarchitecture {
    /// Instructions of `bits`-wide vectors started in a cycle.
    ///
    /// # Errors
    /// The width is not in the row, or the chip's name does not tell how many units it has.
    pub(super) fn per_cycle(&self, of: Rate, bits: u32, cpu: &Cpu) -> Result<f64, Unknown> {
        let listed = self.rates(of).at(bits);
        let named = of.per_512_unit.filter(|_| bits == 512 && !self.units_512_by_name.is_empty());
        let rate = match (listed, named) {
            (Some(rate), _) => Some(rate),
            (None, Some(each)) => match self.by_name(cpu) {
                Some(units) => Some(units * each),
                None => {
                    return Err(Unknown(format!(
                        "{} chips have one or two 512-bit units, and the name {:?} does not tell which",
                        self.name,
                        cpu.model_name.as_deref().unwrap_or("(none)")
                    )));
                }
            },
            (None, None) => None,
        };
        let unknown = || Unknown(format!("the rate of {bits}-bit {} of {} is not known", of.name, self.name));
        rate.ok_or_else(unknown)
    }

    /// What the row says of a key that has one number; `None` where it does not.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.facts.get(key)?.number()
    }

    /// Cycles from one instruction to the next that waits for it, at best.
    pub(super) fn latency(&self, of: Rate) -> Option<f64> {
        of.latency.cycles(|key| self.number(key))
    }

    /// What the row says of a rate, by width, in instructions a cycle.
    pub(super) fn rates(&self, of: Rate) -> Widths {
        let listed = self.facts.get(of.key).map(|fact| fact.widths()).unwrap_or_default();
        if of.in_cycles { listed.inverse() } else { listed }
    }

    fn by_name(&self, cpu: &Cpu) -> Option<f64> {
        let name = cpu.model_name.as_deref()?;
        self.units_512_by_name.iter().find(|row| name.contains(&row.part)).map(|row| row.per_cycle)
    }
}
