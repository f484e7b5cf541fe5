//! Errors of a command line, one line each, in four shapes: `X requires Y`, `X and Y are mutually
//! exclusive`, `X must be …: 'typed' …`, `X is not supported on Y`.

use std::any::TypeId;
use std::error::Error as _;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use plimsoll_model::case::nearest;
use plimsoll_model::plan::built_in;
use plimsoll_units::quantity::parse_size;
use plimsoll_units::text::{shell_quoted, shown, shown_bytes, shown_within};

use super::order::{self, CommandLine};
use super::other_tools;

/// Options without effect alone: id, ids of which one is required, and what to do instead.
const REQUIRES: &[(&str, &[&str], &str)] = &[
    ("strict", &["fail_on"], ""),
    ("missing", &["fail_on", "require"], ""),
    ("format", &["tables"], "; without it use plimsoll export RUN --format FORMAT"),
    ("yes", &["install"], ""),
    ("redact", &["json", "html"], ""),
    ("destroy_data_on", &["target"], ""),
    ("key", &["server", "resume"], ""),
    ("parallel", &["hosts", "inventory"], ""),
    ("program", &["hosts", "inventory"], ""),
    ("launcher", &["hosts", "inventory"], ""),
    ("ssh_config", &["hosts", "inventory"], ""),
    ("below", &["start"], ""),
];

/// Commands that require arguments: command, what it requires, and an example.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("plimsoll report", "a run", "plimsoll report last"),
    ("plimsoll export", "a run", "plimsoll export last"),
    ("plimsoll check", "results of other tools", "plimsoll check fio.json iperf3.json"),
    ("plimsoll gather", "run documents", "plimsoll gather results/ --html fleet.html"),
    ("plimsoll site", "a directory", "plimsoll site public/"),
    ("plimsoll compare", "two runs", "plimsoll compare last~1 last"),
    ("plimsoll history show", "a run or cases", "plimsoll history show last"),
    ("plimsoll history tag", "a run and a tag", "plimsoll history tag last before-upgrade"),
    ("plimsoll history delete", "a run", "plimsoll history delete last"),
    ("plimsoll history prune", "an age", "plimsoll history prune --older 1y"),
    ("plimsoll history accept", "a run", "plimsoll history accept last"),
    ("plimsoll history note", "a run and a note", "plimsoll history note last 'new memory'"),
    ("plimsoll steady", "a command", "plimsoll steady -- make bench"),
    ("plimsoll import", "a file", "plimsoll import run.json"),
    ("plimsoll history import", "a file", "plimsoll history import run.json"),
    ("plimsoll plan check", "a plan file", "plimsoll plan check mine.toml"),
];

/// Commands that take no further word: command, and what to do instead.
const TOO_MANY_WORDS: &[(&str, &str)] = &[
    ("run", "plimsoll run measures one plan"),
    ("plan list", "plimsoll plan show PLAN prints a plan"),
    ("history list", "plimsoll history show RUN prints a run"),
    ("history show", "it prints one run; plimsoll report prints several, and plimsoll compare compares them"),
    ("history tag", "a tag is one word, such as before-upgrade"),
    ("history note", "quote the note, as in 'new memory'"),
    (
        "references",
        "plimsoll references takes no names: it lists all tools, and with --install the command that installs those missing",
    ),
];

pub(super) fn typed(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

fn option(id: &str) -> String {
    format!("--{}", id.replace('_', "-"))
}

/// Fails for a typed option that has no effect without another, such as `--key` without `--server`.
pub(super) fn requirements(command: &Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    // Typed options do not show which options exist, except in debug builds.
    let has = |id: &str| command.get_arguments().any(|argument| argument.get_id() == id);
    let missing = |(id, others, _): &&(&str, &[&str], &str)| {
        has(id)
            && others.iter().all(|other| has(other))
            && typed(matches, id)
            && !others.iter().any(|other| typed(matches, other))
    };
    let Some((id, others, instead)) = REQUIRES.iter().find(missing) else { return Ok(()) };
    let others = others.iter().map(|id| option(id)).collect::<Vec<_>>().join(" or ");
    let line = format!("{} requires {others}{instead}", option(id));
    Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, line))
}

