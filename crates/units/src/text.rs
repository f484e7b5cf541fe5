//! Sanitiser for text from outside (device names, /proc, programs, network): control characters
//! could retitle a terminal, bidirectional ones disguise a name. Both are shown as `\u{..}`.

pub mod path;

use std::fmt::Display;
use std::io::Read;
use std::path::Path;

/// Maximum length of the result of [`shown`], in characters.
pub const MAX_CHARACTERS: usize = 256;

/// Replaces control, bidirectional, separator and invisible characters with `\u{..}` and cuts the
/// result to [`MAX_CHARACTERS`] characters (a cut ends in `…`). Idempotent.
pub fn shown(text: &str) -> String {
    shown_within(text, MAX_CHARACTERS)
}

/// Formats a number with its noun, given as singular `one`: `1 case`, `2 cases`, `2 processes`.
pub fn format_count<N: Display + PartialEq + From<u8>>(n: N, one: &str) -> String {
    let end = match n == N::from(1) {
        true => "",
        false if one.ends_with('s') => "es",
        false => "s",
    };
    format!("{n} {one}{end}")
}

/// Joins at most `most` names, and counts the rest: `a, b and 3 more`.
pub fn and_more(names: &[impl AsRef<str>], most: usize) -> String {
    let named = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Line index of a text, to convert byte offsets to lines and columns.
#[derive(Debug)]
pub struct LinePositions<'t> {
    text: &'t str,
    begins: Vec<usize>,
    is_ascii: bool,
}

impl<'t> LinePositions<'t> {
    /// Indexes the line starts of `text`, so that [`Self::position`] is fast.
    pub fn new(text: &'t str) -> Self {
        let begins = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, begins, is_ascii: text.is_ascii() }
    }

    /// Returns (line, column) of a byte offset, both from 1, the column in characters. An offset
    /// past the end or within a character counts as the end.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let offset = if self.text.is_char_boundary(offset) { offset } else { self.text.len() };
        let line = self.begins.partition_point(|begin| *begin <= offset);
        let begin = line.checked_sub(1).and_then(|line| self.begins.get(line)).copied().unwrap_or_default();
        let column = match self.is_ascii {
            true => offset - begin,
            false => self.text.get(begin..offset).unwrap_or_default().chars().count(),
        };
        (line, column + 1)
    }
}

/// Quotes `word` as a POSIX shell needs it, if at all.
pub fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%=,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns the text of a file without byte order mark; fails with a reason if it is not a regular
/// file of UTF-8 with at most `most` bytes.
pub fn read_small(path: &Path, most: u64) -> Result<String, String> {
    // Checked before opening: opening a FIFO blocks until it has a writer.
    let about = std::fs::metadata(path).map_err(|e| e.to_string())?;
    if about.is_dir() {
        return Err("it is a directory: name its files".to_owned());
    }
    if !about.is_file() {
        return Err("not a regular file".to_owned());
    }
    read_small_file(std::fs::File::open(path).map_err(|e| e.to_string())?, most)
}

/// Returns the text of an open regular file of at most `most` bytes; fails like [`read_small`].
pub fn read_small_file(file: std::fs::File, most: u64) -> Result<String, String> {
    if !file.metadata().map_err(|e| e.to_string())?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("larger than {} MiB", most >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|e| format!("not UTF-8 ({e})"))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Sanitises bytes for display, like [`shown`]; invalid UTF-8 becomes U+FFFD.
pub fn shown_bytes(bytes: &[u8]) -> String {
    // A character has at most 4 bytes, so later bytes (but one, to detect the cut) do not matter.
    let head = bytes.get(..4 * (MAX_CHARACTERS + 1)).unwrap_or(bytes);
    shown(&String::from_utf8_lossy(head))
}

/// Sanitises a path for display, like [`shown_bytes`].
pub fn shown_path(path: &Path) -> String {
    shown_bytes(path.as_os_str().as_encoded_bytes())
}

/// Sanitises text for display, like [`shown`], and cuts it to `longest` characters.
pub fn shown_within(text: &str, longest: usize) -> String {
    let mut out = String::with_capacity(text.len().min(longest));
    let mut used = 0;
    let mut cut = 0;
    for c in text.chars() {
        let start = out.len();
        match is_unsafe(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
        used += out[start..].chars().count();
        if used > longest {
            out.truncate(cut);
            if longest > 0 {
                out.push('…');
            }
            return out;
        }
        if used < longest {
            cut = out.len();
        }
    }
    out
}

/// Sanitises text for display, like [`shown`], but keeps line ends and tabs and does not cut.
pub fn shown_whole(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) && !matches!(c, '\n' | '\t') { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Returns whether `c` is invisible or can change how the text around it is shown.
fn is_unsafe(c: char) -> bool {
    c.is_control() // C0, DEL, C1
        || matches!(c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // bidi
            | '\u{2028}' | '\u{2029}' // line and paragraph separators
            | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{00ad}' // invisible
            | '\u{e0000}'..='\u{e007f}') // tags
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn controls_are_named_and_plain_text_is_kept() {
        assert_eq!(shown("AMD EPYC 7543 · größe"), "AMD EPYC 7543 · größe");
        assert_eq!(shown("a\x1b[31mb\n\u{9b}\u{7f}"), "a\\u{1b}[31mb\\u{a}\\u{9b}\\u{7f}");
        assert_eq!(shown("safe\u{202e}gpj.exe"), "safe\\u{202e}gpj.exe");
        assert_eq!(shown_bytes(b"x\xff\0y"), "x\u{fffd}\\u{0}y");
        assert_eq!(shown_whole("a\t\u{202e}b\n\x1b"), "a\t\\u{202e}b\n\\u{1b}");
    }

    #[test]
    fn a_cut_is_shown_and_never_splits_an_escape() {
        let texts = [("abcdef", 6), ("abcdefg", 6), ("abc\x1bdef", 6), ("abc", 0), ("abc", 1)];
        let shown = texts.map(|(text, longest)| shown_within(text, longest));
        assert_eq!(shown, ["abcdef", "abcde…", "abc…", "", "…"]);
    }

    proptest! {
        #[test]
        fn output_holds_no_control_and_is_bounded(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let text = shown_bytes(&bytes);
            prop_assert!(!text.chars().any(is_unsafe));
            prop_assert!(text.chars().count() <= MAX_CHARACTERS);
        }

        #[test]
        fn nothing_changes_the_second_time(text in "\\PC{0,40}(\\p{Any}{0,300})", longest in 0usize..300) {
            let once = shown_within(&text, longest);
            prop_assert!(!once.chars().any(is_unsafe));
            prop_assert!(once.chars().count() <= longest);
            prop_assert_eq!(&shown_within(&once, longest), &once);
        }

        #[test]
        fn bytes_and_text_agree(text in "\\p{Any}{0,600}") {
            prop_assert_eq!(shown_bytes(text.as_bytes()), shown(&text));
        }
    }
}
