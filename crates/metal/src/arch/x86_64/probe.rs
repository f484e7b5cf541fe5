use crate::capability::{InstructionLoop, Probed};
use crate::isa::Isa;

macro_rules! loads {
    ($name:ident $feature:literal $move:literal $register:literal $bytes:literal $end:literal ($($all:tt)+)) => {
        /// Does 16 loads `turns` > 0 times. Safety: needs the set, and 16 vectors at `place`.
        #[inline(never)]
        #[target_feature(enable = $feature)]
        unsafe fn $name(turns: u64, place: *const u8) {
            // SAFETY: the caller grants the instructions and the memory; all registers are named.
            unsafe {
                core::arch::asm!(
                    ".p2align 6",
                    "2:",
                    ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    concat!($move, " ", $register, "\\i, [{place} + ", $bytes, "*\\i]"),
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    $end,
                    place = in(reg) place,
                    turns = inout(reg) turns => _,
                    $(out($all) _,)+
                    options(nostack, readonly),
                );
            }
        }
    };
}

macro_rules! waits {
    ($name:ident $feature:literal $move:literal $register:literal $end:literal $link:literal) => {
        /// Runs 16 dependent instructions `turns` > 0 times. Safety: needs set, vector at `place`.
        #[inline(never)]
        #[target_feature(enable = $feature)]
        unsafe fn $name(turns: u64, place: *const u8) {
            // SAFETY: the caller grants the instructions and the memory; all registers are named.
            unsafe {
                core::arch::asm!(
                    concat!($move, " ", $register, "0, [{place}]"),
                    concat!($move, " ", $register, "1, [{place}]"),
                    ".p2align 6",
                    "2:",
                    ".rept 16",
                    $link,
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    $end,
                    place = in(reg) place,
                    turns = inout(reg) turns => _,
                    out("xmm0") _, out("xmm1") _,
                    options(nostack, readonly),
                );
            }
        }
    };
}

loads!(loads_sse2 "sse2" "movups" "xmm" 16 ""
    ("xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7" "xmm8" "xmm9" "xmm10" "xmm11" "xmm12" "xmm13" "xmm14" "xmm15"));
loads!(loads_avx2 "avx2" "vmovups" "ymm" 32 "vzeroupper"
    ("ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12" "ymm13" "ymm14" "ymm15"));
loads!(loads_avx512 "avx512f" "vmovups" "zmm" 64 "vzeroupper"
    ("zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9" "zmm10" "zmm11" "zmm12" "zmm13" "zmm14" "zmm15"));
waits!(add_waits_sse2 "sse2" "movups" "xmm" "" "addpd xmm0, xmm1");
waits!(add_waits_avx2 "avx2" "vmovups" "ymm" "vzeroupper" "vaddpd ymm0, ymm0, ymm1");
waits!(add_waits_avx512 "avx512f" "vmovups" "zmm" "vzeroupper" "vaddpd zmm0, zmm0, zmm1");
waits!(fma_waits_avx2 "avx2,fma" "vmovups" "ymm" "vzeroupper" "vfmadd213pd ymm0, ymm1, ymm1");
waits!(fma_waits_avx512 "avx512f" "vmovups" "zmm" "vzeroupper" "vfmadd213pd zmm0, zmm1, zmm1");

pub(crate) static PROBE_LOOPS: [InstructionLoop; 8] = [
    InstructionLoop { isa: Isa::Sse2, probed: Probed::Loads, bits: 128, function: loads_sse2 },
    InstructionLoop { isa: Isa::Sse2, probed: Probed::AddLatency, bits: 128, function: add_waits_sse2 },
    InstructionLoop { isa: Isa::Avx2, probed: Probed::Loads, bits: 256, function: loads_avx2 },
    InstructionLoop { isa: Isa::Avx2, probed: Probed::AddLatency, bits: 256, function: add_waits_avx2 },
    InstructionLoop { isa: Isa::Avx2, probed: Probed::FmaLatency, bits: 256, function: fma_waits_avx2 },
    InstructionLoop { isa: Isa::Avx512, probed: Probed::Loads, bits: 512, function: loads_avx512 },
    InstructionLoop { isa: Isa::Avx512, probed: Probed::AddLatency, bits: 512, function: add_waits_avx512 },
    InstructionLoop { isa: Isa::Avx512, probed: Probed::FmaLatency, bits: 512, function: fma_waits_avx512 },
];
