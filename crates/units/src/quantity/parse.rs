//! Parsers of typed sizes, durations, rates, counts and shares, by exact decimal arithmetic.

use std::time::Duration;

use crate::text::shown_within;

const SIZE: &str = "a size such as 4K (4096 bytes), 4kB (4000 bytes) or 1M";
const DURATION: &str = "a time such as 50us, 200ms, 10m, 1h or 30d";
const RATE: &str = "a rate per second such as 1000, 100M or 1.5G";
const COUNT: &str = "a whole number such as 32";
const SHARE: &str = "a share such as 1% or 0.01";

/// Reason why a text is not a valid value: one line with the problem and a right example, to follow
/// the name of the option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    message: String,
    /// Whether the text is a number outside the range: negative or too large.
    pub is_out_of_range: bool,
}

impl ParseError {
    fn new(what: &str, text: &str, problem: &str) -> Self {
        let is_out_of_range = ["is negative", TOO_LARGE].contains(&problem);
        Self { message: format!("must be {what}: '{}' {problem}", shown(text)), is_out_of_range }
    }
}

const TOO_LARGE: &str = "is too large";

/// Parses a size in bytes: `4096`, `4096B`, `4K` = `4k` = `4KiB` = 4096 (up to `E`), `4kB` = 4000
/// (up to `EB`), fractions if the result is whole (`1.5M`). Fails for `4KB`, which is ambiguous,
/// and above 2⁶⁴ − 1.
pub fn parse_size(text: &str) -> Result<u64, ParseError> {
    let input = ParsedInput::split(SIZE, text)?;
    let multiplier: u64 = match input.suffix {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "m" | "MiB" => 1 << 20,
        "G" | "g" | "GiB" => 1 << 30,
        "T" | "t" | "TiB" => 1 << 40,
        "P" | "p" | "PiB" => 1 << 50,
        "E" | "EiB" => 1 << 60,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "PB" => 1_000_000_000_000_000,
        "EB" => 1_000_000_000_000_000_000,
        "KB" | "kb" | "Kb" => return Err(input.error("could mean 1000 or 1024 bytes each")),
        _ => return Err(input.unknown_suffix()),
    };
    input.whole(multiplier, " of bytes")
}

/// Parses a duration: a number and its unit `ns`, `us` (`µs`), `ms`, `s`, `m` (`min`), `h`, `d`,
/// `w` or `y` (365 days), with fractions down to a nanosecond (`1.5s`). Fails without a unit and
/// above 2⁶⁴ − 1 ns (584 years).
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    let input = ParsedInput::split(DURATION, text)?;
    let nanos: u64 = match input.suffix {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        "w" => 604_800_000_000_000,
        "y" => 365 * 86_400_000_000_000,
        "" => return Err(input.error("has no unit")),
        _ => return Err(input.unknown_suffix()),
    };
    input.whole(nanos, " of nanoseconds").map(Duration::from_nanos)
}

/// Parses a rate per second above zero with SI prefixes: `100M` = 10⁸, `1.5G`, `1e8`. Fails for
/// `m`, which may mean milli or mega.
pub fn parse_rate(text: &str) -> Result<f64, ParseError> {
    let input = ParsedInput::split(RATE, text)?;
    let exponent = match input.suffix {
        "" => 0,
        "k" | "K" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        suffix if suffix.contains(['b', 'B']) => {
            let scale: String = suffix.chars().take(1).filter(|c| "kKmMgGtTpPeE".contains(*c)).collect();
            let bits = input.number.to_f64() * if suffix.contains('B') { 8.0 } else { 1.0 };
            let rate = shown_within(&bits.to_string(), 24) + &scale.to_uppercase();
            return Err(input.error(&format!(
                "is not (unknown unit '{}': for a network write bit/s such as {rate}, for a disk transfers per second)",
                shown(suffix)
            )));
        }
        _ => return Err(input.unknown_suffix()),
    };
    match input.number.shifted(exponent).to_f64() {
        rate if !rate.is_finite() => Err(input.error(TOO_LARGE)),
        0.0 => Err(input.error("is zero")),
        rate => Ok(rate),
    }
}

/// Parses a whole number up to 2⁶⁴ − 1: `1000` or `1e12`.
pub fn parse_count(text: &str) -> Result<u64, ParseError> {
    let input = ParsedInput::split(COUNT, text)?;
    if input.suffix.is_empty() { input.whole(1, "") } else { Err(input.error("is not a whole number")) }
}

/// Parses a share from 0 to 1: `1%` and `0.01` are both 0.01. Fails for `1` or more without `%`, as
/// per cent is probably meant.
pub fn parse_share(text: &str) -> Result<f64, ParseError> {
    let input = ParsedInput::split(SHARE, text)?;
    let (exponent, fits): (i32, fn(f64) -> bool) = match input.suffix {
        "" => (0, |share| share < 1.0),
        "%" => (-2, |share| share <= 1.0),
        _ => return Err(input.unknown_suffix()),
    };
    let share = input.number.shifted(exponent).to_f64();
    let percent = input.number.shifted(-2).to_f64();
    match fits(share) {
        true => Ok(share),
        false if input.suffix.is_empty() && percent < 1.0 => {
            let text = text.trim();
            let problem = format!("has no %: write {}% or {percent}", shown(text));
            Err(ParseError::new(SHARE, text, &problem))
        }
        false => Err(input.error(TOO_LARGE)),
    }
}

