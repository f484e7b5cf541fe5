//! Options of other tools that one option here, or one of two, may be meant by: STREAM, sysbench, stress-ng, mbw and likwid-bench for
//! CPU and memory, and what people expect of every program (`--output`, `--time`).

use super::line::Line;
use super::shell_value;
use crate::bench::{self, BENCHMARKS};
use crate::cli::order;
use crate::quantity;

/// Options of other programs, and what they may mean here.
pub(super) struct Hint {
    /// As it is typed.
    pub(super) typed: &'static [&'static str],
    /// What it may mean, the likeliest first. A command offers what it has.
    meanings: &'static [Meaning],
}

/// What an option may mean: in words, the option here, and what its value is.
struct Meaning(&'static str, &'static str, Form);

/// What a value is.
#[derive(Clone, Copy)]
enum Form {
    Number,
    Time,
    Size,
    /// Elements of STREAM, which are 8 B in each of three arrays.
    Elements,
    File,
}

impl Form {
    /// The value as it is written here, a stand-in where none was typed, and `None` where it cannot be of this form.
    fn written(self, value: &str) -> Option<String> {
        let is_number = value.bytes().all(|b| b.is_ascii_digit());
        Some(match self {
            Form::Number if value.is_empty() => "N".to_owned(),
            Form::Time if value.is_empty() => "TIME".to_owned(),
            Form::Size | Form::Elements if value.is_empty() => "SIZE".to_owned(),
            Form::File if value.is_empty() => "FILE".to_owned(),
            Form::Number if is_number => value.to_owned(),
            Form::Time if is_number => format!("{value}s"),
            Form::Time if quantity::parse_duration(value).is_ok() => value.to_owned(),
            Form::Size if quantity::parse_size(value).is_ok() => value.to_owned(),
            Form::Elements => (24_u64.checked_mul(value.parse().ok().filter(|n| *n > 0)?)?).to_string(),
            Form::File => shell_value(value),
            _ => return None,
        })
    }
}

const THREADS: Meaning = Meaning("threads", "--threads", Form::Number);
const STREAMS: Meaning = Meaning("parallel connections", "--streams", Form::Number);
const SAMPLES: Meaning = Meaning("samples", "--samples", Form::Number);
const ORDER: Meaning = Meaning("the order of matrices", "--n", Form::Number);
const SAMPLE_TIME: Meaning = Meaning("the time of a sample", "--sample-time", Form::Time);
const BUDGET: Meaning = Meaning("that of all cases", "--budget", Form::Time);
const BLOCK: Meaning = Meaning("the block size", "--block", Form::Size);
const MESSAGE: Meaning = Meaning("the message size", "--message", Form::Size);
const SIZE: Meaning = Meaning("the size", "--size", Form::Size);
const ARRAYS: Meaning = Meaning("the size", "--size", Form::Elements);
const JSON: Meaning = Meaning("JSON", "--json", Form::File);
const PAGE: Meaning = Meaning("an HTML page", "--html", Form::File);

pub(super) const HINTS: &[Hint] = &[
    Hint { typed: &["-t"], meanings: &[THREADS, SAMPLE_TIME] },
    Hint {
        typed: &["--numjobs", "--num-threads", "--nthreads", "--jobs", "-j", "-T"],
        meanings: &[THREADS, STREAMS],
    },
    Hint { typed: &["-n"], meanings: &[SAMPLES, ORDER] },
    Hint { typed: &["-i", "--iterations", "--runs", "--repetitions"], meanings: &[SAMPLES] },
    Hint { typed: &["--time", "--runtime", "--duration", "--timeout"], meanings: &[SAMPLE_TIME, BUDGET] },
    Hint {
        typed: &["--bs", "--blocksize", "--block-size", "--memory-block-size", "-b"],
        meanings: &[BLOCK, MESSAGE],
    },
    Hint { typed: &["-s", "-w", "--memory-total-size", "--vm-bytes"], meanings: &[SIZE] },
    Hint { typed: &["--array-size"], meanings: &[ARRAYS] },
    Hint { typed: &["--output", "-o"], meanings: &[JSON, PAGE] },
];

impl Meaning {
    /// The option with its value, as the command of the line takes it. `None` where the command lacks it.
    fn written(&self, value: &str, line: &Line<'_>) -> Option<String> {
        let Self(_, option, form) = self;
        let value = form.written(value)?;
        // A flag writes to stdout.
        let into = if order::takes_value(line.own(option)?) { "" } else { "> " };
        Some(format!("{}{option} {into}{value}", benchmark(option.trim_start_matches('-'), line)?))
    }

    /// What a value means, in words.
    fn words(&self, value: &str) -> String {
        match self {
            Self(words, _, Form::Elements) if !value.is_empty() => {
                format!("{words} of STREAM's {value} elements in three arrays")
            }
            Self(words, ..) => (*words).to_owned(),
        }
    }
}

/// The benchmark that must be named for a parameter, where those that run by default do not take it. `None` where the command
/// refuses it.
fn benchmark(parameter: &str, line: &Line<'_>) -> Option<String> {
    let Some(part) = line.command.and_then(bench::subsystem) else { return Some(String::new()) };
    if part.instead_of_threads.is_some() && parameter == "threads" {
        return None;
    }
    let of_part = |name: &str| name.split('.').next() == Some(part.name);
    let takers = BENCHMARKS.iter().filter(|b| of_part(b.name()) && b.keys().contains(&parameter));
    let takers: Vec<_> = takers.collect();
    Some(match takers.first() {
        Some(first) if takers.iter().all(|b| !b.descriptor().by_default) => {
            format!("--only {} ", first.name())
        }
        _ => String::new(),
    })
}

/// What an option that the command lacks may mean there. `None` where nobody knows.
pub(super) fn answer(option: &str, line: &Line<'_>) -> Option<String> {
    let option = option.split('=').next().unwrap_or(option);
    let hint = HINTS.iter().find(|hint| hint.typed.contains(&option))?;
    let of = |value: &str| {
        let meant = |meaning: &Meaning| Some((meaning.words(value), meaning.written(value, line)?));
        hint.meanings.iter().filter_map(meant).collect::<Vec<_>>()
    };
    // A value that fits none is left out.
    let meant = of(line.value(&[option]).unwrap_or_default());
    let meant = if meant.is_empty() { of("") } else { meant };
    let (first, others) = meant.split_first()?;
    let command = format!("plimsoll {}", line.command.unwrap_or_default());
    let mut said =
        format!("{option} is not an option of {}: for {} write {}", command.trim_end(), first.0, first.1);
    others.iter().for_each(|(what, here)| said += &format!(", for {what} {here}"));
    Some(said)
}
