//! Values of fio's options: sizes, times, numbers and lists for reads, writes and trims.

/// Meaning of `k`, `m`, …: fio's `kb_base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// `1k` is 1024, `1ki` 1000: fio's default, for old job files.
    Compatible,
    /// `1k` is 1000, `1ki` 1024.
    Standard,
}

const PREFIXES: &[u8] = b"kmgtpe";

/// Parses a whole number with an optional unit: `4k`, `4KiB`, `0x1000`, `512b`. With `base`
/// [`Base::Compatible`] `k` is 1024, else 1000. `None` for other text or overflow.
pub(super) fn size(text: &str, base: Base) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) = number(&lower)?;
    let unit = unit.strip_suffix('b').unwrap_or(unit);
    let (prefix, binary) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, base == Base::Standard),
        None => (unit, base == Base::Compatible),
    };
    let power = match prefix.as_bytes() {
        [] if unit.is_empty() => 0,
        [one] => PREFIXES.iter().position(|known| known == one)? as u32 + 1,
        _ => return None,
    };
    let thousand: u64 = if binary { 1024 } else { 1000 };
    number.checked_mul(thousand.checked_pow(power)?)
}

/// Splits a leading decimal or `0x` number from the rest: `4 k` gives (4, `k`); `None` without one.
fn number(text: &str) -> Option<(u64, &str)> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    Some((u64::from_str_radix(&digits[..end], radix).ok()?, digits[end..].trim_start()))
}

/// Parses a whole number without a unit, decimal or `0x`; `None` for other text.
pub(super) fn count(text: &str) -> Option<u64> {
    number(text.trim()).filter(|(_, unit)| unit.is_empty()).map(|(number, _)| number)
}

/// Parses a time, `500ms`, in µs; `None` for other text. `unit`: µs of a number without a unit.
pub(super) fn microseconds(text: &str, unit: u64) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, suffix) = number(&lower)?;
    let unit = match suffix {
        "" => unit,
        "us" | "usec" => 1,
        "ms" | "msec" => 1000,
        "s" | "sec" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        "d" => 86_400 * SECOND,
        _ => return None,
    };
    number.checked_mul(unit)
}

pub(super) const SECOND: u64 = 1_000_000;

/// Parses `0` or `1` or, if `is_flag`, any number (true unless 0); `None` for words, as in fio.
pub(super) fn switch(text: &str, is_flag: bool) -> Option<bool> {
    count(text).filter(|n| is_flag || *n <= 1).map(|n| n > 0)
}

/// Returns the value for `direction` (0 to 2) in a list `reads,writes,trims`, whose last value
/// repeats; `None` if that value is empty.
pub(super) fn value_for_direction(list: &str, direction: usize) -> Option<&str> {
    let all: Vec<&str> = list.split(',').map(str::trim).collect();
    all.get(direction).or(all.last()).copied().filter(|one| !one.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_manual() {
        for text in ["4096", "4096b", "4096B", "4k", "4kb", "4kB", "4K", "4KB", "0x1000"] {
            assert_eq!(size(text, Base::Compatible), Some(4096), "{text}");
        }
        for (text, bytes) in [("1m", 1 << 20), ("1024k", 1 << 20), ("1mi", 1_000_000), ("1000ki", 1_000_000)]
        {
            assert_eq!(size(text, Base::Compatible), Some(bytes), "{text}");
        }
        assert_eq!(size("4ki", Base::Standard), Some(4096));
        assert_eq!(size("4k", Base::Standard), Some(4000));
        assert_eq!(size("1GiB", Base::Standard), Some(1 << 30));
        for text in ["", "k", "4x", "-1", "4kk", "20000000000g", "(4*1024)", "1.5m", "4i"] {
            assert_eq!(size(text, Base::Compatible), None, "{text}");
        }
    }

    #[test]
    fn times_have_units_and_seconds_without() {
        for (text, us) in [
            ("60", 60 * SECOND),
            ("10m", 600 * SECOND),
            ("1h", 3600 * SECOND),
            ("500ms", 500_000),
            ("7usec", 7),
        ] {
            assert_eq!(microseconds(text, SECOND), Some(us), "{text}");
        }
        assert_eq!(microseconds("500000", 1), Some(500_000));
        assert_eq!(microseconds("10 parsecs", 1), None);
    }

    #[test]
    fn a_list_holds_for_what_is_behind_it() {
        let all = |list| [0, 1, 2].map(|direction| value_for_direction(list, direction));
        assert_eq!(all("256k"), [Some("256k"); 3]);
        assert_eq!(all("8k,32k"), [Some("8k"), Some("32k"), Some("32k")]);
        assert_eq!(all("8k,"), [Some("8k"), None, None]);
        assert_eq!(all(",8k,"), [None, Some("8k"), None]);
    }
}
