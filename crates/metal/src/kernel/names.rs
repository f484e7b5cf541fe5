use std::fmt;

use serde::{Deserialize, Serialize};

use super::Op;

/// Type of the numbers that a kernel computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Element {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of a binary32, with 8 bits of mantissa.
    Bf16,
    /// Integers of 64 bits, modulo 2⁶⁴.
    I64,
    /// Integers of 32 bits, modulo 2³².
    I32,
    /// Integers of 16 bits, modulo 2¹⁶.
    I16,
    /// Integers of 8 bits, modulo 2⁸.
    I8,
}

impl Element {
    /// Every type with kernels.
    pub const ALL: [Self; 8] =
        [Self::F64, Self::F32, Self::F16, Self::Bf16, Self::I64, Self::I32, Self::I16, Self::I8];

    /// Returns the type's name in options and results, such as `bf16`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
        }
    }

    /// Returns the size of one number in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 => 1,
        }
    }

    /// Returns whether the type is floating-point: its operations count as FLOP, not OP.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::Bf16)
    }

    /// Returns the type of `op`'s results on this type: dot products sum narrow numbers in 32 bits.
    #[must_use]
    pub const fn summed_by(self, op: Op) -> Self {
        match self {
            Self::Bf16 if op.row().sums_in_32_bits => Self::F32,
            Self::I8 | Self::I16 if op.row().sums_in_32_bits => Self::I32,
            _ => self,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
