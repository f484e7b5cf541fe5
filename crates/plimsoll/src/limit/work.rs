//! Kinds of work that cores have different rates for, and rates by vector width.

use serde::Deserialize;

/// What an instruction asks of a core: each has a rate of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Fused multiply-add.
    Fma,
    /// Floating-point addition.
    Add,
    /// Floating-point multiplication.
    Multiply,
    /// Floating-point additions and as many multiplications, counted together.
    MultiplyAndAdd,
    /// Integer addition.
    IntegerAdd,
    /// Multiplication of 8-bit integers.
    MultiplyI8,
    /// Multiplication of 16-bit integers.
    MultiplyI16,
    /// Multiplication of 32-bit integers.
    MultiplyI32,
    /// Multiplication of 64-bit integers.
    MultiplyI64,
    /// Dot product of 8-bit or 16-bit integers.
    DotInteger,
    /// Dot product of bfloat16.
    DotBf16,
    /// Product of matrices of 8-bit integers.
    MatrixI8,
    /// Product of matrices of bfloat16.
    MatrixBf16,
    /// Division of binary64.
    DivideF64,
    /// Division of binary32.
    DivideF32,
    /// Division of binary16.
    DivideF16,
    /// Square root of binary64.
    RootF64,
    /// Square root of binary32.
    RootF32,
    /// Square root of binary16.
    RootF16,
}

impl Work {
    /// Every kind.
    pub const ALL: [Self; 19] = [
        Self::Fma,
        Self::Add,
        Self::Multiply,
        Self::MultiplyAndAdd,
        Self::IntegerAdd,
        Self::MultiplyI8,
        Self::MultiplyI16,
        Self::MultiplyI32,
        Self::MultiplyI64,
        Self::DotInteger,
        Self::DotBf16,
        Self::MatrixI8,
        Self::MatrixBf16,
        Self::DivideF64,
        Self::DivideF32,
        Self::DivideF16,
        Self::RootF64,
        Self::RootF32,
        Self::RootF16,
    ];

    /// As in a formula: what is started in a cycle.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fma => "FMA",
            Self::Add | Self::IntegerAdd => "additions",
            Self::Multiply | Self::MultiplyI8 | Self::MultiplyI16 | Self::MultiplyI32 | Self::MultiplyI64 => {
                "multiplications"
            }
            Self::MultiplyAndAdd => "multiplications and additions",
            Self::DotInteger | Self::DotBf16 => "dot products",
            Self::MatrixI8 | Self::MatrixBf16 => "matrix products",
            Self::DivideF64 | Self::DivideF32 | Self::DivideF16 => "divisions",
            Self::RootF64 | Self::RootF32 | Self::RootF16 => "square roots",
        }
    }

    /// Whether SVE does it at the rate of Advanced SIMD in vectors of the same width, on the chips that have rows. The
    /// others are other instructions there, or have pipes of their own.
    pub fn is_alike_in_sve(self) -> bool {
        matches!(self, Self::Fma | Self::Add | Self::Multiply | Self::MultiplyAndAdd | Self::IntegerAdd)
    }

    /// What one 512-bit unit for multiplication does in a cycle, where chips differ in the number of these units.
    pub(super) fn per_512_unit(self) -> Option<f64> {
        match self {
            Self::Fma
            | Self::Add
            | Self::Multiply
            | Self::MultiplyAndAdd
            | Self::MultiplyI16
            | Self::DotInteger => Some(1.0),
            // Two passes through the unit.
            Self::MultiplyI32 => Some(0.5),
            _ => None,
        }
    }
}

/// A rate or a time by vector width in bits.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Widths {
    #[serde(rename = "128")]
    pub(super) bits_128: Option<f64>,
    #[serde(rename = "256")]
    pub(super) bits_256: Option<f64>,
    #[serde(rename = "512")]
    pub(super) bits_512: Option<f64>,
    /// A tile of AMX.
    #[serde(rename = "8192")]
    pub(super) bits_8192: Option<f64>,
}

impl Widths {
    pub(super) fn at(self, bits: u32) -> Option<f64> {
        match bits {
            128 => self.bits_128,
            256 => self.bits_256,
            512 => self.bits_512,
            8192 => self.bits_8192,
            _ => None,
        }
    }

    /// Cycles for each as so many a cycle.
    pub(super) fn inverse(self) -> Self {
        let each = |cycles: Option<f64>| cycles.map(f64::recip);
        Self {
            bits_128: each(self.bits_128),
            bits_256: each(self.bits_256),
            bits_512: each(self.bits_512),
            bits_8192: each(self.bits_8192),
        }
    }
}
