//! Kernels in general-purpose registers: up to twelve chains of scalar integers. An iteration is
//! three times as long as that of vectors, because the loop counter uses the same units.

/// The mnemonic is as disassembled, the text the instruction of chain `\\i`.
macro_rules! general {
    ($isa:ident $detected:ident $how:tt;
        $($name:ident $op:ident $element:ident [$mnemonic:literal $operations:literal $text:literal] needs $feature:literal $enabled:tt;)*) => {
        use crate::isa::{Feature, Isa};
        use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

        const fn steps(chains: u32) -> u32 {
            3 * crate::arch::steps::steps(chains)
        }

        pub(crate) static KERNELS: &[ComputeKernel] = &[$(
            row!(stringify!($name), $name::<12>; 12, steps(12), false; $isa 8, $op $element Own
                Some(Feature { name: $feature, present: || std::arch::$detected!($enabled) }), [$mnemonic $operations x;]),
        )*];
        pub(crate) static CHAINED: &[&[ComputeKernel]] = &[$(
            &chained_rows!($name ($isa 8, $op $element Own
                Some(Feature { name: $feature, present: || std::arch::$detected!($enabled) }))
                ([$mnemonic $operations x;]) 1 2 3 4 5 6 7 8 9 10 11 12),
        )*];
        $(general!(@function $name $enabled $text $how);)*
    };
    (@function $name:ident $enabled:tt $text:literal ($chains:literal $first:literal $load:literal
        $count:literal $again:literal $between:literal $store:literal $last:literal rows $rows:tt turns $turns:tt
        ($($register:tt)+))) => {
        /// Runs `turns` > 0 kernel iterations on `vectors`. Safety: see `ComputeKernel::function`.
        #[inline(never)]
        #[target_feature(enable = $enabled)]
        unsafe fn $name<const CHAINS: u32>(turns: u64, vectors: &mut Vectors) {
            // SAFETY: the caller grants the instruction and 8-byte rows without gaps for the
            // constant operands and all chains; all registers are named or restored.
            unsafe {
                core::arch::asm!(
                    $first,
                    general!(@each $chains $load),
                    ".p2align 6",
                    "2:",
                    ".rept {steps}",
                    general!(@each $chains $text),
                    ".endr",
                    $count,
                    $again,
                    $between,
                    general!(@each $chains $store),
                    $last,
                    inout($rows) vectors.rows() => _,
                    inout($turns) turns => _,
                    chains = const CHAINS,
                    steps = const steps(CHAINS),
                    $(out($register) _,)+
                    options(nostack),
                );
            }
        }
    };
    (@each $chains:literal $text:literal) => {
        concat!(
            ".set .Lchain, 0\n.irp i, ", $chains, "\n.if .Lchain < {chains}\n", $text,
            "\n.endif\n.set .Lchain, .Lchain + 1\n.endr\n",
        )
    };
}
