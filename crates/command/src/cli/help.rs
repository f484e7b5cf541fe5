//! Help by task: commands in groups, and the main options of each. `--help-all` shows all options.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command};

pub(super) const HELP_ALL_FLAG: &str = "--help-all";

const RUN: &str = "run";

/// Commands by task; those of the subsystems follow [`RUN`].
const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &[RUN, "gate", "watch", "steady", "serve", "key"]),
    ("Look at results", &["report", "export", "import", "history", "compare", "check", "gather", "site"]),
    ("Know the machine, plans, reference tools", &["machine", "doctor", "plan", "references"]),
];

const HELP: &[&str] = &["help", "help-all"];

/// Common options in the short help of a subsystem.
const OF_PART: &[&str] = &["only", "samples", "sample-time", "json"];

/// Options in the short help of `plimsoll run`.
const OF_RUN: &[&str] = &[
    "plan", "server", "hosts", "only", "dry-run", "samples", "budget", "repeat", "dir", "against", "require",
    "json", "html",
];
pub(super) const EXIT_CODES_HELP: &str = "Exit codes: 0 done, 1 bad result, 2 usage, 3 refused, \
    4 environment, 5 server or other machine, 6 unknown, 130 interrupted.";

pub(super) const HELP_COLUMNS: usize = 80;

/// Formats (name, description) rows in two columns of at most `width` characters in all.
pub fn rows(rows: &[(&str, String)], width: usize) -> String {
    let room = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let margin = room + 4;
    let mut text = String::new();
    for (name, about) in rows {
        let mut line = format!("  {name:<room$} ");
        for word in about.split_whitespace() {
            let is_first = line.chars().count() < margin;
            if !is_first && line.chars().count() + 1 + word.chars().count() > width {
                text = text + line.trim_end() + "\n";
                line = " ".repeat(margin - 1);
            }
            line = line + " " + word;
        }
        text = text + line.trim_end() + "\n";
    }
    text
}

/// Formats (name, description) rows below a title, in lines of at most `width` characters.
pub(super) fn listed(title: &str, all: &[(&str, String)], width: usize) -> String {
    format!("{title}:\n{}", rows(all, width).trim_end())
}

const USAGE: &str = "\
plimsoll measures what a machine can do, and how far each figure is from its limit.

Usage: plimsoll COMMAND [OPTIONS]

  plimsoll run                    CPU, memory, disk and network in a minute
  plimsoll run standard           The same in ten minutes, more cases
  plimsoll run --html page.html   With a page of charts
  plimsoll cpu|memory|disk        One part, with options of its own
  plimsoll network --server HOST  Two machines; HOST runs plimsoll serve
  plimsoll doctor                 Whether the machine is quiet enough
  plimsoll gate                   Healthy, sick or unknown, in 15 seconds
  plimsoll compare A B            Which differences are larger than the noise
  plimsoll check FILE             Whether another tool's result can be true

plimsoll --help lists all commands, plimsoll help COMMAND the options of one.
It writes only its history, and test files that it removes again.
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelpAmount {
    First,
    All,
    Usage,
}

/// Returns the amount of help that is requested, and the arguments, where [`HELP_ALL_FLAG`], `help`
/// and an empty command line are replaced by `--help`, and `version` by `--version`.
pub(super) fn asked(arguments: impl IntoIterator<Item = OsString>) -> (HelpAmount, Vec<OsString>) {
    let mut asked = HelpAmount::First;
    let mut words: Vec<OsString> = arguments.into_iter().collect();
    // Words after `--` belong to another program.
    let own = words.iter_mut().take_while(|word| **word != "--");
    for word in own.filter(|word| **word == HELP_ALL_FLAG) {
        (asked, *word) = (HelpAmount::All, OsString::from("--help"));
    }
    match words.get(1).and_then(|word| word.to_str()) {
        None if words.len() < 2 => {
            asked = HelpAmount::Usage;
            words = ["plimsoll", "--help"].map(OsString::from).into();
        }
        // `help plan`, and `plan help` of a command that has commands.
        Some(first)
            if first == "help"
                || ["plan", "history", "key"].contains(&first)
                    && words.get(2).is_some_and(|word| word == "help") =>
        {
            words.retain(|word| word != "help");
            // Options would require their values.
            words.retain(|word| !word.as_encoded_bytes().starts_with(b"-"));
            words.push("--help".into());
        }
        Some("version") => words[1] = "--version".into(),
        _ => {}
    }
    (asked, words)
}

