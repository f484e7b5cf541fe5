//! Sets `PLIMSOLL_VERSION` to version and commit, such as `0.1.0 (848a094cc9)`, or to the version
//! alone in a source tree without git. A packager can name the commit in `PLIMSOLL_COMMIT`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=PLIMSOLL_COMMIT");
    let commit = std::env::var("PLIMSOLL_COMMIT").ok().filter(|named| is_plain(named)).or_else(checked_out);
    let version = env!("CARGO_PKG_VERSION");
    let version = commit.map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=PLIMSOLL_VERSION={version}");
}

/// Returns the commit of this clone, `848a094cc9` or `848a094cc9, modified`; `None` without git.
fn checked_out() -> Option<String> {
    // An unpacked archive inside another project's clone must not take that project's commit.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "../.."])?;
    watch();
    Some(if changed.is_empty() { commit } else { format!("{commit}, modified") })
}

/// Prints cargo's lines that rerun this script after a commit, a checkout or a change of sources.
/// Leaves out files that do not exist: cargo would rerun it every time.
fn watch() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for entry in std::fs::read_dir("..").into_iter().flatten().flatten() {
        println!("cargo::rerun-if-changed={}", entry.path().join("src").display());
    }
}

fn is_plain(commit: &str) -> bool {
    !commit.is_empty()
        && commit.len() <= 64
        && commit.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.+".contains(&b))
}

fn git(arguments: &[&str]) -> Option<String> {
    let answer = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    answer.status.success().then(|| text.trim().to_owned())
}