/// Makes all options with a list accept blanks after commas, as in `--only 'cpu, memory'`.
pub(super) fn accepting_blanks(command: Command) -> Command {
    let trimmed = |text: &str| Ok::<_, String>(text.trim().to_owned());
    let command = command.mut_args(|arg| match arg.get_value_delimiter() {
        Some(_) if arg.get_value_parser().type_id() == TypeId::of::<String>() => arg.value_parser(trimmed),
        _ => arg,
    });
    command.mut_subcommands(accepting_blanks)
}

/// Fails for a typographic dash or quote, for `~` after `=`, which the shell does not expand, for a
/// blank after a comma or around `=`, and for a quoted command line. Words after `--` are not
/// examined.
pub(super) fn slips_of_typing(root: &Command, words: &[OsString]) -> Result<(), clap::Error> {
    let order = CommandLine::read(root, words);
    let path = path(root, &order);
    let takes_text = path.last().is_some_and(|command| ["note", "steady"].contains(&command.get_name()));
    let is_line = |word: &str, place: usize| {
        let (first, rest) = word.split_once(' ').unwrap_or_default();
        (rest.contains('-') || place == 0)
            && (root.find_subcommand(first).is_some() || built_in::find(first).is_some())
    };
    let is_list = |option: &str| {
        let options = path.iter().find_map(|command| order::option(command, option));
        options.is_some_and(|arg| arg.get_value_delimiter().is_some())
    };
    let words: Vec<&str> =
        order.before.iter().chain(&order.after).copied().take_while(|word| *word != "--").collect();
    for (place, word) in words.iter().copied().enumerate() {
        let before = place.checked_sub(1).and_then(|place| words.get(place)).copied().unwrap_or_default();
        let next = words.get(place + 1).copied().filter(|next| !next.starts_with('-'));
        let bare = word.trim_start_matches(['-', '–', '—', '−', '‐', '‑']);
        let unquoted = word.trim_matches(['“', '”', '„', '‘', '’', '«', '»']);
        let has_dash = word.strip_suffix(bare).is_some_and(|dashes| !dashes.is_ascii());
        let (option, value) = word.split_once('=').unwrap_or((before, word));
        let why = match next {
            _ if has_dash && bare.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                format!("'{word}' begins with a typographic dash: write --{bare}")
            }
            _ if unquoted.len() < word.len() && !unquoted.contains(' ') && !takes_text => {
                format!("'{word}' has typographic quotes: write {unquoted}")
            }
            _ if is_line(word, place) && !takes_text && !before.starts_with('-') => {
                format!("'{word}' is one word: write it without quotes")
            }
            _ if word.starts_with('-') && (value == "~" || value.starts_with("~/")) => {
                format!("{word}: the shell does not expand ~ after '=': write {option} {value}")
            }
            Some(next) if word == "=" && before.starts_with("--") => {
                format!("leave out the blanks around '=': write {before}={next}")
            }
            Some(next) if value.len() > 1 && value.ends_with(',') && is_list(option) => {
                format!("a blank follows the comma: write {option} {value}{next}")
            }
            _ => continue,
        };
        return Err(clap::Error::raw(ErrorKind::InvalidValue, shown_within(&why, 200)));
    }
    Ok(())
}

/// Fails for a value that another tool has for an option of the same name (`--ioengine=libaio`).
pub(super) fn values_of_other_tools(matches: &ArgMatches) -> Result<(), clap::Error> {
    for id in matches.ids() {
        let values = matches.get_raw(id.as_str()).into_iter().flatten().filter_map(|value| value.to_str());
        let option = option(id.as_str());
        let mut known = values.filter_map(|value| Some((value, other_tools::value(&option, value)?)));
        if let Some((value, here)) = known.next() {
            return Err(clap::Error::raw(ErrorKind::InvalidValue, foreign(&option, value, here)));
        }
    }
    Ok(())
}

