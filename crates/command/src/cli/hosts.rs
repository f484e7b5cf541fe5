//! Options of a run on other machines by ssh, and those of its options that go there.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};

use super::values::whole;

/// Where a run is measured instead of here.
#[derive(Args, Clone, Debug, Default)]
pub struct Hosts {
    /// Measure on these machines, reached by ssh, and join their results: names as your ssh knows them, or @FILE with a name
    /// on each line
    #[arg(long, value_name = "HOST,…|@FILE", value_delimiter = ',', help_heading = "Other machines")]
    pub hosts: Vec<String>,
    /// Measure on the hosts of this Ansible inventory (INI form)
    #[arg(long, value_name = "FILE", help_heading = "Other machines", conflicts_with = "hosts")]
    pub inventory: Option<PathBuf>,
    /// Measure on N hosts at a time [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<1, 10_000>, help_heading = "Other machines")]
    pub parallel: Option<u32>,
    /// A static plimsoll for hosts of another architecture [default: this program, for all]
    #[arg(long, value_name = "FILE", help_heading = "Other machines")]
    pub program: Vec<PathBuf>,
    /// Configuration file for ssh, as ssh -F [default: your own]
    #[arg(long, value_name = "FILE", help_heading = "Other machines")]
    pub ssh_config: Option<PathBuf>,
}

impl Hosts {
    /// Whether any are named.
    pub fn is_named(&self) -> bool {
        !self.hosts.is_empty() || self.inventory.is_some()
    }
}

/// Options that say what becomes of the result here, or where it is measured.
const HERE: [&str; 20] = [
    "plan",
    "hosts",
    "inventory",
    "parallel",
    "program",
    "ssh_config",
    "json",
    "html",
    "events",
    "store",
    "redact",
    "quiet",
    "no_color",
    "list",
    "dry_run",
    "resume",
    "together",
    "one_by_one",
    "limits",
    "require",
];

/// The options that each machine gets, as they were typed: a word an option and value. A key and a limits file go there as
/// text.
pub(super) fn forwarded(known: &Command, matches: &ArgMatches) -> Vec<String> {
    let Some(run) = known.find_subcommand("run") else { return Vec::new() };
    let typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let options = run.get_arguments().filter_map(|arg| Some((arg.get_id().as_str(), arg.get_long()?)));
    let sent = options.filter(|(id, _)| !HERE.contains(id) && *id != "key" && typed(id));
    let words = sent.flat_map(|(id, long)| {
        let values = matches.get_raw(id).into_iter().flatten();
        values.map(move |value| format!("--{long}={}", value.to_string_lossy()))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Typed, command, parse};

    #[test]
    fn a_machine_gets_what_says_how_to_measure() {
        let line =
            "plimsoll run standard --hosts a,b --only memory,cpu --samples 7 --json x --precision 2% --quiet";
        let typed = parse(command(), line.split(' ').map(Into::into)).unwrap();
        let Typed::OnHosts { hosts, words, .. } = typed else { panic!("{typed:?}") };
        assert_eq!(hosts.hosts, ["a", "b"]);
        assert_eq!(words, ["--only=memory", "--only=cpu", "--samples=7", "--precision=2%"]);
    }

    /// A new option that belongs here alone must be named here.
    #[test]
    fn options_that_stay_here_exist() {
        let command = command();
        let run = command.find_subcommand("run").unwrap();
        for id in super::HERE {
            assert!(run.get_arguments().any(|arg| arg.get_id() == id), "{id}");
        }
    }
}
