//! JSON as tools print it: with notes before and after it, several documents in a row, and numbers that are none.

use serde::de::DeserializeOwned;

/// Deepest nesting that is read. fio's and iperf3's documents have six.
const DEEPEST: usize = 32;

/// All documents in a text, each an object that begins on a line of its own.
///
/// # Errors
/// There is none, one is nested too deep, or cannot be read: with its line and column.
pub(crate) fn documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    texts(text)?.into_iter().map(document).collect()
}

/// The texts of all documents in a text.
///
/// # Errors
/// There is none, or one is nested too deep.
pub(crate) fn texts(text: &str) -> Result<Vec<&str>, String> {
    if text.trim_start().strip_prefix('[').is_some_and(|inner| inner.trim_start().starts_with('{')) {
        return Err("its JSON is an array: give each of its documents as a file of its own".to_owned());
    }
    let mut found = Vec::new();
    let mut rest = start(text).ok_or("its output is no JSON")?;
    loop {
        let length = extent(rest).map_err(|why| format!("its JSON {why}"))?;
        let (document, after) = rest.split_at(length);
        found.push(document);
        match start(after) {
            Some(next) => rest = next,
            None => return Ok(found),
        }
    }
}

/// Reads one document.
///
/// # Errors
/// It cannot be read: with line and column.
pub(crate) fn document<T: DeserializeOwned>(document: &str) -> Result<T, String> {
    let read = serde_json::from_str(document).or_else(|e| {
        let mended = numbers(document).ok_or(e)?;
        serde_json::from_str(&mended)
    });
    read.map_err(|e| format!("its JSON cannot be read: {e}"))
}

/// The text from the first object on: the brace is the first on its line.
fn start(text: &str) -> Option<&str> {
    let mut from = 0;
    for line in text.split_inclusive('\n') {
        let lead = line.len() - line.trim_start_matches([' ', '\t', '\u{feff}']).len();
        if line[lead..].starts_with('{') {
            return text.get(from + lead..);
        }
        from += line.len();
    }
    None
}

/// Bytes of the object that a text begins with; all of it where it does not end.
fn extent(text: &str) -> Result<usize, String> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            _ => {}
        }
        if depth > DEEPEST {
            return Err(format!("is nested deeper than {DEEPEST}"));
        }
    }
    Ok(text.len())
}

/// The document with `null` in place of `-nan`, `nan` and `inf`, which C's printf writes; `None` where it has none of them.
fn numbers(document: &str) -> Option<String> {
    let mut out = String::with_capacity(document.len());
    let (mut quoted, mut escaped, mut mended) = (false, false, false);
    let mut rest = document;
    while let Some(c) = rest.chars().next() {
        let word = ["-nan", "nan", "-inf", "inf"].into_iter().find(|word| !quoted && rest.starts_with(word));
        if let Some(word) = word {
            out.push_str("null");
            rest = &rest[word.len()..];
            mended = true;
            continue;
        }
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    mended.then_some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn notes_around_documents_are_passed_over() {
        let text = "fio: {odd} warning\n\n{\"a\": \"}{\\\"\"}\n{\"b\": [1]}\ndone {}\n";
        let found = documents::<Value>(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0]["a"], "}{\"");
    }

    #[test]
    fn what_is_no_number_is_none() {
        let found = documents::<Value>("{\"a\": -nan, \"nan\": inf, \"c\": 1}").unwrap();
        assert_eq!(found[0], serde_json::json!({"a": null, "nan": null, "c": 1}));
    }

    #[test]
    fn what_is_too_deep_or_cut_is_refused() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(documents::<Value>(&deep).unwrap_err().contains("deeper than 32"));
        assert!(documents::<Value>("{\"a\": [1, 2").unwrap_err().contains("cannot be read"));
        assert!(documents::<Value>("nothing").unwrap_err().contains("no JSON"));
    }
}
