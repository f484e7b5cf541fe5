//! Options that people type by habit, with what plimsoll calls the same: fio's and iperf3's.
//!
//! They are answered and not taken: one thing has one name, and what the other tool means by it is not always the same.

use std::ffi::OsString;

use clap::error::ErrorKind;

/// An option of another tool.
struct Habit {
    /// As it is typed.
    typed: &'static [&'static str],
    /// Whose it is.
    tool: &'static str,
    /// What it takes.
    takes: Takes,
    /// The same here, with its value.
    here: fn(&str) -> String,
}

/// Whether a value follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
}

const fn habit(
    tool: &'static str,
    typed: &'static [&'static str],
    takes: Takes,
    here: fn(&str) -> String,
) -> Habit {
    Habit { typed, tool, takes, here }
}

/// Options of fio 3.33 and iperf3 3.12 that have a counterpart, by their manual pages.
const HABITS: &[Habit] = &[
    habit("fio", &["--rw", "--readwrite"], Takes::Value, operation),
    habit("fio", &["--rwmixread"], Takes::Value, |v| format!("--op mixed --read-share {v}")),
    habit("fio", &["--bs", "--blocksize", "--bssplit"], Takes::Value, |v| format!("--block {v}")),
    habit("fio", &["--iodepth"], Takes::Value, |v| format!("--depth {v}")),
    habit("fio", &["--numjobs"], Takes::Value, |v| format!("--threads {v}")),
    habit("fio", &["--runtime", "--time"], Takes::Value, seconds),
    habit("fio", &["--time_based"], Takes::Nothing, |_| "the usual; --volume fixes the bytes".to_owned()),
    habit("fio", &["--ioengine"], Takes::Value, |v| format!("--engine {}", engine(v))),
    habit("fio", &["--direct"], Takes::Value, |v| {
        format!("--cache {}", if v == "0" { "buffered" } else { "direct" })
    }),
    habit("fio", &["--rate_iops"], Takes::Value, |v| format!("--rate {v}")),
    habit("fio", &["--fsync"], Takes::Value, |v| format!("--sync every:{v}")),
    habit("fio", &["--end_fsync"], Takes::Value, |_| "--sync end".to_owned()),
    habit("fio", &["--ramp_time"], Takes::Value, |_| "not needed: warm-up is part of each case".to_owned()),
    habit("fio", &["--filename"], Takes::Value, |v| {
        if v.starts_with("/dev/") { format!("--target {v}") } else { "--dir DIR".to_owned() }
    }),
    habit("fio", &["--directory"], Takes::Value, |v| format!("--dir {v}")),
    habit("fio", &["--output-format"], Takes::Value, |_| {
        "--json FILE; export --format has others".to_owned()
    }),
    habit("fio", &["--name"], Takes::Value, |_| "not needed; history tag names a run".to_owned()),
    habit("iperf3", &["-c", "--client"], Takes::Value, |v| format!("network --server {v}")),
    habit("iperf3", &["-s"], Takes::Nothing, |_| "plimsoll serve".to_owned()),
    habit("iperf3", &["-P"], Takes::Value, |v| format!("--streams {v}")),
    habit("iperf3", &["-t"], Takes::Value, seconds),
    habit("iperf3", &["-R", "--reverse"], Takes::Nothing, |_| "--direction down".to_owned()),
    habit("iperf3", &["--bidir"], Takes::Nothing, |_| "--direction both".to_owned()),
    habit("iperf3", &["-u", "--udp"], Takes::Nothing, |_| "--only network.udp".to_owned()),
    habit("iperf3", &["-b", "--bitrate", "--bandwidth"], Takes::Value, |v| format!("--rate {v}")),
    habit("iperf3", &["-l", "--length"], Takes::Value, |v| format!("--message {v}")),
    habit("iperf3", &["-w"], Takes::Value, |v| format!("--window {v}")),
    habit("iperf3", &["-M", "--set-mss"], Takes::Value, |v| format!("--mss {v}")),
    habit("iperf3", &["-C"], Takes::Value, |v| format!("--congestion {v}")),
    habit("iperf3", &["-N", "--no-delay"], Takes::Nothing, |_| "--nodelay".to_owned()),
    habit("iperf3", &["-Z"], Takes::Nothing, |_| "--zerocopy".to_owned()),
    habit("iperf3", &["-O"], Takes::Value, |v| format!("--omit {}", with_unit(v))),
    habit("iperf3", &["-B"], Takes::Value, |v| format!("--bind {v}")),
    habit("iperf3", &["-J"], Takes::Nothing, |_| "--json FILE".to_owned()),
    habit("iperf3", &["-i", "--interval"], Takes::Value, |_| {
        "not needed: --events has each sample".to_owned()
    }),
];

