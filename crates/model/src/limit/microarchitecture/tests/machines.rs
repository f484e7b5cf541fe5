//! Identification of the machines in `tests/fixtures/machines/processors.toml`.

use plimsoll_machine::cpu::CoreKind;
use plimsoll_machine::cpuid::{CpuidLeaves, Leaf, with_features};
use plimsoll_machine::fixture::Fixture;
use plimsoll_machine::{Cpu, CpuSet, Cpuid, Machine};
use plimsoll_metal::kernel::rates;
use proptest::prelude::*;
use serde::Deserialize;

use super::super::table::{Microarchitecture, table};
use super::super::{Core, Identity};
use crate::place::spread_cpus;

const FILE: &str = include_str!("../../../../tests/fixtures/machines/processors.toml");

#[derive(Deserialize)]
struct File {
    machine: Vec<Described>,
}

/// A machine and its true chip.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    source: String,
    vendor: String,
    numbers: [u32; 3],
    shown: String,
    features: String,
    #[serde(default)]
    caches: String,
    #[serde(default)]
    native_model: u32,
    #[serde(default)]
    data_path: u32,
    chip: String,
    identity: String,
    kind: Option<String>,
    /// Whether something other than CPUID shows a hypervisor.
    #[serde(default)]
    in_guest: bool,
}

fn described() -> Vec<Described> {
    toml::from_str::<File>(FILE).unwrap().machine
}

/// Encodes `L1d:32/8` (KiB and ways) as subleaf `number` of leaf 4.
fn cache(number: u32, text: &str, leaf: u32) -> Leaf {
    let (name, size) = text.split_once(':').unwrap();
    let (kib, ways) = size.split_once('/').unwrap();
    let (kib, ways): (u32, u32) = (kib.parse().unwrap(), ways.parse().unwrap());
    let kind = match &name[2..] {
        "d" => 1,
        "i" => 2,
        _ => 3,
    };
    let level: u32 = name[1..2].parse().unwrap();
    let sets = kib * 16 / ways;
    assert_eq!(sets * ways, kib * 16, "{text}");
    Leaf { leaf, subleaf: number, registers: [level << 5 | kind, (ways - 1) << 22 | 63, sets - 1, 0] }
}

impl Described {
    fn cpu(&self) -> Cpu {
        let mut leaves = with_features(self.features.split_whitespace());
        let leaf = if self.vendor == "GenuineIntel" { 0x4 } else { 0x8000_001d };
        leaves
            .extend(self.caches.split_whitespace().zip(0..).map(|(text, number)| cache(number, text, leaf)));
        let one = |leaf: u32, eax: u32| Leaf { leaf, subleaf: 0, registers: [eax, 0, 0, 0] };
        leaves.extend([one(0x1a, self.native_model), one(0x8000_001a, self.data_path)]);
        let cpus = CpuSet::single(0);
        let kinds = self.kind.iter().map(|name| CoreKind { name: name.clone(), cpus: cpus.clone() });
        let [family, model, stepping] = self.numbers;
        let (model_name, kinds) = (Some(self.shown.clone()), kinds.collect());
        let cpuid = Cpuid(vec![CpuidLeaves { cpus: cpus.clone(), leaves }]);
        let numbered = super::x86(&self.vendor, family, model, stepping);
        Cpu { model_name, kinds, cpuid, allowed: cpus, ..numbered }
    }

    fn row(&self) -> Option<&'static Microarchitecture> {
        table().unwrap().microarchitecture.iter().find(|row| row.name == self.chip)
    }
}

/// Asserts that every rate given for a machine with the chip `truth` is the true one.
fn no_wrong_rate(core: &Core, cpu: &Cpu, truth: &Microarchitecture, what: &str) {
    for of in rates() {
        for bits in [128, 256, 512, 8192] {
            let (Ok(given), Some(right)) = (core.per_cycle(of, bits, cpu), truth.rate(of, bits)) else {
                continue;
            };
            assert_eq!(given, right, "{what}: {of:?} at {bits} bits, as {}", core.name);
        }
    }
}

