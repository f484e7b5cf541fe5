//! Formatting of quantities: for humans (`58.8 GFLOP/s`, `4 KiB`), and canonical sizes and
//! durations (`4K`, `200ms`), which [`super::parse`] reads back exactly.

use std::fmt;
use std::time::Duration;

use super::{Quantity, Unit};

/// Default number of significant digits.
pub const USUAL_DIGITS: usize = 3;

type ScaleStep = (f64, &'static str);

/// SI prefixes of rates. None below 1: "0.5 IOPS" is easier to read than "500 mIOPS".
const RATE_PREFIXES: &[ScaleStep] =
    &[(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), UNSCALED];
const TIME_PREFIXES: &[ScaleStep] = &[UNSCALED, (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p")];
const BYTE_PREFIXES: &[ScaleStep] = &[
    ((1u64 << 60) as f64, "Ei"),
    ((1u64 << 50) as f64, "Pi"),
    ((1u64 << 40) as f64, "Ti"),
    ((1u64 << 30) as f64, "Gi"),
    ((1u64 << 20) as f64, "Mi"),
    ((1u64 << 10) as f64, "Ki"),
    UNSCALED,
];
const UNSCALED: ScaleStep = (1.0, "");

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.human(USUAL_DIGITS))
    }
}

impl Quantity {
    /// Formats with `digits` significant digits (clamped to 1..=17), SI or binary prefix and unit:
    /// `58.8 GFLOP/s`, `NaN s`, `inf IOPS`. A plain number has no unit.
    pub fn human(&self, digits: usize) -> String {
        if let Some(exact) = self.exact_bytes(digits) {
            return exact;
        }
        let (number, (_, prefix)) = self.scale(digits);
        match (self.unit, prefix) {
            (Unit::One, _) => number,
            // "k1/s" would be misread, so the prefix belongs to the number.
            (Unit::PerSecond, "") => format!("{number} /s"),
            (Unit::PerSecond, prefix) => format!("{number} {prefix}/s"),
            // fio and disk vendors write IOPS; the machine form is "IO/s".
            (Unit::IoPerSecond, prefix) => format!("{number} {prefix}IOPS"),
            (unit, prefix) => format!("{number} {prefix}{}", unit.name()),
        }
    }

    fn exact_bytes(&self, digits: usize) -> Option<String> {
        const ROUNDED: f64 = 10.0 * 1_048_576.0;
        let odd = self.unit == Unit::Byte && self.value.fract() == 0.0 && self.value.abs() < ROUNDED;
        let (number, (size, _)) = self.scale(digits);
        let shown = number.parse::<f64>().ok()? * size;
        (odd && shown != self.value).then(|| format!("{} {}", self.value, self.unit.name()))
    }

    /// Returns the number as text, scaled to a prefix, and the prefix as (size, name).
    fn scale(&self, digits: usize) -> (String, ScaleStep) {
        let (value, unit) = (self.value, self.unit);
        let steps = match unit {
            Unit::Second => TIME_PREFIXES,
            Unit::One => &[UNSCALED],
            Unit::Byte => BYTE_PREFIXES,
            _ => RATE_PREFIXES,
        };
        let rounded = |value: f64| format!("{value:.*e}", digits.clamp(1, 17) - 1).parse().unwrap_or(value);
        let reaches = |(size, _): &&ScaleStep| rounded(value.abs() / size) >= 1.0;
        let is_scaled = value.is_finite() && value != 0.0;
        let step = steps.iter().find(reaches).or(steps.last()).filter(|_| is_scaled);
        let step = step.copied().unwrap_or(UNSCALED);
        let scaled = value / step.0;
        let whole = unit == Unit::Byte && scaled.fract() == 0.0 && scaled.abs() < 1e9;
        (if whole { format!("{scaled:.0}") } else { significant(scaled, digits) }, step)
    }
}

/// Formats `half_width`, in the unit of `value`, relative to `value`: `0.31 %`, at most two
/// decimals. Returns `None` if `value` is zero or either is not finite.
pub fn relative_half_width(value: f64, half_width: f64) -> Option<String> {
    let relative = (half_width / value).abs() * 100.0;
    if !relative.is_finite() || !value.is_finite() || value == 0.0 {
        return None;
    }
    Some(match relative {
        0.0 => "0 %".to_owned(),
        r if r < 0.005 => "< 0.01 %".to_owned(),
        r if r < 0.995 => format!("{r:.2} %"),
        r if r < 9.95 => format!("{r:.1} %"),
        r if r < 1e6 => format!("{r:.0} %"),
        r => format!("{r:.1e} %"),
    })
}

/// Formats a share as a percentage with `digits` significant digits: `0.998` gives `99.8 %`.
pub fn percent(share: f64, digits: usize) -> String {
    format!("{} %", significant(share * 100.0, digits))
}

