//! Options of commands that run on other machines, and the options forwarded to these.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::TypedCommand;
use super::mistakes::typed;
use super::values::whole;

/// Value of `--hosts` for the nodes of a Slurm allocation.
pub const SLURM: &str = "slurm";

/// Other machines that run the command instead of this one.
#[derive(Args, Clone, Debug)]
pub struct Hosts {
    /// Run on these machines instead of this one, and print all results: names as ssh (or another
    /// --launcher) knows them, @FILE with one name on each line, or slurm for the nodes of this
    /// Slurm allocation
    #[arg(long, value_name = "HOST,…|@FILE|slurm", value_delimiter = ',', help_heading = "Other machines")]
    pub hosts: Vec<String>,
    /// Run on the hosts of this Ansible inventory (INI format), as with --hosts
    #[arg(long, value_name = "FILE", help_heading = "Other machines", conflicts_with = "hosts")]
    pub inventory: Option<PathBuf>,
    // Each takes a process and three descriptors here.
    /// Run on at most N hosts at the same time
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole::<usize, 1, 10_000>, help_heading = "Other machines")]
    pub parallel: usize,
    /// Program that starts plimsoll on a host: ssh, srun, kubectl, mpirun, or a command that
    /// contains {host}, such as 'docker exec -i {host}' [default: ssh; with --hosts slurm: srun]
    #[arg(long, value_name = "NAME|COMMAND", help_heading = "Other machines")]
    pub launcher: Option<String>,
    /// Static plimsoll binary for hosts of another architecture; may be repeated [default: this
    /// program, for hosts of this architecture]
    #[arg(long, value_name = "FILE", help_heading = "Other machines")]
    pub program: Vec<PathBuf>,
    /// Configuration file of ssh, passed on as ssh -F FILE [default: those that ssh uses]
    #[arg(long, value_name = "FILE", help_heading = "Other machines")]
    pub ssh_config: Option<PathBuf>,
}

impl Hosts {
    /// Returns whether other machines are named on the command line.
    pub fn is_named(&self) -> bool {
        !self.hosts.is_empty() || self.inventory.is_some()
    }

    /// Returns the typed launcher, or `srun` for nodes of a Slurm allocation; `None` by default.
    pub fn launcher(&self) -> Option<&str> {
        let of_allocation = self.hosts.iter().any(|host| host == SLURM).then_some("srun");
        self.launcher.as_deref().or(of_allocation)
    }
}

/// Options that are not forwarded: those for results on this machine and those that select hosts.
const HERE: &str = "plan ignore_unsupported target destroy_data_on hosts inventory parallel program launcher \
    ssh_config json html events store redact explain quiet no_color list dry_run resume limits require";

/// Returns the typed options of `command` for each machine, as `--option=value`, without `--key`
/// and options for this machine only ([`HERE`]).
pub(super) fn forwarded(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let options = command.get_arguments().filter_map(|arg| Some((arg.get_id().as_str(), arg.get_long()?)));
    let is_here = |id: &str| HERE.split(' ').any(|here| here == id);
    let sent = options.filter(|(id, _)| !is_here(id) && *id != "key" && typed(matches, id));
    let words = sent.flat_map(|(id, long)| {
        let values = matches.get_raw(id).into_iter().flatten();
        values.map(move |value| format!("--{long}={}", value.to_string_lossy()))
    });
    words.collect()
}

/// Returns `command` for each of `--hosts`, without storing there; `None` without hosts.
pub(super) fn forwarded_command(
    command: &Command,
    matches: &ArgMatches,
) -> Result<Option<TypedCommand>, clap::Error> {
    let hosts = Hosts::from_arg_matches(matches)?;
    // `ArgMatches::try_contains_id` knows the existing options only in debug builds.
    let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    let nothing_kept = [("store", "--store=none"), ("quiet", "--quiet")];
    let nothing_kept = nothing_kept.into_iter().filter(|(id, _)| has(id)).map(|(_, word)| word.to_owned());
    let name = command.get_name().to_owned();
    let words = std::iter::once(name).chain(forwarded(command, matches)).chain(nothing_kept);
    let quiet = has("quiet") && matches.get_flag("quiet");
    Ok(hosts.is_named().then(|| TypedCommand::EachHost {
        hosts: Box::new(hosts),
        words: words.collect(),
        quiet,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::{TypedCommand, command, parse};

    #[test]
    fn a_machine_gets_what_says_how_to_measure() {
        let line =
            "plimsoll run standard --hosts a,b --only memory,cpu --repeat 7 --json x --precision 2% --quiet";
        let typed = parse(command(), line.split(' ').map(Into::into)).unwrap();
        let TypedCommand::Measure { hosts: Some((hosts, words)), .. } = typed else { panic!("{typed:?}") };
        assert_eq!(hosts.hosts, ["a", "b"]);
        assert_eq!(words, ["--only=memory", "--only=cpu", "--precision=2%", "--repeat=7"]);
    }

    #[test]
    fn what_machines_say_of_themselves_is_asked_by_the_same_words() {
        let of = |line: &str| parse(command(), line.split(' ').map(Into::into));
        let typed = of("plimsoll doctor --hosts a,b --rounds 0 --store none --quiet").unwrap();
        let TypedCommand::EachHost { hosts, words, quiet } = typed else { panic!("{typed:?}") };
        assert!(hosts.hosts == ["a", "b"] && quiet);
        assert_eq!(words, ["doctor", "--rounds=0", "--store=none", "--quiet"]);
        let typed = of("plimsoll references --hosts @all --parallel 3").unwrap();
        let TypedCommand::EachHost { words, .. } = typed else { panic!("{typed:?}") };
        assert_eq!(words, ["references"]);
        assert!(of("plimsoll references --hosts a --install").is_err());
        assert!(of("plimsoll doctor --parallel 3").is_err());
    }

    /// A new option that is not to be forwarded must be added to `HERE`.
    #[test]
    fn options_that_stay_here_exist() {
        let command = command();
        let run = command.find_subcommand("run").unwrap();
        for id in super::HERE.split(' ') {
            assert!(run.get_arguments().any(|arg| arg.get_id() == id), "{id}");
        }
    }
}
