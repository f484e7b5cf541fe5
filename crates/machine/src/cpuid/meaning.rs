use super::CpuidLeaves;
use crate::cpu::CacheKind;
use plimsoll_units::text::shown;

/// Vendor, family, model and stepping, extended parts included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// `GenuineIntel`, `AuthenticAMD`, …
    pub vendor: String,
    /// Family.
    pub family: u32,
    /// Model.
    pub model: u32,
    /// Stepping.
    pub stepping: u32,
}

/// Properties of a cache from CPUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Level; 1 is nearest to the core.
    pub level: u8,
    /// Contents of the cache.
    pub kind: CacheKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Associativity.
    pub ways: u32,
    /// Line size in bytes.
    pub line_bytes: u32,
}

const EAX: usize = 0;
const EBX: usize = 1;
const ECX: usize = 2;
const EDX: usize = 3;

/// Features that identify chips: leaf, subleaf, register, bit and Linux name; without those that a
/// hypervisor emulates or sets itself (x2apic, umip, erms, arch_capabilities).
pub(super) const FEATURES: &[(u32, u32, usize, u32, &str)] = &[
    (0x1, 0, ECX, 12, "fma"),
    (0x1, 0, ECX, 19, "sse4_1"),
    (0x1, 0, ECX, 20, "sse4_2"),
    (0x1, 0, ECX, 22, "movbe"),
    (0x1, 0, ECX, 25, "aes"),
    (0x1, 0, ECX, 28, "avx"),
    (0x1, 0, ECX, 29, "f16c"),
    (0x1, 0, ECX, 30, "rdrand"),
    (0x1, 0, ECX, 31, "hypervisor"),
    (0x7, 0, EBX, 3, "bmi1"),
    (0x7, 0, EBX, 4, "hle"),
    (0x7, 0, EBX, 5, "avx2"),
    (0x7, 0, EBX, 8, "bmi2"),
    (0x7, 0, EBX, 11, "rtm"),
    (0x7, 0, EBX, 14, "mpx"),
    (0x7, 0, EBX, 16, "avx512f"),
    (0x7, 0, EBX, 17, "avx512dq"),
    (0x7, 0, EBX, 18, "rdseed"),
    (0x7, 0, EBX, 19, "adx"),
    (0x7, 0, EBX, 21, "avx512ifma"),
    (0x7, 0, EBX, 23, "clflushopt"),
    (0x7, 0, EBX, 24, "clwb"),
    (0x7, 0, EBX, 26, "avx512pf"),
    (0x7, 0, EBX, 27, "avx512er"),
    (0x7, 0, EBX, 28, "avx512cd"),
    (0x7, 0, EBX, 29, "sha_ni"),
    (0x7, 0, EBX, 30, "avx512bw"),
    (0x7, 0, EBX, 31, "avx512vl"),
    (0x7, 0, ECX, 1, "avx512vbmi"),
    (0x7, 0, ECX, 3, "pku"),
    (0x7, 0, ECX, 5, "waitpkg"),
    (0x7, 0, ECX, 6, "avx512_vbmi2"),
    (0x7, 0, ECX, 8, "gfni"),
    (0x7, 0, ECX, 9, "vaes"),
    (0x7, 0, ECX, 10, "vpclmulqdq"),
    (0x7, 0, ECX, 11, "avx512_vnni"),
    (0x7, 0, ECX, 12, "avx512_bitalg"),
    (0x7, 0, ECX, 14, "avx512_vpopcntdq"),
    (0x7, 0, ECX, 22, "rdpid"),
    (0x7, 0, ECX, 25, "cldemote"),
    (0x7, 0, ECX, 27, "movdiri"),
    (0x7, 0, ECX, 28, "movdir64b"),
    (0x7, 0, EDX, 8, "avx512_vp2intersect"),
    (0x7, 0, EDX, 14, "serialize"),
    (0x7, 0, EDX, 15, "hybrid_cpu"),
    (0x7, 0, EDX, 16, "tsxldtrk"),
    (0x7, 0, EDX, 22, "amx_bf16"),
    (0x7, 0, EDX, 23, "avx512_fp16"),
    (0x7, 0, EDX, 24, "amx_tile"),
    (0x7, 0, EDX, 25, "amx_int8"),
    (0x7, 1, EAX, 0, "sha512"),
    (0x7, 1, EAX, 1, "sm3"),
    (0x7, 1, EAX, 2, "sm4"),
    (0x7, 1, EAX, 4, "avx_vnni"),
    (0x7, 1, EAX, 5, "avx512_bf16"),
    (0x7, 1, EAX, 7, "cmpccxadd"),
    (0x7, 1, EAX, 21, "amx_fp16"),
    (0x7, 1, EAX, 23, "avx_ifma"),
    (0x7, 1, EDX, 4, "avx_vnni_int8"),
    (0x7, 1, EDX, 5, "avx_ne_convert"),
    (0x7, 1, EDX, 8, "amx_complex"),
    (0x7, 1, EDX, 10, "avx_vnni_int16"),
    (0x7, 1, EDX, 14, "prefetchi"),
    (0x7, 1, EDX, 19, "avx10"),
    (0x7, 1, EDX, 21, "apx_f"),
    (0x8000_0001, 0, ECX, 6, "sse4a"),
    (0x8000_0001, 0, ECX, 16, "fma4"),
    (0x8000_0008, 0, EBX, 0, "clzero"),
];

/// Returns whether `name`, a Linux name such as `avx2`, is one of the x86 features by which chips
/// are identified; those that a hypervisor emulates or sets itself are not.
pub fn is_identifying_feature(name: &str) -> bool {
    FEATURES.iter().any(|feature| feature.4 == name)
}

