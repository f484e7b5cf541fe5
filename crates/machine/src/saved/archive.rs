use super::super::tree::Tree;
use super::{MARKS_OF_A_MACHINE, SavedContent, SavedError};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use plimsoll_units::text::shown_path;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use tar::{EntryType, Header};

/// Largest unpacked archive in bytes: 4096 CPUs have some 60 files each of at least 1 KiB.
const MAX_BYTES: u64 = 256 << 20;
const MAX_ENTRIES: usize = 300_000;

pub(super) fn is_named(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

pub(super) fn write(to: &Path, content: &SavedContent) -> Result<(), SavedError> {
    let failed = |cause| SavedError::File(shown_path(to), cause);
    let file = match OpenOptions::new().write(true).create_new(true).open(to) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Err(SavedError::Exists(shown_path(to))),
        opened => opened.map_err(failed)?,
    };
    let pack = || {
        let mut tar = tar::Builder::new(GzEncoder::new(&file, Compression::default()));
        for (path, bytes) in &content.files {
            // Without user and time, so that equal machines give equal archives.
            let mut header = Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, bytes.as_slice())?;
        }
        for (path, target) in content.relative_links() {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            header.set_mode(0o777);
            tar.append_link(&mut header, path, target)?;
        }
        tar.into_inner()?.finish()?.flush()
    };
    pack().map_err(|cause| {
        let _ = fs::remove_file(to);
        failed(cause)
    })
}

/// Reads a `.tar.gz` into memory, without a sole directory at its top. Fails if it is too large, or
/// has anything but files, directories and links, a path twice, or a path that leads out.
pub(super) fn read(from: &Path) -> Result<Tree, SavedError> {
    let refused = |why: String| SavedError::Refused(shown_path(from), why);
    let no_archive = |e: io::Error| {
        refused(match e.kind() {
            ErrorKind::InvalidInput => format!("it is not a tar.gz that plimsoll machine --save wrote ({e})"),
            _ => format!("it is a damaged tar.gz, or unpacks to more than {} MiB ({e})", MAX_BYTES >> 20),
        })
    };
    let file = File::open(from).map_err(|cause| SavedError::File(shown_path(from), cause))?;
    // One byte more than allowed, so that truncation is noticed.
    let mut tar = tar::Archive::new(GzDecoder::new(file).take(MAX_BYTES + 1));
    let (mut tree, mut number) = (Tree::default(), 0);
    for entry in tar.entries().map_err(no_archive)? {
        let mut entry = entry.map_err(no_archive)?;
        let path = entry.path().map_err(no_archive)?.into_owned();
        let node = match entry.header().entry_type() {
            EntryType::Directory => Tree::default(),
            EntryType::Regular | EntryType::Continuous => {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).map_err(no_archive)?;
                Tree::File(bytes)
            }
            EntryType::Symlink => {
                Tree::Link(entry.link_name().map_err(no_archive)?.unwrap_or_default().into_owned())
            }
            EntryType::XGlobalHeader => continue,
            _ => return Err(refused(format!("{} is a hard link or a device", shown_path(&path)))),
        };
        let added = tree.insert(&path, node);
        number += added.map_err(|why| refused(format!("{} {why}", shown_path(&path))))?;
        if number > MAX_ENTRIES {
            return Err(refused(format!("it has more than {MAX_ENTRIES} files and directories")));
        }
    }
    if tar.into_inner().limit() == 0 {
        return Err(refused(format!("it is longer than {MAX_BYTES} bytes")));
    }
    let is_machine = MARKS_OF_A_MACHINE.iter().any(|name| tree.has(name));
    Ok(if is_machine { tree } else { tree.only_directory() })
}
