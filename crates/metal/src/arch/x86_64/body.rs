//! Common body of x86-64 compute kernels. An instruction of a table is its mnemonic, the counted
//! operations per lane, and its operands: `x` the accumulator, `n` the next one, `m` the next but
//! one, `a` and `b` the constants. Alternating square roots would lose 7 % on Zen 4 in f64.

macro_rules! operand {
    ($file:literal $i:literal $next:literal $after:literal x) => {
        concat!($file, $i)
    };
    ($file:literal $i:literal $next:literal $after:literal n) => {
        concat!($file, $next)
    };
    ($file:literal $i:literal $next:literal $after:literal m) => {
        concat!($file, $after)
    };
    ($file:literal $i:literal $next:literal $after:literal a) => {
        concat!($file, "0")
    };
    ($file:literal $i:literal $next:literal $after:literal b) => {
        concat!($file, "1")
    };
}

/// Prefix of a mnemonic with two encodings: that of AVX-VNNI needs no AVX-512.
macro_rules! prefix {
    (vex) => {
        "{{vex}} "
    };
}

macro_rules! step {
    ($file:literal $i:literal $next:literal $after:literal [$($($prefix:ident)? $mnemonic:literal $operations:literal $first:ident $($more:ident)+;)+]) => {
        concat!($(
            $(prefix!($prefix),)? $mnemonic, " ", operand!($file $i $next $after $first), $(", ", operand!($file $i $next $after $more),)+ "\n",
        )+)
    };
}

macro_rules! turn {
    ($file:literal $even:tt $odd:tt; $($i:literal $j:literal $k:literal),+) => {
        concat!($(step!($file $i $j $k $even), step!($file $j $k "no other" $odd),)+)
    };
}

macro_rules! parts {
    ([$all:expr, $_:expr] { $([$($phase:tt)+])then+ }) => {
        parts!([$all, 0] [$($($phase)+)+])
    };
    ([$all:expr, $_:expr] [$($($prefix:ident)? $mnemonic:literal $operations:literal $($operand:ident)+;)+]) => {
        &[$(InstructionCount { mnemonic: $mnemonic, count: $all, operations: $operations },)+]
    };
    ([$_:expr, $half:expr] [$($($prefix:ident)? $mnemonic:literal $operations:literal $($operand:ident)+;)+]
        [$($($prefixes:ident)? $other:literal $others:literal $($operands:ident)+;)+]) => {
        &[
            $(InstructionCount { mnemonic: $mnemonic, count: $half, operations: $operations },)+
            $(InstructionCount { mnemonic: $other, count: $half, operations: $others },)+
        ]
    };
}

/// Touches the operands once per iteration of wide vectors: without it, an Emerald Rapids core
/// stopped for 1.2 µs after 6 µs of work in wide registers (docs/src/experiments.md).
macro_rules! touch {
    ($bytes:literal) => {
        concat!(".if ", $bytes, " > 16\nprefetcht0 [{rows}]\n.endif")
    };
}

/// Calls a macro with a register file: name, bytes, instruction to move, end of a function, and
/// needed feature; the registers; how many accumulators, 12 or 24; and each two of them with the
/// next, as often as it takes for 24.
macro_rules! in_file {
    (xmm $then:ident $($more:tt)+) => {
        $then!(@ "xmm" 16 "movups" "" "sse2"
            ("xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7" "xmm8" "xmm9" "xmm10" "xmm11" "xmm12"
                "xmm13" "xmm14" "xmm15")
            12
            (2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 2) (2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 2) $($more)+);
    };
    (ymm $then:ident $($more:tt)+) => {
        $then!(@ "ymm" 32 "vmovups" "vzeroupper" "avx2"
            ("ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12"
                "ymm13" "ymm14" "ymm15")
            12
            (2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 2) (2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 2) $($more)+);
    };
    (zmm $then:ident $($more:tt)+) => {
        $then!(@ "zmm" 64 "vmovups" "vzeroupper" "avx512f"
            ("zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9" "zmm10" "zmm11" "zmm12"
                "zmm13" "zmm14" "zmm15" "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23" "zmm24" "zmm25")
            24
            (2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 14, 14 15 16, 16 17 18, 18 19 20, 20 21 22, 22 23 24, 24 25 2) () $($more)+);
    };
}

/// Kernel function whose loop has the assembly `$turn` `$steps` times on `$chains` accumulators.
macro_rules! body {
    ($file:literal $bytes:literal $move:literal $end:literal $feature:literal $registers:tt
        $name:ident [$($generic:tt)*] $chains:expr, $steps:expr; $($turn:tt)+) => {
        looped!(
            /// Runs `turns` > 0 iterations on `vectors`. Safety: see `ComputeKernel::function`.
            $name [$($generic)*] (vectors: &mut Vectors) vectors.rows(), $chains, $feature
            "" [concat!($move, " ", $file, "\\i, [{rows} + ", $bytes, "*\\i]")]
            [] [".rept {steps}", $($turn)+, ".endr", touch!($bytes), "dec {turns}", "jnz 2b",]
            [concat!($move, " [{rows} + ", $bytes, "*\\i], ", $file, "\\i"),]
            $end $registers [steps = const $steps,]
        );
    };
}

macro_rules! needs {
    () => {
        None
    };
    ($feature:ident) => {
        Some($crate::arch::native::feature::$feature)
    };
}