/// Fails if a value in `files`, (option, value), is a plan: `--json quick` took it as its file.
pub(super) fn plan_as_file(files: &[(&str, &Option<PathBuf>)]) -> Result<(), clap::Error> {
    let mut names = files.iter().filter_map(|(option, file)| Some((option, file.as_ref()?.to_str()?)));
    let named = names.find(|(_, name)| built_in::find(name).is_some());
    let Some((option, plan)) = named else { return Ok(()) };
    let line = format!(
        "--{option} took '{plan}', the name of a plan, as its file: write plimsoll run {plan} --{option} FILE"
    );
    Err(clap::Error::raw(ErrorKind::InvalidValue, line))
}

fn foreign(option: &str, value: &str, here: &str) -> String {
    format!("{option} has no value '{value}': write {here}")
}

pub(super) fn worded(error: clap::Error, root: &Command, words: &[OsString]) -> clap::Error {
    let order = CommandLine::read(root, words);
    let path = path(root, &order);
    let kind = error.kind();
    let other = words.iter().find(|word| kind == ErrorKind::InvalidUtf8 && word.to_str().is_none());
    let other = other.map(|word| format!("'{}' is not UTF-8", shown_bytes(word.as_encoded_bytes())));
    let line = other.or_else(|| line(&error, root, &path, &order));
    line.map_or(error, |line| clap::Error::raw(kind, line))
}

/// Returns the program's command, the command and the subcommands that a command line names.
fn path<'c>(root: &'c Command, order: &CommandLine<'_>) -> Vec<&'c Command> {
    let mut path = vec![root];
    for word in &order.after {
        let last = path.last().copied().unwrap_or(root);
        match last.find_subcommand(word) {
            Some(next) => path.push(next),
            None if word.starts_with('-') => {}
            None => break,
        }
    }
    path
}

fn name(path: &[&Command]) -> String {
    path.iter().map(|command| command.get_name()).collect::<Vec<_>>().join(" ")
}

fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::Strings(all)) => all.clone(),
        Some(ContextValue::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}

/// Returns the name of an argument: `--samples` for `--samples <N>`, and `RUN` for `<RUN>...`.
fn argument_name(argument: &str) -> String {
    let first = argument.split(' ').next().unwrap_or_default();
    first.trim_matches(|c| "<>[].".contains(c)).to_owned()
}

fn line(error: &clap::Error, root: &Command, path: &[&Command], order: &CommandLine<'_>) -> Option<String> {
    // plimsoll's own errors have no context.
    error.context().next()?;
    let argument = texts(error, ContextKind::InvalidArg).join(", ");
    let option = argument_name(&argument);
    let value = shown_within(&texts(error, ContextKind::InvalidValue).join(", "), 40);
    let (here, command) = (path.last().copied().unwrap_or(root), name(path));
    Some(match error.kind() {
        ErrorKind::UnknownArgument if !order.before.is_empty() && path.len() > 1 => {
            misplaced(root, path, order)
        }
        ErrorKind::UnknownArgument if option.starts_with('-') => order::misspelt_option(here, order)
            .or_else(|| other_tools::value_of_fio(&option, order))
            .unwrap_or_else(|| unknown(&option, root, path)),
        ErrorKind::UnknownArgument => switched(&argument, path, order)
            .or_else(|| without_value(&argument, path, order))
            .or_else(|| other_tools::answer(&argument, without_program(&command), |_| false))
            .or_else(|| positional(&argument, path, order))
            .unwrap_or_else(|| unexpected(&argument, here, &command)),
        ErrorKind::InvalidSubcommand => other_tools::job_or_server(&order.before).unwrap_or_else(|| {
            no_command(&texts(error, ContextKind::InvalidSubcommand).join(", "), root, path)
        }),
        ErrorKind::MissingSubcommand => {
            let mut names = texts(error, ContextKind::ValidSubcommand);
            names.retain(|name| name != "help");
            format!("{command} requires a command: {}", one_of(&names))
        }
        ErrorKind::InvalidValue if value.is_empty() => missing_value(&argument, here),
        ErrorKind::InvalidValue => invalid(&option, &value, &texts(error, ContextKind::ValidValue)),
        ErrorKind::ValueValidation => {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            match why.starts_with("must ") {
                true => format!("{option} {why}"),
                false => format!("{option} '{value}': {why}"),
            }
        }
        ErrorKind::TooManyValues => format!("{option} does not take the value '{value}'"),
        ErrorKind::NoEquals => format!("{option} requires its value after '=': {option}=VALUE"),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => format!("{option} requires more values"),
        ErrorKind::ArgumentConflict => conflict(error, &option),
        ErrorKind::MissingRequiredArgument => return missing_argument(error, here, &command, order),
        _ => return None,
    })
}

