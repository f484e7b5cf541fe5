//! Test support (feature `testing`): machine parts, and saved machines
//! `tests/fixtures/machines/*.tree`.
//!
//! Lines are `path = content` (a repeated path appends a line), `path -> link target`, `path/` for
//! a directory, `#` for a comment. `[0-3,8]` in a path repeats the line for each number `n`, which
//! `{n}`, `{n+40}`, `{n-40}`, `{n%20}` and `{n/4}` use. Escapes are `\n`, `\t`, `\\` and `\xNN`.

use super::cpu::Logical;
use super::network::{Nic, NicKind};
use super::root::MOUNTS_CAP;
use super::smbios::{END, MEMORY_DEVICE};
use super::{CpuSet, DeviceLayer, DeviceLink, Disk, DiskKind, Machine, Medium, MountedFileSystem, Root};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An error of the fixture itself.
pub type Fault = Box<dyn std::error::Error>;

/// An unpacked saved machine, removed when dropped.
pub struct Fixture {
    /// Directory of the files.
    pub dir: TempDir,
    /// The directory as a root to read from.
    pub root: Root,
}

impl Fixture {
    /// Unpacks the saved machine `name`. Fails if the tree is missing or cannot be unpacked.
    pub fn open(name: &str) -> Result<Self, Fault> {
        Self::unpack(&fs::read_to_string(tree_file(name))?)
    }

    /// Unpacks the text of a tree. Fails at an invalid line, or if a file cannot be written.
    pub fn unpack(tree: &str) -> Result<Self, Fault> {
        // Hundreds of small files are slow on a disk under test, so memory is preferred.
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
        for entry in entries(tree)? {
            entry.write(dir.path())?;
        }
        let root = Root::at(dir.path());
        Ok(Self { dir, root })
    }

    /// Discovers the machine in the unpacked files.
    pub fn machine(&self) -> Machine {
        Machine::discover(&self.root)
    }

    /// Replaces the content of the file `path` below the directory, or creates it.
    pub fn write(&self, path: &str, content: &[u8]) -> Result<(), Fault> {
        assert!(content.len() as u64 <= 2 * MOUNTS_CAP);
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        Ok(fs::write(path, content)?)
    }
}

/// Returns a device of which no more than this is known.
pub fn disk(name: &str, kind: DiskKind, link: Option<DeviceLink>) -> Disk {
    Disk { name: name.to_owned(), kind, link, ..Disk::default() }
}

/// Returns a layer with this kernel name, such as `dm-0`, without detail and medium.
pub fn layer(name: &str, kind: DiskKind) -> DeviceLayer {
    DeviceLayer { name: name.to_owned(), kind, detail: None, medium: None }
}

/// Returns the lines of a tree with a virtual block device.
pub fn virtual_device(name: &str, number: &str) -> String {
    block_device(&format!("virtual/block/{name}"), number)
}

/// Returns the lines of a tree with the block device at this place below `sys/devices`.
pub fn block_device(place: &str, number: &str) -> String {
    let name = place.rsplit('/').next().unwrap_or_default();
    format!(
        "sys/dev/block/{number} -> ../../devices/{place}\n\
         sys/class/block/{name} -> ../../devices/{place}\n\
         sys/block/{name} -> ../devices/{place}\n\
         sys/devices/{place}/dev = {number}\n\
         sys/devices/{place}/holders/\n"
    )
}

/// Returns a file system of this type, mounted at `/mnt` from `/dev/x`.
pub fn mounted(fs_type: &str) -> MountedFileSystem {
    let medium = Medium::of(fs_type);
    let [fs_type, mount_point, source] = [fs_type, "/mnt", "/dev/x"].map(str::to_owned);
    MountedFileSystem { fs_type, mount_point, source, options: Vec::new(), medium }
}

/// Returns two cores with two hardware threads each: CPUs 0 and 2, 1 and 3.
pub fn two_cores() -> Vec<Logical> {
    let logical = |id: usize| {
        let siblings = [id % 2, id % 2 + 2].into_iter().collect();
        Logical { id, core: Some(id as u32 % 2), package: Some(0), siblings, online: true, capacity: None }
    };
    (0..4).map(logical).collect()
}

