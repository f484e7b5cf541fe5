mod elsewhere;
mod machines;

use plimsoll_machine::cpu::{Ability, ArmId, Capability, CoreKind};
use plimsoll_machine::cpuid::{CpuidLeaves, Leaf, is_identifying_feature};
use plimsoll_machine::fixture::Fixture;
use plimsoll_machine::{Cpu, CpuSet, Cpuid, Machine, Root};
use plimsoll_metal::kernel::{rate, rates};

use super::table::{Chip, WIDTHS, WorkFact, table};
use super::*;

const AMD: &str = "AuthenticAMD";
const INTEL: &str = "GenuineIntel";

const FACTS: &str = "l1_latency l2_latency l1_load_bytes l2_load_bytes l3_load_bytes loads stores accesses aes \
    carryless_multiply sha256_cycles sha256_latency integer";

/// AArch64 features as in /proc/cpuinfo (Linux, Documentation/arch/arm64/elf_hwcaps.rst).
const ARM: [&str; 6] = ["asimddp", "atomics", "bf16", "i8mm", "sve", "sve2"];

fn is_known(key: &str) -> bool {
    FACTS.split(' ').any(|fact| fact == key)
        || rates().any(|rate| rate.key == key || rate.latency.keys().any(|of| of == key))
}

fn x86(vendor: &str, family: u32, model: u32, stepping: u32) -> Cpu {
    let vendor = Some(vendor.to_owned());
    Cpu { vendor, family: Some(family), model: Some(model), stepping: Some(stepping), ..Cpu::default() }
}

fn arm(part: u32) -> Cpu {
    let id = ArmId { implementer: 0x41, part, variant: 1, revision: 0, midr: None };
    Cpu { arm: Some(id), ..Cpu::default() }
}

fn name(cpu: &Cpu) -> String {
    Core::seen(cpu, false, 0).unwrap().name
}

fn fma_per_cycle(cpu: &Cpu, bits: u32) -> Result<f64, String> {
    Core::seen(cpu, false, 0).unwrap().per_cycle(rate::FMA, bits, cpu)
}

#[test]
fn every_row_parses_and_is_plausible_and_has_a_source() {
    let table = table().unwrap();
    assert!(table.microarchitecture.len() >= 20 && table.memory.len() >= 12);
    for row in &table.microarchitecture {
        let (name, number) = (&row.name, |key: &str| row.number(key));
        assert!(row.source.len() > 20, "{name}");
        let named = row.units_512_by_name.iter().map(|row| row.per_cycle);
        assert!(named.into_iter().all(|units| [1.0, 2.0].contains(&units)), "{name}");
        for of in rates() {
            let widths = WIDTHS.map(|bits| row.rate(of, bits));
            let quick = !of.in_cycles;
            for rate in widths.into_iter().flatten() {
                let whole = [1.0 / 16.0, 0.25, 0.333, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0].contains(&rate);
                assert!(if quick { whole } else { (0.01..0.6).contains(&rate) }, "{name} {of:?}: {rate}");
            }
            assert!(widths.is_sorted_by(|a, b| b.is_none() || a.is_none() || a >= b), "{name} {of:?}");
        }
        let has = |rate| row.rate(rate, 128).is_some();
        let listed = rates().any(has);
        assert!(!listed || has(rate::FMA) || has(rate::MULTIPLY_AND_ADD), "{name}");
        assert!(!listed || has(rate::ADD) && has(rate::MULTIPLY), "{name}");
        let known_widths = WIDTHS.map(|bits| bits.to_string());
        for fact in row.facts.values() {
            let WorkFact::Widths(by) = fact else { continue };
            assert!(by.keys().all(|bits| known_widths.contains(bits)), "{name}: {by:?}");
        }
        let unknown = row.facts.keys().find(|key| !is_known(key));
        assert_eq!(unknown, None, "{name}: nothing reads this key; add it to FACTS where something does");
        let is_x86 = row.chip.vendor().is_some();
        let reported = |feature: &String| {
            if is_x86 { is_identifying_feature(feature) } else { ARM.contains(&feature.as_str()) }
        };
        assert!(row.never.iter().all(reported), "{name}: {:?}", row.never);
        assert!(!is_x86 || !row.never.is_empty(), "{name}");
        for of in [rate::FMA, rate::ADD, rate::MULTIPLY, rate::INTEGER_ADD] {
            let cycles = row.latency(of);
            assert!(cycles.is_none_or(|cycles| (1.0..=9.0).contains(&cycles)), "{name} {of:?}");
            assert!(cycles.is_none() || has(of), "{name} {of:?}: no rate");
        }
        assert!(number("l1_latency").is_none_or(|cycles| (3.0..=6.0).contains(&cycles)), "{name}");
        assert!(number("l2_latency").is_none_or(|cycles| (9.0..=20.0).contains(&cycles)), "{name}");
        if let [Some(loads), Some(stores), Some(both)] = ["loads", "stores", "accesses"].map(number) {
            assert!((1.0..=4.0).contains(&loads) && (1.0..=4.0).contains(&stores), "{name}");
            assert!(both >= loads.max(stores) && both <= loads + stores, "{name}");
        }
        let bytes = number("l1_load_bytes");
        assert!(bytes.is_none_or(|bytes| [32.0, 64.0, 96.0, 128.0].contains(&bytes)), "{name}");
    }
    for row in &table.memory {
        assert!(row.source.len() > 20, "{}", row.name);
        let is_quick = (1600..=12_800).contains(&row.megatransfers);
        assert!((2..=16).contains(&row.channels) && is_quick, "{}", row.name);
    }
}