/// Returns the message for arguments of `here`, called `command`, that were left out; `None` if
/// clap does not name them.
fn missing_argument(
    error: &clap::Error,
    here: &Command,
    command: &str,
    order: &CommandLine<'_>,
) -> Option<String> {
    let missing = texts(error, ContextKind::InvalidArg);
    let missing: Vec<String> = missing.iter().map(|one| argument_name(one)).collect();
    let missing = Some(missing.join(" and ")).filter(|missing| !missing.is_empty())?;
    Some(match EXAMPLES.iter().find(|(name, ..)| *name == command) {
        Some(_) if missing == "--output" => format!("--format requires {missing}"),
        Some((_, what, example)) => {
            let took = took_last(here, order).unwrap_or_default();
            format!("{command} requires {what}: write, for example, {example}{took}")
        }
        None => format!("{command} requires {missing}; {command} --help shows what it takes"),
    })
}

/// Returns a remark that the last option took the last word as its value; `None` if none did.
fn took_last(here: &Command, order: &CommandLine<'_>) -> Option<String> {
    let [.., option, value] = order.after.as_slice() else { return None };
    let takes_any = |arg: &&clap::Arg| order::takes_value(arg) && arg.get_possible_values().is_empty();
    order::option(here, option).filter(takes_any)?;
    Some(format!(" ({option} took '{}' as its value)", shown_within(value, 40)))
}

fn conflict(error: &clap::Error, option: &str) -> String {
    match texts(error, ContextKind::PriorArg).first().map(|other| argument_name(other)) {
        Some(other) if other != option => {
            format!("{option} and {other} are mutually exclusive: leave one of them out")
        }
        _ => format!("{option} is given twice: give it once"),
    }
}

/// Removes the program's name: `history show` from `plimsoll history show`; empty for `plimsoll`.
fn without_program(command: &str) -> &str {
    command.split_once(' ').map_or("", |(_, sub)| sub)
}

/// Returns the message for a `value` that `option` does not accept; `valid` are those it accepts.
fn invalid(option: &str, value: &str, valid: &[String]) -> String {
    match other_tools::value(option, value) {
        Some(here) => foreign(option, value, here),
        None if valid.is_empty() => format!("{option} does not take the value '{value}'"),
        None => format!("{option} must be {}: '{value}' is not", one_of(valid)),
    }
}

/// Returns the message for an option without its value; `argument` has the form `--samples <N>`.
fn missing_value(argument: &str, command: &Command) -> String {
    let option = argument_name(argument);
    // A placeholder such as `<N>`, except one for any value.
    let wants = argument.split_once(' ').map(|(_, value)| value.trim_matches(|c| "<>".contains(c)));
    let wants = wants.filter(|wants| !wants.starts_with("VALUE"));
    let wants = wants.map(|wants| format!(": {option} {wants}")).unwrap_or_default();
    let about = order::option(command, &option).and_then(clap::Arg::get_help);
    let about = about.map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{option} requires a value{wants}{about}")
}

