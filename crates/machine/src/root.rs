//! Reads small text files below a root: `/` on the live machine, a saved tree in tests. Only
//! regular files of bounded size are read, and every failure is a value with file and reason.

use plimsoll_units::text::{shown, shown_bytes, shown_within};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use super::tree::Tree;

/// Largest size of a file in bytes.
pub const FILE_CAP: u64 = 1 << 20;
/// Largest cpuinfo in bytes: 8192 CPUs with the longest flag lists seen (about 2.5 KB each).
pub(super) const CPUINFO_CAP: u64 = 32 << 20;
/// Largest mount table in bytes: container hosts have tens of thousands of mounts.
pub const MOUNTS_CAP: u64 = 16 << 20;
pub(super) const LEAVES: &str = "a link that leaves the tree";
const NAMES_CAP: usize = 16_384;
/// Room for the text of a file at first, in bytes.
const READ_BYTES: usize = 8192;

/// The directory with `sys` and `proc` from which discovery reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(RootFiles);

#[derive(Debug, Clone, PartialEq, Eq)]
enum RootFiles {
    Below(PathBuf),
    Memory(Arc<Tree>),
}

enum RootPath<'a> {
    Disk(PathBuf),
    Memory(&'a Tree),
}

/// Reason why a file was not read. Paths are those on the machine, sanitised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file or a directory above it does not exist.
    #[error("{0} is not there")]
    Missing(String),
    /// This user may not read the file.
    #[error("{0} may not be read by this user")]
    Denied(String),
    /// Not a regular file.
    #[error("{0} is not a regular file")]
    NotAFile(String),
    /// Longer than plausible.
    #[error("{0} is longer than {1} bytes")]
    TooLong(String, u64),
    /// Another system error, with its message.
    #[error("{0}: {1}")]
    Failed(String, String),
    /// Unexpected content: it, sanitised and cut, and what was expected.
    #[error("{0} holds \"{1}\", not {2}")]
    Garbled(String, String, &'static str),
}

impl ReadError {
    /// Returns `None` instead of the error that the file is missing.
    pub(super) fn allow_missing<T>(found: Result<T, Self>) -> Result<Option<T>, Self> {
        match found {
            Err(Self::Missing(_)) => Ok(None),
            found => found.map(Some),
        }
    }
}

impl Root {
    /// Returns the root of the live machine, `/`.
    pub fn live() -> Self {
        Self(RootFiles::Below(PathBuf::from("/")))
    }

