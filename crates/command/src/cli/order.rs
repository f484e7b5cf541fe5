//! Position of the command in a command line; options before it are refused.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use plimsoll_units::text::shown;

/// A command line, split at the command. Words that are not UTF-8 are ignored.
pub(super) struct CommandLine<'a> {
    pub(super) before: Vec<&'a str>,
    pub(super) after: Vec<&'a str>,
}

impl<'a> CommandLine<'a> {
    pub(super) fn read(root: &Command, arguments: &'a [OsString]) -> Self {
        let mut words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
        let place = command_index(root, &words).unwrap_or(words.len());
        let after = words.split_off(place);
        Self { before: words, after }
    }

    /// Returns the names of options before the command, and the words with these options moved
    /// after it. An option on both sides keeps its value after the command.
    pub(super) fn options_after_command(&self) -> (Vec<&'a str>, Vec<&'a str>) {
        let (mut names, mut words) = (Vec::new(), self.after.clone());
        let mut is_moved = false;
        for word in &self.before {
            if word.len() > 1 && word.starts_with('-') {
                let name = name_of(word);
                is_moved = !self.after.iter().any(|other| name_of(other) == name);
                names.push(name);
            }
            words.extend(is_moved.then_some(*word));
        }
        (names, words)
    }
}

fn name_of(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

/// Returns clap's definition of a command's `option` (`--samples` or `-q`); `None` if unknown.
pub(super) fn option<'c>(command: &'c Command, option: &str) -> Option<&'c Arg> {
    let long = option.strip_prefix("--");
    let short = option.strip_prefix('-').filter(|rest| rest.chars().count() == 1);
    let short = short.and_then(|rest| rest.chars().next());
    command.get_arguments().find(|arg| match long {
        Some(long) => arg.get_long() == Some(long),
        None => short.is_some() && arg.get_short() == short,
    })
}

/// Returns the message for an option of `here` with one dash (`-op`) or a colon
/// (`--op:read`).
pub(super) fn misspelt_option(here: &Command, order: &CommandLine<'_>) -> Option<String> {
    order.after.iter().take_while(|word| **word != "--").find_map(|word| {
        let (name, value) = word.split_once([':', '=']).unwrap_or((word, ""));
        let long = format!("--{}", name.trim_start_matches('-'));
        let is_wrong = **word != long && !word.starts_with(&format!("{long}=")) && long.len() > 3;
        let is_option = name.starts_with('-') && option(here, &long).is_some();
        (is_wrong && is_option).then(|| {
            format!("{} is not an option: write {}", shown(word), shown(format!("{long} {value}").trim()))
        })
    })
}

/// Returns whether the word after the option `arg` may be its value: not for flags and `--arg=`.
pub(super) fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set()
}

/// Returns the index of the command in `words`, if any. A word after an option may be its value.
fn command_index(root: &Command, words: &[&str]) -> Option<usize> {
    let mut may_be_value = false;
    let place = words.iter().position(|word| {
        let is_option = word.starts_with('-');
        let is_value = std::mem::replace(&mut may_be_value, is_option);
        !is_option && (root.find_subcommand(word).is_some() || !is_value)
    })?;
    root.find_subcommand(words[place]).map(|_| place)
}
