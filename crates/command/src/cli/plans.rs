//! `plimsoll plan list|show|check`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command};
use plimsoll_model::plan::built_in::{self, BUILT_IN, BuiltIn};

use super::other_tools::measures;
use super::{Common, Measurable, TypedCommand, help};

/// Action on plans.
#[derive(Debug)]
pub enum PlanWork {
    /// List the built-in plans.
    List,
    /// Print the plan file of a command line.
    Show {
        /// Plan or subsystem to measure.
        what: Measurable,
        /// Common options.
        common: Box<Common>,
    },
    /// Check plan files or built-in plans.
    Check {
        /// Names or paths.
        plans: Vec<String>,
    },
}

/// Formats the built-in plans, then published ones, in lines of at most `width` characters.
pub fn built_in_list(width: usize) -> String {
    let [ordinary, published] = [false, true].map(|is_published| {
        let plans = BUILT_IN.iter().filter(|plan| plan.is_published == is_published);
        plans.map(|plan| (plan.name, plan.about.to_owned())).collect::<Vec<_>>()
    });
    let ordinary = help::listed("Built-in plans", &ordinary, width);
    format!("{ordinary}\n\n{}", help::listed("Plans of published reports", &published, width))
}

/// Returns (name, description) of each built-in plan.
pub fn built_in_rows() -> Vec<(&'static str, String)> {
    let about = |plan: &BuiltIn| match plan.is_published {
        true => format!("published: {}", plan.about),
        false => plan.about.to_owned(),
    };
    BUILT_IN.iter().map(|plan| (plan.name, about(plan))).collect()
}

pub(super) fn command() -> Command {
    let words = Arg::new("words")
        .value_name("COMMAND LINE")
        .help("Command line without the word plimsoll, such as memory --op triad, or the name of a plan [default: run quick]")
        .num_args(0..)
        .allow_hyphen_values(true)
        .trailing_var_arg(true)
        .value_parser(clap::value_parser!(OsString));
    let plans = Arg::new("plans")
        .value_name("PLAN")
        .num_args(1..)
        .required(true)
        .help("Plan files (FILE.toml), fio job files (FILE.fio), or names of built-in plans");
    Command::new("plan")
        .about("List and check plans; turn a command line into a plan file")
        .subcommand_required(true)
        .after_help(built_in_list(help::HELP_COLUMNS))
        .subcommand(Command::new("list").about("List the built-in plans"))
        .subcommand(
            Command::new("show")
                .about("Print a plan file with the cases of a measuring command line")
                .arg(words),
        )
        .subcommand(
            Command::new("check")
                .about("Check plan files: print mistakes with line and column, those of keys before those of values")
                .arg(plans),
        )
}

pub(super) fn parse(matches: &ArgMatches) -> Result<PlanWork, clap::Error> {
    match matches.subcommand() {
        Some(("show", m)) => show(m.get_many::<OsString>("words").into_iter().flatten().cloned().collect()),
        Some(("check", m)) => Ok(PlanWork::Check {
            plans: m.get_many::<String>("plans").into_iter().flatten().cloned().collect(),
        }),
        _ => Ok(PlanWork::List),
    }
}

/// Parses the words after `plan show` as a command line; a plan's name implies `run`.
fn show(words: Vec<OsString>) -> Result<PlanWork, clap::Error> {
    let program = OsString::from("plimsoll");
    let begin = usize::from(words.first() == Some(&program));
    let words: Vec<OsString> = words.into_iter().skip(begin).collect();
    let first = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    let is_file = |word: &&str| ["-o", "--output", "--json", "--html"].contains(word);
    let mut options = words.iter().filter_map(|word| word.to_str()?.split('=').next());
    if let Some(option) = options.find(is_file) {
        let why = format!(
            "{option} is not supported on plan show, which prints to stdout: write plimsoll plan show … > FILE"
        );
        return Err(clap::Error::raw(ErrorKind::UnknownArgument, why));
    }
    let lead = (!measures(first)).then(|| OsString::from("run"));
    let named = OsString::from("plimsoll plan show");
    let is_other_command = lead.is_some() && super::command().find_subcommand(first).is_some();
    let line = [named].into_iter().chain(lead).chain(words.iter().cloned());
    let (kind, why) = match super::parse(super::command(), line) {
        Err(error) if is_other_command => {
            let why = match built_in::find(first) {
                Some(_) => format!("is here the plan of that name, and {}", super::one_line(&error)),
                None => "does not measure".to_owned(),
            };
            let takes = "plan show takes run PLAN, cpu, memory, disk, network or os, with their options";
            (error.kind(), format!("{takes}: '{first}' {why}"))
        }
        Err(error) => return Err(error),
        Ok(TypedCommand::Measure { what: Measurable::Kept, hosts: None, .. }) => {
            let why = "--resume is not supported on plan show: name the plan";
            (ErrorKind::ArgumentConflict, why.to_owned())
        }
        Ok(TypedCommand::Measure { what, common, hosts: None, .. }) => {
            return Ok(PlanWork::Show { what, common });
        }
        Ok(_) => {
            let why = "plan show requires a command that measures: run, cpu, memory, disk, network or os, with its options";
            (ErrorKind::InvalidSubcommand, why.to_owned())
        }
    };
    Err(clap::Error::raw(kind, why))
}
