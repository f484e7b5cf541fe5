use std::collections::BTreeSet;

use plimsoll_machine::Cpu;
use plimsoll_machine::cpu::{Ability, CacheKind, Capability};
use plimsoll_metal::kernel::{CoreRate, rate};
use plimsoll_units::quantity::format::significant;
use plimsoll_units::quantity::{Quantity, Unit};

use super::table::{Caches, Microarchitecture};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// Contains a product number: the name is the vendor's own or passed through.
    Product,
    /// Vendor's name without a product number, as hypervisors write: features and caches are real.
    General,
    /// Made up by a hypervisor with the rest of CPUID, caches included.
    MadeUp,
    Missing,
}

#[derive(Debug)]
pub(super) struct CpuEvidence<'a> {
    pub(super) name: Name,
    pub(super) is_virtual: bool,
    features: BTreeSet<&'a str>,
    caches: CacheSizes,
    pub(super) native_model: Option<u32>,
    pub(super) is_512_wide: Option<bool>,
    /// Whether only measured rates show that the 512-bit paths are disabled.
    pub(super) is_narrowed: bool,
    pub(super) has_cpuid: bool,
    capabilities: Vec<&'a Capability>,
}

/// Rates of chips that are measured before a run.
pub const ABILITY_RATES: [(Ability, CoreRate); 5] = [
    (Ability::Fma, rate::FMA),
    (Ability::MultiplyAndAdd, rate::MULTIPLY_AND_ADD),
    (Ability::Add, rate::ADD),
    (Ability::Multiply, rate::MULTIPLY),
    (Ability::IntegerAdd, rate::INTEGER_ADD),
];

/// Tolerance of a measured rate above the row's.
const ABOVE: f64 = 1.02;

#[derive(Debug, Default)]
struct CacheSizes {
    l1d: Option<Size>,
    l1i: Option<Size>,
    l2: Option<Size>,
    l3: Option<Size>,
}

impl CacheSizes {
    fn of(cpu: &Cpu, number: usize) -> Self {
        let mut found = Self::default();
        let of_cpuid = cpu.cpuid.of(number).map(|answers| answers.caches()).unwrap_or_default();
        for cache in of_cpuid.iter().chain(cpu.caches.iter().filter(|cache| cache.serves(number))) {
            let place = match (cache.level, cache.kind) {
                (1, CacheKind::Data) => &mut found.l1d,
                (1, CacheKind::Instruction) => &mut found.l1i,
                (2, CacheKind::Unified) => &mut found.l2,
                (3, CacheKind::Unified) => &mut found.l3,
                _ => continue,
            };
            *place = place.or(cache.size_bytes.map(|bytes| Size { bytes, ways: cache.ways }));
        }
        found
    }

    /// Returns whether a hypervisor made up the caches: QEMU (target/i386/cpu.c) an L2 of 4 MiB
    /// with L1 of 32 KiB, or AMD's L1 of 64 KiB with two ways; bhyve (x86.c) tiny ones.
    fn are_made_up(&self) -> bool {
        let is = |size: Option<Size>, kib: u64, ways: u32| size.is_some_and(|s| s.is(kib, ways));
        let intel = is(self.l1d, 32, 8) && is(self.l1i, 32, 8) && is(self.l2, 4096, 16);
        intel || self.l1d.is_some_and(|l1d| l1d.bytes < 4096) || is(self.l1d, 64, 2)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    bytes: u64,
    ways: Option<u32>,
}

impl<'a> CpuEvidence<'a> {
    /// Collects the properties of CPU `number` from CPUID, else from the kernel. A hypervisor can
    /// hide its flag, so other evidence of a guest (`in_guest`) and names of hypervisors count too.
    pub(super) fn of(cpu: &'a Cpu, in_guest: bool, number: usize) -> Self {
        let answers = cpu.cpuid.of(number);
        let mut features: BTreeSet<&str> = answers.map(|a| a.features().collect()).unwrap_or_default();
        if answers.is_none() {
            features = cpu.flags.iter().map(String::as_str).collect();
        }
        let name = name(cpu.model_name.as_deref());
        let kind = |number| cpu.kinds.iter().position(|kind| kind.cpus.contains(number));
        let mut found = Self {
            is_virtual: in_guest
                || features.contains("hypervisor")
                || cpu.has("hypervisor")
                || cpu.model_name.as_deref().is_some_and(is_of_a_hypervisor),
            name,
            features,
            caches: CacheSizes::default(),
            native_model: answers.and_then(|a| a.native_model()),
            is_512_wide: answers.and_then(|a| a.is_512_wide()),
            is_narrowed: false,
            has_cpuid: answers.is_some(),
            capabilities: cpu.capabilities.iter().filter(|one| kind(one.cpu) == kind(number)).collect(),
        };
        // A hypervisor may hide the width, and firmware may disable it without a trace in CPUID;
        // measured rates cannot be invented.
        let is_measured = |bits: u32, rate: f64| found.capabilities.iter().any(|one| one.is_fma(bits, rate));
        if is_measured(512, 2.0) {
            found.is_512_wide = Some(true);
        } else if found.is_512_wide != Some(false) && is_measured(256, 2.0) && is_measured(512, 1.0) {
            (found.is_512_wide, found.is_narrowed) = (Some(false), true);
        }
        let caches = CacheSizes::of(cpu, number);
        if name != Name::MadeUp && !(found.is_virtual && caches.are_made_up()) {
            found.caches = caches;
        }
        found
    }

