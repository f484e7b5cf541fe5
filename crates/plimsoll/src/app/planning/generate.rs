//! `plimsoll generate DIR` (hidden): writes man pages and shell completions.

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use clap::Command;
use clap_complete::Shell;

use crate::app::{Failure, target};
use plimsoll_units::text::shown_path;

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes `man1/*.1` and a completion file per shell into the directory, which is created.
pub(crate) fn generate(directory: &Path) -> Result<ExitCode, Failure> {
    let made = tempfile::tempdir().and_then(|work| files(work.path()).map(|()| work));
    let work = made
        .map_err(|e| Failure::environment(format!("generate: {}: {e}", shown_path(&std::env::temp_dir()))))?;
    for part in ["", "man1"] {
        put(&work.path().join(part), &directory.join(part))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn put(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |e: io::Error| {
        Failure::environment(format!("generate {}: {e}; use a directory that can be written", shown_path(to)))
    };
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            let text = fs::read_to_string(entry.path()).map_err(failed)?;
            target(&to.join(entry.file_name()))?.put(&text)?;
        }
    }
    Ok(())
}

fn files(directory: &Path) -> io::Result<()> {
    let man = directory.join("man1");
    fs::create_dir_all(&man)?;
    let command = shown(crate::app::command());
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut command.clone(), "plimsoll", directory)?;
    }
    clap_mangen::generate_to(command, &man)
}

/// Returns the command without the hidden subcommands by which plimsoll starts itself.
fn shown(command: Command) -> Command {
    let kept: Vec<Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).cloned().collect();
    Command::new("plimsoll")
        .version(env!("PLIMSOLL_VERSION"))
        .about(command.get_about().cloned().unwrap_or_default())
        .after_help(command.get_after_help().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(command.get_arguments().cloned().collect::<Vec<_>>())
        .subcommands(kept)
}
