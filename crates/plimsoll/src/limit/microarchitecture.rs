//! What a core can do in one cycle, by microarchitecture: the rows of `data/microarchitectures.toml`.
//!
//! The file is part of the program. Whatever is not in it is unknown, with the reason; nothing is guessed from a name,
//! save the number of 512-bit units where the row itself says which part of the name tells.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use serde::Deserialize;

use super::work::Widths;
pub use super::work::Work;
use crate::machine::Cpu;

const FILE: &str = include_str!("../../../../data/microarchitectures.toml");

/// The rows, read once. Immutable.
static TABLE: LazyLock<Result<Table, String>> = LazyLock::new(|| {
    toml::from_str(FILE).map_err(|e| format!("data/microarchitectures.toml: {}", e.message()))
});

/// Why a fact about a chip is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(pub String);

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    microarchitecture: Vec<Microarchitecture>,
    memory: Vec<SocketMemory>,
}

/// One row: what a core can do in one cycle.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Microarchitecture {
    /// Name, as engineers call it.
    pub name: String,
    chip: Chip,
    core_kind: Option<String>,
    #[serde(default)]
    fma: Widths,
    #[serde(default)]
    units_512_by_name: Vec<ByName>,
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

/// The most memory a socket of a server chip can have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketMemory {
    /// Name of the chip.
    pub name: String,
    chip: Chip,
    /// 64-bit channels.
    pub channels: u32,
    /// Millions of transfers a second on each channel.
    pub megatransfers: u32,
    /// Where the row is from.
    pub source: String,
}

/// Which chips a row is about.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Chip {
    X86 { vendor: String, family: u32, models: Vec<Range>, steppings: Option<Range> },
    Arm { implementer: u32, part: u32 },
}

/// An inclusive range, `[first, last]`.
#[derive(Debug, Deserialize, Clone, Copy)]
#[serde(from = "[u32; 2]")]
struct Range {
    first: u32,
    last: u32,
}

/// The number of 512-bit units of chips whose name has this part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ByName {
    part: String,
    per_cycle: f64,
}

impl From<[u32; 2]> for Range {
    fn from([first, last]: [u32; 2]) -> Self {
        Self { first, last }
    }
}

impl Range {
    fn contains(self, number: u32) -> bool {
        RangeInclusive::new(self.first, self.last).contains(&number)
    }
}

impl Chip {
    fn is(&self, cpu: &Cpu) -> bool {
        match self {
            Self::X86 { vendor, family, models, steppings } => {
                cpu.vendor.as_deref() == Some(vendor)
                    && cpu.family == Some(*family)
                    && cpu.model.is_some_and(|model| models.iter().any(|range| range.contains(model)))
                    && steppings
                        .is_none_or(|range| cpu.stepping.is_some_and(|stepping| range.contains(stepping)))
            }
            Self::Arm { implementer, part } => {
                cpu.arm.as_ref().is_some_and(|arm| arm.implementer == *implementer && arm.part == *part)
            }
        }
    }
}

