use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::root::LEAVES;

const MAX_LINKS: usize = 40;
/// Longest path and link text in bytes; those of a saved machine have some 200.
const MAX_PATH: usize = 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree(BTreeMap<OsString, TreeEntry>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TreeEntry {
    Directory(Tree),
    File(Vec<u8>),
    Link(PathBuf),
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
    /// Adds an entry and missing parents; returns the number of new entries. Fails if it exists, is
    /// too long, or leads out of the tree or through a non-directory.
    pub(super) fn insert(&mut self, path: &Path, node: TreeEntry) -> Result<usize, Misplaced> {
        let target = if let TreeEntry::Link(target) = &node { target.as_path() } else { path };
        if [path, target].iter().any(|path| path.as_os_str().len() > MAX_PATH) {
            return Err(Misplaced::TooLong);
        }
        let mut names: Vec<&OsStr> = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                _ => return Err(Misplaced::Outside),
            }
        }
        let is_directory = matches!(node, TreeEntry::Directory(_));
        let Some((name, above)) = names.split_last() else {
            return if is_directory { Ok(0) } else { Err(Misplaced::Taken) };
        };
        let (mut here, mut added) = (self, 0);
        for name in above {
            let below = here.0.entry((*name).to_owned()).or_insert_with(|| {
                added += 1;
                TreeEntry::Directory(Self::default())
            });
            here = match below {
                TreeEntry::Directory(tree) => tree,
                _ => return Err(Misplaced::Taken),
            };
        }
        match here.0.entry((*name).to_owned()) {
            Entry::Vacant(free) => {
                free.insert(node);
                Ok(added + 1)
            }
            Entry::Occupied(same) if is_directory && matches!(same.get(), TreeEntry::Directory(_)) => {
                Ok(added)
            }
            Entry::Occupied(_) => Err(Misplaced::Taken),
        }
    }

    pub(super) fn only_directory(mut self) -> Self {
        match self.0.pop_first() {
            Some((_, TreeEntry::Directory(only))) if self.0.is_empty() => only,
            Some((name, node)) => {
                self.0.insert(name, node);
                self
            }
            None => self,
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(OsStr::new(name))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.0.keys().map(OsString::as_os_str)
    }

    /// Returns the entry at `path` and its path without links; links must not leave the tree.
    pub(super) fn find<'a>(&'a self, path: &Path) -> io::Result<(PathBuf, FoundEntry<'a>)> {
        let mut walked: Vec<(&OsStr, FoundEntry<'a>)> = Vec::new();
        let mut ahead: Vec<Component<'_>> = path.components().rev().collect();
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            let name = match part {
                Component::Normal(name) => name,
                Component::CurDir => continue,
                Component::ParentDir if walked.pop().is_some() => continue,
                _ => return Err(io::Error::other(LEAVES)),
            };
            let FoundEntry::Directory(here) =
                walked.last().map_or(FoundEntry::Directory(self), |(_, found)| *found)
            else {
                return Err(ErrorKind::NotADirectory.into());
            };
            match here.0.get(name).ok_or(ErrorKind::NotFound)? {
                TreeEntry::Directory(tree) => walked.push((name, FoundEntry::Directory(tree))),
                TreeEntry::File(bytes) => walked.push((name, FoundEntry::File(bytes))),
                TreeEntry::Link(target) if links < MAX_LINKS => {
                    links += 1;
                    ahead.extend(target.components().rev());
                }
                TreeEntry::Link(_) => return Err(Errno::LOOP.into()),
            }
        }
        let found = walked.last().map_or(FoundEntry::Directory(self), |(_, found)| *found);
        Ok((walked.iter().map(|(name, _)| *name).collect(), found))
    }

    pub(super) fn link_text(&self, path: &Path) -> io::Result<&Path> {
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(ErrorKind::InvalidInput)?;
        match self.find(parent)?.1 {
            FoundEntry::Directory(here) => match here.0.get(name).ok_or(ErrorKind::NotFound)? {
                TreeEntry::Link(target) => Ok(target),
                _ => Err(ErrorKind::InvalidInput.into()),
            },
            FoundEntry::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundEntry<'a> {
    Directory(&'a Tree),
    File(&'a [u8]),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, TreeEntry)]) -> Tree {
        let mut tree = Tree::default();
        for (path, node) in entries {
            tree.insert(Path::new(path), node.clone()).unwrap();
        }
        tree
    }

    fn link(target: &str) -> TreeEntry {
        TreeEntry::Link(target.into())
    }

    #[test]
    fn entries_are_added_once_and_inside() {
        let mut tree = tree(&[("a/b", TreeEntry::File(vec![1])), ("l", link("a"))]);
        let directory = || TreeEntry::Directory(Tree::default());
        let mut add = |path: &str, node: TreeEntry| tree.insert(Path::new(path), node);
        assert_eq!(add("./a/", directory()), Ok(0));
        assert_eq!(add("./", directory()), Ok(0));
        assert_eq!(add("x/y/z", directory()), Ok(3));
        for path in ["a/b", "a/b/c", "l/c", "a", "l", "."] {
            assert_eq!(add(path, TreeEntry::File(Vec::new())), Err(Misplaced::Taken), "{path}");
        }
        let long = "x/".repeat(600);
        assert_eq!(add(&long, directory()), Err(Misplaced::TooLong));
        assert_eq!(add("long", link(&long)), Err(Misplaced::TooLong));
        for path in ["../x", "/x", "a/../../x"] {
            assert_eq!(add(path, directory()), Err(Misplaced::Outside), "{path}");
        }
    }

    #[test]
    fn links_are_followed_inside_alone() {
        let tree = tree(&[
            ("a/b", TreeEntry::File(vec![1])),
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
        assert_eq!(tree.find(Path::new("d/up")).unwrap().1, FoundEntry::File(&[1]));
        assert_eq!(tree.link_text(Path::new("d/up")).unwrap(), Path::new("../a/./b"));
        assert!(tree.link_text(Path::new("a/b")).is_err());
    }

    #[test]
    fn one_directory_alone_is_taken_for_the_tree() {
        let one = tree(&[("m/proc/x", TreeEntry::File(Vec::new()))]).only_directory();
        assert!(one.has("proc"));
        let two = tree(&[("m/proc/x", TreeEntry::File(Vec::new())), ("n", link("m"))]);
        assert_eq!(two.clone().only_directory(), two);
    }
}
