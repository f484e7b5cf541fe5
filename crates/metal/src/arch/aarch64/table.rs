//! Tables of the AArch64 kernels: an instruction is its mnemonic, the counted operations per lane,
//! and its operands, of which the registers' letter and suffixes are given once per kernel.

/// Text of one operand: `x` the accumulator, `n` the next one, `a` and `b` the constants, `p` a
/// predicate that is true for all lanes.
macro_rules! operand {
    (($letter:literal $wide:literal $narrow:literal) $i:literal $next:literal x) => {
        concat!($letter, $i, $wide)
    };
    (($letter:literal $wide:literal $narrow:literal) $i:literal $next:literal n) => {
        concat!($letter, $next, $narrow)
    };
    (($letter:literal $wide:literal $narrow:literal) $i:literal $next:literal a) => {
        concat!($letter, "0", $narrow)
    };
    (($letter:literal $wide:literal $narrow:literal) $i:literal $next:literal b) => {
        concat!($letter, "1", $narrow)
    };
    ($lanes:tt $i:literal $next:literal p) => {
        "p0/m"
    };
}

macro_rules! step {
    ($lanes:tt $i:literal $next:literal [$($mnemonic:literal $operations:literal $first:ident $($more:ident)+;)+]) => {
        concat!($(
            $mnemonic, " ", operand!($lanes $i $next $first), $(", ", operand!($lanes $i $next $more),)+ "\n",
        )+)
    };
}

macro_rules! turn {
    ($lanes:tt $even:tt $odd:tt; $($i:literal $j:literal $k:literal),+) => {
        concat!($(step!($lanes $i $j $even), step!($lanes $j $k $odd),)+)
    };
}

macro_rules! parts {
    ([$all:expr, $_:expr] [$($mnemonic:literal $operations:literal $($operand:ident)+;)+]) => {
        const { &[$(InstructionCount { mnemonic: $mnemonic, count: $all, operations: $operations },)+] }
    };
    ([$_:expr, $half:expr] [$($mnemonic:literal $operations:literal $($operand:ident)+;)+]
        [$($other:literal $others:literal $($operands:ident)+;)+]) => {
        const {
            &[
                $(InstructionCount { mnemonic: $mnemonic, count: $half, operations: $operations },)+
                $(InstructionCount { mnemonic: $other, count: $half, operations: $others },)+
            ]
        }
    };
}

macro_rules! needs {
    (nothing) => {
        None
    };
    ($feature:ident) => {
        Some(super::feature::$feature)
    };
}

/// Kernel function whose loop has the assembly `$turn` `$steps` times on `$chains` accumulators.
macro_rules! body {
    ($name:ident [$($generic:tt)*] ($features:literal $begin:literal $load:literal $store:literal)
        $chains:expr, $steps:expr; $($turn:tt)+) => {
        /// Runs `turns` > 0 kernel iterations on `vectors`. Safety: see `ComputeKernel::function`.
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn $name $($generic)*(turns: u64, vectors: &mut Vectors) {
            // SAFETY: the caller grants the set and rows without gaps; all registers are named.
            unsafe {
                core::arch::asm!(
                    $begin,
                    ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    ".if \\i - 2 < {chains}",
                    $load,
                    ".endif",
                    ".endr",
                    ".p2align 6",
                    "2:",
                    ".rept {steps}",
                    $($turn)+
                    ".endr",
                    "subs {turns}, {turns}, #1",
                    "b.ne 2b",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    ".if \\i - 2 < {chains}",
                    $store,
                    ".endif",
                    ".endr",
                    rows = in(reg) vectors.rows(),
                    turns = inout(reg) turns => _,
                    chains = const $chains,
                    steps = const $steps,
                    out("p0") _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _, out("v14") _, out("v15") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                    options(nostack),
                );
            }
        }
    };
}