#[test]
fn no_chip_has_two_rows_and_ranges_run_upwards() {
    let table = table().unwrap();
    for (vendor, family) in [(AMD, 0x17), (AMD, 0x19), (AMD, 0x1a), (INTEL, 6)] {
        for model in 0..=0xff {
            let cpu = x86(vendor, family, model, 3);
            let rows = table.microarchitecture.iter().filter(|row| row.chip.is(&cpu, None));
            let kinds: Vec<_> =
                rows.map(|row| (&row.core_kind, row.full_width.as_ref().map(|w| w.is))).collect();
            let distinct: std::collections::HashSet<_> = kinds.iter().collect();
            let reported = kinds.len() <= 1 || kinds.iter().all(|kind| kind.0.is_some() || kind.1.is_some());
            assert!(reported && distinct.len() == kinds.len(), "{vendor} {family} {model}");
        }
    }
    for chip in table.microarchitecture.iter().map(|row| &row.chip) {
        if let Chip::X86 { models, .. } = chip {
            assert!(models.iter().all(|range| range[0] <= range[1]), "{chip:?}");
        }
    }
}

#[test]
fn chips_are_found_by_family_and_model() {
    for (vendor, family, models, wanted) in [
        (AMD, 23, &[49][..], "Zen 2"),
        (AMD, 25, &[1], "Zen 3"),
        (AMD, 25, &[17, 97, 160], "Zen 4"),
        (AMD, 26, &[2, 17, 68, 0x70], "Zen 5"),
        (AMD, 26, &[36, 0x60], "Zen 5 (256-bit)"),
        (INTEL, 6, &[62], "Ivy Bridge"),
        (INTEL, 6, &[63], "Haswell"),
        (INTEL, 6, &[79], "Broadwell"),
        (INTEL, 6, &[158], "Skylake"),
        (INTEL, 6, &[85], "Skylake-SP"),
        (INTEL, 6, &[106], "Ice Lake-SP"),
        (INTEL, 6, &[126], "Ice Lake"),
        (INTEL, 6, &[143], "Sapphire Rapids"),
        (INTEL, 6, &[173], "Granite Rapids"),
        (INTEL, 6, &[175], "Sierra Forest"),
        (INTEL, 6, &[190], "Alder Lake-N"),
        (INTEL, 6, &[0x25], "Westmere"),
        (INTEL, 6, &[0x2d], "Sandy Bridge"),
        (INTEL, 6, &[0xd7], "Golden Cove (Bartlett Lake)"),
        ("HygonGenuine", 24, &[1], "Hygon Dhyana"),
    ] {
        for model in models {
            assert_eq!(name(&x86(vendor, family, *model, 1)), wanted, "{model}");
        }
    }
    assert_eq!(name(&arm(0xd0c)), "Neoverse N1");
    assert_eq!(name(&arm(0xd4f)), "Neoverse V2");
    assert_eq!(name(&arm(0xd0b)), "Cortex-A76");
    let cobalt = ArmId { implementer: 0x6d, part: 0xd49, variant: 0, revision: 0, midr: None };
    assert_eq!(name(&Cpu { arm: Some(cobalt), ..Cpu::default() }), "Neoverse N2 (Cobalt 100)");
}

