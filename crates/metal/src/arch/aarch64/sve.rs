//! SVE kernels: vectors of the processor's length, in registers throughout. The table is like that
//! of NEON. Instructions that need a predicate use one that is true for all lanes.

use std::sync::LazyLock;

use super::{feature, sve_vector_bytes};
use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Op, Recurrence, Vectors};

macro_rules! operand {
    (($wide:literal $narrow:literal) $i:literal $next:literal x) => {
        concat!("z", $i, $wide)
    };
    (($wide:literal $narrow:literal) $i:literal $next:literal n) => {
        concat!("z", $next, $narrow)
    };
    (($wide:literal $narrow:literal) $i:literal $next:literal a) => {
        concat!("z0", $narrow)
    };
    (($wide:literal $narrow:literal) $i:literal $next:literal b) => {
        concat!("z1", $narrow)
    };
    ($lanes:tt $i:literal $next:literal p) => {
        "p0/m"
    };
}

macro_rules! body {
    ($name:ident $features:literal $lanes:tt $even:tt) => {
        body!($name $features $lanes $even $even);
    };
    ($name:ident $features:literal $lanes:tt $even:tt $odd:tt) => {
        /// Runs `turns` > 0 iterations. Safety: needs the kernel's instruction set and vectors.
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn $name(turns: u64, vectors: &mut Vectors) {
            // SAFETY: the caller grants the set and 26 rows of a vector; all registers are named.
            unsafe {
                core::arch::asm!(
                    "ptrue p0.b",
                    ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    "ldr z\\i, [{rows}, #\\i, mul vl]",
                    ".endr",
                    ".p2align 6",
                    "2:",
                    turn!($lanes $even $odd; 2 3 4, 4 5 6, 6 7 8, 8 9 10, 10 11 12, 12 13 14, 14 15 16, 16 17 18, 18 19 20, 20 21 22, 22 23 24, 24 25 2),
                    "subs {turns}, {turns}, #1",
                    "b.ne 2b",
                    ".irp i, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25",
                    "str z\\i, [{rows}, #\\i, mul vl]",
                    ".endr",
                    rows = in(reg) vectors.rows(),
                    turns = inout(reg) turns => _,
                    out("p0") _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _, out("v14") _, out("v15") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _, out("v24") _, out("v25") _,
                    options(nostack),
                );
            }
        }
    };
}

macro_rules! needs {
    ("sve") => {
        None
    };
    ("sve,bf16") => {
        Some(feature::BF16)
    };
}

macro_rules! kernels {
    ($($features:tt {$(
        $name:ident $op:ident $element:ident $lanes:tt $recurrence:ident $even:tt $(/ $odd:tt)?;
    )+})+) => {
        pub(crate) static KERNELS: LazyLock<Vec<ComputeKernel>> = LazyLock::new(|| {
            let bytes = sve_vector_bytes();
            vec![$($(
                ComputeKernel {
                    name: stringify!($name),
                    op: Op::$op,
                    element: Element::$element,
                    isa: Isa::Sve,
                    needs: needs!($features),
                    lanes: (bytes / Element::$element.summed_by(Op::$op).bytes()) as u32,
                    accumulators: 24,
                    steps: 1,
                    chains: false,
                    recurrence: Recurrence::$recurrence,
                    parts: parts!([24, 12] $even $($odd)?),
                    function: $name,
                },
            )+)+]
        });
        $($(body!($name $features $lanes $even $($odd)?);)+)+
    };
}

kernels! {
    "sve" {
        fma_f64_sve FMA F64 (".d" ".d") FusedSum ["fmla" 2 x p a b;];
        add_f64_sve ADD F64 (".d" ".d") Sum ["fadd" 1 x x a;];
        mul_f64_sve MUL F64 (".d" ".d") Product ["fmul" 1 x x b;];
        mix_f64_sve MIX F64 (".d" ".d") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f64_sve DIV F64 (".d" ".d") Quotient ["fdiv" 1 x p x b;];
        sqrt_f64_sve SQRT F64 (".d" ".d") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x p x;];
        fma_f32_sve FMA F32 (".s" ".s") FusedSum ["fmla" 2 x p a b;];
        add_f32_sve ADD F32 (".s" ".s") Sum ["fadd" 1 x x a;];
        mul_f32_sve MUL F32 (".s" ".s") Product ["fmul" 1 x x b;];
        mix_f32_sve MIX F32 (".s" ".s") SumOrProduct ["fadd" 1 x x a;] / ["fmul" 1 x x b;];
        div_f32_sve DIV F32 (".s" ".s") Quotient ["fdiv" 1 x p x b;];
        sqrt_f32_sve SQRT F32 (".s" ".s") RoundedRoot ["fmul" 0 x x x; "fadd" 0 x x b; "fsqrt" 1 x p x;];
        fma_f16_sve FMA F16 (".h" ".h") Flip ["fmls" 2 x p x b;];
        add_f16_sve ADD F16 (".h" ".h") NextFrom ["fsub" 1 x b n;];
        mul_f16_sve MUL F16 (".h" ".h") NextScale ["fmul" 1 x n a;] / ["fmul" 1 x n b;];
        mix_f16_sve MIX F16 (".h" ".h") NextFromOrSquare ["fsub" 1 x b n;] / ["fmul" 1 x n n;];
        div_f16_sve DIV F16 (".h" ".h") QuotientFrom ["fdivr" 1 x p x b;];
        sqrt_f16_sve SQRT F16 (".h" ".h") RoundedCircle ["fmul" 0 x x x; "fsub" 0 x b x; "fsqrt" 1 x p x;];
        add_i64_sve ADD I64 (".d" ".d") NextSum ["add" 1 x x n;];
        add_i32_sve ADD I32 (".s" ".s") NextSum ["add" 1 x x n;];
        add_i16_sve ADD I16 (".h" ".h") NextSum ["add" 1 x x n;];
        add_i8_sve ADD I8 (".b" ".b") NextSum ["add" 1 x x n;];
        mul_i64_sve MUL I64 (".d" ".d") NextProduct ["mul" 1 x p x n;];
        mul_i32_sve MUL I32 (".s" ".s") NextProduct ["mul" 1 x p x n;];
        mul_i16_sve MUL I16 (".h" ".h") NextProduct ["mul" 1 x p x n;];
        mul_i8_sve MUL I8 (".b" ".b") NextProduct ["mul" 1 x p x n;];
        dot_i8_sve DOT I8 (".s" ".b") NextSignedDot ["sdot" 8 x n b;];
    }
    "sve,bf16" {
        dot_bf16_sve DOT Bf16 (".s" ".h") ExactDot ["bfdot" 4 x a b;];
    }
}
