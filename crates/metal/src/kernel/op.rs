use std::fmt;

use super::rate::{self, CoreRate, LatencyKey};
use super::{ComputeKernel, Element};

/// Properties of an operation: what is counted, which rate of a core limits it, and its definition.
#[derive(Debug)]
pub struct OperationRow {
    /// Name in cases and flags.
    pub name: &'static str,
    /// Count per lane and instruction, and the types with kernels.
    pub about: &'static str,
    /// Unit of its rate.
    pub counted: RateUnit,
    /// Whether it sums products of narrow numbers in 32 bits.
    pub sums_in_32_bits: bool,
    /// Next value of `x`, the reference of [`super::Recurrence::Own`]; `None` for arithmetic.
    pub step: Option<fn(x: u64, constant: u64) -> u64>,
    /// Limits of its kernels: the first that applies to a kernel counts.
    pub rates: &'static [KernelBound],
}

/// Unit of a kernel's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateUnit {
    /// Floating-point or integer operations, depending on the type.
    Operations,
    /// Bytes.
    Bytes,
}

/// A rate, and the kernels that it limits.
#[derive(Debug)]
pub struct KernelBound {
    /// Whether it applies to a kernel.
    pub of: fn(&ComputeKernel) -> bool,
    /// Rate of a core.
    pub rate: CoreRate,
}

impl KernelBound {
    const fn of(of: fn(&ComputeKernel) -> bool, rate: CoreRate) -> Self {
        Self { of, rate }
    }

    const fn in_cycles(of: fn(&ComputeKernel) -> bool, key: &'static str, what: &'static str) -> Self {
        Self { of, rate: CoreRate::in_cycles(key, what) }
    }

    const fn all(rate: CoreRate) -> Self {
        Self { of: |_| true, rate }
    }
}

