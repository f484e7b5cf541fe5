use crate::capability::{InstructionLoop, Probed};
use crate::isa::Isa;

macro_rules! repeated {
    (@ $file:literal $bytes:literal $move:literal $end:literal $_feature:literal $registers:tt $_all:literal
        $_next:tt $_again:tt $name:ident $feature:literal $instruction:literal) => {
        looped!(
            /// Runs 16 instructions `turns` > 0 times. Safety: needs set, 16 vectors at `place`.
            $name [] (place: *const u8) place, 0, $feature
            "" [concat!($move, " ", $file, "\\i, [{rows} + ", $bytes, "*\\i]")]
            [] [
                ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                $instruction,
                ".endr",
                "dec {turns}",
                "jnz 2b",
            ]
            [] $end $registers []
        );
    };
}

in_file!(xmm repeated loads_sse2 "sse2" "movups xmm\\i, [{rows} + 16*\\i]");
in_file!(ymm repeated loads_avx2 "avx2" "vmovups ymm\\i, [{rows} + 32*\\i]");
in_file!(zmm repeated loads_avx512 "avx512f" "vmovups zmm\\i, [{rows} + 64*\\i]");
in_file!(xmm repeated add_waits_sse2 "sse2" "addpd xmm0, xmm1");
in_file!(ymm repeated add_waits_avx2 "avx2" "vaddpd ymm0, ymm0, ymm1");
in_file!(zmm repeated add_waits_avx512 "avx512f" "vaddpd zmm0, zmm0, zmm1");
in_file!(ymm repeated fma_waits_avx2 "avx2,fma" "vfmadd213pd ymm0, ymm1, ymm1");
in_file!(zmm repeated fma_waits_avx512 "avx512f" "vfmadd213pd zmm0, zmm1, zmm1");

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