/// Joins alternatives: `text, html or json`; quotes a single one.
fn one_of(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("'{one}'"),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Returns the message for options before the command, with the correct command line.
fn misplaced(root: &Command, path: &[&Command], order: &CommandLine<'_>) -> String {
    let (names, words) = order.options_after_command();
    let has = |name: &&str| path.iter().skip(1).any(|command| order::option(command, name).is_some());
    if let Some(name) = names.iter().find(|name| !has(name)) {
        return unknown(name, root, path);
    }
    if names == ["--only"] && words.len() == 2 {
        return format!("--only must come after the command: write plimsoll run --only {}", shown(words[0]));
    }
    // If the right line has errors of its own, they come first.
    let mended = std::iter::once(root.get_name()).chain(words.iter().copied()).map(OsString::from);
    match super::parse(root.clone(), mended) {
        Err(error) if error.kind() == ErrorKind::UnknownArgument => super::one_line(&error),
        _ => {
            let line: Vec<String> = words.iter().map(|word| shell_quoted(word)).collect();
            let names = names.join(" and ");
            format!("{names} must come after the command: write {} {}", root.get_name(), line.join(" "))
        }
    }
}

/// Returns the message if `word` is the value of a switch that requires `=`, as in `--direct on`.
fn switched(word: &str, path: &[&Command], order: &CommandLine<'_>) -> Option<String> {
    let place = order.after.iter().position(|one| *one == word)?;
    let before = order.after.get(place.checked_sub(1)?)?;
    order::option(path.last()?, before).filter(|option| option.is_require_equals_set())?;
    let known = other_tools::value(before, word).map(|here| foreign(before, word, here));
    let own = match word {
        "on" | "yes" | "true" | "1" => "on",
        "off" | "no" | "false" | "0" => "off",
        _ => return known,
    };
    known.or_else(|| Some(format!("{before} requires its value after '=': write {before}={own}")))
}

/// Returns the message if `word` follows two options, of which the first took the second as its
/// value, as in `--block --depth 4`.
fn without_value(word: &str, path: &[&Command], order: &CommandLine<'_>) -> Option<String> {
    let here = path.last()?;
    let place = order.after.iter().position(|one| *one == word)?;
    let (first, second) = (order.after.get(place.checked_sub(2)?)?, order.after.get(place - 1)?);
    order::option(here, second).filter(|_| second.starts_with("--"))?;
    order::option(here, first).filter(|arg| order::takes_value(arg))?;
    Some(missing_value(first, here))
}

fn is_part(word: &str) -> bool {
    plimsoll_bench::commands().any(|name| name == word)
}

/// Returns the message for `word` after an option of `here` and its value: the value may be a list,
/// whose items a comma divides. `None` if the option takes one value.
fn listed(word: &str, here: &Command, order: &CommandLine<'_>) -> Option<String> {
    let place = order.after.iter().position(|one| *one == word)?;
    let begin = order.after[..place].iter().rposition(|one| one.starts_with("--"))?;
    let (option, first) = (order.after[begin], *order.after.get(begin + 1)?);
    let arg = order::option(here, option).filter(|arg| order::takes_value(arg) && *first != *word)?;
    arg.get_value_delimiter()?;
    let all = order.after[begin + 1..].iter().copied().take_while(|one| !one.starts_with('-'));
    let is_unit = |word: &str| parse_size(&format!("{first}{word}")).is_ok();
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let between = match (is_number(first), is_number(word)) {
        (true, false) if is_unit(word) => "",
        _ if option == "--server" && word.parse::<u16>().is_ok() => ":",
        _ if option == "--server" => ",",
        (true, true) => ",",
        (false, false) if !is_part(word) || option == "--only" && here.get_name() == "run" => ",",
        _ => return None,
    };
    let all = all.collect::<Vec<_>>().join(between);
    Some(format!("unexpected argument '{}': write {option} {}", shown(word), shell_quoted(&shown(&all))))
}

/// Returns the message for a `word` that needs an option, such as `--dir`; `None` if none is known.
fn positional(word: &str, path: &[&Command], order: &CommandLine<'_>) -> Option<String> {
    let (name, listed) = (name(path), listed(word, path.last()?, order));
    let (command, shown) = (without_program(&name), shown(word));
    let unexpected = |why: &str| Some(format!("unexpected argument '{shown}': {why}"));
    let place = order.after.iter().position(|one| *one == word);
    if place.is_some_and(|place| order.after[..place].iter().rev().take(4).any(|one| *one == "--require")) {
        return unexpected("quote the whole requirement: --require 'CASES METRIC >= VALUE'");
    }
    if let Some((_, why)) = TOO_MANY_WORDS.iter().find(|(known, _)| *known == command) {
        return listed.or_else(|| unexpected(why));
    }
    if command == "watch" && order.after.contains(&"--") {
        return unexpected("plimsoll watch runs no command; plimsoll steady -- COMMAND does");
    }
    if let (true, Some(place)) = (command == "steady", place) {
        let line = steady_line(path.last()?, order.after.split_at(place));
        return unexpected(&format!("the command follows --, options come before it: write plimsoll {line}"));
    }
    if command == "machine" && order.after.contains(&"--json") {
        return unexpected("plimsoll machine --json prints to stdout");
    }
    let Some(part) = plimsoll_bench::subsystem(command) else { return listed };
    let full = |name: &str| name == word || name.split_once('.').is_some_and(|(_, last)| last == word);
    if let Some(name) = part.benchmarks.iter().map(|benchmark| benchmark.name()).find(|name| full(name)) {
        let line = || format!("'{shown}' is a benchmark: write plimsoll {command} --only {name}");
        return listed.filter(|line| line.contains(" --only ")).or_else(|| Some(line()));
    }
    if let Some(here) = other_tools::value("--op", word) {
        return unexpected(&format!("write plimsoll {command} {here}"));
    }
    let option = match part.on_files {
        true if word.contains('/') => "--dir",
        false if part.uses_interfaces && word.contains(['.', ':']) => "--server",
        _ => return listed,
    };
    if place.is_some_and(|place| order.after[..place].iter().rev().nth(1) == Some(&option)) {
        return listed.or_else(|| unexpected(&format!("{option} takes one value; run it once for each")));
    }
    unexpected(&format!("write plimsoll {command} {option} {shown}"))
}

/// Returns the words of a command line of steady: its options, also those of them that were typed
/// behind the command, then `--` and the command.
fn steady_line(steady: &Command, (options, words): (&[&str], &[&str])) -> String {
    let line = |words: &[&str]| words.iter().map(|word| shell_quoted(word)).collect::<Vec<_>>().join(" ");
    let (mut options, mut command) = (options.to_vec(), Vec::new());
    let mut words = words.iter().copied().peekable();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        match order::option(steady, name).filter(|_| name.starts_with("--") && name != "--help") {
            None => command.push(word),
            Some(option) => {
                options.push(word);
                options.extend(words.next_if(|_| order::takes_value(option) && name == word));
            }
        }
    }
    // A command line in one pair of quotes.
    let command = if let [line] = command[..] { shown(line) } else { line(&command) };
    format!("{} -- {command}", line(&options))
}