/// Formats a share as a percentage rounded down to hundredths (`0.98998` gives `98.99 %`).
pub fn percent_below(share: f64) -> String {
    // Above the rounding error of `share * 1e4`: 0.57 × 10⁴ is slightly below 5700.
    const DIGIT_ROUNDING: f64 = 1e-9;
    format!("{:.2} %", (share * 1e4 + DIGIT_ROUNDING).floor() / 1e2)
}

/// Formats both `values` by `write(value, digits)` with `least` digits, or with the fewest more (up
/// to 17) that make the two texts differ.
pub fn write_distinct(values: [f64; 2], least: usize, write: impl Fn(f64, usize) -> String) -> [String; 2] {
    const MAX_DIGITS: usize = 17;
    let at = |digits| values.map(|value| write(value, digits));
    let differ = (least..=MAX_DIGITS).map(at).find(|[one, other]| one != other);
    differ.unwrap_or_else(|| at(least))
}

/// Formats a number of CPUs with `digits` significant digits: `1 CPU`, `1.5 CPUs`.
pub fn format_cpus(cpus: f64, digits: usize) -> String {
    let number = significant(cpus, digits);
    let end = if number == "1" { "" } else { "s" };
    format!("{number} CPU{end}")
}

/// Formats `value` with `digits` significant digits (clamped to 1..=17), but never rounds its
/// integer part below 10⁹; from there, and below 10⁻⁴, with an exponent.
pub fn significant(value: f64, digits: usize) -> String {
    let digits = digits.clamp(1, 17);
    if !value.is_finite() || value == 0.0 {
        // Zero added, negative zero is written without a sign.
        return (value + 0.0).to_string();
    }
    // Exponent after rounding: 9.996 becomes 10.0, not 10.00.
    let rounded = format!("{value:.*e}", digits - 1);
    let exponent: i32 = rounded.rsplit('e').next().and_then(|e| e.parse().ok()).unwrap_or(0);
    if !(-4..9).contains(&exponent) {
        return rounded;
    }
    let decimals = (digits as i32 - 1 - exponent).max(0);
    format!("{value:.*}", decimals as usize)
}

/// Formats bytes as `4K` or `1000`: in the largest of `K`, `M`, `G`, `T`, `P`, `E` (powers of 1024)
/// that divides the number, else in plain digits.
pub fn format_size(bytes: u64) -> String {
    let power = if bytes == 0 { 0 } else { bytes.trailing_zeros() / 10 };
    let suffix = ["", "K", "M", "G", "T", "P", "E"][power as usize];
    format!("{}{suffix}", bytes >> (10 * power))
}