/// Arranges the help of `command` in groups; hides less important options unless all are `asked`.
pub(super) fn arranged(command: Command, asked: HelpAmount) -> Command {
    if asked == HelpAmount::Usage {
        return command.override_help(USAGE);
    }
    let groups = groups(&command);
    let command = command
        .help_template(
            "{about}\n\nUsage: plimsoll COMMAND [OPTIONS]\n\n{before-help}Options:\n{options}{after-help}",
        )
        .before_help(groups);

    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let first = match plimsoll_bench::subsystem(&name) {
            Some(part) => [OF_PART, part.asked_first],
            None if name == RUN => [OF_RUN, &[]],
            None => return command,
        };
        command.mut_subcommand(name, |command| shortened(command, &first, asked == HelpAmount::All))
    })
}

fn groups(command: &Command) -> StyledStr {
    let about = |name: &'static str| {
        let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        (name, about.unwrap_or_default())
    };
    let group = |(title, names): &(&str, &[&'static str])| {
        let with_parts = |name: &'static str| {
            std::iter::once(name).chain(plimsoll_bench::commands().filter(move |_| name == RUN))
        };
        let all: Vec<(&str, String)> = names.iter().copied().flat_map(with_parts).map(about).collect();
        format!("{title}:\n{}\n", rows(&all, HELP_COLUMNS))
    };
    GROUPS.iter().map(group).collect::<String>().into()
}

/// Hides options whose names are in no list of `first`, unless `all`, and adds `--help-all`.
fn shortened(command: Command, first: &[&[&str]], all: bool) -> Command {
    let more =
        Arg::new("help-all").long("help-all").action(ArgAction::SetTrue).help("Print help with all options");
    let command = command.arg(more);
    if all {
        return command;
    }
    command.mut_args(|arg| {
        let shown = first.iter().chain([&HELP]).any(|names| {
            names.contains(&arg.get_id().as_str()) || arg.get_long().is_some_and(|long| names.contains(&long))
        });
        arg.hide(!shown)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn rows_keep_their_width_and_their_margin() {
        let text = rows(&[("a", "one two three".to_owned()), ("long", String::new())], 14);
        assert_eq!(text, "  a     one\n        two\n        three\n  long\n");
    }

    #[test]
    fn no_line_of_any_help_is_wider_than_80_columns_and_that_of_the_program_fits_40_lines() {
        fn check(command: &mut Command, name: &str) {
            for line in command.clone().term_width(80).render_help().to_string().lines() {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
            for sub in command.get_subcommands_mut() {
                let name = format!("{name} {}", sub.get_name());
                check(sub, &name);
            }
        }
        for asked in [HelpAmount::First, HelpAmount::All] {
            let mut command = arranged(cli::command(), asked).term_width(80);
            command.build();
            check(&mut command, "plimsoll");
        }
        let help = arranged(cli::command(), HelpAmount::First).term_width(80).render_help().to_string();
        assert!(help.trim_end().lines().count() <= 40, "{help}");
    }

    #[test]
    fn the_list_of_benchmarks_has_a_margin_of_its_own() {
        let mut all = cli::command().term_width(80);
        let help = all.find_subcommand_mut("cpu").unwrap().clone().term_width(80).render_help().to_string();
        let list = help.split("Benchmarks:\n").nth(1).unwrap();
        let is_row = |line: &str| line.starts_with("  cpu.") || line.starts_with("                 ");
        assert!(list.lines().filter(|line| !line.is_empty()).all(is_row), "{list}");
    }
}
