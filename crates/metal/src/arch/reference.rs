//! Portable Rust: the exact reference for every kernel, and kernels for other processors. Rust
//! neither reorders nor fuses floating-point operations, and integers wrap.

use crate::isa::Isa;
use crate::kernel::{ComputeKernel, Element, InstructionCount, Number, Op, Recurrence, TileSize, Vectors};

/// Accumulators of the portable kernels: twelve 128-bit registers if the compiler vectorises.
const WIDE_F64: usize = 24;
const WIDE_F32: usize = 48;

pub(crate) static KERNELS: [ComputeKernel; 2] = [
    portable_row("fma_f64_portable", Element::F64, &PARTS_F64, fma_f64_portable),
    portable_row("fma_f32_portable", Element::F32, &PARTS_F32, fma_f32_portable),
];

static PARTS_F64: [InstructionCount; 1] =
    [InstructionCount { mnemonic: "", count: WIDE_F64 as u32, operations: 2 }];
static PARTS_F32: [InstructionCount; 1] =
    [InstructionCount { mnemonic: "", count: WIDE_F32 as u32, operations: 2 }];

const fn portable_row(
    name: &'static str,
    element: Element,
    parts: &'static [InstructionCount; 1],
    function: unsafe fn(u64, &mut Vectors),
) -> ComputeKernel {
    ComputeKernel {
        name,
        op: Op::FMA,
        element,
        isa: Isa::Portable,
        needs: None,
        lanes: 1,
        accumulators: parts[0].count,
        steps: 1,
        chains: false,
        recurrence: Recurrence::RoundedScale,
        parts,
        function,
    }
}

pub(crate) fn advance(kernel: &ComputeKernel, turns: u64, vectors: &mut Vectors) {
    let steps = turns * u64::from(kernel.steps);
    if let (Recurrence::Tile, Some(tile)) = (kernel.recurrence, TileSize::of(kernel.isa)) {
        return advance_tiles(kernel, tile, steps, vectors);
    }
    for lane in 0..vectors.lanes {
        let constants = [vectors.get(0, lane), vectors.get(1, lane)];
        let mut numbers: Vec<u64> =
            (0..vectors.accumulators).map(|which| vectors.accumulator(which, lane)).collect();
        match kernel.result() {
            Element::F64 => advance_f64(kernel.recurrence, steps, constants, &mut numbers),
            Element::F32 => advance_f32(kernel.recurrence, steps, constants, &mut numbers),
            Element::F16 => advance_f16(kernel.recurrence, steps, constants, &mut numbers),
            _ => advance_integers(kernel, steps, constants, &mut numbers),
        }
        for (which, bits) in numbers.into_iter().enumerate() {
            vectors.set_accumulator(which, lane, bits);
        }
    }
}

macro_rules! recurrences {
    ($name:ident, $float:ty, $bits:ty) => {
        fn $name(recurrence: Recurrence, steps: u64, [first, second]: [u64; 2], numbers: &mut [u64]) {
            let [a, b] = [first, second].map(|bits| <$float>::from_bits(bits as $bits));
            let dot = dot_bf16_pairs(first, second) as $float;
            for (which, number) in numbers.iter_mut().enumerate() {
                let mut x = <$float>::from_bits(*number as $bits);
                match recurrence {
                    Recurrence::FusedScale => (0..steps).for_each(|_| x = x.mul_add(a, b)),
                    Recurrence::RoundedScale => (0..steps).for_each(|_| x = x * a + b),
                    Recurrence::FusedSum => (0..steps).for_each(|_| x = a.mul_add(b, x)),
                    Recurrence::SumOrProduct if which % 2 == 1 => (0..steps).for_each(|_| x *= b),
                    Recurrence::Sum | Recurrence::SumOrProduct => (0..steps).for_each(|_| x += a),
                    Recurrence::Product => (0..steps).for_each(|_| x *= b),
                    Recurrence::Quotient => (0..steps).for_each(|_| x /= b),
                    Recurrence::FusedRoot => (0..steps).for_each(|_| x = x.mul_add(x, b).sqrt()),
                    Recurrence::RoundedRoot => (0..steps).for_each(|_| x = (x * x + b).sqrt()),
                    Recurrence::ExactDot => (0..steps).for_each(|_| x += dot),
                    _ => x = <$float>::NAN,
                }
                *number = u64::from(x.to_bits());
            }
        }
    };
}