#[test]
fn rates_by_width() {
    let zen4 = [128, 256, 512].map(|bits| fma_per_cycle(&x86(AMD, 25, 17, 1), bits));
    assert_eq!(zen4, [Ok(2.0), Ok(2.0), Ok(1.0)]);
    assert_eq!([128, 256].map(|bits| fma_per_cycle(&arm(0xd40), bits)), [Ok(4.0), Ok(2.0)]);
    assert!(fma_per_cycle(&arm(0xd4f), 256).is_err());
    let error = fma_per_cycle(&x86(INTEL, 6, 63, 2), 512).unwrap_err();
    assert_eq!(error, "the rate of 512-bit FMA of Haswell is not known");
}

#[test]
fn skylake_sp_tells_its_units_only_by_its_name() {
    let rate = |model_name: Option<&str>| {
        let model_name = model_name.map(str::to_owned);
        fma_per_cycle(&Cpu { model_name, ..x86(INTEL, 6, 85, 7) }, 512)
    };
    assert_eq!(rate(Some("Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz")), Ok(2.0));
    assert_eq!(rate(Some("Intel(R) Xeon(R) Gold 5122 CPU @ 3.60GHz")), Ok(2.0));
    assert_eq!(rate(Some("Intel(R) Xeon(R) Gold 5118 CPU @ 2.30GHz")), Ok(1.0));
    assert_eq!(rate(Some("Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz")), Ok(1.0));
    let error = rate(Some("Intel(R) Xeon(R) CPU @ 2.00GHz")).unwrap_err().to_string();
    assert!(error.contains("one or two 512-bit units"), "{error}");
    assert!(rate(None).is_err());
}

#[test]
fn what_is_not_in_the_file_is_unknown_by_name() {
    let error = Core::seen(&x86(INTEL, 6, 0xfe, 3), false, 0).unwrap_err().to_string();
    let start = "GenuineIntel family 6 model 254 is not in data/microarchitectures.toml";
    assert!(error.starts_with(start), "{error}");
    let error = Core::seen(&Cpu::default(), false, 0).unwrap_err().to_string();
    assert!(error.contains("nothing tells what this processor is"), "{error}");
    assert!(Core::seen(&x86("<script>", 6, 85, 4), false, 0).is_err());
}

/// A hypervisor may write any part (KVM_CAP_ARM_WRITABLE_IMP_ID_REGS).
#[test]
fn an_arm_part_with_features_that_it_cannot_have_is_unknown() {
    let with = |part, features: &[&str]| {
        let flags = features.iter().map(|feature| (*feature).to_owned()).collect();
        Core::seen(&Cpu { flags, ..arm(part) }, true, 0).map(|core| core.name)
    };
    assert_eq!(with(0xd0c, &["asimd", "atomics", "asimddp"]).unwrap(), "Neoverse N1");
    let error = with(0xd0c, &["asimd", "sve", "sve2"]).unwrap_err().to_string();
    assert!(error.starts_with("implementer and part say Neoverse N1, but that cannot have sve"), "{error}");
    assert_eq!(with(0xd40, &["asimd", "sve", "i8mm"]).unwrap(), "Neoverse V1");
    assert!(with(0xd40, &["asimd", "sve", "sve2"]).is_err());
    assert!(with(0xd08, &["asimd", "atomics"]).is_err());
}

