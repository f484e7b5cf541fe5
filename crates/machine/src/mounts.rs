//! The mount table, `/proc/self/mountinfo` (proc_pid_mountinfo(5)), with paths as bytes.

use super::root::{MOUNTS_CAP, ReadError, Root};
use plimsoll_units::text::shown_bytes;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const MOUNTINFO: &str = "proc/self/mountinfo";
const MAX_MOUNTS: usize = 100_000;

/// A device number; as text and in JSON `254:0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceNumber {
    /// Driver; 0 for file systems without a block device.
    pub major: u32,
    /// Device of the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// Splits a `st_dev` or `st_rdev` into major and minor number.
    pub fn from_raw(dev: u64) -> Self {
        Self { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }
}

impl Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The text is not a device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a device number such as 8:1")]
pub struct NotADeviceNumber;

impl FromStr for DeviceNumber {
    type Err = NotADeviceNumber;
    fn from_str(text: &str) -> Result<Self, NotADeviceNumber> {
        let (major, minor) = text.trim().split_once(':').ok_or(NotADeviceNumber)?;
        let number = |digits: &str| digits.parse().map_err(|_| NotADeviceNumber);
        Ok(Self { major: number(major)?, minor: number(minor)? })
    }
}

impl TryFrom<String> for DeviceNumber {
    type Error = NotADeviceNumber;
    fn try_from(text: String) -> Result<Self, NotADeviceNumber> {
        text.parse()
    }
}

impl From<DeviceNumber> for String {
    fn from(number: DeviceNumber) -> Self {
        number.to_string()
    }
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Device number of the file system.
    pub device: DeviceNumber,
    /// Mounted directory of the file system.
    pub root: PathBuf,
    /// Mount point.
    pub point: PathBuf,
    /// Type: `ext4`, `xfs`, `tmpfs`, `cgroup2` …
    pub fs_type: String,
    /// Source: path of a device, or a name chosen by the file system.
    pub source: PathBuf,
    /// Mount options, then those of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Returns whether `option`, such as `noatime`, is set, with or without a value.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|o| o.split('=').next() == Some(option))
    }
}

/// Reads this process's mount table, in its order; lines that cannot be parsed are skipped.
pub fn read(root: &Root) -> Result<Vec<Mount>, ReadError> {
    root.bytes(Path::new(MOUNTINFO), MOUNTS_CAP).map(|table| parse(&table))
}

/// Mounts of one mount namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountTable {
    /// Process or thread in the namespace; `None` for this program's own.
    pub process: Option<u32>,
    /// Mounts in the order of the table.
    pub mounts: Vec<Mount>,
}

/// Mount tables of all namespaces, this program's own first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    /// One table per namespace.
    pub all: Vec<MountTable>,
    /// Number of processes whose namespace this user may not examine.
    pub unseen: usize,
}

/// Reads a mount table per mount namespace, this process's first; fails if that is unreadable.
pub fn read_all_namespaces(root: &Root) -> Result<Tables, ReadError> {
    let mut all = vec![MountTable { process: None, mounts: read(root)? }];
    let mut seen: HashSet<PathBuf> = root.link_text("proc/self/ns/mnt").into_iter().collect();
    let mut unseen = HashSet::new();
    let threads = |process| root.threads(process).into_iter().map(move |thread| (process, thread));
    for (process, thread) in root.processes().into_iter().flat_map(threads) {
        let of = |file: &str| format!("proc/{thread}/{file}");
        let namespace = root.link_text(of("ns/mnt"));
        if namespace.as_ref().is_ok_and(|namespace| seen.contains(namespace)) {
            continue;
        }
        let table = namespace.clone().and_then(|_| root.bytes(Path::new(&of("mountinfo")), MOUNTS_CAP));
        if matches!(table, Ok(_) | Err(ReadError::TooLong(..))) {
            seen.extend(namespace);
        }
        match table {
            Ok(bytes) => all.push(MountTable { process: Some(thread), mounts: parse(&bytes) }),
            Err(ReadError::TooLong(..) | ReadError::Denied(_)) => drop(unseen.insert(process)),
            Err(_) => {}
        }
    }
    Ok(Tables { all, unseen: unseen.len() })
}

fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|&b| b == b'\n').filter_map(parse_line).take(MAX_MOUNTS).collect()
}

/// Returns the mount that contains `path` (absolute, no links), the topmost if several are stacked.
pub fn mount_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().filter(|m| path.starts_with(&m.point)).max_by_key(|m| m.point.components().count())
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ').filter(|field| !field.is_empty());
    let device = std::str::from_utf8(fields.nth(2)?).ok()?.parse().ok()?;
    let (root, point, options) = (fields.next()?, fields.next()?, fields.next()?);
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (fs_type, source) = (fields.next()?, fields.next()?);
    let super_options = fields.next().unwrap_or_default();
    let each = |list: &[u8]| -> Vec<String> {
        list.split(|&b| b == b',').filter(|o| !o.is_empty()).map(|o| shown_bytes(&unescape(o))).collect()
    };
    let mut options = each(options);
    for option in each(super_options) {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    let (root, point, source, fs_type) = (path(root), path(point), path(source), shown_bytes(fs_type));
    Some(Mount { device, root, point, fs_type, source, options })
}

pub(super) fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&unescape(field)))
}

/// Decodes octal escapes, `\040` for a space; a backslash without three octal digits is kept.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|d| first == b'\\' && d.iter().all(|b| (b'0'..=b'7').contains(b)));
        let value = octal.map(|d| d.iter().fold(0_u32, |v, b| v * 8 + u32::from(b - b'0')));
        let byte = value.and_then(|v| u8::try_from(v).ok());
        let (byte, left) = byte.map_or((first, after), |byte| (byte, &after[3..]));
        out.push(byte);
        rest = left;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mounts(table: &str) -> Vec<Mount> {
        table.as_bytes().split(|&b| b == b'\n').filter_map(parse_line).collect()
    }

    #[test]
    fn a_line_is_taken_apart() {
        let line = r"36 35 98:0 /mnt\0401 /mnt\011tab rw,noatime master:1 shared:2 - ext4 /dev/root rw,errors=continue";
        let mount = &mounts(line)[0];
        assert_eq!(mount.device, DeviceNumber { major: 98, minor: 0 });
        assert_eq!(mount.root, Path::new("/mnt 1"));
        assert_eq!(mount.point, Path::new("/mnt\ttab"));
        assert_eq!((mount.fs_type.as_str(), mount.source.as_path()), ("ext4", Path::new("/dev/root")));
        assert_eq!(mount.options, ["rw", "noatime", "errors=continue"]);
        assert!(mount.has("errors") && !mount.has("err"));
    }

    #[test]
    fn the_longest_and_latest_mount_point_wins() {
        let table = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     2 1 8:2 / /home rw - xfs /dev/sda2 rw\n\
                     3 1 0:30 / /home rw - tmpfs none rw\n\
                     garbage\n\
                     4 1 8:3 / /home/a rw - xfs /dev/sda3 rw";
        let mounts = mounts(table);
        let fs = |path: &str| mount_of(&mounts, Path::new(path)).map(|m| m.source.display().to_string());
        assert_eq!(fs("/"), Some("/dev/sda1".into()));
        assert_eq!(fs("/homes/x"), Some("/dev/sda1".into()));
        assert_eq!(fs("/home/b"), Some("none".into()));
        assert_eq!(fs("/home/a/b"), Some("/dev/sda3".into()));
        assert_eq!(fs("relative"), None);
    }

    proptest! {
        #[test]
        fn escaped_bytes_come_back(bytes in prop::collection::vec(1u8..=255, 0..60)) {
            let mut escaped = Vec::new();
            for &b in &bytes {
                match b {
                    b' ' | b'\t' | b'\n' | b'\\' => escaped.extend(format!("\\{b:03o}").bytes()),
                    _ => escaped.push(b),
                }
            }
            prop_assert_eq!(unescape(&escaped), bytes);
        }

        #[test]
        fn any_line_is_a_mount_or_nothing(line in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Some(mount) = parse_line(&line) {
                prop_assert!(!mount.fs_type.contains(char::is_control));
            }
        }
    }
}
