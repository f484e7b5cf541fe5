//! AMX kernels: tiles of 16 rows of 64 bytes, two with constants and six accumulators.
//!
//! An instruction occupies the matrix unit for 16 cycles and its result is there after 52, so four accumulators would do
//! (Intel 248966, chapter on AMX).

use crate::isa::{Feature, Isa};
use crate::kernel::{Element, Kernel, Op, Part, Recurrence, Vectors};

/// Bytes of a tile.
const TILE: usize = 1024;
/// Accumulators.
const SUMS: u32 = 6;

/// Palette 1 with all eight tiles in full size: see LDTILECFG in Intel 325383.
#[repr(C, align(64))]
struct Config([u8; 64]);

static FULL: Config = Config(full());

const fn full() -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        // Bytes of a row, 16 bits each, and rows.
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    bytes
}

/// Rows and functions of a table. Each line: name, type, mnemonic, operations of one result.
macro_rules! kernels {
    ($($name:ident $element:ident $mnemonic:literal $operations:literal needs $feature:ident;)+) => {
        pub(crate) static KERNELS: &[Kernel] = &[$(
            Kernel {
                name: stringify!($name),
                op: Op::Dot,
                element: Element::$element,
                isa: Isa::Amx,
                needs: Some(Feature::$feature),
                lanes: (TILE / 4) as u32,
                accumulators: SUMS,
                recurrence: Recurrence::Tile,
                parts: &[Part { mnemonic: $mnemonic, count: SUMS, operations: $operations }],
                function: $name,
            },
        )+];
        $(
            /// # Safety
            /// Needs what the kernel's row says, `turns` > 0, and the vectors of that row.
            #[inline(never)]
            unsafe fn $name(turns: u64, vectors: &mut Vectors) {
                // SAFETY: the caller grants the instructions and eight tiles without gaps, 64 bytes a row; all tiles are
                // named, and their state is released at the end.
                unsafe {
                    core::arch::asm!(
                        "ldtilecfg [{config}]",
                        ".irp i, 0,1,2,3,4,5,6,7",
                        "tileloadd tmm\\i, [{rows} + {stride}]",
                        "add {rows}, 1024",
                        ".endr",
                        ".p2align 6",
                        "2:",
                        ".irp i, 2,3,4,5,6,7",
                        concat!($mnemonic, " tmm\\i, tmm0, tmm1"),
                        ".endr",
                        "dec {turns}",
                        "jnz 2b",
                        ".irp i, 7,6,5,4,3,2",
                        "sub {rows}, 1024",
                        "tilestored [{rows} + {stride}], tmm\\i",
                        ".endr",
                        "tilerelease",
                        config = in(reg) &raw const FULL,
                        rows = inout(reg) vectors.rows() => _,
                        stride = in(reg) 64_u64,
                        turns = inout(reg) turns => _,
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                        options(nostack),
                    );
                }
            }
        )+
    };
}

kernels! {
    dot_i8_amx I8 "tdpbssd" 128 needs AmxInt8;
    dot_bf16_amx Bf16 "tdpbf16ps" 64 needs AmxBf16;
}

/// The kernel's number of the state component that tiles are (arch/x86/include/asm/fpu/types.h).
const XFEATURE_XTILE_DATA: libc::c_ulong = 18;
/// `arch_prctl` that asks for a state component (Documentation/arch/x86/xstate.rst).
const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;

/// Bits of CPUID leaf 7, sub-leaf 0, EDX (Intel 325383, CPUID).
const TILE_BIT: u32 = 24;
const INT8_BIT: u32 = 25;
const BF16_BIT: u32 = 22;

/// Whether the processor has tiles, and the kernel gives this process their state. Asking again is free of effects.
pub(crate) fn tiles() -> bool {
    if !bit(TILE_BIT) || !is_x86_feature_detected!("xsave") {
        return false;
    }
    // SAFETY: this request takes a number and no pointer; an older kernel refuses it.
    let granted = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA) };
    granted == 0
}

/// Whether the processor has dot products of tiles of bytes.
pub(crate) fn int8() -> bool {
    bit(INT8_BIT)
}

/// Whether the processor has dot products of tiles of bfloat16.
pub(crate) fn bf16() -> bool {
    bit(BF16_BIT)
}

fn bit(which: u32) -> bool {
    let leaves = core::arch::x86_64::__cpuid(0).eax;
    leaves >= 7 && core::arch::x86_64::__cpuid_count(7, 0).edx >> which & 1 == 1
}
