//! Values with units. The machine form (JSON, case ids) is the plain number in the base unit.

pub mod format;
mod mix;
pub mod parse;

use serde::{Deserialize, Serialize};

pub use format::{
    format_cpus, format_duration, format_size, percent, percent_below, relative_half_width, significant,
    write_distinct,
};
pub use mix::{BlockSizes, Mix, MixPart, common_divisor, parse_sizes};
pub use parse::{ParseError, parse_count, parse_duration, parse_rate, parse_share, parse_size};

/// Base unit of a [`Quantity`]. The serialised names are part of the run document's schema.
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
    /// I/O requests per second.
    #[serde(rename = "IO/s")]
    IoPerSecond,
    /// Events per second: messages, round trips, flushes.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Seconds; for some metrics seconds per byte or per request.
    #[serde(rename = "s")]
    Second,
    /// Plain number: a share, a ratio, a residual.
    #[serde(rename = "1")]
    One,
    /// Bytes.
    #[serde(rename = "B")]
    Byte,
    /// Clock frequency.
    #[serde(rename = "Hz")]
    Hertz,
}

impl Unit {
    /// All units in the order of the type, each with its name in the run document.
    pub const ALL: [(Unit, &'static str); 10] = [
        (Unit::BytePerSecond, "B/s"),
        (Unit::BitPerSecond, "bit/s"),
        (Unit::FlopPerSecond, "FLOP/s"),
        (Unit::OpPerSecond, "OP/s"),
        (Unit::IoPerSecond, "IO/s"),
        (Unit::PerSecond, "1/s"),
        (Unit::Second, "s"),
        (Unit::One, "1"),
        (Unit::Byte, "B"),
        (Unit::Hertz, "Hz"),
    ];

    /// Returns the name in the run document, such as `B/s`, `IO/s` or `1` (plain number).
    pub const fn name(self) -> &'static str {
        Unit::ALL[self as usize].1
    }

    /// Returns the noun that a rate counts: `FLOP` for `FLOP/s`, `operation` for `1/s`; `None` if
    /// the unit does not end in `/s`.
    pub fn work(self) -> Option<&'static str> {
        match self.name().strip_suffix("/s")? {
            "1" => Some("operation"),
            work => Some(work),
        }
    }

    /// Returns the unit with this name in the run document (also `IOPS`); `None` if there is none.
    pub fn from_name(name: &str) -> Option<Unit> {
        let name = if name == "IOPS" { "IO/s" } else { name };
        Unit::ALL.into_iter().find(|(_, known)| *known == name).map(|(unit, _)| unit)
    }
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A value with its unit. `Display` writes the human form with three significant digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Number of `unit`s.
    pub value: f64,
    /// Base unit.
    pub unit: Unit,
}

impl Quantity {
    /// Creates a quantity of `value` base units.
    pub const fn new(value: f64, unit: Unit) -> Self {
        Quantity { value, unit }
    }
}

/// Tolerated relative difference between a figure in a document and its exact value.
pub const WRITTEN_ROUNDING: f64 = 1e-9;

/// Returns whether the figure `written` equals the exact value `right` within a relative 1e-9.
pub fn is_rounded(written: f64, right: f64) -> bool {
    written == right || (written - right).abs() <= WRITTEN_ROUNDING * right.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_serialise_as_their_machine_names() {
        for (unit, name) in Unit::ALL {
            assert_eq!(unit.name(), name);
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
