//! Where the command is in a command line: options of the program may come before it, and are refused there.

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

    /// The options before the command, each with its name and its words.
    fn options(&self, root: &Command) -> Vec<(&'a str, Vec<&'a str>)> {
        let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut wanted = false;
        for word in &self.before {
            match all.last_mut() {
                Some((_, words)) if wanted => words.push(word),
                _ => all.push((name_of(word), vec![word])),
            }
            wanted = !wanted && wants_value(root, word);
        }
        all
    }

    /// The names of the options before the command, and the words with these options after it. An option that is on both sides
    /// stays as it is after the command.
    pub(super) fn mended(&self, root: &Command) -> (Vec<&'a str>, Vec<&'a str>) {
        let options = self.options(root);
        let again = |name: &str| self.after.iter().any(|word| name_of(word) == name);
        let moved = options.iter().filter(|(name, _)| !again(name)).flat_map(|(_, words)| words);
        let words = self.after.iter().chain(moved).copied().collect();
        (options.iter().map(|(name, _)| *name).collect(), words)
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

/// Whether this word is an option without the value that it needs.
fn wants_value(root: &Command, word: &str) -> bool {
    let is_bare = word.starts_with("--") && !word.contains('=') || word.len() == 2 && word.starts_with('-');
    is_bare && option(root, word).is_some_and(takes_value)
}

/// The place of the command. A word after an option that the program does not have may be its value.
fn place(root: &Command, words: &[&str]) -> Option<usize> {
    let (mut value, mut perhaps) = (false, false);
    for (place, word) in words.iter().enumerate() {
        if value {
            (value, perhaps) = (false, false);
        } else if word.starts_with('-') {
            (value, perhaps) = (wants_value(root, word), option(root, name_of(word)).is_none());
        } else if root.find_subcommand(word).is_some() {
            return Some(place);
        } else if perhaps {
            perhaps = false;
        } else {
            return None;
        }
    }
    None
}