/// Returns the message for a word that `here`, called `command`, does not take.
fn unexpected(word: &str, here: &Command, command: &str) -> String {
    let shown = shown(word);
    let is_value = |option: &clap::Arg| {
        option.get_possible_values().iter().any(|value| !value.is_hide_set() && value.matches(word, false))
    };
    let instead = match here.get_name() {
        part if is_part(word) && is_part(part) => format!(": write plimsoll run --only {part},{shown}"),
        _ if is_part(word) && order::option(here, "--only").is_some() => {
            format!(": write {command} --only {shown}")
        }
        _ if order::option(here, "--format").is_some_and(is_value) => format!(": write --format {shown}"),
        "export" => ": plimsoll export RUN --format FORMAT --output FILE writes one run".to_owned(),
        "gate" if built_in::find(word).is_some() => ": --level 1, 2 or 3 chooses what it measures".to_owned(),
        "serve" if word.contains(['.', ':']) => match word.rsplit_once(':') {
            Some((address, port)) if !address.contains(':') => {
                format!(": write {command} --bind {address} --port {port}")
            }
            _ => format!(": write {command} --bind {shown}"),
        },
        _ if here.get_positionals().next().is_some() => format!("; {command} --help shows what it accepts"),
        _ => format!(": {command} takes only options; {command} --help lists them"),
    };
    format!("unexpected argument '{shown}'{instead}")
}