    /// Returns a root for a saved `/proc` and `/sys` in `path`; reads fail if they are missing.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self(RootFiles::Below(path.canonicalize().unwrap_or(path)))
    }

    pub(super) fn in_memory(tree: Tree) -> Self {
        Self(RootFiles::Memory(Arc::new(tree)))
    }

    /// Returns whether the root is `/`, so that system calls describe the machine of its files.
    pub fn is_live(&self) -> bool {
        matches!(&self.0, RootFiles::Below(root) if root == Path::new("/"))
    }

    /// Returns where `path` is on disk, links not followed; `None` for a tree in memory.
    fn on_disk(&self, path: &Path) -> Option<PathBuf> {
        match &self.0 {
            RootFiles::Below(root) => Some(root.join(below(path))),
            RootFiles::Memory(_) => None,
        }
    }

    /// Finds `path`, on disk or in memory. Fails if a link leads out of a saved tree.
    fn find(&self, path: &Path) -> Result<RootPath<'_>, ReadError> {
        match &self.0 {
            RootFiles::Below(root) if self.is_live() => Ok(RootPath::Disk(root.join(below(path)))),
            RootFiles::Below(root) => self.resolve(path).map(|real| RootPath::Disk(root.join(below(&real)))),
            RootFiles::Memory(tree) => match tree.find(&below(path)) {
                Ok((_, found)) => Ok(RootPath::Memory(found)),
                Err(e) => Err(failure(path, &e)),
            },
        }
    }

    /// Reads a text file and trims its end; invalid UTF-8 becomes U+FFFD. Fails above 1 MiB.
    pub fn text(&self, path: impl AsRef<Path>) -> Result<String, ReadError> {
        let bytes = self.bytes(path.as_ref(), FILE_CAP)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// Reads all bytes of a file; fails if the file has more than `cap` bytes.
    pub fn bytes(&self, path: &Path, cap: u64) -> Result<Vec<u8>, ReadError> {
        let bytes = self.head(path, cap.saturating_add(1))?;
        if bytes.len() as u64 > cap { Err(ReadError::TooLong(name_of(path), cap)) } else { Ok(bytes) }
    }

    /// Reads at most the first `cap` bytes of a file.
    pub fn head(&self, path: &Path, cap: u64) -> Result<Vec<u8>, ReadError> {
        self.part(path, 0, cap)
    }

    /// Reads at most `cap` bytes of a file from offset `start`.
    pub fn part(&self, path: &Path, start: u64, cap: u64) -> Result<Vec<u8>, ReadError> {
        let failed = |error: io::Error| failure(path, &error);
        let place = match self.find(path)? {
            RootPath::Disk(place) => place,
            RootPath::Memory(Tree::File(bytes)) => {
                let [start, cap] = [start, cap].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
                return Ok(bytes.iter().skip(start).take(cap).copied().collect());
            }
            RootPath::Memory(_) => return Err(ReadError::NotAFile(name_of(path))),
        };
        // Non-blocking, so that a FIFO in an untrusted tree cannot block.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let mut file: File = OpenOptions::new().read(true).custom_flags(flags).open(place).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(ReadError::NotAFile(name_of(path)));
        }
        if start > 0 {
            file.seek(SeekFrom::Start(start)).map_err(failed)?;
        }
        // The kernel's files claim to be empty; with room, most of them take one call.
        let mut bytes = Vec::with_capacity(READ_BYTES);
        file.take(cap).read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    /// Reads a file and parses its trimmed text; errors contain `wanted`, the expected content.
    pub fn parse<T: FromStr>(&self, path: impl AsRef<Path>, wanted: &'static str) -> Result<T, ReadError> {
        let path = path.as_ref();
        let text = self.text(path)?;
        text.trim().parse().map_err(|_| garbled(path, &text, wanted))
    }

    /// Reads a file with one decimal number; fails at any other content.
    pub fn number(&self, path: impl AsRef<Path>) -> Result<u64, ReadError> {
        self.parse(path, "a number")
    }

    /// Reads a text for display: trimmed, sanitised, at most 256 characters; fails if it is empty.
    pub fn line(&self, path: impl AsRef<Path>) -> Result<String, ReadError> {
        let path = path.as_ref();
        let text = self.text(path)?;
        // Strings of a device tree end in NUL.
        let line = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        if line.is_empty() { Err(garbled(path, line, "a text")) } else { Ok(shown(line)) }
    }

    fn entries(&self, path: &Path, most: usize) -> Result<Vec<OsString>, ReadError> {
        match self.find(path)? {
            RootPath::Disk(place) => {
                let entries = fs::read_dir(place).map_err(|e| failure(path, &e))?;
                Ok(entries.take(most).filter_map(|entry| Some(entry.ok()?.file_name())).collect())
            }
            RootPath::Memory(Tree::Directory(all)) => Ok(all.keys().take(most).cloned().collect()),
            RootPath::Memory(_) => Err(failure(path, &ErrorKind::NotADirectory.into())),
        }
    }

    /// Returns the UTF-8 names in a directory, sorted, at most 16,384.
    pub fn names(&self, path: impl AsRef<Path>) -> Result<Vec<String>, ReadError> {
        let entries = self.entries(path.as_ref(), NAMES_CAP)?;
        let mut names: Vec<String> = entries.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the IDs of all processes in ascending order; empty if unreadable.
    pub fn processes(&self) -> Vec<u32> {
        self.numbers("proc").unwrap_or_default()
    }

    /// Returns the names in a directory that are numbers, in ascending order.
    pub fn numbers(&self, path: impl AsRef<Path>) -> Result<Vec<u32>, ReadError> {
        let entries = self.entries(path.as_ref(), usize::MAX)?;
        let mut numbers: Vec<u32> = entries.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns `path` with links followed, relative to the root but with a leading slash. Fails if
    /// it is missing or a link leaves the root.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Result<PathBuf, ReadError> {
        let path = path.as_ref();
        let resolved = match &self.0 {
            RootFiles::Below(root) => root.join(below(path)).canonicalize().and_then(|real| {
                let inside = real.strip_prefix(root).map(Path::to_owned);
                inside.map_err(|_| io::Error::other(LEAVES))
            }),
            RootFiles::Memory(tree) => tree.find(&below(path)).map(|(real, _)| real),
        };
        Ok(Path::new("/").join(resolved.map_err(|e| failure(path, &e))?))
    }

    /// Follows links and returns the last component of the result: the driver for `device/driver`.
    pub fn link_name(&self, path: impl AsRef<Path>) -> Result<String, ReadError> {
        let target = self.resolve(path)?;
        Ok(target.file_name().map(|n| shown_bytes(n.as_bytes())).unwrap_or_default())
    }

    /// Returns a process's thread IDs in ascending order, or its own ID if they are unreadable.
    pub fn threads(&self, process: u32) -> Vec<u32> {
        let ids = self.numbers(format!("proc/{process}/task")).unwrap_or_default();
        if ids.is_empty() { vec![process] } else { ids }
    }

    /// Returns the status of a path (statx(2)), links followed, without querying a file server or
    /// mounting anything; `None` on failure or for a tree in memory.
    pub fn about(&self, path: impl AsRef<Path>) -> Option<Statx> {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        rustix::fs::statx(CWD, self.on_disk(path.as_ref())?, flags, StatxFlags::BASIC_STATS).ok()
    }

    /// Returns the magic number of a path's file system (statfs(2)), if on disk and readable.
    pub fn magic(&self, path: impl AsRef<Path>) -> Option<u32> {
        let magic = rustix::fs::statfs(self.on_disk(path.as_ref())?).ok()?.f_type;
        u32::try_from(i128::from(magic) & i128::from(u32::MAX)).ok()
    }

    /// Returns the target of a symbolic link as written; it need not exist.
    pub fn link_text(&self, path: impl AsRef<Path>) -> Result<PathBuf, ReadError> {
        let path = path.as_ref();
        let text = match &self.0 {
            RootFiles::Below(root) => fs::read_link(root.join(below(path))),
            RootFiles::Memory(tree) => tree.link_text(&below(path)).map(Path::to_owned),
        };
        text.map_err(|e| failure(path, &e))
    }

    /// Returns whether the path exists and may be looked up, links followed.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.find(path.as_ref()).is_ok_and(|found| match found {
            RootPath::Disk(place) => place.exists(),
            RootPath::Memory(_) => true,
        })
    }
}

