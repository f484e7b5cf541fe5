//! This program's own file, for the processes that it starts of itself: workers, the private server, `plimsoll launch`.
//!
//! The file may be replaced or deleted while a run goes on (a package upgrade): what is started must still be the very
//! program that runs, and never the new one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kernel's link to the file that a process executes: it leads to that very file also when its name leads to another one
/// by now, or to none (proc_pid_exe(5)). A child that has not yet executed anything has its parent's.
const EXECUTED: &str = "/proc/self/exe";

/// How this program is executed once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// What to execute.
    pub path: PathBuf,
    /// What the user must know, where the path may lead to another file in the course of the run.
    pub caution: Option<String>,
}

impl Own {
    /// Finds it: by the kernel's link, or, where /proc is not mounted, by the path that was executed.
    ///
    /// # Errors
    /// Neither leads to a file.
    pub fn find() -> std::io::Result<Self> {
        Self::of(Path::new(EXECUTED), OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()).as_ref())
    }

    fn of(link: &Path, called: &Path) -> std::io::Result<Self> {
        if link.exists() {
            return Ok(Self { path: link.to_owned(), caution: None });
        }
        let path = called.canonicalize()?;
        let shown = crate::text::shown_bytes(path.as_os_str().as_bytes());
        let caution = format!(
            "/proc is not mounted: workers are started from {shown}; do not replace it during the run"
        );
        Ok(Self { path, caution: Some(caution) })
    }
}

/// Gives a process that was started by the kernel's link the program's name, which is "exe" otherwise in ps and top.
pub fn take_name() {
    // Best effort: a name for people.
    let _ = rustix::thread::set_name(c"plimsoll");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_program_is_found_whatever_its_name_leads_to() {
        let own = Own::find().unwrap();
        assert_eq!(own, Own { path: EXECUTED.into(), caution: None });
        let same = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
        assert_eq!(same(&own.path), same(&std::env::current_exe().unwrap()));
    }

    #[test]
    fn without_proc_the_path_that_was_executed_is_taken_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("plimsoll");
        std::fs::write(&program, "").unwrap();
        let own = Own::of(&dir.path().join("exe"), &program).unwrap();
        assert_eq!(own.path, program.canonicalize().unwrap());
        assert!(own.caution.unwrap().contains("do not replace it"));
        assert!(Own::of(&dir.path().join("exe"), &dir.path().join("gone")).is_err());
    }
}
