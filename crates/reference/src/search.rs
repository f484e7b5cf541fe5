use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_system::trust::Trust;

const ANYBODY_MAY_RUN: u32 = 0o111;

pub(super) const NOT_INSTALLED: &str = "not installed";

/// Finds programs on PATH and at locations that the user named.
#[derive(Clone, Debug, Default)]
pub struct ProgramSearch {
    directories: Vec<PathBuf>,
    pub(super) named: BTreeMap<String, PathBuf>,
    trust: Trust,
}

impl ProgramSearch {
    /// Prepares to search the absolute directories in `path` (as in PATH). `named` maps names of
    /// tools to the files that the user gave; `trust` decides which programs are refused.
    pub fn new(path: &OsStr, named: BTreeMap<String, PathBuf>, trust: Trust) -> Self {
        let directories = std::env::split_paths(path).filter(|d| d.is_absolute()).collect();
        Self { directories, named, trust }
    }

    /// Returns the path of `program`, the main program of `tool`. `more` are directories of its
    /// package outside PATH. Fails if it is not installed or not trusted.
    pub fn find(&self, tool: &str, program: &str, more: &[&str]) -> Result<PathBuf, String> {
        if let Some(named) = self.named.get(tool) {
            return self.trust.program(named).map_err(|why| format!("--reference-path {tool}: {why}"));
        }
        self.find_part(tool, program, more)
    }

    /// Returns one line for each untrusted file with this name on the search path, with the reason.
    pub(super) fn refused(&self, program: &str) -> Vec<String> {
        let candidates = self.directories.iter().map(|directory| directory.join(program));
        candidates.filter(|c| runs(c)).filter_map(|c| self.trust.program(&c).err()).collect()
    }

    /// Returns the path of another program of `tool`, such as its server: next to the file that the
    /// user named, else on the search path, else in the directories `more`.
    pub fn find_part(&self, tool: &str, program: &str, more: &[&str]) -> Result<PathBuf, String> {
        let sibling_directory = self.named.get(tool).and_then(|named| named.parent()).map(Path::to_owned);
        let directories = sibling_directory.into_iter().chain(self.directories.iter().cloned());
        let candidates = directories.chain(more.iter().map(PathBuf::from)).map(|d| d.join(program));
        let mut refused = None;
        for candidate in candidates.filter(|c| runs(c)) {
            match self.trust.program(&candidate) {
                Ok(path) => return Ok(path),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        Err(refused.unwrap_or_else(|| NOT_INSTALLED.to_owned()))
    }
}

fn runs(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.mode() & ANYBODY_MAY_RUN != 0)
}

#[cfg(test)]
pub(crate) mod tests;
