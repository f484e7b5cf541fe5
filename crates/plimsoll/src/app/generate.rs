//! `plimsoll generate DIR` (hidden): man pages and completions, all of them from the one definition of the command line.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use super::Failure;

/// Shells that people's completions are made for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes `man1/*.1` and a file for each shell into the directory, which is made.
///
/// # Errors
/// The directory cannot be written.
pub(super) fn generate(directory: &Path) -> Result<ExitCode, Failure> {
    let shown = crate::text::shown_bytes(directory.as_os_str().as_encoded_bytes());
    let made = files(directory).map(|()| ExitCode::SUCCESS);
    made.map_err(|e| {
        Failure::environment(format!("generate {shown}: {e}; name a directory that can be written"))
    })
}

fn files(directory: &Path) -> io::Result<()> {
    let man = directory.join("man1");
    fs::create_dir_all(&man)?;
    let command = shown(crate::cli::command());
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut command.clone(), "plimsoll", directory)?;
    }
    clap_mangen::generate_to(command, &man)
}

/// The command as people see it: what plimsoll starts itself with is in no completion.
fn shown(command: Command) -> Command {
    let kept: Vec<Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).cloned().collect();
    Command::new("plimsoll")
        .version(env!("CARGO_PKG_VERSION"))
        .about(command.get_about().cloned().unwrap_or_default())
        .after_help(command.get_after_help().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(command.get_arguments().cloned().collect::<Vec<_>>())
        .subcommands(kept)
}