impl CpuidLeaves {
    fn bit(&self, leaf: u32, subleaf: u32, register: usize, bit: u32) -> bool {
        let value = self.get(leaf, subleaf).and_then(|registers| registers.get(register).copied());
        value.is_some_and(|value| value >> bit & 1 == 1)
    }

    /// Returns the Linux names of the identifying features that these CPUs have.
    pub fn features(&self) -> impl Iterator<Item = &'static str> + '_ {
        let has = |f: &&(u32, u32, usize, u32, &'static str)| self.bit(f.0, f.1, f.2, f.3);
        FEATURES.iter().filter(has).map(|feature| feature.4)
    }

    /// Returns whether the chip has several kinds of core (leaf 7, EDX bit 15); false if unknown.
    pub fn is_hybrid(&self) -> bool {
        self.bit(0x7, 0, EDX, 15)
    }

    /// Returns leaf 0x1A, EAX: core kind and model ID of the microarchitecture; `None` if 0.
    pub fn native_model(&self) -> Option<u32> {
        self.get(0x1a, 0).map(|registers| registers[EAX]).filter(|&model| model != 0)
    }

    /// Returns whether the floating-point unit is 512 bits wide (AMD, leaf 8000_001A, EAX: bit 0 is
    /// 128, bit 2 is 256, bit 3 is 512 bits); `None` if unknown. KVM clears bit 3 for guests
    /// (arch/x86/kvm/cpuid.c), so no width bit means 512 bits.
    pub fn is_512_wide(&self) -> Option<bool> {
        const NARROWER: u32 = 0b0101;
        const WIDE_TOPOLOGY_BIT: u32 = 0b1000;
        let eax = self.get(0x8000_001a, 0).map(|registers| registers[EAX]).filter(|&eax| eax != 0)?;
        Some(eax & WIDE_TOPOLOGY_BIT != 0 || eax & NARROWER == 0)
    }

    /// Returns the highest clock in Hz (leaf 0x16); `None` if not stated.
    pub fn max_hz(&self) -> Option<u64> {
        let [_, mhz, ..] = self.get(0x16, 0)?;
        Some(u64::from(mhz & 0xffff) * 1_000_000).filter(|&hz| hz > 0)
    }

    /// Returns vendor, family, model and stepping; `None` if leaves 0 and 1 were not queried.
    pub fn signature(&self) -> Option<Signature> {
        let [_, ebx, ecx, edx] = self.get(0, 0)?;
        let vendor: Vec<u8> = [ebx, edx, ecx].into_iter().flat_map(u32::to_le_bytes).collect();
        let [eax, ..] = self.get(1, 0)?;
        let field = |shift: u32, bits: u32| eax >> shift & ((1 << bits) - 1);
        let (base, low) = (field(8, 4), field(4, 4));
        Some(Signature {
            vendor: shown(String::from_utf8_lossy(&vendor).trim_matches(['\0', ' '])),
            family: if base == 0xf { base + field(20, 8) } else { base },
            model: if base >= 6 { low | field(16, 4) << 4 } else { low },
            stepping: field(0, 4),
        })
    }

    /// Returns the hypervisor's name (leaf 0x4000_0000), such as `KVMKVMKVM`; `None` if empty.
    pub fn hypervisor(&self) -> Option<String> {
        let [_, ebx, ecx, edx] = self.get(0x4000_0000, 0)?;
        let bytes: Vec<u8> = [ebx, ecx, edx].into_iter().flat_map(u32::to_le_bytes).collect();
        let name = shown(String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']));
        Some(name).filter(|name| !name.is_empty())
    }

    /// Returns the processor's brand name with single blanks; `None` if empty.
    pub fn name(&self) -> Option<String> {
        let leaves = [0x8000_0002, 0x8000_0003, 0x8000_0004];
        let words: Vec<u32> = leaves.into_iter().filter_map(|leaf| self.get(leaf, 0)).flatten().collect();
        let bytes: Vec<u8> =
            words.into_iter().flat_map(u32::to_le_bytes).take_while(|&byte| byte != 0).collect();
        let text = String::from_utf8_lossy(&bytes);
        let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(shown(&name)).filter(|name| !name.is_empty())
    }

    /// Returns the plausible caches of leaf 8000_001D (AMD) or else 4 (Intel); empty without both.
    pub fn caches(&self) -> Vec<Geometry> {
        let amd = self.leaves.iter().any(|l| l.leaf == 0x8000_001d);
        let leaf = if amd { 0x8000_001d } else { 0x4 };
        self.leaves.iter().filter(|l| l.leaf == leaf).filter_map(|l| geometry(l.registers)).collect()
    }
}

/// Largest plausible cache in bytes: larger ones are invented by a hypervisor.
const MAX_CACHE_BYTES: u64 = 1 << 40;

fn geometry([eax, ebx, ecx, _]: [u32; 4]) -> Option<Geometry> {
    let field = |value: u32, shift: u32, bits: u32| value >> shift & ((1 << bits) - 1);
    let kind = match field(eax, 0, 5) {
        1 => CacheKind::Data,
        2 => CacheKind::Instruction,
        3 => CacheKind::Unified,
        _ => return None,
    };
    let (ways, partitions, line) = (field(ebx, 22, 10) + 1, field(ebx, 12, 10) + 1, field(ebx, 0, 12) + 1);
    let bytes = (u64::from(ways) * u64::from(partitions) * u64::from(line)).checked_mul(u64::from(ecx) + 1);
    let bytes = bytes.filter(|&bytes| bytes <= MAX_CACHE_BYTES)?;
    Some(Geometry { level: u8::try_from(field(eax, 5, 3)).ok()?, kind, bytes, ways, line_bytes: line })
}
