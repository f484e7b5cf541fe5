//! Adds the formats of each command, from the list of formats, to `--format`, help and errors.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};

use plimsoll_command::cli;
use plimsoll_output::report::format::{Format, FormatSubject, NoFormat, find};
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

fn of(subject: FormatSubject) -> impl FnOnce(Arg) -> Arg {
    move |arg| arg.value_parser(OfferedFormats(subject))
}

#[derive(Clone, Copy, Debug)]
struct OfferedFormats(FormatSubject);

fn value(format: &'static Format) -> PossibleValue {
    PossibleValue::new(format.name).help(format.about).aliases(format.alias)
}

impl TypedValueParser for OfferedFormats {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        // An existing format that does not fit gets a specific error instead of the list of values.
        match value.to_str().filter(|name| find(name).is_some_and(|format| !self.0.is_in(format))) {
            Some(name) => {
                let why = format!("{}\n", NoFormat::new(name, self.0));
                Err(clap::Error::raw(ErrorKind::InvalidValue, why).with_cmd(command))
            }
            None => {
                PossibleValuesParser::new(self.0.formats().map(self::value)).parse_ref(command, arg, value)
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.formats().map(value)))
    }
}