#[test]
fn no_rate_holds_for_what_qemu_computes_itself() {
    let mut graviton = Fixture::open("graviton2-container").unwrap().machine();
    assert!(Core::of(&graviton, 0).is_ok());
    graviton.virtualisation.product = Some("QEMU Virtual Machine".to_owned());
    assert!(Core::of(&graviton, 0).unwrap_err().to_string().contains("emulates this processor"));
    let mut zen4 = Fixture::open("firecracker-zen4").unwrap().machine();
    assert!(Core::of(&zen4, 0).is_ok());
    let [b, c, d] = [b"TCGT", b"CGTC", b"GTCG"].map(|name| u32::from_le_bytes(*name));
    let named = [0x4000_0001, b, c, d];
    let leaves = vec![Leaf { leaf: 0x4000_0000, subleaf: 0, registers: named }];
    zen4.cpu.cpuid = Cpuid(vec![CpuidLeaves { cpus: zen4.cpu.allowed.clone(), leaves }]);
    assert!(Core::of(&zen4, 0).unwrap_err().to_string().contains("emulates this processor"));
}

#[test]
fn on_a_mixed_chip_a_row_holds_for_its_kind_of_core() {
    let kind =
        |name: &str, cpus: &str| CoreKind { name: name.to_owned(), cpus: cpus.parse::<CpuSet>().unwrap() };
    let kinds = vec![kind("cpu_core", "0-3"), kind("cpu_atom", "4-7")];
    let cpu = Cpu { kinds, ..x86(INTEL, 6, 151, 2) };
    assert_eq!(Core::seen(&cpu, false, 2).unwrap().name, "Golden Cove");
    assert_eq!(Core::seen(&cpu, false, 5).unwrap().name, "Gracemont");
    let other = Cpu { kinds: vec![kind("cpu_lowpower", "0-7")], ..cpu.clone() };
    let error = Core::seen(&other, false, 5).unwrap_err().to_string();
    assert!(error.contains("no row for cores of kind cpu_lowpower"), "{error}");
    let hidden = Cpu { kinds: Vec::new(), ..cpu };
    let error = Core::seen(&hidden, false, 0).unwrap_err().to_string();
    assert!(error.contains("does not report the kind"), "{error}");
}

