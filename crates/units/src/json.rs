//! Parsing of JSON in bytes.

use serde::de::{DeserializeOwned, Error};

/// Parses the JSON text in `bytes`. Fails if it is not UTF-8 or not a `T`.
///
/// `serde_json::from_slice` would compile the reader of each type a second time.
pub fn parse_bytes<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    serde_json::from_str(std::str::from_utf8(bytes).map_err(Error::custom)?)
}
