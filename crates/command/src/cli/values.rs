//! Parsers of typed values. Errors follow the option's name: `must be …: 'typed' …`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_model::plan::file::SCALES;
use plimsoll_units::quantity;
use plimsoll_units::text::shown_within;

fn shown(text: &str) -> String {
    shown_within(text, 40)
}

/// Returns `value` if it is in `range`, otherwise the error `must`.
pub(super) fn within<T: PartialOrd>(value: T, range: RangeInclusive<T>, must: &str) -> Result<T, String> {
    if range.contains(&value) { Ok(value) } else { Err(must.to_owned()) }
}

/// Parses a whole number from `LEAST` to `MOST`, which must fit in a `T`.
pub(super) fn whole<T: TryFrom<u32>, const LEAST: u32, const MOST: u32>(text: &str) -> Result<T, String> {
    let wrong = |why: &str| format!("must be between {LEAST} and {MOST}: '{}' is {why}", shown(text));
    let number = quantity::parse_count(text)
        .map_err(|error| wrong(if error.is_out_of_range { "not" } else { "not a whole number" }))?;
    let number = u32::try_from(number).ok().filter(|number| (LEAST..=MOST).contains(number));
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| wrong("not"))
}

/// Parses the time of a sample, such as `200ms`: from 1 ms to a day.
pub(super) fn sample_time(text: &str) -> Result<Duration, String> {
    let wrong = format!("must be between 1ms and 24h, such as 200ms: '{}' is not", shown(text));
    within(duration(text)?, Duration::from_millis(1)..=Duration::from_secs(24 * 3600), &wrong)
}

pub(super) fn precision(text: &str) -> Result<f64, String> {
    match quantity::parse_share(text).map_err(|e| e.to_string())? {
        share if share > 0.0 => Ok(share),
        _ => Err(format!("must be above 0, such as 1%: '{}' is not", shown(text))),
    }
}

pub(super) fn scale(text: &str) -> Result<f64, String> {
    let stated = text.parse().ok().filter(|scale| SCALES.contains(scale));
    stated.ok_or_else(|| format!("must be between 1e-9 and 1000, such as 0.01: '{}' is not", shown(text)))
}

pub(super) fn named_server(text: &str) -> Result<(String, String), String> {
    named(text, "NAME=HOST:PORT, such as iperf3=192.0.2.1:5201")
}

pub(super) fn named_path(text: &str) -> Result<(String, PathBuf), String> {
    named(text, "NAME=FILE, such as stream=./stream")
}

fn named<T: for<'a> From<&'a str>>(text: &str, form: &str) -> Result<(String, T), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.into())),
        _ => Err(format!("must be {form}: '{}' is not", shown(text))),
    }
}

/// Parses a file for events. Fails for a plain number, which is a value of sysbench's `--events`.
pub(super) fn events_file(text: &str) -> Result<PathBuf, String> {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Err(format!(
            "must be a file or -: '{text}' is a number, as sysbench has it: use --samples, --work or --count (as a file: ./{text})"
        )),
        false => Ok(PathBuf::from(text)),
    }
}

pub(super) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!("must be between 0 and {}: '{}' is not a whole number of that range", u64::MAX, shown(text))
    })
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match quantity::parse_duration(text) {
        Ok(d) if d.is_zero() => Err(format!("must be above 0, such as 200ms: '{}' is not", shown(text))),
        other => other.map_err(|e| e.to_string()),
    }
}
