//! `plimsoll report`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};

use super::Typed;

pub(super) fn command() -> Command {
    let runs = Arg::new("runs")
        .value_name("RUN")
        .num_args(1..)
        .required(true)
        .help("Stored runs: an id, the beginning of one, or last");
    let tables = Arg::new("tables")
        .long("tables")
        .value_name("WHICH")
        .value_parser(["published"])
        .help("published: the tables of the report that the run's plan replays, with today's figures");
    let store = Arg::new("store")
        .long("store")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("The history file");
    Command::new("report")
        .about("Print stored runs, or the tables of a published report with their figures")
        .args([runs, tables, store])
}

pub(super) fn parse(matches: &ArgMatches) -> Typed {
    Typed::Report {
        runs: matches.get_many::<String>("runs").into_iter().flatten().cloned().collect(),
        published: matches.get_one::<String>("tables").is_some(),
        store: matches.get_one::<PathBuf>("store").cloned(),
    }
}