/// Words that users try as commands: after which command, the words, and the command.
const COMMAND_SYNONYMS: &[(&str, &[&str], &str)] = &[
    ("", &["bench", "benchmark", "measure", "start", "test"], "run"),
    ("", &["server"], "serve"),
    ("", &["info", "hardware", "system"], "machine"),
    ("", &["diff"], "compare"),
    ("", &["runs", "ls"], "history"),
    ("", &["plans", "published"], "plan list"),
    ("plan", &["convert", "export", "print", "dump", "save", "create", "make", "new", "init"], "show"),
    ("plan", &["validate", "lint", "verify"], "check"),
    ("history", &["ls"], "list"),
    ("history", &["rm", "remove"], "delete"),
    ("history", &["last"], "show last"),
    ("history", &["export"], "plimsoll export last"),
    ("history", &["report"], "plimsoll report last"),
    ("history", &["diff", "compare"], "plimsoll compare last~1 last"),
    ("plan", &["run", "measure", "start"], "plimsoll run"),
    ("history", &["annotate", "comment"], "note"),
    ("", &["hosts", "nodes"], "run --hosts HOST"),
    ("", &["price", "prices"], "compare --price"),
    ("key", &["gen", "generate", "create", "make"], "new"),
];

/// Returns the message for an unknown option: commands that have it, or the most similar option.
fn unknown(option: &str, root: &Command, path: &[&Command]) -> String {
    let here = path.last().copied().unwrap_or(root);
    let command = name(path);
    let has = |command: &&Command| !command.is_hide_set() && order::option(command, option).is_some();
    let having = |path: &[&Command]| -> Vec<String> {
        let commands = path.last().copied().unwrap_or(root).get_subcommands().filter(has);
        commands.map(|other| format!("{} {}", name(path), other.get_name())).collect()
    };
    let siblings = path.split_last().map(|(_, above)| having(above)).filter(|found| !found.is_empty());
    let others = siblings.unwrap_or_else(|| having(&[root]));
    let shown = shown(option);
    if order::option(here, option).is_some() {
        return format!("{shown} is not an option after --, which ends the options: put it before --");
    }
    // A command with streams accepts --threads only to refuse it with a reason.
    let part = plimsoll_bench::subsystem(here.get_name());
    let refuses =
        |name: &str| name == "threads" && part.is_some_and(|part| part.instead_of_threads.is_some());
    let takes = |name: &str| {
        order::option(here, name).is_some_and(order::takes_value) && !refuses(name.trim_start_matches('-'))
    };
    if let Some(answer) = other_tools::answer(option, without_program(&command), takes) {
        return answer;
    }
    if !others.is_empty() {
        return format!("{shown} is not supported on {command}: it is an option of {}", others.join(", "));
    }
    let is_long = option.starts_with("--");
    let near =
        other_tools::slip(option, without_program(&command), |typed, known| is_long && is_slip(typed, known));
    if let Some(answer) = near.and_then(|near| other_tools::answer(near, without_program(&command), takes)) {
        return format!("{shown} is not an option of {command}; {answer}");
    }
    let positional = here.get_positionals().find(|argument| format!("--{}", argument.get_id()) == option);
    if let Some(positional) = positional {
        let value = positional.get_value_names().and_then(<[_]>::first).map_or("VALUE", |name| name.as_str());
        return format!("{shown} is not an option of {command}: write {command} {value}");
    }
    let built_in = if path.len() == 1 { &["help", "version"][..] } else { &["help"] };
    let known = here.get_arguments().filter_map(clap::Arg::get_long).chain(built_in.iter().copied());
    // Dashes are common to all options, so they are not compared.
    let lower = option.to_lowercase();
    let bare = lower.trim_start_matches('-');
    let names = known.filter(|name| is_slip(bare, name) && !refuses(name));
    let near = match option {
        "-v" if path.len() == 1 => Some("version"),
        _ => nearest(bare, names).filter(|_| option.starts_with("--")),
    };
    let all = if other_tools::measures(here.get_name()) { "--help-all" } else { "--help" };
    match near {
        Some(near) => format!("{shown} is not an option of {command}; did you mean --{near}?"),
        None => format!("{shown} is not an option of {command}; {command} {all} lists its options"),
    }
}

/// Returns whether `typed` is the start of `name`, or has at most one letter in three wrong.
fn is_slip(typed: &str, name: &str) -> bool {
    let typed: String = typed.chars().take(64).collect();
    let letters = typed.chars().count();
    let begins = letters >= 3 && name.starts_with(&typed);
    begins || strsim::osa_distance(&typed, name) <= (letters / 3).max(1)
}