/// Returns the interface `eth0` of this kind with 10 Gbit/s and an MTU of 9000 bytes.
pub fn nic(kind: NicKind) -> Nic {
    let (name, state, driver) = ("eth0".to_owned(), None, None);
    let (speed_bit_per_s, mtu_bytes) = (Some(10_000_000_000), Some(9000));
    Nic { name, speed_bit_per_s, mtu_bytes, state, driver, kind, mac: None, numa_node: None, link: None }
}

/// Slot name, bank name, and (GiB, MT/s) of the module; `None` for an empty slot.
pub type Slot<'a> = (&'a str, &'a str, Option<(u16, u16)>);

/// Returns an SMBIOS table with these modules, as written by a server's firmware.
pub fn table(slots: &[Slot<'_>]) -> Vec<u8> {
    let mut table = vec![1, 4, 0, 0];
    table.extend(b"a system\0\0");
    for (slot, bank, module) in slots {
        let mut fields = vec![0_u8; 0x5c];
        fields[..4].copy_from_slice(&[MEMORY_DEVICE, 0x5c, 7, 0]);
        let (gib, speed) = module.unwrap_or((0, 0));
        fields[0x08..0x0a].copy_from_slice(&72_u16.to_le_bytes());
        fields[0x0a..0x0c].copy_from_slice(&64_u16.to_le_bytes());
        let word = if gib >= 32 { 0x7fff } else { gib << 10 };
        fields[0x0c..0x0e].copy_from_slice(&word.to_le_bytes());
        fields[0x1c..0x20].copy_from_slice(&(u32::from(gib) << 10).to_le_bytes());
        fields[0x10..0x12].copy_from_slice(&[1, 2]);
        fields[0x20..0x22].copy_from_slice(&speed.to_le_bytes());
        table.extend(fields);
        table.extend(format!("{slot}\0{bank}\0\0").bytes());
    }
    table.extend([END, 4, 0, 0, 0, 0]);
    table
}

/// Returns the path of the tree file of the saved machine `name`.
pub fn tree_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/machines").join(format!("{name}.tree"))
}

/// One file, link or directory of a tree.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Path below the root.
    pub path: String,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Line(Vec<u8>),
    Link(String),
    Directory,
}

/// Parses the text of a tree to entries, with repetitions expanded. Fails at an invalid line.
pub fn entries(tree: &str) -> Result<Vec<Entry>, Fault> {
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

fn numbered(line: &str, n: usize) -> Result<String, Fault> {
    let mut parts = line.split("{n");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (change, after) = part.split_once('}').ok_or("a { without }")?;
        let operand = || change.get(1..).unwrap_or_default().parse::<usize>();
        let value = match change.chars().next() {
            None => n,
            Some('+') => n + operand()?,
            Some('-') => n - operand()?,
            Some('%') => n % operand()?,
            Some('/') => n / operand()?,
            Some(_) => return Err(format!("what is {{n{change}}}?").into()),
        };
        out += &format!("{value}{after}");
    }
    Ok(out)
}

fn entry(line: &str) -> Result<Entry, Fault> {
    let (path, what) = if let Some((path, target)) = line.split_once(" -> ") {
        (path, What::Link(target.into()))
    } else if let Some((path, content)) = line.split_once(" =") {
        (path, What::Line(unescape(content.strip_prefix(' ').unwrap_or(content))?))
    } else {
        (line.strip_suffix('/').ok_or_else(|| format!("not a line of a tree: {line}"))?, What::Directory)
    };
    Ok(Entry { path: path.into(), what })
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
    /// Returns whether the entry is a line of a file.
    pub fn is_file(&self) -> bool {
        matches!(self.what, What::Line(_))
    }

    fn write(&self, root: &Path) -> Result<(), Fault> {
        let path = root.join(&self.path);
        fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        match &self.what {
            What::Directory => fs::create_dir_all(path)?,
            What::Link(target) => symlink(target, path)?,
            What::Line(line) => {
                let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
                file.write_all(&[line.as_slice(), b"\n"].concat())?;
            }
        }
        Ok(())
    }
}