recurrences!(advance_f64, f64, u64);
recurrences!(advance_f32, f32, u32);

/// Returns the dot product of the bfloat16 pairs in the low 32 bits of `first` and `second`.
fn dot_bf16_pairs(first: u64, second: u64) -> f64 {
    let number = |bits: u64| f64::from(f32::from_bits((bits as u32) << 16));
    let [low, high] = [0, 16].map(|shift| number(first >> shift) * number(second >> shift));
    low + high
}

/// Advances all `numbers` by `steps` steps of the kernel's integer recurrence, which combines each
/// number with the next one, or with a constant, `a` or `b`.
fn advance_integers(kernel: &ComputeKernel, steps: u64, [a, b]: [u64; 2], numbers: &mut [u64]) {
    let mask = u64::MAX >> (64 - 8 * kernel.result().bytes());
    let bytes = kernel.element == Element::I8;
    let sum = |x: u64, other: u64| x.wrapping_add(other) & mask;
    let product = |x: u64, other: u64| x.wrapping_mul(other) & mask;
    let dot = |x: u64, other: u64| {
        let unsigned = (other as u32).to_le_bytes().map(i32::from);
        let sum = if bytes { add_products(unsigned, i8s(b)) } else { add_products(i16s(other), i16s(b)) };
        u64::from((x as u32).wrapping_add(sum))
    };
    let signed_dot =
        |x: u64, other: u64| u64::from((x as u32).wrapping_add(add_products(i8s(other), i8s(b))));
    match kernel.recurrence {
        Recurrence::NextSum => each_with_next(steps, numbers, sum),
        Recurrence::RingOrSum => (0..steps).for_each(|_| {
            for which in 0..numbers.len() {
                let addend = if which % 2 == 1 { a } else { numbers[(which + 2) % numbers.len()] };
                numbers[which] = sum(numbers[which], addend);
            }
        }),
        Recurrence::NextProduct => each_with_next(steps, numbers, product),
        Recurrence::NextDot => each_with_next(steps, numbers, dot),
        Recurrence::NextSignedDot => each_with_next(steps, numbers, signed_dot),
        Recurrence::Sum => each_with(a, steps, numbers, sum),
        Recurrence::Product => each_with(b, steps, numbers, product),
        Recurrence::Dot => each_with(a, steps, numbers, dot),
        Recurrence::SignedDot => each_with(a, steps, numbers, signed_dot),
        Recurrence::Own => match kernel.op.row().step {
            Some(step) => each_with(a, steps, numbers, step),
            None => numbers.fill(0),
        },
        _ => numbers.fill(0),
    }
}

/// Returns the sum, modulo 2³², of the products of each two numbers of at most 16 bits.
fn add_products<const COUNT: usize>(first: [i32; COUNT], second: [i32; COUNT]) -> u32 {
    first.into_iter().zip(second).fold(0, |sum: u32, (a, b)| sum.wrapping_add((a * b) as u32))
}

fn i8s(word: u64) -> [i32; 4] {
    (word as u32).to_le_bytes().map(|byte| i32::from(byte as i8))
}

fn i16s(word: u64) -> [i32; 2] {
    [word, word >> 16].map(|word| i32::from(word as i16))
}

/// Adds the product of the two constant matrices in `vectors` to every accumulator `steps` times.
fn advance_tiles(kernel: &ComputeKernel, tile: TileSize, steps: u64, vectors: &mut Vectors) {
    for lane in 0..vectors.lanes {
        let words = tile.factors(lane).map(|[a, b]| (vectors.get(0, a), vectors.get(1, b)));
        let words: Vec<(u64, u64)> = words.collect();
        for which in 0..vectors.accumulators {
            let start = vectors.accumulator(which, lane);
            let end = if kernel.element == Element::I8 {
                let products = words.iter().map(|(a, b)| add_products(i8s(*a), i8s(*b)));
                let sum = products.fold(0, u32::wrapping_add);
                (start as u32).wrapping_add(sum.wrapping_mul(steps as u32))
            } else {
                let sum = words.iter().map(|(a, b)| dot_bf16_pairs(*a, *b)).sum::<f64>() as f32;
                (0..steps).fold(f32::from_bits(start as u32), |x, _| x + sum).to_bits()
            };
            vectors.set_accumulator(which, lane, u64::from(end));
        }
    }
}