/// Returns the command line of each benchmark whose name ends with `.WORD` or that has this
/// synonym; `None` if there is none.
fn benchmark_of_other_name(word: &str) -> Option<String> {
    let lines = plimsoll_bench::benchmarks().filter_map(|benchmark| {
        let (part, last) = benchmark.name().split_once('.')?;
        let is_meant = last == word || benchmark.descriptor().synonyms.contains(&word);
        (is_part(part) && is_meant).then(|| format!("plimsoll {part} --only {part}.{last}"))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join(" or "))
}

/// Returns the message for an unknown command: a plan, benchmark or command with a similar name.
fn no_command(word: &str, root: &Command, path: &[&Command]) -> String {
    let shown = shown(word);
    let command = name(path);
    let is_plan = built_in::find(word).is_some();
    if command == "plimsoll plan" && is_plan {
        return format!("'{shown}' is a plan, not a command: write plimsoll plan show {shown}");
    }
    if path.len() == 1 {
        if is_plan || word.ends_with(".toml") {
            return format!("'{shown}' is a plan, not a command: write plimsoll run {shown}");
        }
        if let Some(benchmark) = plimsoll_bench::find(word) {
            let subsystem = benchmark.name().split('.').next().unwrap_or_default();
            let part = plimsoll_bench::commands().find(|name| *name == subsystem).unwrap_or("run");
            return format!("'{shown}' is a benchmark, not a command: write plimsoll {part} --only {shown}");
        }
        if word.split(',').all(is_part) {
            return format!("'{shown}' is a list: write plimsoll run --only {shown}");
        }
        if word.ends_with(".json") || word.ends_with(".html") {
            return format!("'{shown}' is a file, not a command: write plimsoll report {shown}");
        }
    }
    if let Some(answer) = other_tools::answer(word, without_program(&command), |_| false) {
        return answer;
    }
    if let Some(line) = benchmark_of_other_name(word).filter(|_| path.len() == 1) {
        return format!("'{shown}' is a benchmark, not a command: write {line}");
    }
    let has = |command: &&Command| !command.is_hide_set() && command.find_subcommand(word).is_some();
    let others = root.get_subcommands().filter(has).filter(|_| path.len() == 1);
    let others: Vec<String> = others.map(|one| format!("{command} {} {shown}", one.get_name())).collect();
    if !others.is_empty() {
        return format!("{command} has no command '{shown}': write {}", others.join(" or "));
    }
    let here = path.last().copied().unwrap_or(root);
    let names = || here.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name);
    let lower = word.to_lowercase();
    let is_synonym = |name: &&str| {
        plimsoll_bench::subsystem(name).is_some_and(|part| part.synonyms.contains(&lower.as_str()))
    };
    let is_meant = |(of, words, _): &&(&str, &[&str], &str)| {
        *of == without_program(&command) && words.contains(&lower.as_str())
    };
    let synonym = COMMAND_SYNONYMS.iter().find(is_meant).map(|(.., meant)| *meant);
    let part = || plimsoll_bench::commands().find(|name| path.len() == 1 && is_synonym(name));
    if let Some(meant) = synonym.or_else(part) {
        let lead = if meant.starts_with("plimsoll ") { String::new() } else { format!("{command} ") };
        return format!("{command} has no command '{shown}'; did you mean {lead}{meant}?");
    }
    // Three letters match too many words, except with the same first letter.
    let is_alike = |name: &&str| {
        lower.len() == 2 && name.starts_with(&lower)
            || (lower.chars().count() > 3 || lower.len() == 3 && name.chars().next() == lower.chars().next())
                && is_slip(&lower, name)
    };
    let alike = names().chain(["help"]).filter(is_alike);
    let advice = match nearest(&lower, alike) {
        Some(near) => format!("did you mean {command} {near}?"),
        None => format!("its commands: {command} {}", names().collect::<Vec<_>>().join(", ")),
    };
    format!("{command} has no command '{shown}'; {advice}")
}

#[cfg(test)]
pub(super) mod tests;
