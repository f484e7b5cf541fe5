//! Kernels in general-purpose registers: up to twelve chains of scalar integers. An iteration is
//! three times as long as that of vectors, because the loop counter uses the same units.

/// The mnemonic is as disassembled, the text the instruction of chain `\\i`.
macro_rules! general {
    ($isa:ident $how:tt;
        $($name:ident $op:ident $element:ident [$mnemonic:literal $operations:literal $text:literal] needs $feature:literal $enabled:tt;)*) => {
        pub(crate) static KERNELS: &[$crate::kernel::ComputeKernel] = &[$(
            general!(@row 12 false stringify!($name); $how $isa $name $op $element $mnemonic $operations $feature $enabled),
        )*];
        pub(crate) static CHAINED: &[&[$crate::kernel::ComputeKernel]] = &[$(
            general!(@rows 1 2 3 4 5 6 7 8 9 10 11 12; ($how $isa $name $op $element $mnemonic $operations $feature $enabled)),
        )*];
        $(general!(@function $name $enabled $text $how);)*
    };
    (@function $name:ident $enabled:tt $text:literal ($detected:ident $chains:literal $first:literal $load:literal
        $count:literal $again:literal $between:literal $store:literal $last:literal rows $rows:tt turns $turns:tt
        ($($register:tt)+))) => {
        /// Runs `turns` > 0 iterations. Safety: needs the kernel's instruction set and vectors.
        #[inline(never)]
        #[target_feature(enable = $enabled)]
        unsafe fn $name<const CHAINS: u32>(turns: u64, vectors: &mut $crate::kernel::Vectors) {
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
                    steps = const 3 * $crate::arch::steps::steps(CHAINS),
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
    (@rows $($chains:literal)+; $row:tt) => {
        &[$(general!(@named $chains $row),)+]
    };
    (@named $chains:literal ($how:tt $isa:ident $name:ident $($row:tt)+)) => {
        general!(@row $chains true concat!(stringify!($name), "_chains_", $chains); $how $isa $name $($row)+)
    };
    (@row $chains:literal $chained:literal $row:expr; ($detected:ident $($how:tt)+) $isa:ident $name:ident $op:ident
        $element:ident $mnemonic:literal $operations:literal $feature:literal $enabled:tt) => {
        $crate::kernel::ComputeKernel {
            name: $row,
            op: $crate::kernel::Op::$op,
            element: $crate::kernel::Element::$element,
            isa: $crate::isa::Isa::$isa,
            needs: Some($crate::isa::Feature { name: $feature, present: || std::arch::$detected!($enabled) }),
            lanes: 1,
            accumulators: $chains,
            steps: 3 * $crate::arch::steps::steps($chains),
            chains: $chained,
            recurrence: $crate::kernel::Recurrence::Own,
            parts: &[$crate::kernel::InstructionCount {
                mnemonic: $mnemonic,
                count: 3 * $chains * $crate::arch::steps::steps($chains),
                operations: $operations,
            }],
            function: $name::<$chains>,
        }
    };
}
