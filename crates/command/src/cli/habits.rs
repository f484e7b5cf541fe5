//! Options that people type by habit, with what plimsoll calls the same: fio's and iperf3's.
//!
//! They are answered and not taken: one thing has one name, and what the other tool means by it is not always the same.

use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};

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

/// What iperf3 measures by default.
const TCP: &str = " --only network.tcp";

/// Options of fio 3.33 and iperf3 3.12 that have a counterpart, by their manual pages.
const HABITS: &[Habit] = &[
    habit("fio", &["--rw", "--readwrite"], Takes::Value, operation),
    habit("fio", &["--rwmixread"], Takes::Value, |v| format!("--op mixed --read-share {v}")),
    habit("fio", &["--bs", "--blocksize", "--bssplit"], Takes::Value, |v| format!("--block {v}")),
    habit("fio", &["--iodepth"], Takes::Value, |v| format!("--depth {v}")),
    habit("fio", &["--numjobs"], Takes::Value, |v| format!("--threads {v}")),
    habit("fio", &["--runtime", "--time"], Takes::Value, seconds),
    habit("fio", &["--time_based"], Takes::Nothing, |_| {
        "--time_based is not needed: samples have a fixed time".to_owned()
    }),
    habit("fio", &["--ioengine"], Takes::Value, engine),
    habit("fio", &["--direct"], Takes::Value, |v| {
        format!("--cache {}", if v == "0" { "buffered" } else { "direct" })
    }),
    habit("fio", &["--rate_iops"], Takes::Value, |v| format!("--rate {v}")),
    habit("fio", &["--latency_target"], Takes::Value, |v| format!("--latency-target p99={v}")),
    habit("fio", &["--fsync"], Takes::Value, |v| format!("--sync every:{v}")),
    habit("fio", &["--end_fsync"], Takes::Value, |_| "--sync end".to_owned()),
    habit("fio", &["--ramp_time"], Takes::Value, |_| {
        "--ramp_time is not needed: each case has its warm-up".to_owned()
    }),
    habit("fio", &["--filename"], Takes::Value, |v| match v.rsplit_once('/') {
        Some(("/dev" | "/dev/mapper", _)) => format!("--target {v}"),
        Some((directory, _)) if !directory.is_empty() => format!("--dir {directory}"),
        _ => "--dir .".to_owned(),
    }),
    habit("fio", &["--directory"], Takes::Value, |v| format!("--dir {v}")),
    habit("fio", &["--output-format"], Takes::Value, |_| "--json FILE".to_owned()),
    habit("fio", &["--name"], Takes::Value, |_| {
        "--name is not needed: `plimsoll history tag` names a run".to_owned()
    }),
    habit("iperf3", &["-c", "--client"], Takes::Value, |v| format!("--server {v}{TCP}")),
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
    habit("iperf3", &["-i"], Takes::Value, |_| "-i is not needed: --events FILE has each sample".to_owned()),
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

fn engine(value: &str) -> String {
    match value {
        "io_uring" | "libaio" => "--engine io_uring".to_owned(),
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => "--engine psync".to_owned(),
        "mmap" => "--engine mmap".to_owned(),
        _ => "--engine io_uring (plimsoll has io_uring, psync and mmap)".to_owned(),
    }
}

/// A number alone is seconds in both tools.
fn with_unit(value: &str) -> String {
    if value.bytes().all(|b| b.is_ascii_digit()) { format!("{value}s") } else { value.to_owned() }
}

fn seconds(value: &str) -> String {
    let (number, unit) = match value.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (value.strip_suffix('s').unwrap_or(value), 1),
    };
    match number.parse::<u32>().map(|number| number.saturating_mul(unit)) {
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
    let refused = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let is_habit = HABITS.iter().flat_map(|habit| habit.typed).any(|name| *name == refused);
    if error.kind() != ErrorKind::UnknownArgument || !is_habit {
        return error;
    }
    answer(arguments).map_or(error, |said| clap::Error::raw(ErrorKind::UnknownArgument, format!("{said}\n")))
}

/// Parallel jobs or streams by which the other tool's rate is multiplied: its rate is that of each, ours that of all.
fn parallel(words: &[&str], names: &[&str]) -> u32 {
    let counted = |place: usize, word: &str| {
        let name = names.iter().find(|name| word.starts_with(**name))?;
        let rest = word.get(name.len()..).unwrap_or_default().trim_start_matches('=');
        let value = if rest.is_empty() { words.get(place + 1).copied()? } else { rest };
        value.parse().ok().filter(|number| (1..=4096).contains(number))
    };
    words.iter().enumerate().find_map(|(place, word)| counted(place, word)).unwrap_or(1)
}

/// `100M` times so many.
fn times(value: &str, factor: u32) -> String {
    let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    match digits.parse::<f64>() {
        Ok(number) if factor > 1 => format!("{}{}", number * f64::from(factor), &value[digits.len()..]),
        _ => value.to_owned(),
    }
}

/// What the other tools' options of a command line are here, as options to type; `None` where there are none.
pub(super) fn answer(arguments: &[OsString]) -> Option<String> {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let (mut typed, mut here, mut tools): (Vec<&str>, Vec<String>, Vec<&str>) = Default::default();
    for (place, word) in words.iter().enumerate().skip(1) {
        let found = HABITS
            .iter()
            .find_map(|habit| split(word, words.get(place + 1).copied(), habit).map(|value| (habit, value)));
        let Some((habit, value)) = found else { continue };
        let name = habit.typed.iter().find(|name| word.starts_with(**name)).copied().unwrap_or(word);
        let each = match name {
            "--rate_iops" => parallel(&words, &["--numjobs"]),
            "-b" | "--bitrate" | "--bandwidth" => parallel(&words, &["-P", "--parallel"]),
            _ => 1,
        };
        typed.push(name);
        here.push((habit.here)(&times(value, each)));
        if !tools.contains(&habit.tool) {
            tools.push(habit.tool);
        }
    }
    // The datagrams are named by an option of their own.
    if typed.iter().any(|name| ["-u", "--udp"].contains(name)) {
        here.iter_mut().for_each(|text| *text = text.replace(TCP, ""));
    }
    (!typed.is_empty()).then(|| sentence(&typed, &tools, here))
}

fn sentence(typed: &[&str], tools: &[&str], here: Vec<String>) -> String {
    let (notes, options): (Vec<String>, Vec<String>) =
        here.into_iter().partition(|text| text.contains("not needed"));
    let are = if typed.len() == 1 { "is an option" } else { "are options" };
    let write = if options.is_empty() { String::new() } else { format!(": write {}", options.join(" ")) };
    let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
    format!("{} {are} of {}{write}{notes}", typed.join(" "), tools.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        answer(&words).unwrap_or_default()
    }

    #[test]
    fn a_command_of_fio_is_answered_with_options_to_type() {
        assert_eq!(
            said(
                "plimsoll disk --rw randread --bs 4k --iodepth=32 --numjobs 4 --runtime 10s --rate_iops 500"
            ),
            "--rw --bs --iodepth --numjobs --runtime --rate_iops are options of fio: write --op read --pattern random --block 4k \
             --depth 32 --threads 4 --samples 10 --sample-time 1s --rate 2000"
        );
        assert_eq!(
            said("plimsoll disk --filename=/dev/sdb"),
            "--filename is an option of fio: write --target /dev/sdb"
        );
        assert_eq!(
            said("plimsoll disk --filename=/mnt/x"),
            "--filename is an option of fio: write --dir /mnt"
        );
        assert!(
            said("plimsoll disk --runtime=5m --name a")
                .contains("--samples 300 --sample-time 1s; --name is not needed")
        );
    }

    #[test]
    fn a_command_of_iperf3_is_answered_with_options_to_type() {
        assert_eq!(
            said("plimsoll network -c db1 -P4 -t 10 -R -u -b 100M"),
            "-c -P -t -R -u -b are options of iperf3: write --server db1 --streams 4 --samples 10 --sample-time 1s --direction down \
             --only network.udp --rate 400M"
        );
        assert_eq!(
            said("plimsoll network -c db1"),
            "-c is an option of iperf3: write --server db1 --only network.tcp"
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
