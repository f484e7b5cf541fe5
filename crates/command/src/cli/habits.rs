//! Options that people type by habit, answered with what to type here: fio's and iperf3's with the whole line, in the commands that do
//! what these tools do, and some of other tools.
//!
//! They are answered and not taken: one thing has one name, and what the other tool means by it is not always the same.

mod hints;
mod line;
mod table;
mod values;

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ErrorKind};

use line::{Line, Word};
use table::{Here, Tool};

use crate::text::shown_within;

/// What is wrong with a command line, in these words where its options are another tool's.
pub(super) fn explained(error: clap::Error, command: &Command, arguments: &[OsString]) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let refused = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let apart = line::unbundled(command, arguments);
    let line = Line::read(command, apart.as_deref().unwrap_or(arguments));
    if !refused.starts_with('-') {
        // A checksum of fio after a space.
        let is_checksum = line.value(&["--verify"]) == Some(refused.as_str());
        return if is_checksum { checksum(&line).err().unwrap_or(error) } else { error };
    }
    let said = answer(&line).or_else(|| hints::answer(&refused, &line));
    said.map_or(error, |said| clap::Error::raw(ErrorKind::UnknownArgument, said))
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
    checksum(&line)?;
    operation(&line)
}

fn checksum(line: &Line<'_>) -> Result<(), clap::Error> {
    let values = line.value(&["--verify"]).unwrap_or_default();
    let Some(value) = values.split(',').find(|value| !["on", "off", ""].contains(value)) else {
        return Ok(());
    };
    let shown = shown_within(value, 40);
    let said = format!(
        "--verify must be on or off: '{shown}' is neither; plimsoll has one checksum, write --verify"
    );
    Err(clap::Error::raw(ErrorKind::InvalidValue, said))
}

fn operation(line: &Line<'_>) -> Result<(), clap::Error> {
    let values = line.value(&["--op"]).unwrap_or_default().split(',');
    let Some((value, here)) = values.filter_map(|one| Some((one, table::operation_here(one)?))).next() else {
        return Ok(());
    };
    let all = "read, write, append, mixed, copy or trim";
    let said = format!("--op must be {all}: for fio's {value} write {here}");
    Err(clap::Error::raw(ErrorKind::InvalidValue, said))
}

/// What the other tools' options of a command line are here: the whole line to type. `None` where there are none.
fn answer(line: &Line<'_>) -> Option<String> {
    let tool = Tool::of(line)?;
    let theirs = line.habits(tool);
    if theirs.is_empty() {
        return None;
    }
    let mut said = format!("{} {} of {}", theirs.join(" "), options(theirs.len()), tool.name());
    let target = target(line, tool);
    let mut parts = Parts::default();
    line.words(tool, target).into_iter().for_each(|word| parts.add(word, target, line));
    let Parts { here, without, unsupported, notes } = parts;
    if !here.is_empty() || target == "serve" {
        let here = line.without_repeats(target, &here).join(" ");
        said += format!(": write {} {target} {here}", line.program).trim_end();
        if target == Tool::Iperf3.command() && theirs.iter().any(|name| ["-c", "--client"].contains(name)) {
            said += " (to an iperf3 server: --server iperf3://HOST)";
        }
        if theirs.contains(&"--ioengine") && line.value(&["--ioengine"]) == Some("libaio") {
            said += " (plimsoll has no libaio; io_uring is the nearest)";
        }
        if here.contains(" --rate ") && line.has(&["-P", "--parallel"]) {
            said += " (--rate is the sum of all streams)";
        }
    }
    if !without.is_empty() {
        said += &format!("; plimsoll {target} has nothing like {}: leave it out", without.join(", "));
    }
    if let [.., (_, place)] = &unsupported[..] {
        let names: Vec<&str> = unsupported.iter().map(|(name, _)| name.as_str()).collect();
        let (are, them) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
        said += &format!("; {} {are} not supported {place}: leave {them} out", names.join(" "));
    }
    notes.iter().for_each(|note| said += &format!("; {note}"));
    Some(said)
}

const fn options(count: usize) -> &'static str {
    if count == 1 { "is an option" } else { "are options" }
}

/// The parts of an answer.
#[derive(Default)]
struct Parts {
    /// The options to type.
    here: Vec<String>,
    /// The names of options without a counterpart.
    without: Vec<String>,
    /// The names of options that the benchmark lacks, and where.
    unsupported: Vec<(String, String)>,
    /// What is to be known of others.
    notes: Vec<String>,
}

impl Parts {
    fn add(&mut self, word: Word<'_>, target: &str, line: &Line<'_>) {
        match word {
            Word::Kept(text) => {
                let name = text.split([' ', '=']).next().unwrap_or_default().to_owned();
                self.write(&name, text, target, line);
            }
            Word::Unknown(name) => self.without.push(name),
            Word::Theirs(name, habit, value) => match (habit.here)(&shell_value(value), line) {
                Here::Write(text) if line.has_all(target, &text) => match values::wrong(&text) {
                    Some(wrong) if !value.is_empty() => self.notes.push(format!("{name} is {wrong}")),
                    _ => self.write(name, text, target, line),
                },
                Here::Unneeded(why) => self.notes.push(format!("{name} is not needed: {why}")),
                Here::Refused(why) => self.notes.push(format!("{name} is {why}")),
                Here::Without | Here::Write(_) => self.without.push(name.to_owned()),
                Here::WithAnother => {}
            },
        }
    }

    fn write(&mut self, name: &str, text: String, target: &str, line: &Line<'_>) {
        match line.not_supported(target, &text) {
            Some(place) => self.unsupported.push((name.to_owned(), place)),
            None => self.here.push(text),
        }
    }
}

/// The command that the options are for.
fn target(line: &Line<'_>, tool: Tool) -> &'static str {
    let connects = line.has(&["-c", "--client"]);
    let serves = line.has(&["-s"]) || line.command == Some("serve") && !connects;
    if tool == Tool::Iperf3 && serves { "serve" } else { tool.command() }
}

/// A value as it is written in a line to type.
fn shell_value(value: &str) -> String {
    if value.is_empty() { values::VALUE.to_owned() } else { quoted(value) }
}

/// As a shell takes it as one word.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%[]".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests;
