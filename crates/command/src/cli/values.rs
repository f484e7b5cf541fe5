//! Values as typed: each becomes what it means, or a line that says what is taken.

use std::path::PathBuf;
use std::time::Duration;

use crate::plan::file::SCALES;
use crate::quantity;

/// A sample is at least as long as what ends it takes to notice, and at most a day.
pub(super) fn sample_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    let sensible = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    if sensible.contains(&time) { Ok(time) } else { Err("between 1ms and 24h, such as 200ms".to_owned()) }
}

pub(super) fn precision(text: &str) -> Result<f64, String> {
    match quantity::parse_share(text).map_err(|e| e.to_string())? {
        share if share > 0.0 => Ok(share),
        _ => Err("above zero, such as 1%".to_owned()),
    }
}

pub(super) fn scale(text: &str) -> Result<f64, String> {
    let said = text.parse().ok().filter(|scale| SCALES.contains(scale));
    said.ok_or_else(|| "a factor from 1e-9 to 1000, such as 0.01".to_owned())
}

pub(super) fn named_server(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, place)) if !name.is_empty() && !place.is_empty() => {
            Ok((name.to_owned(), place.to_owned()))
        }
        _ => Err("NAME=HOST:PORT, such as iperf3=192.0.2.1:5201".to_owned()),
    }
}

pub(super) fn named_path(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(file)))
        }
        _ => Err("NAME=FILE, such as stream=./stream".to_owned()),
    }
}

pub(super) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a whole number from 0, such as 42".to_owned())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match quantity::parse_duration(text) {
        Ok(d) if d.is_zero() => Err("a time above zero, such as 200ms".to_owned()),
        other => other.map_err(|e| e.to_string()),
    }
}
