//! What of a core bounds a kernel: its rates have names, by which tables of chips list them.

/// A rate of a core: how many instructions of a kind it starts in a cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Its key in tables of chips.
    pub key: &'static str,
    /// The instructions, as in a formula.
    pub name: &'static str,
    /// Whether tables list cycles from one to the next that does not wait for it, and not so many a cycle.
    pub in_cycles: bool,
    /// Cycles from one to the next that waits for its result.
    pub latency: Latency,
    /// What one 512-bit unit for multiplication does in a cycle, where chips differ in the number of these units.
    pub per_512_unit: Option<f64>,
    /// Whether SVE has it at the rate of Advanced SIMD in vectors of the same width, on the chips that are listed. The
    /// others are other instructions there, or have pipes of their own.
    pub is_alike_in_sve: bool,
    /// Whether scalars have the rate of vectors of 128 bits.
    pub is_alike_in_scalars: bool,
}

/// Which latency of a chip is that of an instruction, by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// None is listed.
    Unlisted,
    /// This one.
    Of(&'static str),
    /// The longer of two, of two kinds of instructions in chains of their own.
    Longer([&'static str; 2]),
    /// Half of both, of two instructions that make one step.
    Half([&'static str; 2]),
}

impl Latency {
    /// Cycles, from what `listed` says of a key; `None` where that is not known.
    pub fn cycles(self, listed: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        match self {
            Self::Unlisted => None,
            Self::Of(key) => listed(key),
            Self::Longer([a, b]) => Some(listed(a)?.max(listed(b)?)),
            Self::Half([a, b]) => Some((listed(a)? + listed(b)?) / 2.0),
        }
    }

    /// The keys that it reads.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        let keys = match self {
            Self::Unlisted => [None, None],
            Self::Of(key) => [Some(key), None],
            Self::Longer([a, b]) | Self::Half([a, b]) => [Some(a), Some(b)],
        };
        keys.into_iter().flatten()
    }
}

impl Rate {
    /// A rate of which nothing else is known.
    #[must_use]
    pub const fn new(key: &'static str, name: &'static str) -> Self {
        Self {
            key,
            name,
            in_cycles: false,
            latency: Latency::Unlisted,
            per_512_unit: None,
            is_alike_in_sve: false,
            is_alike_in_scalars: true,
        }
    }

    /// Of vectors that SVE has as well, with a latency of this key.
    const fn of_vectors(key: &'static str, name: &'static str, latency: Latency) -> Self {
        Self { latency, is_alike_in_sve: true, ..Self::new(key, name) }
    }

    /// Of so many a cycle in each 512-bit unit for multiplication.
    const fn in_each_512_unit(self, per_cycle: f64) -> Self {
        Self { per_512_unit: Some(per_cycle), ..self }
    }

    /// Of instructions that occupy their unit for cycles; scalars take fewer.
    pub(super) const fn in_cycles(key: &'static str, name: &'static str) -> Self {
        Self { in_cycles: true, is_alike_in_scalars: false, ..Self::new(key, name) }
    }
}

/// Fused multiply-adds.
pub const FMA: Rate = Rate::of_vectors("fma", "FMA", Latency::Of("fma_latency")).in_each_512_unit(1.0);
/// Additions of floating point.
pub const ADD: Rate = Rate::of_vectors("add", "additions", Latency::Of("add_latency")).in_each_512_unit(1.0);
/// Multiplications of floating point.
pub const MULTIPLY: Rate =
    Rate::of_vectors("multiply", "multiplications", Latency::Of("multiply_latency")).in_each_512_unit(1.0);
/// Multiplications and additions of floating point, as many of each, counted together, in chains of their own.
pub const MULTIPLY_AND_ADD: Rate = Rate::of_vectors(
    "multiply_add",
    "multiplications and additions",
    Latency::Longer(["add_latency", "multiply_latency"]),
)
.in_each_512_unit(1.0);
/// The same, where a step is a multiplication and an addition.
pub const MULTIPLY_THEN_ADD: Rate =
    Rate { latency: Latency::Half(["multiply_latency", "add_latency"]), ..MULTIPLY_AND_ADD };
/// Additions of integers.
pub const INTEGER_ADD: Rate =
    Rate::of_vectors("integer_add", "integer additions", Latency::Of("integer_add_latency"));
pub(super) const MULTIPLY_I8: Rate = Rate::new("multiply_i8", "multiplications");
pub(super) const MULTIPLY_I16: Rate = Rate::new("multiply_i16", "multiplications").in_each_512_unit(1.0);
/// In two passes through the unit.
pub(super) const MULTIPLY_I32: Rate = Rate::new("multiply_i32", "multiplications").in_each_512_unit(0.5);
pub(super) const MULTIPLY_I64: Rate = Rate::new("multiply_i64", "multiplications");
pub(super) const DOT_INTEGER: Rate = Rate::new("dot_integer", "dot products").in_each_512_unit(1.0);
pub(super) const DOT_BF16: Rate = Rate::new("dot_bf16", "dot products");
pub(super) const MATRIX_I8: Rate = Rate::new("matrix_i8", "matrix products");
pub(super) const MATRIX_BF16: Rate = Rate::new("matrix_bf16", "matrix products");
