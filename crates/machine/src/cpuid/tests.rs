use super::*;
use crate::cpu::CacheKind;
use proptest::prelude::*;

const DUMP: &str = "CPU 0:
   0x00000000 0x00: eax=0x00000020 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69
   0x00000001 0x00: eax=0x000806f8 ebx=0x00100800 ecx=0xffffffff edx=0x0f8bfbff
   0x00000003 0x00: eax=0x12345678 ebx=0x00000000 ecx=0x12345678 edx=0x12345678
   0x00000004 0x00: eax=0x00004121 ebx=0x02c0003f ecx=0x0000003f edx=0x00000000
   0x00000004 0x01: eax=0x00004122 ebx=0x01c0003f ecx=0x0000003f edx=0x00000000
   0x00000004 0x02: eax=0x00004143 ebx=0x03c0003f ecx=0x000007ff edx=0x00000000
   0x00000004 0x04: eax=0x00000000 ebx=0x00000000 ecx=0x00000000 edx=0x00000000
   0x0000001a 0x00: eax=0x00000000 ebx=0x00000000 ecx=0x00000000 edx=0x00000000
CPU 1:
   0x00000000 0x00: eax=0x00000020 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69
   0x00000001 0x00: eax=0x000806f8 ebx=0x01100800 ecx=0xf7ffffff edx=0x0f8bfbff
   0x00000004 0x00: eax=0x00004121 ebx=0x02c0003f ecx=0x0000003f edx=0x00000000
   0x00000004 0x01: eax=0x00004122 ebx=0x01c0003f ecx=0x0000003f edx=0x00000000
   0x00000004 0x02: eax=0x00004143 ebx=0x03c0003f ecx=0x000007ff edx=0x00000000
   0x0000001a 0x00: eax=0x00000000 ebx=0x00000000 ecx=0x00000000 edx=0x00000000
";

#[test]
fn what_the_cpuid_tool_prints_is_read_without_what_tells_cpus_apart() {
    let cpuid = parse(DUMP).unwrap();
    assert_eq!(cpuid.0.len(), 1, "the CPUs differ in their APIC numbers alone");
    assert_eq!(cpuid.cpus(), "0-1".parse().unwrap());
    let answers = cpuid.of(1).unwrap();
    let signature = answers.signature().unwrap();
    assert_eq!((signature.vendor.as_str(), signature.family, signature.model), ("GenuineIntel", 6, 0x8f));
    assert_eq!(signature.stepping, 8);
    assert_eq!(answers.get(3, 0), None, "a serial number is not kept");
    assert_eq!(answers.native_model(), None);
    let caches = answers.caches();
    let of = |i: usize| {
        (caches[i].level, caches[i].kind, caches[i].size_bytes.unwrap() >> 10, caches[i].ways.unwrap())
    };
    assert_eq!(of(0), (1, CacheKind::Data, 48, 12));
    assert_eq!(of(1), (1, CacheKind::Instruction, 32, 8));
    assert_eq!(of(2), (2, CacheKind::Unified, 2048, 16));
    assert_eq!(caches.len(), 3);
}

#[test]
fn writing_and_reading_give_the_same() {
    let cpuid = parse(DUMP).unwrap();
    assert_eq!(parse(&write(&cpuid)).unwrap(), cpuid);
    let json = serde_json::to_string(&cpuid).unwrap();
    assert_eq!(serde_json::from_str::<Cpuid>(&json).unwrap(), cpuid);
    assert!(json.contains("0x00000001 0x00: eax=0x000806f8"), "{json}");
    let one = parse("CPU:\n   0x00000000 0x00: eax=0x1 ebx=0x2 ecx=0x3 edx=0x4\n").unwrap();
    assert_eq!(one.of(0).unwrap().get(0, 0), Some([1, 2, 3, 4]));
}

#[test]
fn a_line_of_another_format_is_named() {
    let stated = |text: &str| parse(text).unwrap_err().to_string();
    assert!(stated("CPU 0:\n   0x1 0x0: eax=0x1 ebx=0x2 ecx=0x3\n").starts_with("line 2 is \"0x1 0x0: eax"));
    assert!(stated("CPU x:\n").starts_with("line 1 is"));
    assert!(stated("CPU 9999:\n").starts_with("line 1 is"));
    assert_eq!(stated(""), "it holds no leaf");
    assert_eq!(stated("CPU 0:\n   0x3 0x0: eax=0x1 ebx=0x2 ecx=0x3 edx=0x4\n"), "it holds no leaf");
}

