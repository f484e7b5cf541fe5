//! Result files of other tools that the command wrote.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use plimsoll_reference::json;
use plimsoll_steady::{MarkedFile, ResultMarker};
use plimsoll_units::text::{read_small, shown_path};
use serde_json::Value;

/// Largest file in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Most files below a directory, and the deepest: `target/criterion/GROUP/NAME/VALUE/new`.
const MAX_FILES: usize = 100;
const MAX_DEPTH: usize = 4;

/// Marks disturbed samples in the last JSON document of file `path`, or of each `new/sample.json`
/// (criterion) below directory `path` since the command began. Failures are in [`MarkedFile::why`].
pub(super) fn mark(path: &Path, marker: &ResultMarker) -> Vec<MarkedFile> {
    let mut files = Vec::new();
    if let Err(why) = find(path, MAX_DEPTH, &mut files) {
        return vec![MarkedFile::unread(shown_path(path), &why)];
    }
    if path.is_dir() {
        files.retain(|(written, _)| marker.is_new(*written));
    }
    if files.is_empty() || files.len() > MAX_FILES {
        let why = format!("it has {} new/sample.json of this command, not 1 to {MAX_FILES}", files.len());
        return vec![MarkedFile::unread(shown_path(path), &why)];
    }
    // Benchmarks of criterion follow each other.
    files.sort_by(|(a, first), (b, second)| a.total_cmp(b).then(first.cmp(second)));
    let mut from = marker.time[0];
    let one = |(written, file): (f64, PathBuf)| {
        let written_between = [std::mem::replace(&mut from, written), written];
        let old = || "it is older than the command".to_owned();
        let read = read_small(&file, MAX_FILE_BYTES).and_then(|text| json::documents::<Value>(&text));
        match read.and_then(|all| marker.is_new(written).then_some(all).ok_or_else(old)) {
            Ok(all) => marker.mark(all.last().unwrap_or(&Value::Null), written_between, shown_path(&file)),
            Err(why) => MarkedFile::unread(shown_path(&file), &why),
        }
    };
    files.into_iter().map(one).collect()
}

/// Adds to `files` (modified in s since 1970, path): `path` itself, or, for a directory, each file
/// `new/sample.json` at most `depth` levels below. Fails if a directory cannot be read.
fn find(path: &Path, depth: usize, files: &mut Vec<(f64, PathBuf)>) -> Result<(), String> {
    if !path.is_dir() {
        let time = path.metadata().and_then(|about| about.modified()).unwrap_or(UNIX_EPOCH);
        let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        files.push((time.as_secs_f64(), path.to_owned()));
        return Ok(());
    }
    let wrong = |e: std::io::Error| format!("{}: {e}", shown_path(path));
    for entry in path.read_dir().map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        // A link to a directory may lead back.
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if depth > 0 && is_dir || entry.path().ends_with("new/sample.json") {
            find(&entry.path(), depth.saturating_sub(1), files)?;
        }
    }
    Ok(())
}