#[test]
fn every_described_machine_is_what_its_source_says() {
    let all = described();
    assert!(all.len() >= 60);
    for machine in &all {
        let (cpu, what) = (machine.cpu(), format!("{} ({})", machine.name, machine.source));
        let core = match Core::seen(&cpu, machine.in_guest, 0) {
            Ok(core) => core,
            Err(why) => {
                assert_eq!(machine.identity, "unknown", "{what}: {why}");
                continue;
            }
        };
        let truth = machine.row().unwrap_or_else(|| panic!("{what}: is unknown, and found as {}", core.name));
        match core.identity {
            Identity::Documented => {
                assert_eq!(machine.identity, "documented", "{what}");
                assert_eq!((&core.name, &core.note), (&machine.chip, &None), "{what}");
            }
            Identity::Inferred => {
                assert_eq!(machine.identity, "inferred", "{what}: {:?}", core.note);
                assert!(core.rows().any(|row| row.name == truth.name), "{what}: {}", core.name);
                assert!(core.note.as_ref().is_some_and(|note| note.contains(" by features and caches: ")));
            }
        }
        no_wrong_rate(&core, &cpu, truth, &what);
    }
}

#[test]
fn what_is_inferred_says_what_from() {
    let find = |name: &str| described().into_iter().find(|machine| machine.name == name).unwrap().cpu();
    let note = |name: &str| Core::seen(&find(name), false, 0).unwrap().note.unwrap();
    assert_eq!(
        note("a guest whose model number says Rocket Lake"),
        "Granite Rapids by features and caches: CPUID's family and model say Rocket Lake, but that cannot have amx_bf16"
    );
    assert_eq!(
        note("Firecracker on Intel Icelake, T2"),
        "Ice Lake-SP by features and caches: CPUID's family and model say Haswell, but that has no level 1 data cache of \
         48 KiB in 12 ways"
    );
    let made_up = "the hypervisor shows a made-up processor, AMD EPYC Processor";
    assert!(note("QEMU -cpu EPYC on a Milan").contains(made_up));
}

#[test]
fn a_chip_that_contradicts_its_row_on_bare_metal_is_unknown() {
    let bare =
        described().into_iter().find(|machine| machine.chip == "Zen 4" && machine.identity == "documented");
    let mut machine = bare.unwrap();
    machine.features = format!("{} amx_tile", machine.features.replace("hypervisor", ""));
    let why = Core::seen(&machine.cpu(), false, 0).unwrap_err().to_string();
    assert!(why.contains("say Zen 4, but that cannot have amx_tile; run plimsoll machine --save"), "{why}");
}

/// Returns number and name of each allowed CPU of a saved machine, in the order of placement.
fn placed(name: &str) -> (Machine, Vec<(usize, String)>) {
    let machine = Fixture::open(name).unwrap().machine();
    let order = spread_cpus(&machine, machine.cpu.allowed.len());
    let cores = order.into_iter().map(|cpu| (cpu, Core::of(&machine, cpu).unwrap().name)).collect();
    (machine, cores)
}

#[test]
fn mixed_cores_are_what_they_are_and_the_quick_ones_come_first() {
    let (machine, cores) = placed("gb10");
    assert_eq!(machine.virtualisation.is_virtual, Some(false));
    assert_eq!(cores[0], (15, "Cortex-X925".to_owned()));
    let large = cores.iter().position(|(_, name)| name == "Cortex-A725");
    assert_eq!((large, cores.len()), (Some(10), 20));

    let (machine, cores) = placed("raspberry-pi-5");
    assert_eq!(machine.virtualisation.is_virtual, Some(false));
    assert_eq!(cores, [0, 1, 2, 3].map(|cpu| (cpu, "Cortex-A76".to_owned())));

    let (machine, cores) = placed("hybrid-offline-cpu0");
    assert_eq!(machine.cpu.allowed.to_string(), "1-4");
    let names: Vec<&str> = cores.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["Redwood Cove", "Crestmont", "Crestmont", "Crestmont"]);
}

