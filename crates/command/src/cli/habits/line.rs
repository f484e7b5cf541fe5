//! A command line as words: options of another tool with their values, plimsoll's own, and what nobody knows.

use std::ffi::OsString;

use clap::Command;

use super::quoted;
use super::table::{HABITS, Habit, TCP, Takes, Tool, UDP, own_value};
use crate::bench::{self, BENCHMARKS};
use crate::cli::order::{self, Order};

/// The program's name in a command line that `plan show` reads.
const PLAN_SHOW: &str = "plimsoll plan show";

/// Flags of iperf3 without a counterpart.
const OTHER_FLAGS: &str = "46D1dq";

/// The words of a line, with short options of iperf3 apart that were typed as one: `-uR` is `-u -R`. `None` where the command has
/// none of iperf3's.
pub(super) fn unbundled(command: &Command, typed: &[OsString]) -> Option<Vec<OsString>> {
    match Line::read(command, typed).command {
        None | Some("run" | "serve") => {}
        Some(command) if command == Tool::Iperf3.command() => {}
        Some(_) => return None,
    }
    let apart = |word: &OsString| match word.to_str().and_then(bundle) {
        Some(options) => options.into_iter().map(OsString::from).collect(),
        None => vec![word.clone()],
    };
    Some(typed.iter().flat_map(apart).collect())
}

/// The options of one word: flags, and perhaps one that takes the rest as its value.
fn bundle(word: &str) -> Option<Vec<String>> {
    let letters = word.strip_prefix('-')?;
    let mut options = Vec::new();
    for (place, letter) in letters.char_indices() {
        let option = format!("-{letter}");
        let mut habits = HABITS.iter().filter(|habit| habit.tool == Tool::Iperf3);
        match habits.find(|habit| habit.typed.contains(&option.as_str())) {
            Some(habit) if habit.takes == Takes::Value => {
                options.push(format!("-{}", &letters[place..]));
                break;
            }
            None if !OTHER_FLAGS.contains(letter) => return None,
            _ => options.push(option),
        }
    }
    (options.len() > 1).then_some(options)
}

/// A command line, read once.
pub(super) struct Line<'a> {
    root: &'a Command,
    /// All words but the command.
    arguments: Vec<&'a str>,
    /// What comes before the command in a line to type.
    pub(super) program: &'static str,
    /// The command that was typed.
    pub(super) command: Option<&'a str>,
}

/// One word of it, or an option with its value.
pub(super) enum Word<'a> {
    /// plimsoll's own.
    Kept(String),
    /// Of the other tool: name and value.
    Theirs(&'a str, &'static Habit, &'a str),
    /// Nobody's.
    Unknown(String),
}

impl<'a> Line<'a> {
    /// Reads the words; what is not UTF-8 is passed over.
    pub(super) fn read(root: &'a Command, typed: &'a [OsString]) -> Self {
        let Order { before, after } = Order::read(root, typed);
        let command = after.first().copied();
        let arguments = before.into_iter().chain(after.into_iter().skip(1)).collect();
        let is_shown = typed.first().is_some_and(|program| program == PLAN_SHOW);
        let program = if is_shown { PLAN_SHOW } else { "plimsoll" };
        Self { root, arguments, program, command }
    }