/// fio's kinds of load.
fn operation(value: &str) -> String {
    let (pattern, op) = match value.strip_prefix("rand") {
        Some(rest) => ("random", rest),
        None => ("sequential", value),
    };
    match op {
        "rw" | "readwrite" => format!("--op mixed --pattern {pattern}"),
        op => format!("--op {op} --pattern {pattern}"),
    }
}

fn engine(value: &str) -> &str {
    match value {
        "libaio" => "io_uring",
        "sync" | "vsync" | "pvsync" => "psync",
        other => other,
    }
}

/// A number alone is seconds in both tools.
fn with_unit(value: &str) -> String {
    if value.bytes().all(|b| b.is_ascii_digit()) { format!("{value}s") } else { value.to_owned() }
}

fn seconds(value: &str) -> String {
    let number = value.strip_suffix('s').unwrap_or(value);
    match number.parse::<u32>() {
        Ok(samples @ 1..=1_000_000) => format!("--samples {samples} --sample-time 1s"),
        _ => "--samples N --sample-time TIME".to_owned(),
    }
}

/// An option and its value, from a word such as `--bs=4k` or `-P4` and the word after it.
fn split<'a>(word: &'a str, next: Option<&'a str>, habit: &Habit) -> Option<&'a str> {
    let long = |name: &str| word.strip_prefix(name)?.strip_prefix('=');
    let short = |name: &str| word.strip_prefix(name).filter(|_| !name.starts_with("--"));
    for name in habit.typed {
        match habit.takes {
            Takes::Nothing if word == *name => return Some(""),
            Takes::Value if word == *name => return Some(next.unwrap_or("VALUE")),
            Takes::Value => {
                if let Some(value) = long(name).or_else(|| short(name)) {
                    return Some(value);
                }
            }
            Takes::Nothing => {}
        }
    }
    None
}

/// What is wrong with a command line, in these words where its options are another tool's.
pub(super) fn explained(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    answer(arguments).map_or(error, |said| clap::Error::raw(ErrorKind::UnknownArgument, format!("{said}\n")))
}

/// What the other tools' options of a command line are called here, in one sentence; `None` where there are none.
pub(super) fn answer(arguments: &[OsString]) -> Option<String> {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let mut said: Vec<String> = Vec::new();
    for (place, word) in words.iter().enumerate().skip(1) {
        let found = HABITS
            .iter()
            .find_map(|habit| split(word, words.get(place + 1).copied(), habit).map(|value| (habit, value)));
        if let Some((habit, value)) = found {
            let name = habit.typed.iter().find(|name| word.starts_with(**name)).copied().unwrap_or(word);
            said.push(format!("{}'s {name} is {} here", habit.tool, (habit.here)(value)));
        }
    }
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        answer(&words).unwrap_or_default()
    }

    #[test]
    fn a_command_of_fio_is_answered_whole() {
        assert_eq!(
            said("plimsoll disk --rw randread --bs 4k --iodepth=32 --numjobs 4 --runtime 10s"),
            "fio's --rw is --op read --pattern random here; fio's --bs is --block 4k here; fio's --iodepth is --depth 32 here; \
             fio's --numjobs is --threads 4 here; fio's --runtime is --samples 10 --sample-time 1s here"
        );
    }

    #[test]
    fn a_command_of_iperf3_is_answered_whole() {
        assert_eq!(
            said("plimsoll network -c db1 -P4 -t 10 -R -u -b 100M"),
            "iperf3's -c is network --server db1 here; iperf3's -P is --streams 4 here; \
             iperf3's -t is --samples 10 --sample-time 1s here; iperf3's -R is --direction down here; \
             iperf3's -u is --only network.udp here; iperf3's -b is --rate 100M here"
        );
    }

    #[test]
    fn options_of_our_own_are_no_habits() {
        assert_eq!(
            said("plimsoll disk --op read --block 4K --depth 32 --threads 4 --target /dev/null --size 1G"),
            ""
        );
        assert_eq!(said("plimsoll network --streams 4 --rate 1G --omit 1s --bind 127.0.0.1"), "");
    }
}
