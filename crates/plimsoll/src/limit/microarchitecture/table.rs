//! The rows of `data/microarchitectures.toml`, and what each says of a kind of work.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use serde::Deserialize;

use super::Unknown;
use super::memory::SocketMemory;
use crate::limit::work::{Widths, Work};
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

/// One row: what a core can do in one cycle.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Microarchitecture {
    /// Name, as engineers call it.
    pub name: String,
    pub(super) chip: Chip,
    /// The kernel's name for this kind of core, on chips that mix several.
    pub(super) core_kind: Option<String>,
    /// Features that the chip cannot have.
    #[serde(default)]
    pub(super) never: Vec<String>,
    /// What its caches are.
    pub(super) caches: Option<Caches>,
    /// CPUID 0x1A, EAX.
    pub(super) native_model: Option<u32>,
    /// Whether the data paths have 512 bits, where chips of one number differ.
    pub(super) full_width: Option<FullWidth>,
    #[serde(default)]
    pub(super) fma: Widths,
    #[serde(default)]
    pub(super) units_512_by_name: Vec<ByName>,
    #[serde(default)]
    add: Widths,
    #[serde(default)]
    multiply: Widths,
    #[serde(default)]
    multiply_add: Widths,
    #[serde(default)]
    integer_add: Widths,
    #[serde(default)]
    multiply_i8: Widths,
    #[serde(default)]
    multiply_i16: Widths,
    #[serde(default)]
    multiply_i32: Widths,
    #[serde(default)]
    multiply_i64: Widths,
    #[serde(default)]
    dot_integer: Widths,
    #[serde(default)]
    dot_bf16: Widths,
    #[serde(default)]
    matrix_i8: Widths,
    #[serde(default)]
    matrix_bf16: Widths,
    #[serde(default)]
    divide_f64_cycles: Widths,
    #[serde(default)]
    divide_f32_cycles: Widths,
    #[serde(default)]
    divide_f16_cycles: Widths,
    #[serde(default)]
    root_f64_cycles: Widths,
    #[serde(default)]
    root_f32_cycles: Widths,
    #[serde(default)]
    root_f16_cycles: Widths,
    /// Cycles from a fused multiply-add to the next that waits for it, at best.
    fma_latency: Option<f64>,
    /// The same for additions of floating point.
    add_latency: Option<f64>,
    /// The same for multiplications of floating point.
    multiply_latency: Option<f64>,
    /// The same for additions of integers.
    integer_add_latency: Option<f64>,
    /// Load-to-use latency of the level-1 data cache, in cycles, at best.
    pub l1_latency: Option<f64>,
    /// The same for level 2.
    pub l2_latency: Option<f64>,
    /// Bytes that loads can take from the level-1 data cache in a cycle.
    pub l1_load_bytes: Option<f64>,
    /// Bytes that come from level 2 to level 1 in a cycle, at most.
    pub l2_load_bytes: Option<f64>,
    /// The same from level 3 to level 2.
    pub l3_load_bytes: Option<f64>,
    /// Loads of up to 8 bytes started in a cycle.
    pub loads: Option<f64>,
    /// Stores of up to 8 bytes started in a cycle.
    pub stores: Option<f64>,
    /// Loads and stores together, half of them each.
    pub accesses: Option<f64>,
    /// Where the row is from.
    pub source: String,
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
    pub(super) fn per_cycle(&self, work: Work, bits: u32, cpu: &Cpu) -> Result<f64, Unknown> {
        let listed = self.rates(work).at(bits);
        let named = work.per_512_unit().filter(|_| bits == 512 && !self.units_512_by_name.is_empty());
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
        let unknown =
            || Unknown(format!("the rate of {bits}-bit {} of {} is not known", work.name(), self.name));
        rate.ok_or_else(unknown)
    }

    /// Cycles from one instruction of a kind of work to the next that waits for it, at best; of additions and multiplications
    /// in turn, each kind by itself, the longer one.
    pub(super) fn latency(&self, work: Work) -> Option<f64> {
        match work {
            Work::Fma => self.fma_latency,
            Work::Add => self.add_latency,
            Work::Multiply => self.multiply_latency,
            Work::MultiplyAndAdd => Some(self.add_latency?.max(self.multiply_latency?)),
            Work::IntegerAdd => self.integer_add_latency,
            _ => None,
        }
    }

    /// What the row says of a kind of work, as rates.
    pub(super) fn rates(&self, work: Work) -> Widths {
        match work {
            Work::Fma => self.fma,
            Work::Add => self.add,
            Work::Multiply => self.multiply,
            Work::MultiplyAndAdd => self.multiply_add,
            Work::IntegerAdd => self.integer_add,
            Work::MultiplyI8 => self.multiply_i8,
            Work::MultiplyI16 => self.multiply_i16,
            Work::MultiplyI32 => self.multiply_i32,
            Work::MultiplyI64 => self.multiply_i64,
            Work::DotInteger => self.dot_integer,
            Work::DotBf16 => self.dot_bf16,
            Work::MatrixI8 => self.matrix_i8,
            Work::MatrixBf16 => self.matrix_bf16,
            Work::DivideF64 => self.divide_f64_cycles.inverse(),
            Work::DivideF32 => self.divide_f32_cycles.inverse(),
            Work::DivideF16 => self.divide_f16_cycles.inverse(),
            Work::RootF64 => self.root_f64_cycles.inverse(),
            Work::RootF32 => self.root_f32_cycles.inverse(),
            Work::RootF16 => self.root_f16_cycles.inverse(),
        }
    }

    fn by_name(&self, cpu: &Cpu) -> Option<f64> {
        let name = cpu.model_name.as_deref()?;
        self.units_512_by_name.iter().find(|row| name.contains(&row.part)).map(|row| row.per_cycle)
    }
}