    /// The names of the options that are habits of this tool, and not plimsoll's own in this command.
    pub(super) fn habits(&self, tool: Tool) -> Vec<&'a str> {
        let found = |word: &&'a str| {
            let (habit, name, _) = habit(tool, word, None)?;
            (!habit.shared && !self.is_own(self.command, name)).then_some(name)
        };
        self.arguments.iter().filter_map(found).collect()
    }

    /// The value of an option of one of these names; empty where it has none.
    pub(super) fn value(&self, names: &[&str]) -> Option<&'a str> {
        let words = &self.arguments;
        words.iter().enumerate().find_map(|(place, word)| {
            let name = names.iter().find(|name| is_option(word, name))?;
            let rest = word.get(name.len()..).unwrap_or_default().trim_start_matches('=');
            let next = words.get(place + 1).copied().filter(|next| !next.starts_with('-'));
            Some(if rest.is_empty() { next.unwrap_or_default() } else { rest })
        })
    }

    /// Whether an option of one of these names is there.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.arguments.iter().any(|word| names.iter().any(|name| is_option(word, name)))
    }

    /// The words, sorted by whose they are, for a line of the command `target`, which does what the tool does.
    pub(super) fn words(&self, tool: Tool, target: &str) -> Vec<Word<'a>> {
        let words = &self.arguments;
        let (mut all, mut place) = (Vec::new(), 0);
        while let Some(word) = words.get(place).copied() {
            let next = words.get(place + 1).copied();
            place += 1;
            let found = habit(tool, word, next).filter(|(habit, name, _)| {
                !self.is_own(Some(target), name) || habit.shared && tool.command() == target
            });
            if let Some((habit, name, value)) = found {
                let takes_next = habit.takes == Takes::Value && word == name;
                place += usize::from(takes_next && next.is_some_and(is_value));
                all.push(Word::Theirs(name, habit, value));
                continue;
            }
            let name = word.split('=').next().unwrap_or_default();
            let next = next.filter(|next| !next.starts_with('-'));
            let known = self.is_own(Some(target), name);
            let value = next.filter(|_| !word.contains('='));
            match (word.starts_with('-'), known) {
                (true, true) => {
                    let needs = self.takes_value(target, name) && !word.contains('=');
                    place += usize::from(needs && value.is_some());
                    all.push(Word::Kept(self.kept(tool, word, value.filter(|_| needs), needs)));
                }
                (true, false) => {
                    place += usize::from(value.is_some());
                    all.push(Word::Unknown(name.to_owned()));
                }
                // A plan's name, or an empty value.
                _ if self.command == Some("run") || word.is_empty() => {}
                _ => all.push(Word::Unknown(word.to_owned())),
            }
        }
        all
    }

    /// An option of plimsoll's own with its value, which may be the other tool's.
    fn kept(&self, tool: Tool, word: &str, next: Option<&str>, needs: bool) -> String {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, next),
        };
        let translated = value.and_then(|value| own_value(tool, name, value, self));
        translated.unwrap_or_else(|| match (needs, next) {
            (false, _) => quoted(word),
            (true, next) => format!(
                "{} {}",
                quoted(word),
                quoted(next.unwrap_or(if word == "--json" { "FILE" } else { "VALUE" }))
            ),
        })
    }

    /// The argument of the command that was typed which an option is.
    pub(super) fn own(&self, option: &str) -> Option<&'a clap::Arg> {
        self.option(self.command, option)
    }

    /// Whether a command has all options of this text.
    pub(super) fn has_all(&self, command: &str, text: &str) -> bool {
        let mut options = text.split_whitespace().filter(|word| word.starts_with("--"));
        options.all(|option| self.is_own(Some(command), option.split('=').next().unwrap_or(option)))
    }

    /// The benchmark that a line of iperf3 measures; `None` where it may be several.
    pub(super) fn benchmark(&self) -> Option<&'static str> {
        let is_udp = self.has(&["-u", "--udp"]);
        match self.value(&["--only"]).filter(|only| *only != Tool::Iperf3.command()) {
            Some(TCP) if is_udp => None,
            Some(only) => bench::find(only).map(|benchmark| benchmark.name()),
            None if is_udp => Some(UDP),
            None if self.has(&["-c", "--client"]) => Some(TCP),
            None => None,
        }
    }

    /// Where an option of this text is not supported, of those that the command `target` has.
    pub(super) fn not_supported(&self, target: &str, text: &str) -> Option<String> {
        let named = self.benchmark().filter(|_| target == Tool::Iperf3.command())?;
        let part = bench::subsystem(target)?;
        let of_part = || BENCHMARKS.iter().filter(|b| b.name().split('.').next() == Some(part.name));
        let has =
            |benchmark: &str, key: &str| of_part().any(|b| b.name() == benchmark && b.keys().contains(&key));
        let is_refused = |key: &str| !has(named, key) && of_part().any(|b| b.keys().contains(&key));
        let mut keys = text.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        let is_wrong = keys.any(|key| is_refused(key.split('=').next().unwrap_or(key)));
        is_wrong.then(|| if named == UDP { "with UDP".to_owned() } else { format!("on {named}") })
    }

    /// Each option once: several of the other tool's may say the same. An option that takes a list may be there again with
    /// another value.
    pub(super) fn without_repeats(&self, target: &str, options: &[String]) -> Vec<String> {
        let mut kept: Vec<String> = Vec::new();
        for option in options.iter().flat_map(|option| apart(option)) {
            let name = name(&option);
            let is_list = self
                .option(Some(target), name)
                .is_some_and(|arg| matches!(arg.get_action(), clap::ArgAction::Append));
            let again = |known: &String| *known == option || !is_list && self::name(known) == name;
            if !option.starts_with("--") || !kept.iter().any(again) {
                kept.push(option);
            }
        }
        kept
    }

    /// Whether a command of plimsoll has this option.
    fn is_own(&self, command: Option<&str>, option: &str) -> bool {
        self.option(command, option).is_some()
    }

    fn takes_value(&self, command: &str, option: &str) -> bool {
        self.option(Some(command), option).is_some_and(order::takes_value)
    }

    fn option(&self, command: Option<&str>, option: &str) -> Option<&'a clap::Arg> {
        let command = match command {
            Some(name) => self.root.find_subcommand(name)?,
            None => self.root,
        };
        order::option(command, option)
    }
}

/// Whether a word is this option, with or without a value in it.
fn is_option(word: &str, name: &str) -> bool {
    let rest = word.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('=') || !name.starts_with("--"))
}

/// Whether a word may be the value of the option before it: an option may not, a number may be negative.
fn is_value(word: &str) -> bool {
    word.strip_prefix('-').is_none_or(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The other tool's option that a word is, with its name and value; the value may be the next word.
fn habit<'a>(tool: Tool, word: &'a str, next: Option<&'a str>) -> Option<(&'static Habit, &'a str, &'a str)> {
    let next = next.filter(|next| is_value(next));
    let of = |habit: &'static Habit| {
        let name = habit.typed.iter().find(|name| match habit.takes {
            Takes::Nothing => word.split('=').next() == Some(**name),
            Takes::Value => is_option(word, name),
        })?;
        let (name, rest) = word.split_at(name.len());
        Some(match habit.takes {
            Takes::Value if rest.is_empty() => (habit, name, next.unwrap_or_default()),
            _ => (habit, name, rest.strip_prefix('=').unwrap_or(rest)),
        })
    };
    HABITS.iter().filter(|habit| habit.tool == tool).find_map(of)
}

/// `--samples` of `--samples 10`.
fn name(option: &str) -> &str {
    option.split([' ', '=']).next().unwrap_or(option)
}

/// The options of a text, each with its value; text with quotes is one.
fn apart(text: &str) -> Vec<String> {
    if text.contains('\'') || !text.starts_with("--") {
        return vec![text.to_owned()];
    }
    text.split(" --").map(|option| format!("--{}", option.trim_start_matches("--"))).collect()
}