    /// Returns why the processor cannot be a chip of `row`; `None` if nothing contradicts that.
    pub(super) fn contradiction(&self, row: &Microarchitecture) -> Option<String> {
        if let Some(feature) = self.impossible(row) {
            return Some(feature);
        }
        if self.native_model.zip(row.native_model).is_some_and(|(reported, listed)| reported != listed) {
            return Some("has another core by CPUID 0x1a".to_owned());
        }
        let width = self.is_512_wide.zip(row.full_width.as_ref());
        if width.is_some_and(|(reported, listed)| reported != listed.is) {
            return Some("has another width by CPUID 8000_001a".to_owned());
        }
        let cache = row.caches.as_ref().and_then(|caches| self.impossible_cache(caches));
        cache.or_else(|| self.exceeded_rate(row))
    }

    /// Returns `cannot have FEATURE` for the first feature that chips of `row` cannot have.
    pub(super) fn impossible(&self, row: &Microarchitecture) -> Option<String> {
        let feature = row.never.iter().find(|feature| self.features.contains(feature.as_str()))?;
        Some(format!("cannot have {feature}"))
    }

    /// Returns a phrase on a rate of `row` that a core of this kind was measured to exceed, if any.
    /// Lower rates prove nothing, as a neighbour or throttling slows a core down.
    pub(super) fn exceeded_rate(&self, row: &Microarchitecture) -> Option<String> {
        self.capabilities.iter().find_map(|one| {
            let (_, rate) = ABILITY_RATES.into_iter().find(|(ability, _)| *ability == one.ability)?;
            // A single measurement is imprecise: only the step that it clearly shows counts.
            let step = one.per_cycle()?;
            let listed = row.rate(rate, one.bits).filter(|listed| step > listed * ABOVE)?;
            Some(format!(
                "starts {} {} of {} bits in a cycle, and {} were measured",
                significant(listed, 3),
                rate.name,
                one.bits,
                significant(one.measured, 3)
            ))
        })
    }

    /// Returns `has no CACHE of SIZE` for the first of the reported caches that `caches` lacks.
    fn impossible_cache(&self, caches: &Caches) -> Option<String> {
        let levels = [
            ("level 1 data cache", self.caches.l1d, &caches.l1d),
            ("level 1 instruction cache", self.caches.l1i, &caches.l1i),
            ("level 2 cache", self.caches.l2, &caches.l2),
        ];
        for (what, reported, listed) in levels {
            let Some(reported) = reported else { continue };
            if !listed.is_empty() && !listed.iter().any(|&[kib, ways]| reported.is(kib.into(), ways)) {
                return Some(format!("has no {what} of {}", reported.shown()));
            }
        }
        let larger = self.caches.l3.filter(|l3| l3.bytes > caches.l3_most << 10)?;
        Some(format!("has no level 3 cache of {}", larger.shown()))
    }
}

impl Size {
    fn is(self, kib: u64, ways: u32) -> bool {
        self.bytes == kib << 10 && self.ways.is_none_or(|known| known == ways)
    }