/// Returns `path` without the leading slash, with `..` applied but never leading above the root.
fn below(path: &Path) -> PathBuf {
    let mut below = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => below.push(name),
            Component::ParentDir => drop(below.pop()),
            _ => {}
        }
    }
    below
}

/// Returns the number after `key` and a blank in a line of `text`, such as `pswpin 3`, if any.
pub(super) fn find_counter(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

pub(super) fn garbled(path: impl AsRef<Path>, text: &str, wanted: &'static str) -> ReadError {
    ReadError::Garbled(name_of(path.as_ref()), shown_within(text.trim(), 40), wanted)
}

fn name_of(path: &Path) -> String {
    shown_bytes(Path::new("/").join(path).as_os_str().as_bytes())
}

fn failure(path: &Path, error: &io::Error) -> ReadError {
    let path = name_of(path);
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadError::Missing(path),
        ErrorKind::PermissionDenied => ReadError::Denied(path),
        ErrorKind::IsADirectory => ReadError::NotAFile(path),
        _ => ReadError::Failed(path, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn a_file_is_read_with_its_faults_named() {
        let fixture = Fixture::unpack("n = 42\nbad = 4\\x1b2\nempty =\nd/\n").unwrap();
        fixture.write("long", &vec![b'x'; FILE_CAP as usize + 1]).unwrap();
        let root = &fixture.root;
        assert_eq!(root.number("n"), Ok(42));
        assert_eq!(root.number("/../../n"), Ok(42));
        let stated = |path: &str| root.number(path).map_err(|e| e.to_string());
        assert_eq!(stated("bad"), Err(r#"/bad holds "4\u{1b}2", not a number"#.into()));
        assert_eq!(stated("empty"), Err(r#"/empty holds "", not a number"#.into()));
        assert_eq!(stated("none"), Err("/none is not there".into()));
        assert_eq!(stated("n/below"), Err("/n/below is not there".into()));
        assert_eq!(stated("d"), Err("/d is not a regular file".into()));
        assert_eq!(stated("long"), Err("/long is longer than 1048576 bytes".into()));
    }

    #[test]
    fn links_are_followed_inside_the_tree_only() {
        let fixture = Fixture::unpack("a/b/\na/in -> ../a/b\nout -> /usr\nloop -> loop\n").unwrap();
        let root = &fixture.root;
        assert_eq!(root.resolve("a/in"), Ok(PathBuf::from("/a/b")));
        assert_eq!(root.link_name("a/in"), Ok("b".into()));
        assert!(root.resolve("out").is_err_and(|e| e.to_string().contains("leaves the tree")));
        assert!(root.resolve("loop").is_err());
    }
}
