//! Rates of a core that limit kernels, with the keys by which tables of chips list them.

/// Number of instructions of a kind that a core starts per cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoreRate {
    /// Key in tables of chips.
    pub key: &'static str,
    /// Name of the instructions in a formula.
    pub name: &'static str,
    /// Whether tables list cycles per independent instruction instead of instructions per cycle.
    pub in_cycles: bool,
    /// Cycles of a dependent instruction.
    pub latency: LatencyKey,
    /// Instructions per cycle of one 512-bit multiplication unit, if chips differ in their number.
    pub per_512_unit: Option<f64>,
    /// Whether SVE has the rate of Advanced SIMD at the same width, on all listed chips.
    pub same_in_sve: bool,
    /// Whether scalars have the rate of 128-bit vectors.
    pub same_in_scalars: bool,
}

/// Latency of an instruction, by key in tables of chips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyKey {
    /// Not listed.
    Unlisted,
    /// This key.
    Of(&'static str),
    /// The longer of two, for two kinds of instructions in separate chains.
    Longer([&'static str; 2]),
    /// Half the sum of two, for two instructions that make one step.
    Half([&'static str; 2]),
}

impl LatencyKey {
    /// Returns the latency in cycles, from `listed` (cycles by key); `None` if a key is missing.
    pub fn cycles(self, listed: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        match self {
            Self::Unlisted => None,
            Self::Of(key) => listed(key),
            Self::Longer([a, b]) => Some(listed(a)?.max(listed(b)?)),
            Self::Half([a, b]) => Some((listed(a)? + listed(b)?) / 2.0),
        }
    }

    /// Returns the keys (0 to 2) under which tables of chips list the latency.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        let keys = match self {
            Self::Unlisted => [None, None],
            Self::Of(key) => [Some(key), None],
            Self::Longer([a, b]) | Self::Half([a, b]) => [Some(a), Some(b)],
        };
        keys.into_iter().flatten()
    }
}

impl CoreRate {
    /// Makes a rate without latency, with its `key` in tables of chips and its `name` in formulas.
    #[must_use]
    pub const fn new(key: &'static str, name: &'static str) -> Self {
        Self {
            key,
            name,
            in_cycles: false,
            latency: LatencyKey::Unlisted,
            per_512_unit: None,
            same_in_sve: false,
            same_in_scalars: true,
        }
    }

    const fn of_vectors(key: &'static str, name: &'static str, latency: LatencyKey) -> Self {
        Self { latency, same_in_sve: true, ..Self::new(key, name) }
    }

    /// Returns the rate with `per_cycle` instructions per cycle in each 512-bit multiplier.
    const fn in_each_512_unit(self, per_cycle: f64) -> Self {
        Self { per_512_unit: Some(per_cycle), ..self }
    }

    /// Makes a rate that tables list in cycles per instruction, for vectors; scalars take fewer.
    pub(super) const fn in_cycles(key: &'static str, name: &'static str) -> Self {
        Self { in_cycles: true, same_in_scalars: false, ..Self::new(key, name) }
    }
}

/// Fused multiply-adds.
pub const FMA: CoreRate =
    CoreRate::of_vectors("fma", "FMA", LatencyKey::Of("fma_latency")).in_each_512_unit(1.0);
/// Floating-point additions.
pub const ADD: CoreRate =
    CoreRate::of_vectors("add", "additions", LatencyKey::Of("add_latency")).in_each_512_unit(1.0);
/// Floating-point multiplications.
pub const MULTIPLY: CoreRate =
    CoreRate::of_vectors("multiply", "multiplications", LatencyKey::Of("multiply_latency"))
        .in_each_512_unit(1.0);
/// Floating-point multiplications and additions, as many of each, in separate chains.
pub const MULTIPLY_AND_ADD: CoreRate = CoreRate::of_vectors(
    "multiply_add",
    "multiplications and additions",
    LatencyKey::Longer(["add_latency", "multiply_latency"]),
)
.in_each_512_unit(1.0);
/// Floating-point multiplications and additions that depend on each other.
pub const MULTIPLY_THEN_ADD: CoreRate =
    CoreRate { latency: LatencyKey::Half(["multiply_latency", "add_latency"]), ..MULTIPLY_AND_ADD };
/// Integer additions.
pub const INTEGER_ADD: CoreRate =
    CoreRate::of_vectors("integer_add", "integer additions", LatencyKey::Of("integer_add_latency"));
pub(super) const MULTIPLY_I8: CoreRate = CoreRate::new("multiply_i8", "multiplications");
pub(super) const MULTIPLY_I16: CoreRate =
    CoreRate::new("multiply_i16", "multiplications").in_each_512_unit(1.0);
/// In two passes through the unit.
pub(super) const MULTIPLY_I32: CoreRate =
    CoreRate::new("multiply_i32", "multiplications").in_each_512_unit(0.5);
pub(super) const MULTIPLY_I64: CoreRate = CoreRate::new("multiply_i64", "multiplications");
pub(super) const DOT_INTEGER: CoreRate = CoreRate::new("dot_integer", "dot products").in_each_512_unit(1.0);
pub(super) const DOT_BF16: CoreRate = CoreRate::new("dot_bf16", "dot products");
pub(super) const MATRIX_I8: CoreRate = CoreRate::new("matrix_i8", "matrix products");
pub(super) const MATRIX_BF16: CoreRate = CoreRate::new("matrix_bf16", "matrix products");
