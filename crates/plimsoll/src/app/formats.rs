//! Adds the formats of each command, from the list of formats, to `--format`, help and errors.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command};

use plimsoll_command::cli;
use plimsoll_output::report::format::{FORMATS, FormatSubject};
use plimsoll_reference::stated::described;

/// Returns clap's definition of the command line, with all output formats as values of `--format`.
#[must_use]
pub fn command() -> Command {
    let rows: Vec<&str> = FormatSubject::Tools.formats().map(|format| format.name).collect();
    let table = format!(
        "Rows of {}: samples (one for each sample) or tools (one for each reference tool of a case)",
        rows.join(" and ")
    );
    cli::command()
        .version(env!("PLIMSOLL_VERSION"))
        .mut_subcommand("export", |c| {
            c.mut_arg("format", of(FormatSubject::Run)).mut_arg("table", |a| a.help(table))
        })
        .mut_subcommand("check", |c| {
            let tools = described().map(|(name, results)| PossibleValue::new(name).help(results));
            c.mut_arg("format", |a| a.value_parser(PossibleValuesParser::new(tools)))
        })
        .mut_subcommand("report", |c| c.mut_arg("format", of(FormatSubject::Tables)))
        .mut_subcommand("compare", |c| c.mut_arg("format", of(FormatSubject::Comparison)))
}

/// Returns a function that makes an option offer the formats of `subject`. The option takes all
/// formats: the command itself refuses one that does not fit.
fn of(subject: FormatSubject) -> impl FnOnce(Arg) -> Arg {
    let values = FORMATS.iter().map(move |format| {
        let value = PossibleValue::new(format.name).help(format.about).aliases(format.alias);
        value.hide(!subject.is_in(format))
    });
    move |arg| arg.value_parser(PossibleValuesParser::new(values))
}
