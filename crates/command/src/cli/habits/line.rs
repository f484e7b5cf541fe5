//! A command line as words: options of another tool with their values, plimsoll's own, and what nobody knows.

use std::ffi::OsString;

use clap::{ArgAction, Command};

use super::quoted;
use super::table::{HABITS, Habit, Takes};

/// A command line, read once.
pub(super) struct Line<'a> {
    root: &'a Command,
    words: Vec<&'a str>,
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
    pub(super) fn read(root: &'a Command, arguments: &'a [OsString]) -> Self {
        let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
        let command = words.first().copied().filter(|word| root.find_subcommand(word).is_some());
        Self { root, words, command }
    }

    /// The words after the command.
    fn arguments(&self) -> &[&'a str] {
        self.words.get(usize::from(self.command.is_some())..).unwrap_or_default()
    }

    /// The options that are habits, and not plimsoll's own in this command: name and row.
    pub(super) fn habits(&self) -> Vec<(&'a str, &'static Habit)> {
        let found = |word: &&'a str| {
            let (habit, name, _) = habit(word, None)?;
            (!habit.shared && !self.is_own(self.command, name)).then_some((name, habit))
        };
        self.arguments().iter().filter_map(found).collect()
    }

    /// The value of an option of one of these names; empty where it has none.
    pub(super) fn value(&self, names: &[&str]) -> Option<&'a str> {
        let words = self.arguments();
        words.iter().enumerate().find_map(|(place, word)| {
            let name = names.iter().find(|name| is_option(word, name))?;
            let rest = word.get(name.len()..).unwrap_or_default().trim_start_matches('=');
            let next = words.get(place + 1).copied().filter(|next| !next.starts_with('-'));
            Some(if rest.is_empty() { next.unwrap_or_default() } else { rest })
        })
    }

    /// Whether an option of one of these names is there.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.arguments().iter().any(|word| names.iter().any(|name| is_option(word, name)))
    }

    /// The words, sorted by whose they are, for a line of the command `target`.
    pub(super) fn words(&self, target: &str) -> Vec<Word<'a>> {
        let words = self.arguments();
        let (mut all, mut place) = (Vec::new(), 0);
        while let Some(word) = words.get(place).copied() {
            let next = words.get(place + 1).copied();
            place += 1;
            let found = habit(word, next).filter(|(habit, name, _)| {
                !self.is_own(Some(target), name) || habit.shared && habit.tool.command() == target
            });
            if let Some((habit, name, value)) = found {
                place += usize::from(habit.takes == Takes::Value && value.len() + name.len() > word.len());
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
                    let value = value.unwrap_or("VALUE");
                    let value = if needs { format!(" {}", quoted(value)) } else { String::new() };
                    all.push(Word::Kept(quoted(word) + &value));
                }
                (true, false) => {
                    place += usize::from(value.is_some());
                    all.push(Word::Unknown(name.to_owned()));
                }
                // A plan's name.
                _ if self.command == Some("run") => {}
                _ => all.push(Word::Unknown(word.to_owned())),
            }
        }
        all
    }

    /// Whether a command of plimsoll has this option.
    fn is_own(&self, command: Option<&str>, option: &str) -> bool {
        self.option(command, option).is_some()
    }

    fn takes_value(&self, command: &str, option: &str) -> bool {
        let takes = |arg: &clap::Arg| {
            matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set()
        };
        self.option(Some(command), option).is_some_and(takes)
    }

    fn option(&self, command: Option<&str>, option: &str) -> Option<&'a clap::Arg> {
        let command = match command {
            Some(name) => self.root.find_subcommand(name)?,
            None => self.root,
        };
        let long = option.strip_prefix("--");
        let short = option.strip_prefix('-').and_then(|rest| rest.chars().next());
        command.get_arguments().find(|arg| match long {
            Some(long) => arg.get_long() == Some(long),
            None => short.is_some() && arg.get_short() == short,
        })
    }
}

/// Whether a word is this option, with or without a value in it.
fn is_option(word: &str, name: &str) -> bool {
    let rest = word.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('=') || !name.starts_with("--"))
}

/// The other tool's option that a word is, with its name and value; the value may be the next word.
fn habit<'a>(word: &'a str, next: Option<&'a str>) -> Option<(&'static Habit, &'a str, &'a str)> {
    // An option is no value; a number may be negative.
    let is_value = |next: &&str| {
        next.strip_prefix('-').is_none_or(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let next = next.filter(is_value);
    let of = |habit: &'static Habit| {
        let name = habit.typed.iter().find(|name| match habit.takes {
            Takes::Nothing => word.split('=').next() == Some(**name),
            Takes::Value => is_option(word, name),
        })?;
        let (name, rest) = word.split_at(name.len());
        let rest = rest.strip_prefix('=').unwrap_or(rest);
        Some(match habit.takes {
            Takes::Value if rest.is_empty() => (habit, name, next.unwrap_or_default()),
            _ => (habit, name, rest),
        })
    };
    HABITS.iter().find_map(of)
}

/// Each option once: several of the other tool's may say the same.
pub(super) fn without_repeats(options: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for option in options {
        if !option.starts_with("--") || !kept.contains(&option) {
            kept.push(option);
        }
    }
    kept
}