pub(super) fn shown(text: &str) -> String {
    shown_within(text, 40)
}

struct ParsedInput<'a> {
    what: &'static str,
    text: &'a str,
    number: Decimal,
    suffix: &'a str,
}

impl<'a> ParsedInput<'a> {
    fn split(what: &'static str, text: &'a str) -> Result<Self, ParseError> {
        let body = text.trim();
        if body.is_empty() {
            let message = format!("must be {what}: it is empty");
            return Err(ParseError { message, is_out_of_range: false });
        }
        if body.strip_prefix(['-', '−']).is_some_and(|rest| !rest.starts_with('-')) {
            return Err(ParseError::new(what, text, "is negative"));
        }
        let (number, suffix) = body.split_at(number_end(body));
        let problem = if what == COUNT { "is not a whole number" } else { "is not a number" };
        let number = Decimal::read(number).ok_or_else(|| ParseError::new(what, text, problem))?;
        Ok(ParsedInput { what, text, number, suffix: suffix.trim_start() })
    }

    fn whole(&self, multiplier: u64, unit: &str) -> Result<u64, ParseError> {
        let fraction = format!("is not a whole number{unit}");
        self.number.scaled(multiplier, &fraction).map_err(|problem| self.error(problem))
    }

    fn error(&self, problem: &str) -> ParseError {
        ParseError::new(self.what, self.text, problem)
    }

    fn unknown_suffix(&self) -> ParseError {
        let point = if self.suffix.starts_with(',') { ": the decimal mark is a point" } else { "" };
        self.error(&format!("is not (unknown unit '{}'{point})", shown(self.suffix)))
    }
}

