//! Serialisation of paths: a UTF-8 path becomes a string, any other a list of bytes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl WrittenPath {
    fn of(path: &Path) -> Self {
        let bytes = || Self::Bytes(path.as_os_str().as_bytes().to_vec());
        path.to_str().map_or_else(bytes, |text| Self::Text(text.to_owned()))
    }

    fn path(self) -> PathBuf {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

/// Serialises a path as a string, or as a list of bytes if it is not UTF-8.
pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    WrittenPath::of(path).serialize(to)
}

/// Deserialises a path from a string or a list of bytes; fails for any other value.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    WrittenPath::deserialize(from).map(WrittenPath::path)
}

/// Serialisation of optional paths.
pub mod option {
    use super::{Deserialize, Deserializer, PathBuf, Serialize, Serializer, WrittenPath};

    /// Serialises a path as a string or list of bytes, `None` as null.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(WrittenPath::of).serialize(to)
    }

    /// Deserialises a path from a string or list of bytes, `None` from null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<WrittenPath>::deserialize(from)?.map(WrittenPath::path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Two {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(default, with = "super::option")]
        other: Option<PathBuf>,
    }

    #[test]
    fn every_path_comes_back_and_text_stays_text() {
        let odd = PathBuf::from(OsString::from_vec(b"/a\xff\xfe/\"\n".to_vec()));
        for one in [PathBuf::from("/plain/größe"), odd, PathBuf::new()] {
            for other in [None, Some(one.clone())] {
                let two = Two { one: one.clone(), other };
                let text = serde_json::to_string(&two).unwrap();
                assert_eq!(serde_json::from_str::<Two>(&text).unwrap(), two, "{text}");
            }
        }
        let text = serde_json::to_string(&Two { one: "/x".into(), other: None }).unwrap();
        assert_eq!(text, r#"{"one":"/x","other":null}"#);
        assert_eq!(serde_json::from_str::<Two>(r#"{"one":"/x"}"#).unwrap().other, None);
    }
}
