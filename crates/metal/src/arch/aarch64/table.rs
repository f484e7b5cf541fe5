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
    ($name:ident [$($generic:tt)*] ($feature:literal $begin:literal $load:literal $store:literal)
        $chains:expr, $steps:expr; $($turn:tt)+) => {
        looped!(
            /// Runs `turns` > 0 iterations on `vectors`. Safety: see `ComputeKernel::function`.
            $name [$($generic)*] (vectors: &mut Vectors) vectors.rows(), $chains, $feature
            $begin [$load]
            [] [".rept {steps}", $($turn)+ ".endr", "subs {turns}, {turns}, #1", "b.ne 2b",]
            [$store,] ""
            ("p0" "v0" "v1" "v2" "v3" "v4" "v5" "v6" "v7" "v8" "v9" "v10" "v11" "v12" "v13" "v14" "v15" "v16" "v17" "v18" "v19" "v20" "v21" "v22" "v23" "v24" "v25")
            [steps = const $steps,]
        );
    };
}
