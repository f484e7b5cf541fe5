//! What kernels compute: a row for each operation, and their list, [`Op::ALL`].
//!
//! A row has all that is said of an operation outside its kernels: what is counted, which rate of a core bounds it, and its
//! definition where that is no arithmetic (the recurrences of [`super::Recurrence`] define the others).

use std::fmt;
use std::str::FromStr;

use super::names::unknown;
use super::rate::{self, Rate};
use super::{Element, Kernel, UnknownName};

/// A row: what is said of an operation.
#[derive(Debug)]
pub struct Operation {
    /// Its name in cases and flags.
    pub name: &'static str,
    /// What an instruction counts for each lane, and of which types there are kernels.
    pub about: &'static str,
    /// In what its rate is counted.
    pub counted: Counted,
    /// Whether it sums products of narrow numbers in 32 bits.
    pub sums_in_32_bits: bool,
    /// What a step makes of a number and the first constant: the reference of [`super::Recurrence::Own`].
    pub step: Option<fn(x: u64, constant: u64) -> u64>,
    /// The rates of cores that bound its kernels: of each the first that holds.
    pub rates: &'static [Bound],
}

/// In what a rate is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Floating-point operations or integer ones, by the type of the numbers.
    Operations,
    /// Bytes.
    Bytes,
}

/// A rate, and the kernels that it bounds.
#[derive(Debug)]
pub struct Bound {
    /// Whether it holds for a kernel.
    pub of: fn(&Kernel) -> bool,
    /// The rate.
    pub rate: Rate,
}

impl Bound {
    const fn of(of: fn(&Kernel) -> bool, rate: Rate) -> Self {
        Self { of, rate }
    }

    const fn all(rate: Rate) -> Self {
        Self { of: |_| true, rate }
    }
}

/// What a kernel computes.
#[derive(Clone, Copy)]
pub struct Op(&'static Operation);

/// A row that only names what most rows share.
const ARITHMETIC: Operation = Operation {
    name: "",
    about: "",
    counted: Counted::Operations,
    sums_in_32_bits: false,
    step: None,
    rates: &[],
};

impl Op {
    /// Multiplication and addition, fused where the instruction set can.
    pub const FMA: Self = Self(&Operation {
        name: "fma",
        about: "2 (SSE2 has none: a multiplication and an addition, 1 each); f64, f32, f16",
        rates: &[Bound::of(Kernel::is_apart, rate::MULTIPLY_THEN_ADD), Bound::all(rate::FMA)],
        ..ARITHMETIC
    });

    /// Addition.
    pub const ADD: Self = Self(&Operation {
        name: "add",
        about: "1; f64, f32, f16; integers, modulo 2ⁿ",
        rates: &[Bound::of(|k| k.element.is_float(), rate::ADD), Bound::all(rate::INTEGER_ADD)],
        ..ARITHMETIC
    });

    /// Multiplication.
    pub const MUL: Self = Self(&Operation {
        name: "mul",
        about: "1; f64, f32, f16; integers, modulo 2ⁿ (x86-64 multiplies no bytes, and 64 bits only by AVX-512)",
        rates: &[
            Bound::of(|k| k.element.is_float(), rate::MULTIPLY),
            Bound::of(|k| k.element == Element::I8, rate::MULTIPLY_I8),
            Bound::of(|k| k.element == Element::I16, rate::MULTIPLY_I16),
            Bound::of(|k| k.element == Element::I32, rate::MULTIPLY_I32),
            Bound::of(|k| k.element == Element::I64, rate::MULTIPLY_I64),
        ],
        ..ARITHMETIC
    });

    /// Additions and as many multiplications that do not wait for one another.
    pub const MIX: Self = Self(&Operation {
        name: "mix",
        about: "1; as many additions as multiplications, in chains of one kind each or of both, whichever is quicker on this \
                core; f64, f32, f16",
        rates: &[Bound::all(rate::MULTIPLY_AND_ADD)],
        ..ARITHMETIC
    });

    /// Products of narrow numbers, summed in wide ones.
    pub const DOT: Self = Self(&Operation {
        name: "dot",
        about: "2 for each product: a lane of 32 bits sums 4 products of i8, or 2 of i16 or bf16; a result of an AMX tile 64 \
                and 32, one of SMMLA and BFMMLA (`mmla`) 8 and 4; i8, i16, bf16",
        sums_in_32_bits: true,
        rates: &[
            Bound::of(|k| k.isa.is_matrix() && k.element == Element::Bf16, rate::MATRIX_BF16),
            Bound::of(|k| k.isa.is_matrix(), rate::MATRIX_I8),
            Bound::of(|k| k.element == Element::Bf16, rate::DOT_BF16),
            Bound::all(rate::DOT_INTEGER),
        ],
        ..ARITHMETIC
    });

    /// Division.
    pub const DIV: Self = Self(&Operation {
        name: "div",
        about: "1; f64, f32, f16",
        rates: &[
            Bound::of(|k| k.element == Element::F64, Rate::in_cycles("divide_f64_cycles", "divisions")),
            Bound::of(|k| k.element == Element::F32, Rate::in_cycles("divide_f32_cycles", "divisions")),
            Bound::of(|k| k.element == Element::F16, Rate::in_cycles("divide_f16_cycles", "divisions")),
        ],
        ..ARITHMETIC
    });

    /// Square root.
    pub const SQRT: Self = Self(&Operation {
        name: "sqrt",
        about: "1; f64, f32, f16",
        rates: &[
            Bound::of(|k| k.element == Element::F64, Rate::in_cycles("root_f64_cycles", "square roots")),
            Bound::of(|k| k.element == Element::F32, Rate::in_cycles("root_f32_cycles", "square roots")),
            Bound::of(|k| k.element == Element::F16, Rate::in_cycles("root_f16_cycles", "square roots")),
        ],
        ..ARITHMETIC
    });

    /// Every operation that has kernels.
    pub const ALL: &'static [Self] =
        &[Self::FMA, Self::ADD, Self::MUL, Self::MIX, Self::DOT, Self::DIV, Self::SQRT];

    /// What is said of it.
    #[must_use]
    pub const fn row(self) -> &'static Operation {
        self.0
    }

    /// Its name in cases and flags.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }
}

/// Every rate of cores that bounds a kernel of some operation, whether or not one is built for this architecture.
pub fn rates() -> impl Iterator<Item = Rate> {
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

impl FromStr for Op {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().copied().find(|op| op.name() == text);
        let names = || Self::ALL.iter().map(|op| op.name()).collect::<Vec<_>>();
        found.ok_or_else(|| unknown("operation", text, &names()))
    }
}