/// Formats a duration in the largest of `h`, `m`, `s`, `ms`, `us`, `ns` that divides it: `200ms`.
pub fn format_duration(duration: Duration) -> String {
    const UNITS: [(u128, &str); 5] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
    ];
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let found = UNITS.iter().find(|(size, _)| nanos.is_multiple_of(*size));
    found.map_or_else(|| format!("{nanos}ns"), |(size, suffix)| format!("{}{suffix}", nanos / size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64, unit: Unit) -> String {
        Quantity::new(value, unit).to_string()
    }

    #[test]
    fn rates_scale_by_thousands() {
        assert_eq!(text(58.8e9, Unit::FlopPerSecond), "58.8 GFLOP/s");
        assert_eq!(text(12.3e9, Unit::BytePerSecond), "12.3 GB/s");
        assert_eq!(text(31.4e9, Unit::BitPerSecond), "31.4 Gbit/s");
        assert_eq!([152e3, 0.25].map(|rate| text(rate, Unit::IoPerSecond)), ["152 kIOPS", "0.250 IOPS"]);
        assert_eq!([17_250.0, 3.0].map(|rate| text(rate, Unit::PerSecond)), ["17.2 k/s", "3.00 /s"]);
        assert_eq!(text(3.684e9, Unit::Hertz), "3.68 GHz");
        assert_eq!(text(1e6, Unit::OpPerSecond), "1.00 MOP/s");
    }

    #[test]
    fn rounding_moves_to_the_next_prefix() {
        assert_eq!([999.96e6, 999.4e6].map(|v| text(v, Unit::BytePerSecond)), ["1.00 GB/s", "999 MB/s"]);
        assert_eq!(text(0.99996, Unit::Second), "1.00 s");
        assert_eq!(text(1023.9 * 1024.0, Unit::Byte), "1.00 MiB");
    }

    #[test]
    fn times_run_from_picoseconds_to_seconds() {
        let shown = [52.1e-12, 89e-9, 57e-6, 4.2e-3, 125.0, 1e-15].map(|time| text(time, Unit::Second));
        assert_eq!(shown, ["52.1 ps", "89.0 ns", "57.0 µs", "4.20 ms", "125 s", "0.00100 ps"]);
    }

    #[test]
    fn bytes_scale_by_1024_and_whole_and_small_sizes_are_never_rounded() {
        let shown = |bytes| text(bytes, Unit::Byte);
        let round = [512.0, 1536.0, 4096.0, 1_572_864.0, 1_073_741_824.0, 100e9, 1e18 * 5000.0];
        let scaled = ["512 B", "1.50 KiB", "4 KiB", "1.50 MiB", "1 GiB", "93.1 GiB", "4337 EiB"];
        assert_eq!(round.map(shown), scaled);
        for bytes in [1500, 2000, 4100, 5000, 1_048_577, 8_000_000] {
            assert_eq!(shown(f64::from(bytes)), format!("{bytes} B"));
        }
    }

    #[test]
    fn odd_values_read_sensibly() {
        let rates = [0.0, -1.2e9, 1e300].map(|rate| text(rate, Unit::BytePerSecond));
        assert_eq!(rates, ["0 B/s", "-1.20 GB/s", "1.00e282 EB/s"]);
        assert_eq!([-0.0, f64::NAN].map(|time| text(time, Unit::Second)), ["0 s", "NaN s"]);
        assert_eq!(text(f64::INFINITY, Unit::IoPerSecond), "inf IOPS");
        assert_eq!([f64::NEG_INFINITY, 0.998].map(|share| text(share, Unit::One)), ["-inf", "0.998"]);
    }

    #[test]
    fn digits_are_configurable() {
        let rate = Quantity::new(58.8123e9, Unit::FlopPerSecond);
        let shown = [5, 1, 0].map(|digits| rate.human(digits));
        assert_eq!(shown, ["58.812 GFLOP/s", "59 GFLOP/s", "59 GFLOP/s"]);
    }

    #[test]
    fn shares_read_as_percent() {
        let shown = [0.998, 0.9996, 0.0, f64::NAN].map(|share| percent(share, 3));
        assert_eq!(shown, ["99.8 %", "100 %", "0 %", "NaN %"]);
        assert_eq!([0.57, 0.98998, 0.5799].map(percent_below), ["57.00 %", "98.99 %", "57.99 %"]);
        assert_eq!(percent(0.38, 2), "38 %");
    }

    #[test]
    fn half_widths_are_relative_where_they_can_be() {
        let shown = [0.31e9, 0.0, 1e3, 1.2e9, 25e9].map(|half| relative_half_width(100e9, half).unwrap());
        assert_eq!(shown, ["0.31 %", "0 %", "< 0.01 %", "1.2 %", "25 %"]);
        assert_eq!([1e3, f64::NAN].map(|half_width| relative_half_width(0.0, half_width)), [None, None]);
    }

    #[test]
    fn sizes_and_durations_have_canonical_texts() {
        let sizes = [0, 1500, 4096, 1 << 20, 1 << 30, u64::MAX].map(format_size);
        assert_eq!(sizes, ["0", "1500", "4K", "1M", "1G", "18446744073709551615"]);
        let ns = [0, 1_500, 200_000_000, 90_000_000_000, 600_000_000_000];
        let durations = ns.map(|ns| format_duration(Duration::from_nanos(ns)));
        assert_eq!(durations, ["0s", "1500ns", "200ms", "90s", "10m"]);
    }

    proptest! {
        #[test]
        fn every_value_formats_with_its_unit(bits in any::<u64>(), digits in 0usize..40, index in 0..Unit::ALL.len()) {
            let (unit, _) = Unit::ALL[index];
            let text = Quantity::new(f64::from_bits(bits), unit).human(digits);
            let tail = match unit { Unit::One => "", Unit::PerSecond => "/s", Unit::IoPerSecond => "IOPS", other => other.name() };
            prop_assert!(text.ends_with(tail));
            prop_assert!(!text.starts_with(' '));
        }

        #[test]
        fn no_two_small_sizes_are_shown_alike(one in 1_u32..10 << 20, by in 1_u32..5000) {
            let shown = |bytes: u32| text(f64::from(bytes), Unit::Byte);
            prop_assert_ne!(shown(one), shown(one.saturating_sub(by)));
        }

        #[test]
        fn scaled_text_is_near_the_value(value in 1.0f64..1e18) {
            let text = text(value, Unit::BytePerSecond);
            let (number, unit) = text.split_once(' ').unwrap();
            let factor = match unit { "B/s" => 1.0, "kB/s" => 1e3, "MB/s" => 1e6, "GB/s" => 1e9, "TB/s" => 1e12, "PB/s" => 1e15, _ => 1e18 };
            let back = number.parse::<f64>().unwrap() * factor;
            prop_assert!((back / value - 1.0).abs() <= 0.00501, "{value} printed as {text}");
        }
    }
}
