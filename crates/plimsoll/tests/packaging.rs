//! What `make install` copies, and that `make uninstall` leaves nothing of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{PROGRAM, below, repository, scratch, with_code};

fn install(words: &[&str], destination: Option<&Path>) {
    let mut command = Command::new(repository("packaging/install"));
    command.args(words).arg(PROGRAM).env_remove("DESTDIR");
    command.envs(destination.map(|place| ("DESTDIR", place)));
    with_code(&command.output().unwrap(), 0);
}

fn paths(place: &Path) -> Vec<PathBuf> {
    below(place).iter().map(|path| path.strip_prefix(place).unwrap().to_owned()).collect()
}

const INSTALLED: &str = "bin/plimsoll share/bash-completion/completions/plimsoll share/doc/plimsoll/LICENSE-APACHE \
                         share/doc/plimsoll/examples/limits-vm.toml share/fish/vendor_completions.d/plimsoll.fish \
                         share/man/man1/plimsoll.1 share/man/man1/plimsoll-run.1 share/zsh/site-functions/_plimsoll";

#[test]
fn what_is_installed_is_removed_with_the_directories_that_were_made() {
    let dir = scratch();
    let prefix = dir.path().join("opt/tools");
    let there = prefix.to_str().unwrap();
    // Twice, as an upgrade does: the directories are those of the first time.
    for _ in 0..2 {
        install(&[there], None);
    }
    let found = paths(&prefix);
    assert!(
        INSTALLED.split_whitespace().all(|file| found.iter().any(|path| path == Path::new(file))),
        "{found:?}"
    );
    install(&["--remove", there], None);
    assert_eq!(below(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn what_somebody_else_made_stays() {
    let dir = scratch();
    let there = dir.path().to_str().unwrap();
    fs::create_dir_all(dir.path().join("share/man/man1")).unwrap();
    install(&[there], None);
    fs::write(dir.path().join("share/fish/vendor_completions.d/other.fish"), "").unwrap();
    install(&["--remove", there], None);
    let fish = "share/fish/vendor_completions.d";
    let left = ["share", "share/fish", fish, &format!("{fish}/other.fish"), "share/man", "share/man/man1"];
    assert_eq!(paths(dir.path()), left.map(PathBuf::from));
}

#[test]
fn a_package_has_no_list_of_directories() {
    let dir = scratch();
    install(&["/usr"], Some(dir.path()));
    let found = paths(dir.path());
    assert!(found.iter().any(|path| path == Path::new("usr/share/doc/plimsoll/README.md")), "{found:?}");
    assert!(!found.iter().any(|path| path.ends_with("directories")), "{found:?}");
    install(&["--remove", "/usr"], Some(dir.path()));
    assert_eq!(below(dir.path()), Vec::<PathBuf>::new());
}