#[test]
fn socket_memory_depends_on_the_stepping_where_a_model_is_many_chips() {
    let memory = |cpu: Cpu, name: &str| {
        let mut machine = Machine::discover(&Root::at("/nonexistent"));
        machine.cpu = Cpu { model_name: Some(name.to_owned()), ..cpu };
        SocketMemory::of(&machine).unwrap().map(|row| (row.name.as_str(), row.bytes_per_second() / 1e9))
    };
    assert_eq!(memory(x86(AMD, 25, 17, 1), "AMD EPYC 9654"), Some(("Genoa", 460.8)));
    assert_eq!(memory(x86(INTEL, 6, 85, 4), "Xeon Gold 6130"), Some(("Skylake-SP", 127.968)));
    assert_eq!(memory(x86(INTEL, 6, 85, 7), "Xeon Gold 6230"), Some(("Cascade Lake", 140.784)));
    assert_eq!(memory(x86(INTEL, 6, 85, 7), "Intel(R) Xeon(R) Platinum 9242"), None, "twelve channels");
    assert_eq!(memory(x86(INTEL, 6, 0x8f, 8), "Intel(R) Xeon(R) CPU Max 9460"), None, "HBM");
    assert_eq!(memory(x86(INTEL, 6, 0x3f, 4), "Intel(R) Xeon(R) CPU E7-8880 v3"), None, "memory buffers");
    let granite_rapids = |name: &str| memory(x86(INTEL, 6, 0xad, 1), name);
    assert_eq!(granite_rapids("Intel(R) Xeon(R) 6980P"), Some(("Granite Rapids, 6900P", 844.8)));
    assert_eq!(granite_rapids("Intel(R) Xeon(R) 6787P"), Some(("Granite Rapids, 6700P and 6500P", 512.0)));
    assert_eq!(memory(x86(AMD, 25, 97, 2), "AMD Ryzen 9 7950X"), None);
    let name = |cpu: Cpu, name: &str| memory(cpu, name).map(|(row, _)| row);
    for (model, xeon, row, others) in [
        (0x3e, "CPU E5-2680 v2", "Ivy Bridge-EP", ["Core(TM) i7-4930K CPU", "Xeon(R) CPU E5-2430 v2"]),
        (0x3f, "CPU E5-2666 v3", "Haswell-EP", ["Core(TM) i7-5960X CPU", "Xeon(R) CPU E5-1660 v3"]),
        (0x4f, "CPU E5-2686 v4", "Broadwell-EP", ["Core(TM) i7-6900K CPU", "Xeon(R) CPU E7-8880 v4"]),
        (0x55, "Gold 6130 CPU", "Skylake-SP", ["Core(TM) i9-7980XE CPU", "Xeon(R) W-2195 CPU"]),
        (0x55, "Gold 6130 CPU", "Skylake-SP", ["Xeon(R) D-2183IT CPU", "Xeon(R) W-3175X CPU"]),
        (0x8f, "Platinum 8488C", "Sapphire Rapids", ["Xeon(R) w9-3495X", "Xeon(R) w5-2465X"]),
        (0xad, "6975P-C", "Granite Rapids, 6975P-C", ["Xeon(R) 698X", "Xeon(R) 656"]),
        (0xad, "6520P", "Granite Rapids, 6700P and 6500P", ["Xeon(R) 674X", "Xeon(R) 654"]),
    ] {
        assert_eq!(name(x86(INTEL, 6, model, 4), &format!("Intel(R) Xeon(R) {xeon}")), Some(row));
        for other in others {
            assert_eq!(name(x86(INTEL, 6, model, 4), &format!("Intel(R) {other}")), None, "{other}");
        }
    }
    assert_eq!(name(x86(INTEL, 6, 85, 7), "Intel(R) Core(TM) i9-10980XE CPU"), None);
    assert_eq!(memory(x86(AMD, 25, 0xa0, 2), "AMD EPYC 8324P 32-Core Processor"), Some(("Siena", 230.4)));
    assert_eq!(memory(x86(AMD, 25, 0xa0, 2), "AMD EPYC Embedded 8534P"), Some(("Siena", 230.4)));
    assert_eq!(memory(x86(AMD, 25, 0xa0, 2), "AMD EPYC 9754 128-Core Processor"), Some(("Bergamo", 460.8)));
    assert_eq!(name(x86(AMD, 23, 0x31, 0), "AMD EPYC 7742 64-Core Processor"), Some("Rome"));
    assert_eq!(name(x86(AMD, 23, 0x31, 0), "AMD Ryzen Threadripper 3970X 32-Core Processor"), None);
    assert_eq!(name(x86(AMD, 23, 1, 2), "AMD EPYC 3251 8-Core Processor"), None);
    assert_eq!(name(x86(AMD, 23, 1, 2), "AMD EPYC 7571"), Some("Naples"));
}

#[test]
fn socket_memory_depends_on_the_maker_where_a_core_is_in_several_chips() {
    let mut graviton = Machine::discover(&Root::at("/nonexistent"));
    graviton.cpu = arm(0xd4f);
    assert!(SocketMemory::of(&graviton).unwrap().is_none(), "this core is in several chips");
    graviton.virtualisation.product = Some("r8g.4xlarge".to_owned());
    assert!(SocketMemory::of(&graviton).unwrap().is_none(), "a name that anybody can choose");
    graviton.virtualisation.system_vendor = Some("Amazon EC2".to_owned());
    assert_eq!(SocketMemory::of(&graviton).unwrap().map(|row| row.name.as_str()), Some("Graviton4"));
    let mut altra = Machine::discover(&Root::at("/nonexistent"));
    altra.cpu = arm(0xd0c);
    for (vendor, expected) in [("Google", Some("Ampere Altra")), ("a maker of boards", None)] {
        altra.virtualisation.system_vendor = Some(vendor.to_owned());
        assert_eq!(SocketMemory::of(&altra).unwrap().map(|row| row.name.as_str()), expected, "{vendor}");
    }
}