/// Returns the length of the leading `digits[.digits][e[+-]digits]` of `text` in bytes. An `e` or
/// `E` without digits after it is no exponent: `4E` is four exbibytes.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// Exact decimal number `digits` × 10^`exponent`; nonzero `digits` have no trailing zeros.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    fn read(text: &str) -> Option<Self> {
        let cap = 100_000;
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let saturated = if exponent.starts_with('-') { -cap } else { cap };
        let exponent = exponent.parse::<i32>().unwrap_or(saturated);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() || (mantissa.contains('.') && fraction.is_empty()) {
            return None;
        }
        let joined = format!("{whole}{fraction}");
        let significant = joined.trim_end_matches('0');
        let dropped = i32::try_from(joined.len() - significant.len()).ok()?;
        let places = i32::try_from(fraction.len()).ok()?;
        if significant.is_empty() {
            return Some(Decimal { digits: 0, exponent: 0 });
        }
        let exponent = exponent.clamp(-cap, cap).checked_add(dropped)?.checked_sub(places)?;
        Some(Decimal { digits: significant.parse().ok()?, exponent })
    }

    const fn shifted(self, by: i32) -> Self {
        Decimal { digits: self.digits, exponent: self.exponent.saturating_add(by) }
    }

    fn to_f64(self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(f64::INFINITY)
    }

    /// Returns number × `multiplier`; fails with `fraction` if not whole, [`TOO_LARGE`] beyond u64.
    fn scaled(self, multiplier: u64, fraction: &str) -> Result<u64, &str> {
        if self.digits == 0 {
            return Ok(0);
        }
        let product = self.digits.checked_mul(u128::from(multiplier)).ok_or(TOO_LARGE)?;
        let value = match 10u128.checked_pow(self.exponent.unsigned_abs()) {
            power if self.exponent >= 0 => power.and_then(|power| product.checked_mul(power)),
            Some(power) if product.is_multiple_of(power) => Some(product / power),
            _ => return Err(fraction),
        };
        value.and_then(|value| u64::try_from(value).ok()).ok_or(TOO_LARGE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{format_duration, format_size};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_binary_unless_they_say_si() {
        assert_eq!(["4K", "4k", "4KiB", "4 KiB", "4096"].map(parse_size), [4096; 5].map(Ok));
        assert_eq!(["1M", "1G", "4E"].map(parse_size), [1 << 20, 1 << 30, 1 << 62].map(Ok));
        assert_eq!(["4kB", "1MB", "0.1kB", "1e3"].map(parse_size), [4000, 1_000_000, 100, 1000].map(Ok));
        assert_eq!(["0", "512B", "1.5M"].map(parse_size), [0, 512, 1_572_864].map(Ok));
        assert_eq!(parse_size("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn bad_sizes_say_what_is_right() {
        let bad: [(&str, &[&str]); 11] = [
            ("it is empty", &["", "  "]),
            ("'-1' is negative", &["-1"]),
            ("'NaN' is not a number", &["NaN"]),
            ("is not a number", &["inf", "1.", ".5K", "+4K"]),
            ("is too large", &["1e999", "1e99999999999999999999", "16E", "18446744073709551616"]),
            (": '4Q' is not (unknown unit 'Q')", &["4Q"]),
            (": '50%' is not (unknown unit '%')", &["50%"]),
            ("(unknown unit 'K@60')", &["4K@60"]),
            ("unknown unit", &["0x10", "1,000", "4K4K"]),
            ("could mean 1000 or 1024 bytes each", &["4KB"]),
            ("is not a whole number of bytes", &["0.1K", "1e-999"]),
        ];
        for (part, texts) in bad {
            for text in texts {
                let message = parse_size(text).unwrap_err().to_string();
                assert!(message.starts_with("must be a size such as 4K (4096 bytes)"), "{text}: {message}");
                assert!(message.contains(part), "{text}: {message}");
                assert_eq!(message.lines().count(), 1);
            }
        }
        let count = parse_count("0x").unwrap_err().to_string();
        assert_eq!(count, "must be a whole number such as 32: '0x' is not a whole number");
    }

    #[test]
    fn durations_need_their_unit() {
        let short = ["50us", "50µs", "200ms", "1.5s"].map(parse_duration);
        assert_eq!(short, [50, 50, 200_000, 1_500_000].map(|us| Ok(Duration::from_micros(us))));
        let long = ["10m", "1h", "2w", "1y"].map(parse_duration);
        assert_eq!(long, [600, 3600, 14 * 86_400, 365 * 86_400].map(|s| Ok(Duration::from_secs(s))));
        for (text, part) in [
            ("10", "has no unit"),
            ("10M", "unknown unit"),
            ("0.5ns", "not a whole number of nanoseconds"),
            ("6000000h", "too large"),
            ("-1s", "negative"),
            ("NaNs", "not a number"),
            ("", "empty"),
        ] {
            let message = parse_duration(text).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("200ms"), "{text}: {message}");
        }
    }

    #[test]
    fn rates_are_si() {
        assert_eq!(["100M", "1.5G", "0.5", "1e8"].map(parse_rate), [1e8, 1.5e9, 0.5, 1e8].map(Ok));
        for text in ["0", "0k", "-1", "1e999", "NaN", "inf", "", "10m", "10Mi", "1e-999"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        for (text, bits) in
            [("10MB/s", "80M"), ("10gbit", "10G"), ("1.5Mb", "1.5M"), ("8b", "8"), ("1kB", "8K")]
        {
            let message = parse_rate(text).unwrap_err().to_string();
            assert!(message.contains(&format!("bit/s such as {bits}, ")), "{message}");
        }
    }

    #[test]
    fn counts_are_whole() {
        let counts = [0, 1000, 1500, 1_000_000_000_000].map(Ok);
        assert_eq!(["0", "1000", "1.5e3", "1e12"].map(parse_count), counts);
        for text in ["1.5", "1e-1", "1K", "1e20", "-3", "", "NaN", "1e", "٣"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_per_cent_or_parts_of_one() {
        let shares = ["1%", "0.01", "100%", "0.5 %", "0"].map(parse_share);
        assert_eq!(shares, [0.01, 0.01, 1.0, 0.005, 0.0].map(Ok));
        for text in ["1", "2", "101%", "-1%", "NaN", "", "1e999%", "%", "1%%"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
        let bare = |text| parse_share(text).unwrap_err().to_string();
        assert!(bare("5").ends_with(": '5' has no %: write 5% or 0.05"), "{}", bare("5"));
        assert!(bare("100").ends_with("'100' is too large"), "{}", bare("100"));
    }

    #[test]
    fn hostile_text_is_escaped_in_the_message() {
        let message = parse_size("4\u{1b}[31m\nQ").unwrap_err().to_string();
        assert!(!message.contains('\u{1b}') && !message.contains('\n'), "{message}");
    }

    proptest! {
        #[test]
        fn values_round_trip(value in any::<u64>(), round in 0u64..1 << 20, power in 0u32..5) {
            let (duration, round) = (Duration::from_nanos(value), round << (10 * power));
            prop_assert_eq!(parse_size(&format_size(value)), Ok(value));
            prop_assert_eq!(parse_size(&format_size(round)), Ok(round));
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            prop_assert_eq!(parse_count(&value.to_string()), Ok(value));
        }

        #[test]
        fn no_string_panics(
            text in any::<String>(), number in "[-+]?[0-9.]{0,25}[eE]?[-+]?[0-9]{0,12} ?[A-Za-zµ%]{0,4}",
        ) {
            read_all(&text);
            read_all(&number);
        }
    }

    fn read_all(text: &str) {
        let rate = parse_rate(text);
        assert!(rate.as_ref().is_ok_and(|r| *r > 0.0 && r.is_finite()) || rate.is_err());
        let share = parse_share(text);
        assert!(share.as_ref().is_ok_and(|s| (0.0..=1.0).contains(s)) || share.is_err());
        let errors = [parse_size(text).err(), parse_count(text).err(), parse_duration(text).err()];
        for error in errors.into_iter().chain([rate.err(), share.err()]).flatten() {
            assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
