//! Kernels in general registers: integers that stand alone, in eight independent chains, and in each number of chains up to
//! that.
//!
//! Each architecture has a table of them (`general.rs` in its folder). What differs is the text that moves the numbers and
//! ends the loop, and which registers the chains are.

/// Rows and functions of a table.
///
/// Before the semicolon: the instruction set that the architecture always has, and in parentheses how features
/// are detected, how the constants `{a}` and `{b}` are
/// loaded, how the chain in register `\\i` is loaded and stored, how a turn is counted and the loop repeated; the chains' registers.
/// Each line: name, operation, type, the mnemonic as disassembled, the operations that count, the instruction, and
/// what it needs as /proc/cpuinfo and as the compiler names it.
macro_rules! general {
    ($isa:ident $how:tt;
        $($name:ident $op:ident $element:ident [$mnemonic:literal $operations:literal $text:literal] needs $feature:literal $enabled:tt;)*) => {
        /// Those of eight chains.
        pub(crate) static KERNELS: &[$crate::kernel::Kernel] = &[$(
            general!(@row 8 false stringify!($name); $how $isa $name $op $element $mnemonic $operations $feature $enabled),
        )*];
        /// Those of so many chains, by row.
        pub(crate) static CHAINED: &[&[$crate::kernel::Kernel]] = &[$(
            general!(@rows 1 2 3 4 5 6 7 8; ($how $isa $name $op $element $mnemonic $operations $feature $enabled)),
        )*];
        $(general!(@function $name $enabled $text $how);)*
    };
    (@function $name:ident $enabled:tt $text:literal ($detected:ident $a:literal $b:literal $load:literal $store:literal
        $count:literal $again:literal ($($register:tt)+))) => {
        /// # Safety
        /// Needs what the kernel's row says, `turns` > 0, and the vectors of that row.
        #[inline(never)]
        #[target_feature(enable = $enabled)]
        unsafe fn $name<const CHAINS: u32>(turns: u64, vectors: &mut $crate::kernel::Vectors) {
            // SAFETY: the caller grants the instruction and rows of 8 bytes for both constants and all chains without
            // gaps; all registers are named.
            unsafe {
                core::arch::asm!(
                    $a,
                    $b,
                    ".irp i, 8,9,10,11,12,13,14,15",
                    ".if \\i - 8 < {chains}",
                    $load,
                    ".endif",
                    ".endr",
                    ".p2align 6",
                    "2:",
                    ".rept {steps}",
                    ".irp i, 8,9,10,11,12,13,14,15",
                    ".if \\i - 8 < {chains}",
                    $text,
                    ".endif",
                    ".endr",
                    ".endr",
                    $count,
                    $again,
                    ".irp i, 8,9,10,11,12,13,14,15",
                    ".if \\i - 8 < {chains}",
                    $store,
                    ".endif",
                    ".endr",
                    a = out(reg) _,
                    b = out(reg) _,
                    rows = in(reg) vectors.rows(),
                    turns = inout(reg) turns => _,
                    chains = const CHAINS,
                    steps = const $crate::arch::steps::steps(CHAINS),
                    $(out($register) _,)+
                    options(nostack),
                );
            }
        }
    };
    (@rows $($chains:literal)+; $row:tt) => {
        &[$(general!(@named $chains $row),)+]
    };
    (@named $chains:literal ($how:tt $isa:ident $name:ident $($row:tt)+)) => {
        general!(@row $chains true concat!(stringify!($name), "_chains_", $chains); $how $isa $name $($row)+)
    };
    (@row $chains:literal $chained:literal $row:expr; ($detected:ident $($how:tt)+) $isa:ident $name:ident $op:ident
        $element:ident $mnemonic:literal $operations:literal $feature:literal $enabled:tt) => {
        $crate::kernel::Kernel {
            name: $row,
            op: $crate::kernel::Op::$op,
            element: $crate::kernel::Element::$element,
            isa: $crate::isa::Isa::$isa,
            needs: Some($crate::isa::Feature { name: $feature, present: || std::arch::$detected!($enabled) }),
            lanes: 1,
            accumulators: $chains,
            steps: $crate::arch::steps::steps($chains),
            chains: $chained,
            recurrence: $crate::kernel::Recurrence::Own,
            parts: &[$crate::kernel::Part {
                mnemonic: $mnemonic,
                count: $chains * $crate::arch::steps::steps($chains),
                operations: $operations,
            }],
            function: $name::<$chains>,
        }
    };
}
