//! Reads files of results: bounded size, text only.

use std::io::Read;
use std::path::Path;

/// Maximum size of a file in bytes.
pub const MOST_BYTES: u64 = 64 << 20;

/// Returns the text of a file, or of `stdin` if the path is `-`; invalid UTF-8 is replaced. Fails
/// if it is not a regular file, too large, compressed, UTF-16 or binary.
pub fn contents(path: &Path, stdin: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    let stated = |e: std::io::Error| e.to_string();
    if path == Path::new("-") {
        stdin.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(stated)?;
    } else {
        if !std::fs::metadata(path).map_err(stated)?.is_file() {
            return Err("not a regular file".to_owned());
        }
        let file = std::fs::File::open(path).map_err(stated)?;
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(stated)?;
    }
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("larger than {} MiB", MOST_BYTES >> 20));
    }
    let wrong = match bytes.as_slice() {
        [0x1f, 0x8b, ..] => "compressed by gzip: unpack it with gunzip first",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            "its text is UTF-16, and must be UTF-8: iconv -f UTF-16 -t UTF-8 converts it"
        }
        bytes if bytes.contains(&0) => "not a text: it has NUL bytes",
        _ => "",
    };
    if !wrong.is_empty() {
        return Err(wrong.to_owned());
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_no_plain_text_is_named() {
        let why = |bytes: &[u8]| contents(Path::new("-"), bytes).unwrap_err();
        assert!(why(&[0x1f, 0x8b, 8, 0]).contains("gunzip"));
        assert!(why(&[0xff, 0xfe, b'{', 0]).contains("UTF-16"));
        assert!(why(&[0xfe, 0xff, 0, b'{']).contains("UTF-16"));
        assert!(why(b"{\0}").contains("NUL"));
        assert_eq!(contents(Path::new("-"), &b"{}"[..]).unwrap(), "{}");
    }
}