    fn shown(self) -> String {
        let size = Quantity::new(self.bytes as f64, Unit::Byte);
        self.ways.map_or(size.to_string(), |ways| format!("{size} in {ways} ways"))
    }
}

/// A vendor's own name of a processor contains one of these words.
const MAKERS: [&str; 8] = ["(R)", "(tm)", "Intel", "AMD", "Hygon", "Zhaoxin", "ZHAOXIN", "VIA"];

/// Classifies a processor's name. A product number is a word with three or more digits that is not
/// a clock and not in parentheses; `xx` stands for digits. A name without a vendor is made up.
fn name(name: Option<&str>) -> Name {
    let Some(name) = name.filter(|name| !name.trim().is_empty()) else { return Name::Missing };
    if is_of_a_hypervisor(name) || !MAKERS.iter().any(|maker| name.contains(maker)) {
        return Name::MadeUp;
    }
    let mut words = String::new();
    let mut depth = 0_u32;
    for c in name.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '@' => break,
            c if depth == 0 => words.push(if c == '-' { ' ' } else { c }),
            _ => {}
        }
    }
    let is_number = |word: &str| word.bytes().filter(u8::is_ascii_digit).count() >= 3 && !word.contains("xx");
    let is_makers = name.contains("(R)") || name.trim() == "AMD EPYC" || name.starts_with("AMD Ryzen ");
    match words.split_whitespace().any(is_number) {
        true => Name::Product,
        false if is_makers => Name::General,
        false => Name::MadeUp,
    }
}

/// Returns whether only hypervisors write this name (QEMU target/i386/cpu.c, `model_id`).
fn is_of_a_hypervisor(name: &str) -> bool {
    const BEGINNINGS: [&str; 16] = [
        "QEMU ",
        "Virtual CPU",
        "Common KVM",
        "Common 32-bit KVM",
        "Intel Xeon Processor (",
        "Intel Core Processor (",
        "Intel Atom Processor (",
        "Intel Xeon E312xx",
        "Intel Xeon E3-12xx",
        "Intel Core 2 Duo P9xxx",
        "Intel Core i7 9xx",
        "Intel Celeron_4x0",
        "Westmere E56xx",
        "AMD Opteron ",
        "AMD EPYC Processor",
        "AMD EPYC-",
    ];
    BEGINNINGS.iter().any(|beginning| name.trim_start().starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_products_number_tells_a_name_from_what_hypervisors_write() {
        for product in [
            "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz",
            "Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz",
            "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz",
            "Intel(R) N100",
            "Intel(R) Core(TM) Ultra 9 285K",
            "Intel(R) Xeon(R) 6979P",
            "AMD EPYC 7R13 Processor",
            "AMD EPYC 9B14",
            "AMD Ryzen 9 9950X 16-Core Processor",
            "Hygon C86 3185  8-core Processor",
            "12th Gen Intel(R) Core(TM) i5-12400",
        ] {
            assert_eq!(name(Some(product)), Name::Product, "{product}");
            assert!(!is_of_a_hypervisor(product), "{product}");
        }
        for general in [
            "Intel(R) Xeon(R) Processor",
            "Intel(R) Xeon(R) Processor @ 2.90GHz",
            "Intel(R) Xeon(R) CPU @ 2.00GHz",
            "Intel(R) Xeon(R) Platinum",
            "AMD EPYC",
            "AMD Ryzen Z1 Extreme",
        ] {
            assert_eq!(name(Some(general)), Name::General, "{general}");
        }
        for made_up in [
            "Intel Xeon Processor (Icelake)",
            "Intel Core Processor (Haswell, no TSX)",
            "Intel Xeon E312xx (Sandy Bridge)",
            "Intel Xeon E3-12xx v2 (Ivy Bridge)",
            "AMD EPYC Processor (with IBPB)",
            "AMD EPYC-Milan Processor",
            "QEMU Virtual CPU version 2.5+",
            "QEMU Virtual CPU version 1.5.3",
            "QEMU TCG CPU version 2.5+",
            "Common KVM processor",
            "AMD Opteron 240 (Gen 1 Class Opteron)",
            "Westmere E56xx/L56xx/X56xx (Nehalem-C)",
            "Virtual CPU 714389bda930",
            "DO-Regular",
            "vCPU 1234",
        ] {
            assert_eq!(name(Some(made_up)), Name::MadeUp, "{made_up}");
            let is_odd = ["DO-Regular", "vCPU 1234"].contains(&made_up);
            assert!(is_odd || is_of_a_hypervisor(made_up), "{made_up}");
        }
        assert_eq!(name(Some(" ")), Name::Missing);
        assert_eq!(name(None), Name::Missing);
    }
}