/// Advances `numbers` by `steps` steps of `recurrence` with two constants, all as binary16 bits.
/// Rounding from binary64 is harmless (Figueroa, "When is double rounding innocuous?", 1995).
fn advance_f16(recurrence: Recurrence, steps: u64, [first, second]: [u64; 2], numbers: &mut [u64]) {
    let number = |bits: u64| Number::from_bits(Element::F16, bits).value();
    let rounded = |value: f64| number(Number::nearest(Element::F16, value).bits());
    let [a, b] = [first, second].map(number);
    let mut values: Vec<f64> = numbers.iter().map(|bits| number(*bits)).collect();
    for _ in 0..steps {
        for which in 0..values.len() {
            let (x, next) = (values[which], values[if which + 1 == values.len() { 0 } else { which + 1 }]);
            let second = which % 2 == 1;
            values[which] = rounded(match recurrence {
                Recurrence::SquareFrom => b - x * x,
                Recurrence::Flip => x - x * b,
                Recurrence::FromOrProduct if second => x * b,
                Recurrence::From | Recurrence::FromOrProduct => a - x,
                Recurrence::Product => x * b,
                Recurrence::NextScale => next * if second { b } else { a },
                Recurrence::NextFromOrSquare if second => next * next,
                Recurrence::NextFrom | Recurrence::NextFromOrSquare => b - next,
                Recurrence::QuotientFrom => b / x,
                Recurrence::FusedCircle => rounded(b - x * x).sqrt(),
                Recurrence::RoundedCircle => rounded(b - rounded(x * x)).sqrt(),
                _ => f64::NAN,
            });
        }
    }
    for (bits, value) in numbers.iter_mut().zip(values) {
        *bits = Number::nearest(Element::F16, value).bits();
    }
}

fn each_with_next(steps: u64, numbers: &mut [u64], step: impl Fn(u64, u64) -> u64) {
    for _ in 0..steps {
        for which in 0..numbers.len() {
            let next = if which + 1 == numbers.len() { 0 } else { which + 1 };
            numbers[which] = step(numbers[which], numbers[next]);
        }
    }
}

fn each_with(other: u64, steps: u64, numbers: &mut [u64], step: impl Fn(u64, u64) -> u64) {
    for number in numbers {
        *number = (0..steps).fold(*number, |x, _| step(x, other));
    }
}

/// The loop is a separate function, because the compiler split vectors next to other code.
macro_rules! portable {
    ($name:ident, $turn:ident, $float:ty, $bits:ty, $width:ident) => {
        #[inline(never)]
        fn $turn(turns: u64, [a, b]: [$float; 2], accumulators: &mut [$float; $width]) {
            let mut own = *accumulators;
            for _ in 0..turns {
                for x in &mut own {
                    *x = *x * a + b;
                }
            }
            *accumulators = own;
        }

        #[inline(never)]
        fn $name(turns: u64, vectors: &mut Vectors) {
            let number = |bits: u64| <$float>::from_bits(bits as $bits);
            let (a, b) = (number(vectors.get(0, 0)), number(vectors.get(1, 0)));
            let mut accumulators: [$float; $width] =
                std::array::from_fn(|which| number(vectors.accumulator(which, 0)));
            $turn(turns, [a, b], &mut accumulators);
            for (which, x) in accumulators.into_iter().enumerate() {
                vectors.set_accumulator(which, 0, x.to_bits().into());
            }
        }
    };
}

portable!(fma_f64_portable, turn_f64, f64, u64, WIDE_F64);
portable!(fma_f32_portable, turn_f32, f32, u32, WIDE_F32);
