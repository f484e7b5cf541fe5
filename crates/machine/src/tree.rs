use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::root::LEAVES;

const MAX_LINKS: usize = 40;
/// Longest path and link text in bytes; those of a saved machine have some 200.
const MAX_PATH: usize = 1024;

/// A directory with all below it, a file or a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Directory(BTreeMap<OsString, Tree>),
    File(Vec<u8>),
    Link(PathBuf),
}

impl Default for Tree {
    fn default() -> Self {
        Self::Directory(BTreeMap::new())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misplaced {
    #[error("leads out of the archive")]
    Outside,
    #[error("or its link is longer than 1024 bytes")]
    TooLong,
    #[error("is in the archive twice, or below an entry that is no directory")]
    Taken,
}

impl Tree {
    /// Adds `node` at `path` with missing directories and returns how many entries are new. Fails
    /// if `path` is taken, too long, leaves the tree, or leads through a file or link.
    pub(super) fn insert(&mut self, path: &Path, node: Self) -> Result<usize, Misplaced> {
        let target = if let Self::Link(target) = &node { target.as_path() } else { path };
        if [path, target].iter().any(|path| path.as_os_str().len() > MAX_PATH) {
            return Err(Misplaced::TooLong);
        }
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(Misplaced::Outside);
        }
        let (mut here, mut added, mut is_new) = (self, 0, false);
        for part in path.components().filter(|part| *part != Component::CurDir) {
            let Self::Directory(below) = here else { return Err(Misplaced::Taken) };
            let name = part.as_os_str();
            is_new = !below.contains_key(name);
            added += usize::from(is_new);
            here = below.entry(name.to_owned()).or_default();
        }
        match (&*here, &node) {
            (Self::Directory(_), Self::Directory(_)) => {}
            _ if is_new => *here = node,
            _ => return Err(Misplaced::Taken),
        }
        Ok(added)
    }

    pub(super) fn only_directory(mut self) -> Self {
        if let Self::Directory(all) = &mut self
            && let (1, Some(Self::Directory(only))) = (all.len(), all.values_mut().next())
        {
            return Self::Directory(std::mem::take(only));
        }
        self
    }

    pub(super) fn has(&self, name: &str) -> bool {
        matches!(self, Self::Directory(all) if all.contains_key(OsStr::new(name)))
    }

    /// Returns real path and entry of `path`, links followed. Fails if missing or outside the tree.
    pub(super) fn find<'a>(&'a self, path: &Path) -> io::Result<(PathBuf, &'a Self)> {
        let mut walked: Vec<(&OsStr, &Self)> = Vec::new();
        let mut ahead: Vec<Component<'_>> = path.components().rev().collect();
        let mut here = self;
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            match part {
                Component::Normal(name) => match here.entry(name)? {
                    Self::Link(target) if links < MAX_LINKS => {
                        links += 1;
                        ahead.extend(target.components().rev());
                    }
                    Self::Link(_) => return Err(Errno::LOOP.into()),
                    found => walked.push((name, found)),
                },
                Component::CurDir => {}
                Component::ParentDir if walked.pop().is_some() => {}
                _ => return Err(io::Error::other(LEAVES)),
            }
            here = walked.last().map_or(self, |(_, found)| *found);
        }
        Ok((walked.iter().map(|(name, _)| *name).collect(), here))
    }

    fn entry(&self, name: &OsStr) -> io::Result<&Self> {
        let Self::Directory(all) = self else { return Err(ErrorKind::NotADirectory.into()) };
        Ok(all.get(name).ok_or(ErrorKind::NotFound)?)
    }

    pub(super) fn link_text(&self, path: &Path) -> io::Result<&Path> {
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(ErrorKind::InvalidInput)?;
        match self.find(parent)?.1.entry(name)? {
            Self::Link(target) => Ok(target),
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, Tree)]) -> Tree {
        let mut tree = Tree::default();
        for (path, node) in entries {
            tree.insert(Path::new(path), node.clone()).unwrap();
        }
        tree
    }

    fn link(target: &str) -> Tree {
        Tree::Link(target.into())
    }

    #[test]
    fn entries_are_added_once_and_inside() {
        let mut tree = tree(&[("a/b", Tree::File(vec![1])), ("l", link("a"))]);
        let mut add = |path: &str, node: Tree| tree.insert(Path::new(path), node);
        assert_eq!(add("./a/", Tree::default()), Ok(0));
        assert_eq!(add("./", Tree::default()), Ok(0));
        assert_eq!(add("x/y/z", Tree::default()), Ok(3));
        for path in ["a/b", "a/b/c", "l/c", "a", "l", "."] {
            assert_eq!(add(path, Tree::File(Vec::new())), Err(Misplaced::Taken), "{path}");
        }
        let long = "x/".repeat(600);
        assert_eq!(add(&long, Tree::default()), Err(Misplaced::TooLong));
        assert_eq!(add("long", link(&long)), Err(Misplaced::TooLong));
        for path in ["../x", "/x", "a/../../x"] {
            assert_eq!(add(path, Tree::default()), Err(Misplaced::Outside), "{path}");
        }
    }

    #[test]
    fn links_are_followed_inside_alone() {
        let tree = tree(&[
            ("a/b", Tree::File(vec![1])),
            ("c/up", link("../a/./b")),
            ("c/out", link("../../a")),
            ("c/absolute", link("/a")),
            ("loop", link("loop")),
            ("d", link("c")),
        ]);
        let found = |path: &str| tree.find(Path::new(path)).map(|(path, _)| path).map_err(|e| e.kind());
        assert_eq!(found("d/up"), Ok(PathBuf::from("a/b")));
        assert_eq!(found(""), Ok(PathBuf::new()));
        for path in ["c/out", "c/absolute", "d/out"] {
            assert_eq!(found(path), Err(ErrorKind::Other), "{path}");
        }
        assert!(found("loop").is_err());
        assert_eq!(found("a/b/c"), Err(ErrorKind::NotADirectory));
        assert_eq!(found("a/c"), Err(ErrorKind::NotFound));
        assert_eq!(tree.find(Path::new("d/up")).unwrap().1, &Tree::File(vec![1]));
        assert_eq!(tree.link_text(Path::new("d/up")).unwrap(), Path::new("../a/./b"));
        assert!(tree.link_text(Path::new("a/b")).is_err());
    }

    #[test]
    fn one_directory_alone_is_taken_for_the_tree() {
        let one = tree(&[("m/proc/x", Tree::File(Vec::new()))]).only_directory();
        assert!(one.has("proc"));
        let two = tree(&[("m/proc/x", Tree::File(Vec::new())), ("n", link("m"))]);
        assert_eq!(two.clone().only_directory(), two);
    }
}
