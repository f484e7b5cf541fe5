//! Values of other tools as they are written here. Where a value has no counterpart, what the option here takes.

use std::net::IpAddr;

use super::table::Here;
use crate::case::{CaseError, Key, Value};
use crate::quantity;
use crate::text::shown_within;

/// In place of a value that was not typed.
pub(super) const VALUE: &str = "VALUE";

/// What an option is here, and what is wrong with its value.
pub(super) fn unmatched(here: &str, value: &str, why: &str) -> Here {
    Here::Refused(format!("{here} here: '{}' {why}", shown_within(value.trim_matches('\''), 40)))
}

/// What an option is here, and the numbers that it takes: its value is none of them.
fn must(option: &str, rule: &str, value: &str) -> Here {
    Here::Refused(format!(
        "{option} here, which must be {rule}: '{}' is not",
        shown_within(value.trim_matches('\''), 40)
    ))
}

/// A number from 1 to `most`, or to what the machine takes.
pub(super) fn whole(option: &str, most: Option<u64>, value: &str) -> Here {
    let is_right = |number: u64| number > 0 && most.is_none_or(|most| number <= most);
    let rule = most.map_or("1 or more".to_owned(), |most| format!("between 1 and {most}"));
    match value == VALUE || value.parse().is_ok_and(is_right) {
        true => Here::Write(format!("{option} {value}")),
        false => must(option, &rule, value),
    }
}

/// The percentage of reads, where the tool's is that of reads or of writes.
pub(super) fn read_share(value: &str, is_of_writes: bool) -> Here {
    match value.parse::<u32>() {
        Ok(writes @ 0..=100) if is_of_writes => Here::Write(format!("--read-share {}", 100 - writes)),
        Ok(0..=100) => Here::Write(format!("--read-share {value}")),
        _ if value == VALUE => Here::Write("--read-share SHARE".to_owned()),
        _ => must("--read-share", "between 0 and 100", value),
    }
}

/// Any number.
pub(super) fn seed(value: &str) -> Here {
    match value == VALUE || value.parse::<u64>().is_ok() {
        true => Here::Write(format!("--seed {value}")),
        false => must("--seed", "a whole number of 64 bits", value),
    }
}

/// What is wrong with the first value in a text of options here that is not of its option's kind.
pub(super) fn wrong(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let of_pair = |pair: &[&str]| {
        let key = Key::find(pair[0].strip_prefix("--")?).ok()?;
        match key.parse(pair[1].trim_matches('\'')) {
            Err(CaseError::BadValue { why, .. }) => Some(format!("{} here, which {why}", pair[0])),
            Ok(Value::Size(0)) => {
                Some(format!("{} here, which must be above 0: '{}' is not", pair[0], pair[1]))
            }
            _ => None,
        }
    };
    words.windows(2).filter(|pair| !pair[1].starts_with("--")).find_map(of_pair)
}

/// The disk that a file is on, or that is the file.
pub(super) fn file(value: &str) -> Here {
    const NO_DISKS: &[&str] = &["null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout"];
    let options = "--dir DIRECTORY or --target DEVICE";
    if value.contains(':') {
        return unmatched(options, value, "names several files: write one");
    }
    Here::Write(match value.rsplit_once('/') {
        None if value == VALUE => format!("--dir {value}"),
        Some(("/dev", name)) if NO_DISKS.contains(&name) => return unmatched(options, value, "is no disk"),
        Some(("/dev" | "/dev/mapper", _)) => format!("--target {value}"),
        Some((directory, _)) if directory.starts_with('\'') => format!("--dir {directory}'"),
        Some((directory, _)) if !directory.is_empty() => format!("--dir {directory}"),
        _ => "--dir .".to_owned(),
    })
}

/// The address of this machine to send from.
pub(super) fn bind(value: &str) -> Here {
    match value == VALUE || value.parse::<IpAddr>().is_ok() {
        true => Here::Write(format!("--bind {value}")),
        false => unmatched("--bind ADDRESS", value, "is not an IP address"),
    }
}

/// A number alone is seconds in both tools.
pub(super) fn with_unit(value: &str) -> String {
    if value.bytes().all(|b| b.is_ascii_digit()) { format!("{value}s") } else { value.to_owned() }
}

/// The time of all samples, unless each has an amount.
pub(super) fn time(value: &str, of_an_amount: bool) -> Here {
    match of_an_amount {
        true => Here::Unneeded("a sample of a fixed amount has no fixed time"),
        false if value == VALUE => Here::Write("--samples N --sample-time TIME".to_owned()),
        false => samples(value).map_or_else(
            || unmatched("--samples N --sample-time TIME", value, "is no time of some seconds"),
            |samples| Here::Write(format!("--samples {samples} --sample-time 1s")),
        ),
    }
}

/// Samples of a second in a time with one of fio's units.
fn samples(value: &str) -> Option<u32> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &value[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    let samples = digits.parse::<u32>().ok()?.checked_mul(seconds)?;
    (1..=1_000_000).contains(&samples).then_some(samples)
}

/// A rate of each of so many, as that of all; the tools write its unit in either case. Zero is no limit.
pub(super) fn rate(value: &str, factor: u32) -> Here {
    let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = value[digits.len()..].to_ascii_uppercase();
    let number = digits.parse::<f64>().map(|number| number * f64::from(factor));
    let text = number.as_ref().map_or_else(|_| value.to_owned(), |number| format!("{number}{unit}"));
    match number {
        _ if value == VALUE => Here::Write(format!("--rate {value}")),
        Ok(0.0) => Here::Unneeded("as fast as possible is the default"),
        Ok(_) if quantity::parse_rate(&text).is_ok() => Here::Write(format!("--rate {text}")),
        _ => unmatched("--rate RATE", value, "is no rate such as 1000, 100M or 1.5G"),
    }
}

/// A port that a server may have; a stand-in where none was typed.
pub(super) fn port(value: &str) -> Option<&str> {
    match value {
        "" | VALUE => Some("PORT"),
        port => port.parse::<u16>().is_ok_and(|port| port > 0).then_some(port),
    }
}

/// A server with a port, unless it has one.
pub(super) fn with_port(server: &str, typed: &str) -> String {
    let (scheme, host) = server.split_at(server.find("://").map_or(0, |at| at + 3));
    let Some(port) = port(typed) else { return server.to_owned() };
    match host.matches(':').count() {
        0 => format!("{scheme}{host}:{port}"),
        // An IPv6 address.
        2.. if host.ends_with(']') => format!("{scheme}{host}:{port}"),
        2.. if !host.starts_with('[') => format!("{scheme}[{host}]:{port}"),
        _ => server.to_owned(),
    }
}