#[test]
fn this_machine_answers_where_it_is_an_x86() {
    let allowed = plimsoll_metal::affinity::allowed().unwrap().into_iter().collect();
    let cpuid = Cpuid::ask(&allowed);
    assert_eq!(cpuid.0.is_empty(), !cfg!(target_arch = "x86_64"));
    for answers in &cpuid.0 {
        assert!(answers.signature().is_some());
        assert!(answers.get(0x8000_0004, 0).is_none() || answers.name().is_some());
    }
    assert_eq!(parse(&write(&cpuid)).unwrap_or_default(), cpuid);
}

proptest! {
    #[test]
    fn any_text_and_any_registers_are_survived(
        text in "(CPU [0-9]{0,5}:|0x[0-9a-f]{1,9} 0x[0-9a-f]{1,3}: eax=0x[0-9a-f]{1,9}|.{0,40}|\n){0,20}",
        registers in prop::collection::vec((0..26_usize, 0_u32..4, any::<[u32; 4]>()), 0..40),
    ) {
        let _ = parse(&text);
        let known: Vec<u32> = identifying_leaves().collect();
        prop_assert_eq!(known.len(), 26);
        let leaf = |(i, subleaf, registers): (usize, u32, [u32; 4])| Leaf { leaf: known[i], subleaf, registers };
        let leaves: Vec<Leaf> = registers.into_iter().map(leaf).collect();
        let answers = CpuidLeaves { cpus: CpuSet::single(0), leaves };
        let _ = (answers.signature(), answers.name(), answers.caches(), answers.features().count());
        let _ = (answers.is_512_wide(), answers.native_model(), answers.max_hz());
    }
}

#[test]
fn whatever_a_hypervisor_says_is_a_number() {
    let huge = "CPU 0:\n   0x8000001d 0x00: eax=0x00000121 ebx=0xffffffff ecx=0xffffffff edx=0x0\n";
    assert_eq!(parse(huge).unwrap().of(0).unwrap().caches(), []);
    let many: String = (0..3 * MOST_KINDS)
        .map(|n| format!("CPU 0:\n   0x00000001 0x00: eax={n:#x} ebx=0x0 ecx=0x0 edx=0x0\n"))
        .collect();
    assert_eq!(parse(&many).unwrap().0.len(), MOST_KINDS);
}

#[test]
fn leaves_above_the_highest_are_no_evidence() {
    // An old QEMU with highest leaf 4, which the processor repeats above (libcpuid,
    // tests/intel/qemu).
    let text = "CPU 0:\n   0x00000000 0x00: eax=0x00000004 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n   \
        0x00000007 0x00: eax=0x0 ebx=0xffffffff ecx=0xffffffff edx=0xffffffff\n   \
        0x80000000 0x00: eax=0x80000001 ebx=0x0 ecx=0x0 edx=0x0\n   \
        0x8000001a 0x00: eax=0xf ebx=0x0 ecx=0x0 edx=0x0\n";
    let parsed = parse(text).unwrap();
    let leaves: Vec<u32> = parsed.of(0).unwrap().leaves.iter().map(|leaf| leaf.leaf).collect();
    assert_eq!(leaves, [0, 0x8000_0000]);
    let without_first = "CPU 0:\n   0x00000007 0x00: eax=0x0 ebx=0x1 ecx=0x0 edx=0x0\n";
    assert_eq!(parse(without_first).unwrap().of(0).unwrap().leaves.len(), 1);
}

#[test]
fn a_hypervisor_names_itself() {
    let named = |ebx: u32, ecx: u32, edx: u32| {
        let text = format!("CPU 0:\n   0x40000000 0x00: eax=0x0 ebx={ebx:#x} ecx={ecx:#x} edx={edx:#x}\n");
        parse(&text).unwrap().hypervisor()
    };
    assert_eq!(named(0x4b4d_564b, 0x564b_4d56, 0x4d).as_deref(), Some("KVMKVMKVM"));
    assert_eq!(named(0x6177_4d56, 0x4d56_6572, 0x6572_6177).as_deref(), Some("VMwareVMware"));
    assert_eq!(named(0, 0, 0), None);
}
