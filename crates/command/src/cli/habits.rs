//! Options that people type by habit, fio's and iperf3's, answered with the line to type here.
//!
//! They are answered and not taken: one thing has one name, and what the other tool means by it is not always the same.

mod line;
mod table;

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ErrorKind};

use line::{Line, Word};
use table::{Here, Tool};

use crate::bench;

/// What is wrong with a command line, in these words where its options are another tool's.
pub(super) fn explained(error: clap::Error, command: &Command, arguments: &[OsString]) -> clap::Error {
    let refused = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if error.kind() != ErrorKind::UnknownArgument || !refused.starts_with('-') {
        return error;
    }
    answer(command, arguments).map_or(error, |said| clap::Error::raw(ErrorKind::UnknownArgument, said))
}

/// Refuses values of fio in an option that has the same name here.
///
/// # Errors
/// The option, and what to write.
pub(super) fn values(command: &Command, arguments: &[OsString]) -> Result<(), clap::Error> {
    let line = Line::read(command, arguments);
    if line.command != Some(Tool::Fio.command()) {
        return Ok(());
    }
    let values = line.value(&["--verify"]).unwrap_or_default();
    let Some(value) = values.split(',').find(|value| !["on", "off", ""].contains(value)) else {
        return Ok(());
    };
    let shown = crate::text::shown_within(value, 40);
    let said = format!(
        "--verify must be on or off: '{shown}' is neither; plimsoll has one checksum, write --verify"
    );
    Err(clap::Error::raw(ErrorKind::InvalidValue, said))
}

/// What the other tools' options of a command line are here: the whole line to type. `None` where there are none.
fn answer(command: &Command, arguments: &[OsString]) -> Option<String> {
    let line = Line::read(command, arguments);
    let (mut theirs, mut tools): (Vec<&str>, Vec<Tool>) = Default::default();
    for (name, habit) in line.habits() {
        theirs.push(name);
        if !tools.contains(&habit.tool) {
            tools.push(habit.tool);
        }
    }
    let tool = *tools.first()?;
    let target = target(&line, tool);
    let (mut here, mut unneeded, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for word in line.words(target) {
        match word {
            Word::Kept(text) => here.push(text),
            Word::Unknown(name) => without.push(name),
            Word::Theirs(name, habit, value) => match (habit.here)(&shell_value(value), &line) {
                Here::Write(text) => here.push(text),
                Here::Unneeded(why) => unneeded.push(format!("{name} is not needed: {why}")),
                Here::Without => without.push(name.to_owned()),
                Here::WithAnother => {}
            },
        }
    }
    let tools: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    let are = if theirs.len() == 1 { "is an option" } else { "are options" };
    let mut said = format!("{} {are} of {}", theirs.join(" "), tools.join(" and "));
    if !here.is_empty() || target == "serve" {
        let server = if target == Tool::Iperf3.command()
            && theirs.iter().any(|name| ["-c", "--client"].contains(name))
        {
            " (to an iperf3 server: --server iperf3://HOST)"
        } else {
            ""
        };
        let here = line::without_repeats(here).join(" ");
        said += format!(": write plimsoll {target} {here}").trim_end();
        said += server;
    }
    if !without.is_empty() {
        said += &format!("; plimsoll has nothing like {}: leave it out", without.join(", "));
    }
    unneeded.iter().for_each(|note| said += &format!("; {note}"));
    Some(said)
}

/// The command that the options are for.
fn target<'a>(line: &Line<'a>, tool: Tool) -> &'a str {
    match line.command {
        _ if tool == Tool::Iperf3 && line.has(&["-s"]) => "serve",
        Some(typed) if bench::commands().any(|name| name == typed) => typed,
        _ => tool.command(),
    }
}

/// A value as it is written in a line to type.
fn shell_value(value: &str) -> String {
    if value.is_empty() { "VALUE".to_owned() } else { quoted(value) }
}

/// As a shell takes it as one word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%[]".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests;
