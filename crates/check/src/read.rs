//! Reading a file of results: bounded, and only what is text.

use std::io::Read;
use std::path::Path;

/// Most bytes of one file.
pub const MOST_BYTES: u64 = 64 << 20;

/// The text of a file, or of `stdin` where the path is `-`. What is no UTF-8 is replaced.
///
/// # Errors
/// Why it cannot be read.
pub fn contents(path: &Path, stdin: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        stdin.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    } else {
        let about = std::fs::metadata(path).map_err(|e| e.to_string())?;
        if !about.is_file() {
            return Err("not a regular file".to_owned());
        }
        let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    }
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("larger than {} MiB", MOST_BYTES >> 20));
    }
    if bytes.contains(&0) {
        return Err("not a text: it has NUL bytes".to_owned());
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}
