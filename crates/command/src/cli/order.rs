//! The place of the command in a command line. Options before it are refused, since the program has none of its own.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// A command line by its parts. What is not UTF-8 is passed over.
pub(super) struct Order<'a> {
    /// What comes before the command; all words where there is no command.
    pub(super) before: Vec<&'a str>,
    /// The command and what comes after it.
    pub(super) after: Vec<&'a str>,
}

impl<'a> Order<'a> {
    pub(super) fn read(root: &Command, arguments: &'a [OsString]) -> Self {
        let mut words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
        let place = place(root, &words).unwrap_or(words.len());
        let after = words.split_off(place);
        Self { before: words, after }
    }

    /// The names of the options before the command, and the words with these options after it. An option that is on both sides
    /// stays as it is after the command.
    pub(super) fn mended(&self) -> (Vec<&'a str>, Vec<&'a str>) {
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

/// `--json` of `--json=-`.
fn name_of(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

/// The argument of a command that an option is.
pub(super) fn option<'c>(command: &'c Command, option: &str) -> Option<&'c Arg> {
    let long = option.strip_prefix("--");
    let short = option.strip_prefix('-').and_then(|rest| rest.chars().next());
    command.get_arguments().find(|arg| match long {
        Some(long) => {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => short.is_some() && arg.get_short() == short,
    })
}

/// Whether the word after an option may be its value.
pub(super) fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set()
}

/// The place of the command. A word after an option may be its value.
fn place(root: &Command, words: &[&str]) -> Option<usize> {
    let mut may_be_value = false;
    for (place, word) in words.iter().enumerate() {
        if word.starts_with('-') {
            may_be_value = true;
        } else if root.find_subcommand(word).is_some() {
            return Some(place);
        } else if may_be_value {
            may_be_value = false;
        } else {
            return None;
        }
    }
    None
}
