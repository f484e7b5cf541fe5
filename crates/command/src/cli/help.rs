//! Help by task: the commands in groups, and of a command's options those that are asked for first. `--help-all` has the rest.

use std::ffi::{OsStr, OsString};

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command};

use crate::bench;

/// The flag that shows all options.
pub(super) const ALL: &str = "--help-all";

/// The command that measures a plan.
const RUN: &str = "run";

/// The commands by what somebody wants to do; those of the subsystems follow [`RUN`].
const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &[RUN, "serve", "key"]),
    ("Look at results", &["report", "export", "history", "compare"]),
    ("Know the machine", &["machine", "doctor"]),
    ("Plans and reference tools", &["plan", "references"]),
];

/// Options that each short help shows.
const HELP: &[&str] = &["help", "help-all"];

/// Options of one subsystem's short help besides its own.
const OF_PART: &[&str] = &["only", "samples", "sample-time", "json"];

/// Those of `plimsoll run`, and of `plimsoll` alone.
const OF_RUN: &[&str] = &[
    "plan", "server", "only", "dry-run", "samples", "budget", "repeat", "dir", "against", "require", "json",
    "html",
];
const OF_ROOT: &[&str] = &["only", "dry-run", "json", "html", "version"];

/// Exit codes, as every command ends.
pub(super) const CODES: &str = "Without a command: plimsoll run quick. Exit codes: 0 done, 1 a requirement failed, 2 wrong usage, \
    3 refused for safety, 4 the environment failed (space, memory, I/O) or nothing was measured, 5 the server or another \
    machine failed, 130 interrupted.";

/// Whether all options are asked for, and the command line with plain `--help` in that flag's place.
pub(super) fn asked(arguments: impl IntoIterator<Item = OsString>) -> (bool, Vec<OsString>) {
    let mut all = false;
    let mut over = false;
    let words = arguments.into_iter().map(|word| {
        // After `--` there are another program's words.
        over |= word == "--";
        if !over && word == OsStr::new(ALL) {
            all = true;
            OsString::from("--help")
        } else {
            word
        }
    });
    let words = words.collect();
    (all, words)
}

/// The command with its help in groups, and with the options hidden that the short help leaves out.
pub(super) fn arranged(command: Command, all: bool) -> Command {
    let groups = groups(&command);
    let command = command
        .help_template(
            "{about}\n\nUsage: plimsoll [COMMAND] [OPTIONS]\n\n{before-help}Options:\n{options}{after-help}",
        )
        .before_help(groups);

    let command = shortened(command, &[OF_ROOT], all);
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let first = match bench::subsystem(&name) {
            Some(part) => [OF_PART, part.asked_first],
            None if name == RUN => [OF_RUN, &[]],
            None => return command,
        };
        command.mut_subcommand(name, |command| shortened(command, &first, all))
    })
}

/// The groups with one line for each command: what it is about, from the command itself.
fn groups(command: &Command) -> StyledStr {
    let about = |name: &str| {
        let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        format!("  {name:<10} {}\n", about.unwrap_or_default())
    };
    let group = |(title, names): &(&str, &[&'static str])| {
        let with_parts =
            |name: &'static str| std::iter::once(name).chain(bench::commands().filter(move |_| name == RUN));
        format!("{title}:\n{}\n", names.iter().copied().flat_map(with_parts).map(about).collect::<String>())
    };
    GROUPS.iter().map(group).collect::<String>().into()
}

/// Hides all options but the first ones, and adds the flag that shows them.
fn shortened(command: Command, first: &[&[&str]], all: bool) -> Command {
    let more = Arg::new("help-all").long("help-all").action(ArgAction::SetTrue).help("Print all options");
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
