use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use plimsoll_metal::backing::{self, Backing};

use super::thing::{FileId, FileOrDevice};
use crate::mounts::DeviceNumber;
use crate::root::{FILE_CAP, ReadError, Root};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Looped {
    pub(super) name: String,
    pub(super) backing: Option<FileOrDevice>,
    pub(super) path: PathBuf,
    pub(super) partial: bool,
}

pub(super) fn all(root: &Root) -> Result<Vec<Looped>, ReadError> {
    let names = root.names("sys/block")?;
    Ok(names.into_iter().filter(|name| name.starts_with("loop")).filter_map(|n| of(root, n)).collect())
}

fn of(root: &Root, name: String) -> Option<Looped> {
    let dir = Path::new("sys/block").join(&name).join("loop");
    let text = root.bytes(&dir.join("backing_file"), FILE_CAP).ok()?;
    let path = PathBuf::from(OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(&text)));
    if path.as_os_str().is_empty() {
        return None;
    }
    let answer = root.is_live().then(|| ask(root, &name)).flatten();
    let number = |file: &str| root.number(dir.join(file)).ok();
    let (backing, partial) = match answer {
        Some(known) => (Some(thing(&known)), known.offset != 0 || known.limit != 0),
        None => (by_path(root, &path), [number("offset"), number("sizelimit")] != [Some(0), Some(0)]),
    };
    Some(Looped { name, backing, path, partial })
}

fn ask(root: &Root, name: &str) -> Option<Backing> {
    let number = root.parse(Path::new("sys/block").join(name).join("dev"), "a device number").ok()?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(Path::new("/dev").join(name)).ok()?;
    let same = FileOrDevice::of_open(&file) == Some(FileOrDevice::Block(number));
    backing::read_backing(&file).ok().filter(|_| same)
}

fn thing(known: &Backing) -> FileOrDevice {
    match known.rdev {
        0 => FileOrDevice::File(FileId { system: DeviceNumber::from_raw(known.device), inode: known.inode }),
        number => FileOrDevice::Block(DeviceNumber::from_raw(number)),
    }
}

/// Returns what is at `path`; `None` if it ends in ` (deleted)`, as another file may be there now.
fn by_path(root: &Root, path: &Path) -> Option<FileOrDevice> {
    let deleted = path.as_os_str().as_bytes().ends_with(b" (deleted)");
    if deleted { None } else { FileOrDevice::at(root, path) }
}