impl Microarchitecture {
    /// The row of the core that is CPU `number` of this machine.
    ///
    /// # Errors
    /// What is missing: the chip's identity, a row for it, or a row for this kind of core.
    pub fn of(cpu: &Cpu, number: usize) -> Result<&'static Self, Unknown> {
        let table = TABLE.as_ref().map_err(|e| Unknown(e.clone()))?;
        let rows: Vec<_> = table.microarchitecture.iter().filter(|row| row.chip.is(cpu)).collect();
        if rows.is_empty() {
            return Err(Unknown(format!(
                "{} is not in data/microarchitectures.toml; add a row with its source, or give --limits",
                identity(cpu)
            )));
        }
        let Some(kind) = cpu.kinds.iter().find(|kind| kind.cpus.contains(number)) else {
            // On a chip of one kind the row holds for all; where a hypervisor hides the kinds, nothing tells.
            return match rows.as_slice() {
                [only] => Ok(only),
                _ => Err(Unknown(format!(
                    "{} has cores of several kinds, and this system does not tell which they are",
                    identity(cpu)
                ))),
            };
        };
        let row = rows.iter().find(|row| row.core_kind.as_deref().is_none_or(|wanted| wanted == kind.name));
        row.copied().ok_or_else(|| {
            Unknown(format!("data/microarchitectures.toml has no row for cores of kind {}", kind.name))
        })
    }

    /// Instructions of `bits`-wide vectors started in a cycle.
    ///
    /// # Errors
    /// The width is not in the row, or the chip's name does not tell how many units it has.
    pub fn per_cycle(&self, work: Work, bits: u32, cpu: &Cpu) -> Result<f64, Unknown> {
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

    /// What the row says of a kind of work, as rates.
    fn rates(&self, work: Work) -> Widths {
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

impl SocketMemory {
    /// The most that a socket of this chip can have, if it is a server chip with a row.
    pub fn of(cpu: &Cpu) -> Option<&'static Self> {
        TABLE.as_ref().ok()?.memory.iter().find(|row| row.chip.is(cpu))
    }

    /// Bytes a second over all channels of one socket.
    pub fn bytes_per_second(&self) -> f64 {
        f64::from(self.channels) * 8.0 * f64::from(self.megatransfers) * 1e6
    }
}

/// The numbers that identify a chip, for a message.
fn identity(cpu: &Cpu) -> String {
    match (cpu.vendor.as_deref(), cpu.family, cpu.model, &cpu.arm) {
        (Some(vendor), Some(family), Some(model), _) => format!("{vendor} family {family} model {model}"),
        (_, _, _, Some(arm)) => format!("Arm implementer {:#x} part {:#x}", arm.implementer, arm.part),
        _ => "this processor (it does not tell what it is)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::CpuSet;
    use crate::machine::cpu::{ArmId, CoreKind};

    const AMD: &str = "AuthenticAMD";
    const INTEL: &str = "GenuineIntel";

    fn x86(vendor: &str, family: u32, model: u32, stepping: u32) -> Cpu {
        let vendor = Some(vendor.to_owned());
        Cpu { vendor, family: Some(family), model: Some(model), stepping: Some(stepping), ..Cpu::default() }
    }

    fn arm(part: u32) -> Cpu {
        let id = ArmId { implementer: 0x41, part, variant: 1, revision: 0, midr: None };
        Cpu { arm: Some(id), ..Cpu::default() }
    }

    fn name(cpu: &Cpu) -> &'static str {
        &Microarchitecture::of(cpu, 0).unwrap().name
    }

    #[test]
    fn every_row_parses_and_is_plausible_and_has_a_source() {
        let table = TABLE.as_ref().unwrap();
        assert!(table.microarchitecture.len() >= 20 && table.memory.len() >= 12);
        for row in &table.microarchitecture {
            let name = &row.name;
            assert!(row.source.len() > 20, "{name}");
            let named = row.units_512_by_name.iter().map(|row| row.per_cycle);
            assert!(named.into_iter().all(|units| [1.0, 2.0].contains(&units)), "{name}");
            for work in Work::ALL {
                let rates = row.rates(work);
                let widths = [rates.bits_128, rates.bits_256, rates.bits_512, rates.bits_8192];
                let quick = !matches!(work.name(), "divisions" | "square roots");
                for rate in widths.into_iter().flatten() {
                    let whole = [1.0 / 16.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0].contains(&rate);
                    assert!(
                        if quick { whole } else { (0.01..0.6).contains(&rate) },
                        "{name} {work:?}: {rate}"
                    );
                }
                // A wider vector is never quicker.
                assert!(widths.is_sorted_by(|a, b| b.is_none() || a.is_none() || a >= b), "{name} {work:?}");
            }
            assert!(row.fma.bits_128.is_some() || row.multiply_add.bits_128.is_some(), "{name}");
            assert!(row.add.bits_128.is_some() && row.multiply.bits_128.is_some(), "{name}");
            assert!(row.l1_latency.is_none_or(|cycles| (3.0..=6.0).contains(&cycles)), "{name}");
            assert!(row.l2_latency.is_none_or(|cycles| (9.0..=20.0).contains(&cycles)), "{name}");
            if let (Some(loads), Some(stores), Some(both)) = (row.loads, row.stores, row.accesses) {
                assert!((1.0..=4.0).contains(&loads) && (1.0..=4.0).contains(&stores), "{name}");
                assert!(both >= loads.max(stores) && both <= loads + stores, "{name}");
            }
            assert!(
                row.l1_load_bytes.is_none_or(|bytes| [32.0, 64.0, 96.0, 128.0].contains(&bytes)),
                "{name}"
            );
        }
        for row in &table.memory {
            assert!(row.source.len() > 20, "{}", row.name);
            assert!(
                (2..=12).contains(&row.channels) && (1600..=12_800).contains(&row.megatransfers),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn no_chip_has_two_rows_and_ranges_run_upwards() {
        let table = TABLE.as_ref().unwrap();
        for (vendor, family) in [(AMD, 0x17), (AMD, 0x19), (AMD, 0x1a), (INTEL, 6)] {
            for model in 0..=0xff {
                let cpu = x86(vendor, family, model, 3);
                let rows = table.microarchitecture.iter().filter(|row| row.chip.is(&cpu));
                let kinds: Vec<_> = rows.map(|row| &row.core_kind).collect();
                let distinct: std::collections::HashSet<_> = kinds.iter().collect();
                let told = kinds.len() == 1 || kinds.iter().all(|kind| kind.is_some());
                assert!(
                    kinds.is_empty() || told && distinct.len() == kinds.len(),
                    "{vendor} {family} {model}"
                );
                assert!(table.memory.iter().filter(|row| row.chip.is(&cpu)).count() <= 1);
            }
        }
        for chip in table.microarchitecture.iter().map(|row| &row.chip) {
            if let Chip::X86 { models, .. } = chip {
                assert!(models.iter().all(|range| range.first <= range.last), "{chip:?}");
            }
        }
    }

    #[test]
    fn chips_are_found_by_family_and_model() {
        for (vendor, family, model, wanted) in [
            (AMD, 23, 49, "Zen 2"),
            (AMD, 25, 1, "Zen 3"),
            (AMD, 25, 17, "Zen 4"),
            (AMD, 25, 97, "Zen 4"),
            (AMD, 26, 2, "Zen 5"),
            (AMD, 26, 17, "Zen 5"),
            (AMD, 26, 68, "Zen 5"),
            (AMD, 26, 36, "Zen 5 (256-bit)"),
            (AMD, 25, 160, "Zen 4"),
            (INTEL, 6, 62, "Ivy Bridge"),
            (INTEL, 6, 63, "Haswell"),
            (INTEL, 6, 79, "Broadwell"),
            (INTEL, 6, 158, "Skylake"),
            (INTEL, 6, 85, "Skylake-SP"),
            (INTEL, 6, 106, "Ice Lake-SP"),
            (INTEL, 6, 126, "Ice Lake"),
            (INTEL, 6, 143, "Sapphire Rapids"),
            (INTEL, 6, 173, "Granite Rapids"),
            (INTEL, 6, 175, "Sierra Forest"),
            (INTEL, 6, 190, "Alder Lake-N"),
        ] {
            assert_eq!(name(&x86(vendor, family, model, 1)), wanted);
        }
        assert_eq!(name(&arm(0xd0c)), "Neoverse N1");
        assert_eq!(name(&arm(0xd4f)), "Neoverse V2");
    }

    #[test]
    fn rates_by_width() {
        let zen4 = x86(AMD, 25, 17, 1);
        let row = Microarchitecture::of(&zen4, 0).unwrap();
        let rates = [128, 256, 512].map(|bits| row.per_cycle(Work::Fma, bits, &zen4));
        assert_eq!(rates, [Ok(2.0), Ok(2.0), Ok(1.0)]);
        let (v1, v2) = (arm(0xd40), arm(0xd4f));
        let row = |cpu| Microarchitecture::of(cpu, 0).unwrap();
        let rates = [128, 256].map(|bits| row(&v1).per_cycle(Work::Fma, bits, &v1));
        assert_eq!(rates, [Ok(4.0), Ok(2.0)]);
        assert!(row(&v2).per_cycle(Work::Fma, 256, &v2).is_err());
        let haswell = x86(INTEL, 6, 63, 2);
        let error =
            Microarchitecture::of(&haswell, 0).unwrap().per_cycle(Work::Fma, 512, &haswell).unwrap_err();
        assert_eq!(error.to_string(), "the rate of 512-bit FMA of Haswell is not known");
    }

    #[test]
    fn skylake_sp_tells_its_units_only_by_its_name() {
        let rate = |model_name: Option<&str>| {
            let cpu = Cpu { model_name: model_name.map(str::to_owned), ..x86(INTEL, 6, 85, 7) };
            Microarchitecture::of(&cpu, 0).unwrap().per_cycle(Work::Fma, 512, &cpu)
        };
        assert_eq!(rate(Some("Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz")), Ok(2.0));
        assert_eq!(rate(Some("Intel(R) Xeon(R) Gold 5122 CPU @ 3.60GHz")), Ok(2.0));
        assert_eq!(rate(Some("Intel(R) Xeon(R) Gold 5118 CPU @ 2.30GHz")), Ok(1.0));
        assert_eq!(rate(Some("Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz")), Ok(1.0));
        let error = rate(Some("Intel Xeon Processor (Cascadelake)")).unwrap_err().to_string();
        assert!(error.contains("one or two 512-bit units"), "{error}");
        assert!(rate(None).is_err());
    }

    #[test]
    fn what_is_not_in_the_file_is_unknown_by_name() {
        let error = Microarchitecture::of(&x86(INTEL, 6, 15, 11), 0).unwrap_err().to_string();
        assert!(
            error.starts_with("GenuineIntel family 6 model 15 is not in data/microarchitectures.toml"),
            "{error}"
        );
        let error = Microarchitecture::of(&Cpu::default(), 0).unwrap_err().to_string();
        assert!(error.contains("does not tell what it is"), "{error}");
        assert!(Microarchitecture::of(&x86("<script>", 6, 85, 4), 0).is_err());
    }

    #[test]
    fn on_a_mixed_chip_a_row_holds_for_its_kind_of_core() {
        let kind = |name: &str, cpus: &str| CoreKind {
            name: name.to_owned(),
            cpus: cpus.parse::<CpuSet>().unwrap(),
        };
        let kinds = vec![kind("cpu_core", "0-3"), kind("cpu_atom", "4-7")];
        let cpu = Cpu { kinds, ..x86(INTEL, 6, 151, 2) };
        assert_eq!(Microarchitecture::of(&cpu, 2).unwrap().name, "Golden Cove");
        assert_eq!(Microarchitecture::of(&cpu, 5).unwrap().name, "Gracemont");
        let other = Cpu { kinds: vec![kind("cpu_lowpower", "0-7")], ..cpu.clone() };
        let error = Microarchitecture::of(&other, 5).unwrap_err().to_string();
        assert!(error.contains("no row for cores of kind cpu_lowpower"), "{error}");
        let hidden = Cpu { kinds: Vec::new(), ..cpu };
        let error = Microarchitecture::of(&hidden, 0).unwrap_err().to_string();
        assert!(error.contains("does not tell which"), "{error}");
    }

    #[test]
    fn socket_memory_depends_on_the_stepping_where_a_model_is_many_chips() {
        let memory =
            |cpu: &Cpu| SocketMemory::of(cpu).map(|row| (row.name.as_str(), row.bytes_per_second() / 1e9));
        assert_eq!(memory(&x86(AMD, 25, 17, 1)), Some(("Genoa", 460.8)));
        assert_eq!(memory(&x86(INTEL, 6, 85, 4)), Some(("Skylake-SP", 127.968)));
        assert_eq!(memory(&x86(INTEL, 6, 85, 7)), Some(("Cascade Lake", 140.784)));
        assert_eq!(memory(&x86(AMD, 25, 97, 2)), None);
    }
}
