use super::CpuidLeaves;
use crate::CpuSet;
use crate::cpu::{CacheKind, CpuCache};
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

const EAX: usize = 0;
const EBX: usize = 1;
const ECX: usize = 2;
const EDX: usize = 3;

/// Features that identify chips: leaf, subleaf, register, and Linux names with their bits; without
/// those that a hypervisor emulates or sets itself (x2apic, umip, erms, arch_capabilities).
const FEATURES: &[(u32, u32, usize, &str)] = &[
    (0x1, 0, ECX, "fma:12 sse4_1:19 sse4_2:20 movbe:22 aes:25 avx:28 f16c:29 rdrand:30 hypervisor:31"),
    (0x7, 0, EBX, "bmi1:3 hle:4 avx2:5 bmi2:8 rtm:11 mpx:14 avx512f:16 avx512dq:17 rdseed:18 adx:19"),
    (0x7, 0, EBX, "avx512ifma:21 clflushopt:23 clwb:24 avx512pf:26 avx512er:27 avx512cd:28 sha_ni:29"),
    (0x7, 0, EBX, "avx512bw:30 avx512vl:31"),
    (0x7, 0, ECX, "avx512vbmi:1 pku:3 waitpkg:5 avx512_vbmi2:6 gfni:8 vaes:9 vpclmulqdq:10 avx512_vnni:11"),
    (0x7, 0, ECX, "avx512_bitalg:12 avx512_vpopcntdq:14 rdpid:22 cldemote:25 movdiri:27 movdir64b:28"),
    (0x7, 0, EDX, "avx512_vp2intersect:8 serialize:14 hybrid_cpu:15 tsxldtrk:16 amx_bf16:22"),
    (0x7, 0, EDX, "avx512_fp16:23 amx_tile:24 amx_int8:25"),
    (0x7, 1, EAX, "sha512:0 sm3:1 sm4:2 avx_vnni:4 avx512_bf16:5 cmpccxadd:7 amx_fp16:21 avx_ifma:23"),
    (0x7, 1, EDX, "avx_vnni_int8:4 avx_ne_convert:5 amx_complex:8 avx_vnni_int16:10 prefetchi:14 avx10:19"),
    (0x7, 1, EDX, "apx_f:21"),
    (0x8000_0001, 0, ECX, "sse4a:6 fma4:16"),
    (0x8000_0008, 0, EBX, "clzero:0"),
];

/// Returns leaf, subleaf, register (0 is EAX), bit and Linux name of each feature in [`FEATURES`].
pub(super) fn features() -> impl Iterator<Item = (u32, u32, usize, u32, &'static str)> {
    FEATURES.iter().flat_map(|&(leaf, subleaf, register, bits)| {
        let bits = bits.split(' ').filter_map(|word| word.split_once(':'));
        bits.filter_map(move |(name, bit)| Some((leaf, subleaf, register, bit.parse().ok()?, name)))
    })
}

/// Returns whether `name`, a Linux name such as `avx2`, is one of the x86 features by which chips
/// are identified; those that a hypervisor emulates or sets itself are not.
pub fn is_identifying_feature(name: &str) -> bool {
    features().any(|feature| feature.4 == name)
}

impl CpuidLeaves {
    fn bit(&self, leaf: u32, subleaf: u32, register: usize, bit: u32) -> bool {
        let value = self.get(leaf, subleaf).and_then(|registers| registers.get(register).copied());
        value.is_some_and(|value| value >> bit & 1 == 1)
    }

    /// Returns the Linux names (`avx2`) of the chip-identifying features that these CPUs have.
    pub fn features(&self) -> impl Iterator<Item = &'static str> + '_ {
        features().filter(|f| self.bit(f.0, f.1, f.2, f.3)).map(|feature| feature.4)
    }

    /// Returns whether the chip has several kinds of core (leaf 7, EDX bit 15); false if unknown.
    pub fn is_hybrid(&self) -> bool {
        self.bit(0x7, 0, EDX, 15)
    }

    /// Returns EAX of leaf 0x1A, core kind and microarchitecture ID; `None` if 0 or not queried.
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

    /// Returns the highest clock in Hz, turbo included (leaf 0x16); `None` if 0 or not queried.
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

    /// Returns the processor's brand name with runs of blanks reduced to one; `None` if empty.
    pub fn name(&self) -> Option<String> {
        let leaves = [0x8000_0002, 0x8000_0003, 0x8000_0004];
        let words: Vec<u32> = leaves.into_iter().filter_map(|leaf| self.get(leaf, 0)).flatten().collect();
        let bytes: Vec<u8> =
            words.into_iter().flat_map(u32::to_le_bytes).take_while(|&byte| byte != 0).collect();
        let text = String::from_utf8_lossy(&bytes);
        let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(shown(&name)).filter(|name| !name.is_empty())
    }

    /// Returns the caches in leaf 8000_001D (AMD), else in leaf 4 (Intel), up to 1 TiB; the CPUs
    /// that share them are not set. Empty without both leaves.
    pub fn caches(&self) -> Vec<CpuCache> {
        let amd = self.leaves.iter().any(|l| l.leaf == 0x8000_001d);
        let leaf = if amd { 0x8000_001d } else { 0x4 };
        self.leaves.iter().filter(|l| l.leaf == leaf).filter_map(|l| cache(l.registers)).collect()
    }
}

/// Largest plausible cache in bytes: larger ones are invented by a hypervisor.
const MAX_CACHE_BYTES: u64 = 1 << 40;

fn cache([eax, ebx, ecx, _]: [u32; 4]) -> Option<CpuCache> {
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
    Some(CpuCache {
        level: u8::try_from(field(eax, 5, 3)).ok()?,
        kind,
        size_bytes: Some(bytes),
        line_bytes: Some(line),
        ways: Some(ways),
        instances: Vec::new(),
        sharing_unknown: CpuSet::default(),
    })
}
