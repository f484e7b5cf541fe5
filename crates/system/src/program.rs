//! This program's own file, to start more processes of it: also after an upgrade during the run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kernel's link to the executed file, whatever its name leads to now (proc_pid_exe(5)).
const EXECUTED: &str = "/proc/self/exe";

/// The way to execute this program again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProgram {
    /// Path to execute.
    pub path: PathBuf,
    /// Warning for the user if the file at the path may change during the run.
    pub caution: Option<String>,
}

impl OwnProgram {
    /// Returns how to execute this program again: by `/proc/self/exe`, or without /proc by the path
    /// that was executed. Fails if that path is missing.
    pub fn find() -> std::io::Result<Self> {
        Self::of(Path::new(EXECUTED), OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()).as_ref())
    }

    fn of(link: &Path, called: &Path) -> std::io::Result<Self> {
        if link.exists() {
            return Ok(Self { path: link.to_owned(), caution: None });
        }
        let path = called.canonicalize()?;
        let shown = crate::text::shown_path(&path);
        let caution = format!(
            "/proc is not mounted: workers are started from {shown}; do not replace it during the run"
        );
        Ok(Self { path, caution: Some(caution) })
    }
}

/// Sets the process name to `plimsoll`: ps and top show `exe` after a start by `/proc/self/exe`.
pub fn take_name() {
    let _ = rustix::thread::set_name(c"plimsoll");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_program_is_found_whatever_its_name_leads_to() {
        let own = OwnProgram::find().unwrap();
        assert_eq!(own, OwnProgram { path: EXECUTED.into(), caution: None });
        let same = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
        assert_eq!(same(&own.path), same(&std::env::current_exe().unwrap()));
    }

    #[test]
    fn without_proc_the_path_that_was_executed_is_taken_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("plimsoll");
        std::fs::write(&program, "").unwrap();
        let own = OwnProgram::of(&dir.path().join("exe"), &program).unwrap();
        assert_eq!(own.path, program.canonicalize().unwrap());
        assert!(own.caution.unwrap().contains("do not replace it"));
        assert!(OwnProgram::of(&dir.path().join("exe"), &dir.path().join("gone")).is_err());
    }
}