/// An operation of kernels.
#[derive(Clone, Copy)]
pub struct Op(&'static OperationRow);

const ARITHMETIC: OperationRow = OperationRow {
    name: "",
    about: "",
    counted: RateUnit::Operations,
    sums_in_32_bits: false,
    step: None,
    rates: &[],
};

impl Op {
    /// Multiply-add, fused if the instruction set can.
    pub const FMA: Self = Self(&OperationRow {
        name: "fma",
        about: "2 (SSE2 has none: a multiplication and an addition, 1 each); f64, f32, f16",
        rates: &[
            KernelBound::of(ComputeKernel::is_separate, rate::MULTIPLY_THEN_ADD),
            KernelBound::all(rate::FMA),
        ],
        ..ARITHMETIC
    });

    /// Addition.
    pub const ADD: Self = Self(&OperationRow {
        name: "add",
        about: "1; f64, f32, f16; integers, modulo 2ⁿ",
        rates: &[KernelBound::of(|k| k.element.is_float(), rate::ADD), KernelBound::all(rate::INTEGER_ADD)],
        ..ARITHMETIC
    });

    /// Multiplication.
    pub const MUL: Self = Self(&OperationRow {
        name: "mul",
        about: "1; f64, f32, f16; integers, modulo 2ⁿ (x86-64 multiplies no bytes, and 64 bits only by AVX-512)",
        rates: &[
            KernelBound::of(|k| k.element.is_float(), rate::MULTIPLY),
            KernelBound::of(|k| k.element == Element::I8, rate::MULTIPLY_I8),
            KernelBound::of(|k| k.element == Element::I16, rate::MULTIPLY_I16),
            KernelBound::of(|k| k.element == Element::I32, rate::MULTIPLY_I32),
            KernelBound::of(|k| k.element == Element::I64, rate::MULTIPLY_I64),
        ],
        ..ARITHMETIC
    });

    /// As many additions as multiplications, independent of each other.
    pub const MIX: Self = Self(&OperationRow {
        name: "mix",
        about: "1; as many additions as multiplications, in chains of one kind each or of both, whichever is quicker on this \
                core; f64, f32, f16",
        rates: &[KernelBound::all(rate::MULTIPLY_AND_ADD)],
        ..ARITHMETIC
    });

    /// Products of narrow numbers, summed in wide ones.
    pub const DOT: Self = Self(&OperationRow {
        name: "dot",
        about: "2 for each product: a lane of 32 bits sums 4 products of i8, or 2 of i16 or bf16; a result of an AMX tile 64 \
                and 32, one of SMMLA and BFMMLA (`mmla`) 8 and 4; i8, i16, bf16",
        sums_in_32_bits: true,
        rates: &[
            KernelBound::of(|k| k.isa.is_matrix() && k.element == Element::Bf16, rate::MATRIX_BF16),
            KernelBound::of(|k| k.isa.is_matrix(), rate::MATRIX_I8),
            KernelBound::of(|k| k.element == Element::Bf16, rate::DOT_BF16),
            KernelBound::all(rate::DOT_INTEGER),
        ],
        ..ARITHMETIC
    });

    /// Division.
    pub const DIV: Self = Self(&OperationRow {
        name: "div",
        about: "1; f64, f32, f16",
        rates: &[
            KernelBound::in_cycles(|k| k.element == Element::F64, "divide_f64_cycles", "divisions"),
            KernelBound::in_cycles(|k| k.element == Element::F32, "divide_f32_cycles", "divisions"),
            KernelBound::in_cycles(|k| k.element == Element::F16, "divide_f16_cycles", "divisions"),
        ],
        ..ARITHMETIC
    });

    /// Square root.
    pub const SQRT: Self = Self(&OperationRow {
        name: "sqrt",
        about: "1; f64, f32, f16",
        rates: &[
            KernelBound::in_cycles(|k| k.element == Element::F64, "root_f64_cycles", "square roots"),
            KernelBound::in_cycles(|k| k.element == Element::F32, "root_f32_cycles", "square roots"),
            KernelBound::in_cycles(|k| k.element == Element::F16, "root_f16_cycles", "square roots"),
        ],
        ..ARITHMETIC
    });

    /// CRC-32C: cyclic redundancy check with Castagnoli's polynomial.
    pub const CRC32C: Self = Self(&OperationRow {
        name: "crc32c",
        about: "8 bytes, by the instruction for it (SSE4.2, FEAT_CRC32), so the rate is in B/s; i64",
        counted: RateUnit::Bytes,
        step: Some(crc32c),
        rates: &[KernelBound::all(CoreRate {
            latency: LatencyKey::Of("crc32c_latency"),
            ..CoreRate::new("crc32c", "CRC32C steps")
        })],
        ..ARITHMETIC
    });

    /// Every operation with kernels.
    pub const ALL: &'static [Self] =
        &[Self::FMA, Self::ADD, Self::MUL, Self::MIX, Self::DOT, Self::DIV, Self::SQRT, Self::CRC32C];

    /// Returns the operation's properties: name, unit, limits and definition.
    pub const fn row(self) -> &'static OperationRow {
        self.0
    }

    /// Returns the operation's name in options and results, such as `fma`.
    pub const fn name(self) -> &'static str {
        self.0.name
    }
}

/// Returns every instruction rate of a core that limits kernels of some operation.
pub fn rates() -> impl Iterator<Item = CoreRate> {
    Op::ALL.iter().flat_map(|op| op.row().rates).map(|bound| bound.rate)
}

impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Op {}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Castagnoli's polynomial x³² + x²⁸ + x²⁷ + … + 1, bits reversed (RFC 3720, 12.1).
const CASTAGNOLI: u32 = 0x82f6_3b78;

static CHECKS: [u32; 256] = checks();

const fn checks() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut check, mut bit) = (byte as u32, 0);
        while bit < 8 {
            check = check >> 1 ^ if check & 1 == 1 { CASTAGNOLI } else { 0 };
            bit += 1;
        }
        table[byte] = check;
        byte += 1;
    }
    table
}

/// Returns the CRC-32C `x` (its low half) continued over the 8 `bytes`, lowest first.
fn crc32c(x: u64, bytes: u64) -> u64 {
    let check = bytes.to_le_bytes().into_iter().fold(x as u32, |check, byte| {
        let [low, ..] = check.to_le_bytes();
        check >> 8 ^ CHECKS[usize::from(low ^ byte)]
    });
    u64::from(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 3720, B.4.
    #[test]
    fn the_reference_of_crc32c_is_that_of_iscsi() {
        let check = |words: [u64; 4]| !words.into_iter().fold(u64::from(u32::MAX), crc32c) as u32;
        let rising = |first: u8| u64::from_le_bytes(std::array::from_fn(|at| first + at as u8));
        let words = [[0; 4], [u64::MAX; 4], [0, 8, 16, 24].map(rising)];
        assert_eq!(words.map(check), [0x8a91_36aa, 0x62a8_ab43, 0x46dd_794e]);
    }
}
