//! A value with its unit, and the two ways to write one.
//!
//! Machine form (JSON, case ids) is the plain number in the base unit; human form scales it and always prints the
//! unit. Reading what people type (`4K`, `200ms`, `1%`) is in [`parse`]; writing for people is in [`mod@format`].

mod error;
pub mod format;
mod mix;
pub mod parse;

use serde::{Deserialize, Serialize};

pub use error::{ParseError, What};
pub use format::{
    apart, format_cpus, format_duration, format_size, percent, percent_below, relative_half_width,
    significant,
};
pub use mix::{Mix, Part, Sizes, parse_sizes};
pub use parse::{parse_count, parse_duration, parse_rate, parse_share, parse_size};

/// The unit of a [`Quantity`], always unscaled. The serialised names are a contract of the run document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unit {
    /// Bytes per second (memory, disk).
    #[serde(rename = "B/s")]
    BytePerSecond,
    /// Bits per second (network).
    #[serde(rename = "bit/s")]
    BitPerSecond,
    /// Floating-point operations per second; a fused multiply-add counts as two.
    #[serde(rename = "FLOP/s")]
    FlopPerSecond,
    /// Integer operations per second.
    #[serde(rename = "OP/s")]
    OpPerSecond,
    /// Input/output requests per second.
    #[serde(rename = "IO/s")]
    IoPerSecond,
    /// Events per second: messages, round trips, flushes.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Seconds, also "seconds per byte" or "per IO" where a metric says so.
    #[serde(rename = "s")]
    Second,
    /// A plain number: a share, a ratio, a residual.
    #[serde(rename = "1")]
    One,
    /// Bytes.
    #[serde(rename = "B")]
    Byte,
    /// Cycles per second of a clock.
    #[serde(rename = "Hz")]
    Hertz,
}

impl Unit {
    /// Every unit there is, for tables and tests.
    pub const ALL: &'static [Unit] = &[
        Unit::BytePerSecond,
        Unit::BitPerSecond,
        Unit::FlopPerSecond,
        Unit::OpPerSecond,
        Unit::IoPerSecond,
        Unit::PerSecond,
        Unit::Second,
        Unit::One,
        Unit::Byte,
        Unit::Hertz,
    ];

    /// The machine name, as in the run document.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::BytePerSecond => "B/s",
            Unit::BitPerSecond => "bit/s",
            Unit::FlopPerSecond => "FLOP/s",
            Unit::OpPerSecond => "OP/s",
            Unit::IoPerSecond => "IO/s",
            Unit::PerSecond => "1/s",
            Unit::Second => "s",
            Unit::One => "1",
            Unit::Byte => "B",
            Unit::Hertz => "Hz",
        }
    }

    /// What a rate counts, in a word: `FLOP` of `FLOP/s`; `None` of what is no rate of work.
    pub fn work(self) -> Option<&'static str> {
        match self.name().strip_suffix("/s")? {
            "1" => Some("operation"),
            work => Some(work),
        }
    }

    /// The unit of that machine name, or `None`.
    pub fn from_name(name: &str) -> Option<Unit> {
        if name == "IOPS" {
            return Some(Unit::IoPerSecond);
        }
        Unit::ALL.iter().copied().find(|unit| unit.name() == name)
    }
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A value in its unit. `Display` is the human form with three significant digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The number of `unit`s, never scaled.
    pub value: f64,
    /// What is counted.
    pub unit: Unit,
}

impl Quantity {
    /// `value` counted in `unit`.
    pub const fn new(value: f64, unit: Unit) -> Self {
        Quantity { value, unit }
    }
}

/// How far a written figure may be from the one that follows, as a share of it: rounding of the last digits.
pub const WRITTEN_ROUNDING: f64 = 1e-9;

/// Whether a written figure is the right one, but for the rounding of the last digits.
pub fn is_rounded(written: f64, right: f64) -> bool {
    written == right || (written - right).abs() <= WRITTEN_ROUNDING * right.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_serialise_as_their_machine_names() {
        for &unit in Unit::ALL {
            let json = serde_json::to_string(&unit).unwrap();
            assert_eq!(json, format!("\"{}\"", unit.name()));
            assert_eq!(serde_json::from_str::<Unit>(&json).unwrap(), unit);
            assert_eq!(Unit::from_name(unit.name()), Some(unit));
        }
        assert_eq!(Unit::from_name("b/s"), None);
    }

    #[test]
    fn quantity_has_a_plain_machine_form() {
        let json = serde_json::to_string(&Quantity::new(5.88e10, Unit::FlopPerSecond)).unwrap();
        assert_eq!(json, r#"{"value":58800000000.0,"unit":"FLOP/s"}"#);
    }
}
