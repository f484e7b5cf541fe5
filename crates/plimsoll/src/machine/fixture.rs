//! Unpacks a saved machine, `tests/fixtures/machines/NAME.tree`, into a temporary directory.
//!
//! Lines are `path = content` (the same path again appends a line), `path -> link target`, `path/` for a directory,
//! `#` for a comment. `[0-3,8]` in a path repeats the line with each number; `{n}`, `{n+40}`, `{n-40}`, `{n%20}` and
//! `{n/4}` then stand for that number. In contents `\n`, `\t`, `\\` and `\xNN` are escapes.

use super::{CpuSet, Machine, Root, cpu::Logical, root::MOUNTS_CAP};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A failure of the fixture itself, in words.
pub(crate) type Fault = Box<dyn std::error::Error>;

/// A saved machine, unpacked; removed when dropped.
pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) root: Root,
}

impl Fixture {
    /// Unpacks the saved machine `name`.
    pub(crate) fn open(name: &str) -> Result<Self, Fault> {
        Self::unpack(&fs::read_to_string(tree_file(name))?)
    }

    /// Unpacks a tree's text.
    pub(crate) fn unpack(tree: &str) -> Result<Self, Fault> {
        // Hundreds of small files: in memory where possible, since a disk under test makes each one slow.
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
        for entry in entries(tree)? {
            entry.write(dir.path())?;
        }
        let root = Root::at(dir.path());
        Ok(Self { dir, root })
    }

    /// What is discovered in it.
    pub(crate) fn machine(&self) -> Machine {
        Machine::discover(&self.root)
    }

    /// Replaces a file's content, whatever it was.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> Result<(), Fault> {
        assert!(content.len() as u64 <= 2 * MOUNTS_CAP);
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        Ok(fs::write(path, content)?)
    }
}

/// Two cores of two hardware threads: CPUs 0 and 2, 1 and 3.
pub(crate) fn two_cores() -> Vec<Logical> {
    let logical = |id: usize| Logical {
        id,
        core: Some(id as u32 % 2),
        package: Some(0),
        siblings: [id % 2, id % 2 + 2].into_iter().collect(),
        online: true,
        capacity: None,
    };
    (0..4).map(logical).collect()
}

/// Where saved machines are.
pub(crate) fn tree_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/machines").join(format!("{name}.tree"))
}

/// One file, link or directory of a tree.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) path: String,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Line(Vec<u8>),
    Link(String),
    Directory,
}

/// All entries, repetitions expanded.
pub(crate) fn entries(tree: &str) -> Result<Vec<Entry>, Fault> {
    let mut all = Vec::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        match line.split_once('[').and_then(|(before, rest)| Some((before, rest.split_once(']')?))) {
            Some((before, (list, after))) if !before.contains([' ', '=']) => {
                for n in list.parse::<CpuSet>()?.iter() {
                    all.push(entry(&numbered(&format!("{before}{n}{after}"), n)?)?);
                }
            }
            _ => all.push(entry(line)?),
        }
    }
    Ok(all)
}

/// A line with the number put in.
fn numbered(line: &str, n: usize) -> Result<String, Fault> {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("{n") {
        let (change, after) = after.split_once('}').ok_or("a { without }")?;
        let operand = || change.get(1..).unwrap_or_default().parse::<usize>();
        let value = match change.chars().next() {
            None => n,
            Some('+') => n + operand()?,
            Some('-') => n - operand()?,
            Some('%') => n % operand()?,
            Some('/') => n / operand()?,
            Some(_) => return Err(format!("what is {{n{change}}}?").into()),
        };
        out.push_str(before);
        out.push_str(&value.to_string());
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn entry(line: &str) -> Result<Entry, Fault> {
    if let Some((path, target)) = line.split_once(" -> ") {
        return Ok(Entry { path: path.into(), what: What::Link(target.into()) });
    }
    if let Some((path, content)) = line.split_once(" =") {
        return Ok(Entry {
            path: path.into(),
            what: What::Line(unescape(content.strip_prefix(' ').unwrap_or(content))?),
        });
    }
    match line.strip_suffix('/') {
        Some(path) => Ok(Entry { path: path.into(), what: What::Directory }),
        None => Err(format!("not a line of a tree: {line}").into()),
    }
}

fn unescape(text: &str) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push(b'\n'),
                Some('t') => out.push(b'\t'),
                Some('\\') => out.push(b'\\'),
                Some('x') => {
                    let digits: String = chars.by_ref().take(2).collect();
                    out.push(u8::from_str_radix(&digits, 16)?);
                }
                other => return Err(format!("what is \\{other:?}?").into()),
            },
            c => out.extend(c.to_string().bytes()),
        }
    }
    Ok(out)
}

impl Entry {
    /// Whether this is (a line of) a file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.what, What::Line(_))
    }

    fn write(&self, root: &Path) -> Result<(), Fault> {
        let path = root.join(&self.path);
        let parent = path.parent().ok_or("no parent")?;
        if !parent.exists() {
            fs::create_dir_all(parent)?;
        }
        match &self.what {
            What::Directory => fs::create_dir_all(path)?,
            What::Link(target) => symlink(target, path)?,
            What::Line(line) => {
                let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
                file.write_all(line)?;
                file.write_all(b"\n")?;
            }
        }
        Ok(())
    }
}
