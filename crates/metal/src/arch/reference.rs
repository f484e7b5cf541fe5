//! Plain Rust: the oracle that every kernel is checked against, and the kernels of processors without better ones.
//!
//! The oracle walks one lane of one accumulator at a time, in the order of the definition. Rust neither reorders nor
//! fuses floating-point operations, so it is exact to the bit.

use crate::isa::Isa;
use crate::kernel::{Counts, Element, Kernel, Op, Recurrence, Vectors};

/// Accumulators of the portable kernels: twelve 128-bit registers where the compiler vectorises for the baseline.
const WIDE_F64: usize = 24;
const WIDE_F32: usize = 48;

pub(crate) static FMA_F64: Kernel = Kernel {
    name: "fma_f64_portable",
    op: Op::Fma,
    element: Element::F64,
    isa: Isa::Portable,
    lanes: 1,
    accumulators: WIDE_F64 as u32,
    recurrence: Recurrence::RoundedScale,
    counts: Counts { fma: 0, multiply: WIDE_F64 as u32, add: WIDE_F64 as u32, control: 0 },
    function: fma_f64_portable,
};

pub(crate) static FMA_F32: Kernel = Kernel {
    name: "fma_f32_portable",
    op: Op::Fma,
    element: Element::F32,
    isa: Isa::Portable,
    lanes: 1,
    accumulators: WIDE_F32 as u32,
    recurrence: Recurrence::RoundedScale,
    counts: Counts { fma: 0, multiply: WIDE_F32 as u32, add: WIDE_F32 as u32, control: 0 },
    function: fma_f32_portable,
};

/// Advances `vectors` as `turns` turns of `kernel` must.
pub(crate) fn advance(kernel: &Kernel, turns: u64, vectors: &mut Vectors) {
    let steps = turns * kernel.steps_per_turn();
    for lane in 0..vectors.lanes() {
        let (a, b) = (vectors.operand(0, lane), vectors.operand(1, lane));
        for which in 0..vectors.accumulators() {
            let start = vectors.accumulator(which, lane);
            let end = match kernel.element {
                Element::F64 => advance_f64(kernel.recurrence, steps, a, b, start),
                // Exact both ways: the numbers came from binary32.
                Element::F32 => {
                    f64::from(advance_f32(kernel.recurrence, steps, a as f32, b as f32, start as f32))
                }
            };
            vectors.set_accumulator(which, lane, end);
        }
    }
}

/// The definition of each recurrence, once for each type.
macro_rules! recurrence {
    ($name:ident, $float:ty) => {
        fn $name(recurrence: Recurrence, steps: u64, a: $float, b: $float, start: $float) -> $float {
            let mut x = start;
            match recurrence {
                Recurrence::FusedScale => (0..steps).for_each(|_| x = x.mul_add(a, b)),
                Recurrence::RoundedScale => (0..steps).for_each(|_| x = x * a + b),
                Recurrence::FusedSum => (0..steps).for_each(|_| x = a.mul_add(b, x)),
            }
            x
        }
    };
}

recurrence!(advance_f64, f64);
recurrence!(advance_f32, f32);

/// A kernel in plain Rust: all accumulators step together, for the compiler to put in vectors if it can.
macro_rules! portable {
    ($name:ident, $float:ty, $width:ident) => {
        #[inline(never)]
        fn $name(turns: u64, vectors: &mut Vectors) {
            let (a, b) = (vectors.operand(0, 0) as $float, vectors.operand(1, 0) as $float);
            let mut accumulators: [$float; $width] =
                std::array::from_fn(|which| vectors.accumulator(which, 0) as $float);
            for _ in 0..turns {
                for x in &mut accumulators {
                    *x = *x * a + b;
                }
            }
            for (which, x) in accumulators.into_iter().enumerate() {
                vectors.set_accumulator(which, 0, x.into());
            }
        }
    };
}

portable!(fma_f64_portable, f64, WIDE_F64);
portable!(fma_f32_portable, f32, WIDE_F32);