/// QEMU's processor models (`qemu-system-x86_64 -cpu help`; target/i386/cpu.c) with family, model
/// and stepping; KVM shows them under the host's vendor.
const MODELS: [(&str, [u32; 3]); 27] = [
    ("QEMU Virtual CPU version 2.5+", [15, 107, 1]),
    ("Common KVM processor", [15, 6, 1]),
    ("Intel Celeron_4x0 (Conroe/Merom Class Core 2)", [6, 15, 3]),
    ("Intel Core 2 Duo P9xxx (Penryn Class Core 2)", [6, 23, 3]),
    ("Intel Core i7 9xx (Nehalem Class Core i7)", [6, 26, 3]),
    ("Westmere E56xx/L56xx/X56xx (Nehalem-C)", [6, 44, 1]),
    ("Intel Xeon E312xx (Sandy Bridge)", [6, 42, 1]),
    ("Intel Xeon E3-12xx v2 (Ivy Bridge)", [6, 58, 9]),
    ("Intel Core Processor (Haswell, no TSX)", [6, 60, 1]),
    ("Intel Core Processor (Broadwell)", [6, 61, 2]),
    ("Intel Core Processor (Skylake)", [6, 94, 3]),
    ("Intel Xeon Processor (Skylake)", [6, 85, 4]),
    ("Intel Xeon Processor (Cascadelake)", [6, 85, 6]),
    ("Intel Xeon Processor (Cooperlake)", [6, 85, 10]),
    ("Intel Xeon Processor (Icelake)", [6, 134, 0]),
    ("Intel Xeon Processor (SapphireRapids)", [6, 143, 4]),
    ("Intel Xeon Processor (GraniteRapids)", [6, 173, 0]),
    ("Intel Xeon Processor (SierraForest)", [6, 175, 0]),
    ("Intel Atom Processor (Denverton)", [6, 95, 1]),
    ("Intel Atom Processor (SnowRidge)", [6, 134, 1]),
    ("Intel Xeon Phi Processor (Knights Mill)", [6, 133, 0]),
    ("AMD EPYC Processor", [23, 1, 2]),
    ("AMD EPYC-Rome Processor", [23, 49, 0]),
    ("AMD EPYC-Milan Processor", [25, 1, 1]),
    ("AMD EPYC-Genoa Processor", [25, 17, 0]),
    ("AMD EPYC-Turin Processor", [26, 0, 0]),
    ("Hygon Dhyana Processor", [24, 0, 1]),
];

/// Returns the machines with one kind of core and a row whose CPUID was recorded.
fn real() -> Vec<Described> {
    let is_real = |m: &Described| m.source.starts_with("InstLatx64") && m.row().is_some() && m.kind.is_none();
    described().into_iter().filter(is_real).collect()
}

proptest! {
    /// With any chip's numbers on any other chip, a given rate is the host's.
    #[test]
    fn another_chips_numbers_never_give_a_wrong_rate(a in 0_usize..200, b in 0_usize..200) {
        let real = real();
        let (mask, host) = (&real[a % real.len()], &real[b % real.len()]);
        prop_assume!(mask.vendor == host.vendor && host.caches.split_whitespace().count() > 2);
        let features = format!("{} hypervisor", host.features);
        let shown = "Intel(R) Xeon(R) Processor".to_owned();
        let guest = Described { numbers: mask.numbers, features, shown, ..host.clone() };
        let cpu = guest.cpu();
        if let Ok(core) = Core::seen(&cpu, true, 0) {
            no_wrong_rate(&core, &cpu, host.row().unwrap(), &format!("{} as {}", host.name, mask.name));
        }
    }

    /// With what QEMU makes up (names and numbers of its models, its own or the host's caches, any
    /// of the host's features) on any chip, a given rate is the host's, and is documented only if
    /// the chip is named.
    #[test]
    fn no_model_of_a_hypervisor_gives_a_wrong_rate(
        a in 0_usize..MODELS.len(), b in 0_usize..200, keep in any::<u64>(), caches in 0_usize..3,
    ) {
        let real = real();
        let (host, (shown, numbers)) = (&real[b % real.len()], MODELS[a]);
        let kept = host.features.split_whitespace().zip(0_u64..).filter(|(_, at)| keep >> (at % 64) & 1 == 1);
        let features: String = kept.map(|(name, _)| format!("{name} ")).collect();
        let features = features + "hypervisor";
        let caches = [host.caches.as_str(), "L1d:32/8 L1i:32/8 L2:4096/16 L3:16384/16", ""][caches].to_owned();
        let guest = Described { numbers, features, caches, shown: shown.to_owned(), native_model: 0, ..host.clone() };
        let cpu = guest.cpu();
        if let Ok(core) = Core::seen(&cpu, true, 0) {
            let what = format!("{} as {shown}", host.name);
            prop_assert!(core.identity == Identity::Inferred || core.name == host.chip, "{what}: {}", core.name);
            no_wrong_rate(&core, &cpu, host.row().unwrap(), &what);
        }
    }

    #[test]
    fn any_numbers_and_features_are_survived(
        family in 0_u32..0x30, model in 0_u32..0x110, at in 0_usize..200, drop in 0_usize..60, shown in ".{0,30}",
    ) {
        let all = described();
        let mut machine = all[at % all.len()].clone();
        machine.numbers = [family, model, 1];
        machine.shown = shown;
        let kept: Vec<&str> = machine.features.split_whitespace().skip(drop).collect();
        machine.features = kept.join(" ");
        let cpu = machine.cpu();
        if let Ok(core) = Core::seen(&cpu, machine.in_guest, 0) {
            for of in rates() {
                let _ = core.per_cycle(of, 256, &cpu);
            }
        }
    }
}
