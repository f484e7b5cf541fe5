//! The run document as JSON: to a file that is replaced whole or not at all, or to a writer.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::document::Run;

/// Why the document cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {cause}; name another file")]
pub struct JsonError {
    /// The file.
    pub path: String,
    /// Why.
    pub cause: io::Error,
}

/// A file for the document, found fit to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As named, links resolved.
    path: PathBuf,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// A new file takes the old one's place.
    Replace,
    /// A pipe or device: replacing it would destroy it.
    Into,
}

impl Target {
    /// Checks, without changing anything, that `path` can be written; to be asked before anything is measured.
    ///
    /// # Errors
    /// Its directory is missing or read-only, or it is a directory.
    pub fn new(path: &Path) -> Result<Self, JsonError> {
        let failed = |cause: io::Error| JsonError { path: name(path), cause };
        if path.file_name().is_none() {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
            Ok(found) if !found.is_file() => {
                rustix::fs::access(path, Access::WRITE_OK).map_err(|e| failed(e.into()))?;
                Ok(Self { path: path.to_owned(), how: How::Into })
            }
            Ok(_) => {
                rustix::fs::access(path, Access::WRITE_OK).map_err(|e| failed(e.into()))?;
                Self::replacing(path.canonicalize().map_err(failed)?).map_err(failed)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
                Self::replacing(path.to_owned()).map_err(failed)
            }
            Err(e) => Err(failed(e)),
        }
    }

    fn replacing(path: PathBuf) -> io::Result<Self> {
        let directory = directory_of(&path);
        if !fs::metadata(directory)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)?;
        Ok(Self { path, how: How::Replace })
    }

    /// Writes the document. A file that was there before stays whole until the new one is complete and on disk.
    ///
    /// # Errors
    /// The disk is full, or anything else that the system says.
    pub fn write(&self, run: &Run) -> Result<(), JsonError> {
        self.fill(|file| write(run, file))
    }

    /// As [`Target::write`], for any text.
    ///
    /// # Errors
    /// As there.
    pub fn put(&self, text: &str) -> Result<(), JsonError> {
        self.fill(|mut file| file.write_all(text.as_bytes()))
    }

    fn fill(&self, fill: impl Fn(&File) -> io::Result<()>) -> Result<(), JsonError> {
        let written = match self.how {
            How::Replace => self.replace(fill),
            How::Into => OpenOptions::new().write(true).open(&self.path).and_then(|file| fill(&file)),
        };
        written.map_err(|cause| JsonError { path: name(&self.path), cause })
    }

    fn replace(&self, fill: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
        let directory = directory_of(&self.path);
        // The mode of an ordinary new file, less what the umask takes.
        let mode = fs::metadata(&self.path).map_or(0o666, |old| old.permissions().mode() & 0o777);
        let new = tempfile::Builder::new()
            .prefix(".plimsoll-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(directory)?;
        fill(new.as_file())?;
        new.as_file().sync_all()?;
        new.persist(&self.path).map_err(|e| e.error)?;
        File::open(directory)?.sync_all()
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn name(path: &Path) -> String {
    crate::text::shown_bytes(path.as_os_str().as_bytes())
}

/// Writes the document to `out`, indented, with a newline at its end.
///
/// # Errors
/// What `out` says.
pub fn write(run: &Run, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, run)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes the document into a new file of this directory, for its owner alone; its name, for people.
///
/// # Errors
/// The directory cannot be written, or has no room.
pub fn spool(run: &Run, directory: &Path) -> io::Result<String> {
    let id = crate::text::shown_within(&run.id, 40).replace('/', "");
    let file = directory.join(format!("plimsoll-{id}.json"));
    // Mode 0600; whole or not there.
    let mut made = tempfile::Builder::new().prefix(".plimsoll-").tempfile_in(directory)?;
    write(run, &mut made)?;
    // Where even this cannot be synced, a copy that a power cut may take is better than none.
    let _ = made.as_file().sync_all();
    crate::store::publish(made.into_temp_path(), &file)?;
    Ok(name(&file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::os::unix::fs::symlink;

    fn read(path: &Path) -> Run {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_document_replaces_the_old_one_and_leaves_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        Target::new(&path).unwrap().write(&fixture::run()).unwrap();
        assert_eq!(read(&path).id, fixture::ID);
        assert_eq!(names(directory.path()), ["run.json"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    /// The document, but for the machine, whose parts have tests of their own.
    #[test]
    fn the_document_reads_like_this() {
        let mut made = fixture::cpu("f64", 2, 117.4e9, 118.0e9);
        let latency = crate::quantity::Unit::Second;
        made.metrics.push(fixture::metric_of("latency", latency, vec![1e-6, 2e-6]));
        let made = made.distributed(1e-6);
        let mut text = Vec::new();
        write(&fixture::run_of(vec![made]), &mut text).unwrap();
        let mut document: serde_json::Value = serde_json::from_slice(&text).unwrap();
        document["machine"] = "…".into();
        document["nodes"][0]["machine"] = "…".into();
        for list in ["samples", "series"] {
            // Two of the ten tell the form.
            document["measurements"][0]["metrics"][0][list].as_array_mut().unwrap().truncate(2);
        }
        insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
    }

    #[test]
    fn checking_makes_no_file() {
        let directory = tempfile::tempdir().unwrap();
        Target::new(&directory.path().join("run.json")).unwrap();
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn a_failure_keeps_the_old_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.json");
        let target = Target::new(&path).unwrap();
        // A directory has taken the place since the check: the rename fails after all was written.
        fs::create_dir(&path).unwrap();
        fs::write(path.join("kept"), "old").unwrap();
        let error = target.write(&fixture::run()).unwrap_err();
        assert!(error.to_string().contains("run.json"), "{error}");
        assert_eq!(names(directory.path()), ["run.json"]);
        assert_eq!(fs::read(path.join("kept")).unwrap(), b"old");
    }

    #[test]
    fn a_full_disk_is_told() {
        let error = Target::new(Path::new("/dev/full")).unwrap().write(&fixture::run()).unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }

    #[test]
    fn devices_are_written_into_and_not_replaced() {
        let target = Target::new(Path::new("/dev/null")).unwrap();
        assert_eq!(target.how, How::Into);
        target.write(&fixture::run()).unwrap();
    }

    #[test]
    fn a_link_keeps_leading_to_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real.json"), directory.path().join("latest.json"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        Target::new(&link).unwrap().write(&fixture::run()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&real).id, fixture::ID);
    }

    #[test]
    fn what_cannot_be_written_is_told_before_the_run() {
        let directory = tempfile::tempdir().unwrap();
        symlink("nowhere", directory.path().join("dangling")).unwrap();
        let dangling = directory.path().join("dangling");
        for path in [
            Path::new("/nonexistent/run.json"),
            directory.path(),
            Path::new("/dev/null/x"),
            &dangling,
            Path::new(""),
        ] {
            let error = Target::new(path).unwrap_err().to_string();
            assert!(!error.contains('\n') && error.contains("name another"), "{error}");
        }
    }

    #[test]
    fn a_relative_name_is_taken_from_here() {
        assert_eq!(directory_of(Path::new("run.json")), Path::new("."));
        assert!(Target::new(Path::new("surely-not-there.json")).is_ok());
    }
}