#[test]
fn a_name_without_a_number_may_hide_a_chip_that_providers_show_as_this_one() {
    for name in ["masked-icelake-as-skylake-1", "masked-icelake-as-cascadelake-1"] {
        let machine = Fixture::open(name).unwrap().machine();
        let core = Core::of(&machine, 0).unwrap();
        assert_eq!(core.identity, Identity::Inferred, "{name}");
        assert!(core.rows().any(|row| row.name == "Ice Lake-SP"), "{name}: {}", core.name);
        assert_eq!((core.number("aes"), core.number("stores")), (None, None), "{name}: they differ");
        assert!(SocketMemory::of(&machine).is_err(), "{name}");
    }
    let mut named = Fixture::open("masked-icelake-as-skylake-1").unwrap().machine();
    named.cpu.model_name = Some("Intel(R) Xeon(R) Platinum 8163 CPU @ 2.50GHz".to_owned());
    assert_eq!(Core::of(&named, 0).unwrap().identity, Identity::Documented);
}

#[test]
fn clouds_parts_of_granite_rapids_have_their_own_memory() {
    let metal = Fixture::open("google-metal-seen-as-kvm").unwrap().machine();
    let row = SocketMemory::of(&metal).unwrap().unwrap();
    assert_eq!((row.channels, row.megatransfers), (12, 6400));
}

fn measured(ability: Ability, isa: &str, bits: u32, measured: f64) -> Capability {
    Capability { cpu: 0, ability, isa: isa.to_owned(), bits, measured }
}

#[test]
fn a_core_that_does_more_than_its_row_is_not_of_the_row() {
    // A template shows Haswell's numbers: additions at half the host's rate.
    let mut haswell = x86(INTEL, 6, 63, 2);
    assert_eq!(name(&haswell), "Haswell");
    haswell.capabilities = vec![measured(Ability::Add, "avx2", 256, 1.01)];
    assert_eq!(name(&haswell), "Haswell");
    haswell.capabilities = vec![measured(Ability::Add, "avx2", 256, 0.4)];
    assert_eq!(name(&haswell), "Haswell", "a neighbour slows a core down");
    haswell.capabilities = vec![measured(Ability::Fma, "avx2", 256, 2.05)];
    assert_eq!(name(&haswell), "Haswell", "one reading is not precise");
    haswell.capabilities = vec![measured(Ability::Add, "avx2", 256, 1.99)];
    let why = Core::seen(&haswell, false, 0).unwrap_err().to_string();
    assert!(why.contains("starts 1.00 additions of 256 bits in a cycle, and 1.99 were measured"), "{why}");
    let mut zen5 = x86(AMD, 26, 36, 0);
    assert_eq!(name(&zen5), "Zen 5 (256-bit)");
    zen5.capabilities = vec![measured(Ability::Fma, "avx512", 512, 1.997)];
    assert_eq!(name(&zen5), "Zen 5");
    // Firmware has disabled the 512-bit paths; a busy neighbour slows both widths down.
    let mut narrowed = x86(AMD, 26, 68, 0);
    let both = |of_256: f64, of_512: f64| {
        vec![measured(Ability::Fma, "avx2", 256, of_256), measured(Ability::Fma, "avx512", 512, of_512)]
    };
    let seen = |cpu: &Cpu| Core::seen(cpu, false, 0).map(|core| (core.name, core.identity));
    narrowed.capabilities = both(1.0, 1.0);
    assert_eq!(seen(&narrowed), Ok(("Zen 5".to_owned(), Identity::Documented)));
    narrowed.capabilities = both(1.99, 1.0);
    assert_eq!(seen(&narrowed), Ok(("Zen 5 (256-bit)".to_owned(), Identity::Inferred)));
}
