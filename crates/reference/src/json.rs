//! Reads JSON as tools print it: several documents in a row, text around them, `nan`.

use std::ops::Range;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

/// Deepest nesting that is read. fio's and iperf3's documents have six levels.
const MAX_NESTING: usize = 32;
/// Most documents without an end in a text: each costs a search to the end of the text.
const MAX_BROKEN: usize = 64;

/// Parses all JSON objects of a text, each of which starts on its own line. Fails if it has none.
pub fn documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    texts(text)?.into_iter().map(document).collect()
}

pub(crate) fn texts(text: &str) -> Result<Vec<&str>, String> {
    let found = extents(text);
    if found.is_empty() {
        return Err("it is no JSON".to_owned());
    }
    let document = |range: Range<usize>| match extent(&text[range.clone()]) {
        ObjectExtent::TooDeep => Err(format!("its JSON is nested deeper than {MAX_NESTING}")),
        _ => Ok(&text[range]),
    };
    found.into_iter().map(document).collect()
}

/// Returns the byte ranges of the JSON objects in a text. An object without an end, or nested too
/// deep, ends at the next line that starts an object.
pub(crate) fn extents(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut broken = 0;
    let mut from = 0;
    while let Some(start) = start(text, from) {
        let end = match extent(&text[start..]) {
            ObjectExtent::Whole(length) => start + length,
            ObjectExtent::Open | ObjectExtent::TooDeep if broken < MAX_BROKEN => {
                broken += 1;
                text[start..].find("\n{").map_or(text.len(), |at| start + at + 1)
            }
            ObjectExtent::Open | ObjectExtent::TooDeep => text.len(),
        };
        found.push(start..end);
        from = end;
    }
    found
}

/// Parses one JSON object. Non-finite numbers, such as `-nan`, are passed to [`number`] as text. If
/// a key occurs twice (in output of some iperf3 servers), the last value counts.
pub(crate) fn document<T: DeserializeOwned>(document: &str) -> Result<T, String> {
    let read = with_last_of_duplicates(document).or_else(|e| {
        let quoted = quoted_numbers(document).ok_or(e)?;
        with_last_of_duplicates(&quoted)
    });
    read.map_err(|e| format!("its JSON cannot be read: {e}"))
}

fn with_last_of_duplicates<T: DeserializeOwned>(document: &str) -> serde_json::Result<T> {
    serde_json::from_str(document).or_else(|e| match e.to_string().starts_with("duplicate field") {
        true => serde_json::from_str(&serde_json::from_str::<serde_json::Value>(document)?.to_string()),
        false => Err(e),
    })
}

/// Returns the byte offset of the first JSON object at or after `from`; `None` without any. Only
/// array brackets and commas may precede it on its line.
fn start(text: &str, from: usize) -> Option<usize> {
    let mut end = from;
    text[from..].split_inclusive('\n').find_map(|line| {
        end += line.len();
        let brace = line.trim_start_matches([' ', '\t', '\u{feff}', '[', ']', ',']);
        brace.starts_with('{').then_some(end - brace.len())
    })
}

enum ObjectExtent {
    Whole(usize),
    Open,
    TooDeep,
}

/// Finds the end of the JSON object at the start of `text`.
fn extent(text: &str) -> ObjectExtent {
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
                    return ObjectExtent::Whole(at + 1);
                }
            }
            _ => {}
        }
        if depth > MAX_NESTING {
            return ObjectExtent::TooDeep;
        }
    }
    ObjectExtent::Open
}

/// Deserializes a number, or a non-finite one in quotes, such as `"nan"`; `None` for null.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Finite(f64),
        Word(String),
    }
    match Option::<Number>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Number::Finite(value)) => Ok(Some(value)),
        Some(Number::Word(word)) => word.parse().map(Some).map_err(D::Error::custom),
    }
}

/// Returns the JSON document with its non-finite numbers in quotes; `None` if it has none.
fn quoted_numbers(document: &str) -> Option<String> {
    let mut out = String::with_capacity(document.len());
    let (mut quoted, mut escaped, mut changed) = (false, false, false);
    let mut rest = document;
    while let Some(c) = rest.chars().next() {
        let is_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        if !quoted && is_token(c) {
            let length = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(length);
            let is_finite = word.parse::<f64>().map_or(true, f64::is_finite);
            out.push_str(&if is_finite { word.to_owned() } else { format!("\"{word}\"") });
            changed |= !is_finite;
            rest = after;
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
    changed.then_some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn notes_around_documents_are_passed_over() {
        let text = "fio: {odd} warning\n\n{\"a\": \"}{\\\"\"}{\"b\": [1]}\ndone {}\n";
        let found = documents::<Value>(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0]["a"], "}{\"");
    }

    #[test]
    fn what_is_no_number_is_kept() {
        #[derive(Deserialize)]
        struct Numbers {
            #[serde(deserialize_with = "number")]
            a: Option<f64>,
            #[serde(deserialize_with = "number")]
            nan: Option<f64>,
            #[serde(deserialize_with = "number")]
            c: Option<f64>,
            #[serde(default, deserialize_with = "number")]
            d: Option<f64>,
        }
        for (words, is_nan) in
            [("-nan", true), ("NaN", true), ("-inf", false), ("Infinity", false), ("1e999", false)]
        {
            let text = format!("{{\"a\": 1, \"nan\": {words}, \"c\": null, \"x\": \"inf\"}}");
            let Numbers { a, nan, c, d } = document(&text).unwrap();
            assert_eq!((a, c, d), (Some(1.0), None, None));
            assert!(nan.is_some_and(|value| value.is_nan() == is_nan && !value.is_finite()), "{words}");
        }
        assert!(document::<Numbers>("{\"a\": \"x\", \"nan\": 1, \"c\": 1}").is_err());
    }

    #[test]
    fn the_last_value_of_a_duplicate_key_counts() {
        #[derive(Deserialize)]
        struct Rate {
            rate: f64,
            #[serde(default, deserialize_with = "number")]
            loss: Option<f64>,
        }
        let Rate { rate, loss } = document("{\"rate\": 1, \"loss\": nan, \"rate\": 2}").unwrap();
        assert!((rate, loss.is_some_and(f64::is_nan)) == (2.0, true));
        assert!(document::<Rate>("{\"rate\": 1, \"rate\": \"x\"}").is_err());
    }

    #[test]
    fn what_is_too_deep_or_cut_is_refused() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(documents::<Value>(&deep).unwrap_err().contains("deeper than 32"));
        assert!(documents::<Value>("{\"a\": [1, 2").unwrap_err().contains("cannot be read"));
        assert!(documents::<Value>("nothing").unwrap_err().contains("no JSON"));
    }
}
